"""Keys through saving, copying, failures, ends of sequences and lack of memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import pytest

import mdvpf
from tests.algorithms import EVERY_ALGORITHM
from tests.kernel.inspecting import assert_same, laid_open
from tests.kernel.keyed import End, KeyedFilter, Use
from tests.kernel.sealing import PREFIX, loaded, saved
from tests.kernel.test_keys_against_reference import MODELS, interleaved

V = 4
K = 6

every_algorithm = pytest.mark.parametrize("algorithm", EVERY_ALGORITHM)


def make(
    algorithm: str = "VPA",
    events: Iterable[Use | End] = (),
    *,
    model: str = "classic",
    history: Any = "full",
    n_threads: int = 1,
    n_spare: int = 1,
    n_particles: int = K,
) -> KeyedFilter:
    """Return a filter that was fed; the rounds of its stretches are as short as possible."""
    pf = mdvpf.ParticleFilter(
        mdvpf.InfiniteHMM(V, beta=0.1, gamma=3.0, **MODELS[model]),
        EVERY_ALGORITHM[algorithm],
        n_particles,
        rng=5,
        history=history,
        n_threads=n_threads,
    )
    pf._core._settle_every(2)
    pf._core._free_stretches(n_spare)
    keyed = KeyedFilter(pf)
    feed(keyed, events)
    return keyed


def feed(keyed: KeyedFilter, events: Iterable[Use | End]) -> None:
    for event in events:
        if isinstance(event, End):
            keyed.new_sequence(event.key)
        else:
            keyed.update(event.symbol, event.key)


def seen(keyed: KeyedFilter) -> dict[str, Any]:
    """All visible state of a filter, with the prediction of every key."""
    found = laid_open(keyed.pf)
    for key in (None, "never used", *keyed.numbers):
        found[f"prediction of {key}"] = keyed.predict_proba(key).tobytes()
    return found


MANY = interleaved(1, 90, V, n_keys=40, missing=0.05, breaks=0.05)
FEW = interleaved(2, 20, V, n_keys=3, missing=0.1, breaks=0.1)
LATER = interleaved(3, 25, V, n_keys=40, missing=0.1, breaks=0.1)


# --- One key is what it was


def test_a_system_with_one_key_has_no_positions() -> None:
    plain = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(V), mdvpf.VPA(), K)
    plain.run([0, 1, 2, 0, 1])
    before = plain._core.snapshot()
    live = plain.memory().live
    out = np.empty(V)
    plain._core.predict(out, 7)
    plain._core.new_sequence(np.empty(0), 7)
    assert plain._core.snapshot() == before
    assert plain.memory().live == live
    assert len(before[-1]) == 17  # as in files of version 1


def test_prediction_for_an_unused_key_is_that_of_a_new_sequence() -> None:
    for algorithm in EVERY_ALGORITHM:
        keyed = make(algorithm, [Use(symbol) for symbol in (0, 1, 2, 0, 0, 1)])
        expected = keyed.predict_proba("never used")
        if keyed.core.pending:  # the end of the sequence completes the step, by another rule
            assert expected.sum() == pytest.approx(1.0)
            continue
        keyed.new_sequence(None)
        assert np.array_equal(expected, keyed.predict_proba(None))


@every_algorithm
@pytest.mark.parametrize("model", ["classic", "mealy"])
def test_the_number_of_a_key_does_not_matter(algorithm: str, model: str) -> None:
    symbols = [0, 1, 2, 0, None, 1, 3, 3, 0, 1]
    plain = make(algorithm, [Use(symbol) for symbol in symbols], model=model)
    named = make(algorithm, [Use(symbol, "a") for symbol in symbols], model=model)
    assert_same(named.pf, {**laid_open(plain.pf), "prediction": named.pf.predict_proba().tobytes()})
    assert np.array_equal(named.predict_proba("a"), plain.predict_proba())


# --- Copies, threads, chunks, settling


@every_algorithm
def test_a_copy_continues_as_the_original_does(algorithm: str) -> None:
    keyed = make(algorithm, MANY)
    before = seen(keyed)
    twin = copied(keyed)
    feed(twin, LATER)
    assert seen(keyed) == before  # nothing is shared with the copy
    feed(keyed, LATER)
    assert seen(keyed) == seen(twin)
    twin.core.verify()


@every_algorithm
@pytest.mark.parametrize("model", MODELS)
def test_threads_give_the_same_bits(algorithm: str, model: str) -> None:
    one = make(algorithm, MANY, model=model, n_particles=20)
    three = make(algorithm, MANY, model=model, n_particles=20, n_threads=3)
    assert seen(one) == seen(three)


@pytest.mark.parametrize("algorithm", ["VPA", "MD-VPA", "MD-VPA bold"])
def test_a_chunk_is_its_symbols_one_by_one(algorithm: str) -> None:
    keyed, chunk = make(algorithm), make(algorithm)
    rows: list[tuple[int, int, int]] = []  # symbol, key that ends before it, key
    ended = -1
    for event in MANY:
        if isinstance(event, Use):
            rows.append(
                (-1 if event.symbol is None else event.symbol, ended, keyed.number(event.key))
            )
            keyed.update(event.symbol, event.key)
            ended = -1
        elif ended < 0:  # at most one ends before a symbol
            ended = keyed.number(event.key)
            keyed.new_sequence(event.key)
    symbols, ends, numbers = (np.array(column, np.int32) for column in zip(*rows, strict=True))
    discounts = np.zeros(len(rows))
    how = keyed.pf.algorithm
    if isinstance(how, mdvpf.MDVPA):  # of the step that a symbol completes
        discounts[1:] = how.discounts(np.arange(1, len(rows)))
    reports, progress = np.empty((len(rows), 6)), np.zeros(2, np.int64)
    chunk.core.advance(symbols, ends, discounts, np.empty(0), reports, progress, numbers)
    chunk.numbers = dict(keyed.numbers)
    assert seen(chunk) == seen(keyed)


@every_algorithm
@pytest.mark.parametrize("model", ["classic", "mealy"])
def test_settling_changes_nothing_that_is_seen(algorithm: str, model: str) -> None:
    keyed = make(algorithm, MANY, model=model)
    before = seen(keyed)
    keyed.core.settle()
    keyed.core.verify()
    assert seen(keyed) == before


@every_algorithm
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("events", [FEW, MANY], ids=["few", "many"])
def test_a_restored_core_continues_as_the_original_does(
    events: list[Use | End], model: str, algorithm: str
) -> None:
    keyed = make(algorithm, events, model=model)
    twin = make(algorithm, events, model=model)
    twin.reload()
    twin.core.verify()
    assert seen(twin) == seen(keyed)
    twin.core._free_stretches(1)
    feed(keyed, LATER)
    feed(twin, LATER)
    twin.core.verify()
    assert seen(twin) == seen(keyed)
    assert twin.core._n_stretches == keyed.core._n_stretches


# --- Files


@pytest.mark.parametrize(("model", "version"), [("classic", 2), ("mealy", 2)])
def test_a_file_of_a_filter_with_keys_is_of_version_2(model: str, version: int) -> None:
    keyed = make("VPA", MANY, model=model)
    content = saved(keyed.pf)
    assert PREFIX.unpack(content[: PREFIX.size])[1] == version
    twin = KeyedFilter(loaded(content))
    twin.numbers = dict(keyed.numbers)
    assert seen(twin) == seen(keyed)
    assert saved(twin.pf) == content


def test_a_file_of_a_filter_that_only_ended_other_keys_is_of_version_1() -> None:
    keyed = make("VPA", [Use(0), End("a"), Use(1), End("b")])
    keyed.predict_proba("a")
    content = saved(keyed.pf)
    assert PREFIX.unpack(content[: PREFIX.size])[1] == 1


# --- Sharing


def test_old_positions_are_shared_by_all_particles() -> None:
    keyed = make("VPA", n_particles=50, n_spare=16, history=None)
    rng = np.random.default_rng(0)
    for i in range(600):
        keyed.update(int(rng.integers(V)), f"key {i}")
    few = keyed.pf.memory().live
    for i in range(600, 1800):
        keyed.update(int(rng.integers(V)), f"key {i}")
    # Not 50 particles times 1,200 labels of four bytes.
    assert keyed.pf.memory().live - few < 100_000
    keyed.core.verify()


def test_keys_that_come_and_go_leave_no_room_behind() -> None:
    keyed = make("VPA", n_spare=16, history=None)
    rng = np.random.default_rng(0)
    live = []
    for i in range(4000):
        keyed.update(int(rng.integers(V)), f"key {i}")
        if i >= 30:
            keyed.new_sequence(f"key {i - 30}")
        if i in (1000, 3999):
            live.append(keyed.pf.memory().live)
    assert len(keyed.numbers) == 30
    assert keyed.core._n_stretches <= 2 * 4 + 16
    assert live[1] - live[0] < 4 * 2999  # no label is kept of a key that was ended
    keyed.core.verify()


def test_keys_used_in_turn_need_no_trees() -> None:
    # Up to sixteen keys have their addresses in the open stretch, which lies in the blocks.
    keyed = make("VPA", n_spare=16, history=None)
    for i in range(2000):
        keyed.update(i % V, f"key {i % 15}")
    assert "no tree" in keyed.core.state_text()


def test_a_tree_grows_and_shrinks_with_the_keys() -> None:
    keyed = make("VPA", n_spare=1, history=None, n_particles=3)
    rng = np.random.default_rng(0)
    for i in range(700):
        keyed.update(int(rng.integers(V)), i)
    keyed.core.verify()
    many = keyed.core._n_stretches
    assert many > 40
    predicted = {key: keyed.predict_proba(key) for key in range(690, 700)}
    for i in range(690):
        keyed.new_sequence(i)
    for key, expected in predicted.items():
        assert np.array_equal(keyed.predict_proba(key), expected)
    for i in range(700, 700 + 16 * many):  # until the round is over
        keyed.update(int(rng.integers(V)), i)
        keyed.new_sequence(i - 1)
    keyed.core.verify()
    assert keyed.core._n_stretches <= many


@every_algorithm
def test_siblings_write_positions_of_their_own(algorithm: str) -> None:
    # Particles that share a tree go on with different labels, at the same address.
    keyed = make(algorithm, MANY, n_particles=30)
    feed(keyed, LATER)
    keyed.core.verify()
    for k in range(len(keyed.pf.weights)):
        path = keyed.pf.path(k)
        assert keyed.pf.states[k] in (-1, path[-1])


# --- Running out of memory


MOMENTS: dict[str, tuple[list[Use | End], Use | End]] = {
    "first key, first symbol": ([], Use(0, "a")),
    "second key": ([Use(0), Use(1), Use(0)], Use(1, "a")),
    "back to a key": (FEW, Use(1, "key 0")),
    "the same key again": ([*FEW, Use(0, "key 0")], Use(1, "key 0")),
    "missing symbol of a key": (FEW, Use(None, "key 1")),
    "new key among many": (MANY, Use(1, "new")),
    "end of a key": (MANY, End("key 3")),
    "a stretch is full": ([Use(i % V, i) for i in range(16)], Use(1, "new")),
    "a round is over": ([Use(i % V, i) for i in range(16 * 3)], Use(1, "new")),
}


def copied(keyed: KeyedFilter) -> KeyedFilter:
    """Return a copy, which has no work space yet."""
    twin = KeyedFilter(keyed.pf.copy())
    twin.numbers = dict(keyed.numbers)
    return twin


def n_failures(start: Callable[[], KeyedFilter], event: Use | End) -> int:
    """Let every allocation of an event fail in turn; return how many there were."""
    before, twin = seen(start()), start()
    feed(twin, [event])
    after = seen(twin)
    for n in range(1000):
        keyed = start()
        keyed.core._fail_allocation_after(n)
        try:
            feed(keyed, [event])
        except MemoryError:
            keyed.core._fail_allocation_after(-1)
            keyed.core.verify()
            assert seen(keyed) == before
            feed(keyed, [event])
            assert seen(keyed) == after
        else:
            keyed.core._fail_allocation_after(-1)
            assert seen(keyed) == after
            return n
    raise AssertionError("the call allocates without end")


@every_algorithm
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("model", ["classic", "mealy"])
def test_a_failed_allocation_leaves_all_keys_as_they_were(
    moment: str, algorithm: str, model: str
) -> None:
    events, last = MOMENTS[moment]
    fed = make(algorithm, events, model=model)
    n_fresh = n_failures(partial(copied, fed), last)
    # The end of a key allocates only where it completes a step.
    assert n_fresh > 10 or (isinstance(last, End) and not fed.core.pending)
    assert n_failures(partial(make, algorithm, events, model=model), last) <= n_fresh


@pytest.mark.parametrize("model", ["classic", "mealy"])
@pytest.mark.parametrize("algorithm", ["VPA", "MD-VPA optimal"])
def test_saving_and_loading_survive_failed_allocations(model: str, algorithm: str) -> None:
    keyed = make(algorithm, MANY, model=model)
    before = seen(keyed)
    taken = fails_then_works(keyed.core, keyed.core.snapshot)
    assert seen(keyed) == before
    fresh = make(algorithm, model=model)
    restored = fails_then_works(fresh.core, lambda: fresh.core.restored(*taken))
    restored.verify()


def fails_then_works(core: Any, call: Callable[[], Any]) -> Any:
    """Let every allocation of a call fail in turn; return its final result."""
    for n in range(1000):
        core._fail_allocation_after(n)
        try:
            found = call()
        except MemoryError:
            core._fail_allocation_after(-1)
            core.verify()
        else:
            core._fail_allocation_after(-1)
            assert n > 0
            return found
    raise AssertionError("the call allocates without end")


# --- What is refused, and what is shown


def test_a_negative_number_is_refused() -> None:
    core = make("VPA").core
    for call in (
        lambda: core.absorb(0, 0.0, np.empty(0), -1),
        lambda: core.new_sequence(np.empty(0), -2),
        lambda: core.predict(np.empty(V), -1),
    ):
        with pytest.raises(ValueError, match="number=-"):
            call()
    with pytest.raises(ValueError, match="number of symbol 1 is negative"):
        core.advance(
            np.zeros(2, np.int32),
            np.full(2, -1, np.int32),
            np.zeros(2),
            np.empty(0),
            np.empty((2, 6)),
            np.zeros(2, np.int64),
            np.array([0, -1], np.int32),
        )
    assert core.n_steps == 0


def test_the_text_of_a_state_shows_the_positions_of_keys() -> None:
    text = make("VPA", [Use(0, "a"), Use(1, "b"), Use(0, "a")]).core.state_text()
    assert "2 keys, 1 is active" in text
    assert "key 1 in state" in text
    assert "key 2 in state" in text
