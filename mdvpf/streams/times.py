"""Convert the times of records to seconds since 1970.

Text is ISO 8601. A number needs an explicit unit: the code never guesses one.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, time
from typing import Any

from mdvpf.streams.excerpts import shown

ISO = "iso"
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}  # number of them in a second
TIME_UNITS = (ISO, *UNITS)
_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}

_LAST = 253402300800.0  # the end of the year 9999
_NUMBER = re.compile(r"[+-]?[0-9]{1,40}(\.[0-9]{0,40})?", re.ASCII)
_EXPECTED_ISO = "a time in ISO 8601, such as 2024-05-17T08:30:00Z"


def seconds(value: Any, unit: str = ISO) -> float:
    """Return a time in seconds since 1970, or raise.

    Parameters
    ----------
    value : str, int, float, datetime or date
        The time. Without a time zone it is UTC.
    unit : {"iso", "s", "ms", "us", "ns"}, default "iso"
        Format of the time: ISO 8601, or a number of seconds, milliseconds, microseconds or
        nanoseconds since 1970. Ignored for a datetime or date.

    Examples
    --------
    >>> from mdvpf.streams.times import seconds
    >>> seconds("1970-01-02T00:00:00.5+01:00"), seconds("86400250", "ms")
    (82800.5, 86400.25)
    """
    if isinstance(value, date):
        return _from_datetime(value)
    found = _from_iso(value) if unit == ISO else _from_number(value, unit)
    if not abs(found) < _LAST:
        raise ValueError(
            f"{shown(value)}: expected a time before the year 10000; check the unit {unit!r}"
        )
    return found


def _from_datetime(value: date) -> float:
    if not isinstance(value, datetime):
        value = datetime.combine(value, time())
    try:
        found = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return float(found.timestamp())
    except (TypeError, ValueError, OverflowError):  # NaT of pandas ends here, too
        raise ValueError(f"{shown(value)}: expected a time") from None


def _from_iso(value: Any) -> float:
    if isinstance(value, (int, float)):
        raise ValueError(
            f"{shown(value)}: a numeric time needs a time unit; expected one of "
            f"{', '.join(UNITS)}, or {_EXPECTED_ISO}"
        )
    if not isinstance(value, str):
        raise ValueError(f"{shown(value)}: expected {_EXPECTED_ISO}")
    text = value.strip()
    if _NUMBER.fullmatch(text) and len(text) != len("20240517"):
        return _from_iso(float(text) if "." in text else int(text))
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{shown(value)}: expected {_EXPECTED_ISO}") from None
    return _from_datetime(found)


def _from_number(value: Any, unit: str) -> float:
    number: int | float
    expected = f"a number of {_NAMES[unit]} since 1970"
    if isinstance(value, str):
        text = value.strip()
        if not _NUMBER.fullmatch(text):
            raise ValueError(f"{shown(value)}: expected {expected}")
        whole, _, fraction = text.partition(".")
        if fraction.strip("0"):  # a quotient of integers is correctly rounded
            return float(int(whole + fraction) / (UNITS[unit] * 10 ** len(fraction)))
        number = int(whole)
    elif isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{shown(value)}: expected {expected}")
    else:
        number = value
    try:
        found = number / UNITS[unit]
    except OverflowError:
        found = math.inf
    return found
