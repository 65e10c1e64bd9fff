"""Translate labels among the symbols of a run.

Labels are text, bytes and tuples. An integer is always a symbol, even if the vocabulary has
integer labels; `Vocabulary.encode` translates those.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

import numpy as np

from mdvpf._support import validate
from mdvpf.predictor.vocabulary import Vocabulary

_LABELS = (str, bytes, tuple)
_KINDS = "OSTU"  # kinds of NumPy dtypes that may hold labels: objects and text


def with_symbols(symbols: Any, vocabulary: Vocabulary | None, n_seen: int | None = None) -> Any:
    """Return the argument of `run` with each label replaced by its symbol.

    An open vocabulary adds new labels. `n_seen` is the number of symbols that a predictor with an
    open alphabet has seen. All other values are returned unchanged and unchecked.

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
        return symbols  # iterable, but not a sequence of labels; `run` refuses them
    elif isinstance(symbols, Iterable):
        values = list(symbols)
    else:
        return symbols
    if not any(isinstance(value, _LABELS) for value in values):
        return values
    if n_seen is not None and vocabulary.n_symbols != n_seen:
        raise ValueError(
            f"symbols: got labels, but the vocabulary has {vocabulary.n_symbols} symbols and the "
            f"predictor has seen {n_seen}; expected equal numbers"
        )
    return [_with_symbol(f"symbols[{i}]", value, vocabulary) for i, value in enumerate(values)]


def _with_symbol(name: str, value: Any, vocabulary: Vocabulary) -> Any:
    if isinstance(value, _LABELS):
        return vocabulary._add(name, value)
    if vocabulary.is_open and isinstance(value, (int, np.integer)) and value >= len(vocabulary):
        raise ValueError(
            f"{name}={value!r}: expected a label or the symbol of one; new symbols and labels "
            "cannot be mixed"
        )
    return value
