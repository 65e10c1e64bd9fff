"""Save and read the numbers of the keys that have a position of their own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf.checkpoint import State, narrow, require, widen
from mdvpf.predictor.keys import NO_KEY

_NAME = "key_numbers"


def numbers_to_arrays(numbers: Iterable[int]) -> dict[str, NDArray[Any]]:
    """Return the array that `read_key_numbers` reads; none if there are no numbers."""
    found = np.array(list(numbers), dtype=np.uint64)
    return {_NAME: narrow(found)} if len(found) else {}


def read_key_numbers(state: State) -> list[int]:
    """Remove and return the numbers of keys of a state; empty if it has no such array."""
    if _NAME not in state.arrays:
        return []
    numbers = widen(state.arrays.pop(_NAME), "<u8")
    require(len(numbers) > 0, "no numbers of keys")
    require(np.all((numbers > NO_KEY) & (numbers <= validate.LARGEST_INT)), "a key out of range")
    require(len(np.unique(numbers)) == len(numbers), "a key occurs twice")
    found: list[int] = numbers.tolist()
    return found
