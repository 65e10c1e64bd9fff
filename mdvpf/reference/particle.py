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
"""The state before the first symbol of a sequence; it has a transition row and is never entered."""

NO_PARENT = -1
"""The parent of the empty particle."""

Symbol = int | None | Numbers
"""An observation: a symbol or, in families over numbers, a tuple; None is a missing one."""

Row = int | tuple[int, Symbol]
"""The owner of a transition row: a state, or in a Mealy machine a state and its symbol."""

Key = Hashable
"""The label of one of several interleaved sequences; None is a key too."""


class Position(NamedTuple):
    """The current state of the sequence of a key, and the symbol emitted there."""

    state: int
    symbol: Symbol


@dataclass(frozen=True, slots=True)
class Particle:
    """One hypothesis about the past: a path of states, its counts and its weight.

    Particles are immutable: `move` creates a child with its own counts.

    All counts are as of the next step. With forgetting they are real numbers, and the dictionaries
    omit counts that have faded away. With rounding (see `Memory`) the dictionaries hold the counts
    multiplied by `unit`.

    Attributes
    ----------
    state : int
        The current state, -1 before the first symbol of a sequence, or if the state has faded away.
    n_states : int
        Number of states on the path; they are numbered by first appearance. A state that has faded
        away keeps its number: the keys of `into` are the states that exist.
    log_weight : float
        Log of the weight; the weights of a set sum to one.
    parent : int
        Index of the parent in the set before the step, -1 if there is none.
    path : list of int
        The states visited, all sequences joined, without the start state. Its length is the
        number of steps so far.
    transition : dict of (Row, int) to number
        Count of the transitions from a row, -1 for the start state, to a state.
    emission : dict of (int, int) to number
        How often a state emitted a symbol. With rounding also how often it emitted None, a missing
        symbol.
    observed : dict of int to Emitted
        In families over numbers, the observations of a state with their weights, which are not
        rounded.
    into : dict of int to number
        How often a state was entered, from the start state too. It includes what is left of
        transitions that have faded away.
    rows_into : dict of int to int
        The number of rows that reach a state; it grows with each new transition. With forgetting
        it is recounted before every step that is a multiple of 64.
    symbol : int or None
        The last symbol, None if it was missing.
    key : hashable
        The key to which `state` and `symbol` belong.
    positions : dict of hashable to Position
        The position of each key that is not in the start state.
    seen : tuple of int, or tuple of tuple of int
        How often each symbol of an open alphabet was seen; equal in all particles. These counts do
        not fade, and missing symbols are not counted. In a product with open channels a tuple for
        each of them, or none before the first observation.
    clock : float
        The half-lives elapsed at the time of the counts, if they fade by time.
    memory : Memory
        How counts fade and are rounded.
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
    seen: tuple[Any, ...] = ()
    clock: float = 0.0
    memory: Memory = field(default_factory=Memory)

    @property
    def weight(self) -> float:
        """Normalised weight of the particle."""
        return math.exp(self.log_weight)

    @property
    def row(self) -> Row:
        """The row of the next transition; the start state has a single row in any machine."""
        if self.memory.machine == "mealy" and self.state != START:
            return self.state, self.symbol
        return self.state

    @property
    def unit(self) -> float:
        """The value of a count of one in the dictionaries; 1 without rounding."""
        return self.memory.unit(len(self.path) + 1, self.clock)

    def counts(self, n_symbols: int) -> Counts:
        """Return the counts as dense arrays; states that have faded away have zeros.

        The transitions of a Mealy machine have a middle axis for the symbol; its last entry is a
        missing symbol.
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
    """Return the child that moves to `state` and emits `symbol` there."""
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
        seen=seeing(particle, symbol).seen,
        clock=particle.clock,
        memory=memory,
    )
    return faded(child) if memory.fades else child


def standing(particle: Particle, key: Key) -> Particle:
    """Return the particle at the position of a key.

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
    """Return the particle with the sequence of a key ended: its state is the start state."""
    positions = {other: at for other, at in particle.positions.items() if other != key}
    return standing(replace(particle, positions=positions), particle.key)


def counted(seen: tuple[int, ...], symbol: Symbol) -> tuple[int, ...]:
    """Return the counts of seen symbols after one more; a missing symbol is not counted."""
    if not isinstance(symbol, int):
        return seen
    times = seen[symbol] if symbol < len(seen) else 0
    return (*seen[:symbol], times + 1, *seen[symbol + 1 :])


def seeing(particle: Particle, symbol: Symbol) -> Particle:
    """Return the particle with a symbol added to `seen` only.

    The look-ahead of MD-VPA is scored from the counts before the pending symbol, but with that
    symbol in `seen`.
    """
    channels = particle.memory.open_channels
    if isinstance(symbol, tuple) and channels:
        seen = particle.seen or ((),) * len(channels)
        columns = [None if math.isnan(y := symbol[i]) else int(y) for i in channels]
        both = zip(seen, columns, strict=True)
        return replace(particle, seen=tuple(counted(times, y) for times, y in both))
    if not particle.memory.is_open:
        return particle
    return replace(particle, seen=counted(particle.seen, symbol))


def faded(particle: Particle) -> Particle:
    """Return the particle with its counts decayed to the next step, without faded entries.

    `into` decays separately from the transitions, so it includes faded transitions. A sequence
    whose state is released moves to the start state.
    """
    return _scaled(particle, particle.memory.scale_after(len(particle.path)))


def at_clock(particle: Particle, clock: float) -> Particle:
    """Return the particle with its counts decayed to a later time, if they fade by time."""
    if not particle.memory.by_time or clock == particle.clock:
        return particle
    scale = particle.memory.scale_between(particle.clock, clock)
    return _scaled(replace(particle, clock=clock), scale)


def _scaled(particle: Particle, scale: float) -> Particle:
    """Return the particle with all stored values multiplied, without faded entries."""
    step = len(particle.path)  # the step just completed
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

    The mass of a state is its transition count from the present row, plus `kappa` for staying, plus
    its share of the oracle's mass alpha. The oracle splits alpha between the states that it offers
    and the new state, which has weight gamma. A state's weight is how often it was entered or, for
    "rows", how many rows reach it. A state that has faded away has probability 0. At `max_states`
    the new state is left out and the other masses are renormalised. Their sum is positive: a
    transition to the existing state that was entered last has not faded away.
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

    With rounding, the total of the emissions of a state is the number of its entries less the
    number of its missing symbols, as in the core. In an open alphabet, the number of symbols seen
    stands for a symbol never seen.
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
    return log_density(model.numbers, emitted, symbol, particle.seen)


def log_potentials(model: InfiniteHMM, particle: Particle, symbol: Symbol) -> list[float]:
    """Return the log probability of moving to each next state and emitting `symbol` there.

    It is -inf for a state of transition probability 0.
    """
    return [
        math.log(probability) + log_emission_probability(model, particle, state, symbol)
        if probability > 0.0
        else -math.inf
        for state, probability in enumerate(transition_probabilities(model, particle))
    ]
