"""The distributions of one number of an observation in a built-in family.

The predictive of a state is Student's t for a real number, negative binomial for a count and
categorical for a symbol. A `Column` has one such distribution for each component of a mixture.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdvpf._support.extras import needed
from mdvpf.model import Channel
from mdvpf.model.number_families import CATEGORICAL, GAUSSIAN

Floats = NDArray[np.float64]

_lgamma = np.frompyfunc(math.lgamma, 1, 1)


def _log_gamma(x: Any) -> Floats:
    found: Floats = np.asarray(_lgamma(x), dtype=np.float64)
    return found


def _special() -> Any:
    with needed("the distribution function", "scipy", "numbers"):
        import scipy.special
    return scipy.special


class Column:
    """The distributions of one number of an observation, one for each component."""

    n_dims = 1

    def __init__(self, channel: Channel, statistics: Floats) -> None:
        self.channel = channel
        self.is_discrete = channel.kind != GAUSSIAN
        self.is_bounded = channel.kind == CATEGORICAL
        n = statistics[:, 0]
        if channel.kind == GAUSSIAN:
            m0, kappa0, a0, b0 = channel.parameters
            deviation = statistics[:, 1] - m0
            kappa, a = kappa0 + n, a0 + n / 2.0
            self.loc = m0 + deviation * (n / kappa)
            b = b0 + statistics[:, 2] / 2.0 + (kappa0 * n / kappa) * deviation**2 / 2.0
            self.df = 2.0 * a
            self.spread = 2.0 * b * ((kappa + 1.0) / kappa)  # df times the squared scale
            self.scale = np.sqrt(self.spread / self.df)
        elif channel.kind == CATEGORICAL:
            (beta,) = channel.parameters
            counts = statistics[:, 1:] + beta
            self.table = counts / (n + channel.n_symbols * beta)[:, np.newaxis]
        else:
            self.shape = channel.parameters[0] + statistics[:, 1]
            self.rate = channel.parameters[1] + n

    @classmethod
    def joined(cls, columns: Sequence[Column]) -> Column:
        """Concatenate the components of several columns of the same kind."""
        found = object.__new__(cls)
        for name, value in vars(columns[0]).items():
            if isinstance(value, np.ndarray):
                value = np.concatenate([vars(column)[name] for column in columns])
            setattr(found, name, value)
        return found

    def marginal(self, i: int) -> Column:
        """Return the distribution of one number: this one."""
        return self

    def logpdf(self, x: Floats) -> Floats:
        """Return log densities, shape (n, components); 0 where x is missing."""
        x = x[:, np.newaxis]
        with np.errstate(all="ignore"):
            if self.channel.kind == GAUSSIAN:
                half = self.df / 2.0
                constant = _log_gamma(half + 0.5) - _log_gamma(half)
                constant = constant - 0.5 * np.log(math.pi * self.spread)
                found = constant - (half + 0.5) * np.log1p((x - self.loc) ** 2 / self.spread)
            elif self.channel.kind == CATEGORICAL:
                found = np.log(self._at(x))
            else:
                is_count = (x >= 0.0) & (x == np.floor(x)) & np.isfinite(x)
                y = np.where(is_count, x, 0.0)
                found = _log_gamma(self.shape + y) - _log_gamma(self.shape) - _log_gamma(y + 1.0)
                found = found - self.shape * np.log1p(1.0 / self.rate) - y * np.log1p(self.rate)
                found = np.where(is_count, found, -np.inf)
        kept: Floats = np.where(np.isnan(x), 0.0, found)
        return kept

    def _at(self, x: Floats) -> Floats:
        """Return the probability of each symbol; 0 for a number that is not a symbol."""
        is_symbol = (x >= 0.0) & (x < self.channel.n_symbols) & (x == np.floor(x))
        index = np.where(is_symbol, x, 0.0).astype(np.int64)[:, 0]
        found: Floats = np.where(is_symbol, self.table[:, index].T, 0.0)
        return found

    def cdf(self, x: Floats) -> Floats:
        """Return distribution functions, shape (n, components)."""
        x = x[:, np.newaxis]
        found: Floats
        if self.channel.kind == GAUSSIAN:
            found = _special().stdtr(self.df, (x - self.loc) / self.scale)
        elif self.channel.kind == CATEGORICAL:
            sums = np.concatenate([np.zeros((len(self.table), 1)), self.table.cumsum(1)], axis=1)
            sums[:, -1] = 1.0
            ends = np.clip(np.floor(x) + 1.0, 0.0, self.channel.n_symbols)
            is_nan = np.isnan(x)
            index = np.where(is_nan, 0.0, ends).astype(np.int64)[:, 0]
            found = np.where(is_nan, np.nan, sums[:, index].T)
        else:
            below = _special().betainc(
                self.shape, np.floor(np.maximum(x, 0.0)) + 1.0, self.rate / (1.0 + self.rate)
            )
            found = np.where(x < 0.0, 0.0, below)
        return found

    def moments(self) -> tuple[Floats, Floats]:
        """Return the mean and the variance of each component."""
        if self.channel.kind == GAUSSIAN:
            with np.errstate(divide="ignore", invalid="ignore"):
                variance = np.where(self.df > 2.0, self.spread / (self.df - 2.0), np.inf)
            return np.where(self.df > 1.0, self.loc, np.nan), variance
        if self.channel.kind == CATEGORICAL:
            symbols = np.arange(self.channel.n_symbols)
            mean = self.table @ symbols
            return mean, self.table @ symbols**2 - mean**2
        mean = self.shape / self.rate
        return mean, mean * (1.0 + 1.0 / self.rate)

    def bracket(self, q: float) -> tuple[float, float]:
        """Return lower and upper bounds on the quantile of any mixture of the components."""
        if self.channel.kind == CATEGORICAL:
            return -1.0, self.channel.n_symbols - 1.0
        if self.channel.kind == GAUSSIAN:
            ends = _special().stdtrit(self.df, q) * self.scale + self.loc
            return float(ends.min()), float(ends.max())
        # By Cantelli's inequality. The quantiles of scipy.stats.nbinom are closer, but abort the
        # process if a state has counted more than about 2**53 events.
        mean, variance = self.moments()
        deviation = np.sqrt(variance)
        lowest = (mean - deviation * math.sqrt((1.0 - q) / q)).min()
        highest = (mean + deviation * math.sqrt(q / (1.0 - q))).max()
        return float(np.floor(max(lowest, 0.0))) - 1.0, float(np.ceil(highest)) + 1.0

    def draw(self, which: NDArray[np.int64], rng: np.random.Generator) -> Floats:
        """Draw one number from each of the given components."""
        found: Floats
        if self.channel.kind == GAUSSIAN:
            found = self.loc[which] + self.scale[which] * rng.standard_t(self.df[which])
        elif self.channel.kind == CATEGORICAL:
            sums = self.table[which].cumsum(axis=1)
            drawn = rng.random(len(which)) * sums[:, -1]
            found = (sums <= drawn[:, np.newaxis]).sum(axis=1).astype(np.float64)
        else:
            found = rng.poisson(rng.gamma(self.shape[which]) / self.rate[which]).astype(np.float64)
        return found
