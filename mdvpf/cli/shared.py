"""What the commands share: options, exit codes, and the console."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

DONE, FAILED, WRONG_USAGE, SOME_RUNS_FAILED, INTERRUPTED = 0, 1, 2, 3, 130  # exit codes
WIDTH_OF_FILES = 180  # characters, where the output is not a terminal

File = Annotated[
    Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="The file, in UTF-8.")
]
Column = Annotated[
    str | None, typer.Option(help="The file is CSV with a header: read this column.")
]
Breaks = Annotated[
    str | None,
    typer.Option(help="With --column: a new sequence where the value of this column changes."),
]
ParticlesInAll = Annotated[
    int | None,
    typer.Option(
        "--particles",
        "-K",
        help="Number of particles: of auto in all its filters together, 84 or more, by default "
        "8,400; of a single filter 1,000.",
    ),
]
Alpha = Annotated[float | None, typer.Option(help="Weight of the oracle in a transition.")]
Gamma = Annotated[float | None, typer.Option(help="Weight of a new state in the oracle.")]
Beta = Annotated[float | None, typer.Option(help="Weight of each symbol in an emission.")]
FalseAlarms = Annotated[
    float | None,
    typer.Option(help="The wanted share of alarms among judgements. [default: 0.01]"),
]
Seed = Annotated[int | None, typer.Option(help="The seed that all others come from.")]


def complain(message: str) -> None:
    """Print a line for whoever runs the command, beside its output."""
    print(f"mdvpf: {message}", file=sys.stderr, flush=True)


@contextmanager
def usage() -> Iterator[None]:
    """Turn what is wrong with a value of an option into an error of the command line."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise typer.BadParameter(str(error)) from error


def console() -> Console:
    """Return the console: as wide as the terminal, or wide enough for tables in a file."""
    found = Console()
    return found if found.is_terminal else Console(width=WIDTH_OF_FILES)
