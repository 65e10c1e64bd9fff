"""The infinite HMM by brute force: every state history, each with its exact probability.

A history labels its states by first appearance, so n symbols have as many histories as there
are partitions of n things (Bell numbers). Nothing is updated in place: the counts of a history
are tallied anew from its path whenever they are needed, which is slow and hard to get wrong.
With hyper-parameters given as fractions every result is an exact fraction.

Symbols come as a list of sequences. Each sequence starts from S, and an empty last sequence
says that the next symbol would start from S. ``None`` is a missing symbol.
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
Sequences = Sequence[Sequence[Symbol]]
Path = tuple[int, ...]

START = -1


@dataclass(frozen=True)
class Rule:
    """The hyper-parameters, under the names that ``mdvpf.InfiniteHMM`` gives them."""

    n_symbols: int
    alpha: Number = 1.0
    gamma: Number = 1.0
    beta: Number = 0.3
    oracle: str = "unvisited"
    max_states: int | None = None


@dataclass(frozen=True)
class Tally:
    """What a path and its symbols add up to, and the state the particle stands in."""

    transitions: Counter[tuple[int, int]]
    emissions: Counter[tuple[int, int]]
    n_states: int
    current: int


def flat(sequences: Sequences) -> list[Symbol]:
    """All symbols in order, as ``run`` takes them."""
    return [symbol for sequence in sequences for symbol in sequence]


def lengths(sequences: Sequences) -> list[int]:
    """The length of every sequence, as ``run`` takes them."""
    return [len(sequence) for sequence in sequences]


def prefixes(sequences: Sequences) -> list[list[list[Symbol]]]:
    """What was known just before each symbol, the first included."""
    known: list[list[Symbol]] = []
    result = []
    for sequence in sequences:
        known.append([])
        for symbol in sequence:
            result.append([list(part) for part in known])
            known[-1].append(symbol)
    return result


def tally(path: Path, sequences: Sequences) -> Tally:
    """Count a path that has one state for every symbol of the sequences."""
    if len(path) != len(flat(sequences)):
        raise ValueError(f"path={path!r}: expected one state for every symbol")
    transitions: Counter[tuple[int, int]] = Counter()
    emissions: Counter[tuple[int, int]] = Counter()
    states = iter(path)
    current = START
    for sequence in sequences:
        current = START
        for symbol in sequence:
            state = next(states)
            transitions[current, state] += 1
            if symbol is not None:
                emissions[state, symbol] += 1
            current = state
    return Tally(transitions, emissions, max(path, default=-1) + 1, current)


def transition_probabilities(rule: Rule, counts: Tally) -> list[Number]:
    """Probability of every existing state and, unless max_states forbids it, of the new one."""
    t, j, existing = counts.transitions, counts.current, range(counts.n_states)
    t_j = sum(t[j, c] for c in existing)
    into = [sum(t[i, c] for i in (START, *existing)) for c in existing]
    ask_oracle = rule.alpha / (t_j + rule.alpha)

    if rule.oracle == "unvisited":
        pool = sum(into[c] for c in existing if t[j, c] == 0)
        old = [
            t[j, c] / (t_j + rule.alpha)
            if t[j, c] > 0
            else ask_oracle * into[c] / (pool + rule.gamma)
            for c in existing
        ]
    elif rule.oracle == "any":
        pool = sum(into)
        old = [
            (t[j, c] + rule.alpha * into[c] / (pool + rule.gamma)) / (t_j + rule.alpha)
            for c in existing
        ]
    else:
        raise ValueError(f"oracle={rule.oracle!r}: expected 'unvisited' or 'any'")

    if rule.max_states is not None and counts.n_states >= rule.max_states:
        offered = total(old)
        return [probability / offered for probability in old]
    return [*old, ask_oracle * rule.gamma / (pool + rule.gamma)]


def emission_probability(rule: Rule, counts: Tally, state: int, symbol: Symbol) -> Number:
    """Probability of the symbol in an existing state or in the new one."""
    if symbol is None:
        return 1
    e_c = sum(counts.emissions[state, y] for y in range(rule.n_symbols))
    return (counts.emissions[state, symbol] + rule.beta) / (e_c + rule.n_symbols * rule.beta)


def potentials(rule: Rule, counts: Tally, symbol: Symbol) -> list[Number]:
    """Joint probability of the symbol and of each state that may emit it."""
    return [
        probability * emission_probability(rule, counts, state, symbol)
        for state, probability in enumerate(transition_probabilities(rule, counts))
    ]


def total(values: Iterable[Number]) -> Number:
    """Sum without rounding on the way."""
    values = list(values)
    if any(isinstance(value, Fraction) for value in values):
        return sum(values)
    return math.fsum(values)


def histories(rule: Rule, sequences: Sequences) -> dict[Path, Number]:
    """Every history, with its joint probability with the symbols."""
    result: dict[Path, Number] = {(): 1}
    for known, symbol in zip(prefixes(sequences), flat(sequences), strict=True):
        result = {
            (*path, state): probability * potential
            for path, probability in result.items()
            for state, potential in enumerate(potentials(rule, tally(path, known), symbol))
        }
    return result


def evidence(rule: Rule, sequences: Sequences) -> Number:
    """Marginal likelihood of the symbols."""
    return total(histories(rule, sequences).values())


def log_evidence(rule: Rule, sequences: Sequences) -> float:
    """Log of the marginal likelihood."""
    return math.log(evidence(rule, sequences))


def predictive(rule: Rule, sequences: Sequences) -> list[Number]:
    """Distribution of the symbol after the last one: a ratio of evidences for each symbol."""
    before, last = list(sequences[:-1]), list(sequences[-1]) if sequences else []
    seen = evidence(rule, sequences)
    return [evidence(rule, [*before, [*last, y]]) / seen for y in range(rule.n_symbols)]
