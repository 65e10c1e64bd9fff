"""VPA in Numba: plain loops over dense int32 tables, a full copy of them for every survivor.

It shows what a compiler achieves alone, without sharing, sparse rows or a selection that skips
candidates. The mathematics is that of `mdvpf` with ``oracle="unvisited"``, no bound on the states,
no missing symbols and one sequence. Scores are products of weights and probabilities. Survivors
are the same, ties included: near the cut, scores are ordered by their keys on a grid of 2**-32.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from benchmarks.peers.dense import Dense

KEYS_PER_NAT = 2.0**32

# Outside this band around the cut, products and keys have the same order.
BAND = 2e-9

SPARE_STATES = 2


@njit(cache=True)
def score_candidates(
    symbol, transition, emission, into, state, n_states, weight, alpha, gamma, beta, scores
):
    """Write the score of every candidate, particle by particle; return their number."""
    n_symbols = emission.shape[1]
    n = 0
    for k in range(len(weight)):
        row = transition[k, state[k]]
        column = emission[k, symbol]
        departures = 0
        offered = 0
        for c in range(n_states[k]):
            departures += row[c]
            if row[c] == 0:
                offered += into[k, c]
        share = alpha / (offered + gamma)
        scale = weight[k] / (departures + alpha)
        for c in range(n_states[k]):
            prior = row[c] if row[c] > 0 else share * into[k, c]
            likelihood = (column[c] + beta) / (into[k, c] + n_symbols * beta)
            scores[n] = scale * prior * likelihood
            n += 1
        scores[n] = scale * share * gamma / n_symbols
        n += 1
    return n


@njit(cache=True)
def select(scores, budget):
    """Return the indices of the best candidates, ascending."""
    n = len(scores)
    if n <= budget:
        return np.arange(n)
    cut = np.partition(scores, n - budget)[n - budget]
    tied = np.flatnonzero((scores >= cut * (1 - BAND)) & (scores <= cut * (1 + BAND)))
    above = np.flatnonzero(scores > cut * (1 + BAND))
    if len(above) + len(tied) == budget:
        return np.flatnonzero(scores >= cut * (1 - BAND))
    keys = np.rint(np.log(scores[tied] / scores.max()) * KEYS_PER_NAT)
    best = np.argsort(-keys, kind="mergesort")[: budget - len(above)]
    return np.sort(np.concatenate((above, tied[best])))


@njit(cache=True)
def copy_survivors(
    symbol,
    survivors,
    scores,
    old_transition,
    old_emission,
    old_into,
    old_state,
    old_n_states,
    transition,
    emission,
    into,
    state,
    n_states,
    weight,
):
    """Copy the tables of each survivor and add its transition and emission."""
    total = 0.0
    for i in survivors:
        total += scores[i]
    parent = 0
    first = 0  # candidate of the parent
    for k in range(len(survivors)):
        while survivors[k] - first > old_n_states[parent]:
            first += old_n_states[parent] + 1
            parent += 1
        entered = survivors[k] - first
        transition[k] = old_transition[parent]
        emission[k] = old_emission[parent]
        into[k] = old_into[parent]
        transition[k, old_state[parent], entered] += 1
        emission[k, symbol, entered] += 1
        into[k, entered] += 1
        state[k] = entered
        n_states[k] = max(old_n_states[parent], entered + 1)
        weight[k] = scores[survivors[k]] / total


class NumbaVPA(Dense):
    """Plain loops."""

    def _start(self) -> None:
        self.n = 1
        self.weight = np.ones(self.budget)
        self._allocate(1 + SPARE_STATES)
        self._tables[0][3][0] = -1  # the last row of the transitions: the start state's

    def _allocate(self, columns: int) -> None:
        """Allocate two sets of tables: survivors are copied from the first to the second."""
        k = self.budget
        self._tables = [
            (
                np.zeros((k, columns + 1, columns), np.int32),  # transition
                np.zeros((k, self.n_symbols, columns), np.int32),  # emission
                np.zeros((k, columns), np.int32),  # into
                np.zeros(k, np.int64),  # state
                np.zeros(k, np.int64),  # n_states
            )
            for _ in range(2)
        ]
        self._scores = np.empty(k * (columns + 1))

    def _step(self, symbol: int) -> float:
        old, new = self._tables
        n = score_candidates(
            symbol,
            *(table[: self.n] for table in old),
            self.weight[: self.n],
            self.alpha,
            self.gamma,
            self.beta,
            self._scores,
        )
        scores = self._scores[:n]
        log_predictive = math.log(scores.sum())
        survivors = select(scores, self.budget)
        self.n = len(survivors)
        copy_survivors(symbol, survivors, scores, *old, *new, self.weight)
        self._tables.reverse()
        if new[4][: self.n].max() == new[2].shape[1]:
            self._grow()
        return log_predictive

    def _grow(self) -> None:
        """Add columns; the row of the start state stays the last."""
        transition, emission, into, state, n_states = self._tables[0]
        old = into.shape[1]
        self._allocate(old + SPARE_STATES)
        wider = self._tables[0]
        wider[0][:, :old, :old] = transition[:, :old]
        wider[0][:, -1, :old] = transition[:, -1]
        wider[1][:, :, :old] = emission
        wider[2][:, :old] = into
        wider[3][:] = state
        wider[4][:] = n_states
