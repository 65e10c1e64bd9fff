"""Frozen filters with real counts, Mealy rows, the oracle of rows and stickiness.

They are compared with a plain twin: forward filtering in each particle of the reference, which
gives the probabilities of every row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import mdvpf
from mdvpf.filter import FrozenFilter
from mdvpf.reference import ReferenceFilter
from mdvpf.reference.particle import (
    START,
    Particle,
    emission_probability,
    transition_probabilities,
)
from tests.algorithms import EVERY_ALGORITHM
from tests.extended_models import EXTENSIONS
from tests.kernel.inspecting import BREAK, Event, feed
from tests.kernel.sealing import loaded, saved, sealed, unsealed

V = 3
PAST: list[Event] = [0, 1, 2, 0, 1, 2, None, 1, 2, BREAK, 2, 2, 0, 1, None, 2, 0, BREAK, 0, 1, 1]
TEST: list[int | None] = [0, 1, 2, None, 0, 2, 2, 1, None, None, 1]
TEST_LENGTHS = [3, 6, 2]
MODELS = EXTENSIONS | {
    "paper": {},
    "rows, sticky, forget 2": {"oracle": "rows", "kappa": 0.5, "forget": 2.0},
    "mealy, rows": {"machine": "mealy", "oracle": "rows"},
    "mealy, forget 1": {"machine": "mealy", "forget": 1.0},
    "mealy, all gone at once": {"machine": "mealy", "half_life": 0.09},
}
MEALY = [name for name, settings in MODELS.items() if settings.get("machine") == "mealy"]

Distribution = dict[int, float]  # by label


def make_model(name: str, **more: Any) -> mdvpf.InfiniteHMM:
    return mdvpf.InfiniteHMM(V, **{"alpha": 0.7, "gamma": 1.3, "beta": 0.2} | MODELS[name] | more)


def filters(
    name: str, past: Sequence[Event] = PAST, algorithm: str = "MD-VPA", **more: Any
) -> tuple[mdvpf.ParticleFilter, ReferenceFilter]:
    """Return a filter and the reference, with the same rounding, after the same stream."""
    model, how = make_model(name, **more), EVERY_ALGORITHM[algorithm]
    pf = mdvpf.ParticleFilter(model, how, n_particles=10, rng=3)
    slow = ReferenceFilter(model, how, n_particles=10, rng=3, rounding=bool(MODELS[name]))
    feed(pf, past)
    feed(slow, past)
    return pf, slow


def tolerance(pf: mdvpf.ParticleFilter) -> float:
    return 1e-5 if pf.model.fades else 1e-9


# ---- the twin --------------------------------------------------------------------------------


class Twin:
    """A particle that no longer learns: its states are filtered forward."""

    def __init__(self, model: mdvpf.InfiniteHMM, particle: Particle) -> None:
        self.model = model
        self.particle = particle
        self.weight = particle.weight
        self.ahead = self.row(particle.state, particle.symbol)

    def row(self, state: int, symbol: int | None) -> Distribution:
        """Return the row of a state that emitted a symbol, without the new state."""
        there = replace(self.particle, state=state, symbol=symbol)
        found = transition_probabilities(self.model, there)
        kept = {c: found[c] for c in sorted(self.particle.into)}
        return {c: p / sum(kept.values()) for c, p in kept.items()}

    def emission(self, state: int, symbol: int | None) -> float:
        every = [emission_probability(self.model, self.particle, state, y) for y in range(V)]
        return 1.0 if symbol is None else every[symbol] / sum(every)

    def begin(self, weight: float) -> None:
        self.weight = weight
        self.ahead = self.row(START, None)

    def probability(self, symbol: int | None) -> float:
        if not self.ahead:  # no state is left
            return 1.0 if symbol is None else 1.0 / V
        return sum(p * self.emission(c, symbol) for c, p in self.ahead.items())

    def follow(self, symbol: int | None) -> None:
        before, total = self.ahead, self.probability(symbol)
        self.ahead = dict.fromkeys(before, 0.0)
        for c, p in before.items():
            for d, q in self.row(c, symbol).items():
                self.ahead[d] += p * self.emission(c, symbol) / total * q


def twin_scores(
    model: mdvpf.InfiniteHMM,
    particles: Sequence[Particle],
    symbols: Sequence[int | None],
    new: bool,
) -> list[float]:
    """Return the log predictives of one sequence, under the particles mixed by Bayes' rule."""
    twins = [Twin(model, particle) for particle in particles]
    found = []
    if new:
        for twin, particle in zip(twins, particles, strict=True):
            twin.begin(particle.weight)
    total = sum(twin.weight for twin in twins)
    for symbol in symbols:
        for twin in twins:
            probability = twin.probability(symbol)
            twin.follow(symbol)
            twin.weight *= probability
        joint = sum(twin.weight for twin in twins)
        found.append(math.log(joint / total))
        total = joint
    return found


# ---- frozen ----------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [[], [None], [BREAK]], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_a_frozen_filter_is_its_particles_filtered_forward(name: str, end: list[Event]) -> None:
    pf, slow = filters(name, [*PAST, *end])
    frozen = pf.freeze()
    here = twin_scores(pf.model, slow.particles, TEST, new=False)
    np.testing.assert_allclose(frozen.score(TEST), here, rtol=0.0, atol=tolerance(pf))
    ends = np.cumsum(TEST_LENGTHS)
    expected: list[float] = []
    for first, last in zip(ends - TEST_LENGTHS, ends, strict=True):
        expected += twin_scores(pf.model, slow.particles, TEST[first:last], new=True)
    found = frozen.score(TEST, TEST_LENGTHS)
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=tolerance(pf))


@pytest.mark.parametrize("algorithm", ["VPA", "SMC", "ParticleLearning", "OptimalResampling"])
@pytest.mark.parametrize("name", ["rows, sticky, forget 2", "mealy, rows, sticky, half-life 4"])
def test_the_visible_set_of_every_algorithm_is_frozen(name: str, algorithm: str) -> None:
    pf, slow = filters(name, algorithm=algorithm)
    expected = twin_scores(pf.model, slow.particles, TEST, new=False)
    np.testing.assert_allclose(pf.freeze().score(TEST), expected, rtol=0.0, atol=tolerance(pf))


@pytest.mark.parametrize("name", ["mealy, rows", "mealy, forget 1"])
def test_the_heaviest_particles_can_be_kept_alone(name: str) -> None:
    pf, slow = filters(name)
    heaviest = sorted(slow.particles, key=lambda particle: -particle.weight)[:3]
    expected = twin_scores(pf.model, heaviest, TEST, new=False)
    frozen = pf.freeze(3)
    np.testing.assert_allclose(frozen.score(TEST), expected, rtol=0.0, atol=tolerance(pf))
    assert len(frozen.weights) == 3


def test_at_the_most_states_a_frozen_mealy_machine_predicts_as_its_filter_does() -> None:
    # The model offers no new state, so that nothing is dropped.
    pf, _ = filters("mealy, rows", [*PAST, 0, 1, 2, 2, 1] * 3, "VPA", max_states=2)
    assert set(pf.n_states.tolist()) == {2}
    np.testing.assert_allclose(pf.freeze().predict_proba(), pf.predict_proba(), rtol=1e-9)


@pytest.mark.parametrize("name", MEALY)
def test_no_symbol_is_impossible(name: str) -> None:
    pf, _ = filters(name, [0, 1, 1, 0, None, 1], beta=1e-3)
    frozen = pf.freeze()
    frozen.run([2, 0, 2, 2, 1])
    assert np.all(frozen.predict_proba() > 0.0)
    assert np.all(np.isfinite(frozen.score([2, 2, 0, 2])))


def test_a_particle_is_in_the_state_of_its_last_symbol() -> None:
    pf, _ = filters("mealy, rows", [0, 1, None, BREAK, 0, 1, 2, 1])
    core = pf._core
    assert (core.pending, core.last_symbol) == (True, 1)
    pf.update(None)
    assert core.last_symbol is None
    pf.new_sequence()
    assert (core.pending, core.last_symbol) == (False, None)
    pf.update(2)
    pf.new_sequence()
    assert core.last_symbol == 2
    assert mdvpf.ParticleFilter(pf.model)._core.last_symbol is None


def test_a_frozen_mealy_machine_is_evaluated_as_its_sequences_score() -> None:
    pf, slow = filters("mealy, forget 1", [])
    train, test = [[0, 1, 2, 0, 1], [2, 1, 0]], [[0, 1, 2], [2, None, 1, 0]]
    found = mdvpf.evaluate(pf, train, test)
    feed(slow, [BREAK, *train[0], BREAK, *train[1]])
    expected = [sum(twin_scores(pf.model, slow.particles, each, new=True)) for each in test]
    np.testing.assert_allclose(found.sequence_log_probabilities, expected, atol=1e-5)


@pytest.mark.parametrize("name", ["half-life 0.5", "rows", "mealy, rows"])
def test_states_that_were_released_take_no_room(name: str) -> None:
    pf, slow = filters(name, [], half_life=0.5)
    pf._core._release_every(4)
    rng = np.random.default_rng(0)
    past = [None if u < 0.05 else int(u * 100) % V for u in rng.random(300)]
    for predictor in (pf, slow):
        feed(predictor, past)
    n_held = [len(pf._counts(k).labels) for k in range(len(pf.weights))]
    assert sum(n_held) < pf.n_states.sum()
    assert max(n_held) < 15
    expected = twin_scores(pf.model, slow.particles, TEST, new=False)
    np.testing.assert_allclose(pf.freeze().score(TEST), expected, rtol=0.0, atol=tolerance(pf))
    for k, particle in enumerate(slow.particles):
        held, dense = pf._counts(k), pf.counts(k)
        labels = held.labels
        assert labels.tolist() == sorted(set(labels.tolist()))
        assert set(particle.into) <= set(labels.tolist())
        for found, wanted in zip(held.counts, dense, strict=True):
            assert np.count_nonzero(found) == np.count_nonzero(wanted)
        np.testing.assert_array_equal(held.counts.start, dense.start[labels])
        np.testing.assert_array_equal(held.counts.emission, dense.emission[labels])
        moves = dense.transition[labels][..., labels]
        np.testing.assert_array_equal(held.counts.transition, moves)


# ---- as HMMs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in MODELS if name not in MEALY])
def test_a_particle_becomes_the_hmm_of_its_rows(name: str) -> None:
    pf, slow = filters(name)
    assert len(pf.weights) == len(slow.particles)
    for k, particle in enumerate(slow.particles):
        hmm, twin = pf.to_hmm(k), Twin(pf.model, particle)
        labels = sorted(particle.into)
        rows = [list(twin.row(state, None).values()) for state in [START, *labels]]
        found = np.vstack([hmm.start, hmm.transition])
        np.testing.assert_allclose(found, rows, rtol=0.0, atol=tolerance(pf))
        emission = [[twin.emission(state, y) for y in range(V)] for state in labels]
        np.testing.assert_allclose(hmm.emission, emission, rtol=0.0, atol=tolerance(pf))


@pytest.mark.parametrize("name", MEALY)
def test_a_mealy_machine_becomes_the_hmm_of_the_pairs_that_occurred(name: str) -> None:
    pf, slow = filters(name)
    for k, particle in enumerate(slow.particles):
        hmm, twin = pf.to_hmm(k), Twin(pf.model, particle)
        pairs = sorted((c, y) for c, y in particle.emission if y is not None)
        if not pairs:
            assert hmm.emission.tolist() == [[pytest.approx(1 / V)] * V]
            continue
        assert hmm.emission.tolist() == [[float(y == z) for z in range(V)] for _, y in pairs]
        places: list[tuple[int, int | None]] = [(START, None), *pairs]
        rows = []
        for place in places:
            row = twin.row(*place)
            joint = [row[c] * twin.emission(c, y) for c, y in pairs]
            rows.append([p / sum(joint) for p in joint])
        found = np.vstack([hmm.start, hmm.transition])
        np.testing.assert_allclose(found, rows, rtol=0.0, atol=tolerance(pf))
        np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("name", ["mealy", "mealy, rows", "mealy, forget 1"])
def test_the_hmm_of_pairs_predicts_as_the_machine_where_pseudo_counts_are_tiny(name: str) -> None:
    pf, _ = filters(name, beta=1e-12)
    known = [0, 1, 2, 2, 0, 1, 0, 1, 1, 2]
    pairs = FrozenFilter([pf.to_hmm()], [1.0])
    machine = pf.freeze(1)
    found = pairs.score(known, [4, 6])
    assert np.all(np.isfinite(found))
    np.testing.assert_allclose(found, machine.score(known, [4, 6]), rtol=0.0, atol=1e-8)


def test_a_particle_without_symbols_predicts_all_of_them_alike() -> None:
    for past in ([], [None, None, None]):
        pf, _ = filters("mealy", past)
        hmm = pf.to_hmm()
        assert hmm.n_states == 1
        assert hmm.emission.tolist() == [[1 / V] * V]
        np.testing.assert_allclose(pf.freeze().predict_proba(), 1 / V, rtol=1e-12)


# ---- checkpoints -----------------------------------------------------------------------------


def test_a_frozen_mealy_machine_comes_back_from_a_file() -> None:
    frozen = filters("mealy, forget 1")[0].freeze()
    frozen.run([0, 2, None, 1])
    twin = loaded(saved(frozen))
    assert saved(twin) == saved(frozen)
    for predictor in (twin, frozen):
        predictor.update(1)
    assert twin.predict_proba().tobytes() == frozen.predict_proba().tobytes()
    np.testing.assert_array_equal(twin.score(TEST, TEST_LENGTHS), frozen.score(TEST, TEST_LENGTHS))


def test_a_file_of_frozen_hmms_says_nothing_of_machines() -> None:
    frozen = filters("rows, sticky, forget 2")[0].freeze()
    assert frozen._to_state().values == {}
    assert frozen._to_state().arrays["transition"].ndim == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a * 2, "a transition row is not a distribution"),
        (lambda a: np.concatenate([a[:-1], -a[-1:]]), "a transition row is not a distribution"),
        (lambda a: a * np.nan, "a transition row is not a distribution"),
        (
            lambda a: np.concatenate([a[:-1], a[-1:] * 0.5]),
            "a transition row is not a distribution",
        ),
        (lambda a: a[:-1], "transition of type"),
        (lambda a: a[0], "transition of type"),
        (lambda a: a.astype(np.int64), "transition of type"),
    ],
)
def test_damaged_tables_are_refused(change: Callable[[Any], Any], message: str) -> None:
    opened = unsealed(saved(filters("mealy, rows")[0].freeze()))
    opened.arrays["transition"] = np.ascontiguousarray(change(opened.arrays["transition"]))
    with pytest.raises(mdvpf.CheckpointError, match=message):
        loaded(sealed(opened))


@pytest.mark.parametrize("values", [{"machine": "moore"}, {"machine": 1}, {"kind": "mealy"}, {}])
def test_a_file_that_names_another_machine_is_refused(values: dict[str, Any]) -> None:
    frozen = filters("mealy, rows")[0].freeze()
    state = frozen._to_state()
    state.values.clear()
    state.values.update(values)
    with pytest.raises(mdvpf.CheckpointError, match=r"unknown values|transition of type"):
        FrozenFilter._from_state(state, {})
