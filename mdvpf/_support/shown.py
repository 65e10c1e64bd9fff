"""Short texts for `repr`."""

from __future__ import annotations

import reprlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

LONGEST = 400  # largest number of characters of a field or of a list of members
_LONGEST_ARRAY = 100
_MOST_ENTRIES = 12


def shown_list(values: Sequence[Any]) -> str:
    """Return numbers as a list; a long list is abbreviated.

    Examples
    --------
    >>> from mdvpf._support.shown import shown_list
    >>> shown_list((1, 2)), shown_list(range(1000))
    ('[1, 2]', '[0, 1, 2, ..., 999] (1,000)')
    """
    if len(values) <= _MOST_ENTRIES:
        return repr(list(values))
    first = ", ".join(repr(value) for value in values[:3])
    return f"[{first}, ..., {values[-1]!r}] ({len(values):,})"


def shown_members(members: Sequence[Any], leaves: Iterable[Any]) -> str:
    """Return the members of a mixture as a list; a long list becomes the count of each kind.

    Examples
    --------
    >>> from mdvpf._support.shown import shown_members
    >>> shown_members([1, 2], [1, 2])
    '[1, 2]'
    >>> shown_members(["x" * 1000], ["a", "b", 3])
    '<1 member: 2 str, 1 int>'
    """
    whole = "[" + ", ".join(repr(member) for member in members) + "]"
    if len(whole) <= LONGEST:
        return whole
    kinds = Counter(type(leaf).__name__ for leaf in leaves)
    n, listed = len(members), ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())
    return f"<{n:,} member{'s' * (n > 1)}: {listed}>"


def shown_fields(thing: Any) -> str:
    """Return a dataclass as text; long fields become their type and size.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from mdvpf._support.shown import shown_fields
    >>> @dataclass
    ... class Pair:
    ...     first: object
    ...     second: object
    >>> shown_fields(Pair(1, np.zeros((500, 20))))
    'Pair(first=1, second=<float64 array of shape (500, 20)>)'
    """
    parts = (f"{field.name}={_shown(getattr(thing, field.name))}" for field in fields(thing))
    return f"{type(thing).__name__}({', '.join(parts)})"


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        # The text of a large array is never built, because that is slow.
        text = repr(value) if value.size <= _LONGEST_ARRAY else ""
        size = f"<{value.dtype} array of shape {value.shape}>"
        return text if 0 < len(text) <= _LONGEST_ARRAY else size
    if isinstance(value, (list, tuple)) and len(value) > _MOST_ENTRIES:
        return f"<{type(value).__name__} of {len(value):,}>"
    text = repr(value)
    return text if len(text) <= LONGEST else reprlib.repr(value)
