"""How far the particles of a filter disagree about the next symbol.

VPA and MD-VPA draw nothing, so running them again tells nothing about their error. What every
filter has is a set of particles, each with a prediction of its own: the weighted variance of the
probabilities that they give to the symbol that comes next.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mdvpf.filter import ParticleFilter


def particle_predictives(pf: ParticleFilter, symbol: int) -> NDArray[np.float64]:
    """Return the probability that each particle gives to a symbol being the next.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf.experiments.particle_variance import particle_predictives
    >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(n_symbols=2), n_particles=10)
    >>> _ = pf.run([0, 1, 1])
    >>> mean = pf.weights @ particle_predictives(pf, 1)
    >>> bool(abs(mean - pf.predict_proba()[1]) < 1e-12)
    True
    """
    return np.array([_predictive(pf, k, state, symbol) for k, state in enumerate(pf.states)])


def _predictive(pf: ParticleFilter, k: int, state: int, symbol: int) -> float:
    model = pf.model
    start, transition, emission = pf.counts(k)
    seen = start if state < 0 else transition[state]
    into = start + transition.sum(axis=0)
    offered = np.where(seen > 0, 0, into) if model.oracle == "unvisited" else into
    oracle = model.alpha / (offered.sum() + model.gamma)
    new = oracle * model.gamma
    if model.max_states is not None and len(into) >= model.max_states:
        new = 0.0
    moves = seen + oracle * offered
    emits = (emission[:, symbol] + model.beta) / (
        emission.sum(axis=1) + model.n_symbols * model.beta
    )
    return float((moves @ emits + new / model.n_symbols) / (moves.sum() + new))


def particle_variance(
    pf: ParticleFilter, symbols: NDArray[np.int64], every: int
) -> NDArray[np.float64]:
    """Run a filter over a sequence; return the variance within its particles at every so many.

    The variance is of the probabilities of the next symbol, before it is seen.

    Examples
    --------
    >>> import mdvpf
    >>> import numpy as np
    >>> from mdvpf.experiments.particle_variance import particle_variance
    >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(n_symbols=2), n_particles=10)
    >>> particle_variance(pf, np.array([0, 1] * 10), every=5).shape
    (3,)
    """
    variances = []
    for stop in range(every, len(symbols), every):
        pf.run(symbols[stop - every : stop])
        values, weights = particle_predictives(pf, int(symbols[stop])), pf.weights
        mean = weights @ values
        variances.append(weights @ (values - mean) ** 2)
    return np.array(variances)
