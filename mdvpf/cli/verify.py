"""`mdvpf verify`: check a checkpoint."""

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
        typer.Argument(metavar="CHECKPOINT", dir_okay=False, help="The checkpoint file."),
    ],
    stream: Annotated[
        Path | None,
        typer.Option(
            "--input",
            exists=True,
            dir_okay=False,
            help="The file that was read, which may be compressed by gzip: compare all its lines "
            "with the checkpoint.",
        ),
    ] = None,
) -> int:
    """Check a checkpoint and the previous one: all checksums and the consistency of the content.

    The command loads them as `mdvpf filter --resume` does, and changes nothing. The exit code is 0
    if --resume can continue, and 1 if it cannot or if --input is not the file that was read.

    For example:

    mdvpf verify clicks.mdvpf

    mdvpf verify clicks.mdvpf --input clicks.txt
    """
    run = _check(checkpoint)
    previous = previous_of(checkpoint)
    if previous.exists():
        older = _check(previous)
        if run is None and older is not None:
            print(f"{checkpoint}: --resume would continue from {previous}")
        run = run or older
    if run is None:
        return shared.FAILED
    return shared.DONE if stream is None or _compare(run, stream) else shared.FAILED


def _check(path: Path) -> FilterRun | None:
    """Load a checkpoint; print a summary of it, or the error."""
    try:
        run = load_run(path)
    except (CheckpointError, OSError) as error:
        message = str(error).removeprefix(f"file={str(path)!r}: ")
        print(f"{path}: {message}" if isinstance(error, CheckpointError) else message)
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
    """Tell whether a file begins with the lines that were read, and print the result."""
    if run.position is None:
        print(f"{stream}: the checkpoint has no position to compare it with")
        return False
    start = Progress(Position(chain=run.position.chain_before))
    with open_file(stream) as file:
        for line in raw_lines(file, run.position.n_bytes):
            start.add(*line)
    found = start.position()
    if (found.n_bytes, found.chain) == (run.position.n_bytes, run.position.chain):
        print(f"{stream}: its first {found.n_lines:,} lines match the checkpoint")
        return True
    print(
        f"{stream}: does not match the checkpoint, which has read {run.position.n_lines:,} lines, "
        f"{run.position.n_bytes:,} bytes"
    )
    return False
