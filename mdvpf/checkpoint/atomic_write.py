"""Replace files atomically: a path always holds the complete old or the complete new content.

The new content is written to a temporary file in the same folder, synced to disk, and renamed to
the target; then the folder is synced. A process that is killed on the way leaves its temporary file
behind. A running process holds a lock on its temporary file, so the next writer to the path can
remove the stale ones.

The new content is never readable by more users than the old one. A temporary file that replaces
another file is created readable by its owner only. Before anything is written, it gets the
permissions of the old file, and its owner and group as far as the process may change them. A link
or a pipe with the name of a temporary file is neither opened nor removed.
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
_LONGEST_STEM = 180  # bytes of the target's name in temporary names; file systems allow 255 in all
_STEM_START = 30  # characters that are kept of a longer name, before its digest


def replace(
    path: str | bytes | os.PathLike[Any],
    chunks: Iterable[bytes | memoryview],
    before: Callable[[], None] | None = None,
) -> None:
    """Replace the content of a file, or create it; on an error the old file is unchanged.

    `before` is called when the new content is on the disk, just before the rename.
    """
    target = Path(os.path.realpath(os.fsdecode(path)))  # a link keeps pointing to the file
    old = _stat_of(target)
    file = _temporary(target, 0o666 if old is None else 0o600)  # the umask applies to a new file
    try:
        with file:
            if old is not None:
                _copy_owner(file, old)
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
            if before is not None:
                before()
            if sys.platform != "win32":  # while the lock keeps other writers from removing it
                os.replace(file.name, target)
        if sys.platform == "win32":  # Windows cannot rename an open file
            os.replace(file.name, target)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(file.name)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = os.fspath(target)  # the error of a failed write has no file name
        raise
    sync_folder(target.parent)
    _sweep(target)


def _stat_of(target: Path) -> os.stat_result | None:
    """Return the status of the file to be replaced; None if it does not exist."""
    try:
        found = target.stat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise OSError(f"file={str(target)!r}: expected the path of a file, or of none")
    return found


def _copy_owner(file: IO[bytes], old: os.stat_result) -> None:
    """Give a file the owner, the group and the permissions of an old one, as far as allowed.

    Set-user-ID and set-group-ID bits are dropped. If the process may not set the group, the file
    keeps the group of the process, which gets no more permissions than all other users.
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
    """Return the start of the names of a file's temporary files, shortened if it is too long."""
    name = os.fsencode(target.name)
    if len(name) <= _LONGEST_STEM:
        return f".{target.name}."
    digest = hashlib.blake2b(name, digest_size=16).hexdigest()
    return f".{target.name[:_STEM_START]}.{digest}."


def temporary_name(target: Path) -> Path:
    """Return a new name beside the target; `replace` removes stale files of such names."""
    return target.parent / f"{_stem(target)}{secrets.token_hex(_RANDOM_BYTES)}.tmp"


def _temporary(target: Path, mode: int = 0o600) -> IO[bytes]:
    """Open a new file beside the target, locked."""
    while True:
        path = temporary_name(target)
        try:
            file = open(path, "xb", opener=lambda p, flags: os.open(p, flags, mode))  # noqa: SIM115
        except OSError as error:
            error.filename = os.fspath(target)  # the name that the caller knows
            raise
        try:
            _lock(file, wait=True)
            if os.fstat(file.fileno()).st_nlink:
                return file
            file.close()  # another process removed it as stale before it was locked
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
    """Sync a folder to disk, so that a rename survives a crash."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sweep(target: Path) -> None:
    """Remove the temporary files of processes that no longer run."""
    start, end = _stem(target), ".tmp"
    length = len(start) + 2 * _RANDOM_BYTES + len(end)
    try:
        names = os.listdir(target.parent)
    except OSError:  # the folder is writable but not readable; the new file is in place
        return
    for name in names:
        if name.startswith(start) and name.endswith(end) and len(name) == length:
            with suppress(OSError), open(target.parent / name, "rb", opener=_open_file) as file:
                if _lock(file, wait=False):
                    os.unlink(file.name)


def _open_file(path: str, flags: int) -> int:
    """Open a regular file; raise for anything else without blocking."""
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise OSError(f"{path}: expected a file")
    # The path may have changed since: do not block on a pipe and do not follow a link.
    flags |= getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
    return os.open(path, flags)
