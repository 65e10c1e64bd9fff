"""Times of records: ISO 8601, or numbers with an explicit unit."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdvpf.streams.times import UNITS, seconds

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:00Z", 0.0),
        ("1970-01-01T00:00:00", 0.0),
        ("1970-01-01 00:00:01,5", 1.5),
        ("1970-01-01T01:00:00+01:00", 0.0),
        ("1970-01-01T00:00:00-0030", 1800.0),
        ("1970-01-01T00:00:00.123456789Z", 0.123456),
        ("1970-01-02", 86400.0),
        ("19700102", 86400.0),
        (" 1969-12-31T23:59:59Z\r", -1.0),
    ],
)
def test_iso_8601(text: str, expected: float) -> None:
    assert seconds(text) == expected


@given(st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-7))])))
def test_a_datetime_and_its_text_are_the_same_time(value: datetime) -> None:
    exact = Fraction((value - EPOCH) // timedelta(microseconds=1), 10**6)
    assert seconds(value) == pytest.approx(float(exact), abs=1e-5)
    assert seconds(value.isoformat()) == seconds(value)


def test_a_date_is_its_first_moment() -> None:
    assert seconds(date(1970, 1, 2)) == 86400.0


@given(st.sampled_from(sorted(UNITS)), st.integers(-(10**11), 10**11), st.integers(0, 999))
def test_numbers_are_rounded_once(unit: str, whole: int, fraction: int) -> None:
    sign = "-" if whole < 0 else ""
    text = f"{sign}{abs(whole)}.{fraction:03}"
    exact = Fraction(text) / UNITS[unit]
    assert seconds(text, unit) == float(exact)
    assert seconds(whole, unit) == float(Fraction(whole, UNITS[unit]))
    assert seconds(str(whole), unit) == float(Fraction(whole, UNITS[unit]))


@pytest.mark.parametrize(
    ("value", "unit", "message"),
    [
        ("", "iso", "ISO 8601"),
        ("yesterday", "iso", "ISO 8601"),
        ("2024-02-30", "iso", "ISO 8601"),
        ("2024-01-01T00:00:60Z", "iso", "ISO 8601"),
        ("1700000000", "iso", "needs a time unit"),
        ("1700000000.5", "iso", "needs a time unit"),
        (1700000000, "iso", "needs a time unit"),
        (None, "iso", "ISO 8601"),
        ([], "iso", "ISO 8601"),
        ("", "s", "a number of seconds"),
        ("1e9", "s", "a number of seconds"),
        ("0x10", "s", "a number of seconds"),
        ("\u0661", "s", "a number of seconds"),
        ("9" * 1000, "s", "a number of seconds"),
        ("2024-01-01", "ms", "a number of milliseconds"),
        (True, "s", "a number of seconds"),
        (math.nan, "s", "check the unit 's'"),
        (math.inf, "ms", "check the unit 'ms'"),
        (10**400, "ns", "check the unit 'ns'"),
        (1700000000000, "s", "check the unit 's'"),
        ("1700000000000000", "ms", "check the unit 'ms'"),
    ],
)
def test_invalid_times_are_refused(value: Any, unit: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        seconds(value, unit)
    assert len(str(caught.value)) < 300
