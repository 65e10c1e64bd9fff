"""PAutomaC: distance of learnt models from known automata.

Every method reads the training strings of a problem of PAutomaC once, is frozen, and assigns
probabilities to the 1,000 test strings. The official score is their perplexity; the gap is the
perplexity minus that of the true automaton. Settings are chosen on half of the problems and
reported on the others. Filters are scored with all particles, and with the heaviest one alone.

In the drift version, automata with the same alphabet take turns and nothing is frozen. The regret
at each symbol is exact: the comparator is the forward filter of the current automaton.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from mdvpf import datasets
from mdvpf._support.tables import Cell, Column, Table
from mdvpf.datasets import PAutomaC, PAutomaCScore, sample_hmms
from mdvpf.experiments.data import Data
from mdvpf.experiments.experiment import Drawing, Experiment, Groups, Report
from mdvpf.experiments.figures import band_note, shown_labels
from mdvpf.experiments.methods import GENERATOR, Chain, Entry, Filter
from mdvpf.experiments.options import Options
from mdvpf.experiments.results import (
    Group,
    comparison,
    counted,
    final_regret,
    final_states,
    redundancy,
)
from mdvpf.experiments.runs import Outcome, Run, Seed
from mdvpf.filter import ParticleFilter
from mdvpf.parallel import spawn
from mdvpf.plots import Line, Panel
from mdvpf.predictor import Predictor
from mdvpf.streams.methods import ALGORITHMS, BASE

CHOOSING = (1, 6, 14, 24, 33, 42)
REPORTING = (3, 9, 19, 28, 39, 45)
PROBLEMS = tuple(sorted((*CHOOSING, *REPORTING)))
POINTS = (1_000, 3_000, 10_000)  # training strings after which the test strings are scored
CHAIN_BETA = 0.3  # best for order 3 on the choosing problems; for orders 1 and 2 it hardly matters
LEAST_GAP = 1e-6  # lower bound in geometric means, as the solution files are rounded
HEAVIEST = ", heaviest particle"
SEGMENT = 2_000  # symbols of a turn
TURNS = 6
GROUP = "problems"
METHODS = (
    *ALGORITHMS,
    "Markov 1",
    "Markov 2",
    "Markov 3",
    "ContextTree 4",
    "PitmanYorTree 5",
    "PitmanYorMixture",
    "SoftHMM",
    "evidence",
)
DRAWN = (
    "Markov 3",
    "ContextTree 4",
    "PitmanYorMixture",
    "SoftHMM",
    "evidence",
)  # in figures, besides the filters

Views = dict[str, list[PAutomaCScore]]  # by label: the score at each point of the learning curve


# --- Learning and scoring


@dataclass(frozen=True, slots=True)
class Learn(Run):
    """A run that learns strings, and scores test strings with a frozen copy at several points.

    The outcome has the log probabilities of all test strings, for each point of the learning curve
    in turn. At each point a filter has two sets: of all its particles, then of the heaviest.

    Attributes
    ----------
    test : Data
        The test strings.
    points : tuple of int
        Numbers of training strings after which to score; the last is the number of all strings.
    """

    test: Data = field(kw_only=True)
    points: tuple[int, ...] = field(kw_only=True)

    def configuration(self) -> dict[str, object]:
        """Return everything that the result depends on, in types that JSON has."""
        # The zero-argument super() does not work in dataclasses with slots.
        own = {"test_sha256": self.test.digest, "points": list(self.points)}
        return Run.configuration(self) | own

    def carry_out(self) -> Outcome:
        """Learn, and score at every point."""
        assert self.data.lengths is not None
        predictor = self.predictor()
        ends = np.cumsum(self.data.lengths)
        scores, n_states = [], []
        seconds, first, begin = 0.0, 0, 0
        for point in self.points:
            stop = int(ends[point - 1])
            start = time.process_time()
            result = predictor.run(self.data.symbols[begin:stop], self.data.lengths[first:point])
            seconds += time.process_time() - start
            first, begin = point, stop
            predictor.new_sequence()  # MD-VPA and SoftHMM learn their pending symbols
            scores += [self._score(frozen) for frozen in _frozen(predictor)]
            has_states = isinstance(predictor, ParticleFilter)
            n_states.append(float(result.mean_states[-1]) if has_states else math.nan)
        return Outcome(
            log_predictive=np.concatenate(scores),
            n_states=np.array(n_states),
            seconds=seconds,
            peak_bytes=_memory(predictor) if self.measure_memory else math.nan,
        )

    def _score(self, frozen: Predictor) -> NDArray[np.float64]:
        """Return the log probability of each test string."""
        assert self.test.lengths is not None
        log_predictive = frozen.run(self.test.symbols, self.test.lengths).log_predictive
        starts = np.cumsum(self.test.lengths) - self.test.lengths
        return np.add.reduceat(log_predictive, starts)


def _memory(predictor: Predictor) -> float:
    """Return the memory of a predictor in bytes; NaN if it does not report it."""
    report = getattr(predictor, "memory", None)
    return math.nan if report is None else float(report().allocated)


def _frozen(predictor: Predictor) -> Iterator[Predictor]:
    yield predictor.freeze()
    if isinstance(predictor, ParticleFilter):
        yield predictor.freeze(n_particles=1)


def points(n: int) -> tuple[int, ...]:
    """Return the numbers of training strings after which to score, if there are n.

    Examples
    --------
    >>> from mdvpf.experiments.pautomac import points
    >>> points(20_000), points(2_000)
    ((1000, 3000, 10000, 20000), (1000, 2000))
    """
    return (*(point for point in POINTS if point < n), n)


def join(name: str, strings: Sequence[NDArray[np.int64]], n_symbols: int) -> Data:
    """Return strings as one stream, each as a sequence."""
    lengths = np.array([len(string) for string in strings], dtype=np.int64)
    return Data(name, np.concatenate(strings), n_symbols, lengths)


def drift_stream(
    problems: Sequence[PAutomaC], segment: int, i: int, seed: np.random.SeedSequence
) -> Data:
    """Return a stream of automata that take turns of `segment` symbols.

    Each string is a sequence. The last string of a turn is cut off at its end.
    """
    numbers = [problem.number for problem in problems]
    hmms = [problem.automaton.to_hmm() for problem in problems]
    sources = [hmms[turn % len(hmms)] for turn in range(TURNS)]
    made = sample_hmms(sources, [segment] * TURNS, np.random.default_rng(seed))
    end = problems[0].end
    stops = np.flatnonzero(made.symbols == end) + 1
    stops = np.union1d(stops, np.arange(1, TURNS + 1) * segment)
    lengths = np.diff(stops, prepend=0)
    name = f"problems {' and '.join(map(str, numbers))}, stream {i}"
    change_points = tuple(made.change_points.tolist())
    return Data(name, made.symbols, end + 1, lengths, change_points, made.hmms)


def same_alphabet(problems: Iterable[PAutomaC]) -> list[list[PAutomaC]]:
    """Return the groups of two or more problems with the same alphabet."""
    by_size: dict[int, list[PAutomaC]] = {}
    for problem in problems:
        by_size.setdefault(problem.n_symbols, []).append(problem)
    return [found for found in by_size.values() if len(found) > 1]


def _drift_group(problems: Sequence[PAutomaC]) -> str:
    return "drift " + " ".join(str(problem.number) for problem in problems)


def _load() -> list[PAutomaC]:
    return [datasets.pautomac(number) for number in PROBLEMS]


def _entries(options: Options, generator: bool = False) -> list[Entry]:
    """Return the methods; Markov chains have a fixed beta instead of a grid."""
    found = {}
    for entry in options.entries(generator):
        method = entry.method
        if isinstance(method, Chain):
            method = replace(method, beta=CHAIN_BETA)
        found[entry.label] = Entry(entry.label, method)
    return list(found.values())


def plan(options: Options) -> list[Run]:
    """Return the runs of the experiment on PAutomaC."""
    problems = _load()
    problem_seeds, drift_seeds, filter_seeds = spawn(
        options.seed, len(problems), options.seeds, options.seeds
    )
    runs: list[Run] = []
    for problem, seed in zip(problems, problem_seeds, strict=True):
        name = f"problem {problem.number}"
        strings = problem.train[: options.length]
        train = join(name, strings, problem.n_symbols)
        test = join(f"{name}, test", problem.test, problem.n_symbols)
        for entry in _entries(options):
            runs.append(
                Learn(
                    GROUP,
                    entry,
                    train,
                    Seed.of(seed),
                    measure_memory=problem.number == PROBLEMS[0],
                    test=test,
                    points=points(len(strings)),
                )
            )
    for i in range(options.seeds):
        groups = same_alphabet(problems)
        for group, child in zip(groups, drift_seeds[i].spawn(len(groups)), strict=True):
            data = drift_stream(group, min(SEGMENT, options.length), i, child)
            for entry in _entries(options, generator=True):
                runs.append(Run(_drift_group(group), entry, data, Seed.of(filter_seeds[i])))
    # The longest runs first; tables list the methods in this order, so filters come first.
    return sorted(runs, key=_work, reverse=True)


def _work(run: Run) -> int:
    method = run.entry.method
    return len(run.data) * (method.n_particles if isinstance(method, Filter) else 1)


# --- Tables and figures


def geometric_mean(gaps: Sequence[float]) -> float:
    """Return the geometric mean of gaps; smaller ones count as 1e-6.

    Examples
    --------
    >>> from mdvpf.experiments.pautomac import geometric_mean
    >>> round(geometric_mean([1.0, 100.0]), 9)
    10.0
    """
    if not gaps:
        return math.nan
    return math.exp(math.fsum(math.log(max(gap, LEAST_GAP)) for gap in gaps) / len(gaps))


def _views(group: Group, problem: PAutomaC) -> Views:
    """Return the scores on a problem, by label and at every point."""
    stream = f"problem {problem.number}"
    found: Views = {}
    for label in group.labels:
        outcome = group.outcomes[label].get(stream)
        if outcome is None:
            continue
        n_points = len(outcome.n_states)
        rows = outcome.log_predictive.reshape(n_points, -1, len(problem.test))
        names = [label, f"{label}{HEAVIEST}"][: rows.shape[1]]
        for j, name in enumerate(names):
            found[name] = [problem.score(row[j]) for row in rows]
    return found


def report(options: Options, groups: Groups) -> Report:
    """Return the tables and the figure."""
    problems = _load()
    group = groups[GROUP]
    scores = {problem.number: _views(group, problem) for problem in problems}
    order = [label for each in group.labels for label in (each, f"{each}{HEAVIEST}")]
    labels = [label for label in order if any(label in views for views in scores.values())]
    n_strings = int(np.median([len(problem.train[: options.length]) for problem in problems]))
    limited = any(len(problem.train) > options.length for problem in problems)
    size = (
        f"{'at most ' + format(options.length, ',') if limited else 'all'} training strings, "
        f"K = {options.particles}, alpha = {options.alpha:g}, gamma = {options.gamma:g}, "
        f"beta = {options.beta:g}"
    )
    tables = [
        _main_table(options, group, scores, labels, size, limited),
        _problem_table(problems, scores, labels, size),
        _curve_table(scores, labels, size),
    ]
    drawn = shown_labels(group, *DRAWN)
    panels = [_curve_panel(scores, drawn, n_strings)]
    for i, found in enumerate(same_alphabet(problems)):
        drift = groups[_drift_group(found)]
        tables.append(_drift_table(drift, found, i, options))
        panels.append(_drift_panel(drift, found))
    return Report(tables, [Drawing("pautomac", f"PAutomaC: {size}", panels)])


def _gaps(scores: dict[int, Views], label: str, numbers: Iterable[int], point: int) -> list[float]:
    """Return the gaps of a method on some problems; an empty list if one of them is missing."""
    found = [scores[number].get(label) for number in numbers]
    return [] if None in found else [each[point].gap for each in found if each is not None]


def _main_table(
    options: Options,
    group: Group,
    scores: dict[int, Views],
    labels: Sequence[str],
    size: str,
    limited: bool,
) -> Table:
    columns = (
        Column("method"),
        *(Column(f"gap, {part}", ".3g") for part in ("choosing", "reporting", "all")),
        Column("bits a string", ".4f"),
        Column("states", ".1f"),
        Column("learning (µs a symbol)", ".3g", volatile=True),
        Column("memory (MB)", ".3g", volatile=True),
    )
    rows: list[tuple[Cell, ...]] = []
    for label in labels:
        bits = [views[label][-1].bits for views in scores.values() if label in views]
        row: list[Cell] = [label]
        for numbers in (CHOOSING, REPORTING, PROBLEMS):
            row.append(geometric_mean(_gaps(scores, label, numbers, -1)))
        row.append(float(np.mean(bits)) if len(bits) == len(PROBLEMS) else None)
        outcomes = group.outcomes.get(label)
        if outcomes is None:  # the heaviest particle alone: the line above has the costs
            row += [None, None, None]
        else:
            n_symbols = sum(len(group.streams[stream]) for stream in outcomes)
            seconds = sum(outcome.seconds for outcome in outcomes.values())
            states = float(np.mean([outcome.n_states[-1] for outcome in outcomes.values()]))
            row += [states, 1e6 * seconds / n_symbols, group.costs(label)[1]]
        rows.append(tuple(row))
    limit = (
        f"From each problem at most the first {options.length:,} training strings were learnt. "
        if limited
        else "All training strings were learnt. "
    )
    notes = (
        "Gap: perplexity of the test strings above that of the automaton, geometric mean over "
        f"problems. Choosing: {_listed(CHOOSING)}; reporting: {_listed(REPORTING)}. Bits: mean "
        "over all problems of the divergence from the truth. One pass, then frozen. "
        f"{limit}Memory is that of the model of problem {PROBLEMS[0]}.",
    )
    return Table("table", f"PAutomaC: {size}", columns, tuple(rows), notes)


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def _problem_table(
    problems: Sequence[PAutomaC], scores: dict[int, Views], labels: Sequence[str], size: str
) -> Table:
    columns = (Column("method"), *(Column(str(p.number), ".3g") for p in problems))
    rows: list[tuple[Cell, ...]] = [("perplexity of the automaton", *(p.floor for p in problems))]
    for label in labels:
        each = [scores[problem.number].get(label) for problem in problems]
        rows.append((label, *(None if found is None else found[-1].gap for found in each)))
    return Table("gaps", f"Gap by problem: {size}", columns, tuple(rows))


def _curve_table(scores: dict[int, Views], labels: Sequence[str], size: str) -> Table:
    n_points = _n_points(scores)
    names = [f"{point:,} strings" for point in POINTS[: n_points - 1]]
    columns = (Column("method"), *(Column(name, ".3g") for name in (*names, "all strings learnt")))
    rows: list[tuple[Cell, ...]] = []
    for label in labels:
        gaps = [_gaps(scores, label, PROBLEMS, point) for point in _indices(n_points)]
        rows.append((label, *(geometric_mean(each) for each in gaps)))
    title = f"Learning curve, geometric mean of the gap over all problems: {size}"
    return Table("curve", title, columns, tuple(rows))


def _n_points(scores: dict[int, Views]) -> int:
    """Return the number of points that all learning curves have."""
    return min(len(found) for views in scores.values() for found in views.values())


def _indices(n_points: int) -> list[int]:
    return [*range(n_points - 1), -1]


def _curve_panel(scores: dict[int, Views], labels: Sequence[str], n_strings: int) -> Panel:
    n_points = _n_points(scores)
    x = np.array([*POINTS[: n_points - 1], n_strings], dtype=np.float64)
    lines = []
    for label in labels:
        gaps = [_gaps(scores, label, PROBLEMS, point) for point in _indices(n_points)]
        if all(gaps):
            lines.append(Line(label, x, np.array([geometric_mean(each) for each in gaps])))
    return Panel(
        "gap of the model frozen after N strings",
        "training strings N (the last point: all; the median over problems)",
        "gap (geometric mean over problems)",
        lines,
        log_x=True,
        log_y=True,
    )


def _drift_table(drift: Group, found: Sequence[PAutomaC], i: int, options: Options) -> Table:
    stream = next(iter(drift.streams.values()))
    return comparison(
        drift,
        f"Problems {_listed(p.number for p in found)} take turns: log predictive, nats a symbol, "
        f"{counted(len(drift.streams), 'stream')} of {len(stream):,} symbols, "
        f"K = {options.particles}",
        name=f"drift-{i + 1}",
        extras=[final_regret(drift), redundancy(drift), final_states(drift)],
        notes=(
            f"{TURNS} turns of {len(stream) // TURNS:,} symbols drawn from the automata. Nothing "
            "is frozen. The regret is against the forward filter of the current automaton. "
            f"Differences to {BASE}: mean ± standard error over streams.",
        ),
    )


def _drift_panel(drift: Group, found: Sequence[PAutomaC]) -> Panel:
    stream = next(iter(drift.streams.values()))
    stride = max(1, len(stream) // 300)
    lines = []
    for label in shown_labels(drift, *DRAWN):
        losses = np.array(list(drift.losses(label, GENERATOR).values()))
        if len(losses):
            regret = np.cumsum(losses, axis=1)[:, stride - 1 :: stride]
            time_axis = np.arange(stride, len(stream) + 1, stride, dtype=np.float64)
            band = None
            if len(regret) > 1:
                band = regret.std(axis=0, ddof=1) / math.sqrt(len(regret))
            lines.append(Line(label, time_axis, regret.mean(axis=0), band))
    return Panel(
        f"problems {_listed(p.number for p in found)} take turns{band_note(len(drift.streams))}",
        "time (symbols)",
        "cumulative regret (nats)",
        lines,
        [point + 0.5 for point in stream.change_points],
    )


PAUTOMAC = Experiment(
    "pautomac",
    "known automata of PAutomaC: learnt in one pass, then frozen; and taking turns",
    Options(
        particles=100,
        seeds=3,
        length=100_000,
        gamma=10.0,
        beta=0.1,
        methods=METHODS,
    ),
    plan,
    report,
)
