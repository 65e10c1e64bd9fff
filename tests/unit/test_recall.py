"""Learners that sleep and wake: regimes that return are remembered."""

from __future__ import annotations

import copy
from datetime import timedelta

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


def sequences(predictor: mdvpf.Recall, saved: bool = False) -> list[float]:
    """Return the log predictives of symbols that come one by one, in sequences of 50."""
    found = []
    for i, symbol in enumerate(turns(1, 200).tolist()):
        if i and i % 50 == 0:
            predictor.new_sequence()
            if saved:
                predictor = copy.deepcopy(predictor)  # by a checkpoint
        found.append(predictor.update(symbol).log_predictive)
    return found


def test_sequences_that_end_between_symbols_end_when_they_are_learnt_again() -> None:
    symbols = turns(1, 200)
    expected = recall().run(symbols, lengths=[50] * 12).log_predictive
    assert_array_equal(sequences(recall()), expected)
    assert_array_equal(sequences(recall(), saved=True), expected)


def test_a_number_of_a_key_that_ended_before_a_change_starts_anew() -> None:
    """A key that made room leaves its number to the next one, and backups still have its place."""
    symbols = turns(1, 200)
    keys = [str(number) for number in np.random.default_rng(0).integers(6, size=len(symbols))]
    whole, single = recall(block=4, margin=0.2), recall(block=4, margin=0.2)
    whole.max_keys = single.max_keys = 3
    found = [
        single.update(int(symbol), key).log_predictive
        for symbol, key in zip(symbols, keys, strict=True)
    ]
    assert_array_equal(found, whole.run(symbols, keys=keys).log_predictive)


def test_times_that_are_told_one_by_one_are_those_of_a_run() -> None:
    model = mdvpf.InfiniteHMM(4, half_life=timedelta(hours=1))
    template = mdvpf.ParticleFilter(model, n_particles=3)
    whole, single, resumed = (mdvpf.Recall(template, block=4, margin=0.1) for _ in range(3))
    symbols = turns(1, 60)
    times = np.cumsum(np.random.default_rng(0).integers(3000, size=len(symbols))).astype(float)
    expected = whole.run(symbols, times=times).log_predictive
    found: list[list[float]] = [[], []]
    for i, (symbol, time) in enumerate(zip(symbols.tolist(), times.tolist(), strict=True)):
        single.tell_time(time)
        resumed.tell_time(time)
        if i % 7 == 0:
            resumed = copy.deepcopy(resumed)  # by a checkpoint
        found[0].append(single.update(symbol).log_predictive)
        found[1].append(resumed.update(symbol).log_predictive)
    assert_array_equal(found, [expected, expected])
    assert whole.n_regimes > 1


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


@pytest.mark.parametrize("n_symbols", [40, 300, 1500])
def test_a_frozen_one_begins_with_the_prediction_of_the_live_one(n_symbols: int) -> None:
    predictor = recall()
    predictor.run(turns(3)[:n_symbols])
    expected = predictor.predict_proba()
    np.testing.assert_allclose(predictor.freeze().predict_proba(), expected, rtol=0, atol=1e-12)


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
