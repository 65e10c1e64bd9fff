"""`Stop`: record signals that end a run, and wait for input or output interruptibly.

Handlers only record the signal. `wait_for` polls a descriptor together with a wake-up pipe, to
which Python writes a byte when a signal arrives. This misses no signal, and no signal interrupts
the code between reading bytes and storing them.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_IS_POSIX = sys.platform != "win32"
_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")


class Stop:
    """Records SIGTERM, SIGHUP and Ctrl-C.

    Attributes
    ----------
    signal : int or None
        The first signal.
    n_signals : int
        Number of signals so far.
    since : float
        Time of the first one, by `time.monotonic`.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self.n_signals = 0
        self.since = 0.0
        self._wake: int | None = None

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.signal is None:
            self.signal, self.since = number, time.monotonic()
        self.n_signals += 1

    @property
    def is_interrupt(self) -> bool:
        """Whether the first signal was Ctrl-C."""
        return self.signal == signal.SIGINT

    @property
    def seconds(self) -> float:
        """Seconds since the first signal; 0 if there was none."""
        return 0.0 if self.signal is None else time.monotonic() - self.since

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Record signals inside the block; a signal that was ignored before stays ignored."""
        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread may set handlers
            return
        numbers = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
        numbers = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
        reading, writing = os.pipe()
        for descriptor in (reading, writing):
            os.set_blocking(descriptor, False)
        self._wake = reading
        woken = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        before = [signal.signal(number, self._note) for number in numbers]
        try:
            yield
        finally:
            for number, handler in zip(numbers, before, strict=True):
                signal.signal(number, handler)
            signal.set_wakeup_fd(woken)
            self._wake = None
            os.close(reading)
            os.close(writing)

    def wait_for(
        self, *, reading: int | None = None, writing: int | None = None, most: float | None = None
    ) -> bool:
        """Wait until a descriptor is ready, a signal arrives, or `most` seconds are over.

        Returns whether the descriptor is ready. Windows has no `poll`: there the result is True at
        once, and the read or write that follows blocks, whatever signals arrive.
        """
        if not _IS_POSIX:
            return True
        poll = select.poll()
        if reading is not None:
            poll.register(reading, select.POLLIN)
        if writing is not None:
            poll.register(writing, select.POLLOUT)
        if self._wake is not None:
            poll.register(self._wake, select.POLLIN)
        found = dict(poll.poll(None if most is None else 1000 * most))
        if self._wake in found:
            assert self._wake is not None
            os.read(self._wake, 512)
            found.pop(self._wake)
        return bool(found)
