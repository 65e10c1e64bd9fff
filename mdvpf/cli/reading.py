"""Options of the commands that read whole files, and how they read."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from mdvpf.cli import shared
from mdvpf.streams.reading import FILE_FORMATS
from mdvpf.streams.times import TIME_UNITS

Column = Annotated[
    str | None,
    typer.Option(
        help="The field of the symbol: a column of a table, or a path such as request.path in JSON "
        "lines. A file without a telling name is CSV then."
    ),
]
Breaks = Annotated[
    str | None,
    typer.Option(
        help="With --column: a new sequence where the value of this field changes. For sequences "
        "that are interleaved there is --key."
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help=f"What the file has: {', '.join(FILE_FORMATS)}. \\[default: as its name says; lines]",
    ),
]
Key = Annotated[
    list[str] | None,
    typer.Option(
        help="The field that says which of the interleaved sequences a symbol belongs to; again "
        "for a key of several fields."
    ),
]
Time = Annotated[str | None, typer.Option("--time", help="The field of the time.")]
TimeUnit = Annotated[
    str | None,
    typer.Option(help=f"How the time is written: {', '.join(TIME_UNITS)}. \\[default: iso]"),
]
ByTime = Annotated[
    bool, typer.Option("--by-time", help="Sort by time before anything else; see --time.")
]
End = Annotated[
    list[str] | None,
    typer.Option(help="The sequence ends after this symbol; again for several such symbols."),
]
Missing = Annotated[
    str | None, typer.Option(help="How a line or a field says that its symbol is missing.")
]
Delimiter = Annotated[
    str | None, typer.Option(help="What separates the cells of a table, such as ';'.")
]


@contextmanager
def told() -> Iterator[None]:
    """Print the warnings of the readers as lines for whoever runs the command."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", UserWarning)
        yield
    for each in found:
        shared.complain(f"warning: {each.message}")
