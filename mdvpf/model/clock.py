"""Convert time stamps to elapsed half-lives, for models that forget by time.

A model whose `half_life` is a time span forgets by the time stamps of its symbols, not by their
number. Time never runs backwards: an earlier time stamp counts as the latest one seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate

Time = float | datetime | np.datetime64

_EXPECTED = "seconds since 1970, a datetime with a time zone, or a datetime64"
_LARGEST_TIME = 1e18  # seconds
_LARGEST_GAP = 64.0  # half-lives between two symbols; after them every count has faded away


def read_time(name: str, time: Any) -> float:
    """Return a time stamp in seconds since 1970, or raise.

    Examples
    --------
    >>> import numpy as np
    >>> from mdvpf.model.clock import read_time
    >>> read_time("time", np.datetime64("1970-01-01T00:01"))
    60.0
    """
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise ValueError(f"{name}={time!r}: expected {_EXPECTED}")
        time = time.timestamp()
    elif isinstance(time, np.datetime64):
        if np.isnat(time):
            raise ValueError(f"{name}={time!r}: expected {_EXPECTED}")
        time = (time - np.datetime64(0, "s")) / np.timedelta64(1, "s")
    return validate.real(name, time, low=-_LARGEST_TIME, high=_LARGEST_TIME, also=f": {_EXPECTED}")


def read_times(times: Any, n: int) -> NDArray[np.float64]:
    """Return the time stamps of n symbols in seconds since 1970, or raise.

    A time that is missing (None, NaN, NaT, pandas.NA, or masked) becomes NaN.
    """
    array = np.asanyarray(times) if hasattr(times, "__array__") else None
    if array is not None and array.ndim != 1:
        raise ValueError(f"times of shape {array.shape}: expected ({n},)")
    seconds: NDArray[np.float64]
    if array is not None and array.dtype.kind == "M":
        elapsed = (array - np.datetime64(0, "s")) / np.timedelta64(1, "s")
        seconds = np.ma.filled(elapsed, np.nan)
    else:
        values = times if array is None else array.tolist()  # None where masked
        found = validate.sequence("times", values, of="time stamps, one for each symbol")
        seconds = np.array(
            [
                math.nan
                if validate.is_missing(time) or time != time
                else read_time(f"times[{i}]", time)
                for i, time in enumerate(found)
            ]
        )
    if len(seconds) != n:
        raise ValueError(f"times: got {len(seconds)}; expected {n}, one for each symbol")
    return seconds


def read_half_life(half_life: Any) -> float | timedelta:
    """Return a half-life in symbols or as a time span, or raise."""
    if isinstance(half_life, (timedelta, np.timedelta64)):
        span = half_life if isinstance(half_life, timedelta) else _span(half_life)
        if span <= timedelta(0):
            raise ValueError(f"half_life={half_life!r}: expected a positive time span")
        return span
    return validate.real(
        "half_life",
        half_life,
        low=validate.SMALLEST_PARAMETER,
        high=validate.LARGEST_PARAMETER,
        also=", a timedelta, or None",
    )


def _span(half_life: np.timedelta64) -> timedelta:
    """Return a half-life as a timedelta, zero if it has no fixed length that a timedelta holds."""
    try:
        return timedelta(seconds=float(half_life / np.timedelta64(1, "s")))
    except (ArithmeticError, TypeError, ValueError):  # NaT, months and years, too many days
        return timedelta(0)


@dataclass(frozen=True, slots=True)
class Clock:
    """The number of half-lives elapsed.

    Parameters
    ----------
    half_life : timedelta
        The half-life of the model.
    time : float, optional
        The latest time stamp seen, in seconds.
    elapsed : float, default 0.0
        Half-lives from the first time stamp to the latest one. A gap counts as at most 64, after
        which every count has faded away.

    Examples
    --------
    >>> from datetime import timedelta
    >>> from mdvpf.model.clock import Clock
    >>> clock = Clock(timedelta(minutes=1)).at(1000.0).at(1090.0)
    >>> clock.elapsed, clock.at(1030.0).elapsed
    (1.5, 1.5)
    """

    half_life: timedelta
    time: float | None = None
    elapsed: float = 0.0

    def through(self, times: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        """Return the latest time and the half-lives elapsed at each of the given time stamps.

        Examples
        --------
        >>> from datetime import timedelta
        >>> import numpy as np
        >>> from mdvpf.model.clock import Clock
        >>> times = np.array([1000.0, 1060.0, np.nan, 1030.0, 1090.0])
        >>> Clock(timedelta(minutes=1)).through(times)[1].tolist()
        [0.0, 1.0, 1.0, 1.0, 1.5]
        """
        latest, elapsed = np.empty(len(times)), np.empty(len(times))
        clock = self
        for i, time in enumerate(times.tolist()):
            clock = clock.at(None if math.isnan(time) else time)
            latest[i] = math.nan if clock.time is None else clock.time
            elapsed[i] = clock.elapsed
        return latest, elapsed

    def at(self, time: float | None) -> Self:
        """Return the clock advanced to a time; None and earlier times leave it unchanged."""
        if time is None or (self.time is not None and time <= self.time):
            return self
        passed = 0.0 if self.time is None else time - self.time
        half_lives = min(passed / self.half_life.total_seconds(), _LARGEST_GAP)
        return replace(self, time=time, elapsed=self.elapsed + half_lives)
