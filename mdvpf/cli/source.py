"""Sources of lines: a file, which can be read again, or a pipe, which cannot.

A source reads small pieces and does its own buffering. The bytes that are read and not yet absorbed
are known at any time: a file is read again from there, and a checkpoint stores those of a pipe.
"""

from __future__ import annotations

import array
import gzip
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import IO, Any

from mdvpf.cli.stop import Stop
from mdvpf.streams.input_files import GZIP
from mdvpf.streams.line_buffer import LineBuffer
from mdvpf.streams.position import Progress, digest

if sys.platform != "win32":
    import fcntl
    import termios

_PIPE_BYTES = 4096  # per read
_FILE_BYTES = 1 << 16  # per read
_LEAST_HEAD = 256  # bytes at the start of a stream that suffice to recognise it


class Filled(Enum):
    """Result of an attempt to read."""

    DATA = 1
    END = 2
    WOKEN = 3  # a signal arrived


class Source:
    """An input, cut into lines.

    Attributes
    ----------
    name : str
        Name of the input in messages.
    buffer : LineBuffer
        Bytes that were read and not absorbed.
    progress : Progress
        Position up to which the input was absorbed.
    is_pipe : bool
        Whether bytes cannot be read again.
    n_before_cut : int or None
        Number of whole lines before one whose start may be lost; None if there is no such line.
    """

    name: str
    is_pipe: bool

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.buffer = LineBuffer()
        self.n_before_cut: int | None = None

    def fill(self, stop: Stop) -> Filled:
        """Read some bytes into the buffer, which has no complete line; wait if there are none."""
        raise NotImplementedError

    def waiting(self) -> int:
        """Return how many bytes are known to wait outside the buffer."""
        raise NotImplementedError

    def inbox(self) -> bytes:
        """Return the bytes that a checkpoint must store because they cannot be read again."""
        return self.buffer.content() if self.is_pipe else b""

    def close(self) -> None:
        """Release the input."""


class FileSource(Source):
    """A file, and the files that follow it after a rotation.

    Parameters
    ----------
    file : binary file
        The file, already at the position of `progress`.
    progress : Progress
        Position to read from.
    name : str
        Name of the file in messages.
    later : list of Path
        Files to read after it, in order.
    """

    is_pipe = False

    def __init__(
        self, file: IO[bytes], progress: Progress, name: str, later: list[Path] | None = None
    ) -> None:
        super().__init__(progress)
        self.name = name
        self._file = file
        self._later = list(later or ())
        self._n_read = progress.n_bytes

    @property
    def _is_packed(self) -> bool:
        file: Any = self._file
        return isinstance(file, gzip.GzipFile)

    def fill(self, stop: Stop) -> Filled:
        """Read some bytes; at the end of the file continue with the next one."""
        data = self._file.read(_FILE_BYTES)
        while not data and self._later:
            if self.buffer.unfinished:
                self.buffer.finish()  # a rotated file does not grow
                return Filled.DATA
            self._next_file()
            data = self._file.read(_FILE_BYTES)
        if not data:
            return Filled.END
        self._n_read += len(data)
        self.buffer.feed(data)
        return Filled.DATA

    def _next_file(self) -> None:
        path = self._later.pop(0)
        file = open_file(path)
        self._file.close()
        self._file, self.name, self._n_read = file, str(path), 0
        self.progress = self.progress.next_input()
        identify(self.progress, path, file)

    def waiting(self) -> int:
        """Return the number of unread bytes; 0 for a compressed file, where it is unknown."""
        if self._is_packed:
            return 0
        return max(0, os.fstat(self._file.fileno()).st_size - self._n_read)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class PipeSource(Source):
    """A pipe, a terminal, a socket, or a Python stream.

    Parameters
    ----------
    stream : binary file
        The input.
    progress : Progress
        Position of the next byte.
    name : str
        Name of the input in messages.
    inbox : bytes
        Bytes that an earlier run read and did not absorb.
    is_resumable : bool
        Whether the run writes checkpoints. Compressed input is then refused: decompression cannot
        resume in the middle of a pipe.
    """

    is_pipe = True

    def __init__(
        self, stream: Any, progress: Progress, name: str, inbox: bytes, is_resumable: bool
    ) -> None:
        super().__init__(progress)
        self.name = name
        self._stream = stream
        try:
            self._descriptor: int | None = stream.fileno()
        except (OSError, AttributeError):
            self._descriptor = None
        self._is_resumable = is_resumable
        self._packed: Any = None
        self._is_first = progress.n_bytes == 0 and not inbox
        start = progress.position()
        self._start = start if start.head_bytes >= _LEAST_HEAD else None
        self._head = b""
        self.comes_again = False  # whether the input repeats the start of the stream
        self.buffer.feed(inbox)

    def fill(self, stop: Stop) -> Filled:
        """Read some bytes, or wait for them."""
        if self._descriptor is None:
            data = self._stream.read1(_PIPE_BYTES)
        elif stop.wait_for(reading=self._descriptor):
            try:
                data = os.read(self._descriptor, _PIPE_BYTES)
            except BlockingIOError:  # another process took the bytes
                return Filled.WOKEN
        else:
            return Filled.WOKEN
        if not data:
            if self._packed is not None and not self._packed.eof:
                raise ValueError(f"{self.name}: expected complete gzip data")
            return Filled.END
        data = self._unpacked(data)
        self._watch(data)
        self.buffer.feed(data)
        return Filled.DATA

    def _unpacked(self, data: bytes) -> bytes:
        if self._is_first:
            self._is_first = False
            if data.startswith(GZIP):
                if self._is_resumable:
                    raise ValueError(
                        f"{self.name}: compressed by gzip, and a checkpoint cannot resume inside; "
                        "expected zcat before it, or the name of the file"
                    )
                self._packed = zlib.decompressobj(wbits=31)
        if self._packed is None:
            return data
        parts = []
        try:
            while data:
                if self._packed.eof:
                    self._packed = zlib.decompressobj(wbits=31)
                parts.append(self._packed.decompress(data))
                data = self._packed.unused_data
        except zlib.error as error:
            raise ValueError(f"{self.name}: expected gzip data ({error})") from error
        return b"".join(parts)

    def _watch(self, data: bytes) -> None:
        """Compare the first bytes with the recorded start of the stream."""
        if self._start is None:
            return
        self._head += data
        if len(self._head) >= self._start.head_bytes:
            self.comes_again = digest(self._head[: self._start.head_bytes]) == self._start.head
            self._start = None

    def waiting(self) -> int:
        """Return the bytes in the pipe."""
        if self._descriptor is None or sys.platform == "win32":
            return 0
        found = array.array("i", [0])
        try:
            fcntl.ioctl(self._descriptor, termios.FIONREAD, found)
        except OSError:
            return 0
        return found[0]


def open_file(path: Path) -> IO[bytes]:
    """Open a file for reading, and decompress it if it is compressed by gzip."""
    return unpack_gzip(path.open("rb"), str(path))


def unpack_gzip(file: Any, name: str) -> IO[bytes]:
    """Return a reader of an open file's content, decompressed if it is compressed by gzip.

    Damaged gzip data is a ValueError with the name of the file.
    """
    start = file.tell()
    packed = file.read(2) == GZIP
    file.seek(start)
    return _Unpacked(file, name) if packed else file  # type: ignore[return-value]


class _Unpacked(gzip.GzipFile):
    """A gzip reader that also closes the file below it."""

    def __init__(self, file: Any, name: str) -> None:
        super().__init__(fileobj=file)
        self._packed_file = file
        self._name = name

    def read(self, size: int | None = -1) -> bytes:
        with self._named():
            return super().read(size)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        with self._named():
            return super().seek(offset, whence)

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{self._name}: expected a complete gzip file ({error})") from error

    def close(self) -> None:
        super().close()
        self._packed_file.close()


def identify(progress: Progress, path: Path, file: IO[bytes]) -> None:
    """Record the path, device and inode of the file in its position."""
    found = os.fstat(file.fileno())
    progress.path, progress.device, progress.inode = (
        os.path.abspath(path),
        found.st_dev,
        found.st_ino,
    )
