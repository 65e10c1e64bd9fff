"""Labels of an open alphabet: each has its own symbol, even after failures."""

from __future__ import annotations

import numpy as np
import pytest

import mdvpf
from tests.kernel.sealing import reloaded


def an_open_filter() -> mdvpf.ParticleFilter:
    model = mdvpf.InfiniteHMM(emission=mdvpf.OpenVocabulary())
    pf = mdvpf.ParticleFilter(model, n_particles=5)
    pf.vocabulary = mdvpf.Vocabulary.open()
    return pf


def test_labels_are_numbered_as_they_come():
    pf = an_open_filter()
    pf.run(["a", "b", None, "a"])
    pf = reloaded(pf)
    pf.run(["c", "b"])
    assert pf.vocabulary.labels == ("a", "b", "c")
    assert pf.n_symbols == 3


def test_symbols_without_labels_can_be_saved_but_not_mixed_with_labels():
    pf = an_open_filter()
    pf.run([0, 1])
    pf = reloaded(pf)
    assert pf.n_symbols == 2
    with pytest.raises(
        ValueError, match="the vocabulary has 0 symbols and the predictor has seen 2"
    ):
        pf.run(["x", "x"])
    with pytest.raises(ValueError, match=r"symbols\[1\]=1: expected a label"):
        an_open_filter().run(["a", 1, "b"])


def test_labels_that_were_encoded_can_be_absorbed_one_by_one():
    pf = an_open_filter()
    symbols = pf.vocabulary.encode("abca").tolist()
    for symbol in symbols:
        pf.update(symbol)
        pf = reloaded(pf)
    pf.run(["d"])
    assert pf.vocabulary.labels == ("a", "b", "c", "d")


@pytest.mark.parametrize("wrong", [{"symbols": ["a", "b", 3.5]}, {"symbols": ["a"], "keys": []}])
def test_a_run_that_is_refused_adds_no_label(wrong):
    for thing in (an_open_filter(), mdvpf.SurpriseDetector(an_open_filter())):
        with pytest.raises((TypeError, ValueError)):
            thing.run(**wrong)
        predictor = getattr(thing, "predictor", thing)
        assert len(predictor.vocabulary) == 0
        thing.run(["c"])
        assert predictor.vocabulary.labels == ("c",)


def test_a_detector_takes_labels_and_times():
    detector = mdvpf.SurpriseDetector(an_open_filter())
    surprise = detector.run(["a", "b", "a"], times=[0.0, 1.0, 2.0]).surprise
    expected = -an_open_filter().run([0, 1, 0]).log_predictive
    np.testing.assert_allclose(surprise, np.abs(expected))


@pytest.mark.parametrize("ended", [False, True])
def test_no_key_is_in_use_where_no_sequence_has_begun(ended):
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(3), n_particles=5)
    if ended:
        pf.run([0, 1])
        pf.new_sequence()
    assert reloaded(pf).n_keys == pf.n_keys == 0
