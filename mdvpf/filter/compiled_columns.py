"""The numbers of a `CompiledEmission` as a part of a predictive distribution.

The user's function gives the density of an observation, or of some of its numbers if the others
are missing. Everything else is computed from it: the table of a number for each row of statistics
(`density_tables.py`) has its distribution function, quantiles and moments. Several numbers are
drawn one after another, each given those before it, while those after it are missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mdvpf.filter._densities import update_each
from mdvpf.filter.density_modes import RowDensities
from mdvpf.filter.density_tables import DensityTable
from mdvpf.model import CompiledEmission

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_LEAST_UNIFORM = 2.0**-54  # half of the smallest positive number that a generator draws


class Columns(Protocol):
    """One or more numbers of an observation, with a distribution for each component."""

    n_dims: int
    is_discrete: bool
    is_bounded: bool

    def logpdf(self, x: Floats) -> Floats:
        """Return log densities, shape (n, components)."""

    def cdf(self, x: Floats) -> Floats:
        """Return distribution functions, shape (n, components)."""

    def moments(self) -> tuple[Floats, Floats]:
        """Return the mean and the variance of each component."""

    def bracket(self, q: float) -> tuple[float, float]:
        """Return lower and upper bounds on the quantile of any mixture of the components."""

    def draw(self, which: Ints, rng: np.random.Generator) -> Floats:
        """Draw one observation from each of the given components."""

    def marginal(self, i: int) -> Columns:
        """Return the distribution of one of the numbers."""


class CompiledColumns:
    """The numbers of a `CompiledEmission`, or one of them.

    Parameters
    ----------
    family : CompiledEmission
        The family.
    statistics : ndarray of float64, shape (components, statistics)
        The statistics of each component.
    dim : int, optional
        Index of the one number to describe, with the others missing; all numbers by default.
    """

    is_bounded = False

    def __init__(
        self, family: CompiledEmission, statistics: Floats, dim: int | None = None
    ) -> None:
        self._family = family
        self._statistics = statistics
        self._dims = range(family.n_dims) if dim is None else range(dim, dim + 1)
        self.n_dims = len(self._dims)
        self.is_discrete = family.support == "counts"

    def marginal(self, i: int) -> CompiledColumns:
        """Return the distribution of one of the numbers."""
        return CompiledColumns(self._family, self._statistics, self._dims[i])

    # ---- densities -----------------------------------------------------------------------

    def logpdf(self, x: Floats) -> Floats:
        """Return log densities, shape (n, components); missing numbers are NaN."""
        points = np.full((len(x), self._family.n_dims), np.nan)
        points[:, self._dims] = x.reshape(len(x), -1)
        can_be = np.isfinite(points)
        if self.is_discrete:
            with np.errstate(invalid="ignore"):
                can_be &= (points >= 0.0) & (points == np.floor(points))
        whole = (can_be | np.isnan(points)).all(axis=1)
        found = np.full((len(points), len(self._statistics)), -np.inf)
        found[whole] = self._family.log_predictive(points[whole], self._statistics)
        return found

    # ---- one number ----------------------------------------------------------------------

    @cached_property
    def _rows(self) -> tuple[Floats, Ints]:
        """Different rows of statistics, and the row of each component."""
        return _unique(self._statistics)

    @cached_property
    def _table(self) -> DensityTable:
        """The distribution functions of the only number."""
        return DensityTable(RowDensities(self._family, self._rows[0], self._dims[0]))

    def cdf(self, x: Floats) -> Floats:
        """Return distribution functions, shape (n, components)."""
        if self.n_dims > 1:
            raise ValueError(
                f"cdf of {self.n_dims} numbers of {self._family!r}: expected one number, such as "
                "marginal(0)"
            )
        rows, row_of = self._rows
        which = np.tile(np.arange(len(rows)), len(x))
        found = self._table.cdf(which, np.repeat(x, len(rows))).reshape(len(x), len(rows))
        return found[:, row_of]

    def moments(self) -> tuple[Floats, Floats]:
        """Return mean and variance of each component, with a column for each of several numbers."""
        if self.n_dims > 1:
            each = [self.marginal(i).moments() for i in range(self.n_dims)]
            means, variances = zip(*each, strict=True)
            return np.stack(means, axis=1), np.stack(variances, axis=1)
        mean, variance = self._table.moments()
        row_of = self._rows[1]
        return mean[row_of], variance[row_of]

    def bracket(self, q: float) -> tuple[float, float]:
        """Return lower and upper bounds on the quantile of any mixture of the components."""
        n = len(self._rows[0])
        ends = self._table.ppf(np.arange(n), np.full(n, q))
        return float(ends.min()) - self.is_discrete, float(ends.max())

    # ---- draws ---------------------------------------------------------------------------

    def draw(self, which: Ints, rng: np.random.Generator) -> Floats:
        """Draw an observation from each of the given components: (n,), or (n, n_dims)."""
        statistics = self._statistics[which]
        drawn = np.full((len(which), self._family.n_dims), np.nan)
        for dim in self._dims:
            levels = np.maximum(rng.random(len(which)), _LEAST_UNIFORM)
            rows, row_of = _unique(np.concatenate([statistics, drawn[:, :dim]], axis=1))
            known = np.full((len(rows), self._family.n_dims), np.nan)
            known[:, :dim] = rows[:, statistics.shape[1] :]
            density = RowDensities(self._family, rows[:, : statistics.shape[1]], dim, known)
            drawn[:, dim] = DensityTable(density).ppf(row_of, levels)
        return drawn[:, self._dims[0]] if self.n_dims == 1 else drawn


class JoinedColumns:
    """The components of several distributions of the same numbers, one after another.

    Parameters
    ----------
    parts : sequence of Columns
        The distributions.
    sizes : sequence of int
        The number of components of each.
    """

    def __init__(self, parts: Sequence[Columns], sizes: Sequence[int]) -> None:
        self._parts, self._sizes = list(parts), list(sizes)
        self.n_dims = parts[0].n_dims
        self.is_discrete = all(part.is_discrete for part in parts)
        self.is_bounded = all(part.is_bounded for part in parts)

    def marginal(self, i: int) -> JoinedColumns:
        """Return the distribution of one of the numbers."""
        return JoinedColumns([part.marginal(i) for part in self._parts], self._sizes)

    def logpdf(self, x: Floats) -> Floats:
        """Return log densities, shape (n, components)."""
        return np.concatenate([part.logpdf(x) for part in self._parts], axis=1)

    def cdf(self, x: Floats) -> Floats:
        """Return distribution functions, shape (n, components)."""
        return np.concatenate([part.cdf(x) for part in self._parts], axis=1)

    def moments(self) -> tuple[Floats, Floats]:
        """Return the mean and the variance of each component."""
        means, variances = zip(*(part.moments() for part in self._parts), strict=True)
        return np.concatenate(means), np.concatenate(variances)

    def bracket(self, q: float) -> tuple[float, float]:
        """Return lower and upper bounds on the quantile of any mixture of the components."""
        low, high = zip(*(part.bracket(q) for part in self._parts), strict=True)
        return min(low), max(high)

    def draw(self, which: Ints, rng: np.random.Generator) -> Floats:
        """Draw an observation from each of the given components."""
        ends = np.cumsum(self._sizes)
        owner = np.searchsorted(ends, which, "right")
        found = np.empty(len(which) if self.n_dims == 1 else (len(which), self.n_dims))
        for i, part in enumerate(self._parts):
            own = owner == i
            if own.any():
                found[own] = part.draw(which[own] - (ends[i] - self._sizes[i]), rng)
        return found


def update_rows(family: CompiledEmission, observations: Floats, statistics: Floats) -> Floats:
    """Return rows of statistics after an observation each."""
    found = np.array(statistics, dtype=np.float64, order="C")
    _, function, data = family.addresses
    points = np.ascontiguousarray(observations, dtype=np.float64)
    family.check_status("update", update_each(function, data, points, found))
    if not np.isfinite(found).all():
        at = int(np.flatnonzero(~np.isfinite(found).all(axis=1))[0])
        raise ValueError(
            f"update of {family.name!r} wrote {found[at].tolist()} after the observation "
            f"{points[at].tolist()}: expected finite numbers"
        )
    return found


def _unique(rows: Floats) -> tuple[Floats, Ints]:
    """Return the different rows, and for each row which of them it is."""
    found, inverse = np.unique(rows, axis=0, return_inverse=True)
    return found, inverse.ravel()
