"""Weights of a mixture: Bayes' rule, then a share of everything back to everybody.

From the reports of the members to the report of the mixture, symbol by symbol: only log predictives
are needed, one a member and symbol; whole distributions are not.

Fixed share (Herbster and Warmuth 1998, "Tracking the best expert"): after each symbol the weights
are multiplied by the members' predictions of it and normalised, which is all that the
exponentially weighted average does under log loss. Then a share of the total is spread evenly, so
that no weight is ever too small to come back. Weights are kept as logs: without a share they may
differ by any factor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf.predictor import MISSING, N_FIELDS

Rate = float | Literal["1/n"]

_LARGEST_RATE = 0.999

# Where the fields of `Step` are in a report; with or without the log evidence after the first.
_LOG_PREDICTIVE, _MEAN_STATES, _ESS, _N_PARTICLES, _DISCARDED = 0, -4, -3, -2, -1


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

    def combine(
        self,
        symbols: NDArray[np.int32],
        found: NDArray[np.float64],
        births: Mapping[int, tuple[int, float]],
        reports: NDArray[np.float64],
    ) -> None:
        """Weigh what the members reported of some symbols, and report on the mixture.

        `found` has one report by symbol, level and member; `births` says after which symbols new
        members come, in which row, with which mass. A report of the mixture has the fields of its
        particles, then the weight that each member had in the prediction, then its log predictive.
        """
        n, n_rows, n_members, _ = found.shape
        before = np.full((n, n_rows, n_members), -math.inf)
        after = before.copy()
        for t, symbol in enumerate(symbols.tolist()):
            n_born = len(self.log)
            before[t, :n_born] = self.log
            reports[t, 0] = 0.0
            if symbol != MISSING:
                reports[t, 0] = self.absorb(found[t, :n_born, :, _LOG_PREDICTIVE])
            after[t, :n_born] = self.log
            if t in births:
                self.replace(*births[t])
        reports[:, 1] = reports[:, 0]
        reports[:, 2:N_FIELDS] = weighted_fields(np.exp(after), found)
        reports[:, N_FIELDS : N_FIELDS + n_members] = np.exp(_log_sum(before))
        reports[:, N_FIELDS + n_members :] = _member_scores(before, found[..., _LOG_PREDICTIVE])


def weighted_fields(
    weights: NDArray[np.float64], found: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the weighted fields of `Step`, but for the first, over all members.

    Sums go over the levels first, one by one: in that order unborn levels change nothing.
    """
    terms = weights[..., np.newaxis] * found[..., _MEAN_STATES:]
    terms[..., _ESS] = weights**2 / found[..., _ESS]
    terms[..., _N_PARTICLES] = found[..., _N_PARTICLES]
    total = terms[:, 0]
    for i in range(1, terms.shape[1]):
        total += terms[:, i]
    out: NDArray[np.float64] = total.sum(axis=1)
    out[:, _ESS] = 1.0 / out[:, _ESS]
    return out


def _member_scores(before: NDArray[np.float64], scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log predictives of each member with its copies, as far as these have weight."""
    alone = np.all(before[:, 1:] == -math.inf, axis=1)
    total = np.where(alone, 0.0, _log_sum(before))
    return np.where(alone, scores[:, 0], _log_sum(before + scores) - total)


def _log_sum(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log of the sum of exponentials over the levels."""
    total: NDArray[np.float64] = np.logaddexp.reduce(logs, axis=1)
    return total
