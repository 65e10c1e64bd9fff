"""Configurations of the compared methods: filters, chains, trees and the generator.

A method has everything that is needed to make a predictor for a stream, as numbers and names that a
file can store.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mdvpf.baselines import ContextTree, KnownHMM, Markov, PitmanYorTree
from mdvpf.experiments.data import Data
from mdvpf.filter import ParticleFilter
from mdvpf.mixture.auto import auto
from mdvpf.mixture.auto_of_0_1 import DEFAULT_PARTICLES, auto_of_0_1
from mdvpf.model import InfiniteHMM, Machine, Oracle
from mdvpf.model.algorithms import MDVPA, VPA, Algorithm
from mdvpf.predictor import Predictor
from mdvpf.streams.methods import (
    AUTO,
    COMPARED,
    LEARNERS,
    MARKOV_ORDERS,
    TREE_DEPTHS,
    make_predictor,
)

MARKOV_BETAS = (0.01, 0.03, 0.1, 0.3, 1.0)
GENERATOR = "generator"

# The methods of the paper's experiments, in the order of their tables.
EXPERIMENT_NAMES = (*(name for name in COMPARED if name != AUTO), GENERATOR)
NAMES = (*EXPERIMENT_NAMES, AUTO, *LEARNERS)

# Deeper chains and trees, which are compared only on request.
DEEPER_ORDERS = (3,)
DEEPER_DEPTHS = (4,)
ALL_NAMES = (
    *NAMES,
    *(f"Markov {order}" for order in DEEPER_ORDERS),
    *(f"ContextTree {depth}" for depth in DEEPER_DEPTHS),
)


@dataclass(frozen=True, slots=True)
class Filter:
    """A particle filter of the infinite HMM."""

    algorithm: Algorithm
    n_particles: int
    alpha: float = 1.0
    gamma: float = 1.0
    beta: float = 0.3
    oracle: Oracle = "unvisited"
    max_states: int | None = None
    machine: Machine = "moore"
    kappa: float = 0.0
    forget: float = 0.0
    half_life: float | None = None

    def predictor(self, data: Data, rng: np.random.SeedSequence) -> ParticleFilter:
        """Return the filter for a stream."""
        model = InfiniteHMM(
            data.n_symbols,
            self.alpha,
            self.gamma,
            self.beta,
            self.oracle,
            self.max_states,
            machine=self.machine,
            kappa=self.kappa,
            forget=self.forget,
            half_life=self.half_life,
        )
        return ParticleFilter(model, self.algorithm, self.n_particles, rng=rng)

    @property
    def draws(self) -> bool:
        """Whether the filter is random, so that its result depends on the seed."""
        match self.algorithm:
            case VPA() | MDVPA(selection="top"):
                return False
        return True


@dataclass(frozen=True, slots=True)
class Chain:
    """A Markov chain."""

    order: int
    beta: float

    def predictor(self, data: Data, rng: np.random.SeedSequence) -> Predictor:
        """Return the chain for a stream."""
        return Markov(data.n_symbols, order=self.order, beta=self.beta)


@dataclass(frozen=True, slots=True)
class Tree:
    """A context tree."""

    depth: int

    def predictor(self, data: Data, rng: np.random.SeedSequence) -> Predictor:
        """Return the tree for a stream."""
        return ContextTree(data.n_symbols, depth=self.depth)


@dataclass(frozen=True, slots=True)
class Learner:
    """A tree, a learner without particles or a mixture of them, by its name.

    The definition of the predictor is stored as well: finished runs are not reused after the
    meaning of a name has changed.
    """

    name: str
    definition: str

    @classmethod
    def named(cls, name: str) -> Learner:
        """Return the learner of a name."""
        return cls(name, make_predictor(name, 2, seed=0)._description())

    def predictor(self, data: Data, rng: np.random.SeedSequence) -> Predictor:
        """Return the predictor for a stream."""
        return make_predictor(self.name, data.n_symbols, seed=rng)


@dataclass(frozen=True, slots=True)
class Generator:
    """The generator of the stream, which knows the matrices and the change points."""

    def predictor(self, data: Data, rng: np.random.SeedSequence) -> Predictor:
        """Return the generator of a stream."""
        return KnownHMM(data.hmms, data.change_points)


@dataclass(frozen=True, slots=True)
class Auto:
    """The default mixture of version 0.1, as in the published tables.

    It has its own budget: the total number of particles of its filters.
    """

    n_particles: int = DEFAULT_PARTICLES
    max_states: int | None = None

    def predictor(self, data: Data, rng: np.random.SeedSequence) -> Predictor:
        """Return the mixture for a stream."""
        return auto_of_0_1(data.n_symbols, self.n_particles, rng=rng, max_states=self.max_states)


@dataclass(frozen=True, slots=True)
class BudgetedAuto:
    """`mdvpf.auto` as users get it, with a budget of time for each symbol."""

    budget: str = "fast"

    def predictor(self, data: Data, rng: np.random.SeedSequence) -> Predictor:
        """Return the mixture for a stream."""
        return auto(data.n_symbols, budget=self.budget, rng=rng)


@dataclass(frozen=True, slots=True)
class Counts:
    """Plain counts: the predictor of `block_detector`."""

    def predictor(self, data: Data, rng: np.random.SeedSequence) -> Predictor:
        """Return the counts for a stream."""
        return PitmanYorTree(data.n_symbols, depth=0)


class Method(Hashable, Protocol):
    """Protocol of all methods above; what `predictor` returns has the `run` of a predictor."""

    def predictor(self, data: Any, rng: np.random.SeedSequence) -> Any:
        """Return what runs over a stream."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the comparison; of several entries with one label only the best is shown."""

    label: str
    method: Method
    variant: str = ""


def entries(
    filters: Mapping[str, Filter],
    names: tuple[str, ...],
    *,
    max_states: int | None = None,
    generator: bool = False,
) -> list[Entry]:
    """Return the methods with the given names and, if there is one, the generator."""
    found = [Entry(label, method) for label, method in filters.items()]
    for order in (*MARKOV_ORDERS, *DEEPER_ORDERS):
        for weight in MARKOV_BETAS:
            found.append(Entry(f"Markov {order}", Chain(order, weight), f"beta {weight:g}"))
    depths = (*TREE_DEPTHS, *DEEPER_DEPTHS)
    found += [Entry(f"ContextTree {depth}", Tree(depth)) for depth in depths]
    found.append(Entry(AUTO, Auto(max_states=max_states)))
    found += [Entry(name, Learner.named(name)) for name in LEARNERS]
    if generator:
        found.append(Entry(GENERATOR, Generator()))
    return [entry for entry in found if entry.label in (*names, GENERATOR)]


def plain(value: Any) -> Any:
    """Return a configuration in types that JSON has; dataclasses become objects with a type.

    Examples
    --------
    >>> from mdvpf.experiments.methods import Tree, plain
    >>> plain(Tree(depth=2))
    {'type': 'Tree', 'depth': 2}
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
        return {"type": type(value).__name__, **fields}
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    return value
