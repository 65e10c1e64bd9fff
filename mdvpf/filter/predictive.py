"""The predictive distribution of a filter over numbers: a mixture, with SciPy's conventions.

A component of the mixture is a row of statistics that a state of one or more particles holds. Its
weight is the probability that the next observation comes from such a state. Given the component,
each number of an observation has a distribution of `number_column.py`; the numbers of a
`CompiledEmission` are in `compiled_columns.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdvpf._support import validate
from mdvpf.filter.compiled_columns import Columns, CompiledColumns, JoinedColumns
from mdvpf.filter.number_column import Column
from mdvpf.filter.open_parts import parts_of
from mdvpf.filter.uniforms import restored_on_error
from mdvpf.model import CompiledEmission, NumberFamily

Floats = NDArray[np.float64]

_CHUNK_ENTRIES = 1_000_000  # approximate size (points times components) of temporary arrays


def _joined(columns: Sequence[Columns], sizes: Sequence[int]) -> Columns:
    """Return the components of several distributions of the same numbers."""
    built_in = [column for column in columns if isinstance(column, Column)]
    if len(built_in) == len(columns):
        return Column.joined(built_in)
    return JoinedColumns(columns, sizes)


class Predictive:
    """The distribution of the next observation of a filter over numbers: a mixture.

    Methods have the names and conventions of SciPy's frozen distributions; `quantile` and `sample`
    are aliases of `ppf` and `rvs`. If an observation has several numbers, they are the last axis;
    the numbers of a product follow each other in the order of its families. Quantiles exist only
    for a single number: see `marginal`. `cdf`, `ppf`, `quantile` and `interval` need SciPy
    (``mdvpf[numbers]``), except for a `CompiledEmission`, for which they are computed from its
    density, as are its moments and draws. If that does not integrate to 1, they raise an error.

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
        The number D of symbols seen in each open channel. The next one is 0 to D; D is a new one.

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
        # The sum depends on the order of the core's rows, which a checkpoint does not keep;
        # `expected_numbers` needs the same bits after loading.
        self._raw = weights
        self.weights = weights / weights.sum()
        self._columns: list[Columns] = []
        for each, channel, part in parts_of(family, statistics, n_seen):
            if not isinstance(each, CompiledEmission):
                self._columns.append(Column(channel, part))
            elif part.shape[1]:  # the first channel has the statistics of all numbers of the family
                self._columns.append(CompiledColumns(each, part))

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
        found._raw = np.concatenate([w * part._raw for w, part in zip(weights, parts, strict=True)])
        found.weights = joined / joined.sum()
        sizes = [len(part.weights) for part in parts]
        found._columns = [
            _joined(columns, sizes)
            for columns in zip(*(part._columns for part in parts), strict=True)
        ]
        return found

    def __repr__(self) -> str:
        return f"Predictive(n_dims={self.n_dims}, n_components={len(self.weights)})"

    @property
    def n_dims(self) -> int:
        """Numbers in an observation."""
        return sum(column.n_dims for column in self._columns)

    def _with_points(self, points: Floats) -> Iterator[tuple[Columns, Floats]]:
        """Yield columns, each with its numbers of every point; a single number as a vector."""
        first = 0
        for column in self._columns:
            end = first + column.n_dims
            yield column, points[:, first] if end == first + 1 else points[:, first:end]
            first = end

    @property
    def is_discrete(self) -> bool:
        """Whether all numbers of an observation are counts or symbols."""
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
        i = validate.integer("i", i, low=0, high=self.n_dims - 1)
        found = object.__new__(type(self))
        owners = [(column, k) for column in self._columns for k in range(column.n_dims)]
        column, k = owners[i]
        found._raw, found.weights = self._raw, self.weights
        found._columns = [column.marginal(k) if column.n_dims > 1 else column]
        return found

    # ---- densities -----------------------------------------------------------------------

    def _rows(self, x: ArrayLike) -> tuple[Floats, tuple[int, ...]]:
        """Return points as a matrix, and the shape of the result."""
        points = np.ma.filled(np.asanyarray(x, dtype=np.float64), np.nan)
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

        A number that is NaN, None or masked is missing, as in the filter. The `log_predictive` of
        the next step equals this value at the next observation.

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
            logs = log_weights + self.component_logpdf(points[part])
            largest = logs.max(axis=1)
            shift = np.where(np.isfinite(largest), largest, 0.0)
            with np.errstate(divide="ignore"):
                found[part] = shift + np.log(np.exp(logs - shift[:, np.newaxis]).sum(axis=1))
        return found.reshape(shape)[()]

    def component_logpdf(self, points: Floats) -> Floats:
        """Return the log density of each component, shape (points, components)."""
        parts = (column.logpdf(x) for column, x in self._with_points(points))
        return sum(parts, start=np.zeros(()))

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

        It is NaN if a number of x is missing.

        Examples
        --------
        >>> import mdvpf
        >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=mdvpf.Gaussian()), n_particles=10)
        >>> float(pf.predictive().cdf(0.0))
        0.5
        """
        points, shape = self._rows(x)
        found = np.empty(len(points))
        for part in self._parts(len(points)):
            product = np.ones((1, 1))
            for column, x in self._with_points(points[part]):
                product = product * column.cdf(x)
            found[part] = product @ self.weights
        return np.minimum(found, 1.0).reshape(shape)[()]

    def sf(self, x: ArrayLike) -> Any:
        """Return one minus `cdf`."""
        return 1.0 - self.cdf(x)

    # ---- moments -------------------------------------------------------------------------

    def _moments(self) -> tuple[Floats, Floats]:
        means, variances = [], []
        for column in self._columns:
            found = (values.reshape(len(values), -1).T for values in column.moments())
            for mean, variance in zip(*found, strict=True):
                with np.errstate(invalid="ignore"):
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
        column = self._columns[0]
        if not 0.0 <= q <= 1.0:
            return math.nan
        if q in (0.0, 1.0) and not column.is_bounded:
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
        return float(high)

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
            How many observations to draw, or the shape in which; by default one, without an axis.
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
        sizes = () if size is None else size if isinstance(size, (tuple, list)) else (size,)
        also = ", a tuple of these, or None"
        shape = tuple(validate.integer("size", n, low=0, also=also) for n in sizes)
        n = math.prod(shape)
        sums = np.cumsum(self.weights)
        with restored_on_error(rng):
            drawn = np.searchsorted(sums, rng.random(n) * sums[-1], "right")
            found = self._draw(np.minimum(drawn, len(sums) - 1), rng)
        found = found.reshape(*shape, self.n_dims)
        return found[..., 0][()] if self.n_dims == 1 else found

    def _draw(self, which: NDArray[np.int64], rng: np.random.Generator) -> Floats:
        return np.column_stack([column.draw(which, rng) for column in self._columns])

    def draw_each(self, rng: np.random.Generator) -> Floats:
        """Draw one observation from each component, ignoring the weights."""
        return self._draw(np.arange(len(self.weights)), rng)

    def sample(self, size: int | tuple[int, ...] | None = None, rng: Any = None) -> Any:
        """Draw random observations: an alias of `rvs`."""
        return self.rvs(size, validate.generator("rng", rng))
