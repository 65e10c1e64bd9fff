"""VPA in straightforward NumPy: dense int32 tables, `take` copies, `argpartition`.

This is the reference peer of the benchmarks. The mathematics is that of `mdvpf` with
``oracle="unvisited"``, no bound on the states, no missing symbols and one sequence. Survivors are
the same, ties included: scores are ordered by their keys on a grid of 2**-32. `tuned_numpy.py` is
the same filter, tuned, with products in place of logs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.dense import Dense

SPARE_STATES = 2


class DenseVPA(Dense):
    """Log scores; every step allocates new tables."""

    def _start(self) -> None:
        columns = 1 + SPARE_STATES
        self.transition = np.zeros((1, columns + 1, columns), np.int32)  # the last row: start
        self.emission = np.zeros((1, self.n_symbols, columns), np.int32)
        self.into = np.zeros((1, columns), np.int32)
        self.state = np.array([-1])
        self.n_states = np.array([0])
        self.log_weight = np.zeros(1)

    def _step(self, symbol: int) -> float:
        log_scores = self._log_scores(symbol).ravel()
        largest = log_scores.max()
        log_predictive = largest + np.log(np.exp(log_scores - largest).sum())
        self._advance(symbol, log_scores, self._select(log_scores))
        return float(log_predictive)

    def _log_scores(self, symbol: int) -> NDArray[np.float64]:
        """Return the log score of every candidate, a row for each particle; -inf elsewhere."""
        label = np.arange(self.into.shape[1])
        rows = self.transition[np.arange(len(self.state)), self.state]
        offered = np.where(rows == 0, self.into, 0)
        share = self.alpha / (offered.sum(axis=1) + self.gamma)
        transition = np.where(rows > 0, rows, share[:, None] * self.into)
        emission = (self.emission[:, symbol] + self.beta) / (self.into + self.n_symbols * self.beta)
        new = label == self.n_states[:, None]
        transition = np.where(new, (share * self.gamma)[:, None], transition)
        emission = np.where(new, 1 / self.n_symbols, emission)
        total = rows.sum(axis=1) + self.alpha
        with np.errstate(divide="ignore"):
            return np.log(transition * emission) + (self.log_weight - np.log(total))[:, None]

    def _select(self, log_scores: NDArray[np.float64]) -> NDArray[np.intp]:
        """Return the flat indices of the best candidates, ascending."""
        n_candidates = int(self.n_states.sum()) + len(self.n_states)
        if n_candidates <= self.budget:
            return np.flatnonzero(log_scores > -np.inf)
        keys = np.rint((log_scores - log_scores.max()) * 2.0**32)
        best = np.argpartition(keys, keys.size - self.budget)[keys.size - self.budget :]
        cut = keys[best].min()
        above = best[keys[best] > cut]
        equal = np.flatnonzero(keys == cut)[: self.budget - len(above)]
        return np.sort(np.concatenate([above, equal]))

    def _advance(
        self, symbol: int, log_scores: NDArray[np.float64], survivors: NDArray[np.intp]
    ) -> None:
        """Replace the particles by the survivors, each with its transition and emission added."""
        parent, entered = np.divmod(survivors, self.into.shape[1])
        self.transition = self.transition.take(parent, axis=0)
        self.emission = self.emission.take(parent, axis=0)
        self.into = self.into.take(parent, axis=0)
        self.n_states = self.n_states.take(parent)
        particle = np.arange(len(parent))
        self.transition[particle, self.state.take(parent), entered] += 1
        self.emission[particle, symbol, entered] += 1
        self.into[particle, entered] += 1
        self.state = entered
        self.n_states += entered == self.n_states
        weight = np.exp(log_scores[survivors] - log_scores[survivors].max())
        self.log_weight = np.log(weight / weight.sum())
        if self.n_states.max() == self.into.shape[1]:
            self._grow()

    def _grow(self) -> None:
        """Add columns; the row of the start state stays the last."""
        spare = ((0, 0), (0, 0), (0, SPARE_STATES))
        start = np.pad(self.transition[:, -1:], spare)
        rows = np.pad(self.transition[:, :-1], ((0, 0), (0, SPARE_STATES), (0, SPARE_STATES)))
        self.transition = np.concatenate([rows, start], axis=1)
        self.emission = np.pad(self.emission, spare)
        self.into = np.pad(self.into, spare[1:])
