"""The regimes experiment: filters, hmmlearn refitted on a window, and ruptures on numeric streams.

Every method predicts each observation from the earlier ones. The generator knows the distributions,
and its predictions bound the others. Change points are evaluated separately: those of a filter are
the state changes of its heaviest particle at the end of the stream. A true change point is detected
by one within `TOLERANCE`.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mdvpf._support.tables import Cell, Column, Estimate, Table
from mdvpf.experiments.experiment import Drawing, Experiment, Groups, Report
from mdvpf.experiments.figures import course, shown_labels
from mdvpf.experiments.methods import GENERATOR, Entry
from mdvpf.experiments.options import Options
from mdvpf.experiments.regime_peers import (
    EVERY,
    FAMILIES,
    MOST_STATES,
    SHARE,
    WINDOWS,
    Refitted,
    Segmented,
)
from mdvpf.experiments.regime_streams import KINDS, Generator, Numbers, stream
from mdvpf.experiments.results import Group, comparison, counted, final_regret, final_states
from mdvpf.experiments.runs import Run, Seed
from mdvpf.filter import ParticleFilter
from mdvpf.model import InfiniteHMM, Oracle
from mdvpf.model.algorithms import Algorithm
from mdvpf.parallel import spawn
from mdvpf.streams.methods import ALGORITHMS

HMMLEARN, RUPTURES = "hmmlearn", "ruptures"
TOLERANCE = 5  # largest distance of a detected change point from a true one, in observations
SMOOTHING = 100
GROUP_OF_CHANGES = "{}: change points"


@dataclass(frozen=True, slots=True)
class NumberFilter:
    """A particle filter with one prior for all streams of a kind."""

    algorithm: Algorithm
    n_particles: int
    alpha: float
    gamma: float
    oracle: Oracle
    max_states: int | None
    kappa: float
    forget: float
    half_life: float | None

    def predictor(self, data: Numbers, rng: np.random.SeedSequence) -> ParticleFilter:
        """Return the filter for a stream."""
        model = InfiniteHMM(
            None,
            self.alpha,
            self.gamma,
            oracle=self.oracle,
            max_states=self.max_states,
            emission=FAMILIES[data.regimes.kind],
            kappa=self.kappa,
            forget=self.forget,
            half_life=self.half_life,
        )
        return ParticleFilter(model, self.algorithm, self.n_particles, rng=rng, history="full")


@dataclass(frozen=True, slots=True)
class RegimeRun(Run):
    """A run over numbers; its outcome also has change points."""

    def found_changes(self, predictor: object) -> NDArray[np.int64]:
        """Return the state changes of the heaviest particle, or the change points of a peer."""
        if isinstance(predictor, ParticleFilter):
            return 1 + np.flatnonzero(np.diff(predictor.path()))
        return np.array(getattr(predictor, "changes", ()), dtype=np.int64)


def _entries(options: Options) -> list[Entry]:
    filters = [
        Entry(
            name,
            NumberFilter(
                options.algorithm(name),
                options.particles,
                options.alpha,
                options.gamma,
                options.oracle,
                options.max_states,
                options.kappa,
                options.forget,
                options.half_life,
            ),
        )
        for name in ALGORITHMS
        if name in options.methods
    ]
    peers = []
    if importlib.util.find_spec(HMMLEARN):
        peers = [Entry(HMMLEARN, Refitted(window), f"window {window:,}") for window in WINDOWS]
    return [*filters, *peers, Entry(GENERATOR, Generator())]


def plan(options: Options) -> list[Run]:
    """Return the runs of the experiment on regimes."""
    if options.machine != "moore":
        raise ValueError(f"machine={options.machine!r}: expected 'moore' over numbers")
    data_seeds, seeds = spawn(options.seed, options.seeds, options.seeds)
    runs: list[Run] = []
    for i, data_seed in enumerate(data_seeds):
        for kind, child in zip(KINDS, data_seed.spawn(len(KINDS)), strict=True):
            data, seed = stream(kind, options.length, i, child), Seed.of(seeds[i])
            runs += [
                RegimeRun(kind, entry, data, seed, measure_memory=i == 0)
                for entry in _entries(options)
            ]
            if importlib.util.find_spec(RUPTURES):
                group, entry = GROUP_OF_CHANGES.format(kind), Entry(RUPTURES, Segmented())
                runs.append(RegimeRun(group, entry, data, seed, measure_memory=i == 0))
    return runs


def report(options: Options, groups: Groups) -> Report:
    """Return the tables and the figure of the experiment on regimes."""
    tables, panels = [], []
    missing = [name for name in (HMMLEARN, RUPTURES) if not importlib.util.find_spec(name)]
    notes = [f"Without {name}: install mdvpf[peers] to compare with it." for name in missing]
    for kind in KINDS:
        group = groups[kind]
        half = options.length // 2
        table = comparison(
            group,
            f"{kind}: log predictive, nats an observation, "
            f"{counted(len(group.streams), 'stream')} of {options.length:,}, "
            f"K = {options.particles}",
            name=f"table-{kind.lower()}",
            parts={"first half": slice(0, half), "second half": slice(half, None)},
            extras=[final_regret(group), final_states(group)],
            notes=(
                f"hmmlearn: fitted every {EVERY} observations, up to {MOST_STATES} states by BIC; "
                f"the window is the best in hindsight. {SHARE:.0%} of its predictions are those of "
                "a single state.",
                *notes,
            ),
        )
        tables.append(table)
        labels = shown_labels(group, HMMLEARN, GENERATOR)
        marks = [half + 0.5]
        prediction, states = course(group, labels, SMOOTHING, marks=marks, mark_label="new regimes")
        panels += [
            replace(prediction, title=f"{kind}: {prediction.title}"),
            replace(states, title=f"{kind}: {states.title}"),
        ]
    changes = Table(
        "changes",
        f"Change points within {TOLERANCE} observations",
        (
            Column("stream: method"),
            Column("found, for each that there is", ".2f"),
            Column("precision", ".2f"),
            Column("recall", ".2f"),
            Column("F1", ".2f"),
            Column("processor time (s)", ".3g", volatile=True),
        ),
        tuple(
            row
            for kind in KINDS
            for group in (groups[kind], groups.get(GROUP_OF_CHANGES.format(kind)))
            if group is not None
            for row in _change_rows(kind, group)
        ),
        (
            "Filters and ruptures saw the whole stream; hmmlearn only what came before.",
            *notes,
        ),
    )
    title = (
        f"Regimes that change: mean of {counted(options.seeds, 'stream')} of each kind, "
        f"K = {options.particles}"
    )
    return Report([*tables, changes], [Drawing("regimes", title, panels, columns=2)])


def matched(found: NDArray[np.int64], true: NDArray[np.int64], tolerance: int = TOLERANCE) -> int:
    """Return the number of true change points detected; each found one detects at most one.

    Examples
    --------
    >>> import numpy as np
    >>> from mdvpf.experiments.regimes import matched
    >>> matched(np.array([9, 12, 50]), np.array([10, 30, 52]))
    2
    """
    n, i = 0, 0
    for point in true.tolist():
        while i < len(found) and found[i] < point - tolerance:
            i += 1
        if i < len(found) and found[i] <= point + tolerance:
            n += 1
            i += 1
    return n


def _change_rows(kind: str, group: Group) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    for label, outcomes in group.outcomes.items():
        if label == GENERATOR:
            continue
        scores = []
        for name, outcome in outcomes.items():
            data = group.streams[name]
            assert isinstance(data, Numbers)
            true, found = np.array(data.changes, dtype=np.int64), outcome.changes
            n = matched(found, true)
            precision, recall = n / max(len(found), 1), n / max(len(true), 1)
            f1 = 2.0 * n / max(len(found) + len(true), 1)
            scores.append((len(found) / max(len(true), 1), precision, recall, f1))
        estimates = [Estimate.of(column) for column in zip(*scores, strict=True)]
        rows.append((f"{kind}: {group.titles[label]}", *estimates, group.costs(label)[0]))
    return rows


REGIMES = Experiment(
    "regimes",
    "numbers instead of symbols: regimes that change, against hmmlearn and ruptures",
    Options(
        particles=200,
        seeds=5,
        length=2_000,
        kappa=10.0,
        oracle="rows",
        methods=tuple(ALGORITHMS),
    ),
    plan,
    report,
)
