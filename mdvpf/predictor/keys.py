"""Keys: which of several interleaved sequences a symbol belongs to.

Users name sequences by labels; predictors use small numbers internally. The `KeyTable` of the
outermost predictor maps labels to numbers and records the order of use. A key whose sequence has
not begun or has ended is not in the table, and its number is reused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf.predictor.vocabulary import Label, label_from_json, label_to_json, read_label

NO_KEY = 0  # the number of key=None; no other key has it
NONE_ENDS = -1  # "no key ends", in an array of key numbers


def read_key(name: str, key: Any) -> Label | None:
    """Return a key as one of the built-in types, or raise; None is a key too.

    Examples
    --------
    >>> from mdvpf.predictor.keys import read_key
    >>> read_key("key", ("host", 7))
    ('host', 7)
    """
    return None if key is None else read_label(name, key)


def read_keys(keys: Any, n: int) -> list[Label | None]:
    """Return the keys of n symbols, or raise."""
    values = keys.tolist() if isinstance(keys, np.ndarray) else keys
    found = validate.sequence("keys", values, of="keys, one for each symbol")
    if len(found) != n:
        raise ValueError(f"keys: got {len(found)}; expected {n}, one for each symbol")
    return [read_key(f"keys[{i}]", key) for i, key in enumerate(found)]


class Surplus(NamedTuple):
    """A key that must end to make room for another one."""

    key: Label | None
    number: int


class KeyTable:
    """The keys in use, their numbers, and the order in which they were used.

    Parameters
    ----------
    max_keys : int, optional
        Largest number of keys in use. A further key ends the key that was used longest ago.

    Examples
    --------
    >>> from mdvpf.predictor.keys import KeyTable
    >>> table = KeyTable(max_keys=2)
    >>> numbers, ended = table.assign(["a", "b", "a", "c"])
    >>> numbers.tolist(), ended.tolist()
    ([1, 2, 1, 3], [-1, -1, -1, 2])
    """

    def __init__(self, max_keys: int | None = None) -> None:
        self.max_keys = read_max_keys(max_keys)
        self._numbers: dict[Label | None, int] = {}  # the least recently used key comes first
        self._free: list[int] = []  # numbers of ended keys, for reuse
        self._n_given = 1  # numbers ever assigned, including that of key=None

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, key: object) -> bool:
        return key in self._numbers

    @property
    def is_plain(self) -> bool:
        """Whether no key but key=None is in use."""
        return not self._numbers or (len(self._numbers) == 1 and None in self._numbers)

    def labels(self) -> list[Label | None]:
        """Return the keys in use, the least recently used first."""
        return list(self._numbers)

    def numbers(self) -> list[int]:
        """Return the numbers of the keys in use, in the order of `labels`."""
        return list(self._numbers.values())

    def number(self, key: Label | None) -> int | None:
        """Return the number of a key; None if it is not in use."""
        return self._numbers.get(key)

    def next_number(self, key: Label | None) -> int:
        """Return the number of a key, or the one that it would get."""
        number = self._numbers.get(key)
        if number is not None:
            return number
        if key is None:
            return NO_KEY
        return self._free[-1] if self._free else self._n_given

    def surplus(self, key: Label | None) -> Surplus | None:
        """Return the key that ends when `key` is used, or None."""
        if self.max_keys is None or key in self._numbers or len(self._numbers) < self.max_keys:
            return None
        return Surplus(*next(iter(self._numbers.items())))

    def next_use(self, key: Label | None) -> tuple[int, int]:
        """Return the number that a key will get, and the number that ends, or `NONE_ENDS`."""
        surplus = self.surplus(key)
        return self.next_number(key), NONE_ENDS if surplus is None else surplus.number

    def use(self, key: Label | None) -> int:
        """Record the use of a key; return its number. The caller ends its `surplus` afterwards."""
        number = self._numbers.pop(key, None)
        if number is None:
            number = self.next_number(key)
            if number == self._n_given:
                self._n_given += 1
            elif number != NO_KEY:
                self._free.pop()
        self._numbers[key] = number
        return number

    def end(self, key: Label | None) -> int | None:
        """Remove a key; return its number, None if it was not in use."""
        number = self._numbers.pop(key, None)
        if number is not None and number != NO_KEY:
            self._free.append(number)
        return number

    def assign(self, keys: Sequence[Label | None]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Use keys one after the other.

        Returns the number of each, and that of the key that ends to make room for it, or
        `NONE_ENDS`. The two always differ: the prediction of a symbol comes before the end.
        """
        numbers = np.empty(len(keys), dtype=np.int32)
        ended = np.full(len(keys), NONE_ENDS, dtype=np.int32)
        for i, key in enumerate(keys):
            surplus = self.surplus(key)
            numbers[i] = self.use(key)
            if surplus:
                ended[i] = surplus.number
                self.end(surplus.key)
        return numbers, ended

    def copy(self) -> Self:
        """Return an independent copy."""
        other = object.__new__(type(self))
        other.max_keys = self.max_keys
        other._numbers = self._numbers.copy()
        other._free = self._free.copy()
        other._n_given = self._n_given
        return other

    # -- in a checkpoint -------------------------------------------------------------------

    def to_values(self) -> dict[str, Any]:
        """Return the table as JSON values."""
        return {
            "max_keys": self.max_keys,
            "keys": [None if key is None else label_to_json(key) for key in self._numbers],
            "numbers": list(self._numbers.values()),
            "free": self._free,
            "n_given": self._n_given,
        }

    @classmethod
    def from_values(cls, values: dict[str, Any]) -> Self:
        """Return the table that `to_values` wrote, or raise."""
        self = cls(values["max_keys"])
        keys = [None if key is None else label_from_json(key) for key in values["keys"]]
        n_given = validate.integer("n_given", values["n_given"], low=1, high=2**31 - 1)
        numbers = validate.integers("numbers", values["numbers"], low=0, high=n_given - 1).tolist()
        free = validate.integers("free", values["free"], low=1, high=n_given - 1).tolist()
        given = [number for number in [*numbers, *free] if number != NO_KEY]
        if sorted(given) != list(range(1, n_given)) or len(set(keys)) != len(keys):
            raise ValueError("keys: expected every key and every number once")
        if len(keys) != len(numbers):
            raise ValueError(f"numbers: got {len(numbers)}; expected {len(keys)}, one a key")
        self._numbers = dict(zip(keys, numbers, strict=True))
        if any((key is None) != (number == NO_KEY) for key, number in self._numbers.items()):
            raise ValueError(f"numbers: expected {NO_KEY} for the key None, and for no other")
        if self.max_keys is not None and len(keys) > self.max_keys:
            raise ValueError(f"keys: got {len(keys)}; expected at most max_keys={self.max_keys}")
        self._free, self._n_given = free, n_given
        return self


def read_max_keys(max_keys: Any) -> int | None:
    """Return the limit on keys in use, None for no limit, or raise."""
    if max_keys is None:
        return None
    return validate.integer("max_keys", max_keys, low=1, also=", or None")
