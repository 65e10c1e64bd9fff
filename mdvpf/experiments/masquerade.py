"""The masquerade experiment: shell commands of 50 users, with inserted blocks of other users.

Each predictor learns the first 5,000 commands of a user and then scores blocks of 100. It either
stays fixed or continues to learn from the blocks without alarm. Every method runs with and without
a background. Without one, a block is judged by its surprise. With one, it is judged by its
likelihood ratio against the same method trained on other users. The standard comparator is naive
Bayes on the counts of a block (Maxion and Townsend 2002). It always uses the commands of the other
users.

Users are in groups of ten. The background of a group is trained on the first commands of the users
outside the group, so it excludes the user who is judged. `block_detector` and naive Bayes are cheap
enough for a background that leaves out this user only. The strange blocks come from users beyond
the fifty, so no background contains them.

A run stores only its log predictives or log ratios; `report` computes alarms from these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdvpf import datasets
from mdvpf._support.tables import Cell, Column, Estimate, Table
from mdvpf.detect import Background, SurpriseDetector, block_detector
from mdvpf.detect.roc import Curve, area
from mdvpf.detect.threshold import Threshold
from mdvpf.experiments.data import Data
from mdvpf.experiments.experiment import Drawing, Experiment, Groups, Report
from mdvpf.experiments.figures import shown_labels
from mdvpf.experiments.methods import (
    Auto,
    BudgetedAuto,
    Chain,
    Counts,
    Entry,
    Method,
    Tree,
)
from mdvpf.experiments.options import Options
from mdvpf.experiments.results import Group
from mdvpf.experiments.runs import Run, Seed
from mdvpf.filter import ParticleFilter
from mdvpf.parallel import spawn
from mdvpf.plots import Line, Panel
from mdvpf.predictor import Predictor
from mdvpf.streams.methods import AUTO, BASE

BLOCK = 100  # commands
RATES = (0.01, 0.05, 0.1)
WANTED = 0.05  # target share of false alarms of the detectors
GAIN = 0.1
MEMORY = 25  # blocks
LEAST_SHOWN = 0.001  # smallest share of false alarms in the figure
NAIVE_BAYES = "naive Bayes"
RECOMMENDED = "block_detector"
MODES = {"none": "fixed", "unflagged": "learning"}  # from `learn` to the name in the tables
WITH_BACKGROUND = ", background"
GROUP = 10  # users that share a background
FROZEN_PARTICLES = 10  # number of particles of a frozen filter that serves as background
BACKGROUND_SEED = 0  # one seed, as the users of a group share a background
AUTO_BUDGET = "fast"
CHOOSING = 25  # settings were chosen on this many users, the first ones

Levels = dict[str, NDArray[np.float64]]  # by method: levels, one row per user, one column per block


@dataclass(frozen=True, slots=True)
class Watch(Run):
    """A run of a detector: it learns the first symbols, then scores blocks.

    Attributes
    ----------
    learnt : int
        Number of symbols learnt before the first block is judged.
    learn : str
        Which of the later blocks are learnt: "none" or "unflagged".
    others : Data or None
        Training data of the background, one sequence for each user. None means no background.
    """

    learnt: int = 0
    learn: str = "none"
    others: Data | None = None

    def configuration(self) -> dict[str, object]:
        """Return everything that the result depends on, as JSON values."""
        # The zero-argument super() does not work in dataclasses with slots.
        found = Run.configuration(self) | {"learnt": self.learnt, "learn": self.learn}
        return found if self.others is None else found | {"others": self.others.digest}

    def pass_through(self, predictor: Predictor) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Run a detector over the stream; return log predictives, or minus log ratios."""
        method, background = self.entry.method, None
        if self.others is not None:
            background = _background(method, self.others)
        detector = SurpriseDetector(
            predictor,
            block=BLOCK,
            false_alarms=WANTED,
            gain=GAIN,
            memory=MEMORY,
            warm_up=self.learnt // BLOCK,
            background=background,
        )
        symbols = self.data.symbols
        first = detector.run(symbols[: self.learnt])
        if isinstance(method, Counts):
            own: dict[str, Any] = {"learn": "none"} if self.learn == "none" else {}
            detector = block_detector(
                symbols[: self.learnt], self.data.n_symbols, background=background, **own
            )
        elif self.learn == "unflagged" and background and isinstance(method, Chain | Tree):
            detector.learn = "own"
        else:
            detector.learn = self.learn
        then = detector.run(symbols[self.learnt :])
        name = "surprise" if background is None else "ratio"
        values = np.concatenate([getattr(first, name), getattr(then, name)])
        return -values, np.full(len(values), np.nan)


@lru_cache(maxsize=16)  # enough for all methods of one group of users
def _background(method: Method, others: Data) -> Background:
    """Return a frozen predictor of a method trained on other users."""
    predictor = method.predictor(others, np.random.SeedSequence(BACKGROUND_SEED))
    predictor.run(others.symbols, others.lengths)
    if isinstance(predictor, ParticleFilter):
        return Background(predictor.freeze(FROZEN_PARTICLES))
    return Background(predictor)


def users(options: Options) -> tuple[NDArray[np.int64], NDArray[np.bool_], int]:
    """Return the commands of all users from the first one learnt on, labels, and alphabet size."""
    data = datasets.masquerade()
    own = data.symbols.shape[1] - BLOCK * data.labels.shape[1]
    if options.length > own or options.length % BLOCK or options.length < 2 * BLOCK:
        raise ValueError(
            f"length={options.length}: expected a multiple of {BLOCK} in {2 * BLOCK}..{own}"
        )
    if options.seeds > len(data.symbols):
        raise ValueError(f"seeds={options.seeds}: expected at most the {len(data.symbols)} users")
    if not data.labels[: options.seeds].any():
        raise ValueError(
            f"seeds={options.seeds}: no strange blocks among the first users; expected more users"
        )
    return data.symbols[:, own - options.length :], data.labels, data.n_symbols


def _entries(options: Options) -> list[Entry]:
    """Return the methods; Markov chains have the beta of the filters instead of a grid.

    The default mixture has the smallest budget, because it reads some three million commands.
    """
    found = {}
    for entry in options.entries():
        method = entry.method
        if isinstance(method, Chain):
            method = replace(method, beta=options.beta)
        if isinstance(method, Auto):
            method = BudgetedAuto(AUTO_BUDGET)
        found[entry.label] = Entry(entry.label, method)
    return list(found.values())


def plan(options: Options) -> list[Run]:
    """Return the runs of the experiment on the masquerade data."""
    symbols, _, n_symbols = users(options)
    (seeds,) = spawn(options.seed, options.seeds)
    runs: list[Run] = []
    counts, shared = Entry(RECOMMENDED, Counts()), None
    for i, seed in enumerate(seeds):
        data = Data(f"user {i + 1}", symbols[i], n_symbols)
        alone = _others(symbols, [i], n_symbols, options.length)
        group = np.flatnonzero(np.arange(len(symbols)) // GROUP == i // GROUP)
        if len(group) == len(symbols):
            shared = alone
        elif i % GROUP == 0:
            shared = _others(symbols, group, n_symbols, options.length)
        for (learn, name), is_ratio in product(MODES.items(), (False, True)):
            settings: dict[str, Any] = {"learnt": options.length, "learn": learn}
            mode = name + WITH_BACKGROUND if is_ratio else name
            for entry in [*_entries(options), counts]:
                others = alone if entry is counts else shared
                others = others if is_ratio else None
                runs.append(
                    Watch(mode, entry, data, Seed.of(seed), BLOCK, **settings, others=others)
                )
    return runs


def _others(
    symbols: NDArray[np.int64], left_out: Sequence[int] | NDArray[Any], n_symbols: int, length: int
) -> Data:
    """Return the first commands of all users except some, one sequence each."""
    kept = np.delete(symbols, left_out, axis=0)[:, :length]
    return Data("others", kept.ravel(), n_symbols, np.full(len(kept), length))


def threshold(warm_up: int) -> Threshold:
    """Return a threshold with the settings of the detectors."""
    return Threshold(WANTED, GAIN, MEMORY, warm_up)


def naive_bayes(
    symbols: NDArray[np.int64], n_users: int, n_symbols: int, options: Options, learn: str
) -> NDArray[np.float64]:
    """Return the levels of naive Bayes: the log likelihood ratio of other users and the user.

    The counts of the others use the first `options.length` commands of each. The counts of the user
    use the commands before the block.
    """
    warm_up = options.length // BLOCK
    counts = np.array(
        [np.bincount(row, minlength=n_symbols) for row in symbols[:, : options.length]]
    )
    levels = np.empty((n_users, symbols.shape[1] // BLOCK))
    for i in range(n_users):
        others = np.log(_shares(counts.sum(axis=0) - counts[i], options.beta))
        own = np.zeros(n_symbols)
        judge = threshold(warm_up)
        for k, block in enumerate(symbols[i].reshape(-1, BLOCK)):
            levels[i, k] = (others - np.log(_shares(own, options.beta)))[block].mean()
            alarm = judge.judge(levels[i, k])
            if k < warm_up or (learn == "unflagged" and not alarm):
                own += np.bincount(block, minlength=n_symbols)
    return levels


def _shares(counts: NDArray[np.float64], beta: float) -> NDArray[np.float64]:
    shares: NDArray[np.float64] = (counts + beta) / (counts.sum() + len(counts) * beta)
    return shares


def judged(
    levels: NDArray[np.float64], warm_up: int, feedback: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the scores and the alarms of the detectors for each block after the warm-up.

    With labels in `feedback`, the detector gets feedback on each of its alarms.
    """
    scores, alarms = np.zeros(levels.shape), np.zeros(levels.shape, dtype=bool)
    for i, row in enumerate(levels):
        judge = threshold(warm_up)
        for k, level in enumerate(row.tolist()):
            scores[i, k] = judge.score(level)
            alarms[i, k] = judge.judge(level)
            if feedback is not None and alarms[i, k]:
                judge.correct(alarm=True, strange=bool(feedback[i, k - warm_up]))
    return scores[:, warm_up:], alarms[:, warm_up:]


def report(options: Options, groups: Groups) -> Report:
    """Return the tables and the figure."""
    symbols, labels, n_symbols = users(options)
    warm_up = options.length // BLOCK
    modes: dict[str, Levels] = {}
    for background, (learn, name) in product(("", WITH_BACKGROUND), MODES.items()):
        levels = _levels(groups[name + background])
        n = min(len(rows) for rows in levels.values())
        levels[NAIVE_BAYES] = naive_bayes(symbols, n, n_symbols, options, learn)
        modes[name + background] = levels
    labels = labels[:n]
    size = (
        f"{n} users, {labels.sum()} strange blocks of {labels.size:,}, K = {options.particles}, "
        f"beta = {options.beta:g}"
    )
    if AUTO in options.methods:
        size += f", {AUTO} with the budget {AUTO_BUDGET!r}"
    alike = {
        mode: {label: rows[:, warm_up:] for label, rows in levels.items()}
        for mode, levels in modes.items()
    }
    verdicts = {
        mode: {label: judged(rows, warm_up) for label, rows in levels.items()}
        for mode, levels in modes.items()
    }
    scores = {
        mode: {label: scores for label, (scores, _) in each.items()}
        for mode, each in verdicts.items()
    }
    alarms = {
        mode: {label: flags for label, (_, flags) in each.items()}
        for mode, each in verdicts.items()
    }
    for name in ("fixed", "fixed" + WITH_BACKGROUND):
        alarms[f"{name} and told"] = {
            label: judged(rows, warm_up, labels)[1] for label, rows in modes[name].items()
        }
    tables = []
    for background, name, own in (("", "table", "own"), (WITH_BACKGROUND, "background", "")):
        mine = [mode + background for mode in MODES.values()]
        title = f"One threshold for all users{background}: {size}"
        shown = {mode: alike[mode] for mode in mine}
        cost = _costs(groups, mine)
        tables.append(_table(name, title, shown, labels, _notes(options, background), cost))
        if own:
            title = f"A scale for each user, the score of the detector: {size}"
            tables.append(_table(own, title, {mode: scores[mode] for mode in mine}, labels))
        name = f"alarms{'_' * bool(background)}{background.strip(', ')}"
        shown_alarms = {
            mode: each
            for mode, each in alarms.items()
            if bool(background) == (WITH_BACKGROUND in mode)
        }
        tables.append(_alarm_table(name, shown_alarms, labels, size))
    if n > CHOOSING:
        tables.append(_halves(alike, labels))
    drawn = [*shown_labels(groups["fixed"], "Markov 0", "ContextTree 2", AUTO)]
    drawn += [RECOMMENDED, NAIVE_BAYES]
    panels = [
        _panel(mode, {label: levels[label] for label in drawn}, labels)
        for mode, levels in alike.items()
    ]
    drawing = Drawing("masquerade", f"Masquerades, one threshold for all: {size}", panels, 2)
    return Report(tables, [drawing])


def _notes(options: Options, background: str) -> tuple[str, ...]:
    common = (
        f"Fixed: the predictor stays as it was after the first {options.length:,} commands. Hits "
        "are shares of the strange blocks, at the given share of false alarms among the others. "
        "Differences of areas: ± their jackknife standard error over users."
    )
    if not background:
        return (
            f"{common} Learning: the predictor learns the blocks without alarm. {RECOMMENDED} "
            "without a background stays fixed.",
        )
    return (
        f"{common} Levels are log likelihood ratios against the same method, trained on the first "
        f"{options.length:,} commands of the users outside the user's group of {GROUP}, frozen "
        f"(of a filter the {FROZEN_PARTICLES} heaviest particles). {RECOMMENDED} and {NAIVE_BAYES} "
        f"leave out the user only. Learning: chains, trees and {RECOMMENDED} learn the blocks that "
        f"they explain better than the background. Filters and {AUTO} learn those without alarm.",
    )


def _costs(groups: Groups, modes: list[str]) -> Callable[[str], float]:
    return lambda label: float(np.mean([groups[mode].costs(label)[0] for mode in modes]))


def _halves(alike: dict[str, Levels], labels: NDArray[np.bool_]) -> Table:
    """Return the areas on the users on whom settings were chosen, and on the other users."""
    columns = [Column("method")]
    rows: dict[str, list[Cell]] = {label: [label] for label in next(iter(alike.values()))}
    parts = {f"1..{CHOOSING}": slice(CHOOSING), f"{CHOOSING + 1}..": slice(CHOOSING, None)}
    for mode, levels in alike.items():
        for name, part in parts.items():
            columns.append(Column(f"{mode}: area, users {name}", ".3f"))
            for label, each in levels.items():
                rows[label].append(Curve.of(each[part], labels[part]).area)
    return Table(
        "halves",
        f"One threshold for all: users that settings were chosen on (1..{CHOOSING}), and others",
        tuple(columns),
        tuple(tuple(row) for row in rows.values()),
    )


def _levels(group: Group) -> Levels:
    return {label: -group.curves(label) / BLOCK for label in group.labels}


def _table(
    name: str,
    title: str,
    scores: dict[str, Levels],
    labels: NDArray[np.bool_],
    notes: tuple[str, ...] = (),
    costs: Callable[[str], float] | None = None,
) -> Table:
    columns = [Column("method")]
    for mode in scores:
        columns += [Column(f"{mode}: area", ".3f", show_error=False), Column(f"minus {BASE}")]
        columns += [Column(f"{mode}: hits at {rate:.0%}", ".1%") for rate in RATES]
    if costs is not None:
        columns.append(Column("processor time of a user (s)", ".3g", volatile=True))
    rows: list[tuple[Cell, ...]] = []
    for label in next(iter(scores.values())):
        row: list[Cell] = [label]
        for levels in scores.values():
            curve = Curve.of(levels[label], labels)
            base = None if label == BASE else area(levels[label], labels, minus=levels[BASE])
            row += [area(levels[label], labels), base, *(curve.hits_at(rate) for rate in RATES)]
        if costs is not None:
            row.append(None if label == NAIVE_BAYES else costs(label))
        rows.append(tuple(row))
    return Table(name, title, tuple(columns), tuple(rows), notes)


def _alarm_table(
    name: str, alarms: dict[str, dict[str, NDArray[np.bool_]]], labels: NDArray[np.bool_], size: str
) -> Table:
    columns = [Column("method")]
    for mode in alarms:
        columns += [Column(f"{mode}: false alarms", ".1%"), Column(f"{mode}: hits", ".1%")]
    rows: list[tuple[Cell, ...]] = []
    for label in next(iter(alarms.values())):
        row: list[Cell] = [label]
        for flags in alarms.values():
            usual = [float(f[~mine].mean()) for f, mine in zip(flags[label], labels, strict=True)]
            row += [Estimate.of(usual), float(flags[label][labels].mean())]
        rows.append(tuple(row))
    return Table(
        name,
        f"Alarms of the detector as they came, {WANTED:.0%} of false ones wanted: {size}",
        tuple(columns),
        tuple(rows),
        (
            "False alarms: mean over users ± standard error. Told: after each alarm the detector "
            "is told whether it was right. In the other columns it gets no feedback.",
        ),
    )


def _panel(name: str, levels: Levels, labels: NDArray[np.bool_]) -> Panel:
    lines = []
    for label, rows in levels.items():
        curve = Curve.of(rows, labels)
        shown = curve.false_alarms >= LEAST_SHOWN
        lines.append(Line(label, curve.false_alarms[shown], curve.hits[shown]))
    return Panel(
        name,
        "false alarms (share of the user's own blocks)",
        "hits (share of the others' blocks)",
        lines,
        log_x=True,
    )


MASQUERADE = Experiment(
    "masquerade",
    "shell commands of 50 users with blocks of other users among them",
    Options(
        particles=100,
        seeds=50,
        length=5000,
        beta=0.01,
        methods=(
            "VPA",
            "MD-VPA",
            "OptimalResampling",
            "Markov 0",
            "Markov 1",
            "ContextTree 1",
            "ContextTree 2",
            AUTO,
        ),
    ),
    plan,
    report,
)
