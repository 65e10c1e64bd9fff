"""The last symbols of a stream, kept to explain incidents.

A `Trace` is a ring buffer: it grows to `length` symbols, and then every new symbol overwrites the
oldest one. Times count the symbols over the life of the detector, from 0.

A trace over numbers (`n_dims`) also has the numbers of each observation, and what was expected of
them. Its symbols are 0, or -1 where all numbers are missing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf._support.attributes import ReadOnly
from mdvpf._support.shown import shown_fields
from mdvpf.predictor import MISSING, Label, read_key
from mdvpf.predictor.vocabulary import label_from_json, label_to_json

LARGEST_TIME = 2**62

_KINDS = {
    "symbol": "<i4",
    "previous": "<i4",
    "surprise": "<f8",
    "entropy": "<f8",
    "excess": "<f8",
    "expected": "<i4",
    "probability": "<f8",
}
_RECORD = np.dtype([(name, np.dtype(kind).newbyteorder("=")) for name, kind in _KINDS.items()])
_ROWS = ("numbers", "expected_numbers")
_NUMBERS = ("surprise", "entropy", "excess", "probability")
_SMALLEST_RING = 64
_ROUNDED = 1.0 + 1e-6  # largest value of a rounded probability


@dataclass(frozen=True, slots=True, eq=False)
class TraceWindow:
    """The symbols of a trace from one time to another, as arrays of one length.

    Attributes
    ----------
    time : ndarray of int64
        Time of each symbol.
    symbol : ndarray of int32
        The symbols; -1 where one is missing.
    previous : ndarray of int32
        The symbol before each in the sequence of the same key; -1 if there is none, or if it is
        missing or unknown.
    key : list of labels or None
        Which of the interleaved sequences each symbol belongs to.
    surprise : ndarray of float64
        -log predictive, in nats.
    entropy : ndarray of float64
        The entropy of the prediction, in nats; NaN if unknown.
    excess : ndarray of float64
        The contribution of each symbol to the judged level; NaN if unknown.
    expected : ndarray of int32
        The likeliest symbol of the prediction; -1 if unknown.
    probability : ndarray of float64
        Its probability; NaN if unknown.
    numbers, expected_numbers : ndarray of float64, shape (n, n_dims)
        Over numbers, the observations and what was expected; NaN if missing or unknown.

    Examples
    --------
    >>> from mdvpf.detect.trace import Trace
    >>> trace = Trace(length=100)
    >>> trace.add(3, surprise=0.5)
    >>> len(trace.window(0, 0))
    1
    """

    time: NDArray[np.int64]
    symbol: NDArray[np.int32]
    previous: NDArray[np.int32]
    key: list[Label | None]
    surprise: NDArray[np.float64]
    entropy: NDArray[np.float64]
    excess: NDArray[np.float64]
    expected: NDArray[np.int32]
    probability: NDArray[np.float64]
    numbers: NDArray[np.float64]
    expected_numbers: NDArray[np.float64]

    def __repr__(self) -> str:
        return shown_fields(self)

    def __len__(self) -> int:
        return len(self.time)


class Trace:
    """The last symbols of a stream, with the surprise and the expectation of each.

    A kept symbol takes some 44 bytes, plus its key, plus 16 bytes for each number.

    Parameters
    ----------
    length : int
        Number of symbols to keep.
    time : int, default 0
        Time of the first symbol that will be added.
    n_dims : int, default 0
        Numbers in an observation; 0 for symbols.

    Attributes
    ----------
    length, n_dims : int
        As passed.
    time : int
        Time of the next symbol.

    Examples
    --------
    >>> from mdvpf.detect.trace import Trace
    >>> trace = Trace(length=3)
    >>> for symbol in [5, 6, 7, 8]:
    ...     trace.add(symbol, surprise=1.0)
    >>> trace.first_time, trace.time
    (1, 4)
    >>> trace.window(0, 2).symbol.tolist()  # time 0 is overwritten
    [6, 7]
    """

    length: ReadOnly[int] = ReadOnly()
    n_dims: ReadOnly[int] = ReadOnly()

    def __init__(self, length: int, *, time: int = 0, n_dims: int = 0) -> None:
        self.length = validate.integer("length", length, low=1)
        self.n_dims = validate.integer("n_dims", n_dims, low=0)
        self.time = validate.integer("time", time, low=0, high=LARGEST_TIME)
        self._ring = np.empty(min(self.length, _SMALLEST_RING), dtype=_RECORD)
        # The numbers and what was expected of them, for each slot of the ring.
        self._rows = np.empty((len(self._ring), 2, self.n_dims))
        self._keys: list[Label | None] = []  # of each slot of the ring that is in use
        self._next = 0  # slot of the next symbol
        # Time and symbol of the last one of each unfinished sequence, while the ring has it.
        self._last: dict[Label | None, tuple[int, int]] = {}

    def __repr__(self) -> str:
        return f"Trace(length={self.length}, time={self.time}, {len(self)} kept)"

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def first_time(self) -> int:
        """Time of the oldest symbol in the trace; if it is empty, time of the next symbol.

        Examples
        --------
        >>> from mdvpf.detect.trace import Trace
        >>> Trace(length=10).first_time
        0
        """
        return self.time - len(self._keys)

    def add(
        self,
        symbol: int | None,
        key: Label | None = None,
        surprise: float = 0.0,
        *,
        entropy: float = math.nan,
        excess: float | None = None,
        expected: int | None = None,
        probability: float = math.nan,
        numbers: Sequence[float] | NDArray[np.float64] | None = None,
        expected_numbers: Sequence[float] | NDArray[np.float64] | None = None,
    ) -> None:
        """Add the next symbol of the stream.

        Parameters
        ----------
        symbol : int or None
            The symbol; None or -1 if it is missing.
        key : label, optional
            Which of the interleaved sequences it belongs to.
        surprise : float, default 0.0
            -log predictive of the symbol, in nats; may be infinite. Over numbers, where it is that
            of a density, it may be negative, as may `entropy`.
        entropy : float, optional
            The entropy of the prediction, in nats; NaN if unknown.
        excess : float, optional
            The contribution of the symbol to the judged level: by default its surprise; in
            detectors that judge these, surprise minus entropy or a log ratio. NaN if unknown.
        expected : int, optional
            The likeliest symbol of the prediction; None or -1 if unknown.
        probability : float, optional
            The probability of `expected`; NaN if unknown.
        numbers, expected_numbers : sequence of float, optional
            Over numbers, the observation and what was expected; NaN if missing or unknown.

        Examples
        --------
        >>> from mdvpf.detect.trace import Trace
        >>> trace = Trace(length=10)
        >>> trace.add(2, "ann", 1.5, entropy=0.5, excess=1.0, expected=4, probability=0.75)
        >>> trace.window(0, 0).expected.tolist()
        [4]
        """
        least = -math.inf if self.n_dims else 0.0
        rows = (numbers, expected_numbers)
        self.append(
            _code("symbol", symbol),
            read_key("key", key),
            _number("surprise", surprise, least, math.inf, unknown=False),
            _number("entropy", entropy, least, math.inf),
            _number("excess", surprise if excess is None else excess, -math.inf, math.inf),
            _code("expected", expected),
            _number("probability", probability, 0.0, _ROUNDED),
            *(_row(name, row, self.n_dims) for name, row in zip(_ROWS, rows, strict=True)),
        )

    def append(
        self,
        symbol: int,
        key: Label | None,
        surprise: float,
        entropy: float,
        excess: float,
        expected: int,
        probability: float,
        numbers: Sequence[float] | NDArray[np.float64] | None = None,
        expected_numbers: Sequence[float] | NDArray[np.float64] | None = None,
    ) -> None:
        """Add the next symbol, as `add` does, without a check of the values.

        Examples
        --------
        >>> from mdvpf.detect.trace import Trace
        >>> trace = Trace(length=10)
        >>> trace.append(2, "ann", 1.5, 0.5, 1.0, 4, 0.75)
        >>> trace.window(0, 0).expected.tolist()
        [4]
        """
        slot = self._next
        if slot == len(self._ring):
            grown = np.empty(min(self.length, 2 * slot), dtype=_RECORD)
            grown[:slot] = self._ring
            self._ring = grown
            self._rows = np.concatenate([self._rows, self._rows[: len(grown) - slot]])
        last = self._last.get(key)
        previous = MISSING if last is None else last[1]
        self._last[key] = self.time, symbol
        if slot == len(self._keys):
            self._keys.append(key)
        else:
            oldest = self._keys[slot]
            if self._last.get(oldest, (-1, MISSING))[0] == self.first_time:
                del self._last[oldest]
            self._keys[slot] = key
        self._ring[slot] = symbol, previous, surprise, entropy, excess, expected, probability
        if self.n_dims:
            self._rows[slot, 0] = math.nan if numbers is None else numbers
            self._rows[slot, 1] = math.nan if expected_numbers is None else expected_numbers
        self.time += 1
        self._next = (slot + 1) % self.length

    def new_sequence(self, key: Label | None = None) -> None:
        """End the sequence of a key: its next symbol has no previous one.

        Examples
        --------
        >>> from mdvpf.detect.trace import Trace
        >>> trace = Trace(length=10)
        >>> trace.add(1)
        >>> trace.add(2)
        >>> trace.new_sequence()
        >>> trace.add(3)
        >>> trace.window(0, 2).previous.tolist()
        [-1, 1, -1]
        """
        self._last.pop(read_key("key", key), None)

    def window(self, start: int, end: int) -> TraceWindow:
        """Return the symbols from time `start` to time `end`, both included, that are kept.

        Examples
        --------
        >>> from mdvpf.detect.trace import Trace
        >>> trace = Trace(length=2)
        >>> for symbol in [5, 6, 7]:
        ...     trace.add(symbol)
        >>> trace.window(0, 10).time.tolist()
        [1, 2]
        """
        start = validate.integer("start", start, low=0, high=LARGEST_TIME)
        end = validate.integer("end", end, low=start, high=LARGEST_TIME)
        first, stop = max(start, self.first_time), min(end + 1, self.time)
        time = np.arange(first, max(first, stop), dtype=np.int64)
        slots = (self._next + time - self.time) % max(len(self), 1)
        found = self._ring[slots]
        columns: dict[str, Any] = {name: found[name].copy() for name in _KINDS}
        columns |= {name: self._rows[slots, i] for i, name in enumerate(_ROWS)}
        return TraceWindow(time=time, key=[self._keys[slot] for slot in slots.tolist()], **columns)

    def copy(self) -> Self:
        """Return an independent copy.

        Examples
        --------
        >>> from mdvpf.detect.trace import Trace
        >>> trace = Trace(length=10)
        >>> trace.copy().add(1)
        >>> len(trace)
        0
        """
        twin = type(self)(self.length, time=self.time, n_dims=self.n_dims)
        twin._ring = self._ring.copy()
        twin._rows = self._rows.copy()
        twin._keys = self._keys.copy()
        twin._next = self._next
        twin._last = self._last.copy()
        return twin

    def __copy__(self) -> Self:
        return self.copy()

    # -- in a checkpoint -------------------------------------------------------------------

    def to_values(self) -> dict[str, Any]:
        """Return the trace as plain values, oldest symbol first.

        The values that are arrays have types that a checkpoint can hold in `State.arrays`; JSON
        can hold all the others.

        Examples
        --------
        >>> from mdvpf.detect.trace import Trace
        >>> trace = Trace(length=10)
        >>> trace.add(4, "ann")
        >>> values = trace.to_values()
        >>> values["length"], values["time"], values["keys"], values["symbol"].tolist()
        (10, 1, ['ann'], [4])
        """
        kept = self.window(0, LARGEST_TIME)
        numbers: dict[Label | None, int] = {}
        codes = [numbers.setdefault(key, len(numbers)) for key in kept.key]
        rows = _ROWS if self.n_dims else ()
        return {
            "length": self.length,
            "time": self.time,
            "keys": [None if key is None else label_to_json(key) for key in numbers],
            "key": np.array(codes, dtype=np.int32),
            "last": np.array(sorted(time for time, _ in self._last.values()), dtype=np.int64),
            **{name: getattr(kept, name) for name in (*_KINDS, *rows)},
        }

    @classmethod
    def from_values(cls, values: dict[str, Any], n_dims: int = 0) -> Self:
        """Return the trace that `to_values` wrote, or raise.

        Examples
        --------
        >>> from mdvpf.detect.trace import Trace
        >>> trace = Trace(length=10)
        >>> trace.add(4, "ann")
        >>> Trace.from_values(trace.to_values()).window(0, 0).key
        ['ann']
        """
        names = {"length", "time", "keys", "key", "last", *_KINDS, *(_ROWS if n_dims else ())}
        if not isinstance(values, dict) or set(values) != names:
            found = sorted(map(str, values)) if isinstance(values, dict) else type(values).__name__
            raise ValueError(f"values: got {found}; expected {sorted(names)}")
        self = cls(values["length"], time=values["time"], n_dims=n_dims)
        symbols = _array("symbol", values["symbol"], "<i4")
        n = len(symbols)
        if n > min(self.length, self.time):
            raise ValueError(
                f"symbol: got {n} symbols; expected at most length={self.length} and "
                f"time={self.time}"
            )
        # The ring has the size that `add` would have given it.
        self._ring = np.empty(max(n, min(self.length, _SMALLEST_RING)), dtype=_RECORD)
        for name, kind in _KINDS.items():
            self._ring[name][:n] = _column(name, values[name], kind, n, signed=n_dims > 0)
        self._rows = np.empty((len(self._ring), 2, n_dims))
        for i, name in enumerate(_ROWS if n_dims else ()):
            self._rows[:n, i] = _array(name, values[name], "<f8", (n, n_dims))
        self._keys = _keys(values["keys"], _array("key", values["key"], "<i4", n))
        self._next = n % self.length
        self._restore_sequences(_array("last", values["last"], "<i8"))
        return self

    def _restore_sequences(self, last: NDArray[Any]) -> None:
        """Restore the last symbol of the sequences that go on, from their times, or raise."""
        n = len(self._keys)
        symbols, previous = (self._ring[name][:n].tolist() for name in ("symbol", "previous"))
        found: dict[Label | None, int] = {}  # index of the symbol before
        for i, key in enumerate(self._keys):
            before = symbols[found[key]] if key in found else previous[i]
            if previous[i] not in (MISSING, before):
                raise ValueError(f"previous[{i}]={previous[i]}: expected {before}, or {MISSING}")
            found[key] = i
        for time in last.tolist():
            i = time - self.first_time
            if not 0 <= i < n or found[self._keys[i]] != i or self._keys[i] in self._last:
                raise ValueError(f"last: got {time}; expected times of the last symbols of keys")
            self._last[self._keys[i]] = time, symbols[i]


def _code(name: str, symbol: int | None) -> int:
    """Return a symbol as an int, `MISSING` for None, or raise."""
    if symbol is None:
        return MISSING
    if type(symbol) is int and MISSING <= symbol <= validate.LARGEST_INT:
        return symbol
    return validate.integer(name, symbol, low=MISSING, also=", or None")


def _number(name: str, value: float, low: float, high: float, *, unknown: bool = True) -> float:
    """Return a float in ``low..high``, or NaN where the value may be unknown, or raise."""
    if type(value) is float and low <= value <= high:
        return value
    if unknown and isinstance(value, (float, np.floating)) and math.isnan(value):
        return math.nan
    return validate.real(name, value, low=low, high=high, also=", or NaN" if unknown else "")


def _row(name: str, row: Any, n_dims: int) -> NDArray[np.float64] | None:
    """Return the numbers of an observation, or raise."""
    if row is None:
        return None
    found = np.asarray(row, dtype=np.float64)
    if not n_dims or found.shape != (n_dims,):
        raise ValueError(f"{name}={row!r}: expected {n_dims or 'no'} numbers")
    return found


def _array(
    name: str, array: Any, kind: str, n: int | tuple[int, int] | None = None
) -> NDArray[Any]:
    """Return an array of a type, and of one dimension or the given length or shape, or raise."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{name} of type {type(array).__name__}: expected an array")
    wanted = np.dtype(kind)
    wanted_shape = (n,) if isinstance(n, int) else n
    fits = array.ndim == 1 if wanted_shape is None else array.shape == wanted_shape
    if not fits or array.dtype.newbyteorder("<") != wanted:
        shape = "one dimension" if n is None else f"shape {wanted_shape}"
        raise ValueError(
            f"{name} of dtype {array.dtype}, shape {array.shape}: expected {wanted.name} of {shape}"
        )
    return array.astype(wanted.newbyteorder("="))


def _column(name: str, array: Any, kind: str, n: int, signed: bool) -> NDArray[Any]:
    """Return one field of n symbols, or raise where a value is out of the range of `Trace.add`."""
    column = _array(name, array, kind, n)
    low, high = float(MISSING), float(validate.LARGEST_INT)
    if name in _NUMBERS:
        low = -math.inf if name == "excess" or signed else 0.0
        if name == "probability":
            low = 0.0
        high = _ROUNDED if name == "probability" else math.inf
    good = (low <= column) & (column <= high)
    if name in _NUMBERS and name != "surprise":
        good |= np.isnan(column)
    if not good.all():
        i = int(np.argmin(good))
        raise ValueError(f"{name}[{i}]={column[i]}: expected a number in {low:g}..{high:g}")
    return column


def _keys(listed: Any, codes: NDArray[Any]) -> list[Label | None]:
    """Return the key of each symbol, from the different keys and the number of each, or raise."""
    if not isinstance(listed, list):
        raise TypeError(f"keys of type {type(listed).__name__}: expected a list")
    labels = [None if key is None else label_from_json(key) for key in listed]
    if len(set(labels)) != len(labels):
        raise ValueError("keys: expected every key once")
    if set(codes.tolist()) != set(range(len(labels))):
        raise ValueError(f"key: expected all numbers in 0..{len(labels) - 1}, and no others")
    return [labels[code] for code in codes.tolist()]
