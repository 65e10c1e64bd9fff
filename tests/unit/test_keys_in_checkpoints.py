"""`n_keys` survives a checkpoint, also where no sequence has begun.

A file of version 1 has no table of keys: there the position tells whether the sequence has begun.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

import mdvpf

V = 3
FADING = mdvpf.InfiniteHMM(V, forget=12.0)  # in step 2 the state of step 1 has faded away

MAKERS: dict[str, Callable[[], Any]] = {
    "markov": lambda: mdvpf.Markov(V),
    "context tree": lambda: mdvpf.ContextTree(V),
    "tree": lambda: mdvpf.PitmanYorTree(V),
    "mixture": lambda: mdvpf.Mixture([mdvpf.Markov(V), mdvpf.ContextTree(V)]),
    "filter": lambda: mdvpf.ParticleFilter(mdvpf.InfiniteHMM(V), n_particles=4, rng=0),
    "soft_hmm": lambda: mdvpf.SoftHMM(V, n_states=4, rng=0),
    "recall": lambda: mdvpf.Recall(mdvpf.Markov(V)),
    "frozen": lambda: mdvpf.ParticleFilter(mdvpf.InfiniteHMM(V), n_particles=4, rng=0).freeze(),
    "fading": lambda: mdvpf.ParticleFilter(FADING, n_particles=4, rng=0),
}


def saved(predictor: Any) -> bytes:
    file = io.BytesIO()
    predictor.save(file)
    return file.getvalue()


def check(predictor: Any, n_keys: int) -> None:
    loaded = type(predictor).load(io.BytesIO(saved(predictor)))
    assert predictor.n_keys == loaded.n_keys == n_keys
    assert loaded.predict_proba().tolist() == predictor.predict_proba().tolist()


@pytest.mark.parametrize("maker", MAKERS)
def test_a_checkpoint_tells_which_keys_are_in_use(maker: str) -> None:
    predictor = MAKERS[maker]()
    check(predictor, 0)
    predictor.update(0)
    check(predictor, 1)
    predictor.update(1)
    check(predictor, 1)
    predictor.new_sequence()
    check(predictor, 0)
    predictor.update(1, "a")
    check(predictor, 1)
    predictor.update(2)
    check(predictor, 2)
    predictor.new_sequence("a")
    check(predictor, 1)
    predictor.new_sequence()
    check(predictor, 0)


@pytest.mark.parametrize("maker", ["markov", "context tree", "mixture", "filter"])
def test_without_keys_files_stay_readable_for_version_0_1(maker: str) -> None:
    predictor = MAKERS[maker]()
    for act in (lambda: None, lambda: predictor.update(0), predictor.new_sequence):
        act()
        assert saved(predictor)[8:12] == (1).to_bytes(4, "little")
