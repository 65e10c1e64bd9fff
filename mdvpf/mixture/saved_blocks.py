"""The last blocks of a `Recall` as arrays, for a checkpoint.

A block has parts: symbols, or the number of a key whose sequence ended between two symbols. In the
arrays such an end is an entry with `NO_SYMBOL` in place of a symbol.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdvpf.checkpoint import State, read_array, require
from mdvpf.predictor import NO_KEY, NONE_ENDS, Stream

NO_SYMBOL = -2

Block = list[Stream | int]


def times_of(stream: Stream) -> NDArray[np.float64]:
    """Return the time of each symbol, NaN where it is unknown."""
    return np.full(len(stream), math.nan) if stream.times is None else stream.times


def blocks_to_arrays(blocks: list[Block]) -> dict[str, NDArray[Any]]:
    """Return blocks as arrays: lengths of blocks, symbols, ends and numbers of keys, and times."""
    streams = [
        [Stream.one(NO_SYMBOL, ended=part) if isinstance(part, int) else part for part in block]
        for block in blocks
    ]
    parts = [part for block in streams for part in block]
    none = np.empty(0, dtype=np.int32)
    numbers = [
        np.full_like(part.symbols, NO_KEY) if part.numbers is None else part.numbers
        for part in parts
    ]
    arrays: dict[str, NDArray[Any]] = {}
    if any(part.times is not None for part in parts):
        arrays["heard_times"] = np.concatenate([times_of(part) for part in parts])
    return arrays | {
        "heard_lengths": np.array([sum(map(len, block)) for block in streams], dtype=np.int32),
        "heard_symbols": np.concatenate([none, *(part.symbols for part in parts)]),
        "heard_ended": np.concatenate([none, *(part.ended for part in parts)]),
        "heard_numbers": np.concatenate([none, *numbers]),
    }


def blocks_from_arrays(state: State, n_symbols: int, most: int) -> list[Block]:
    """Return the blocks that `blocks_to_arrays` saved, `most` at most, or raise."""
    lengths = read_array(state, "heard_lengths", "<i4", (None,))
    require(1 <= len(lengths) <= most and np.all(lengths >= 0), "blocks out of range")
    n = int(lengths.sum(dtype=np.int64))
    symbols, ended, numbers = (
        read_array(state, f"heard_{name}", "<i4", (n,)) for name in ("symbols", "ended", "numbers")
    )
    require(np.all((symbols >= NO_SYMBOL) & (symbols < n_symbols)), "a symbol out of range")
    require(np.all((ended >= NONE_ENDS) & (numbers >= NO_KEY)), "a key out of range")
    require(np.all(ended[symbols == NO_SYMBOL] >= NO_KEY), "no symbol, and no key that ends")
    keys = numbers if numbers.any() or np.any(ended > NO_KEY) else None
    stops = np.cumsum(lengths).tolist()
    times = None
    if "heard_times" in state.arrays:
        times = read_array(state, "heard_times", "<f8", (n,))
        require(not np.any(np.isinf(times)), "a time out of range")
    whole = Stream(symbols, ended, keys, times=times)
    starts = [0, *stops[:-1]]
    return [_in_parts(whole[start:stop]) for start, stop in zip(starts, stops, strict=True)]


def _in_parts(block: Stream) -> Block:
    """Return the parts of a saved block: symbols, and numbers of keys that ended between them."""
    parts: Block = []
    start = 0
    for i in [*np.flatnonzero(block.symbols == NO_SYMBOL).tolist(), len(block)]:
        if i > start:
            parts.append(block[start:i])
        if i < len(block):
            parts.append(int(block.ended[i]))
        start = i + 1
    return parts
