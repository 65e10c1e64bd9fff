"""Runs: in one call or in many, interrupted or not, from one thread or from two."""

from __future__ import annotations

import itertools
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdvpf
from mdvpf.model.algorithms import Algorithm
from mdvpf.predictor import FilterResult, Step
from tests.algorithms import EVERY_ALGORITHM
from tests.kernel.inspecting import (
    Symbol,
    assert_counts_follow_paths,
    assert_same,
    laid_open,
    n_absorbed,
)
from tests.kernel.streams import random_symbols

V = 5
K = 15
every_algorithm = pytest.mark.parametrize("algorithm", EVERY_ALGORITHM)
PATIENCE = 20  # attempts at what depends on the scheduling of threads


def make_filter(
    algorithm: Algorithm | str, n_particles: int = K, **options: Any
) -> mdvpf.ParticleFilter:
    chosen = EVERY_ALGORITHM[algorithm] if isinstance(algorithm, str) else algorithm
    model = mdvpf.InfiniteHMM(V, beta=0.2, **options.pop("model", {}))
    return mdvpf.ParticleFilter(
        model, chosen, n_particles, **{"rng": 11, "history": "full", **options}
    )


def joined(steps: list[Step]) -> dict[str, np.ndarray]:
    return {name: np.array([getattr(step, name) for step in steps]) for name in Step._fields}


def assert_steps_equal(result: FilterResult, expected: dict[str, np.ndarray]) -> None:
    for name, values in expected.items():
        assert np.array_equal(getattr(result, name), values), name


# --- One run, many runs, a loop


def looped(pf: mdvpf.ParticleFilter, symbols: list[Symbol], starts: set[int]) -> list[Step]:
    steps = []
    for n, symbol in enumerate(symbols):
        if n in starts:
            pf.new_sequence()
        steps.append(pf.update(symbol))
    return steps


@every_algorithm
@settings(max_examples=12)
@given(
    seed=st.integers(0, 10**6),
    cuts=st.sets(st.integers(1, 39), max_size=6),
    missing=st.sampled_from([0.0, 0.2]),
)
def test_runs_in_any_chunks_are_a_loop_of_updates(
    algorithm: str, seed: int, cuts: set[int], missing: float
) -> None:
    symbols = random_symbols(seed, 40, V, missing=missing)
    loop = make_filter(algorithm, rng=seed)
    expected = joined(looped(loop, symbols, set()))
    whole = make_filter(algorithm, rng=seed)
    assert_steps_equal(whole.run(symbols), expected)
    assert_same(whole, laid_open(loop))
    parts = make_filter(algorithm, rng=seed)
    bounds = [0, *sorted(cuts), 40]
    results = [parts.run(symbols[start:stop]) for start, stop in itertools.pairwise(bounds)]
    for name, values in expected.items():
        assert np.array_equal(np.concatenate([getattr(r, name) for r in results]), values), name
    assert_same(parts, laid_open(loop))


@every_algorithm
@settings(max_examples=12)
@given(
    seed=st.integers(0, 10**6),
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    n_first=st.integers(1, 5),
)
def test_a_run_with_lengths_starts_a_sequence_before_each(
    algorithm: str, seed: int, lengths: list[int], n_first: int
) -> None:
    symbols = random_symbols(seed, sum(lengths), V, missing=0.15)
    starts = set(np.cumsum([0, *lengths[:-1]]).tolist())
    loop = make_filter(algorithm, rng=seed)
    whole = make_filter(algorithm, rng=seed)
    for pf in (loop, whole):
        pf.run(random_symbols(seed + 1, n_first, V))
    expected = joined(looped(loop, symbols, starts))
    assert_steps_equal(whole.run(symbols, lengths), expected)
    assert_same(whole, laid_open(loop))


@every_algorithm
def test_chunks_of_the_core_do_not_show(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    symbols = random_symbols(3, 50, V, missing=0.1)
    whole = make_filter(algorithm)
    expected = whole.run(symbols, [20, 30])
    parts = make_filter(algorithm)
    monkeypatch.setattr(mdvpf.ParticleFilter, "_chunk", 7)
    result = parts.run(symbols, [20, 30])
    assert_steps_equal(result, {name: getattr(expected, name) for name in Step._fields})
    assert result.log_evidence == expected.log_evidence
    assert_same(parts, laid_open(whole))


@every_algorithm
def test_masked_entries_are_missing_symbols(algorithm: str) -> None:
    symbols = random_symbols(4, 40, V, missing=0.3)
    missing = [symbol is None for symbol in symbols]
    # The values under the mask need not be symbols.
    values = np.array([-77 if symbol is None else symbol for symbol in symbols])
    listed = make_filter(algorithm)
    expected = listed.run(symbols)
    masked = make_filter(algorithm)
    result = masked.run(np.ma.masked_array(values, mask=missing))
    assert_steps_equal(result, {name: getattr(expected, name) for name in Step._fields})
    assert not result.log_predictive[missing].any()
    assert_same(masked, laid_open(listed))


@every_algorithm
def test_the_log_evidence_of_a_run_is_what_it_adds(algorithm: str) -> None:
    pf = make_filter(algorithm)
    first = pf.run(random_symbols(5, 30, V))
    second = pf.run(random_symbols(6, 30, V, missing=0.2), [10, 20])
    np.testing.assert_allclose(
        pf.log_evidence, first.log_evidence + second.log_evidence, rtol=1e-12, atol=0.0
    )
    if not algorithm.startswith("SMC"):
        np.testing.assert_allclose(
            second.log_evidence, math.fsum(second.log_predictive), rtol=1e-12, atol=0.0
        )


@every_algorithm
def test_the_same_seed_gives_the_same_filter_twice(algorithm: str) -> None:
    symbols = random_symbols(7, 60, V, missing=0.1)
    first, second = make_filter(algorithm, rng=5), make_filter(algorithm, rng=5)
    expected = first.run(symbols)
    assert_steps_equal(
        second.run(symbols), {name: getattr(expected, name) for name in Step._fields}
    )
    assert_same(second, laid_open(first))


@every_algorithm
def test_a_run_that_is_refused_changes_nothing(algorithm: str) -> None:
    pf = make_filter(algorithm)
    pf.run(random_symbols(8, 20, V))
    before = laid_open(pf)
    for symbols, lengths in (([0, 1, V], None), ([0, -1], None), ([0, 1], [1, 2]), ([], None)):
        with pytest.raises(ValueError):
            pf.run(symbols, lengths)
        assert_same(pf, before)
    for symbols in ([0, 1.0], [0, True], [0, "a"]):
        with pytest.raises(TypeError):
            pf.run(symbols)
        assert_same(pf, before)


def test_a_discount_that_runs_out_is_noticed_before_the_first_symbol() -> None:
    pf = make_filter(mdvpf.MDVPA(discount=[1.0] * 30))
    pf.run(random_symbols(9, 20, V))
    before = laid_open(pf)
    with pytest.raises(ValueError, match="discount"):
        pf.run(random_symbols(10, 12, V))
    assert_same(pf, before)
    pf.run(random_symbols(10, 11, V))
    assert pf._core.n_steps == 30


@every_algorithm
def test_scoring_and_copying_leave_the_filter_as_it_was(algorithm: str) -> None:
    pf = make_filter(algorithm)
    pf.run(random_symbols(11, 30, V, missing=0.1))
    before = laid_open(pf)
    memory = pf.memory()
    continuation = random_symbols(12, 20, V, missing=0.1)
    found = pf.score(continuation, [5, 15])
    assert_same(pf, before)
    other = pf.copy()
    assert_same(pf, before)
    assert pf.memory() == memory
    assert np.array_equal(found, other.run(continuation, [5, 15]).log_predictive)
    assert_same(pf, before)


# --- Interrupts and threads


@contextmanager
def once_under_way(pf: mdvpf.ParticleFilter, n_steps: int, act: Any) -> Iterator[threading.Thread]:
    """Call `act` from another thread after some more steps of the filter."""
    wanted = pf._core.n_steps + n_steps
    given_up = threading.Event()

    def wait() -> None:
        while pf._core.n_steps < wanted and not given_up.is_set():
            time.sleep(1e-4)
        if not given_up.is_set():
            act()

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield thread
    finally:
        given_up.set()
        thread.join()


@pytest.mark.skipif(sys.platform == "win32", reason="sends itself SIGINT")
@pytest.mark.parametrize(
    "algorithm", ["MD-VPA", "MD-VPA optimal", "VPA", "SMC", "ParticleLearning"]
)
def test_an_interrupt_leaves_the_filter_between_two_symbols(algorithm: str) -> None:
    symbols = np.array(random_symbols(13, 100_000, V))
    pf = make_filter(algorithm, 1000, history=None, model={"max_states": 6})
    with (
        once_under_way(pf, 20, lambda: os.kill(os.getpid(), signal.SIGINT)),
        pytest.raises(KeyboardInterrupt),
    ):
        pf.run(symbols)
    n = n_absorbed(pf)
    assert 20 <= n < len(symbols)
    pf._core.verify()
    counts = pf.counts()
    assert counts.start.sum() + counts.transition.sum() == n
    assert counts.emission.sum() == n
    twin = make_filter(algorithm, 1000, history=None, model={"max_states": 6})
    twin.run(symbols[:n])
    assert_equal_without_tables(pf, twin)
    found = pf.run(symbols[n : n + 20])
    expected = twin.run(symbols[n : n + 20])
    assert_steps_equal(found, {name: getattr(expected, name) for name in Step._fields})
    assert_equal_without_tables(pf, twin)


def assert_equal_without_tables(pf: mdvpf.ParticleFilter, twin: mdvpf.ParticleFilter) -> None:
    assert np.array_equal(pf.weights, twin.weights)
    assert np.array_equal(pf.states, twin.states)
    assert np.array_equal(pf.n_states, twin.n_states)
    assert np.array_equal(pf.predict_proba(), twin.predict_proba())
    assert pf.log_evidence == twin.log_evidence
    assert pf.rng.bit_generator.state == twin.rng.bit_generator.state


def test_other_threads_continue_during_a_run() -> None:
    # One call of the core: a thread that waited for it would see only its start and its end.
    pf = make_filter(mdvpf.VPA(), 1000, history=None)
    assert pf._chunk >= 200
    symbols = random_symbols(14, 200, V)
    for _ in range(PATIENCE):
        first = pf._core.n_steps
        seen: set[int] = set()
        done = threading.Event()

        def watch(seen: set[int] = seen, done: threading.Event = done) -> None:
            while not done.is_set():
                seen.add(pf._core.n_steps)
                time.sleep(0)

        thread = threading.Thread(target=watch)
        thread.start()
        pf.run(symbols)
        done.set()
        thread.join()
        if any(first < n < first + 200 for n in seen):
            return
    pytest.fail("no other thread ever ran during a run: is the GIL held?")


USES = {
    "update": lambda pf: pf.update(0),
    "run": lambda pf: pf.run([0, 1]),
    "new_sequence": lambda pf: pf.new_sequence(),
    "predict_proba": lambda pf: pf.predict_proba(),
    "copy": lambda pf: pf.copy(),
    "score": lambda pf: pf.score([0, 1]),
    "memory": lambda pf: pf.memory(),
    "verify": lambda pf: pf._core.verify(),
    "weights": lambda pf: pf.weights,
    "counts": lambda pf: pf.counts(0),
    "path": lambda pf: pf.path(0),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("algorithm", ["VPA", "MD-VPA", "SMC"])
def test_a_filter_in_use_by_another_thread_refuses_a_second_call(algorithm: str, use: str) -> None:
    symbols = np.array(random_symbols(15, 150, V))
    for _ in range(PATIENCE):
        pf = make_filter(algorithm, 1000)
        thread = threading.Thread(target=pf.run, args=(symbols,))
        thread.start()
        while pf._core.n_steps < 10 and thread.is_alive():
            time.sleep(0)
        refused = None
        if thread.is_alive():
            try:
                USES[use](pf)
            except RuntimeError as error:
                refused = error
        thread.join()
        if refused is not None:
            assert "another thread" in str(refused)
            pf._core.verify()
            twin = make_filter(algorithm, 1000)
            twin.run(symbols)
            assert_equal_without_tables(pf, twin)
            return
    pytest.fail(f"{use} was never refused while another thread ran the filter")


# --- Histories


def n_tree_nodes(paths: list[list[int]], length: int) -> int:
    """Count the nodes of the tree that the paths form, in its last `length` generations."""
    return sum(
        len({tuple(path[: len(path) - back]) for path in paths})
        for back in range(min(length, len(paths[0])))
    )


@every_algorithm
@pytest.mark.parametrize("lag", [1, 2, 7, 100])
def test_a_lag_bounds_the_history_exactly(lag: int, algorithm: str) -> None:
    # Two filters from one seed, so that the full paths say which nodes the other must hold.
    full = make_filter(algorithm)
    short = make_filter(algorithm, history=lag)
    for n, symbol in enumerate(random_symbols(16, 40, V, missing=0.1)):
        for pf in (full, short):
            if n % 13 == 0:
                pf.new_sequence()
            pf.update(symbol)
        for k in range(len(full.weights)):
            assert short.path(k).tolist() == full.path(k).tolist()[-lag:]
        assert short.memory().history_nodes <= K * lag
        if not short._core.pending:
            # Drawn particles may hold equal paths in different nodes; chosen ones never do.
            paths = [full.path(k).tolist() for k in range(len(full.weights))]
            distinct = n_tree_nodes(paths, lag)
            if algorithm in ("VPA", "VPA without weights", "OptimalResampling"):
                assert short.memory().history_nodes == distinct
            else:
                assert short.memory().history_nodes >= distinct
    short._core.verify()


@pytest.mark.parametrize("algorithm", ["VPA", "VPA without weights", "OptimalResampling"])
def test_a_full_history_is_the_tree_of_the_paths(algorithm: str) -> None:
    pf = make_filter(algorithm)
    for n, symbol in enumerate(random_symbols(17, 60, V)):
        pf.update(symbol)
        paths = [pf.path(k).tolist() for k in range(len(pf.weights))]
        assert pf.memory().history_nodes == n_tree_nodes(paths, n + 1)


@pytest.mark.parametrize("algorithm", ["SMC", "SMC systematic, ESS", "ParticleLearning"])
def test_a_full_history_of_drawn_particles_is_pruned(algorithm: str) -> None:
    n, k = 2000, 50
    pf = make_filter(algorithm, k, model={"max_states": 8})
    pf.run(random_symbols(18, n, V))
    assert n <= pf.memory().history_nodes < n + 20 * k * math.log(k)
    assert all(len(pf.path(i)) == n for i in range(k))
    pf._core.verify()


@every_algorithm
def test_a_path_without_a_history_names_the_fix(algorithm: str) -> None:
    pf = make_filter(algorithm, history=None)
    pf.run(random_symbols(19, 10, V))
    for k in (None, 0):
        with pytest.raises(ValueError, match='history="full"'):
            pf.path(k)
    assert pf.memory().history_nodes == 0


# --- Memory


@every_algorithm
def test_the_memory_report_adds_up_at_every_step(algorithm: str) -> None:
    pf = make_filter(algorithm)
    dense = 0
    for symbol in random_symbols(20, 50, V, missing=0.1):
        pf.update(symbol)
        report = pf.memory()
        assert 0 < report.live <= report.allocated
        assert report.rows >= report.shared_rows >= 0
        if not pf._core.pending:
            dense = sum(4 * (m * (m + 1) + m * V) for m in pf.n_states.tolist())
            assert report.dense_equivalent == dense
    # States that MD-VPA has committed are visible after the end of the sequence.
    pf.new_sequence()
    dense = sum(4 * (m * (m + 1) + m * V) for m in pf.n_states.tolist())
    assert pf.memory().dense_equivalent == dense > 0


@pytest.mark.parametrize("algorithm", ["SMC", "ParticleLearning"])
def test_copies_of_the_empty_particle_hold_no_rows(algorithm: str) -> None:
    report = make_filter(algorithm, 500).memory()
    assert report.rows == report.shared_rows == report.history_nodes == 0
    assert report.dense_equivalent == 0


def test_a_population_that_is_resampled_shares_rows_and_takes_fewer_bytes() -> None:
    # The symbols carry no information, so all weights are equal. Without resampling every particle
    # has its own path; two descendants of one drawn particle share its path.
    never, always = (
        make_filter(algorithm, 200, history=None, model={"alpha": 5.0})
        for algorithm in (mdvpf.SMC(ess_threshold=0.0), mdvpf.SMC())
    )
    never.run([None] * 60)
    always.run([None] * 60)
    assert never.memory().shared_rows == 0
    assert always.memory().shared_rows > 0
    assert always.memory().live < never.memory().live
    assert always.memory().rows < never.memory().rows


def test_live_bytes_of_one_population_fall_when_few_of_it_survive() -> None:
    # An ESS that is never low enough until the emission decides between particles.
    pf = make_filter(
        mdvpf.SMC(ess_threshold=0.02), 200, history=None, model={"alpha": 5.0, "oracle": "any"}
    )
    fewest = 200
    for symbol in random_symbols(21, 200, V):
        before = pf.memory()
        step = pf.update(symbol)
        after = pf.memory()
        if step.discarded > 0.0:
            fewest = min(fewest, round(step.ess))
            assert after.live < before.live
            assert after.shared_rows / after.rows > before.shared_rows / before.rows
    assert fewest <= 4


def test_every_particle_has_a_path() -> None:
    symbols = random_symbols(22, 30, V, missing=0.1)
    pf = make_filter("MD-VPA")
    pf.run(symbols)
    assert_counts_follow_paths(pf, symbols)
    assert pf.path().tolist() == pf.path(int(pf.weights.argmax())).tolist()
