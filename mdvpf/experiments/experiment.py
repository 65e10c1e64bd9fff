"""`Experiment`: a function that plans runs, and one that turns their outcomes into a report.

`carry_out` executes any experiment: it carries out the runs that are not finished yet, and writes a
folder with the tables, the figures, the arrays and the configuration.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mdvpf import plots
from mdvpf._support.progress import progress_bar
from mdvpf._support.tables import Table
from mdvpf.experiments.methods import plain
from mdvpf.experiments.options import Options
from mdvpf.experiments.results import Group
from mdvpf.experiments.runs import Outcome, Run, Store, execute
from mdvpf.parallel import Executor, Failure
from mdvpf.plots import Panel

Groups = dict[str, Group]


@dataclass(frozen=True, slots=True, eq=False)
class Drawing:
    """A figure to draw: the name of its files, its title, its panels and their number a row."""

    name: str
    title: str
    panels: Sequence[Panel]
    columns: int = 3


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """Tables and figures of an experiment, the most important first."""

    tables: Sequence[Table]
    drawings: Sequence[Drawing] = ()


@dataclass(frozen=True, slots=True)
class Experiment:
    """The definition of an experiment.

    Attributes
    ----------
    name : str
        Name on the command line.
    summary : str
        Description in one line.
    defaults : Options
        Default options.
    plan : callable
        Returns the runs for some options.
    report : callable
        Returns the `Report` for some options and the groups of outcomes.
    """

    name: str
    summary: str
    defaults: Options
    plan: Callable[[Options], list[Run]]
    report: Callable[[Options, Groups], Report]


@dataclass(frozen=True, slots=True, eq=False)
class Finished:
    """A finished experiment: its folder, its report, its pictures, and the runs that failed."""

    folder: Path
    report: Report
    pictures: Sequence[Path]
    failures: Sequence[Failure]


def versions() -> dict[str, str]:
    """Return the versions of the software that computes the numbers."""
    return {"python": platform.python_version(), **{p: version(p) for p in ("mdvpf", "numpy")}}


def run_all(
    runs: Sequence[Run],
    executor: Executor,
    store: Store,
    resume: bool = False,
    progress: bool = False,
    label: str = "runs",
) -> tuple[Groups, list[Failure]]:
    """Carry out runs and group their outcomes; with `resume`, recall finished runs."""
    results = executor.map(
        execute,
        runs,
        recall=store.recall if resume else lambda run: None,
        keep=store.keep,
        progress=progress,
        label=label,
    )
    finished: dict[str, list[tuple[Run, Outcome]]] = {}
    failures = []
    for run, result in zip(runs, results, strict=True):
        if isinstance(result, Failure):
            failures.append(result)
        else:
            finished.setdefault(run.group, []).append((run, result))
    return {name: Group(pairs) for name, pairs in finished.items()}, failures


def carry_out(
    experiment: Experiment,
    options: Options,
    folder: Path,
    executor: Executor,
    *,
    resume: bool = False,
    progress: bool = False,
) -> Finished:
    """Run an experiment and write its folder.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    options : Options
        Its options.
    folder : Path
        Output folder.
    executor : Executor
        Executes the runs.
    resume : bool, default False
        Reuse runs in the folder that are already finished.
    progress : bool, default False
        Show a progress bar on a terminal.
    """
    plots.require()  # fail before the long work, not after it
    with progress_bar(progress, 1, f"{experiment.name}: data", "steps"):
        runs = experiment.plan(options)
    store = Store(folder / "runs", versions())
    groups, failures = run_all(runs, executor, store, resume, progress, experiment.name)
    folder.mkdir(parents=True, exist_ok=True)
    _write_configuration(experiment, options, runs, folder)
    np.savez_compressed(folder / "arrays.npz", **_arrays(groups))  # type: ignore[arg-type]
    try:
        report = experiment.report(options, groups)
    except (KeyError, ValueError, ZeroDivisionError):
        if not failures:
            raise
        report = Report(())  # the failed runs leave too little to compare
    if options.note:
        tables = [replace(table, notes=(*table.notes, options.note)) for table in report.tables]
        report = replace(report, tables=tables)
    for table in report.tables:
        table.write(folder)
    pictures = []
    with progress_bar(progress, len(report.drawings), f"{experiment.name}: figures", "figures"):
        for drawing in report.drawings:
            figure = plots.figure(drawing.panels, drawing.title, drawing.columns)
            pictures += plots.save(figure, folder / drawing.name)
    return Finished(folder, report, pictures, failures)


def _write_configuration(
    experiment: Experiment, options: Options, runs: Sequence[Run], folder: Path
) -> None:
    streams = {run.data.name: run.data for run in runs}
    content = {
        "experiment": experiment.name,
        "options": plain(options),
        "versions": versions(),
        "platform": platform.platform(),
        "streams": {
            name: {"symbols": len(data), "sha256": data.digest} for name, data in streams.items()
        },
        "runs": [run.configuration() for run in runs],
    }
    text = json.dumps(content, indent=1) + "\n"
    (folder / "configuration.json").write_text(text, encoding="utf-8")


def _arrays(groups: Groups) -> dict[str, NDArray[np.float64]]:
    """Return the arrays of the outcomes, with a row for each stream if all have the same length."""
    arrays: dict[str, NDArray[np.float64]] = {}
    for name, group in groups.items():
        for label, outcomes in group.outcomes.items():
            for field in ("log_predictive", "n_states", "variance"):
                values = {stream: getattr(outcome, field) for stream, outcome in outcomes.items()}
                prefix = f"{name}/{label}/{field}"
                if len({len(value) for value in values.values()}) == 1:
                    arrays[prefix] = np.array(list(values.values()))
                else:
                    arrays |= {f"{prefix}/{stream}": value for stream, value in values.items()}
    return {key: value for key, value in arrays.items() if value.size}
