"""Open alphabets: time of a step with 10,000 labels against a closed alphabet of 10,000.

    python -m benchmarks.open_vocabulary
    python -m benchmarks.open_vocabulary --particles 100 --labels 2000

Both filters see the same stream of words with Zipf frequencies, from one of several topics at a
time. First every label appears at least once, so that the open alphabet has all of them. Then the
filters take turns over windows of the stream, and the median of the ratios is printed with its
target. All other settings are the same. The models differ, and so does the number of states, which
is printed, too.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

import mdvpf
from benchmarks.timing import Contender, race, windows

TARGET = 1.5
WINDOW = 100
ROUNDS = 20
N_TOPICS = 8
SETTINGS = {
    "VPA": (mdvpf.VPA(), {}),
    "MD-VPA": (mdvpf.MDVPA(), {}),
    "VPA, mealy, rows, forget 4": (
        mdvpf.VPA(),
        {"machine": "mealy", "oracle": "rows", "forget": 4.0},
    ),
}


def zipf_words(n_labels: int, n: int, seed: int = 0) -> NDArray[np.int64]:
    """Return n words by rank; every 50 words have a topic, which permutes the ranks."""
    rng = np.random.default_rng(seed)
    share = 1.0 / np.arange(1, n_labels + 1)
    ranks = rng.choice(n_labels, size=n, p=share / share.sum())
    orders = np.array([rng.permutation(n_labels) for _ in range(N_TOPICS)])
    topics = rng.integers(N_TOPICS, size=n // 50 + 1).repeat(50)[:n]
    words: NDArray[np.int64] = np.where(rng.random(n) < 0.5, ranks, orders[topics, ranks])
    return words


def numbered_by_appearance(words: NDArray[np.int64]) -> NDArray[np.int32]:
    numbers: dict[int, int] = {}
    return np.array([numbers.setdefault(word, len(numbers)) for word in words.tolist()], np.int32)


def stream(n_labels: int, n_timed: int) -> tuple[NDArray[np.int32], int]:
    """Return a stream, and the number of symbols after which all labels have appeared."""
    words = zipf_words(n_labels, n_labels // 2 + n_timed)
    every = np.random.default_rng(1).permutation(n_labels)
    first = np.concatenate([words[: n_labels // 2], every])
    return numbered_by_appearance(np.concatenate([first, words[n_labels // 2 :]])), len(first)


def measure(name: str, n_labels: int, n_particles: int) -> None:
    """Print the ratio of one setting."""
    algorithm, settings = SETTINGS[name]
    symbols, n_first = stream(n_labels, WINDOW * ROUNDS)
    filters = {
        kind: mdvpf.ParticleFilter(
            mdvpf.InfiniteHMM(emission=family, **settings), algorithm, n_particles, rng=0
        )
        for kind, family in (
            ("closed", mdvpf.Categorical(n_labels)),
            ("open", mdvpf.OpenVocabulary()),
        )
    }
    for pf in filters.values():
        pf.run(symbols[:n_first])
    assert filters["open"].n_symbols == n_labels
    contenders = {kind: Contender.of(pf) for kind, pf in filters.items()}
    result = race(contenders, windows(symbols, n_first, WINDOW, ROUNDS))
    ratio = result.ratio("open", "closed")
    times = {kind: 1e6 * np.median(result.seconds[kind]) / WINDOW for kind in filters}
    states = {kind: float(pf.weights @ pf.n_states) for kind, pf in filters.items()}
    print(
        f"{name}: {ratio:.2f} times closed, target {TARGET}, "
        f"{'met' if ratio <= TARGET else 'missed'}; {times['open']:.0f} against "
        f"{times['closed']:.0f} us a step, {states['open']:.0f} against {states['closed']:.0f} "
        f"states",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--labels", type=int, default=10_000, help="size of the alphabet")
    parser.add_argument("--particles", type=int, default=1000, help="particles of each filter")
    options = parser.parse_args()
    print(f"K = {options.particles:,}, {options.labels:,} labels", flush=True)
    for name in SETTINGS:
        measure(name, options.labels, options.particles)


if __name__ == "__main__":
    main()
