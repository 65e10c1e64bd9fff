"""Snapshots without memory, and snapshots of filters whose last call failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import mdvpf
from mdvpf import _core
from mdvpf.filter.core_arguments import algorithm_codes, model_codes
from mdvpf.filter.particle_filter import _lag
from tests.algorithms import EVERY_ALGORITHM
from tests.kernel.inspecting import BREAK, Event, assert_same, feed, laid_open
from tests.kernel.sealing import saved

STREAM: list[Event] = [0, 0, 1, None, 2, 2, 1, BREAK, 3, 3, 1, 4, 0, None, 1, 3, 4, 4, 0]
LATER: list[Event] = [2, None, 0, BREAK, 4, 4]
every_algorithm = pytest.mark.parametrize("algorithm", EVERY_ALGORITHM)
every_history = pytest.mark.parametrize("history", [None, 3, "full"])


def make_filter(
    algorithm: str, history: int | str | None, n_symbols: int = 5, n_particles: int = 6
) -> mdvpf.ParticleFilter:
    model = mdvpf.InfiniteHMM(n_symbols, beta=0.1, gamma=3.0)
    return mdvpf.ParticleFilter(
        model, EVERY_ALGORITHM[algorithm], n_particles, rng=5, history=history
    )


def fresh_core(pf: mdvpf.ParticleFilter) -> _core.ParticleSystem:
    """A core with the configuration of a filter, without symbols."""
    return _core.ParticleSystem(
        **model_codes(pf.model),
        **algorithm_codes(pf.algorithm),
        budget=pf.n_particles,
        lag=_lag(pf.history),
        n_threads=1,
    )


def failures(core: _core.ParticleSystem, call: Callable[[], Any]) -> Iterator[int]:
    """Make each allocation of the call fail in turn, until it needs no more of them."""
    for n in range(1000):
        core._fail_allocation_after(n)
        try:
            call()
        except MemoryError:
            core._fail_allocation_after(-1)
            yield n
        else:
            core._fail_allocation_after(-1)
            return
    raise AssertionError("the call allocates without end")


def assert_failed_restorations_change_nothing(pf: mdvpf.ParticleFilter) -> None:
    """Restore a filter with every allocation failing in turn, and in the end with none."""
    snapshot = pf._core.snapshot()
    fresh = fresh_core(pf)
    before = fresh.snapshot()
    allocated = fresh.memory()[1]
    n_failures = 0
    for _ in failures(fresh, lambda: fresh.restored(*snapshot)):
        n_failures += 1
        fresh.verify()
        assert fresh.snapshot() == before
    assert n_failures > 15
    assert fresh.memory()[1] == allocated
    twin = pf.copy()
    twin._core = fresh.restored(*snapshot)
    assert_same(twin, laid_open(pf))


@every_algorithm
@every_history
@pytest.mark.parametrize("n_symbols", [5, 300])
def test_a_failed_restoration_changes_nothing(
    algorithm: str, history: int | str | None, n_symbols: int
) -> None:
    pf = make_filter(algorithm, history, n_symbols)
    feed(pf, STREAM)
    assert_failed_restorations_change_nothing(pf)


@every_algorithm
@every_history
@pytest.mark.parametrize("n_symbols", [5, 300])
def test_a_failed_snapshot_changes_nothing(
    algorithm: str, history: int | str | None, n_symbols: int
) -> None:
    pf = make_filter(algorithm, history, n_symbols)
    feed(pf, STREAM)
    expected = pf._core.snapshot()
    before = pf._core.memory()
    n_failures = 0
    for _ in failures(pf._core, pf._core.snapshot):
        n_failures += 1
        assert pf._core.memory() == before
        pf._core.verify()
        before = pf._core.memory()
        assert pf._core.snapshot() == expected
    assert n_failures > 8


def test_a_save_without_memory_keeps_the_file(tmp_path: Any) -> None:
    pf = make_filter("MD-VPA", "full")
    feed(pf, STREAM)
    path = tmp_path / "filter"
    pf.save(path)
    content = path.read_bytes()
    for _ in failures(pf._core, lambda: pf.save(path)):
        assert path.read_bytes() == content


@pytest.mark.parametrize("algorithm", ["MD-VPA", "MD-VPA bold", "MD-VPA optimal"])
def test_a_filter_whose_last_call_failed_is_saved_as_before_it(algorithm: str) -> None:
    """The leftovers of a failed look-ahead must not reach the file."""
    pf = make_filter(algorithm, None, n_symbols=27, n_particles=600)
    symbols = (np.random.default_rng(1).zipf(1.3, 150) % 27).tolist()
    pf.run(symbols)
    assert sum(pf.n_states + 1) > 2000
    expected = saved(pf)
    calls: list[Callable[[mdvpf.ParticleFilter], Any]] = [
        lambda pf: pf.update(3),
        lambda pf: pf.update(None),
        lambda pf: pf.new_sequence(),
    ]
    for call in calls:
        n_failures = 0
        for n in range(1000):
            twin = pf.copy()  # which has no work space yet
            twin._core._fail_allocation_after(n)
            try:
                call(twin)
            except MemoryError:
                twin._core._fail_allocation_after(-1)
                assert saved(twin) == expected
                n_failures += 1
            else:
                break
        assert n_failures > 10


def test_only_a_fresh_system_is_restored() -> None:
    pf = make_filter("VPA", None)
    snapshot = pf._core.snapshot()
    feed(pf, [0])
    with pytest.raises(ValueError, match="seen nothing"):
        pf._core.restored(*snapshot)


def test_arguments_of_a_restoration_are_checked() -> None:
    pf = make_filter("VPA", None)
    core = pf._core
    n_steps, log_evidence, margin, _, sections = core.snapshot()
    wrong: list[tuple[Any, ...]] = [
        (-1, log_evidence, margin, None, sections),
        (n_steps, log_evidence, margin, 5, sections),
        (n_steps, log_evidence, margin, -2, sections),
        (n_steps, log_evidence, margin, None, sections[:-1]),
        (n_steps, log_evidence, margin, None, (*sections[:-1], "text")),
        (n_steps, log_evidence, margin, None, list(sections)),
        (n_steps, log_evidence, margin, None, (*sections[:-1], None)),
        (n_steps, log_evidence, margin, 1, sections),  # VPA holds nothing back
    ]
    for arguments in wrong:
        with pytest.raises((TypeError, ValueError)):
            core.restored(*arguments)
