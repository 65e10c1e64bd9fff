"""The reference with the rounding of the compiled core: sums of weights in 24 significant bits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import mdvpf
from mdvpf.reference import (
    GONE,
    START,
    Memory,
    Particle,
    ReferenceFilter,
    Symbol,
    emission_probability,
    move,
    round24,
    transition_probabilities,
)
from tests.algorithms import EVERY_ALGORITHM

FADING: dict[str, dict[str, Any]] = {
    "forget 1": {"forget": 1.0},
    "forget 20": {"forget": 20.0},
    "half-life 0.5": {"half_life": 0.5},
    "half-life 3": {"half_life": 3.0},
    "half-life 40": {"half_life": 40.0},
}


# --- round24


def dithered(x: float, step: int) -> float:
    """The definition, in the integers of NumPy."""
    with np.errstate(over="ignore"):
        dither = np.uint64(step) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(35)
    bits = np.array([x]).view(np.uint64) + dither
    bits &= ~np.uint64(2**29 - 1)
    return float(bits.view(np.float64)[0])


def test_rounding_is_to_a_neighbour_among_32_bit_floats() -> None:
    rng = np.random.default_rng(1)
    for step, x in enumerate(np.exp(rng.normal(scale=20.0, size=2000)).tolist(), 1):
        rounded = round24(x, step)
        assert rounded == dithered(x, step)
        assert rounded == float(np.float32(rounded))
        assert abs(rounded - x) < x * 2.0**-23
        assert round24(rounded, step + 1) == rounded
        assert round24(x * 2.0**-70, step) == rounded * 2.0**-70


def test_rounding_is_up_as_often_as_it_should_be() -> None:
    for part in (0.1, 0.5, 0.8):
        x = 1.0 + part * 2.0**-23
        n_up = sum(round24(x, step) > x for step in range(1, 1001))
        assert n_up == pytest.approx(1000 * part, abs=5)


@pytest.mark.parametrize("every", [1, 2, 89, 1024])  # 89 is a Fibonacci number
def test_small_increments_do_not_vanish_beside_a_large_count(every: int) -> None:
    n = 1_000_000 // every
    start = 2.0**26
    kept = start
    for step in range(every, every * n + 1, every):
        kept = round24(kept + 1.0, step)
    assert kept - start == pytest.approx(n, rel=0.02)
    assert np.float32(start) + np.float32(1.0) == start  # to nearest, all of them vanish


def test_integers_of_24_bits_are_exact() -> None:
    for kept in (0.0, 1.0, 2.0, 2.0**24 - 2.0, 2.0**24 - 1.0):
        assert {round24(kept + 1.0, step) for step in range(1, 1000)} == {kept + 1.0}


# --- Counts


def added(sums: dict[Any, float], key: Any, weight: float, step: int) -> None:
    sums[key] = round24(sums.get(key, 0.0) + weight, step)


def counted(
    memory: Memory, path: list[int], symbols: list[Symbol]
) -> tuple[dict[Any, float], dict[Any, float], dict[int, float]]:
    """Counts of transitions, emissions and states, from sums of weights without rescaling."""
    transition: dict[Any, float] = {}
    emission: dict[Any, float] = {}
    into: dict[int, float] = {}

    def weight(n: int) -> float:
        return (
            float(n) ** memory.forget if memory.half_life is None else 2 ** (n / memory.half_life)
        )

    row: Any = START
    for n, (state, symbol) in enumerate(zip(path, symbols, strict=True), 1):
        if transition.get((row, state), 0.0) / weight(n) < GONE:
            transition[row, state] = 0.0
        added(transition, (row, state), weight(n), n)
        added(emission, (state, symbol), weight(n), n)
        added(into, state, weight(n), n)
        row = (state, symbol) if memory.machine == "mealy" else state
        if into[state] / weight(n + 1) < GONE:
            row = START
    now = weight(len(path) + 1)
    into = {c: total / now for c, total in into.items() if total / now >= GONE}
    return (
        {key: total / now for key, total in transition.items() if total / now >= GONE},
        {key: total / now for key, total in emission.items() if key[0] in into},
        into,
    )


@pytest.mark.parametrize("machine", ["moore", "mealy"])
@pytest.mark.parametrize("fading", FADING)
def test_counts_are_rounded_sums_of_weights_over_the_weight_of_the_next_step(
    fading: str, machine: Any
) -> None:
    model = mdvpf.InfiniteHMM(3, machine=machine, beta=0.2, **FADING[fading])
    rng = np.random.default_rng(7)
    particle = Particle(memory=Memory.of(model, rounding=True))
    symbols: list[Symbol] = []
    n_rounded = 0
    for _ in range(45):  # 2**(46 / 0.5) is far from the largest double
        # Mostly at home, so that what happens elsewhere fades away.
        old = [c for c in particle.into if c == 0 or rng.random() < 0.2]
        state = particle.n_states if not old or rng.random() < 0.15 else int(rng.choice(old))
        symbol = None if rng.random() < 0.3 else int(rng.integers(3))
        particle = move(particle, state, symbol, parent=0, log_weight=0.0)
        symbols.append(symbol)

        transition, emission, into = counted(particle.memory, particle.path, symbols)
        unit = particle.unit
        assert {c: n / unit for c, n in particle.into.items()} == pytest.approx(into, rel=1e-12)
        found = {key: n / unit for key, n in particle.transition.items()}
        assert found == pytest.approx(transition, rel=1e-12)
        table = particle.counts(3).emission
        for c, total in into.items():
            expected = [emission.get((c, y), 0.0) for y in range(3)]
            assert table[c] == pytest.approx(expected, rel=1e-12)
            observed = max(0.0, total - emission.get((c, None), 0.0))
            probability = (expected[1] + 0.2) / (observed + 0.6)
            assert emission_probability(model, particle, c, 1) == pytest.approx(probability)
            n_rounded += observed != math.fsum(expected)
        assert math.fsum(transition_probabilities(model, particle)) == pytest.approx(1.0)
    if fading != "half-life 0.5":  # the weights there are powers of two
        assert n_rounded > 0
    if fading in ("forget 20", "half-life 0.5"):
        assert len(particle.into) < particle.n_states  # some were released


def test_counts_that_do_not_fade_are_the_same_integers() -> None:
    model = mdvpf.InfiniteHMM(2, machine="mealy", oracle="rows", kappa=0.5)
    stream = np.random.default_rng(0).integers(2, size=60).tolist()
    exact, rounded = (
        ReferenceFilter(model, mdvpf.VPA(), 5, rounding=rounding) for rounding in (False, True)
    )
    for symbol in (*stream, None, *stream[:20]):
        assert rounded.update(symbol) == exact.update(symbol)
    for a, b in zip(rounded.particles, exact.particles, strict=True):
        for found, table in zip(a.counts(2), b.counts(2), strict=True):
            assert np.array_equal(found, table)
            assert found.dtype == table.dtype


@pytest.mark.parametrize(
    "fading", [{"half_life": 1e-50}, {"half_life": 1e50}, {"forget": 1e50}, {"half_life": 0.05}]
)
def test_no_weight_overflows(fading: dict[str, float]) -> None:
    pf = ReferenceFilter(mdvpf.InfiniteHMM(2, **fading), mdvpf.VPA(), 4, rounding=True)
    twin = ReferenceFilter(mdvpf.InfiniteHMM(2, **fading), mdvpf.VPA(), 4)
    for symbol in [0, 1, 1] * 25:
        assert pf.update(symbol) == pytest.approx(twin.update(symbol), rel=1e-6)


def test_rounding_is_a_bool() -> None:
    with pytest.raises(TypeError, match="rounding=1: expected True or False"):
        ReferenceFilter(mdvpf.InfiniteHMM(2), rounding=1)  # type: ignore[arg-type]


# --- Whole filters

MODELS: dict[str, dict[str, Any]] = {
    "rows, forget 1": {"oracle": "rows", "forget": 1.0},
    "mealy rows, half-life 40": {"oracle": "rows", "machine": "mealy", "half_life": 40.0},
    "sticky, half-life 15": {"oracle": "any", "kappa": 0.7, "half_life": 15.0},
    "unvisited, forget 4": {"oracle": "unvisited", "forget": 4.0, "max_states": 4},
    "mealy, sticky": {"oracle": "unvisited", "machine": "mealy", "kappa": 0.4},
}


@pytest.mark.parametrize(
    "algorithm", ["MD-VPA", "VPA", "SMC", "ParticleLearning", "OptimalResampling"]
)
@pytest.mark.parametrize("model", MODELS)
def test_log_predictives_are_those_of_real_numbers_to_1e_4(model: str, algorithm: str) -> None:
    hmm = mdvpf.InfiniteHMM(4, beta=0.1, **MODELS[model])
    rng = np.random.default_rng(3)
    jumps = np.where(rng.random(250) < 0.3, rng.integers(4, size=250), 1)
    exact, rounded = (
        ReferenceFilter(hmm, EVERY_ALGORITHM[algorithm], 4, rng=8, rounding=rounding)
        for rounding in (False, True)
    )
    n_compared = 0
    for n, symbol in enumerate((np.cumsum(jumps) % 4).tolist()):
        if n % 50 == 49:
            exact.new_sequence()
            rounded.new_sequence()
        symbol = None if n % 20 == 11 else symbol
        expected = exact.update(symbol).log_predictive
        assert rounded.update(symbol).log_predictive == pytest.approx(expected, rel=0, abs=1e-4)
        n_compared += 1
        if [p.path for p in rounded.particles] != [p.path for p in exact.particles]:
            break  # a tie was broken differently
        if type(exact.algorithm) is mdvpf.MDVPA and (
            [p.path for p in rounded.committed] != [p.path for p in exact.committed]
        ):
            break
    assert n_compared >= 100


@pytest.mark.parametrize("model", MODELS)
def test_with_all_histories_the_evidence_is_that_of_real_numbers_to_1e_5(model: str) -> None:
    hmm = mdvpf.InfiniteHMM(4, beta=0.1, **MODELS[model])
    exact, rounded = (
        ReferenceFilter(hmm, mdvpf.VPA(), 203, rounding=rounding) for rounding in (False, True)
    )
    for symbol in (0, 1, None, 1, 0, 2):
        found, expected = rounded.update(symbol), exact.update(symbol)
        assert found.log_predictive == pytest.approx(expected.log_predictive, rel=0, abs=1e-5)
        assert found.discarded == expected.discarded == 0.0
    assert rounded.predict_proba() == pytest.approx(exact.predict_proba(), rel=0, abs=1e-5)
