"""Real counts, Mealy rows, the oracle of rows and stickiness: the core and the reference.

Both round counts in the same way (`round24`), so the tests compare them survivor by survivor.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

import mdvpf
from mdvpf.model import MACHINES, ORACLES, extensions
from mdvpf.model.algorithms import Algorithm
from tests.algorithms import EVERY_ALGORITHM
from tests.extended_models import EXTENSIONS
from tests.kernel.agreement import Case, check_agreement
from tests.kernel.comparing import Pair
from tests.kernel.inspecting import BREAK, Event
from tests.kernel.test_against_reference import (
    KINDS,
    PATTERNS,
    algorithms,
    hyper_parameters,
    stream,
    switching_hmm,
)

FORGETTING: tuple[dict[str, float], ...] = (
    {},
    {},
    {"forget": 0.5},
    {"forget": 1.0},
    {"forget": 4.0},
    {"forget": 20.0},
    {"half_life": 0.05},  # no state lasts until the next step
    {"half_life": 0.5},
    {"half_life": 3.0},
    {"half_life": 40.0},
    {"half_life": 1000.0},
)


def betas(fades: bool) -> st.SearchStrategy[float]:
    """Draw pseudo-counts; with forgetting, large enough that a count of 2**-30 is negligible.

    The core may drop such a count. The relative error of the emissions of a state, a difference of
    two rounded sums, also has no bound, so that small pseudo-counts would lose all digits.
    """
    return st.floats(-1.5, 3.0).map(lambda x: 10.0**x) if fades else hyper_parameters()


def extended(
    n_symbols: int, oracle: str, machine: str, kappa: float, **rest: Any
) -> mdvpf.InfiniteHMM:
    """Return a model that the core runs with counts of 32 bits."""
    model = mdvpf.InfiniteHMM(n_symbols, oracle=oracle, machine=machine, kappa=kappa, **rest)
    return model if extensions(model) else replace(model, oracle="rows")


@st.composite
def models(draw: st.DrawFn, n_symbols: int) -> mdvpf.InfiniteHMM:
    forgetting = draw(st.sampled_from(FORGETTING))
    return extended(
        n_symbols,
        draw(st.sampled_from(ORACLES)),
        draw(st.sampled_from(MACHINES)),
        draw(st.one_of(st.just(0.0), st.sampled_from([1e-3, 0.3, 1.0, 20.0]))),
        alpha=draw(hyper_parameters()),
        gamma=draw(hyper_parameters()),
        beta=draw(betas(fades=bool(forgetting))),
        max_states=draw(st.one_of(st.none(), st.none(), st.integers(1, 6))),
        **forgetting,
    )


@st.composite
def cases(draw: st.DrawFn, kind: str) -> Case:
    n_symbols = draw(
        st.one_of(*[st.integers(1, 6)] * 5, st.sampled_from([70, 300])),
    )
    model = draw(models(n_symbols))
    # Rows are recounted before steps 64 and 128: some streams are that long, with few particles.
    size = draw(st.sampled_from(["many particles", "many particles", "many symbols"]))
    if n_symbols > 6:
        most_symbols, most_particles = 7, 8
    elif size == "many particles":
        most_symbols, most_particles = 28, 40
    else:
        most_symbols, most_particles = 135, 4
    seed = draw(st.integers(0, 2**32 - 1))
    return Case(
        model,
        draw(algorithms(kind)),
        n_particles=draw(st.integers(1, most_particles)),
        history=draw(st.sampled_from(["full", "full", None, 1, 2, 5])),
        seed=seed,
        events=tuple(
            stream(
                seed,
                n_symbols,
                draw(st.integers(4, most_symbols)),
                draw(st.sampled_from(PATTERNS)),
                missing=draw(st.sampled_from([0.0, 0.0, 0.15, 0.5])),
                breaks=draw(st.sampled_from([0.0, 0.0, 0.15])),
            )
        ),
    )


@pytest.mark.parametrize("kind", KINDS)
def test_core_agrees_with_the_reference_step_by_step(kind: str) -> None:
    check_agreement(cases(kind), max_examples={"MDVPA": 60, "SMC": 30}.get(kind, 20))


@pytest.mark.torture
@pytest.mark.parametrize("kind", KINDS)
def test_core_agrees_with_the_reference_on_many_more_cases(kind: str, torture_scale: float) -> None:
    check_agreement(cases(kind), max_examples=int(8000 * torture_scale))


# --- Every algorithm with every extension


def mixed_events(seed: int, length: int, n_symbols: int) -> list[Event]:
    """Symbols of two models in turn, with some missing and some ends of sequences."""
    rng = np.random.default_rng(seed)
    events: list[Event] = []
    for symbol in switching_hmm(seed, length, n_symbols):
        if rng.random() < 0.04:
            events.append(BREAK)
        events.append(None if rng.random() < 0.08 else symbol)
    return events


@pytest.mark.one_in(3)
@pytest.mark.parametrize("algorithm", EVERY_ALGORITHM)
@pytest.mark.parametrize("extension", EXTENSIONS)
def test_every_algorithm_agrees_with_the_reference_on_every_extension(
    extension: str, algorithm: str
) -> None:
    model = mdvpf.InfiniteHMM(4, beta=0.2, gamma=2.0, **EXTENSIONS[extension])
    pair = Pair(model, EVERY_ALGORITHM[algorithm], n_particles=5, seed=3)
    assert pair.follow(mixed_events(6, 70, 4), tables=10) is None
    assert pair.core._core.n_steps >= 69


# --- Longer streams


LONG_RUNS: dict[str, Algorithm] = {
    "VPA": mdvpf.VPA(),
    "MD-VPA": mdvpf.MDVPA(),
    "SMC": mdvpf.SMC(),
    "ParticleLearning": mdvpf.ParticleLearning(),
    "OptimalResampling": mdvpf.OptimalResampling(),
}

LONG_MODELS: dict[str, dict[str, Any]] = {
    "rows, half-life 20": {"oracle": "rows", "half_life": 20.0},
    "mealy, rows, forget 2": {"oracle": "rows", "machine": "mealy", "forget": 2.0, "kappa": 0.2},
    "any, half-life 300": {"oracle": "any", "half_life": 300.0},
    "mealy, rows": {"oracle": "rows", "machine": "mealy", "max_states": 6},
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", LONG_RUNS)
@pytest.mark.parametrize("extension", LONG_MODELS)
def test_core_agrees_with_the_reference_over_a_switching_stream(extension: str, name: str) -> None:
    model = mdvpf.InfiniteHMM(5, beta=0.3, **LONG_MODELS[extension])
    pair = Pair(model, LONG_RUNS[name], n_particles=20, seed=4)
    edge = pair.follow(switching_hmm(8, 130, 5), predictions=40, tables=40)
    assert edge is None
    assert len(pair.core.weights) == 20


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", LONG_RUNS)
@pytest.mark.parametrize("extension", LONG_MODELS)
def test_core_agrees_with_the_reference_over_a_long_switching_stream(
    extension: str, name: str, seed: int, torture_scale: float
) -> None:
    model = mdvpf.InfiniteHMM(5, beta=0.3, **LONG_MODELS[extension])
    pair = Pair(model, LONG_RUNS[name], n_particles=50, seed=seed)
    length = int(100 + 1400 * torture_scale)
    edge = pair.follow(mixed_events(seed, length, 5), predictions=50, tables=50)
    assert edge is None or pair.core._core.n_steps > 50
