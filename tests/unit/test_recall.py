"""Learners that sleep and wake: regimes that return are remembered."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

import mdvpf
from mdvpf import datasets
from tests.kernel.sealing import reloaded


def turns(n_visits: int, length: int = 256) -> NDArray[np.int64]:
    """Return three rhythms that take turns, with some noise."""
    rng = np.random.default_rng(0)
    rhythms = [[0, 1, 2, 3], [0, 2, 1, 3], [3, 3, 0, 2]]
    parts = [np.resize(rhythm, length) for _ in range(n_visits) for rhythm in rhythms]
    symbols = np.concatenate(parts)
    noisy = rng.random(len(symbols)) < 0.02
    symbols[noisy] = rng.integers(4, size=noisy.sum())
    return symbols


def recall(**options: float) -> mdvpf.Recall:
    return mdvpf.Recall(mdvpf.PitmanYorTree(4, depth=2), **options)


def test_every_regime_gets_a_learner_which_wakes_with_it() -> None:
    predictor = recall()
    symbols = turns(4)
    active = []
    for start in range(0, len(symbols), 256):
        predictor.run(symbols[start : start + 256])
        active.append(predictor.active)
    assert active[6:9] == active[9:]
    assert len(set(active[9:])) == 3


def test_what_sleeps_is_not_changed_by_other_regimes() -> None:
    predictor = recall()
    symbols = turns(2)
    predictor.run(symbols[:512])
    assert predictor.active == 1
    sleeper = predictor._learners[0].copy()
    predictor.run(symbols[512:768])
    sleeper.new_sequence()
    learner = predictor._learners[0].copy()
    learner.new_sequence()
    assert_array_equal(learner.score(symbols[:50]), sleeper.score(symbols[:50]))


def test_a_return_costs_less_than_the_first_visit() -> None:
    """Automata that take turns, with the exact generator as the comparator."""
    stream = datasets.taking_turns(3, n_visits=4, length=300, rng=1)
    best = mdvpf.KnownHMM(stream.hmms, stream.change_points).run(stream.symbols).log_predictive
    tree = mdvpf.PitmanYorMixture(stream.n_symbols, depths=range(4))
    regret = {}
    for name, predictor in {
        "plain": tree,
        "recall": mdvpf.Recall(mdvpf.GeometricMixture([tree])),
    }.items():
        behind = best - predictor.run(stream.symbols).log_predictive
        regret[name] = behind.reshape(4, -1).sum(axis=1)
    assert regret["recall"][3] < 0.75 * regret["recall"][0]
    assert regret["recall"][3] < 0.85 * regret["plain"][3]


def test_slots_are_limited() -> None:
    predictor = recall(n_slots=2)
    symbols = turns(3)
    for start in range(0, len(symbols), 256):
        predictor.run(symbols[start : start + 256])
        assert predictor.n_regimes <= 2


@pytest.mark.parametrize("size", [1, 7, 16, 1000])
def test_chunks_change_no_bit(size: int) -> None:
    symbols = turns(1)[:600]
    whole, parts = recall(), recall()
    expected = whole.run(symbols).log_predictive
    found = [
        parts.run(symbols[start : start + size]).log_predictive for start in range(0, 600, size)
    ]
    assert_array_equal(np.concatenate(found), expected)


def test_it_keeps_all_promises_of_a_predictor() -> None:
    mdvpf.check_predictor(recall(block=4))


def test_keys_stand_at_the_start_for_who_wakes() -> None:
    symbols = turns(2, 128)
    keys = ["a" if i % 3 else "b" for i in range(len(symbols))]
    predictor = recall(block=8)
    predictor.run(symbols, keys=keys)
    predictor.new_sequence("a")
    assert predictor.predict_proba("b").sum() == pytest.approx(1.0)
    assert predictor.predict_proba("a").sum() == pytest.approx(1.0)


@pytest.mark.parametrize("stop", [0, 260, 700, 777])
def test_a_checkpoint_keeps_everything(stop: int) -> None:
    """It is taken before, just after and within a change; what was heard is learnt again."""
    symbols = turns(2)
    keys = ["a" if i % 5 else None for i in range(len(symbols))]
    predictor = recall()
    if stop:
        predictor.run(symbols[:stop], keys=keys[:stop])
    loaded = reloaded(predictor)
    runs = [each.run(symbols[stop:], keys=keys[stop:]) for each in (predictor, loaded)]
    assert_array_equal(runs[0].log_predictive, runs[1].log_predictive)
    assert predictor.active == loaded.active


def test_a_frozen_one_no_longer_learns() -> None:
    predictor = recall()
    predictor.run(turns(1))
    frozen = predictor.freeze()
    first = frozen.score([0, 1, 2, 3] * 5, lengths=[20])
    frozen.run([3, 2, 1, 0] * 50)
    assert_array_equal(frozen.score([0, 1, 2, 3] * 5, lengths=[20]), first)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"template": 3}, TypeError, "template=3"),
        ({"template": mdvpf.Markov(None)}, ValueError, "closed alphabet"),
        ({"n_slots": 1}, ValueError, "n_slots=1"),
        ({"block": 0}, ValueError, "block=0"),
        ({"margin": -1.0}, ValueError, "margin=-1.0"),
    ],
)
def test_bad_arguments_are_refused(
    options: dict[str, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        mdvpf.Recall(**{"template": mdvpf.Markov(2), **options})
