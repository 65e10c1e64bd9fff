"""Detectors, `evaluate` and the river adapter on interleaved sequences and open alphabets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mdvpf
from mdvpf.predictor import Predictor
from tests.keyed_predictors import NumberedChain, OwnChain, OwnOpenCounts, interleaved
from tests.unit.test_predictor import Last

MAKERS: dict[str, Any] = {"a user's own": OwnChain, "by number": NumberedChain}
LEARN = ["all", "unflagged", "none"]


def by_hand(predictor: Predictor, symbols: list[Any], keys: list[Any]) -> list[float]:
    """Return the surprise of symbols that are all learnt."""
    pairs = zip(symbols, keys, strict=True)
    return [-predictor.update(symbol, key).log_predictive for symbol, key in pairs]


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("by", ["run", "update"])
def test_a_detector_is_as_surprised_as_its_predictor(kind: str, by: str) -> None:
    symbols, keys = interleaved(250, 4, seed=11)
    detector = mdvpf.SurpriseDetector(MAKERS[kind](0.5))
    if by == "run":
        found = detector.run(symbols, keys=keys).surprise
    else:
        pairs = zip(symbols, keys, strict=True)
        found = np.array([detector.update(symbol, key).surprise for symbol, key in pairs])
    np.testing.assert_allclose(found, by_hand(MAKERS[kind](0.5), symbols, keys), rtol=1e-12)
    assert detector.predictor.n_keys == 4
    detector.new_sequence("key 1")
    assert detector.predictor.n_keys == 3


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("learn", LEARN)
def test_the_copy_that_reads_a_block_follows_all_keys(kind: str, learn: str) -> None:
    block = 10
    symbols, keys = interleaved(400, 3, seed=12)
    settings: dict[str, Any] = {"block": block, "warm_up": 5, "false_alarms": 0.3}
    detector = mdvpf.SurpriseDetector(MAKERS[kind](0.5), learn=learn, **settings)
    result = detector.run(symbols, keys=keys)
    learnt = OwnChain(0.5)
    expected = []
    for start in range(0, len(symbols), block):
        part = slice(start, start + block)
        reader = learnt.copy()
        expected += by_hand(reader, symbols[part], keys[part])
        alarm = bool(result.alarm[part].any())
        if learn == "all" or (learn == "unflagged" and not alarm):
            learnt = reader
    np.testing.assert_allclose(result.surprise, expected, rtol=1e-12)
    assert result.alarm.any()
    again = mdvpf.SurpriseDetector(MAKERS[kind](0.5), learn=learn, **settings)
    pairs = zip(symbols, keys, strict=True)
    found = [again.update(symbol, key).surprise for symbol, key in pairs]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("learn", LEARN)
def test_a_key_ends_in_the_predictor_and_in_the_copy_that_reads(learn: str) -> None:
    detector = mdvpf.SurpriseDetector(NumberedChain(), block=4, learn=learn)
    detector.run([0, 1, 2, 0, 0, 1], keys=["a", "b", "a", "b", "a", "b"])
    detector.new_sequence("a")
    for each in (detector.predictor, detector.reader):
        np.testing.assert_array_equal(each.predict_proba("a"), each.predict_proba("another"))
    assert "a" not in detector.reader._table


def test_a_predictor_without_keys_is_named_before_anything_has_changed() -> None:
    detector = mdvpf.SurpriseDetector(Last())
    detector.update(0)
    for call in (
        lambda: detector.update(0, "a"),
        lambda: detector.run([0, 1], keys=["a", "b"]),
        lambda: detector.new_sequence("a"),
    ):
        with pytest.raises(TypeError, match="keys: Last takes none"):
            call()
    assert detector.update(0).time == 1
    detector.new_sequence()


def test_an_open_alphabet_needs_a_predictor_that_learns_everything() -> None:
    symbols = [0, 1, None, 0, 2, 2, 3]
    detector = mdvpf.SurpriseDetector(OwnOpenCounts(), block=2)
    expected = by_hand(OwnOpenCounts(), symbols, [None] * len(symbols))
    np.testing.assert_allclose(detector.run(symbols).surprise, expected, rtol=1e-12, atol=1e-15)
    assert detector.n_symbols == 4
    detector.update(4)
    with pytest.raises(ValueError, match="symbol=6"):
        detector.update(6)
    with pytest.raises(ValueError, match="learn='none': expected 'all'"):
        mdvpf.SurpriseDetector(OwnOpenCounts(), block=2, learn="none")


def test_a_report_that_is_no_step_is_named() -> None:
    detector = mdvpf.SurpriseDetector(OwnChain())
    with pytest.raises(TypeError, match=r"step=-0.5: expected a Step"):
        detector.judge(-0.5)  # type: ignore[arg-type]


def test_a_step_that_the_reader_did_not_make_is_named() -> None:
    chain = mdvpf.Markov(2)
    detector = mdvpf.SurpriseDetector(chain.copy(), block=2, learn="unflagged")
    with pytest.raises(ValueError, match=r"expected the return value of reader\.update"):
        detector.judge(chain.update(0))


# -- evaluate ------------------------------------------------------------------------------------


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("continued", [False, True])
@pytest.mark.parametrize("top_k", [(), (1,)])
def test_evaluation_by_key(frozen: bool, continued: bool, top_k: tuple[int, ...]) -> None:
    train, train_keys = interleaved(100, 3, seed=13)
    test, test_keys = interleaved(60, 4, seed=14)
    twin: Predictor = OwnChain(0.5)
    by_hand(twin, train, train_keys)
    if not continued:
        for key in set(train_keys):
            twin.new_sequence(key)
    twin = twin.freeze() if frozen else twin
    expected = -np.array(by_hand(twin, test, test_keys))
    found = mdvpf.evaluate(
        OwnChain(0.5),
        train,
        test,
        train_keys=train_keys,
        test_keys=test_keys,
        frozen=frozen,
        continued=continued,
        top_k=top_k,
    )
    np.testing.assert_allclose(found.log_predictive, expected, rtol=1e-12, atol=1e-15)
    order = list(dict.fromkeys(test_keys))
    sums = [sum(expected[[other == key for other in test_keys]]) for key in order]
    np.testing.assert_allclose(found.sequence_log_probabilities, sums, rtol=1e-12)
    assert found.n_sequences == 4


def test_evaluation_says_what_is_wrong_with_keys() -> None:
    with pytest.raises(TypeError, match="keys: Last takes none"):
        mdvpf.evaluate(Last(), [0, 1], [0, 1], test_keys=["a", "b"])
    with pytest.raises(ValueError, match="test: keys: got 1; expected 2"):
        mdvpf.evaluate(OwnChain(), None, [0, 1], test_keys=["a"])
    with pytest.raises(ValueError, match="train_keys: expected symbols alone"):
        mdvpf.evaluate(OwnChain(), [[0, 1]], [0, 1], train_keys=["a", "b"])
    with pytest.raises(ValueError, match="train_keys without train"):
        mdvpf.evaluate(OwnChain(), None, [0, 1], train_keys=["a", "b"])


def test_evaluation_with_an_open_alphabet() -> None:
    found = mdvpf.evaluate(OwnOpenCounts(), [0, 1, 0], [2, 0, 3], frozen=False, top_k=(1, 2))
    expected = -np.array(by_hand(OwnOpenCounts(), [0, 1, 0, 2, 0, 3], [None] * 6))[3:]
    np.testing.assert_allclose(found.log_predictive, expected, rtol=1e-12)
    # Shares before each: 1.5, 0.5, new 2.0; then 1.5, 0.5, 0.5, new 2.5; then 2.5, 0.5, 0.5, 2.5.
    assert found.top_k == {1: 1 / 3, 2: 1.0}


# -- river ---------------------------------------------------------------------------------------


def test_a_feature_of_river_is_the_key() -> None:
    pytest.importorskip("river")
    from mdvpf.adapters.river import SymbolFilter

    symbols, keys = interleaved(80, 3, seed=15)
    model = SymbolFilter(OwnChain(0.5), feature="page", key="user")
    twin = OwnChain(0.5)
    for symbol, key in zip(symbols, keys, strict=True):
        x = {"page": symbol, "user": key}
        np.testing.assert_array_equal(
            list(model.predict_proba_one(x).values()), twin.predict_proba(key)
        )
        score = model.score_one(x)
        assert score == pytest.approx(-twin.update(symbol, key).log_predictive, rel=1e-12)
        model.learn_one(x)
    model.new_sequence("key 1")
    assert model.learnt.n_keys == 2
    with pytest.raises(TypeError, match="keys: Last takes none"):
        SymbolFilter(Last(), key="user")
    with pytest.raises(TypeError, match="key=3: expected a str"):
        SymbolFilter(OwnChain(), key=3)  # type: ignore[arg-type]


def test_river_names_new_labels_as_they_come() -> None:
    pytest.importorskip("river")
    from mdvpf.adapters.river import SymbolFilter

    model = SymbolFilter(OwnOpenCounts())
    model.learnt.vocabulary = mdvpf.Vocabulary.open()
    for label in ["ls", "cd", "ls"]:
        model.learn_one({"symbol": label})
    assert model.predict_proba_one() == {"ls": 1.5 / 4, "cd": 0.5 / 4}  # and 2/4 for a new one
    assert model.score_one({"symbol": "rm"}) == pytest.approx(np.log(2), rel=1e-12)
    assert model.learnt.n_symbols == 2
    model.learn_one({"symbol": "rm"})
    assert list(model.predict_proba_one()) == ["ls", "cd", "rm"]
