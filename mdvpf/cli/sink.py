"""Destinations of reports: standard output, or a file that gets each report exactly once.

A sink collects reports. It writes them together when no input waits, after a short time, or before
a checkpoint. Reports that cannot be written stay in the sink, and the checkpoint stores them.
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

_LONGEST_WAIT = 0.05  # seconds that a report may wait while other lines are absorbed
_GRACE = 2.0  # seconds that a stalled reader has after a signal
_AT_ONCE = getattr(select, "PIPE_BUF", 512)  # bytes that a writable pipe takes without blocking


class OutputError(OSError):
    """Writing failed; the sink keeps the remaining reports."""

    @property
    def is_gone(self) -> bool:
        """Whether the reader closed the pipe or the socket."""
        return self.errno in (errno.EPIPE, errno.ECONNRESET)


class Sink:
    """A buffered destination of reports.

    Parameters
    ----------
    stop : Stop
        Its signals end the wait for a stalled reader.

    Attributes
    ----------
    name : str
        Name of the output in messages.
    has_failed : bool
        Whether a write has failed.
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
        """Return a sink that writes to standard output, or raise if that is closed."""
        if is_closed(sys.stdout, os.O_WRONLY):
            raise OSError("standard output is closed; expected an open one, or --output")
        sink = cls(stop)
        try:
            sys.stdout.flush()
            sink._descriptor = sys.stdout.fileno()
        except (io.UnsupportedOperation, AttributeError):  # a Python object without a descriptor
            sink._stream = sys.stdout
        return sink

    def put(self, line: str) -> None:
        """Add a report to the buffer."""
        self._lines.append(encode_line(line))

    def put_back(self, outbox: Outbox) -> None:
        """Add the reports that an earlier run could not write."""
        self._lines += [line + b"\n" for line in outbox.lines.split(b"\n")[:-1]]
        if outbox.n_sent and self._has_start_of(outbox):
            self._n_sent = outbox.n_sent

    def _has_start_of(self, outbox: Outbox) -> bool:
        """Tell whether the output is the file that holds the start of the first report."""
        found = self._regular()
        if found is None:
            return False
        return (found.st_dev, found.st_ino, found.st_size) == (
            outbox.device,
            outbox.inode,
            outbox.n_bytes,
        )

    def _regular(self) -> os.stat_result | None:
        """Return the status of the output if it is a regular file, else None."""
        if self._descriptor is None:
            return None
        found = os.fstat(self._descriptor)
        return found if stat.S_ISREG(found.st_mode) else None

    def outbox(self) -> Outbox:
        """Return the reports that are not written yet."""
        lines = b"".join(self._lines)
        found = self._regular()
        if found is None or not self._n_sent:
            return Outbox(lines, self._n_sent)
        return Outbox(lines, self._n_sent, found.st_dev, found.st_ino, found.st_size)

    def end(self) -> OutputEnd | None:
        """Return the end of the output, if --output names it."""
        return None

    def sync(self) -> None:
        """Make written reports durable."""

    def flush_if_due(self) -> None:
        """Write the reports if the last flush was `_LONGEST_WAIT` ago."""
        if self._lines and time.monotonic() - self._flushed > _LONGEST_WAIT:
            self.flush()

    def flush(self) -> None:
        """Write the reports; on failure keep the rest and raise `OutputError`."""
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
        """Drop the reports that were written; one that was written in part stays whole."""
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
        while not self._stop.wait_for(writing=self._descriptor, most=_GRACE):
            if self._stop.seconds > _GRACE:
                raise OSError(errno.ETIMEDOUT, "nobody reads it")
        try:
            return os.write(self._descriptor, data[:_AT_ONCE])
        except BlockingIOError:  # a non-blocking pipe that another process filled
            return 0

    def close(self) -> None:
        """Release the output."""


class FileSink(Sink):
    """A file that reports are appended to. After a restart it still has each report once.

    Parameters
    ----------
    stop : Stop
        As for `Sink`.
    path : Path
        The file, which is created if it does not exist.
    end : OutputEnd, optional
        End of the file when the checkpoint was made. Later reports are removed: the resumed run
        writes them again.
    """

    def __init__(self, stop: Stop, path: Path, end: OutputEnd | None) -> None:
        super().__init__(stop)
        self.name = str(path)
        self._path = os.path.abspath(path)
        if end is not None and end.path != self._path:
            end = None  # a file that the checkpoint does not know: append to it
        if end is not None and end.n_bytes and not os.path.exists(path):
            raise ValueError(f"{path}: it is missing, {_expected(end)}")
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
        self._descriptor = os.open(path, flags, 0o666)
        try:
            if self._regular() is None:
                raise ValueError(f"{path}: expected a regular file, which can be truncated")
            if end is not None:
                self._truncate(end)
        except BaseException:
            os.close(self._descriptor)
            raise

    def _truncate(self, end: OutputEnd) -> None:
        """Cut the file at the end that the checkpoint knows, or raise if it does not fit."""
        assert self._descriptor is not None
        size = os.fstat(self._descriptor).st_size
        if size < end.n_bytes:
            raise ValueError(f"{self.name}: it has {size} bytes, {_expected(end)}")
        if _tail(self._descriptor, end.n_bytes) != end.tail:
            raise ValueError(f"{self.name}: its content was changed, {_expected(end)}")
        if size > end.n_bytes:
            os.ftruncate(self._descriptor, end.n_bytes)

    @property
    def is_empty(self) -> bool:
        """Whether the file has no bytes."""
        assert self._descriptor is not None
        return os.fstat(self._descriptor).st_size == 0

    def end(self) -> OutputEnd:
        """Return the end of the file: its length and the digest of its last bytes."""
        assert self._descriptor is not None
        n_bytes = os.fstat(self._descriptor).st_size
        return OutputEnd(self._path, n_bytes, _tail(self._descriptor, n_bytes))

    def flush(self) -> None:
        """Write the reports; on failure remove a report that was written in part."""
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
        """Make written reports durable."""
        assert self._descriptor is not None
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file."""
        assert self._descriptor is not None
        os.close(self._descriptor)


def encode_line(line: str) -> bytes:
    """Return the bytes of a report, with a newline."""
    return line.encode("utf-8", "backslashreplace") + b"\n"


def _tail(descriptor: int, n_bytes: int) -> bytes:
    """Return the digest of the last bytes before an offset."""
    start = max(0, n_bytes - SPAN)
    os.lseek(descriptor, start, os.SEEK_SET)
    return digest(os.read(descriptor, n_bytes - start))


def _expected(end: OutputEnd) -> str:
    return (
        f"and the checkpoint was made after {end.n_bytes} bytes of it; expected the same file, or "
        "another --output"
    )
