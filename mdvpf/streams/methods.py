"""The methods that a user can name, and the predictor that each name stands for.

The names are those of tables, figures and command lines: the five filters, Markov chains by their
order, context trees by their depth, and `auto`.
"""

from __future__ import annotations

from typing import Any

from mdvpf.algorithms import MDVPA, SMC, VPA, Algorithm, OptimalResampling, ParticleLearning
from mdvpf.baselines import ContextTree, Markov
from mdvpf.filter import ParticleFilter
from mdvpf.mixture.auto import auto
from mdvpf.model import InfiniteHMM
from mdvpf.predictor import Predictor

BASE = "MD-VPA"  # what the others are compared with
ALGORITHMS: dict[str, Algorithm] = {
    "SMC": SMC(),
    "VPA": VPA(),
    BASE: MDVPA(),
    "ParticleLearning": ParticleLearning(),
    "OptimalResampling": OptimalResampling(),
}
MARKOV_ORDERS = (0, 1, 2)
TREE_DEPTHS = (1, 2, 3)
AUTO = "auto"

FILTERS = (AUTO, *ALGORITHMS)
METHODS = (
    *FILTERS,
    *(f"Markov {order}" for order in MARKOV_ORDERS),
    *(f"ContextTree {depth}" for depth in TREE_DEPTHS),
)
PARTICLES = 1000  # of a single filter


def make_predictor(
    name: str,
    n_symbols: int,
    particles: int | None = None,
    seed: int | None = None,
    **hyper: Any,
) -> Predictor:
    """Return the predictor of a name.

    Parameters
    ----------
    name : str
        One of `METHODS`.
    n_symbols : int
        Size of the alphabet.
    particles : int, optional
        Number of particles; of `auto` in all its filters together.
    seed : int, optional
        Seed of the random numbers.
    **hyper
        Those of alpha, gamma, beta and max_states that are set.

    Examples
    --------
    >>> from mdvpf.streams.methods import make_predictor
    >>> make_predictor("Markov 2", 4, beta=0.1)
    Markov(4, order=2, beta=0.1, decay=1.0)
    """
    if name == AUTO:
        for option in ("alpha", "gamma", "beta"):
            if option in hyper:
                raise ValueError(
                    f"{option}={hyper[option]!r}: auto has filters of many settings; expected only "
                    "with the name of one, such as MD-VPA"
                )
        budget = () if particles is None else (particles,)
        return auto(n_symbols, *budget, rng=seed, **hyper)
    if name in ALGORITHMS:
        budget = (PARTICLES if particles is None else particles,)
        return ParticleFilter(InfiniteHMM(n_symbols, **hyper), ALGORITHMS[name], *budget, rng=seed)
    for option, value in {**hyper, "particles": particles}.items():
        if option != "beta" and value is not None:
            raise ValueError(f"{option}={value!r}: {name} has none; expected only with a filter")
    kind, size = name.split()
    if kind == "Markov":
        return Markov(n_symbols, order=int(size), **hyper)
    return ContextTree(n_symbols, depth=int(size), **hyper)
