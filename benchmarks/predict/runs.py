"""Runs of a method on the streams of a set, kept on disk: what was run is not run again.

A file has the log predictives of every setting and stream, the processor time, and of a mixture
the sums of its members' log predictives at some lengths. It is valid for the streams it was made
of, and that of the present `auto` for the sources of its package.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import mdvpf
from benchmarks.figures import RESULTS
from benchmarks.predict.methods import METHODS, PPMD, Make, Method, ppmd_bits
from benchmarks.predict.sets import MAX_KEYS, SETS, DataSet, Stream

FOLDER = RESULTS / "predict"
_OF_AUTO = ("mixture", "baselines", "learners")  # packages whose sources `auto` depends on most


@dataclass(frozen=True, eq=False)
class Run:
    """What a setting of a method did on one stream.

    Attributes
    ----------
    log_predictive : ndarray
        In nats; of a compressor one entry, the code length.
    n_symbols_seen : int
        Length of the stream.
    seconds : float
        Processor time.
    member_points, member_sums : ndarray
        After how many symbols, and then by member the sums of log predictives up to there.
    """

    log_predictive: NDArray[np.float64]
    n_symbols_seen: int
    seconds: float
    member_points: NDArray[np.int64]
    member_sums: NDArray[np.float64]

    @property
    def rate(self) -> float:
        """Mean log predictive of a symbol."""
        return math.fsum(self.log_predictive) / self.n_symbols_seen


@cache
def sources_digest() -> str:
    """Return a hash of the sources that the present `auto` is made of."""
    root = Path(mdvpf.__file__).parent
    found = hashlib.sha256()
    for package in _OF_AUTO:
        for path in sorted((root / package).rglob("*")):
            if path.suffix in (".py", ".pyx", ".pxd"):
                found.update(path.read_bytes())
    return found.hexdigest()[:16]


def run_stream(make: Make, stream: Stream) -> Run:
    """Run a new predictor over a stream."""
    predictor = make(stream.n_symbols)
    if stream.keys is not None:
        predictor.max_keys = MAX_KEYS
    scores, sums, points = [], [], []
    total: NDArray[np.float64] | None = None
    n, seconds = 0, 0.0
    for chunk in stream.chunks():
        start = time.process_time()
        result = predictor.run(**chunk)  # type: ignore[arg-type]
        seconds += time.process_time() - start
        scores.append(result.log_predictive)
        n += len(result)
        if isinstance(result, mdvpf.MixtureResult):
            more = result.member_log_predictive.sum(axis=0)
            total = more if total is None else total + more
            sums.append(total)
            points.append(n)
    return Run(
        np.concatenate(scores),
        n,
        seconds,
        np.array(points, np.int64),
        np.array(sums) if sums else np.empty((0, 0)),
    )


def _path(data: DataSet, split: str, label: str) -> Path:
    name = re.sub(r"[^A-Za-z0-9.]+", "-", label)
    return FOLDER / split / data.name / f"{name}.npz"


def kept(data: DataSet, split: str, label: str) -> dict[str, list[Run]] | None:
    """Return the kept runs by setting, one a stream; None if there are none, or of other data."""
    path = _path(data, split, label)
    if not path.exists():
        return None
    with np.load(path) as file:
        about = json.loads(str(file["about"]))
        if about["digests"] != [stream.digest for stream in streams_of(data.name, split)]:
            return None
        if label in METHODS and METHODS[label].is_auto and about["sources"] != sources_digest():
            return None
        found: dict[str, list[Run]] = {}
        for setting, numbers in about["settings"].items():
            found[setting] = [
                Run(
                    file[f"scores {i}"],
                    about["runs"][i]["n"],
                    about["runs"][i]["seconds"],
                    file[f"points {i}"],
                    file[f"sums {i}"],
                )
                for i in numbers
            ]
        return found


@cache
def streams_of(name: str, split: str) -> list[Stream]:
    return SETS[name].streams(split)


def carry_out(
    data: DataSet, split: str, label: str, *, fresh: bool = False
) -> dict[str, list[Run]] | None:
    """Return the runs of a method on a set, from disk if they are there; None if it has none."""
    found = None if fresh else kept(data, split, label)
    if found is not None:
        return found
    streams = streams_of(data.name, split)
    found = _compressed(streams) if label == PPMD else _run_all(METHODS[label], streams)
    if found is not None:
        _keep(data, split, label, found, [stream.digest for stream in streams])
    return found


def _run_all(method: Method, streams: list[Stream]) -> dict[str, list[Run]]:
    return {
        setting: [run_stream(make, stream) for stream in streams]
        for setting, make in method.makes.items()
    }


def _compressed(streams: list[Stream]) -> dict[str, list[Run]] | None:
    found: dict[str, list[Run]] = {}
    none = np.empty(0, np.int64), np.empty((0, 0))
    for stream in streams:
        content = stream.to_bytes()
        start = time.process_time()
        bits = None if content is None else ppmd_bits(content)
        if bits is None:
            return None
        seconds = (time.process_time() - start) / len(bits)
        for order, n in bits.items():
            length = np.array([-n * math.log(2.0)])
            run = Run(length, len(stream.symbols), seconds, *none)
            found.setdefault(f"order {order}", []).append(run)
    return found


def _keep(
    data: DataSet, split: str, label: str, found: dict[str, list[Run]], digests: list[str]
) -> None:
    arrays: dict[str, NDArray[np.float64] | NDArray[np.int64]] = {}
    runs: list[dict[str, float]] = []
    settings: dict[str, list[int]] = {}
    for setting, each in found.items():
        for run in each:
            i = len(runs)
            settings.setdefault(setting, []).append(i)
            runs.append({"n": run.n_symbols_seen, "seconds": run.seconds})
            arrays[f"scores {i}"] = run.log_predictive
            arrays[f"points {i}"] = run.member_points
            arrays[f"sums {i}"] = run.member_sums
    about = {"digests": digests, "sources": sources_digest(), "settings": settings, "runs": runs}
    path = _path(data, split, label)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, about=json.dumps(about), **arrays)
