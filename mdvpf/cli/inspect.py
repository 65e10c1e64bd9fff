"""`mdvpf inspect`: what is in a checkpoint."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich.markup import escape

from mdvpf.cli import shared
from mdvpf.experiments.tables import Cell, Column, Table
from mdvpf.filter import ParticleFilter
from mdvpf.monitor import Monitor
from mdvpf.predictor import Predictor
from mdvpf.vocabulary import label_text


def inspect(
    checkpoint: Annotated[
        Path,
        typer.Argument(metavar="CHECKPOINT", exists=True, dir_okay=False, help="The file."),
    ],
    top: Annotated[
        int, typer.Option(min=1, help="How many columns of a table to show, the fullest first.")
    ] = 12,
) -> int:
    """Show what is in a checkpoint: configuration, particles, states, memory, and the tables.

    The tables are the counts of the heaviest particle: how often each state followed each, and how
    often each state emitted each symbol.

    For example:

    mdvpf inspect clicks.mdvpf

    mdvpf inspect clicks.mdvpf --top 30
    """
    monitor = Monitor.load(checkpoint)
    console = shared.console()
    for table in _tables(monitor, checkpoint, top):
        console.print(table.rich())
        console.print()
    return 0


def _tables(monitor: Monitor, file: Path, top: int) -> list[Table]:
    predictor = monitor.predictor
    tables = [_facts("configuration", _configuration(monitor, file))]
    if isinstance(predictor, ParticleFilter):
        tables.append(_facts("particles", _particles(predictor)))
        memory = dataclasses.asdict(predictor.memory())
        tables.append(
            _facts("memory", [(key.replace("_", " "), f"{n:,}") for key, n in memory.items()])
        )
        tables += _counts(predictor, top)
    return tables


def _facts(title: str, rows: Sequence[tuple[Cell, ...]]) -> Table:
    return Table(title, title, (Column("what"), Column("value")), tuple(rows))


def _configuration(monitor: Monitor, file: Path) -> list[tuple[Cell, ...]]:
    predictor = monitor.predictor
    rows: list[tuple[Cell, ...]] = [
        ("predictor", type(predictor).__name__),
        ("symbols", str(predictor.n_symbols)),
        ("vocabulary", escape(str(predictor.vocabulary))),
        ("lines read", f"{monitor.n_lines:,}"),
        ("detector", ", ".join(f"{k}={v!r}" for k, v in monitor.detector._settings().items())),
        ("threshold (nats)", f"{monitor.detector.threshold:.4g}"),
        ("missing symbol", escape(repr(monitor.missing))),
        ("bytes of the file", f"{file.stat().st_size:,}"),
    ]
    if isinstance(predictor, ParticleFilter):
        rows[1:1] = [
            ("model", str(predictor.model)),
            ("algorithm", str(predictor.algorithm)),
            ("budget of particles", f"{predictor.n_particles:,}"),
            ("history", str(predictor.history)),
        ]
    return rows


def _particles(pf: ParticleFilter) -> list[tuple[Cell, ...]]:
    weights, n_states = pf.weights, pf.n_states
    return [
        ("particles", f"{len(weights):,}"),
        ("effective sample size", f"{1.0 / np.square(weights).sum():,.1f}"),
        ("weight of the heaviest", f"{weights.max():.4g}"),
        ("states: least", str(n_states.min())),
        ("states: weighted mean", f"{weights @ n_states:.2f}"),
        ("states: most", str(n_states.max())),
        ("log evidence", f"{pf.log_evidence:,.3f}"),
    ]


def _counts(pf: ParticleFilter, top: int) -> list[Table]:
    counts = pf.counts()
    states = [str(i) for i in range(len(counts.transition))]
    rows = np.vstack([counts.start[np.newaxis], counts.transition])
    transition = _matrix("transition", "to state", ["start", *states], states, rows, top)
    emission = _matrix("emission", "symbol", states, _labels(pf), counts.emission, top)
    return [transition, emission]


def _labels(predictor: Predictor) -> list[str]:
    if predictor.vocabulary is None:
        return [str(i) for i in range(predictor.n_symbols)]
    texts = [label_text(label) for label in predictor.vocabulary]
    return [escape(text if text.strip() else repr(text)) for text in texts]


def _matrix(
    name: str, what: str, rows: list[str], columns: list[str], counts: NDArray[np.int64], top: int
) -> Table:
    """Return a table of counts: the `top` fullest columns, in order, and the sum of the others."""
    fullest = np.argsort(-counts.sum(axis=0), kind="stable")
    shown = np.sort(fullest[:top])
    rest = counts[:, np.sort(fullest[top:])].sum(axis=1)
    headings = [Column("state"), *(Column(columns[i]) for i in shown)]
    if len(columns) > top:
        headings.append(Column(f"{len(columns) - top} others"))
    cells = [
        (label, *(str(n) for n in row[shown]), *([str(other)] if len(columns) > top else []))
        for label, row, other in zip(rows, counts, rest, strict=True)
    ]
    title = f"{name} counts of the heaviest particle: state by {what}"
    return Table(name, title, tuple(headings), tuple(cells))
