"""Lag: a word when input waits, and how fast lines are absorbed."""

from __future__ import annotations

import time
from collections.abc import Callable

LEAST_WAITING = 4096  # bytes; less is no more than the next read


class Lag:
    """Says now and then that input waits.

    Parameters
    ----------
    every : float
        Seconds between two such lines; 0 is never.
    tell : callable
        Gets the lines.
    """

    def __init__(self, every: float, tell: Callable[[str], None]) -> None:
        self._every = every
        self._tell = tell
        self._start = self._last = time.monotonic()
        self._n_start: int | None = None
        self._n_last = 0
        self._has_told = False

    def look(
        self, n_lines: int, waiting: Callable[[], int], event_time: float | None = None
    ) -> None:
        """Note that so many lines were absorbed, and say if others wait."""
        if self._n_start is None:
            self._n_start = self._n_last = n_lines - 1
        now = time.monotonic()
        if not self._every or now - self._last < self._every:
            return
        n_waiting = waiting()
        rate = (n_lines - self._n_last) / (now - self._last)
        self._last, self._n_last = now, n_lines
        if n_waiting < LEAST_WAITING:
            return
        text = (
            f"line {n_lines:,}: {rate:,.1f} lines a second, and {n_waiting:,} bytes of input wait"
        )
        if event_time is not None:
            text += f"; the event is {_span(time.time() - event_time)} old"
        self._tell(text)
        self._has_told = True

    def sum_up(self, n_lines: int) -> None:
        """Say how fast all of it was, after a run that took a while."""
        seconds = time.monotonic() - self._start
        if self._n_start is None or not self._every:
            return
        if self._has_told or seconds >= self._every:
            n = n_lines - self._n_start
            self._tell(f"{n:,} lines in {_span(seconds)}: {n / seconds:,.1f} a second")


def _span(seconds: float) -> str:
    """Return a span of time for people."""
    for unit, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{max(0.0, seconds):,.1f} seconds"
