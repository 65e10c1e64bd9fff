"""Jobs on time: VPA against the floor and its peers, other filters and trees against VPA."""

from __future__ import annotations

import math
import threading
import time
import timeit
from collections.abc import Callable

import numpy as np

import mdvpf
from benchmarks.common import BETA, N_SYMBOLS, TEXT_MODEL, load_text
from benchmarks.figures import Figure, Result
from benchmarks.particles import n_candidates
from benchmarks.peers.dense_numpy import DenseVPA
from benchmarks.peers.floor import FloorKernel
from benchmarks.peers.tuned_numpy import TunedVPA
from benchmarks.timing import Contender, Race, race, windows
from mdvpf.model.algorithms import Algorithm

WARM_UP = 1000  # characters before timing
ROUNDS = 20


def text_filter(algorithm: Algorithm, n_particles: int, n_threads: int = 1) -> mdvpf.ParticleFilter:
    return mdvpf.ParticleFilter(
        TEXT_MODEL, algorithm, n_particles=n_particles, rng=0, n_threads=n_threads
    )


def window_length(n_particles: int) -> int:
    """Return the characters in a window: some milliseconds of the fastest contender."""
    return max(4, min(100, 200_000 // n_particles))


def power(n: int) -> str:
    return f"K = 10^{round(math.log10(n))}"


def stream_for(n_particles: int) -> np.ndarray:
    return load_text(WARM_UP + ROUNDS * window_length(n_particles))


# ---- the floor ---------------------------------------------------------------------------


def floor(n_particles: int, at_most: float) -> Result:
    """VPA on text against the floor on the same candidates."""
    text = stream_for(n_particles)
    pf = text_filter(mdvpf.VPA(), n_particles)
    pf.run(text[:WARM_UP])
    kernel = FloorKernel.of(pf, int(text[WARM_UP]))

    def steps(symbols: np.ndarray) -> None:
        for _ in symbols:
            kernel.step()

    kernel.step()
    contenders = {
        "VPA": Contender.of(pf),
        "floor": Contender(steps, lambda: kernel.n_candidates),
    }
    times = race(contenders, windows(text, WARM_UP, window_length(n_particles), ROUNDS))
    note = f"{times.nanoseconds('VPA'):.1f} against {times.nanoseconds('floor'):.2f} ns a candidate"
    ratio = times.ratio("VPA", "floor", per_candidate=True)
    return [
        Figure(f"VPA against the floor, {power(n_particles)}", ratio, at_most=at_most, note=note)
    ]


# ---- peers -------------------------------------------------------------------------------


def assert_same(times: Race, name: str) -> None:
    """Fail unless a peer predicted what VPA predicted: then it kept the same particles."""
    ours, its = times.log_predictive["VPA"].sum(), times.log_predictive[name].sum()
    assert abs(ours - its) <= 1e-9 * abs(ours), f"{name}: log predictives sum to {its}, not {ours}"


def peers(n_particles: int, dense_numpy: float, dense_numba: float) -> Result:
    """VPA against the same filter in NumPy and in Numba."""
    warm_up = WARM_UP if n_particles <= 1000 else WARM_UP // 2  # the peers are slow
    text = stream_for(n_particles)
    makers = {"dense NumPy": DenseVPA, "tuned NumPy": TunedVPA}
    try:
        from benchmarks.peers.dense_numba import NumbaVPA

        makers["dense Numba"] = NumbaVPA
        NumbaVPA(N_SYMBOLS, 20, beta=BETA).run(text[:50])  # compiles
    except ImportError:
        print("dense Numba: skipped, Numba is not installed (pip install 'mdvpf[numba]')")
    contenders = {"VPA": Contender.of(text_filter(mdvpf.VPA(), n_particles))}
    for name, maker in makers.items():
        contenders[name] = Contender(maker(N_SYMBOLS, n_particles, beta=BETA).run)
    for contender in contenders.values():
        contender.advance(text[:warm_up])
    times = race(contenders, windows(text, warm_up, window_length(n_particles), ROUNDS))
    targets = {"dense NumPy": dense_numpy, "dense Numba": dense_numba}
    figures: Result = []
    for name in makers:
        assert_same(times, name)
        what = f"VPA faster than {name}, {power(n_particles)}"
        figures.append(Figure(what, times.ratio(name, "VPA"), at_least=targets.get(name)))
    return figures


# ---- the other filters -------------------------------------------------------------------

ALGORITHMS: dict[str, tuple[Algorithm, float]] = {
    "MD-VPA": (mdvpf.MDVPA(), 2.2),
    "SMC": (mdvpf.SMC(), 1.2),
    "ParticleLearning": (mdvpf.ParticleLearning(), 1.5),
    "OptimalResampling": (mdvpf.OptimalResampling(), 1.5),
}


def algorithms(n_particles: int) -> Result:
    """Each filter against VPA, per candidate of its own particles."""
    text = stream_for(n_particles)
    filters = {"VPA": text_filter(mdvpf.VPA(), n_particles)}
    for name, (algorithm, _) in ALGORITHMS.items():
        filters[name] = text_filter(algorithm, n_particles)
    for pf in filters.values():
        pf.run(text[:WARM_UP])
    contenders = {name: Contender.of(pf) for name, pf in filters.items()}
    times = race(contenders, windows(text, WARM_UP, window_length(n_particles), ROUNDS))
    each = {name: n_candidates(pf) / n_particles for name, pf in filters.items()}
    return [
        Figure(
            f"{name} against VPA per candidate, {power(n_particles)}",
            times.ratio(name, "VPA", per_candidate=True),
            at_most=at_most,
            note=f"{times.nanoseconds(name):.1f} ns, {each[name]:.0f} candidates a particle",
        )
        for name, (_, at_most) in ALGORITHMS.items()
    ]


# ---- trees of contexts -------------------------------------------------------------------

TREES: dict[str, tuple[Callable[[], mdvpf.Predictor], float | None]] = {
    "PitmanYorTree 5": (lambda: mdvpf.PitmanYorTree(N_SYMBOLS, depth=5), 30.0),
    "PitmanYorMixture": (lambda: mdvpf.PitmanYorMixture(N_SYMBOLS), None),
    "ContextTree 5": (lambda: mdvpf.ContextTree(N_SYMBOLS, depth=5), None),
    "Markov 2": (lambda: mdvpf.Markov(N_SYMBOLS, order=2), None),
}


def trees(n_particles: int = 1000) -> Result:
    """Trees of contexts against VPA, by symbols of the same text."""
    length, rounds = 1000, 10
    text = load_text(WARM_UP + length * rounds)
    predictors: dict[str, mdvpf.Predictor] = {"VPA": text_filter(mdvpf.VPA(), n_particles)}
    predictors |= {name: make() for name, (make, _) in TREES.items()}
    for predictor in predictors.values():
        predictor.run(text[:WARM_UP])
    contenders = {
        name: Contender(lambda symbols, predictor=predictor: predictor.run(symbols).log_predictive)
        for name, predictor in predictors.items()
    }
    times = race(contenders, windows(text, WARM_UP, length, rounds))
    return [
        Figure(
            f"{name} faster than VPA, {power(n_particles)}",
            times.ratio("VPA", name),
            at_least=at_least,
            note=f"{1e6 * np.median(times.seconds[name]) / length:.2f} microseconds a symbol",
        )
        for name, (_, at_least) in TREES.items()
    ]


def noise(n_particles: int = 10_000) -> Result:
    """VPA against itself: the noise of the method."""
    text = stream_for(n_particles)
    figures: Result = []
    for name, clock in {"processor": time.thread_time, "wall": time.perf_counter}.items():
        pair = {side: text_filter(mdvpf.VPA(), n_particles) for side in ("one", "other")}
        for pf in pair.values():
            pf.run(text[:WARM_UP])
        contenders = {side: Contender.of(pf) for side, pf in pair.items()}
        stretches = windows(text, WARM_UP, window_length(n_particles), ROUNDS)
        times = race(contenders, stretches, clock)
        ratios = times.seconds["one"] / times.seconds["other"]
        low, high = np.quantile(ratios, [0.1, 0.9])
        what = f"VPA against itself, {name} clock, {power(n_particles)}"
        note = f"windows: {low:.2f} to {high:.2f}"
        figures.append(Figure(what, times.ratio("one", "other"), note=note))
    return figures


# ---- calls, threads, growth --------------------------------------------------------------


def update_overhead() -> Result:
    """Microseconds of `update` with one particle: the overhead of a call."""
    figures: Result = []
    for name, algorithm in {"VPA": mdvpf.VPA(), "MD-VPA": mdvpf.MDVPA()}.items():
        pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(2, beta=0.3), algorithm, n_particles=1)
        best = (
            min(
                timeit.repeat(
                    lambda pf=pf: pf.update(0), timer=time.thread_time, number=2000, repeat=300
                )
            )
            / 2000
        )
        what = f"update, K = 1, {name}"
        figures.append(Figure(what, 1e6 * best, "microseconds", at_most=3.0))
    return figures


def growth_in_k() -> Result:
    """Growth of the cost of a step from K = 10^3 to 10^5, divided by the growth of K."""
    small, large = 1000, 100_000
    length, rounds = 20, 10
    text = load_text(WARM_UP + length * rounds)
    filters = {str(n): text_filter(mdvpf.VPA(), n) for n in (small, large)}
    for pf in filters.values():
        pf.run(text[:WARM_UP])
    contenders = {name: Contender.of(pf) for name, pf in filters.items()}
    times = race(contenders, windows(text, WARM_UP, length, rounds))
    growth = times.ratio(str(large), str(small)) / (large / small)
    return [Figure("cost of a step, K = 10^3 to 10^5, against K", growth, at_most=1.6)]


def threads(n_particles: int = 100_000) -> Result:
    """Two threads against one in one filter; both must give the same log predictives."""
    length, rounds = 10, 12
    text = load_text(WARM_UP + length * rounds)
    filters = {str(n): text_filter(mdvpf.VPA(), n_particles, n_threads=n) for n in (1, 2)}
    for pf in filters.values():
        pf.run(text[:WARM_UP])
    contenders = {name: Contender.of(pf) for name, pf in filters.items()}
    times = race(contenders, windows(text, WARM_UP, length, rounds), time.perf_counter)
    assert np.array_equal(times.log_predictive["1"], times.log_predictive["2"])
    what = f"two threads faster than one, {power(n_particles)}"
    return [Figure(what, times.ratio("1", "2"), at_least=1.3, note="log predictives identical")]


def two_filters(n_particles: int = 10_000) -> Result:
    """Two filters in two Python threads against the same filters in turn."""
    text = load_text(WARM_UP + 600)
    pair = [text_filter(mdvpf.VPA(), n_particles) for _ in range(2)]
    for pf in pair:
        pf.run(text[:WARM_UP])

    def together(stretch: np.ndarray) -> None:
        workers = [threading.Thread(target=pf.run, args=(stretch,)) for pf in pair]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    def in_turn(stretch: np.ndarray) -> None:
        for pf in pair:
            pf.run(stretch)

    contenders = {"in turn": Contender(in_turn), "together": Contender(together)}
    times = race(contenders, windows(text, WARM_UP, 60, 10), time.perf_counter)
    ratio = times.ratio("in turn", "together")
    return [Figure("two filters in two Python threads, faster", ratio)]


def long_run(n_particles: int = 1000, n: int = 1_000_000, max_states: int = 12) -> Result:
    """Cost of a step late in a stream against an early one, with bounded states."""
    length, rounds, early_at = 200, 15, 10_000
    text = load_text(n + length * rounds)
    model = mdvpf.InfiniteHMM(N_SYMBOLS, beta=BETA, max_states=max_states)
    pf = mdvpf.ParticleFilter(model, mdvpf.VPA(), n_particles=n_particles)
    pf.run(text[:early_at])
    early = pf.copy()
    states = f"{pf.n_states.mean():.1f}"
    for start in range(early_at, n, 50_000):
        pf.run(text[start : min(start + 50_000, n)])
    contenders = {"early": Contender.of(early), "late": Contender.of(pf)}
    times = race(contenders, windows(text, n, length, rounds))
    what = f"step at n = 10^{round(math.log10(n))} against 10^4, {max_states} states at most"
    note = f"mean states: {states} early, {pf.n_states.mean():.1f} late"
    return [Figure(what, times.ratio("late", "early"), at_most=1.2, note=note)]
