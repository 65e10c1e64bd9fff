"""Files that are replaced as a whole: what is at a path is the old content or the new one.

The new content goes to a temporary file in the same folder, reaches the disk, and takes the name
of the old one; then the folder reaches the disk. A process that is killed on the way leaves its
temporary file behind. As long as it runs it holds a lock on that file, so the next one to write
to the path knows which of them are litter.

Nobody can read more of the new content than of the old, not even for a moment: a temporary file
that replaces another is made readable by its owner only, and gets the permissions of the old file,
and its owner and group as far as the process may give files away, before anything is written. What
lies under the name of a temporary file and is none (a link, a pipe) is neither opened nor removed.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

# Windows has neither these locks nor folders that can be synced.
if sys.platform != "win32":
    import fcntl

_RANDOM_BYTES = 8
_LONGEST_STEM = 180  # bytes of a name that temporary names repeat; file systems take 255 in all
_STEM_START = 30  # characters that are left of a longer one, before its digest


def replace(
    path: str | bytes | os.PathLike[Any],
    chunks: Iterable[bytes | memoryview],
    before: Callable[[], None] | None = None,
) -> None:
    """Replace the content of a file, or make it; on an error the old file stays as it is.

    `before` is called when the new content is on the disk, just before it takes its place.
    """
    target = Path(os.path.realpath(os.fsdecode(path)))  # a link keeps pointing to the file
    old = _replaced(target)
    file = _temporary(target, 0o666 if old is None else 0o600)  # a new file goes by the umask
    try:
        with file:
            if old is not None:
                _give(file, old)
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
            if before is not None:
                before()
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
    sync_folder(target.parent)
    _sweep(target)


def _replaced(target: Path) -> os.stat_result | None:
    """Return what is known of the file that is to be replaced, if there is one."""
    try:
        found = target.stat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise OSError(f"file={str(target)!r}: expected the path of a file, or of none")
    return found


def _give(file: IO[bytes], old: os.stat_result) -> None:
    """Give a file the owner, the group and the permissions of an old one, as far as allowed.

    It never becomes a program that runs as its owner. A group that the process may not give the
    file to is replaced by the process's own, which gets no more than everybody has.
    """
    if sys.platform == "win32":
        os.chmod(file.name, stat.S_IMODE(old.st_mode))
        return
    number = file.fileno()
    mode = stat.S_IMODE(old.st_mode) & 0o777
    now = os.fstat(number)
    if (now.st_uid, now.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(number, old.st_uid, old.st_gid)
        except OSError:
            with suppress(OSError):
                os.fchown(number, -1, old.st_gid)
        if os.fstat(number).st_gid != old.st_gid:
            mode &= 0o707 | (mode & 0o007) << 3
    os.fchmod(number, mode)


def _stem(target: Path) -> str:
    """Return what the names of a file's temporary files begin with, which may not get too long."""
    name = os.fsencode(target.name)
    if len(name) <= _LONGEST_STEM:
        return f".{target.name}."
    digest = hashlib.blake2b(name, digest_size=16).hexdigest()
    return f".{target.name[:_STEM_START]}.{digest}."


def temporary_name(target: Path) -> Path:
    """Return a new name beside the target; what a killed process leaves there is swept."""
    return target.parent / f"{_stem(target)}{secrets.token_hex(_RANDOM_BYTES)}.tmp"


def _temporary(target: Path, mode: int = 0o600) -> IO[bytes]:
    """Open a new file beside the target, locked."""
    while True:
        path = temporary_name(target)
        file = open(path, "xb", opener=lambda p, flags: os.open(p, flags, mode))  # noqa: SIM115
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


def sync_folder(folder: Path) -> None:
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
    start, end = _stem(target), ".tmp"
    length = len(start) + 2 * _RANDOM_BYTES + len(end)
    try:
        names = os.listdir(target.parent)
    except OSError:  # a folder that may be written to and not read: the new file is there
        return
    for name in names:
        if name.startswith(start) and name.endswith(end) and len(name) == length:
            with suppress(OSError), open(target.parent / name, "rb", opener=_open_file) as file:
                if _lock(file, wait=False):
                    os.unlink(file.name)


def _open_file(path: str, flags: int) -> int:
    """Open a regular file; of anything else, raise without waiting for it."""
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise OSError(f"{path}: expected a file")
    # What was put in its place since is opened without waiting, and not through a link.
    flags |= getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
    return os.open(path, flags)
