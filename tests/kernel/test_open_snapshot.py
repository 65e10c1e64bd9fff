"""Checkpoints of filters with an open alphabet: their contents, and corrupted ones.

`corrupting.py` has the ways to corrupt a file. These tests also change the counts of seen
symbols and the depths of the trees on their own.
"""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import numpy as np
import pytest

import mdvpf
from mdvpf.filter.saved_state import OPEN_SECTIONS
from mdvpf.model.algorithms import Algorithm
from tests.kernel.corrupting import MEANINGS, check_corrupted, resealed, use_everything
from tests.kernel.inspecting import feed
from tests.kernel.open_models import SETTINGS, growing_events, make_model
from tests.kernel.sealing import Opened, loaded, saved, sealed, unsealed

# Algorithm, setting, history, length of the stream, share of new symbols: trees of every depth.
SEEDS: list[tuple[Algorithm, str, Any, int, float]] = [
    (mdvpf.MDVPA(), "plain", 3, 30, 0.3),
    (mdvpf.MDVPA(discount=[0.5] * 900, selection="optimal"), "mealy", "full", 90, 0.8),
    (mdvpf.VPA(), "any", "full", 300, 0.05),
    (mdvpf.VPA(), "plain", None, 330, 0.85),
    (mdvpf.SMC(ess_threshold=0.5), "half-life 20, rows", 3, 40, 0.2),
    (mdvpf.ParticleLearning(), "three states", None, 30, 0.4),
    (mdvpf.OptimalResampling(), "sticky", "full", 40, 0.5),
    (mdvpf.MDVPA(), "mealy, rows, sticky, half-life 4", None, 60, 0.5),
]


def make_seed(n: int) -> bytes:
    algorithm, setting, history, length, new = SEEDS[n]
    pf = mdvpf.ParticleFilter(make_model(setting), algorithm, 5, rng=3, history=history)
    feed(pf, growing_events(length, new, seed=n))
    return saved(pf)


# --- What is in a file


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_file_says_what_was_seen_and_which_alphabet_it_is(setting: str) -> None:
    model = make_model(setting)
    for algorithm in (mdvpf.VPA(), mdvpf.MDVPA()):
        pf = mdvpf.ParticleFilter(model, algorithm, 5)
        feed(pf, [0, 1, None, 0, 2])
        opened = unsealed(saved(pf))
        held_back = isinstance(algorithm, mdvpf.MDVPA)  # the 2, which was new
        assert opened.arrays["seen"].tolist() == ([2, 1] if held_back else [2, 1, 1])
        values = opened.values()
        assert values["model"]["emission"] == {
            "name": "OpenVocabulary",
            "concentration": 0.7,
            "strength": 1.5,
            "discount": 0.3,
        }
        assert "n_symbols" not in values["model"] and "beta" not in values["model"]
        assert int.from_bytes(saved(pf)[8:12], "little") == 2
        twin = loaded(saved(pf))
        assert twin.model == model and twin.n_symbols == 3 and twin.is_open


def test_a_file_of_a_closed_alphabet_says_nothing_of_open_ones() -> None:
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=mdvpf.Categorical(3, 0.2)), n_particles=5)
    pf.run([0, 1, 2])
    opened = unsealed(saved(pf))
    assert "emission" not in opened.values()["model"]
    assert not OPEN_SECTIONS.keys() & opened.arrays.keys()
    assert int.from_bytes(saved(pf)[8:12], "little") == 1


# --- False contents


def change_seen(opened: Opened, rng: random.Random) -> None:
    """Change how often a symbol was seen, or the number of symbols."""
    seen = opened.arrays["seen"].astype("<u8")
    how = rng.randrange(4)
    if how == 0:
        seen = seen[:-1]
    elif how == 1:
        seen = np.append(seen, np.array([rng.choice([0, 1, 2**63])], "<u8"))
    else:
        i = rng.randrange(len(seen))
        seen[i] = rng.choice([0, int(seen[i]) + 1, max(int(seen[i]) - 1, 0), 2**53, 2**64 - 1])
        if how == 3:
            seen[rng.randrange(len(seen))] = 1 + rng.randrange(5)
    opened.arrays["seen"] = seen


def change_tree(opened: Opened, rng: random.Random) -> None:
    tree = opened.arrays["tree"].astype("<u4")
    tree[rng.randrange(3)] = rng.choice([0, 1, 2, 3, 5, 8, 9, 32, 63, 64, 65, 2**31, 2**32 - 1])
    opened.arrays["tree"] = tree


WAYS = [*MEANINGS, *[change_seen] * 5, *[change_tree] * 5]


def use(pf: mdvpf.ParticleFilter) -> None:
    symbols = (0, pf.n_symbols, None, pf.n_symbols + 1, 0, pf.n_symbols // 2)
    # Of those that are too large, the largest that may come by then.
    events = (min(y, pf.n_symbols - (not pf.is_open)) if y else y for y in symbols)
    use_everything(pf, events)


def test_corrupted_checkpoints_are_refused_or_work(torture_scale: float) -> None:
    seeds = [make_seed(n) for n in range(len(SEEDS))]
    forged = partial(resealed, ways=WAYS)
    check_corrupted(seeds, forged, use, seed=22, torture_scale=torture_scale)


@pytest.mark.parametrize("n", range(len(SEEDS)))
def test_false_alphabets_are_refused_or_harmless(n: int, torture_scale: float) -> None:
    content = make_seed(n)
    rng = random.Random(n)
    for _ in range(max(60, int(2000 * torture_scale))):
        opened = unsealed(content)
        rng.choice([change_seen, change_tree])(opened, rng)
        try:
            pf = loaded(sealed(opened, version=2))
        except mdvpf.CheckpointError:
            continue
        use(pf)


@pytest.mark.parametrize("setting", ["plain", "any", "mealy", "rows"])
def test_symbols_seen_must_be_those_that_particles_emitted(setting: str) -> None:
    pf = mdvpf.ParticleFilter(make_model(setting), mdvpf.VPA(), 5)
    feed(pf, [0, 1, None, 0, 2])
    for seen in ([2, 1, 2], [2, 1], [2, 1, 1, 1], [1, 1, 1], []):
        opened = unsealed(saved(pf))
        opened.arrays["seen"] = np.array(seen, "<u8")
        with pytest.raises(mdvpf.CheckpointError):
            loaded(sealed(opened, version=2))


def test_symbols_seen_are_compared_one_by_one_where_counts_are_integers() -> None:
    pf = mdvpf.ParticleFilter(make_model("plain"), mdvpf.VPA(), 5)
    feed(pf, [0, 1, None, 0, 2])
    opened = unsealed(saved(pf))
    opened.arrays["seen"] = np.array([1, 2, 1], "<u8")
    with pytest.raises(mdvpf.CheckpointError, match="differ from the times it was seen"):
        loaded(sealed(opened, version=2))


def test_a_symbol_held_back_must_be_one_that_can_come_next() -> None:
    pf = mdvpf.ParticleFilter(make_model("plain"), n_particles=5)
    feed(pf, [0, 1])
    opened = unsealed(saved(pf))
    for symbol in (2, 2**31 - 2):
        opened.values()["core"]["pending_symbol"] = symbol
        with pytest.raises(mdvpf.CheckpointError):
            loaded(sealed(opened, version=2))
