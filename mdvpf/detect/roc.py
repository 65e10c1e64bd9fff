"""Receiver operating characteristic of scores that separate strange from normal items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mdvpf._support.tables import Estimate


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """The receiver operating characteristic of scores: hits against false alarms.

    Attributes
    ----------
    false_alarms, hits : ndarray
        Shares of the normal and of the strange items with a score of at least each threshold, from
        the highest threshold (no item) to the lowest (all).

    Examples
    --------
    >>> import numpy as np
    >>> from mdvpf.detect.roc import Curve
    >>> curve = Curve.of(np.array([3.0, 2.0, 1.0, 0.0]), np.array([True, False, True, False]))
    >>> curve.area, curve.hits_at(0.0), curve.hits_at(0.5)
    (0.75, 0.5, 1.0)
    """

    false_alarms: NDArray[np.float64]
    hits: NDArray[np.float64]

    @classmethod
    def of(cls, scores: NDArray[np.float64], strange: NDArray[np.bool_]) -> Curve:
        """Return the curve of scores, given which items are strange."""
        order = np.argsort(-scores, axis=None, kind="stable")
        labels = strange.ravel()[order]
        if labels.all() or not labels.any():
            raise ValueError("strange: expected both strange and normal items")
        ends = np.flatnonzero(np.diff(scores.ravel()[order], append=-np.inf))  # of equal scores
        hits = np.cumsum(labels)[ends] / labels.sum()
        false_alarms = np.cumsum(~labels)[ends] / (~labels).sum()
        return cls(np.append(0.0, false_alarms), np.append(0.0, hits))

    @property
    def area(self) -> float:
        """Area under the curve: probability that a strange item scores higher than a normal one."""
        return float(np.trapezoid(self.hits, self.false_alarms))

    def hits_at(self, false_alarms: float) -> float:
        """Return the largest share of hits with at most this share of false alarms."""
        return float(self.hits[self.false_alarms <= false_alarms].max())


def area(
    scores: NDArray[np.float64],
    strange: NDArray[np.bool_],
    minus: NDArray[np.float64] | None = None,
) -> Estimate:
    """Return the area under the curve, with its jackknife standard error over rows.

    Rows must be independent, as users are, and may contain dependent entries, such as the blocks of
    one user. With other scores of the same entries in `minus`, return the difference of the areas.
    """

    def compute(rows: NDArray[np.bool_]) -> float:
        if strange[rows].all() or not strange[rows].any():
            return float("nan")
        other = 0.0 if minus is None else Curve.of(minus[rows], strange[rows]).area
        return Curve.of(scores[rows], strange[rows]).area - other

    n = len(scores)
    left_out = np.array([compute(rows) for rows in ~np.eye(n, dtype=bool)])
    return Estimate(compute(np.ones(n, dtype=bool)), float(np.sqrt((n - 1) * left_out.var())))
