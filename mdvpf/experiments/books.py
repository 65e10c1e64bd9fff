"""Three books by characters: the source changes twice, from one author to the next.

The paper starts from 50 random initial states. Labels are given by first appearance, so 50
unvisited states are equivalent to one new state with gamma = 50. With gamma = 1, unless beta is
small, the deterministic filters collapse to one or two states, as the table of settings shows.
"""

from __future__ import annotations

import numpy as np

from mdvpf.datasets import books
from mdvpf.experiments.data import Data
from mdvpf.experiments.experiment import Drawing, Experiment, Groups, Report
from mdvpf.experiments.figures import PAPER_FILTERS, course, paper_panels, shown_labels
from mdvpf.experiments.options import Options
from mdvpf.experiments.results import comparison, counted, final_states, inner_variance
from mdvpf.experiments.runs import Run, Seed
from mdvpf.experiments.settings import GROUP, Setting, setting_runs, setting_table
from mdvpf.parallel import spawn
from mdvpf.streams.methods import BASE

BETAS = (0.01, 0.03, 0.1, 0.3, 1.0)
SMOOTHING = 100  # characters
SETTINGS: list[Setting] = [(gamma, beta) for gamma in (1.0, 50.0) for beta in BETAS]
VARIANCE_EVERY = 20  # characters


def streams(n: int, length: int, seed: int) -> list[Data]:
    """Return the streams of the experiment: the openings of the books, then random windows.

    Windows lie within the first characters of each book, as many as the shortest book has.
    """
    shortest = min(books(n_characters=1).available)
    text = books(n_characters=shortest)
    if length > shortest:
        raise ValueError(f"length={length}: expected at most {shortest}, the shortest book")
    (seeds,) = spawn(seed, n)
    found = []
    for i, data_seed in enumerate(seeds):
        offsets = np.random.default_rng(data_seed).integers(0, shortest - length + 1, size=3)
        starts = np.arange(3) * shortest + (0 if i == 0 else offsets)
        symbols = np.concatenate([text.symbols[start : start + length] for start in starts])
        found.append(Data(f"window {i}", symbols, text.n_symbols, None, (length, 2 * length)))
    return found


def plan(options: Options) -> list[Run]:
    """Return the runs of the experiment on the three books."""
    _, filter_seeds = spawn(options.seed, options.seeds, options.seeds)
    runs = []
    for i, data in enumerate(streams(options.seeds, options.length, options.seed)):
        seed = Seed.of(filter_seeds[i])
        for entry in options.entries():
            every = VARIANCE_EVERY if entry.label in PAPER_FILTERS else 0
            runs.append(
                Run("methods", entry, data, seed, variance_every=every, measure_memory=i == 0)
            )
        runs += setting_runs(options, data, seed, SETTINGS, i == 0)
    return runs


def report(options: Options, groups: Groups) -> Report:
    """Return the tables and the figures of the experiment on the three books."""
    group = groups["methods"]
    length = options.length
    size = (
        f"{counted(len(group.streams), 'window')} of three books, {length} characters each, "
        f"K = {options.particles}"
    )
    hyper = f"gamma = {options.gamma:g}, beta = {options.beta:g}"
    table = comparison(
        group,
        f"Log predictive, nats a character: {size}, {hyper}",
        parts={f"book {i + 1}": slice(i * length, (i + 1) * length) for i in range(3)},
        extras=[final_states(group), inner_variance(group)],
        notes=(
            f"Differences to {BASE} are taken window by window: mean ± standard error. The Markov "
            "chains have the beta of their grid that was best in hindsight; the first window is "
            "the openings of the books.",
        ),
    )
    settings = setting_table(groups[GROUP], SETTINGS, f"Hyper-parameters, nats a character: {size}")
    marks = [length + 0.5, 2 * length + 0.5]
    drawn = shown_labels(group, "Markov 1")
    panels = paper_panels(group, SMOOTHING, marks=marks, every=VARIANCE_EVERY, over="windows")
    panels += course(group, drawn, SMOOTHING, marks=marks, over="windows")
    drawing = Drawing("books", f"Mean of {size}, {hyper}", panels, columns=2)
    return Report([table, settings], [drawing])


BOOKS = Experiment(
    "books",
    "three books by characters, 600 of each",
    Options(particles=50, seeds=20, length=600, gamma=50.0, beta=0.03),
    plan,
    report,
)
