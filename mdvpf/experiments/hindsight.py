"""Shifting regret: against the best sequence of comparators in hindsight.

The comparators are the sources, each as if it had generated the whole stream, and the chains and
trees of the table. The best sequence of comparators with at most S switches is chosen in hindsight,
separately for every length of the stream. With S = 0 it is the best single comparator. The
generator itself is a sequence with as many switches as the source made, so for this S the best
sequence is at least as good as the generator.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mdvpf._support.tables import Cell, Column, Estimate, Table
from mdvpf.baselines import KnownHMM
from mdvpf.experiments.data import Data
from mdvpf.experiments.results import Group
from mdvpf.regret import growth_exponent, shifting_regret
from mdvpf.streams.methods import MARKOV_ORDERS, TREE_DEPTHS

CHAINS_AND_TREES = (
    *(f"Markov {order}" for order in MARKOV_ORDERS),
    *(f"ContextTree {depth}" for depth in TREE_DEPTHS),
)


def shifting_table(group: Group, switches: tuple[int, ...], size: str) -> Table:
    """Return the table of shifting regret: for each number of switches, the regret and its growth.

    Parameters
    ----------
    group : Group
        Outcomes on streams of one length whose sources are known.
    switches : tuple of int
        Values of S, the largest number of switches of a sequence.
    size : str
        The size of the experiment, for the title.
    """
    curves = {s: _curves(group, s) for s in switches}
    columns = [Column("method")]
    for s in switches:
        columns += [
            Column(f"S = {s}: regret (nats)", ".1f"),
            Column(f"S = {s}: exponent", ".2f"),
            Column(f"S = {s}: low (95 %)", ".2f"),
            Column(f"S = {s}: high (95 %)", ".2f"),
        ]
    rows = []
    for label in group.labels:
        row: list[Cell] = [group.titles[label]]
        for s in switches:
            regrets = curves[s][label]
            row += [Estimate.of(regrets[:, -1]), *_growth(regrets)]
        rows.append(tuple(row))
    return Table(
        "shifting",
        f"Regret against the best sequence in hindsight with S switches: {size}",
        tuple(columns),
        tuple(rows),
        (
            "Comparators: each source as if it had generated the whole stream, the Markov chains, "
            "the context trees and the uniform distribution. Exponent: of the growth of the regret "
            "with the number of symbols, from a hundredth of the stream to all of it; each length "
            "has its own best sequence. The interval is by jackknife over streams. The exponent is "
            "undefined if the mean regret is not positive.",
        ),
    )


def _curves(group: Group, n_switches: int) -> dict[str, NDArray[np.float64]]:
    """Return the regret after each symbol, by method: one row for each stream."""
    rows: dict[str, list[NDArray[np.float64]]] = {label: [] for label in group.labels}
    for stream, data in group.streams.items():
        done = {
            label: outcomes[stream].log_predictive
            for label, outcomes in group.outcomes.items()
            if stream in outcomes
        }
        chains_and_trees = [done[label] for label in CHAINS_AND_TREES if label in done]
        # The symbols of one source may be impossible under the other; they never are under this.
        uniform = np.full(len(data), -np.log(data.n_symbols))
        pool = np.array([uniform, *_sources(data), *chains_and_trees])
        regrets = shifting_regret(np.array(list(done.values())), pool, n_switches)
        for label, regret in zip(done, regrets, strict=True):
            rows[label].append(regret)
    return {label: np.array(regrets) for label, regrets in rows.items()}


def _sources(data: Data) -> list[NDArray[np.float64]]:
    """Return the log predictives of each source; a change point starts a new sequence."""
    lengths = np.diff([0, *data.change_points, len(data)])
    return [
        KnownHMM(hmm, n_symbols=data.n_symbols).run(data.symbols, lengths).log_predictive
        for hmm in data.hmms
    ]


def _growth(regrets: NDArray[np.float64]) -> tuple[Cell, Cell, Cell]:
    try:
        growth = growth_exponent(regrets)
    except ValueError:  # a single stream, or a mean regret that is not positive
        return None, None, None
    return growth.exponent, growth.low, growth.high
