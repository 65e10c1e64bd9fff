"""Keys: cost of interleaved sequences against a single sequence.

``python -m benchmarks.keys`` runs VPA and MD-VPA with K = 1,000 on characters of books: as one
sequence, and as 100,000 sequences that alternate at random or round robin, each from its own offset
in the text. It prints the processor time a step as a ratio to one sequence, and live bytes as a
difference. ``--many`` runs a million keys, of which at most 10,000 are open at a time. The core is
called directly, with numbers of keys. Needs MDVPF_DATA.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import mdvpf
from benchmarks.common import TEXT_MODEL, MissingData, load_text
from mdvpf.model.algorithms import Algorithm

N_PARTICLES = 1000
N_KEYS = 100_000
N_ALIVE = 10_000
CHUNK = 2000
ALLOWED_RATIO = 2.0
ALLOWED_BYTES = 40e6
ALGORITHMS: dict[str, Algorithm] = {"VPA": mdvpf.VPA(), "MD-VPA": mdvpf.MDVPA()}


@dataclass
class Cost:
    """Cost of the last steps of a stream, and memory of the filter after them."""

    seconds: float  # per step
    candidates: float  # per step
    live: int
    nats: float


def feed(
    algorithm: Algorithm,
    symbols: NDArray[np.int32],
    numbers: NDArray[np.int32],
    ended: NDArray[np.int32],
    n_timed: int,
) -> Cost:
    """Run a stream and time its last steps."""
    pf = mdvpf.ParticleFilter(TEXT_MODEL, algorithm, N_PARTICLES, rng=0)
    n = len(symbols)
    reports = np.empty((n, 6))
    progress = np.zeros(2, np.int64)
    discounts = 1.0 / np.arange(1, n + 1)
    seconds = 0.0
    for first in range(0, n, CHUNK):
        part = slice(first, min(n, first + CHUNK))
        start = time.process_time()
        pf._core.advance(
            symbols[part],
            ended[part],
            discounts[part],
            np.empty(0),
            reports[part],
            progress,
            numbers[part],
        )
        if first >= n - n_timed:
            seconds += time.process_time() - start
    last = reports[n - n_timed :]
    return Cost(
        seconds / n_timed,
        float(((last[:, 2] + 1) * last[:, 4]).mean()),
        pf.memory().live,
        float(last[:, 0].mean()),
    )


def texts_of_keys(numbers: NDArray[np.int32], seed: int) -> NDArray[np.int32]:
    """Return a symbol for each number: every key reads the text from its own offset."""
    text = load_text()
    n_keys = int(numbers.max()) + 1
    offset = np.random.default_rng(seed).integers(len(text), size=n_keys)
    symbols = np.empty(len(numbers), np.int32)
    for i, number in enumerate(numbers.tolist()):
        symbols[i] = text[offset[number] % len(text)]
        offset[number] += 1
    return symbols


def streams(n_keys: int, n_steps: int) -> dict[str, NDArray[np.int32]]:
    """Return the key of each symbol, for one key and for many."""
    rng = np.random.default_rng(0)
    return {
        "one key": np.zeros(n_steps, np.int32),
        "at random": rng.integers(n_keys, size=n_steps).astype(np.int32),
        "round robin": (np.arange(n_steps) % n_keys).astype(np.int32),
    }


def compare(n_keys: int, rounds: float, n_timed: int) -> bool:
    """Print the costs of many keys against one; return whether they meet the targets."""
    passed = True
    for name, algorithm in ALGORITHMS.items():
        base = None
        for order, numbers in streams(n_keys, int(rounds * n_keys) + n_timed).items():
            symbols = texts_of_keys(numbers, seed=1)
            if base is None:  # a single sequence needs a short warm-up only
                numbers, symbols = numbers[: 4 * n_timed], symbols[: 4 * n_timed]
            cost = feed(algorithm, symbols, numbers, np.full(len(symbols), -1, np.int32), n_timed)
            if base is None:
                base = cost
            ratio, more = cost.seconds / base.seconds, cost.live - base.live
            each = (cost.seconds / cost.candidates) / (base.seconds / base.candidates)
            print(
                f"{name:<7} {order:<12} {1e6 * cost.seconds:7.1f} us a step, {ratio:.2f} times; "
                f"a candidate {each:.2f} times; {cost.live / 1e6:6.1f} MB live, "
                f"{more / 1e6:+6.1f} MB; {cost.nats:.3f} nats",
                flush=True,
            )
            passed = passed and ratio <= ALLOWED_RATIO and more <= ALLOWED_BYTES
    return passed


def compare_many(n_keys: int, n_alive: int) -> None:
    """Run keys that begin and end; the number of an ended key is used again."""
    steps_a_key = 2
    n = n_keys * steps_a_key
    numbers = np.empty(n, np.int32)
    ended = np.full(n, -1, np.int32)
    order: deque[int] = deque()
    rng = np.random.default_rng(0)
    for i in range(0, n, steps_a_key):
        number = i // steps_a_key
        if len(order) == n_alive:
            number = order.popleft()
            ended[i] = number
        order.append(number)
        numbers[i] = number
        numbers[i + 1] = order[rng.integers(len(order))]
    symbols = texts_of_keys(numbers, seed=1)
    for name, algorithm in ALGORITHMS.items():
        cost = feed(algorithm, symbols, numbers, ended, n_timed=20_000)
        print(
            f"{name:<7} {n_keys:,} keys, {n_alive:,} alive: {1e6 * cost.seconds:7.1f} us a step, "
            f"{cost.live / 1e6:6.1f} MB live",
            flush=True,
        )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.keys", description="cost of interleaved sequences"
    )
    parser.add_argument("--n-keys", type=int, default=N_KEYS, metavar="N")
    parser.add_argument("--rounds", type=float, default=3.0, help="steps a key before measuring")
    parser.add_argument("--timed", type=int, default=10_000, help="steps that are measured")
    parser.add_argument("--many", action="store_true", help="a million keys instead")
    options = parser.parse_args(arguments)
    try:
        load_text(1)
    except MissingData as error:
        print(f"keys skipped: {error}")
        return 0
    if options.many:
        compare_many(10 * options.n_keys, N_ALIVE)
        return 0
    if not compare(options.n_keys, options.rounds, options.timed):
        print(f"FAILED: more than {ALLOWED_RATIO:g} times, or {ALLOWED_BYTES / 1e6:g} MB more")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
