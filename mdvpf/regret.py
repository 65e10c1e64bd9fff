"""What a predictor lost against others that were chosen in hindsight, in nats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def regret(log_predictive: ArrayLike, comparator: ArrayLike) -> NDArray[np.float64]:
    """Return the regret after each symbol: both arrays hold log predictives, one a symbol."""
    raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class BestSequence:
    """The best sequence of comparators with a limited number of switches, in hindsight."""

    choice: NDArray[np.int64]  # (N,): which comparator is followed at each symbol
    log_predictive: NDArray[np.float64]  # (N,): its log predictives
    prefixes: NDArray[np.float64]  # (N,): the best total for each prefix, by its own best sequence
    totals: NDArray[np.float64]  # (S + 1,): the best total with at most 0, 1, ..., S switches


def best_sequence(comparators: ArrayLike, n_switches: int) -> BestSequence:
    """Find the best sequence of comparators, given as rows (E, N), with at most S switches."""
    raise NotImplementedError


def shifting_regret(
    log_predictive: ArrayLike, comparators: ArrayLike, n_switches: int
) -> NDArray[np.float64]:
    """Return the regret after each n against the best sequence for these n symbols."""
    raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class Growth:
    """Regret as a power of the number of symbols."""

    exponent: float
    low: float
    high: float
    confidence: float
    checkpoints: NDArray[np.int64]  # numbers of symbols
    mean_regret: NDArray[np.float64]  # at the checkpoints


def growth_exponent(
    regrets: ArrayLike,
    checkpoints: ArrayLike | None = None,
    *,
    confidence: float = 0.95,
    n_resamples: int = 2000,
    rng: Any = 0,
) -> Growth:
    """Fit regret ~ N ** exponent to curves of cumulative regret, rows (seeds, N)."""
    raise NotImplementedError
