"""Settling frees memory and changes nothing: no result, now or later, and no sharing."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import mdvpf
from tests.algorithms import EVERY_ALGORITHM
from tests.kernel.inspecting import BREAK, Event, assert_same, feed, laid_open

every_algorithm = pytest.mark.parametrize("algorithm", EVERY_ALGORITHM)


def make_filter(algorithm: str, n_symbols: int = 5, **options: Any) -> mdvpf.ParticleFilter:
    model = mdvpf.InfiniteHMM(n_symbols, beta=0.1, gamma=3.0)
    options = {"n_particles": 40, "rng": 5, "history": "full", **options}
    return mdvpf.ParticleFilter(model, EVERY_ALGORITHM[algorithm], **options)


def events(n: int, n_symbols: int = 5) -> list[Event]:
    rng = np.random.default_rng(3)
    found: list[Event] = (rng.integers(n_symbols, size=n) * (rng.random(n) < 0.7)).tolist()
    found[n // 3] = BREAK
    found[n // 2] = None
    return found


@every_algorithm
@pytest.mark.parametrize("history", ["full", 3, None])
@pytest.mark.parametrize("n_symbols", [5, 5000])
def test_a_filter_that_settles_after_every_event_is_the_same_filter(
    n_symbols: int, history: int | str | None, algorithm: str
) -> None:
    twin = make_filter(algorithm, n_symbols, history=history)
    pf = make_filter(algorithm, n_symbols, history=history)
    for event in events(40, n_symbols):
        feed(twin, [event])
        feed(pf, [event])
        pf._core.settle()
        pf._core.verify()
        # To the last bit, and with the same records shared by the same particles.
        assert pf._core.snapshot() == twin._core.snapshot()
    assert_same(pf, laid_open(twin))


@every_algorithm
def test_settling_frees_the_work_space_of_steps(algorithm: str) -> None:
    pf = make_filter(algorithm, n_particles=1000, history=None)
    feed(pf, events(100))
    before = pf.memory()
    pf._core.settle()
    after = pf.memory()
    assert after.allocated < 0.8 * before.allocated
    assert (after.live, after.rows, after.shared_rows) == (
        before.live,
        before.rows,
        before.shared_rows,
    )
    pf._core.settle()
    assert pf.memory().allocated <= after.allocated


@every_algorithm
def test_a_long_run_settles_and_a_short_one_does_not(algorithm: str) -> None:
    symbols = [event for event in events(257) if not isinstance(event, str)]
    in_one, by_one = (make_filter(algorithm, n_particles=1000, history=None) for _ in range(2))
    assert len(symbols) == 256
    in_one.run(symbols)
    by_one.run(symbols[:1])
    by_one.run(symbols[1:])
    for pf in (in_one, by_one):
        pf.run(symbols[:20])  # the rest ends some steps after the 512 at which all settle
    in_one.run(symbols)
    by_one.run(symbols[:255])
    by_one.run(symbols[255:])
    assert in_one._core.n_steps == by_one._core.n_steps
    # Whatever the algorithm, a step works with more than 40 bytes a particle.
    assert sys.getsizeof(in_one) + 40 * 1000 < sys.getsizeof(by_one)
    assert in_one._core.snapshot() == by_one._core.snapshot()


@every_algorithm
@pytest.mark.parametrize("n_symbols", [5, 5000])
def test_settling_without_memory_changes_nothing(n_symbols: int, algorithm: str) -> None:
    twin = make_filter(algorithm, n_symbols)
    feed(twin, events(60, n_symbols))
    seen = laid_open(twin)
    later = events(20, n_symbols)
    done = twin.copy()
    feed(done, later)
    for n in range(10):  # more allocations than settling needs
        pf = twin.copy()
        feed(pf, later[:1])  # allocates work space
        there = pf.copy()
        pf._core._fail_allocation_after(n)
        pf._core.settle()
        pf._core._fail_allocation_after(-1)
        pf._core.verify()
        assert pf._core.snapshot() == there._core.snapshot()
        feed(pf, later[1:])
        assert pf._core.snapshot() == done._core.snapshot()
    assert_same(twin, seen)


@pytest.mark.parametrize("algorithm", ["VPA", "MD-VPA", "OptimalResampling", "SMC"])
@pytest.mark.parametrize("history", ["full", 20, 1])
def test_nodes_of_histories_move_together(history: int | str, algorithm: str) -> None:
    twin = make_filter(algorithm, n_particles=2000, history=history)
    pf = make_filter(algorithm, n_particles=2000, history=history)
    n_packed = 0
    for n, event in enumerate(events(120)):
        feed(twin, [event])
        feed(pf, [event])
        if n % 20 == 19:
            pf._core.settle()
            pf._core.verify()
            assert pf._core.snapshot() == twin._core.snapshot()
            node = 20 if history != "full" else 12  # bytes
            n_packed += sys.getsizeof(twin.copy()) - sys.getsizeof(pf.copy()) > 1000 * node
    for k in range(0, len(pf.weights), 100):
        np.testing.assert_array_equal(pf.path(k), twin.path(k))
    if history == "full" or algorithm != "SMC":  # which has few nodes otherwise
        assert n_packed > 0
