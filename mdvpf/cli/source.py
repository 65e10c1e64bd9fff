"""Where lines come from: a file, whose position is known, or a pipe, which gives bytes only once.

Input is read a little at a time and by hand, so that at every moment it is known what was read and
not yet absorbed: of a file that is read again, of a pipe it goes to the checkpoint.
"""

from __future__ import annotations

import array
import gzip
import os
import sys
import zlib
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

_PIPE_BYTES = 4096  # read at a time
_FILE_BYTES = 1 << 16
_LEAST_HEAD = 256  # bytes at the start of a stream that say whether it comes again


class Filled(Enum):
    """What came of an attempt to read."""

    DATA = 1
    END = 2
    WOKEN = 3  # a signal came


class Source:
    """An input, cut into lines.

    Attributes
    ----------
    name : str
        For messages.
    buffer : LineBuffer
        What was read and not absorbed.
    progress : Progress
        How far the input was absorbed.
    is_pipe : bool
        Whether bytes come only once.
    may_be_cut : bool
        Whether the next line may be the end of one whose start is lost.
    """

    name: str
    is_pipe: bool

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.buffer = LineBuffer()
        self.may_be_cut = False

    def fill(self, stop: Stop) -> Filled:
        """Read some bytes, once there are no complete lines any more; wait for them if need be."""
        raise NotImplementedError

    def waiting(self) -> int:
        """Return how many bytes are known to wait, those in the buffer aside."""
        raise NotImplementedError

    def inbox(self) -> bytes:
        """Return what has to be kept, as it cannot be read again."""
        return self.buffer.content() if self.is_pipe else b""

    def close(self) -> None:
        """Let go of the input."""


class FileSource(Source):
    """A file, and the files that follow it if it was rotated.

    Parameters
    ----------
    file : binary file
        The file, at the position.
    progress : Progress
        That position.
    name : str
        The name of the file.
    later : list of Path
        The files that follow, in order.
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
        """Read some bytes, of the next file at the end of the present one."""
        data = read_some(self._file, self.name, _FILE_BYTES)
        while not data and self._later:
            if self.buffer.unfinished:
                self.buffer.finish()  # nobody writes to the old file any more
                return Filled.DATA
            self._next_file()
            data = read_some(self._file, self.name, _FILE_BYTES)
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
        """Return the bytes after those that were read; of a packed file 0."""
        if self._is_packed:
            return 0
        return max(0, os.fstat(self._file.fileno()).st_size - self._n_read)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class PipeSource(Source):
    """A pipe, a terminal, a socket, or a stream of Python.

    Parameters
    ----------
    stream : binary file
        The input.
    progress : Progress
        Where it goes on.
    name : str
        For messages.
    inbox : bytes
        What an earlier run has read of it and not absorbed.
    is_resumable : bool
        Whether a checkpoint is kept, which packed bytes in the middle of a stream do not allow.
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
        self.comes_again = False  # whether the input began as the stream did at its very start
        self.buffer.feed(inbox)

    def fill(self, stop: Stop) -> Filled:
        """Read what is there, or wait for it."""
        if self._descriptor is None:
            data = self._stream.read1(_PIPE_BYTES)
        elif stop.wait_for(reading=self._descriptor):
            try:
                data = os.read(self._descriptor, _PIPE_BYTES)
            except BlockingIOError:  # somebody else took it
                return Filled.WOKEN
        else:
            return Filled.WOKEN
        if not data:
            if self._packed is not None and not self._packed.eof:
                raise ValueError(f"{self.name}: expected the whole of what gzip packed")
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
                        f"{self.name}: packed by gzip, where a checkpoint cannot go on; expected "
                        "zcat before it, or the name of the file"
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
            raise ValueError(f"{self.name}: expected what gzip packed ({error})") from error
        return b"".join(parts)

    def _watch(self, data: bytes) -> None:
        """Compare the first bytes with those at the very start of the stream."""
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
    """Open a file for reading, unpacked if it is packed by gzip."""
    file = path.open("rb")
    return unpacked(file)


def unpacked(file: Any) -> IO[bytes]:
    """Return what reads the content of an open file, which may be packed by gzip."""
    start = file.tell()
    packed = file.read(2) == GZIP
    file.seek(start)
    return _Unpacked(file) if packed else file  # type: ignore[return-value]


class _Unpacked(gzip.GzipFile):
    """What gzip packed, which closes the file that it is in."""

    def __init__(self, file: Any) -> None:
        super().__init__(fileobj=file)
        self._packed_file = file

    def close(self) -> None:
        super().close()
        self._packed_file.close()


def read_some(file: IO[bytes], name: str, n_bytes: int) -> bytes:
    """Read from a file; what is wrong with a packed one is a ValueError that names it."""
    try:
        return file.read(n_bytes)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{name}: expected a whole file of gzip ({error})") from error


def identify(progress: Progress, path: Path, file: IO[bytes]) -> None:
    """Note in a position which file it is of."""
    found = os.fstat(file.fileno())
    progress.path, progress.device, progress.inode = (
        os.path.abspath(path),
        found.st_dev,
        found.st_ino,
    )
