"""Small predictors with keys, and with an open alphabet, written in plain Python for tests.

`OwnChain` is written as a user would write it: positions by key, whatever the key is.
`NumberedChain` is written as the predictors of the package: by the number of the key. `SavedChain`
can also be saved. `OwnOpenCounts` has an open alphabet.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

import mdvpf
from mdvpf import checkpoint
from mdvpf.predictor import MISSING, NO_KEY, Predictor, read_symbol
from mdvpf.predictor.vocabulary import Label

N_SYMBOLS = 3


class Counted:
    """Counts of pairs of symbols over all keys; add `beta` and normalise."""

    def __init__(self, beta: float) -> None:
        self.beta = beta
        self.counts = np.zeros((N_SYMBOLS + 1, N_SYMBOLS))  # the last row is of first symbols
        self.last: dict[Any, int] = {}

    def distribution(self, key: Any) -> NDArray[np.float64]:
        row = self.counts[self.last.get(key, N_SYMBOLS)] + self.beta
        found: NDArray[np.float64] = row / row.sum()
        return found

    def absorb(self, symbol: int | None, key: Any) -> float:
        if symbol is None:
            return 0.0
        log_predictive = math.log(self.distribution(key)[symbol])
        self.counts[self.last.get(key, N_SYMBOLS), symbol] += 1.0
        self.last[key] = symbol
        return log_predictive

    def copy(self) -> Counted:
        other = Counted(self.beta)
        other.counts, other.last = self.counts.copy(), self.last.copy()
        return other


class OwnChain(Predictor):
    """A first-order chain with keys, with the public methods of the protocol."""

    n_symbols = N_SYMBOLS

    def __init__(self, beta: float = 1.0) -> None:
        self.inside = Counted(beta)

    def predict_proba(self, key: Label | None = None) -> NDArray[np.float64]:
        return self.inside.distribution(key)

    def update(self, symbol: int | None, key: Label | None = None) -> mdvpf.Step:
        code = read_symbol(symbol, N_SYMBOLS)
        found = self.inside.absorb(None if code == MISSING else code, key)
        return mdvpf.Step(found, 1.0, 1.0, 1, 0.0)

    def new_sequence(self, key: Label | None = None) -> None:
        self.inside.last.pop(key, None)

    def copy(self) -> Self:
        other = type(self)(self.inside.beta)
        other.inside = self.inside.copy()
        return other

    def freeze(self) -> FrozenOwnChain:
        other = FrozenOwnChain(self.inside.beta)
        other.inside = self.inside.copy()
        return other


class FrozenOwnChain(OwnChain):
    """The chain, when it no longer learns."""

    def update(self, symbol: int | None, key: Label | None = None) -> mdvpf.Step:
        counts = self.inside.counts.copy()
        step = super().update(symbol, key)
        self.inside.counts = counts
        return step


class NumberedChain(Predictor):
    """A first-order chain with keys, with the hooks of the package's own predictors."""

    n_symbols = N_SYMBOLS

    def __init__(self, beta: float = 1.0) -> None:
        self.inside = Counted(beta)

    def predict_proba(self, key: Label | None = None) -> NDArray[np.float64]:
        return self._predict(self._number(key))

    def update(self, symbol: int | None, key: Label | None = None) -> mdvpf.Step:
        return mdvpf.Step._make(self._update(read_symbol(symbol, N_SYMBOLS), key))

    def new_sequence(self, key: Label | None = None) -> None:
        self._new_sequence(key)

    def copy(self) -> Self:
        other = self._twin()
        other.inside = self.inside.copy()
        return other

    def _step(self, symbol: int, number: int = NO_KEY) -> Sequence[float]:
        found = self.inside.absorb(None if symbol == MISSING else symbol, number)
        return found, 1.0, 1.0, 1, 0.0

    def _predict(self, number: int = NO_KEY) -> NDArray[np.float64]:
        return self.inside.distribution(number)

    def _end(self, number: int = NO_KEY) -> None:
        self.inside.last.pop(number, None)


@checkpoint.register("SavedChain of the tests")
class SavedChain(NumberedChain):
    """A `NumberedChain` that can be saved and frozen."""

    def __init__(self, beta: float = 1.0, learns: bool = True) -> None:
        super().__init__(beta)
        self.learns = learns

    def freeze(self) -> Self:
        other = self.copy()
        other.learns = False
        return other

    def _step(self, symbol: int, number: int = NO_KEY) -> Sequence[float]:
        before = self.inside.counts.copy()
        fields = super()._step(symbol, number)
        if not self.learns:
            self.inside.counts = before
        return fields

    def _to_state(self) -> checkpoint.State:
        numbers = np.array(list(self.inside.last), dtype=np.int64)
        last = np.array(list(self.inside.last.values()), dtype=np.int64)
        arrays = {"counts": self.inside.counts, "numbers": numbers, "last": last}
        return checkpoint.State({"beta": self.inside.beta, "learns": self.learns}, arrays)

    @classmethod
    def _from_state(cls, state: checkpoint.State, given: dict[str, Any]) -> Self:
        self = cls(**state.values)
        self.inside.counts = state.arrays.pop("counts").astype(np.float64)
        pairs = [state.arrays.pop(name).tolist() for name in ("numbers", "last")]
        self.inside.last = dict(zip(*pairs, strict=True))
        return self


class OwnOpenCounts(Predictor):
    """Counts of symbols of an open alphabet: n[y] - discount, and the rest for a new symbol.

    Keys are accepted and make no difference.
    """

    is_open = True

    def __init__(self, discount: float = 0.5) -> None:
        self.discount = discount
        self.counts: list[int] = []

    @property
    def n_symbols(self) -> int:
        return len(self.counts)

    def predict_proba(self, key: Label | None = None) -> NDArray[np.float64]:
        new = 1.0 + self.discount * len(self.counts)
        shares = np.array([n - self.discount for n in self.counts] + [new])
        found: NDArray[np.float64] = shares / shares.sum()
        return found

    def update(self, symbol: int | None, key: Label | None = None) -> mdvpf.Step:
        code = read_symbol(symbol, self.n_symbols + 1)
        log_predictive = 0.0
        if code != MISSING:
            log_predictive = math.log(self.predict_proba()[code])
            if code == len(self.counts):
                self.counts.append(0)
            self.counts[code] += 1
        return mdvpf.Step(log_predictive, 1.0, 1.0, 1, 0.0)

    def new_sequence(self, key: Label | None = None) -> None:
        pass

    def copy(self) -> Self:
        other = type(self)(self.discount)
        other.counts = self.counts.copy()
        return other


def interleaved(n: int, n_keys: int, seed: int) -> tuple[list[int | None], list[str | None]]:
    """Return symbols, some of them missing, and their keys, one of which is None."""
    rng = np.random.default_rng(seed)
    symbols = [int(y) if rng.random() > 0.1 else None for y in rng.integers(N_SYMBOLS, size=n)]
    labels = [None, *(f"key {i}" for i in range(1, n_keys))]
    return symbols, [labels[i] for i in rng.integers(n_keys, size=n)]
