"""Detectors that compare their predictor with a background."""

from __future__ import annotations

import copy
import io
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

import mdvpf

RNG = np.random.default_rng(5)
SYMBOLS = RNG.integers(4, size=400)


def everybody(order: int = 1) -> mdvpf.Markov:
    chain = mdvpf.Markov(4, order=order)
    chain.run(np.random.default_rng(6).integers(4, size=1000))
    chain.new_sequence()
    return chain


def detector_of(background: Any, **settings: Any) -> mdvpf.SurpriseDetector:
    options = {"block": 10, **settings}
    return mdvpf.SurpriseDetector(mdvpf.Markov(4, order=1), background=background, **options)


def test_the_level_is_the_mean_log_likelihood_ratio_of_background_and_predictor() -> None:
    result = detector_of(everybody()).run(SYMBOLS)
    own = mdvpf.Markov(4, order=1).run(SYMBOLS).log_predictive
    other = everybody().freeze().run(SYMBOLS).log_predictive
    np.testing.assert_allclose(result.ratio, other - own, rtol=1e-12)
    blocks = (other - own).reshape(-1, 10).mean(axis=1)
    np.testing.assert_allclose(result.level[9::10], blocks, rtol=1e-9)


def test_a_predictor_as_background_is_frozen_and_left_as_it_is() -> None:
    chain = everybody()
    before = chain.predict_proba()
    detector_of(chain).run(SYMBOLS)
    np.testing.assert_array_equal(chain.predict_proba(), before)


def test_a_learning_background_learns_after_it_has_predicted() -> None:
    background = mdvpf.Background(everybody(), learn=True)
    result = detector_of(background).run(SYMBOLS)
    own = mdvpf.Markov(4, order=1).run(SYMBOLS).log_predictive
    other = everybody().run(SYMBOLS).log_predictive
    np.testing.assert_allclose(result.ratio, other - own, rtol=1e-12)


def test_detectors_that_share_a_background_have_positions_of_their_own() -> None:
    background = mdvpf.Background(everybody())
    first, second = detector_of(background), detector_of(background)
    together = [
        (first.update(int(a)), second.update(int(b)))
        for a, b in zip(SYMBOLS, SYMBOLS[::-1], strict=True)
    ]
    alone = detector_of(everybody()).run(SYMBOLS[::-1])
    np.testing.assert_allclose([b.ratio for _, b in together], alone.ratio, rtol=1e-12)


@pytest.mark.parametrize("learn", ["all", "unflagged", "none"])
def test_updates_and_runs_agree_with_keys(learn: str) -> None:
    keys = ["a" if i % 3 else "b" for i in range(len(SYMBOLS))]
    one, many = (detector_of(everybody(), learn=learn) for _ in range(2))
    singly = [one.update(int(y), key) for y, key in zip(SYMBOLS, keys, strict=True)]
    result = many.run(SYMBOLS, keys=keys)
    assert [result[i].alarm for i in range(len(result))] == [each.alarm for each in singly]
    np.testing.assert_array_equal(result.ratio, [each.ratio for each in singly])


@pytest.mark.parametrize("learn", [False, True])
def test_a_checkpoint_and_a_copy_go_on_to_the_bit(learn: bool) -> None:
    background = mdvpf.Background(everybody(), learn=learn)
    detector_of(background)  # another reader, so that the number of this one is not 0
    detector = detector_of(background, learn="unflagged")
    detector.run(SYMBOLS[:205])
    file = io.BytesIO()
    detector.save(file)
    twins = [detector.copy(), mdvpf.SurpriseDetector.load(io.BytesIO(file.getvalue()))]
    expected = detector.run(SYMBOLS[205:])
    for twin in twins:
        found = twin.run(SYMBOLS[205:])
        np.testing.assert_array_equal(found.ratio, expected.ratio)
        np.testing.assert_array_equal(found.alarm, expected.alarm)


def test_a_missing_symbol_adds_nothing() -> None:
    detector = detector_of(everybody())
    assert detector.update(None).ratio == 0.0
    assert np.isnan(detector.run([None] * 9).level[-1])


@pytest.mark.parametrize(
    ("background", "error", "text"),
    [
        (3, TypeError, "background=3"),
        (mdvpf.Markov(5), ValueError, "4 symbols"),
        (mdvpf.PitmanYorTree(None), ValueError, "closed alphabet"),
    ],
)
def test_what_is_no_background_is_refused(
    background: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        detector_of(background)


def test_an_open_predictor_is_refused() -> None:
    with pytest.raises(ValueError, match="open alphabet"):
        mdvpf.SurpriseDetector(mdvpf.PitmanYorTree(None), background=everybody())


def test_positions_in_a_background_are_bounded() -> None:
    background = mdvpf.Background(everybody(), max_keys=5)
    detector = detector_of(background)
    detector.run(SYMBOLS, keys=[f"key {i}" for i in range(len(SYMBOLS))])
    assert background.predictor.n_keys == 5


# -- a detector for each key


def users(max_keys: int = 100, **settings: Any) -> mdvpf.KeyedDetector:
    return mdvpf.KeyedDetector(detector_of(everybody(), **settings), max_keys=max_keys)


def test_a_key_is_judged_as_if_it_had_a_detector_to_itself() -> None:
    keys = ["a" if i % 3 else "b" for i in range(len(SYMBOLS))]
    result = users(learn="unflagged").run(SYMBOLS, keys)
    for key in "ab":
        mine = np.array([each == key for each in keys])
        alone = detector_of(everybody(), learn="unflagged").run(SYMBOLS[mine])
        np.testing.assert_array_equal(result.level[mine], alone.level)
        np.testing.assert_array_equal(result.alarm[mine], alone.alarm)


def test_the_key_used_longest_ago_makes_room() -> None:
    keyed = users(max_keys=2)
    keyed.run([0, 1, 2, 3], keys=["a", "b", "a", "c"])
    assert keyed.keys == ["a", "c"]
    assert keyed.background is not None
    assert keyed.background.predictor.n_keys <= 2
    with pytest.raises(ValueError, match="'b'"):
        keyed.of("b")


def test_a_symbol_that_is_refused_changes_nothing() -> None:
    keyed = users(max_keys=1)
    keyed.update(0, "a")
    with pytest.raises(ValueError, match=r"0\.\.3"):
        keyed.update(4, "b")
    assert keyed.keys == ["a"]


@pytest.mark.parametrize("settings", [{}, {"learn": "unflagged"}, {"false_incidents": 5.0}])
def test_keyed_detectors_go_on_after_a_checkpoint(settings: dict[str, Any]) -> None:
    keys = ["a" if i % 3 else "b" for i in range(len(SYMBOLS))]
    keyed = users(**settings)
    keyed.run(SYMBOLS[:205], keys[:205])
    file = io.BytesIO()
    keyed.save(file)
    twins = [keyed.copy(), mdvpf.KeyedDetector.load(io.BytesIO(file.getvalue()))]
    expected = keyed.run(SYMBOLS[205:], keys[205:])
    for twin in twins:
        found = twin.run(SYMBOLS[205:], keys[205:])
        np.testing.assert_array_equal(found.ratio, expected.ratio)
        np.testing.assert_array_equal(found.p_value, expected.p_value)
        assert twin.of("a").background is twin.background


def test_a_background_that_fades_by_time_gets_the_times() -> None:
    model = mdvpf.InfiniteHMM(4, half_life=timedelta(hours=1))
    times = np.cumsum(RNG.integers(3000, size=100)).astype(float)
    found = []
    for together in (True, False):
        background = mdvpf.Background(mdvpf.ParticleFilter(model, n_particles=3), learn=True)
        detector = detector_of(background)
        if together:
            found.append(detector.run(SYMBOLS[:100], times=times).ratio)
            continue
        ratios = []
        for symbol, time in zip(SYMBOLS[:100].tolist(), times.tolist(), strict=True):
            detector.tell_time(time)
            ratios.append(detector.update(symbol).ratio)
        found.append(np.array(ratios))
    plain = mdvpf.ParticleFilter(model, n_particles=3).run(SYMBOLS[:100], times=times)
    own = mdvpf.Markov(4, order=1).run(SYMBOLS[:100]).log_predictive
    np.testing.assert_array_equal(found[0], plain.log_predictive - own)
    np.testing.assert_array_equal(found[1], found[0])


def test_a_key_that_stopped_learning_goes_on_after_a_checkpoint() -> None:
    keyed = users()
    keyed.run([0, 1] * 20, keys=["a", "b"] * 20)
    keyed.of("a").learn = "none"
    resumed = copy.deepcopy(keyed)  # by a checkpoint
    assert [resumed.of(key).learn for key in "ab"] == ["none", "all"]


def test_only_a_detector_that_has_judged_nothing_is_a_template() -> None:
    used = detector_of(None)
    used.update(1)
    with pytest.raises(ValueError, match="not judged any symbol"):
        mdvpf.KeyedDetector(used)


# -- over numbers


def sensor(seed: int, n: int = 400, mean: float = 0.0) -> mdvpf.ParticleFilter:
    family = mdvpf.Gaussian(mean_strength=0.01, shape=2.0, scale=0.2)
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=family, kappa=10.0), n_particles=5)
    if n:
        pf.run(mean + np.random.default_rng(seed).normal(size=n))
    return pf


NUMBERS = np.random.default_rng(8).normal(size=405)


def over_numbers(background: Any, **settings: Any) -> mdvpf.SurpriseDetector:
    options = {"block": 10, **settings}
    return mdvpf.SurpriseDetector(sensor(1, n=0), background=background, **options)


def test_the_level_over_numbers_is_the_mean_log_ratio_of_the_densities() -> None:
    result = over_numbers(sensor(2)).run(NUMBERS)
    own = sensor(1, n=0).run(NUMBERS).log_predictive
    reader = sensor(2).freeze()
    reader.new_sequence()
    other = reader.run(NUMBERS).log_predictive
    np.testing.assert_allclose(result.ratio, other - own, rtol=0, atol=1e-9)
    blocks = (other - own)[:400].reshape(-1, 10).mean(axis=1)
    np.testing.assert_allclose(result.level[9:400:10], blocks, rtol=0, atol=1e-9)


def test_a_background_over_numbers_may_learn() -> None:
    background = mdvpf.Background(sensor(2), learn=True)
    result = over_numbers(background).run(NUMBERS)
    own = sensor(1, n=0).run(NUMBERS).log_predictive
    reader = sensor(2)
    reader.new_sequence()
    other = reader.run(NUMBERS).log_predictive
    np.testing.assert_allclose(result.ratio, other - own, rtol=0, atol=1e-9)


@pytest.mark.parametrize("learn", ["all", "unflagged", "none", "own"])
@pytest.mark.parametrize("settings", [{}, {"false_incidents": 200.0, "warm_up": 5}])
def test_over_numbers_files_copies_and_updates_agree(learn: str, settings: dict[str, Any]) -> None:
    shared = mdvpf.Background(sensor(2))
    detector = over_numbers(shared, learn=learn, **settings)
    keys = ["a" if i % 3 else "b" for i in range(405)]
    detector.run(NUMBERS[:205], keys=keys[:205])
    file = io.BytesIO()
    detector.save(file)
    twins = [
        detector.copy(),
        mdvpf.SurpriseDetector.load(io.BytesIO(file.getvalue())),
        detector.copy(),
    ]
    expected = detector.run(NUMBERS[205:], keys=keys[205:])
    one = twins.pop()
    singly = [one.update(y, key) for y, key in zip(NUMBERS[205:], keys[205:], strict=True)]
    # A run over frozen filters advances sequences together, which rounds differently.
    np.testing.assert_allclose(expected.ratio, [each.ratio for each in singly], rtol=0, atol=1e-9)
    assert expected.alarm.tolist() == [each.alarm for each in singly]
    for twin in twins:
        found = twin.run(NUMBERS[205:], keys=keys[205:])
        np.testing.assert_array_equal(found.ratio, expected.ratio)
        np.testing.assert_array_equal(found.alarm, expected.alarm)


def test_own_learns_the_numbers_that_the_predictor_explains_better() -> None:
    rng = np.random.default_rng(9)
    own, others = sensor(1), sensor(2, mean=20.0)
    settings: dict[str, Any] = {"block": 10, "learn": "own"}
    detector = mdvpf.SurpriseDetector(own.copy(), background=others, **settings)
    before = own.counts().emission[:, 0].sum()
    detector.run(rng.normal(size=30))
    assert detector.predictor.counts().emission[:, 0].sum() == before + 30  # type: ignore[attr-defined]
    detector.run(20.0 + rng.normal(size=30))
    assert detector.predictor.counts().emission[:, 0].sum() == before + 30  # type: ignore[attr-defined]


def test_somebody_elses_numbers_are_an_incident_against_a_background() -> None:
    rng = np.random.default_rng(10)
    everyone = sensor(2)
    everyone.run(6.0 + rng.normal(size=400))
    detector = mdvpf.SurpriseDetector(
        sensor(1, n=0), background=everyone, false_incidents=1.0, learn="unflagged"
    )
    assert detector.run(rng.normal(size=2000)).incidents == []
    (found,) = detector.run(6.0 + rng.normal(size=20)).incidents
    assert found.side == "surprising"
    assert "before: mean" in detector.explain(found).text()


@pytest.mark.parametrize(
    "background",
    [
        mdvpf.Markov(1),
        mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=mdvpf.Poisson()), n_particles=2),
        mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=mdvpf.Gaussian(2)), n_particles=2),
    ],
)
def test_a_background_over_numbers_has_the_same_kinds_of_numbers(background: Any) -> None:
    with pytest.raises(ValueError, match="kinds of numbers of Gaussian"):
        over_numbers(background)
    with pytest.raises(ValueError, match="1 symbols"):
        mdvpf.SurpriseDetector(mdvpf.Markov(1), background=sensor(2))


def test_keys_share_a_background_over_numbers() -> None:
    template = over_numbers(sensor(2), false_incidents=200.0, warm_up=5)
    keyed = mdvpf.KeyedDetector(template)
    keys = ["a" if i % 3 else "b" for i in range(405)]
    result = keyed.run(NUMBERS, keys)
    mine = np.array([key == "a" for key in keys])
    alone = over_numbers(sensor(2), false_incidents=200.0, warm_up=5).run(NUMBERS[mine])
    np.testing.assert_array_equal(result.ratio[mine], alone.ratio)
    np.testing.assert_array_equal(result.p_value[mine], alone.p_value)
