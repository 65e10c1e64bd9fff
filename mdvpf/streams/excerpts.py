"""Beginnings of values, for messages about input that may be of any length."""

from __future__ import annotations

import reprlib
from typing import Any

_LONGEST = 40  # characters


def shown(value: Any) -> str:
    """Return a value for a message, cut if it is long.

    Examples
    --------
    >>> from mdvpf.streams.excerpts import shown
    >>> shown("a" * 1000)
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'..."
    """
    if isinstance(value, (str, bytes)):
        return repr(value[:_LONGEST]) + ("..." if len(value) > _LONGEST else "")
    return reprlib.repr(value)
