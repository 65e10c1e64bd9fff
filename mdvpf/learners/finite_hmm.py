"""Convert the counts of a `SoftHMM` to a finite HMM of posterior means."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdvpf.datasets.hmm_sources import HMM

Array = NDArray[np.float64]


def moore_hmm(
    arrays: dict[str, NDArray[Any]], seed: int, n_symbols: int, alpha: float, beta: float
) -> HMM:
    """Return the HMM of one seed, from the arrays of `SoftTables.export`.

    `alpha` and `beta` are in the unit of the counts.
    """
    base = arrays["base"][seed]
    transition = np.tile(base, (len(base), 1))
    for state, _, means in _row_means(arrays, seed, alpha):
        transition[state] = means
    return HMM(_start(arrays, seed, alpha), transition, _emission(arrays, seed, n_symbols, beta))


def mealy_hmm(
    arrays: dict[str, NDArray[Any]], seed: int, n_symbols: int, alpha: float, beta: float
) -> HMM:
    """Return the HMM over pairs of a state and a symbol, equivalent to one seed.

    Pairs without a row of transitions all lead to the base distribution. For each state they are
    merged into one state of the HMM.
    """
    emission = _emission(arrays, seed, n_symbols, beta)
    n_states = len(emission)
    symbols = arrays["symbols"]
    pairs = [
        (state, int(symbols[column]), means)
        for state, column, means in _row_means(arrays, seed, alpha)
        if symbols[column] < n_symbols  # not after a missing symbol
    ]
    owner = np.array([*(state for state, _, _ in pairs), *range(n_states)])
    emits = np.zeros((len(owner), n_symbols))
    for i, (_, symbol, _) in enumerate(pairs):
        emits[i, symbol] = 1.0
    others = emission.copy()  # of each state, the symbols without a pair
    for state, symbol, _ in pairs:
        others[state, symbol] = 0.0
    rest = others.sum(axis=1)
    emits[len(pairs) :] = np.divide(
        others, rest[:, None], out=np.full_like(others, 1.0 / n_symbols), where=rest[:, None] > 0
    )
    entered = np.array([*(emission[state, symbol] for state, symbol, _ in pairs), *rest])
    base = arrays["base"][seed]
    next_state = np.array([*(means for _, _, means in pairs), *[base] * n_states])
    transition = next_state[:, owner] * entered
    start = _start(arrays, seed, alpha)[owner] * entered
    return HMM(start / start.sum(), transition / transition.sum(axis=1, keepdims=True), emits)


def _start(arrays: dict[str, NDArray[Any]], seed: int, alpha: float) -> Array:
    return _means(arrays["rows"][seed], arrays["row_totals"][seed], arrays["base"][seed], alpha)


def _row_means(
    arrays: dict[str, NDArray[Any]], seed: int, alpha: float
) -> list[tuple[int, int, Array]]:
    """Return the state, column and posterior means of each row of a seed, without the start row."""
    found = []
    names, rows, totals = arrays["row_names"], arrays["rows"], arrays["row_totals"]
    for i in np.flatnonzero((names[:, 0] == seed) & (names[:, 1] >= 0)).tolist():
        means = _means(rows[i], totals[i], arrays["base"][seed], alpha)
        found.append((int(names[i, 1]), int(names[i, 2]), means))
    return found


def _means(row: Array, total: float, base: Array, alpha: float) -> Array:
    means = (row + alpha * base) / (total + alpha)
    normalised: Array = means / means.sum()
    return normalised


def _emission(arrays: dict[str, NDArray[Any]], seed: int, n_symbols: int, beta: float) -> Array:
    """Return the posterior means of the emissions, one row for each state."""
    symbols, totals = arrays["symbols"], arrays["emission_totals"][seed]
    counts = np.zeros((len(totals), n_symbols))
    seen = symbols < n_symbols
    by_column = arrays["emission"].reshape(len(symbols), len(arrays["base"]), len(totals))
    counts[:, symbols[seen]] = by_column[seen, seed].T
    means = (counts + beta) / (totals[:, None] + n_symbols * beta)
    normalised: Array = means / means.sum(axis=1, keepdims=True)
    return normalised
