"""Interleaved sequences: core and reference agree survivor by survivor, for every key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

import mdvpf
from tests.algorithms import EVERY_ALGORITHM
from tests.extended_models import EXTENSIONS
from tests.kernel.agreement import Case, check_agreement
from tests.kernel.comparing import Pair
from tests.kernel.keyed import End, Use
from tests.kernel.test_against_reference import KINDS, algorithms
from tests.kernel.test_extensions_against_reference import models, switching_hmm


def interleaved(
    seed: int, length: int, n_symbols: int, n_keys: int, missing: float, breaks: float
) -> list[Use | End]:
    """Symbols of two models in turn, each of a key at random; None is one of the keys."""
    rng = np.random.default_rng(seed)
    keys = [None, *(f"key {i}" for i in range(n_keys - 1))]
    events: list[Use | End] = []
    for symbol in switching_hmm(seed, length, n_symbols):
        if rng.random() < breaks:
            events.append(End(keys[rng.integers(n_keys)]))
        key = events[-1].key if events and rng.random() < 0.2 else keys[rng.integers(n_keys)]
        events.append(Use(None if rng.random() < missing else symbol, key))
    return events


@dataclass(frozen=True)
class KeyedCase(Case):
    """A case whose events have keys."""

    events: tuple[Use | End, ...]
    n_spare: int  # stretches: with a single one, positions are dropped and moved all the time
    reload_every: int


@st.composite
def cases(draw: st.DrawFn, kind: str) -> KeyedCase:
    n_symbols = draw(st.integers(2, 5))
    classic = draw(st.booleans())
    if classic:
        model = mdvpf.InfiniteHMM(
            n_symbols,
            alpha=draw(st.sampled_from([0.1, 1.0, 8.0])),
            gamma=draw(st.sampled_from([0.1, 1.0, 8.0])),
            beta=draw(st.sampled_from([0.03, 0.3, 3.0])),
            oracle=draw(st.sampled_from(["unvisited", "any"])),
            max_states=draw(st.sampled_from([None, None, 2, 5])),
        )
    else:
        model = draw(models(n_symbols))
    n_keys = draw(st.sampled_from([2, 3, 5, 20, 45]))
    seed = draw(st.integers(0, 2**32 - 1))
    return KeyedCase(
        model,
        draw(algorithms(kind)),
        n_particles=draw(st.integers(1, 12)),
        history=draw(st.sampled_from(["full", None, 2])),
        seed=seed,
        n_spare=draw(st.sampled_from([1, 1, 2, 16])),
        events=tuple(
            interleaved(
                seed,
                draw(st.integers(4, 30 if n_keys < 20 else 90)),
                n_symbols,
                n_keys,
                missing=draw(st.sampled_from([0.0, 0.15])),
                breaks=draw(st.sampled_from([0.0, 0.15, 0.5])),
            )
        ),
        reload_every=draw(st.sampled_from([0, 0, 7])),
    )


def follow(case: KeyedCase) -> Pair:
    """Feed a case to core and reference, saving and loading the core every so often."""
    pair = case.pair()
    pair.core._core._free_stretches(case.n_spare)
    if case.reload_every == 0:
        pair.follow(case.events, tables=10)
        return pair
    for first in range(0, len(case.events), case.reload_every):
        edge = pair.follow(case.events[first : first + case.reload_every], tables=10)
        if edge is not None:
            break
        pair.keyed.reload()
        pair.core._core.verify()
        pair.core._core._free_stretches(case.n_spare)
    return pair


@pytest.mark.parametrize("kind", KINDS)
def test_core_agrees_with_the_reference_for_every_key(kind: str) -> None:
    check_agreement(cases(kind), {"MDVPA": 40}.get(kind, 20), follow)


@pytest.mark.torture
@pytest.mark.parametrize("kind", KINDS)
def test_core_agrees_with_the_reference_for_every_key_in_many_more_cases(
    kind: str, torture_scale: float
) -> None:
    check_agreement(cases(kind), int(6000 * torture_scale), follow)


MODELS: dict[str, dict[str, Any]] = {"classic": {}, **EXTENSIONS}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("algorithm", EVERY_ALGORITHM)
@pytest.mark.parametrize("model", MODELS)
def test_every_algorithm_agrees_with_the_reference_for_forty_keys(
    model: str, algorithm: str
) -> None:
    pair = Pair(
        mdvpf.InfiniteHMM(4, beta=0.2, gamma=2.0, **MODELS[model]),
        EVERY_ALGORITHM[algorithm],
        n_particles=5,
        seed=3,
    )
    pair.core._core._free_stretches(1)
    pair.core._core._release_every(8)
    events = interleaved(6, 70, 4, n_keys=40, missing=0.05, breaks=0.05)
    assert pair.follow(events, predictions=7, tables=10) is None
    assert pair.core._core._n_stretches > 2
