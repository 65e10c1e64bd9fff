"""The distribution of the next symbol, against the counts of every particle written out in full."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mdvpf
from tests.algorithms import EVERY_ALGORITHM
from tests.kernel.inspecting import BREAK, Event, feed
from tests.kernel.sealing import saved

PATIENCE = 20


def events(n: int, n_symbols: int, seed: int) -> list[Event]:
    """Symbols from a large alphabet, few of them frequent, with gaps and ends of sequences."""
    rng = np.random.default_rng(seed)
    found: list[Event] = []
    for kind, place in rng.random((n, 2)):
        symbol = int(n_symbols * place**3)
        found.append(BREAK if kind > 0.96 else None if kind > 0.9 else symbol)
    return found


def predicted(pf: mdvpf.ParticleFilter) -> NDArray[np.float64]:
    """Return the mixture of the particles' predictions, by the formulas of the model."""
    model = pf.model
    total = np.zeros(pf.n_symbols)
    for k, (weight, state) in enumerate(zip(pf.weights, pf.states, strict=True)):
        start, transition, emission = pf.counts(k)
        into = start + transition.sum(axis=0)
        seen = start if state < 0 else transition[state]
        offered = into if model.oracle == "any" else np.where(seen > 0, 0, into)
        moves = seen + model.alpha * offered / (offered.sum() + model.gamma)
        new = model.alpha * model.gamma / (offered.sum() + model.gamma)
        if model.max_states is not None and len(into) >= model.max_states:
            new = 0.0
        n_emitted = emission.sum(axis=1, keepdims=True)
        emits = (emission + model.beta) / (n_emitted + model.n_symbols * model.beta)
        mixed = moves @ emits + new / model.n_symbols
        total += weight * mixed / (moves.sum() + new)
    return total


@pytest.mark.parametrize("name", EVERY_ALGORITHM)
@pytest.mark.parametrize("n_symbols", [1, 4, 7, 255, 256, 1023, 5000])
@pytest.mark.parametrize("settings", [{}, {"oracle": "any"}, {"max_states": 3}], ids=str)
def test_a_prediction_is_the_mixture_of_all_particles(
    name: str, n_symbols: int, settings: dict[str, Any]
) -> None:
    model = mdvpf.InfiniteHMM(n_symbols, gamma=3.0, beta=0.05, **settings)
    pf = mdvpf.ParticleFilter(model, EVERY_ALGORITHM[name], n_particles=12, rng=1)
    for part in range(4):
        feed(pf, events(25, n_symbols, seed=part))
        found = pf.predict_proba()
        np.testing.assert_allclose(found, predicted(pf), rtol=1e-12, atol=0.0)
        assert abs(found.sum() - 1.0) < 1e-12


@pytest.mark.parametrize("name", ["SMC", "ParticleLearning"])
def test_particles_that_share_a_block_count_with_their_joint_weight(name: str) -> None:
    model = mdvpf.InfiniteHMM(4, beta=1e-6)
    pf = mdvpf.ParticleFilter(model, EVERY_ALGORITHM[name], n_particles=200, rng=1)
    pf.run([0, 1] * 20)
    assert len({pf.counts(k).emission.tobytes() for k in range(200)}) < 200
    np.testing.assert_allclose(pf.predict_proba(), predicted(pf), rtol=1e-12, atol=0.0)


def test_wide_counts_and_narrow_ones_are_read_alike() -> None:
    model = mdvpf.InfiniteHMM(6, beta=0.5, max_states=2)
    pf = mdvpf.ParticleFilter(model, mdvpf.VPA(), n_particles=3)
    for n in (200, 100, 70_000):  # counts of one byte, of two and of four
        pf.run([5] * n)
        np.testing.assert_allclose(pf.predict_proba(), predicted(pf), rtol=1e-12, atol=0.0)


@pytest.mark.parametrize("n_threads", [2, 3])
def test_a_prediction_has_the_same_bits_for_any_number_of_threads(n_threads: int) -> None:
    predictions = []
    for n in (1, n_threads):
        model = mdvpf.InfiniteHMM(300, beta=0.05)
        pf = mdvpf.ParticleFilter(model, n_particles=100, n_threads=n)
        feed(pf, events(80, 300, seed=5))
        predictions.append(pf.predict_proba().tobytes())
    assert predictions[0] == predictions[1]


# ---- signals ---------------------------------------------------------------------------------


class Interruption(Exception):
    """The exception that the handler of the test raises."""


@pytest.fixture
def alarm() -> Iterator[None]:
    def handler(number: int, frame: Any) -> None:
        raise Interruption

    before = signal.signal(signal.SIGALRM, handler)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(sys.platform == "win32", reason="sends itself SIGALRM")
def test_a_long_prediction_can_be_interrupted(alarm: None) -> None:
    model = mdvpf.InfiniteHMM(20_000, beta=0.001)
    pf = mdvpf.ParticleFilter(model, mdvpf.VPA(), n_particles=3000)
    pf.run(np.random.default_rng(0).integers(20_000, size=1000))
    before = saved(pf)
    for attempt in range(PATIENCE):
        out = np.ones(20_000)
        delay = 0.001 * 1.3**attempt
        try:
            signal.setitimer(signal.ITIMER_REAL, delay)
            pf._core.predict(out)
        except Interruption:
            if out.sum() < 0.999:  # neither before the first particle nor after the last
                break
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
    else:
        pytest.fail("no signal was ever seen during a prediction")
    assert saved(pf) == before
