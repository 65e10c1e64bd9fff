"""Effects of the literal readings of Algorithm 1, and settings with which SMC is ahead.

Three additional groups of runs on the streams of the switching HMM: Algorithm 1 with one literal
reading at a time, then with all of them; the loss of Theorem 1; and the first half of the stream
alone, with three or eight symbols, at several hyper-parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from mdvpf._support.tables import Cell, Column, Estimate, Table
from mdvpf.experiments.data import Data
from mdvpf.experiments.methods import Entry, Filter
from mdvpf.experiments.options import Options
from mdvpf.experiments.results import Extra, Group, comparison, difference, final_states
from mdvpf.experiments.runs import Run, Seed
from mdvpf.model import InfiniteHMM, Oracle, extensions
from mdvpf.model.algorithms import MDVPA, VPA
from mdvpf.predictor import Predictor
from mdvpf.reference import LiteralFilter, theorem_regret
from mdvpf.reference.literal import FreeEnergy, LiteralNormalizer
from mdvpf.regret import growth_exponent
from mdvpf.streams.methods import ALGORITHMS, BASE, MODEL_SETTINGS

READINGS = "literal"
THEOREM = "theorem"
FIRST_HALF = "first half"

INITIAL_STATES = 4  # M_0: number of states of the larger source
LEAKY = ", scores that have seen the symbol"


@dataclass(frozen=True, slots=True)
class Reading:
    """Algorithm 1 with some of its literal readings; the defaults are those of the package."""

    n_particles: int
    alpha: float
    gamma: float
    beta: float
    oracle: Oracle = "unvisited"
    discount: str | float = "1/n"
    normalizer: LiteralNormalizer = "geometric"
    carry_weights: bool = True
    initial_states: int = 0
    free_energy: FreeEnergy = "symbol"
    leaky: bool = False

    def predictor(self, data: Data, rng: np.random.SeedSequence) -> Predictor:
        """Return the corresponding filter of the package, which runs use for all but the scores."""
        return _filter(self).predictor(data, rng)


READ: dict[str, dict[str, object]] = {
    "MD-VPA": {},
    f"MD-VPA{LEAKY}": {"leaky": True},
    'normalizer "sum", as Algorithm 1 prints it': {"normalizer": "sum"},
    "normalizer divided by K": {"normalizer": "mean over K"},
    "weights dropped": {"carry_weights": False},
    f"{INITIAL_STATES} random initial states": {"initial_states": INITIAL_STATES},
    "free energy with the next symbol": {"free_energy": "lookahead"},
    "all of Algorithm 1": {
        "normalizer": "sum",
        "carry_weights": False,
        "initial_states": INITIAL_STATES,
    },
    f"all of Algorithm 1{LEAKY}": {
        "normalizer": "sum",
        "carry_weights": False,
        "initial_states": INITIAL_STATES,
        "leaky": True,
    },
}

ALPHAS, BETAS = (1.0, 10.0), (0.1, 0.3, 1.0, 3.0)
ALPHABETS = (3, 8)


def _filter(method: Reading) -> Filter:
    algorithm = MDVPA(discount=method.discount)
    hyper = method.alpha, method.gamma, method.beta
    return Filter(algorithm, method.n_particles, *hyper, oracle=method.oracle)


@dataclass(frozen=True, slots=True)
class LiteralRun(Run):
    """A run of a reading of Algorithm 1 in plain Python."""

    def pass_through(self, predictor: Predictor) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Run the reading on the stream; return its scores and numbers of states."""
        method = self.entry.method
        assert isinstance(method, Reading)
        result = LiteralFilter(
            InfiniteHMM(
                self.data.n_symbols, method.alpha, method.gamma, method.beta, method.oracle
            ),
            method.n_particles,
            discount=method.discount,
            normalizer=method.normalizer,
            carry_weights=method.carry_weights,
            initial_states=method.initial_states,
            free_energy=method.free_energy,
            rng=self.seed.sequence(),
        ).run(self.data.symbols.tolist())
        scores = result.log_leaked if method.leaky else result.log_predictive
        return scores, result.mean_states


@dataclass(frozen=True, slots=True)
class TheoremRun(Run):
    """A run that measures the regret of the particle weights, instead of log predictives."""

    def pass_through(self, predictor: Predictor) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the increments of the negative regret instead of log predictives."""
        method = self.entry.method
        assert isinstance(method, Filter) and isinstance(method.algorithm, (MDVPA, VPA))
        model = InfiniteHMM(
            self.data.n_symbols, method.alpha, method.gamma, method.beta, method.oracle
        )
        symbols = self.data.symbols.tolist()
        regret = theorem_regret(model, method.algorithm, method.n_particles, symbols)
        return -np.diff(regret, prepend=0.0, append=regret[-1]), np.full(len(symbols), np.nan)


def literal_runs(options: Options, streams: Sequence[Data], seeds: Sequence[Seed]) -> list[Run]:
    """Return the runs of all three groups."""
    if options.max_states is not None or options.selection != "top":
        raise ValueError("literal=True: expected neither max_states nor selection='optimal'")
    model = InfiniteHMM(1, **{name: getattr(options, name) for name in MODEL_SETTINGS})
    for name, value in extensions(model).items():
        raise ValueError(f"literal=True: expected the default of {name}, got {value!r}")
    hyper = options.particles, options.alpha, options.gamma, options.beta
    more = options.oracle, options.discount
    runs: list[Run] = []
    for data, seed in zip(streams, seeds, strict=True):
        for label, reading in READ.items():
            entry = Entry(label, Reading(*hyper, *more, **reading))  # type: ignore[arg-type]
            runs.append(LiteralRun(READINGS, entry, data, seed))
        for name in ("SMC", "VPA"):
            method = options.filter(options.algorithm(name), options.particles)
            runs.append(Run(READINGS, Entry(name, method), data, seed))
        for name in ("VPA", BASE):
            method = options.filter(options.algorithm(name), options.particles)
            runs.append(TheoremRun(THEOREM, Entry(name, method), data, seed))
        runs += _first_half_runs(options, data, seed)
    return runs


def _first_half_runs(options: Options, data: Data, seed: Seed) -> list[Run]:
    runs = []
    for n_symbols, alpha, beta in product(ALPHABETS, ALPHAS, BETAS):
        half = Data(data.name, data.symbols[: options.length], n_symbols)
        for name in ("SMC", "VPA", BASE):
            method = Filter(ALGORITHMS[name], options.particles, alpha, options.gamma, beta)
            entry = Entry(_setting(name, n_symbols, alpha, beta), method)
            runs.append(Run(FIRST_HALF, entry, half, seed))
    return runs


def _setting(name: str, n_symbols: int, alpha: float, beta: float) -> str:
    return f"{name}, V = {n_symbols}, alpha = {alpha:g}, beta = {beta:g}"


# --- Tables


def literal_tables(groups: dict[str, Group], length: int, size: str) -> list[Table]:
    """Return one table for each group."""
    parts = {"before": slice(0, length), "after": slice(length, None)}
    readings = comparison(
        groups[READINGS],
        f"Algorithm 1, one literal reading at a time, nats a symbol: {size}",
        name="literal",
        parts=parts,
        extras=[
            *(_versus(groups[READINGS], other, parts["after"]) for other in ("SMC", "VPA")),
            final_states(groups[READINGS]),
        ],
        notes=(
            f"Differences to {BASE} are taken stream by stream: mean ± standard error. Scores that "
            "have seen the symbol are not predictions: the particles that give them were selected "
            "with this symbol. Initial states: K particles, each in one of them at random, with "
            "random weights; states: those that were entered.",
        ),
    )
    return [readings, _theorem_table(groups[THEOREM], size), _first_half_table(groups[FIRST_HALF])]


def _versus(group: Group, other: str, part: slice) -> Extra:
    """Return the column of the difference to another method after the switch."""

    def compute(label: str) -> Estimate | None:
        if label == other:
            return None
        return difference(group.rates(label, part), group.rates(other, part))

    return Column(f"after, minus {other}"), compute


def _theorem_table(group: Group, size: str) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for label in group.labels:
        regrets = -np.cumsum(group.curves(label), axis=1)[:, :-1]
        half = regrets.shape[1] // 2
        exponents: tuple[Cell, ...] = (None, None, None)
        if len(regrets) > 1:
            points = np.geomspace(min(10, half), regrets.shape[1], 9).round().astype(np.int64)
            growth = growth_exponent(regrets, np.unique(points))
            exponents = (growth.exponent, growth.low, growth.high)
        halves = Estimate.of(regrets[:, half]), Estimate.of(regrets[:, -1])
        rows.append((label, *halves, *exponents))
    columns = (
        Column("method"),
        Column("regret at the switch (nats)", ".1f"),
        Column("regret at the end (nats)", ".1f"),
        Column("exponent", ".2f"),
        Column("low (95 %)", ".2f"),
        Column("high (95 %)", ".2f"),
    )
    return Table(
        "theorem",
        f"The regret of Theorem 1, over the particle weights: {size}",
        columns,
        tuple(rows),
        (
            "Loss of a step: the mean of -log f(x_n, y_{n+1}) under the weights that have not seen "
            "y_{n+1} (Eq. 8). Comparators: the paths of the particles alive at that length. "
            "Exponent: of the growth with the number of symbols, from 10 to the end.",
        ),
    )


def _first_half_table(group: Group) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for n_symbols, alpha, beta in product(ALPHABETS, ALPHAS, BETAS):
        rates = {
            name: group.rates(_setting(name, n_symbols, alpha, beta))
            for name in ("SMC", "VPA", BASE)
        }
        rows.append(
            (
                f"V = {n_symbols}, alpha = {alpha:g}, beta = {beta:g}",
                *(Estimate.of(list(rate.values())) for rate in rates.values()),
                difference(rates["SMC"], rates[BASE]),
                difference(rates["SMC"], rates["VPA"]),
            )
        )
    columns = (
        Column("setting"),
        *(Column(name, show_error=False) for name in ("SMC", "VPA", BASE)),
        Column(f"SMC minus {BASE}", "+.4f"),
        Column("SMC minus VPA", "+.4f"),
    )
    return Table(
        "first-half",
        "The first source alone, nats a symbol, by alphabet and hyper-parameters",
        columns,
        tuple(rows),
        ("V is the size of the filter's alphabet: only 3 symbols occur.",),
    )
