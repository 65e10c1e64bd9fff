"""Reliable ratios of times on a noisy machine: contenders take turns, and the median is reported.

Contenders take turns over the windows of one stream, in the order A B B A and so on, so that a
temporary slowdown affects all of them. The result is the median over windows of the ratio in each
window. The clock is the processor time of the thread, which excludes other processes. With several
threads it is wall-clock time.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import mdvpf
from benchmarks.particles import n_candidates

Symbols = NDArray[np.int32]
Advance = Callable[[Symbols], NDArray[np.float64] | None]


@dataclass
class Contender:
    """A predictor that advances over symbols, with the number of its candidates."""

    advance: Advance
    candidates: Callable[[], int] | None = None  # of the next symbol; None: not counted

    @classmethod
    def of(cls, pf: mdvpf.ParticleFilter) -> Contender:
        return cls(lambda symbols: pf.run(symbols).log_predictive, lambda: n_candidates(pf))


@dataclass(frozen=True)
class Race:
    """Seconds and candidates of each contender in each window, and all log predictives."""

    seconds: dict[str, NDArray[np.float64]]
    candidates: dict[str, NDArray[np.float64]]
    log_predictive: dict[str, NDArray[np.float64]]

    def ratio(self, one: str, other: str, *, per_candidate: bool = False) -> float:
        """Return the time of one contender divided by that of the other, median over windows."""
        ratios = self.seconds[one] / self.seconds[other]
        if per_candidate:
            ratios *= self.candidates[other] / self.candidates[one]
        return float(np.median(ratios))

    def nanoseconds(self, name: str) -> float:
        """Return the nanoseconds a candidate, median over windows."""
        return float(np.median(1e9 * self.seconds[name] / self.candidates[name]))


def windows(symbols: Symbols, start: int, length: int, rounds: int) -> Iterator[Symbols]:
    """Yield consecutive windows of a stream."""
    if start + length * rounds > len(symbols):
        raise ValueError(f"symbols: expected at least {start + length * rounds}")
    for i in range(rounds):
        yield symbols[start + i * length : start + (i + 1) * length]


def race(
    contenders: Mapping[str, Contender],
    stretches: Iterator[Symbols],
    clock: Callable[[], float] = time.thread_time,
) -> Race:
    """Let the contenders take turns over the windows."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    counts: dict[str, list[float]] = {name: [] for name in contenders}
    log_predictive: dict[str, list[NDArray[np.float64]]] = {name: [] for name in contenders}
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        for i, stretch in enumerate(stretches):
            # The order is reversed in every other window.
            for name, contender in list(contenders.items())[:: -1 if i % 2 else 1]:
                before = contender.candidates() if contender.candidates else 0
                start = clock()
                found = contender.advance(stretch)
                times[name].append(clock() - start)
                after = contender.candidates() if contender.candidates else 0
                # The number changes slowly: use the mean of both ends of the window.
                counts[name].append(len(stretch) * (before + after) / 2)
                if found is not None:
                    log_predictive[name].append(found)
    finally:
        if was_enabled:
            gc.enable()
    return Race(
        {name: np.array(values) for name, values in times.items()},
        {name: np.array(values) for name, values in counts.items()},
        {name: np.concatenate(found) for name, found in log_predictive.items() if found},
    )
