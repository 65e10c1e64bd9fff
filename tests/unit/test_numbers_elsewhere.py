"""Filters over numbers in mixtures and detectors."""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np
import pytest

import mdvpf
from tests.kernel.sealing import reloaded
from tests.number_families import STREAMS


def members(stream: str = "product") -> list[Any]:
    family, _ = STREAMS[stream]
    return [
        mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=family, alpha=a), n_particles=5)
        for a in (0.5, 5.0)
    ]


@pytest.mark.parametrize("stream", STREAMS)
def test_a_mixture_has_the_predictive_that_its_steps_report(stream: str) -> None:
    family, observations = STREAMS[stream]
    mixture = mdvpf.Mixture(members(stream), share=0.05)
    for observation in observations * 2:
        row = mdvpf.model.read_observation(family, observation)
        expected = float(mixture.predictive().logpdf(row if len(row) > 1 else row[0]))
        found = mixture.update(observation).log_predictive
        assert found == pytest.approx(expected, rel=0, abs=1e-9)


def test_a_mixture_predicts_each_key() -> None:
    rng = np.random.default_rng(0)
    family = mdvpf.Gaussian(mean_strength=0.1)
    kinds = (mdvpf.VPA(), mdvpf.MDVPA())
    filters = [
        mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=family), kind, 5, rng=0) for kind in kinds
    ]
    mixture = mdvpf.Mixture([filters[0], mdvpf.Mixture(filters)])
    for i in range(60):
        key = ["b", "a", None, "a", "c"][i % 5]
        number = float(rng.normal(10.0 * (i % 2)))
        expected = float(mixture.predictive(key).logpdf(number))
        found = mixture.update(number, key).log_predictive
        assert found == pytest.approx(expected, rel=0, abs=1e-9)


def test_a_mixture_over_symbols_has_no_density() -> None:
    with pytest.raises(TypeError, match="expected predict_proba"):
        mdvpf.Mixture([mdvpf.Markov(2)]).predictive()


def test_a_mixture_of_equal_weights_is_the_mean_of_its_members() -> None:
    first, second = members("gaussian")
    mixture = mdvpf.Mixture([first, second])
    y = [0.1, 5.0, 0.0]
    expected = [first.run(y).log_predictive.sum(), second.run(y).log_predictive.sum()]
    exact = np.logaddexp(*expected) - math.log(2.0)
    assert mixture.run(y).log_evidence == pytest.approx(exact, rel=0, abs=1e-9)


def test_a_mixture_with_restarts_keys_and_a_checkpoint_goes_on() -> None:
    observations = STREAMS["product"][1]
    mixture = mdvpf.Mixture(members(), restart=mdvpf.Restart())
    for i, observation in enumerate(observations * 2):
        mixture.update(observation, "b" if i % 3 else None)
    twin: Any = reloaded(mixture)
    assert twin.update(observations[0], "b") == mixture.update(observations[0], "b")
    with pytest.raises(TypeError, match="predictive"):
        mixture.predict_proba()


def test_members_have_the_same_observations() -> None:
    (gaussian, _), (product, _) = members("gaussian"), members("product")
    chain = mdvpf.Markov(2)
    for pair in ([gaussian, product], [gaussian, chain], [chain, product]):
        with pytest.raises(ValueError, match=r"members\[1\]"):
            mdvpf.Mixture(pair)


@pytest.mark.parametrize("stream", STREAMS)
def test_a_detector_judges_the_log_densities_of_its_filter(stream: str) -> None:
    observations = STREAMS[stream][1]
    pf = members(stream)[0]
    detector = mdvpf.SurpriseDetector(pf.copy(), smoothing=2)
    expected = [-pf.update(y).log_predictive for y in observations]
    found = [detector.update(y).surprise for y in observations]
    present = [y is not None for y in observations]
    np.testing.assert_array_equal(np.array(found)[present], np.array(expected)[present])


def test_a_detector_raises_the_alarm_on_numbers_far_off() -> None:
    rng = np.random.default_rng(2)
    y = rng.normal(size=300)
    y[250] = 40.0
    model = mdvpf.InfiniteHMM(emission=mdvpf.Gaussian(shape=2.0))
    detector = mdvpf.SurpriseDetector(mdvpf.ParticleFilter(model, n_particles=20))
    result = detector.run(y)
    assert result.alarm[250]
    assert np.argmax(result.surprise) == 250
    twin = mdvpf.SurpriseDetector(mdvpf.ParticleFilter(model, n_particles=20))
    file = io.BytesIO()
    twin.run(y[:100])
    twin.save(file)
    file.seek(0)
    loaded = mdvpf.SurpriseDetector.load(file)
    np.testing.assert_array_equal(loaded.run(y[100:]).surprise, result.surprise[100:])


def test_what_reads_symbols_only_says_so() -> None:
    pf = members("gaussian")[0]
    for make in (
        lambda: mdvpf.evaluate(pf, [0.0], [0.0]),
        lambda: mdvpf.score_sequences(pf, [0.0], lengths=[1]),
        lambda: mdvpf.GeometricMixture([pf]),
        lambda: mdvpf.Recall(pf),
        lambda: mdvpf.estimation_variance(pf, 0),
        lambda: mdvpf.coding.compress([0], pf),
    ):
        with pytest.raises(TypeError, match="numbers, not symbols"):
            make()
