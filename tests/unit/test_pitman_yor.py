"""Pitman-Yor trees against the formula in plain Python, one setting at a time and as a grid."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdvpf
from mdvpf.datasets import HMM
from mdvpf.reference import ReferencePitmanYorTree
from tests.kernel.sealing import reloaded

V = 3
Symbols = Sequence[int | None]

sequences = st.lists(
    st.lists(st.none() | st.integers(0, V - 1), min_size=1, max_size=12), min_size=1, max_size=5
)
parameters = st.sampled_from([(0.8, 0.3), (0.0, 1.0), (0.5, 0.0), (0.99, 20.0), (0.3, 1e-6)])


def joined(parts: Sequence[Symbols]) -> tuple[list[int | None], list[int]]:
    return [y for part in parts for y in part], [len(part) for part in parts]


def some_parts(n: int, n_symbols: int, seed: int) -> list[list[int | None]]:
    """Sequences in which symbols return after two others, with some of them missing."""
    rng = np.random.default_rng(seed)
    parts: list[list[int | None]] = []
    while sum(map(len, parts)) < n:
        part: list[int | None] = []
        for _ in range(int(rng.integers(1, 60))):
            again = part[-3] if len(part) > 2 and rng.random() < 0.7 else None
            fresh = int(rng.integers(n_symbols)) if again is None else again
            part.append(None if rng.random() < 0.03 else fresh)
        parts.append(part)
    return parts


def by_the_formula(
    parts: Sequence[Symbols], n_symbols: int, depth: int, discount: float, strength: float
) -> tuple[list[float], list[float]]:
    """Log predictives of all symbols, and the distribution of the next one."""
    slow = ReferencePitmanYorTree(n_symbols, depth, discount, strength)
    found = []
    for part in parts:
        slow.context = ()
        found += [slow.update(y) for y in part]
    return found, [slow.probability(y, slow.context) for y in range(n_symbols)]


# -- the formula ---------------------------------------------------------------------------


@settings(max_examples=150)
@given(parts=sequences, depth=st.integers(0, 6), setting=parameters)
def test_the_tree_equals_the_formula(
    parts: list[Symbols], depth: int, setting: tuple[float, float]
) -> None:
    tree = mdvpf.PitmanYorTree(V, depth, *setting)
    result = tree.run(*joined(parts))
    expected, ahead = by_the_formula(parts, V, depth, *setting)
    np.testing.assert_allclose(result.log_predictive, expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(tree.predict_proba(), ahead, rtol=0, atol=1e-12)
    assert tree.predict_proba().sum() == pytest.approx(1, abs=1e-12)
    tree._tree.verify()


@pytest.mark.parametrize("depth", range(7))
@pytest.mark.parametrize("n_symbols", [1, 2, 40])
def test_the_tree_equals_the_formula_on_longer_streams(depth: int, n_symbols: int) -> None:
    parts = some_parts(1500, n_symbols, seed=depth)
    tree = mdvpf.PitmanYorTree(n_symbols, depth)
    result = tree.run(*joined(parts))
    expected, ahead = by_the_formula(parts, n_symbols, depth, 0.8, 0.3)
    np.testing.assert_allclose(result.log_predictive, expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(tree.predict_proba(), ahead, rtol=0, atol=1e-12)
    tree._tree.verify()


def test_three_symbols_by_hand() -> None:
    # 0: 1/2. Then the root has seen 0 once; the context (0) nothing: (0.5 + 1 * 0.5) / 1.5.
    # Then (0) has counted 0 once, and the root twice: root (1.5 + 1 / 2) / 2.5 = 0.8 for 0,
    # 0.2 for 1, and (0) makes of it (0 + 1 * 0.2) / 1.5.
    result = mdvpf.PitmanYorTree(2, 1, discount=0.5, strength=0.5).run([0, 0, 1])
    expected = np.log([1 / 2, 2 / 3, 2 / 15])
    np.testing.assert_allclose(result.log_predictive, expected, rtol=0, atol=1e-14)


def test_a_missing_symbol_empties_the_context() -> None:
    one, other = mdvpf.PitmanYorTree(V, 2), mdvpf.PitmanYorTree(V, 2)
    for tree in (one, other):
        tree.run([0, 1, 2, 0, 1])
    assert one.update(None).log_predictive == 0.0
    other.new_sequence()
    np.testing.assert_array_equal(one.predict_proba(), other.predict_proba())
    np.testing.assert_array_equal(one.score([2, 0, 1]), other.score([2, 0, 1]))


def test_very_deep_contexts_stay_finite() -> None:
    tree = mdvpf.PitmanYorTree(2, depth=5000, discount=0.5, strength=0.0)
    result = tree.run([0] * 3000 + [1])
    assert np.all(np.isfinite(result.log_predictive))
    assert result.log_predictive[-1] < -500
    tree.run([1, 0, 1])
    assert tree.predict_proba().min() > 0


def test_a_large_alphabet_takes_no_memory_for_itself() -> None:
    tree = mdvpf.PitmanYorTree(10**9, depth=3)
    tree.run([10**9 - 1, 5, 10**9 - 1, 5])
    assert tree.memory().allocated < 10_000
    assert tree.memory().live <= tree.memory().allocated


# -- a grid on one tree --------------------------------------------------------------------


def mixed_by_evidence(log_p: np.ndarray, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Log predictives of a fixed-share mixture, and its weights in the end."""
    n = len(log_p)
    weights = np.full(n, 1 / n)
    found = []
    for column in log_p.T:
        if not column.any():  # a missing symbol tells nothing
            found.append(0.0)
            continue
        joint = weights * np.exp(column)
        found.append(math.log(joint.sum()))
        weights = (1 - share) * joint / joint.sum() + share / n
    return np.array(found), weights


@pytest.mark.parametrize("share", [0.0, 0.01, 1.0])
@pytest.mark.parametrize("n_symbols", [1, 2, 9])
@pytest.mark.parametrize("depths", [(0,), (3,), (5, 0, 2), range(7)], ids=str)
def test_a_grid_equals_separate_trees(depths: Sequence[int], n_symbols: int, share: float) -> None:
    parts = some_parts(500, n_symbols, seed=3)
    mixture = mdvpf.PitmanYorMixture(n_symbols, depths, [0.8, 0.3], [0.3, 2.0], share=share)
    trees = [mdvpf.PitmanYorTree(n_symbols, *setting) for setting in mixture.settings]
    apart = np.array([tree.run(*joined(parts)).log_predictive for tree in trees])
    expected, weights = mixed_by_evidence(apart, share)
    result = mixture.run(*joined(parts))
    mixture._tree.verify()
    np.testing.assert_allclose(result.log_predictive, expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(mixture.weights, weights, rtol=0, atol=1e-10)
    ahead = weights @ [tree.predict_proba() for tree in trees]
    np.testing.assert_allclose(mixture.predict_proba(), ahead, rtol=0, atol=1e-10)
    if share == 0.0:
        best = int(apart.sum(axis=1).argmax())
        assert mixture.weights[mixture.settings.index(mixture.best)] == pytest.approx(
            weights[best], abs=1e-10
        )


@settings(max_examples=60)
@given(parts=sequences, depth=st.integers(0, 6), setting=parameters)
def test_a_grid_of_one_setting_is_that_tree(
    parts: list[Symbols], depth: int, setting: tuple[float, float]
) -> None:
    discount, strength = setting
    mixture = mdvpf.PitmanYorMixture(V, [depth, 7], [discount], [strength])
    log_weights = np.array([0.0, -1e300])  # all weight on the first of the two depths
    mixture._tree.set_log_weights(log_weights)
    tree = mdvpf.PitmanYorTree(V, depth, *setting)
    expected = tree.run(*joined(parts)).log_predictive
    found = mixture.run(*joined(parts)).log_predictive
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(mixture.predict_proba(), tree.predict_proba(), rtol=0, atol=1e-12)


def test_a_setting_that_fell_far_behind_comes_back() -> None:
    # By e^-1000 and more: the code stores logs of the weights, so nothing underflows.
    mixture = mdvpf.PitmanYorMixture(2, [0, 1], [0.5], [0.5])
    rng = np.random.default_rng(0)
    symbols = [*rng.integers(0, 2, 20_000), *([0, 1] * 20_000)]
    trees = [mdvpf.PitmanYorTree(2, *setting) for setting in mixture.settings]
    evidence = [tree.run(symbols).log_evidence for tree in trees]
    assert mixture.run(symbols).log_evidence == pytest.approx(
        np.logaddexp(*evidence) - math.log(2), rel=1e-10
    )


# -- bounded memory ------------------------------------------------------------------------


class Forgetful(ReferencePitmanYorTree):
    """The formula with a limited number of contexts, of which the oldest is forgotten."""

    def __init__(self, max_nodes: int, *arguments: float) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.max_nodes = max_nodes
        self.time = 0
        self.used: dict[tuple[int, ...], float] = {(): math.inf}

    def update(self, symbol: int | None) -> float:
        context = self.context
        if symbol is not None:
            path = [context[start:] for start in range(len(context) + 1)]
            n_new = sum(each not in self.used for each in path)
            while len(self.used) + n_new > self.max_nodes:
                oldest = min((u for u in self.used if u not in path), key=self.used.__getitem__)
                gone = self.counts.pop(oldest)
                del self.used[oldest]
                assert gone
            for each in path[:-1]:
                self.time += 1
                self.used[each] = self.time
        return super().update(symbol)


@pytest.mark.parametrize(("depth", "max_nodes"), [(0, 1), (2, 3), (2, 20), (4, 60), (3, 10**6)])
def test_a_limit_forgets_the_context_that_occurred_longest_ago(depth: int, max_nodes: int) -> None:
    parts = some_parts(1000, 6, seed=1)
    tree = mdvpf.PitmanYorTree(6, depth, max_nodes=max_nodes)
    slow = Forgetful(max_nodes, 6, depth, 0.8, 0.3)
    for part in parts:
        tree.new_sequence()
        slow.context = ()
        for y in part:
            expected = slow.update(y)
            assert tree.update(y).log_predictive == pytest.approx(expected, abs=1e-10)
        tree._tree.verify()
        assert tree._tree.n_nodes == len(slow.used) <= max_nodes


@pytest.mark.parametrize("kind", [mdvpf.PitmanYorTree, mdvpf.PitmanYorMixture])
def test_an_endless_stream_takes_bounded_memory(kind: Callable[..., mdvpf.Predictor]) -> None:
    predictor = kind(20, max_nodes=500)
    rng = np.random.default_rng(0)
    sizes = []
    for _ in range(20):
        result = predictor.run(rng.integers(0, 20, 2000))
        assert result.mean_states.max() <= 500
        sizes.append(predictor.memory().allocated)  # type: ignore[attr-defined]
        predictor._tree.verify()  # type: ignore[attr-defined]
    assert sizes[-1] <= 1.3 * sizes[9]


def test_a_limit_that_is_never_reached_changes_nothing() -> None:
    parts = some_parts(800, 5, seed=2)
    found = mdvpf.PitmanYorTree(5, 4, max_nodes=10**6).run(*joined(parts))
    expected = mdvpf.PitmanYorTree(5, 4).run(*joined(parts))
    np.testing.assert_array_equal(found.log_predictive, expected.log_predictive)


# -- frozen --------------------------------------------------------------------------------

MAKERS: dict[str, Callable[[], mdvpf.Predictor]] = {
    "markov": lambda: mdvpf.Markov(V, 2, decay=0.9),
    "markov 0": lambda: mdvpf.Markov(V, 0),
    "context tree": lambda: mdvpf.ContextTree(V, 3),
    "tree": lambda: mdvpf.PitmanYorTree(V, 3),
    "bounded": lambda: mdvpf.PitmanYorTree(V, 3, max_nodes=10),
    "mixture": lambda: mdvpf.PitmanYorMixture(V, [0, 2, 4], share=0.01),
}
every = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


@every
def test_frozen_predictors_go_along_and_do_not_learn(make: Callable[[], mdvpf.Predictor]) -> None:
    predictor = make()
    past = [0, 1, 2, 0, 1, None, 2, 2, 1, 0, 1]
    predictor.run(past)
    before = predictor.predict_proba()
    frozen = predictor.freeze()
    assert type(frozen) is type(predictor)
    np.testing.assert_array_equal(frozen.predict_proba(), before)
    ahead = [2, 0, None, 1, 1, 1, 0, 2]
    for part in ([2], [2, 0], ahead):
        # Each symbol is predicted as by the predictor that was frozen, in the same context.
        frozen = predictor.freeze()
        found = frozen.run(part).log_predictive
        again = predictor.freeze()
        for y, log_p in zip(part, found, strict=True):
            expected = 0.0 if y is None else math.log(again.predict_proba()[y])
            assert log_p == pytest.approx(expected, abs=1e-12)
            again.update(y)
        np.testing.assert_array_equal(frozen.predict_proba(), again.predict_proba())
        frozen.new_sequence()
        fresh = predictor.copy()
        fresh.new_sequence()
        np.testing.assert_array_equal(frozen.predict_proba(), fresh.predict_proba())
    np.testing.assert_array_equal(predictor.predict_proba(), before)


@every
def test_frozen_predictors_are_independent_and_are_saved_as_such(
    make: Callable[[], mdvpf.Predictor],
) -> None:
    predictor = make()
    predictor.run([0, 1, 2, 0, 1, 2])
    frozen = predictor.freeze()
    ahead = [0, 1, 1, 2, 0, 0]
    expected = frozen.score(ahead)
    predictor.run([2, 2, 2, 1, 0] * 5)
    np.testing.assert_array_equal(frozen.score(ahead), expected)
    twin = frozen.copy()
    twin.run([2, 1])
    np.testing.assert_array_equal(frozen.score(ahead), expected)
    loaded = reloaded(frozen)
    assert loaded.frozen  # type: ignore[attr-defined]
    np.testing.assert_array_equal(loaded.run(ahead).log_predictive, expected)
    np.testing.assert_array_equal(loaded.freeze().score(ahead), frozen.copy().score(ahead * 2)[6:])


def test_a_frozen_hmm_stays_with_the_present_one() -> None:
    hmms = [HMM([1.0], [[1.0]], [[0.9, 0.1]]), HMM([1.0], [[1.0]], [[0.2, 0.8]])]
    predictor = mdvpf.KnownHMM(hmms, [2])
    frozen = predictor.freeze()
    assert np.exp(frozen.run([0] * 5).log_predictive) == pytest.approx([0.9] * 5)
    predictor.run([0, 0, 0])
    assert np.exp(predictor.freeze().run([0] * 5).log_predictive) == pytest.approx([0.2] * 5)


def test_predictors_that_cannot_be_frozen_raise_an_error() -> None:
    class Own(mdvpf.Markov):
        freeze = mdvpf.Predictor.freeze  # type: ignore[assignment]

    with pytest.raises(TypeError, match="Own cannot be frozen"):
        Own(2).freeze()


# -- arguments -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: mdvpf.PitmanYorTree(0), ValueError, "n_symbols=0: expected an integer"),
        (lambda: mdvpf.PitmanYorTree(2, -1), ValueError, "depth=-1: expected an integer"),
        (lambda: mdvpf.PitmanYorTree(2, 1.5), TypeError, "depth=1.5: expected an integer"),
        (lambda: mdvpf.PitmanYorTree(2, discount=1.0), ValueError, "discount=1.0: .* less than 1$"),
        (lambda: mdvpf.PitmanYorTree(2, discount=-0.1), ValueError, "discount=-0.1: expected a"),
        (lambda: mdvpf.PitmanYorTree(2, strength=-1), ValueError, "strength=-1: expected a"),
        (lambda: mdvpf.PitmanYorTree(2, strength="1"), TypeError, "strength='1': expected a"),
        (lambda: mdvpf.PitmanYorTree(2, 1, 0.0, 0.0), ValueError, "strength=0.0: expected at"),
        (lambda: mdvpf.PitmanYorTree(2, 3, max_nodes=3), ValueError, "max_nodes=3: expected"),
        (lambda: mdvpf.PitmanYorTree(2, max_nodes=9.0), TypeError, "max_nodes=9.0: expected"),
        (lambda: mdvpf.PitmanYorMixture(2, []), ValueError, "depths: got none"),
        (lambda: mdvpf.PitmanYorMixture(2, 3), TypeError, "depths=3: expected a sequence"),
        (lambda: mdvpf.PitmanYorMixture(2, [1, 1]), ValueError, r"depths=\[1, 1\]: expected diff"),
        (lambda: mdvpf.PitmanYorMixture(2, [1, -1]), ValueError, r"depths\[1\]=-1: expected an"),
        (lambda: mdvpf.PitmanYorMixture(2, discounts=[1]), ValueError, r"\[0\]=1: .* less than 1$"),
        (lambda: mdvpf.PitmanYorMixture(2, strengths=[]), ValueError, "strengths: got none"),
        (lambda: mdvpf.PitmanYorMixture(2, share=1.1), ValueError, "share=1.1: expected a number"),
    ],
)
def test_bad_arguments_are_refused(
    make: Callable[[], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make()


def test_names_of_methods_make_them() -> None:
    from mdvpf.streams.methods import METHODS, make_predictor

    assert "PitmanYorTree 5" in METHODS
    assert repr(make_predictor("PitmanYorTree 5", 4)) == repr(mdvpf.PitmanYorTree(4))
    assert isinstance(make_predictor("PitmanYorMixture", 4), mdvpf.PitmanYorMixture)
    with pytest.raises(ValueError, match=r"beta=0\.1: PitmanYorTree 5 has none"):
        make_predictor("PitmanYorTree 5", 4, beta=0.1)


def test_contexts_of_many_sequences_can_share_a_tree() -> None:
    """The context is stored outside of the tree, so sequences can be interleaved."""
    from mdvpf.baselines._tree import Context

    parts = [[0, 1, 2, 0, 1, 2], [2, 1, 0, 2, 1, 0]]
    tree = mdvpf.PitmanYorTree(V, 2)
    contexts = [Context(2), Context(2)]
    slow = ReferencePitmanYorTree(V, 2, 0.8, 0.3)
    pasts: defaultdict[int, tuple[int, ...]] = defaultdict(tuple)
    for pair in zip(*parts, strict=True):
        for key, y in enumerate(pair):
            slow.context = pasts[key]
            expected = slow.update(y)
            pasts[key] = slow.context
            assert tree._tree.absorb(contexts[key], y, True)[0] == pytest.approx(expected)
            assert contexts[key].symbols() == list(pasts[key])[::-1]
