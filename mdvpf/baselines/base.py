"""The base of the simple predictors: the protocol, for those written in plain Python.

They absorb one symbol after another in a method of their own, `_advance`; checking, reporting and
copying are alike for all. They follow one hypothesis and discard nothing: a `Step` of theirs has
one particle, an effective sample size of 1 and a share of 0 discarded.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf._support.interrupts import interrupts_held
from mdvpf.predictor import NO_KEY, NONE_ENDS, Predictor, Step, Stream, read_symbol


class Baseline(Predictor):
    """The protocol, for predictors that absorb one symbol after another in Python."""

    def __init__(self, n_symbols: int) -> None:
        self._n_symbols = validate.integer("n_symbols", n_symbols, low=1)

    @property
    def n_symbols(self) -> int:
        """Size of the alphabet."""
        return self._n_symbols

    @abstractmethod
    def _advance(self, symbol: int) -> float:
        """Absorb a symbol, or `MISSING`, and return its log predictive."""

    @abstractmethod
    def _size(self) -> int:
        """Return what is reported as the number of states."""

    def update(self, symbol: int | None) -> Step:
        """Absorb one symbol; None is a missing one."""
        return Step._make(self._update(read_symbol(symbol, self._n_symbols), None))

    def _step(self, symbol: int, number: int = NO_KEY) -> Sequence[float]:
        return self._advance(symbol), float(self._size()), 1.0, 1, 0.0

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
        with interrupts_held():
            ended = stream.ended[part].tolist()
            for symbol, end in zip(stream.symbols[part].tolist(), ended, strict=True):
                if end != NONE_ENDS:
                    self._end(end)
                log_predictives.append(self._advance(symbol))
                sizes.append(self._size())
        reports[:, 0] = reports[:, 1] = log_predictives
        reports[:, 2] = sizes
        reports[:, 3:] = 1.0, 1.0, 0.0
