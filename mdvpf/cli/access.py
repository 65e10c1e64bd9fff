"""Detect standard streams that were closed before the command began."""

from __future__ import annotations

import os
import sys
from typing import Any

if sys.platform != "win32":
    import fcntl


def is_closed(stream: Any, needed: int) -> bool:
    """Tell whether a standard stream was closed before the command began.

    A closed stream is None, or a stand-in that `open_closed_streams` opened in the wrong
    direction.

    Parameters
    ----------
    stream : file or None
        The stream.
    needed : int
        `os.O_RDONLY` or `os.O_WRONLY`: the direction that the command uses.
    """
    if stream is None:
        return True
    if sys.platform == "win32":
        return False
    try:
        mode = fcntl.fcntl(stream.fileno(), fcntl.F_GETFL) & os.O_ACCMODE
    except (OSError, AttributeError, ValueError):  # a Python object without a descriptor
        return False
    return mode not in (needed, os.O_RDWR)
