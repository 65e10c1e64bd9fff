"""Recurring sources: growth of the regret with the length of the stream.

The source switches between the random HMMs of a pool: a fixed number of times, about sqrt(N) times,
or every 100 symbols. Each length N has its own streams, because the number of switches depends on
N. The regret is against the generator, which knows the matrices and the change points. The paper
claims that it grows like sqrt(N).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mdvpf._support.tables import Cell, Column, Table
from mdvpf.datasets import HMM, random_hmm, sample_hmms
from mdvpf.experiments.data import Data
from mdvpf.experiments.experiment import Drawing, Experiment, Groups, Report
from mdvpf.experiments.figures import band_note, shown_labels
from mdvpf.experiments.methods import GENERATOR
from mdvpf.experiments.options import Options
from mdvpf.experiments.results import (
    Group,
    comparison,
    counted,
    final_regret,
    final_states,
    redundancy,
)
from mdvpf.experiments.runs import Run, Seed
from mdvpf.parallel import spawn
from mdvpf.plots import Line, Panel
from mdvpf.regret import growth_exponent

POOL = 5
N_STATES, N_SYMBOLS = 4, 8
CONCENTRATION = 0.3  # of all rows; at 1 the sources are too flat to be distinguished
FIXED_SWITCHES = 10
SEGMENT = 100  # symbols between switches, if their number grows like N
LENGTHS = 5  # two to a decade
BLOCK = 100  # long streams keep sums of log predictives over blocks of this many symbols

SWITCHES: dict[str, Callable[[int], int]] = {
    f"{FIXED_SWITCHES} switches": lambda n: FIXED_SWITCHES,
    "sqrt(N) switches": lambda n: round(math.sqrt(n)),
    f"N/{SEGMENT} switches": lambda n: n // SEGMENT,
}


def lengths(longest: int) -> list[int]:
    """Return the lengths of the streams, two to a decade.

    Examples
    --------
    >>> from mdvpf.experiments.adversarial import lengths
    >>> lengths(100_000)
    [1000, 3162, 10000, 31623, 100000]
    """
    return sorted({max(2, round(longest * 10 ** (-i / 2))) for i in range(LENGTHS)})


def stream(regime: str, n: int, i: int, seed: np.random.SeedSequence) -> Data:
    """Return a stream of `n` symbols whose source switches within a pool of HMMs."""
    rng = np.random.default_rng(seed)
    pool = [_source(rng) for _ in range(POOL)]
    n_segments = min(SWITCHES[regime](n), n - 1) + 1
    # Every switch goes to another source: a step of 1..POOL-1 around the pool.
    steps = rng.integers(1, POOL, size=n_segments)
    order = np.cumsum(steps) % POOL
    sizes = np.diff(np.linspace(0, n, n_segments + 1).round().astype(np.int64))
    made = sample_hmms([pool[source] for source in order], sizes, rng)
    points = tuple(made.change_points.tolist())
    return Data(f"{regime}, N = {n}, stream {i}", made.symbols, N_SYMBOLS, None, points, made.hmms)


def _source(rng: np.random.Generator) -> HMM:
    return random_hmm(
        N_STATES, N_SYMBOLS, transition=CONCENTRATION, emission=CONCENTRATION, rng=rng
    )


def _group(regime: str, n: int) -> str:
    return f"{regime}, N = {n}"


def plan(options: Options) -> list[Run]:
    """Return the runs of the experiment on recurring sources."""
    data_seeds, filter_seeds = spawn(options.seed, options.seeds, options.seeds)
    sizes = lengths(options.length)
    block = BLOCK if options.length >= 100 * BLOCK else 1
    runs = []
    for i, data_seed in enumerate(data_seeds):
        children = iter(data_seed.spawn(len(SWITCHES) * len(sizes)))
        for regime in SWITCHES:
            for n in sizes:
                data = stream(regime, n, i, next(children))
                for entry in options.entries(generator=True):
                    runs.append(
                        Run(
                            _group(regime, n),
                            entry,
                            data,
                            Seed.of(filter_seeds[i]),
                            block=block,
                            measure_memory=i == 0 and n == sizes[-1],
                        )
                    )
    # The longest first, for an even load of the processes.
    return sorted(runs, key=lambda run: len(run.data), reverse=True)


def report(options: Options, groups: Groups) -> Report:
    """Return the tables and the figures of the experiment on recurring sources."""
    sizes = lengths(options.length)
    rows: list[tuple[Cell, ...]] = []
    tables, growth, courses = [], [], []
    for i, regime in enumerate(SWITCHES):
        by_size = {n: groups[_group(regime, n)] for n in sizes}
        last = by_size[sizes[-1]]
        tables.append(
            comparison(
                last,
                f"{regime}: log predictive, nats a symbol, {counted(len(last.streams), 'stream')} "
                f"of {sizes[-1]:,}, K = {options.particles}",
                name=f"methods-{i + 1}",
                extras=[final_regret(last), redundancy(last), final_states(last)],
            )
        )
        for label in last.labels:
            if label != GENERATOR:
                rows.append(_growth_row(regime, label, by_size))
        drawn = shown_labels(last, "Markov 1", "ContextTree 2")
        growth.append(_growth_panel(regime, drawn, by_size))
        courses.append(_course_panel(regime, drawn, last))
    columns = (
        Column("switches: method"),
        Column("exponent", ".2f"),
        Column("low (95 %)", ".2f"),
        Column("high (95 %)", ".2f"),
        *(Column(f"regret at N = {n:,} (nats)", ",.0f") for n in sizes),
    )
    table = Table(
        "table",
        f"Growth of the regret, N ** exponent: {counted(options.seeds, 'stream')} of each length, "
        f"K = {options.particles}, beta = {options.beta:g}",
        columns,
        tuple(rows),
        ("The interval is by jackknife over streams. The paper's claim is an exponent of 0.5.",),
    )
    title = (
        f"Regret against the generator: mean of {counted(options.seeds, 'stream')}, "
        f"{POOL} recurring HMMs, K = {options.particles}"
    )
    return Report([table, *tables], [Drawing("adversarial", title, [*growth, *courses])])


def _regrets(label: str, by_size: dict[int, Group]) -> NDArray[np.float64]:
    """Return the regret at the end of the streams: one row a seed, one column a length."""
    columns = [list(group.regrets(label).values()) for group in by_size.values()]
    fewest = min(len(column) for column in columns)
    return np.array([column[:fewest] for column in columns]).T


def _growth_row(regime: str, label: str, by_size: dict[int, Group]) -> tuple[Cell, ...]:
    regrets = _regrets(label, by_size)
    sizes = np.array(list(by_size))
    exponent, low, high = _exponent(regrets, sizes)
    return (f"{regime}: {label}", exponent, low, high, *regrets.mean(axis=0).tolist())


def _exponent(regrets: NDArray[np.float64], sizes: NDArray[np.int64]) -> tuple[float, float, float]:
    """Return the exponent of the growth and its interval; NaN if it is undefined."""
    if len(regrets) < 2 or len(sizes) < 2 or (regrets.mean(axis=0) <= 0).any():
        return math.nan, math.nan, math.nan
    # `growth_exponent` expects curves; it reads only the entries at the lengths.
    curves = np.ones((len(regrets), int(sizes[-1])))
    curves[:, sizes - 1] = regrets
    growth = growth_exponent(curves, sizes)
    return growth.exponent, growth.low, growth.high


def _growth_panel(regime: str, labels: list[str], by_size: dict[int, Group]) -> Panel:
    sizes = np.array(list(by_size), dtype=np.float64)
    n_streams = min(len(group.streams) for group in by_size.values())
    lines = []
    for label in labels:
        regrets = _regrets(label, by_size)
        error = regrets.std(axis=0, ddof=1) / math.sqrt(len(regrets)) if len(regrets) > 1 else None
        lines.append(Line(label, sizes, regrets.mean(axis=0), error))
    anchor = max(lines[0].y[0], 1.0)
    lines.append(Line("slope of sqrt(N)", sizes, anchor * np.sqrt(sizes / sizes[0])))
    return Panel(
        f"{regime}: streams of length N{band_note(n_streams)}",
        "length N of the stream (symbols)",
        "regret at the end (nats)",
        lines,
        log_x=True,
        log_y=True,
    )


def _course_panel(regime: str, labels: list[str], group: Group) -> Panel:
    stream = next(iter(group.streams.values()))
    block = group.blocks[stream.name]
    lines = []
    for label in labels:
        losses = group.losses(label, GENERATOR).values()
        curve = np.cumsum(np.mean(list(losses), axis=0))
        time = np.minimum(block * np.arange(1.0, len(curve) + 1), len(stream))
        lines.append(Line(label, time, curve))
    points = [point + 0.5 for point in stream.change_points]
    marks = points if len(points) <= 2 * FIXED_SWITCHES else []
    unmarked = "" if marks else f"\n({len(points):,} changes of source, not marked)"
    return Panel(
        f"{regime}: in the course of N = {len(stream):,}{unmarked}",
        "time (symbols)",
        "cumulative regret (nats)",
        lines,
        marks,
    )


ADVERSARIAL = Experiment(
    "adversarial",
    "recurring sources from a pool of HMMs: growth of the regret",
    Options(particles=100, seeds=5, length=100_000),
    plan,
    report,
)
