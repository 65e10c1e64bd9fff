"""Bytes as they arrive, cut into lines; a line that is too long is cut, and all lines are counted.

`mdvpf filter` reads with its own buffer: what was taken from a pipe and not yet absorbed is known,
and goes to the checkpoint.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import IO, NamedTuple

from mdvpf.streams.position import SPAN

LONGEST_LINE = 1 << 16  # bytes; a longer one is cut, so that no line can fill the memory
_CHUNK = 1 << 18


class RawLine(NamedTuple):
    """A line of an input.

    Attributes
    ----------
    content : bytes
        The line with its end; of one that is too long, its beginning.
    n_bytes : int
        How many bytes it takes in the input.
    end : bytes or None
        The last bytes of a line that is too long.
    """

    content: bytes
    n_bytes: int
    end: bytes | None = None

    @property
    def is_too_long(self) -> bool:
        """Whether the line was cut."""
        return len(self.content) > LONGEST_LINE


class LineBuffer:
    r"""Bytes that were read and not yet used, as complete lines and the start of the next.

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
        self._n_cut = 0  # bytes of the unfinished line that were not kept
        self._end = b""  # the last bytes of it, if it is too long

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

    @property
    def has_lines(self) -> bool:
        """Whether there are complete lines."""
        return bool(self._lines)

    @property
    def unfinished(self) -> bytes:
        """The start of a line whose end has not come."""
        return self._rest

    def give_back(self, line: RawLine) -> None:
        """Put the line that was taken last back in its place."""
        self._lines.appendleft(line)

    def finish(self) -> None:
        """Take the start of a line for all of it."""
        if self._rest:
            self._finish()

    def content(self) -> bytes:
        """Return what is in the buffer, such that feeding it to another gives the same lines."""
        lines = [
            line.content if line.content.endswith(b"\n") else line.content + b"\n"
            for line in self._lines
        ]
        return b"".join(lines) + self._rest

    def _extend(self, data: bytes) -> None:
        """Add bytes to the unfinished line, of which no more is kept than it takes to cut it."""
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
    """Yield the lines of a file up to a position."""
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
