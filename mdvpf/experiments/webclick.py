"""Page views of MSNBC.com, one user after another.

Only the order within a user is known. In the paper's description each user is a sequence, so
transitions from one user to the next are not learnt. The other version joins all users into a
single sequence.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mdvpf.datasets import msnbc
from mdvpf.experiments.data import Data
from mdvpf.experiments.experiment import Drawing, Experiment, Groups, Report
from mdvpf.experiments.figures import PAPER_FILTERS, course, paper_panels, shown_labels
from mdvpf.experiments.options import Options
from mdvpf.experiments.results import comparison, counted, final_states, inner_variance
from mdvpf.experiments.runs import Run, Seed
from mdvpf.experiments.settings import GROUP, Setting, setting_runs, setting_table
from mdvpf.parallel import spawn
from mdvpf.plots import Panel
from mdvpf.streams.methods import BASE

BETAS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
SMOOTHING = 100  # clicks
VARIANCE_EVERY = 20  # clicks
GROUPS = {"with breaks": "table", "joined": "table-joined"}  # and the names of their tables


def streams(n: int, length: int) -> list[Data]:
    """Return the streams of the experiment: disjoint blocks of clicks, spread over the users."""
    clicks = msnbc()
    ends = np.cumsum(clicks.lengths)
    starts = ends - clicks.lengths
    found: list[Data] = []
    stop = 0
    for i in range(n):
        first = int(np.searchsorted(starts, max(i * (ends[-1] // n), stop)))
        if first == len(starts) or starts[first] + length > ends[-1]:
            raise ValueError(f"seeds={n}, length={length}: expected at most the clicks in the data")
        start = int(starts[first])
        stop = start + length
        last = int(np.searchsorted(ends, stop))
        lengths = clicks.lengths[first : last + 1].copy()
        lengths[-1] -= ends[last] - stop
        symbols = clicks.symbols[start:stop]
        found.append(Data(f"block {i}", symbols, clicks.n_symbols, lengths))
    return found


def without_breaks(data: Data) -> Data:
    """Return a stream of this experiment without the breaks between users."""
    return Data(data.name, data.symbols, data.n_symbols)


def _settings(options: Options) -> list[Setting]:
    return [(options.gamma, beta) for beta in BETAS]


def plan(options: Options) -> list[Run]:
    """Return the runs of the experiment on the clicks."""
    (filter_seeds,) = spawn(options.seed, options.seeds)
    runs = []
    for i, data in enumerate(streams(options.seeds, options.length)):
        seed = Seed.of(filter_seeds[i])
        for name, stream in zip(GROUPS, (data, without_breaks(data)), strict=True):
            for entry in options.entries():
                every = VARIANCE_EVERY if entry.label in PAPER_FILTERS else 0
                runs.append(
                    Run(name, entry, stream, seed, variance_every=every, measure_memory=i == 0)
                )
        runs += setting_runs(options, data, seed, _settings(options), i == 0)
    return runs


def report(options: Options, groups: Groups) -> Report:
    """Return the tables and the figures of the experiment on the clicks."""
    half = options.length // 2
    tables, paper, panels = [], [], []
    for name, file in GROUPS.items():
        group = groups[name]
        blocks = counted(len(group.streams), "block")
        size = f"{blocks} of {options.length} clicks, K = {options.particles}"
        tables.append(
            comparison(
                group,
                f"Log predictive, nats a click, users {name}: {size}, beta = {options.beta:g}",
                name=file,
                parts={"first half": slice(0, half), "second half": slice(half, None)},
                extras=[final_states(group), inner_variance(group)],
                notes=(
                    f"Differences to {BASE} are taken block by block: mean ± standard error. The "
                    "Markov chains have the beta of their grid that was best in hindsight.",
                ),
            )
        )
        paper += [_named(panel, name) for panel in paper_panels(group, SMOOTHING, over="blocks")]
        prediction, states = course(
            group, shown_labels(group, "Markov 1"), SMOOTHING, over="blocks"
        )
        panels += [_named(prediction, name), _named(states, name)]
    title = f"Hyper-parameters, nats a click, users with breaks: {size}"
    tables.append(setting_table(groups[GROUP], _settings(options), title))
    drawing = Drawing(
        "webclick", f"MSNBC: mean of {size}, beta = {options.beta:g}", [*paper, *panels], columns=2
    )
    return Report(tables, [drawing])


def _named(panel: Panel, name: str) -> Panel:
    return replace(panel, title=f"users {name}\n{panel.title}")


WEBCLICK = Experiment(
    "webclick",
    "page views of MSNBC.com, with breaks between users and without",
    Options(particles=100, seeds=10, length=1500, beta=0.03),
    plan,
    report,
)
