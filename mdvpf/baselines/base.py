"""The base of the simple predictors: the protocol, for those written in plain Python.

They absorb one symbol after another in a method of their own, `_advance`; checking, reporting and
copying are alike for all. They follow one hypothesis and discard nothing: a `Step` of theirs has
one particle, an effective sample size of 1 and a share of 0 discarded.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf._support.interrupts import interrupts_held
from mdvpf.checkpoint import State, require, taken
from mdvpf.predictor import Predictor, Step, Stream, read_symbol

START = -2  # how the start of a sequence is written in a context, where MISSING is -1


class Baseline(Predictor):
    """The protocol, for predictors that absorb one symbol after another in Python."""

    _tables: ClassVar[tuple[str, ...]] = ()  # the attributes that are written in place

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
        return Step._make(self._step(read_symbol(symbol, self._n_symbols)))

    def _step(self, symbol: int) -> Sequence[float]:
        return self._advance(symbol), float(self._size()), 1.0, 1, 0.0

    def copy(self) -> Self:
        """Return an independent copy."""
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        for name in self._tables:
            setattr(other, name, getattr(self, name).copy())
        return other

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
            starts = stream.starts[part].tolist()
            for symbol, start in zip(stream.symbols[part].tolist(), starts, strict=True):
                if start:
                    self.new_sequence()
                log_predictives.append(self._advance(symbol))
                sizes.append(self._size())
        reports[:, 0] = reports[:, 1] = log_predictives
        reports[:, 2] = sizes
        reports[:, 3:] = 1.0, 1.0, 0.0


def row(counts: dict[int, Any], number: int, n_symbols: int) -> NDArray[np.float64]:
    """Return the counts of all symbols, from a table with keys number * n_symbols + symbol."""
    first = number * n_symbols
    return np.array([counts.get(first + symbol, 0) for symbol in range(n_symbols)], dtype=float)


def dirichlet(counts: NDArray[np.float64], total: float, beta: float) -> NDArray[np.float64]:
    """Return the predictive distribution of a Dirichlet-multinomial."""
    return (counts + beta) / (total + len(counts) * beta)


# -- checkpoints ---------------------------------------------------------------------------------


def counts_to_arrays(counts: dict[int, Any], kind: str) -> dict[str, NDArray[Any]]:
    """Return a table with keys number * n_symbols + symbol as two arrays."""
    return {
        "keys": np.array(list(counts), dtype=np.int64),
        "counts": np.array(list(counts.values()), dtype=kind),
    }


def counts_from_arrays(
    state: State, kind: str, totals: NDArray[Any], n_symbols: int
) -> dict[int, Any]:
    """Return such a table; the counts of each number must have the given sum."""
    keys = taken(state, "keys", "<i8", (None,))
    counts = taken(state, "counts", kind, (len(keys),))
    require(len(np.unique(keys)) == len(keys), "a count occurs twice")
    require(np.all((keys >= 0) & (keys // n_symbols < len(totals))), "a count of nothing")
    require(np.all(np.isfinite(counts) & (counts >= 0)), "a count is not a number")
    sums = np.bincount(keys // n_symbols, weights=counts, minlength=len(totals))
    # Fading counts are summed in another order here, over a life that may have been long.
    require(np.allclose(sums, totals, rtol=1e-6, atol=0.0), "counts do not sum to their totals")
    return dict(zip(keys.tolist(), counts.tolist(), strict=True))


def read_context(context: Any, n_symbols: int, length: int) -> tuple[int, ...]:
    """Return symbols, missing ones and starts as a tuple of at most that length, or raise."""
    require(isinstance(context, list) and len(context) <= length, "the context is too long")
    symbols = validate.integers("context", context, low=START, high=n_symbols - 1)
    return tuple(symbols.tolist())
