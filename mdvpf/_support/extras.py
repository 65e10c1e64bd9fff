"""Optional packages: one error message if one is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needed(what: str, package: str, extra: str) -> Iterator[None]:
    """Wrap imports for `what`: if one fails, the error names the package and the extra."""
    try:
        yield
    except ImportError as error:
        raise ImportError(
            f"{what} needs the package {package}: install it, or mdvpf[{extra}]"
        ) from error
