"""Comparison of methods on a single stream of the user.

The standard errors are over consecutive blocks of this stream. They measure how evenly a difference
is spread over the stream, and not how it would vary between streams.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mdvpf.experiments.data import Data
from mdvpf.experiments.experiment import Drawing, Experiment, Groups, Report
from mdvpf.experiments.figures import course, shown_labels
from mdvpf.experiments.methods import NAMES
from mdvpf.experiments.options import Options
from mdvpf.experiments.results import Group, comparison, final_states
from mdvpf.experiments.runs import Outcome, Run, Seed
from mdvpf.model import InfiniteHMM
from mdvpf.parallel import spawn
from mdvpf.streams.methods import AUTO, BASE

BLOCKS = 20
MOST_BREAKS = 20  # with more sequences the figure marks none
DEFAULTS = Options(particles=100, seeds=1, length=20, methods=NAMES)


def completed(options: Options, data: Data) -> Options:
    """Return the options with the model's default beta, unless the user gave one.

    The default depends on the alphabet, which is known only after the stream is read.
    """
    if "beta" in options.given:
        return options
    return replace(options, beta=InfiniteHMM(data.n_symbols).beta)


def compare(data: Data) -> Experiment:
    """Return the experiment on a stream."""

    def plan(options: Options) -> list[Run]:
        ((seed,),) = spawn(options.seed, 1)
        return [
            Run("methods", entry, data, Seed.of(seed), measure_memory=True)
            for entry in options.entries()
        ]

    def report(options: Options, groups: Groups) -> Report:
        group = groups["methods"]
        blocks = in_blocks(group, BLOCKS)
        n = len(blocks.streams)
        size = (
            f"{data.name}, {len(data):,} symbols of {data.n_symbols}, K = {options.particles}, "
            f"gamma = {options.gamma:g}, beta = {options.beta:g}"
        )
        table = comparison(
            blocks,
            f"Log predictive, nats a symbol: {size}",
            extras=[final_states(group)],
            notes=(
                f"Differences to {BASE} are over {n} consecutive blocks of the stream: mean ± "
                "standard error. The Markov chains have the beta of their grid that was best in "
                "hindsight; auto chooses nothing in hindsight, and has its own budget.",
            ),
        )
        panels = course(
            group,
            shown_labels(group, *_best(group, "Markov"), *_best(group, "ContextTree"), AUTO),
            max(1, len(data) // BLOCKS),
            marks=_breaks(data),
            mark_label="start of a sequence",
        )
        return Report([table], [Drawing("compare", size, panels)])

    return Experiment("compare", "a stream of the user", DEFAULTS, plan, report)


def in_blocks(group: Group, n_blocks: int) -> Group:
    """Split the outcomes on one stream into outcomes on consecutive blocks."""
    [(name, data)] = group.streams.items()
    edges = np.linspace(0, len(data), min(n_blocks, len(data)) + 1).round().astype(int)
    parts = {f"block {i}": slice(*edges[i : i + 2]) for i in range(len(edges) - 1)}
    result = Group(())
    result.titles = group.titles
    result.streams = {
        block: Data(block, data.symbols[part], data.n_symbols) for block, part in parts.items()
    }
    result.blocks = dict.fromkeys(parts, 1)
    for label, outcomes in group.outcomes.items():
        whole = outcomes[name]
        result.outcomes[label] = {
            block: Outcome(
                whole.log_predictive[part],
                whole.n_states[part],
                seconds=whole.seconds,
                peak_bytes=whole.peak_bytes,
            )
            for block, part in parts.items()
        }
    return result


def _best(group: Group, family: str) -> list[str]:
    """Return the label of the best method of a family, if there is one."""
    labels = [label for label in group.labels if label.startswith(family)]
    return sorted(labels, key=lambda label: -sum(group.rates(label).values()))[:1]


def _breaks(data: Data) -> Sequence[float]:
    if data.lengths is None or len(data.lengths) > MOST_BREAKS + 1:
        return ()
    return [float(end) + 0.5 for end in np.cumsum(data.lengths)[:-1]]
