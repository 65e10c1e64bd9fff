"""Open the input of a run at its position: the same file, a rotated file, or a pipe."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from mdvpf.cli.access import is_closed
from mdvpf.cli.source import (
    FileSource,
    PipeSource,
    Source,
    identify,
    open_file,
    unpack_gzip,
)
from mdvpf.streams.filter_run import FilterRun
from mdvpf.streams.line_buffer import raw_lines
from mdvpf.streams.position import Position, Progress

STDIN = Path("-")
_EVERYTHING = 2**62
_CHUNK = 1 << 20
_MOST_CANDIDATES = 1000  # files in the input's folder to check for a rotation


def open_source(
    path: Path,
    run: FilterRun,
    *,
    from_start: bool = False,
    is_resumable: bool = True,
    note: Callable[[str], None] = print,
) -> Source:
    """Open the input of a run at the run's position.

    Parameters
    ----------
    path : Path
        The input; `STDIN` is standard input.
    run : FilterRun
        The run, with its position and the bytes that were read after it.
    from_start : bool, default False
        Read the input from its start, as new data after all that was read.
    is_resumable : bool, default True
        Whether the run writes checkpoints.
    note : callable
        Called with messages, such as that the input was rotated.
    """
    if path == STDIN:
        if is_closed(sys.stdin, os.O_RDONLY):
            raise OSError("standard input is closed; expected an open one, or a FILE")
        stream: Any = getattr(sys.stdin, "buffer", sys.stdin)
        name = "standard input"
        if not _is_regular(stream):
            return _pipe(stream, name, run, from_start, is_resumable, note)
        file = unpack_gzip(os.fdopen(os.dup(stream.fileno()), "rb"), name)
        return _file(file, STDIN, name, run, from_start, note)
    if path.exists() and not path.is_file():
        pipe = open(path, "rb", buffering=0)  # noqa: SIM115 - the source closes it
        return _pipe(pipe, str(path), run, from_start, is_resumable, note)
    try:
        file = open_file(path)
    except FileNotFoundError:
        if run.position is None or not run.position.n_bytes or from_start:
            raise
        return _rotated(path, run.position, note, missing=True)
    return _file(file, path, str(path), run, from_start, note)


def _is_regular(stream: IO[bytes]) -> bool:
    """Tell whether a stream is a regular file at offset 0."""
    try:
        descriptor = stream.fileno()
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        # At another offset the caller has read a part, and the rest is treated as a pipe.
        return is_file and os.lseek(descriptor, 0, os.SEEK_CUR) == 0
    except (OSError, AttributeError):
        return False


def _pipe(
    stream: Any,
    name: str,
    run: FilterRun,
    from_start: bool,
    is_resumable: bool,
    note: Callable[[str], None],
) -> Source:
    """Return the source of a pipe, which continues with the next bytes that arrive."""
    position = run.position
    if position is None or from_start:
        progress = Progress(None if position is None else position.next_input())
    else:
        progress = Progress(position)
    progress.path, progress.device, progress.inode = None, 0, 0
    inbox = run.inbox
    if not run.has_ended:  # an unfinished line is dropped, because its end was lost
        inbox = inbox[: inbox.rfind(b"\n") + 1]
        note(
            f"{name}: the last run was killed; what it took from a pipe after its last checkpoint, "
            f"at line {run.monitor.n_lines}, is lost"
        )
    source = PipeSource(stream, progress, name, inbox, is_resumable)
    source.n_before_cut = None if run.has_ended else inbox.count(b"\n")
    if from_start:
        source.buffer.finish()
    return source


def _file(
    file: IO[bytes],
    path: Path,
    name: str,
    run: FilterRun,
    from_start: bool,
    note: Callable[[str], None],
) -> Source:
    """Return the source of a file, at the position of the run."""
    position = run.position
    progress = Progress()
    if position is None:
        if run.monitor.n_lines:
            progress = _count_lines(file, name, run.monitor.n_lines)
    elif from_start:
        progress = Progress(position.next_input())
    elif position.is_in(file):
        if path != STDIN and _was_renamed(path, file, position):
            file.close()
            return _rotated(path, position, note)
        progress = Progress(position)
    elif path == STDIN:
        raise ValueError(_why_not(name, file, position))
    else:
        reason = _why_not(name, file, position)
        file.close()
        return _rotated(path, position, note, reason)
    identify(progress, path, file)
    file.seek(progress.n_bytes)
    source = FileSource(file, progress, name)
    if from_start and run.inbox:  # bytes of a pipe, which this file replaces
        source.buffer.feed(run.inbox)
        source.buffer.finish()
    return source


def _count_lines(file: IO[bytes], name: str, n_lines: int) -> Progress:
    """Return the position after `n_lines` lines, for a checkpoint without a position."""
    progress = Progress()
    lines = raw_lines(file, _EVERYTHING)
    for i in range(n_lines):
        line = next(lines, None)
        if line is None:
            raise ValueError(
                f"{name}: {i} lines, and the checkpoint was made after {n_lines}; expected the "
                "same file, a longer one, or --from-start"
            )
        progress.add(*line)
    return progress


def _why_not(name: str, file: IO[bytes], position: Position) -> str:
    """Return the error message for an input that does not begin with the bytes that were read."""
    size = _size(file)
    where = f"the checkpoint was made after {position.n_bytes} ({position.n_lines} lines)"
    accept = "expected the same file, a longer one, or --from-start to read all of this one"
    if size < position.n_bytes:
        return f"{name}: {size} bytes, and {where}: it was truncated, or replaced; {accept}"
    head_only = Position(position.head_bytes, 0, position.head_bytes, position.head)
    if head_only.is_in(file):
        return f"{name}: the content before that position has changed: {where}; {accept}"
    return f"{name}: another stream, or a new file after a rotation: {where}; {accept}"


def _size(file: IO[bytes]) -> int:
    """Return the length of a file's content, without gzip's compression."""
    file.seek(0)
    return sum(len(data) for data in iter(lambda: file.read(_CHUNK), b""))


# --- Rotation


def _rotated(
    path: Path,
    position: Position,
    note: Callable[[str], None],
    reason: str | None = None,
    *,
    missing: bool = False,
) -> Source:
    """Return the source that reads the rotated file first, then the files that followed it."""
    beside = _beside(path, position)
    old = next((each for each in beside if _holds(each, position)), None)
    if old is None:
        if missing:
            raise FileNotFoundError(2, os.strerror(2), str(path))
        raise ValueError(reason)
    file = open_file(old)
    file.seek(position.n_bytes)
    progress = Progress(position)
    identify(progress, old, file)
    later = _after(old, path, beside)
    if not missing:
        later.append(path)
    note(f"{path}: it was rotated; finishing {old} first")
    return FileSource(file, progress, str(old), later)


def _was_renamed(path: Path, file: IO[bytes], position: Position) -> bool:
    """Tell whether the input was rotated although the new file begins with the same bytes.

    In a stream that repeats itself the bytes cannot show this, but the inode and the name can.
    """
    known = position.device, position.inode
    found = os.fstat(file.fileno())
    if not position.inode or position.path is None or known == (found.st_dev, found.st_ino):
        return False
    for each in _beside(path, position):
        if not each.name.startswith(path.name) or _age(each.name[len(path.name) :]) is None:
            continue
        with suppress(OSError):
            found = each.stat()
            if known == (found.st_dev, found.st_ino):
                return _holds(each, position)
    return False


def _beside(path: Path, position: Position) -> list[Path]:
    """Return the files that may have been at the path: the same inode first, then by name."""
    found = []
    for entry in os.scandir(path.parent):
        if entry.name == path.name or not entry.is_file():
            continue
        same = entry.inode() == position.inode
        if same or entry.name.startswith(path.name):
            found.append((not same, entry.name))
    return [path.parent / name for _, name in sorted(found)[:_MOST_CANDIDATES]]


def _holds(path: Path, position: Position) -> bool:
    try:
        with open_file(path) as file:
            return position.is_in(file)
    except (OSError, ValueError):
        return False


def _after(old: Path, path: Path, beside: list[Path]) -> list[Path]:
    """Return the rotated files that are younger than `old`, the oldest first.

    The suffixes of rotated files are numbers, the smallest for the youngest file, or dates.
    """
    ages = {each: _age(each.name[len(path.name) :]) for each in beside}
    own = ages.get(old)
    if own is None or not old.name.startswith(path.name):
        return []
    younger = [(age, each) for each, age in ages.items() if age is not None and age > own]
    return [each for _, each in sorted(younger)]


def _age(suffix: str) -> tuple[int, str] | None:
    """Return the sort key of a rotated file's suffix: larger is younger; None if it is neither."""
    suffix = suffix.removesuffix(".gz")
    if re.fullmatch(r"\.\d{1,6}", suffix):
        return -int(suffix[1:]), ""
    return (0, suffix) if re.fullmatch(r"[.-]\d{8}.*", suffix) else None
