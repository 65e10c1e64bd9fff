"""Filters over a grid of hyper-parameters and algorithms, each with a generator of its own."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

from mdvpf._support import validate
from mdvpf.algorithms import Algorithm
from mdvpf.filter import ParticleFilter
from mdvpf.model import InfiniteHMM


def filters(
    n_symbols: int,
    alpha: Iterable[float],
    gamma: Iterable[float],
    beta: Iterable[float],
    algorithm: Iterable[Algorithm],
    n_particles: int,
    rng: Any,
    max_states: int | None,
) -> list[ParticleFilter]:
    """Return a filter for every combination; see `Mixture.grid`."""
    generator = validate.generator("rng", rng)
    numbers = {"alpha": alpha, "gamma": gamma, "beta": beta}
    axes = [
        validate.entries("algorithm", algorithm, of="algorithms"),
        *(validate.entries(name, values, of="numbers") for name, values in numbers.items()),
    ]
    return [
        ParticleFilter(
            InfiniteHMM(n_symbols, alpha=a, gamma=g, beta=b, max_states=max_states),
            kind,
            n_particles,
            rng=seed,
        )
        for kind, a, g, b in product(*axes)
        for seed in generator.integers(2**63, size=1).tolist()
    ]
