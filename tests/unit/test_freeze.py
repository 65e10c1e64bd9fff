"""A frozen predictor follows the formula, starts at the filter's position, and never learns."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mdvpf
from mdvpf.datasets import HMM
from mdvpf.filter import FrozenFilter
from mdvpf.mixture.frozen import FrozenMixture
from tests.kernel.corrupting import accepted_forgeries
from tests.kernel.sealing import loaded, saved, sealed, unsealed

V = 3
ALGORITHMS = {
    "MD-VPA": mdvpf.MDVPA(),
    "VPA": mdvpf.VPA(),
    "SMC": mdvpf.SMC(),
    "ParticleLearning": mdvpf.ParticleLearning(),
    "OptimalResampling": mdvpf.OptimalResampling(),
}
SYMBOLS = [0, 1, 2, 0, 1, 2, None, 1, 2, 2, 2, 0, 1, 2, 0, 0, 1]
LENGTHS = [4, 6, 7]
TEST: list[int | None] = [0, 1, 2, None, 0, 2, 2, 1, 0, 1]
TEST_LENGTHS = [3, 5, 2]

Rows = list[list[float]]


def filled(
    algorithm: str = "MD-VPA",
    oracle: Any = "unvisited",
    max_states: int | None = None,
    **more: Any,
) -> mdvpf.ParticleFilter:
    model = mdvpf.InfiniteHMM(
        V, alpha=0.7, gamma=1.3, beta=0.2, oracle=oracle, max_states=max_states, **more
    )
    pf = mdvpf.ParticleFilter(model, ALGORITHMS[algorithm], n_particles=12, rng=3)
    pf.run(SYMBOLS, LENGTHS)
    return pf


def hmm_by_the_formula(model: mdvpf.InfiniteHMM, counts: mdvpf.Counts) -> tuple[Rows, Rows]:
    """Transition rows, that of S first, and emission rows: the design's formulas, term by term."""
    table = [counts.start.tolist(), *counts.transition.tolist()]
    n_states = len(table) - 1
    into = [sum(row[c] for row in table) for c in range(n_states)]
    rows = []
    for row in table:
        total = sum(row)
        probabilities = []
        for c in range(n_states):
            if model.oracle == "any":
                share = model.alpha * into[c] / (sum(into) + model.gamma)
                probabilities.append((row[c] + share) / (total + model.alpha))
            elif row[c] > 0:
                probabilities.append(row[c] / (total + model.alpha))
            else:
                unvisited = sum(into[d] for d in range(n_states) if row[d] == 0)
                asked = model.alpha / (total + model.alpha)
                probabilities.append(asked * into[c] / (unvisited + model.gamma))
        rows.append([p / sum(probabilities) for p in probabilities])
    emission = [
        [(e + model.beta) / (sum(row) + V * model.beta) for e in row]
        for row in counts.emission.tolist()
    ]
    return rows, emission


def probability(rows: Rows, emission: Rows, state: int, symbols: list[int | None]) -> float:
    """Probability of symbols after a state, -1 for S: the sum over all paths."""
    total = 0.0
    for path in itertools.product(range(len(emission)), repeat=len(symbols)):
        p, before = 1.0, state
        for now, symbol in zip(path, symbols, strict=True):
            p *= rows[before + 1][now] * (1.0 if symbol is None else emission[now][symbol])
            before = now
        total += p
    return total


def log_predictives(parts: list[tuple[float, Callable[[list[Any]], float]]], symbols: Any) -> Any:
    """Log predictives of a weighted mixture of models that give probabilities of strings."""
    mixed = [math.log(sum(w * p(symbols[:n]) for w, p in parts)) for n in range(len(symbols) + 1)]
    return np.diff(mixed)


@pytest.mark.parametrize("oracle", ["unvisited", "any"])
@pytest.mark.parametrize("max_states", [None, 2])
def test_a_particle_becomes_the_hmm_of_its_posterior_means(
    oracle: str, max_states: int | None
) -> None:
    pf = filled(oracle=oracle, max_states=max_states)
    for k in (None, *range(len(pf.weights))):
        hmm = pf.to_hmm(k)
        rows, emission = hmm_by_the_formula(pf.model, pf.counts(k))
        assert max_states is None or hmm.n_states <= max_states
        np.testing.assert_allclose(np.vstack([hmm.start, hmm.transition]), rows, rtol=1e-12)
        np.testing.assert_allclose(hmm.emission, emission, rtol=1e-12)


def test_with_all_states_in_use_an_hmm_predicts_as_its_particle_does() -> None:
    # At `max_states` the model offers no new state, so that nothing is dropped.
    model = mdvpf.InfiniteHMM(V, beta=0.05, max_states=2)
    pf = mdvpf.ParticleFilter(model, mdvpf.VPA(), n_particles=8)
    pf.run(SYMBOLS, LENGTHS)
    assert set(pf.n_states.tolist()) == {2}
    np.testing.assert_allclose(pf.freeze().predict_proba(), pf.predict_proba(), rtol=1e-12)


@pytest.mark.parametrize("n_particles", [None, 1, 4])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_frozen_filter_mixes_forward_filters_by_bayes(
    algorithm: str, n_particles: int | None
) -> None:
    pf = filled(algorithm)
    frozen = pf.freeze(n_particles)
    order = np.argsort(-pf.weights, kind="stable")[:n_particles]
    total = sum(pf.weights[k] for k in order)
    made = {k: hmm_by_the_formula(pf.model, pf.counts(k)) for k in order.tolist()}

    def parts(states: NDArray[np.int64]) -> list[tuple[float, Callable[[list[Any]], float]]]:
        return [
            (pf.weights[k] / total, lambda symbols, k=k: probability(*made[k], states[k], symbols))
            for k in order
        ]

    # It continues from the states of the particles, and a new sequence starts from S.
    here = log_predictives(parts(pf.states), TEST[:3])
    np.testing.assert_allclose(frozen.score(TEST[:3]), here, rtol=1e-10)
    begun = np.full(len(pf.states), -1)
    split = np.split(np.array(TEST, dtype=object), np.cumsum(TEST_LENGTHS)[:-1])
    expected = [log_predictives(parts(begun), each.tolist()) for each in split]
    found = frozen.score(TEST, TEST_LENGTHS)
    np.testing.assert_allclose(found, np.concatenate(expected), rtol=1e-10, atol=1e-12)


def test_mdvpa_is_frozen_as_it_shows_itself() -> None:
    pf = filled("MD-VPA")
    shown = [pf.counts(k).transition.sum() + pf.counts(k).start.sum() for k in range(3)]
    assert shown == [len(SYMBOLS)] * 3  # the pending symbol is among them
    weights = np.sort(pf.weights)[::-1]
    np.testing.assert_allclose(pf.freeze().weights, weights, rtol=1e-12)


MAKERS: dict[str, Callable[[], mdvpf.Predictor]] = {
    "filter": lambda: filled().freeze(),
    "fading filter": lambda: filled(oracle="rows", kappa=0.3, half_life=5.0).freeze(),
    "Mealy filter": lambda: filled(oracle="rows", machine="mealy", forget=1.0).freeze(),
    "empty Mealy filter": lambda: mdvpf.ParticleFilter(
        mdvpf.InfiniteHMM(V, machine="mealy")
    ).freeze(),
    "empty filter": lambda: mdvpf.ParticleFilter(mdvpf.InfiniteHMM(V)).freeze(),
    "mixture": lambda: mdvpf.Mixture([filled("VPA"), filled("SMC")], restart=3).freeze(),
    "mixture of machines": lambda: mdvpf.Mixture(
        [filled("VPA", machine="mealy"), filled("SMC", kappa=1.0)]
    ).freeze(),
    "nested mixture": lambda: mdvpf.Mixture(
        [mdvpf.Mixture([filled("VPA"), filled("MD-VPA")]), filled("SMC")]
    ).freeze(),
}
every_maker = pytest.mark.parametrize("maker", MAKERS)


@every_maker
def test_nothing_is_learnt(maker: str) -> None:
    frozen = MAKERS[maker]()
    before = frozen.score(TEST, TEST_LENGTHS)
    frozen.run([2] * 50)
    frozen.run([1, None, 2, 2], [1, 3])
    np.testing.assert_array_equal(frozen.score(TEST, TEST_LENGTHS), before)
    np.testing.assert_array_equal(MAKERS[maker]().score(TEST, TEST_LENGTHS), before)


@every_maker
def test_a_run_is_its_updates(maker: str) -> None:
    frozen = MAKERS[maker]()
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 12, size=30)
    symbols = [None if u < 0.1 else int(u * 100) % V for u in rng.random(lengths.sum())]
    begun, rest = symbols[:5], symbols
    twin = frozen.copy()
    results = [frozen.run(begun), frozen.run(rest, lengths)]
    starts = set((np.cumsum(lengths) - lengths).tolist())
    steps = [twin.update(symbol) for symbol in begun]
    for i, symbol in enumerate(rest):
        if i in starts:
            twin.new_sequence()
        np.testing.assert_allclose(twin.predict_proba().sum(), 1.0, rtol=1e-12)
        expected = 0.0 if symbol is None else math.log(twin.predict_proba()[symbol])
        steps.append(twin.update(symbol))
        assert steps[-1].log_predictive == pytest.approx(expected, abs=1e-12)
    for name in mdvpf.Step._fields:
        found = np.concatenate([getattr(result, name) for result in results])
        np.testing.assert_allclose(found, [getattr(s, name) for s in steps], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(frozen.predict_proba(), twin.predict_proba(), rtol=1e-10)


@every_maker
def test_copies_and_checkpoints_continue_alike(maker: str) -> None:
    frozen = MAKERS[maker]()
    frozen.vocabulary = mdvpf.Vocabulary("abc")
    frozen.run([0, None, 1])
    twins = [frozen.copy(), copy.copy(frozen), copy.deepcopy(frozen), loaded(saved(frozen))]
    twins.append(frozen.freeze())
    expected = frozen.run([1, 2, 0, 0], None).log_predictive
    for twin in twins:
        assert type(twin) is type(frozen)
        np.testing.assert_array_equal(twin.run([1, 2, 0, 0]).log_predictive, expected)
        assert twin.vocabulary == frozen.vocabulary


def test_freezing_leaves_the_filter_as_it_was() -> None:
    pf, twin = filled(), filled()
    pf.vocabulary = mdvpf.Vocabulary("abc")
    frozen = pf.freeze()
    frozen.run([2, 2, 2])
    assert frozen.vocabulary == pf.vocabulary
    np.testing.assert_array_equal(pf.run(TEST).log_predictive, twin.run(TEST).log_predictive)


def test_the_mixture_continues_by_bayes_without_share() -> None:
    mixture = mdvpf.Mixture([filled("VPA"), filled("SMC")], share=0.3)
    mixture.run([0, 1, 2, 2])
    frozen = mixture.freeze()
    members = [member.freeze() for member in mixture.members]
    np.testing.assert_allclose(frozen.weights, mixture.weights, rtol=1e-12)
    for symbols, is_new in ((TEST[:5], False), (TEST[5:], True)):
        if is_new:
            frozen.new_sequence()
        lengths = [len(symbols)] if is_new else None
        each = np.array([np.cumsum(m.score(symbols, lengths)) for m in members])
        joint = np.log(mixture.weights @ np.exp(each))
        expected = np.diff(joint, prepend=0.0)
        np.testing.assert_allclose(
            frozen.run(symbols).log_predictive, expected, rtol=1e-10, atol=1e-12
        )


def test_a_member_that_cannot_be_frozen_is_named() -> None:
    class Even(mdvpf.Markov):
        def freeze(self) -> mdvpf.Predictor:
            return mdvpf.Predictor.freeze(self)

    with pytest.raises(TypeError, match="Even cannot be frozen"):
        Even(2).freeze()
    with pytest.raises(TypeError, match="Even cannot be frozen"):
        mdvpf.Mixture([Even(2), Even(2)]).freeze()


def test_an_impossible_symbol_carries_no_information() -> None:
    zeros = HMM([1.0], [[1.0]], [[1.0, 0.0, 0.0]])
    ones = HMM([1.0], [[1.0]], [[0.0, 1.0, 0.0]])
    frozen = FrozenFilter([zeros, ones], [3.0, 1.0])
    found = frozen.run([2, 0, 1, 0]).log_predictive
    assert found.tolist() == [-math.inf, math.log(0.75), -math.inf, 0.0]
    assert frozen.weights.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: filled().to_hmm(99), ValueError, "k=99"),
        (lambda: filled().freeze(0), ValueError, "n_particles=0"),
        (lambda: filled().freeze(2.5), TypeError, "n_particles=2.5"),
        (lambda: FrozenFilter([], []), ValueError, "hmms: got none"),
        (lambda: FrozenFilter([filled().to_hmm()], [0.0]), ValueError, "weights"),
        (lambda: FrozenFilter([filled().to_hmm()], [1.0], [50]), ValueError, "states="),
        (lambda: FrozenFilter([1], [1.0]), TypeError, r"hmms\[0\]=1"),
        (lambda: filled().freeze().update(V), ValueError, f"symbol={V}"),
        (lambda: FrozenMixture([filled()], [1.0, 2.0]), ValueError, "weights="),
    ],
)
def test_bad_arguments_are_refused(
    call: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("start", lambda a: a * 2, "start"),
        ("transition", lambda a: a * -1, "transition"),
        ("emission", lambda a: a * np.nan, "emission"),
        ("emission", lambda a: a[:0], "no symbols"),
        ("sizes", lambda a: a * 0, "numbers of states"),
        ("sizes", lambda a: a * 0 + 1, "not a distribution"),
        ("state", lambda a: a + 1, "state"),
        ("log_weight", lambda a: a + 1, "weights"),
        ("present_log_weight", lambda a: a * np.nan, "weights"),
        ("log_weight", lambda a: a[:1], "log_weight of type"),
    ],
)
def test_impossible_contents_are_refused(
    name: str, change: Callable[[Any], Any], message: str
) -> None:
    opened = unsealed(saved(filled().freeze()))
    opened.arrays[name] = np.ascontiguousarray(change(opened.arrays[name]))
    with pytest.raises(mdvpf.CheckpointError, match=message):
        loaded(sealed(opened))


@every_maker
def test_corrupted_checkpoints_are_refused_or_work(maker: str, torture_scale: float) -> None:
    content = saved(MAKERS[maker]())
    for twin in accepted_forgeries(content, int(1000 * torture_scale)):
        twin.run([0, None, 0])
        twin.new_sequence()
        twin.update(0)
        np.testing.assert_allclose(twin.predict_proba().sum(), 1.0, rtol=0.0, atol=1e-5)
