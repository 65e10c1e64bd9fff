"""Times that stand comparison on a noisy machine: contenders take turns, and medians are taken.

Contenders run in lockstep over windows of one stream, A B B A and so on. Whatever slows the
machine for a while slows both, a ratio is taken window by window, and its median over the windows
is what is reported. The clock is that of the thread's own processor time: it stands still while
another process has the processor. Only where several threads work is it the clock on the wall.
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
    """Something that advances over symbols, and how many candidates it weighs in doing so."""

    advance: Advance
    candidates: Callable[[], int] | None = None  # of the next symbol; None: not counted

    @classmethod
    def of(cls, pf: mdvpf.ParticleFilter) -> Contender:
        return cls(lambda symbols: pf.run(symbols).log_predictive, lambda: n_candidates(pf))


@dataclass(frozen=True)
class Race:
    """Seconds and candidates of each contender in each window; log predictives of all windows."""

    seconds: dict[str, NDArray[np.float64]]
    candidates: dict[str, NDArray[np.float64]]
    log_predictive: dict[str, NDArray[np.float64]]

    def ratio(self, one: str, other: str, *, per_candidate: bool = False) -> float:
        """Return how many times as long one took as the other: the median over windows."""
        ratios = self.seconds[one] / self.seconds[other]
        if per_candidate:
            ratios *= self.candidates[other] / self.candidates[one]
        return float(np.median(ratios))

    def nanoseconds(self, name: str) -> float:
        """Return the time a candidate: the median over windows."""
        return float(np.median(1e9 * self.seconds[name] / self.candidates[name]))


def windows(symbols: Symbols, start: int, length: int, rounds: int) -> Iterator[Symbols]:
    """Yield consecutive stretches of a stream."""
    if start + length * rounds > len(symbols):
        raise ValueError(f"symbols: expected at least {start + length * rounds}")
    for i in range(rounds):
        yield symbols[start + i * length : start + (i + 1) * length]


def race(
    contenders: Mapping[str, Contender],
    stretches: Iterator[Symbols],
    clock: Callable[[], float] = time.thread_time,
) -> Race:
    """Let the contenders take turns over the stretches."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    counts: dict[str, list[float]] = {name: [] for name in contenders}
    log_predictive: dict[str, list[NDArray[np.float64]]] = {name: [] for name in contenders}
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        for i, stretch in enumerate(stretches):
            # Whoever comes first in one window comes last in the next.
            for name, contender in list(contenders.items())[:: -1 if i % 2 else 1]:
                before = contender.candidates() if contender.candidates else 0
                start = clock()
                found = contender.advance(stretch)
                times[name].append(clock() - start)
                after = contender.candidates() if contender.candidates else 0
                # The number drifts slowly, so the ends of a short stretch tell what lies between.
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
