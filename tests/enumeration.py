"""The infinite HMM by brute force: every state history, each with its exact probability.

A history labels its states by first appearance, so n symbols have as many histories as there
are partitions of n things (Bell numbers). Nothing is updated in place: the counts of a history
are tallied anew from its path whenever they are needed, which is slow and hard to get wrong.
With hyper-parameters given as fractions every result is an exact fraction.

Two histories that differ in labels only are one: a state has the number of its first appearance.
With forgetting the label of a state that was released is not given again, so a history that
would return there goes to a state with a number of its own.

Symbols come as a list of sequences. Each sequence starts from S, and an empty last sequence
says that the next symbol would start from S. ``None`` is a missing symbol.

Interleaved sequences come as a list of events: a symbol with its key, or the end of a key's
sequence. All functions take either.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

Number = Any  # float or Fraction, whichever the hyper-parameters are
Symbol = int | None
Key = Any


@dataclass(frozen=True)
class Seen:
    """An event: a symbol of the sequence of a key."""

    symbol: Symbol
    key: Key = None


@dataclass(frozen=True)
class End:
    """An event: the sequence of a key ends."""

    key: Key = None


Event = Seen | End
Sequences = Sequence[Sequence[Symbol]] | Sequence[Event]
Path = tuple[int, ...]

Row = Any  # a state, or a state and the symbol it emitted

START = -1
FADED = Fraction(9999, 10000) / 1024
RECOUNTED = 64  # with forgetting, the model recounts rows before every step that this divides


@dataclass(frozen=True)
class Open:
    """An open alphabet, under the names that ``mdvpf.OpenVocabulary`` gives its parameters."""

    concentration: Number = 1.0
    strength: Number = 1.0
    discount: Number = 0.5

    def base(self, seen: Sequence[Symbol], symbol: int) -> Number:
        """Base probability of a symbol, given all symbols observed before it."""
        times = Counter(y for y in seen if y is not None)
        if times[symbol] == 0:
            return (self.strength + self.discount * len(times)) / (times.total() + self.strength)
        return (times[symbol] - self.discount) / (times.total() + self.strength)


@dataclass(frozen=True)
class Rule:
    """The hyper-parameters, under the names that ``mdvpf.InfiniteHMM`` gives them."""

    n_symbols: int
    alpha: Number = 1.0
    gamma: Number = 1.0
    beta: Number = 0.3
    oracle: str = "unvisited"
    max_states: int | None = None
    machine: str = "moore"
    kappa: Number = 0
    forget: Number = 0
    half_life: Number | None = None
    emission: Any = None  # `Open`, or a family over numbers with a `density`; then
    #                        `n_symbols` and `beta` are not used

    @property
    def forgets(self) -> bool:
        return self.forget > 0 or self.half_life is not None

    def weight(self, step: int, now: int) -> Number:
        """w_step / w_now: the weight at one step of a count made at another."""
        if self.half_life is not None:
            return Fraction(1, 2) ** ((now - step) / self.half_life)
        if self.forget == 0:
            return 1
        return Fraction(step, now) ** self.forget

    def worth(self, steps: Iterable[int], now: int) -> Number:
        """The count, at the step `now`, of events at the given steps."""
        return total(self.weight(step, now) for step in steps)

    def is_gone(self, count: Number) -> bool:
        return self.forgets and count < FADED


PLAIN = Rule(n_symbols=1)


@dataclass(frozen=True)
class Move:
    """One step: the row it left, the state it entered, and the symbol emitted there."""

    step: int
    row: Row
    state: int
    symbol: Symbol


@dataclass(frozen=True)
class Tally:
    """The counts of a path and its symbols as of the next step, and the present state."""

    transitions: Counter[tuple[Row, int]]  # without faded entries
    emissions: Counter[tuple[int, int]]
    into: dict[int, Number]  # of the states that exist
    rows_into: dict[int, int]
    observed: dict[int, list[tuple[Number, Any]]]  # what each state emitted, with what it is worth
    n_states: int  # that ever were: the label of the new one
    current: int
    row: Row


def events_of(sequences: Sequences) -> list[Event]:
    """Convert sequences to events; events stay unchanged."""
    events: list[Event] = []
    for part in sequences:
        if isinstance(part, Seen | End):
            events.append(part)
        else:
            events += [End(), *(Seen(symbol) for symbol in part)]
    return events


def flat(sequences: Sequences) -> list[Symbol]:
    """All symbols in order, as ``run`` takes them."""
    return [event.symbol for event in events_of(sequences) if isinstance(event, Seen)]


def lengths(sequences: Sequence[Sequence[Symbol]]) -> list[int]:
    """The length of every sequence, as ``run`` takes them."""
    return [len(sequence) for sequence in sequences]


def prefixes(sequences: Sequence[Sequence[Symbol]]) -> list[list[list[Symbol]]]:
    """Return the sequences known just before each symbol, including the first."""
    known: list[list[Symbol]] = []
    result = []
    for sequence in sequences:
        known.append([])
        for symbol in sequence:
            result.append([list(part) for part in known])
            known[-1].append(symbol)
    return result


def moves(path: Path, sequences: Sequences, rule: Rule, key: Key) -> tuple[list[Move], int, Row]:
    """All steps, and then the state and the row where the key's sequence is."""
    if len(path) != len(flat(sequences)):
        raise ValueError(f"path={path!r}: expected one state for every symbol")
    made: list[Move] = []
    stands: dict[Key, tuple[int, Row]] = {}

    def position(key: Key) -> tuple[int, Row]:
        state, row = stands.get(key, (START, START))
        entered = [move.step for move in made if move.state == state]
        is_gone = rule.is_gone(rule.worth(entered, len(made) + 1))
        return (START, START) if is_gone else (state, row)

    for event in events_of(sequences):
        if isinstance(event, End):
            stands.pop(event.key, None)
            continue
        state = path[len(made)]
        made.append(Move(len(made) + 1, position(event.key)[1], state, event.symbol))
        stands[event.key] = state, state if rule.machine == "moore" else (state, event.symbol)
    return made, *position(key)


def openings(rule: Rule, steps: Sequence[int]) -> list[int]:
    """Of the steps that made one transition, those that found it absent, including the first."""
    opened: list[int] = []
    for step in steps:
        earlier = [s for s in steps if opened and opened[-1] <= s < step]
        if not earlier or rule.is_gone(rule.worth(earlier, step)):
            opened.append(step)
    return opened


def entry(rule: Rule, steps: Sequence[int], now: int) -> Number:
    """The count of one transition, made at these steps; 0 if it has faded away."""
    steps = [step for step in steps if step < now]
    if not steps:
        return 0
    opened = openings(rule, steps)[-1]
    count = rule.worth([step for step in steps if step >= opened], now)
    return 0 if rule.is_gone(count) else count


def tally(path: Path, sequences: Sequences, rule: Rule = PLAIN, key: Key = None) -> Tally:
    """Count a path that has one state for every symbol, at the position of a key."""
    made, current, row = moves(path, sequences, rule, key)
    now = len(made) + 1
    labels = sorted(set(path))
    entered = {c: rule.worth([m.step for m in made if m.state == c], now) for c in labels}
    into = {c: count for c, count in entered.items() if not rule.is_gone(count)}
    steps: dict[tuple[Row, int], list[int]] = {}
    for move in made:
        steps.setdefault((move.row, move.state), []).append(move.step)
    recounted = now - now % RECOUNTED if rule.forgets else 0
    rows_into = dict.fromkeys(into, 0)
    for (_, state), when in steps.items():
        if state in into:
            rows_into[state] += entry(rule, when, recounted) > 0
            rows_into[state] += sum(step >= recounted for step in openings(rule, when))
    return Tally(
        transitions=Counter({key: entry(rule, when, now) for key, when in steps.items()}),
        emissions=Counter(
            {
                (c, y): rule.worth([m.step for m in made if (m.state, m.symbol) == (c, y)], now)
                for c in into
                for y in {m.symbol for m in made if m.symbol is not None}
            }
        ),
        observed={
            c: [
                (rule.weight(m.step, now), m.symbol)
                for m in made
                if m.state == c and m.symbol is not None
            ]
            for c in into
        },
        into=into,
        rows_into=rows_into,
        n_states=len(labels),
        current=current,
        row=row,
    )


def transition_probabilities(rule: Rule, counts: Tally) -> list[Number]:
    """Probability of every label so far and, unless max_states forbids it, of the new state."""
    existing, into = list(counts.into), counts.into
    sticky = {counts.current: rule.kappa}
    t = {c: counts.transitions[counts.row, c] + sticky.get(c, 0) for c in existing}
    t_j = total(t.values())
    ask_oracle = rule.alpha / (t_j + rule.alpha)

    if rule.oracle == "unvisited":
        pool = total(into[c] for c in existing if t[c] == 0)
        old = {
            c: t[c] / (t_j + rule.alpha) if t[c] > 0 else ask_oracle * into[c] / (pool + rule.gamma)
            for c in existing
        }
    elif rule.oracle in ("any", "rows"):
        known = into if rule.oracle == "any" else counts.rows_into
        pool = total(known.values())
        old = {
            c: (t[c] + rule.alpha * known[c] / (pool + rule.gamma)) / (t_j + rule.alpha)
            for c in existing
        }
    else:
        raise ValueError(f"oracle={rule.oracle!r}: expected 'unvisited', 'any' or 'rows'")

    by_label = [old.get(c, 0) for c in range(counts.n_states)]
    if rule.max_states is not None and len(existing) >= rule.max_states:
        offered = total(by_label)
        return [probability / offered for probability in by_label]
    return [*by_label, ask_oracle * rule.gamma / (pool + rule.gamma)]


def emission_probability(
    rule: Rule, counts: Tally, state: int, symbol: Symbol, seen: Sequence[Symbol] = ()
) -> Number:
    """Probability of the symbol in an existing state or in the new one; `seen` came before it."""
    if symbol is None:
        return 1
    if hasattr(rule.emission, "density"):
        return rule.emission.density(counts.observed.get(state, []), symbol, seen)
    if rule.emission is not None:
        prior = rule.emission.concentration
        base = rule.emission.base(seen, symbol)
        observed = total(n for (c, _), n in counts.emissions.items() if c == state)
        return (counts.emissions[state, symbol] + prior * base) / (observed + prior)
    e = [counts.emissions[state, y] for y in range(rule.n_symbols)]
    return (e[symbol] + rule.beta) / (total(e) + rule.n_symbols * rule.beta)


def potentials(
    rule: Rule, counts: Tally, symbol: Symbol, seen: Sequence[Symbol] = ()
) -> list[Number]:
    """Joint probability of the symbol and of each label; 0 for a state that is not offered."""
    return [
        probability * emission_probability(rule, counts, state, symbol, seen)
        for state, probability in enumerate(transition_probabilities(rule, counts))
    ]


def total(values: Iterable[Number]) -> Number:
    """Sum without rounding on the way."""
    values = list(values)
    if any(isinstance(value, float) for value in values):
        return math.fsum(values)
    return sum(values)


def histories(rule: Rule, sequences: Sequences) -> dict[Path, Number]:
    """Every history, with its joint probability with the symbols."""
    result: dict[Path, Number] = {(): 1}
    events = events_of(sequences)
    for i, event in enumerate(events):
        if isinstance(event, Seen):
            known = flat(events[:i])
            result = {
                (*path, state): probability * potential
                for path, probability in result.items()
                for state, potential in enumerate(
                    potentials(rule, tally(path, events[:i], rule, event.key), event.symbol, known)
                )
                if potential > 0
            }
    return result


def evidence(rule: Rule, sequences: Sequences) -> Number:
    """Marginal likelihood of the symbols."""
    return total(histories(rule, sequences).values())


def log_evidence(rule: Rule, sequences: Sequences) -> float:
    """Log of the marginal likelihood."""
    return math.log(evidence(rule, sequences))


def predictive(rule: Rule, sequences: Sequences, key: Key = None) -> list[Number]:
    """Distribution of the next symbol of a key: a ratio of evidences for each symbol."""
    events = events_of(sequences)
    seen = evidence(rule, events)
    n_symbols = rule.n_symbols
    if rule.emission is not None:  # those seen, and one that was not
        n_symbols = 1 + len({y for y in flat(events) if y is not None})
    return [evidence(rule, [*events, Seen(y, key)]) / seen for y in range(n_symbols)]
