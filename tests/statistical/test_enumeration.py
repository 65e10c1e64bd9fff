"""The enumeration that other tests trust, checked against cases computed by hand."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction as F

import pytest

from tests.enumeration import (
    Rule,
    Sequences,
    Symbol,
    evidence,
    flat,
    histories,
    lengths,
    log_evidence,
    predictive,
    prefixes,
    tally,
    transition_probabilities,
)

BELL = (1, 1, 2, 5, 15, 52, 203, 877, 4140)
ORACLES = ("unvisited", "any")


def by_hand(oracle: str, max_states: int | None = None) -> Rule:
    return Rule(
        n_symbols=2, alpha=F(2), gamma=F(3), beta=F(1, 2), oracle=oracle, max_states=max_states
    )


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("n_symbols", [1, 2, 5])
def test_first_symbol_has_probability_one_over_v(oracle: str, n_symbols: int) -> None:
    rule = Rule(n_symbols, alpha=F(7), gamma=F(1, 3), beta=F(2, 5), oracle=oracle)
    assert [evidence(rule, [[y]]) for y in range(n_symbols)] == [F(1, n_symbols)] * n_symbols


@pytest.mark.parametrize("oracle", ORACLES)
def test_two_symbols_by_hand(oracle: str) -> None:
    # From state 0, never left and entered once: back to 0 with 1/(1 + 3), new with 3/(1 + 3).
    # Symbol 0 again: (1 + 1/2)/(1 + 1) in state 0, 1/2 in the new one; symbol 1: 1/4 and 1/2.
    rule = by_hand(oracle)
    assert evidence(rule, [[0, 0]]) == F(1, 2) * (F(1, 4) * F(3, 4) + F(3, 4) * F(1, 2))
    assert evidence(rule, [[0, 0]]) == F(9, 32)
    assert evidence(rule, [[0, 1]]) == F(7, 32)
    assert predictive(rule, [[0]]) == [F(9, 16), F(7, 16)]


@pytest.mark.parametrize(
    ("oracle", "stay", "leave"), [("unvisited", F(1, 3), F(2, 3)), ("any", F(3, 5), F(2, 5))]
)
def test_three_missing_symbols_by_hand(oracle: str, stay: F, leave: F) -> None:
    # Path 0, 0: t[0,0] = 1, into[0] = 2. "unvisited": 1/(1 + 2), and the oracle knows nothing
    # else (U = 0); "any": (1 + 2 * 2/5)/3 and 2/3 * 3/5. Path 0, 1: nothing left 1, into = 1, 1.
    assert histories(by_hand(oracle), [[None] * 3]) == {
        (0, 0, 0): F(1, 4) * stay,
        (0, 0, 1): F(1, 4) * leave,
        (0, 1, 0): F(3, 4) * F(1, 5),
        (0, 1, 1): F(3, 4) * F(1, 5),
        (0, 1, 2): F(3, 4) * F(3, 5),
    }


@pytest.mark.parametrize(
    ("oracle", "same", "other"), [("unvisited", F(1, 3), F(2, 3)), ("any", F(1, 2), F(1, 2))]
)
def test_second_sequence_by_hand(oracle: str, same: F, other: F) -> None:
    # From S with t[S,0] = 1 and into[0] = 1: "unvisited" 1/3 and 2/3 (U = 0); "any"
    # (1 + 2 * 1/4)/3 and 2/3 * 3/4.
    rule = by_hand(oracle)
    assert histories(rule, [[None], [None]]) == {(0, 0): same, (0, 1): other}
    assert evidence(rule, [[0], [0]]) == F(1, 2) * (same * F(3, 4) + other * F(1, 2))
    assert predictive(rule, [[0], []]) == [same * F(3, 4) + other / 2, same / 4 + other / 2]


@pytest.mark.parametrize(
    ("oracle", "unbounded", "bounded"),
    [
        ("unvisited", [F(4, 15), F(5, 15), F(6, 15)], [F(4, 9), F(5, 9)]),
        ("any", [F(4, 18), F(8, 18), F(6, 18)], [F(1, 3), F(2, 3)]),
    ],
)
def test_bound_on_states_by_hand(oracle: str, unbounded: list[F], bounded: list[F]) -> None:
    # Path 0, 1, 0: t[0,1] = 1, into = 2, 1. "unvisited": U = 2, so 2/3 * 2/5, 1/3, 2/3 * 3/5.
    # "any": s = 3, so (0 + 2 * 2/6)/3, (1 + 2 * 1/6)/3, 2/3 * 3/6.
    counts = tally((0, 1, 0), [[0, 1, 1]])
    assert transition_probabilities(by_hand(oracle), counts) == unbounded
    assert transition_probabilities(by_hand(oracle, max_states=3), counts) == unbounded
    assert transition_probabilities(by_hand(oracle, max_states=2), counts) == bounded


@pytest.mark.parametrize("oracle", ORACLES)
def test_one_state_is_a_dirichlet_multinomial(oracle: str) -> None:
    rule = by_hand(oracle, max_states=1)
    expected = F(1, 2) * F(1, 2) / 2 * F(3, 2) / 3 * F(3, 2) / 4  # symbols 0, 1, 1, 0
    assert evidence(rule, [[0, 1, None, 1], [0]]) == expected


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("max_states", [None, 1, 2])
@pytest.mark.parametrize("shape", [(4,), (2, 2), (1, 3)])
def test_probabilities_of_all_strings_sum_to_one(
    oracle: str, max_states: int | None, shape: tuple[int, ...]
) -> None:
    rule = by_hand(oracle, max_states)
    strings = itertools.product(range(rule.n_symbols), repeat=sum(shape))
    assert sum(evidence(rule, cut(string, shape)) for string in strings) == 1


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("max_states", [None, 2])
def test_a_missing_symbol_is_the_sum_over_all_symbols(oracle: str, max_states: int | None) -> None:
    # Dirichlet-multinomial emissions are consistent, and transitions do not see symbols.
    rule = by_hand(oracle, max_states)
    for hidden in range(4):
        told: list[int] = [0, 1, 1, 0]
        missing: list[Symbol] = [*told[:hidden], None, *told[hidden + 1 :]]
        filled = [[*told[:hidden], y, *told[hidden + 1 :]] for y in range(rule.n_symbols)]
        assert evidence(rule, [missing]) == sum(evidence(rule, [string]) for string in filled)


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("n", range(len(BELL)))
def test_histories_are_counted_by_bell_numbers(oracle: str, n: int) -> None:
    paths = histories(Rule(2, oracle=oracle), [[i % 2 for i in range(n)]])
    assert len(paths) == BELL[n]
    assert all(probability > 0.0 for probability in paths.values())


@pytest.mark.parametrize(("max_states", "expected"), [(1, 1), (2, 16), (3, 41), (5, 52)])
def test_histories_of_bounded_states_are_sums_of_stirling_numbers(
    max_states: int, expected: int
) -> None:
    assert len(histories(Rule(2, max_states=max_states), [[0, 1, 1, 0, 1]])) == expected


@pytest.mark.parametrize("oracle", ORACLES)
def test_predictive_sums_to_one_and_floats_agree_with_fractions(oracle: str) -> None:
    exact = Rule(3, alpha=F(3, 4), gamma=F(5, 8), beta=F(1, 16), oracle=oracle)
    rounded = Rule(3, alpha=0.75, gamma=0.625, beta=0.0625, oracle=oracle)
    sequences: Sequences = [[0, 2, None], [1, 0]]
    assert sum(predictive(exact, sequences)) == 1
    assert predictive(rounded, sequences) == pytest.approx(
        [float(p) for p in predictive(exact, sequences)], rel=1e-14
    )
    assert log_evidence(rounded, sequences) == pytest.approx(
        math.log(evidence(exact, sequences)), abs=1e-14
    )


def test_prefixes_remember_where_sequences_began() -> None:
    sequences: Sequences = [[0, None], [1]]
    assert prefixes(sequences) == [[[]], [[0]], [[0, None], []]]
    assert (flat(sequences), lengths(sequences)) == ([0, None, 1], [2, 1])


def cut(string: tuple[int, ...], shape: tuple[int, ...]) -> list[list[int]]:
    symbols = iter(string)
    return [list(itertools.islice(symbols, n)) for n in shape]
