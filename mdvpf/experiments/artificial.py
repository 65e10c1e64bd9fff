"""The paper's switching HMM: 3 states and 3 symbols, then 4 states and 8 symbols.

Every stream has its own data seed. VPA and MD-VPA are deterministic: they give the same numbers for
every filter seed, so their variance over filter seeds does not measure their error. The error is
measured in two other ways: against OptimalResampling with many particles on the same stream, and by
the variance within the particle set.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mdvpf._support.tables import Cell, Column, Estimate, Table
from mdvpf.datasets import switching_hmm
from mdvpf.experiments.data import Data
from mdvpf.experiments.experiment import Drawing, Experiment, Groups, Report
from mdvpf.experiments.figures import band_note, course, paper_panels, shown_labels
from mdvpf.experiments.hindsight import shifting_table
from mdvpf.experiments.literal import literal_runs, literal_tables
from mdvpf.experiments.methods import GENERATOR, Entry, Filter
from mdvpf.experiments.options import Options
from mdvpf.experiments.results import (
    Group,
    comparison,
    counted,
    difference,
    final_regret,
    final_states,
    redundancy,
)
from mdvpf.experiments.runs import Run, Seed
from mdvpf.model.algorithms import MDVPA, SMC, Algorithm, OptimalResampling
from mdvpf.parallel import spawn
from mdvpf.plots import Panel, with_band
from mdvpf.streams.methods import ALGORITHMS, BASE

FILTER_SEEDS = 5  # runs of each random filter on a stream
VARIANCE_EVERY = 10  # symbols
SMOOTHING = 15  # symbols
REFERENCE = "reference"
LARGE_SMC = 10  # times K
SHIFTS = (0, 1)  # switches of the best sequence in hindsight; the source makes one

ABLATION: dict[str, Algorithm] = {
    "MD-VPA": MDVPA(),
    'normalizer="sum"': MDVPA(normalizer="sum"),
    'normalizer="none"': MDVPA(normalizer="none"),
    'discount="1/sqrt(n)"': MDVPA(discount="1/sqrt(n)"),
    "discount=0.1": MDVPA(discount=0.1),
    "discount=1": MDVPA(discount=1.0),
    "discount=0 (is VPA)": MDVPA(discount=0.0),
    "carry_weights=False": MDVPA(carry_weights=False),
    'selection="optimal"': MDVPA(selection="optimal"),
}


def streams(n: int, length: int, seed: int) -> list[Data]:
    """Return the streams of the experiment: two segments each, with separate seeds."""
    (seeds,) = spawn(seed, n)
    found = []
    for i, data_seed in enumerate(seeds):
        stream = switching_hmm(lengths=(length, length), rng=data_seed)
        points = tuple(stream.change_points.tolist())
        name = f"stream {i}"
        found.append(Data(name, stream.symbols, stream.n_symbols, None, points, stream.hmms))
    return found


def plan(options: Options) -> list[Run]:
    """Return the runs of the experiment on the switching HMM."""
    n = options.seeds
    # The first list of seeds is used by `streams`.
    _, *filter_seeds = spawn(options.seed, n, *[n] * FILTER_SEEDS)
    runs = []
    data_of = streams(n, options.length, options.seed)
    for i, data in enumerate(data_of):
        seeds = [Seed.of(seeds[i]) for seeds in filter_seeds]
        for entry in _entries(options):
            runs.append(
                Run(
                    "methods",
                    entry,
                    data,
                    seeds[0],
                    # Measuring the variance is slow: it reads the counts of every particle.
                    variance_every=0 if entry.label.startswith("SMC,") else VARIANCE_EVERY,
                    measure_memory=i == 0,
                )
            )
            if isinstance(entry.method, Filter) and entry.method.draws:
                runs += [Run(f"filter seed {j}", entry, data, seeds[j]) for j in _others()]
        for label, algorithm in ABLATION.items():
            method = options.filter(algorithm, options.particles)
            runs.append(
                Run("ablation", Entry(label, method), data, seeds[0], measure_memory=i == 0)
            )
        reference = options.filter(OptimalResampling(), options.most_particles)
        runs.append(Run(REFERENCE, Entry(REFERENCE, reference), data, seeds[0]))
    if options.literal:
        runs += literal_runs(options, data_of, [Seed.of(seed) for seed in filter_seeds[0]])
    return runs


def _others() -> range:
    return range(1, FILTER_SEEDS)


def _entries(options: Options) -> list[Entry]:
    entries = options.entries(generator=True)
    if "SMC" in options.methods:
        k = LARGE_SMC * options.particles
        entries.insert(1, Entry(f"SMC, K = {k:,}", options.filter(SMC(), k)))
    return entries


def report(options: Options, groups: Groups) -> Report:
    """Return the tables and the figures of the experiment on the switching HMM."""
    group = groups["methods"]
    n, length = len(group.streams), options.length
    size = f"{counted(n, 'stream')}, K = {options.particles}, beta = {options.beta:g}"
    table = comparison(
        group,
        f"Log predictive, nats a symbol, before and after the switch: {size}",
        parts={"before": slice(0, length), "after": slice(length, None)},
        notes=(
            f"Differences to {BASE} are taken stream by stream: mean ± standard error. The Markov "
            "chains have the beta of their grid that was best in hindsight.",
        ),
    )
    ablation = comparison(
        groups["ablation"],
        f"Variants of {BASE}, nats a symbol: {size}",
        name="ablation",
        parts={"before": slice(0, length), "after": slice(length, None)},
    )
    drawing = Drawing(
        "artificial", f"Switching HMM: mean of {size}", _panels(group, length), columns=2
    )
    shifting = shifting_table(group, SHIFTS, size)
    tables = [table, _errors(options, groups, size), shifting, ablation]
    if options.literal:
        tables += literal_tables(groups, length, size)
    return Report(tables, [drawing])


def _errors(options: Options, groups: Groups, size: str) -> Table:
    group, reference = groups["methods"], groups[REFERENCE]
    before, after = slice(0, options.length), slice(options.length, None)
    last = options.length - 1
    extras = (
        (Column("regret before (nats)", ".1f"), lambda label: _part_regret(group, label, before)),
        (Column("regret after (nats)", ".1f"), lambda label: _part_regret(group, label, after)),
        final_regret(group),
        redundancy(group),
        (Column("states before", ".1f"), lambda label: _states_at(group, label, last)),
        final_states(group),
        (Column("RMSE to the reference", ".3f"), lambda label: _rmse(group, reference, label)),
        (Column("sd over filter seeds", ".4f"), lambda label: _seed_deviation(groups, label)),
        (Column(f"over filter seeds, minus {BASE}"), lambda label: _behind(groups, label)),
        (Column("sd within the particles", ".4f"), lambda label: _inner_deviation(group, label)),
    )
    rows = [
        (group.titles[label], *(compute(label) for _, compute in extras)) for label in group.labels
    ]
    return Table(
        "errors",
        f"Regret, states and errors: {size}",
        (Column("method"), *(column for column, _ in extras)),
        tuple(rows),
        (
            "Regret: against the generator, before and after the switch and over the whole stream; "
            "redundancy: what it adds to the length of a code. States: just before the switch, and "
            "at the end. RMSE: of the log predictive of "
            f"a symbol (nats), to OptimalResampling with K = {options.most_particles:,} on the "
            "same stream. Over filter seeds: standard deviation, in nats a symbol, over "
            f"{FILTER_SEEDS} runs on the same stream; VPA and MD-VPA draw nothing, so theirs is 0 "
            f"by construction. Minus {BASE}: as in the table, but with the mean over those runs, "
            "because a single run depends on its random draws. "
            "Within the particles: of the probabilities that they give to the next symbol, "
            "by weight.",
        ),
    )


def _part_regret(group: Group, label: str, part: slice) -> Cell:
    if label == GENERATOR or GENERATOR not in group.labels:
        return None
    return Estimate.of([loss[part].sum() for loss in group.losses(label, GENERATOR).values()])


def _states_at(group: Group, label: str, time: int) -> Cell:
    states = group.curves(label, "n_states")[:, time]
    return None if np.isnan(states).any() else Estimate.of(states)


def _rmse(group: Group, reference: Group, label: str) -> Cell:
    truth = reference.outcomes[REFERENCE]
    return Estimate.of(
        [
            np.sqrt(np.mean((outcome.log_predictive - truth[stream].log_predictive) ** 2))
            for stream, outcome in group.outcomes[label].items()
            if stream in truth
        ]
    )


def _seed_rates(groups: Groups, label: str) -> list[dict[str, float]]:
    """Return, for each filter seed, the mean log predictives by stream."""
    others = [groups[name] for name in (f"filter seed {j}" for j in _others()) if name in groups]
    return [group.rates(label) for group in [groups["methods"], *others] if label in group.labels]


def _seed_deviation(groups: Groups, label: str) -> Cell:
    """Return the standard deviation over filter seeds, from the mean variance over streams."""
    rates = _seed_rates(groups, label)
    if label in ("VPA", BASE) and len(rates) == 1:  # MD-VPA is random with selection="optimal"
        return 0.0
    if len(rates) < FILTER_SEEDS:
        return None
    shared = set.intersection(*(set(rate) for rate in rates))
    values = np.array([[rate[stream] for stream in sorted(shared)] for rate in rates])
    return float(np.sqrt(values.var(axis=0, ddof=1).mean()))


def _behind(groups: Groups, label: str) -> Cell:
    """Return the difference to MD-VPA; each stream counts with its mean over filter seeds."""
    if label == BASE:
        return None
    rates = _seed_rates(groups, label)
    shared = set.intersection(*(set(rate) for rate in rates))
    means = {stream: float(np.mean([rate[stream] for rate in rates])) for stream in sorted(shared)}
    return difference(means, groups["methods"].rates(BASE))


def _inner_deviation(group: Group, label: str) -> Cell:
    variances = group.curves(label, "variance")
    return float(np.sqrt(variances.mean())) if variances.size else None


def _panels(group: Group, length: int) -> list[Panel]:
    points = [length + 0.5]
    drawn = shown_labels(group, "Markov 1")
    known = [GENERATOR] if GENERATOR in group.labels else []
    prediction, states = course(group, [*drawn, *known], SMOOTHING, marks=points)
    time = np.arange(1.0, 2 * length + 1)
    band = band_note(len(group.streams))
    panels = [*paper_panels(group, SMOOTHING, marks=points, every=VARIANCE_EVERY), prediction]
    if known:
        lines = [
            with_band(group.titles[name], time, _regrets(group, name, GENERATOR)) for name in drawn
        ]
        title = f"cumulative regret against the generator{band}"
        panels.append(Panel(title, "time (symbols)", "regret (nats)", lines, points))
    # In the panel above the curves of the filters nearly coincide; this one shows differences.
    others = [name for name in drawn if name in ALGORITHMS and name != BASE]
    if others:
        lines = [with_band(name, time, _regrets(group, name, BASE)) for name in others]
        title = f"cumulative regret against {BASE}{band}"
        panels.append(Panel(title, "time (symbols)", "regret (nats)", lines, points))
    return [*panels, states]


def _regrets(group: Group, label: str, comparator: str) -> NDArray[np.float64]:
    return np.cumsum(list(group.losses(label, comparator).values()), axis=1)


ARTIFICIAL = Experiment(
    "artificial",
    "the switching HMM: two sources, 150 symbols each",
    Options(particles=100, seeds=50, length=150, beta=1.0),
    plan,
    report,
)
