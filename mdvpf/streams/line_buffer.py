"""`LineBuffer`: split incoming bytes into lines; truncate lines that are too long.

`mdvpf filter` uses its own buffer because a checkpoint must store the bytes that were read from a
pipe and not yet absorbed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice, takewhile
from typing import IO, NamedTuple

from mdvpf.streams.position import SPAN

LONGEST_LINE = 1 << 16  # bytes; longer lines are truncated to bound the memory
_CHUNK = 1 << 18


class RawLine(NamedTuple):
    """A line of an input.

    Attributes
    ----------
    content : bytes
        The line with its newline; only its beginning if it is too long.
    n_bytes : int
        Length of the line in the input.
    end : bytes or None
        The last bytes of a line that is too long.
    """

    content: bytes
    n_bytes: int
    end: bytes | None = None

    @property
    def is_too_long(self) -> bool:
        """Whether the line was truncated."""
        return len(self.content) > LONGEST_LINE


class LineBuffer:
    r"""Complete lines that were read and not yet used, and the start of the next line.

    Examples
    --------
    >>> from mdvpf.streams.line_buffer import LineBuffer
    >>> buffer = LineBuffer()
    >>> buffer.feed(b"cd\nls\nma")
    >>> buffer.next().content, buffer.content()
    (b'cd\n', b'ls\nma')
    """

    def __init__(self) -> None:
        self._lines: deque[RawLine] = deque()
        self._rest = b""
        self._n_cut = 0  # bytes dropped from the unfinished line
        self._end = b""  # its last bytes, if it is too long

    def feed(self, data: bytes) -> None:
        """Add bytes that were read."""
        first, *others = data.split(b"\n")
        self._extend(first if not others else first + b"\n")
        if not others:
            return
        self._finish()
        self._rest = others.pop()
        for part in others:
            self._lines.append(_raw_line(part + b"\n"))
        if len(self._rest) > LONGEST_LINE + 1:
            rest, self._rest = self._rest, b""
            self._extend(rest)

    def next(self) -> RawLine | None:
        """Take the next complete line; None if there is none."""
        return self._lines.popleft() if self._lines else None

    def first(self, n: int) -> list[RawLine]:
        """Return up to `n` complete lines without taking them; it stops before one too long."""
        return list(takewhile(lambda line: not line.is_too_long, islice(self._lines, n)))

    @property
    def unfinished(self) -> bytes:
        """The start of a line whose newline has not arrived."""
        return self._rest

    def give_back(self, line: RawLine) -> None:
        """Put back the line that `next` returned last."""
        self._lines.appendleft(line)

    def finish(self) -> None:
        """Complete the unfinished line as it is, without a newline."""
        if self._rest:
            self._finish()

    def content(self) -> bytes:
        """Return bytes that give the same lines when they are fed to another buffer."""
        lines = [
            line.content if line.content.endswith(b"\n") else line.content + b"\n"
            for line in self._lines
        ]
        return b"".join(lines) + self._rest

    def _extend(self, data: bytes) -> None:
        """Add bytes to the unfinished line; keep only its first `LONGEST_LINE` + 1 bytes."""
        room = LONGEST_LINE + 1 - len(self._rest)
        if len(data) <= room and not self._n_cut:
            self._rest += data
            return
        whole = self._end or self._rest
        self._rest += data[:room]
        self._n_cut += len(data) - room if room > 0 else len(data)
        self._end = (whole + data)[-SPAN:]

    def _finish(self) -> None:
        end = self._end if self._n_cut else None
        self._lines.append(RawLine(self._rest, len(self._rest) + self._n_cut, end))
        self._rest, self._n_cut, self._end = b"", 0, b""


def _raw_line(line: bytes) -> RawLine:
    if len(line) <= LONGEST_LINE + 1:
        return RawLine(line, len(line))
    return RawLine(line[: LONGEST_LINE + 1], len(line), line[-SPAN:])


def raw_lines(file: IO[bytes], n_bytes: int) -> Iterator[RawLine]:
    """Yield the lines in the next `n_bytes` bytes of a file."""
    buffer = LineBuffer()
    while n_bytes:
        data = file.read(min(n_bytes, _CHUNK))
        if not data:
            break
        n_bytes -= len(data)
        buffer.feed(data)
        while (line := buffer.next()) is not None:
            yield line
    buffer.finish()
    while (line := buffer.next()) is not None:
        yield line
