"""Families over numbers: core and reference agree step by step, in everything that is reported."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdvpf
from mdvpf.reference import ReferenceFilter
from tests.algorithms import EVERY_ALGORITHM
from tests.number_families import STREAMS, given_for

MODELS: dict[str, dict[str, Any]] = {
    "plain": {},
    "forgets, rows": {"forget": 2.0, "oracle": "rows"},
    "half-life, sticky": {"half_life": 3.0, "kappa": 0.5, "oracle": "any"},
    "two states": {"max_states": 2},
}


def compare(pf: Any, ref: ReferenceFilter, observation: Any, key: Any = None) -> None:
    """Absorb an observation in both, and compare what is reported and who survived."""
    found, expected = pf.update(observation, key), ref.update(observation, key)
    assert found == pytest.approx(expected, rel=0, abs=1e-9)
    pf._core.verify()
    particles = ref.particles
    np.testing.assert_allclose(pf.weights, [p.weight for p in particles], rtol=0, atol=1e-9)
    assert pf.states.tolist() == [p.state for p in particles]


@pytest.mark.parametrize("algorithm", EVERY_ALGORITHM)
@pytest.mark.parametrize("model", MODELS)
def test_every_algorithm_agrees_with_the_reference(model: str, algorithm: str) -> None:
    for family, observations in STREAMS.values():
        both = mdvpf.InfiniteHMM(emission=family, **MODELS[model])
        pf: Any = mdvpf.ParticleFilter(both, EVERY_ALGORITHM[algorithm], 7, rng=1)
        ref = ReferenceFilter(both, EVERY_ALGORITHM[algorithm], 7, rng=1, rounding=True)
        for i, observation in enumerate((observations * 2)[:10]):
            compare(pf, ref, observation, "b" if i % 5 == 3 else None)
            if i == 7:
                pf.new_sequence()
                ref.new_sequence()
        assert pf.log_evidence == pytest.approx(ref.log_evidence, rel=0, abs=1e-9)


@st.composite
def gaussian_streams(draw: Any) -> list[Any]:
    numbers = st.one_of(
        st.none(), st.floats(-50.0, 50.0), st.sampled_from([0.0, 1.0, 1e6, -1e9, 1e-9])
    )
    return draw(st.lists(numbers, min_size=1, max_size=12))


@settings(max_examples=15, deadline=None)
@given(
    stream=gaussian_streams(),
    prior=st.tuples(*(st.sampled_from([1e-3, 0.5, 1.0, 20.0]) for _ in range(3))),
    algorithm=st.sampled_from([mdvpf.VPA(), mdvpf.MDVPA(), mdvpf.OptimalResampling()]),
    model=st.sampled_from(sorted(MODELS)),
)
def test_random_streams_and_priors_agree(
    stream: list[Any], prior: tuple[float, ...], algorithm: Any, model: str
) -> None:
    strength, shape, scale = prior
    family = mdvpf.Gaussian(mean_strength=strength, shape=shape, scale=scale)
    both = mdvpf.InfiniteHMM(emission=family, **MODELS[model])
    pf = mdvpf.ParticleFilter(both, algorithm, 40, rng=2)
    ref = ReferenceFilter(both, algorithm, 40, rng=2, rounding=True)
    for y in stream:
        found, expected = pf.update(y), ref.update(y)
        assert found.log_predictive == pytest.approx(expected.log_predictive, rel=1e-9, abs=1e-9)
    pf._core.verify()


@pytest.mark.parametrize("algorithm", ["MD-VPA", "MD-VPA optimal", "SMC", "VPA"])
@pytest.mark.parametrize("stream", STREAMS)
def test_a_checkpoint_goes_on_with_the_same_bits(stream: str, algorithm: str) -> None:
    family, observations = STREAMS[stream]
    model = mdvpf.InfiniteHMM(emission=family, half_life=4.0)
    pf = mdvpf.ParticleFilter(model, EVERY_ALGORITHM[algorithm], 9, rng=3, history=5)
    for i, observation in enumerate(observations):
        file = io.BytesIO()
        pf.save(file)
        file.seek(0)
        twin = mdvpf.ParticleFilter.load(file, **given_for(family))
        twin._core.verify()
        again = io.BytesIO()
        twin.save(again)
        assert again.getvalue() == file.getvalue()
        key = "b" if i % 3 == 2 else None
        assert twin.update(observation, key) == pf.update(observation, key)
        assert twin.path().tolist() == pf.path().tolist()


def test_densities_far_below_the_range_of_doubles() -> None:
    """Log predictives of about -1e4, from the formula of Student's t."""
    family = mdvpf.Gaussian(shape=1e4, scale=1e4, mean_strength=1e-3)
    model = mdvpf.InfiniteHMM(emission=family)
    for algorithm in EVERY_ALGORITHM.values():
        pf = mdvpf.ParticleFilter(model, algorithm, 6, rng=1)
        ref = ReferenceFilter(model, algorithm, 6, rng=1, rounding=True)
        least = 0.0
        for y in [0.0, 0.1, 1e6, 0.2, -3e7, 1e6]:
            found, expected = pf.update(y).log_predictive, ref.update(y).log_predictive
            assert found == pytest.approx(expected, rel=1e-10)
            least = min(least, found)
        assert least < -10_000.0
        assert ref.log_evidence < -50_000.0


def sharp_stream(seed: int) -> tuple[mdvpf.InfiniteHMM, int, list[Any]]:
    """Return a model, a number of particles and numbers that few rows explain at all."""
    rng = np.random.default_rng(seed)
    shape, n_dims = float(rng.choice([20.0, 100.0, 1000.0])), int(rng.choice([2, 10, 50]))
    prior = {"mean_strength": float(rng.choice([0.01, 0.1, 1.0])), "shape": shape}
    scale = float(rng.choice([1.0, shape]))
    model = mdvpf.InfiniteHMM(emission=mdvpf.Gaussian(n_dims, scale=scale, **prior))
    far = float(rng.choice([5.0, 50.0, 200.0]))
    y = np.round(rng.normal(size=(12, n_dims)) + far * rng.integers(0, 2, (12, 1)), 1)
    return model, int(rng.choice([2, 3, 5, 20])), list(y)


def test_particles_that_are_not_chosen_may_predict_far_better_than_all_that_are() -> None:
    """The pending step of MD-VPA drops rows with densities e**709 times those that are left."""
    for seed in (59, 80, 130, 146, 181, *range(8)):  # it happens in the first five
        model, n_particles, numbers = sharp_stream(seed)
        pf = mdvpf.ParticleFilter(model, mdvpf.MDVPA(discount=1.0), n_particles)
        ref = ReferenceFilter(model, mdvpf.MDVPA(discount=1.0), n_particles, rounding=True)
        for y in numbers:
            found, expected = pf.update(y).log_predictive, ref.update(y).log_predictive
            assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_a_mean_of_1e8_with_variance_1() -> None:
    """Shifted by 1e8, with the prior, nothing changes but the last digits of the observations."""
    rng = np.random.default_rng(5)
    near = np.round(rng.normal(size=60), 6)
    results = []
    for shift in (0.0, 1e8):
        family = mdvpf.Gaussian(mean=shift, shape=2.0)
        pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=family), mdvpf.VPA(), 50)
        results.append(pf.run(near + shift).log_predictive)
    np.testing.assert_allclose(results[1], results[0], rtol=0, atol=1e-5)


def test_mdvpa_without_discount_is_vpa() -> None:
    family, observations = STREAMS["product"]
    model = mdvpf.InfiniteHMM(emission=family, forget=1.0)
    plain = mdvpf.ParticleFilter(model, mdvpf.VPA(), 9)
    still = mdvpf.ParticleFilter(model, mdvpf.MDVPA(discount=0.0), 9)
    for observation in observations * 3:
        assert plain.update(observation) == still.update(observation)


def levels_with_outliers(n: int, seed: int) -> list[float | None]:
    """Numbers around three levels, some of them missing, some far from everything before."""
    rng = np.random.default_rng(seed)
    found: list[float | None] = (
        4.0 * np.repeat(rng.integers(0, 3, n // 5 + 1), 5)[:n] + 0.5 * rng.normal(size=n)
    ).tolist()
    found[n // 3] = found[n // 2] = None
    found[n // 2 + 3], found[2 * n // 3] = 1e6, -40.0
    return found


# Sharp densities, and broad ones: under these no product of probabilities underflows.
PRIORS = {"sharp": (0.0, 0.05, 200.0, 50.0), "broad": (0.0, 0.05, 1.0, 0.5)}


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("algorithm", ["VPA", "MD-VPA", "VPA without weights"])
def test_a_bound_leaves_out_no_survivor(algorithm: str, prior: str) -> None:
    """Particles enough for a bound, which skips the logs of most scores."""
    model = mdvpf.InfiniteHMM(emission=mdvpf.Gaussian(1, *PRIORS[prior]))
    pf = mdvpf.ParticleFilter(model, EVERY_ALGORITHM[algorithm], 150)
    ref = ReferenceFilter(model, EVERY_ALGORITHM[algorithm], 150, rounding=True)
    for y in levels_with_outliers(30, seed=4):
        compare(pf, ref, y)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("oracle", [{}, {"oracle": "any"}, {"max_states": 3}])
def test_a_model_without_extensions_keeps_its_bits_by_the_shorter_way(
    oracle: dict[str, Any], prior: str
) -> None:
    """Counts that fade immeasurably take the longer way, through views of real counts."""
    y = levels_with_outliers(80, seed=5)
    family = mdvpf.Gaussian(1, *PRIORS[prior])
    for algorithm in EVERY_ALGORITHM.values():
        short = mdvpf.ParticleFilter(
            mdvpf.InfiniteHMM(emission=family, **oracle), algorithm, 150, rng=6
        )
        long = mdvpf.ParticleFilter(
            mdvpf.InfiniteHMM(emission=family, forget=1e-300, **oracle), algorithm, 150, rng=6
        )
        found, expected = short.run(y), long.run(y)
        assert found.log_predictive.tolist() == expected.log_predictive.tolist()
        assert found.mean_states.tolist() == expected.mean_states.tolist()
        assert short.states.tolist() == long.states.tolist()


def test_runs_have_the_same_bits_as_updates_and_for_any_number_of_threads() -> None:
    rng = np.random.default_rng(1)
    y = rng.normal(size=(70, 2)) + 4.0 * rng.integers(0, 3, size=(70, 1))
    y[5, 0] = y[9] = np.nan
    model = mdvpf.InfiniteHMM(emission=mdvpf.Gaussian(2), kappa=1.0)
    for algorithm in (mdvpf.VPA(), mdvpf.MDVPA()):
        one = mdvpf.ParticleFilter(model, algorithm, 1100)
        many = mdvpf.ParticleFilter(model, algorithm, 1100, n_threads=3)
        result = one.run(y)
        np.testing.assert_array_equal(many.run(y).log_predictive, result.log_predictive)
    steps = mdvpf.ParticleFilter(model, mdvpf.MDVPA(), 1100)
    found = [steps.update(row).log_predictive for row in y[:30]]
    assert found == result.log_predictive[:30].tolist()
