"""Number of particles that other filters need to predict as well as MD-VPA with K = 100.

The data sets and their default hyper-parameters are those of three other experiments.
"""

from __future__ import annotations

import numpy as np

from mdvpf._support.tables import Cell, Column, Estimate, Table
from mdvpf.experiments import artificial, books, webclick
from mdvpf.experiments.data import Data
from mdvpf.experiments.experiment import Drawing, Experiment, Groups, Report
from mdvpf.experiments.methods import Entry, Filter
from mdvpf.experiments.options import Options
from mdvpf.experiments.results import Group, comparison, counted, difference
from mdvpf.experiments.runs import Run, Seed
from mdvpf.parallel import spawn
from mdvpf.plots import Line, Panel
from mdvpf.streams.methods import BASE

FEWEST = 10
DEFAULTS = {
    "artificial": artificial.ARTIFICIAL.defaults,
    "books": books.BOOKS.defaults,
    "webclick": webclick.WEBCLICK.defaults,
}


def grid(most: int) -> list[int]:
    """Return numbers of particles, about three to a decade, from 10 to `most`.

    Examples
    --------
    >>> from mdvpf.experiments.efficiency import grid
    >>> grid(1000)
    [10, 30, 100, 300, 1000]
    """
    sizes = [lead * 10**power for power in range(1, 10) for lead in (1, 3)]
    return sorted({min(FEWEST, most), *(size for size in sizes if size < most), most})


def streams(name: str, options: Options) -> list[Data]:
    """Return the streams of a data set; `length` is that of a block of clicks."""
    n, length = options.seeds, options.length
    match name:
        case "artificial":
            return artificial.streams(n, max(length // 10, 2), options.seed)
        case "books":
            return books.streams(n, max(length * 2 // 5, 2), options.seed)
    return webclick.streams(n, length)


def settings(name: str, options: Options) -> Options:
    """Return the options with the hyper-parameters of a data set that the user did not set."""
    usual = {key: getattr(DEFAULTS[name], key) for key in ("alpha", "gamma", "beta")}
    return options.changed(**{k: v for k, v in usual.items() if k not in options.given})


def plan(options: Options) -> list[Run]:
    """Return the runs of the experiment on particle efficiency."""
    _, filter_seeds = spawn(options.seed, options.seeds, options.seeds)
    runs = []
    for name in DEFAULTS:
        chosen = settings(name, options)
        for i, data in enumerate(streams(name, options)):
            seed = Seed.of(filter_seeds[i])
            for entry in chosen.entries(generator=bool(data.hmms)):
                runs.append(Run(name, entry, data, seed, measure_memory=i == 0))
            for k in grid(options.most_particles):
                for label in options.filters:
                    method = chosen.filter(chosen.algorithm(label), k)
                    runs.append(Run(f"{name}, K = {k}", Entry(label, method), data, seed))
    # The longest first, for an even load of the processes.
    return sorted(runs, key=_work, reverse=True)


def _work(run: Run) -> int:
    method = run.entry.method
    return method.n_particles * len(run.data) if isinstance(method, Filter) else 0


def report(options: Options, groups: Groups) -> Report:
    """Return the tables and the figures of the experiment on particle efficiency."""
    sizes = grid(options.most_particles)
    rows: list[tuple[Cell, ...]] = []
    panels, tables = [], []
    for name in DEFAULTS:
        by_size = {k: groups[f"{name}, K = {k}"] for k in sizes}
        base = groups[name].rates(BASE)
        lines = []
        for label in [BASE, *(x for x in options.filters if x != BASE)]:
            differences = {k: difference(group.rates(label), base) for k, group in by_size.items()}
            needed = "" if label == BASE else _needed(differences, options.most_particles)
            seconds = by_size[sizes[-1]].costs(label)[0]
            rows.append((f"{name}: {label}", *differences.values(), needed, seconds))
            lines.append(_line(label, differences))
        zero = np.zeros(2)
        ends = np.array([sizes[0], sizes[-1]], dtype=np.float64)
        best = max(
            (x for x in groups[name].labels if x.startswith("Markov")),
            default=None,
            key=lambda x: Estimate.of(list(groups[name].rates(x).values())).mean,
        )
        if best is not None:
            level = difference(groups[name].rates(best), base).mean
            lines.append(Line("Markov chain, the best", ends, zero + level))
        panels.append(
            Panel(
                name,
                "particles K",
                f"log predictive minus that of\n{BASE} at K = {options.particles} (nats a symbol)",
                lines,
                log_x=True,
            )
        )
        tables.append(_methods(name, options, groups[name]))
    columns = (
        Column("data: filter"),
        *(Column(f"K = {k:,}") for k in sizes),
        Column("K that matches"),
        Column(f"processor time at K = {sizes[-1]:,} (s)", ".3g", volatile=True),
    )
    table = Table(
        "table",
        f"Log predictive minus that of {BASE} at K = {options.particles}, nats a symbol: "
        f"{counted(options.seeds, 'stream')} of each data set",
        columns,
        tuple(rows),
        (
            "Mean ± standard error of differences stream by stream. The last column is the "
            "smallest K of the grid whose mean difference is not negative.",
        ),
    )
    over = counted(options.seeds, "stream")
    title = f"Particles against prediction: mean ± standard error over {over}"
    return Report([table, *tables], [Drawing("efficiency", title, panels)])


def _needed(differences: dict[int, Estimate], most: int) -> str:
    enough = [k for k, estimate in differences.items() if estimate.mean >= 0]
    return f"{min(enough):,}" if enough else f"> {most:,}"


def _line(label: str, differences: dict[int, Estimate]) -> Line:
    means = np.array([estimate.mean for estimate in differences.values()])
    errors = np.array([estimate.error for estimate in differences.values()])
    band = None if np.isnan(errors).any() else errors
    return Line(label, np.array(list(differences), dtype=np.float64), means, band)


def _methods(name: str, options: Options, group: Group) -> Table:
    return comparison(
        group,
        f"{name}: log predictive, nats a symbol, {counted(len(group.streams), 'stream')}, "
        f"K = {options.particles}",
        name=f"methods-{name}",
    )


EFFICIENCY = Experiment(
    "efficiency",
    "number of particles that each filter needs to match MD-VPA with K = 100",
    Options(particles=100, seeds=10, length=1500),
    plan,
    report,
)
