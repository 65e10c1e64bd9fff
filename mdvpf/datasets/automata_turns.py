"""Automata that take turns: regimes that return, with the exact generator of every symbol.

A predictor that forgets pays for each visit of a regime as for the first. One that remembers pays
less when a regime returns, and the regret against the generator measures how much less.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdvpf._support import validate
from mdvpf.datasets.hmm_sources import HMM, HMMStream, read_hmms, sample_hmms
from mdvpf.datasets.pautomac_problems import Automaton


def random_automaton(
    n_states: int, n_symbols: int, *, emission: float = 0.3, rng: Any = None
) -> HMM:
    """Draw a deterministic automaton and return it as an HMM.

    In each state the automaton emits a symbol, drawn from a distribution of that state, and moves
    to a state that the two determine. The states of the HMM are the pairs of a state and a symbol.

    Parameters
    ----------
    n_states, n_symbols : int
        Sizes of the automaton.
    emission : float, default 0.3
        Concentration of the Dirichlet distribution of the emissions: small values make the next
        symbol nearly certain, large ones make all equally likely.
    rng : None, int, SeedSequence, BitGenerator or Generator, optional
        Seed or generator of the random numbers.

    Examples
    --------
    >>> from mdvpf import datasets
    >>> hmm = datasets.random_automaton(4, 3, rng=0)
    >>> hmm.n_states, hmm.n_symbols
    (12, 3)
    """
    n_states = validate.integer("n_states", n_states, low=1)
    n_symbols = validate.integer("n_symbols", n_symbols, low=1)
    concentration = np.full(n_symbols, validate.hyper_parameter("emission", emission))
    generator = validate.generator("rng", rng)
    # A Dirichlet draw of small concentration has zeros by underflow; adding a little keeps all
    # pairs, and so the size of the HMM.
    emits = generator.dirichlet(concentration, size=n_states) + 1e-12
    emits /= emits.sum(axis=1, keepdims=True)
    following = generator.integers(n_states, size=(n_states, n_symbols))
    automaton = Automaton(
        np.full(n_states, 1.0 / n_states), np.zeros(n_states), emits, np.eye(n_states)[following]
    )
    hmm = automaton.to_hmm()
    return HMM(hmm.start, hmm.transition, hmm.emission[:, :-1])  # without the end of a string


def taking_turns(
    sources: int | Sequence[HMM] = 3,
    n_visits: int = 11,
    length: int = 500,
    *,
    n_states: int = 8,
    n_symbols: int = 8,
    emission: float = 0.3,
    rng: Any = None,
) -> HMMStream:
    """Draw a stream of sources that take turns: 1, 2, 3, 1, 2, 3 and so on.

    ``KnownHMM(stream.hmms, stream.change_points)`` is the best that a predictor can do, which
    makes the regret of any other exact. Segment i is visit ``i // n`` of source ``i % n``, where n
    is the number of sources.

    Parameters
    ----------
    sources : int or sequence of HMM, default 3
        The sources, or how many automata to draw with `random_automaton`.
    n_visits : int, default 11
        How often each source is active: once, and then so many returns less one.
    length : int, default 500
        Symbols of a visit.
    n_states, n_symbols, emission
        As for `random_automaton`; not used if sources are passed.
    rng : None, int, SeedSequence, BitGenerator or Generator, optional
        Seed or generator of the random numbers.

    Examples
    --------
    >>> import mdvpf
    >>> stream = mdvpf.datasets.taking_turns(2, n_visits=3, length=100, rng=0)
    >>> stream.change_points.tolist(), stream.hmms[0] is stream.hmms[2]
    ([100, 200, 300, 400, 500], True)
    >>> best = mdvpf.KnownHMM(stream.hmms, stream.change_points).run(stream.symbols)
    >>> chain = mdvpf.Markov(stream.n_symbols, order=1).run(stream.symbols)
    >>> bool(best.log_predictive.sum() > chain.log_predictive.sum())
    True
    """
    n_visits = validate.integer("n_visits", n_visits, low=1)
    length = validate.integer("length", length, low=1)
    generator = validate.generator("rng", rng)
    if isinstance(sources, (int, np.integer)):
        n_sources = validate.integer("sources", sources, low=1)
        hmms = [
            random_automaton(n_states, n_symbols, emission=emission, rng=generator)
            for _ in range(n_sources)
        ]
    else:
        hmms = list(read_hmms(sources))
    n = n_visits * len(hmms)
    return sample_hmms(hmms * n_visits, [length] * n, generator)
