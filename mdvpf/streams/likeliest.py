"""The likeliest symbols before an event, as its report names them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mdvpf.predictor import Label, Predictor
from mdvpf.streams.label_texts import LabelTexts
from mdvpf.streams.number_texts import NumberTexts
from mdvpf.streams.report import N_EXPECTED

MANY_SYMBOLS = 1000  # with more, reports name no expected symbols by default
Expected = tuple[tuple[Label, float], ...]  # symbols and their probabilities


def n_named(wanted: int | None, reader: Predictor) -> int:
    """Return how many symbols a report names: `wanted`, or the default if that is None."""
    if reader._family is not None:
        return 0
    if wanted is not None:
        return wanted
    return N_EXPECTED if reader.n_symbols <= MANY_SYMBOLS else 0


def name_likeliest(
    distributions: NDArray[np.float64],
    n: int,
    texts: LabelTexts | NumberTexts,
    reader: Predictor,
) -> list[Expected]:
    """Return the n likeliest symbols of each row, without the symbol of unseen labels."""
    symbols, probabilities = _likeliest(distributions, min(n, distributions.shape[1]))
    return [
        tuple(
            (name, p)
            for symbol, p in zip(*row, strict=True)
            if (name := texts.label(symbol, reader)) is not None
        )
        for row in zip(symbols.tolist(), probabilities.tolist(), strict=True)
    ]


def _likeliest(
    distributions: NDArray[np.float64], n: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the n likeliest symbols of each row, and their probabilities; ties by number."""
    rows = np.arange(len(distributions))
    symbols = np.empty((len(rows), n), dtype=np.intp)
    probabilities = np.empty((len(rows), n))
    left = distributions.copy()
    for i in range(n):
        symbols[:, i] = left.argmax(axis=1)
        probabilities[:, i] = left[rows, symbols[:, i]]
        left[rows, symbols[:, i]] = -1.0
    return symbols, probabilities
