"""Where the probability of a density is: its modes, how wide they are, and where its tails end.

The density of a `CompiledEmission` is a function that can only be called. A scan over numbers of
all magnitudes finds its local maxima, which are then refined; from each of them, break points go
outwards at growing distances until the rest is negligible. `density_tables.py` integrates between
the break points. Many densities, one for each row of statistics, are searched together.

A scan cannot find a narrow density whose log is the same everywhere else, such as a uniform
distribution on [1e8, 1e8 + 1]: log densities must grow towards a mode, or belong to a range that a
finer scan hits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mdvpf.filter._densities import log_densities
from mdvpf.model import CompiledEmission
from mdvpf.model.number_families import LARGEST_NUMBER

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Beyond it, rounding errors of log gamma functions, 0.004 at this count, make densities useless.
LARGEST_COUNT = 1e12
_MOST_MODES = 8
_NEGLIGIBLE = -42.0  # the log of a probability that is left out: 6e-19
_LEAST_MODE = -20.0  # the same for a mode, 2e-9: the rounding of a tail has local maxima too
_IMPOSSIBLE = -1100.0  # the log of a probability that is 0 in a tail of any length
_DROP = 0.5  # the log density falls by this within the width of a mode
_SAME_SLOPE = 1e-3  # of log density against log distance, from one break point to the next
_LEAST_NUMBER = 1e-150
_GOLDEN = 0.381966

_EXPONENTS = np.concatenate([np.arange(-12, -3), np.arange(-3, 9, 0.25), np.arange(9, 141)])
_REAL_GRID = np.concatenate([-(10.0 ** _EXPONENTS[::-1]), [0.0], 10.0**_EXPONENTS])
# For rows in which the first scan finds nothing.
_FINE = 10.0 ** np.arange(-6.0, 12.0, 0.01)
_FINE_GRID = np.concatenate([-_FINE[::-1], [0.0], _FINE])
_COUNT_GRID = np.concatenate(
    [np.arange(17.0), np.floor(10.0 ** np.arange(1.25, 11.9, 0.125)), [LARGEST_COUNT]]
)
# Distances of break points from a mode, in widths: twice as far each time, later four times.
_DISTANCES = np.concatenate([2.0 ** np.arange(6), 4.0 ** np.arange(3, 490)])


class RowDensities:
    """The log densities of one number of an observation, one for each row of statistics.

    Parameters
    ----------
    family : CompiledEmission
        The family.
    statistics : ndarray of float64, shape (rows, statistics)
        The statistics of the states.
    dim : int, default 0
        Which number of an observation.
    observations : ndarray of float64, shape (rows, n_dims), optional
        The other numbers, on which the density is conditional; NaN, the default, is unknown.
    """

    def __init__(
        self,
        family: CompiledEmission,
        statistics: Floats,
        dim: int = 0,
        observations: Floats | None = None,
    ) -> None:
        self.family = family
        self.statistics = np.ascontiguousarray(statistics, dtype=np.float64)
        self.is_discrete = family.support == "counts"
        n = len(self.statistics)
        if observations is None:
            observations = np.full((n, family.n_dims), np.nan)
        self._observations = np.array(observations, dtype=np.float64, order="C")
        self._observations[:, dim] = np.nan
        self._dim = dim
        self._known: Floats | None = None
        if not np.isnan(self._observations).all():
            self._known = self._call(np.arange(n), np.full(n, np.nan))

    def __len__(self) -> int:
        return len(self.statistics)

    def __call__(self, which: Ints, numbers: Floats) -> Floats:
        """Return the log density of each number in its row; rows should be sorted."""
        found = self._call(which, numbers)
        return found if self._known is None else found - self._known[which]

    def _call(self, which: Ints, numbers: Floats) -> Floats:
        out = np.empty(len(numbers))
        function, _, data = self.family.addresses
        observations, dim = self._observations, self._dim
        status = log_densities(
            function, data, observations, self.statistics, which, dim, numbers, out
        )
        self.family.check_status("log_predictive", status)
        wrong = np.flatnonzero(np.isnan(out))
        if len(wrong):
            observation = observations[which[wrong[0]]].copy()
            observation[dim] = numbers[wrong[0]]
            self.family.check_log_densities(observation, out[wrong])
        return out


class Modes(NamedTuple):
    """The modes of several densities, sorted by row and place.

    Attributes
    ----------
    row, place, log_density : ndarray
        The row, the mode and the log density there.
    below, above : ndarray of float64
        The distances, on either side, at which the log density has fallen by `_DROP`.
    """

    row: Ints
    place: Floats
    log_density: Floats
    below: Floats
    above: Floats

    @property
    def width(self) -> Floats:
        """The larger of both distances."""
        return np.maximum(self.below, self.above)

    @property
    def log_mass(self) -> Floats:
        """The approximate log probability of each mode."""
        return self.log_density + np.log(self.below + self.above)

    @classmethod
    def joined(cls, parts: list[Modes]) -> Modes:
        """Return all modes, sorted."""
        whole = cls(*(np.concatenate(values) for values in zip(*parts, strict=True)))
        return whole.kept(np.lexsort((whole.place, whole.row)))

    def kept(self, which: NDArray[Any]) -> Modes:
        """Return some of the modes."""
        row, *others = self
        return Modes(row[which], *(values[which] for values in others))


def find_modes(density: RowDensities, rows: Ints) -> Modes:
    """Return the modes of the densities of some rows; a density may have none."""
    grid = _COUNT_GRID if density.is_discrete else _REAL_GRID
    found = _refined(density, *_scan(density, rows, grid))
    left = np.setdiff1d(rows, found.row)
    if len(left) and not density.is_discrete:
        others = _refined(density, *_scan(density, left, _FINE_GRID))
        return Modes.joined([found, others])
    return found


def _refined(
    density: RowDensities, row: Ints, low: Floats, place: Floats, high: Floats, found: Floats
) -> Modes:
    """Return the modes at local maxima of a scan, without those that have no probability."""
    place, found = _refine(density, row, low, place, high, found)
    below, above = (_width(density, row, place, found, side) for side in (-1.0, 1.0))
    modes = Modes(row, place, found, below, above)
    highest = np.full(len(density), -np.inf)
    np.maximum.at(highest, row, modes.log_mass)
    only = (modes.log_mass == highest[row]) & (found > _IMPOSSIBLE)
    modes = modes.kept(only | (modes.log_mass >= _LEAST_MODE) | _is_pole(modes))
    # A plateau has many local maxima by rounding.
    apart = np.ones(len(modes.row), dtype=np.bool_)
    near = np.diff(modes.place) < 0.5 * np.minimum(modes.above[:-1], modes.below[1:])
    apart[1:] = ~(near & (np.diff(modes.row) == 0))
    return modes.kept(apart)


def _is_pole(modes: Modes) -> NDArray[np.bool_]:
    """Return where a density grows without bounds towards a mode, so that it has no width."""
    found: NDArray[np.bool_] = modes.width <= np.maximum(1e-12 * np.abs(modes.place), 1e-60)
    return found & (modes.log_density > 0.0)


def _scan(
    density: RowDensities, rows: Ints, grid: Floats
) -> tuple[Ints, Floats, Floats, Floats, Floats]:
    """Return row, lower neighbour, place, upper neighbour and log density of local maxima."""
    n = len(grid)
    found = density(np.repeat(rows, n), np.tile(grid, len(rows))).reshape(-1, n)
    edge = np.full((len(rows), 1), -np.inf)
    before = np.concatenate([edge, found[:, :-1]], axis=1)
    after = np.concatenate([found[:, 1:], edge], axis=1)
    is_peak = (found > before) & (found >= after)
    heights = np.where(is_peak, found, -np.inf)
    least = np.partition(heights, -_MOST_MODES, axis=1)[:, -_MOST_MODES]
    i, j = np.nonzero(is_peak & (heights >= least[:, np.newaxis]))
    low, high = grid[np.maximum(j - 1, 0)], grid[np.minimum(j + 1, n - 1)]
    return rows[i], low, grid[j], high, found[i, j]


def _refine(
    density: RowDensities, row: Ints, low: Floats, place: Floats, high: Floats, found: Floats
) -> tuple[Floats, Floats]:
    """Return local maxima between their neighbours, by golden sections, and log densities there."""
    place, found = place.copy(), found.copy()
    at_low = np.full(len(place), -np.inf)
    at_high = at_low.copy()
    active = np.flatnonzero(high > low)
    for _ in range(100):
        if len(active) == 0:
            break
        m, value = place[active], found[active]
        upwards = high[active] - m > m - low[active]
        far = np.where(upwards, high[active], low[active])
        x = m + _GOLDEN * (far - m)
        if density.is_discrete:
            x = np.where(upwards, np.ceil(x), np.floor(x))
        else:
            x = np.where(_span(m, far) > 100.0, _between(m, far), x)
        new = density(row[active], x)
        better = new > value
        # The new point or the old one becomes an end of the bracket.
        end, at_end = np.where(better, m, x), np.where(better, value, new)
        to_low = upwards == better
        low[active] = np.where(to_low, end, low[active])
        at_low[active] = np.where(to_low, at_end, at_low[active])
        high[active] = np.where(to_low, high[active], end)
        at_high[active] = np.where(to_low, at_high[active], at_end)
        place[active], found[active] = np.where(better, x, m), np.where(better, new, value)
        least = np.minimum(at_low[active], at_high[active])
        with np.errstate(invalid="ignore"):
            is_flat = found[active] - least < 0.1 * _DROP
        width = high[active] - low[active]
        is_narrow = width <= 4e-16 * np.abs(place[active]) + 1e4 * _LEAST_NUMBER
        if density.is_discrete:
            m = place[active]
            is_flat, is_narrow = False, np.maximum(high[active] - m, m - low[active]) <= 1.0
        active = active[~(is_flat | is_narrow)]
    return place, found


def _span(a: Floats, b: Floats) -> Floats:
    """Return the quotient of magnitudes of numbers that do not have opposite signs, else 1."""
    first, second = (np.maximum(np.abs(x), _LEAST_NUMBER) for x in (a, b))
    return np.where(a * b >= 0.0, np.maximum(first / second, second / first), 1.0)


def _between(a: Floats, b: Floats) -> Floats:
    """Return the geometric mean of numbers that do not have opposite signs."""
    first, second = (np.maximum(np.abs(x), _LEAST_NUMBER) for x in (a, b))
    found: Floats = np.where(a + b < 0.0, -1.0, 1.0) * np.sqrt(first) * np.sqrt(second)
    return found


def _width(density: RowDensities, row: Ints, place: Floats, found: Floats, side: float) -> Floats:
    """Return the distance from each mode, on one side, at which its log density fell by `_DROP`."""
    least = np.maximum(_LEAST_NUMBER, 4e-16 * np.abs(place))
    most = np.full(len(place), 1e145)
    if density.is_discrete:
        least, most = np.ones(len(place)), np.full(len(place), LARGEST_COUNT)
    low, high = np.log(least), np.log(most)
    for _ in range(7 if density.is_discrete else 14):
        middle = (low + high) / 2.0
        fallen = _at(density, row, place + side * np.exp(middle)) < found - _DROP
        high = np.where(fallen, middle, high)
        low = np.where(fallen, low, middle)
    width: Floats = np.exp(high)
    return width


def _at(density: RowDensities, row: Ints, x: Floats) -> Floats:
    """Return log densities; minus infinity where no observation can be."""
    if not density.is_discrete:
        return density(row, np.clip(x, -LARGEST_NUMBER, LARGEST_NUMBER))
    x = np.floor(x)
    found = np.full(len(x), -np.inf)
    can_be = (x >= 0.0) & (x <= LARGEST_COUNT)
    found[can_be] = density(row[can_be], x[can_be])
    return found


def break_points(
    density: RowDensities, modes: Modes, power: int, scale: Floats
) -> tuple[Ints, Floats]:
    """Return row and place of the points between which densities are integrated, sorted.

    On either side they end where the probability beyond is negligible. The moment of order
    ``power - 1`` beyond, with distances in units of the row's scale, must be negligible too, unless
    the density falls as a power of the distance: the rest then has a closed form. Where neither
    happens, they end at the largest number. Points of counts are halves.
    """
    n = len(modes.row)
    row, place = np.tile(modes.row, 2), np.tile(modes.place, 2)
    width = np.concatenate([modes.below, modes.above])
    side = np.repeat([-1.0, 1.0], n)
    found_row, found = [row], [place]
    if density.is_discrete:
        found = [np.maximum(place + 0.5 * side, -0.5)]
    active = np.arange(2 * n)
    last, last_slope, factor = np.full(2 * n, -np.inf), np.zeros(2 * n), 2.0
    for distance in _DISTANCES.tolist():
        if len(active) == 0:
            break
        away = distance * width[active]
        x = place[active] + side[active] * away
        least, most, half = -LARGEST_NUMBER, LARGEST_NUMBER, 0.0
        if density.is_discrete:
            x, least, most, half = np.floor(x), 0.0, LARGEST_COUNT, 0.5
        x = np.clip(x, least, most)
        found.append(x + half * side[active])
        found_row.append(row[active])
        mass = density(row[active], x) + np.log(away)
        rest = mass + (power - 1) * np.log(away / scale[row[active]])
        with np.errstate(invalid="ignore"):
            slope = (mass - last[active]) / np.log(factor)
            is_power = np.abs(slope - last_slope[active]) < _SAME_SLOPE
        falls = slope <= 0.0
        ends = falls & (mass < _NEGLIGIBLE) & ((rest < _NEGLIGIBLE) | is_power)
        ends |= mass < _IMPOSSIBLE
        ends |= (x <= least) & (side[active] < 0.0) | (x >= most) & (side[active] > 0.0)
        last[active], last_slope[active] = mass, slope
        active = active[~ends]
        factor = 2.0 if distance < 64.0 else 4.0
    points_row, points = np.concatenate(found_row), np.concatenate(found)
    order = np.lexsort((points, points_row))
    points_row, points = points_row[order], points[order]
    new = np.ones(len(points), dtype=np.bool_)
    new[1:] = (np.diff(points) > 0.0) | (np.diff(points_row) > 0)
    return points_row[new], points[new]
