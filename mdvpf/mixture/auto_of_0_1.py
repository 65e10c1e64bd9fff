"""The default mixture of version 0.1, for comparison: ``auto(version=1)`` returns it.

It mixes four mixtures: filters over a grid, filters that restart, and baselines with and without
restarts. The total regret against the best member is a few nats; see `Mixture.regret_bound`.
"""

from __future__ import annotations

from typing import Any

from mdvpf._support import validate
from mdvpf.baselines import ContextTree, Markov
from mdvpf.mixture.mixture import Mixture
from mdvpf.mixture.restart import Restart
from mdvpf.model.algorithms import MDVPA, OptimalResampling
from mdvpf.predictor import Predictor

RESTART = Restart(every=16, mass=0.02, levels=7)
STEADY_SHARE = 0.1  # large, because the best of many similar members changes often
YOUNG_SHARE = 0.01
SHARE = 0.003

_N_GRID = 36
_N_RESTARTED = 6
N_FILTERS = _N_GRID + _N_RESTARTED * 8  # a restarting filter has up to seven copies
DEFAULT_PARTICLES = 100 * N_FILTERS


def auto_of_0_1(
    n_symbols: int | None,
    n_particles: int = DEFAULT_PARTICLES,
    *,
    baselines: bool = True,
    rng: Any = None,
    max_states: int | None = None,
    n_threads: int = 1,
) -> Mixture:
    """Return the default mixture of version 0.1: a mixture of mixtures.

    It has two members. The first mixes, by fixed share 0.1,

    - filters (MD-VPA and OptimalResampling) with alpha 1 and 10, gamma 1, 10 and 50, beta 0.1,
      0.01 and 0.003,
    - Markov chains of orders 0 to 2, beta from 1 to 0.01, decay from 1 to 0.95, and context trees
      of depth 1 to 4, beta 0.5, 0.1 and 0.03,

    each of them a mixture by fixed share 0.1. The second mixes, by fixed share 0.01,

    - OptimalResampling with alpha 1, gamma 1, 10 and 50, beta 0.3 and 0.1,
    - chains of orders 0 and 1, beta 1, 0.3 and 0.1, and trees of depth 2, beta 0.5, 0.1 and 0.03,

    each of them a mixture by fixed share 0.01, with copies that restart at multiples of 16, 32,
    ..., 1,024 symbols (`Restart`). The two are mixed by fixed share 0.003.

    Parameters
    ----------
    n_symbols : int
        Size of the alphabet. It cannot be open: restarted copies would not know the symbols that
        came before them.
    n_particles : int, default 8,400
        Largest total number of particles of all 84 filters.
    baselines, rng, max_states, n_threads
        As for `auto`.
    """
    if n_symbols is None:
        raise ValueError(
            "n_symbols=None: expected an integer, as members of version 1 restart, which needs a "
            "closed alphabet; version 2 accepts None"
        )
    n_particles = validate.integer("n_particles", n_particles, low=N_FILTERS)
    each = n_particles // N_FILTERS
    generator = validate.generator("rng", rng)
    filters = Mixture.grid(
        n_symbols,
        alpha=(1.0, 10.0),
        gamma=(1.0, 10.0, 50.0),
        beta=(0.1, 0.01, 0.003),
        algorithm=(MDVPA(), OptimalResampling()),
        n_particles=each,
        rng=generator,
        max_states=max_states,
        share=STEADY_SHARE,
        n_threads=n_threads,
    )
    restarted = Mixture.grid(
        n_symbols,
        alpha=(1.0,),
        gamma=(1.0, 10.0, 50.0),
        beta=(0.3, 0.1),
        algorithm=(OptimalResampling(),),
        n_particles=each,
        rng=generator,
        max_states=max_states,
        share=YOUNG_SHARE,
        restart=RESTART,
        n_threads=n_threads,
    )
    members = [filters, restarted]
    if validate.flag("baselines", baselines):
        old, young = _baselines(n_symbols)
        members = [
            Mixture([filters, old], share=STEADY_SHARE),
            Mixture([restarted, young], share=YOUNG_SHARE),
        ]
    mixture = Mixture(members, share=SHARE)
    mixture.recipe = {
        "name": "auto",
        "version": 1,
        "n_particles": n_particles,
        "baselines": bool(baselines),
        "max_states": max_states,
    }
    return mixture


def _baselines(n_symbols: int) -> tuple[Mixture, Mixture]:
    """Return a mixture of chains and trees, and one whose chains and trees restart."""
    old: list[Predictor] = [
        Markov(n_symbols, order=order, beta=beta, decay=decay)
        for order in (0, 1, 2)
        for beta in (1.0, 0.3, 0.1, 0.03, 0.01)
        for decay in (1.0, 0.999, 0.99, 0.95)
    ]
    old += [
        ContextTree(n_symbols, depth=depth, beta=beta)
        for depth in (1, 2, 3, 4)
        for beta in (0.5, 0.1, 0.03)
    ]
    young: list[Predictor] = [
        Markov(n_symbols, order=order, beta=beta) for order in (0, 1) for beta in (1.0, 0.3, 0.1)
    ]
    young += [ContextTree(n_symbols, depth=2, beta=beta) for beta in (0.5, 0.1, 0.03)]
    return (
        Mixture(old, share=STEADY_SHARE),
        Mixture(young, share=YOUNG_SHARE, restart=RESTART),
    )
