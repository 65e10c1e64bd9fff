"""Frozen filters over numbers: finite HMMs whose states emit by densities."""

from __future__ import annotations

import io
import itertools
import math
import pickle
from typing import Any

import numpy as np
import pytest

import mdvpf
from mdvpf.filter.frozen_numbers import FrozenNumbers
from mdvpf.filter.predictive import Predictive
from mdvpf.model import read_observation, split_observations
from tests.kernel.sealing import saved, sealed, unsealed
from tests.number_families import CLOSED, CLOSED_BUILT_IN, STREAMS
from tests.unit.test_compiled_emission import poisson

ALGORITHMS: list[Any] = [mdvpf.MDVPA(), mdvpf.SMC(), mdvpf.OptimalResampling()]


def learnt(stream: str, algorithm: Any = None, **settings: Any) -> mdvpf.ParticleFilter:
    family, observations = STREAMS[stream]
    model = mdvpf.InfiniteHMM(emission=family, **settings)
    pf = mdvpf.ParticleFilter(model, algorithm or mdvpf.MDVPA(), n_particles=4, rng=0)
    for observation in observations * 3:
        pf.update(observation)
    return pf


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("stream", CLOSED)
def test_the_evidence_is_the_sum_over_all_paths_of_all_particles(
    stream: str, algorithm: Any
) -> None:
    family, observations = STREAMS[stream]
    pf = learnt(stream, algorithm, kappa=0.5)
    frozen: Any = pf.freeze()
    frozen.new_sequence()
    row_of = [read_observation(family, each) for each in observations[:4]]
    total, first = 0.0, 0
    for k, size in enumerate(frozen._sizes.tolist()):
        statistics = frozen._statistics[first : first + size]
        first += size
        start, moves = frozen._start[k], frozen._transition[k]
        for path in itertools.product(range(size), repeat=4):
            p = math.exp(frozen._log_weight[k]) * start[path[0]]
            for before, after in itertools.pairwise(path):
                p *= moves[before, after]
            for state, row in zip(path, row_of, strict=True):
                one = Predictive(family, np.ones(1), statistics[state : state + 1])
                p *= math.exp(float(one.logpdf(row if len(row) > 1 else row[0])))
            total += p
    found = sum(frozen.update(each).log_predictive for each in observations[:4])
    assert found == pytest.approx(math.log(total), rel=0, abs=1e-9)


@pytest.mark.parametrize("stream", CLOSED)
def test_states_have_the_statistics_of_the_particles(stream: str) -> None:
    pf = learnt(stream)
    heaviest = int(pf.weights.argmax())
    frozen: Any = pf.freeze(n_particles=1)
    counts = pf._counts(heaviest)
    labels = counts.labels[counts.into > 0.0]
    np.testing.assert_array_equal(
        frozen._statistics, pf._label_statistics(heaviest, int(pf.n_states[heaviest]))[labels]
    )


@pytest.mark.parametrize("stream", CLOSED)
def test_each_step_has_the_density_that_was_predicted_and_runs_agree(stream: str) -> None:
    family, observations = STREAMS[stream]
    frozen: Any = learnt(stream).freeze()
    twin = frozen.copy()
    keys = [i % 2 for i in range(len(observations))]
    rows = np.array([read_observation(family, each) for each in observations])
    result = twin.run(split_observations(family, rows), keys=keys)
    for observation, row, key, log in zip(
        observations, rows, keys, result.log_predictive, strict=True
    ):
        expected = frozen.predictive(key).logpdf(row if len(row) > 1 else row[0])
        step = frozen.update(observation, key)
        assert step.log_predictive == pytest.approx(float(expected), rel=0, abs=1e-9)
        assert step.log_predictive == pytest.approx(log, rel=0, abs=1e-9)


def test_it_does_not_learn_and_an_outlier_does_not_break_it() -> None:
    frozen: Any = learnt("gaussian").freeze()
    frozen.new_sequence()
    before = frozen.copy().run([0.1, 5.0]).log_predictive
    assert np.isfinite(frozen.run([1e100, -1e139, 0.1] * 30).log_predictive).all()
    frozen.new_sequence()
    np.testing.assert_array_equal(frozen.run([0.1, 5.0]).log_predictive, before)


def test_a_filter_that_has_seen_nothing_predicts_by_its_prior() -> None:
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=mdvpf.Gaussian()), n_particles=4)
    expected = pf.predictive().logpdf(0.7)
    assert pf.freeze().update(0.7).log_predictive == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize("stream", CLOSED_BUILT_IN)
def test_files_pickles_and_copies_go_on_to_the_bit(stream: str) -> None:
    observations = STREAMS[stream][1]
    frozen: Any = learnt(stream).freeze()
    for i, observation in enumerate(observations):
        frozen.update(observation, ["a", None][i % 2])
    twins = [
        frozen.copy(),
        pickle.loads(pickle.dumps(frozen)),
        mdvpf.Predictor.load(io.BytesIO(saved(frozen))),
    ]
    for observation in observations:
        expected = frozen.update(observation, "a")
        assert all(twin.update(observation, "a") == expected for twin in twins)
    for twin in twins:
        assert saved(twin) == saved(frozen)


def test_a_family_of_the_user_is_given_to_load() -> None:
    family = poisson()
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=family), n_particles=3)
    pf.run([3.0, 9.0, 2.0, 8.0])
    frozen: Any = pf.freeze()
    twin: Any = mdvpf.Predictor.load(io.BytesIO(saved(frozen)), emission=family)
    assert twin.update(3.0) == frozen.update(3.0)
    with pytest.raises(mdvpf.CheckpointError, match="emission"):
        mdvpf.Predictor.load(io.BytesIO(saved(frozen)))


@pytest.mark.parametrize("name", ["statistics", "start", "transition", "sizes", "log_weight"])
@pytest.mark.parametrize("value", [-7.0, 1e308])
def test_damaged_tables_are_refused(name: str, value: float) -> None:
    opened = unsealed(saved(learnt("gaussian").freeze()))
    opened.arrays[name] = opened.arrays[name].copy()
    opened.arrays[name].flat[0] = value if opened.arrays[name].dtype.kind == "f" else 99
    with pytest.raises(mdvpf.CheckpointError):
        mdvpf.Predictor.load(io.BytesIO(sealed(opened)))


def test_a_frozen_mixture_mixes_the_frozen_members() -> None:
    first, second = learnt("gaussian"), learnt("gaussian", alpha=5.0)
    mixture = mdvpf.Mixture([first, second])
    frozen: Any = mixture.freeze()
    alone: list[Any] = [first.freeze(), second.freeze()]
    y = [0.1, 5.0, None, 4.9]
    evidence = [sum(each.update(v).log_predictive for v in y) for each in alone]
    found = 0.0
    for observation in y:
        expected = frozen.predictive().logpdf(math.nan if observation is None else observation)
        step = frozen.update(observation)
        assert step.log_predictive == pytest.approx(float(expected), rel=0, abs=1e-9)
        found += step.log_predictive
    exact = np.logaddexp(*evidence) - math.log(2.0)
    assert found == pytest.approx(exact, rel=0, abs=1e-9)
    twin: Any = mdvpf.Predictor.load(io.BytesIO(saved(frozen)))
    assert twin.update(0.3) == frozen.update(0.3)
    assert isinstance(frozen.members[0], FrozenNumbers)


def test_what_only_symbols_have_is_refused() -> None:
    frozen: Any = learnt("gaussian").freeze()
    mixture: Any = mdvpf.Mixture([learnt("gaussian")]).freeze()
    for each in (frozen, mixture):
        with pytest.raises(TypeError, match="numbers, not symbols"):
            each.predict_proba()
    with pytest.raises(TypeError, match="symbol='x'"):
        frozen.update("x")
    with pytest.raises(TypeError, match="expected predict_proba"):
        mdvpf.Mixture([mdvpf.Markov(2)]).freeze().predictive()


# --- Open alphabets, which no longer grow


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("stream", ["open product", "everything"])
def test_an_open_alphabet_is_frozen_with_its_outcomes(stream: str, algorithm: Any) -> None:
    """With one state, the frozen filter predicts what the filter does."""
    pf = learnt(stream, algorithm, max_states=1)
    frozen = pf.freeze()
    expected = pf.predictive()
    for observation in STREAMS[stream][1]:
        if observation is not None:
            row = read_observation(frozen._family, observation)
            found = frozen.predictive().logpdf(row)
            assert found == pytest.approx(expected.logpdf(row), rel=0, abs=1e-12)
    channel, n_seen = pf._open_channels[0], pf._n_seen[0]
    outcomes, same = (
        each.marginal(channel).pmf(range(n_seen + 1)) for each in (frozen.predictive(), expected)
    )
    assert outcomes == pytest.approx(same, rel=0, abs=1e-12)  # the last one is a new symbol
    assert outcomes.sum() == pytest.approx(1.0, abs=1e-12)


def test_a_frozen_open_alphabet_has_one_new_symbol() -> None:
    pf = learnt("open product")
    frozen = pf.freeze()
    before = frozen.copy()
    for symbol in (3, 3, 0):
        frozen.update((symbol, 0.1, None))
    with pytest.raises(ValueError, match="=4: expected"):
        frozen.update((4, 0.1, None))
    file = io.BytesIO(saved(frozen))
    loaded = FrozenNumbers.load(file)
    assert loaded.update((1, 5.0, 3)) == frozen.update((1, 5.0, 3))
    assert repr(before).count("Categorical(n_symbols=4") == 1


def test_an_empty_filter_with_an_open_alphabet_can_be_frozen() -> None:
    pf = mdvpf.ParticleFilter(
        mdvpf.InfiniteHMM(emission=mdvpf.Product(mdvpf.OpenVocabulary(), mdvpf.Poisson()))
    )
    frozen = pf.freeze()
    assert frozen.update((0, 2)).log_predictive == pytest.approx(pf.update((0, 2)).log_predictive)
