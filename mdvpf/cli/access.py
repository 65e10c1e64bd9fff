"""Whether a standard stream can be used as it has to be: it may be closed."""

from __future__ import annotations

import os
import sys
from typing import Any

if sys.platform != "win32":
    import fcntl


def is_closed(stream: Any, needed: int) -> bool:
    """Tell whether a standard stream was closed before the command began.

    One that was closed is None, or open in the other direction only, so that no file that is
    opened later takes its number.

    Parameters
    ----------
    stream : file or None
        The stream.
    needed : int
        `os.O_RDONLY` or `os.O_WRONLY`: what it is for.
    """
    if stream is None:
        return True
    if sys.platform == "win32":
        return False
    try:
        mode = fcntl.fcntl(stream.fileno(), fcntl.F_GETFL) & os.O_ACCMODE
    except (OSError, AttributeError, ValueError):  # none of the system's: whoever made it knows
        return False
    return mode not in (needed, os.O_RDWR)
