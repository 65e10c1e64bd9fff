"""How far the particles of a filter disagree about the next symbol.

VPA and MD-VPA draw nothing, so running them again tells nothing about their error. What every
filter has is a set of particles, each with a prediction of its own: the weighted variance of the
probabilities that they give to the symbol that comes next.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf.filter.particle_filter import ParticleFilter


def particle_predictives(pf: ParticleFilter, symbol: int) -> NDArray[np.float64]:
    """Return the probability that each particle gives to a symbol being the next.

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


def estimation_variance(pf: ParticleFilter, symbol: int) -> float:
    """Return the variance, within the particles, of the probability of a symbol being the next.

    The paper compares filters by an "estimation variance" that it does not define. This one exists
    for every filter, also for those that draw nothing: the weighted variance of the probabilities
    that the particles give to one symbol. Take it before the symbol is absorbed.

    Parameters
    ----------
    pf : ParticleFilter
        The filter; it is not changed.
    symbol : int
        The symbol, as a rule the one that comes next.

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
