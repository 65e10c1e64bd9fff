"""Detectors that compare their predictor with a background."""

from __future__ import annotations

import io
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


def test_only_a_detector_that_has_judged_nothing_is_a_template() -> None:
    used = detector_of(None)
    used.update(1)
    with pytest.raises(ValueError, match="not judged any symbol"):
        mdvpf.KeyedDetector(used)
