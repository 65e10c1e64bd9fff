"""A predictor with a vocabulary accepts labels in place of symbols."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mdvpf

LABELS = ["cd", "ls", ("make", 1), b"\xff"]
STREAM = ["ls", ("make", 1), None, b"\xff", "cd", "ls", "cd"]
SYMBOLS = [1, 2, None, 3, 0, 1, 0]


def predictors() -> list[mdvpf.Predictor]:
    made: list[mdvpf.Predictor] = [
        mdvpf.Markov(4),
        mdvpf.PitmanYorTree(4),
        mdvpf.SoftHMM(4, n_states=3, rng=0),
        mdvpf.ParticleFilter(mdvpf.InfiniteHMM(4), n_particles=8),
        mdvpf.Mixture([mdvpf.Markov(4), mdvpf.ContextTree(4)]),
    ]
    for predictor in made:
        predictor.vocabulary = mdvpf.Vocabulary(LABELS)  # type: ignore[arg-type]
    return made


@pytest.mark.parametrize("predictor", predictors(), ids=lambda p: type(p).__name__)
def test_labels_are_the_symbols_that_they_stand_for(predictor: Any) -> None:
    expected = predictor.score(SYMBOLS, lengths=[3, 4])
    np.testing.assert_array_equal(predictor.score(STREAM, lengths=[3, 4]), expected)
    np.testing.assert_array_equal(predictor.score(iter(STREAM), lengths=[3, 4]), expected)
    twin = predictor.copy()
    np.testing.assert_array_equal(predictor.run(STREAM, [3, 4]).log_predictive, expected)
    np.testing.assert_array_equal(twin.run(SYMBOLS, [3, 4]).log_predictive, expected)
    np.testing.assert_array_equal(predictor.predict_proba(), twin.predict_proba())


def plain() -> mdvpf.Markov:
    chain = mdvpf.Markov(3)
    chain.vocabulary = mdvpf.Vocabulary(["a", "b", "c"])
    return chain


def test_arrays_of_text() -> None:
    expected = plain().score([0, 2, 1, 1])
    for kind in ("U1", object, "T"):
        array = np.array(["a", "c", "b", "b"], dtype=kind)
        np.testing.assert_array_equal(plain().score(array), expected)
    masked = np.ma.array(["a", "c", "b"], mask=[False, True, False])
    np.testing.assert_array_equal(plain().score(masked), plain().score([0, None, 1]))


@pytest.mark.parametrize("kind", [None, "string", "str", "category", "object"])
def test_columns_of_frames(kind: str | None) -> None:
    pd = pytest.importorskip("pandas")
    values = ["a", pd.NA if kind == "object" else None, "b"]
    column = pd.Series(values, dtype=kind)
    np.testing.assert_array_equal(plain().score(column), plain().score([0, None, 1]))
    vocabulary = mdvpf.Vocabulary.from_data(column)
    assert vocabulary.labels == ("a", "b")
    assert vocabulary.encode(column).tolist() == [0, None, 1]


def test_detectors_and_evaluations_take_labels_too() -> None:
    expected = plain().score([0, 2, None])
    found = mdvpf.SurpriseDetector(plain()).run(["a", "c", None])
    np.testing.assert_array_equal(-found.surprise, expected)
    scored = mdvpf.evaluate(plain(), ["a", "b", "a"], [["c", "a"], ["b"]])
    twin = mdvpf.evaluate(plain(), [0, 1, 0], [[2, 0], [1]])
    np.testing.assert_array_equal(scored.log_predictive, twin.log_predictive)


def test_integers_are_symbols_whatever_the_labels_are() -> None:
    chain = mdvpf.Markov(3)
    chain.vocabulary = mdvpf.Vocabulary([2, 0, 1])
    assert chain.vocabulary.encode([2, 2, 1]).tolist() == [0, 0, 2]
    chain.run([2, 2, 1])
    twin = mdvpf.Markov(3)
    twin.run([2, 2, 1])
    np.testing.assert_array_equal(chain.predict_proba(), twin.predict_proba())
    mixed = plain().score(["a", 1, "c"])
    np.testing.assert_array_equal(mixed, plain().score([0, 1, 2]))


def test_a_label_that_is_unknown() -> None:
    with pytest.raises(ValueError, match=r"symbols\[1\]='d': expected one of the 3 labels"):
        plain().run(["a", "d"])
    chain = mdvpf.Markov(3)
    chain.vocabulary = mdvpf.Vocabulary(["a", "b"], unknown="other")
    np.testing.assert_array_equal(chain.score(["a", "d"]), chain.score([0, 2]))


def test_text_is_no_sequence_of_labels() -> None:
    for symbols in ("abc", b"abc", {"a", "b"}, {"a": 1}):
        with pytest.raises(TypeError, match="symbols="):
            plain().run(symbols)  # type: ignore[arg-type]


def test_without_a_vocabulary_labels_are_errors() -> None:
    with pytest.raises(TypeError, match=r"symbols\[0\]='a': expected an integer in 0\.\.2"):
        mdvpf.Markov(3).run(["a"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="symbols of dtype <U1"):
        mdvpf.Markov(3).run(np.array(["a"]))
