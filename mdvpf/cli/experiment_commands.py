"""Options that `reproduce` and `compare` share, and the output of a finished experiment."""

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
        help="Methods to compare with MD-VPA. Separate them by commas or repeat the option: "
        f"{', '.join(ALL_NAMES)}.",
    ),
]
OldMethods = Annotated[str | None, typer.Option("--methods", hidden=True)]  # name in version 0.1
Jobs = Annotated[
    int, typer.Option("--jobs", "-j", help="Number of processes; -1 starts one per core.")
]
Out = Annotated[Path, typer.Option("--out", "-o", help="Output folder.")]
Backend = Annotated[str, typer.Option(help=f"Where tasks run: {' or '.join(BACKENDS)}.")]
Scheduler = Annotated[
    str | None, typer.Option(help="Address of the Dask scheduler, such as tcp://host:8786.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Skip runs that are already finished.")]


def read_methods(methods: list[str] | None, old: str | None) -> tuple[str, ...] | None:
    """Return the names of --method and of its old spelling, or None without any."""
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
