"""`Run`: one method on one stream with one seed, the unit that is executed, stored and resumed.

The arrays of an outcome are bit for bit the same for every execution; its costs are not.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import tracemalloc
from dataclasses import dataclass, field
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from mdvpf.experiments.data import Data
from mdvpf.experiments.methods import Entry, Filter, Method, plain
from mdvpf.filter import ParticleFilter, estimation_variance
from mdvpf.predictor import Predictor


@dataclass(frozen=True, slots=True)
class Seed:
    """A `numpy.random.SeedSequence` as numbers."""

    entropy: int
    spawn_key: tuple[int, ...] = ()

    @classmethod
    def of(cls, sequence: np.random.SeedSequence) -> Seed:
        """Return the numbers of a sequence."""
        if not isinstance(sequence.entropy, int):
            raise TypeError(f"entropy={sequence.entropy!r}: expected an int")
        return cls(sequence.entropy, tuple(int(key) for key in sequence.spawn_key))

    def sequence(self) -> np.random.SeedSequence:
        """Return the sequence."""
        return np.random.SeedSequence(self.entropy, spawn_key=self.spawn_key)


@dataclass(frozen=True, slots=True)
class Run:
    """One method on one stream with one seed.

    Attributes
    ----------
    group : str
        Name of the comparison that the run belongs to.
    entry : Entry
        The method, with its label.
    data : Data
        The stream.
    seed : Seed
        Seed of the method, not of the stream.
    block : int
        Log predictives are summed over blocks of this many symbols; 1 keeps all of them.
    variance_every : int
        Number of symbols between two measurements of the variance within the particles; 0 measures
        none.
    measure_memory : bool
        Whether to repeat the run to find its peak memory.
    """

    group: str
    entry: Entry
    data: Data
    seed: Seed
    block: int = 1
    variance_every: int = 0
    measure_memory: bool = False

    def configuration(self) -> dict[str, object]:
        """Return everything that the result depends on, in types that JSON has."""
        return {
            "group": self.group,
            "label": self.entry.label,
            "variant": self.entry.variant,
            "method": plain(self.entry.method),
            "stream": self.data.name,
            "stream_sha256": self.data.digest,
            "seed": plain(self.seed),
            "block": self.block,
            "variance_every": self.variance_every,
            "measure_memory": self.measure_memory,
        }

    def key(self, versions: dict[str, str]) -> str:
        """Return the name of the stored result: a hash of the configuration and versions."""
        text = json.dumps([self.configuration(), versions], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def predictor(self) -> Predictor:
        """Return a new predictor of the method."""
        method: Method = self.entry.method
        found: Predictor = method.predictor(self.data, self.seed.sequence())
        return found

    def pass_through(self, predictor: Predictor) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Run a predictor on the stream; return log predictives and numbers of states."""
        result = predictor.run(self.data.symbols, self.data.lengths)
        return result.log_predictive, result.mean_states

    def carry_out(self) -> Outcome:
        """Run a new predictor on the stream and return the outcome."""
        data = self.data
        predictor = self.predictor()
        start = time.process_time()
        log_predictive, n_states = self.pass_through(predictor)
        seconds = time.process_time() - start
        variance = np.empty(0)
        if self.variance_every and isinstance(self.entry.method, Filter):
            fresh = self.entry.method.predictor(data, self.seed.sequence())
            variance = _variances(fresh, data, self.variance_every)
        edges = np.arange(0, len(data), self.block)
        ends = np.minimum(edges + self.block, len(data)) - 1
        has_states = isinstance(predictor, ParticleFilter)
        return Outcome(
            log_predictive=np.add.reduceat(log_predictive, edges),
            n_states=n_states[ends] if has_states else np.full(len(ends), np.nan),
            variance=variance,
            seconds=seconds,
            peak_bytes=_peak_bytes(self) if self.measure_memory else float("nan"),
            changes=self.found_changes(predictor),
        )

    def found_changes(self, predictor: object) -> NDArray[np.int64]:
        """Return the change points that a predictor found: none, unless a subclass finds them."""
        return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """The result of a run.

    Attributes
    ----------
    log_predictive : ndarray
        Log predictive of each symbol, or sums over blocks of them.
    n_states : ndarray
        Mean number of states after each symbol or block; NaN for methods without states.
    variance : ndarray
        Measurements of the variance within the particles; empty if it was not measured.
    seconds : float
        Processor time.
    peak_bytes : float
        Peak memory; NaN if it was not measured.
    changes : ndarray of int64
        Indices of the change points that the method found; empty if none were looked for.
    """

    log_predictive: NDArray[np.float64]
    n_states: NDArray[np.float64]
    variance: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    seconds: float = float("nan")
    peak_bytes: float = float("nan")
    changes: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @property
    def total(self) -> float:
        """Log predictive of the whole stream."""
        return float(self.log_predictive.sum())


def execute(run: Run) -> Outcome:
    """Carry out a run in the current process: a function that executors can send to workers."""
    return run.carry_out()


def _variances(pf: ParticleFilter, data: Data, every: int) -> NDArray[np.float64]:
    """Run a filter on a stream; return the variance within its particles every `every` symbols."""
    lengths = np.array([len(data)]) if data.lengths is None else data.lengths
    starts = set((np.cumsum(lengths) - lengths).tolist())
    variances = []
    for i, symbol in enumerate(data.symbols.tolist()):
        if i in starts:
            pf.new_sequence()
        if i and i % every == 0:
            variances.append(estimation_variance(pf, symbol))
        pf.update(symbol)
    return np.array(variances)


def _peak_bytes(run: Run) -> float:
    """Repeat a run and return its peak memory: that of Python plus that of the core."""
    tracemalloc.start()
    try:
        predictor = run.predictor()
        predictor.run(run.data.symbols, run.data.lengths)
        peak = float(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()
    # tracemalloc does not see the memory of compiled parts, which never shrinks during a run.
    report = getattr(predictor, "memory", None)
    if report is not None:
        peak += report().allocated
    return peak


class Store:
    """Finished runs in a folder, one file each.

    Parameters
    ----------
    folder : Path
        The folder, which is created with the first run.
    versions : dict of str to str
        Versions of the software; results of other versions are not recalled.
    """

    def __init__(self, folder: Path, versions: dict[str, str]) -> None:
        self.folder = folder
        self.versions = versions

    def _file(self, run: Run) -> Path:
        return self.folder / f"{run.key(self.versions)}.npz"

    def recall(self, run: Run) -> Outcome | None:
        """Return the stored outcome of a run, or None."""
        try:
            with self._file(run).open("rb") as file, np.load(file) as arrays:
                return Outcome(
                    arrays["log_predictive"],
                    arrays["n_states"],
                    arrays["variance"],
                    float(arrays["seconds"]),
                    float(arrays["peak_bytes"]),
                    arrays["changes"],
                )
        except (OSError, ValueError, KeyError, EOFError, BadZipFile):
            return None  # missing or damaged: repeat the run

    def keep(self, run: Run, outcome: Outcome) -> None:
        """Write an outcome atomically."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self._file(run)
        unfinished = file.with_suffix(f".{os.getpid()}.tmp")
        with unfinished.open("wb") as stream:
            np.savez(
                stream,
                log_predictive=outcome.log_predictive,
                n_states=outcome.n_states,
                variance=outcome.variance,
                seconds=outcome.seconds,
                peak_bytes=outcome.peak_bytes,
                changes=outcome.changes,
            )
        unfinished.replace(file)
