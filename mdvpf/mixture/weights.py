"""Weights of a mixture: Bayes' rule, then a share of everything back to everybody.

Fixed share (Herbster and Warmuth 1998, "Tracking the best expert"): after each symbol the weights
are multiplied by the members' predictions of it and normalised, which is all that the
exponentially weighted average does under log loss. Then a share of the total is spread evenly, so
that no weight is ever too small to come back. Weights are kept as logs: without a share they may
differ by any factor.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate

Rate = float | Literal["1/n"]

_LARGEST_RATE = 0.999


def read_rate(name: str, value: Any, *, zero: bool = True) -> Rate:
    """Return a share of the weights, a number or the name of a decreasing one, or raise."""
    low = 0.0 if zero else 1e-12
    if isinstance(value, str):
        if value != "1/n":
            raise ValueError(f"{name}={value!r}: expected a number, or '1/n'")
        return "1/n"
    return validate.real(name, value, low=low, high=_LARGEST_RATE, also=", or '1/n'")


def rate_at(rate: Rate, n: int) -> float:
    """Return the share at occasion n = 1, 2, ..."""
    return 1.0 / (n + 1.0) if rate == "1/n" else rate


class Weights:
    """Log weights of the members, and how they change.

    Attributes
    ----------
    log : ndarray of shape (n_rows, n_columns)
        Log weight of the member of each level (row) and kind (column). They sum to one.
    n_shared : int
        How many symbols were not missing.
    """

    def __init__(self, n_columns: int, share: Rate) -> None:
        self.share = share
        self.log = np.full((1, n_columns), -math.log(n_columns))
        self.n_shared = 0

    def copy(self) -> Weights:
        """Return an independent copy."""
        other = Weights(self.log.shape[1], self.share)
        other.log = self.log.copy()
        other.n_shared = self.n_shared
        return other

    def absorb(self, log_predictive: NDArray[np.float64]) -> float:
        """Weigh the members by their log predictives of a symbol; return that of the mixture.

        If no member with a weight holds the symbol possible, the weights stay as they are.
        """
        joint = self.log + log_predictive
        top = float(joint.max())
        mixed = top
        if top > -math.inf:
            mixed = top + math.log(float(np.exp(joint - top).sum()))
            joint -= mixed
            self.log = joint
        self.n_shared += 1
        share = rate_at(self.share, self.n_shared)
        if share > 0.0:
            even = math.log(share / self.log.size)
            self.log = np.logaddexp(self.log + math.log1p(-share), even)
        return mixed

    def replace(self, row: int, mass: float) -> None:
        """Give new members of a level, the next or one that exists, a mass; the others the rest."""
        n_columns = self.log.shape[1]
        if row == len(self.log):
            self.log = np.concatenate([self.log, np.empty((1, n_columns))])
        self.log[row] = -math.inf
        top = float(self.log.max())
        newborn = mass
        if top > -math.inf:
            rest = top + math.log(float(np.exp(self.log - top).sum()))
            self.log += math.log1p(-mass) - rest
        else:  # nobody else has any weight
            newborn = 1.0
        self.log[row] = math.log(newborn / n_columns)
