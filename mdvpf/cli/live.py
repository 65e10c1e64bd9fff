"""Lines as they arrive, until the end of the input or a signal, never in the middle of a symbol."""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import BinaryIO

LONGEST_LINE = 1 << 16  # bytes; a longer one is cut, so that no line can fill the memory
STDIN = Path("-")


class _Stopped(Exception):
    """A signal came while there was nothing to do but wait."""


class Stop:
    """Whether a signal asked for the end: SIGTERM or Ctrl-C.

    A signal that comes while a line is awaited ends the wait. One that comes at any other moment
    is only noted.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self.waiting = False

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        if self.waiting:
            self.waiting = False
            raise _Stopped

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Note SIGINT and SIGTERM while live lines are read."""
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = [signal.signal(number, self._note) for number in numbers]
        try:
            yield
        finally:
            for number, handler in zip(numbers, before, strict=True):
                signal.signal(number, handler)

    def lines(self, file: BinaryIO) -> Iterator[bytes]:
        """Yield lines until the file ends or a signal comes.

        Of a line that is too long the first `LONGEST_LINE` + 1 bytes come.
        """
        while True:
            try:
                self.waiting = True
                # Only now: a signal before this was noted, and one after this ends the wait.
                line = b"" if self.signal is not None else _line(file)
                self.waiting = False
            except _Stopped:
                return
            except OSError:
                self.waiting = False
                raise
            if not line:
                return
            yield line


def _line(file: BinaryIO) -> bytes:
    line = rest = file.readline(LONGEST_LINE + 1)
    while len(rest) > LONGEST_LINE and not rest.endswith(b"\n"):
        rest = file.readline(LONGEST_LINE + 1)
    return line


@contextmanager
def opened(path: Path, n_lines: int) -> Iterator[BinaryIO]:
    """Open the input; in a file, as opposed to a pipe, go on after so many lines."""
    if path == STDIN:
        yield sys.stdin.buffer
        return
    with path.open("rb") as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            for i in range(n_lines):
                if not _line(file):
                    raise ValueError(
                        f"{path}: {i} lines, and the checkpoint was made after {n_lines}; "
                        "expected the same file, or a longer one"
                    )
        yield file


def is_too_long(line: bytes) -> bool:
    """Tell whether a line was cut."""
    return len(line) > LONGEST_LINE


def abandon_output() -> None:
    """Leave a closed pipe alone: what is still in the buffer goes nowhere, and without an error."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
