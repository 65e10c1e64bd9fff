"""SMC, VPA and MD-VPA on a stream whose source changes: the paper's switching HMM.

150 symbols of a random HMM with 3 states and 3 symbols, then 150 of one with 4 states and 8
symbols. Each filter predicts a symbol before it sees it; the table and the picture show the log
probability it gave. Run by `make demo`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import mdvpf

N_SYMBOLS = 8
HALF = 150
BETA = 1.0
N_PARTICLES = 100
N_STREAMS = 20
SMOOTHING = 15

FILTERS = {"SMC": mdvpf.SMC(), "VPA": mdvpf.VPA(), "MD-VPA": mdvpf.MDVPA()}
# Told apart by dashes and shade, not by colour.
LINES = {
    "SMC": {"linestyle": ":", "color": "0.35", "linewidth": 2.0},
    "VPA": {"linestyle": "--", "color": "0.35", "linewidth": 1.5},
    "MD-VPA": {"linestyle": "-", "color": "0.0", "linewidth": 1.5},
}


def random_hmm(
    n_states: int, n_symbols: int, length: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return symbols of an HMM whose every row is drawn from the flat Dirichlet."""
    initial = rng.dirichlet(np.ones(n_states))
    transition = rng.dirichlet(np.ones(n_states), size=n_states)
    emission = rng.dirichlet(np.ones(n_symbols), size=n_states)
    symbols = np.empty(length, np.int64)
    state = rng.choice(n_states, p=initial)
    for i in range(length):
        symbols[i] = rng.choice(n_symbols, p=emission[state])
        state = rng.choice(n_states, p=transition[state])
    return symbols


def switching_stream(seed: int) -> NDArray[np.int64]:
    rng = np.random.default_rng(seed)
    return np.concatenate([random_hmm(3, 3, HALF, rng), random_hmm(4, N_SYMBOLS, HALF, rng)])


def run_all(console: Console) -> dict[str, NDArray[np.float64]]:
    """Return the log predictives of each filter: one row a stream, one column a symbol."""
    model = mdvpf.InfiniteHMM(N_SYMBOLS, beta=BETA)
    predictives = {name: np.empty((N_STREAMS, 2 * HALF)) for name in FILTERS}
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("streams", total=N_STREAMS * len(FILTERS))
        for seed in range(N_STREAMS):
            symbols = switching_stream(seed)
            for name, algorithm in FILTERS.items():
                pf = mdvpf.ParticleFilter(model, algorithm, n_particles=N_PARTICLES, rng=seed)
                predictives[name][seed] = pf.run(symbols).log_predictive
                progress.advance(task)
    return predictives


def mean_and_error(values: NDArray[np.float64]) -> str:
    return f"{values.mean():+.3f} ± {values.std(ddof=1) / np.sqrt(len(values)):.3f}"


def table(predictives: dict[str, NDArray[np.float64]]) -> Table:
    result = Table(
        title=f"Mean log predictive, nats a symbol: {N_STREAMS} streams, K = {N_PARTICLES}",
        caption="mean ± standard error over streams; the last column compares stream by stream",
    )
    result.add_column("filter")
    for column in ("before the switch", "after it", "whole stream", "whole, minus SMC"):
        result.add_column(column, justify="right")
    baseline = predictives["SMC"].mean(axis=1)
    for name, values in predictives.items():
        whole = values.mean(axis=1)
        result.add_row(
            name,
            mean_and_error(values[:, :HALF].mean(axis=1)),
            mean_and_error(values[:, HALF:].mean(axis=1)),
            mean_and_error(whole),
            "" if name == "SMC" else mean_and_error(whole - baseline),
        )
    return result


def picture(predictives: dict[str, NDArray[np.float64]], file: Path) -> None:
    """Draw the mean over streams, averaged over the latest symbols: it never looks ahead."""
    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    window = np.ones(SMOOTHING) / SMOOTHING
    time = np.arange(SMOOTHING, 2 * HALF + 1)
    for name, values in predictives.items():
        smooth = np.convolve(values.mean(axis=0), window, mode="valid")
        axes.plot(time, smooth, label=name, **LINES[name])
    axes.axvline(HALF + 0.5, color="0.6", linewidth=1)
    axes.annotate(
        "the source switches",
        xy=(HALF + 0.5, 0.97),
        xycoords=("data", "axes fraction"),
        xytext=(6, 0),
        textcoords="offset points",
        va="top",
    )
    axes.set_xlim(0, 2 * HALF)
    axes.set_xlabel("time (symbols)")
    axes.set_ylabel(f"log predictive (nats a symbol),\nmean of the last {SMOOTHING} symbols")
    axes.set_title(f"Mean of {N_STREAMS} streams, K = {N_PARTICLES}, beta = {BETA:g}")
    axes.legend(loc="lower left")
    figure.savefig(file, dpi=150)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo.png"), help="file of the picture")
    output = parser.parse_args().output

    console = Console()
    predictives = run_all(console)
    console.print(table(predictives))
    picture(predictives, output)
    console.print(f"picture: {output}")


if __name__ == "__main__":
    main()
