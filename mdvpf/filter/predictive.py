"""The predictive distribution of a filter over numbers: a mixture, with SciPy's conventions.

A component of the mixture is a row of statistics that a state of one or more particles holds. Its
weight is the probability that the next observation comes from such a state. Given the component,
each number of an observation is Student's t, negative binomial or categorical.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdvpf._support import validate
from mdvpf._support.extras import needed
from mdvpf.filter.compiled_column import CompiledColumn
from mdvpf.filter.open_parts import parts_of
from mdvpf.model import Channel, CompiledEmission, NumberFamily, channels_of
from mdvpf.model.number_families import CATEGORICAL, GAUSSIAN

Floats = NDArray[np.float64]

_CHUNK_ENTRIES = 1_000_000  # approximate size (points times components) of temporary arrays

_lgamma = np.frompyfunc(math.lgamma, 1, 1)


def _log_gamma(x: Any) -> Floats:
    found: Floats = np.asarray(_lgamma(x), dtype=np.float64)
    return found


def _special() -> Any:
    with needed("the distribution function", "scipy", "numbers"):
        import scipy.special
    return scipy.special


def _stats() -> Any:
    with needed("quantiles", "scipy", "numbers"):
        import scipy.stats
    return scipy.stats


class _Column:
    """The distributions of one number of an observation, one for each component."""

    width = 1

    def __init__(self, channel: Channel, statistics: Floats) -> None:
        self.channel = channel
        self.is_discrete = channel.kind != GAUSSIAN
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
    def joined(cls, columns: Sequence[_Column]) -> _Column:
        """Concatenate the components of several columns of the same kind."""
        found = object.__new__(cls)
        for name, value in vars(columns[0]).items():
            if isinstance(value, np.ndarray):
                value = np.concatenate([vars(column)[name] for column in columns])
            setattr(found, name, value)
        return found

    def logpdf(self, x: Floats) -> Floats:
        """Return log densities at x of shape (n, 1), one for each component; 0 where missing."""
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
            found = sums[:, np.clip(np.floor(x[:, 0]) + 1, 0, self.channel.n_symbols).astype(int)].T
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
        ends = _stats().nbinom.ppf(q, self.shape, self.rate / (1.0 + self.rate))
        return float(ends.min()) - 1.0, float(ends.max())

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


class Predictive:
    """The distribution of the next observation of a filter over numbers: a mixture.

    Methods have the names and conventions of SciPy's frozen distributions; `quantile` and `sample`
    are aliases of `ppf` and `rvs`. If an observation has several numbers, they are the last axis;
    the numbers of a product follow each other in the order of its families. Quantiles exist only
    for a single number: see `marginal`. `cdf`, `ppf`, `quantile` and `interval` need SciPy
    (``mdvpf[numbers]``).

    Parameters
    ----------
    family : NumberFamily
        The emission family.
    weights : ndarray of float64, shape (components,)
        Weight of each component; the constructor normalises them.
    statistics : ndarray of float64, shape (components, statistics)
        Statistics of the observations of each component. Those of open channels are the weights of
        the outcomes, see `open_parts.with_base`.
    n_seen : sequence of int, optional
        Number of symbols seen in each open channel, D: its numbers are 0 to D, which is a new one.

    Examples
    --------
    >>> import mdvpf
    >>> family = mdvpf.Gaussian(shape=2.0, scale=0.1)
    >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=family), n_particles=50)
    >>> _ = pf.run([5.0, 5.1, 4.9, 5.0] * 5)
    >>> expected = pf.predictive()
    >>> round(expected.mean(), 1)
    4.5
    >>> bool(expected.logpdf(5.0) > expected.logpdf(3.0))
    True
    >>> bool(4.5 < expected.ppf(0.5) < 5.5)
    True
    """

    def __init__(
        self, family: NumberFamily, weights: Floats, statistics: Floats, n_seen: Sequence[int] = ()
    ) -> None:
        self.weights = weights / weights.sum()
        self._columns: list[Any] = []  # for each number a _Column or a CompiledColumn
        self._n_dims = len(channels_of(family))
        self._compiled = None
        if isinstance(family, CompiledEmission):
            self._compiled, self._statistics = family, statistics
            return
        for each, channel, part in parts_of(family, statistics, n_seen):
            if isinstance(each, CompiledEmission):
                self._columns.append(CompiledColumn(each, part))
            else:
                self._columns.append(_Column(channel, part))

    @classmethod
    def mixed(cls, weights: Floats, parts: Sequence[Predictive]) -> Predictive:
        """Return a mixture of distributions over the same numbers.

        Parameters
        ----------
        weights : ndarray of float64
            Weight of each distribution.
        parts : sequence of Predictive
            The distributions.
        """
        found = object.__new__(cls)
        joined = np.concatenate([w * part.weights for w, part in zip(weights, parts, strict=True)])
        found.weights = joined / joined.sum()
        found._n_dims, found._compiled = parts[0]._n_dims, None
        for part in parts:
            part._check_built_in("a mixture")
        found._columns = [
            column.joined([part._columns[i] for part in parts])
            for i, column in enumerate(parts[0]._columns)
        ]
        return found

    def __repr__(self) -> str:
        return f"Predictive(n_dims={self.n_dims}, n_components={len(self.weights)})"

    @property
    def n_dims(self) -> int:
        """Numbers in an observation."""
        return self._n_dims

    def _check_built_in(self, method: str) -> None:
        """Raise if the family is custom: it defines a density and nothing else."""
        if self._compiled is not None:
            raise TypeError(
                f"{method} is not available for {self._compiled!r}: a CompiledEmission defines "
                "logpdf only"
            )

    @property
    def is_discrete(self) -> bool:
        """Whether all numbers of an observation are counts or symbols."""
        self._check_built_in("is_discrete")
        return all(column.is_discrete for column in self._columns)

    def marginal(self, i: int) -> Predictive:
        """Return the distribution of one number of an observation.

        Examples
        --------
        >>> import mdvpf
        >>> model = mdvpf.InfiniteHMM(emission=mdvpf.Gaussian(n_dims=2))
        >>> pf = mdvpf.ParticleFilter(model, n_particles=10)
        >>> pf.predictive().marginal(1).mean()
        0.0
        """
        self._check_built_in("marginal")
        i = validate.integer("i", i, low=0, high=self.n_dims - 1)
        if isinstance(self._columns[i], CompiledColumn):
            self._columns[i].refuse()
        found = object.__new__(type(self))
        found.weights, found._columns = self.weights, [self._columns[i]]
        found._n_dims, found._compiled = 1, None
        return found

    # ---- densities -----------------------------------------------------------------------

    def _rows(self, x: ArrayLike) -> tuple[Floats, tuple[int, ...]]:
        """Return points as a matrix, and the shape of the result."""
        points = np.asarray(x, dtype=np.float64)
        if self.n_dims == 1:
            return points.reshape(-1, 1), points.shape
        if points.ndim == 0 or points.shape[-1] != self.n_dims:
            raise ValueError(f"x of shape {points.shape}: expected (..., {self.n_dims})")
        return points.reshape(-1, self.n_dims), points.shape[:-1]

    def _parts(self, n: int) -> list[slice]:
        step = max(1, _CHUNK_ENTRIES // len(self.weights))
        return [slice(start, start + step) for start in range(0, n, step)]

    def logpdf(self, x: ArrayLike) -> Any:
        """Return the log density of observations, or the log probability of counts and symbols.

        NaN is a missing number, as in the filter. The `log_predictive` of the next step equals this
        value at the next observation.

        Examples
        --------
        >>> import mdvpf
        >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=mdvpf.Gaussian()), n_particles=10)
        >>> before = pf.predictive().logpdf(1.5)
        >>> bool(abs(before - pf.update(1.5).log_predictive) < 1e-9)
        True
        """
        points, shape = self._rows(x)
        found = np.empty(len(points))
        with np.errstate(divide="ignore"):
            log_weights = np.log(self.weights)
        for part in self._parts(len(points)):
            if self._compiled is not None:
                logs = log_weights + self._compiled.log_predictive(points[part], self._statistics)
            else:
                logs = log_weights + sum(
                    column.logpdf(points[part, i : i + column.width])
                    for i, column in enumerate(self._columns)
                )
            largest = logs.max(axis=1)
            shift = np.where(np.isfinite(largest), largest, 0.0)
            with np.errstate(divide="ignore"):
                found[part] = shift + np.log(np.exp(logs - shift[:, np.newaxis]).sum(axis=1))
        return found.reshape(shape)[()]

    def pdf(self, x: ArrayLike) -> Any:
        """Return the density of observations, or the probability of counts and symbols."""
        return np.exp(self.logpdf(x))

    def logpmf(self, k: ArrayLike) -> Any:
        """Return the log probability of counts or symbols.

        Examples
        --------
        >>> import mdvpf
        >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=mdvpf.Poisson()), n_particles=10)
        >>> float(pf.predictive().pmf(0))
        0.5
        """
        if not self.is_discrete:
            raise TypeError("logpmf: some numbers are real; expected logpdf")
        return self.logpdf(k)

    def pmf(self, k: ArrayLike) -> Any:
        """Return the probability of counts or symbols."""
        return np.exp(self.logpmf(k))

    def cdf(self, x: ArrayLike) -> Any:
        """Return the joint distribution function: P(every number <= its entry of x).

        Examples
        --------
        >>> import mdvpf
        >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=mdvpf.Gaussian()), n_particles=10)
        >>> float(pf.predictive().cdf(0.0))
        0.5
        """
        self._check_built_in("cdf")
        points, shape = self._rows(x)
        found = np.empty(len(points))
        for part in self._parts(len(points)):
            product = np.ones((1, 1))
            for i, column in enumerate(self._columns):
                product = product * column.cdf(points[part, i])
            found[part] = product @ self.weights
        return np.minimum(found, 1.0).reshape(shape)[()]

    def sf(self, x: ArrayLike) -> Any:
        """Return one minus `cdf`."""
        return 1.0 - self.cdf(x)

    # ---- moments -------------------------------------------------------------------------

    def _moments(self) -> tuple[Floats, Floats]:
        self._check_built_in("mean and var")
        means, variances = [], []
        for column in self._columns:
            mean, variance = column.moments()
            total = self.weights @ mean
            means.append(total)
            variances.append(self.weights @ (variance + (mean - total) ** 2))
        return np.array(means), np.array(variances)

    def mean(self) -> Any:
        """Return the mean: a float, or an array with one entry for each number."""
        found = self._moments()[0]
        return float(found[0]) if self.n_dims == 1 else found

    def var(self) -> Any:
        """Return the variance of each number of an observation.

        The variance of a Gaussian family with ``shape <= 1`` (the default) is infinite, because the
        prior predictive of a new state has infinite variance.

        Examples
        --------
        >>> import mdvpf
        >>> model = mdvpf.InfiniteHMM(emission=mdvpf.Gaussian(shape=2.0))
        >>> mdvpf.ParticleFilter(model, n_particles=10).predictive().var()
        2.0
        """
        found = self._moments()[1]
        return float(found[0]) if self.n_dims == 1 else found

    def std(self) -> Any:
        """Return the square root of `var`."""
        return np.sqrt(self.var())

    # ---- quantiles -----------------------------------------------------------------------

    def ppf(self, q: ArrayLike) -> Any:
        """Return quantiles: the smallest number with a `cdf` of at least q.

        Examples
        --------
        >>> import mdvpf
        >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=mdvpf.Poisson()), n_particles=10)
        >>> float(pf.predictive().ppf(0.9))
        3.0
        """
        self._check_built_in("ppf")
        if self.n_dims > 1:
            raise ValueError(
                f"quantiles of {self.n_dims} numbers are undefined: use marginal(i) for one number"
            )
        levels = np.asarray(q, dtype=np.float64)
        found = np.array([self._quantile(level) for level in levels.ravel().tolist()])
        return found.reshape(levels.shape)[()]

    def quantile(self, q: ArrayLike) -> Any:
        """Return quantiles: an alias of `ppf`."""
        return self.ppf(q)

    def _quantile(self, q: float) -> float:
        column: _Column = self._columns[0]
        if not 0.0 <= q <= 1.0:
            return math.nan
        if q in (0.0, 1.0) and column.channel.kind != CATEGORICAL:
            lowest = -1.0 if column.is_discrete else -math.inf
            return lowest if q == 0.0 else math.inf
        low, high = column.bracket(q)
        while True:
            middle = low + (high - low) / 2.0
            if column.is_discrete:
                middle = math.floor(middle)
            if not low < middle < high:
                break
            if self.cdf(middle) >= q:
                high = middle
            else:
                low = middle
        return high

    def interval(self, confidence: float) -> tuple[Any, Any]:
        """Return the ends of the central interval with this probability."""
        part = validate.real("confidence", confidence, low=0.0, high=1.0)
        return self.ppf((1.0 - part) / 2.0), self.ppf((1.0 + part) / 2.0)

    # ---- draws ---------------------------------------------------------------------------

    def rvs(self, size: int | tuple[int, ...] | None = None, random_state: Any = None) -> Any:
        """Draw random observations.

        Parameters
        ----------
        size : int or tuple of int, optional
            Shape of the result; a single observation by default.
        random_state : None, int, SeedSequence, BitGenerator or Generator, optional
            Seed or generator of the random numbers.

        Examples
        --------
        >>> import mdvpf
        >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=mdvpf.Poisson()), n_particles=10)
        >>> pf.predictive().rvs(size=3, random_state=0).shape
        (3,)
        """
        rng = validate.generator("random_state", random_state)
        shape = () if size is None else size if isinstance(size, tuple) else (size,)
        n = math.prod(shape)
        sums = np.cumsum(self.weights)
        drawn = np.searchsorted(sums, rng.random(n) * sums[-1], "right")
        found = self._draw(np.minimum(drawn, len(sums) - 1), rng).reshape(*shape, self.n_dims)
        return found[..., 0][()] if self.n_dims == 1 else found

    def _draw(self, which: NDArray[np.int64], rng: np.random.Generator) -> Floats:
        self._check_built_in("sample")
        return np.stack([column.draw(which, rng) for column in self._columns], axis=-1)

    def draw_each(self, rng: np.random.Generator) -> Floats:
        """Draw one observation from each component, ignoring the weights."""
        return self._draw(np.arange(len(self.weights)), rng)

    def sample(self, size: int | tuple[int, ...] | None = None, rng: Any = None) -> Any:
        """Draw random observations: an alias of `rvs`."""
        return self.rvs(size, validate.generator("rng", rng))
