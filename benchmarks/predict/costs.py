"""What prediction costs: time in units of VPA with K = 1,000, and memory of a stream without end.

Times are of characters (V = 27). Methods take turns over the same windows of text, and the ratio is
the median over windows. Memory is measured in a process of its own, over a uniform random stream
with V = 1,000, the hardest case for anything that grows with what it has not seen before.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import mdvpf
from benchmarks.common import N_SYMBOLS, load_text
from benchmarks.memory import CHUNK, MB, resident
from benchmarks.predict.methods import METHODS, N_PARTICLES
from benchmarks.predict.runs import FOLDER
from benchmarks.timing import Contender, race, windows

UNIT = f"VPA, K = {N_PARTICLES:,}"
WARM_UP = 2000
WINDOW = 100
ROUNDS = 20
MEMORY_SYMBOLS = 1000  # size of the alphabet of the memory run
_SIZES = ("resident", "allocated", "checkpoint")


def kept(part: str) -> dict[str, Any]:
    """Return what was measured last of "time" or "memory", by method."""
    path = FOLDER / f"{part}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _keep(part: str, found: dict[str, Any]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    text = json.dumps(kept(part) | found, indent=1)
    (FOLDER / f"{part}.json").write_text(text, encoding="utf-8")


def _contender(predictor: mdvpf.Predictor) -> Contender:
    return Contender(lambda symbols: predictor.run(symbols).log_predictive)


def times(labels: Sequence[str]) -> str:
    """Return the time of a symbol by `run`, after 2,000 characters of text."""
    text = load_text(WARM_UP + WINDOW * ROUNDS)
    unit = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(N_SYMBOLS), mdvpf.VPA(), N_PARTICLES)
    contenders = {UNIT: _contender(unit)}
    for label in labels:
        makes = METHODS[label].makes
        make = makes.get("5, 0.8") or next(iter(makes.values()))  # the default tree of a grid
        contenders[label] = _contender(make(N_SYMBOLS))
    for contender in contenders.values():
        contender.advance(text[:WARM_UP])
    found = race(contenders, windows(text, WARM_UP, WINDOW, ROUNDS))
    lines = [f"| a character, in units of {UNIT} | ratio | microseconds |", "|---|---|---|"]
    ratios = {}
    for label in contenders:
        ratios[label] = found.ratio(label, UNIT)
        microseconds = 1e6 * float(np.median(found.seconds[label])) / WINDOW
        lines.append(f"| {label} | {ratios[label]:.3f} | {microseconds:.1f} |")
    _keep("time", ratios)
    return "\n".join(lines)


def _measure(label: str, n: int, V: int) -> list[dict[str, float]]:
    """Return bytes after every tenth of a stream: of the process, by `memory`, of a checkpoint."""
    (make,) = METHODS[label].makes.values()
    rng = np.random.default_rng(0)
    before = resident()
    predictor = make(V)
    found = []
    points = {n // 100, n // 10, *(n * i // 10 for i in range(1, 11))}
    done = 0
    for point in sorted(points):
        while done < point:
            size = min(CHUNK, point - done)
            predictor.run(rng.integers(V, size=size))
            done += size
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "checkpoint"
            predictor.save(path)
            checkpoint = path.stat().st_size
        report = getattr(predictor, "memory", None)
        allocated = float("nan") if report is None else report().allocated
        found.append(
            {
                "symbols": point,
                "resident": resident() - before,
                "allocated": allocated,
                "checkpoint": checkpoint,
            }
        )
        sizes = ", ".join(f"{name} {found[-1][name] / MB:.1f}" for name in _SIZES)
        print(f"{label}, {point:,} symbols, MB: {sizes}", file=sys.stderr, flush=True)
    return found


def memory(labels: Sequence[str], n: int, V: int = MEMORY_SYMBOLS) -> str:
    """Return the table of memory as a stream goes on."""
    lines = [
        f"| uniform stream, V = {V:,}, MB | symbols | process grew by | `memory()` | checkpoint |",
        "|---|---|---|---|---|",
    ]
    context = multiprocessing.get_context("spawn")
    for label in labels:
        with context.Pool(1) as pool:
            found = pool.apply(_measure, (label, n, V))
            _keep("memory", {label: found})
            for row in found:
                cells = " | ".join(f"{row[name] / MB:.1f}" for name in _SIZES)
                lines.append(f"| {label} | {row['symbols']:,.0f} | {cells} |")
    return "\n".join(lines)
