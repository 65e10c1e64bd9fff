"""Corrupted checkpoints of filters with real counts: refused, or valid and usable.

`corrupting.py` has the ways to corrupt a file. These tests also change every section on its
own: bits of floats, distances of scales, numbers of records.
"""

from __future__ import annotations

import random
import struct
from functools import partial
from typing import Any

import numpy as np
import pytest

import mdvpf
from mdvpf.filter.saved_state import REAL_SECTIONS
from mdvpf.model.algorithms import Algorithm
from tests.kernel.corrupting import MEANINGS, check_corrupted, resealed, use_everything
from tests.kernel.inspecting import feed
from tests.kernel.real_models import make_events, make_model
from tests.kernel.sealing import Opened, loaded, saved, sealed, unsealed

# Algorithm, extension, symbols, history, length of the stream.
SEEDS: list[tuple[Algorithm, str, int, Any, int]] = [
    (mdvpf.MDVPA(), "all", 5, 3, 30),
    (mdvpf.MDVPA(discount=[0.5] * 100, selection="optimal"), "mealy", 300, "full", 30),
    (mdvpf.VPA(), "half_life", 5, "full", 200),
    (mdvpf.VPA(), "any", 5000, 1, 30),
    (mdvpf.SMC(ess_threshold=0.5), "rows that fade", 5, 3, 40),
    (mdvpf.ParticleLearning(), "forget", 300, None, 30),
    (mdvpf.OptimalResampling(), "kappa", 4, "full", 40),
    (mdvpf.VPA(), "rows", 4, None, 30),
    (mdvpf.MDVPA(), "short half_life", 4, None, 30),
]


def make_seed(n: int) -> bytes:
    algorithm, extension, n_symbols, history, length = SEEDS[n]
    model = make_model(extension, n_symbols)
    pf = mdvpf.ParticleFilter(model, algorithm, 5, rng=3, history=history)
    feed(pf, make_events(n_symbols, length, n))
    return saved(pf)


def float_bits(value: float) -> int:
    found: int = struct.unpack("<I", struct.pack("<f", value))[0]
    return found


# Zeros, the smallest, the largest, infinities, NaN, wholes and halves; distances of scales.
NASTY_BITS = [
    0, 1, 0x80000000, 0x80000001, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFFFFFFF,
    *map(float_bits, [1.0, 2.0, 0.5, 2.0**24, 2.0**100, 1e-30, 0.0009765]),
    2, 3, 63, 64, 65, 128, 999, 1000, 1001, 2**30, 2**31, 255, 256,
]  # fmt: skip


def change_bits(opened: Opened, rng: random.Random) -> None:
    """Change numbers of a section that only files with real counts have."""
    names = ["pair_sum", "into", "behind", "block_behind", "reached", "kind", "row_pairs"]
    name = rng.choice([name for name in names if opened.arrays[name].size])
    array = opened.arrays[name].astype("<u4" if name != "kind" else "|u1")
    for _ in range(rng.choice([1, 1, 2, 5])):
        i = rng.randrange(array.size)
        value = rng.choice(
            [*NASTY_BITS, int(array[i]) + 1, int(array[i]) ^ (1 << rng.randrange(32))]
        )
        array[i] = value & (0xFF if name == "kind" else 0xFFFFFFFF)
    opened.arrays[name] = array


def change_scales(opened: Opened, rng: random.Random) -> None:
    """Scale the sums and entries of one particle, or of all."""
    distance = rng.choice([1, 2, 10, 100])
    for name in rng.choice([["behind"], ["block_behind"], ["behind", "block_behind"]]):
        array = opened.arrays[name].astype("<u4")
        array += np.uint32(distance)
        opened.arrays[name] = array


def claim_labels(opened: Opened, rng: random.Random) -> None:
    """Give particles a record of labels."""
    arrays = opened.arrays
    n = rng.randrange(4)
    arrays["kind"] = np.append(arrays["kind"], np.array([255], np.uint8))
    arrays["labels"] = np.full(len(arrays["labels"]), len(arrays["kind"]), "<u4")
    arrays["n_labels"] = np.array([n], "<u4")
    labels = sorted(rng.sample(range(30), n))
    if rng.random() < 0.2:
        rng.shuffle(labels)
    arrays["label"] = np.array(labels, "<u4")
    arrays["next_label"] = np.array([max([-1, *labels]) + rng.randrange(3)], "<u4")


WAYS = [*MEANINGS, *[change_bits] * 5, *[change_scales] * 2, *[claim_labels] * 2]


def use(pf: mdvpf.ParticleFilter) -> None:
    use_everything(pf, make_events(pf.n_symbols, 20, 5))


def test_corrupted_checkpoints_are_refused_or_work(torture_scale: float) -> None:
    seeds = [make_seed(n) for n in range(len(SEEDS))]
    forged = partial(resealed, ways=WAYS)
    check_corrupted(seeds, forged, use, seed=21, torture_scale=torture_scale)


@pytest.mark.parametrize("n", range(len(SEEDS)))
def test_every_number_of_every_section_matters_or_does_no_harm(
    n: int, torture_scale: float
) -> None:
    """For each section: one number replaced, the end cut off, and a number added."""
    content = make_seed(n)
    rng = random.Random(n)
    times = max(3, int(200 * torture_scale))
    for name in REAL_SECTIONS:
        for _ in range(times):
            opened = unsealed(content)
            array = opened.arrays[name]
            how = rng.randrange(4)
            if how == 0 and array.size:
                array = array[:-1]
            elif how == 1:
                array = np.append(array, array[-1:] if array.size else np.zeros(1, array.dtype))
            elif array.size:
                i = rng.randrange(array.size)
                if array.dtype.kind == "f":
                    array[i] = rng.choice([np.nan, np.inf, -1.0, 0.0, 0.5, 2.0, 1e-300])
                else:
                    array = array.astype("<u4" if name != "kind" else "|u1")
                    array[i] = rng.choice(NASTY_BITS) & (0xFF if name == "kind" else 0xFFFFFFFF)
            opened.arrays[name] = array
            try:
                pf = loaded(sealed(opened, version=2))
            except mdvpf.CheckpointError:
                continue
            use(pf)
