"""Files that are replaced as a whole: what is at a path is the old content or the new one.

The new content goes to a temporary file in the same folder, reaches the disk, and takes the name
of the old one; then the folder reaches the disk. A process that is killed on the way leaves its
temporary file behind. As long as it runs it holds a lock on that file, so the next one to write
to the path knows which of them are litter.
"""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

# Windows has neither these locks nor folders that can be synced.
if sys.platform != "win32":
    import fcntl

_RANDOM_BYTES = 8


def replace(path: str | bytes | os.PathLike[Any], chunks: Iterable[bytes | memoryview]) -> None:
    """Replace the content of a file, or make it; on an error the old file stays as it is."""
    target = Path(os.path.realpath(os.fsdecode(path)))  # a link keeps pointing to the file
    mode = _mode(target)
    file = _temporary(target)
    try:
        with file:
            if mode is not None:
                os.chmod(file.name, mode)
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
            if sys.platform != "win32":  # as long as it is locked, nobody takes it for litter
                os.replace(file.name, target)
        if sys.platform == "win32":  # where files that are open cannot be renamed
            os.replace(file.name, target)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(file.name)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = os.fspath(target)  # a failed write does not know where to
        raise
    _sync(target.parent)
    _sweep(target)


def _mode(target: Path) -> int | None:
    """Return the permissions of the file that is to be replaced, if there is one."""
    try:
        found = target.stat().st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found):
        raise OSError(f"file={str(target)!r}: expected the path of a file, or of none")
    return stat.S_IMODE(found)


def _temporary(target: Path) -> IO[bytes]:
    """Open a new file beside the target, locked."""
    while True:
        name = f".{target.name}.{secrets.token_hex(_RANDOM_BYTES)}.tmp"
        file = open(target.parent / name, "xb")  # noqa: SIM115 - the caller closes it
        try:
            _lock(file, wait=True)
            if os.fstat(file.fileno()).st_nlink:
                return file
            file.close()  # another process took it for litter before it was locked
        except BaseException:
            file.close()
            os.unlink(file.name)
            raise


def _lock(file: IO[bytes], *, wait: bool) -> bool:
    """Lock a file until it is closed; return whether that worked."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def _sync(folder: Path) -> None:
    """Make the new name last."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sweep(target: Path) -> None:
    """Remove the temporary files of processes that are no more."""
    start, end = f".{target.name}.", ".tmp"
    length = len(start) + 2 * _RANDOM_BYTES + len(end)
    try:
        names = os.listdir(target.parent)
    except OSError:  # a folder that may be written to and not read: the new file is there
        return
    for name in names:
        if name.startswith(start) and name.endswith(end) and len(name) == length:
            with suppress(OSError), open(target.parent / name, "rb") as file:
                if _lock(file, wait=False):
                    os.unlink(file.name)
