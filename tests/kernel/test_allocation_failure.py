"""A failed allocation leaves the filter unchanged, wherever in a call it happens.

Every allocation of a call fails in turn, until the call needs no more. After each failure the
filter is compared, to the last bit, with its earlier state, and the repeated call with that of a
twin without a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest

import mdvpf
from tests.algorithms import EVERY_ALGORITHM
from tests.kernel.inspecting import BREAK, Event, assert_same, feed, laid_open, n_absorbed
from tests.kernel.sealing import reloaded

V = 5
K = 6
LATER: list[Event] = [2, None, 0, BREAK, 4, 4]

every_algorithm = pytest.mark.parametrize("algorithm", EVERY_ALGORITHM)
every_history = pytest.mark.parametrize("history", ["full", 3])

# The events before, and the events during which memory runs out.
STREAM: list[int] = [0, 0, 1, 0, 2, 2, 1, 0, 3, 3, 1, 4, 0, 0, 2, 1, 3, 4, 4, 0]
MOMENTS: dict[str, tuple[list[Event], Event]] = {
    "first symbol": ([], 0),
    "second symbol": ([0], 1),
    "growing population": ([0, 0], 1),
    "steady state": (list(STREAM), 1),
    "first missing symbol": (list(STREAM), None),
    "after a missing symbol": ([*STREAM, None], 2),
    "first symbol of a sequence": ([*STREAM, BREAK], 2),
}


def make_filter(
    algorithm: str, history: int | str | None, n_symbols: int = V, **model: Any
) -> mdvpf.ParticleFilter:
    pf = mdvpf.ParticleFilter(
        mdvpf.InfiniteHMM(n_symbols, **{"beta": 0.1, "gamma": 3.0, **model}),
        EVERY_ALGORITHM[algorithm],
        K,
        rng=5,
        history=history,
    )
    pf._core._settle_every(2)  # which needs memory too
    return pf


def failures(
    make: Callable[[], mdvpf.ParticleFilter], call: Callable[[mdvpf.ParticleFilter], Any]
) -> Iterator[mdvpf.ParticleFilter]:
    """Yield a filter for each allocation of the call, after the call has failed there."""
    for n in range(1000):
        pf = make()
        pf._core._fail_allocation_after(n)
        try:
            call(pf)
        except MemoryError:
            pf._core._fail_allocation_after(-1)
            pf._core.verify()
            yield pf
        else:
            return
    raise AssertionError("the call allocates without end")


def assert_survives_failures(
    make: Callable[[], mdvpf.ParticleFilter],
    call: Callable[[mdvpf.ParticleFilter], Any],
    *,
    later: Sequence[Event] = LATER,
    reloads: bool = False,
) -> int:
    """Check that no failure of the call changes anything; return the number of failures.

    With `reloads` a file that is saved after the failure is checked too.
    """
    twin = make()
    before = laid_open(twin)
    call(twin)
    after = laid_open(twin)
    feed(twin, later)
    last = laid_open(twin)
    n_failures = 0
    for pf in failures(make, call):
        n_failures += 1
        assert_same(pf, before)
        if reloads:
            assert_same(reloaded(pf), before)
        call(pf)
        assert_same(pf, after)
        pf._core.verify()
        feed(pf, later)
        assert_same(pf, last)
    return n_failures


def fed(algorithm: str, history: int | str | None, events: list[Event], **model: Any) -> Any:
    """Return a function that makes a filter and feeds it; the filter keeps its work space."""

    def make() -> mdvpf.ParticleFilter:
        pf = make_filter(algorithm, history, **model)
        feed(pf, events)
        return pf

    return make


def updated(pf: mdvpf.ParticleFilter, symbol: Any) -> None:
    pf.update(symbol)


def copied(pf: mdvpf.ParticleFilter) -> Callable[[], mdvpf.ParticleFilter]:
    """Return a function that copies a filter; a copy allocates its own work space."""
    return pf.copy


# --- update


@pytest.mark.one_in(2)
@every_algorithm
@every_history
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_failed_update_changes_nothing(
    moment: str, history: int | str | None, algorithm: str
) -> None:
    before, symbol = MOMENTS[moment]
    make = fed(algorithm, history, before)
    n_fresh = assert_survives_failures(copied(make()), lambda pf: pf.update(symbol))
    assert n_fresh > 10  # a copy has no work space yet
    n_grown = assert_survives_failures(make, lambda pf: pf.update(symbol))
    assert n_grown <= n_fresh


@every_algorithm
@every_history
def test_a_failed_update_that_opens_a_state_changes_nothing(
    history: int | str | None, algorithm: str
) -> None:
    # Work space and blocks grow when a particle gets more states than any had before.
    make_twin = fed(algorithm, history, [], alpha=50.0, gamma=50.0)
    twin = make_twin()
    n_failures = 0
    n_openings = 0
    most = 0
    for n, symbol in enumerate(STREAM):
        twin.update(symbol)
        if int(twin.n_states.max()) > most:
            most = int(twin.n_states.max())
            n_openings += 1
            make = fed(algorithm, history, list(STREAM[:n]), alpha=50.0, gamma=50.0)
            n_failures += assert_survives_failures(make, partial(updated, symbol=symbol))
    assert n_openings > 4
    assert n_failures > 10


def check_failures(
    pf: mdvpf.ParticleFilter, twin: mdvpf.ParticleFilter, symbols: list[int | None]
) -> None:
    """Let every allocation of every step fail once; the filter stays the same as its twin."""
    n_failures = 0
    for symbol in symbols:
        before = laid_open(twin)
        for n in range(1000):
            pf._core._fail_allocation_after(n)
            try:
                pf.update(symbol)
            except MemoryError:
                n_failures += 1
                pf._core._fail_allocation_after(-1)
                pf._core.verify()
                assert_same(pf, before)
            else:
                break
        pf._core._fail_allocation_after(-1)
        twin.update(symbol)
        pf._core.verify()
        assert_same(pf, laid_open(twin))
    assert n_failures > 10


@every_algorithm
@every_history
def test_a_filter_that_fails_over_and_over_is_the_same_filter(
    history: int | str | None, algorithm: str
) -> None:
    # In place: the next attempt reuses what a failed one reserved.
    pf = make_filter(algorithm, history, alpha=10.0)
    twin = make_filter(algorithm, history, alpha=10.0)
    check_failures(pf, twin, [*STREAM, None, *STREAM[::-1], None, *STREAM])


@pytest.mark.parametrize("algorithm", ["MD-VPA", "VPA", "SMC", "OptimalResampling"])
def test_a_failed_update_of_a_large_alphabet_changes_nothing(algorithm: str) -> None:
    # The tree of symbols has nodes of its own to allocate.
    events: list[Event] = [0, 4999, 2500, 0, 0, 77, 4095]
    n_failures = 0
    for n, symbol in enumerate(events):
        make = fed(algorithm, "full", events[:n], n_symbols=5000)
        n_failures += assert_survives_failures(make, partial(updated, symbol=symbol))
        n_fresh = assert_survives_failures(copied(make()), partial(updated, symbol=symbol))
        assert n_fresh > 10
    assert n_failures > 20


# --- The other calls


@every_algorithm
@every_history
def test_a_failed_new_sequence_changes_nothing(history: int | str | None, algorithm: str) -> None:
    pf = fed(algorithm, history, list(STREAM))()
    n_failures = assert_survives_failures(pf.copy, lambda pf: pf.new_sequence())
    if pf._core.pending:
        assert n_failures > 10
    else:
        assert n_failures == 0  # there is nothing to complete


@every_algorithm
@every_history
def test_a_failed_run_stops_between_two_symbols(history: int | str | None, algorithm: str) -> None:
    symbols = [1, 1, 3, None, 4, 0]
    lengths = [2, 3, 1]
    starts = (0, 2, 5)
    pf = fed(algorithm, history, list(STREAM))()
    expected = []  # per number of symbols: without a new sequence, or with it
    twin = pf.copy()
    for n, symbol in enumerate(symbols):
        states = [laid_open(twin)]
        if n in starts:
            twin.new_sequence()
            states.append(laid_open(twin))
        expected.append(states)
        twin.update(symbol)
    after = laid_open(twin)

    n_failures = 0
    for failed in failures(pf.copy, lambda pf: pf.run(symbols, lengths)):
        n_failures += 1
        n_done = n_absorbed(failed) - n_absorbed(pf)
        assert laid_open(failed) in expected[n_done]
        begun = laid_open(failed) == expected[n_done][-1]
        rest: list[Event] = []
        for n in range(n_done, len(symbols)):
            if n in starts and not (n == n_done and begun):
                rest.append(BREAK)
            rest.append(symbols[n])
        feed(failed, rest)
        assert_same(failed, after)
    assert n_failures > 10


@every_algorithm
@every_history
def test_a_failed_copy_leaves_the_original_and_no_copy(
    history: int | str | None, algorithm: str
) -> None:
    make = fed(algorithm, history, list(STREAM))
    assert assert_survives_failures(make, lambda pf: pf.copy()) > 10


@every_algorithm
@every_history
def test_a_failed_prediction_changes_nothing(history: int | str | None, algorithm: str) -> None:
    pf = fed(algorithm, history, list(STREAM))()
    assert assert_survives_failures(pf.copy, lambda pf: pf.predict_proba()) > 5


@every_algorithm
@every_history
def test_a_failed_score_changes_nothing(history: int | str | None, algorithm: str) -> None:
    make = fed(algorithm, history, list(STREAM))
    n_failures = assert_survives_failures(make, lambda pf: pf.score([1, None, 2], [2, 1]))
    assert n_failures > 10


@every_algorithm
def test_memory_is_the_same_whether_or_not_a_call_failed(algorithm: str) -> None:
    make = fed(algorithm, "full", list(STREAM))
    before = make().memory()
    n_failures = 0
    for pf in failures(make, lambda pf: pf.copy()):
        n_failures += 1
        assert pf.memory() == before
    assert n_failures > 10
    n_failures = 0
    for pf in failures(make().copy, lambda pf: pf.update(1)):
        n_failures += 1
        assert pf.memory().live == before.live
        assert pf.memory().rows == before.rows
        assert pf.memory().history_nodes == before.history_nodes
    assert n_failures > 10
