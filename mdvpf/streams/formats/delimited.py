"""The formats "csv" and "tsv": rows of cells; the first line is the header."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from mdvpf.streams.events import Event
from mdvpf.streams.excerpts import shown
from mdvpf.streams.formats.base import LineFormat, check_state, decoded
from mdvpf.streams.records import FIELD_OPTIONS, Fields

DELIMITERS = {"csv": ",", "tsv": "\t"}


class Csv(LineFormat):
    """Rows of cells separated by commas; the first line has the names of the columns.

    A cell may be quoted; two quotation marks inside it are one. Blank lines are skipped, and so are
    repeated headers, because a stream may be concatenated from several files. A quoted cell with a
    newline is an error.

    Examples
    --------
    >>> from mdvpf.streams.formats import make_format
    >>> rows = make_format("csv", {"symbol": "page", "key": "user"})
    >>> rows.parse(b"user,page") is None
    True
    >>> rows.parse(b'ann,"news, local"').symbol
    'news, local'
    """

    name = "csv"
    takes = (*FIELD_OPTIONS, "delimiter")
    reads_ahead = True

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(options)
        self._delimiter = read_delimiter(options.get("delimiter"), DELIMITERS[self.name])
        self._header: Header | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The options that are not None, ready for JSON."""
        own = {} if self._delimiter == DELIMITERS[self.name] else {"delimiter": self._delimiter}
        return {**super().options, **own}

    def parse(self, line: bytes) -> Event | None:
        """Return the event of a line; None for the header."""
        text = decoded(line)
        if not text.strip():
            return None
        try:
            (cells,) = csv.reader([text], delimiter=self._delimiter, strict=True)
        except csv.Error as error:
            raise ValueError(f"{shown(text)}: expected a row of cells ({_reason(error)})") from None
        if self._header is None:
            self._header = Header(cells, self.fields)
            return None
        return self._header.event(cells)

    def state(self) -> dict[str, Any]:
        """Return the header, which is None before the first line."""
        return {"header": None if self._header is None else list(self._header.names)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the header."""
        check_state(self.name, state, ("header",))
        header = state["header"]
        if header is None:
            self._header = None
            return
        if not isinstance(header, list) or not all(isinstance(name, str) for name in header):
            raise ValueError(f"header={shown(header)}: expected a list of names, or None")
        self._header = Header(header, self.fields)


class Tsv(Csv):
    r"""Like "csv", with cells separated by tabs.

    Examples
    --------
    >>> from mdvpf.streams.formats import make_format
    >>> rows = make_format("tsv", {"symbol": "page"})
    >>> rows.parse(b"user\tpage\n"), rows.parse(b"ann\tnews\n").symbol
    (None, 'news')
    """

    name = "tsv"


class Header:
    """The names of the columns; `event` reads a row by them.

    Parameters
    ----------
    names : sequence of str
        The cells of the first row.
    fields : Fields
        The columns to read.

    Examples
    --------
    >>> from mdvpf.streams.formats.delimited import Header
    >>> from mdvpf.streams.records import Fields
    >>> Header(["user", "page"], Fields({"symbol": "page"})).event(["ann", "news"]).symbol
    'news'
    """

    def __init__(self, names: Sequence[str], fields: Fields) -> None:
        self.names = tuple(name.strip() for name in names)
        for name in fields.names:
            if self.names.count(name) != 1:
                problem = "no column" if name not in self.names else "several columns"
                raise ValueError(f"{problem} {name!r}; expected one in {shown(list(self.names))}")
        self._fields = fields
        self._index = {name: i for i, name in enumerate(self.names)}

    def event(self, cells: Sequence[str]) -> Event | None:
        """Return the event of a row, or None for a repeated header."""
        if len(cells) != len(self.names):
            raise ValueError(f"{len(cells)} cells; expected {len(self.names)}, as in the header")
        if tuple(cell.strip() for cell in cells) == self.names:
            return None
        return self._fields.event(lambda name: cells[self._index[name]])


def read_rows(lines: Iterable[str], fields: Fields, delimiter: str) -> Iterator[Event]:
    """Yield the events of a whole table; errors name the row, from 1 after the header.

    Unlike in a live stream, a quoted cell may contain newlines.
    """
    rows = csv.reader(lines, delimiter=delimiter, strict=True)
    full = (cells for cells in rows if cells)
    try:
        header = Header(next(full, []), fields)
        for i, cells in enumerate(full):
            try:
                event = header.event(cells)
            except ValueError as error:
                raise ValueError(f"row {i + 1}: {error}") from None
            if event is not None:
                yield event
    except csv.Error as error:
        raise ValueError(f"line {rows.line_num}: {error}; expected rows of cells") from None


def read_delimiter(delimiter: Any, default: str) -> str:
    """Return the delimiter, or raise if it is invalid."""
    if delimiter is None:
        return default
    if not isinstance(delimiter, str):
        raise TypeError(f"delimiter={delimiter!r}: expected a str")
    if len(delimiter) != 1 or delimiter in '"\r\n ':
        raise ValueError(f"delimiter={delimiter!r}: expected one character, such as ;")
    return delimiter


def _reason(error: csv.Error) -> str:
    if "unexpected end of data" in str(error):
        return "a quotation mark is not closed: a live stream cannot have records of several lines"
    return str(error)
