"""Geometric mixing: the engine against plain formulas, its promises, and the protocol."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

import mdvpf
from mdvpf.mixture._mixing import Mixer
from tests.kernel.sealing import reloaded

Floats = NDArray[np.float64]


def random_columns(
    n_columns: int, n: int, width: int, seed: int
) -> tuple[Floats, NDArray[np.int32]]:
    """Return distributions of members that mostly know the next symbol, and the symbols."""
    rng = np.random.default_rng(seed)
    symbols = rng.integers(width, size=n).astype(np.int32)
    columns = rng.dirichlet(np.full(width, 0.5), size=(n_columns, n)) + 1e-6
    columns[:, np.arange(n), symbols] += rng.random((n_columns, 1))
    return columns / columns.sum(axis=2, keepdims=True), symbols


def run_mixer(mixer: Mixer, columns: Floats, symbols: NDArray[np.int32]) -> tuple[Floats, Floats]:
    """Return the log predictives, and the weights of the heads before each symbol."""
    n_columns, n, width = columns.shape
    found, heads = np.empty(n), np.empty((n, len(mixer.export()["heads"])))
    widths = np.full(n, width)
    mixer.advance(symbols, columns, widths, True, found, np.empty((n, n_columns)), heads)
    return found, heads


def make_mixer(
    prior: list[float], shares: list[float], rates: list[float], ridges: list[float]
) -> Mixer:
    n = len(shares) + len(rates) + len(ridges)
    return Mixer(
        np.array(prior), np.array(shares), np.array(rates), np.array(ridges), np.full(n, 1 / n), -1
    )


class PlainMixer:
    """The rules of the docstring, in NumPy, with matrices inverted anew for every step."""

    def __init__(
        self, prior: list[float], shares: list[float], rates: list[float], ridges: list[float]
    ) -> None:
        n = len(prior)
        self.prior, self.shares, self.rates = np.array(prior), shares, rates
        self.linear = [self.prior.copy() for _ in shares]
        first = np.concatenate([[0.5], 0.5 * self.prior])
        self.powers = [first.copy() for _ in [*rates, *ridges]]
        self.matrices = [ridge * np.eye(n + 1) for ridge in ridges]
        n_heads = len(shares) + len(self.powers)
        self.heads = np.full(n_heads, 1 / n_heads)
        self.n = 0

    def distributions(self, columns: Floats) -> list[Floats]:
        found = [weights @ columns for weights in self.linear]
        self.factors = np.log(np.vstack([found[0], columns]))
        for powers in self.powers:
            scores = np.exp(powers @ self.factors)
            found.append(scores / scores.sum())
        return found

    def step(self, columns: Floats, symbol: int) -> float:
        found = self.distributions(columns)
        each = np.array([distribution[symbol] for distribution in found])
        mixed = self.heads @ each
        self.n += 1
        for i, share in enumerate(self.shares):
            a = 1 / (self.n + 1) if share < 0 else share
            posterior = self.linear[i] * columns[:, symbol]
            self.linear[i] = (1 - a) * posterior / posterior.sum() + a * self.prior
        for k, powers in enumerate(self.powers):
            distribution = found[len(self.shares) + k]
            gradient = self.factors[:, symbol] - self.factors @ distribution
            if k < len(self.rates):
                powers += self.rates[k] * gradient
            else:
                matrix = self.matrices[k - len(self.rates)]
                matrix += np.outer(gradient, gradient)
                powers += np.linalg.solve(matrix, gradient)
            np.clip(powers, -10, 10, out=powers)
        a = 1 / (self.n + 1)
        self.heads = (1 - a) * self.heads * each / mixed + a / len(self.heads)
        return float(np.log(mixed))


@pytest.mark.parametrize(
    ("shares", "rates", "ridges"),
    [
        ([0.01], [], []),
        ([-1.0, 0.1], [], []),
        ([0.01], [0.05], []),
        ([0.01], [], [3.0]),
        ([0.01, -1.0], [0.002, 0.1], [1.0, 100.0]),
    ],
)
def test_the_engine_follows_the_formulas(
    shares: list[float], rates: list[float], ridges: list[float]
) -> None:
    columns, symbols = random_columns(5, 150, 7, seed=1)
    prior = [0.4, 0.1, 0.2, 0.2, 0.1]
    plain = PlainMixer(prior, shares, rates, ridges)
    expected = [plain.step(columns[:, t], symbol) for t, symbol in enumerate(symbols)]
    mixer = make_mixer(prior, shares, rates, ridges)
    found, _ = run_mixer(mixer, columns, symbols)
    assert_allclose(found, expected, rtol=1e-9)
    exported = mixer.export()
    assert_allclose(exported["linear"], plain.linear, rtol=1e-9)
    assert_allclose(exported["powers"], np.reshape(plain.powers, exported["powers"].shape), 1e-8)
    assert_allclose(exported["heads"], plain.heads, rtol=1e-9)
    inverses = [np.linalg.inv(matrix) for matrix in plain.matrices]
    assert_allclose(exported["inverse"], np.reshape(inverses, exported["inverse"].shape), 1e-6)


def test_gradient_steps_follow_the_gradient_of_the_log_loss() -> None:
    """Finite differences, with nothing of the engine but its powers before and after."""
    columns, symbols = random_columns(3, 1, 5, seed=4)
    rate = 1e-3
    mixer = make_mixer([0.5, 0.25, 0.25], [0.01], [rate], [])
    before = mixer.export()["powers"][0]
    factors = np.log(np.vstack([[0.5, 0.25, 0.25] @ columns[:, 0], columns[:, 0]]))

    def log_probability(powers: Floats) -> float:
        scores = powers @ factors
        return float(scores[symbols[0]] - np.log(np.exp(scores).sum()))

    run_mixer(mixer, columns, symbols)
    moved = (mixer.export()["powers"][0] - before) / rate
    step = 1e-6
    for i, slope in enumerate(moved):
        up, down = before.copy(), before.copy()
        up[i] += step
        down[i] -= step
        assert slope == pytest.approx(
            (log_probability(up) - log_probability(down)) / (2 * step), abs=1e-7
        )


def test_gradient_steps_keep_the_bound_of_gradient_descent() -> None:
    """Against any fixed powers u: |u - v|^2 / (2 rate) + rate / 2 * sum of |g|^2."""
    columns, symbols = random_columns(3, 400, 4, seed=7)
    rate = 0.05
    plain = PlainMixer([1 / 3] * 3, [0.0], [rate], [])
    start = plain.powers[0].copy()
    losses, squares, factors = [], [], []
    for t, symbol in enumerate(symbols):
        distribution = plain.distributions(columns[:, t])[1]
        factors.append(plain.factors)
        gradient = plain.factors[:, symbol] - plain.factors @ distribution
        squares.append(gradient @ gradient)
        losses.append(-np.log(distribution[symbol]))
        plain.step(columns[:, t], int(symbol))
    mixer = Mixer(
        np.full(3, 1 / 3), np.zeros(1), np.array([rate]), np.empty(0), np.array([1e-9, 1.0]), 0.0
    )
    found, _ = run_mixer(mixer, columns, symbols)
    assert_allclose(-found, losses, rtol=1e-6)
    rng = np.random.default_rng(0)
    for _ in range(50):
        fixed = start + rng.normal(size=4)
        scores = np.array([fixed @ each for each in factors])
        best = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(400), symbols]
        bound = ((fixed - start) ** 2).sum() / (2 * rate) + rate / 2 * sum(squares)
        assert -found.sum() <= best.sum() + bound


class Liar(mdvpf.Predictor):
    """A member that says anything, changing its mind at some times."""

    def __init__(self, seed: int, n_symbols: int = 3) -> None:
        self.seed, self._n, self.time = seed, n_symbols, 0

    @property
    def n_symbols(self) -> int:
        return self._n

    def predict_proba(self) -> Floats:
        rng = np.random.default_rng([self.seed, self.time // 40])
        return rng.dirichlet(np.full(self._n, 0.05)) * 0.999 + 0.001 / self._n

    def update(self, symbol: int | None) -> mdvpf.Step:
        p = 1.0 if symbol is None else self.predict_proba()[symbol]
        self.time += 1
        return mdvpf.Step(float(np.log(p)), 1.0, 1.0, 1, 0.0)

    def new_sequence(self) -> None:
        pass

    def copy(self) -> Liar:
        other = Liar(self.seed, self._n)
        other.time = self.time
        return other


@pytest.mark.parametrize(
    "options", [{}, {"rates": (1.0,), "ridges": (1e-6,)}, {"shares": ("1/n",)}]
)
def test_the_regret_bound_holds_for_members_that_say_anything(options: dict[str, object]) -> None:
    for seed in range(2):
        symbols = np.random.default_rng(seed).integers(3, size=200)
        mixture = mdvpf.GeometricMixture(
            [Liar(i) for i in range(seed * 10, seed * 10 + 6)], **options
        )
        result = mixture.run(symbols)
        scores = result.member_log_predictive
        total = result.log_predictive.sum()
        assert np.isfinite(total)
        assert total >= scores.sum(axis=0).max() - mixture.regret_bound(200)
        parts = scores.reshape(5, 40, 6).sum(axis=1)  # the best of all sequences that switch so
        assert total >= parts.max(axis=1).sum() - mixture.regret_bound(200, n_switches=4)


def test_the_bound_is_a_logarithm() -> None:
    mixture = mdvpf.GeometricMixture([mdvpf.Markov(2), mdvpf.ContextTree(2)], shares=["1/n"])
    log_n, heads = np.log(10**6), np.log(2)
    assert mixture.regret_bound(10**6) == pytest.approx(heads + log_n + np.log(2) + log_n)
    assert mixture.regret_bound(1) == pytest.approx(heads + np.log(2))


def test_a_tree_with_settings_has_a_distribution_for_each() -> None:
    symbols = np.random.default_rng(3).integers(3, size=120).tolist()
    grid = mdvpf.PitmanYorMixture(3, depths=[0, 2], discounts=[0.5, 0.8], strengths=[0.3])
    trees = [
        mdvpf.PitmanYorTree(3, depth=each.depth, discount=each.discount) for each in grid.settings
    ]
    together = mdvpf.GeometricMixture([grid])
    apart = mdvpf.GeometricMixture(trees)
    assert_allclose(
        together.run(symbols).log_predictive, apart.run(symbols).log_predictive, rtol=1e-9
    )
    assert_allclose(together.powers, apart.powers, rtol=1e-8, atol=1e-12)


MEMBERS: dict[str, Callable[[], mdvpf.Predictor]] = {
    "tree": lambda: mdvpf.PitmanYorTree(4, depth=2),
    "grid": lambda: mdvpf.PitmanYorMixture(4, depths=[0, 1, 2]),
    "context tree": lambda: mdvpf.ContextTree(4),
    "chain": lambda: mdvpf.Markov(4, order=2, decay=0.9),
    "learner": lambda: mdvpf.SoftHMM(4, n_states=5, n_seeds=2, rng=0),
    "MD-VPA": lambda: mdvpf.ParticleFilter(mdvpf.InfiniteHMM(4), mdvpf.MDVPA(), 7),
    "SMC": lambda: mdvpf.ParticleFilter(mdvpf.InfiniteHMM(4), mdvpf.SMC(), 7, rng=0),
    "forgetting": lambda: mdvpf.ParticleFilter(
        mdvpf.InfiniteHMM(4, forget=2.0, machine="mealy", oracle="rows"), mdvpf.VPA(), 7
    ),
    "mixture": lambda: mdvpf.Mixture([mdvpf.Markov(4), mdvpf.ContextTree(4)]),
    "geometric": lambda: mdvpf.GeometricMixture([mdvpf.Markov(4), mdvpf.ContextTree(4)]),
    "recall": lambda: mdvpf.Recall(mdvpf.Markov(4), block=8),
}


@pytest.mark.parametrize("kind", MEMBERS)
def test_chunks_deliver_what_the_member_predicts(kind: str) -> None:
    """With keys, missing symbols and ends of sequences: symbol by symbol, to the last bit."""
    rng = np.random.default_rng(8)
    symbols = rng.integers(4, size=60).astype(np.int32)
    symbols[[5, 30]] = -1
    numbers = rng.integers(3, size=60).astype(np.int32)
    ended = np.full(60, -1, dtype=np.int32)
    ended[[20, 41]] = numbers[[20, 41]]
    stream = mdvpf.predictor.Stream(symbols, ended, numbers)
    member, twin = MEMBERS[kind](), MEMBERS[kind]()
    n = member._n_distributions
    found, reports = np.full((n, 60, 4), np.nan), np.empty((60, 6))
    member._absorb_distributions(stream, member._plan(stream), reports, found)
    for t in range(60):
        if ended[t] >= 0:
            twin._end(int(ended[t]))
        assert_array_equal(found[:, t], twin._predict_distributions(int(numbers[t])))
        assert twin._step(int(symbols[t]), int(numbers[t]))[0] == reports[t, 0]
    assert_array_equal(member._predict(1), twin._predict(1))


def python_calls(act: Callable[[], object]) -> int:
    """Return how many Python functions are called."""
    n = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal n
        n += event == "call"

    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(None)
    return n


@pytest.mark.parametrize("kind", sorted(set(MEMBERS) - {"mixture", "recall"}))
def test_a_chunk_takes_no_python_call_for_each_symbol(kind: str) -> None:
    symbols = np.random.default_rng(8).integers(4, size=120).astype(np.int32)
    counts = []
    for n in (60, 120):
        member = MEMBERS[kind]()
        stream = mdvpf.predictor.Stream(symbols[:n], np.full(n, -1, dtype=np.int32))
        found, reports = np.empty((member._n_distributions, n, 4)), np.empty((n, 6))
        plan = member._plan(stream)
        act = partial(member._absorb_distributions, stream, plan, reports, found)
        counts.append(python_calls(act))
    assert counts[0] == counts[1]


def mixture() -> mdvpf.GeometricMixture:
    return mdvpf.GeometricMixture([make() for make in MEMBERS.values()])


def test_it_keeps_all_promises_of_a_predictor() -> None:
    mdvpf.check_predictor(mixture())


def test_a_step_reports_the_states_of_the_filters_alone() -> None:
    members = [MEMBERS[kind]() for kind in ("tree", "MD-VPA", "SMC")]
    mixture = mdvpf.GeometricMixture(members)
    found = mixture.run(np.random.default_rng(3).integers(4, size=70)).mean_states
    assert found[-1] == pytest.approx(mixture.mean_states(), rel=1e-12)
    assert mixture.update(2).mean_states == pytest.approx(mixture.mean_states(), rel=1e-12)


def test_an_open_alphabet() -> None:
    members = [
        mdvpf.PitmanYorMixture(None, depths=[0, 1]),
        mdvpf.Markov(None),
        mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=mdvpf.OpenVocabulary()), n_particles=5),
    ]
    mixture = mdvpf.GeometricMixture(members)
    twin = mixture.copy()
    symbols = [0, 1, 0, 2, 2, 3, 0, 1, 4, 4, 2]
    found = mixture.run(symbols).log_predictive
    for symbol, expected in zip(symbols, found, strict=True):
        probabilities = twin.predict_proba()
        assert probabilities.sum() == pytest.approx(1.0, abs=1e-12)
        assert np.log(probabilities[symbol]) == pytest.approx(expected, abs=1e-12)
        twin.update(symbol)
    assert mixture.n_symbols == 5


def test_a_frozen_mixture_stays_as_it_is() -> None:
    symbols = np.random.default_rng(1).integers(4, size=90)
    learnt = mixture()
    learnt.run(symbols)
    frozen = learnt.freeze()
    powers, weights = frozen.powers, frozen.head_weights
    first = frozen.score(symbols[:30], lengths=[30])
    frozen.run(symbols)
    assert_array_equal(frozen.powers, powers)
    assert_array_equal(frozen.head_weights, weights)
    assert_allclose(frozen.score(symbols[:30], lengths=[30]), first, rtol=1e-12)
    assert frozen.frozen
    assert not learnt.frozen


def test_a_checkpoint_keeps_everything() -> None:
    symbols = np.random.default_rng(1).integers(4, size=80)
    original = mixture()
    original.run(symbols, keys=(symbols % 2).tolist())
    for each in (original, original.freeze()):
        loaded = reloaded(each)
        assert repr(loaded) == repr(each)
        assert loaded.frozen == each.frozen
        assert_array_equal(each.run(symbols).log_predictive, loaded.run(symbols).log_predictive)


def test_threads_change_no_bit() -> None:
    symbols = np.random.default_rng(1).integers(4, size=300)
    found = [
        mdvpf.GeometricMixture([make() for make in MEMBERS.values()], n_threads=n)
        .run(symbols)
        .log_predictive
        for n in (1, 3)
    ]
    assert_array_equal(found[0], found[1])


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"shares": []}, ValueError, "shares"),
        ({"shares": [2.0]}, ValueError, r"shares\[0\]=2.0"),
        ({"rates": [-1.0]}, ValueError, r"rates\[0\]=-1.0"),
        ({"ridges": [0.0]}, ValueError, r"ridges\[0\]=0.0"),
        ({"rates": 0.002}, TypeError, "rates=0.002: expected a sequence of numbers"),
        ({"ridges": None}, TypeError, "ridges=None: expected a sequence of numbers"),
        ({"n_threads": 0}, ValueError, "n_threads=0"),
    ],
)
def test_bad_arguments_are_refused(
    options: dict[str, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        mdvpf.GeometricMixture([mdvpf.Markov(2)], **options)


def test_limits_on_entries_hold() -> None:
    tree = mdvpf.PitmanYorMixture(50, depths=[0, 1, 3], max_nodes=400, max_entries=900)
    symbols = np.random.default_rng(2).integers(50, size=3000)
    for start in range(0, 3000, 100):
        tree.run(symbols[start : start + 100])
        tree._tree.verify()
        assert tree._tree.n_nodes <= 400
        assert tree._tree.n_entries <= 900
    with pytest.raises(ValueError, match="max_entries=5: expected None without max_nodes"):
        mdvpf.PitmanYorMixture(5, max_entries=5)
