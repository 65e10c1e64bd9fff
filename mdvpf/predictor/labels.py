"""Labels among the symbols of a run: what a vocabulary makes of them.

Labels are text, bytes and tuples. An integer is always a symbol, even if the vocabulary has
integers for labels: `Vocabulary.encode` is for those.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

import numpy as np

from mdvpf._support import validate
from mdvpf.predictor.vocabulary import Vocabulary

_LABELS = (str, bytes, tuple)
_KINDS = "OSTU"  # of arrays that may hold labels: objects, and text of every sort


def with_symbols(symbols: Any, vocabulary: Vocabulary | None) -> Any:
    """Return what `run` was given, with the symbol of each label in its place.

    An open vocabulary takes the labels that it does not have. Everything else is left as it is, for
    others to judge.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf.predictor.labels import with_symbols
    >>> with_symbols(["make", 0, None], mdvpf.Vocabulary(["cd", "make"]))
    [1, 0, None]
    """
    if vocabulary is None:
        return symbols
    if hasattr(symbols, "__array__"):
        array = np.asanyarray(symbols)
        if array.ndim != 1 or array.dtype.kind not in _KINDS:
            return symbols
        listed = validate.without_nulls(symbols)
        values = listed if isinstance(listed, list) else array.tolist()
    elif isinstance(symbols, (str, bytes, bytearray, Mapping, Set)):
        return symbols  # characters and keys are no labels in order
    elif isinstance(symbols, Iterable):
        values = list(symbols)
    else:
        return symbols
    return [
        vocabulary._add(f"symbols[{i}]", value) if isinstance(value, _LABELS) else value
        for i, value in enumerate(values)
    ]
