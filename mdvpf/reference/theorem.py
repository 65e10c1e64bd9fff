"""The regret that Theorem 1 of the paper bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf.model import InfiniteHMM
from mdvpf.model.algorithms import MDVPA, VPA
from mdvpf.reference.memory import Memory
from mdvpf.reference.particle import Particle
from mdvpf.reference.selection import expand, lookahead_terms, select_top
from mdvpf.reference.steps import offspring


def theorem_regret(
    model: InfiniteHMM, algorithm: MDVPA | VPA, n_particles: int, symbols: Sequence[int]
) -> NDArray[np.float64]:
    """Return the regret of the particle weights in the loss of the paper's Eq. 8, symbol by symbol.

    At step n the forecaster uses the survivors of VPA's rule with their weights, which do not
    depend on the next symbol. Its loss is the average of ``-log f(x_n, y_{n+1})`` under these
    weights. The comparators are the paths of the particles; the loss of a path at step n is that of
    its own candidate. The regret after n steps is the forecaster's cumulative loss minus that of
    the best path among the current particles. Paths may change their state at any step, so this is
    a shifting regret (Eq. 1).

    Parameters
    ----------
    model : InfiniteHMM
        The model.
    algorithm : MDVPA or VPA
        Selects the survivors; MD-VPA needs ``selection="top"``.
    n_particles : int
        The budget K.
    symbols : sequence of int
        The stream, without missing symbols.

    Returns
    -------
    ndarray of shape (n - 1,)
        The regret after each step that has a next symbol, in nats.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf.reference import theorem_regret
    >>> model = mdvpf.InfiniteHMM.paper(2)
    >>> theorem_regret(model, mdvpf.VPA(), 5, [0, 1, 0, 1]).round(3).tolist()
    [0.0, 0.353, 0.99]
    """
    if not isinstance(algorithm, (MDVPA, VPA)):
        raise TypeError(f"algorithm={algorithm!r}: expected an MDVPA or a VPA")
    if isinstance(algorithm, MDVPA) and algorithm.selection != "top":
        raise ValueError(f"algorithm={algorithm!r}: expected selection='top'")
    if model.emission is not None:
        raise ValueError(f"model={model!r}: expected one with a closed alphabet")
    codes = validate.integers("symbols", symbols, low=0, high=model.n_symbols - 1).tolist()
    particles = [Particle(memory=Memory.of(model))]
    path_loss = [0.0]  # of each particle
    total = 0.0
    regrets = []
    for n, (symbol, lookahead) in enumerate(pairwise(codes), 1):
        candidates = expand(model, particles, symbol, carry_weights=algorithm.carry_weights)
        scores = [candidate.log_score for candidate in candidates]
        foreseen = expand(model, particles, lookahead, carry_weights=False)
        losses = [-candidate.log_score for candidate in foreseen]
        held = select_top(scores, n_particles)
        total += math.fsum(math.exp(log_weight) * losses[i] for i, log_weight in held)
        if isinstance(algorithm, MDVPA):
            terms = lookahead_terms(model, particles, lookahead, algorithm.normalizer, n_particles)
            discount = algorithm.discount_at(n)
            scores = [a + discount * b for a, b in zip(scores, terms, strict=True)]
        survivors = select_top(scores, n_particles)
        path_loss = [path_loss[candidates[i].parent] + losses[i] for i, _ in survivors]
        particles = offspring(particles, symbol, candidates, survivors)
        regrets.append(total - min(path_loss))
    return np.array(regrets)
