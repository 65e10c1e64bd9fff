"""A particle as a finite HMM: the posterior means of its counts, without the state never seen.

The model offers a particle one state more than it has. An HMM with a fixed number of states cannot
have that one, so it is dropped and the rows are divided by what is left of their sum. Under
`max_states` the filter itself does the same.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mdvpf.datasets import HMM
from mdvpf.model import InfiniteHMM, extensions
from mdvpf.predictor import Counts


def finite_hmm(model: InfiniteHMM, counts: Counts) -> HMM:
    """Return the HMM of the posterior means of a particle's counts.

    A particle that has no state yet predicts every symbol alike: so does the HMM with one state
    that it becomes.

    Examples
    --------
    >>> import numpy as np
    >>> from mdvpf import Counts, InfiniteHMM
    >>> from mdvpf.filter.finite_hmm import finite_hmm
    >>> counts = Counts(np.array([1]), np.array([[2]]), np.array([[3, 0]]))
    >>> finite_hmm(InfiniteHMM(n_symbols=2, beta=0.5), counts).emission.tolist()
    [[0.875, 0.125]]
    """
    for name, value in extensions(model).items():
        raise ValueError(f"{name}={value!r}: expected the default, as counts become rows by it")
    n_states = len(counts.start)
    if n_states == 0:
        return HMM(np.ones(1), np.ones((1, 1)), np.full((1, model.n_symbols), 1 / model.n_symbols))
    rows = _transition_rows(model, np.vstack([counts.start, counts.transition]))
    emission = counts.emission.astype(np.float64) + model.beta
    emission /= emission.sum(axis=1, keepdims=True)
    return HMM(rows[0], rows[1:], emission)


def _transition_rows(model: InfiniteHMM, counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the transitions from S, the first row, and from every state to the existing states."""
    entered = counts.sum(axis=0)
    if model.oracle == "unvisited":
        unvisited = counts == 0
        total = (unvisited * entered).sum(axis=1, keepdims=True)
        offered = np.where(unvisited, model.alpha * (entered / (total + model.gamma)), 0.0)
    else:
        offered = model.alpha * (entered / (entered.sum() + model.gamma))
    rows = counts.astype(np.float64) + offered
    # All entries of a row have the same denominator, which the division by their sum cancels.
    rows /= rows.sum(axis=1, keepdims=True)
    return rows
