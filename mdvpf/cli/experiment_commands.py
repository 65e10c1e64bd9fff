"""What `reproduce` and `compare` share: options, and how they show a finished experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from mdvpf.cli import shared
from mdvpf.experiments.experiment import Finished
from mdvpf.experiments.methods import ALL_NAMES
from mdvpf.parallel import BACKENDS, Executor
from mdvpf.streams.methods import resolve_method

Particles = Annotated[
    int | None, typer.Option("--particles", "-K", help="Number of particles of the filters.")
]
Methods = Annotated[
    list[str] | None,
    typer.Option(
        "--method",
        help="What to compare, besides MD-VPA; several with commas, or the option again: "
        f"{', '.join(ALL_NAMES)}.",
    ),
]
OldMethods = Annotated[str | None, typer.Option("--methods", hidden=True)]  # the former spelling
Jobs = Annotated[int, typer.Option("--jobs", "-j", help="Number of processes; -1: one a core.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder of the output.")]
Backend = Annotated[str, typer.Option(help=f"Where to run: {' or '.join(BACKENDS)}.")]
Scheduler = Annotated[
    str | None, typer.Option(help="Address of the Dask scheduler, such as tcp://host:8786.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Do not repeat runs that finished before.")]


def read_methods(methods: list[str] | None, old: str | None) -> tuple[str, ...] | None:
    """Return the names that were given, with --method or its former spelling; None if none were."""
    found = [
        resolve_method(name.strip(), ALL_NAMES, argument=option)
        for option, texts in (("method", methods or []), ("methods", [old] if old else []))
        for text in texts
        for name in text.split(",")
    ]
    return tuple(found) or None


def executor(jobs: int, backend: str, scheduler: str | None) -> Executor:
    """Return the executor that the options describe."""
    return Executor(jobs, backend, scheduler)  # type: ignore[arg-type]  # it checks the name


def show(finished: Finished) -> int:
    """Print tables, files and failures; return the exit code."""
    out = shared.console()
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
    return shared.SOME_RUNS_FAILED if finished.failures else shared.DONE
