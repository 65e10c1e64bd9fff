"""The variance of the particles' predictions of the next symbol.

VPA and MD-VPA are deterministic, so repeated runs give no variance. Every filter has particles,
however, and each particle has a prediction of its own. This module measures how much they differ.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf.filter.particle_filter import ParticleFilter
from mdvpf.filter.real_counts import RealCounts, oracle_weights
from mdvpf.model import InfiniteHMM


def particle_predictives(pf: ParticleFilter, symbol: int) -> NDArray[np.float64]:
    """Return each particle's predictive probability of a symbol, in the key updated last.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf.filter.variance import particle_predictives
    >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(n_symbols=2), n_particles=10)
    >>> _ = pf.run([0, 1, 1])
    >>> mean = pf.weights @ particle_predictives(pf, 1)
    >>> bool(abs(mean - pf.predict_proba()[1]) < 1e-12)
    True
    """
    if not isinstance(pf, ParticleFilter):
        raise TypeError(f"pf={pf!r}: expected a ParticleFilter")
    pf._check_symbols("particle_predictives")
    if pf.is_open:
        raise ValueError(f"pf={pf!r}: expected a filter with a closed alphabet")
    symbol = validate.integer("symbol", symbol, low=0, high=pf.n_symbols - 1)
    model, (labels, last) = pf.model, pf._standing(pf._core.number)
    counts = (pf._counts(k) for k in range(len(labels)))
    pairs = zip(counts, labels.tolist(), strict=True)
    return np.array([_predictive(model, found, label, last, symbol) for found, label in pairs])


def _predictive(
    model: InfiniteHMM, found: RealCounts, label: int, last: int | None, symbol: int
) -> float:
    """Return one particle's probability of a symbol, given the symbol before it, if any."""
    start, transition, emission = found.counts
    state = np.flatnonzero(found.labels == label)  # empty in the start state
    seen = start.astype(np.float64)
    if len(state):
        row = transition[state[0]]
        if model.machine == "mealy":
            row = row[-1 if last is None else last]
        seen = row.astype(np.float64)
        seen[state] += model.kappa
    offered = oracle_weights(model, seen, found.into, found.rows_into)
    oracle = model.alpha / (offered.sum() + model.gamma)
    new = oracle * model.gamma
    if model.max_states is not None and np.count_nonzero(found.into) >= model.max_states:
        new = 0.0
    moves = seen + oracle * offered
    emits = (emission[:, symbol] + model.beta) / (
        emission.sum(axis=1) + model.n_symbols * model.beta
    )
    return float((moves @ emits + new / model.n_symbols) / (moves.sum() + new))


def estimation_variance(pf: ParticleFilter, symbol: int) -> float:
    """Return the weighted variance of the particles' predictive probabilities of a symbol.

    The paper compares filters by an "estimation variance" that it does not define. This definition
    applies to every filter, including deterministic ones. Call it before the symbol is absorbed.

    Parameters
    ----------
    pf : ParticleFilter
        The filter; it is not changed.
    symbol : int
        The symbol, usually the next one of the stream.

    Examples
    --------
    >>> import mdvpf
    >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(n_symbols=2), n_particles=10)
    >>> mdvpf.estimation_variance(pf, 1)  # one particle
    0.0
    >>> _ = pf.run([0, 1, 1])
    >>> mdvpf.estimation_variance(pf, 1) > 0
    True
    """
    values, weights = particle_predictives(pf, symbol), pf.weights
    mean = weights @ values
    return float(weights @ (values - mean) ** 2)
