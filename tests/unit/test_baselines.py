"""Comparators against independent small computations, and their common protocol."""

from __future__ import annotations

import copy
import math
import pickle
import signal
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdvpf
from mdvpf.datasets import HMM

V = 3
START, GAP = "start", "gap"

Symbols = Sequence[int | None]


def random_hmm(n_states: int, n_symbols: int, seed: int) -> HMM:
    return mdvpf.datasets.random_hmm(n_states, n_symbols, rng=seed)


def known() -> mdvpf.KnownHMM:
    return mdvpf.KnownHMM([random_hmm(2, V, 1), random_hmm(3, V, 2)], [4])


MAKERS: dict[str, Callable[[], mdvpf.Predictor]] = {
    "known": known,
    "markov 0": lambda: mdvpf.Markov(V, 0),
    "markov 1": lambda: mdvpf.Markov(V, 1, beta=0.1),
    "markov 2": lambda: mdvpf.Markov(V, 2, decay=0.9),
    "tree 0": lambda: mdvpf.ContextTree(V, 0),
    "tree 1": lambda: mdvpf.ContextTree(V, 1, beta=0.1),
    "tree 3": lambda: mdvpf.ContextTree(V, 3),
    "pitman-yor 0": lambda: mdvpf.PitmanYorTree(V, 0),
    "pitman-yor 4": lambda: mdvpf.PitmanYorTree(V, 4, 0.5, 1.0),
    "pitman-yor, bounded": lambda: mdvpf.PitmanYorTree(V, 3, max_nodes=9),
    "pitman-yor, grid": lambda: mdvpf.PitmanYorMixture(V, [0, 1, 3], [0.3, 0.8], share=0.01),
}
every = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())

# Several sequences, with missing symbols.
sequences = st.lists(
    st.lists(st.none() | st.integers(0, V - 1), min_size=1, max_size=8), min_size=1, max_size=4
)


def joined(parts: Sequence[Symbols]) -> tuple[list[int | None], list[int]]:
    return [y for part in parts for y in part], [len(part) for part in parts]


def contexts(parts: Sequence[Symbols], depth: int) -> Iterator[tuple[tuple[object, ...], int]]:
    """Yield the context of each symbol, the latest first, and the symbol, unless missing."""
    for part in parts:
        past: list[object] = [START] * depth
        for y in part:
            if y is not None:
                yield tuple(past), y
            past = [GAP if y is None else y, *past][:depth]


def without_missing(values: np.ndarray, symbols: Symbols) -> np.ndarray:
    return values[[y is not None for y in symbols]]


# -- the generator -------------------------------------------------------------------------


def probability_by_paths(
    hmms: Sequence[HMM], changes: Sequence[int], parts: Sequence[Symbols]
) -> float:
    """Return the probability of all symbols as a sum over all paths of states."""
    symbols, lengths = joined(parts)
    fresh = {0, *changes, *np.cumsum(lengths)[:-1].tolist()}
    models = [hmms[sum(c <= i for c in changes)] for i in range(len(symbols))]
    total = 0.0
    for path in product(*(range(hmm.n_states) for hmm in models)):
        p = 1.0
        for i, (hmm, y) in enumerate(zip(models, symbols, strict=True)):
            p *= hmm.start[path[i]] if i in fresh else hmm.transition[path[i - 1], path[i]]
            if y is not None:
                p *= hmm.emission[path[i], y]
        total += p
    return total


@pytest.mark.parametrize(
    "parts",
    [
        [[0, 1, 2, 0, 1, 2, 1]],
        [[0, None, 2, 0, None, None, 1]],
        [[None, 1], [0, 2, 0], [None, 1]],
        [[2, 1, 0], [1], [1, 1]],
    ],
)
def test_known_hmm_sums_over_all_paths(parts: list[Symbols]) -> None:
    hmms, changes = [random_hmm(2, V, 1), random_hmm(3, V, 2), random_hmm(2, V, 3)], [3, 5]
    symbols, lengths = joined(parts)
    result = mdvpf.KnownHMM(hmms, changes).run(symbols, lengths)
    before = 1.0
    for i in range(len(symbols)):
        upto: list[Symbols] = []
        for part in parts:
            upto.append(part[: i + 1 - sum(map(len, upto))])
        here = probability_by_paths(hmms, changes, [part for part in upto if part])
        assert result.log_predictive[i] == pytest.approx(math.log(here / before), abs=1e-12)
        before = here
    assert result.log_evidence == pytest.approx(math.log(before), abs=1e-12)
    assert result.mean_states.tolist() == [
        hmms[sum(c <= i + 1 for c in changes)].n_states for i in range(len(symbols))
    ]


def test_known_hmm_gives_zero_to_what_it_cannot_emit() -> None:
    alternating = HMM([1, 0], [[0, 1], [1, 0]], [[1, 0], [0, 1]])
    generator = mdvpf.KnownHMM(alternating, n_symbols=4)
    assert generator.predict_proba().tolist() == [1, 0, 0, 0]
    # An impossible symbol carries no information: the chain continues as if it were missing.
    result = generator.run([0, 1, 1, 1, 3, None, 0])
    assert result.log_predictive.tolist() == [0, 0, -math.inf, 0, -math.inf, 0, 0]


def test_known_hmm_of_a_stream_predicts_best() -> None:
    stream = mdvpf.datasets.switching_hmm(lengths=2000, rng=0)
    own = mdvpf.KnownHMM(stream.hmms, stream.change_points).run(stream.symbols).log_evidence
    late = mdvpf.KnownHMM(stream.hmms, [2050], n_symbols=8).score(stream.symbols).sum()
    chain = mdvpf.Markov(8, 2).run(stream.symbols).log_evidence
    assert own > max(late, chain) + 100


# -- Markov chains -------------------------------------------------------------------------


def markov_by_definition(
    parts: Sequence[Symbols], order: int, beta: float, decay: float
) -> list[float]:
    counts: dict[object, np.ndarray] = defaultdict(lambda: np.zeros(V))
    out = []
    for context, y in contexts(parts, order):
        n = counts[context]
        out.append(math.log((n[y] + beta) / (n.sum() + V * beta)))
        n *= decay
        n[y] += 1
    return out


@given(
    parts=sequences,
    order=st.integers(0, 3),
    beta=st.sampled_from([0.01, 0.5, 2.0]),
    decay=st.sampled_from([1.0, 0.9, 0.01]),
)
def test_markov_is_a_ratio_of_counts(
    parts: list[Symbols], order: int, beta: float, decay: float
) -> None:
    symbols, lengths = joined(parts)
    result = mdvpf.Markov(V, order, beta, decay).run(symbols, lengths)
    expected = markov_by_definition(parts, order, beta, decay)
    given_out = without_missing(result.log_predictive, symbols)
    np.testing.assert_allclose(given_out, expected, rtol=0, atol=1e-12)
    seen = {context for context, _ in contexts(parts, order)}
    assert result.mean_states[-1] == len(seen)


@pytest.mark.parametrize("decay", [0.99, 0.5, 1e-3, 1e-60])
def test_markov_forgets_for_as_long_as_you_like(decay: float) -> None:
    # Long enough for internal numbers to leave the range of doubles many times over.
    symbols = np.random.default_rng(0).choice(V, p=[0.6, 0.3, 0.1], size=30_000)
    result = mdvpf.Markov(V, 1, 0.2, decay).run(symbols)
    expected = markov_by_definition([symbols.tolist()], 1, 0.2, decay)
    np.testing.assert_allclose(result.log_predictive, expected, rtol=0, atol=1e-11)


def test_markov_with_decay_follows_a_change() -> None:
    symbols = [0] * 500 + [1] * 100
    fixed, fading = (mdvpf.Markov(2, 0, decay=d).run(symbols) for d in (1.0, 0.9))
    assert fading.log_predictive[550:].mean() > -0.05 > -1 > fixed.log_predictive[550:].mean()


# -- context trees -------------------------------------------------------------------------


def trees(n_children: int, depth: int) -> Iterator[tuple[float, object]]:
    """Yield all trees with their prior probability; a tree is None, a leaf, or its children.

    The start of a sequence, the last of the children, cannot be split: nothing is before it.
    """
    if depth == 0:
        yield 1.0, None
        return
    yield 0.5, None
    below = list(trees(n_children, depth - 1))
    for choice in product(below, repeat=n_children - 1):
        yield 0.5 * math.prod(p for p, _ in choice), [*(tree for _, tree in choice), None]


def probability_by_trees(parts: Sequence[Symbols], n: int, depth: int, beta: float) -> float:
    """Return the probability of all symbols as a sum over all trees."""
    values = [*range(n), GAP, START]
    total = 0.0
    for prior, tree in trees(len(values), depth):
        counts: dict[object, list[int]] = defaultdict(lambda: [0] * n)
        for context, y in contexts(parts, depth):
            node, leaf = tree, []
            while node is not None:
                leaf.append(context[len(leaf)])
                node = node[values.index(leaf[-1])]  # type: ignore[index]
            counts[tuple(leaf)][y] += 1
        log_p = 0.0
        for row in counts.values():  # the Dirichlet-multinomial of each leaf
            log_p += math.lgamma(n * beta) - math.lgamma(n * beta + sum(row))
            log_p += sum(math.lgamma(beta + c) - math.lgamma(beta) for c in row)
        total += prior * math.exp(log_p)
    return total


@pytest.mark.parametrize("n, depth, beta", [(2, 0, 0.5), (2, 2, 0.5), (3, 1, 0.5), (3, 2, 0.1)])
@pytest.mark.parametrize("seed", range(3))
def test_context_tree_sums_over_all_trees(n: int, depth: int, beta: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = [
        [None if u < 0.15 else int(u * 1000) % n for u in rng.random(size)] for size in (9, 3, 7)
    ]
    symbols, lengths = joined(parts)
    tree = mdvpf.ContextTree(n, depth, beta)
    result = tree.run(symbols, lengths)
    expected = probability_by_trees(parts, n, depth, beta)
    assert result.log_evidence == pytest.approx(math.log(expected), abs=1e-10)
    predicted = tree.predict_proba()
    for y in range(n):
        then = probability_by_trees([*parts[:-1], [*parts[-1], y]], n, depth, beta)
        assert predicted[y] == pytest.approx(then / expected, abs=1e-10)


def test_context_tree_of_depth_three() -> None:
    symbols = [0, 0, 1, 0, 1, 1, 0, 0, 1, 0]
    result = mdvpf.ContextTree(2, 3).run(symbols)
    expected = probability_by_trees([symbols], 2, 3, 0.5)
    assert result.log_evidence == pytest.approx(math.log(expected), abs=1e-10)


def test_context_tree_finds_the_order() -> None:
    rng = np.random.default_rng(0)
    symbols = rng.integers(0, 2, 20_000)
    for i in range(2, len(symbols)):  # the symbol two steps back, most of the time
        symbols[i] = symbols[i - 2] if rng.random() < 0.9 else 1 - symbols[i - 2]
    late = {d: mdvpf.ContextTree(2, d).run(symbols).log_predictive[5000:].mean() for d in (1, 2, 5)}
    entropy = 0.9 * math.log(0.9) + 0.1 * math.log(0.1)
    assert late[1] == pytest.approx(math.log(0.5), abs=0.01)
    assert late[2] == pytest.approx(entropy, abs=0.01)
    assert late[5] == pytest.approx(late[2], abs=0.002)  # an unnecessary depth costs little


def log_probability_by_blocks(symbols: Sequence[int], n: int, depth: int, beta: float) -> float:
    """Return the log probability of one sequence, from the counts of all nodes at its end."""
    counts: dict[tuple[object, ...], list[int]] = defaultdict(lambda: [0] * n)
    for context, y in contexts([symbols], depth):
        for d in range(depth + 1):
            counts[context[:d]][y] += 1

    def weighted(node: tuple[object, ...]) -> float:
        row = counts[node]
        own = math.lgamma(n * beta) - math.lgamma(n * beta + sum(row))
        own += sum(math.lgamma(beta + c) - math.lgamma(beta) for c in row)
        if len(node) == depth or (node and node[-1] == START):
            return own
        children = [(*node, value) for value in (*range(n), START)]
        split = sum(weighted(child) for child in children if child in counts)
        return float(np.logaddexp(own, split)) - math.log(2)

    return weighted(())


def test_context_tree_stays_exact_when_odds_are_extreme() -> None:
    # While symbols alternate, the odds of depth 0 fall by log 2 a symbol, to exp(-5000), which is
    # zero. Then symbols are random, and the odds rise again.
    symbols = [0, 1] * 3600 + np.random.default_rng(0).integers(0, 2, 3000).tolist()
    result = mdvpf.ContextTree(2, 2).run(symbols)
    total = result.log_predictive.cumsum()
    for n in (100, 7200, 7201, 7210, 9000, len(symbols)):
        expected = log_probability_by_blocks(symbols[:n], 2, 2, 0.5)
        assert total[n - 1] == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("order", [1, 5])
def test_memory_grows_with_the_contexts_that_occur(order: int) -> None:
    symbols = np.random.default_rng(0).integers(0, 10**6, 200)
    assert mdvpf.Markov(10**6, order).run(symbols).mean_states[-1] <= 200
    assert mdvpf.ContextTree(10**6, order).run(symbols).mean_states[-1] <= 1 + 200 * order
    again = mdvpf.ContextTree(10**6, order)
    sizes = again.run(np.tile(symbols, 3)).mean_states
    assert sizes[-1] == sizes[399]


# -- the protocol --------------------------------------------------------------------------


@every
@settings(max_examples=25)
@given(parts=sequences)
def test_run_is_update_after_update(
    make: Callable[[], mdvpf.Predictor], parts: list[Symbols]
) -> None:
    symbols, lengths = joined(parts)
    one, other = make(), make()
    result = one.run(symbols, lengths)
    steps = []
    for part in parts:
        other.new_sequence()
        for y in part:
            before = other.predict_proba()
            assert before.sum() == pytest.approx(1, abs=1e-12)
            assert before.min() > 0
            steps.append(other.update(y))
            log_p = 0.0 if y is None else math.log(before[y])
            assert steps[-1].log_predictive == pytest.approx(log_p, abs=1e-12)
    for name in mdvpf.Step._fields:
        np.testing.assert_array_equal(getattr(result, name), [getattr(s, name) for s in steps])
    assert result.log_evidence == pytest.approx(sum(s.log_predictive for s in steps), abs=1e-9)
    np.testing.assert_array_equal(one.predict_proba(), other.predict_proba())


@every
def test_predictions_do_not_see_what_they_predict(make: Callable[[], mdvpf.Predictor]) -> None:
    rng = np.random.default_rng(0)
    symbols = rng.integers(0, V, 40)
    result = make().run(symbols)
    for i in range(0, 40, 5):
        changed = symbols.copy()
        changed[i:] = rng.integers(0, V, 40 - i)
        again = make().run(changed)
        np.testing.assert_array_equal(again.log_predictive[:i], result.log_predictive[:i])


@every
def test_missing_symbols_teach_nothing(make: Callable[[], mdvpf.Predictor]) -> None:
    predictor = make()
    predictor.run([0, 1, 2, 0])
    size = predictor.update(None).mean_states
    for _ in range(30):
        step = predictor.update(None)
        assert step.log_predictive == 0
        assert step.mean_states == size
    masked = np.ma.masked_equal([0, 1, 9, 2], 9)
    np.testing.assert_array_equal(make().score(masked), make().score([0, 1, None, 2]))


def pickled(predictor: mdvpf.Predictor) -> mdvpf.Predictor:
    twin: mdvpf.Predictor = pickle.loads(pickle.dumps(predictor))
    return twin


@every
@pytest.mark.parametrize("how", [lambda p: p.copy(), copy.copy, copy.deepcopy, pickled])
def test_copies_are_independent(
    make: Callable[[], mdvpf.Predictor], how: Callable[[mdvpf.Predictor], mdvpf.Predictor]
) -> None:
    one, same = make(), make()
    for predictor in (one, same):
        predictor.run([0, 1, None, 2, 0])
    other = how(one)
    assert type(other) is type(one)
    other.run([2, 2, 1])
    other.new_sequence()
    other.update(1)
    np.testing.assert_array_equal(one.predict_proba(), same.predict_proba())
    ahead = [0, 2, 1, 1]
    np.testing.assert_array_equal(one.run(ahead).log_predictive, same.run(ahead).log_predictive)


@every
def test_score_leaves_the_predictor_as_it_was(make: Callable[[], mdvpf.Predictor]) -> None:
    one, same = make(), make()
    ahead = [2, 1, 0, None, 1]
    scored = one.score(ahead, lengths=[2, 3])
    np.testing.assert_array_equal(scored, same.run(ahead, lengths=[2, 3]).log_predictive)
    fresh = make()
    np.testing.assert_array_equal(one.run(ahead).log_predictive, fresh.run(ahead).log_predictive)


@every
@pytest.mark.parametrize("bad", [-1, V, 1.0, True, "a", np.nan])
def test_bad_symbols_change_nothing(make: Callable[[], mdvpf.Predictor], bad: object) -> None:
    one, same = make(), make()
    for predictor in (one, same):
        predictor.run([0, 1])
    with pytest.raises((TypeError, ValueError), match="symbol"):
        one.update(bad)  # type: ignore[arg-type]
    with pytest.raises((TypeError, ValueError), match="symbols"):
        one.run([0, 1, bad])
    with pytest.raises(ValueError, match="lengths sum to 3"):
        one.run([0, 1], lengths=[3])
    ahead = [0, 1, 2]
    np.testing.assert_array_equal(one.run(ahead).log_predictive, same.run(ahead).log_predictive)


@every
def test_steps_have_one_particle_and_discard_nothing(make: Callable[[], mdvpf.Predictor]) -> None:
    step = make().update(1)
    assert (step.ess, step.n_particles, step.discarded) == (1.0, 1, 0.0)
    assert all(type(value) in (int, float) for value in step)
    assert isinstance(make(), mdvpf.Predictor)
    assert make().n_symbols == V
    assert type(make()).__name__ in repr(make())


def test_an_interrupt_waits_for_the_end_of_a_symbol() -> None:
    class Interrupted(mdvpf.KnownHMM):
        n_done = 0

        def _advance(self, symbol: int, number: int) -> float:
            if self.n_done == 1500:
                signal.raise_signal(signal.SIGINT)
            out = super()._advance(symbol, number)
            self.n_done += 1
            return out

    symbols = np.random.default_rng(0).integers(0, V, 5000)
    predictor = Interrupted(random_hmm(2, V, 1))
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        predictor.run(symbols)
    assert signal.getsignal(signal.SIGINT) is handler
    assert 1500 < predictor.n_done < 5000
    same = mdvpf.KnownHMM(random_hmm(2, V, 1))
    same.run(symbols[: predictor.n_done])
    rest = symbols[predictor.n_done :]
    np.testing.assert_array_equal(predictor.score(rest), same.score(rest))


@pytest.mark.parametrize("kind", [mdvpf.Markov, mdvpf.ContextTree, mdvpf.PitmanYorTree])
def test_an_interrupt_leaves_a_tree_between_two_symbols(kind: Any) -> None:
    class Interrupted(kind):  # type: ignore[misc]
        n_done = 0

        def _absorb(self, stream: Any, plan: Any, part: slice, reports: Any) -> None:
            super()._absorb(stream, plan, part, reports)
            if self.n_done == 0:
                self.n_done = part.stop
                signal.raise_signal(signal.SIGINT)

    symbols = np.random.default_rng(0).integers(0, V, 100_000)
    predictor, same = Interrupted(V, 2), kind(V, 2)
    with pytest.raises(KeyboardInterrupt):
        predictor.run(symbols)
    assert 0 < predictor.n_done < len(symbols)
    same.run(symbols[: predictor.n_done])
    rest = symbols[predictor.n_done :]
    np.testing.assert_array_equal(predictor.run(rest).log_predictive, same.score(rest))


@pytest.mark.parametrize(
    "make, error, message",
    [
        (lambda: mdvpf.Markov(0), ValueError, "n_symbols=0: expected an integer"),
        (lambda: mdvpf.Markov(2, order=-1), ValueError, "order=-1: expected an integer"),
        (lambda: mdvpf.Markov(2, order=1.0), TypeError, "order=1.0: expected an integer"),
        (lambda: mdvpf.Markov(2, beta=0), ValueError, "beta=0: expected a number"),
        (lambda: mdvpf.Markov(2, decay=0), ValueError, "decay=0: expected a number"),
        (lambda: mdvpf.Markov(2, decay=1.1), ValueError, "decay=1.1: expected a number"),
        (lambda: mdvpf.Markov(2, decay="1"), TypeError, "decay='1': expected a number"),
        (lambda: mdvpf.ContextTree(2, depth=-1), ValueError, "depth=-1: expected an integer"),
        (lambda: mdvpf.ContextTree(2, beta=-1), ValueError, "beta=-1: expected a number"),
        (lambda: mdvpf.KnownHMM([]), ValueError, "hmms: got none"),
        (lambda: mdvpf.KnownHMM(1), TypeError, "hmms=1: expected a sequence of HMMs"),
        (lambda: mdvpf.KnownHMM([1]), TypeError, r"hmms\[0\]=1: expected an HMM"),
        (
            lambda: mdvpf.KnownHMM([random_hmm(2, 2, 0)] * 2),
            ValueError,
            "change_points has 0 entries: expected 1",
        ),
        (
            lambda: mdvpf.KnownHMM([random_hmm(2, 2, 0)] * 3, [5, 5]),
            ValueError,
            r"change_points=\[5, 5\]: expected increasing",
        ),
        (
            lambda: mdvpf.KnownHMM([random_hmm(2, 2, 0)] * 2, [0]),
            ValueError,
            r"change_points\[0\]=0: expected an integer",
        ),
        (
            lambda: mdvpf.KnownHMM(random_hmm(2, 4, 0), n_symbols=3),
            ValueError,
            "n_symbols=3: expected 4 or more",
        ),
    ],
)
def test_bad_arguments_are_refused(
    make: Callable[[], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make()
