"""Keep two generations of a checkpoint: FILE, and FILE.previous, the last good one before it.

A new checkpoint is complete on the disk before anything is renamed. Then FILE.previous becomes a
hard link to the old checkpoint, and the new one replaces FILE. There is a good checkpoint at every
moment, and always one at FILE if the file system has hard links.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from mdvpf.checkpoint import atomic_write, saveable
from mdvpf.checkpoint.file_format import CheckpointError

_SUFFIX = ".previous"
_FULL = (errno.ENOSPC, errno.EDQUOT)


def previous_of(path: str | os.PathLike[str]) -> Path:
    """Return the path of the previous generation of a checkpoint.

    Examples
    --------
    >>> from mdvpf.checkpoint import previous_of
    >>> previous_of("clicks.mdvpf").name
    'clicks.mdvpf.previous'
    """
    return Path(os.path.realpath(path) + _SUFFIX)


class Generations:
    """Write the checkpoints of a run, possibly in the background, and keep the last two.

    Parameters
    ----------
    path : path
        The checkpoint.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import mdvpf
    >>> from mdvpf.checkpoint import Generations
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     kept = Generations(pathlib.Path(folder, "chain.mdvpf"))
    ...     chain = mdvpf.Markov(n_symbols=2)
    ...     kept.save(chain)
    ...     _ = chain.update(1)
    ...     kept.save_in_background(chain.copy())
    ...     kept.wait()
    ...     sorted(path.name for path in pathlib.Path(folder).iterdir())
    ['chain.mdvpf', 'chain.mdvpf.previous']
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._is_good = True  # whether the file at the path may become the previous generation
        self._writer: threading.Thread | None = None
        self._error: BaseException | None = None

    @property
    def exists(self) -> bool:
        """Whether a checkpoint of either generation exists."""
        return self.path.exists() or previous_of(self.path).exists()

    @property
    def fell_back(self) -> bool:
        """Whether the previous generation was loaded and nothing was written since."""
        return not self._is_good

    def load(self, wanted: tuple[type[Any], ...], warn: Callable[[str], None]) -> Any:
        """Read the checkpoint, or the previous generation if it is damaged or missing.

        Parameters
        ----------
        wanted : tuple of types
            The classes that the checkpoint may hold.
        warn : callable
            Called with a message if the previous generation was used.
        """
        try:
            return saveable.load(self.path, wanted)
        except (CheckpointError, FileNotFoundError) as error:
            self._is_good = False
            previous = previous_of(self.path)
            try:
                found = saveable.load(previous, wanted)
            except (CheckpointError, OSError):
                raise error from None
            reason = "it is missing" if isinstance(error, FileNotFoundError) else str(error)
            warn(f"{self.path}: {reason}; continuing from {previous}, the checkpoint before it")
            return found

    def save(self, thing: saveable.Saveable) -> None:
        """Write a checkpoint after any background write has ended; raise if it fails.

        On a full disk the previous generation is removed to make room; no other file is.
        """
        self._join()
        self._error = None  # this checkpoint supersedes one that failed
        try:
            self._write(thing, None)
        except OSError as error:
            if error.errno not in _FULL or not (self._is_good and self.path.exists()):
                raise
            with suppress(OSError):
                os.unlink(previous_of(self.path))
            self._write(thing, None)

    def save_in_background(
        self, thing: saveable.Saveable, before: Callable[[], None] | None = None
    ) -> None:
        """Write a checkpoint in the background, after waiting for the one before it.

        Parameters
        ----------
        thing : Saveable
            The object to write. Pass a copy, because nobody may change it meanwhile.
        before : callable, optional
            Called first, in the background; if it raises, nothing is written.

        Raises
        ------
        OSError
            If the checkpoint before this one could not be written. This one is not written then.
        """
        self.wait()
        self._writer = threading.Thread(target=self._try, args=(thing, before), daemon=True)
        self._writer.start()

    def wait(self) -> None:
        """Wait for the background write; raise if it failed."""
        self._join()
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _join(self) -> None:
        if self._writer is not None:
            self._writer.join()
            self._writer = None

    def _try(self, thing: saveable.Saveable, before: Callable[[], None] | None) -> None:
        try:
            self._write(thing, before)
        except BaseException as error:
            self._error = error

    def _write(self, thing: saveable.Saveable, before: Callable[[], None] | None) -> None:
        if before is not None:
            before()
        chunks = saveable.encoded(thing)
        atomic_write.replace(self.path, chunks, self._keep_previous if self._is_good else None)
        self._is_good = True

    def _keep_previous(self) -> None:
        """Make the checkpoint that is about to be replaced the previous generation."""
        target = Path(os.path.realpath(self.path))
        previous = previous_of(target)
        if not target.exists():
            return
        link = atomic_write.temporary_name(target)
        try:
            os.link(target, link)
        except OSError:  # no hard links: FILE is missing until the new checkpoint is renamed
            os.replace(target, previous)
            return
        try:
            os.replace(link, previous)
        finally:  # if both names are the same file already, os.replace leaves the link
            with suppress(FileNotFoundError):
                os.unlink(link)
