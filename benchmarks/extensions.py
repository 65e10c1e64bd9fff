"""Forgetting and Mealy rows: their cost, their gain, and a long stream.

``python -m benchmarks.extensions speed``: time a candidate and bytes a particle, as ratios to the
same filter without forgetting. ``models``: nats a symbol of several models on text and clicks, for
the tables of the page on choosing a model. ``endless``: time a step and memory over 10**7 symbols
of a drifting source (a few minutes). All but the last need MDVPF_DATA.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mdvpf
from mdvpf import datasets
from mdvpf.model.algorithms import Algorithm

FADES: dict[str, Any] = {"forget": 1.0}
MEALY: dict[str, Any] = {"forget": 1.0, "machine": "mealy"}
RECOMMENDED: dict[str, Any] = {
    "oracle": "rows",
    "machine": "mealy",
    "forget": 4.0,
    "gamma": 10.0,
    "beta": 0.1,
}
N_CLICKS = 50_000
N_CHARACTERS = 24_000
FIRST_USER = 100_000
DRIFT = 20_000  # steps after which the symbol of every state increases by one


def text() -> NDArray[np.int64]:
    """Return the first characters of three books, concatenated."""
    return datasets.books(n_characters=N_CHARACTERS).symbols


def cost(model: mdvpf.InfiniteHMM, algorithm: Algorithm, k: int) -> tuple[float, float]:
    """Return nanoseconds a candidate (the best of three parts of a text) and bytes a particle."""
    symbols = text()
    pf = mdvpf.ParticleFilter(model, algorithm, k, rng=0)
    pf.run(symbols[:300])
    length = max(50, min(500, 2_000_000 // k))
    best = np.inf
    for part in range(3):
        window = symbols[300 + part * length : 300 + (part + 1) * length]
        start = time.perf_counter()
        result = pf.run(window)
        seconds = time.perf_counter() - start
        best = min(best, seconds / float(((result.mean_states + 1) * result.n_particles).sum()))
    return 1e9 * best, pf.memory().live / k


def speed() -> None:
    """Print costs as ratios to the filter with the same oracle and without forgetting."""
    print("K, algorithm, oracle: ns and bytes plain; ratios with forget=1, and Mealy to Moore")
    for k in (1_000, 10_000):
        for algorithm in (mdvpf.VPA(), mdvpf.MDVPA()):
            for oracle in mdvpf.model.ORACLES:
                plain = cost(mdvpf.InfiniteHMM(27, oracle=oracle), algorithm, k)
                fading = cost(mdvpf.InfiniteHMM(27, oracle=oracle, **FADES), algorithm, k)
                mealy = cost(mdvpf.InfiniteHMM(27, oracle=oracle, **MEALY), algorithm, k)
                print(
                    f"{k:6} {type(algorithm).__name__:6} {oracle:10} {plain[0]:5.1f} ns "
                    f"{plain[1]:4.0f} B; time {fading[0] / plain[0]:.2f}, bytes "
                    f"{fading[1] / plain[1]:.2f}; Mealy {mealy[0] / fading[0]:.2f}",
                    flush=True,
                )


def clicks(first: int) -> tuple[NDArray[np.int64], list[int], int]:
    """Return the clicks of users from `first` on, their lengths, and the next user."""
    visits = datasets.msnbc()
    starts = np.cumsum(visits.lengths) - visits.lengths
    begin = int(starts[first])
    last = int(np.searchsorted(starts, begin + N_CLICKS))
    lengths = visits.lengths[first:last].tolist()
    lengths[-1] -= sum(lengths) - N_CLICKS
    return visits.symbols[begin : begin + N_CLICKS], lengths, last


def compared(name: str, symbols: Any, lengths: Any, n_symbols: int, k: int) -> None:
    """Print nats a symbol of a chain and of OptimalResampling with several models."""
    chain = mdvpf.Markov(n_symbols).run(symbols, lengths).log_predictive.mean()
    print(f"{name}, K = {k}: chain of order 1 {chain:.3f}")
    models: list[dict[str, Any]] = [
        {},
        {"forget": 1.0},
        {"forget": 1.0, "oracle": "rows", "gamma": 10.0},
        {"forget": 1.0, "oracle": "rows", "gamma": 10.0, "machine": "mealy"},
        RECOMMENDED,
    ]
    for settings in models:
        model = mdvpf.InfiniteHMM(n_symbols, **settings)
        pf = mdvpf.ParticleFilter(model, mdvpf.OptimalResampling(), k, rng=0)
        print(f"  {pf.run(symbols, lengths).log_predictive.mean():.3f} {settings}", flush=True)


def models() -> None:
    """Print the tables of the page on choosing a model."""
    books = text()
    compared("Alice (choosing)", books[:N_CHARACTERS], None, 27, 50)
    compared("Wizard of Oz (reporting)", books[N_CHARACTERS : 2 * N_CHARACTERS], None, 27, 200)
    symbols, lengths, user = clicks(FIRST_USER)
    compared("clicks (choosing)", symbols, lengths, 17, 50)
    symbols, lengths, _ = clicks(user)
    compared("clicks of other users (reporting)", symbols, lengths, 17, 200)


def drifting(n: int) -> Iterator[NDArray[np.int64]]:
    """Yield, in 20 parts, the symbols of five states in a ring; the symbols of states drift."""
    rng = np.random.default_rng(0)
    state = 0
    for start in range(0, n, n // 20):
        steps = np.where(rng.random(n // 20) < 0.7, 1, 2)
        states = (state + np.cumsum(steps)) % 5
        state = int(states[-1])
        moved = (start + np.arange(n // 20)) // DRIFT
        yield (6 * states + rng.integers(0, 3, n // 20) + moved) % 30


def endless(n: int = 10_000_000) -> None:
    """Print time a step, memory and states over a stream that drifts."""
    model = mdvpf.InfiniteHMM(30, oracle="rows", forget=2.0, gamma=3.0)
    pf = mdvpf.ParticleFilter(model, mdvpf.OptimalResampling(), 10, rng=0)
    seen = 0
    for symbols in drifting(n):
        start = time.process_time()
        result = pf.run(symbols)
        seconds = time.process_time() - start
        seen += len(symbols)
        memory = pf.memory()
        print(
            f"{seen:11,} {1e6 * seconds / len(symbols):6.2f} us a step, "
            f"{result.mean_states[-1]:.1f} of {pf.n_states.max()} states, "
            f"{memory.live:,} bytes live, {memory.allocated:,} allocated",
            flush=True,
        )


if __name__ == "__main__":
    jobs = {"speed": speed, "models": models, "endless": endless}
    if len(sys.argv) != 2 or sys.argv[1] not in jobs:
        sys.exit(f"expected one of {', '.join(jobs)}")
    jobs[sys.argv[1]]()
