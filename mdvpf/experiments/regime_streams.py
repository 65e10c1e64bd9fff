"""Streams of numbers with changing regimes, and the predictions of their generator.

A regime is a normal or a Poisson distribution, and lasts `DURATION` observations on average. The
first half of a stream alternates between three regimes, the second half between one of these and
two new ones. The generator predicts by the exact forward filter: it knows the distributions, the
transition probabilities and the middle of the stream, but not the present regime.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mdvpf.experiments.data import Data
from mdvpf.predictor import FilterResult

Floats = NDArray[np.float64]

KINDS = ("Gaussian", "Poisson")
DURATION = 40.0
HALVES = ((0, 1, 2), (2, 3, 4))  # the regimes of each half
LEAST_RATE = 1e-3

_log_factorial = np.frompyfunc(lambda k: math.lgamma(k + 1.0), 1, 1)


@dataclass(frozen=True, slots=True)
class Regimes:
    """Distributions of one kind.

    Attributes
    ----------
    kind : str
        One of `KINDS`.
    first, second : tuple of float
        Means and standard deviations of normal distributions, or the rates of Poisson distributions
        in both.
    """

    kind: str
    first: tuple[float, ...]
    second: tuple[float, ...]

    def log_densities(self, values: Floats) -> Floats:
        """Return the log density of each value in each regime.

        Examples
        --------
        >>> import numpy as np
        >>> from mdvpf.experiments.regime_streams import Regimes
        >>> Regimes("Poisson", (1.0, 2.0), (1.0, 2.0)).log_densities(np.zeros(1)).tolist()
        [[-1.0, -2.0]]
        """
        x, first = values[:, np.newaxis], np.array(self.first)
        found: Floats
        if self.kind == "Poisson":
            rates = np.maximum(first, LEAST_RATE)
            found = x * np.log(rates) - rates - _log_factorial(x).astype(np.float64)
            return found
        second = np.array(self.second)
        found = -0.5 * ((x - first) / second) ** 2 - np.log(second * math.sqrt(2 * math.pi))
        return found

    def part(self, which: tuple[int, ...]) -> Regimes:
        """Return some of the regimes."""
        chosen = ([values[i] for i in which] for values in (self.first, self.second))
        return Regimes(self.kind, *map(tuple, chosen))


@dataclass(frozen=True, slots=True, eq=False)
class Numbers(Data):
    """A stream of numbers. `symbols` has the numbers, and `n_symbols` is 0.

    Attributes
    ----------
    regimes : Regimes
        The distributions.
    changes : tuple of int
        Index of the first observation of each regime, except the regime at 0.
    """

    regimes: Regimes = field(kw_only=True)
    changes: tuple[int, ...] = field(kw_only=True)


def stream(kind: str, n: int, i: int, seed: np.random.SeedSequence) -> Numbers:
    """Return a stream of `n` numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from mdvpf.experiments.regime_streams import stream
    >>> data = stream("Poisson", 200, 0, np.random.SeedSequence(1))
    >>> len(data), data.change_points
    (200, (100,))
    """
    rng = np.random.default_rng(seed)
    n_regimes = 1 + max(max(half) for half in HALVES)
    if kind == "Poisson":
        rates = np.exp(rng.uniform(math.log(0.5), math.log(50.0), n_regimes))
        regimes = Regimes(kind, tuple(rates.tolist()), tuple(rates.tolist()))
    else:
        means, deviations = (
            4.0 * rng.normal(size=n_regimes),
            np.exp(0.4 * rng.normal(size=n_regimes)),
        )
        regimes = Regimes(kind, tuple(means.tolist()), tuple(deviations.tolist()))
    states = np.empty(n, dtype=np.int64)
    middle = n // 2
    for half, part in zip(HALVES, (slice(0, middle), slice(middle, n)), strict=True):
        state = int(rng.choice(half))
        for t in range(part.start, part.stop):
            if t > part.start and rng.random() < 1.0 / DURATION:
                state = int(rng.choice([other for other in half if other != state]))
            states[t] = state
    first, second = np.array(regimes.first)[states], np.array(regimes.second)[states]
    if kind == "Poisson":
        values = rng.poisson(first).astype(np.float64)
    else:
        values = first + second * rng.normal(size=n)
    return Numbers(
        name=f"{kind}, stream {i}",
        symbols=values,
        n_symbols=0,
        change_points=(middle,),
        regimes=regimes,
        changes=tuple((1 + np.flatnonzero(np.diff(states))).tolist()),
    )


@dataclass(frozen=True, slots=True)
class ForwardFilter:
    """The exact forward filter of a known hidden Markov model over numbers.

    Attributes
    ----------
    regimes : Regimes
        The emission distributions of the states.
    start : ndarray, shape (states,)
        Probabilities of the first state.
    transition : ndarray, shape (states, states)
        Transition probabilities.
    """

    regimes: Regimes
    start: Floats
    transition: Floats

    def run(self, values: Floats) -> tuple[Floats, Floats]:
        """Return log predictives, and the distribution of the state after each observation.

        Examples
        --------
        >>> import numpy as np
        >>> from mdvpf.experiments.regime_streams import ForwardFilter, Regimes
        >>> one = ForwardFilter(Regimes("Poisson", (2.0,), (2.0,)), np.ones(1), np.ones((1, 1)))
        >>> one.run(np.zeros(2))[0].tolist()
        [-2.0, -2.0]
        """
        densities = self.regimes.log_densities(values)
        log_predictive, posteriors = np.empty(len(values)), np.empty(densities.shape)
        expected = self.start
        for t, row in enumerate(densities):
            largest = row.max()
            joint = expected * np.exp(row - largest)
            total = joint.sum()
            if total > 0.0:
                log_predictive[t] = largest + math.log(total)
                posteriors[t] = joint / total
            else:  # the densities of all possible regimes underflow
                with np.errstate(divide="ignore"):
                    logs = row + np.log(expected)
                best = int(logs.argmax())
                log_predictive[t] = logs[best]
                posteriors[t] = np.eye(len(row))[best]
            expected = posteriors[t] @ self.transition
        return log_predictive, posteriors


@dataclass(frozen=True, slots=True)
class Generator:
    """The generator of a stream, as a method of the experiment."""

    def predictor(self, data: Numbers, rng: np.random.SeedSequence) -> KnownRegimes:
        """Return the generator of a stream."""
        return KnownRegimes(data)


class KnownRegimes:
    """The forward filter with the true distributions of a stream."""

    def __init__(self, data: Numbers) -> None:
        self._data = data

    def run(self, symbols: Floats, lengths: None = None) -> FilterResult:
        """Return the log predictives of the stream."""
        (middle,) = self._data.change_points
        found = []
        for half, values in zip(HALVES, np.split(symbols, [middle]), strict=True):
            k = len(half)
            transition = np.full((k, k), 1.0 / DURATION / (k - 1))
            np.fill_diagonal(transition, 1.0 - 1.0 / DURATION)
            known = ForwardFilter(self._data.regimes.part(half), np.full(k, 1.0 / k), transition)
            found.append(known.run(values)[0])
        return predictions(np.concatenate(found))


def predictions(log_predictive: Floats) -> FilterResult:
    """Return a result that has log predictives only."""
    nothing = np.full(len(log_predictive), np.nan)
    return FilterResult(
        log_predictive,
        nothing,
        nothing,
        np.zeros(len(log_predictive), dtype=np.int64),
        nothing,
        float(log_predictive.sum()),
    )
