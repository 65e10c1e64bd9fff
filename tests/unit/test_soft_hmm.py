"""`SoftHMM` as a predictor, frozen, as a finite HMM, and in a file."""

from __future__ import annotations

import ast
import copy
import gzip
import io
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdvpf
from mdvpf.learners import _soft_hmm
from tests.kernel.corrupting import accepted_forgeries
from tests.kernel.inspecting import BREAK, Event, feed
from tests.kernel.sealing import loaded, saved, sealed, unsealed

V = 4
MAKERS: dict[str, Callable[[], mdvpf.SoftHMM]] = {
    "mealy": lambda: mdvpf.SoftHMM(V, 5, rng=1),
    "moore": lambda: mdvpf.SoftHMM(V, 5, "moore", rng=1),
    "lag 0": lambda: mdvpf.SoftHMM(V, 3, lag=0, rng=1),
    "never forgets": lambda: mdvpf.SoftHMM(V, 6, forget=0.0, lag=3, rng=1),
    "seeds": lambda: mdvpf.SoftHMM(V, 4, rng=1, n_seeds=3),
}
every_maker = pytest.mark.parametrize("maker", MAKERS)
events_of_a_stream = st.lists(st.sampled_from([0, 1, 2, 3, 3, None, BREAK]), max_size=40)


def learnt(maker: str, n: int = 3000) -> mdvpf.SoftHMM:
    """A learner after many sequences of an HMM."""
    learner = MAKERS[maker]()
    hmm = mdvpf.datasets.random_hmm(3, V, transition=0.3, emission=0.3, rng=2)
    learner.run(mdvpf.datasets.sample_hmms([hmm], [n], rng=3).symbols, lengths=[20] * (n // 20))
    return learner


# --- What it computes


@every_maker
@given(events=events_of_a_stream)
@settings(max_examples=25)
def test_predictions_are_distributions_and_known_before_the_symbol(
    maker: str, events: list[Event]
) -> None:
    learner = MAKERS[maker]()
    for event in events:
        expected = learner.predict_proba()
        assert np.all(expected > 0)
        assert expected.sum() == pytest.approx(1.0, rel=0.0, abs=1e-12)
        if isinstance(event, str):
            learner.new_sequence()
            continue
        step = learner.update(event)
        log_predictive = 0.0 if event is None else math.log(expected[event])
        assert step.log_predictive == pytest.approx(log_predictive, rel=0.0, abs=1e-12)


def test_one_state_without_lag_and_forgetting_is_the_dirichlet_multinomial() -> None:
    learner = mdvpf.SoftHMM(3, 1, forget=0.0, lag=0, beta=0.3)
    symbols = np.random.default_rng(1).integers(3, size=2000)
    counts = np.zeros(3)
    expected = []
    for symbol in symbols:
        expected.append(math.log((counts[symbol] + 0.3) / (counts.sum() + 0.9)))
        counts[symbol] += 1
    found = learner.run(symbols).log_predictive
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-10)


def test_one_state_that_forgets_weighs_counts_by_a_power_of_their_age() -> None:
    learner = mdvpf.SoftHMM(2, 1, forget=3.0, lag=0, beta=0.5)
    symbols = np.random.default_rng(1).integers(2, size=200)
    found = learner.run(symbols).log_predictive
    for n, symbol in enumerate(symbols, 1):
        weights = (np.arange(1, n) / n) ** 3
        count = weights @ (symbols[: n - 1] == symbol)
        expected = math.log((count + 0.5) / (weights.sum() + 1.0))
        assert found[n - 1] == pytest.approx(expected, rel=0.0, abs=1e-10)


def test_it_learns_a_source_that_a_markov_chain_cannot() -> None:
    """Only many symbols can tell which of two states persists."""
    hmm = mdvpf.datasets.HMM([0.5, 0.5], [[0.98, 0.02], [0.02, 0.98]], [[0.8, 0.2], [0.2, 0.8]])
    symbols = mdvpf.datasets.sample_hmms([hmm], [20_000], rng=1).symbols
    learner = mdvpf.SoftHMM(2, 4, "moore", rng=0, n_seeds=4)
    scores = [
        predictor.run(symbols).log_predictive[-10_000:].mean()
        for predictor in (learner, mdvpf.Markov(2, order=1), mdvpf.KnownHMM(hmm))
    ]
    assert scores[1] + 0.01 < scores[0] < scores[2]


def test_seeds_reproduce_and_differ() -> None:
    symbols = np.random.default_rng(3).integers(3, size=300)
    first, again, other = (mdvpf.SoftHMM(3, 5, rng=seed).run(symbols) for seed in (1, 1, 2))
    assert first.log_predictive.tolist() == again.log_predictive.tolist()
    assert first.log_predictive.tolist() != other.log_predictive.tolist()


def test_fields_of_a_step() -> None:
    learner = mdvpf.SoftHMM(3, 5, lag=0, rng=1, n_seeds=4)
    step = learner.update(2)
    # One symbol was counted, in one state of each seed; the seeds are equally likely.
    assert step == (pytest.approx(-math.log(3)), pytest.approx(1), pytest.approx(4), 4, 0.0)
    missing = learner.update(None)
    assert missing.log_predictive == 0.0
    assert learner.run([0, 1]).n_particles.tolist() == [4, 4]


@every_maker
def test_score_leaves_it_unchanged(maker: str) -> None:
    learner = learnt(maker, 400)
    before = saved(learner)
    score = learner.score([0, 1, 2], lengths=[1, 2])
    assert saved(learner) == before
    assert learner.run([0, 1, 2], lengths=[1, 2]).log_predictive.tolist() == score.tolist()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n_symbols": 0}, ValueError, "n_symbols=0"),
        ({"n_symbols": 2.0}, TypeError, "n_symbols=2.0"),
        ({"n_states": 0}, ValueError, "n_states=0"),
        ({"machine": "turing"}, ValueError, "machine='turing'"),
        ({"forget": -1}, ValueError, "forget=-1"),
        ({"forget": math.nan}, ValueError, "forget=nan"),
        ({"forget": 101}, ValueError, "forget=101"),
        ({"lag": -1}, ValueError, "lag=-1"),
        ({"lag": True}, TypeError, "lag=True"),
        ({"alpha": 0.0}, ValueError, "alpha=0.0"),
        ({"gamma": math.inf}, ValueError, "gamma=inf"),
        ({"beta": "1"}, TypeError, "beta='1'"),
        ({"rng": -1}, ValueError, "rng=-1"),
        ({"n_seeds": 0}, ValueError, "n_seeds=0"),
    ],
)
def test_bad_arguments_are_refused(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        mdvpf.SoftHMM(**{"n_symbols": 3, **arguments})


@pytest.mark.parametrize("symbol", [-1, V, 1.0, True, "a", np.nan])
def test_bad_symbols_change_nothing(symbol: Any) -> None:
    learner = learnt("mealy", 200)
    before = saved(learner)
    with pytest.raises((TypeError, ValueError), match="symbol"):
        learner.update(symbol)
    with pytest.raises((TypeError, ValueError), match="symbols"):
        learner.run([0, symbol])
    assert saved(learner) == before


# --- Frozen, and as a finite HMM


@every_maker
def test_frozen_it_predicts_as_before_and_learns_nothing(maker: str) -> None:
    learner = learnt(maker)
    feed(learner, [0, 1, 2])
    before = saved(learner)
    frozen = learner.freeze()
    assert frozen.frozen and not learner.frozen
    assert frozen.predict_proba().tolist() == learner.predict_proba().tolist()
    assert frozen.update(3).log_predictive == learner.score([3])[0]
    first = frozen.score([1, 2, 3, 0], lengths=[2, 2])
    frozen.run([3, None, 3, 3] * 50, lengths=[100, 100])
    assert frozen.score([1, 2, 3, 0], lengths=[2, 2]).tolist() == first.tolist()
    assert saved(learner) == before
    assert saved(frozen.freeze()) == saved(frozen)


@pytest.mark.parametrize("machine", ["mealy", "moore"])
@pytest.mark.parametrize("forget", [0.0, 4.0])
def test_frozen_it_is_the_forward_filter_of_its_hmm(machine: str, forget: float) -> None:
    learner = mdvpf.SoftHMM(V + 1, 6, machine, forget, rng=4)  # one symbol never comes
    symbols = np.random.default_rng(5).integers(V, size=2000)
    learner.run(symbols, lengths=[40] * 50)
    others = np.random.default_rng(6).integers(V + 1, size=300)
    found = learner.freeze().score(others, lengths=[100, 200])
    expected = mdvpf.KnownHMM(learner.to_hmm()).score(others, lengths=[100, 200])
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-9)


def test_a_learner_that_has_seen_nothing_has_a_uniform_hmm() -> None:
    for machine in ("mealy", "moore"):
        hmm = mdvpf.SoftHMM(3, 2, machine).to_hmm()
        np.testing.assert_allclose(hmm.start @ hmm.emission, np.full(3, 1 / 3), rtol=1e-12)


def test_the_hmm_is_that_of_the_best_seed() -> None:
    learner = learnt("seeds")
    best = int(learner.weights.argmax())
    alone = mdvpf.SoftHMM(V, 4, rng=1, n_seeds=3)
    alone._keys = learner._keys[best : best + 1]
    vars(alone)["n_seeds"] = 1
    alone._tables = alone._fresh_tables()
    hmm = mdvpf.datasets.random_hmm(3, V, transition=0.3, emission=0.3, rng=2)
    symbols = mdvpf.datasets.sample_hmms([hmm], [3000], rng=3).symbols
    alone.run(symbols, lengths=[20] * 150)
    np.testing.assert_allclose(learner.to_hmm().transition, alone.to_hmm().transition, rtol=1e-9)


def test_frozen_seeds_start_every_sequence_with_the_same_weights() -> None:
    learner = mdvpf.SoftHMM(V, 4, rng=1, n_seeds=3)
    learner.run([0, 1, 2, 3, 3, 1, 0, 2])
    frozen = learner.freeze()
    weights = frozen.weights
    frozen.run([1, 1, 1, 1, 1])
    assert frozen.weights.tolist() != weights.tolist()
    frozen.new_sequence()
    assert frozen.weights.tolist() == weights.tolist() == learner.weights.tolist()


def test_other_predictors_raise_an_error_on_freezing() -> None:
    class Never(mdvpf.Markov):
        freeze = mdvpf.Predictor.freeze

    with pytest.raises(TypeError, match="Never cannot be frozen"):
        Never(3).freeze()


# --- Files


@every_maker
@settings(max_examples=30)
@given(
    before=events_of_a_stream,
    after=events_of_a_stream,
    warm=st.booleans(),
    freeze=st.booleans(),
)
def test_resuming_is_bit_identical(
    maker: str, before: list[Event], after: list[Event], warm: bool, freeze: bool
) -> None:
    learner = MAKERS[maker]()
    if warm:
        learner.run([0, 1, 2] * 340)  # past the first 1,000 symbols
    feed(learner, before)
    if freeze:
        learner = learner.freeze()
    twin = loaded(saved(learner))
    assert repr(twin) == repr(learner)
    assert saved(twin) == saved(learner)
    feed(learner, after)
    feed(twin, after)
    assert saved(twin) == saved(learner)
    assert twin.predict_proba().tolist() == learner.predict_proba().tolist()


def test_pickle_and_copies_carry_everything() -> None:
    learner = learnt("seeds", 500)
    learner.vocabulary = mdvpf.Vocabulary("abcd")
    for twin in (
        pickle.loads(pickle.dumps(learner)),
        copy.deepcopy(learner),
        copy.copy(learner),
        learner.copy(),
    ):
        assert saved(twin) == saved(learner)
        assert twin.vocabulary == learner.vocabulary
        twin.update(0)
        assert saved(twin) != saved(learner)


@every_maker
def test_corrupted_checkpoints_are_refused_or_work(maker: str, torture_scale: float) -> None:
    learner = MAKERS[maker]()
    feed(learner, [0, 1, 2, None, 3, BREAK, 1, 1, 0, 2, 3, 3, 0])
    content = saved(learner)
    for twin in accepted_forgeries(content, int(4000 * torture_scale)):
        feed(twin, [0, None, 0, BREAK, 0])
        if twin.n_symbols <= 1000:
            np.testing.assert_allclose(twin.predict_proba().sum(), 1.0, rtol=0.0, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("rows", lambda a: -a, "count"),
        ("rows", lambda a: a * np.nan, "count"),
        ("rows", lambda a: a[:1], "shape"),
        ("row_totals", lambda a: a + 1, "sum to their totals"),
        ("emission", lambda a: a * 2, "sum to their totals"),
        ("emission_totals", lambda a: a * np.inf, "count"),
        ("row_names", lambda a: a * 0, "start state"),
        ("row_names", lambda a: np.where(a > 0, a + 100, a), "name out of range"),
        ("row_names", lambda a: np.concatenate([a[:1], a[1:2], a[1:-1]]), "twice"),
        ("symbols", lambda a: a * 0, "twice"),
        ("symbols", lambda a: a + 100, "alphabet"),
        ("symbols", lambda a: a - 100, "alphabet"),
        ("held", lambda a: a + 100, "symbol"),
        ("held", lambda a: a * 0 - 2, "symbol"),
        ("posterior", lambda a: a * 2, "sum to one"),
        ("posterior", lambda a: -a, "negative"),
        ("posterior", lambda a: a[:, :1], "shape"),
        ("base", lambda a: a * 0, "base"),
        ("base", lambda a: a[:, :2], "base of another shape"),
        ("log_weights", lambda a: a - 1, "largest"),
        ("log_weights", lambda a: a * np.inf, "weight"),
        ("keys", lambda a: a[:0], "base of another shape"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_impossible_contents_are_refused(
    name: str, change: Callable[[Any], Any], message: str
) -> None:
    learner = MAKERS["mealy"]()
    feed(learner, [0, 1, 2, 3, 1, 2, 0, 0])
    opened = unsealed(saved(learner))
    opened.arrays[name] = np.ascontiguousarray(change(opened.arrays[name]))
    with pytest.raises(mdvpf.CheckpointError, match=message):
        loaded(sealed(opened))


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_steps", -1), ("n_steps", 2**63), ("n_steps", 1), ("shift", 300), ("frozen", 1)],
)
def test_impossible_values_are_refused(name: str, value: Any) -> None:
    learner = MAKERS["mealy"]()
    feed(learner, [0, 1, 2, 3, 1, 2])
    opened = unsealed(saved(learner))
    opened.values()[name] = value
    with pytest.raises(mdvpf.CheckpointError):
        loaded(sealed(opened))


def test_sizes_are_not_believed_without_arrays() -> None:
    opened = unsealed(saved(MAKERS["mealy"]()))
    opened.values()["options"]["n_states"] = 10_000
    with pytest.raises(mdvpf.CheckpointError, match="shape"):
        mdvpf.SoftHMM.load(io.BytesIO(sealed(opened)))


def test_the_stub_agrees_with_the_compiled_class() -> None:
    path = Path(_soft_hmm.__file__).parent / "_soft_hmm.pyi"
    body = ast.parse(path.read_text()).body
    stubs = {node.name: node for node in body if isinstance(node, ast.ClassDef)}
    stub = stubs["SoftTables"]
    declared = {node.name for node in stub.body if isinstance(node, ast.FunctionDef)}
    compiled = {name for name in vars(_soft_hmm.SoftTables) if not name.startswith("__")}
    assert declared - {"__init__"} == compiled
    assert {name for name in vars(_soft_hmm) if not name.startswith("__")} == set(stubs)


# --- With real data, and with the rest of the package


def test_one_pass_over_an_automaton_comes_close_to_it(pautomac_dir: Path) -> None:
    """Divergence from the true automaton of PAutomaC's problem 42, in bits a string."""
    folder = pautomac_dir / "pautomac"

    def strings(part: str) -> tuple[list[int], list[int], int]:
        with gzip.open(folder / f"42.pautomac.{part}.gz", "rt") as file:
            end = int(next(file).split()[1])
            lines = [[*map(int, line.split()[1:]), end] for line in file if line.strip()]
        return [y for line in lines for y in line], [len(line) for line in lines], end + 1

    train, train_lengths, n_symbols = strings("train")
    learner = mdvpf.SoftHMM(n_symbols, rng=0)
    learner.run(train, train_lengths)
    test, lengths, _ = strings("test")
    scores = learner.freeze().run(test, lengths).log_predictive
    log2 = np.add.reduceat(scores, np.cumsum(lengths) - lengths) / math.log(2)
    with gzip.open(folder / "42.pautomac_solution.txt.gz", "rt") as file:
        true = np.array(file.read().split()[1:], dtype=float)
    log2 -= np.log2(np.exp2(log2).sum())
    divergence = true @ (np.log2(true) - log2)
    # A Markov chain of order 3 reaches 0.008.
    assert 0.0 < divergence < 0.004


def test_mixtures_and_detectors_take_it() -> None:
    mixture = mdvpf.Mixture([mdvpf.SoftHMM(V, 5, rng=0), mdvpf.Markov(V)])
    symbols = np.random.default_rng(1).integers(V, size=300)
    assert np.isfinite(mixture.run(symbols, lengths=[100] * 3).log_evidence)
    detector = mdvpf.SurpriseDetector(mdvpf.SoftHMM(V, 5, rng=0))
    assert np.all(np.isfinite(detector.run(symbols).surprise))
