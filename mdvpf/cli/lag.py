"""Lag: messages about input that waits and about the rate of lines."""

from __future__ import annotations

import time
from collections.abc import Callable

LEAST_WAITING = 4096  # bytes; fewer fit into the next read


class Lag:
    """Reports from time to time that input waits.

    Parameters
    ----------
    every : float
        Seconds between two messages; 0 disables them.
    print_message : callable
        Called with each message.
    """

    def __init__(self, every: float, print_message: Callable[[str], None]) -> None:
        self._every = every
        self._print = print_message
        self._start = self._last = time.monotonic()
        self._n_start: int | None = None
        self._n_last = 0
        self._has_lagged = False

    def update(
        self, n_lines: int, waiting: Callable[[], int], event_time: float | None = None
    ) -> None:
        """Note the number of absorbed lines; report input that waits, if a message is due."""
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
        self._print(text)
        self._has_lagged = True

    def summarise(self, n_lines: int) -> None:
        """Report the rate of the whole run, if it lagged or was long."""
        seconds = time.monotonic() - self._start
        if self._n_start is None or not self._every:
            return
        if self._has_lagged or seconds >= self._every:
            n = n_lines - self._n_start
            self._print(f"{n:,} lines in {_span(seconds)}: {n / seconds:,.1f} a second")


def _span(seconds: float) -> str:
    """Return a time span as text, in a readable unit."""
    for unit, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{max(0.0, seconds):,.1f} seconds"
