"""Where reports go: standard output, or a file that every report is in exactly once.

Reports are collected and written together when there is nothing else to do, after a moment, or
before a checkpoint. What cannot be written stays here, and goes to the checkpoint.
"""

from __future__ import annotations

import errno
import io
import os
import select
import stat
import sys
import time
from pathlib import Path
from typing import Any

from mdvpf.cli.access import is_closed
from mdvpf.cli.stop import Stop
from mdvpf.streams.filter_run import Outbox, OutputEnd
from mdvpf.streams.position import SPAN, digest

_MOMENT = 0.05  # seconds that a report waits at most while others are made
_PATIENCE = 2.0  # seconds that a signal leaves to a reader who does not read
_AT_ONCE = getattr(select, "PIPE_BUF", 512)  # bytes that a pipe takes without blocking, if any


class OutputError(OSError):
    """The output takes no more; what was not written is in the sink."""

    @property
    def is_gone(self) -> bool:
        """Whether whoever read the output went away."""
        return self.errno in (errno.EPIPE, errno.ECONNRESET)


class Sink:
    """Reports on their way out.

    Parameters
    ----------
    stop : Stop
        What ends the wait for a reader who does not read.

    Attributes
    ----------
    name : str
        For messages.
    has_failed : bool
        Whether something could not be written.
    """

    name = "standard output"

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._lines: list[bytes] = []
        self._n_sent = 0
        self._flushed = 0.0
        self.has_failed = False
        self._stream: Any = None
        self._descriptor: int | None = None

    @classmethod
    def standard_output(cls, stop: Stop) -> Sink:
        """Return the sink that writes to standard output, or raise if that is closed."""
        if is_closed(sys.stdout, os.O_WRONLY):
            raise OSError("standard output is closed; expected an open one, or --output")
        sink = cls(stop)
        try:
            sys.stdout.flush()
            sink._descriptor = sys.stdout.fileno()
        except (io.UnsupportedOperation, AttributeError):  # a stream that is none of the system's
            sink._stream = sys.stdout
        return sink

    def put(self, line: str) -> None:
        """Take a report; it is written by and by."""
        self._lines.append(encoded(line))

    def put_back(self, outbox: Outbox) -> None:
        """Take reports of an earlier run that were not written then."""
        self._lines += [line + b"\n" for line in outbox.lines.split(b"\n")[:-1]]
        if outbox.n_sent and self._is_where(outbox):
            self._n_sent = outbox.n_sent

    def _is_where(self, outbox: Outbox) -> bool:
        """Tell whether the output is the file that has a part of the first report already."""
        found = self._regular()
        if found is None:
            return False
        return (found.st_dev, found.st_ino, found.st_size) == (
            outbox.device,
            outbox.inode,
            outbox.n_bytes,
        )

    def _regular(self) -> os.stat_result | None:
        """Return what is known of the output if it is a file."""
        if self._descriptor is None:
            return None
        found = os.fstat(self._descriptor)
        return found if stat.S_ISREG(found.st_mode) else None

    def outbox(self) -> Outbox:
        """Return what was not written."""
        lines = b"".join(self._lines)
        found = self._regular()
        if found is None or not self._n_sent:
            return Outbox(lines, self._n_sent)
        return Outbox(lines, self._n_sent, found.st_dev, found.st_ino, found.st_size)

    def end(self) -> OutputEnd | None:
        """Return how far the output was written, if it is a file of its own."""
        return None

    def sync(self) -> None:
        """Make what was written last."""

    def flush_if_due(self) -> None:
        """Write the reports if the first of them has waited for a moment."""
        if self._lines and time.monotonic() - self._flushed > _MOMENT:
            self.flush()

    def flush(self) -> None:
        """Write the reports; raise `OutputError` if that is not possible, and keep the rest."""
        if not self._lines:
            return
        data = b"".join(self._lines)[self._n_sent :]
        n_written = 0
        try:
            while n_written < len(data):
                n_written += self._write(data[n_written:])
        except OSError as error:
            self.has_failed = True
            raise OutputError(error.errno, error.strerror, self.name) from error
        finally:
            self._forget(n_written)
            self._flushed = time.monotonic()

    def _forget(self, n_written: int) -> None:
        """Drop what was written; of a report that was written in part, all of it stays."""
        n = self._n_sent + n_written
        n_whole = 0
        for line in self._lines:
            if len(line) > n:
                break
            n -= len(line)
            n_whole += 1
        del self._lines[:n_whole]
        self._n_sent = n if self._lines else 0

    def _write(self, data: bytes) -> int:
        if self._descriptor is None:
            self._stream.write(data.decode("utf-8"))
            self._stream.flush()
            return len(data)
        if self._regular() is not None:
            return os.write(self._descriptor, data)
        while not self._stop.wait_for(writing=self._descriptor, most=_PATIENCE):
            if self._stop.seconds > _PATIENCE:
                raise OSError(errno.ETIMEDOUT, "nobody reads it")
        try:
            return os.write(self._descriptor, data[:_AT_ONCE])
        except BlockingIOError:  # it does not block, and somebody else filled it
            return 0

    def close(self) -> None:
        """Let go of the output."""


class FileSink(Sink):
    """A file at whose end reports are added, such that after a restart each is there once.

    Parameters
    ----------
    stop : Stop
        As for `Sink`.
    path : Path
        The file, which is made if there is none.
    end : OutputEnd, optional
        How far it was written when the checkpoint was made: what came after that is removed, and
        will be written again.
    """

    def __init__(self, stop: Stop, path: Path, end: OutputEnd | None) -> None:
        super().__init__(stop)
        self.name = str(path)
        self._path = os.path.abspath(path)
        if end is not None and end.path != self._path:
            end = None  # another file than before: it is added to
        if end is not None and end.n_bytes and not os.path.exists(path):
            raise ValueError(f"{path}: it is missing, {_expected(end)}")
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
        self._descriptor = os.open(path, flags, 0o666)
        try:
            if self._regular() is None:
                raise ValueError(f"{path}: expected a file, as it is to be gone back in")
            if end is not None:
                self._go_back(end)
        except BaseException:
            os.close(self._descriptor)
            raise

    def _go_back(self, end: OutputEnd) -> None:
        assert self._descriptor is not None
        size = os.fstat(self._descriptor).st_size
        if size < end.n_bytes:
            raise ValueError(f"{self.name}: it has {size} bytes, {_expected(end)}")
        if _tail(self._descriptor, end.n_bytes) != end.tail:
            raise ValueError(f"{self.name}: its content is not what was written, {_expected(end)}")
        if size > end.n_bytes:
            os.ftruncate(self._descriptor, end.n_bytes)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written yet."""
        assert self._descriptor is not None
        return os.fstat(self._descriptor).st_size == 0

    def end(self) -> OutputEnd:
        """Return how far the file was written."""
        assert self._descriptor is not None
        n_bytes = os.fstat(self._descriptor).st_size
        return OutputEnd(self._path, n_bytes, _tail(self._descriptor, n_bytes))

    def flush(self) -> None:
        """Write the reports; a report that was written in part is taken back."""
        try:
            super().flush()
        except OutputError:
            if self._n_sent:
                assert self._descriptor is not None
                size = os.fstat(self._descriptor).st_size
                os.ftruncate(self._descriptor, size - self._n_sent)
                self._n_sent = 0
            raise

    def sync(self) -> None:
        """Make what was written last."""
        assert self._descriptor is not None
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file."""
        assert self._descriptor is not None
        os.close(self._descriptor)


def encoded(line: str) -> bytes:
    """Return a report as it is written."""
    return line.encode("utf-8", "backslashreplace") + b"\n"


def _tail(descriptor: int, n_bytes: int) -> bytes:
    """Return the digest of the last bytes before a place."""
    start = max(0, n_bytes - SPAN)
    os.lseek(descriptor, start, os.SEEK_SET)
    return digest(os.read(descriptor, n_bytes - start))


def _expected(end: OutputEnd) -> str:
    return (
        f"and the checkpoint was made after {end.n_bytes} bytes of it; expected the same file, or "
        "another --output"
    )
