"""Outcomes of an experiment by group, label and stream, and the tables that compare them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from mdvpf._support.tables import Cell, Column, Estimate, Table
from mdvpf.experiments.data import Data
from mdvpf.experiments.methods import GENERATOR
from mdvpf.experiments.runs import Outcome, Run
from mdvpf.streams.methods import BASE

COSTS = (
    Column("processor time (s)", ".3g", volatile=True),
    Column("peak memory (MB)", ".3g", volatile=True),
)


class Group:
    """The outcomes of one group of runs, by label and stream.

    If a label has several variants, only the best in hindsight is kept: the one with the largest
    mean log predictive.

    Parameters
    ----------
    pairs : iterable of (Run, Outcome)
        The runs that finished.
    """

    def __init__(self, pairs: Iterable[tuple[Run, Outcome]]) -> None:
        found: dict[str, dict[str, dict[str, Outcome]]] = {}
        self.streams: dict[str, Data] = {}
        self.blocks: dict[str, int] = {}
        for run, outcome in pairs:
            entry, stream = run.entry, run.data.name
            found.setdefault(entry.label, {}).setdefault(entry.variant, {})[stream] = outcome
            self.streams[stream] = run.data
            self.blocks[stream] = run.block
        self.outcomes: dict[str, dict[str, Outcome]] = {}
        self.titles: dict[str, str] = {}  # by label: its text in tables, with the best variant
        for label, variants in found.items():
            best = max(variants, key=lambda name: _mean_total(variants[name]))
            self.outcomes[label] = variants[best]
            self.titles[label] = f"{label} ({best})" if len(variants) > 1 else label

    @property
    def labels(self) -> list[str]:
        """The methods, in the order of the runs."""
        return list(self.outcomes)

    def rates(self, label: str, part: slice = slice(None)) -> dict[str, float]:
        """Return the mean log predictive of a symbol by stream, within a part of each stream."""
        return {
            stream: float(outcome.log_predictive[part].sum())
            / len(self.streams[stream].symbols[part])
            for stream, outcome in self.outcomes[label].items()
        }

    def regrets(self, label: str) -> dict[str, float]:
        """Return the cumulative regret against the generator, by stream."""
        known = self.outcomes.get(GENERATOR, {})
        return {
            stream: known[stream].total - outcome.total
            for stream, outcome in self.outcomes[label].items()
            if stream in known
        }

    def losses(self, label: str, comparator: str) -> dict[str, NDArray[np.float64]]:
        """Return the loss against a comparator on each symbol, for streams that both have."""
        known = self.outcomes[comparator]
        return {
            stream: known[stream].log_predictive - outcome.log_predictive
            for stream, outcome in self.outcomes[label].items()
            if stream in known
        }

    def curves(self, label: str, field: str = "log_predictive") -> NDArray[np.float64]:
        """Return a field of all outcomes of a method, one row for each stream."""
        return np.array([getattr(outcome, field) for outcome in self.outcomes[label].values()])

    def costs(self, label: str) -> tuple[float, float]:
        """Return the mean processor time in seconds and the largest peak memory in megabytes."""
        outcomes = self.outcomes[label].values()
        peaks = [outcome.peak_bytes for outcome in outcomes if outcome.peak_bytes > 0]
        seconds = float(np.mean([outcome.seconds for outcome in outcomes]))
        return seconds, max(peaks) / 1e6 if peaks else float("nan")


def counted(n: int, unit: str) -> str:
    """Return a number with its unit, in the plural unless it is 1."""
    return f"{n} {unit}" if n == 1 else f"{n} {unit}s"


def difference(first: dict[str, float], second: dict[str, float]) -> Estimate:
    """Return the mean difference over the streams that both have, and its standard error."""
    return Estimate.of([first[stream] - second[stream] for stream in first if stream in second])


Extra = tuple[Column, Callable[[str], Cell]]


def comparison(
    group: Group,
    title: str,
    *,
    name: str = "table",
    parts: dict[str, slice] | None = None,
    extras: Sequence[Extra] = (),
    notes: tuple[str, ...] = (),
) -> Table:
    """Return the table of log predictives, which every experiment has: one line for each method.

    Parameters
    ----------
    group : Group
        The outcomes. Differences are to MD-VPA, stream by stream.
    title : str
        Title of the table.
    name : str, default "table"
        Name of its files.
    parts : dict of str to slice, optional
        Parts of the streams with their own columns, besides the whole stream.
    extras : sequence of (Column, callable), optional
        Additional columns, computed from the label.
    notes : tuple of str, optional
        Notes below the table.
    """
    parts = {**(parts or {}), "whole": slice(None)}
    columns = [Column("method")]
    for part in parts:
        columns += [Column(part, show_error=False), Column(f"{part}, minus {BASE}")]
    rows = []
    for label in group.labels:
        row: list[Cell] = [group.titles[label]]
        for span in parts.values():
            rates = group.rates(label, span)
            row.append(Estimate.of(list(rates.values())))
            versus = None if label == BASE else difference(rates, group.rates(BASE, span))
            row.append(versus)
        row += [compute(label) for _, compute in extras]
        rows.append((*row, *group.costs(label)))
    return Table(
        name,
        title,
        (*columns, *(column for column, _ in extras), *COSTS),
        tuple(rows),
        notes,
    )


def final_regret(group: Group) -> Extra:
    """Return the column of the regret against the generator at the end."""

    def compute(label: str) -> Estimate | None:
        return None if label == GENERATOR else Estimate.of(list(group.regrets(label).values()))

    return Column("regret (nats)", ".1f"), compute


def redundancy(group: Group) -> Extra:
    """Return the column of the redundancy: code length beyond the generator's, bits a symbol."""

    def compute(label: str) -> Estimate | None:
        if label == GENERATOR:
            return None
        return Estimate.of(
            [
                regret / (len(group.streams[stream]) * math.log(2))
                for stream, regret in group.regrets(label).items()
            ]
        )

    return Column("redundancy (bits a symbol)", ".3f"), compute


def final_states(group: Group) -> Extra:
    """Return the column of the number of states at the end."""

    def compute(label: str) -> Estimate | None:
        ends = [outcome.n_states[-1] for outcome in group.outcomes[label].values()]
        return None if np.isnan(ends).any() else Estimate.of(ends)

    return Column("states at the end", ".1f"), compute


def inner_variance(group: Group) -> Extra:
    """Return the column of the mean estimation variance over the stream."""

    def compute(label: str) -> Estimate | None:
        variances = group.curves(label, "variance")
        return Estimate.of(variances.mean(axis=1)) if variances.size else None

    return Column("variance within the particles", ".4f"), compute


def _mean_total(outcomes: dict[str, Outcome]) -> float:
    return float(np.mean([outcome.total for outcome in outcomes.values()]))
