"""Distribution functions of densities that can only be called: tables, one for each row.

Integrals over cells (`density_cells.py`) between break points (`density_modes.py`) give the
distribution function; quantiles solve for a point of a cell. Beyond the outermost cells a tail
falls as a power of the distance, if it has any probability.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray

from mdvpf.filter.density_cells import Cells, Integration
from mdvpf.filter.density_modes import RowDensities, break_points, find_modes

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# How far an integral may be from 1: differences of large log gammas alone cost 1e-5 and more.
MASS_TOLERANCE = 1e-3
_ROWS_TOGETHER = 2048
_LEAST_MASS = 1e-15  # of a tail
_SAME_EXPONENT = 1e-4  # the accuracy of the exponent of a tail


class _Tail(NamedTuple):
    """What lies beyond the last cell of each row, on one side.

    Attributes
    ----------
    end, distance : ndarray of float64
        Where the tail begins, and how far this is from the centre.
    exponent : ndarray of float64
        The density falls as the distance to the power of ``-1 - exponent``.
    mass : ndarray of float64
        The probability of the tail, infinite if the exponent is not positive.
    """

    end: Floats
    distance: Floats
    exponent: Floats
    mass: Floats

    def moment(self, power: int, scale: Floats) -> Floats:
        """Return the integral of the density times distances, in units of a scale, to a power."""
        exponent = np.where(self.mass > 0.0, self.exponent, 1.0 + power)
        with np.errstate(all="ignore"):
            size = self.mass * (self.distance / scale) ** power
            found = size * exponent / (exponent - power)
        found = np.where(exponent > power + _SAME_EXPONENT, found, np.inf)
        return np.where(size > _LEAST_MASS, found, 0.0)


def _tail(density: RowDensities, rows: Ints, centre: Floats, end: Floats, side: float) -> _Tail:
    """Return the tails of some rows on one side, by the density at two places."""
    if density.is_discrete:
        if side < 0.0:
            none = np.zeros(len(rows))
            return _Tail(end, none, none, none)
        end = end - 0.5  # a count
    distance = np.abs(end - centre)
    inner = centre + side * distance / 8.0
    if density.is_discrete:
        inner = np.clip(np.floor(inner), 0.0, end)
    last, before = density(rows, end), density(rows, inner)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore", under="ignore"):
        exponent = -1.0 - (last - before) / np.log(distance / np.abs(inner - centre))
        size = np.exp(last) * distance
        endless = np.where(size > _LEAST_MASS, np.inf, 0.0)
        mass = np.where(exponent > _SAME_EXPONENT, size / exponent, endless)
    return _Tail(end, distance, exponent, np.where(size > 0.0, mass, 0.0))


class _Division(NamedTuple):
    """The cells and the tails of several densities."""

    cells: Cells
    tails: tuple[_Tail, _Tail]

    @property
    def n_rows(self) -> int:
        return len(self.tails[0].end)

    def sum(self, i: int) -> Floats:
        """Return the integral over the cells of each row: ``sums[:, i]`` of all cells."""
        found = np.bincount(self.cells.row, self.cells.sums[:, i], self.n_rows)
        return found.astype(np.float64)


def _divide(density: RowDensities, power: int, centre: Floats, scale: Floats) -> _Division:
    """Return the division of all densities; `power` as in `break_points`."""
    cells: list[Cells] = []
    tails: list[list[_Tail]] = [[], []]
    for start in range(0, len(density), _ROWS_TOGETHER):
        rows = np.arange(start, min(start + _ROWS_TOGETHER, len(density)))
        modes = find_modes(density, rows)
        _check_masses(density, np.isin(rows, modes.row).astype(np.float64), start, "no")
        row, points = break_points(density, modes, power, scale)
        same = np.diff(row) == 0
        integration = Integration(density, centre, scale, has_moments=power > 1)
        cells.append(integration.run(row[:-1][same], points[:-1][same], points[1:][same]))
        first, last = (np.searchsorted(row, rows, side) for side in ("left", "right"))
        lowest = modes.place[np.searchsorted(modes.row, rows, "left")]
        highest = modes.place[np.searchsorted(modes.row, rows, "right") - 1]
        tails[0].append(_tail(density, rows, lowest, points[first], -1.0))
        tails[1].append(_tail(density, rows, highest, points[last - 1], 1.0))
    lower, upper = (
        _Tail(*(np.concatenate(values) for values in zip(*parts, strict=True))) for parts in tails
    )
    return _Division(Cells.joined(cells), (lower, upper))


def _check_masses(density: RowDensities, mass: Floats, start: int, found: str = "") -> None:
    """Raise unless the densities from row `start` on integrate to 1."""
    wrong = np.flatnonzero(~(np.abs(mass - 1.0) <= MASS_TOLERANCE))
    if len(wrong) == 0:
        return
    at = int(wrong[0])
    verb = "sum over all counts" if density.is_discrete else "integrate"
    shown = density.statistics[start + at].tolist()
    raise ValueError(
        f"log_predictive of {density.family.name!r}: the densities of a state with statistics "
        f"{shown if len(shown) <= 8 else shown[:8]} {verb} to {found or f'{mass[at]:.6g}'}"
        f"{' probability' if found else ''}, expected 1 (support={density.family.support!r})"
    )


class DensityTable:
    """The distribution functions of several densities.

    Parameters
    ----------
    density : RowDensities
        The densities. Each must integrate to 1.
    """

    def __init__(self, density: RowDensities) -> None:
        n = len(density)
        self._density = density
        self._is_discrete = density.is_discrete
        found = _divide(density, 1, np.zeros(n), np.ones(n))
        self._cells, (self._lower, self._upper) = found
        mass = found.sum(0) + self._lower.mass + self._upper.mass
        _check_masses(density, mass, 0)
        self._mass = mass
        self._begin = np.searchsorted(self._cells.row, np.arange(n + 1))
        self._base = self._bases()

    def _bases(self) -> Floats:
        """Return the distribution function at the left end of each cell, times the mass."""
        found = np.empty(len(self._cells.row))
        at, end = self._begin[:-1], self._begin[1:]
        below = self._lower.mass
        while len(at):
            found[at] = below
            below = below + np.maximum(self._cells.sums[at, 0], 0.0)
            more = at + 1 < end
            at, end, below = at[more] + 1, end[more], below[more]
        return found

    # ---- the distribution function -------------------------------------------------------

    def cdf(self, which: Ints, x: Floats) -> Floats:
        """Return the distribution function of a row at each number."""
        place = np.floor(x) + 0.5 if self._is_discrete else np.asarray(x, dtype=np.float64)
        first, end = self._begin[which], self._begin[which + 1]
        cell = _last_at_most(self._cells.left, first, end, place)
        inside = np.maximum(cell, first)
        left, right = self._cells.left[inside], self._cells.right[inside]
        with np.errstate(invalid="ignore", over="ignore"):
            t = np.clip(2.0 * ((place - left) / (right - left)) - 1.0, -1.0, 1.0)
        part = legendre.legval(t, self._cells.series[inside].T, tensor=False)
        found = self._base[inside] + np.clip(part, 0.0, self._cells.sums[inside, 0])
        lower, upper = self._lower, self._upper
        below, above = place < left, place > right
        if below.any():
            found[below] = self._beyond(lower, which[below], place[below], -1.0)
        if above.any():
            found[above] = self._mass[which[above]] - self._beyond(
                upper, which[above], place[above], 1.0
            )
        found = np.clip(found / self._mass[which], 0.0, 1.0)
        return np.where(np.isnan(x), np.nan, found)

    def _beyond(self, tail: _Tail, which: Ints, place: Floats, side: float) -> Floats:
        """Return the probability of a tail beyond each place."""
        mass, distance = tail.mass[which], tail.distance[which]
        with np.errstate(all="ignore"):
            away = distance + side * (place - tail.end[which])
            found = mass * (distance / away) ** tail.exponent[which]
        return np.where(mass > 0.0, found, 0.0)

    # ---- quantiles -----------------------------------------------------------------------

    def ppf(self, which: Ints, q: Floats) -> Floats:
        """Return a quantile of each row, for levels between 0 and 1."""
        target = q * self._mass[which]
        first, end = self._begin[which], self._begin[which + 1]
        cell = np.maximum(_last_at_most(self._base, first, end, target), first)
        left, right = self._cells.left[cell], self._cells.right[cell]
        part = np.clip(target - self._base[cell], 0.0, self._cells.sums[cell, 0])
        t = _solved(self._cells.series[cell].T, part)
        found = np.where(t >= 1.0, right, left + (right - left) * ((t + 1.0) / 2.0))
        low = target < self._lower.mass[which]
        high = target > self._mass[which] - self._upper.mass[which]
        for tail, at, side in ((self._lower, low, -1.0), (self._upper, high, 1.0)):
            if at.any():
                rows = which[at]
                rest = target[at] if side < 0.0 else self._mass[rows] - target[at]
                found[at] = _in_tail(tail, rows, rest, side)
        return np.ceil(found - 0.5) + 0.0 if self._is_discrete else found

    # ---- moments -------------------------------------------------------------------------

    def moments(self) -> tuple[Floats, Floats]:
        """Return the mean and the variance of each row; what does not exist is NaN or infinite."""
        each = np.arange(len(self._density))
        low, centre, high = (self.ppf(each, np.full(len(each), q)) for q in (0.25, 0.5, 0.75))
        scale = np.maximum(high - low, 1.0 if self._is_discrete else 1e-150)
        division = _divide(self._density, 3, centre, scale)
        lower, upper = division.tails
        mass = division.sum(0) + lower.mass + upper.mass
        first = [tail.moment(1, scale) for tail in (lower, upper)]
        second = division.sum(2) + lower.moment(2, scale) + upper.moment(2, scale)
        with np.errstate(invalid="ignore"):
            mean = (division.sum(1) - first[0] + first[1]) / mass
            variance = second / mass - mean**2
            variance = np.where(np.isnan(mean), np.nan, variance * scale**2)
            variance = np.where(np.isinf(mean), np.inf, variance)
            mean = centre + mean * scale
        return mean, variance


def _last_at_most(keys: Floats, begin: Ints, end: Ints, values: Floats) -> Ints:
    """Return the last index of each range with a key of at most the value; else ``begin - 1``."""
    low, high = begin - 1, end.copy()
    while True:
        wide = high - low > 1
        if not wide.any():
            return low
        middle = np.where(wide, (low + high) // 2, begin)
        right = wide & (keys[middle] <= values)
        low = np.where(right, middle, low)
        high = np.where(wide & ~right, middle, high)


def _solved(series: Floats, target: Floats) -> Floats:
    """Return where increasing series have the given values, in [-1, 1]."""
    low, high = np.full(len(target), -1.0), np.ones(len(target))
    slope = legendre.legder(series, axis=0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        t = np.clip(2.0 * target / legendre.legval(1.0, series, tensor=False) - 1.0, -1.0, 1.0)
        t = np.where(np.isnan(t), 1.0, t)
        for _ in range(100):
            gap = legendre.legval(t, series, tensor=False) - target
            low, high = np.where(gap < 0.0, t, low), np.where(gap >= 0.0, t, high)
            step = t - gap / legendre.legval(t, slope, tensor=False)
            new = np.where((step > low) & (step < high), step, (low + high) / 2.0)
            new = np.where(gap == 0.0, t, new)
            moved = np.abs(new - t)
            t = new
            if not (moved > 1e-15).any():
                break
    return t


def _in_tail(tail: _Tail, rows: Ints, rest: Floats, side: float) -> Floats:
    """Return where the probability beyond is `rest`."""
    distance = tail.distance[rows]
    with np.errstate(divide="ignore", over="ignore"):
        factor = (np.maximum(rest, 0.0) / tail.mass[rows]) ** (-1.0 / tail.exponent[rows])
        found: Floats = tail.end[rows] + side * distance * (factor - 1.0)
    return found
