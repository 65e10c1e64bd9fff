"""Particles that change a shared group alike go on sharing it: told from their paths alone."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import mdvpf

GROUP = 4  # rows in a record

# How a group came to be: the one that it was, and the row and the state that were counted.
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
def test_groups_that_came_about_in_the_same_way_are_one(n_symbols: int, n_particles: int) -> None:
    model = mdvpf.InfiniteHMM(n_symbols, beta=0.1)
    pf = mdvpf.ParticleFilter(model, mdvpf.VPA(), n_particles, history="full")
    rng = np.random.default_rng(0)
    first = itertools.count()  # a group that was not there before is nobody else's
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
    assert expected < held  # there is something to share
    if n_symbols < 256:  # and where no commit made more notes than there are particles
        assert pf.memory().rows == expected
    else:  # with a shared node of the tree, groups that are new in it are shared as well
        assert pf.memory().rows <= expected
