"""Process-wide locks that keep two processes from writing the same checkpoint.

The lock of FILE is an operating-system lock on FILE.lock: `flock`, or on Windows the C library's
`locking`. It ends with the process, so a lock file left by a killed process does not block others.
The file holds the process number for the error message of other processes.
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_SUFFIX = ".lock"
_LONGEST_NUMBER = 20  # digits of a process number that are read
_FAR_BYTE = 1 << 30  # the byte locked on Windows, which makes it unreadable
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


class LockedError(OSError):
    """Another process holds the lock.

    Examples
    --------
    >>> from mdvpf.checkpoint import LockedError
    >>> str(LockedError("clicks.mdvpf", 4711))
    'clicks.mdvpf: in use by process 4711; expected a checkpoint that no other process writes'
    """

    def __init__(self, path: str, process: int | None) -> None:
        super().__init__(path, process)
        self.path = path
        self.process = process

    def __str__(self) -> str:
        who = "another process" if self.process is None else f"process {self.process}"
        return f"{self.path}: in use by {who}; expected a checkpoint that no other process writes"


class FileLock:
    """The lock of a file, held from `acquire` until `release`, or inside of a ``with`` block.

    Parameters
    ----------
    path : path
        The file to lock; it need not exist. A symbolic link is resolved.

    Attributes
    ----------
    is_held : bool
        Whether this object holds the lock. After `acquire` it is False only if the file system does
        not support locks.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from mdvpf.checkpoint import FileLock, LockedError
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "clicks.mdvpf")
    ...     with FileLock(path):
    ...         try:
    ...             FileLock(path).acquire()
    ...         except LockedError as error:
    ...             print("in use by process" in str(error))
    True
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._target = os.fspath(path)
        self.path = Path(os.path.realpath(self._target) + _SUFFIX)
        self.is_held = False
        self._descriptor: int | None = None

    def acquire(self) -> Self:
        """Take the lock, or raise `LockedError` at once."""
        while not self.is_held:
            descriptor = os.open(self.path, _flags(), 0o600)
            try:
                if not _lock(descriptor):
                    raise LockedError(self._target, _read_number(descriptor))
                if not self._is_current(descriptor):
                    os.close(descriptor)  # the last holder has removed the file
                    continue
                os.ftruncate(descriptor, 0)
                os.write(descriptor, f"{os.getpid()}\n".encode())
            except OSError as error:
                os.close(descriptor)
                if error.errno in _NO_LOCKS and not isinstance(error, LockedError):
                    with suppress(OSError):
                        os.unlink(self.path)
                    return self
                raise
            self._descriptor, self.is_held = descriptor, True
        return self

    def release(self) -> None:
        """Release the lock and remove its file."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor, self.is_held = self._descriptor, None, False
        if sys.platform == "win32":  # Windows cannot remove an open file
            os.close(descriptor)
            with suppress(OSError):
                os.unlink(self.path)
            return
        with suppress(OSError):
            os.unlink(self.path)  # before closing, so that the next holder creates a new file
        os.close(descriptor)

    def _is_current(self, descriptor: int) -> bool:
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return False
        return os.path.samestat(found, os.fstat(descriptor))

    def __enter__(self) -> Self:
        return self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def _flags() -> int:
    flags = os.O_RDWR | os.O_CREAT
    for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"):
        flags |= getattr(os, name, 0)
    return flags


def _lock(descriptor: int) -> bool:
    """Try to lock an open file; return False if another process holds the lock."""
    try:
        if sys.platform == "win32":
            os.lseek(descriptor, _FAR_BYTE, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            os.lseek(descriptor, 0, os.SEEK_SET)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError as error:
        if error.errno == errno.EDEADLK:  # the Windows C library's error for a held lock
            return False
        raise
    return True


def _read_number(descriptor: int) -> int | None:
    os.lseek(descriptor, 0, os.SEEK_SET)
    text: Any = os.read(descriptor, _LONGEST_NUMBER).strip()
    return int(text) if text.isdigit() else None
