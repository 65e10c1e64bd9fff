"""From the reports of the members to the reports of the mixture, symbol by symbol.

Only log predictives are needed, one a member and symbol; whole distributions are not.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mdvpf._share import Weights
from mdvpf.predictor import MISSING
from mdvpf.restart import Restart
from mdvpf.result import N_FIELDS

_LOG_PREDICTIVE, _MEAN_STATES, _ESS, _N_PARTICLES, _DISCARDED = 0, 2, 3, 4, 5  # in reports


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
    reports[:, 2:N_FIELDS] = _pooled(np.exp(after), found)
    reports[:, N_FIELDS : N_FIELDS + n_members] = np.exp(_log_sum(before))
    reports[:, N_FIELDS + n_members :] = _member_scores(before, found[..., _LOG_PREDICTIVE])


def _pooled(weights: NDArray[np.float64], found: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the fields of `Step` but the first, of the particles of all members together."""
    out = np.empty((len(found), 4))
    out[:, 0] = _sum(weights * found[..., _MEAN_STATES])
    out[:, 1] = 1.0 / _sum(weights**2 / found[..., _ESS])
    out[:, 2] = _sum(found[..., _N_PARTICLES])
    out[:, 3] = _sum(weights * found[..., _DISCARDED])
    return out


def _sum(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum over levels and members, in an order that unborn levels do not change."""
    total = values[:, 0].copy()
    for i in range(1, values.shape[1]):
        total += values[:, i]
    summed: NDArray[np.float64] = total.sum(axis=1)
    return summed


def _member_scores(before: NDArray[np.float64], scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log predictives of each member with its copies, as far as these have weight."""
    alone = np.all(before[:, 1:] == -math.inf, axis=1)
    total = np.where(alone, 0.0, _log_sum(before))
    return np.where(alone, scores[:, 0], _log_sum(before + scores) - total)


def _log_sum(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log of the sum of exponentials over the levels."""
    total: NDArray[np.float64] = np.logaddexp.reduce(logs, axis=1)
    return total
