"""What the commands share: their options, and how they show a finished experiment."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from mdvpf.experiments.experiment import Finished
from mdvpf.experiments.methods import NAMES
from mdvpf.parallel import BACKENDS, Executor

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
Particles = Annotated[
    int | None, typer.Option("--particles", "-K", help="Number of particles of the filters.")
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
Methods = Annotated[
    str | None,
    typer.Option(help=f"Names with commas between them, of: {', '.join(NAMES)}."),
]
Alpha = Annotated[float | None, typer.Option(help="Weight of the oracle in a transition.")]
Gamma = Annotated[float | None, typer.Option(help="Weight of a new state in the oracle.")]
Beta = Annotated[float | None, typer.Option(help="Weight of each symbol in an emission.")]
FalseAlarms = Annotated[
    float | None,
    typer.Option(help="The wanted share of alarms among judgements. [default: 0.01]"),
]
Seed = Annotated[int | None, typer.Option(help="The seed that all others come from.")]
Jobs = Annotated[int, typer.Option("--jobs", "-j", help="Number of processes; -1: one a core.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder of the output.")]
Backend = Annotated[str, typer.Option(help=f"Where to run: {' or '.join(BACKENDS)}.")]
Scheduler = Annotated[
    str | None, typer.Option(help="Address of the Dask scheduler, such as tcp://host:8786.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Do not repeat runs that finished before.")]


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


def split_names(methods: str | None) -> tuple[str, ...] | None:
    """Return the names in a list with commas; None stays None."""
    return None if methods is None else tuple(name.strip() for name in methods.split(","))


def executor(jobs: int, backend: str, scheduler: str | None) -> Executor:
    """Return the executor that the options describe."""
    return Executor(jobs, backend, scheduler)  # type: ignore[arg-type]  # it checks the name


def console() -> Console:
    """Return the console: as wide as the terminal, or wide enough for tables in a file."""
    found = Console()
    return found if found.is_terminal else Console(width=WIDTH_OF_FILES)


def show(finished: Finished) -> int:
    """Print tables, files and failures; return the exit code."""
    out = console()
    for table in finished.report.tables:
        out.print(table.rich())
        out.print()
    out.print(f"folder: {finished.folder}", soft_wrap=True, highlight=False, markup=False)
    for picture in finished.pictures:
        if picture.suffix == ".png":
            out.print(f"picture: {picture}", soft_wrap=True, highlight=False, markup=False)
    errors = Console(stderr=True)
    for failure in finished.failures:
        errors.print(f"failed: {failure.task}: {failure.error}", soft_wrap=True, markup=False)
    return SOME_RUNS_FAILED if finished.failures else DONE
