"""Formats of live streams, one file each: they parse the bytes of a line into an `Event`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mdvpf._support import validate
from mdvpf.streams.formats.base import LineFormat
from mdvpf.streams.formats.delimited import Csv, Tsv
from mdvpf.streams.formats.journal import Journal
from mdvpf.streams.formats.json_lines import JsonLines
from mdvpf.streams.formats.lines import Lines
from mdvpf.streams.formats.text import Text

_CLASSES: dict[str, type[LineFormat]] = {
    each.name: each for each in (Lines, JsonLines, Csv, Tsv, Journal, Text)
}
FORMATS = tuple(_CLASSES)

__all__ = ["FORMATS", "LineFormat", "make_format"]


def make_format(
    name: str, options: Mapping[str, Any] | None = None, state: Mapping[str, Any] | None = None
) -> LineFormat:
    """Return a format of lines.

    Parameters
    ----------
    name : str
        "lines": one symbol a line, an empty line ends the sequence. "json": one JSON object a
        line. "csv", "tsv": rows of cells, with a header in the first line. "journal": the output
        of ``journalctl -o json``. "text": free text, whose templates Drain3 finds (extra `logs`).
    options : mapping, optional
        The options, by name; None is the same as an absent option.

        ``symbol`` (str): the field of the symbol; required for "json", "csv" and "tsv".
        ``key`` (str or sequence of str): the field of the key; several fields make a tuple.
        ``time`` (str): the field of the time. ``time_unit`` ("iso", "s", "ms", "us" or "ns"): its
        unit, by default ISO 8601. ``pass_fields`` (sequence of str): fields to copy to
        `Event.fields`. ``delimiter`` (str): separator of the cells of "csv" and "tsv".
        ``pattern`` (str): a regular expression whose named groups are the fields of "text".
        ``similarity``, ``max_templates``, ``masks``: settings of the templates of "text" and
        "journal"; see `Templates`.

        ``missing`` (str): the text of a missing symbol. ``end`` (str or sequence of str): the text
        of a symbol that ends the sequence of its key.
    state : mapping, optional
        The state to continue from, as `LineFormat.state` returned it.

    Examples
    --------
    >>> from mdvpf.streams.formats import make_format
    >>> log = make_format("json", {"symbol": "page", "key": "user", "time": "at"})
    >>> log.parse(b'{"page": "news", "user": "ann", "at": "1970-01-01T00:00:10Z"}')
    Event(symbol='news', key='ann', time=10.0, fields={}, ends=False, no_symbol=False)
    """
    given = {} if options is None else options
    if not isinstance(given, Mapping):
        raise TypeError(f"options={options!r}: expected a mapping of names to values")
    made = _CLASSES[validate.choice("format", name, FORMATS)](given)
    if state is not None:
        made.restore(state)
    return made
