"""The format "lines": one symbol a line, and an empty line ends the sequence."""

from __future__ import annotations

from mdvpf.streams.events import Event
from mdvpf.streams.formats.base import LineFormat, decoded


class Lines(LineFormat):
    r"""One symbol a line, without surrounding white space. An empty line ends the sequence.

    Examples
    --------
    >>> from mdvpf.streams.formats import make_format
    >>> lines = make_format("lines")
    >>> lines.parse(b"  cd\r\n").symbol
    'cd'
    >>> end = lines.parse(b"\n")
    >>> end.ends, end.no_symbol
    (True, True)
    """

    name = "lines"
    takes = ("missing", "end")
    needs_symbol = False
    reads_ahead = True

    def parse(self, line: bytes) -> Event | None:
        """Return the event of a line."""
        text = decoded(line).strip()
        if not text:
            return Event(None, ends=True, no_symbol=True)
        if text == self.fields.missing:
            return Event(None)
        return Event(text, ends=self.fields.is_end(text))
