"""The compiled trees: hazards of memory, of deletion, of threads, of arrays that are no tree."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import mdvpf
from mdvpf.baselines._tree import Context, CountTree
from mdvpf.baselines.context_predictor import ContextPredictor, dump_tree
from tests.kernel.inspecting import BREAK, Event, feed
from tests.kernel.sealing import loaded, saved

V = 4
MAKERS: dict[str, Callable[[], ContextPredictor]] = {
    "markov 0": lambda: mdvpf.Markov(V, 0),
    "markov 3": lambda: mdvpf.Markov(V, 3, decay=1e-40),
    "context tree": lambda: mdvpf.ContextTree(V, 3),
    "tree": lambda: mdvpf.PitmanYorTree(V, 4),
    "bounded": lambda: mdvpf.PitmanYorTree(V, 3, max_nodes=8),
    "mixture": lambda: mdvpf.PitmanYorMixture(V, [1, 3], [0.5, 0.9]),
    "bounded mixture": lambda: mdvpf.PitmanYorMixture(V, [0, 3], max_nodes=9),
}
every = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
STREAM: list[Event] = [
    0, 1, 0, 2, 3, None, 1, 1, 2, BREAK, 3, 0, 1, 0, 2, 0, 0, BREAK, 2, 3, 1, 0, 3, 2, 2, 1, 0, 1,
]  # fmt: skip


def fail_after(predictor: ContextPredictor, n: int) -> None:
    predictor._tree._fail_allocation_after(n)
    predictor._context._fail_allocation_after(n)


def failures(
    make: Callable[[], ContextPredictor], call: Callable[[ContextPredictor], Any]
) -> Iterator[ContextPredictor]:
    """Yield a predictor for each allocation of the call, after the call has failed there.

    The tree and its contexts have separate counters, so that each fails while the other does not.
    """
    for part in ("_tree", "_context"):
        for n in range(100):
            predictor = make()
            getattr(predictor, part)._fail_allocation_after(n)
            try:
                call(predictor)
            except MemoryError:
                fail_after(predictor, -1)
                predictor._tree.verify()
                yield predictor
            else:
                break
        else:
            raise AssertionError("the call allocates without end")


# --- Failures of allocation


def begun(make: Callable[[], ContextPredictor], events: list[Event]) -> ContextPredictor:
    predictor = make()
    feed(predictor, events)
    return predictor


@every
@pytest.mark.parametrize("copied", [False, True], ids=["as it grew", "without spare room"])
def test_a_failed_update_changes_nothing(
    make: Callable[[], ContextPredictor], copied: bool
) -> None:
    n_failures = 0
    for n, event in enumerate(STREAM):
        twin = begun(make, STREAM[:n])
        before = saved(twin)
        start = twin.copy().copy if copied else partial(begun, make, STREAM[:n])
        feed(twin, [event])
        for failed in failures(start, partial(feed, events=[event])):
            n_failures += 1
            assert saved(failed) == before
            feed(failed, [event])
            assert saved(failed) == saved(twin)
            np.testing.assert_array_equal(failed.predict_proba(), twin.predict_proba())
    assert n_failures > 5


@every
def test_a_failed_run_stops_between_two_symbols(make: Callable[[], ContextPredictor]) -> None:
    symbols = [1, 1, 3, None, 2, 0, 3, 3, 1, 2, 0, 1]
    lengths = [5, 7]
    states = [saved(make())]
    twin = make()
    for n, symbol in enumerate(symbols):
        if n in (0, 5):
            twin.new_sequence()
            states.append(saved(twin))
        twin.update(symbol)
        states.append(saved(twin))
    n_failures = 0
    for failed in failures(make, lambda p: p.run(symbols, lengths)):
        n_failures += 1
        assert saved(failed) in states
    assert n_failures > 3


@every
def test_a_failed_copy_leaves_the_original_and_no_copy(
    make: Callable[[], ContextPredictor],
) -> None:
    expected = saved(begun(make, STREAM))
    n_failures = 0
    for failed in failures(partial(begun, make, STREAM), lambda p: p.copy()):
        n_failures += 1
        assert saved(failed) == expected
    assert n_failures >= 6


@every
def test_a_failed_prediction_changes_nothing(make: Callable[[], ContextPredictor]) -> None:
    predictor = begun(make, STREAM)
    expected = saved(predictor)
    n_failures = 0
    for failed in failures(predictor.copy, lambda p: p.predict_proba()):
        n_failures += 1
        assert saved(failed) == expected
    assert n_failures > 0


# --- Tables that grow, and from which nodes and entries are taken


@pytest.mark.parametrize("max_nodes", [6, 40, 300])
@pytest.mark.parametrize("n_symbols", [2, 30])
def test_tables_stay_in_order_while_nodes_come_and_go(n_symbols: int, max_nodes: int) -> None:
    rng = np.random.default_rng(max_nodes)
    tree = mdvpf.PitmanYorTree(n_symbols, 5, max_nodes=max_nodes)
    for _ in range(60):
        length = int(rng.integers(1, 30))
        tree.run(rng.integers(0, n_symbols, length), [length])
        tree._tree.verify()
        assert tree._tree.n_nodes <= max_nodes
    twin = loaded(saved(tree))
    twin._tree.verify()
    ahead = rng.integers(0, n_symbols, 300)
    np.testing.assert_array_equal(twin.run(ahead).log_predictive, tree.run(ahead).log_predictive)
    assert saved(twin) == saved(tree)


def test_a_large_tree_finds_every_entry() -> None:
    symbols = np.random.default_rng(0).integers(0, 300, 20_000)
    tree = mdvpf.PitmanYorTree(300, 3)
    tree.run(symbols)
    tree._tree.verify()
    # Each context of three symbols that occurred, and of fewer, the empty one included.
    found = {tuple(symbols[i - d : i]) for d in range(4) for i in range(d, len(symbols))}
    assert tree._tree.n_nodes == len(found)


def test_a_context_longer_than_any_before_it_gets_room() -> None:
    tree = mdvpf.PitmanYorTree(2, depth=2**31 - 2)
    symbols = np.random.default_rng(0).integers(0, 2, 400)
    tree.run(symbols)
    assert tree._context.symbols() == symbols[::-1].tolist()
    tree._tree.verify()


# --- Threads


@every
def test_two_threads_cannot_use_a_predictor_at_once(make: Callable[[], ContextPredictor]) -> None:
    predictor = make()
    symbols = np.random.default_rng(0).integers(0, V, 500_000)
    errors: list[str] = []

    def attempt(call: Callable[[Any], Any], argument: Any) -> None:
        try:
            call(argument)
        except RuntimeError as error:  # one of the two gets the error, if they meet at all
            errors.append(str(error))

    running = threading.Thread(target=attempt, args=(predictor.run, symbols))
    running.start()
    while running.is_alive() and not errors:
        attempt(predictor.update, 0)
    running.join()
    assert all("in use by another thread" in error for error in errors)
    predictor._tree.verify()


@every
def test_copies_of_a_frozen_predictor_are_read_by_several_threads(
    make: Callable[[], ContextPredictor],
) -> None:
    predictor = make()
    feed(predictor, STREAM)
    frozen = predictor.freeze()
    symbols = np.random.default_rng(0).integers(0, V, 100_000)
    expected = frozen.score(symbols)
    found: list[Any] = [None, None]

    def score(i: int, own: Any) -> None:
        found[i] = own.run(symbols).log_predictive

    threads = [threading.Thread(target=score, args=(i, frozen.copy())) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for each in found:
        np.testing.assert_array_equal(each, expected)


# --- Arguments that the Python side never passes


def plain_tree(max_nodes: int = 0) -> CountTree:
    return CountTree(
        kind=2,
        n_symbols=V,
        depth=2,
        beta=1.0,
        decay=1.0,
        share=0.0,
        pairs=np.array([[0.8, 0.3]]),
        depths=np.array([2]),
        max_nodes=max_nodes,
        max_entries=0,
        is_open=False,
        base_strength=1.0,
        base_discount=0.5,
    )


def test_arrays_of_the_wrong_size_are_refused() -> None:
    tree, context = plain_tree(), Context(2)
    with pytest.raises(ValueError, match="one entry for each symbol"):
        tree.predict(context, np.empty((1, V + 1)))
    with pytest.raises(ValueError, match="expected the same length"):
        tree.advance(context, np.zeros(2, "i4"), np.full(1, -1, "i4"), True, np.empty((2, 6)))
    with pytest.raises(ValueError, match=r"symbols\[1\]=4"):
        tree.advance(context, np.array([0, V], "i4"), np.full(2, -1, "i4"), True, np.empty((2, 6)))
    with pytest.raises(ValueError, match="symbol=-2"):
        tree.absorb(context, -2, True)
    with pytest.raises(ValueError, match="one entry for each setting"):
        tree.log_weights(np.empty(2))
    with pytest.raises(ValueError, match="one entry for each setting"):
        tree.set_log_weights(np.empty(2))
    with pytest.raises(ValueError, match="at most 2"):
        context.replace([0, 0, 0])
    with pytest.raises(TypeError):
        tree.predict(None, np.empty((1, V)))  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="once"):
        tree.__init__(  # type: ignore[misc]
            kind=2, n_symbols=V, depth=2, beta=1.0, decay=1.0, share=0.0,
            pairs=np.array([[0.8, 0.3]]), depths=np.array([2]), max_nodes=0, max_entries=0,
            is_open=False, base_strength=1.0, base_discount=0.5,
        )  # fmt: skip
    with pytest.raises(ValueError, match="pairs"):
        CountTree(
            kind=2, n_symbols=V, depth=2, beta=1.0, decay=1.0, share=0.0,
            pairs=np.empty((0, 2)), depths=np.array([2]), max_nodes=0, max_entries=0,
            is_open=False, base_strength=1.0, base_discount=0.5,
        )  # fmt: skip
    tree.verify()


@pytest.mark.parametrize("max_nodes", [0, 30])
def test_arrays_that_make_no_tree_are_refused(max_nodes: int) -> None:
    """Random changes: refused, or a valid tree except for its sums and types."""
    tree, context = plain_tree(max_nodes), Context(2)
    for symbol in np.random.default_rng(0).integers(0, V, 40).tolist():
        tree.absorb(context, symbol, True)
    rng = random.Random(3)
    n_refused = 0
    for _ in range(500):
        dump = dump_tree(tree, 1, 1)
        for array in rng.sample(dump, rng.choice([0, 1, 2])):
            flat = array.reshape(-1)
            for _ in range(rng.choice([1, 3])):
                flat[rng.randrange(len(flat))] = rng.choice([0, 1, 2, V, 40, 2**31 - 1])
        other = plain_tree(max_nodes)
        try:
            other.fill(*dump)
        except ValueError:
            n_refused += 1
            continue
        for symbol in (0, 3, -1, 1, 2, 2):
            other.absorb(context, symbol, True)
        other.predict(context, np.empty((1, V)))
        other.copy()
        with pytest.raises(ValueError, match="seen nothing"):
            other.fill(*dump)
    assert 50 < n_refused < 500


def test_the_last_distribution_of_a_chunk_must_fit_its_array() -> None:
    tree = mdvpf.PitmanYorTree(None, depth=2)
    tree.run([0, 1, 2])
    memory = np.full(8, -1.0)
    known = np.zeros(1, np.int32)  # before a known symbol, too, a new one is possible: 4 entries
    arguments = (tree._context, known, known - 1, True, np.empty((1, 6)), None)
    with pytest.raises(ValueError, match="distributions"):
        tree._tree.advance(*arguments, memory[:3].reshape(1, 1, 3))
    assert (memory == -1.0).all()
    expected = tree.predict_proba()
    tree._tree.advance(*arguments, memory[:4].reshape(1, 1, 4))
    np.testing.assert_allclose(memory[:4], expected, rtol=0, atol=1e-15)
    assert (memory[4:] == -1.0).all()
