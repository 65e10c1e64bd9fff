"""Keys of chains, trees, HMMs and frozen predictors: separate sequences, common counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdvpf
from mdvpf.datasets import HMM
from mdvpf.filter import FrozenFilter
from tests.context_twins import (
    ChainTwin,
    MixtureTwin,
    PitmanYorTwin,
    WeightingTwin,
)
from tests.kernel.sealing import loaded, saved, sealed, unsealed
from tests.soft_hmm_twin import SoftTwin

V = 3
HMMS = [
    HMM([0.3, 0.7], [[0.9, 0.1], [1 / 3, 2 / 3]], [[0.1, 0.4, 0.5], [0.8, 0.1, 0.1]]),
    HMM([1, 0, 0], np.full((3, 3), 1 / 3), [[0.5, 0.25, 0.25], [0.1, 0.9, 0], [1, 0, 0]]),
]


def trained(predictor: mdvpf.Predictor) -> mdvpf.Predictor:
    predictor.run(np.random.default_rng(5).integers(0, V, 80).tolist(), lengths=[30, 10, 40])
    frozen = predictor.freeze()
    frozen.new_sequence()
    return frozen


def frozen_filter(machine: str) -> mdvpf.Predictor:
    model = mdvpf.InfiniteHMM(V, machine=machine, beta=0.3)
    return trained(mdvpf.ParticleFilter(model, n_particles=5, rng=1))


LEARNERS: dict[str, Callable[[], mdvpf.Predictor]] = {
    "Markov(0)": lambda: mdvpf.Markov(V, order=0),
    "Markov(2), fading": lambda: mdvpf.Markov(V, order=2, beta=0.1, decay=0.7),
    "ContextTree": lambda: mdvpf.ContextTree(V, depth=3),
    "PitmanYorTree": lambda: mdvpf.PitmanYorTree(V, depth=3),
    "PitmanYorTree, bounded": lambda: mdvpf.PitmanYorTree(V, depth=3, max_nodes=12),
    "PitmanYorMixture": lambda: mdvpf.PitmanYorMixture(V, [0, 1, 3], [0.8, 0.2], share=0.1),
    "SoftHMM, Mealy": lambda: mdvpf.SoftHMM(V, 4, rng=1, n_seeds=2),
    "SoftHMM, Moore": lambda: mdvpf.SoftHMM(V, 4, "moore", 1.0, 0, rng=1),
}
FIXED: dict[str, Callable[[], mdvpf.Predictor]] = {
    "KnownHMM": lambda: mdvpf.KnownHMM(HMMS[0]),
    "FrozenFilter": lambda: frozen_filter("moore"),
    "FrozenFilter, Mealy": lambda: frozen_filter("mealy"),
} | {f"frozen {name}": lambda make=make: trained(make()) for name, make in LEARNERS.items()}
SWITCHING = {"KnownHMM, switching": lambda: mdvpf.KnownHMM(HMMS, [7])}
MAKERS = LEARNERS | FIXED | SWITCHING
every = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
every_fixed = pytest.mark.parametrize("make", FIXED.values(), ids=FIXED.keys())
Make = Callable[[], mdvpf.Predictor]

Symbols = list[int | None]
END = "end"


def random_stream(seed: int, n: int, keys: list[Any]) -> tuple[Symbols, list[Any]]:
    rng = np.random.default_rng(seed)
    symbols: Symbols = [None if rng.random() < 0.1 else int(rng.integers(V)) for _ in range(n)]
    return symbols, [keys[i] for i in rng.integers(len(keys), size=n)]


@every_fixed
def test_interleaved_sequences_score_as_each_by_itself(make: Make) -> None:
    symbols, keys = random_stream(0, 60, ["a", "b", ("c", 1)])
    predictor = make()
    steps = [predictor.update(symbol, key) for symbol, key in zip(symbols, keys, strict=True)]
    together = make().run(symbols, keys=keys).log_predictive
    for key in set(keys):
        alone = make()
        for i in range(len(keys)):
            if keys[i] == key:
                found = alone.update(symbols[i])
                assert steps[i].log_predictive == found.log_predictive
                if isinstance(alone, FrozenFilter):
                    # One product of matrices for many sequences is rounded in another order.
                    assert together[i] == pytest.approx(found.log_predictive, rel=1e-12, abs=1e-14)
                else:
                    assert together[i] == found.log_predictive


@every
def test_one_key_is_as_none(make: Make) -> None:
    symbols, _ = random_stream(1, 50, [None])
    plain, keyed = make(), make()
    plain.new_sequence()
    expected = plain.run(symbols)
    result = keyed.run(symbols, keys=["a"] * len(symbols))
    for name in ("log_predictive", "mean_states", "ess"):
        np.testing.assert_array_equal(getattr(result, name), getattr(expected, name))
    np.testing.assert_array_equal(keyed.predict_proba("a"), plain.predict_proba())
    assert keyed.n_keys == plain.n_keys == 1


@every
def test_grouped_keys_are_as_lengths(make: Make) -> None:
    symbols, _ = random_stream(2, 60, [None])
    lengths = [7, 20, 1, 12, 20]
    keys = np.repeat(["a", "b", "c", "d", "e"], lengths).tolist()
    plain, keyed = make(), make()
    expected = plain.run(symbols, lengths=lengths).log_predictive
    if isinstance(plain, mdvpf.SoftHMM) and not plain.frozen:
        # The end of a sequence counts its waiting symbols: so must the end of a key.
        found: list[float] = []
        keyed.new_sequence()
        for key, part in zip("abcde", np.split(symbols, np.cumsum(lengths)[:-1]), strict=True):
            found.extend(keyed.run(part, keys=[key] * len(part)).log_predictive)
            if key != "e":
                keyed.new_sequence(key)
    else:
        found = keyed.run(symbols, keys=keys).log_predictive.tolist()
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(keyed.predict_proba("e"), plain.predict_proba())


@every
def test_run_is_as_update_one_by_one(make: Make) -> None:
    symbols, keys = random_stream(3, 50, [None, "a", "b", "c"])
    run, stepped = make(), make()
    run.max_keys = stepped.max_keys = 3
    result = run.run(symbols, keys=keys)
    steps = [stepped.update(symbol, key) for symbol, key in zip(symbols, keys, strict=True)]
    found = [step.log_predictive for step in steps]
    np.testing.assert_allclose(found, result.log_predictive, rtol=1e-12, atol=1e-14)
    for key in (None, "a", "b", "c", "never used"):
        np.testing.assert_allclose(
            run.predict_proba(key), stepped.predict_proba(key), rtol=1e-12, atol=1e-14
        )


@every
def test_predictions_are_the_probabilities_of_the_next_symbol(make: Make) -> None:
    symbols, keys = random_stream(4, 40, [None, "a", "b"])
    predictor = make()
    predictor.run(symbols, keys=keys)
    for key in (None, "a", "b", "never used"):
        proba = predictor.predict_proba(key)
        assert proba.sum() == pytest.approx(1.0, rel=0.0, abs=1e-9)
        with np.errstate(divide="ignore"):
            expected = np.log(proba)
        found = [predictor.copy().update(y, key).log_predictive for y in range(V)]
        np.testing.assert_allclose(found, expected, rtol=1e-9)


@every
def test_a_key_that_ends_touches_no_other(make: Make) -> None:
    symbols, keys = random_stream(5, 40, ["a", "b", "c"])
    predictor = make()
    fresh = make()
    predictor.run(symbols, keys=keys)
    frozen = predictor.freeze() if not isinstance(predictor, mdvpf.KnownHMM) else predictor
    before = {key: frozen.predict_proba(key) for key in "ac"}
    start = frozen.predict_proba("never used")
    frozen.new_sequence("b")
    assert frozen.n_keys == fresh.n_keys + 2
    np.testing.assert_array_equal(frozen.predict_proba("b"), start)
    for key, expected in before.items():
        np.testing.assert_array_equal(frozen.predict_proba(key), expected)
    again = frozen.score([0, 1, 2], keys=["b"] * 3)
    np.testing.assert_array_equal(again, frozen.score([0, 1, 2], keys=["d"] * 3))


@every
def test_the_key_used_longest_ago_ends(make: Make) -> None:
    symbols = [0, 1, 2, 1, 0, 2, 2, 1, 0]
    keys = ["a", "b", "a", "c", "a", "c", "d", "b", "b"]
    bounded, twin = make(), make()
    twin.new_sequence()
    bounded.new_sequence()
    bounded.max_keys = 2
    result = bounded.run(symbols, keys=keys)
    found = []
    for i, (symbol, key) in enumerate(zip(symbols, keys, strict=True)):
        found.append(twin.update(symbol, key).log_predictive)
        if i in (3, 6, 7):  # a key ends when the new one has been predicted
            twin.new_sequence({3: "b", 6: "a", 7: "c"}[i])
    np.testing.assert_allclose(result.log_predictive, found, rtol=1e-12, atol=1e-14)
    assert bounded.n_keys == 2


@every
def test_scoring_changes_nothing(make: Make) -> None:
    symbols, keys = random_stream(6, 40, [None, "a", "b"])
    predictor = make()
    predictor.run(symbols, keys=keys)
    before = saved(predictor)
    scores = predictor.score([1, 2, 0, 1], keys=["a", "new", "b", None])
    assert saved(predictor) == before
    np.testing.assert_array_equal(
        predictor.run([1, 2, 0, 1], keys=["a", "new", "b", None]).log_predictive, scores
    )


@every
@pytest.mark.parametrize("keys", [["a", "b", "c"], [None, "a", 7]], ids=["keys", "and none"])
def test_resuming_is_bit_identical(make: Make, keys: list[Any]) -> None:
    symbols, of = random_stream(7, 60, keys)
    predictor = make()
    predictor.run(symbols[:30], keys=of[:30])
    predictor.new_sequence(keys[1])
    predictor.update(1, keys[1])
    twin = loaded(saved(predictor))
    assert saved(twin) == saved(predictor)
    copied = predictor.copy()
    expected = predictor.run(symbols[30:], keys=of[30:])
    for other in (twin, copied):
        result = other.run(symbols[30:], keys=of[30:])
        np.testing.assert_array_equal(result.log_predictive, expected.log_predictive)
        assert saved(other) == saved(predictor)


@every
def test_files_without_keys_have_nothing_of_them(make: Make) -> None:
    predictor = make()
    predictor.run([0, 1, 2, 0], lengths=[2, 2])
    opened = unsealed(saved(predictor))
    assert not [name for name in opened.arrays if name.startswith("key_") or name == "steps"]
    assert "keys" not in opened.values()


def bytes_of_positions(predictor: Any) -> int:
    """Return the bytes of the positions of keys, whatever their type."""
    if hasattr(predictor, "_context"):
        assert predictor.memory().allocated >= predictor._context.memory()[1]
        return int(predictor._context.memory()[1])
    if hasattr(predictor, "_tables"):
        return int(predictor._tables.memory())
    return len(getattr(predictor, "_positions", getattr(predictor, "_states", ())))


@every
def test_ended_keys_leave_nothing_behind(make: Make) -> None:
    predictor = make()
    predictor.update(0, "first")
    predictor.new_sequence("first")
    before = bytes_of_positions(predictor)
    predictor.run([0, 1, 2] * 20, keys=list(range(20)) * 3)
    assert bytes_of_positions(predictor) > before
    for key in range(20):
        predictor.new_sequence(key)
    assert bytes_of_positions(predictor) == before
    assert predictor.n_keys == 0


# --- Against slow twins

KEYS = [None, "a", "b", "c"]
events_of_keys = st.lists(
    st.tuples(st.sampled_from([0, 1, 2, 2, None, END]), st.sampled_from(KEYS)), max_size=60
)
TWINS: dict[str, tuple[Make, Callable[[], Any]]] = {
    "Markov(0)": (lambda: mdvpf.Markov(V, 0), lambda: ChainTwin(V, 0, 0.3)),
    "Markov(2)": (
        lambda: mdvpf.Markov(V, 2, beta=0.2, decay=0.5),
        lambda: ChainTwin(V, 2, 0.2, 0.5),
    ),
    "ContextTree": (lambda: mdvpf.ContextTree(V, 2), lambda: WeightingTwin(V, 2, 0.5)),
    "PitmanYorTree": (
        lambda: mdvpf.PitmanYorTree(V, 3, 0.6, 0.2),
        lambda: PitmanYorTwin(V, 3, 0.6, 0.2),
    ),
    "PitmanYorMixture": (
        lambda: mdvpf.PitmanYorMixture(V, [0, 2], [0.5, 0.8], [0.3], share=0.05),
        lambda: MixtureTwin(
            [PitmanYorTwin(V, d, discount, 0.3) for discount in (0.5, 0.8) for d in (0, 2)], 0.05
        ),
    ),
}


@pytest.mark.parametrize("name", TWINS)
@settings(max_examples=30, deadline=None)
@given(events=events_of_keys)
def test_contexts_of_keys_are_those_of_a_slow_twin(name: str, events: list[Any]) -> None:
    predictor, twin = TWINS[name][0](), TWINS[name][1]()
    for event, key in events:
        if event == END:
            predictor.new_sequence(key)
            twin.new_sequence(key)
        else:
            found = predictor.update(event, key).log_predictive
            assert found == pytest.approx(twin.update(event, key), rel=1e-9, abs=1e-12)
    for key in KEYS:
        np.testing.assert_allclose(predictor.predict_proba(key), twin.distribution(key), rtol=1e-9)


@pytest.mark.parametrize(
    ("machine", "forget", "lag"), [("mealy", 4.0, 2), ("moore", 0.0, 3), ("moore", 1.0, 0)]
)
def test_what_a_key_holds_back_waits_for_that_key(machine: str, forget: float, lag: int) -> None:
    learner = mdvpf.SoftHMM(V, 3, machine, forget, lag, 1.0, 10.0, 0.1, rng=3)
    twin = SoftTwin(V, 3, machine, forget, lag, 1.0, 10.0, 0.1, int(learner._keys[0]))
    rng = np.random.default_rng(lag)
    symbols, keys = random_stream(8, 1200, KEYS)
    for i, (symbol, key) in enumerate(zip(symbols, keys, strict=True)):
        if rng.random() < 0.05:
            other = KEYS[rng.integers(len(KEYS))]
            learner.new_sequence(other)
            twin.new_sequence(other)
        found = learner.update(symbol, key).log_predictive
        assert found == pytest.approx(twin.update(symbol, key), rel=1e-6, abs=1e-9), i
        if i % 300 == 0:
            for each in KEYS:
                np.testing.assert_allclose(
                    learner.predict_proba(each), twin.predict_proba(each), rtol=1e-6
                )


def test_a_switch_restarts_every_key() -> None:
    known = mdvpf.KnownHMM(HMMS, [4])
    known.run([0, 1, 0, 1], keys=["a", "b", "a", None])
    for key in ("a", "b", None):
        np.testing.assert_allclose(known.predict_proba(key), HMMS[1].start @ HMMS[1].emission)


# --- Untrusted files

BAD: list[tuple[str, str, Callable[[Any], Any]]] = [
    ("PitmanYorTree", "key_numbers", lambda a: a * 0 + 1),
    ("PitmanYorTree", "key_numbers", lambda a: a * 0),
    ("PitmanYorTree", "key_numbers", lambda a: a[:1]),
    ("PitmanYorTree", "key_numbers", lambda a: a.astype(np.uint64) + 2**32),
    ("PitmanYorTree", "key_lengths", lambda a: a + 1),
    ("PitmanYorTree", "key_lengths", lambda a: a.astype(np.uint64) + (2**64 - 1)),
    ("PitmanYorTree", "key_symbols", lambda a: a - 1),
    ("PitmanYorTree", "key_symbols", lambda a: a + V),
    ("PitmanYorTree", "key_symbols", lambda a: a[:-1]),
    ("Markov(2), fading", "key_lengths", lambda a: np.array([1, 3], a.dtype)),
    ("Markov(2), fading", "key_symbols", lambda a: a * 0 - 3),
    ("KnownHMM", "key_states", lambda a: a * 2),
    ("KnownHMM", "key_states", lambda a: a * np.nan),
    ("KnownHMM", "key_states", lambda a: a[:1]),
    ("FrozenFilter", "key_states", lambda a: -a),
    ("FrozenFilter", "key_log_weights", lambda a: a + 1),
    ("FrozenFilter", "key_log_weights", lambda a: a[:1]),
    ("SoftHMM, Mealy", "key_held", lambda a: a + 100),
    ("SoftHMM, Mealy", "key_held", lambda a: a * 0 - 2),
    ("SoftHMM, Mealy", "key_steps", lambda a: a + 1),
    ("SoftHMM, Mealy", "key_steps", lambda a: a[::-1].copy()),
    ("SoftHMM, Mealy", "key_steps", lambda a: a * 1000),
    ("SoftHMM, Mealy", "key_posterior", lambda a: a * 2),
    ("SoftHMM, Mealy", "key_lengths", lambda a: a + 1),
    ("SoftHMM, Mealy", "key_lengths", lambda a: np.array([a.sum(), 0], a.dtype)),
    ("frozen SoftHMM, Mealy", "key_log_weights", lambda a: a + 1),
]


@pytest.mark.parametrize(("maker", "name", "change"), BAD)
def test_positions_that_make_no_sense_are_refused(
    maker: str, name: str, change: Callable[[Any], Any]
) -> None:
    predictor = MAKERS[maker]()
    predictor.run([0, 1, 2, 0, 1, 2, 0, 1], keys=["a", "b"] * 4)
    opened = unsealed(saved(predictor))
    assert loaded(sealed(opened)).n_keys == predictor.n_keys
    opened.arrays[name] = change(opened.arrays[name])
    with pytest.raises(mdvpf.CheckpointError):
        loaded(sealed(opened))


def test_the_steps_of_no_key_are_checked() -> None:
    learner = mdvpf.SoftHMM(V, 4, rng=1)
    learner.run([0, 1, 2, 0, 1, 2], keys=[None, "b"] * 3)
    opened = unsealed(saved(learner))
    assert opened.arrays["steps"].tolist() == [0, 3, 5]
    opened.arrays["steps"] = np.array([0, 5, 3])
    with pytest.raises(mdvpf.CheckpointError):
        loaded(sealed(opened))


@every
def test_bad_keys_change_nothing(make: Make) -> None:
    predictor = make()
    before = saved(predictor)
    for key in (1.5, ["a"], {"a": 1}):
        with pytest.raises(TypeError, match="key"):
            predictor.update(0, key)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="key"):
            predictor.predict_proba(key)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="key"):
            predictor.new_sequence(key)  # type: ignore[arg-type]
    assert saved(predictor) == before
