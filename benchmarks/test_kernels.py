"""Times of whole runs on text with pytest-benchmark: the filters, and the peers of VPA.

All run on the opening of the same book with the same model and K. VPA is deterministic, so its
peers must keep the same particles. The log predictives are compared, so a fast but wrong filter
fails here. The reference is hundreds of times slower and runs on a short text only; VPA is timed
on that text, too. For reliable ratios use `benchmarks.full`, where contenders take turns.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import mdvpf
from benchmarks.common import BETA, N_SYMBOLS, TEXT_MODEL, MissingData, load_text
from benchmarks.peers.dense_numpy import DenseVPA
from benchmarks.peers.floor import FloorKernel
from benchmarks.peers.tuned_numpy import TunedVPA
from benchmarks.sweeps import ALGORITHMS
from mdvpf.reference import ReferenceFilter

N_PARTICLES = 1000
STRETCH = 3000
SHORT_STRETCH = 60


def compiled(algorithm, symbols: NDArray[np.int32]) -> NDArray[np.float64]:
    pf = mdvpf.ParticleFilter(TEXT_MODEL, algorithm, n_particles=N_PARTICLES, rng=0)
    return pf.run(symbols).log_predictive


def reference(symbols: NDArray[np.int32]) -> NDArray[np.float64]:
    plain = ReferenceFilter(TEXT_MODEL, mdvpf.VPA(), N_PARTICLES)
    return np.array([plain.update(symbol).log_predictive for symbol in symbols.tolist()])


@pytest.fixture(scope="module")
def text() -> NDArray[np.int32]:
    try:
        return load_text(STRETCH + 1)
    except MissingData as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def expected(text) -> NDArray[np.float64]:
    return compiled(mdvpf.VPA(), text[:STRETCH])


@pytest.mark.parametrize("name", ALGORITHMS)
def test_filter(benchmark, text, name):
    benchmark.group = f"{STRETCH} characters"
    algorithm = ALGORITHMS[name]
    found = benchmark.pedantic(compiled, (algorithm, text[:STRETCH]), rounds=5, warmup_rounds=1)
    assert np.isfinite(found).all()


@pytest.mark.parametrize("name", ["dense NumPy", "tuned NumPy", "dense Numba"])
def test_peer(benchmark, text, expected, name):
    benchmark.group = f"{STRETCH} characters"
    makers = {"dense NumPy": DenseVPA, "tuned NumPy": TunedVPA}
    if name == "dense Numba":
        pytest.importorskip("numba", reason="Numba is not installed (pip install 'mdvpf[numba]')")
        from benchmarks.peers.dense_numba import NumbaVPA

        makers[name] = NumbaVPA

    def run():
        return makers[name](N_SYMBOLS, N_PARTICLES, beta=BETA).run(text[:STRETCH])

    found = benchmark.pedantic(run, rounds=3, warmup_rounds=1)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["VPA", "reference"])
def test_reference(benchmark, text, expected, name):
    benchmark.group = f"{SHORT_STRETCH} characters"
    stretch = text[:SHORT_STRETCH]
    run = {"VPA": lambda: compiled(mdvpf.VPA(), stretch), "reference": lambda: reference(stretch)}
    found = benchmark.pedantic(run[name], rounds=1 if name == "reference" else 5)
    np.testing.assert_allclose(found, expected[:SHORT_STRETCH], rtol=0, atol=1e-9)


def test_floor(benchmark, text):
    benchmark.group = "one step"
    pf = mdvpf.ParticleFilter(TEXT_MODEL, mdvpf.VPA(), n_particles=N_PARTICLES)
    pf.run(text[:STRETCH])
    kernel = FloorKernel.of(pf, int(text[STRETCH]))
    survivors = benchmark.pedantic(kernel.step, rounds=50, warmup_rounds=1)
    assert len(survivors) == N_PARTICLES
