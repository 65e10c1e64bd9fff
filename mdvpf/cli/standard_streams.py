"""Standard input, output and errors, also where whoever started the command has closed them.

A file that is opened gets the lowest free number. So without these three open, a checkpoint could
become standard output, and whatever is printed would go into it. What was closed is opened to the
null device, in the direction in which it cannot be used: then reading and writing fail as they
should, and no result is lost without a word. Messages on standard error just go nowhere.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

STDIN, STDOUT, STDERR = range(3)


def open_closed_streams() -> None:
    """Give every standard stream that is closed a place to fail at."""
    if sys.platform == "win32":  # where numbers are not inherited like that
        return
    wrong_ways = {STDIN: os.O_WRONLY, STDOUT: os.O_RDONLY, STDERR: os.O_WRONLY}
    for number, flags in wrong_ways.items():  # in this order: the lowest free one is taken
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)
            os.set_inheritable(number, True)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            mode = "r" if number == STDIN else "w"
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def written() -> OSError | None:
    """Write what is left in the buffer of standard output; return why that failed, if it did.

    After a failure the buffer is given up: the interpreter would only fail at it again.
    """
    if sys.stdout is None:
        return None
    try:
        sys.stdout.flush()
    except OSError as error:
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)
        return error
    return None
