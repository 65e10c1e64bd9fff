"""Make standard input, output and error safe when the caller closed them.

The system gives a new file the lowest free descriptor. If standard output is closed, a checkpoint
could get its descriptor, and printed text would overwrite it. Each closed stream is therefore
opened on the null device in the wrong direction: reading and writing then fail with an error, and
no result is lost silently. Messages on standard error are dropped.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

STDIN, STDOUT, STDERR = range(3)


def open_closed_streams() -> None:
    """Open each closed standard stream on the null device, in the wrong direction."""
    if sys.platform == "win32":  # a child does not inherit descriptors there
        return
    wrong_directions = {STDIN: os.O_WRONLY, STDOUT: os.O_RDONLY, STDERR: os.O_WRONLY}
    # Ascending order: `os.open` takes the lowest free descriptor.
    for number, flags in wrong_directions.items():
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)
            os.set_inheritable(number, True)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            mode = "r" if number == STDIN else "w"
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def flush_output() -> OSError | None:
    """Flush standard output; return the error if that fails.

    After a failure standard output goes to the null device. Otherwise the interpreter would try to
    flush the same buffer at exit, and fail again.
    """
    if sys.stdout is None:
        return None
    try:
        sys.stdout.flush()
    except OSError as error:
        with suppress(OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, sys.stdout.fileno())
            os.close(null)
        return error
    return None
