"""Shortened values for error messages."""

from __future__ import annotations

import reprlib
from typing import Any

_LONGEST = 40  # characters


def shown(value: Any) -> str:
    """Return the repr of a value, shortened if it is long.

    Examples
    --------
    >>> from mdvpf.streams.excerpts import shown
    >>> shown("a" * 1000)
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'..."
    """
    if isinstance(value, (str, bytes)):
        return repr(value[:_LONGEST]) + ("..." if len(value) > _LONGEST else "")
    return reprlib.repr(value)
