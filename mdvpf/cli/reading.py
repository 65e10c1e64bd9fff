"""Options of the commands that read whole files."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated

import typer

from mdvpf.cli import shared
from mdvpf.cli.option_groups import Option
from mdvpf.streams.reading import FILE_FORMATS
from mdvpf.streams.times import TIME_UNITS

Column = Annotated[
    str | None,
    typer.Option(
        help="Field of the symbol: a column of a table, or a path such as request.path in JSON "
        "lines. With this option a file of unknown suffix is read as CSV."
    ),
]
Breaks = Annotated[
    str | None,
    typer.Option(
        help="With --column: a new sequence starts where the value of this field changes. Use "
        "--key for interleaved sequences."
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help=f"Format of the file: {', '.join(FILE_FORMATS)}. "
        "\\[default: by the suffix, else lines]",
    ),
]
Key = Annotated[
    list[str] | None,
    typer.Option(
        help="Field with the key of the symbol's sequence, where sequences are interleaved. Repeat "
        "for a key of several fields."
    ),
]
Time = Annotated[str | None, typer.Option("--time", help="Field of the time.")]
TimeUnit = Annotated[
    str | None,
    typer.Option(help=f"Unit or format of the time: {', '.join(TIME_UNITS)}. \\[default: iso]"),
]
ByTime = Annotated[bool, typer.Option("--by-time", help="Sort the events by --time first.")]
End = Annotated[
    list[str] | None,
    typer.Option(help="A sequence ends after this symbol. Repeat for several symbols."),
]
Missing = Annotated[
    str | None, typer.Option(help="Text of a line or a field that marks a missing symbol.")
]
Delimiter = Annotated[
    str | None, typer.Option(help="Separator of the cells of a table, such as ';'.")
]

# How to read a file, by the names of `mdvpf.streams.readers.read_file`.
OPTIONS: Mapping[str, Option] = {
    "column": Option(Column),
    "breaks": Option(Breaks),
    "format": Option(Format),
    "key": Option(Key),
    "time": Option(Time),
    "time_unit": Option(TimeUnit),
    "by_time": Option(ByTime, default=False),
    "end": Option(End),
    "missing": Option(Missing),
    "delimiter": Option(Delimiter),
}
SEQUENCE_OPTIONS = {
    name: OPTIONS[name] for name in ("column", "breaks", "format", "key", "end", "delimiter")
}


@contextmanager
def show_warnings() -> Iterator[None]:
    """Print the warnings of the readers on standard error, without Python's source lines."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", UserWarning)
        yield
    for each in found:
        shared.complain(f"warning: {each.message}")
