"""The short, fixed streams that `check_predictor` uses."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mdvpf.predictor.protocol import Predictor
from mdvpf.predictor.vocabulary import Label

N_SHORT = 12  # symbols of a first sequence
OTHER = ("check_predictor", "another key")  # a key that is not in `keyed`

_N_SYMBOLS = 32
_LABELS: tuple[Label | None, ...] = (("check_predictor", 1), None, "check_predictor", 0)
_SEED = 271828


class KeyedStream(NamedTuple):
    """Symbols, their keys, and the keys in order of first appearance."""

    symbols: list[Any]
    keys: list[Label | None]
    labels: list[Label | None]


def plain(predictor: Predictor) -> list[Any]:
    """Return symbols that are valid for a predictor now, some of them missing.

    In an open alphabet about a third of them are new.
    """
    rng = np.random.default_rng(_SEED)
    n = predictor.n_symbols
    symbols: list[Any] = []
    for i in range(_N_SYMBOLS):
        if i % 7 == 5:
            symbols.append(None)
        elif predictor.is_open and (n == 0 or rng.random() < 0.3):
            symbols.append(n)
            n += 1
        else:
            symbols.append(int(rng.integers(n)) if i % 2 else min(i % 3, n - 1))
    return symbols


def keyed(predictor: Predictor) -> KeyedStream:
    """Return symbols that are valid for a predictor now, with keys; one key is None."""
    rng = np.random.default_rng(_SEED)
    symbols = plain(predictor)
    keys = [_LABELS[i] for i in rng.integers(len(_LABELS), size=len(symbols))]
    return KeyedStream(symbols, keys, list(dict.fromkeys(keys)))
