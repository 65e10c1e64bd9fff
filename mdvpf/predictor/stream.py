"""`Stream`: the validated input of a run, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdvpf._support import validate
from mdvpf.model import NumberFamily, read_observations, read_times
from mdvpf.predictor.keys import NO_KEY, NONE_ENDS, KeyTable, read_keys
from mdvpf.predictor.labels import with_symbols
from mdvpf.predictor.vocabulary import Label, Vocabulary

MISSING = -1  # a missing symbol in the arrays of a Stream


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """Validated symbols, with the numbers of their keys.

    Attributes
    ----------
    symbols : ndarray of int32
        The symbols; `MISSING` for a missing one.
    ended : ndarray of int32
        The number of the key whose sequence ends at each symbol; `NONE_ENDS` if none does. If it
        is the key of the symbol, its sequence ends before the symbol. Any other key ends to make
        room, but only after the symbol is predicted, so that `predict_proba` gives the same.
    numbers : ndarray of int32 or None
        The number of the key of each symbol; None if all belong to key=None.
    keys : list of labels or None
        The user's keys; None without keys, and in streams for members of a mixture.
    times : ndarray of float64 or None
        The time stamp of each symbol in seconds, NaN if it is unknown.
    observations : ndarray of float64 or None
        In a family over numbers, a row for each observation; missing parts are NaN. The symbol of
        a row is 0, or `MISSING` if all its parts are missing.
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
        """Return a part of the stream for members of a mixture, without the user's keys."""
        numbers = None if self.numbers is None else self.numbers[part]
        times = None if self.times is None else self.times[part]
        rows = None if self.observations is None else self.observations[part]
        return Stream(self.symbols[part], self.ended[part], numbers, None, times, rows)

    @property
    def starts(self) -> NDArray[np.uint8]:
        """Whether a new sequence starts before each symbol, for code without keys."""
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
        """Validate symbols, lengths, keys and times.

        With a vocabulary, `symbols` may contain labels; an open vocabulary adds new ones. The
        method `numbered` assigns numbers to the keys later.
        """
        known = n_symbols if is_open else None
        array = _read_symbols(with_symbols(symbols, vocabulary, known), n_symbols, is_open)
        return cls._read_sequences(array, lengths, keys, times)

    @classmethod
    def of_numbers(
        cls,
        family: NumberFamily,
        symbols: Any,
        lengths: Any,
        keys: Any,
        times: Any,
        n_seen: Sequence[int] = (),
    ) -> Self:
        """Validate observations of a family over numbers, and the other arguments as `read`."""
        rows = read_observations(family, symbols, n_seen)
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
        """Return a stream of one validated symbol."""
        has_keys = number != NO_KEY or ended > NO_KEY
        numbers = np.array([number], dtype=np.int32) if has_keys else None
        return cls(np.array([symbol], dtype=np.int32), np.array([ended], dtype=np.int32), numbers)

    def numbered(self, table: KeyTable) -> Stream:
        """Record the use of the keys in the table; return the stream with their numbers."""
        if self.keys is None and table.is_plain:
            table.use(None)
            return self
        numbers, ended = table.assign([None] * len(self) if self.keys is None else self.keys)
        both = np.where(ended == NONE_ENDS, self.ended, ended)
        return Stream(self.symbols, both, numbers, self.keys, self.times, self.observations)

    def is_continued(self, last: int) -> NDArray[np.bool_]:
        """Return whether each symbol continues the sequence of the symbol before it.

        `last` is the number of the key of the symbol before the stream.
        """
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
        limit = np.maximum.accumulate(np.concatenate([[n_symbols - 1], values[:-1]])) + 1
        if np.any(values > limit):
            i = int(np.argmax(values > limit))
            raise ValueError(
                f"symbols[{i}]={values[i]}: expected at most {limit[i]}, the number of different "
                "symbols before it: an open alphabet numbers them by first appearance"
            )
    return values.astype(np.int32)


def _read_starts(lengths: Any, n: int) -> NDArray[np.int64]:
    """Return the start indices of sequences of the given lengths."""
    values = validate.integers("lengths", lengths, low=1)
    if values.sum() != n:
        raise ValueError(f"lengths sum to {values.sum()}: expected {n}, the number of symbols")
    return np.cumsum(values) - values
