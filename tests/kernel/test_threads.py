"""Threads: the same bits for any number of them, in a forked child, and beside other filters."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

import mdvpf

N_PARTICLES = 2100  # several parts, of unequal sizes
ALGORITHMS = [
    mdvpf.VPA(),
    mdvpf.VPA(carry_weights=False),
    mdvpf.MDVPA(),
    mdvpf.MDVPA(discount=0.7, normalizer="sum"),
    mdvpf.MDVPA(discount="1/sqrt(n)", normalizer="none"),
    mdvpf.MDVPA(discount=40.0),  # weights too small to multiply
    mdvpf.MDVPA(selection="optimal"),
    mdvpf.OptimalResampling(),
    mdvpf.SMC(),
    mdvpf.ParticleLearning(),
]


def stream(n: int, n_symbols: int, seed: int) -> np.ndarray:
    """Draw symbols with some structure: each is likely to follow the one before it."""
    rng = np.random.default_rng(seed)
    symbols = [0]
    for jump, other in zip(rng.random(n - 1), rng.integers(0, n_symbols, n - 1), strict=True):
        symbols.append(int(other) if jump < 0.4 else (symbols[-1] + 1) % n_symbols)
    return np.array(symbols)


def outcome(
    algorithm: object, symbols: object, n_threads: int, model: mdvpf.InfiniteHMM
) -> list[bytes]:
    """Run a filter and return everything that it shows, as bytes."""
    pf = mdvpf.ParticleFilter(
        model, algorithm, n_particles=N_PARTICLES, rng=5, n_threads=n_threads, history=3
    )
    result = pf.run(symbols)
    counts = pf.counts()
    shown = [
        result.log_predictive,
        result.mean_states,
        result.ess,
        result.discarded,
        pf.weights,
        pf.states,
        pf.n_states,
        pf.predict_proba(),
        pf.path(),
        counts.start,
        counts.transition,
        counts.emission,
    ]
    return [np.ascontiguousarray(array).tobytes() for array in shown]


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=repr)
def test_results_have_the_same_bits_for_any_number_of_threads(algorithm):
    model = mdvpf.InfiniteHMM(6, beta=0.1)
    symbols = stream(40, 6, seed=1)
    alone = outcome(algorithm, symbols, 1, model)
    for n_threads in (2, 3, 5):
        assert outcome(algorithm, symbols, n_threads, model) == alone, n_threads


@pytest.mark.parametrize("oracle", ["unvisited", "any"])
@pytest.mark.parametrize("algorithm", [mdvpf.VPA(), mdvpf.MDVPA()], ids=repr)
def test_missing_symbols_and_both_oracles_in_threads(algorithm, oracle):
    model = mdvpf.InfiniteHMM(4, beta=0.2, oracle=oracle, max_states=9)
    symbols = [None if i % 7 == 5 else int(s) for i, s in enumerate(stream(30, 4, seed=2))]
    alone = outcome(algorithm, symbols, 1, model)
    assert outcome(algorithm, symbols, 4, model) == alone


def test_more_threads_than_particles():
    model = mdvpf.InfiniteHMM(3)
    few = [
        mdvpf.ParticleFilter(model, mdvpf.VPA(), n_particles=5, n_threads=n).run([0, 1, 2] * 5)
        for n in (1, 64)
    ]
    assert np.array_equal(few[0].log_predictive, few[1].log_predictive)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
# Python warns of forks in a process that has threads: that is what is tested here.
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_continues_serially_with_the_same_bits():
    pf = mdvpf.ParticleFilter(
        mdvpf.InfiniteHMM(6, beta=0.1), mdvpf.MDVPA(), n_particles=N_PARTICLES, n_threads=3
    )
    symbols = stream(60, 6, seed=3)
    pf.run(symbols[:30])  # the threads exist now
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # no exception and no clean-up of the parent's may run here
        try:
            os.write(writer, pf.run(symbols[30:]).log_predictive.tobytes())
        finally:
            os._exit(0)
    os.close(writer)
    expected = pf.run(symbols[30:]).log_predictive.tobytes()
    watchdog = threading.Timer(60.0, os.kill, (child, 9))
    watchdog.start()
    with os.fdopen(reader, "rb") as pipe:
        found = pipe.read()
    watchdog.cancel()
    os.waitpid(child, 0)
    assert found == expected


def test_filters_in_python_threads_do_not_disturb_each_other():
    model = mdvpf.InfiniteHMM(6, beta=0.1)
    streams = [stream(40, 6, seed=seed) for seed in range(4)]
    alone = [outcome(mdvpf.MDVPA(), symbols, 2, model) for symbols in streams]
    together: list[list[bytes]] = [[] for _ in streams]

    def run(i: int) -> None:
        together[i] = outcome(mdvpf.MDVPA(), streams[i], 2, model)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(streams))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone
