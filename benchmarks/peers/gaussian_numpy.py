"""VPA with Gaussian emissions in NumPy: dense tables and whole-array operations.

The mathematics is that of ``InfiniteHMM(emission=Gaussian(...))`` with ``oracle="unvisited"``, one
dimension, one sequence and no missing values. A step scores all candidates with a few array
operations, partitions the scores, and copies the tables of the survivors' parents. Log gamma
functions depend on the number of observations only, and are tabulated.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

SPARE_STATES = 4
LONGEST = 20_000  # observations of a state: the size of the table of gamma functions


class GaussianVPA:
    """K particles, each with separate tables.

    Parameters
    ----------
    prior : tuple of float
        Mean, its strength, shape and scale.
    alpha, gamma : float
        As in `mdvpf.InfiniteHMM`.
    budget : int
        K.
    """

    def __init__(
        self, prior: tuple[float, float, float, float], alpha: float, gamma: float, budget: int
    ) -> None:
        self.prior, self.alpha, self.gamma, self.budget = prior, alpha, gamma, budget
        shapes = prior[2] + np.arange(LONGEST) / 2.0
        self._constant = np.array([math.lgamma(a + 0.5) - math.lgamma(a) for a in shapes])
        self._constant -= 0.5 * math.log(math.pi)
        columns = 1 + SPARE_STATES
        self.log_weight = np.zeros(1)
        self.state = np.zeros(1, np.intp)  # 0 is the start state, c + 1 is state c
        self.n_states = np.zeros(1, np.intp)
        self.transition = np.zeros((1, columns + 1, columns))
        self.into = np.zeros((1, columns))
        self.n = np.zeros((1, columns), np.intp)
        self.mean = np.zeros((1, columns))
        self.squares = np.zeros((1, columns))

    def _log_densities(self, y: float) -> NDArray[np.float64]:
        m0, kappa0, a0, b0 = self.prior
        n = self.n
        kappa = kappa0 + n
        away = self.mean - m0
        share = n / kappa
        b = b0 + 0.5 * self.squares + 0.5 * kappa0 * share * away * away
        spread = 2.0 * b * (1.0 + 1.0 / kappa)
        z = y - (m0 + away * share)
        found: NDArray[np.float64] = self._constant[n] - 0.5 * np.log(spread)
        found -= (a0 + 0.5 * n + 0.5) * np.log1p(z * z / spread)
        return found

    def step(self, y: float) -> float:
        """Absorb a number; return its log predictive."""
        each = np.arange(len(self.state))
        seen = self.transition[each, self.state]
        offered = np.where(seen > 0.0, 0.0, self.into)
        total = offered.sum(axis=1) + self.gamma
        row = seen.sum(axis=1) + self.alpha
        mass = seen + offered * (self.alpha / total)[:, np.newaxis]
        mass[each, self.n_states] = self.alpha * self.gamma / total
        with np.errstate(divide="ignore"):
            scores = np.log(mass / row[:, np.newaxis])
        scores += self._log_densities(y)
        scores += self.log_weight[:, np.newaxis]
        best = scores.max()
        log_predictive = best + math.log(np.exp(scores - best).sum())
        flat = scores.ravel()
        possible = np.flatnonzero(flat > -np.inf)
        if len(possible) > self.budget:
            kept = np.argpartition(-flat[possible], self.budget - 1)[: self.budget]
            possible = np.sort(possible[kept])
        parent, state = np.divmod(possible, scores.shape[1])
        self._move(parent, state, y)
        log_weight = flat[possible] - best
        self.log_weight = log_weight - math.log(np.exp(log_weight).sum())
        return float(log_predictive)

    def _move(self, parent: NDArray[np.intp], state: NDArray[np.intp], y: float) -> None:
        each = np.arange(len(parent))
        for name in ("transition", "into", "n", "mean", "squares", "n_states"):
            setattr(self, name, getattr(self, name)[parent])
        self.transition[each, self.state[parent], state] += 1.0
        self.into[each, state] += 1.0
        self.n[each, state] += 1
        away = y - self.mean[each, state]
        self.mean[each, state] += away / self.n[each, state]
        self.squares[each, state] += away * (y - self.mean[each, state])
        self.state = state + 1
        np.maximum(self.n_states, state + 1, out=self.n_states)
        if self.n_states.max() >= self.into.shape[1]:
            self._grow()

    def _grow(self) -> None:
        room = ((0, 0), (0, SPARE_STATES))
        for name in ("into", "n", "mean", "squares"):
            setattr(self, name, np.pad(getattr(self, name), room))
        self.transition = np.pad(self.transition, (room[0], room[1], room[1]))
