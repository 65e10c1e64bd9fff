"""What particles share.

Particles that change a shared group alike go on sharing it; the tests derive this from their paths
alone. Equal records are merged.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import mdvpf
from tests.kernel.sealing import reloaded

GROUP = 4  # rows in a record
NODE_SIZE = 16

# The origin of a group: its previous version, and the row and the state that were counted.
Group = tuple[Any, int, int]


def n_rows(group: Group) -> int:
    """Return how many rows of a group hold counts."""
    rows = set()
    before: Any = group
    while isinstance(before, tuple):
        before, row, _ = before
        rows.add(row)
    return len(rows)


@pytest.mark.parametrize(
    ("n_symbols", "n_particles"), [(5, 10), (5, 50), (27, 200), (400, 60), (5000, 60)]
)
def test_groups_with_the_same_origin_are_one(n_symbols: int, n_particles: int) -> None:
    model = mdvpf.InfiniteHMM(n_symbols, beta=0.1)
    pf = mdvpf.ParticleFilter(model, mdvpf.VPA(), n_particles, history="full")
    rng = np.random.default_rng(0)
    first = itertools.count()  # a group that is new was never shared
    tables: dict[tuple[int, ...], dict[tuple[str, int], Group]] = {(): {}}
    for symbol in rng.integers(n_symbols, size=100) * (rng.random(100) < 0.7):
        pf.update(int(symbol))
        parents, tables = tables, {}
        for k in range(len(pf.weights)):
            path = tuple(int(state) for state in pf.path(k))
            table = dict(parents[path[:-1]])
            row = path[-2] + 1 if len(path) > 1 else 0
            for kind, index in (("transition", row), ("emission", int(symbol))):
                place = kind, index // GROUP
                before = table[place] if place in table else next(first)
                table[place] = before, index % GROUP, path[-1]
            tables[path] = table
        pf._core.verify()
    distinct = {group for table in tables.values() for group in table.values()}
    expected = sum(map(n_rows, distinct))
    held = sum(n_rows(group) for table in tables.values() for group in table.values())
    assert expected < held  # something to share, and no commit with more notes than particles
    if n_symbols < 256:  # and where no commit made more notes than there are particles
        assert pf.memory().rows == expected
    else:  # with a shared node of the tree, groups that are new in it are shared as well
        assert pf.memory().rows <= expected


def records_by_place(pf: mdvpf.ParticleFilter) -> dict[tuple[Any, ...], dict[Any, set[int]]]:
    """Return the numbers of the records in each place, by their contents.

    They come from a snapshot, whose arrays `snapshot.pxd` explains. A node holds records by number.
    """
    sections = pf._core.snapshot()[4]
    rows, columns, levels, children, shapes = (
        np.frombuffer(sections[i], np.uint32) for i in (7, 8, 9, 10, 11)
    )
    groups = []
    start = 0
    for shape in shapes.tolist():
        end = start + ((GROUP + 2 * (shape >> 2)) << (shape & 3))
        groups.append((shape, sections[12][start:end]))
        start = end
    nodes = children.reshape(-1, NODE_SIZE)
    found: dict[tuple[Any, ...], dict[Any, set[int]]] = {}

    def visit(number: int, level: int, place: tuple[Any, ...]) -> None:
        if number == 0:
            return
        if level == len(levels):
            content: Any = groups[number - 1]
        else:
            content = tuple(nodes[levels[:level].sum() + number - 1].tolist())
            for i, below in enumerate(content):
                visit(below, level + 1, (*place, i))
        found.setdefault(place, {}).setdefault(content, set()).add(number)

    n_entries = len(sections[3]) // 4
    for row in rows.reshape(n_entries, -1).tolist():
        for i, number in enumerate(row):
            visit(number, len(levels), ("transition", i))
    for column in columns.reshape(n_entries, -1).tolist():
        for i, number in enumerate(column):
            visit(number, 0, ("emission", i))
    return found


def n_excess(pf: mdvpf.ParticleFilter, turns: set[int] | None = None) -> int:
    """Return how many records equal another one in the same place.

    Rows in a block have turns 0, 2, 4, ... for merging, and columns 1, 3, 5, ...; with ``turns``,
    only places with these turns, and the places below them, are counted.
    """
    return sum(
        len(numbers) - 1
        for place, contents in records_by_place(pf).items()
        if turns is None or 2 * place[1] + (place[0] == "emission") in turns
        for numbers in contents.values()
    )


@pytest.mark.one_in(2)
@pytest.mark.parametrize("algorithm", [mdvpf.VPA(), mdvpf.MDVPA(), mdvpf.ParticleLearning()])
@pytest.mark.parametrize("n_symbols", [5, 27, 400, 5000])
def test_records_that_have_become_equal_are_merged(n_symbols: int, algorithm: Any) -> None:
    model = mdvpf.InfiniteHMM(n_symbols, beta=0.1, max_states=6)
    rng = np.random.default_rng(1)
    stream = rng.integers(n_symbols, size=300) * (rng.random(300) < 0.5)
    never, often = (mdvpf.ParticleFilter(model, algorithm, 60, rng=7) for _ in range(2))
    never._core._settle_every(10_000)
    never.run(stream[:200])
    often._core._settle_every(20)
    often.run(stream[:200])
    most = n_rows_never = n_rows_often = 0
    for symbol in stream[200:].tolist():
        assert never.update(symbol) == often.update(symbol)  # to the last bit
        turn = often._core.n_steps % 20
        due = {turn, turn + 20, turn + 40, turn + 60, turn + 80, turn + 100, turn + 120}
        most = max(most, n_excess(never, due))
        assert n_excess(often, due) == 0
        n_rows_never += never.memory().rows
        n_rows_often += often.memory().rows
        if turn == 0:
            often._core.verify()
    assert most > 0  # there was something to merge
    assert never.predict_proba().tobytes() == often.predict_proba().tobytes()
    assert n_rows_often < n_rows_never
    for k in range(len(often.weights)):
        for mine, others in zip(often.counts(k), never.counts(k), strict=True):
            np.testing.assert_array_equal(mine, others)


def test_a_long_stream_over_few_states_stays_small() -> None:
    model = mdvpf.InfiniteHMM(6, beta=0.1, max_states=3)
    pf = mdvpf.ParticleFilter(model, mdvpf.VPA(), 100)
    rng = np.random.default_rng(2)
    stream = rng.integers(6, size=256 * 8) * (rng.random(256 * 8) < 0.6)
    pf.run(stream[:256])
    early = pf.memory()
    pf.run(stream[256:])
    assert pf.memory().live < 1.1 * early.live
    pf.run(stream[:3])
    assert pf._core.n_steps % 256 == 3  # by now all places have been merged
    assert n_excess(pf) < 0.1 * sum(map(len, records_by_place(pf).values()))


@pytest.mark.parametrize("algorithm", [mdvpf.VPA(), mdvpf.MDVPA()])
def test_after_a_step_one_place_is_settled_or_all_records_move_once(algorithm: Any) -> None:
    n_particles = 400
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(27, beta=0.01), algorithm, n_particles)
    rng = np.random.default_rng(4)
    n_moves = n_merges = 0
    for symbol in (rng.integers(27, size=1200) * (rng.random(1200) < 0.7)).tolist():
        pf.update(symbol)
        turn, settled = pf._core.n_steps % 256, pf._core._n_settled
        n_places = 2 * max(8, int(pf.n_states.max()) // GROUP + 2)
        if turn == 64:
            n_records = sum(
                len(numbers)
                for contents in records_by_place(pf).values()
                for numbers in contents.values()
            )
            assert settled in (0, n_records)
            n_moves += settled > 0
        elif turn < n_places:
            assert settled <= n_particles  # the largest number at one place
            n_merges += settled > 0
        else:
            assert settled == 0
    assert n_moves > 0
    assert n_merges > 20


@pytest.mark.parametrize("algorithm", [mdvpf.VPA(), mdvpf.MDVPA(), mdvpf.ParticleLearning()])
@pytest.mark.parametrize("n_symbols", [5, 400])
def test_merging_does_not_depend_on_saving(n_symbols: int, algorithm: Any) -> None:
    model = mdvpf.InfiniteHMM(n_symbols, beta=0.1, max_states=6)
    rng = np.random.default_rng(1)
    stream = rng.integers(n_symbols, size=200) * (rng.random(200) < 0.5)
    pf = mdvpf.ParticleFilter(model, algorithm, 60, rng=7)
    pf._core._settle_every(30)
    pf.run(stream[:100])
    loaded = reloaded(pf)
    loaded._core._settle_every(30)
    for symbol in stream[100:].tolist():
        assert pf.update(symbol) == loaded.update(symbol)
        assert pf._core.snapshot() == loaded._core.snapshot()
