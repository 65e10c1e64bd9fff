"""Corrupted checkpoints: refused, or accepted only if their contents agree.

Some have random damage, as by disks and networks, and wrong checksums. Others are forged: their
contents are changed and their checksums recomputed. Neither may cause a crash, another error, or
memory beyond a multiple of the file. ``MDVPF_TORTURE=full make sanitize`` tries 20,000 files under
sanitizers.
"""

from __future__ import annotations

import copy
import os
import random
import resource
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mdvpf
from mdvpf.model.algorithms import Algorithm
from tests.kernel.inspecting import BREAK, Event, feed
from tests.kernel.sealing import Opened, loaded, saved, sealed, unsealed

N_FILES = 20_000
SHARE_UNSEALED = 0.3  # of the files, corrupted without the checksums following
ALLOCATION = 30  # bytes that may be taken for a byte of the file, beside what any filter takes
FIXED = 100_000
ADDRESSES = 50_000_000  # that one of these small files may claim at the most
MEMORY_IN_USE = Path("/proc/self/statm")  # first number: pages of addresses

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

NASTY: list[Any] = [
    0, 1, -1, 2, 255, 256, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63, 2**64, 10**400,
    0.0, 0.5, -1.5, 1e308, 5e-324, None, True, False, "", "x", "full", "1/n", [], [[]], {},
    {"a": 1}, "VPA", "SMC", "MDVPA", [0] * 5, {"from": "array"}, {"from": "caller"},
]  # fmt: skip


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


# --- Corruption of bytes


def flipped(content: bytes, rng: random.Random) -> bytes:
    spoilt = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 8, 64])):
        spoilt[rng.randrange(len(spoilt))] ^= 1 << rng.randrange(8)
    return bytes(spoilt)


def truncated(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content))]


def shifted(content: bytes, rng: random.Random) -> bytes:
    """Cut out a piece, double it, or move it."""
    a, b = sorted(rng.sample(range(len(content)), 2))
    c = rng.randrange(len(content))
    return rng.choice(
        [
            content[:a] + content[b:],
            content[:b] + content[a:],
            content[:c] + content[a:b] + content[c:],
            content[:a] + bytes(b - a) + content[b:],
        ]
    )


# --- Corruption of the contents


def leaves(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths to all values in nested dicts and lists, inner ones included."""
    found = [path] if path else []
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in items if isinstance(tree, (dict, list)) else ():
        found += leaves(value, (*path, key)) if isinstance(value, (dict, list)) else [(*path, key)]
    return found


def change_a_value(opened: Opened, rng: random.Random) -> None:
    path = rng.choice(leaves(opened.header))
    place = opened.header
    for key in path[:-1]:
        place = place[key]
    old = place[path[-1]]
    if type(old) in (int, float) and rng.random() < 0.3:
        place[path[-1]] = old + rng.choice([-1, 1])
    elif rng.random() < 0.1 and isinstance(place, dict):
        del place[path[-1]]
    else:
        place[path[-1]] = copy.deepcopy(rng.choice(NASTY))


def change_numbers(opened: Opened, rng: random.Random) -> None:
    name = rng.choice([name for name, array in opened.arrays.items() if array.size])
    array = opened.arrays[name]
    for _ in range(rng.choice([1, 1, 2, 5])):
        i = rng.randrange(array.size)
        if array.dtype.kind == "f":
            array[i] = rng.choice([np.nan, np.inf, -np.inf, 0.0, -1.0, 1e-300, 2.0, array[i] * 1.1])
            continue
        largest = int(np.iinfo(array.dtype).max)
        value = rng.choice([0, 1, int(array[i]) + 1, int(array[i]) - 1, int(array.max()), largest])
        array[i] = min(max(value, 0), largest)


def change_alike(opened: Opened, rng: random.Random) -> None:
    """Change two numbers so that their sum stays."""
    name = rng.choice(["items", "weight", "rows", "columns", "generations"])
    array = opened.arrays.get(name, np.empty(0))
    if array.size > 1:
        i, j = rng.sample(range(array.size), 2)
        if array[i] > 0:
            array[i] -= 1 if array.dtype.kind == "u" else array[i] / 2
            array[j] += 1 if array.dtype.kind == "u" and array[j] < 255 else 0


def resized(array: NDArray[Any], rng: random.Random) -> NDArray[Any]:
    n = max(0, array.size + rng.choice([-1, 1, -array.size // 2, array.size, -array.size, 7]))
    return np.resize(array, n) if array.size else np.zeros(n, array.dtype)


def change_a_length(opened: Opened, rng: random.Random) -> None:
    for name in rng.sample(list(opened.arrays), rng.choice([1, 1, 2, 6])):
        opened.arrays[name] = resized(opened.arrays[name], rng)


def swap_numbers(opened: Opened, rng: random.Random) -> None:
    name = rng.choice([name for name, array in opened.arrays.items() if array.size > 1])
    array = opened.arrays[name]
    i, j = rng.sample(range(array.size), 2)
    array[i], array[j] = array[j], array[i]


def swap_sections(opened: Opened, rng: random.Random) -> None:
    a, b = rng.sample(list(opened.arrays), 2)
    opened.arrays[a], opened.arrays[b] = opened.arrays[b], opened.arrays[a]


def change_a_type(opened: Opened, rng: random.Random) -> None:
    name = rng.choice(list(opened.arrays))
    kind = rng.choice(["|u1", "<u2", "<u4", "<u8", "<i4", "<i8", "<f8"])
    with np.errstate(invalid="ignore"):
        opened.arrays[name] = opened.arrays[name].astype(kind)


def rename_a_section(opened: Opened, rng: random.Random) -> None:
    name = rng.choice(list(opened.arrays))
    array = opened.arrays.pop(name)
    if rng.random() < 0.7:
        opened.arrays[rng.choice(["", "x", f"part/{name}", "discount"])] = array


def many_states(opened: Opened, rng: random.Random) -> None:
    """Claim sizes that would take much memory if the reader trusted them."""
    n = rng.choice([10**4, 10**6, 2**31 - 2, 2**32 - 1])
    kind = rng.randrange(5)
    values = opened.values()
    if kind == 0:
        opened.arrays["n_states"] = opened.arrays["n_states"].astype("<u4")
        opened.arrays["n_states"][rng.randrange(5)] = n
    elif kind == 1:
        values["options"]["n_particles"] = min(n, 2**31 - 2)
    elif kind == 2:
        values["core"]["n_steps"] = n
    elif kind == 3:
        opened.arrays["shape"] = opened.arrays["shape"].astype("<u4")
        opened.arrays["shape"][0] = n
    else:
        values["options"]["history"] = min(n, 2**31 - 2)


MEANINGS: list[Callable[[Opened, random.Random], None]] = [
    change_a_value,
    change_a_value,
    change_numbers,
    change_numbers,
    change_numbers,
    change_alike,
    change_alike,
    swap_numbers,
    swap_numbers,
    change_a_length,
    swap_sections,
    change_a_type,
    rename_a_section,
    many_states,
]


def accepted_forgeries(content: bytes, n_files: int) -> Iterator[mdvpf.Predictor]:
    """Yield what loads from forged files; all others, and damaged files, must be refused."""
    rng = random.Random(6)
    for _ in range(n_files):
        spoilt = rng.choice([flipped, truncated, shifted])(content, rng)
        if spoilt != content:
            with pytest.raises(mdvpf.CheckpointError):
                loaded(spoilt)
        opened = unsealed(content)
        with suppress(AttributeError, LookupError, TypeError, ValueError):
            rng.choice(MEANINGS)(opened, rng)
        try:
            predictor = loaded(sealed(opened))
        except mdvpf.CheckpointError:
            continue
        yield predictor


def forged(content: bytes, rng: random.Random) -> bytes:
    """Change the contents of a checkpoint, with valid checksums."""
    opened = unsealed(content)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        # After a change the next one may find nothing to change.
        with suppress(AttributeError, LookupError, TypeError, ValueError):
            rng.choice(MEANINGS)(opened, rng)
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


@contextmanager
def limited_memory() -> Iterator[None]:
    """Let allocations fail that no file here can justify.

    Sanitizers reserve terabytes of addresses for themselves, and have limits of their own. Without
    /proc (macOS) there is no limit.
    """
    if "libasan" in os.environ.get("LD_PRELOAD", "") or not MEMORY_IN_USE.exists():
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_AS)
    in_use = int(MEMORY_IN_USE.read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + ADDRESSES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def test_corrupted_checkpoints(torture_scale: float) -> None:
    rng = random.Random(20)
    seeds = make_seeds()
    n_files = int(N_FILES * torture_scale)
    n_accepted = 0
    most = 0.0
    for n in range(n_files):
        content = rng.choice(seeds)
        is_sealed = rng.random() > SHARE_UNSEALED
        how = forged if is_sealed else rng.choice([flipped, truncated, shifted])
        spoilt = how(content, rng)
        if n % 5 == 0:
            tracemalloc.start()
        try:
            with limited_memory():
                pf = loaded(spoilt)
        except mdvpf.CheckpointError:
            pf = None
        if n % 5 == 0:
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            peak += 0 if pf is None else pf._core.memory()[1]
            most = max(most, (peak - FIXED) / max(len(spoilt), 1))
        if pf is not None:
            # Bytes after the end of a checkpoint in a longer file are ignored.
            assert is_sealed or spoilt.startswith(content)
            n_accepted += 1
            use(pf)
    assert most <= ALLOCATION
    # Some forged files are accepted: those whose changed numbers contradict nothing else.
    assert 0 < n_accepted < 0.5 * n_files


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
