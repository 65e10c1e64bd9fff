"""Validation of arguments for the whole package, with one form of message.

Every message names the argument, the value received and what was expected. A TypeError reports a
value of the wrong kind, a ValueError a value of the right kind that is out of range. Bools are not
accepted as numbers: ``True`` in place of a count is a mistake.
"""

from __future__ import annotations

import math
import operator
import reprlib
import sys
from collections.abc import Collection, Iterable, Mapping, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Probabilities are products of two ratios of counts and hyper-parameters. Within these limits no
# such product, nor its product with a weight of 1e-43, leaves the range of normal doubles.
SMALLEST_PARAMETER = 1e-60
LARGEST_PARAMETER = 1e60

_BELOW_ONE = math.nextafter(1.0, 0.0)

LARGEST_INT = 2**31 - 2

_LONGEST_VALUE = 410  # characters of a value in a message

_NOT_SEQUENCES = (str, bytes, bytearray, Mapping, Set)  # iterable, but a mistake for a sequence


def _short(value: Any) -> str:
    """Return the text of a value for a message, truncated if it is long."""
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."


def integer(name: str, value: Any, *, low: int, high: int = LARGEST_INT, also: str = "") -> int:
    """Return `value` as an int in ``low..high``, or raise.

    `also` is appended to the message; it names other values that the caller accepts.
    """
    expected = f"an integer in {low}..{high}{also}"
    # `operator.index` accepts a zero-dimensional array, even a masked one.
    if isinstance(value, (bool, np.bool_, np.ndarray)):
        raise TypeError(f"{name}={_short(value)}: expected {expected}")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}={_short(value)}: expected {expected}") from None
    if not low <= number <= high:
        raise ValueError(f"{name}={_short(value)}: expected {expected}")
    return number


def integers(
    name: str, values: Any, *, low: int, high: int = LARGEST_INT, missing: int | None = None
) -> NDArray[np.int64]:
    """Return `values`, an array or an iterable, as an array of integers in ``low..high``, or raise.

    `missing`, if given, replaces missing entries: None, pandas.NA, masked entries, and nulls of an
    array of pandas, polars or Arrow. Without it they are errors.
    """
    also = "" if missing is None else ", or None where one is missing"
    expected = f"a sequence of integers in {low}..{high}{also}"
    if hasattr(values, "__array__"):
        array = np.asanyarray(values)
        if array.dtype.kind == "f" and array.ndim == 1:
            array = _with_nulls(values, array)
        if array.ndim != 1:
            raise ValueError(f"{name} of shape {array.shape}: expected {expected}")
        if array.size and array.dtype.kind not in "iuO":
            if missing is not None and array.dtype.kind == "f":
                expected += (
                    " (floats are not symbols, and NaN does not mean missing: use a masked "
                    "array, or pandas' type Int64)"
                )
            raise TypeError(f"{name} of dtype {array.dtype}: expected {expected}")
        if array.dtype.kind in "iu" and not np.ma.is_masked(array):
            data = np.ma.getdata(array)
            if np.all((low <= data) & (data <= high)):
                return data.astype(np.int64)
        values = array.tolist()  # None where masked
    elif isinstance(values, _NOT_SEQUENCES) or not isinstance(values, Iterable):
        raise TypeError(f"{name}={reprlib.repr(values)}: expected {expected}")
    return np.array(
        [
            value
            if type(value) is int and low <= value <= high  # the usual case, without a message
            else missing
            if missing is not None and is_missing(value)
            else integer(f"{name}[{i}]", value, low=low, high=high, also=also)
            for i, value in enumerate(values)
        ],
        dtype=np.int64,
    )


def is_missing(value: Any) -> bool:
    """Return whether a value means missing: None or pandas.NA, but not NaN."""
    if value is None:
        return True
    pandas = sys.modules.get("pandas")  # without pandas imported, no value is its NA
    return pandas is not None and value is getattr(pandas, "NA", None)


def _with_nulls(values: Any, converted: NDArray[Any]) -> NDArray[Any]:
    """Return a data-frame column with its nulls, which NumPy has converted to NaN."""
    is_nullable = hasattr(values, "null_count")  # polars and Arrow
    is_nullable |= hasattr(getattr(values, "dtype", None), "na_value")  # pandas
    if is_nullable:
        for name in ("to_pylist", "to_list", "tolist"):
            if hasattr(values, name):
                return np.array([*getattr(values, name)(), None], dtype=object)[:-1]
    return converted


def without_nulls(values: Any) -> Any:
    """Return a masked array or a nullable pandas column as a list with None for what is missing.

    Other values are returned unchanged. Iterating over a pandas column of text or categories would
    yield NaN for its nulls.
    """
    if isinstance(values, np.ma.MaskedArray):
        return values.tolist()
    if not hasattr(getattr(values, "dtype", None), "na_value") or not hasattr(values, "isna"):
        return values
    nulls = np.asarray(values.isna()).tolist()
    return [None if null else value for value, null in zip(values, nulls, strict=True)]


def real(
    name: str, value: Any, *, low: float, high: float, also: str = "", expected: str = ""
) -> float:
    """Return `value` as a float in ``low..high``, or raise. NaN is outside every range.

    `also` is appended to the message; it names other values that the caller accepts. `expected`
    takes the place of the range in the message.
    """
    expected = expected or f"a number in {low:g}..{high:g}{also}"
    if isinstance(value, (bool, np.bool_)) or not isinstance(
        value, (int, float, np.integer, np.floating)
    ):
        raise TypeError(f"{name}={_short(value)}: expected {expected}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not low <= number <= high:
        raise ValueError(f"{name}={_short(value)}: expected {expected}")
    return number


def hyper_parameter(name: str, value: Any, *, also: str = "") -> float:
    """Return a positive hyper-parameter as a float, or raise."""
    return real(name, value, low=SMALLEST_PARAMETER, high=LARGEST_PARAMETER, also=also)


def discount(name: str, value: Any) -> float:
    """Return the discount of a Pitman-Yor process, which is less than 1, or raise."""
    expected = "a number from 0, less than 1"
    return real(name, value, low=0.0, high=_BELOW_ONE, expected=expected)


def sequence(name: str, values: Any, *, of: str) -> list[Any]:
    """Return the entries of an ordered iterable, or raise; `of` names them in the message."""
    if isinstance(values, _NOT_SEQUENCES) or not isinstance(values, Iterable):
        raise TypeError(f"{name}={reprlib.repr(values)}: expected a sequence of {of}")
    return list(values)


def entries(name: str, values: Any, *, of: str) -> list[Any]:
    """Return the entries of a non-empty ordered iterable, or raise."""
    found = sequence(name, values, of=of)
    if not found:
        raise ValueError(f"{name}: got none; expected at least one")
    return found


def choice(name: str, value: Any, options: Collection[str], *, also: str = "") -> str:
    """Return `value` if it is one of the `options`, or raise.

    `also` is appended to the message; it names other values that the caller accepts.
    """
    expected = "one of " + ", ".join(repr(option) for option in options) + also
    if not isinstance(value, str):
        raise TypeError(f"{name}={_short(value)}: expected {expected}")
    if value not in options:
        raise ValueError(f"{name}={_short(value)}: expected {expected}")
    return value


def flag(name: str, value: Any) -> bool:
    """Return `value` if it is a bool, or raise."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}={_short(value)}: expected True or False")
    return bool(value)


def content(name: str, value: Any) -> bytes:
    """Return a bytes-like object as bytes, or raise."""
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(f"{name} of type {type(value).__name__}: expected bytes")
    return bytes(value)


def generator(name: str, value: Any) -> np.random.Generator:
    """Return a generator from a seed or a generator, or raise."""
    expected = "None, an integer seed >= 0, a SeedSequence, a BitGenerator or a Generator"
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}={_short(value)}: expected {expected}")
    try:
        return np.random.default_rng(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}={_short(value)}: expected {expected}") from error
