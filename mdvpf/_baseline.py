"""The base of the simple predictors: the protocol, for those written in plain Python.

They absorb one symbol after another in a method of their own, `_advance`; checking, reporting and
copying are alike for all. They follow one hypothesis and discard nothing: a `Step` of theirs has
one particle, an effective sample size of 1 and a share of 0 discarded.
"""

from __future__ import annotations

import signal
import threading
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from mdvpf import _validate
from mdvpf.predictor import Predictor, Stream, read_symbol
from mdvpf.result import Step

START = -2  # how the start of a sequence is written in a context, where MISSING is -1


class Baseline(Predictor):
    """The protocol, for predictors that absorb one symbol after another in Python."""

    _tables: ClassVar[tuple[str, ...]] = ()  # the attributes that are written in place

    def __init__(self, n_symbols: int) -> None:
        self._n_symbols = _validate.integer("n_symbols", n_symbols, low=1)

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
        log_predictive = self._advance(read_symbol(symbol, self._n_symbols))
        return Step(log_predictive, float(self._size()), 1.0, 1, 0.0)

    def copy(self) -> Self:
        """Return an independent copy."""
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        for name in self._tables:
            setattr(other, name, getattr(self, name).copy())
        return other

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()

    def _plan(self, stream: Stream) -> None:
        return None

    @property
    def _chunk(self) -> int:
        return 1000

    def _absorb(
        self, stream: Stream, plan: None, part: slice, reports: NDArray[np.float64]
    ) -> None:
        log_predictives, sizes = [], []
        with interrupts_held():
            starts = stream.starts[part].tolist()
            for symbol, start in zip(stream.symbols[part].tolist(), starts, strict=True):
                if start:
                    self.new_sequence()
                log_predictives.append(self._advance(symbol))
                sizes.append(self._size())
        reports[:, 0] = reports[:, 1] = log_predictives
        reports[:, 2] = sizes
        reports[:, 3:] = 1.0, 1.0, 0.0


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Let Ctrl-C wait until the context ends: in between, a symbol may be half absorbed."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is None or threading.current_thread() is not threading.main_thread():
        yield  # no handler of Python's, or not the thread that it runs in
        return
    caught = []
    signal.signal(signal.SIGINT, lambda *_: caught.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if caught:
            signal.raise_signal(signal.SIGINT)


def row(counts: dict[int, Any], number: int, n_symbols: int) -> NDArray[np.float64]:
    """Return the counts of all symbols, from a table with keys number * n_symbols + symbol."""
    first = number * n_symbols
    return np.array([counts.get(first + symbol, 0) for symbol in range(n_symbols)], dtype=float)


def dirichlet(counts: NDArray[np.float64], total: float, beta: float) -> NDArray[np.float64]:
    """Return the predictive distribution of a Dirichlet-multinomial."""
    return (counts + beta) / (total + len(counts) * beta)
