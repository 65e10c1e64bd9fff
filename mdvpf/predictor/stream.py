"""A stream as predictors take it: symbols and keys that were checked, as arrays of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdvpf._support import validate
from mdvpf.model import NumberFamily, read_observations, read_times
from mdvpf.predictor.keys import NO_KEY, NONE_ENDS, KeyTable, read_keys
from mdvpf.predictor.labels import with_symbols
from mdvpf.predictor.vocabulary import Label, Vocabulary

MISSING = -1  # how a missing symbol is written in the arrays of a Stream


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """Symbols as the predictors take them: checked, and with the keys as numbers.

    Attributes
    ----------
    symbols : ndarray of int32
        The symbols, `MISSING` where there is none.
    ended : ndarray of int32
        The number of the key whose sequence ends before each symbol; `NONE_ENDS` if none does.
    numbers : ndarray of int32 or None
        The number of the key of each symbol; None if all belong to key=None.
    keys : list of labels or None
        The keys as the user gave them; None without, and in what members of a mixture are given.
    times : ndarray of float64 or None
        The time stamp of each symbol in seconds, NaN where there is none.
    observations : ndarray of float64 or None
        In a family over numbers a row for each observation, NaN for what is missing. Its symbol
        is 0 then, or `MISSING` where all of them are missing.
    """

    symbols: NDArray[np.int32]
    ended: NDArray[np.int32]
    numbers: NDArray[np.int32] | None = None
    keys: list[Label | None] | None = None
    times: NDArray[np.float64] | None = None
    observations: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.symbols)

    def __getitem__(self, part: slice) -> Stream:
        """Return a part of the stream, as members of a mixture take it."""
        numbers = None if self.numbers is None else self.numbers[part]
        times = None if self.times is None else self.times[part]
        rows = None if self.observations is None else self.observations[part]
        return Stream(self.symbols[part], self.ended[part], numbers, None, times, rows)

    @property
    def starts(self) -> NDArray[np.uint8]:
        """Whether a new sequence starts before each symbol, for what takes no keys."""
        starts: NDArray[np.uint8] = (self.ended != NONE_ENDS).astype(np.uint8)
        return starts

    @classmethod
    def read(
        cls,
        symbols: Any,
        lengths: ArrayLike | None,
        n_symbols: int,
        keys: Any = None,
        *,
        is_open: bool = False,
        times: Any = None,
        vocabulary: Vocabulary | None = None,
    ) -> Self:
        """Check the symbols and the lengths of their sequences or their keys, all of them.

        With a vocabulary, labels may stand among the symbols; one that is open takes new ones.
        Keys are not numbered yet: that is done by `numbered`.
        """
        known = n_symbols if is_open else None
        array = _read_symbols(with_symbols(symbols, vocabulary, known), n_symbols, is_open)
        return cls._read_sequences(array, lengths, keys, times)

    @classmethod
    def of_numbers(
        cls, family: NumberFamily, symbols: Any, lengths: Any, keys: Any, times: Any
    ) -> Self:
        """Check the observations of a family over numbers, and what `read` checks beside them."""
        rows = read_observations(family, symbols)
        array = np.where(np.isnan(rows).all(axis=1), MISSING, 0).astype(np.int32)
        return cls._read_sequences(array, lengths, keys, times, rows)

    @classmethod
    def _read_sequences(
        cls,
        array: NDArray[np.int32],
        lengths: Any,
        keys: Any,
        times: Any,
        rows: NDArray[np.float64] | None = None,
    ) -> Self:
        ended = np.full(len(array), NONE_ENDS, dtype=np.int32)
        if lengths is not None:
            if keys is not None:
                raise ValueError("lengths and keys: expected one of them")
            ended[_read_starts(lengths, len(array))] = NO_KEY
        found = None if keys is None else read_keys(keys, len(array))
        stamps = None if times is None else read_times(times, len(array))
        return cls(array, ended, None, found, stamps, rows)

    @classmethod
    def one(cls, symbol: int, number: int = NO_KEY, ended: int = NONE_ENDS) -> Self:
        """Return a stream of one symbol that was checked."""
        numbers = np.array([number], dtype=np.int32) if number != NO_KEY else None
        return cls(np.array([symbol], dtype=np.int32), np.array([ended], dtype=np.int32), numbers)

    def numbered(self, table: KeyTable) -> Stream:
        """Use the keys of the symbols; return the stream with their numbers."""
        if self.keys is None and table.is_plain:
            table.use(None)
            return self
        numbers, ended = table.assign([None] * len(self) if self.keys is None else self.keys)
        both = np.where(ended == NONE_ENDS, self.ended, ended)
        return Stream(self.symbols, both, numbers, self.keys, self.times, self.observations)

    def is_continued(self, last: int) -> NDArray[np.bool_]:
        """Return whether each symbol follows one of the same sequence; `last` is the key before."""
        same: NDArray[np.bool_] = self.ended == NONE_ENDS
        if self.numbers is None:
            same[0] &= last == NO_KEY
        else:
            same &= self.numbers == np.concatenate([[last], self.numbers[:-1]])
        return same


def read_symbol(symbol: Any, n_symbols: int) -> int:
    """Return a symbol as an int, `MISSING` for None and pandas.NA, or raise."""
    if type(symbol) is int and 0 <= symbol < n_symbols:  # the usual case, without a message
        return symbol
    if validate.is_missing(symbol):
        return MISSING
    return validate.integer(
        "symbol", symbol, low=0, high=n_symbols - 1, also=", or None if it is missing"
    )


def _read_symbols(symbols: Any, n_symbols: int, is_open: bool) -> NDArray[np.int32]:
    high = validate.LARGEST_INT if is_open else n_symbols - 1
    values = validate.integers("symbols", symbols, low=0, high=high, missing=MISSING)
    if len(values) == 0:
        raise ValueError("symbols: got none; expected at least one")
    if is_open:
        most = np.maximum.accumulate(np.concatenate([[n_symbols - 1], values[:-1]])) + 1
        if np.any(values > most):
            i = int(np.argmax(values > most))
            raise ValueError(
                f"symbols[{i}]={values[i]}: expected at most {most[i]}, the number of different "
                "symbols before it: an open alphabet numbers them by first appearance"
            )
    return values.astype(np.int32)


def _read_starts(lengths: Any, n: int) -> NDArray[np.int64]:
    """Return where the sequences of the given lengths start."""
    values = validate.integers("lengths", lengths, low=1)
    if values.sum() != n:
        raise ValueError(f"lengths sum to {values.sum()}: expected {n}, the number of symbols")
    return np.cumsum(values) - values
