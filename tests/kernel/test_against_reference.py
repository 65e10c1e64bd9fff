"""The compiled core against the slow, plain reference, on everything that can be configured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

import mdvpf
from mdvpf.model.algorithms import ALGORITHMS, NORMALIZERS, RESAMPLINGS, SELECTIONS, Algorithm
from tests.kernel.agreement import Case, check_agreement
from tests.kernel.comparing import Pair
from tests.kernel.inspecting import BREAK, Event

KINDS = tuple(kind.__name__ for kind in ALGORITHMS)
PATTERNS = ("uniform", "sticky", "cyclic", "constant", "rare")


def hyper_parameters() -> st.SearchStrategy[float]:
    usual = st.floats(-3.0, 3.0).map(lambda exponent: 10.0**exponent)
    return st.one_of(usual, usual, usual, usual, st.sampled_from([1.0, 1e-50, 1e50]))


def discounts() -> st.SearchStrategy[Any]:
    values = st.one_of(st.floats(0.0, 3.0), st.sampled_from([0.0, 1.0, 10.0]))
    return st.one_of(
        st.sampled_from(["1/n", "1/sqrt(n)"]),
        values,
        st.sampled_from([30.0, 1000.0]),
        st.lists(values, min_size=1, max_size=5).map(lambda some: (some * 150)[:150]),
        st.tuples(st.floats(0.0, 2.0), st.integers(1, 4)).map(periodic),
    )


def periodic(parameters: tuple[float, int]) -> Any:
    """Return a discount as a function of the step: a value, and 0 every so often."""
    value, period = parameters
    return lambda n: 0.0 if n % period == 0 else value / n


def algorithms(kind: str) -> st.SearchStrategy[Algorithm]:
    if kind == "MDVPA":
        return st.builds(
            mdvpf.MDVPA,
            discount=discounts(),
            normalizer=st.sampled_from(NORMALIZERS),
            carry_weights=st.sampled_from([True, True, True, False]),
            selection=st.sampled_from(SELECTIONS),
        )
    if kind == "VPA":
        return st.builds(mdvpf.VPA, carry_weights=st.sampled_from([True, True, False]))
    if kind == "SMC":
        return st.builds(
            mdvpf.SMC,
            resampling=st.sampled_from(RESAMPLINGS),
            ess_threshold=st.one_of(st.none(), st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1)),
        )
    return st.just(getattr(mdvpf, kind)())


@st.composite
def cases(draw: st.DrawFn, kind: str) -> Case:
    n_symbols = draw(
        st.one_of(
            st.integers(1, 6),
            st.integers(1, 6),
            st.integers(1, 6),
            st.integers(1, 6),
            st.sampled_from([70, 255, 256, 300, 1100, 5000]),
        )
    )
    model = mdvpf.InfiniteHMM(
        n_symbols,
        alpha=draw(hyper_parameters()),
        gamma=draw(hyper_parameters()),
        beta=draw(hyper_parameters()),
        oracle=draw(st.sampled_from(["unvisited", "any"])),
        max_states=draw(st.one_of(st.none(), st.none(), st.integers(1, 6))),
    )
    small = n_symbols <= 6
    seed = draw(st.integers(0, 2**32 - 1))
    pattern = draw(st.sampled_from(PATTERNS))
    length = draw(st.integers(4, 28 if small else 7))
    missing = draw(st.sampled_from([0.0, 0.0, 0.15, 0.5]))
    breaks = draw(st.sampled_from([0.0, 0.0, 0.15]))
    return Case(
        model,
        draw(algorithms(kind)),
        n_particles=draw(st.integers(1, 40 if small else 8)),
        history=draw(st.sampled_from(["full", "full", None, 1, 2, 5])),
        seed=seed,
        events=tuple(stream(seed, n_symbols, length, pattern, missing, breaks)),
    )


def stream(
    seed: int, n_symbols: int, length: int, pattern: str, missing: float, breaks: float
) -> list[Event]:
    """Return symbols with some missing, and starts of new sequences among them."""
    rng = np.random.default_rng([seed, 1])
    uniform = rng.integers(n_symbols, size=length)
    if pattern == "sticky":
        symbols = np.cumsum(np.where(rng.random(length) < 0.3, uniform, 0)) % n_symbols
    elif pattern == "cyclic":
        symbols = (uniform[0] + np.arange(length)) % n_symbols
    elif pattern == "constant":
        symbols = np.full(length, uniform[0])
    elif pattern == "rare":
        symbols = np.where(rng.random(length) < 0.15, uniform, n_symbols - 1)
    else:
        symbols = uniform
    events: list[Event] = []
    for symbol in symbols.tolist():
        if rng.random() < breaks:
            events.append(BREAK)
        events.append(None if rng.random() < missing else symbol)
    return events


@pytest.mark.parametrize("kind", KINDS)
def test_core_agrees_with_the_reference_step_by_step(kind: str) -> None:
    check_agreement(cases(kind), max_examples={"MDVPA": 60, "SMC": 40}.get(kind, 30))


@pytest.mark.torture
@pytest.mark.parametrize("kind", KINDS)
def test_core_agrees_with_the_reference_on_many_more_cases(kind: str, torture_scale: float) -> None:
    check_agreement(cases(kind), max_examples=int(8000 * torture_scale))


# --- One longer stream


def switching_hmm(seed: int, length: int, n_symbols: int) -> list[Event]:
    """Symbols of two hidden Markov models that take turns, a hundred symbols each."""
    rng = np.random.default_rng(seed)
    n_states = 4
    regimes = [
        (
            rng.dirichlet(np.full(n_states, 0.3), n_states),
            rng.dirichlet(np.full(n_symbols, 0.2), n_states),
        )
        for _ in range(2)
    ]
    state = 0
    symbols: list[Event] = []
    for n in range(length):
        transition, emission = regimes[n // 100 % 2]
        state = int(rng.choice(n_states, p=transition[state]))
        symbols.append(int(rng.choice(n_symbols, p=emission[state])))
    return symbols


LONG_RUNS: dict[str, Algorithm] = {
    "VPA": mdvpf.VPA(),
    "MD-VPA": mdvpf.MDVPA(),
    "SMC": mdvpf.SMC(),
    "OptimalResampling": mdvpf.OptimalResampling(),
}


@pytest.mark.parametrize("name", LONG_RUNS)
def test_core_agrees_with_the_reference_over_a_switching_stream(name: str) -> None:
    model = mdvpf.InfiniteHMM(5, alpha=1.0, gamma=1.0, beta=0.3, max_states=8)
    pair = Pair(model, LONG_RUNS[name], n_particles=60, seed=4)
    edge = pair.follow(switching_hmm(8, 230, 5), predictions=40, tables=40)
    assert edge is None
    assert len(pair.core.weights) == 60


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", LONG_RUNS)
def test_core_agrees_with_the_reference_over_a_long_switching_stream(
    name: str, seed: int, torture_scale: float
) -> None:
    model = mdvpf.InfiniteHMM(5, alpha=1.0, gamma=1.0, beta=0.3)
    model = replace(model, oracle="any" if seed % 2 else "unvisited")
    pair = Pair(model, LONG_RUNS[name], n_particles=100, seed=seed)
    length = int(100 + 1900 * torture_scale)
    edge = pair.follow(switching_hmm(seed, length, 5), predictions=50, tables=50)
    assert edge is None or edge[0] in ("grid", "uniform")
    assert pair.core._core.n_steps > 50
