"""The parts of the benchmarks in which a mistake would give a wrong figure."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import mdvpf
from benchmarks import numbers
from benchmarks.figures import Figure, table
from benchmarks.gate import compare
from benchmarks.memory import RowCensus
from benchmarks.particles import n_candidates, tables
from benchmarks.peers.dense import Dense
from benchmarks.peers.dense_numpy import DenseVPA
from benchmarks.peers.floor import FloorKernel
from benchmarks.peers.gaussian_numpy import GaussianVPA
from benchmarks.peers.tuned_numpy import TunedVPA
from benchmarks.timing import Contender, race, windows

SYMBOLS = np.random.default_rng(5).integers(4, size=120).astype(np.int32)
MODEL = mdvpf.InfiniteHMM(4, beta=0.1)

needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="needs a C compiler"
)


def run_filter(n_particles: int) -> mdvpf.ParticleFilter:
    pf = mdvpf.ParticleFilter(MODEL, mdvpf.VPA(), n_particles=n_particles)
    pf.run(SYMBOLS)
    return pf


# --- The floor


def kernel_of(
    n_candidates: list[int], weight: list[float], counts: np.ndarray, budget: int
) -> FloorKernel:
    return FloorKernel(
        np.array(n_candidates, np.uint32),
        np.array(weight),
        counts[0].astype(np.uint16),
        counts[1].astype(np.uint16),
        budget=budget,
        alpha=1.0,
        prior=0.5,
    )


@needs_compiler
@pytest.mark.parametrize("largest_count", [1, 3, 1000], ids=["all tied", "ties", "few ties"])
@pytest.mark.parametrize("budget", [1, 40, 700, 5000])
def test_the_floor_selects_the_largest_scores_and_of_equal_ones_the_earliest(
    largest_count: int, budget: int
) -> None:
    rng = np.random.default_rng(budget)
    sizes = rng.integers(1, 20, size=300)
    weight = rng.choice([0.5, 1.0], size=300) if largest_count < 1000 else rng.random(300)
    counts = rng.integers(largest_count, size=(2, int(sizes.sum())))
    survivors = kernel_of(sizes.tolist(), weight.tolist(), counts, budget).step()
    scores = np.repeat(weight, sizes) * (counts[0] + 1.0) / (counts[1] + 0.5)
    best = np.sort(np.argsort(-scores, kind="stable")[:budget])
    assert survivors.tolist() == best.tolist()


@needs_compiler
def test_the_floor_finds_the_largest_scores_where_a_sample_misleads() -> None:
    # The particles that give the bound have the best scores: few others reach it.
    weight = np.where(np.arange(320) % 16 == 0, 1.0, 1e-6)
    counts = np.ones((2, 3200))
    survivors = kernel_of([10] * 320, weight.tolist(), counts, 1000).step()
    heavy = [10 * k + i for k in range(0, 320, 16) for i in range(10)]
    light = [i for i in range(3200) if (i // 10) % 16][: 1000 - len(heavy)]
    assert survivors.tolist() == sorted(heavy + light)


@needs_compiler
def test_the_floor_has_the_candidates_of_the_filter() -> None:
    pf = run_filter(50)
    kernel = FloorKernel.of(pf, symbol=2)
    assert kernel.n_candidates == n_candidates(pf)
    _, weight, transition, emission = kernel._arrays
    np.testing.assert_array_equal(weight, pf.weights)
    counts = [pf.counts(k) for k in range(50)]
    rows = [[*c.transition[s], 0] for c, s in zip(counts, pf.states, strict=True)]
    assert transition.tolist() == [count for row in rows for count in row]
    assert emission.tolist() == [n for c in counts for n in (*c.emission[:, 2], 0)]


# --- Counting


def test_candidates_are_the_states_and_a_new_one_unless_there_are_enough() -> None:
    pf = run_filter(20)
    assert n_candidates(pf) == int(pf.n_states.sum()) + 20
    bounded = mdvpf.ParticleFilter(
        mdvpf.InfiniteHMM(4, beta=0.1, max_states=2), mdvpf.VPA(), n_particles=20
    )
    bounded.run(SYMBOLS)
    assert bounded.n_states.tolist() == [2] * 20
    assert n_candidates(bounded) == 40


def test_tables_are_those_of_every_particle() -> None:
    pf = run_filter(20)
    for k, (transition, emission) in enumerate(tables(pf)):
        counts = pf.counts(k)
        np.testing.assert_array_equal(transition[0], counts.start)
        np.testing.assert_array_equal(transition[1:], counts.transition)
        np.testing.assert_array_equal(emission, counts.emission)


def test_a_census_of_one_particle_is_its_non_zeros() -> None:
    pf = run_filter(1)
    counts = pf.counts(0)
    census = RowCensus(pf)
    non_zeros = sum(np.count_nonzero(table) for table in counts)
    assert census.non_zeros == non_zeros
    assert census.unlike_non_zeros == non_zeros
    assert census.rows == census.unlike_rows == pf.memory().rows


def test_a_census_counts_rows_that_hold_the_same_once() -> None:
    pf = run_filter(30)
    distinct = set()
    rows = 0
    for k in range(30):
        counts = pf.counts(k)
        lines = [("start", 0, counts.start)]
        lines += [("transition", j, row) for j, row in enumerate(counts.transition)]
        lines += [("emission", y, column) for y, column in enumerate(counts.emission.T)]
        for kind, i, line in lines:
            filled = tuple((c, n) for c, n in enumerate(line.tolist()) if n)
            rows += bool(filled)
            if filled:
                distinct.add((kind, i, filled))
    census = RowCensus(pf)
    assert (census.rows, census.unlike_rows) == (rows, len(distinct))
    assert census.unlike_non_zeros == sum(len(filled) for _, _, filled in distinct)


# --- Peers


@pytest.mark.parametrize("name", ["dense NumPy", "tuned NumPy", "dense Numba"])
@pytest.mark.parametrize("n_particles", [1, 60])
def test_a_peer_keeps_the_particles_of_the_core(n_particles: int, name: str) -> None:
    peers: dict[str, type[Dense]] = {"dense NumPy": DenseVPA, "tuned NumPy": TunedVPA}
    if name == "dense Numba":
        pytest.importorskip("numba", reason="Numba is not installed (pip install 'mdvpf[numba]')")
        from benchmarks.peers.dense_numba import NumbaVPA

        peers[name] = NumbaVPA
    pf = mdvpf.ParticleFilter(MODEL, mdvpf.VPA(), n_particles=n_particles)
    expected = pf.run(SYMBOLS).log_predictive
    found = peers[name](4, n_particles, beta=0.1).run(SYMBOLS)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


def test_the_gaussian_peer_keeps_the_particles_of_the_core() -> None:
    y = numbers.stream(60)
    family = mdvpf.Gaussian(1, *numbers.PRIOR)
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=family), mdvpf.VPA(), n_particles=40)
    peer = GaussianVPA(numbers.PRIOR, 1.0, 1.0, 40)
    for value in y.tolist():
        expected = pf.update(value).log_predictive
        assert peer.step(value) == pytest.approx(expected, rel=0, abs=1e-10)
        assert (peer.state - 1).tolist() == pf.states.tolist()


# --- Races and tables


def test_a_race_takes_every_contender_over_every_window() -> None:
    pf = mdvpf.ParticleFilter(MODEL, mdvpf.VPA(), n_particles=30)
    dense = DenseVPA(4, 30, beta=0.1)
    contenders = {"ours": Contender.of(pf), "peer": Contender(dense.run)}
    found = race(contenders, windows(SYMBOLS, 0, 30, 4))
    expected = mdvpf.ParticleFilter(MODEL, mdvpf.VPA(), n_particles=30).run(SYMBOLS).log_predictive
    np.testing.assert_array_equal(found.log_predictive["ours"], expected)
    np.testing.assert_allclose(found.log_predictive["peer"], expected, rtol=0, atol=1e-9)
    assert len(found.seconds["ours"]) == len(found.seconds["peer"]) == 4
    assert found.ratio("ours", "ours") == 1.0
    with pytest.raises(ValueError, match="symbols: expected at least 150"):
        list(windows(SYMBOLS, 30, 30, 4))


@pytest.mark.parametrize(
    ("figure", "target", "met"),
    [
        (Figure("a", 3.0, at_most=3), "at most 3", "yes"),
        (Figure("a", 3.01, at_most=3), "at most 3", "NO"),
        (Figure("a", 11.9, at_least=12), "at least 12", "NO"),
        (Figure("a", 12.0, at_least=12), "at least 12", "yes"),
        (Figure("a", 12.0), "", ""),
    ],
)
def test_a_target_is_met_or_not(figure: Figure, target: str, met: str) -> None:
    assert (figure.target, figure.met) == (target, met)
    assert len(table([figure]).splitlines()) == 3


# --- The gate


@pytest.mark.parametrize(
    ("counted", "passed", "verdict"),
    [
        (1050, True, "ok"),
        (1051, False, "FAILED"),
        (950, True, "ok"),
        (949, True, "UPDATE=1"),
    ],
)
def test_the_gate_allows_five_per_cent(counted: int, passed: bool, verdict: str) -> None:
    lines, verdict_of_all = compare({"VPA": counted}, {"VPA": 1000})
    assert verdict_of_all is passed
    assert verdict in lines[0]


def test_the_gate_does_not_pass_what_has_no_figure() -> None:
    assert compare({"VPA": 1}, {})[1] is False
