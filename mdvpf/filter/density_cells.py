"""Integrals of densities over cells, in which they are polynomials.

A range is divided into *cells*, in which the density is a polynomial through 12 nodes, in the
Legendre basis. A cell is divided further until the last coefficients are negligible.

Cells of counts end at halves. A cell of up to 32 counts is replaced by cells of single counts. In a
longer one the sum of a polynomial is its integral with the first two Euler-Maclaurin corrections,
so that a range of a million counts takes a few evaluations.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray

from mdvpf.filter.density_modes import RowDensities

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_N_NODES = 12
_SINGLES = 32  # the longest cell, in counts, that is divided into single counts
_CELL_ERROR = 1e-11  # of the probability of a cell
_RELATIVE_ERROR = 1e-9  # the same, in relation to that probability
_MOST_HALVINGS = 60
_MOST_CELLS = 4096  # of a row; beyond it, cells are not divided further

_NODES, _GAUSS_WEIGHTS = legendre.leggauss(_N_NODES)
_BASIS = np.eye(_N_NODES)
# Coefficients of the polynomial through the values at the nodes.
_TO_COEFFICIENTS = (
    (np.arange(_N_NODES) + 0.5)[:, np.newaxis]
    * legendre.legvander(_NODES, _N_NODES - 1).T
    * _GAUSS_WEIGHTS
)


def _operator(coefficients: NDArray[Any]) -> Floats:
    """Return series as the columns of a matrix with one row more than there are nodes."""
    found = np.zeros((_N_NODES + 1, _N_NODES))
    found[: len(coefficients)] = coefficients
    return found


_INTEGRAL = _operator(legendre.legint(_BASIS, lbnd=-1))
_DERIVATIVE = _operator(legendre.legder(_BASIS))
_THIRD = _operator(legendre.legder(_BASIS, 3))


class Cells(NamedTuple):
    """Cells, sorted by row and place.

    Attributes
    ----------
    row, left, right : ndarray
        The row and the ends.
    series : ndarray of float64, shape (cells, 13)
        Legendre series of the integral from the left end, over [-1, 1].
    sums : ndarray of float64, shape (cells, 1 or 3)
        Integrals of the density; for moments also of its product with the distance from the centre
        of the row, in units of its scale, and with the square of this distance.
    """

    row: Ints
    left: Floats
    right: Floats
    series: Floats
    sums: Floats

    @classmethod
    def joined(cls, parts: list[Cells]) -> Cells:
        """Return all cells, sorted."""
        whole = cls(*(np.concatenate(values) for values in zip(*parts, strict=True)))
        return whole.kept(np.lexsort((whole.left, whole.row)))

    def kept(self, which: NDArray[Any]) -> Cells:
        """Return some of the cells."""
        return Cells(*(values[which] for values in self))


class _Fit(NamedTuple):
    """Polynomials through the values at the nodes of cells.

    Attributes
    ----------
    series : ndarray of float64, shape (cells, 13)
        As in `Cells`.
    ends : ndarray of float64, shape (cells, 2)
        The values at the first and the last number of each cell.
    last : ndarray of float64
        The size of the last two coefficients, times the half width.
    weights : ndarray of float64, shape (cells, 12)
        The integral or sum is that of the values with these weights.
    """

    series: Floats
    ends: Floats
    last: Floats
    weights: Floats


_REAL_FIT = np.concatenate(
    [
        _INTEGRAL @ _TO_COEFFICIENTS,
        legendre.legvander(np.array([-1.0, 1.0]), _N_NODES - 1) @ _TO_COEFFICIENTS,
        _TO_COEFFICIENTS[-2:],
    ]
).T.copy()


def _fit(values: Floats, h: Floats) -> _Fit:
    """Return the polynomials of densities of real numbers, for half widths h."""
    found = values @ _REAL_FIT
    n, width = _N_NODES + 1, h[:, np.newaxis]
    last = np.abs(found[:, n + 2 :]).sum(axis=1) * h
    return _Fit(found[:, :n] * width, found[:, n : n + 2], last, width * _GAUSS_WEIGHTS)


def _fit_counts(values: Floats, t: Floats, h: Floats) -> _Fit:
    """Return the polynomials of probabilities of counts, at nodes t in [-1, 1]."""
    vander = legendre.legvander(t, _N_NODES - 1)
    coefficients = np.linalg.solve(vander, values[..., np.newaxis])[..., 0]
    width = h[:, np.newaxis, np.newaxis]
    operator = _INTEGRAL * width - _DERIVATIVE / (24.0 * width)
    operator += _THIRD * (7.0 / 5760.0) / width**3
    operator[:, 0] -= legendre.legval(-1.0, operator.transpose(1, 0, 2), tensor=True)
    series = (operator @ coefficients[..., np.newaxis])[..., 0]
    total = operator.sum(axis=1)[..., np.newaxis]
    weights = np.linalg.solve(vander.transpose(0, 2, 1), total)[..., 0]
    end = 1.0 - 0.5 / h
    ends = [legendre.legval(side * end, coefficients.T, tensor=False) for side in (-1.0, 1.0)]
    last = np.abs(coefficients[:, -2:]).sum(axis=1) * h
    return _Fit(series, np.stack(ends, 1), last, weights)


class Integration:
    """The division of the ranges of densities into cells."""

    def __init__(
        self, density: RowDensities, centre: Floats, scale: Floats, has_moments: bool
    ) -> None:
        self._density = density
        self._centre, self._scale = centre, scale
        self._has_moments = has_moments
        self._n_cells = np.zeros(len(density), dtype=np.int64)
        self._found: list[Cells] = []

    def run(self, row: Ints, left: Floats, right: Floats) -> Cells:
        """Return the cells of ranges; they are sorted."""
        parent = np.full((2, len(row)), np.inf)  # the error of the cell before, and its integral
        paired = False
        for halvings in range(_MOST_HALVINGS + 1):
            if self._density.is_discrete:
                is_short = right - left <= _SINGLES + 0.5
                if paired:
                    is_short = is_short.reshape(-1, 2).all(axis=1).repeat(2)
                self._singles(row[is_short], left[is_short], right[is_short])
                row, left, right = row[~is_short], left[~is_short], right[~is_short]
                parent = parent[:, ~is_short]
            if len(row) == 0:
                break
            cells, error, least = self._polynomials(row, left, right)
            total = np.abs(cells.sums[:, 0])
            done = error <= least
            if paired:
                # Halving has not reduced an error that was small before: it is rounding.
                kept = (error > 0.2 * parent[0]).reshape(-1, 2).all(axis=1).repeat(2)
                done |= kept & (parent[0] < 1e-4 * parent[1])
            np.add.at(self._n_cells, row, 1)
            done |= self._n_cells[row] >= _MOST_CELLS
            done |= halvings == _MOST_HALVINGS
            self._found.append(cells.kept(done))
            row, left, right = row[~done], left[~done], right[~done]
            middle = left + (right - left) / 2.0
            if self._density.is_discrete:
                middle = np.floor(middle) + 0.5
            parent = np.repeat(np.array([error, total])[:, ~done], 2, axis=1)
            row = row.repeat(2)
            left, right = _interleaved(left, middle), _interleaved(middle, right)
            paired = True
        return Cells.joined(self._found)

    def _polynomials(self, row: Ints, left: Floats, right: Floats) -> tuple[Cells, Floats, Floats]:
        """Return cells, the error of each, and the error that is small enough."""
        middle, h = left + (right - left) / 2.0, (right - left) / 2.0
        x = middle[:, np.newaxis] + h[:, np.newaxis] * _NODES
        shift = 0.0
        if self._density.is_discrete:
            x, shift = np.rint(x), 0.5
        ends = np.stack([left + shift, right - shift], 1)
        found = self._values(row, np.concatenate([ends, x], axis=1))
        at_ends, values = found[:, :2], np.ascontiguousarray(found[:, 2:])
        if self._density.is_discrete:
            fit = _fit_counts(values, (x - middle[:, np.newaxis]) / h[:, np.newaxis], h)
        else:
            fit = _fit(values, h)
        sums = self._sums(row, x, values * fit.weights)
        # A jump between an end and the next node shows at the end only.
        gaps = np.abs(fit.ends - at_ends)
        error = fit.last + 0.02 * h * np.where(np.isfinite(gaps), gaps, 0.0).max(axis=1)
        # The positions of nodes have rounding errors as large as those of the ends.
        rounding = 1e-15 * np.maximum(np.abs(left), np.abs(right)) * values.max(axis=1)
        least = _CELL_ERROR + _RELATIVE_ERROR * np.abs(sums[:, 0]) + rounding
        return Cells(row, left, right, fit.series, sums), error, least

    def _sums(self, row: Ints, x: Floats, parts: Floats) -> Floats:
        """Return sums of the parts, and of their products with distances and their squares."""
        found = [parts.sum(1)]
        if self._has_moments:
            away = (x - self._centre[row, np.newaxis]) / self._scale[row, np.newaxis]
            for _ in range(2):
                with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                    parts = parts * away
                    found.append(parts.sum(1))
        return np.stack(found, 1)

    def _singles(self, row: Ints, left: Floats, right: Floats) -> None:
        """Add cells of a single count each."""
        if len(row) == 0:
            return
        sizes = np.rint(right - left).astype(np.int64)
        which = np.repeat(row, sizes)
        offset = np.arange(len(which)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        x: Floats = np.repeat(np.rint(left + 0.5), sizes) + offset.astype(np.float64)
        values = self._values(which, x[:, np.newaxis])[:, 0]
        series = np.zeros((len(which), _N_NODES + 1))
        series[:, :2] = values[:, np.newaxis] / 2.0
        sums = self._sums(which, x[:, np.newaxis], values[:, np.newaxis])
        self._found.append(Cells(which, x - 0.5, x + 0.5, series, sums))

    def _values(self, row: Ints, x: Floats) -> Floats:
        logs = self._density(np.repeat(row, x.shape[1]), x.ravel()).reshape(x.shape)
        with np.errstate(under="ignore", over="ignore"):
            found: Floats = np.exp(logs)
        return found


def _interleaved(first: Floats, second: Floats) -> Floats:
    return np.stack([first, second], axis=1).ravel()
