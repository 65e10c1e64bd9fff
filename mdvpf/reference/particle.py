"""A particle with its counts in dictionaries, and the probabilities of the model."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from mdvpf.model import InfiniteHMM
from mdvpf.predictor import Counts

START = -1
"""The state before the first symbol of a sequence: it has a transition row, and no way in."""

NO_PARENT = -1
"""The parent of a particle that has seen nothing."""

Symbol = int | None
"""An observation; None is a missing one."""


@dataclass(frozen=True, slots=True)
class Particle:
    """One hypothesis about the past: a path of states, its counts and its weight.

    Particles are never changed: `move` makes a child with counts of its own.

    Attributes
    ----------
    state : int
        The state it stands in, -1 before the first symbol of a sequence.
    n_states : int
        How many states its path has visited; they are numbered by first appearance.
    log_weight : float
        Log of its weight; the weights of a set sum to one.
    parent : int
        Index of its parent in the set that the step started from, -1 if there is none.
    path : list of int
        The states visited, all sequences joined, without the start state.
    transition : dict of (int, int) to int
        Transitions so far from a state, or from -1 for the start state, to another.
    emission : dict of (int, int) to int
        How often a state emitted a symbol.
    into : dict of int to int
        How often a state was entered, from the start state too.
    """

    state: int = START
    n_states: int = 0
    log_weight: float = 0.0
    parent: int = NO_PARENT
    path: list[int] = field(default_factory=list)
    transition: dict[tuple[int, int], int] = field(default_factory=dict)
    emission: dict[tuple[int, int], int] = field(default_factory=dict)
    into: dict[int, int] = field(default_factory=dict)

    @property
    def weight(self) -> float:
        """Share of this particle in the set."""
        return math.exp(self.log_weight)

    def counts(self, n_symbols: int) -> Counts:
        """Return the counts as dense arrays."""
        start = np.zeros(self.n_states, dtype=np.int64)
        transition = np.zeros((self.n_states, self.n_states), dtype=np.int64)
        emission = np.zeros((self.n_states, n_symbols), dtype=np.int64)
        for (origin, state), times in self.transition.items():
            if origin == START:
                start[state] = times
            else:
                transition[origin, state] = times
        for (state, symbol), times in self.emission.items():
            emission[state, symbol] = times
        return Counts(start, transition, emission)


def move(
    particle: Particle, state: int, symbol: Symbol, *, parent: int, log_weight: float
) -> Particle:
    """Return the child that goes to `state` and emits `symbol` there."""
    transition = dict(particle.transition)
    transition[particle.state, state] = transition.get((particle.state, state), 0) + 1
    into = dict(particle.into)
    into[state] = into.get(state, 0) + 1
    emission = dict(particle.emission)
    if symbol is not None:
        emission[state, symbol] = emission.get((state, symbol), 0) + 1
    return Particle(
        state=state,
        n_states=max(particle.n_states, state + 1),
        log_weight=log_weight,
        parent=parent,
        path=[*particle.path, state],
        transition=transition,
        emission=emission,
        into=into,
    )


def transition_probabilities(model: InfiniteHMM, particle: Particle) -> list[float]:
    """Return the probability of each next state: the existing ones, then the new one.

    The transitions seen from the present state are joined by an oracle of mass alpha, which
    spreads that mass over the states it offers, by how often they were entered, and over the
    new state by gamma. The two oracles differ in what they offer. At `max_states` the new
    state is left out, and the divisor is the mass of the others.
    """
    states = range(particle.n_states)
    seen = [particle.transition.get((particle.state, state), 0) for state in states]
    if model.oracle == "unvisited":
        offered = [0 if seen[state] else particle.into[state] for state in states]
    else:
        offered = [particle.into[state] for state in states]
    oracle_total = sum(offered) + model.gamma
    mass = [seen[c] + model.alpha * (offered[c] / oracle_total) for c in states]
    if model.max_states is not None and particle.n_states >= model.max_states:
        total = sum(seen) + model.alpha * (sum(offered) / oracle_total)
    else:
        mass.append(model.alpha * (model.gamma / oracle_total))
        total = sum(seen) + model.alpha
    return [part / total for part in mass]


def emission_probability(
    model: InfiniteHMM, particle: Particle, state: int, symbol: Symbol
) -> float:
    """Return the probability that `state` emits `symbol`; 1 for a missing symbol."""
    if symbol is None:
        return 1.0
    if state == particle.n_states:
        return 1.0 / model.n_symbols
    total = sum(particle.emission.get((state, y), 0) for y in range(model.n_symbols))
    times = particle.emission.get((state, symbol), 0)
    return (times + model.beta) / (total + model.n_symbols * model.beta)


def log_potentials(model: InfiniteHMM, particle: Particle, symbol: Symbol) -> list[float]:
    """Return the log probability of going to each next state and emitting `symbol` there."""
    return [
        math.log(probability) + math.log(emission_probability(model, particle, state, symbol))
        for state, probability in enumerate(transition_probabilities(model, particle))
    ]
