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


def with_symbols(symbols: Any, vocabulary: Vocabulary | None, n_seen: int | None = None) -> Any:
    """Return what `run` was given, with the symbol of each label in its place.

    An open vocabulary takes the labels that it does not have; `n_seen` is how many symbols a
    predictor with an open alphabet has seen. Everything else is left as it is, for others to judge.

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
    if not any(isinstance(value, _LABELS) for value in values):
        return values
    if n_seen is not None and vocabulary.n_symbols != n_seen:
        raise ValueError(
            f"symbols: got labels, and the vocabulary has {vocabulary.n_symbols} symbols where the "
            f"predictor has seen {n_seen}; expected the same, so that each label has its own"
        )
    return [_with_symbol(f"symbols[{i}]", value, vocabulary) for i, value in enumerate(values)]


def _with_symbol(name: str, value: Any, vocabulary: Vocabulary) -> Any:
    if isinstance(value, _LABELS):
        return vocabulary._add(name, value)
    if vocabulary.is_open and isinstance(value, (int, np.integer)) and value >= len(vocabulary):
        raise ValueError(
            f"{name}={value!r}: expected a label, or the symbol of one, as the other new ones have "
            "labels"
        )
    return value
