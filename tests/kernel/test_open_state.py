"""Filters with an open alphabet as objects.

Like all filters, they continue with the same bits after a file or a copy, do not depend on chunks
and threads, and stay unchanged after a failed allocation, also while the trees grow.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import mdvpf
from tests.algorithms import EVERY_ALGORITHM
from tests.kernel import test_threads
from tests.kernel.inspecting import (
    BREAK,
    Event,
    assert_counts_follow_paths,
    assert_same,
    feed,
    laid_open,
)
from tests.kernel.open_models import SETTINGS, growing_events, make_model
from tests.kernel.sealing import loaded, saved
from tests.kernel.test_allocation_failure import assert_survives_failures, failures, updated

FIVE = ("MD-VPA", "VPA", "SMC", "ParticleLearning", "OptimalResampling")
LATER: list[Event] = [0, None, 1, BREAK, 0, 0]

every_algorithm = pytest.mark.parametrize("algorithm", EVERY_ALGORITHM)
every_setting = pytest.mark.parametrize("setting", SETTINGS)


def make_filter(setting: str, algorithm: str, **options: Any) -> mdvpf.ParticleFilter:
    options = {"n_particles": 8, "rng": 5, "history": "full", **options}
    return mdvpf.ParticleFilter(make_model(setting), EVERY_ALGORITHM[algorithm], **options)


# --- Files and copies


@pytest.mark.one_in(3)
@every_algorithm
@every_setting
def test_files_and_copies_continue_bit_for_bit(setting: str, algorithm: str) -> None:
    pf = make_filter(setting, algorithm)
    twins: list[mdvpf.ParticleFilter] = []
    for n, event in enumerate(growing_events(80, 0.3)):
        if n in (0, 1, 2, 3, 30, 40, 41):
            new = [loaded(saved(pf)), pf.copy()]
            for twin in new:
                twin._core.verify()
                assert_same(twin, laid_open(pf))
                assert twin._core.snapshot() == pf._core.snapshot()
            twins += new
        feed(pf, [event])
        prediction = pf.predict_proba().tobytes()
        for twin in twins:
            feed(twin, [event])
            assert twin.predict_proba().tobytes() == prediction
    expected = laid_open(pf)
    for twin in twins:
        twin._core.verify()
        assert_same(twin, expected)


@pytest.mark.parametrize("algorithm", ["MD-VPA", "MD-VPA optimal", "VPA", "SMC"])
@pytest.mark.parametrize("setting", ["plain", "mealy", "mealy, rows, sticky, half-life 4"])
def test_a_file_saved_at_any_border_of_the_trees_continues_bit_for_bit(
    setting: str, algorithm: str
) -> None:
    pf = make_filter(setting, algorithm, history=None)
    twins: list[mdvpf.ParticleFilter] = []
    for n in range(270):
        # Columns are numbered from 1: rows grow at 4 and 64, roots at each 4, the depth at 256.
        if n in (3, 4, 5, 62, 63, 64, 65, 66, 254, 255, 256, 257, 258):
            twins.append(loaded(saved(pf)))
            twins[-1]._core.verify()
        for event in (n, n // 2):
            pf.update(event)
            for twin in twins:
                twin.update(event)
    for twin in twins:
        twin._core.verify()
        assert twin._core.snapshot() == pf._core.snapshot()


@every_setting
def test_a_symbol_held_back_is_saved_whether_it_was_new_or_not(setting: str) -> None:
    for events in ([0], [0, 0], [0, 1], [0, 1, 0], [0, None], [0, None, 1]):
        pf = make_filter(setting, "MD-VPA")
        feed(pf, events)
        twin = loaded(saved(pf))
        assert twin.n_symbols == pf.n_symbols == len(set(events) - {None})
        feed(pf, [pf.n_symbols, 0])
        feed(twin, [twin.n_symbols, 0])
        assert_same(twin, laid_open(pf))


# --- Chunks, threads, counts


@every_algorithm
@every_setting
def test_one_by_one_is_the_same_as_in_chunks(setting: str, algorithm: str) -> None:
    symbols: Any = growing_events(90, 0.3, breaks=False)
    alone, chunked = (make_filter(setting, algorithm) for _ in range(2))
    steps = [alone.update(symbol) for symbol in symbols]
    result = chunked.run(symbols)
    assert [step.log_predictive for step in steps] == result.log_predictive.tolist()
    assert_same(chunked, laid_open(alone))


@pytest.mark.parametrize("algorithm", test_threads.ALGORITHMS, ids=repr)
def test_results_have_the_same_bits_for_any_number_of_threads(algorithm: Any) -> None:
    model = mdvpf.InfiniteHMM(emission=mdvpf.OpenVocabulary(0.5))
    symbols = growing_events(40, 0.25, seed=4, breaks=False)
    alone = test_threads.outcome(algorithm, symbols, 1, model)
    assert test_threads.outcome(algorithm, symbols, 3, model) == alone


@every_algorithm
def test_counts_follow_paths(algorithm: str) -> None:
    events = growing_events(100, 0.4)
    pf = make_filter("plain", algorithm)
    feed(pf, events)
    assert_counts_follow_paths(pf, events)


def test_a_large_alphabet_is_in_order_beyond_every_border() -> None:
    for setting in ("plain", "mealy"):
        pf = mdvpf.ParticleFilter(make_model(setting), mdvpf.VPA(), 4)
        pf.run(np.arange(4_100))  # three levels of columns
        pf._core.verify()
        pf.run(np.concatenate([np.arange(0, 4_100, 3), np.arange(4_100, 4_110)]))
        pf._core.verify()
        assert pf.n_symbols == 4_110
        assert pf.predict_proba().sum() == pytest.approx(1.0, abs=1e-5)
        assert "depth 3" in pf._core.state_text()


def test_settling_and_memory_reports_know_open_alphabets() -> None:
    pf = make_filter("plain", "MD-VPA")
    pf._core._settle_every(1)
    before = pf.memory().live
    for n in range(300):
        pf.update(n)
        pf.update(n // 3)
    pf._core.settle()
    pf._core.verify()
    assert pf.memory().live >= before + 300 * 8
    assert "open alphabet: 300 symbols, seen 600 times" in pf._core.state_text()


# --- Failed allocations


@pytest.mark.parametrize("n_seen", [0, 2, 3, 63, 255])
@pytest.mark.parametrize("algorithm", FIVE)
@pytest.mark.parametrize("setting", ["plain", "mealy"])
def test_a_failed_update_with_a_new_symbol_changes_nothing(
    setting: str, algorithm: str, n_seen: int
) -> None:
    # Few states: the tables of a Mealy machine that are compared have a row for every symbol.
    model = replace(make_model(setting), max_states=4)
    pf = mdvpf.ParticleFilter(model, EVERY_ALGORITHM[algorithm], 4, rng=5, history=2)
    feed(pf, range(n_seen))
    new = partial(updated, symbol=n_seen)
    assert assert_survives_failures(pf.copy, new, later=LATER, reloads=True) > 10


@pytest.mark.parametrize("algorithm", FIVE)
def test_a_failed_run_stops_between_two_symbols(algorithm: str) -> None:
    pf = make_filter("plain", algorithm)
    feed(pf, [0, 1, 0])
    symbols = [2, 0, 3, 3, 4]
    twin = pf.copy()
    states = [laid_open(twin)]
    for symbol in symbols:
        twin.update(symbol)
        states.append(laid_open(twin))
    n_failures = 0
    for failed in failures(pf.copy, lambda pf: pf.run(symbols)):
        n_failures += 1
        n_done = states.index(laid_open(failed))
        if n_done < len(symbols):
            failed.run(symbols[n_done:])
        assert_same(failed, states[-1])
    assert n_failures > 10


# --- Bad input


@pytest.mark.parametrize("symbol", [-1, 3, 2**31 - 2, 2**31, 1.0, True, "a"])
def test_a_symbol_beyond_the_next_new_one_changes_nothing(symbol: Any) -> None:
    pf = make_filter("plain", "MD-VPA")
    feed(pf, [0, 1])
    before = laid_open(pf)
    with pytest.raises((ValueError, TypeError), match="symbol"):
        pf.update(symbol)
    with pytest.raises((ValueError, TypeError), match="symbols"):
        pf.run([2, 0, symbol + 1 if type(symbol) is int and symbol > 0 else symbol])
    assert_same(pf, before)


def test_every_symbol_of_a_run_is_at_most_the_number_seen_before_it() -> None:
    pf = make_filter("plain", "VPA")
    pf.run([0, 1, None, 2, 0, 3])
    with pytest.raises(ValueError, match=r"symbols\[2\]=6: expected at most 5, "):
        pf.run([4, None, 6, 5])
    assert pf.n_symbols == 4
    with pytest.raises(ValueError, match="expected one of the alphabet"):
        pf._core.absorb(5, 0.0, np.empty(0))


def test_the_last_distribution_of_a_chunk_must_fit_its_array() -> None:
    pf = make_filter("plain", "VPA")
    pf.run([0, 1, 2])
    memory = np.full(8, -1.0)
    known = np.zeros(1, np.int32)  # before a known symbol, too, a new one is possible: 4 entries
    arguments = (known, known - 1, np.zeros(1), np.empty(0), np.empty((1, 6)), np.empty(2, "i8"))
    before = laid_open(pf)
    with pytest.raises(ValueError, match="distributions"):
        pf._core.advance(*arguments, distributions=memory[:3].reshape(1, 3))
    assert_same(pf, before)
    assert (memory == -1.0).all()
    expected = pf.predict_proba()
    pf._core.advance(*arguments, distributions=memory[:4].reshape(1, 4))
    assert np.array_equal(memory[:4], expected)
    assert (memory[4:] == -1.0).all()
