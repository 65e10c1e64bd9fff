"""Filters of a `GeometricMixture` whose particles follow their influence."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

import mdvpf
from mdvpf.mixture.influence import INTERVAL, cuts, particles_for
from tests.kernel.sealing import reloaded

N = 2 * INTERVAL + 150  # symbols of a test: two choices, and part of an interval


def members() -> list[mdvpf.Predictor]:
    model = mdvpf.InfiniteHMM(3, beta=0.3)
    return [
        mdvpf.PitmanYorMixture(3, depths=[0, 1, 2]),
        mdvpf.ParticleFilter(model, mdvpf.MDVPA(), 40),
        mdvpf.ParticleFilter(model, mdvpf.MDVPA(selection="optimal"), 24, rng=1),
        mdvpf.ParticleFilter(
            mdvpf.InfiniteHMM(3, beta=0.3, half_life=50.0), mdvpf.OptimalResampling(), 32, rng=2
        ),
        mdvpf.ParticleFilter(
            mdvpf.InfiniteHMM(3, beta=0.3, forget=4.0, machine="mealy"), mdvpf.VPA(), 16
        ),
        mdvpf.ParticleFilter(model, mdvpf.SMC(), 10, rng=3),
    ]


def mixture(n_threads: int = 1, **options: Any) -> mdvpf.GeometricMixture:
    return mdvpf.GeometricMixture(
        members(), n_threads=n_threads, **{"adapt_particles": True, **options}
    )


def filters(mixture: mdvpf.GeometricMixture) -> list[mdvpf.ParticleFilter]:
    return [each for each in mixture.members if isinstance(each, mdvpf.ParticleFilter)]


def kept(mixture: mdvpf.GeometricMixture) -> list[int]:
    return [pf._kept for pf in filters(mixture)]


def symbols(n: int = N, seed: int = 0) -> NDArray[np.int64]:
    """A cycle with errors."""
    rng = np.random.default_rng(seed)
    errors = (rng.random(n) < 0.2) * rng.integers(3, size=n)
    return np.asarray((np.arange(n) // 2 + errors) % 3, dtype=np.int64)


def with_missing(n: int = N) -> list[int | None]:
    missing = np.random.default_rng(5).random(n) < 0.1
    return [
        None if gone else symbol
        for gone, symbol in zip(missing.tolist(), symbols(n).tolist(), strict=True)
    ]


# --- the rule


def test_the_numbers_follow_weights_powers_and_heads() -> None:
    learnt = mixture()
    before = kept(learnt)
    assert before == [40, 24, 32, 16, 10]
    for part in np.split(symbols(3 * INTERVAL), 3):
        learnt.run(part)
        # The last five columns are those of the filters.
        linear = learnt._mixer.export()["linear"][:, -5:]
        powers = np.abs(learnt.powers[:, -5:])
        own = np.concatenate([linear, powers]).T @ learnt.head_weights
        expected = [
            particles_for(pf.n_particles, influence, number)
            for pf, influence, number in zip(filters(learnt), own.tolist(), before, strict=True)
        ]
        expected[-1] = 10  # SMC
        assert kept(learnt) == expected
        before = expected
    assert before != [40, 24, 32, 16, 10]


def test_the_influence_of_a_member_adds_up_its_distributions() -> None:
    learnt = mdvpf.GeometricMixture(members())
    learnt.run(symbols())
    columns = learnt._mixer.export()
    n = learnt.members[0]._n_distributions
    assert n > 1
    weights, powers = columns["linear"][:, :n], np.abs(columns["powers"][:, 1 : n + 1])
    of_tree = weights.sum(axis=1), powers.sum(axis=1)
    found = learnt._influences()
    assert len(found) == 6
    assert_allclose(found[0], learnt.head_weights @ np.concatenate(of_tree), rtol=1e-12)


@pytest.mark.parametrize(
    ("influence", "before", "expected"),
    [
        (0.0, 8, 8),
        (0.0, 64, 32),  # at most one half at a time
        (0.0, 9, 8),
        (0.25, 8, 32),  # up at once
        (0.25, 64, 32),
        (0.5, 8, 64),
        (7.0, 8, 64),
    ],
)
def test_the_number_for_an_influence(influence: float, before: int, expected: int) -> None:
    assert particles_for(64, influence, before) == expected


def test_every_filter_keeps_a_particle() -> None:
    assert particles_for(1, 0.0, 1) == 1


@pytest.mark.parametrize("time", [0, 1, INTERVAL - 1, INTERVAL, 3 * INTERVAL + 7])
@pytest.mark.parametrize("n", [0, 1, INTERVAL, 3 * INTERVAL + 5])
def test_cuts_end_with_every_interval(time: int, n: int) -> None:
    parts = list(cuts(time, n))
    assert [i for part in parts for i in range(part.start, part.stop)] == list(range(n))
    for part in parts:
        inside = np.arange(time + part.start + 1, time + part.stop)
        assert len(range(part.start, part.stop)) >= 1
        assert not (inside % INTERVAL == 0).any()


def test_numbers_change_only_after_an_interval() -> None:
    learnt = mixture()
    seen = []
    for symbol in symbols().tolist():
        learnt.update(symbol)
        seen.append(kept(learnt))
    changes = [i + 1 for i in range(1, N) if seen[i] != seen[i - 1]]
    assert changes
    assert all(time % INTERVAL == 0 for time in changes)


def test_without_the_option_filters_have_all_their_particles() -> None:
    learnt = mixture(adapt_particles=False)
    learnt.run(symbols())
    assert kept(learnt) == [40, 24, 32, 16, 10]


# --- the same bits


def assert_equal(found: mdvpf.GeometricMixture, expected: mdvpf.GeometricMixture) -> None:
    assert kept(found) == kept(expected)
    assert_array_equal(found.predict_proba("a"), expected.predict_proba("a"))
    assert_array_equal(found.weights, expected.weights)
    assert_array_equal(found.powers, expected.powers)
    for pf, other in zip(filters(found), filters(expected), strict=True):
        pf._core.verify()
        assert_array_equal(pf.weights, other.weights)


@pytest.fixture(scope="module")
def stream() -> tuple[list[int | None], list[str]]:
    return with_missing(), ["ab"[i] for i in (symbols(seed=9) % 2).tolist()]


@pytest.fixture(scope="module")
def in_one_piece(stream: Any) -> mdvpf.GeometricMixture:
    expected = mixture()
    expected.run(stream[0], keys=stream[1])
    assert kept(expected) != [40, 24, 32, 16, 10]
    return expected


@pytest.mark.parametrize("size", [1, 7, 100, 255, 256, 300, 512])
def test_chunks_change_no_bit(size: int, stream: Any, in_one_piece: mdvpf.GeometricMixture) -> None:
    found = mixture()
    for start in range(0, N, size):
        found.run(stream[0][start : start + size], keys=stream[1][start : start + size])
    assert_equal(found, in_one_piece)


def test_updates_change_no_bit(stream: Any, in_one_piece: mdvpf.GeometricMixture) -> None:
    found = mixture()
    for symbol, key in zip(*stream, strict=True):
        found.update(symbol, key)
    assert_equal(found, in_one_piece)


def test_threads_change_no_bit(stream: Any, in_one_piece: mdvpf.GeometricMixture) -> None:
    found = mixture(n_threads=3)
    found.run(stream[0], keys=stream[1])
    assert_equal(found, in_one_piece)


def test_distributions_are_those_of_the_steps(stream: Any) -> None:
    """A mixture within a mixture is asked for whole distributions."""
    outer = mdvpf.GeometricMixture([mixture(), mdvpf.Markov(3)])
    outer.run(stream[0], keys=stream[1])
    inner = outer.members[0]
    assert isinstance(inner, mdvpf.GeometricMixture)
    alone = mixture()
    alone.run(stream[0], keys=stream[1])
    assert kept(inner) == kept(alone)
    assert_array_equal(inner.powers, alone.powers)


@pytest.mark.parametrize(
    "duplicate",
    [reloaded, copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))],
)
@pytest.mark.parametrize("time", [100, INTERVAL, INTERVAL + 1, 2 * INTERVAL + 44])
def test_files_and_copies_change_no_bit(
    time: int, duplicate: Any, stream: Any, in_one_piece: mdvpf.GeometricMixture
) -> None:
    first = mixture()
    first.run(stream[0][:time], keys=stream[1][:time])
    found = duplicate(first)
    assert found.adapt_particles
    assert kept(found) == kept(first)
    found.run(stream[0][time:], keys=stream[1][time:])
    assert_equal(found, in_one_piece)


def test_files_have_the_option_only_if_it_is_set() -> None:
    assert mixture()._to_state().values["adapt_particles"] is True
    state = mixture(adapt_particles=False)._to_state()
    assert "adapt_particles" not in state.values
    assert not mdvpf.GeometricMixture._from_state(state, {}).adapt_particles


@pytest.mark.parametrize("value", [1, "yes", None])
def test_the_option_is_a_flag(value: Any) -> None:
    with pytest.raises(TypeError, match="adapt_particles="):
        mixture(adapt_particles=value)
    state = mixture()._to_state()
    state.values["adapt_particles"] = value
    with pytest.raises(TypeError, match="adapt_particles="):
        mdvpf.GeometricMixture._from_state(state, {})


def test_a_frozen_mixture_has_no_filters_left() -> None:
    learnt = mixture()
    learnt.run(symbols())
    frozen = learnt.freeze()
    twin = frozen.copy()
    frozen.run(symbols())
    for part in np.array_split(symbols(), 5):
        twin.run(part)
    assert_array_equal(frozen.predict_proba(), twin.predict_proba())


# --- a filter comes back


def test_a_filter_that_begins_to_matter_gets_its_particles_back() -> None:
    """First the symbols have a short memory, as in a text; then an automaton with a long one."""
    rng = np.random.default_rng(3)
    table = rng.dirichlet(np.full(4, 0.4), size=(4, 4))
    text = [0, 1]
    for _ in range(3000):
        text.append(int(rng.choice(4, p=table[text[-2], text[-1]])))
    # A ring of 16 states, of which three have symbols of their own: a context of four is short.
    emitted = [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3]
    automaton = [emitted[i % 16] for i in np.cumsum(rng.random(5000) < 0.97).tolist()]
    found, full = (
        mdvpf.GeometricMixture(
            [
                mdvpf.PitmanYorMixture(4, range(5)),
                mdvpf.ParticleFilter(
                    mdvpf.InfiniteHMM(4, gamma=10.0, beta=0.25, forget=4.0, max_states=50),
                    mdvpf.OptimalResampling(),
                    80,
                    rng=0,
                ),
            ],
            adapt_particles=adapts,
        )
        for adapts in (True, False)
    )
    found.run(text)
    assert kept(found) == [10]
    full.run(text)
    losses = [-each.run(automaton).log_predictive[-1000:].mean() for each in (found, full)]
    assert kept(found)[0] >= 40
    assert losses[0] < losses[1] + 0.02
