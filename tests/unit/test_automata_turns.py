"""Automata that take turns: what is drawn, in which order, and who the generator is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mdvpf
from mdvpf import datasets


def test_a_symbol_determines_the_next_state_of_a_random_automaton() -> None:
    n_states, n_symbols = 5, 4
    hmm = datasets.random_automaton(n_states, n_symbols, rng=3)
    assert (hmm.n_states, hmm.n_symbols) == (n_states * n_symbols, n_symbols)
    emitted = hmm.emission.argmax(axis=1)
    np.testing.assert_array_equal(hmm.emission, np.eye(n_symbols)[emitted])
    for row in hmm.transition:  # one automaton state, with each of its symbols
        following = np.flatnonzero(row)
        assert sorted(emitted[following]) == list(range(n_symbols))
        assert len(set(following // n_symbols)) == 1
    assert len(np.unique(hmm.transition, axis=0)) <= n_states


def test_emission_says_how_certain_the_next_symbol_is() -> None:
    certain = datasets.random_automaton(6, 4, emission=0.001, rng=0)
    even = datasets.random_automaton(6, 4, emission=1000.0, rng=0)
    assert certain.transition.max(axis=1).min() > 0.9
    assert even.transition.max(axis=1).max() < 0.35


def test_sources_take_turns_and_return() -> None:
    stream = datasets.taking_turns(3, n_visits=4, length=20, n_states=2, n_symbols=5, rng=0)
    assert len(stream.symbols) == 3 * 4 * 20
    assert stream.change_points.tolist() == list(range(20, 240, 20))
    assert [stream.hmms.index(hmm) for hmm in stream.hmms] == [0, 1, 2] * 4
    assert stream.n_symbols == 5


def test_given_sources_are_used() -> None:
    zeros = datasets.HMM([1], [[1]], [[1, 0]])
    ones = datasets.HMM([1], [[1]], [[0, 1]])
    stream = datasets.taking_turns([zeros, ones], n_visits=2, length=2)
    assert stream.symbols.tolist() == [0, 0, 1, 1, 0, 0, 1, 1]


def test_the_generator_explains_every_symbol() -> None:
    stream = datasets.taking_turns(2, n_visits=3, length=200, rng=1)
    known = mdvpf.KnownHMM(stream.hmms, stream.change_points).run(stream.symbols)
    assert np.isfinite(known.log_predictive).all()
    # The states are known, so a symbol has the probability of the transition that emitted it.
    for start, hmm in zip([0, *stream.change_points.tolist()], stream.hmms, strict=True):
        states = stream.states[start : start + 200]
        expected = np.log(hmm.transition[states[:-1], states[1:]])
        # Once the first symbols have told which state it is.
        found = known.log_predictive[start + 1 : start + 200]
        np.testing.assert_allclose(found[-50:], expected[-50:], atol=1e-6)


def test_turns_follow_their_seed() -> None:
    one, same, other = (datasets.taking_turns(2, 2, 50, rng=seed) for seed in (4, 4, 5))
    np.testing.assert_array_equal(one.symbols, same.symbols)
    assert one.symbols.tolist() != other.symbols.tolist()


@pytest.mark.parametrize(
    "act, error, message",
    [
        (lambda: datasets.taking_turns(0), ValueError, "sources=0: expected an integer"),
        (lambda: datasets.taking_turns([]), ValueError, "hmms"),
        (lambda: datasets.taking_turns(n_visits=0), ValueError, "n_visits=0: expected"),
        (lambda: datasets.taking_turns(length=2.5), TypeError, "length=2.5: expected"),
        (lambda: datasets.random_automaton(0, 3), ValueError, "n_states=0: expected"),
        (lambda: datasets.random_automaton(3, 2, emission=0), ValueError, "emission=0: expected"),
    ],
)
def test_bad_arguments_are_named(
    act: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        act()
