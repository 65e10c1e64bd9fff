"""How the mixtures compare with what they have to beat, in nats a symbol.

The defaults of `auto` were chosen on the streams of the part "choose" and are reported on those of
the part "report":

    data      choose          report
    hmm       seeds 1-10      seeds 11-30     `datasets.switching_hmm(rng=seed)`
    web       blocks 1-5      blocks 6-10     1,500 clicks each, evenly spread, users joined
    books     windows 1-10    windows 11-20   600 characters of each of three books, seed 0
    commands  -               users 1-5       the first 1,000 commands of each

    python benchmarks/mixtures.py hmm report
    python benchmarks/mixtures.py budget
    python benchmarks/mixtures.py update
    python benchmarks/mixtures.py threads

`budget` is the score of `auto` and of its filters alone against the total number of particles, on
the first streams of each report. `update` is the time of one symbol after 1,000 characters of a
book: by `run`, by `update`, and of `predict_proba`; the least of some turns, for what a busy
machine adds is none of theirs. `threads` is the time of a grid of filters on two threads against
one, on part of a book. Only turns count between which two processes that do nothing but count had
at least 1.9 cores to themselves.

Differences are taken stream by stream: mean and standard error. The time is that of the processor,
of one thread. MD-VPA has the best single setting of its grid on the very streams of the report, in
hindsight, which no user could know.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import time
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mdvpf
from mdvpf import datasets
from mdvpf.experiments import books, webclick

PARTS = {
    "hmm": {"choose": range(1, 11), "report": range(11, 31)},
    "web": {"choose": range(1, 6), "report": range(6, 11)},
    "books": {"choose": range(1, 11), "report": range(11, 21)},
    "commands": {"report": range(1, 6)},
}
BUDGETS = (840, 2_100, 4_200, 8_400, 16_800)
BUDGET_STREAMS = {"hmm": 10, "web": 2, "books": 3, "commands": 3}  # how many of the report
Streams = list[tuple[NDArray[np.int64], int]]


def streams(name: str, numbers: range) -> Streams:
    """Return the streams of the given numbers, each with the size of its alphabet."""
    if name == "hmm":
        found = [datasets.switching_hmm(rng=seed) for seed in numbers]
        return [(stream.symbols, stream.n_symbols) for stream in found]
    if name == "commands":
        data = datasets.masquerade()
        return [(data.symbols[user - 1, :1000], data.n_symbols) for user in numbers]
    every = webclick.streams(10, 1500) if name == "web" else books.streams(20, 600, 0)
    return [(every[i - 1].symbols, every[i - 1].n_symbols) for i in numbers]


def markov_mixture(n_symbols: int) -> mdvpf.Mixture:
    """Return the mixture of chains that is to be beaten."""
    return mdvpf.Mixture(
        [
            mdvpf.Markov(n_symbols, order=order, beta=beta, decay=decay)
            for order, beta, decay in product(
                (0, 1, 2), (1, 0.3, 0.1, 0.03, 0.01), (1, 0.999, 0.99, 0.95)
            )
        ],
        share=0.01,
    )


def single(
    alpha: float, gamma: float, beta: float, n_particles: int
) -> Callable[[int], mdvpf.Predictor]:
    def make(n_symbols: int) -> mdvpf.Predictor:
        model = mdvpf.InfiniteHMM(n_symbols, alpha=alpha, gamma=gamma, beta=beta)
        return mdvpf.ParticleFilter(model, mdvpf.MDVPA(), n_particles)

    return make


def methods(name: str) -> dict[str, Callable[[int], mdvpf.Predictor]]:
    """Return what is compared: first the two mixtures, then what they have to beat."""
    found: dict[str, Callable[[int], mdvpf.Predictor]] = {
        "auto": lambda v: mdvpf.auto(v, rng=0),
        "filters alone": lambda v: mdvpf.auto(v, baselines=False, rng=0),
        "Markov mixture": markov_mixture,
    }
    for depth in (1, 2, 3):
        found[f"ContextTree {depth}"] = lambda v, depth=depth: mdvpf.ContextTree(v, depth=depth)
    if name == "hmm":
        for setting in product((1, 10), (1, 10, 50), (3, 1, 0.3, 0.1)):
            found["MD-VPA {:g} {:g} {:g}".format(*setting)] = single(*setting, 1000)
    return found


def spare_cores(pool: Any) -> float:
    """Return how many cores two busy processes get."""
    return sum(pool.map(busy, [0.3, 0.3], chunksize=1))


def busy(seconds: float) -> float:
    """Keep a core busy for a while; return the share of it that was to be had."""
    start, used = time.perf_counter(), time.process_time()
    while time.perf_counter() - start < seconds:
        pass
    return (time.process_time() - used) / (time.perf_counter() - start)


def race(n_turns: int = 30) -> None:
    """Print how much faster two threads are than one, the median over the turns that count."""
    symbols = datasets.books(n_characters=256).symbols
    ratios = []
    with multiprocessing.Pool(2) as pool:
        spare = spare_cores(pool)
        for _ in range(n_turns):
            seconds = {}
            for n in (1, 2):
                mixture = mdvpf.Mixture.grid(27, n_particles=100, n_threads=n)
                mixture.run(symbols[:256])
                start = time.perf_counter()
                mixture.run(symbols[256:])
                seconds[n] = time.perf_counter() - start
            before, spare = spare, spare_cores(pool)
            if min(before, spare) >= 1.9:
                ratios.append(seconds[1] / seconds[2])
    print(f"{len(ratios)} of {n_turns} turns count")
    if ratios:
        print(f"two threads: {np.median(ratios):.2f} times as fast as one")


def rates(data: Streams, make: Callable[[int], mdvpf.Predictor]) -> NDArray[np.float64]:
    """Return the mean log predictive of each stream."""
    return np.array([make(v).run(symbols).log_predictive.mean() for symbols, v in data])


def curve() -> None:
    """Print nats a symbol against the budget, and how far that is ahead of the chains."""
    labels = {"auto": True, "filters alone": False}
    for name, n_streams in BUDGET_STREAMS.items():
        data = streams(name, PARTS[name]["report"][:n_streams])
        chains = rates(data, markov_mixture)
        print(f"{name}, {n_streams} streams: Markov mixture {chains.mean():.4f}", flush=True)
        for label, baselines in labels.items():
            for budget in BUDGETS:
                start = time.process_time()
                found = rates(
                    data, lambda v, n=budget, b=baselines: mdvpf.auto(v, n, baselines=b, rng=0)
                )
                seconds = (time.process_time() - start) / sum(len(symbols) for symbols, _ in data)
                gain = found - chains
                error = gain.std(ddof=1) / math.sqrt(len(gain))
                print(
                    f"{label:20} {budget:6} particles  {found.mean():8.4f}  {1e3 * seconds:6.2f} ms"
                    f"  ahead of the chains by {gain.mean():+.4f} ± {error:.4f}",
                    flush=True,
                )


def live(n_turns: int = 12, n: int = 100) -> None:
    """Print the processor time of a symbol, in the ways in which a live stream is fed."""
    symbols = datasets.books(n_characters=700).symbols[: 1000 + n]
    begun = mdvpf.auto(27, rng=0)
    begun.run(symbols[:1000])
    late = symbols[1000:].tolist()
    ways: dict[str, Callable[[mdvpf.Predictor], Any]] = {
        "run": lambda predictor: predictor.run(late),
        "update": lambda predictor: [predictor.update(symbol) for symbol in late],
        "predict_proba": lambda predictor: [predictor.predict_proba() for _ in late],
    }
    least = dict.fromkeys(ways, math.inf)
    for _ in range(n_turns):
        for way, act in ways.items():
            predictor = begun.copy()
            start = time.process_time()
            act(predictor)
            least[way] = min(least[way], time.process_time() - start)
    for way, seconds in least.items():
        print(f"{way:20} {1e3 * seconds / n:6.2f} ms")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", choices=[*PARTS, "budget", "update", "threads"])
    parser.add_argument("part", choices=["choose", "report"], nargs="?", default="report")
    arguments = parser.parse_args()
    jobs = {"budget": curve, "update": live, "threads": race}
    if arguments.data in jobs:
        jobs[arguments.data]()
        return
    data = streams(arguments.data, PARTS[arguments.data][arguments.part])
    found: dict[str, NDArray[np.float64]] = {}
    for label, make in methods(arguments.data).items():
        start = time.process_time()
        results = [make(n_symbols).run(symbols) for symbols, n_symbols in data]
        seconds = time.process_time() - start
        found[label] = np.array([result.log_predictive.mean() for result in results])
        n = sum(len(symbols) for symbols, _ in data)
        most = max(int(result.n_particles.max()) for result in results)
        cost = f"{1e3 * seconds / n:7.2f} ms  {most:6} particles"
        line = f"{label:20} {found[label].mean():8.4f}  {cost}"
        for other in ("auto", "filters alone"):
            if other in found and other != label:
                gain = found[other] - found[label]
                error = gain.std(ddof=1) / math.sqrt(len(gain))
                line += f"  {other} is ahead by {gain.mean():+.4f} ± {error:.4f}"
        print(line, flush=True)
    print("redundancy, bits a symbol, against the best line above, a stream at a time:")
    best = np.max(list(found.values()), axis=0)
    for label in ("auto", "filters alone"):
        print(f"{label:20} {((best - found[label]) / math.log(2)).mean():.4f}")


if __name__ == "__main__":
    main()
