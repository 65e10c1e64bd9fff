"""Weights of a mixture: Bayes' rule followed by fixed share.

`Weights` combines the reports of the members into the report of the mixture. It needs one log
predictive for each member and symbol, not whole distributions.

Fixed share (Herbster and Warmuth 1998, "Tracking the best expert"): after each symbol, the weights
are multiplied by the members' predictions and normalised, as in the exponentially weighted average
under log loss. Then a share of the total is spread evenly, which keeps every weight large enough to
recover. Weights are stored as logs, because without a share their ratios are unbounded.
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

# Indices of the fields of `Step` in a report, valid with and without the log evidence at index 1.
_LOG_PREDICTIVE, _MEAN_STATES, _ESS, _N_PARTICLES, _DISCARDED = 0, -4, -3, -2, -1


def read_rate(name: str, value: Any, *, zero: bool = True) -> Rate:
    """Return a share of the weights, a number or "1/n", or raise."""
    low = 0.0 if zero else 1e-12
    if isinstance(value, str):
        if value != "1/n":
            raise ValueError(f"{name}={value!r}: expected a number, or '1/n'")
        return "1/n"
    return validate.real(name, value, low=low, high=_LARGEST_RATE, also=", or '1/n'")


def rate_at(rate: Rate, n: int) -> float:
    """Return the share at the n-th update, from n = 1."""
    return 1.0 / (n + 1.0) if rate == "1/n" else rate


class Weights:
    """Log weights of the members, and their updates.

    Attributes
    ----------
    log : ndarray of shape (n_rows, n_columns)
        Log weight of each member (column) at each restart level (row). The weights sum to one.
    n_shared : int
        Number of symbols that were not missing.
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
        """Update the weights by the members' log predictives; return that of the mixture.

        If every member with a positive weight gives the symbol probability zero, Bayes' rule is
        skipped.
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
        """Give the new members of a row the weight `mass`, and scale all others to the rest.

        The row exists already, or is the next one.
        """
        n_columns = self.log.shape[1]
        if row == len(self.log):
            self.log = np.concatenate([self.log, np.empty((1, n_columns))])
        self.log[row] = -math.inf
        top = float(self.log.max())
        newborn = mass
        if top > -math.inf:
            rest = top + math.log(float(np.exp(self.log - top).sum()))
            self.log += math.log1p(-mass) - rest
        else:  # no other member has any weight
            newborn = 1.0
        self.log[row] = math.log(newborn / n_columns)

    def combine(
        self,
        symbols: NDArray[np.int32],
        found: NDArray[np.float64],
        births: Mapping[int, tuple[int, float]],
        reports: NDArray[np.float64],
    ) -> None:
        """Combine the members' reports of many symbols into `reports` of the mixture.

        `found` is indexed by symbol, level and member. `births` maps the index of a symbol to the
        row and the mass of the members born after it. A report of the mixture has the fields of a
        filter's report, then the weight of each member before the symbol, then the members' log
        predictives.
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
    """Return the fields of `Step` after the first, averaged over all members by weight.

    Levels are summed first, one by one, so levels without members do not change any bit.
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
    """Return the log predictive of each member averaged with its restarted copies by weight."""
    alone = np.all(before[:, 1:] == -math.inf, axis=1)
    total = np.where(alone, 0.0, _log_sum(before))
    return np.where(alone, scores[:, 0], _log_sum(before + scores) - total)


def _log_sum(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log of the sum of exponentials over the levels."""
    total: NDArray[np.float64] = np.logaddexp.reduce(logs, axis=1)
    return total
