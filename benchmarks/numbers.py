"""Numbers instead of symbols: what a candidate costs, beside symbols, NumPy and a family in Numba.

``python -m benchmarks.numbers``: nanoseconds a candidate at K = 1,000, VPA, in one run: the
categorical filter on the same stream in 27 bins, the Gaussian one, the same family in Numba
(``mdvpf[numba]``), and a filter in NumPy with dense tables, whose survivors must be the same.
Parts of the stream are run in turns, and the least time of each counts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mdvpf
from benchmarks.peers.gaussian_numpy import GaussianVPA

K = 1_000
LENGTH = 600
WARM_UP = 300
PRIOR = (0.0, 0.05, 2.0, 0.5)


def stream(n: int = LENGTH) -> NDArray[np.float64]:
    """Return numbers around eight levels that last ten steps each."""
    rng = np.random.default_rng(0)
    levels = rng.normal(size=8) * 4.0
    found: NDArray[np.float64] = levels[np.repeat(rng.integers(0, 8, n // 10 + 1), 10)[:n]]
    return found + 0.5 * rng.normal(size=n)


def in_numba(prior: tuple[float, float, float, float] = PRIOR) -> mdvpf.CompiledEmission:
    """Return the Gaussian family as a user would write it."""
    import numba
    from numba import types

    doubles = types.CPointer(types.double)

    @numba.cfunc(types.intc(doubles, doubles, types.int64, doubles, doubles))
    def log_predictive(y, statistics, n_states, out, prior):  # type: ignore[no-untyped-def]
        for i in range(n_states):
            n, mean, squares = statistics[3 * i], statistics[3 * i + 1], statistics[3 * i + 2]
            kappa, a, away = prior[1] + n, prior[2] + n / 2.0, mean - prior[0]
            m = prior[0] + away * (n / kappa)
            b = prior[3] + squares / 2.0 + prior[1] * n / kappa * away * away / 2.0
            spread = 2.0 * b * (kappa + 1.0) / kappa
            out[i] = (
                math.lgamma(a + 0.5)
                - math.lgamma(a)
                - 0.5 * math.log(math.pi * spread)
                - (a + 0.5) * math.log1p((y[0] - m) ** 2 / spread)
            )
        return 0

    @numba.cfunc(types.intc(doubles, types.double, doubles, doubles))
    def update(y, weight, statistics, prior):  # type: ignore[no-untyped-def]
        statistics[0] += weight
        away = y[0] - statistics[1]
        statistics[1] += away * weight / statistics[0]
        statistics[2] += weight * away * (y[0] - statistics[1])
        return 0

    return mdvpf.CompiledEmission(
        log_predictive, update, 3, fades=[True, False, True], user_data=prior, name="gaussian"
    )


def filter_of(model: mdvpf.InfiniteHMM, symbols: Any) -> Callable[[], tuple[float, float]]:
    """Return a function that runs the second part of a stream: seconds, and candidates."""
    warm = mdvpf.ParticleFilter(model, mdvpf.VPA(), K)
    warm.run(symbols[:WARM_UP])

    def run() -> tuple[float, float]:
        pf = warm.copy()
        start = time.perf_counter()
        result = pf.run(symbols[WARM_UP:])
        seconds = time.perf_counter() - start
        return seconds, float(((result.mean_states + 1) * result.n_particles).sum())

    return run


def numpy_peer(y: NDArray[np.float64]) -> Callable[[], tuple[float, float]]:
    """Return the same for the filter in NumPy, after a check that its survivors are the same."""
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=mdvpf.Gaussian(1, *PRIOR)), mdvpf.VPA(), K)
    peer = GaussianVPA(PRIOR, 1.0, 1.0, K)
    for value in y[:WARM_UP].tolist():
        log_predictive = pf.update(value).log_predictive
        if abs(log_predictive - peer.step(value)) > 1e-9:
            raise AssertionError("the filter in NumPy predicts another density")
    if not np.array_equal(pf.states, peer.state - 1):
        raise AssertionError("the filter in NumPy has other survivors")

    def run() -> tuple[float, float]:
        start = time.perf_counter()
        n = 0.0
        for value in y[WARM_UP : WARM_UP + 60].tolist():
            n += float((peer.n_states + 1).sum())
            peer.step(value)
        return time.perf_counter() - start, n

    return run


def main() -> None:
    """Print nanoseconds a candidate, and ratios."""
    y = stream()
    bins = np.clip(np.digitize(y, np.linspace(-8.0, 8.0, 26)), 0, 26)
    gaussian = mdvpf.InfiniteHMM(emission=mdvpf.Gaussian(1, *PRIOR))
    runs = {
        "categorical": filter_of(mdvpf.InfiniteHMM(27, beta=0.1), bins),
        "Gaussian": filter_of(gaussian, y),
        "NumPy": numpy_peer(y),
    }
    try:
        runs["Numba"] = filter_of(mdvpf.InfiniteHMM(emission=in_numba()), y)
    except ImportError:
        print("without Numba: install mdvpf[numba]")
    best: dict[str, float] = {}
    for _ in range(5):
        for name, run in runs.items():
            seconds, n = run()
            best[name] = min(best.get(name, math.inf), 1e9 * seconds / n)
    for name, nanoseconds in best.items():
        ratio = nanoseconds / best["Gaussian"]
        print(f"{name:12} {nanoseconds:8.1f} ns a candidate, {ratio:6.2f} of the Gaussian")


if __name__ == "__main__":
    main()
