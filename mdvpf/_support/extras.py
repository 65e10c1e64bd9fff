"""Packages that only some parts need: one message for those that are missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needed(what: str, package: str, extra: str) -> Iterator[None]:
    """Around imports: if one fails, say for `what` which package to install, and by which extra."""
    try:
        yield
    except ImportError as error:
        raise ImportError(
            f"{what} needs the package {package}: install it, or mdvpf[{extra}]"
        ) from error
