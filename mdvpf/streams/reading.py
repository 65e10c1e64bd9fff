"""`read_events`: read whole files and data frames of any format.

Live streams are read line by line (`mdvpf.streams.formats`). A whole file may also be Parquet or an
XES log, its CSV cells may contain newlines, and its events can be sorted by time.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from mdvpf._support import validate
from mdvpf.predictor import Label
from mdvpf.streams import event_logs
from mdvpf.streams.events import Event
from mdvpf.streams.formats import FORMATS, LineFormat, make_format
from mdvpf.streams.formats.base import check_options
from mdvpf.streams.formats.delimited import DELIMITERS, read_delimiter, read_rows
from mdvpf.streams.formats.lines import Lines
from mdvpf.streams.frames import read_frame, read_parquet
from mdvpf.streams.input_files import opened, read_lines, text_lines
from mdvpf.streams.records import FIELD_OPTIONS, Fields

PARQUET, XES = "parquet", "xes"
FILE_FORMATS = (*FORMATS, PARQUET, XES)
_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": PARQUET,
    ".pq": PARQUET,
    ".xes": XES,
}


def read_events(
    source: Any, *, format: str | None = None, by_time: bool = False, **options: Any
) -> Iterator[Event]:
    r"""Yield the events of a file or a data frame.

    Parameters
    ----------
    source : str, Path or data frame
        A file, which may be compressed by gzip; or a frame of pandas, polars or Arrow (extra
        `frames`).
    format : str, optional
        Format of the file: one of `make_format`, "parquet" (extra `parquet`) or "xes". By default
        the suffix decides; an unknown suffix means "lines".
    by_time : bool, default False
        Sort the events by time, which keeps all of them in memory. Events with equal times keep
        their order.
    **options
        `symbol`, `key`, `time` and the other options of `make_format`. For a frame they name
        columns. For an XES log they name attributes of events, or with the prefix ``case:``
        attributes of traces; the defaults there are ``concept:name`` for `symbol`,
        ``case:concept:name`` for `key` and ``time:timestamp`` for `time`.

    Returns
    -------
    iterator of Event
        It raises a ValueError with the name of the file and the line or row if the input is
        malformed.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from mdvpf.streams import read_events
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "clicks.csv")
    ...     _ = path.write_text("user,page\nann,news\nbob,sport\n")
    ...     [(event.key, event.symbol) for event in read_events(path, symbol="page", key="user")]
    [('ann', 'news'), ('bob', 'sport')]
    """
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        name = format_of(path) if format is None else format
        if format is None and name == "lines":
            _require_no_fields(path, options)
        events = _read_path(path, _reader(name, options))
    else:
        if format is not None:
            raise ValueError(f"format={format!r}: expected only for a file, not for a frame")
        events = read_frame(source, _fields("frame", options))
    return _sorted(events) if validate.flag("by_time", by_time) else events


def format_of(path: Path) -> str:
    """Return the format of a file by its suffix; "lines" if the suffix is unknown.

    Examples
    --------
    >>> from pathlib import Path
    >>> from mdvpf.streams.reading import format_of
    >>> format_of(Path("clicks.csv.gz")), format_of(Path("clicks.log"))
    ('csv', 'lines')
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] == [".gz"]:
        suffixes.pop()
    return _SUFFIXES.get(suffixes[-1], "lines") if suffixes else "lines"


def _require_no_fields(path: Path, options: Mapping[str, Any]) -> None:
    """Raise if options name fields of a file that is read as lines because of its suffix."""
    for option in FIELD_OPTIONS:
        if option not in Lines.takes and options.get(option) is not None:
            raise ValueError(
                f"{path}: {option}={options[option]!r}, but without a known suffix the file is "
                f"read as lines, which have no fields; expected {', '.join(_SUFFIXES)}, or format"
            )


_Read = Callable[[BinaryIO], Iterator[Event]]


def _reader(name: str, options: Mapping[str, Any]) -> _Read:
    """Return the function that reads a format; its errors do not name the file."""
    validate.choice("format", name, FILE_FORMATS)
    if name == XES:
        check_options(name, FIELD_OPTIONS, options)
        given = {option: value for option, value in options.items() if value is not None}
        fields = Fields({**event_logs.DEFAULTS, **given})
        optional = frozenset(
            name for option, name in event_logs.OPTIONAL.items() if option not in given
        )
        return lambda file: event_logs.read_xes(file, fields, optional=optional)
    if name == PARQUET:
        fields = _fields(name, options)
        return lambda file: read_parquet(file, fields)
    if name in DELIMITERS:
        fields = _fields(name, options, "delimiter")
        delimiter = read_delimiter(options.get("delimiter"), DELIMITERS[name])
        return lambda file: read_rows(text_lines(file), fields, delimiter)
    make_format(name, options)  # raises now if the options are wrong
    return lambda file: _parsed(file, make_format(name, options))


def _fields(name: str, options: Mapping[str, Any], *more: str) -> Fields:
    check_options(name, (*FIELD_OPTIONS, *more), options)
    fields = Fields(options)
    if fields.symbol is None:
        raise ValueError(f"expected symbol, the name of one of the columns of a {name}")
    return fields


def _read_path(path: Path, read: _Read) -> Iterator[Event]:
    with opened(path) as file:
        try:
            yield from read(file)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error.__cause__


def _parsed(file: BinaryIO, line_format: LineFormat) -> Iterator[Event]:
    for i, line in enumerate(read_lines(file)):
        try:
            event = line_format.parse(line)
        except ValueError as error:
            raise ValueError(f"line {i + 1}: {error}") from None
        if event is not None:
            yield event


def _sorted(events: Iterator[Event]) -> Iterator[Event]:
    """Yield events sorted by time; a sequence that was ended now ends after its last event."""
    found: list[tuple[float, tuple[Label | None, int], Event]] = []
    n_ended: dict[Label | None, int] = {}
    for i, event in enumerate(events):
        if not event.no_symbol and event.time is None:
            raise ValueError(
                f"by_time=True: event {i + 1} has no time; expected time, the field that has it"
            )
        sequence = event.key, n_ended.get(event.key, 0)
        if event.time is not None:
            found.append((event.time, sequence, event))
        if event.ends:
            n_ended[event.key] = sequence[1] + 1
    found.sort(key=lambda each: each[0])
    last = {sequence: i for i, (_, sequence, _) in enumerate(found)}
    for i, (_, sequence, event) in enumerate(found):
        ends = last[sequence] == i and sequence[1] < n_ended.get(sequence[0], 0)
        yield event if event.ends == ends else dataclasses.replace(event, ends=ends)
