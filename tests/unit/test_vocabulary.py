"""Vocabularies: labels to symbols and back, unknown labels, and checkpoints."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdvpf
from mdvpf import Vocabulary
from tests.kernel.sealing import reloaded

single = st.one_of(st.text(max_size=4), st.integers(), st.binary(max_size=4))
labels = st.recursive(single, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=4)
MIXED: list[Any] = ["a", "1", 1, -7, b"1", b"", "", ("a", 1), ("a", (b"x", ())), 2**80, "\ud800"]


@settings(max_examples=40)
@given(
    given_labels=st.lists(labels, min_size=1, max_size=20, unique=True),
    data=st.data(),
)
def test_round_trip(given_labels: list[Any], data: st.DataObject) -> None:
    vocabulary = Vocabulary(given_labels)
    symbols = data.draw(st.lists(st.integers(0, len(given_labels) - 1), max_size=30))
    decoded = vocabulary.decode(symbols)
    assert decoded == [given_labels[symbol] for symbol in symbols]
    assert vocabulary.encode(decoded).tolist() == symbols
    assert [vocabulary[label] for label in decoded] == symbols


@settings(max_examples=40)
@given(data=st.lists(st.one_of(st.none(), labels), max_size=30))
def test_a_vocabulary_of_data_has_each_label_once_in_order(data: list[Any]) -> None:
    seen: list[Any] = []
    for label in data:
        if label is not None and label not in seen:
            seen.append(label)
    if not seen:
        with pytest.raises(ValueError, match="labels: got none"):
            Vocabulary.from_data(data)
        return
    vocabulary = Vocabulary.from_data(data)
    assert list(vocabulary.labels) == seen
    assert vocabulary.decode(vocabulary.encode(data)) == data


@settings(max_examples=40)
@given(known=st.lists(labels, max_size=10, unique=True), label=labels, unknown=labels)
def test_an_unseen_label_goes_to_the_reserved_symbol(
    known: list[Any], label: Any, unknown: Any
) -> None:
    known = [other for other in known if other not in (label, unknown)]
    vocabulary = Vocabulary(known, unknown=unknown)
    assert vocabulary.n_symbols == len(known) + 1
    assert vocabulary.encode([label, *known, label]).tolist() == [
        len(known),
        *range(len(known)),
        len(known),
    ]
    assert vocabulary.decode([len(known)]) == [unknown]
    assert vocabulary[unknown] == len(known)


def test_an_unseen_label_is_an_error_otherwise() -> None:
    vocabulary = Vocabulary(["ls", "cd"])
    with pytest.raises(ValueError, match=r"labels\[1\]='rm': expected one of the 2 labels"):
        vocabulary.encode(["ls", "rm"])
    with pytest.raises(ValueError, match="label='rm'"):
        vocabulary["rm"]


def test_labels_of_different_kinds_are_different() -> None:
    vocabulary = Vocabulary(MIXED)
    assert vocabulary.encode(MIXED).tolist() == list(range(len(MIXED)))
    assert [type(label) for label in vocabulary.decode(range(len(MIXED)))] == [
        type(label) for label in MIXED
    ]


def test_numpy_scalars_are_the_same_labels() -> None:
    vocabulary = Vocabulary(np.array(["b", "a"]))
    assert type(vocabulary.labels[0]) is str
    assert vocabulary.encode(np.array(["a", "b"])).tolist() == [1, 0]
    numbers = Vocabulary(np.array([30, 10]))
    assert numbers.labels == (30, 10)
    assert type(numbers.labels[0]) is int
    assert numbers[np.int8(10)] == 1


def test_missing_labels_are_missing_symbols() -> None:
    vocabulary = Vocabulary("ab", unknown="?")
    encoded = vocabulary.encode(["a", None, "z"])
    assert np.ma.is_masked(encoded)
    assert encoded.tolist() == [0, None, 2]
    assert vocabulary.decode(encoded) == ["a", None, "?"]
    assert type(vocabulary.encode("abz")) is np.ndarray
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(3), n_particles=5)
    twin = pf.copy()
    found = pf.run(encoded).log_predictive
    assert np.array_equal(found, twin.run([0, None, 2]).log_predictive)


@pytest.mark.parametrize("kind", [str, object])
def test_masked_labels_are_missing(kind: type) -> None:
    labels = np.ma.masked_array(np.array(["a", "c", "b"], dtype=kind), [False, True, False])
    vocabulary = Vocabulary.from_data(labels)
    assert vocabulary.labels == ("a", "b")
    assert vocabulary.encode(labels).tolist() == [0, None, 1]


def test_nothing_to_encode() -> None:
    assert Vocabulary("ab").encode([]).tolist() == []
    assert Vocabulary("ab").encode([]).dtype == np.int64
    assert Vocabulary("ab").decode([]) == []


@pytest.mark.parametrize(
    "label", [True, 1.5, None, ["a"], {"a"}, ("a", 1.5), ("a", None), object()]
)
def test_invalid_labels_are_refused(label: Any) -> None:
    with pytest.raises(TypeError, match=r"labels\[1\]=.*: expected a str, an int, bytes"):
        Vocabulary(["a", label])
    with pytest.raises(TypeError, match=r"label=.*: expected a str"):
        Vocabulary(["a"])[label]
    assert label not in Vocabulary(["a"])
    if label is not None:
        with pytest.raises(TypeError, match=r"unknown=.*: expected a str"):
            Vocabulary(["a"], unknown=label)
        with pytest.raises(TypeError, match=r"labels\[0\]=.*: expected a str"):
            Vocabulary(["a"]).encode([label])


@pytest.mark.parametrize("wrong", [None, 3, {"a", "b"}, {"a": 1}])
def test_labels_come_in_order(wrong: Any) -> None:
    with pytest.raises(TypeError, match="expected an ordered sequence of labels"):
        Vocabulary(wrong)
    with pytest.raises(TypeError, match="expected an ordered sequence of labels"):
        Vocabulary("ab").encode(wrong)


def test_labels_come_once() -> None:
    with pytest.raises(ValueError, match=r"labels\[2\]='a'.*equals labels\[0\]"):
        Vocabulary(["a", "b", "a"])
    with pytest.raises(ValueError, match="unknown='b'"):
        Vocabulary(["a", "b"], unknown="b")
    assert Vocabulary.from_data(["a", "b", "?"], unknown="?").labels == ("a", "b")


@pytest.mark.parametrize("symbols", [[2], [-1], [True], [0.5], "ab"])
def test_invalid_symbols_are_refused(symbols: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="symbols"):
        Vocabulary("ab").decode(symbols)


def test_a_vocabulary_is_a_value() -> None:
    vocabulary = Vocabulary(MIXED, unknown="?")
    assert vocabulary == Vocabulary(MIXED, unknown="?")
    assert hash(vocabulary) == hash(Vocabulary(MIXED, unknown="?"))
    assert vocabulary != Vocabulary(MIXED)
    assert vocabulary != Vocabulary(MIXED[::-1], unknown="?")
    assert vocabulary != "vocabulary"
    assert len(vocabulary) == vocabulary.n_symbols == len(list(vocabulary)) == len(MIXED) + 1
    assert "a" in vocabulary
    assert "never" not in vocabulary
    with pytest.raises(AttributeError):
        vocabulary.unknown = "other"  # type: ignore[misc]
    for twin in (pickle.loads(pickle.dumps(vocabulary)), copy.deepcopy(vocabulary)):
        assert twin == vocabulary
    assert repr(Vocabulary("ab", unknown="?")) == "Vocabulary(('a', 'b'), unknown='?')"


def test_a_predictor_takes_a_vocabulary_of_its_size() -> None:
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(3), n_particles=5)
    assert pf.vocabulary is None
    with pytest.raises(ValueError, match=r"vocabulary=.* of 2 symbols: expected 3"):
        pf.vocabulary = Vocabulary("ab")
    with pytest.raises(TypeError, match=r"vocabulary=.*expected a Vocabulary"):
        pf.vocabulary = "abc"  # type: ignore[assignment]
    assert pf.vocabulary is None
    pf.vocabulary = Vocabulary("abc")
    assert pf.copy().vocabulary == Vocabulary("abc")
    pf.vocabulary = None
    assert pf.vocabulary is None


def test_a_vocabulary_is_saved_with_the_filter() -> None:
    for unknown in (None, ("?", 0)):
        vocabulary = Vocabulary(MIXED, unknown=unknown)
        pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(vocabulary.n_symbols), n_particles=5)
        pf.vocabulary = vocabulary
        twin = reloaded(pf).vocabulary
        assert twin == vocabulary
        assert twin is not None
        assert [type(label) for label in twin] == [type(label) for label in vocabulary]


# -- open vocabularies -------------------------------------------------------------------------


def test_an_open_vocabulary_numbers_labels_by_first_appearance():
    vocabulary = Vocabulary.open()
    assert vocabulary.encode(["b", "a", None, "b", "c"]).tolist() == [0, 1, None, 0, 2]
    assert vocabulary.decode([2, 0]) == ["c", "b"]
    assert vocabulary.find("new") == 3
    assert len(vocabulary) == 3


def test_labels_beyond_the_bound_are_the_unknown():
    vocabulary = Vocabulary.open(["a"], max_labels=2, unknown="OTHER")
    assert [vocabulary.add(label) for label in ["x", "y", "z", "a", "OTHER"]] == [1, 2, 2, 0, 2]
    assert vocabulary.labels == ("a", "x")
    assert vocabulary.decode([2]) == ["OTHER"]
    assert vocabulary.capacity == 3


def test_the_unknown_may_come_by_its_own_name_first():
    vocabulary = Vocabulary.open(max_labels=2, unknown="OTHER")
    assert [vocabulary.add(label) for label in ["OTHER", "a", "b", "c", "a"]] == [0, 1, 2, 0, 1]
    assert vocabulary.labels == ("a", "b")


@pytest.mark.parametrize("labels", [[], ["a"], ["a", "x", "y"], ["OTHER", "a", "b", "c"]])
def test_an_open_vocabulary_survives_pickling_and_continues(labels):
    vocabulary = Vocabulary.open(max_labels=2, unknown="OTHER")
    for label in labels:
        vocabulary.add(label)
    twin = pickle.loads(pickle.dumps(vocabulary))
    assert twin == vocabulary
    more = ["b", "c", "a", "OTHER"]
    assert twin.encode(more).tolist() == vocabulary.encode(more).tolist()


def test_copies_of_an_open_vocabulary_grow_by_themselves():
    vocabulary = Vocabulary.open("ab")
    twin = vocabulary.copy()
    twin.add("c")
    assert vocabulary.labels == ("a", "b")
    assert vocabulary != twin
    with pytest.raises(TypeError, match="mutable and has no hash"):
        hash(vocabulary)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_labels": 2}, "max_labels=2 without unknown"),
        ({"unknown": "?"}, "unknown='\\?': expected only with max_labels"),
        ({"labels": "abc", "max_labels": 2, "unknown": "?"}, "labels: got 3; expected at most 2"),
        ({"labels": "ab", "max_labels": 2, "unknown": "a"}, "not in labels"),
        ({"max_labels": 0, "unknown": "?"}, "max_labels=0"),
    ],
)
def test_a_bad_open_vocabulary_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Vocabulary.open(**arguments)


def test_a_closed_alphabet_takes_an_open_vocabulary_that_fits():
    chain = mdvpf.Markov(n_symbols=4)
    chain.vocabulary = Vocabulary.open(max_labels=3, unknown="OTHER")
    twin = chain.copy()
    twin.vocabulary.add("a")
    assert len(chain.vocabulary) == 0
    for wrong in (Vocabulary.open(), Vocabulary.open(max_labels=4, unknown="OTHER")):
        with pytest.raises(ValueError, match="expected 4, as the predictor has"):
            chain.vocabulary = wrong
