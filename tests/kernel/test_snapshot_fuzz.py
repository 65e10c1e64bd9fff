"""Corrupted checkpoints: refused, or accepted only if their contents agree.

Some have random damage, as by disks and networks, and wrong checksums. Others are forged: their
contents are changed and their checksums recomputed. Neither may cause a crash, another error, or
memory beyond a multiple of the file. ``MDVPF_TORTURE=full make sanitize`` tries 20,000 files under
sanitizers.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import mdvpf
from mdvpf.model.algorithms import Algorithm
from tests.kernel.corrupting import FIXED, MEANINGS, change, check_corrupted
from tests.kernel.inspecting import BREAK, Event, feed
from tests.kernel.sealing import loaded, saved, sealed, unsealed

STREAM: list[Event] = [0, 0, 1, None, 2, 2, 1, BREAK, 3, 3, 1, 0, None, 1, 3, 2, 2, 0]
LATER: list[Event] = [2, None, 0, BREAK, 1, 3]

# Algorithm, symbols, history, times that the stream is repeated: narrow counts and wide ones, trees
# of every depth, histories of every kind, and a symbol held back or not.
SEEDS: list[tuple[Algorithm, int, Any, int]] = [
    (mdvpf.MDVPA(), 5, 3, 1),
    (mdvpf.MDVPA(discount=[0.5] * 100, selection="optimal"), 300, "full", 1),
    (mdvpf.MDVPA(discount=500.0, normalizer="none"), 6, None, 2),
    (mdvpf.VPA(), 5, "full", 40),
    (mdvpf.VPA(), 5000, 1, 1),
    (mdvpf.SMC(ess_threshold=0.5), 5, 3, 2),
    (mdvpf.ParticleLearning(), 300, None, 1),
    (mdvpf.OptimalResampling(), 4, "full", 2),
]


def make_seeds() -> list[bytes]:
    files = []
    for algorithm, n_symbols, history, n_times in SEEDS:
        model = mdvpf.InfiniteHMM(n_symbols, beta=0.1, gamma=2.0)
        pf = mdvpf.ParticleFilter(model, algorithm, 5, rng=3, history=history)
        if n_symbols < 6:
            pf.vocabulary = mdvpf.Vocabulary(range(n_symbols - 1), unknown="?")
        feed(pf, STREAM * n_times)
        files.append(saved(pf))
    return files


def forged(content: bytes, rng: random.Random) -> bytes:
    """Change the contents of a checkpoint, with valid checksums."""
    opened = unsealed(content)
    change(opened, rng, MEANINGS)
    shapes, dtypes = {}, {}
    if rng.random() < 0.1:
        name = rng.choice(list(opened.arrays))
        shapes[name] = rng.choice(
            [[2**40], [2**63], [0, 2**62], [-1], [1] * 9, [2**32, 2**32], ["x"], [], [None], [2, 2]]
        )
    if rng.random() < 0.05:
        dtypes[rng.choice(list(opened.arrays))] = rng.choice(
            ["|O", "|V8", "<U1", ">u4", "f8", "", None, "<f4", "|b1", "<m8[s]"]
        )
    return sealed(opened, shapes=shapes, dtypes=dtypes)


def use(pf: mdvpf.ParticleFilter) -> None:
    """Call every method of a filter; its state must stay valid."""
    if pf.n_particles > 10**5:
        return  # work space for a budget of billions, whatever the file holds
    pf._core.verify()
    if pf.n_particles > 1000 or pf.n_symbols > 10**5:
        return  # valid, but too large for this test
    try:
        for event in [*LATER, *LATER]:
            if isinstance(event, int):
                event %= pf.n_symbols
            feed(pf, [event])
            pf._core.verify()
    except (FloatingPointError, OverflowError):
        pf._core.verify()  # extreme numbers, which raise this error
    except ValueError as error:
        assert "discount has" in str(error)  # a sequence of them that has run out
    pf.predict_proba()
    pf.counts()
    if pf.history is not None:
        pf.path()
    assert loaded(saved(pf))._core.snapshot() == pf._core.snapshot()


def test_corrupted_checkpoints_are_refused_or_work(torture_scale: float) -> None:
    check_corrupted(make_seeds(), forged, use, seed=20, torture_scale=torture_scale)


@pytest.mark.parametrize("n_nodes", [1, 6])
def test_a_tree_with_repeated_children_is_refused(n_nodes: int) -> None:
    """A few nodes that name each other sixteen times would keep a naive reader busy for ever."""
    model = mdvpf.InfiniteHMM(2**31 - 2, beta=1e-9)
    pf = mdvpf.ParticleFilter(model, mdvpf.VPA(), 3)
    pf.run([0, 1, 2])
    opened = unsealed(saved(pf))
    children = opened.arrays["children"].reshape(-1, 16)
    children[-n_nodes:] = np.where(children[-n_nodes:].max(1, keepdims=True) > 0, 1, 0)
    with pytest.raises(mdvpf.CheckpointError, match="two locations"):
        loaded(sealed(opened))


def some_particles(n_symbols: int) -> mdvpf.ParticleFilter:
    """Return a filter that met the first symbols only: other places of its trees are empty."""
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(n_symbols, beta=0.1), mdvpf.VPA(), 8)
    pf.run([0, 1, 2, 0, 1, 2, 0, 1])
    return pf


def test_a_group_in_two_places_is_refused() -> None:
    pf = some_particles(20)
    opened = unsealed(saved(pf))
    columns = opened.arrays["columns"].reshape(len(pf.weights), -1)
    columns[1, 3] = columns[0, 0]
    with pytest.raises(mdvpf.CheckpointError, match="two locations"):
        loaded(sealed(opened))


def test_a_group_without_counts_is_refused() -> None:
    pf = some_particles(20)
    opened = unsealed(saved(pf))
    arrays = opened.arrays
    arrays["shape"] = np.append(arrays["shape"], np.zeros(1, arrays["shape"].dtype))
    arrays["items"] = np.append(arrays["items"], np.zeros(4, arrays["items"].dtype))
    arrays["columns"].reshape(len(pf.weights), -1)[0, 3] = len(arrays["shape"])
    with pytest.raises(mdvpf.CheckpointError, match="a group is empty"):
        loaded(sealed(opened))


def test_a_node_without_children_is_refused() -> None:
    pf = some_particles(400)  # one level of nodes
    opened = unsealed(saved(pf))
    arrays = opened.arrays
    arrays["levels"][0] += 1
    arrays["children"] = np.append(arrays["children"], np.zeros(16, arrays["children"].dtype))
    arrays["columns"].reshape(len(pf.weights), -1)[0, 3] = arrays["levels"][0]
    with pytest.raises(mdvpf.CheckpointError, match="a node is empty"):
        loaded(sealed(opened))


def test_particles_take_memory_in_proportion_to_the_file() -> None:
    """A particle with many states makes room in all others: the file must have it for each."""
    model = mdvpf.InfiniteHMM(4, beta=1e-9, gamma=100.0)
    pf = mdvpf.ParticleFilter(model, mdvpf.SMC(ess_threshold=0.0), 200, rng=0)
    pf.run([0, 1, 2, 3] * 10)
    content = saved(pf)
    opened = unsealed(content)
    n_states = opened.arrays["n_states"]
    n_states[n_states.argmax()] += 200
    with pytest.raises(mdvpf.CheckpointError, match="section of rows"):
        loaded(sealed(opened))
    assert loaded(content)._core.memory()[1] < 12 * len(content) + FIXED
