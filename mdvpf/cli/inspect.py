"""`mdvpf inspect`: show the content of a checkpoint."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from mdvpf._support.tables import Cell, Column, Table
from mdvpf.checkpoint import CallableNeeded, load
from mdvpf.cli import shared
from mdvpf.detect import SurpriseDetector
from mdvpf.filter import ParticleFilter
from mdvpf.mixture import GeometricMixture, Mixture
from mdvpf.mixture.base import MixtureBase
from mdvpf.model.number_families import statistic_names
from mdvpf.predictor import Predictor, label_text
from mdvpf.streams.filter_run import FilterRun
from mdvpf.streams.formats.journal import Journal
from mdvpf.streams.methods import AUTO
from mdvpf.streams.monitor import Monitor
from mdvpf.streams.position import Position

NEWLINE = b"\n"

_LONGEST_NAME = 60  # characters of a member's name, to leave room for its weight
_MOST_ENTRIES = 20_000_000  # of the dense tables of counts


def inspect(
    checkpoint: Annotated[
        Path,
        typer.Argument(
            metavar="CHECKPOINT", exists=True, dir_okay=False, help="The checkpoint file."
        ),
    ],
    top: Annotated[
        int,
        typer.Option(
            min=1,
            help="How many columns of counts, or members of a mixture, to show. The largest ones "
            "are chosen.",
        ),
    ] = 12,
) -> int:
    """Show the content of a checkpoint: configuration, particles, states, memory and counts.

    For a filter, two tables show the counts of the heaviest particle: transitions between states,
    and symbols emitted in each state (over numbers, the statistics of each state). For a mixture,
    the tables show its members and their weights in the next prediction, the heaviest first.

    For example:

    mdvpf inspect clicks.mdvpf

    mdvpf inspect clicks.mdvpf --top 30
    """
    run = load_run(checkpoint)
    console = shared.console()
    for table in _tables(run, checkpoint, top):
        console.print(table.rich())
        console.print()
    return 0


def load_run(file: Path) -> FilterRun:
    """Load a checkpoint of any kind as a run of `mdvpf filter`."""
    wanted = (FilterRun, Monitor, SurpriseDetector, Predictor)
    try:
        found = load(file, wanted)
    except CallableNeeded:  # the file has no custom discount, and nothing here calls it
        found = load(file, wanted, _not_in_the_file)
    if isinstance(found, FilterRun):
        return found
    return FilterRun(found if isinstance(found, Monitor) else Monitor(found))


def _not_in_the_file(n: int) -> float:
    """Replace a custom discount, which files do not hold; tables show the name of this function."""
    raise LookupError("the discount is not in the file")


def _tables(run: FilterRun, file: Path, top: int) -> list[Table]:
    predictor = run.monitor.predictor
    tables = [_facts("configuration", _configuration(run.monitor, file))]
    if run.position is not None:
        tables.append(_facts("stream", _stream(run, run.position)))
    if isinstance(predictor, ParticleFilter):
        tables.append(_facts("particles", _particles(predictor)))
        tables.append(_memory(predictor))
        tables += _counts(predictor, top)
    if isinstance(predictor, MixtureBase):
        tables.append(_facts("filters", _filters(predictor)))
        tables.append(_memory(predictor))
        tables += _members(predictor, top)
    return tables


def _stream(run: FilterRun, position: Position) -> list[tuple[Cell, ...]]:
    """Return the positions of the run in its input and its output."""
    rows: list[tuple[Cell, ...]] = [
        ("input", position.path or "a pipe"),
        ("bytes read", f"{position.n_bytes:,}"),
        ("lines read from it", f"{position.n_lines:,}"),
        ("bytes still to be absorbed", f"{len(run.inbox):,}"),
        ("reports still to be written", f"{run.outbox.lines.count(NEWLINE):,}"),
        ("format", run.monitor.format.name),
        ("keys in use", f"{run.monitor.predictor.n_keys:,}"),
    ]
    if run.output is not None:
        rows.append(("output", f"{run.output.path}, {run.output.n_bytes:,} bytes"))
    if isinstance(run.monitor.format, Journal):
        rows.append(("cursor", str(run.monitor.format.cursor)))
    return rows


def _memory(predictor: ParticleFilter | MixtureBase) -> Table:
    found = dataclasses.asdict(predictor.memory())
    return _facts("memory", [(key.replace("_", " "), f"{n:,}") for key, n in found.items()])


def _facts(title: str, rows: Sequence[tuple[Cell, ...]]) -> Table:
    return Table(title, title, (Column("what"), Column("value")), tuple(rows))


def _configuration(monitor: Monitor, file: Path) -> list[tuple[Cell, ...]]:
    predictor = monitor.predictor
    rows: list[tuple[Cell, ...]] = [
        ("predictor", type(predictor).__name__),
        ("symbols", str(predictor.n_symbols)),
        ("vocabulary", str(predictor.vocabulary)),
        ("lines read", f"{monitor.n_lines:,}"),
        ("detector", ", ".join(f"{k}={v!r}" for k, v in monitor.detector.settings.items())),
        ("threshold (nats)", f"{monitor.detector.threshold:.4g}"),
        ("missing symbol", repr(monitor.missing)),
        ("bytes of the file", f"{file.stat().st_size:,}"),
    ]
    if isinstance(predictor, ParticleFilter):
        rows[1:1] = [
            ("model", str(predictor.model)),
            ("algorithm", str(predictor.algorithm)),
            ("budget of particles", f"{predictor.n_particles:,}"),
            ("history", str(predictor.history)),
        ]
    options: list[tuple[Cell, ...]] = []
    match predictor:
        case Mixture():
            options = [("share", str(predictor.share)), ("restart", str(predictor.restart))]
        case GeometricMixture():
            heads = ", ".join(f"{weight:.3f}" for weight in predictor.head_weights)
            options = [("weights of linear, gradient and Newton heads", heads)]
    if isinstance(predictor, MixtureBase) and predictor.recipe is not None:
        recipe = predictor.recipe
        name = recipe["name"]
        what = f"{AUTO}, the default mixture" if name == AUTO else f"{name}, a mixture"
        rows[0] = ("predictor", what)
        if isinstance(predictor, Mixture):  # the members have shares and restarts of their own
            options = []
        elif "budget" in recipe:
            options.insert(0, ("budget", str(recipe["budget"])))
    rows[1:1] = options
    return rows


def _filters(mixture: MixtureBase) -> list[tuple[Cell, ...]]:
    filters = [leaf for _, leaf in mixture.flatten() if isinstance(leaf, ParticleFilter)]
    mean = mixture.mean_states()
    return [
        ("filters, copies that restart included", f"{len(filters):,}"),
        ("particles", f"{sum(len(pf.weights) for pf in filters):,}"),
        ("budget of particles", f"{sum(pf.n_particles for pf in filters):,}"),
        ("states: weighted mean", "" if mean is None else f"{mean:.2f}"),
    ]


def _members(mixture: MixtureBase, top: int) -> list[Table]:
    """Return two tables of weights: by kind of member, and of the heaviest members."""
    kinds: dict[str, list[float]] = {}
    members: dict[str, list[float]] = {}
    for weight, leaf in mixture.flatten():
        kinds.setdefault(_kind(leaf), []).append(weight)
        members.setdefault(_name(leaf), []).append(weight)
    heaviest = sorted(members.items(), key=lambda item: -sum(item[1]))
    rows = [(name, str(len(w)), f"{sum(w):.4f}") for name, w in heaviest[:top]]
    if len(heaviest) > top:
        rest = [weight for _, weights in heaviest[top:] for weight in weights]
        rows.append((f"{len(heaviest) - top} others", str(len(rest)), f"{sum(rest):.4f}"))
    columns = (Column("member"), Column("living"), Column("weight"))
    by_kind = [(kind, str(len(w)), f"{sum(w):.4f}") for kind, w in kinds.items()]
    return [
        Table("kinds", "weights of the kinds of members", columns, tuple(by_kind)),
        Table("members", "weights of members, copies that restart included", columns, tuple(rows)),
    ]


def _kind(leaf: Predictor) -> str:
    return type(leaf.algorithm if isinstance(leaf, ParticleFilter) else leaf).__name__


def _name(leaf: Predictor) -> str:
    if not isinstance(leaf, ParticleFilter):
        name = repr(leaf)
        return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 3]}..."
    model = leaf.model
    emits = "open alphabet" if model.is_open else f"beta {model.beta:g}"
    extras = "" if model.machine == "moore" else f", {model.machine}"
    extras += f", forget {model.forget:g}" if model.forget else ""
    extras += "" if model.half_life is None else f", half-life {model.half_life}"
    return (
        f"{_kind(leaf)}, alpha {model.alpha:g}, gamma {model.gamma:g}, {emits}{extras}, "
        f"K {leaf.n_particles:,}"
    )


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
    n_states, n_symbols = int(pf.n_states[pf.weights.argmax()]), pf.n_symbols
    moves_by = n_symbols + 1 if pf.model.machine == "mealy" else 1
    n_entries = max(n_states, 1) * (n_symbols + moves_by * n_states)
    if n_entries > _MOST_ENTRIES:
        size = f"{n_states:,} states and {n_symbols:,} symbols: {n_entries:,} entries"
        return [_facts("counts of the heaviest particle", [("too many to show", size)])]
    counts = pf.counts()
    states = [str(i) for i in range(len(counts.transition))]
    moves = counts.transition
    if moves.ndim == 3:  # a Mealy machine: add up the symbols
        moves = moves.sum(axis=1)
    rows = np.vstack([counts.start[np.newaxis], moves])
    transition = _matrix("transition", "to state", ["start", *states], states, rows, top)
    if pf.model.numbers is not None:
        names = statistic_names(pf.model.numbers, pf._n_seen)
        columns = (Column("state"), *(Column(name) for name in names[:top]))
        cells = tuple(
            (state, *map(_number, row[:top]))
            for state, row in zip(states, counts.emission, strict=True)
        )
        title = "statistics of the heaviest particle, by state"
        return [transition, Table("emission", title, columns, cells)]
    emission = _matrix("emission", "symbol", states, _labels(pf), counts.emission, top)
    return [transition, emission]


def _labels(predictor: Predictor) -> list[str]:
    if predictor.vocabulary is None:
        return [str(i) for i in range(predictor.n_symbols)]
    texts = [label_text(label) for label in predictor.vocabulary]
    # An open vocabulary may have symbols without a label yet.
    texts += [f"symbol {i}" for i in range(len(texts), predictor.n_symbols)]
    return [text if text.strip() else repr(text) for text in texts]


def _number(count: Any) -> str:
    """Return a count as text; with forgetting, counts are not integers."""
    return f"{count:.2f}" if isinstance(count, np.floating) else str(count)


def _matrix(
    name: str, what: str, rows: list[str], columns: list[str], counts: NDArray[Any], top: int
) -> Table:
    """Return a table of counts: the `top` largest columns, in order, and the sum of the others."""
    largest = np.argsort(-counts.sum(axis=0), kind="stable")
    chosen = np.sort(largest[:top])
    rest = counts[:, np.sort(largest[top:])].sum(axis=1)
    headings = [Column("state"), *(Column(columns[i]) for i in chosen)]
    if len(columns) > top:
        headings.append(Column(f"{len(columns) - top} others"))
    cells = [
        (label, *map(_number, row[chosen]), *([_number(other)] if len(columns) > top else []))
        for label, row, other in zip(rows, counts, rest, strict=True)
    ]
    title = f"{name} counts of the heaviest particle: state by {what}"
    return Table(name, title, tuple(headings), tuple(cells))
