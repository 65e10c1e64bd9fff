"""From the reports of the members to the reports of the mixture, symbol by symbol.

Only log predictives are needed, one a member and symbol; whole distributions are not.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mdvpf.mixture.restart import Restart
from mdvpf.mixture.weights import Weights
from mdvpf.predictor import MISSING, N_FIELDS

# Where the fields of `Step` are in a report; with or without the log evidence after the first.
_LOG_PREDICTIVE, _MEAN_STATES, _ESS, _N_PARTICLES, _DISCARDED = 0, -4, -3, -2, -1


def combine(
    weights: Weights,
    restart: Restart | None,
    time: int,
    symbols: NDArray[np.int32],
    found: NDArray[np.float64],
    reports: NDArray[np.float64],
) -> None:
    """Weigh what the members reported of some symbols, and report on the mixture.

    `found` has one report for each symbol, level and member; `time` is that of the first symbol.
    A report of the mixture has those of its particles, then the weight that each member had in
    the prediction, then its log predictive.
    """
    n, n_rows, n_members, _ = found.shape
    before = np.full((n, n_rows, n_members), -math.inf)
    after = before.copy()
    for t, symbol in enumerate(symbols.tolist()):
        n_born = len(weights.log)
        before[t, :n_born] = weights.log
        reports[t, 0] = 0.0
        if symbol != MISSING:
            reports[t, 0] = weights.absorb(found[t, :n_born, :, _LOG_PREDICTIVE])
        after[t, :n_born] = weights.log
        if restart is not None:
            level = restart.level_at(time + t + 1)
            if level:
                weights.replace(level, restart.mass_at(time + t + 1))
    reports[:, 1] = reports[:, 0]
    reports[:, 2:N_FIELDS] = pooled(np.exp(after), found)
    reports[:, N_FIELDS : N_FIELDS + n_members] = np.exp(_log_sum(before))
    reports[:, N_FIELDS + n_members :] = _member_scores(before, found[..., _LOG_PREDICTIVE])


def pooled(weights: NDArray[np.float64], found: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the fields of `Step` but the first, of the particles of all members together.

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
