"""Interleaved sequences: core and reference agree survivor by survivor, for every key."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import mdvpf
from mdvpf.model.algorithms import Algorithm
from tests.algorithms import EVERY_ALGORITHM
from tests.extended_models import EXTENSIONS
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
class KeyedCase:
    model: mdvpf.InfiniteHMM
    algorithm: Algorithm
    n_particles: int
    history: Any
    seed: int
    n_spare: int  # stretches: with a single one, positions are dropped and moved all the time
    events: tuple[Use | End, ...]
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


def follow(pair: Pair, case: KeyedCase) -> Any:
    """Feed a case, saving and loading the core every so often."""
    if case.reload_every == 0:
        return pair.follow(case.events, tables=10)
    for first in range(0, len(case.events), case.reload_every):
        edge = pair.follow(case.events[first : first + case.reload_every], tables=10)
        if edge is not None:
            return edge
        pair.keyed.reload()
        pair.core._core.verify()
        pair.core._core._free_stretches(case.n_spare)
    return None


def compare(kind: str, max_examples: int) -> Counter[str]:
    """Compare core and reference on many cases; count the outcomes."""
    outcomes: Counter[str] = Counter()

    @settings(
        max_examples=max_examples,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(case=cases(kind))
    def agree(case: KeyedCase) -> None:
        pair = Pair(
            case.model, case.algorithm, case.n_particles, seed=case.seed, history=case.history
        )
        pair.core._core._free_stretches(case.n_spare)
        edge = follow(pair, case)
        outcome = "agreed to the end" if edge is None else f"parted on a tie: {edge[0]}"
        event(outcome)
        outcomes[outcome] += 1

    agree()
    return outcomes


@pytest.mark.parametrize("kind", KINDS)
def test_core_agrees_with_the_reference_for_every_key(kind: str) -> None:
    outcomes = compare(kind, max_examples={"MDVPA": 40}.get(kind, 20))
    assert outcomes["agreed to the end"] >= 0.97 * outcomes.total(), outcomes


@pytest.mark.torture
@pytest.mark.parametrize("kind", KINDS)
def test_core_agrees_with_the_reference_for_every_key_in_many_more_cases(
    kind: str, torture_scale: float
) -> None:
    outcomes = compare(kind, max_examples=int(6000 * torture_scale))
    assert outcomes["agreed to the end"] >= 0.97 * outcomes.total(), outcomes


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
