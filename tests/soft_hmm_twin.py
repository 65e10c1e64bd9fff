"""`SoftHMM` in plain NumPy, with one seed.

All counts fade at every step, by the definition of forgetting: there are no units, no lazy rows and
no rescaling.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
START = "start"
MASK = 2**64 - 1


def uniform(key: int, step: int) -> float:
    """The random number of a step: SplitMix64's finalizer of key and step."""
    x = (key + step * 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    x ^= x >> 31
    return ((x >> 11) + 0.5) / 2**53


class SoftTwin:
    def __init__(
        self,
        n_symbols: int,
        n_states: int,
        machine: str,
        forget: float,
        lag: int,
        alpha: float,
        gamma: float,
        beta: float,
        key: int,
    ) -> None:
        self.V, self.M, self.mealy, self.forget, self.lag = (
            n_symbols,
            n_states,
            machine == "mealy",
            forget,
            lag,
        )
        self.alpha, self.gamma, self.beta, self.key = alpha, gamma, beta, key
        self.n = 0
        self.base = np.full(n_states, 1 / n_states)
        self.rows: dict[object, Array] = {}  # counts as of step `as_of`
        self.emission = np.zeros((n_symbols, n_states))
        self.as_of = 1
        self.positions: dict[object, list[tuple[object, Array, int | None, int]]] = {}
        self.stand(None)

    def stand(self, key: object) -> None:
        """Continue with a key: its distribution, its waiting symbols, and their steps."""
        self.held = self.positions.setdefault(key, [(START, np.ones(1), None, 0)])

    # The position is the key of the row of each state.
    def row_keys(self, where: object, symbol: int | None) -> list[object]:
        if where == START:
            return [START]
        return [(j, symbol) if self.mealy else j for j in range(self.M)]

    def age(self, step: int) -> None:
        """Let all counts fade to their weight at a step."""
        factor = (self.as_of / step) ** self.forget
        self.rows = {name: row * factor for name, row in self.rows.items()}
        self.emission = self.emission * factor
        self.as_of = step

    def transition(self, where: object, symbol: int | None) -> Array:
        """Matrix from the states of a position to the next state."""
        nothing = np.zeros(self.M)
        rows = np.array([self.rows.get(k, nothing) for k in self.row_keys(where, symbol)])
        return (rows + self.alpha * self.base) / (rows.sum(axis=1, keepdims=True) + self.alpha)

    def likelihood(self, symbol: int | None) -> Array:
        if symbol is None:
            return np.ones(self.M)
        totals = self.emission.sum(axis=0) + self.V * self.beta
        return (self.emission[symbol] + self.beta) / totals

    def predict_proba(self, key: object = None) -> Array:
        """As of the next step, which ages the counts."""
        self.stand(key)
        twin_counts = (self.rows, self.emission, self.as_of)
        self.age(self.n + 1)
        where, posterior, symbol, _ = self.held[-1]
        states = posterior @ self.transition(where, symbol)
        found = np.array([states @ self.likelihood(y) for y in range(self.V)])
        self.rows, self.emission, self.as_of = twin_counts
        return found

    def update(self, symbol: int | None, key: object = None) -> float:
        self.stand(key)
        self.n += 1
        self.age(self.n)
        where, posterior, before, _ = self.held[-1]
        state = (posterior @ self.transition(where, before)) * self.likelihood(symbol)
        probability = state.sum()
        state = np.where(state < state.max() / 1000, 0.0, state)
        self.held.append(("state", state / state.sum(), symbol, self.n))
        if len(self.held) > self.lag + 1:
            self.count()
        if self.n % 1000 == 0:
            reach = sum(np.minimum(row, 1.0) for row in self.rows.values())
            self.base = (reach + self.gamma / self.M) / (np.sum(reach) + self.gamma)
        return 0.0 if symbol is None else math.log(probability)

    def count(self) -> None:
        """Count the first waiting move and its symbol, with the present counts."""
        step = self.held[1][3]
        message = np.ones(self.M)
        for i in range(len(self.held) - 1, 1, -1):
            where, posterior, before, _ = self.held[i - 1]
            evidence = self.likelihood(self.held[i][2]) * message
            message = (self.transition(where, before) @ evidence) * (posterior > 0)
            message /= message.max()
        where, posterior, before, _ = self.held[0]
        symbol = self.held[1][2]
        joint = posterior[:, None] * self.transition(where, before)
        joint = joint * (self.likelihood(symbol) * message)
        if step <= 1000:
            marginal = joint.sum(axis=0)
            left = uniform(self.key, step) * marginal.sum()
            chosen = int(np.searchsorted(np.cumsum(marginal), left, side="right"))
            one = np.zeros(self.M)
            one[chosen] = 1.0
            joint = joint * one
            self.held[1] = (self.held[1][0], one, symbol, step)
        joint *= (step / self.n) ** self.forget / joint.sum()
        for j, name in enumerate(self.row_keys(where, before)):
            if posterior[j] > 0:
                self.rows[name] = self.rows.get(name, np.zeros(self.M)) + joint[j]
        if symbol is not None:
            self.emission[symbol] += joint.sum(axis=0)
        self.held.pop(0)

    def new_sequence(self, key: object = None) -> None:
        self.stand(key)
        if self.n:
            self.age(self.n)
        while len(self.held) > 1:
            self.count()
        del self.positions[key]
