"""Snapshots with tampered keys: refused, or a core that passes `verify` and continues."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from mdvpf.filter.saved_state import KEY_SECTIONS, REAL_SECTIONS, SECTIONS
from tests.kernel.keyed import KeyedFilter
from tests.kernel.test_keys_state import LATER, MANY, feed, make

NASTY = [0, 1, 2, 3, 15, 16, 17, 255, 256, 65535, 2**28 - 1, 2**28, 2**31, 2**32 - 2, 2**32 - 1]
CASES = [("VPA", "classic"), ("MD-VPA", "classic"), ("VPA", "mealy"), ("SMC", "half-life 20, rows")]


def sections_of(model: str) -> dict[str, Any]:
    return (SECTIONS if model == "classic" else REAL_SECTIONS) | KEY_SECTIONS


def tampered(arrays: dict[str, np.ndarray[Any, Any]], rng: random.Random) -> None:
    """Change one of the sections of keys: some numbers, or its length."""
    name = rng.choice([name for name in KEY_SECTIONS if arrays[name].size])
    array = arrays[name].copy()
    match rng.randrange(8):
        case 0:
            array = array[: rng.randrange(array.size)]
        case 1:
            array = np.concatenate([array, array[: rng.randrange(1, 20)]])
        case 2:
            i, j = rng.randrange(array.size), rng.randrange(array.size)
            array[i], array[j] = array[j], array[i]
        case _:
            for _ in range(rng.choice([1, 1, 2, 5])):
                i = rng.randrange(array.size)
                near = (int(array[i]) + rng.choice([-1, 1, 16])) % 2**32
                value = rng.choice([*NASTY, near, int(rng.choice(array.tolist()))])
                array[i] = value % (256 if array.dtype == np.uint8 else 2**32)
    arrays[name] = array


def try_out(algorithm: str, model: str, n: int) -> Counter[str]:
    """Restore tampered snapshots; count the outcomes."""
    keyed = make(algorithm, MANY, model=model)
    *values, contents = keyed.core.snapshot()
    kinds = sections_of(model)
    outcomes: Counter[str] = Counter()
    for seed in range(n):
        rng = random.Random(seed)
        arrays = {
            name: np.frombuffer(content, kind)
            for (name, kind), content in zip(kinds.items(), contents, strict=True)
        }
        for _ in range(rng.choice([1, 1, 2])):
            tampered(arrays, rng)
        fresh = make(algorithm, model=model)
        try:
            core = fresh.core.restored(*values, tuple(a.tobytes() for a in arrays.values()))
        except ValueError as error:
            outcomes[str(error)] += 1
            continue
        outcomes["accepted"] += 1
        core.verify()
        fresh.pf._core = core
        twin = KeyedFilter(fresh.pf)
        twin.numbers = dict(keyed.numbers)
        feed(twin, LATER[:12])
        core.verify()
    return outcomes


@pytest.mark.parametrize(("algorithm", "model"), CASES)
def test_tampered_keys_are_refused_or_in_order(algorithm: str, model: str) -> None:
    outcomes = try_out(algorithm, model, 250)
    assert outcomes["accepted"] < 150  # labels may be exchanged for others
    assert len(outcomes) >= 8, outcomes  # many checks have refused something


@pytest.mark.torture
@pytest.mark.parametrize(("algorithm", "model"), CASES)
def test_many_more_tampered_keys_are_refused_or_in_order(
    algorithm: str, model: str, torture_scale: float
) -> None:
    try_out(algorithm, model, int(20_000 * torture_scale))


def test_keys_without_their_sections_are_refused() -> None:
    keyed = make("VPA", MANY)
    *values, contents = keyed.core.snapshot()
    n = len(KEY_SECTIONS)
    fresh = make("VPA")
    for sections in (
        contents[:-1],
        (*contents, b""),
        (*contents[:-n], *[b""] * n),
    ):
        with pytest.raises(ValueError, match="sections"):
            fresh.core.restored(*values, tuple(sections))
