"""The predictor that a name and some options describe, for the commands that take one."""

from __future__ import annotations

from typing import Any

from mdvpf.baselines import ContextTree, Markov
from mdvpf.experiments.methods import ALGORITHMS, AUTO, GENERATOR, NAMES
from mdvpf.filter import ParticleFilter
from mdvpf.mixture.auto import auto
from mdvpf.model import InfiniteHMM
from mdvpf.predictor import Predictor

METHODS = [AUTO, *(name for name in NAMES if name not in (AUTO, GENERATOR))]
FILTERS = [AUTO, *ALGORITHMS]
PARTICLES = 1000  # of a single filter


def make(
    name: str, n_symbols: int, particles: int | None, seed: int | None, hyper: dict[str, Any]
) -> Predictor:
    """Return a predictor; `hyper` has those of alpha, gamma, beta and max_states that were set."""
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
