"""Ways to corrupt a checkpoint, and the check that each corrupted one is refused or harmless."""

from __future__ import annotations

import copy
import os
import random
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mdvpf
from tests.kernel.inspecting import Event, feed
from tests.kernel.sealing import Opened, loaded, saved, sealed, unsealed

N_FILES = 20_000
SHARE_UNSEALED = 0.3  # of the files, corrupted without the checksums following
ALLOCATION = 30  # bytes that may be taken for a byte of the file, beside what any filter takes
FIXED = 100_000
ADDRESSES = 50_000_000  # that one of these small files may claim at the most
MEMORY_IN_USE = Path("/proc/self/statm")  # first number: pages of addresses

NASTY: list[Any] = [
    0, 1, -1, 2, 255, 256, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63, 2**64, 10**400,
    0.0, 0.5, -1.5, 1e308, 5e-324, None, True, False, "", "x", "full", "1/n", [], [[]], {},
    {"a": 1}, "VPA", "SMC", "MDVPA", [0] * 5, {"from": "array"}, {"from": "caller"},
]  # fmt: skip

Way = Callable[[Opened, random.Random], None]


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


MEANINGS: list[Way] = [
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


def change(opened: Opened, rng: random.Random, ways: Sequence[Way]) -> None:
    """Change the contents of a checkpoint in some ways."""
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        # After a change the next one may find nothing to change.
        with suppress(AttributeError, LookupError, TypeError, ValueError, OverflowError):
            rng.choice(ways)(opened, rng)


def resealed(content: bytes, rng: random.Random, ways: Sequence[Way]) -> bytes:
    """Change the contents of a checkpoint of version 1 or 2, with valid checksums."""
    opened = unsealed(content)
    change(opened, rng, ways)
    return sealed(opened, version=rng.choice([1, 2, 2, 2]))


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


@contextmanager
def limited_memory() -> Iterator[None]:
    """Let allocations fail that no file here can justify.

    Sanitizers reserve terabytes of addresses for themselves, and have limits of their own. Without
    /proc (macOS, Windows) there is no limit.
    """
    if "libasan" in os.environ.get("LD_PRELOAD", "") or not MEMORY_IN_USE.exists():
        yield
        return
    import resource  # Windows has no such module

    before = resource.getrlimit(resource.RLIMIT_AS)
    in_use = int(MEMORY_IN_USE.read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + ADDRESSES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def use_everything(pf: mdvpf.ParticleFilter, events: Iterable[Event]) -> None:
    """Feed events and call every method of a filter; its state must stay valid."""
    if pf.n_particles > 1000 or pf.n_symbols > 10**5:
        return  # valid, but too large for a test
    pf._core.verify()
    try:
        for event in events:
            feed(pf, [event])
            pf._core.verify()
            pf.predict_proba()
    except (FloatingPointError, OverflowError):
        pf._core.verify()  # extreme numbers, which raise this error
    except ValueError as error:
        assert "discount has" in str(error)  # a sequence of them that has run out
    pf._core.state_text()
    if max(pf.n_states) < 1000:
        pf.counts()
    if pf.history is not None:
        pf.path()
    assert loaded(saved(pf))._core.snapshot() == pf._core.snapshot()


def check_corrupted(
    seeds: Sequence[bytes],
    forged: Callable[[bytes, random.Random], bytes],
    use: Callable[[mdvpf.ParticleFilter], None],
    *,
    seed: int,
    torture_scale: float,
) -> None:
    """Corrupt the seeds: each result is refused or usable, and takes memory in proportion."""
    rng = random.Random(seed)
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
            if isinstance(pf, mdvpf.ParticleFilter):
                use(pf)
    assert most <= ALLOCATION
    # Some forged files are accepted: those whose changed numbers contradict nothing else.
    assert 0 < n_accepted < 0.5 * n_files
