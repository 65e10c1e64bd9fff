"""`SoftHMM`: its time against VPA, and its distance from the true automata of PAutomaC.

    python -m benchmarks.full soft-hmm
    python -m benchmarks.soft_hmm --n-seeds 8
    python -m benchmarks.soft_hmm --n-seeds 8 --forget 0 --lag 0 --problems 24 39
    python -m benchmarks.soft_hmm --streams

The first command is a job of `benchmarks.full`. The second learns every problem of PAutomaC in one
pass over its training strings, freezes the learner and scores the test strings. Each string is a
sequence with an end symbol. The command prints the *gap* (the perplexity minus that of the true
automaton), its geometric mean over problems, and the divergence in bits a string. All problems use
one configuration, which was chosen on the problems of "choose". The data is in the folder
`pautomac` of MDVPF_DATA. The last command compares the scores of 20,000 characters and clicks with
those of a tree and a filter.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import mdvpf
from benchmarks.common import (
    N_CATEGORIES,
    N_SYMBOLS,
    TEXT_MODEL,
    load_clicks,
    load_text,
    open_data,
)
from benchmarks.figures import Figure, Result
from benchmarks.timing import Contender, race, windows

PARTS = {"choose": (1, 6, 14, 24, 33, 42), "report": (3, 9, 19, 28, 39, 45)}
WARM_UP = 5000  # characters before timing: SoftHMM samples its first states
WINDOW = 500
ROUNDS = 20


def against_vpa() -> Result:
    """Time a symbol of text, with 40 states and one seed, against VPA with 100 particles."""
    text = load_text(WARM_UP + WINDOW * ROUNDS)
    figures: Result = []
    for machine in ("mealy", "moore"):
        pf = mdvpf.ParticleFilter(TEXT_MODEL, mdvpf.VPA(), n_particles=100)
        learner = mdvpf.SoftHMM(N_SYMBOLS, machine=machine, rng=0)
        contenders = {
            "VPA": Contender.of(pf),
            "SoftHMM": Contender(lambda symbols, run=learner.run: run(symbols).log_predictive),
        }
        for contender in contenders.values():
            contender.advance(text[:WARM_UP])
        result = race(contenders, windows(text, WARM_UP, WINDOW, ROUNDS))
        microseconds = float(np.median(result.seconds["SoftHMM"])) / WINDOW * 1e6
        figures += [
            Figure(
                f"SoftHMM ({machine}, 40 states) against VPA, K = 100",
                result.ratio("SoftHMM", "VPA"),
                at_most=1.0,
            ),
            Figure(f"SoftHMM ({machine}): a symbol", microseconds, unit="microseconds"),
        ]
    return figures


# --- PAutomaC


@dataclass(frozen=True)
class Strings:
    """The concatenated strings of a file, each with an end symbol."""

    symbols: NDArray[np.int32]
    lengths: NDArray[np.int64]
    n_symbols: int


def load_strings(problem: int, part: str) -> Strings:
    """Return the strings of a problem; the end symbol is the last of the alphabet."""
    with open_data(f"pautomac/{problem}.pautomac.{part}.gz") as file:
        first, *lines = file.read().decode("ascii").splitlines()
    n, end = map(int, first.split())
    strings = [[*map(int, line.split()[1:]), end] for line in lines[:n]]
    return Strings(
        np.fromiter((y for string in strings for y in string), np.int32),
        np.array([len(string) for string in strings]),
        end + 1,
    )


def gap_and_bits(problem: int, log_probability: NDArray[np.float64]) -> tuple[float, float]:
    """Return the official score minus its floor, and the divergence in bits a string."""
    with open_data(f"pautomac/{problem}.pautomac_solution.txt.gz") as file:
        true = np.array(file.read().split()[1:], dtype=np.float64)
    log2 = log_probability / math.log(2.0)
    log2 -= log2.max()
    log2 -= np.log2(np.exp2(log2).sum())
    cross = -float(true @ log2)
    entropy = -float(true[true > 0] @ np.log2(true[true > 0]))
    return 2.0**cross - 2.0**entropy, cross - entropy


def pautomac(problem: int, **options: float | str) -> tuple[float, float, float]:
    """Return the gap, the bits a string and the learning time in microseconds a symbol."""
    train, test = load_strings(problem, "train"), load_strings(problem, "test")
    learner = mdvpf.SoftHMM(train.n_symbols, rng=0, **options)
    start = time.thread_time()
    learner.run(train.symbols, train.lengths)
    seconds = time.thread_time() - start
    learner.new_sequence()
    scores = learner.freeze().run(test.symbols, test.lengths).log_predictive
    starts = np.cumsum(test.lengths) - test.lengths
    gap, bits = gap_and_bits(problem, np.add.reduceat(scores, starts))
    return gap, bits, 1e6 * seconds / len(train.symbols)


def streams() -> None:
    """Print nats a symbol for the first 1,500 and for the second half of 20,000 symbols."""
    text, (clicks, sessions) = load_text(20_000), load_clicks(20_000)
    for name, n_symbols, symbols, lengths in (
        ("characters", N_SYMBOLS, text, None),
        ("clicks", N_CATEGORIES, clicks, sessions),
    ):
        model = mdvpf.InfiniteHMM(n_symbols, beta=0.01)
        for label, predictor in {
            "SoftHMM": mdvpf.SoftHMM(n_symbols, rng=0),
            "SoftHMM, 4 seeds": mdvpf.SoftHMM(n_symbols, rng=0, n_seeds=4),
            "ContextTree(4)": mdvpf.ContextTree(n_symbols, depth=4),
            "VPA, K = 100": mdvpf.ParticleFilter(model, mdvpf.VPA(), n_particles=100),
        }.items():
            found = predictor.run(symbols, lengths).log_predictive
            print(f"{name}, {label}: {found[:1500].mean():.3f} {found[10_000:].mean():.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description="SoftHMM on PAutomaC: gaps, frozen")
    parser.add_argument("--n-seeds", type=int, default=8)
    parser.add_argument("--n-states", type=int, default=40)
    parser.add_argument("--machine", default="mealy")
    parser.add_argument("--forget", type=float, default=4.0)
    parser.add_argument("--lag", type=int, default=2)
    every = [problem for part in PARTS.values() for problem in part]
    parser.add_argument("--problems", type=int, nargs="+", default=every)
    parser.add_argument("--streams", action="store_true", help="characters and clicks instead")
    options = vars(parser.parse_args())
    if options.pop("streams"):
        streams()
        return
    problems = options.pop("problems")
    found = {}
    print("problem      gap  bits a string  microseconds a symbol")
    for problem in problems:
        found[problem] = pautomac(problem, **options)
        gap, bits, microseconds = found[problem]
        print(f"{problem:7d} {gap:8.4f} {bits:14.5f} {microseconds:22.2f}", flush=True)
    for name, part in {**PARTS, "all": every}.items():
        chosen = [found[problem] for problem in part if problem in found]
        if chosen:
            gap = math.exp(sum(math.log(max(g, 1e-6)) for g, _, _ in chosen) / len(chosen))
            bits = sum(b for _, b, _ in chosen) / len(chosen)
            print(f"{name}: geometric mean gap {gap:.3f}, mean bits a string {bits:.4f}")


if __name__ == "__main__":
    main()
