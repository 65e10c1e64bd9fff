"""`mdvpf verify`: whether a checkpoint can be relied on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mdvpf.checkpoint import CheckpointError, previous_of
from mdvpf.cli import shared
from mdvpf.cli.inspect import load_run
from mdvpf.cli.source import open_file
from mdvpf.streams.filter_run import FilterRun
from mdvpf.streams.line_buffer import raw_lines
from mdvpf.streams.position import Position, Progress


def verify(
    checkpoint: Annotated[
        Path,
        typer.Argument(metavar="CHECKPOINT", dir_okay=False, help="The file."),
    ],
    stream: Annotated[
        Path | None,
        typer.Option(
            "--input",
            exists=True,
            dir_okay=False,
            help="Compare every line that was read with this file, packed by gzip or not.",
        ),
    ] = None,
) -> int:
    """Check a checkpoint, and the one before it: every checksum, and that all of it fits together.

    It is loaded as --resume would, and nothing is changed. The exit code is 0 if --resume could go
    on, and 1 if not, or if the input is not the one that was read.

    For example:

    mdvpf verify clicks.mdvpf

    mdvpf verify clicks.mdvpf --input clicks.txt
    """
    run = _check(checkpoint)
    previous = previous_of(checkpoint)
    if previous.exists():
        older = _check(previous)
        if run is None and older is not None:
            print(f"{checkpoint}: --resume would go on from {previous}")
        run = run or older
    if run is None:
        return shared.FAILED
    return shared.DONE if stream is None or _compare(run, stream) else shared.FAILED


def _check(path: Path) -> FilterRun | None:
    """Load a checkpoint, and say what is in it or what is wrong with it."""
    try:
        run = load_run(path)
    except (CheckpointError, OSError) as error:
        print(f"{path}: {error}" if isinstance(error, CheckpointError) else str(error))
        return None
    text = f"{path}: good; {run.monitor.n_lines:,} lines"
    if run.position is not None:
        text += f", {run.position.n_bytes:,} bytes of {run.position.path or 'a pipe'}"
    n_reports = run.outbox.lines.count(b"\n")
    if n_reports:
        text += f"; reports still to be written: {n_reports:,}"
    if run.inbox:
        text += f"; bytes still to be absorbed: {len(run.inbox):,}"
    print(text)
    return run


def _compare(run: FilterRun, stream: Path) -> bool:
    """Compare all lines that were read with a file."""
    if run.position is None:
        print(f"{stream}: the checkpoint has no position to compare it with")
        return False
    start = Progress(Position(chain=run.position.chain_before))
    with open_file(stream) as file:
        for line in raw_lines(file, run.position.n_bytes):
            start.add(*line)
    found = start.position()
    if (found.n_bytes, found.chain) == (run.position.n_bytes, run.position.chain):
        print(f"{stream}: its first {found.n_lines:,} lines are those that were read")
        return True
    print(
        f"{stream}: not what was read; the checkpoint has {run.position.n_lines:,} lines, "
        f"{run.position.n_bytes:,} bytes"
    )
    return False
