"""Speed of the filters on text, against dense NumPy and the plain Python reference.

All run on the opening of the same book with the same model and K. VPA is deterministic, so every
contender must keep the same particles: their log predictives are compared, and a fast but wrong
filter fails here. The reference is hundreds of times slower and runs on a short stretch only;
mdvpf is timed on that stretch too, since few states and many new ones make it unlike the rest.

The time is per candidate, a pair of a particle and a state it may move to, which is the work that
all contenders share. The candidates of a step are counted as particles x (mean states + 1).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

import mdvpf
from benchmarks.common import N_SYMBOLS, load_text
from benchmarks.peers.dense_numpy import DenseVPA
from benchmarks.peers.tuned_numpy import TunedVPA
from mdvpf.reference import ReferenceFilter

BETA = 0.01
N_PARTICLES = 1000
STRETCH = 3000
SHORT_STRETCH = 60

MODEL = mdvpf.InfiniteHMM(N_SYMBOLS, beta=BETA)


def compiled(algorithm: mdvpf.VPA | mdvpf.MDVPA, symbols: NDArray[np.int32]) -> mdvpf.FilterResult:
    return mdvpf.ParticleFilter(MODEL, algorithm, n_particles=N_PARTICLES).run(symbols)


def dense(symbols: NDArray[np.int32]) -> NDArray[np.float64]:
    return DenseVPA(N_SYMBOLS, N_PARTICLES, beta=BETA).run(symbols)


def tuned(symbols: NDArray[np.int32]) -> NDArray[np.float64]:
    return TunedVPA(N_SYMBOLS, N_PARTICLES, beta=BETA).run(symbols)


def reference(symbols: NDArray[np.int32]) -> NDArray[np.float64]:
    plain = ReferenceFilter(MODEL, mdvpf.VPA(), N_PARTICLES)
    return np.array([plain.update(symbol).log_predictive for symbol in symbols.tolist()])


@pytest.fixture(scope="module")
def text() -> NDArray[np.int32]:
    try:
        return load_text("alice", STRETCH)
    except FileNotFoundError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def expected(text) -> mdvpf.FilterResult:
    """What VPA does on the text, and so how many candidates there are."""
    return compiled(mdvpf.VPA(), text)


@pytest.fixture
def timed(benchmark, speeds) -> Callable:
    """Return a function that times a call, files it under a contender, and returns its result."""

    def run(contender, function, *args, result, stretch, rounds):
        value = benchmark.pedantic(
            function, args=args, rounds=rounds, warmup_rounds=min(1, rounds - 1)
        )
        counted = slice(stretch)
        candidates = np.sum(result.n_particles[counted] * (result.mean_states[counted] + 1))
        if benchmark.stats is not None:  # None if benchmarks are disabled
            speeds.record(stretch, contender, benchmark.stats.stats.min, float(candidates))
        return value

    return run


def assert_same_predictions(actual: NDArray[np.float64], expected: NDArray[np.float64]) -> None:
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("stretch", [SHORT_STRETCH, STRETCH])
def test_vpa(timed, text, expected, stretch):
    result = timed(
        "mdvpf VPA",
        compiled,
        mdvpf.VPA(),
        text[:stretch],
        result=expected,
        stretch=stretch,
        rounds=5,
    )
    assert_same_predictions(result.log_predictive, expected.log_predictive[:stretch])


@pytest.mark.parametrize("stretch", [SHORT_STRETCH, STRETCH])
def test_dense_numpy(timed, text, expected, stretch):
    log_predictive = timed(
        "NumPy VPA (dense)", dense, text[:stretch], result=expected, stretch=stretch, rounds=3
    )
    assert_same_predictions(log_predictive, expected.log_predictive[:stretch])


def test_tuned_numpy(timed, text, expected):
    log_predictive = timed(
        "NumPy VPA (tuned)", tuned, text, result=expected, stretch=STRETCH, rounds=3
    )
    assert_same_predictions(log_predictive, expected.log_predictive)


def test_reference(timed, text, expected):
    log_predictive = timed(
        "Python VPA (reference)",
        reference,
        text[:SHORT_STRETCH],
        result=expected,
        stretch=SHORT_STRETCH,
        rounds=1,
    )
    assert_same_predictions(log_predictive, expected.log_predictive[:SHORT_STRETCH])


def test_mdvpa(timed, text):
    algorithm = mdvpf.MDVPA()
    own = compiled(algorithm, text)  # other particles than VPA's, so other candidates
    result = timed("mdvpf MD-VPA", compiled, algorithm, text, result=own, stretch=STRETCH, rounds=5)
    assert_same_predictions(result.log_predictive, own.log_predictive)
