"""VPA in tuned NumPy, without compiled code.

Every particle has its own dense int32 tables, and a step is a few operations on whole arrays.
Survivors get copies of their parents' tables (`take` into a second buffer). The mathematics is that
of `mdvpf` with ``oracle="unvisited"``, no bound on the states, no missing symbols and one sequence.
Reasons for its speed:

- Scores are products of weights and probabilities. Logarithms are needed only for candidates that
  tie at the cut.
- The values that a step reads of a particle are contiguous: the row of its current state and the
  column of the symbol. Tables have one column more than the largest number of states.
- The column after a particle's last state is that of the new state. With gamma entries and no
  emissions it needs no special case. Later columns have no entries and score 0.
- A partition of the scores gives the value at the cut, and one comparison gives the survivors in
  order. `partition` is several times faster than `argpartition`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.dense import Dense

# Scores are ordered by the keys rint(2**32 * log score). Outside this band around the cut, which
# allows for rounding, products and keys have the same order.
BAND = 2e-9
KEYS_PER_NAT = 2.0**32

# Smaller products may have lost digits; this needs weights that differ by a factor of e**600.
SMALLEST_SCORE = 1e-280

SPARE_STATES = 2


class TunedVPA(Dense):
    """Products, and reused buffers."""

    def _start(self) -> None:
        self.n_candidates = 0

        self.weight = np.ones(1)
        self.state = np.zeros(1, np.intp)  # 0 is the start state, c + 1 is state c
        self.n_states = np.zeros(1, np.intp)
        self._allocate(1 + SPARE_STATES)
        self.into[0, 0] = self.gamma

    def _allocate(self, columns: int) -> None:
        """Allocate tables with this many columns, including the one for the new state."""
        k, v = self.budget, self.n_symbols
        self.columns = columns
        # Two of each: survivors are copied from the first to the second, then they swap.
        self._transition = [np.zeros((k, columns + 1, columns), np.int32) for _ in range(2)]
        self._emission = [np.zeros((k, v, columns), np.int32) for _ in range(2)]
        self._departures = [np.zeros((k, columns + 1)) for _ in range(2)]
        self._into = [np.zeros((k, columns)) for _ in range(2)]
        self._emission_scale = [np.full((k, columns), 1 / (v * self.beta)) for _ in range(2)]
        self._work = np.empty((3, k, columns))

    @property
    def into(self) -> NDArray[np.float64]:
        """Number of times that each state was entered; gamma for the new state."""
        return self._into[0]

    def _grow(self) -> None:
        """Add columns, and copy the tables."""
        old = self.columns
        names = ("_transition", "_emission", "_departures", "_into", "_emission_scale")
        before = {name: getattr(self, name)[0] for name in names}
        self._allocate(old + SPARE_STATES)
        self._transition[0][:, : old + 1, :old] = before["_transition"]
        self._emission[0][:, :, :old] = before["_emission"]
        self._departures[0][:, : old + 1] = before["_departures"]
        self._into[0][:, :old] = before["_into"]
        self._emission_scale[0][:, :old] = before["_emission_scale"]

    def _step(self, symbol: int) -> float:
        scores = self._scores(symbol)
        survivors = self._select(scores)
        total = float(scores.sum())
        self._advance(symbol, survivors, scores.ravel()[survivors])
        return math.log(total)

    def _scores(self, symbol: int) -> NDArray[np.float64]:
        """Return weight times transition times emission of every candidate, a row a particle."""
        n = len(self.weight)
        self.n_candidates += n + int(self.n_states.sum())
        scores, oracle, emission = self._work[:, :n]
        flat_rows = np.arange(n) * (self.columns + 1) + self.state
        rows = self._transition[0].reshape(-1, self.columns).take(flat_rows, axis=0)
        departures = self._departures[0].ravel().take(flat_rows)

        # A transition is either counted or from the oracle: one of the two terms is zero.
        np.multiply(self._into[0][:n], rows == 0, out=oracle)
        share = self.alpha / np.einsum("ij->i", oracle)
        np.multiply(oracle, share[:, None], out=scores)
        scores += rows
        np.add(self._emission[0][:n, symbol], self.beta, out=emission)
        scores *= emission
        scores *= self._emission_scale[0][:n]
        scores *= (self.weight / (departures + self.alpha))[:, None]
        return scores

    def _select(self, scores: NDArray[np.float64]) -> NDArray[np.intp]:
        """Return the flat indices of the best candidates, ascending."""
        flat = scores.ravel()
        n_candidates = len(self.weight) + int(self.n_states.sum())
        if n_candidates <= self.budget:
            survivors = np.flatnonzero(flat)
            assert len(survivors) == n_candidates, "a score underflowed"
            return survivors
        cut = np.partition(flat, flat.size - self.budget)[flat.size - self.budget]
        assert cut > SMALLEST_SCORE, "scores are too far apart for products"
        survivors = np.flatnonzero(flat >= cut * (1 - BAND))
        if len(survivors) == self.budget:
            return survivors

        # Candidates that tie up to rounding: the largest keys win, among equal keys the earliest.
        values = flat[survivors]
        tied = np.flatnonzero(values <= cut * (1 + BAND))
        keys = np.rint(np.log(values[tied] / flat.max()) * KEYS_PER_NAT)
        surplus = len(survivors) - self.budget
        losers = tied[np.argsort(-keys, kind="stable")[len(tied) - surplus :]]
        return np.delete(survivors, losers)

    def _advance(
        self, symbol: int, survivors: NDArray[np.intp], scores: NDArray[np.float64]
    ) -> None:
        """Replace the particles by the survivors, each with its transition and emission added."""
        n = len(survivors)
        parent, entered = np.divmod(survivors, self.columns)
        particle = np.arange(n)

        tables = (
            self._transition,
            self._emission,
            self._departures,
            self._into,
            self._emission_scale,
        )
        for pair in tables:
            pair[0].take(parent, axis=0, out=pair[1][:n], mode="clip")  # "raise" would buffer
            pair.reverse()
        transition, emission, departures, into, emission_scale = (pair[0] for pair in tables)

        # Flat indices: NumPy takes twice as long over a tuple of them.
        row = particle * (self.columns + 1) + self.state.take(parent)
        entry = particle * self.columns + entered
        transition.reshape(-1)[row * self.columns + entered] += 1
        departures.reshape(-1)[row] += 1
        column = (particle * self.n_symbols + symbol) * self.columns
        emission.reshape(-1)[column + entered] += 1

        n_states = self.n_states.take(parent)
        new = np.flatnonzero(entered == n_states)
        n_states[new] += 1
        times_entered = into.reshape(-1)[entry] + 1
        times_entered[new] = 1  # not gamma + 1
        into.reshape(-1)[entry] = times_entered

        # Without missing symbols, a state has emitted as often as it was entered.
        emission_scale.reshape(-1)[entry] = 1 / (times_entered + self.n_symbols * self.beta)
        self.weight = scores / scores.sum()
        self.state = entered + 1
        self.n_states = n_states

        if new.size:
            if int(n_states[new].max()) == self.columns:
                self._grow()
            self._into[0][new, n_states[new]] = self.gamma
