"""Regret of a predictor against comparators chosen in hindsight, in nats.

The loss of a symbol is minus its log predictive. Regret against one comparator is a difference of
cumulative losses. Shifting regret compares with the best sequence of comparators that switches at
most S times; dynamic programming finds it. An exponent summarises how regret grows with the number
N of symbols: 0 for bounded regret, 1/2 for the order sqrt(N) that theory promises for mirror
descent, 1 for a predictor that never catches up.
"""

from __future__ import annotations

import math
import reprlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdvpf._support import validate
from mdvpf._support.extras import needed

__all__ = [
    "regret",
    "BestSequence",
    "best_sequence",
    "shifting_regret",
    "Growth",
    "growth_exponent",
]


def regret(log_predictive: ArrayLike, comparator: ArrayLike) -> NDArray[np.float64]:
    """Return the cumulative regret after each symbol.

    The regret is NaN as soon as both have given probability zero to some symbol.

    Parameters
    ----------
    log_predictive : array_like
        Log predictives of a run. The last axis is time; leading axes, such as seeds, are allowed.
    comparator : array_like
        Log predictives of the comparator on the same symbols.

    Examples
    --------
    >>> import numpy as np
    >>> from mdvpf.regret import regret
    >>> regret(np.log([0.5, 0.5]), np.log([0.5, 1.0])).round(3).tolist()
    [0.0, 0.693]
    """
    own = _log_predictives("log_predictive", log_predictive)
    other = _log_predictives("comparator", comparator)
    if own.shape != other.shape:
        raise ValueError(
            f"comparator of shape {other.shape}: expected {own.shape}, the shape of log_predictive"
        )
    return _difference(other.cumsum(axis=-1), own.cumsum(axis=-1))


def _difference(best: NDArray[np.float64], own: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return best - own; NaN where both losses are infinite."""
    with np.errstate(invalid="ignore"):
        return best - own


@dataclass(frozen=True, slots=True, eq=False)
class BestSequence:
    """The best sequence of comparators with at most S switches, found in hindsight.

    Attributes
    ----------
    choice : ndarray of int64, shape (N,)
        The comparator chosen at each symbol.
    log_predictive : ndarray, shape (N,)
        The log predictives of the chosen comparators.
    prefixes : ndarray, shape (N,)
        For n = 1, 2, ..., N: the largest log predictive of the first n symbols that any sequence
        with at most S switches reaches.
    totals : ndarray, shape (S + 1,)
        The largest log predictive of all symbols with at most 0, 1, ..., S switches.

    Examples
    --------
    >>> import numpy as np
    >>> from mdvpf.regret import best_sequence
    >>> best = best_sequence(np.log([[0.9, 0.9, 0.1, 0.1], [0.5, 0.5, 0.5, 0.5]]), n_switches=1)
    >>> best.choice.tolist()
    [0, 0, 1, 1]
    """

    choice: NDArray[np.int64]
    log_predictive: NDArray[np.float64]
    prefixes: NDArray[np.float64]
    totals: NDArray[np.float64]


def best_sequence(comparators: ArrayLike, n_switches: int) -> BestSequence:
    """Find the best sequence of comparators with at most `n_switches` switches.

    Takes time proportional to N (S + 1) E, and about N (S + 1) (E / 8 + 2) bytes of memory. If
    several sequences are equally good, one of them is returned.

    Parameters
    ----------
    comparators : array_like of shape (E, N)
        Log predictives of E comparators on N symbols.
    n_switches : int
        S, the largest number of switches.

    Examples
    --------
    >>> import numpy as np
    >>> from mdvpf.regret import best_sequence
    >>> log_predictives = np.log([[0.9, 0.9, 0.1, 0.1], [0.5, 0.5, 0.5, 0.5]])
    >>> np.exp(best_sequence(log_predictives, n_switches=1).totals).round(4).tolist()
    [0.0625, 0.2025]
    """
    gains = _log_predictives("comparators", comparators)
    if gains.ndim != 2:
        raise ValueError(f"comparators of shape {gains.shape}: expected (comparators, symbols)")
    limit = validate.integer("n_switches", n_switches, low=0)
    n_experts, n = gains.shape
    s = min(limit, n - 1)  # n symbols leave room for n - 1 switches
    best = np.tile(gains[:, 0], (s + 1, 1))  # [switches allowed, last comparator]
    leaders = np.zeros((n, s + 1), dtype=np.min_scalar_type(n_experts - 1))
    switched = np.zeros((n, s + 1, (n_experts + 7) // 8), dtype=np.uint8)
    prefixes = np.empty(n)
    prefixes[0] = best[s].max()
    for i in range(1, n):
        leaders[i] = best.argmax(axis=1)
        moved = best[:-1].max(axis=1, keepdims=True)
        better = moved > best[1:]
        switched[i, 1:] = np.packbits(better, axis=1)
        best[1:] = np.where(better, moved, best[1:])
        best += gains[:, i]
        prefixes[i] = best[s].max()
    totals = best.max(axis=1)
    choice = _trace(leaders, switched, s, int(best[s].argmax()))
    return BestSequence(
        choice=choice,
        log_predictive=gains[choice, np.arange(n)],
        prefixes=prefixes,
        totals=np.pad(totals, (0, limit - s), mode="edge"),
    )


def _trace(
    leaders: NDArray[Any], switched: NDArray[np.uint8], s: int, expert: int
) -> NDArray[np.int64]:
    """Trace the best sequence back from its last comparator."""
    choice = np.empty(len(leaders), dtype=np.int64)
    for i in range(len(leaders) - 1, -1, -1):
        choice[i] = expert
        if switched[i, s, expert // 8] >> (7 - expert % 8) & 1:
            s -= 1
            expert = int(leaders[i, s])
    return choice


def shifting_regret(
    log_predictive: ArrayLike, comparators: ArrayLike, n_switches: int
) -> NDArray[np.float64]:
    """Return the regret after each symbol against the best sequence for the symbols so far.

    Parameters
    ----------
    log_predictive : array_like of shape (..., N)
        Log predictives of a run, or of several runs on the same symbols.
    comparators : array_like of shape (E, N)
        Log predictives of E comparators on the same symbols.
    n_switches : int
        The largest number of switches of a sequence.

    Examples
    --------
    >>> import numpy as np
    >>> from mdvpf.regret import shifting_regret
    >>> comparators = np.log([[0.9, 0.9, 0.1, 0.1], [0.5, 0.5, 0.5, 0.5]])
    >>> shifting_regret(np.log([0.5, 0.5, 0.5, 0.5]), comparators, n_switches=1).round(3).tolist()
    [0.588, 1.176, 1.176, 1.176]
    """
    own = _log_predictives("log_predictive", log_predictive)
    others = _log_predictives("comparators", comparators)
    if others.ndim != 2 or others.shape[1] != own.shape[-1]:
        raise ValueError(
            f"log_predictive of shape {own.shape} and comparators of shape {others.shape}: "
            "expected (..., symbols) and (comparators, symbols)"
        )
    return _difference(best_sequence(others, n_switches).prefixes, own.cumsum(axis=-1))


@dataclass(frozen=True, slots=True, eq=False)
class Growth:
    """Regret as a power of the number of symbols: ``regret ~ N ** exponent``.

    Attributes
    ----------
    exponent : float
        The slope of log mean regret over log N.
    low, high : float
        Ends of the confidence interval of the exponent.
    confidence : float
        Coverage probability of the interval.
    checkpoints : ndarray of int64
        The numbers of symbols used in the fit.
    mean_regret : ndarray
        The mean regret at each checkpoint.

    Examples
    --------
    >>> import numpy as np
    >>> from mdvpf.regret import growth_exponent
    >>> growth = growth_exponent([np.sqrt(np.arange(1, 1001)) * c for c in (1, 2, 3)])
    >>> round(growth.exponent, 6)
    0.5
    """

    exponent: float
    low: float
    high: float
    confidence: float
    checkpoints: NDArray[np.int64]
    mean_regret: NDArray[np.float64]


def growth_exponent(
    regrets: ArrayLike, checkpoints: ArrayLike | None = None, *, confidence: float = 0.95
) -> Growth:
    """Fit a power of the number of symbols to the regret of several independent runs.

    Fits a line to the log of the mean regret against log N. Points of one run are dependent, so
    the interval does not use the scatter around the line: it comes from the jackknife over runs,
    with quantiles of Student's t. The runs must differ in their data, because repetitions on the
    same data carry no information about other data.

    The exponent describes the range of N between the checkpoints only. Regret such as
    ``a + b * sqrt(N)`` or ``log(N)`` is not a power, and its exponent depends on that range:
    compare early and late `checkpoints` before you read it as a rate. The interval covers
    differences between runs, not this effect. A mean regret that is not positive raises a
    ValueError; if it becomes so when one run is left out, the interval is infinite.

    Parameters
    ----------
    regrets : array_like of shape (runs, N)
        Regret after each symbol, as `regret` and `shifting_regret` return it; two runs or more.
    checkpoints : array_like of int, optional
        The numbers of symbols at which the curve is read, two or more. The default is nine between
        N / 100 and N, at equal ratios.
    confidence : float, default 0.95
        Coverage probability of the interval.

    Examples
    --------
    >>> import numpy as np
    >>> from mdvpf.regret import growth_exponent
    >>> rng = np.random.default_rng(0)
    >>> regrets = np.cumsum(rng.exponential(size=(20, 2000)), axis=1)
    >>> growth = growth_exponent(regrets)
    >>> growth.low < 1 < growth.high
    True
    """
    curves = _numbers("regrets", regrets, "an array of regrets, one row a run")
    if curves.ndim != 2 or len(curves) < 2 or curves.shape[1] < 2:
        raise ValueError(f"regrets of shape {curves.shape}: expected two runs or more, as rows")
    confidence = validate.real("confidence", confidence, low=1e-6, high=1 - 1e-6)
    points = _read_checkpoints(checkpoints, curves.shape[1])
    values = curves[:, points - 1]
    if not np.all(np.isfinite(values)):
        raise ValueError("regrets with entries that are not finite: expected finite regret")
    mean = values.mean(axis=0)
    if mean.min() <= 0:
        raise ValueError(
            f"regrets with mean {mean.min():g} at a checkpoint: expected positive means, because "
            "the fit takes their logs; choose later checkpoints, or another comparator"
        )
    x = np.log(points) - np.log(points).mean()
    weights = x / (x @ x)
    exponent = float(np.log(mean) @ weights)
    n = len(values)
    others = (values.sum(axis=0) - values) / (n - 1)  # row i: the mean without run i
    width = math.inf
    if others.min() > 0:
        slopes = np.log(others) @ weights
        error = math.sqrt((n - 1) / n * ((slopes - slopes.mean()) ** 2).sum())
        width = error * _student_quantile(confidence, n - 1)
    return Growth(exponent, exponent - width, exponent + width, confidence, points, mean)


def _read_checkpoints(checkpoints: ArrayLike | None, n: int) -> NDArray[np.int64]:
    if checkpoints is None:
        return np.unique(np.geomspace(max(n / 100, 1), n, 9).round().astype(np.int64))
    points = np.unique(validate.integers("checkpoints", checkpoints, low=1, high=n))
    if len(points) < 2:
        raise ValueError(f"checkpoints={points.tolist()}: expected two or more different numbers")
    return points


def _student_quantile(confidence: float, n: int) -> float:
    """Return t with P(|T| < t) = confidence, where T has Student's t with n degrees of freedom."""
    with needed("growth_exponent", "scipy", "experiments"):
        from scipy.special import stdtrit
    return float(stdtrit(n, (1 + confidence) / 2))


def _log_predictives(name: str, values: Any) -> NDArray[np.float64]:
    expected = "an array of log predictives, finite or -inf"
    array = _numbers(name, values, expected)
    if array.ndim == 0 or array.size == 0:
        raise ValueError(f"{name} of shape {array.shape}: expected {expected}")
    if np.isnan(array).any() or (array == np.inf).any():
        raise ValueError(f"{name} with entries that are NaN or +inf: expected {expected}")
    return array


def _numbers(name: str, values: Any, expected: str) -> NDArray[np.float64]:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name}={reprlib.repr(values)}: expected {expected}") from None
