"""Text about objects: short for large ones, complete where it identifies them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mdvpf
from mdvpf.datasets import HMM, Clicks, HMMStream, Masquerade, TextStream

LONGEST = 800


def coin() -> HMM:
    return HMM([1.0], [[1.0]], [[0.5, 0.5]])


def many_numbers(*shape: int) -> Any:
    return np.zeros(shape, dtype=np.int64)


THINGS: dict[str, Callable[[], Any]] = {
    "auto": lambda: mdvpf.auto(3, 168, rng=0),
    "frozen auto": lambda: mdvpf.auto(3, 168, rng=0).freeze(),
    "detector": lambda: mdvpf.SurpriseDetector(mdvpf.auto(3, 168)),
    "monitor": lambda: mdvpf.Monitor(mdvpf.auto(3, 168)),
    "mixture": lambda: mdvpf.Mixture([mdvpf.Markov(3)] * 200),
    "grid": lambda: mdvpf.Mixture.grid(3, n_particles=2),
    "known": lambda: mdvpf.KnownHMM([coin()] * 2000, range(1, 2000)),
    "discounts": lambda: mdvpf.MDVPA(discount=[0.5] * 10_000),
    "filter": lambda: mdvpf.ParticleFilter(
        mdvpf.InfiniteHMM(3), mdvpf.MDVPA(discount=[0.5] * 10_000), n_particles=2
    ),
    "depths": lambda: mdvpf.PitmanYorMixture(3, depths=range(500)),
    "vocabulary": lambda: mdvpf.Vocabulary(["x" * 9999, *range(9999)], unknown=("y" * 9999,)),
    "run": lambda: mdvpf.Markov(3).run(many_numbers(5000)),
    "run of a mixture": lambda: mdvpf.Mixture([mdvpf.Markov(3)] * 9).run(many_numbers(500)),
    "detections": lambda: mdvpf.SurpriseDetector(mdvpf.Markov(3)).run(many_numbers(5000)),
    "HMM": lambda: HMM(np.full(30, 1 / 30), np.full((30, 30), 1 / 30), np.full((30, 4), 0.25)),
    "HMMs": lambda: mdvpf.datasets.switching_hmm(rng=0),
    "stream": lambda: HMMStream(many_numbers(9), many_numbers(9), many_numbers(9), (coin(),) * 99),
    "clicks": lambda: Clicks(many_numbers(9999), many_numbers(999), ("page",) * 999),
    "commands": lambda: Masquerade(many_numbers(50, 500), many_numbers(50, 5), ("ls",) * 856),
    "text": lambda: TextStream(many_numbers(999), many_numbers(2), "ab", ("title",) * 99, (9,)),
}


@pytest.mark.parametrize("kind", THINGS)
def test_a_repr_is_short_and_names_the_class(kind: str) -> None:
    thing = THINGS[kind]()
    text = repr(thing)
    assert text.startswith(type(thing).__name__)
    assert len(text) <= LONGEST


def test_small_objects_are_shown_in_full() -> None:
    chains = [mdvpf.Markov(3), mdvpf.ContextTree(3)]
    text = repr(mdvpf.Mixture(chains))
    assert text == f"Mixture([{chains[0]!r}, {chains[1]!r}], share=0.01, restart=None)"
    assert repr(mdvpf.MDVPA(discount=[0.5, 0.25])).startswith("MDVPA(discount=(0.5, 0.25), ")
    assert repr(coin()) == (
        "HMM(start=array([1.]), transition=array([[1.]]), emission=array([[0.5, 0.5]]))"
    )


def test_the_members_of_large_mixtures_are_counted() -> None:
    assert repr(mdvpf.auto(3, 168, version=1, baselines=False)).startswith(
        "Mixture([Mixture(<36 members: 36 ParticleFilter>, share=0.1, restart=None), Mixture(<6 "
    )
    assert repr(mdvpf.Mixture([mdvpf.Markov(3)] * 200)).startswith(
        "Mixture(<200 members: 200 Markov>"
    )


def test_descriptions_tell_mixtures_apart_that_look_alike() -> None:
    first, second = (mdvpf.auto(3, n) for n in (168, 252))
    assert repr(first) == repr(second)
    assert first._description() != second._description()
    assert first.freeze()._description() == first.freeze()._description()


@pytest.mark.parametrize("junk", ["x" * 10**6, list(range(10**6)), {1: "y" * 10**6}])
def test_messages_are_short_too(junk: Any) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: mdvpf.Markov(junk),
        lambda: mdvpf.Markov(2, beta=junk),
        lambda: mdvpf.Markov(2).update(junk),
        lambda: mdvpf.Markov(2).run([junk]),
        lambda: mdvpf.Markov(2).run([0], progress=junk),
        lambda: mdvpf.SoftHMM(2, machine=junk),
        lambda: mdvpf.SurpriseDetector(mdvpf.Markov(2), learn=junk),
        lambda: mdvpf.ParticleFilter(mdvpf.InfiniteHMM(2), n_particles=junk),
    ]
    for call in calls:
        with pytest.raises((TypeError, ValueError)) as caught:
            call()
        assert len(str(caught.value)) < 600
