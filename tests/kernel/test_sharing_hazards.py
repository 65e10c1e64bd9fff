"""Particles share their counts: every way in which a write to one could reach another.

Each test creates one situation, checks that it occurred, and recounts every particle from its path
and the symbols.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest

import mdvpf
from mdvpf.model.algorithms import Algorithm
from tests.algorithms import EVERY_ALGORITHM
from tests.kernel.inspecting import (
    BREAK,
    Event,
    assert_counts_follow_paths,
    assert_same,
    feed,
    laid_open,
    shown,
)
from tests.kernel.streams import random_symbols

every_algorithm = pytest.mark.parametrize("algorithm", EVERY_ALGORITHM)


def make_filter(
    algorithm: Algorithm | None = None, n_particles: int = 8, n_symbols: int = 4, **model: object
) -> mdvpf.ParticleFilter:
    return mdvpf.ParticleFilter(
        mdvpf.InfiniteHMM(n_symbols, **{"beta": 0.2, **model}),
        mdvpf.VPA() if algorithm is None else algorithm,
        n_particles,
        rng=3,
        history="full",
    )


def feed_and_recount(
    pf: mdvpf.ParticleFilter, events: Sequence[Event], before: Sequence[Event] = ()
) -> None:
    """Feed more events, and check all counts after each."""
    for n, event in enumerate(events):
        feed(pf, [event])
        assert_counts_follow_paths(pf, [*before, *events[: n + 1]])


def watch(
    pf: mdvpf.ParticleFilter,
    events: Sequence[Event],
    situation: Callable[[Sequence[np.ndarray]], bool],
) -> int:
    """Feed events, check all counts after each, and return how often the situation occurred.

    `situation` receives the parents of each step so far.
    """
    parents: list[np.ndarray] = []
    n_times = 0
    for n, event in enumerate(events):
        feed_and_recount(pf, [event], events[:n])
        parents.append(shown(pf).parents)
        n_times += situation(parents)
    return n_times


def n_children(parents: np.ndarray, n_before: int) -> np.ndarray:
    return np.bincount(parents, minlength=n_before)


# --- Forks


def test_writing_to_the_parent_after_the_fork_leaves_the_child_alone() -> None:
    # One child keeps the state and continues the line of its parent; the other opens a new state.
    pf = make_filter(n_particles=2)
    forks = watch(pf, [0] * 12, lambda past: len(past[-1]) == 2 and len(set(past[-1])) == 1)
    assert forks >= 1
    assert len({tuple(pf.path(k)) for k in range(2)}) == 2


def test_writing_to_one_of_two_siblings_leaves_the_other_alone() -> None:
    def siblings_go_different_ways(past: Sequence[np.ndarray]) -> bool:
        if len(past) < 2:
            return False
        twins = np.flatnonzero(n_children(past[-2], 8)[past[-2]] > 1)
        return len(set(twins) & set(past[-1])) >= 2

    pf = make_filter()
    assert watch(pf, random_symbols(1, 40, 4), siblings_go_different_ways) >= 5


def test_a_chain_of_forks_keeps_every_line_apart() -> None:
    def a_line_forks(past: Sequence[np.ndarray]) -> bool:
        return len(set(past[-1])) < len(past[-1])

    pf = make_filter(n_particles=6)
    assert watch(pf, random_symbols(2, 60, 4), a_line_forks) >= 30
    assert len({tuple(pf.path(k)) for k in range(6)}) == 6


def test_a_sibling_that_dies_first_takes_nothing_with_it() -> None:
    def one_sibling_died(past: Sequence[np.ndarray]) -> bool:
        if len(past) < 2:
            return False
        twins = np.flatnonzero(n_children(past[-2], 8)[past[-2]] == 2)
        alive = np.isin(twins, past[-1])
        return 0 < alive.sum() < len(twins)

    pf = make_filter()
    assert watch(pf, random_symbols(3, 40, 4), one_sibling_died) >= 5


def test_all_children_of_one_parent_are_kept_apart() -> None:
    def one_parent(past: Sequence[np.ndarray]) -> bool:
        return len(past[-1]) > 2 and len(set(past[-1])) == 1

    # A new symbol, and states that hardly emit symbols new to them: the drawn particle that opened
    # a new state gets all weight.
    pf = make_filter(mdvpf.SMC(), 30, beta=1e-7, alpha=0.3)
    symbols: list[Event] = [0] * 10 + [1] * 10 + [2, 3] * 10
    assert watch(pf, symbols, one_parent) >= 1


def test_every_child_of_a_parent_may_survive_at_once() -> None:
    def parent_keeps_all_states(past: Sequence[np.ndarray]) -> bool:
        return int(n_children(past[-1], 1).max()) >= 4

    pf = make_filter(n_particles=30, beta=5.0)
    assert watch(pf, random_symbols(4, 25, 4), parent_keeps_all_states) >= 1


@pytest.mark.parametrize(
    "algorithm", [name for name in EVERY_ALGORITHM if "without weights" not in name]
)
def test_a_population_that_collapses_grows_again_from_few_ancestors(algorithm: str) -> None:
    def n_distinct(stop: int | None) -> int:
        return len({tuple(pf.path(k)[:stop]) for k in range(len(pf.weights))})

    pf = make_filter(EVERY_ALGORITHM[algorithm], 20, beta=1e-3)
    events: list[Event] = [0] * 6
    feed_and_recount(pf, events)
    n_before = n_distinct(None)
    # A clear pattern leaves few ancestors. Missing symbols after it carry no information, so all
    # continuations of those few are as likely as their transitions.
    feed_and_recount(pf, [None, BREAK, *[1, 2, 3] * 12, *[None] * 4], events)
    assert n_distinct(6) <= n_before // 2
    assert n_distinct(None) > n_distinct(6)


@every_algorithm
def test_counts_follow_paths_through_missing_symbols_and_new_sequences(algorithm: str) -> None:
    pf = make_filter(EVERY_ALGORITHM[algorithm], 12)
    events: list[Event] = []
    for n, symbol in enumerate(random_symbols(7, 40, 4)):
        events += [BREAK] if n % 11 == 0 else []
        events.append(None if n % 5 == 2 else symbol)
    feed_and_recount(pf, events)


def test_children_that_made_the_same_move_share_everything() -> None:
    # The first move is the same for all, and writes one transition and one emission.
    pf = make_filter(mdvpf.SMC(), 40)
    assert pf.memory().rows == 0
    pf.update(0)
    assert pf.memory().rows == 2
    assert pf.memory().shared_rows == 2
    assert pf.memory().history_nodes == 1
    assert_counts_follow_paths(pf, [0])


@pytest.mark.parametrize("algorithm", [name for name in EVERY_ALGORITHM if "VPA" not in name])
def test_neighbours_that_made_the_same_moves_are_one_block(algorithm: str) -> None:
    # With a lag of one each block has one history node, and no other is left.
    model = mdvpf.InfiniteHMM(4, beta=0.2)
    pf = mdvpf.ParticleFilter(model, EVERY_ALGORITHM[algorithm], 50, rng=3, history=1)
    one_by_one = algorithm == "OptimalResampling"
    block = np.zeros(1 if one_by_one else 50, dtype=np.int64)
    n_shared = 0
    for symbol in random_symbols(12, 40, 4):
        pf.update(symbol)
        particles = shown(pf)
        moves = np.stack([block[particles.parents], particles.states], axis=1)
        differs = np.any(moves[1:] != moves[:-1], axis=1)
        block = np.concatenate([[0], np.cumsum(differs)])
        assert pf.memory().history_nodes == block[-1] + 1
        n_shared += bool(block[-1] + 1 < len(block))
        pf._core.verify()
    assert n_shared == 0 if one_by_one else n_shared > 20


# --- Counts that outgrow their width


def largest_count(pf: mdvpf.ParticleFilter) -> int:
    return max(int(pf.counts(k).emission.max()) for k in range(len(pf.weights)))


@pytest.mark.parametrize("limit", [256, 65536])
@pytest.mark.parametrize(
    ("name", "n_particles", "max_states"),
    [
        ("VPA", 1, 1),
        ("VPA", 2, 2),
        ("VPA", 3, 2),
        ("MD-VPA", 3, 2),
        ("SMC", 3, 1),
        ("SMC", 3, 2),
        ("OptimalResampling", 3, 2),
    ],
)
def test_counts_outgrow_their_width(
    name: str, n_particles: int, max_states: int, limit: int
) -> None:
    # With one state only the copies of SMC share; with two, particles that differ in a few steps
    # still share the other counts when one passes the limit.
    pf = make_filter(EVERY_ALGORITHM[name], n_particles, 2, max_states=max_states, alpha=0.01)
    n = 0
    length = limit - 2
    while length > 0:
        pf.run(np.zeros(length, dtype=np.int64))
        n += length
        length = limit - 2 - largest_count(pf)
    assert largest_count(pf) < limit
    for _ in range(5):
        pf.update(0)
        n += 1
        assert_counts_follow_paths(pf, [0] * n)
    assert largest_count(pf) >= limit
    pf._core.copy().verify()


@pytest.mark.parametrize("limit", [256, 65536])
def test_a_wide_count_and_a_narrow_one_part_from_the_same_row(limit: int) -> None:
    # At the limit one particle has two children: one increments the full count, the other another
    # count of the same row.
    pf = make_filter(n_particles=3, n_symbols=2, max_states=2, alpha=5.0, beta=50.0)
    events: list[Event] = [0] * (limit - 1)
    pf.run(np.zeros(limit - 1, dtype=np.int64))
    have_parted = False
    for symbol in [1, 0, 0] * 4:
        events.append(symbol)
        pf.update(symbol)
        assert_counts_follow_paths(pf, events)
        parents = shown(pf).parents
        counts = [int(pf.counts(k).transition[0, 0]) for k in range(3)]
        for one, other in itertools.permutations(range(3), 2):
            siblings = parents[one] == parents[other]
            have_parted |= siblings and (counts[one], counts[other]) == (limit, limit - 1)
    assert have_parted


# --- Many states, long rows


@every_algorithm
def test_more_than_255_states_in_one_particle(algorithm: str) -> None:
    pf = make_filter(EVERY_ALGORITHM[algorithm], 3, 3, alpha=1e9, gamma=1e9, beta=1.0, oracle="any")
    symbols = random_symbols(8, 320, 3)
    for start in range(0, 320, 40):
        pf.run(symbols[start : start + 40])
        assert_counts_follow_paths(pf, symbols[: start + 40])
    assert int(pf.n_states.max()) > 300


@pytest.mark.torture
@pytest.mark.usefixtures("full_torture")
def test_more_than_65535_states_in_one_particle() -> None:
    # Its dense tables would be too large: totals are recomputed, and paths compared.
    pf = make_filter(mdvpf.SMC(), 3, 2, alpha=1e12, gamma=1e12)
    pf.run(np.zeros(65_530, dtype=np.int64))
    for _ in range(20):
        # The row of the start state shares a record with rows of small counts.
        pf.new_sequence()
        pf.update(0)
        pf._core.verify()
    assert pf.n_states.tolist() == [65_550] * 3
    assert pf.path(0).tolist() == list(range(65_550))
    assert pf.copy().predict_proba().tolist() == pf.predict_proba().tolist()


@pytest.mark.parametrize("name", ["VPA", "MD-VPA", "SMC", "ParticleLearning"])
def test_more_than_256_pairs_in_the_row_of_the_start_state_and_in_a_column(name: str) -> None:
    pf = make_filter(EVERY_ALGORITHM[name], 3, 2, alpha=1e9, gamma=1e9)
    events: list[Event] = []
    for n in range(300):
        feed(pf, [BREAK, 1])
        events += [BREAK, 1]
        if n % 20 == 0 or 250 < n < 262:
            assert_counts_follow_paths(pf, events)
    assert_counts_follow_paths(pf, events)
    counts = pf.counts()
    assert np.count_nonzero(counts.start) > 280
    assert np.count_nonzero(counts.emission[:, 1]) > 280


@pytest.mark.parametrize("name", ["VPA", "MD-VPA"])
def test_more_than_256_pairs_in_the_row_of_a_state(name: str) -> None:
    # Every other symbol is the same, and the ones between are all new: 0, 1, 0, 2, 0, 3, ...
    pf = make_filter(EVERY_ALGORITHM[name], 3, 700, beta=1e-6)
    events: list[Event] = []
    for n in range(1, 300):
        events += [0, n]
    pf.run(events[:500])
    assert_counts_follow_paths(pf, events[:500])
    for n in range(500, len(events), 7):
        pf.run(events[n : n + 7])
        assert_counts_follow_paths(pf, events[: n + 7])
    assert int(np.count_nonzero(pf.counts().transition, axis=1).max()) > 256


@every_algorithm
@pytest.mark.parametrize("n_symbols", [255, 256, 4095, 4096, 10_000, 70_000])
def test_counts_of_a_large_alphabet(algorithm: str, n_symbols: int) -> None:
    pf = make_filter(EVERY_ALGORITHM[algorithm], 6, n_symbols, beta=0.01)
    rng = np.random.default_rng(n_symbols)
    some = np.unique(np.concatenate([[0, n_symbols - 1], rng.integers(n_symbols, size=12)]))
    events: list[Event] = rng.choice(some, size=60).tolist()
    events[30] = None
    for start in range(0, 60, 20):
        pf.run(events[start : start + 20])
        assert_counts_follow_paths(pf, events[: start + 20])
    np.testing.assert_allclose(pf.predict_proba().sum(), 1.0, rtol=0.0, atol=1e-10)
    other = pf.copy()
    expected = laid_open(pf)
    other.run(events)
    assert_counts_follow_paths(other, events + events)
    assert_same(pf, expected)


# --- Copies


@every_algorithm
def test_changing_a_copy_never_changes_the_original(algorithm: str) -> None:
    events = random_symbols(9, 30, 4)
    pf = make_filter(EVERY_ALGORITHM[algorithm])
    feed(pf, events)
    expected = laid_open(pf)
    other = pf.copy()
    assert_same(other, expected)
    for event in [3, None, BREAK, 0, 1, 2, 2, 1]:
        feed_and_recount(other, [event], events)
        events.append(event)
        assert_same(pf, expected)
    pf._core.verify()


@every_algorithm
def test_changing_the_original_never_changes_a_copy(algorithm: str) -> None:
    events = random_symbols(10, 30, 4)
    pf = make_filter(EVERY_ALGORITHM[algorithm])
    feed(pf, events)
    other = pf.copy()
    expected = laid_open(other)
    for event in [0, None, BREAK, 0, 1, 2]:
        feed(pf, [event])
        assert_same(other, expected)
    other._core.verify()
    # The copy outlives the original and diverges from it.
    later = laid_open(pf)
    del pf
    feed(other, [0, None, BREAK, 0, 1, 2])
    assert_same(other, later)


@every_algorithm
def test_a_chain_of_copies_is_independent_link_by_link(algorithm: str) -> None:
    events = random_symbols(11, 24, 4)
    chain = [make_filter(EVERY_ALGORITHM[algorithm])]
    seen = []
    for event in events:
        feed(chain[-1], [event])
        seen.append(laid_open(chain[-1]))
        chain.append(chain[-1].copy())
    for n, (link, expected) in enumerate(zip(chain, seen, strict=False)):
        assert_same(link, expected)
        assert_counts_follow_paths(link, events[: n + 1])
    for n in range(0, len(events) - 1, 5):  # and each continued as the next one did
        feed(chain[n], [events[n + 1]])
        assert_same(chain[n], seen[n + 1])


@pytest.mark.parametrize("selection", ["top", "optimal"])
@pytest.mark.parametrize("pending", [2, None])
def test_a_copy_holds_the_symbol_that_waits_for_its_lookahead(
    pending: int | None, selection: str
) -> None:
    pf = make_filter(mdvpf.MDVPA(selection=selection, discount=1.0))
    events = [*random_symbols(12, 20, 4), pending]
    feed(pf, events)
    assert pf._core.pending
    other = pf.copy()
    assert other._core.pending
    for event in [1, None, 3, BREAK, 2]:
        events.append(event)
        feed(pf, [event])
        feed(other, [event])
        assert_same(other, laid_open(pf))
        assert_counts_follow_paths(other, events)
