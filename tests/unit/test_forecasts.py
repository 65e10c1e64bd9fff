"""Continuations, forecasts and the likeliest symbols, against the reference.

Possible continuations are compared with a reference particle that makes the same moves, and
frequencies of drawn continuations with exact probabilities.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mdvpf
from mdvpf.filter import sampling
from mdvpf.filter.particle_statistics import (
    Entries,
    ParticleStatistics,
    particle_statistics,
    row_codes,
)
from mdvpf.filter.sampling import Continuations
from mdvpf.model import extensions
from mdvpf.reference import Memory, ReferenceFilter
from mdvpf.reference.particle import (
    Particle,
    emission_probability,
    move,
    transition_probabilities,
)
from tests.algorithms import EVERY_ALGORITHM
from tests.extended_models import EXTENSIONS
from tests.kernel.inspecting import BREAK, Event, feed
from tests.kernel.sealing import saved

V = 3
PAST: list[Event] = [0, 1, 2, None, 0, 1, BREAK, 1, 1, 2, 0, 1, None]
DEVIATIONS = 5.0  # allowed deviation of a frequency, in standard deviations
BASES: list[dict[str, Any]] = [
    {},
    {"oracle": "any"},
    {"oracle": "rows"},
    {"machine": "mealy"},
    {"kappa": 0.7},
]
MEMORIES: list[dict[str, Any]] = [{}, {"forget": 1.5}, {"half_life": 12.0}, {"half_life": 2.0}]
EVERYTHING = {"oracle": "rows", "machine": "mealy", "kappa": 0.4, "half_life": 9.0}
EVERY_MODEL = [
    *(base | memory for base, memory in itertools.product(BASES, MEMORIES)),
    EVERYTHING,
    EVERYTHING | {"max_states": 4},
    {"max_states": 3},
    {"max_states": 3, "half_life": 1.0},
    {"machine": "mealy", "half_life": 0.09},  # all states are released at once
]


def make_model(settings: dict[str, Any]) -> mdvpf.InfiniteHMM:
    return mdvpf.InfiniteHMM(V, **{"alpha": 1.5, "gamma": 2.0, "beta": 0.2} | settings)


def reference_particles(model: mdvpf.InfiniteHMM, past: Sequence[Event] = PAST) -> list[Particle]:
    pf = ReferenceFilter(model, mdvpf.VPA(), n_particles=4)
    feed(pf, past)
    return pf.particles


def statistics_of(model: mdvpf.InfiniteHMM, particle: Particle) -> ParticleStatistics:
    """Return what the sampler needs, from the dictionaries of a reference particle."""

    def code(state: int, symbol: int | None) -> int:
        last = np.array([V if symbol is None else symbol])
        return int(row_codes(model, np.array([state]), last)[0])

    def entries(found: list[tuple[int, int, float]]) -> Entries:
        columns = np.array(found, dtype=np.float64).reshape(-1, 3).T
        return Entries(columns[0].astype(np.int64), columns[1].astype(np.int64), columns[2])

    moves = [
        (code(*row) if isinstance(row, tuple) else code(row, None), state, float(times))
        for (row, state), times in particle.transition.items()
    ]
    labels = range(particle.n_states)
    return ParticleStatistics(
        state=particle.state,
        row=code(particle.state, particle.symbol),
        step=len(particle.path) + 1,
        n_states=particle.n_states,
        into=np.array([particle.into.get(c, 0) for c in labels], dtype=np.float64),
        rows_into=np.array([particle.rows_into.get(c, 0) for c in labels], dtype=np.float64),
        transition=entries(moves),
        emission=entries(
            [(c, y, float(n)) for (c, y), n in particle.emission.items() if y is not None]
        ),
    )


def predictive(model: mdvpf.InfiniteHMM, particle: Particle) -> NDArray[np.float64]:
    moves = transition_probabilities(model, particle)
    return np.array(
        [
            sum(p * emission_probability(model, particle, c, y) for c, p in enumerate(moves))
            for y in range(V)
        ]
    )


def children(model: mdvpf.InfiniteHMM, particle: Particle) -> list[tuple[float, int, Particle]]:
    """Return every next particle, with its probability and its symbol."""
    found = []
    for state, p in enumerate(transition_probabilities(model, particle)):
        for symbol in range(V):
            joint = p * emission_probability(model, particle, state, symbol)
            if joint > 0.0:
                child = move(particle, state, symbol, parent=0, log_weight=0.0)
                found.append((joint, symbol, child))
    return found


def distribution_of_pairs(
    model: mdvpf.InfiniteHMM, particles: Sequence[Particle]
) -> NDArray[np.float64]:
    """Return the probability of each pair of symbols that may come next."""
    exact = np.zeros((V, V))
    for particle in particles:
        for p, symbol, child in children(model, particle):
            exact[symbol] += particle.weight * p * predictive(model, child)
    return exact


def assert_frequencies(found: NDArray[Any], exact: NDArray[np.float64], size: int) -> None:
    """Check means of numbers in 0..1 whose expectations are known."""
    deviation = np.sqrt(exact * (1.0 - exact) / size)
    assert np.all(np.abs(found - exact) <= DEVIATIONS * deviation + 1e-12)


def frequencies(pairs: NDArray[np.int64]) -> NDArray[np.float64]:
    counts = np.zeros((V, V))
    np.add.at(counts, (pairs[:, 0], pairs[:, 1]), 1.0)
    return counts / len(pairs)


# ---- the sampler -----------------------------------------------------------------------------


@pytest.mark.parametrize("settings", EVERY_MODEL, ids=str)
def test_a_continuation_continues_as_the_reference_does(settings: dict[str, Any]) -> None:
    model = make_model(settings)
    rng = np.random.default_rng(0)
    twins = reference_particles(model)[:3]
    n_steps = 140  # past two counts of the rows
    ahead = Continuations(
        model, [statistics_of(model, twin) for twin in twins], np.arange(len(twins)), n_steps
    )
    for _ in range(n_steps):
        expected = [transition_probabilities(model, twin) for twin in twins]
        found = ahead.transition_probabilities()
        for i, probabilities in enumerate(expected):
            row = np.zeros(found.shape[1])
            row[: len(probabilities)] = probabilities
            np.testing.assert_allclose(found[i], row, rtol=1e-9, atol=1e-13)
        mean = np.mean([predictive(model, twin) for twin in twins], axis=0)
        np.testing.assert_allclose(ahead.mean_predictive(), mean, rtol=1e-9)
        states = np.array([rng.choice(len(p), p=np.array(p) / sum(p)) for p in expected])
        symbols = rng.integers(V, size=len(twins))
        ahead.move(states, symbols)
        twins = [
            move(twin, int(c), int(y), parent=0, log_weight=0.0)
            for twin, c, y in zip(twins, states, symbols, strict=True)
        ]
        assert ahead.state.tolist() == [twin.state for twin in twins]
        assert ahead.n_states.tolist() == [twin.n_states for twin in twins]


@pytest.mark.parametrize("settings", EVERY_MODEL, ids=str)
def test_pairs_are_drawn_as_often_as_they_should(settings: dict[str, Any]) -> None:
    model = make_model(settings)
    particle = reference_particles(model)[0]
    size = 20_000
    ahead = Continuations(
        model, [statistics_of(model, particle)], np.zeros(size, dtype=np.int64), 2
    )
    rng = np.random.default_rng(1)
    pairs = np.stack([ahead.draw(rng), ahead.draw(rng)], axis=1)
    exact = distribution_of_pairs(model, [particle]) / particle.weight
    assert exact.sum() == pytest.approx(1.0)
    assert_frequencies(frequencies(pairs), exact, size)


@pytest.mark.parametrize("oracle", ["unvisited", "any", "rows"])
def test_a_faded_entry_restarts_from_zero(oracle: str) -> None:
    model = make_model({"oracle": oracle, "half_life": 1.0})
    particle = Particle(memory=Memory.of(model))
    for state in (0, 0, 0, 1, 2):
        particle = move(particle, state, 0, parent=0, log_weight=0.0)
    path = [*(0, 1, 2) * 5, 0, 0, 0, 1]  # the entry from 0 to 0 has faded when it is made again
    ahead = Continuations(model, [statistics_of(model, particle)], np.zeros(1, int), len(path))
    was_gone = []
    for state in path:
        was_gone.append(particle.row == 0 and (0, 0) not in particle.transition)
        expected = transition_probabilities(model, particle)
        np.testing.assert_allclose(
            ahead.transition_probabilities()[0, : len(expected)], expected, rtol=1e-12
        )
        ahead.move(np.array([state]), np.array([0]))
        particle = move(particle, state, 0, parent=0, log_weight=0.0)
    assert was_gone[-3:] == [True, False, False]
    assert particle.n_states == 3


def test_the_number_of_states_is_bounded() -> None:
    model = make_model({"max_states": 3, "gamma": 50.0, "alpha": 20.0})
    particle = reference_particles(model)[0]
    which = np.zeros(50, dtype=np.int64)
    ahead = Continuations(model, [statistics_of(model, particle)], which, 60)
    rng = np.random.default_rng(2)
    for _ in range(60):
        ahead.draw(rng)
    assert ahead.n_states.max() == 3


def test_a_continuation_may_have_many_more_states_than_its_particle() -> None:
    model = make_model({"gamma": 1e6, "alpha": 1e6})
    particle = reference_particles(model)[0]
    ahead = Continuations(model, [statistics_of(model, particle)], np.zeros(4, dtype=np.int64), 99)
    rng = np.random.default_rng(2)
    for _ in range(99):
        ahead.draw(rng)
    assert ahead.n_states.min() > 90
    assert ahead.mean_predictive().sum() == pytest.approx(1.0, abs=1e-12)


def test_extreme_pseudo_counts_draw_symbols_of_the_alphabet() -> None:
    for beta in (1e-60, 1e60):
        pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(V, beta=beta), n_particles=5)
        pf.run([0, 1, 1, 0])
        found = pf.sample(30, size=20, rng=0)
        assert found.min() >= 0
        assert found.max() < V


def test_particles_of_different_steps_are_refused() -> None:
    model = make_model({})
    particles = [
        statistics_of(model, reference_particles(model, past)[0]) for past in ([0], [0, 1])
    ]
    with pytest.raises(ValueError, match="same step"):
        Continuations(model, particles, np.array([0, 1]), 1)


# ---- of a filter -----------------------------------------------------------------------------


def filters(name: str, **settings: Any) -> tuple[mdvpf.ParticleFilter, ReferenceFilter]:
    """Return a filter and the reference, after the same stream."""
    model = make_model(settings)
    pf = mdvpf.ParticleFilter(model, EVERY_ALGORITHM[name], n_particles=12, rng=7)
    is_rounded = bool(extensions(model))  # as in the core
    slow = ReferenceFilter(model, EVERY_ALGORITHM[name], n_particles=12, rng=7, rounding=is_rounded)
    feed(pf, PAST)
    feed(slow, PAST)
    return pf, slow


@pytest.mark.parametrize("name", EVERY_ALGORITHM)
def test_samples_have_the_distribution_of_the_shown_particles(name: str) -> None:
    pf, slow = filters(name)
    exact = distribution_of_pairs(pf.model, slow.particles)
    size = 20_000
    assert_frequencies(frequencies(pf.sample(2, size=size, rng=3)), exact, size)


@pytest.mark.parametrize("settings", EXTENSIONS.values(), ids=EXTENSIONS)
@pytest.mark.parametrize("name", ["MD-VPA", "VPA", "SMC"])
def test_samples_of_every_model_have_the_distribution_of_its_particles(
    name: str, settings: dict[str, Any]
) -> None:
    pf, slow = filters(name, **settings)
    exact = distribution_of_pairs(pf.model, slow.particles)
    size = 20_000
    assert_frequencies(frequencies(pf.sample(2, size=size, rng=3)), exact, size)


@pytest.mark.parametrize("settings", EVERY_MODEL, ids=str)
def test_the_statistics_of_a_particle_are_those_of_the_reference(settings: dict[str, Any]) -> None:
    pf, slow = filters("MD-VPA", **settings)
    for k, particle in enumerate(slow.particles):
        found, wanted = particle_statistics(pf, k), statistics_of(pf.model, particle)
        labels = pf._counts(k).labels
        assert set(labels.tolist()) >= set(particle.into)
        assert (found.step, found.n_states) == (wanted.step, len(labels))
        assert (labels[found.state] if found.state >= 0 else -1) == wanted.state
        np.testing.assert_allclose(found.into, wanted.into[labels] / particle.unit, rtol=1e-6)
        if pf.model.oracle == "rows":
            np.testing.assert_array_equal(found.rows_into, wanted.rows_into[labels])
        row = {v: n for p, v, n in zip(*wanted.transition, strict=True) if p == wanted.row}
        seen = {
            labels[v]: n * particle.unit
            for p, v, n in zip(*found.transition, strict=True)
            if p == found.row
        }
        assert seen == pytest.approx(row, rel=1e-6)


@pytest.mark.parametrize(
    "settings",
    [{}, {"oracle": "any"}, {"max_states": 2}, {"half_life": 12.0}, EVERYTHING],
    ids=str,
)
@pytest.mark.parametrize("name", ["MD-VPA", "SMC"])
def test_a_forecast_averages_over_all_that_may_come(name: str, settings: dict[str, Any]) -> None:
    pf, slow = filters(name, **settings)
    second, third = np.zeros(V), np.zeros(V)
    for particle in slow.particles:
        for p, _, child in children(pf.model, particle):
            second += particle.weight * p * predictive(pf.model, child)
            for q, _, grandchild in children(pf.model, child):
                third += particle.weight * p * q * predictive(pf.model, grandchild)
    size = 20_000
    found = pf.forecast(3, size=size, rng=4)
    assert found[0].tobytes() == pf.predict_proba().tobytes()
    assert_frequencies(found[1], second, size)
    assert_frequencies(found[2], third, size)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=0.0, atol=1e-12)


def test_a_forecast_of_one_symbol_is_the_prediction() -> None:
    pf, _ = filters("MD-VPA")
    assert pf.forecast(1, rng=0).tolist() == [pf.predict_proba().tolist()]


def test_an_empty_filter_continues_too() -> None:
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(V), n_particles=10)
    assert pf.sample(4, size=3, rng=0).shape == (3, 4)
    np.testing.assert_allclose(pf.forecast(3, size=5, rng=0).sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize("name", EVERY_ALGORITHM)
def test_the_filter_and_its_generator_are_left_alone(name: str) -> None:
    pf, _ = filters(name)
    before = saved(pf), pf._core.state_text()
    pf.sample(5, size=9)
    pf.forecast(5, size=9, rng=1)
    pf.top()
    assert (saved(pf), pf._core.state_text()) == before
    pf.sample(1, rng=pf.rng)
    assert saved(pf) != before[0]


def test_seeds_make_samples_and_forecasts_again() -> None:
    pf, _ = filters("MD-VPA")
    first = pf.sample(6, size=40, rng=5)
    assert first.dtype == np.int64
    assert first.shape == (40, 6)
    assert first.tolist() == pf.copy().sample(6, size=40, rng=np.random.default_rng(5)).tolist()
    assert first.tolist() != pf.sample(6, size=40, rng=6).tolist()
    assert pf.sample(6, size=40).tolist() != pf.sample(6, size=40).tolist()
    assert pf.forecast(4, rng=5).tolist() == pf.forecast(4, rng=5).tolist()


def test_continuations_come_in_an_order_that_says_nothing() -> None:
    pf, _ = filters("VPA")
    half = 10_000
    pairs = pf.sample(2, size=2 * half, rng=8)
    exact = frequencies(pairs)
    assert_frequencies(frequencies(pairs[:half]), exact, half)


def test_many_continuations_are_drawn_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    pf, slow = filters("MD-VPA")
    exact = distribution_of_pairs(pf.model, slow.particles)
    monkeypatch.setattr(sampling, "_BATCH_SIZE", 3_000)
    assert_frequencies(frequencies(pf.sample(2, size=10_000, rng=3)), exact, 10_000)
    np.testing.assert_allclose(pf.forecast(3, size=999, rng=3).sum(axis=1), 1.0, atol=1e-12)
    monkeypatch.setattr(sampling, "_BATCH_SIZE", 1)  # one at a time
    assert pf.sample(3, size=20, rng=0).shape == (20, 3)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda pf: pf.sample(0), ValueError, "length=0: expected an integer"),
        (lambda pf: pf.sample(2.0), TypeError, r"length=2\.0"),
        (lambda pf: pf.sample(2, size=0), ValueError, "size=0"),
        (lambda pf: pf.sample(2, size=True), TypeError, "size=True"),
        (lambda pf: pf.sample(2, rng="x"), TypeError, "rng='x'"),
        (lambda pf: pf.sample(2, rng=-1), ValueError, "rng=-1"),
        (lambda pf: pf.forecast(0), ValueError, "horizon=0"),
        (lambda pf: pf.forecast(None), TypeError, "horizon=None"),
        (lambda pf: pf.forecast(2, size=-3), ValueError, "size=-3"),
        (lambda pf: pf.forecast(2, rng=True), TypeError, "rng=True"),
        (lambda pf: pf.top(0), ValueError, "n=0"),
        (lambda pf: pf.top("3"), TypeError, "n='3'"),
    ],
)
def test_bad_input_is_refused(call: Any, error: type[Exception], message: str) -> None:
    pf, _ = filters("SMC")
    before = saved(pf)
    with pytest.raises(error, match=message):
        call(pf)
    assert saved(pf) == before


# ---- the likeliest ---------------------------------------------------------------------------


def test_top_is_the_beginning_of_all_symbols_in_order() -> None:
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(50), n_particles=30)
    pf.run(np.random.default_rng(0).integers(20, size=200))
    probabilities = pf.predict_proba()
    in_order = sorted(range(50), key=lambda symbol: (-probabilities[symbol], symbol))
    for n in (1, 2, 3, 19, 21, 49, 50, 51, 1000):
        found = pf.top(n)
        assert [symbol for symbol, _ in found] == in_order[:n]
        assert [p for _, p in found] == probabilities[in_order[:n]].tolist()
        assert all(type(symbol) is int and type(p) is float for symbol, p in found)
    assert pf.top() == pf.top(3)


def test_of_symbols_that_are_equally_likely_the_smaller_comes_first() -> None:
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(4), n_particles=3)
    assert pf.top(2) == [(0, 0.25), (1, 0.25)]
    pf.update(2)
    (likeliest, _), *others = pf.top(3)
    assert likeliest == 2
    assert [symbol for symbol, _ in others] == [0, 1]
