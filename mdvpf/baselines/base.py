"""`Baseline`: base class of baselines that are written in plain Python.

A subclass absorbs one symbol at a time in `_advance`. `Baseline` checks, reports and copies.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf._support.interrupts import interrupts_held
from mdvpf.predictor import NO_KEY, NONE_ENDS, Label, Predictor, Step, Stream, read_symbol


class Baseline(Predictor):
    """A predictor that absorbs one symbol at a time in Python."""

    def __init__(self, n_symbols: int) -> None:
        self._n_symbols = validate.integer("n_symbols", n_symbols, low=1)

    @property
    def n_symbols(self) -> int:
        """Size of the alphabet."""
        return self._n_symbols

    @abstractmethod
    def _advance(self, symbol: int, number: int) -> float:
        """Absorb a symbol of a key, which may be `MISSING`; return its log predictive."""

    @abstractmethod
    def _size(self) -> int:
        """Return the number of states for reports."""

    def predict_proba(self, key: Label | None = None) -> NDArray[np.float64]:
        """Return the distribution of the next symbol of a key."""
        return self._predict(self._number(key))

    def update(self, symbol: int | None, key: Label | None = None) -> Step:
        """Absorb one symbol of a key; None is a missing one."""
        return Step._make(self._update(read_symbol(symbol, self._n_symbols), key))

    def new_sequence(self, key: Label | None = None) -> None:
        """End the sequence of a key: its next symbol starts a new one."""
        self._new_sequence(key)

    def _step(self, symbol: int, number: int = NO_KEY) -> Sequence[float]:
        return self._advance(symbol, number), float(self._size()), 1.0, 1, 0.0

    def copy(self) -> Self:
        """Return an independent copy."""
        return self._twin()

    def __copy__(self) -> Self:
        return self.copy()

    _may_reject = False

    @property
    def _chunk(self) -> int:
        return 1000

    def _absorb(
        self, stream: Stream, plan: None, part: slice, reports: NDArray[np.float64]
    ) -> None:
        log_predictives, sizes = [], []
        symbols, ended = stream.symbols[part].tolist(), stream.ended[part].tolist()
        numbers = [NO_KEY] * len(symbols)
        if stream.numbers is not None:
            numbers = stream.numbers[part].tolist()
        with interrupts_held():
            for symbol, end, number in zip(symbols, ended, numbers, strict=True):
                if end != NONE_ENDS:
                    self._end(end)
                log_predictives.append(self._advance(symbol, number))
                sizes.append(self._size())
        reports[:, 0] = reports[:, 1] = log_predictives
        reports[:, 2] = sizes
        reports[:, 3:] = 1.0, 1.0, 0.0
