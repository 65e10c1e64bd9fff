"""Public attributes: whatever a user assigns, a saved predictor can be loaded."""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mdvpf
from mdvpf.checkpoint import saveable
from mdvpf.checkpoint.saveable import Saveable

SYMBOLS = [0, 1, 1, None, 0, 1]


def fed(predictor: Any) -> Any:
    predictor.run(SYMBOLS)
    return predictor


def small_filter() -> mdvpf.ParticleFilter:
    return mdvpf.ParticleFilter(mdvpf.InfiniteHMM(2), n_particles=5, rng=0, history=3)


THINGS: dict[str, Callable[[], Saveable]] = {
    "ParticleFilter": lambda: fed(small_filter()),
    "FrozenFilter": lambda: fed(small_filter()).freeze(),
    "FrozenNumbers": lambda: fed(
        mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=mdvpf.Gaussian()), n_particles=5)
    ).freeze(),
    "SoftHMM": lambda: fed(mdvpf.SoftHMM(2, n_states=2, rng=0)),
    "Markov": lambda: fed(mdvpf.Markov(2)),
    "ContextTree": lambda: fed(mdvpf.ContextTree(2)),
    "PitmanYorTree": lambda: fed(mdvpf.PitmanYorTree(2)),
    "PitmanYorMixture": lambda: fed(mdvpf.PitmanYorMixture(2)),
    "KnownHMM": lambda: mdvpf.KnownHMM(mdvpf.datasets.HMM([1.0], [[1.0]], [[0.5, 0.5]])),
    "Mixture": lambda: fed(mdvpf.Mixture([mdvpf.Markov(2), small_filter()], restart=2)),
    "GeometricMixture": lambda: fed(mdvpf.GeometricMixture([mdvpf.Markov(2), small_filter()])),
    "Recall": lambda: fed(mdvpf.Recall(mdvpf.Markov(2), n_slots=2, block=2)),
    "FrozenMixture": lambda: fed(mdvpf.Mixture([mdvpf.Markov(2)])).freeze(),
    "SurpriseDetector": lambda: fed(mdvpf.SurpriseDetector(mdvpf.Markov(2), block=4)),
    "Background": lambda: mdvpf.Background(fed(mdvpf.Markov(2))),
    "KeyedDetector": lambda: fed(mdvpf.KeyedDetector(mdvpf.SurpriseDetector(mdvpf.Markov(2)))),
    "Monitor": lambda: mdvpf.Monitor(mdvpf.Markov(2), missing="?"),
}
JUNK = [None, -1, 0, 3, 1.5, "junk", b"junk", True, {"name": object()}, {}, [], (), object()]


def saved(thing: Saveable) -> bytes:
    file = io.BytesIO()
    thing.save(file)
    return file.getvalue()


def attributes(thing: Saveable) -> list[str]:
    """Return the public attributes that are not methods, including those of the instance."""
    names = {name for name in [*dir(type(thing)), *vars(thing)] if not name.startswith("_")}
    return sorted(n for n in names if not inspect.isroutine(getattr(type(thing), n, None)))


def test_every_class_that_can_be_saved_is_here() -> None:
    users = {name for name in saveable._CLASSES if not name.endswith("tests")}
    # Classes that only commands make, and the state of a key, which is checked when it is restored.
    assert set(THINGS) == users - {"FilterRun", "ServiceStream", "KeyState"}


@pytest.mark.parametrize("kind", THINGS)
def test_a_file_saved_after_any_assignment_can_be_loaded(kind: str) -> None:
    names = attributes(THINGS[kind]())
    assert names
    for name in names:
        for junk in JUNK:
            thing = THINGS[kind]()
            before = saved(thing)
            try:
                setattr(thing, name, junk)
            except (AttributeError, TypeError, ValueError):
                assert saved(thing) == before
                continue
            again = type(thing).load(io.BytesIO(saved(thing)))
            assert saved(again) == saved(thing)


@pytest.mark.parametrize("kind", THINGS)
def test_arguments_cannot_be_set_or_deleted(kind: str) -> None:
    thing = THINGS[kind]()
    for name in (
        "model",
        "algorithm",
        "n_particles",
        "n_states",
        "order",
        "depth",
        "beta",
        "share",
        "restart",
        "n_threads",
        "block",
        "smoothing",
        "detector",
        "hmms",
        "n_symbols",
    ):
        if hasattr(thing, name):
            with pytest.raises(AttributeError):
                setattr(thing, name, getattr(thing, name))
            with pytest.raises(AttributeError):
                delattr(thing, name)


def test_the_message_names_the_way() -> None:
    with pytest.raises(AttributeError, match="order of a Markov cannot be set: create another"):
        mdvpf.Markov(2).order = 3


def test_a_generator_can_be_replaced_by_another() -> None:
    pf = small_filter()
    pf.rng = np.random.default_rng(5)
    twin = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(2), n_particles=5, rng=5, history=3)
    assert saved(pf) == saved(twin)
    with pytest.raises(TypeError, match="rng="):
        pf.rng = "junk"  # type: ignore[assignment]


def test_copies_are_read_only_too() -> None:
    for kind, make in THINGS.items():
        thing = make()
        if hasattr(thing, "copy") and kind != "Monitor":
            assert saved(thing.copy()) == saved(thing)
