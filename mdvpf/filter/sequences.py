"""Split a part of a stream into its sequences, which may be consecutive or interleaved."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mdvpf.predictor import NO_KEY, NONE_ENDS

ENDED = -1  # the key's sequence ended in the part and no new one began


class Sequences(NamedTuple):
    """The indices of the symbols of each sequence in a part of a stream.

    Attributes
    ----------
    order : ndarray of int
        Indices of all symbols, grouped by sequence.
    starts, sizes : ndarray of int
        Sequence i consists of the indices ``order[starts[i]:starts[i] + sizes[i]]``.
    continued : dict of int to int
        Sequences that began before the part, each with the number of its key.
    last : dict of int to int
        For the number of each key, its sequence at the end of the part, or `ENDED`.
    """

    order: NDArray[np.int64]
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    continued: dict[int, int]
    last: dict[int, int]

    @classmethod
    def read(cls, ended: NDArray[np.int32], numbers: NDArray[np.int32] | None) -> Self:
        """Find the sequences, given the key that ends before each symbol and the symbols' keys."""
        if numbers is None:
            starts = np.flatnonzero(ended != NONE_ENDS)
            if len(starts) == 0 or starts[0] > 0:
                starts = np.concatenate([[0], starts])
            sizes = np.diff(np.append(starts, len(ended)))
            continued = {0: NO_KEY} if ended[0] == NONE_ENDS else {}
            return cls(np.arange(len(ended)), starts, sizes, continued, {NO_KEY: len(starts) - 1})
        continued, last, found = {}, {}, []
        n = 0
        for end, number in zip(ended.tolist(), numbers.tolist(), strict=True):
            if end != NONE_ENDS:
                last[end] = ENDED
            if number not in last:
                continued[n] = number
            if last.get(number, ENDED) == ENDED:
                last[number] = n
                n += 1
            found.append(last[number])
        order = np.argsort(found, kind="stable")
        sizes = np.bincount(found)
        return cls(order, np.cumsum(sizes) - sizes, sizes, continued, last)
