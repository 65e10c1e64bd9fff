"""Open alphabets of chains and trees: against slow twins, frozen, in files and in mixtures."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdvpf
from mdvpf.reference import ReferencePitmanYorTree
from mdvpf.streams.methods import method_of
from tests.context_twins import ChainTwin, MixtureTwin, PitmanYorTwin, WeightingTwin
from tests.kernel.sealing import PREFIX, loaded, saved, sealed, unsealed

Make = Callable[[], Any]
Symbols = list[int | None]

MAKERS: dict[str, tuple[Make, Make]] = {
    "Markov(0)": (lambda: mdvpf.Markov(None, 0), lambda: ChainTwin(None, 0, 1.0)),
    "Markov(2), fading": (
        lambda: mdvpf.Markov(None, 2, beta=0.2, decay=0.5),
        lambda: ChainTwin(None, 2, 0.2, 0.5),
    ),
    "ContextTree": (lambda: mdvpf.ContextTree(None, 2), lambda: WeightingTwin(None, 2, 1.0)),
    "ContextTree, beta": (
        lambda: mdvpf.ContextTree(None, 3, beta=0.1),
        lambda: WeightingTwin(None, 3, 0.1),
    ),
    "PitmanYorTree": (
        lambda: mdvpf.PitmanYorTree(None, 3, 0.6, 0.2),
        lambda: PitmanYorTwin(None, 3, 0.6, 0.2),
    ),
    "PitmanYorTree, depth 0": (
        lambda: mdvpf.PitmanYorTree(None, 0),
        lambda: PitmanYorTwin(None, 0, 0.8, 0.3),
    ),
    "PitmanYorMixture": (
        lambda: mdvpf.PitmanYorMixture(None, [0, 2], [0.5, 0.8], [0.3], share=0.05),
        lambda: MixtureTwin(
            [PitmanYorTwin(None, d, discount, 0.3) for discount in (0.5, 0.8) for d in (0, 2)], 0.05
        ),
    ),
}
BOUNDED: dict[str, Make] = {
    "PitmanYorTree, bounded": lambda: mdvpf.PitmanYorTree(None, 3, max_nodes=7),
    "PitmanYorMixture, bounded": lambda: mdvpf.PitmanYorMixture(None, [0, 2], max_nodes=9),
}
ALL: dict[str, Make] = {name: makers[0] for name, makers in MAKERS.items()} | BOUNDED
every = pytest.mark.parametrize("make", ALL.values(), ids=ALL.keys())

KEYS = [None, "a", "b", "c"]
END = "end"


def growing_stream(seed: int, n: int, first: int = 0) -> tuple[Symbols, list[Any]]:
    """Return symbols numbered by first appearance, after a number of others, and keys."""
    rng = np.random.default_rng(seed)
    symbols: Symbols = []
    known = first
    for _ in range(n):
        if rng.random() < 0.1:
            symbols.append(None)
            continue
        symbol = known if rng.random() < 0.15 else int(rng.integers(known + 1))
        known = max(known, symbol + 1)
        symbols.append(symbol)
    return symbols, [KEYS[i] for i in rng.integers(len(KEYS), size=n)]


# --- Predictions


@pytest.mark.parametrize("name", MAKERS)
@settings(max_examples=40, deadline=None)
@given(
    events=st.lists(
        st.tuples(st.sampled_from([0, 1, 2, 3, 9, 9, None, END]), st.sampled_from(KEYS)),
        max_size=60,
    )
)
def test_predictions_are_those_of_a_slow_twin(name: str, events: list[Any]) -> None:
    predictor, twin = (make() for make in MAKERS[name])
    for event, key in events:
        if event == END:
            predictor.new_sequence(key)
            twin.new_sequence(key)
            continue
        symbol = None if event is None else min(event, predictor.n_symbols)
        found = predictor.update(symbol, key).log_predictive
        assert found == pytest.approx(twin.update(symbol, key), rel=1e-9, abs=1e-12)
    for key in KEYS:
        proba = predictor.predict_proba(key)
        np.testing.assert_allclose(proba, twin.distribution(key), rtol=1e-9)
        assert proba.sum() == pytest.approx(1.0, rel=0.0, abs=1e-12)
    predictor._tree.verify()


@pytest.mark.parametrize("n_symbols", [4, None])
@settings(max_examples=30, deadline=None)
@given(
    events=st.lists(
        st.tuples(st.sampled_from([0, 1, 2, 3, None, END]), st.sampled_from(KEYS)), max_size=60
    )
)
def test_the_reference_has_keys_and_open_alphabets(
    n_symbols: int | None, events: list[Any]
) -> None:
    reference = ReferencePitmanYorTree(n_symbols, 2, 0.6, 0.2)
    tree = mdvpf.PitmanYorTree(n_symbols, 2, 0.6, 0.2)
    for event, key in events:
        if event == END:
            reference.new_sequence(key)
            tree.new_sequence(key)
            continue
        symbol = event
        if event is not None and tree.is_open:
            symbol = min(event, tree.n_symbols)
        expected = reference.update(symbol, key)
        found = tree.update(symbol, key).log_predictive
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_the_formula_of_a_chain_is_that_of_its_docstring() -> None:
    chain = mdvpf.Markov(None, order=1, beta=2.0)
    chain.run([0, 1, 0, 2, 0])
    base = mdvpf.OpenVocabulary().base_distribution([3, 1, 1])
    counts = np.array([0, 1, 1, 0])  # after 0
    np.testing.assert_allclose(chain.predict_proba(), (counts + 2.0 * base) / (2 + 2.0))


@every
def test_a_predictor_that_has_seen_nothing_expects_a_new_symbol(make: Make) -> None:
    predictor = make()
    assert (predictor.n_symbols, predictor.is_open) == (0, True)
    assert predictor.predict_proba().tolist() == predictor.predict_proba("key").tolist() == [1.0]
    predictor.update(None)
    assert predictor.n_symbols == 0
    assert predictor.update(0).log_predictive == 0.0
    assert predictor.n_symbols == 1


@every
def test_it_keeps_all_promises_of_predictors(make: Make) -> None:
    mdvpf.check_predictor(make)
    predictor = make()
    symbols, keys = growing_stream(1, 60)
    predictor.run(symbols, keys=keys)
    mdvpf.check_predictor(predictor)
    mdvpf.check_predictor(predictor.freeze())
    predictor._tree.verify()


@every
def test_symbols_that_skip_a_number_are_refused_and_change_nothing(make: Make) -> None:
    predictor = make()
    predictor.run([0, 1, 0])
    before = saved(predictor)
    with pytest.raises(ValueError, match="symbol=3"):
        predictor.update(3)
    with pytest.raises(ValueError, match=re.escape("symbols[2]=4")):
        predictor.run([0, 2, 4])
    assert saved(predictor) == before
    with pytest.raises(ValueError, match="alphabet"):
        context = predictor._context
        predictor._tree.advance(
            context,
            np.array([2, 4], np.int32),
            np.full(2, -1, np.int32),
            learn=True,
            reports=np.empty((2, 6)),
        )
    assert saved(predictor) == before


@every
def test_a_run_may_use_symbols_of_an_earlier_chunk(make: Make) -> None:
    symbols: Symbols = [*range(300), None, *range(300)]
    run, stepped = make(), make()
    result = run.run(symbols)
    found = [stepped.update(symbol).log_predictive for symbol in symbols]
    np.testing.assert_array_equal(result.log_predictive, found)
    assert run.n_symbols == stepped.n_symbols == 300
    assert saved(run) == saved(stepped)
    run._tree.verify()


@pytest.mark.parametrize("n_symbols", [0, -1, 1.5, "3"])
def test_other_alphabets_are_refused(n_symbols: Any) -> None:
    for kind in (mdvpf.Markov, mdvpf.ContextTree, mdvpf.PitmanYorTree, mdvpf.PitmanYorMixture):
        with pytest.raises((ValueError, TypeError), match=r"n_symbols=.*or None for an open"):
            kind(n_symbols)


def test_a_soft_hmm_refuses_an_open_alphabet_with_a_remedy() -> None:
    with pytest.raises(ValueError, match=r"n_symbols=None.*PitmanYorTree\(None\)"):
        mdvpf.SoftHMM(None)  # type: ignore[arg-type]


def test_defaults_of_the_pseudo_count() -> None:
    assert (mdvpf.Markov(3).beta, mdvpf.ContextTree(3).beta) == (0.3, 0.5)
    assert (mdvpf.Markov(None).beta, mdvpf.ContextTree(None).beta) == (1.0, 1.0)
    assert repr(mdvpf.Markov(None)) == "Markov(None, order=1, beta=1.0, decay=1.0)"


# --- Frozen


@every
def test_a_frozen_one_has_one_symbol_for_all_that_were_never_seen(make: Make) -> None:
    predictor = make()
    symbols, keys = growing_stream(2, 80)
    predictor.run(symbols, keys=keys)
    n = predictor.n_symbols
    frozen = predictor.freeze()
    assert (frozen.is_open, frozen.n_symbols) == (False, n + 1)
    np.testing.assert_array_equal(frozen.predict_proba("a"), predictor.predict_proba("a"))
    new = math.log(predictor.predict_proba("a")[n])
    assert frozen.update(n, "a").log_predictive == pytest.approx(new)
    frozen.run([n, 0, n], keys=["a", "b", "b"])
    assert frozen.n_symbols == n + 1
    with pytest.raises(ValueError, match=f"symbol={n + 1}"):
        frozen.update(n + 1)
    twin = loaded(saved(frozen))  # with a symbol in its contexts that was never seen
    assert (twin.is_open, twin.n_symbols) == (False, n + 1)
    for key in KEYS:
        np.testing.assert_array_equal(twin.predict_proba(key), frozen.predict_proba(key))
    assert saved(twin) == saved(frozen)
    assert predictor.n_symbols == n


@pytest.mark.parametrize(
    "make",
    [
        lambda: mdvpf.PitmanYorTree(None),
        lambda: mdvpf.Mixture([mdvpf.PitmanYorTree(None), mdvpf.Markov(None)]),
        lambda: mdvpf.GeometricMixture([mdvpf.PitmanYorTree(None), mdvpf.Markov(None)]),
    ],
)
def test_a_frozen_one_leaves_its_vocabulary_behind(make: Callable[[], mdvpf.Predictor]) -> None:
    tree = make()
    tree.vocabulary = mdvpf.Vocabulary.open()
    tree.run(["cd", "make", "cd"])
    frozen = tree.freeze()
    assert frozen.vocabulary is None
    frozen.vocabulary = mdvpf.Vocabulary(["cd", "make"], unknown="OTHER")
    assert frozen.score(["cd", "OTHER"]).shape == (2,)
    assert tree.vocabulary is not None


# --- Files


@every
def test_resuming_is_bit_identical(make: Make) -> None:
    for n in (0, 1, 60):
        predictor = make()
        symbols, keys = growing_stream(3, 120)
        if n:
            predictor.run(symbols[:n], keys=keys[:n])
        twin, copied = loaded(saved(predictor)), predictor.copy()
        assert saved(twin) == saved(predictor)
        expected = predictor.run(symbols[n:], keys=keys[n:]).log_predictive
        for other in (twin, copied):
            found = other.run(symbols[n:], keys=keys[n:]).log_predictive
            np.testing.assert_array_equal(found, expected)
            assert saved(other) == saved(predictor)
            other._tree.verify()


def version_of(content: bytes) -> int:
    version: int = PREFIX.unpack(content[: PREFIX.size])[1]
    return version


@every
def test_files_of_open_alphabets_are_of_version_2(make: Make) -> None:
    predictor = make()
    predictor.run([0, 1, 2, 0])
    assert version_of(saved(predictor)) == 2
    opened = unsealed(saved(predictor))
    assert opened.values()["n_symbols"] is None
    assert opened.arrays["seen"].tolist() == [2, 1, 1]


@pytest.mark.parametrize("kind", ["Markov", "ContextTree", "PitmanYorTree", "PitmanYorMixture"])
def test_files_of_closed_alphabets_have_nothing_of_it(kind: str) -> None:
    predictor = getattr(mdvpf, kind)(3)
    predictor.run([0, 1, 2, 0])
    assert version_of(saved(predictor)) == 1
    assert "seen" not in unsealed(saved(predictor)).arrays


SPOILS: list[Callable[[Any], Any]] = [
    lambda seen: seen * 0,
    lambda seen: seen[:-1],
    lambda seen: seen[:0],
    lambda seen: np.append(seen, seen[:1]),  # a further symbol, never counted
    lambda seen: seen[None],
    lambda seen: seen.astype(np.float64),
    lambda seen: seen.astype(np.int64),
    lambda seen: seen.astype(np.uint64) * 0 + (2**64 - 1),
    lambda seen: seen.astype(np.uint64) * 0 + 2**53,
]
EXACT_SPOILS: list[Callable[[Any], Any]] = [
    lambda seen: seen - np.eye(len(seen), dtype=seen.dtype)[0],
    lambda seen: seen + np.eye(len(seen), dtype=seen.dtype)[0],
]


@every
def test_seen_symbols_must_agree_with_the_counts(make: Make) -> None:
    predictor = make()
    predictor.run([0] * 3 + [0, 1, 2, 1, 3, 0, None, 1], keys=["a"] * 11)
    for key in (None, "a"):
        predictor.new_sequence(key)
    predictor.update(0)
    content = saved(predictor)
    # Where counts fade, or contexts are forgotten, exact values are not defined.
    is_exact = getattr(predictor, "decay", 1.0) == 1.0
    if isinstance(predictor, mdvpf.PitmanYorTree):
        is_exact = predictor.max_nodes is None
    for spoil in [*SPOILS, *(EXACT_SPOILS if is_exact else [])]:
        opened = unsealed(content)
        opened.arrays["seen"] = spoil(opened.arrays["seen"])
        with pytest.raises(mdvpf.CheckpointError):
            loaded(sealed(opened, version=2))
    opened = unsealed(content)
    del opened.arrays["seen"]
    with pytest.raises(mdvpf.CheckpointError):
        loaded(sealed(opened, version=2))


def test_a_learner_cannot_have_a_new_symbol_in_its_context() -> None:
    tree = mdvpf.PitmanYorTree(None)
    tree.run([0, 1])
    frozen = tree.freeze()
    frozen.update(2)
    opened = unsealed(saved(frozen))
    assert loaded(sealed(opened, version=2)).n_symbols == 3
    del opened.values()["frozen"]
    with pytest.raises(mdvpf.CheckpointError):
        loaded(sealed(opened, version=2))


@every
def test_a_failed_allocation_changes_nothing(make: Make) -> None:
    predictor = make()
    symbols, keys = growing_stream(5, 40)
    predictor.run(symbols, keys=keys)
    n_failures = 0
    for symbol in [predictor.n_symbols + i for i in range(40)]:
        before = saved(predictor)
        for n in range(10):
            predictor._tree._fail_allocation_after(n)
            try:
                predictor.update(symbol)
                break
            except MemoryError:
                n_failures += 1
                predictor._tree._fail_allocation_after(-1)
                assert saved(predictor) == before
        predictor._tree._fail_allocation_after(-1)
        predictor._tree.verify()
    assert n_failures > 0
    assert predictor._tree.memory()[1] >= predictor._tree.memory()[0] >= 8 * predictor.n_symbols


# --- In mixtures, detectors and monitors


def test_a_mixture_of_a_tree_and_a_filter() -> None:
    def make() -> mdvpf.Mixture:
        model = mdvpf.InfiniteHMM(emission=mdvpf.OpenVocabulary())
        pf = mdvpf.ParticleFilter(model, n_particles=10, rng=1)
        return mdvpf.Mixture([mdvpf.PitmanYorTree(None), pf, mdvpf.Markov(None)])

    mdvpf.check_predictor(make)
    symbols, keys = growing_stream(6, 60)
    mixture, stepped = make(), make()
    result = mixture.run(symbols, keys=keys)
    steps = [stepped.update(y, key).log_predictive for y, key in zip(symbols, keys, strict=True)]
    np.testing.assert_allclose(result.log_predictive, steps, rtol=1e-9, atol=1e-12)
    assert loaded(saved(mixture)).n_symbols == mixture.n_symbols
    frozen = mixture.freeze()
    assert frozen.n_symbols == mixture.n_symbols + 1
    assert frozen.predict_proba().sum() == pytest.approx(1.0)


def log_predictive(monitor: mdvpf.Monitor, line: str) -> float:
    report = monitor.read(line)
    assert report is not None
    return report.log_predictive


@every
def test_a_monitor_takes_labels_as_they_come(make: Make) -> None:
    labels = ["cd", "make", "cd", "ls", "make", "cd", "vi"]
    predictor, twin = make(), make()
    predictor.vocabulary = mdvpf.Vocabulary.open()
    expected = twin.run([0, 1, 0, 2, 1, 0, 3]).log_predictive
    monitor = mdvpf.Monitor(predictor)
    found = [log_predictive(monitor, label) for label in labels]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    assert list(predictor.vocabulary) == ["cd", "make", "ls", "vi"]
    again = mdvpf.Monitor.load(io.BytesIO(saved(monitor)))
    assert log_predictive(again, "emacs") == log_predictive(monitor, "emacs")


def test_methods_have_the_same_names() -> None:
    assert method_of(mdvpf.PitmanYorTree(None)) == "PitmanYorTree 5"
    assert method_of(mdvpf.PitmanYorMixture(None, share=0.001)) == "PitmanYorMixture"
    assert method_of(mdvpf.Markov(None)) == "Markov 1"
