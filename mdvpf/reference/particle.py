"""A particle with its counts in dictionaries, and the probabilities of the model."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mdvpf.model import InfiniteHMM
from mdvpf.predictor import Counts
from mdvpf.reference.memory import GONE, ROWS_COUNTED_EVERY, Memory
from mdvpf.reference.number_families import Emitted, Numbers, log_density

START = -1
"""The state before the first symbol of a sequence: it has a transition row, and no way in."""

NO_PARENT = -1
"""The parent of a particle that has seen nothing."""

Symbol = int | None | Numbers
"""An observation: a symbol or, in families over numbers, a tuple; None is a missing one."""

Row = int | tuple[int, Symbol]
"""What a row of transitions belongs to: a state, or a state and the symbol it emitted."""

Key = Hashable
"""Which of the interleaved sequences a symbol belongs to; None is one more."""


class Position(NamedTuple):
    """Where the sequence of a key stands: in which state, and the symbol emitted there."""

    state: int
    symbol: Symbol


@dataclass(frozen=True, slots=True)
class Particle:
    """One hypothesis about the past: a path of states, its counts and its weight.

    Particles are never changed: `move` makes a child with counts of its own.

    All counts are those of the step that comes next: with forgetting they are real numbers that
    have faded up to there, and what has faded away is not in the dictionaries. With rounding (see
    `Memory`) the dictionaries have multiples of the counts, by the factor `unit`.

    Attributes
    ----------
    state : int
        The state it stands in, -1 before the first symbol of a sequence. With forgetting also -1
        if that state has faded away.
    n_states : int
        How many states its path has visited; they are numbered by first appearance. A state that
        has faded away keeps its number: the states that exist are the keys of `into`.
    log_weight : float
        Log of its weight; the weights of a set sum to one.
    parent : int
        Index of its parent in the set that the step started from, -1 if there is none.
    path : list of int
        The states visited, all sequences joined, without the start state. Its length is the
        number of steps so far.
    transition : dict of (Row, int) to number
        Transitions so far from a row, -1 for that of the start state, to a state.
    emission : dict of (int, int) to number
        How often a state emitted a symbol. With rounding also how often a missing one, None.
    observed : dict of int to Emitted
        In families over numbers, what a state emitted. These weights are not rounded.
    into : dict of int to number
        How often a state was entered, from the start state too; of transitions that have faded
        away it keeps what is left.
    rows_into : dict of int to int
        From how many rows a state was reached: one more with each transition that is opened.
        With forgetting counted afresh before every step that is a multiple of 64.
    symbol : int or None
        The last symbol, None if it was missing.
    key : hashable
        The key that `state` and `symbol` are of.
    positions : dict of hashable to Position
        Where the sequence of each key stands, without those that stand in the start state.
    seen : tuple of int
        Of an open alphabet how often each symbol was seen so far, the same in all particles. It
        does not fade, and has no missing symbols.
    clock : float
        Where counts fade by time: the half-lives that had passed when they were as they are.
    memory : Memory
        How it counts.
    """

    state: int = START
    n_states: int = 0
    log_weight: float = 0.0
    parent: int = NO_PARENT
    path: list[int] = field(default_factory=list)
    transition: dict[tuple[Row, int], float] = field(default_factory=dict)
    emission: dict[tuple[int, Symbol], float] = field(default_factory=dict)
    observed: dict[int, Emitted] = field(default_factory=dict)
    into: dict[int, float] = field(default_factory=dict)
    rows_into: dict[int, int] = field(default_factory=dict)
    symbol: Symbol = None
    key: Key = None
    positions: dict[Key, Position] = field(default_factory=dict)
    seen: tuple[int, ...] = ()
    clock: float = 0.0
    memory: Memory = field(default_factory=Memory)

    @property
    def weight(self) -> float:
        """Share of this particle in the set."""
        return math.exp(self.log_weight)

    @property
    def row(self) -> Row:
        """What the next transition is drawn from; the start state has one row in any machine."""
        if self.memory.machine == "mealy" and self.state != START:
            return self.state, self.symbol
        return self.state

    @property
    def unit(self) -> float:
        """What the dictionaries have for a count of one: 1 without rounding."""
        return self.memory.unit(len(self.path) + 1, self.clock)

    def counts(self, n_symbols: int) -> Counts:
        """Return the counts as dense arrays, in which states that faded away have zeros.

        Of a Mealy machine the transitions have a middle axis for the symbol, the last for a
        missing one.
        """
        kind: Any = np.float64 if self.memory.fades else np.int64
        m, unit = self.n_states, self.unit
        start: NDArray[Any] = np.zeros(m, dtype=kind)
        is_mealy = self.memory.machine == "mealy"
        shape = (m, n_symbols + 1, m) if is_mealy else (m, m)
        transition: NDArray[Any] = np.zeros(shape, dtype=kind)
        emission: NDArray[Any] = np.zeros((m, n_symbols), dtype=kind)
        for (row, state), times in self.transition.items():
            if row == START:
                start[state] = times / unit
            elif isinstance(row, tuple):
                after = row[1] if isinstance(row[1], int) else n_symbols
                transition[row[0], after, state] = times / unit
            else:
                transition[row, state] = times / unit
        for (state, symbol), times in self.emission.items():
            if isinstance(symbol, int):
                emission[state, symbol] = times / unit
        return Counts(start, transition, emission)


def move(
    particle: Particle, state: int, symbol: Symbol, *, parent: int, log_weight: float
) -> Particle:
    """Return the child that goes to `state` and emits `symbol` there."""
    memory, step = particle.memory, len(particle.path) + 1
    transition = dict(particle.transition)
    rows_into = dict(particle.rows_into)
    entry = particle.row, state
    if entry not in transition:
        rows_into[state] = rows_into.get(state, 0) + 1
    transition[entry] = memory.increased(transition.get(entry, 0), step, particle.clock)
    into = dict(particle.into)
    into[state] = memory.increased(into.get(state, 0), step, particle.clock)
    emission, observed = dict(particle.emission), dict(particle.observed)
    if isinstance(symbol, tuple):
        observed[state] = (*observed.get(state, ()), (particle.unit, symbol))
    elif symbol is not None or memory.rounding:
        times = emission.get((state, symbol), 0)
        emission[state, symbol] = memory.increased(times, step, particle.clock)
    child = Particle(
        state=state,
        n_states=max(particle.n_states, state + 1),
        log_weight=log_weight,
        parent=parent,
        path=[*particle.path, state],
        transition=transition,
        emission=emission,
        observed=observed,
        into=into,
        rows_into=rows_into,
        symbol=symbol,
        key=particle.key,
        positions={**particle.positions, particle.key: Position(state, symbol)},
        seen=counted(particle.seen, symbol) if memory.is_open else (),
        clock=particle.clock,
        memory=memory,
    )
    return faded(child) if memory.fades else child


def standing(particle: Particle, key: Key) -> Particle:
    """Return the particle as the next symbol of a key finds it: where that key stands.

    Examples
    --------
    >>> from mdvpf.reference import Particle, move, standing
    >>> particle = move(Particle(), 0, 1, parent=0, log_weight=0.0)
    >>> standing(particle, "another").state, standing(particle, None).state
    (-1, 0)
    """
    state, symbol = particle.positions.get(key, Position(START, None))
    return replace(particle, key=key, state=state, symbol=symbol)


def ended(particle: Particle, key: Key) -> Particle:
    """Return the particle with the sequence of a key ended: it stands in the start state."""
    positions = {other: at for other, at in particle.positions.items() if other != key}
    return standing(replace(particle, positions=positions), particle.key)


def counted(seen: tuple[int, ...], symbol: Symbol) -> tuple[int, ...]:
    """Return how often each symbol was seen, with one more; a missing one is not counted."""
    if not isinstance(symbol, int):
        return seen
    times = seen[symbol] if symbol < len(seen) else 0
    return (*seen[:symbol], times + 1, *seen[symbol + 1 :])


def seeing(particle: Particle, symbol: Symbol) -> Particle:
    """Return the particle as it stands, with a symbol counted as seen and nowhere else.

    The look-ahead of MD-VPA is scored from the counts before the pending symbol, which was seen
    all the same.
    """
    if not particle.memory.is_open:
        return particle
    return replace(particle, seen=counted(particle.seen, symbol))


def faded(particle: Particle) -> Particle:
    """Return the particle with its counts as of the next step, without what has faded away.

    `into` fades by itself, not with the transitions: it keeps all that was ever counted. A
    sequence that stands in a state that is released stands in the start state.
    """
    return _scaled(particle, particle.memory.scale_after(len(particle.path)))


def at_clock(particle: Particle, clock: float) -> Particle:
    """Return the particle with its counts as of a later time, where they fade by time."""
    if not particle.memory.by_time or clock == particle.clock:
        return particle
    scale = particle.memory.scale_between(particle.clock, clock)
    return _scaled(replace(particle, clock=clock), scale)


def _scaled(particle: Particle, scale: float) -> Particle:
    """Return the particle with all that it keeps multiplied, without what has faded away then."""
    step = len(particle.path)  # the one that was just made
    gone = GONE * particle.unit
    into = {c: n * scale for c, n in particle.into.items() if n * scale >= gone}
    transition = {entry: n * scale for entry, n in particle.transition.items() if n * scale >= gone}
    rows_into = particle.rows_into
    if (step + 1) % ROWS_COUNTED_EVERY == 0:
        rows_into = Counter(state for _, state in transition)
    return replace(
        particle,
        state=particle.state if particle.state in into else START,
        positions={key: at for key, at in particle.positions.items() if at.state in into},
        into=into,
        transition=transition,
        emission={(c, y): n * scale for (c, y), n in particle.emission.items() if c in into},
        observed={
            c: tuple((w * scale, y) for w, y in emitted)
            for c, emitted in particle.observed.items()
            if c in into
        },
        rows_into={c: n for c, n in rows_into.items() if c in into},
    )


def transition_probabilities(model: InfiniteHMM, particle: Particle) -> list[float]:
    """Return the probability of each next state: those visited so far, then the new one.

    The transitions seen from the present row, and `kappa` for staying, are joined by an oracle
    of mass alpha, which spreads that mass over the states it offers and over the new state by
    gamma. The oracles differ in what they offer: by how often a state was entered, or by how many
    rows reach it. A state that has faded away has probability 0. At `max_states` the new state is
    left out, and the divisor is the mass of the others. There is always some: of the states that
    exist, the one entered last is reached by a transition that is not gone.
    """
    if particle.memory != Memory.of(model, rounding=particle.memory.rounding):
        raise ValueError(f"particle with {particle.memory!r}: expected that of {model!r}")
    states, unit = range(particle.n_states), particle.unit
    into = [particle.into.get(state, 0) / unit for state in states]
    seen = [particle.transition.get((particle.row, state), 0) / unit for state in states]
    if model.kappa > 0.0 and particle.state != START:
        seen[particle.state] += model.kappa
    if model.oracle == "unvisited":
        offered = [0 if seen[state] else into[state] for state in states]
    elif model.oracle == "any":
        offered = into
    else:
        offered = [particle.rows_into.get(state, 0) for state in states]
    oracle_total = sum(offered) + model.gamma
    mass = [seen[c] + model.alpha * (offered[c] / oracle_total) for c in states]
    if model.max_states is not None and len(particle.into) >= model.max_states:
        total = sum(seen) + model.alpha * (sum(offered) / oracle_total)
    else:
        mass.append(model.alpha * (model.gamma / oracle_total))
        total = sum(seen) + model.alpha
    return [part / total for part in mass]


def emission_probability(
    model: InfiniteHMM, particle: Particle, state: int, symbol: Symbol
) -> float:
    """Return the probability that `state` emits `symbol`; 1 for a missing one. Not for numbers.

    With rounding the emissions of a state are not added up: they are how often it was entered,
    less how often its symbol was missing.

    Of an open alphabet a symbol that was never seen is the number of those that were.
    """
    if symbol is None:
        return 1.0
    assert isinstance(symbol, int)
    if model.vocabulary is None:
        prior, base = model.n_symbols * model.beta, 1.0 / model.n_symbols
    else:
        prior = model.vocabulary.concentration
        base = model.vocabulary.base_probability(particle.seen, symbol)
    if state == particle.n_states:
        return base
    if particle.memory.rounding:
        missing = particle.emission.get((state, None), 0)
        total = max(0.0, particle.into.get(state, 0) - missing)
    else:
        total = sum(
            times for (c, y), times in particle.emission.items() if c == state and y is not None
        )
    unit = particle.unit
    times = particle.emission.get((state, symbol), 0) / unit
    pseudo_count = model.beta if model.vocabulary is None else prior * base
    return (times + pseudo_count) / (total / unit + prior)


def log_emission_probability(
    model: InfiniteHMM, particle: Particle, state: int, symbol: Symbol
) -> float:
    """Return the log probability, or density, with which `state` emits `symbol`."""
    if not isinstance(symbol, tuple):
        return math.log(emission_probability(model, particle, state, symbol))
    assert model.numbers is not None
    unit = particle.unit
    emitted = tuple((w / unit, y) for w, y in particle.observed.get(state, ()))
    return log_density(model.numbers, emitted, symbol)


def log_potentials(model: InfiniteHMM, particle: Particle, symbol: Symbol) -> list[float]:
    """Return the log probability of going to each next state and emitting `symbol` there.

    It is -inf for a state that cannot come next.
    """
    return [
        math.log(probability) + log_emission_probability(model, particle, state, symbol)
        if probability > 0.0
        else -math.inf
        for state, probability in enumerate(transition_probabilities(model, particle))
    ]
