"""Mixtures on interleaved sequences and open alphabets, against the formulas written out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mdvpf
from mdvpf.mixture.frozen import FrozenMixture
from mdvpf.predictor import Predictor
from tests.kernel.sealing import loaded, saved, sealed, unsealed
from tests.keyed_predictors import (
    NumberedChain,
    OwnChain,
    OwnOpenCounts,
    SavedChain,
    interleaved,
)
from tests.unit.test_predictor import Last

BETAS = (1.0, 0.1)
MAKERS = {"users' own": OwnChain, "by number": NumberedChain}
SHARE = 0.1


def chains(kind: str) -> list[Predictor]:
    return [MAKERS[kind](beta) for beta in BETAS]


def scores(
    predictor: Predictor, symbols: Sequence[int | None], keys: Sequence[Any] | None, by: str
) -> NDArray[np.float64]:
    """The log-probabilities of the symbols by one `run`, or by an `update` each."""
    if by == "run":
        return predictor.run(symbols, keys=keys).log_predictive
    pairs = zip(symbols, keys or [None] * len(symbols), strict=True)
    return np.array([predictor.update(symbol, key).log_predictive for symbol, key in pairs])


class Twin:
    """The mixture of `OwnChain` written out: a list of members with their weights."""

    def __init__(self, share: float, every: int = 0, mass: float = 0.0) -> None:
        self.share, self.every, self.mass = share, every, mass
        self.rows = [[OwnChain(beta) for beta in BETAS]]
        self.weights = [np.full(len(BETAS), 1.0 / len(BETAS))]
        self.n = 0

    def predict(self, key: Any) -> NDArray[np.float64]:
        total = np.zeros(OwnChain.n_symbols)
        for row, weights in zip(self.rows, self.weights, strict=True):
            for member, weight in zip(row, weights, strict=True):
                total += weight * member.predict_proba(key)
        return total

    def update(self, symbol: int | None, key: Any) -> float:
        score = 0.0 if symbol is None else math.log(self.predict(key)[symbol])
        found = [[m.update(symbol, key).log_predictive for m in row] for row in self.rows]
        if symbol is not None:
            joint = [w * np.exp(f) for w, f in zip(self.weights, found, strict=True)]
            total = sum(w.sum() for w in joint)
            n_all = sum(len(w) for w in joint)
            self.weights = [(1 - self.share) * w / total + self.share / n_all for w in joint]
        self.n += 1
        if self.every and self.n % self.every == 0:  # one level of copies, all of them replaced
            rest = self.weights[0].sum()
            self.weights = [
                (1 - self.mass) * self.weights[0] / rest,
                np.full(len(BETAS), self.mass / len(BETAS)),
            ]
            self.rows = [self.rows[0], [OwnChain(beta) for beta in BETAS]]
        return score


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("by", ["run", "update"])
def test_interleaved_sequences_are_as_the_formula_has_them(kind: str, by: str) -> None:
    symbols, keys = interleaved(300, 4, seed=1)
    mixture, twin = mdvpf.Mixture(chains(kind), share=SHARE), Twin(SHARE)
    expected = [twin.update(symbol, key) for symbol, key in zip(symbols, keys, strict=True)]
    found = scores(mixture, symbols, keys, by)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    for key in set(keys):
        np.testing.assert_allclose(mixture.predict_proba(key), twin.predict(key), rtol=1e-10)
    np.testing.assert_allclose(
        mixture.predict_proba("another"), twin.predict("another"), rtol=1e-10
    )
    np.testing.assert_allclose(mixture.weights, twin.weights[0], rtol=1e-9)
    assert mixture.n_keys == 4


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("by", ["run", "update"])
def test_for_copies_that_start_afresh_all_keys_stand_at_the_start(kind: str, by: str) -> None:
    symbols, keys = interleaved(200, 3, seed=2)
    restart = mdvpf.Restart(every=20, mass=0.3, levels=1)
    mixture = mdvpf.Mixture(chains(kind), share=SHARE, restart=restart)
    twin = Twin(SHARE, every=40, mass=0.3)  # of one level, births are at odd multiples of `every`
    twin.n = 20
    expected = [twin.update(symbol, key) for symbol, key in zip(symbols, keys, strict=True)]
    found = scores(mixture, symbols, keys, by)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", MAKERS)
def test_a_nested_mixture_takes_keys(kind: str) -> None:
    symbols, keys = interleaved(100, 3, seed=3)
    inner = mdvpf.Mixture(chains(kind), share=SHARE)
    outer = mdvpf.Mixture([inner], share=SHARE)
    found = outer.run(symbols, keys=keys).log_predictive
    np.testing.assert_allclose(found, inner.run(symbols, keys=keys).log_predictive, rtol=1e-12)


@pytest.mark.parametrize("kind", MAKERS)
def test_the_end_of_a_sequence_reaches_all_members(kind: str) -> None:
    symbols, keys = interleaved(60, 3, seed=4)
    mixture = mdvpf.Mixture(chains(kind), share=SHARE, restart=8)
    mixture.run(symbols, keys=keys)
    fresh = mixture.predict_proba("another")
    others = mixture.predict_proba("key 2")
    assert not np.allclose(mixture.predict_proba("key 1"), fresh)
    mixture.new_sequence("key 1")
    np.testing.assert_array_equal(mixture.predict_proba("key 1"), fresh)
    np.testing.assert_array_equal(mixture.predict_proba("key 2"), others)
    assert mixture.n_keys == 2


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("by", ["run", "update"])
def test_evictions_reach_all_members(kind: str, by: str) -> None:
    symbols, keys = interleaved(200, 6, seed=5)
    bounded = mdvpf.Mixture(chains(kind), share=SHARE, restart=16)
    bounded.max_keys = 2
    by_hand = mdvpf.Mixture(chains(kind), share=SHARE, restart=16)
    expected, in_use = [], []
    for symbol, key in zip(symbols, keys, strict=True):
        if key in in_use:
            in_use.remove(key)
        elif len(in_use) == 2:
            by_hand.new_sequence(in_use.pop(0))
        in_use.append(key)
        expected.append(by_hand.update(symbol, key).log_predictive)
    found = scores(bounded, symbols, keys, by)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
    assert bounded.n_keys == 2


def test_a_member_without_keys_is_named_before_anything_has_changed() -> None:
    mixture = mdvpf.Mixture([Last(), Last()])
    mixture.run([0, 1, 1])
    before = mixture.predict_proba()
    message = r"members\[0\]: keys: Last takes none"
    with pytest.raises(TypeError, match=message):
        mixture.update(0, key="a")
    with pytest.raises(TypeError, match=message):
        mixture.run([0, 1], keys=["a", "b"])
    with pytest.raises(TypeError, match=message):
        mixture.new_sequence("a")
    with pytest.raises(TypeError, match=message):
        mixture.predict_proba("a")
    np.testing.assert_array_equal(mixture.predict_proba(), before)
    assert mixture.n_keys == 1
    mixture.update(0)


def test_a_member_without_keys_of_a_nested_mixture_is_named() -> None:
    class NoKeys(OwnChain):
        def update(self, symbol: int | None) -> mdvpf.Step:
            return super().update(symbol)

    outer = mdvpf.Mixture([mdvpf.Mixture([OwnChain(), NoKeys()])])
    outer.update(0)
    with pytest.raises(TypeError, match=r"members\[0\]: members\[1\]: keys: NoKeys takes none"):
        outer.update(0, key="a")
    assert outer.n_keys == 1


def test_keys_that_members_had_are_ended() -> None:
    chain = OwnChain()
    chain.run([0, 1, 2, 0, 1, 2], keys=["a", "b", "a", "b", "a", "b"])
    mixture = mdvpf.Mixture([chain])
    np.testing.assert_allclose(mixture.predict_proba("a"), chain.predict_proba("another"))
    numbered = NumberedChain()
    numbered.run([0, 1, 2, 0, 1, 2], keys=["a", "b", "a", "b", "a", "b"])
    mixture = mdvpf.Mixture([numbered])
    for key in ("a", "b", "c"):
        np.testing.assert_allclose(mixture.predict_proba(key), numbered.predict_proba("another"))
    assert (mixture.n_keys, numbered.n_keys) == (0, 2)


@pytest.mark.parametrize("by", ["run", "update"])
def test_frozen_weights_belong_to_a_key(by: str) -> None:
    symbols, keys = interleaved(150, 3, seed=6)
    mixture = mdvpf.Mixture(chains("users' own"), share=SHARE)
    mixture.run(symbols, keys=keys)
    frozen = mixture.freeze()
    assert frozen.n_keys == 3
    # Each key by itself, on a frozen mixture of its own: nothing of the others matters.
    alone = {key: mixture.freeze() for key in (*set(keys), "another")}
    later, later_keys = interleaved(150, 3, seed=7)
    later_keys = [
        "another" if key == "key 1" and i % 2 else key for i, key in enumerate(later_keys)
    ]
    pairs = list(zip(later, later_keys, strict=True))
    expected = [alone[key].update(symbol, key).log_predictive for symbol, key in pairs]
    found = scores(frozen, later, later_keys, by)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
    for key, other in alone.items():
        np.testing.assert_allclose(frozen.predict_proba(key), other.predict_proba(key), rtol=1e-12)
    np.testing.assert_allclose(frozen.weights, alone[None].weights, rtol=1e-12)
    copy = frozen.copy()
    frozen.new_sequence("key 2")
    start = frozen.predict_proba("never used")
    np.testing.assert_array_equal(frozen.predict_proba("key 2"), start)
    assert not np.allclose(copy.predict_proba("key 2"), start)


def test_a_frozen_mixture_ends_the_keys_of_members_that_it_is_given() -> None:
    chain = OwnChain()
    chain.run([0, 1, 2, 0, 1, 2], keys=["a", "b", "a", "b", "a", "b"])
    frozen = FrozenMixture([chain], [1.0])
    np.testing.assert_array_equal(frozen.predict_proba("a"), chain.predict_proba("another"))


# -- checkpoints ---------------------------------------------------------------------------------


def saved_chains() -> list[Predictor]:
    return [SavedChain(beta) for beta in BETAS]


@pytest.mark.parametrize("frozen", [False, True])
def test_keys_survive_a_checkpoint(frozen: bool) -> None:
    symbols, keys = interleaved(150, 4, seed=8)
    inner = mdvpf.Mixture(saved_chains(), restart=16)
    mixture: Predictor = mdvpf.Mixture([inner, SavedChain(3.0)], restart=8)
    mixture.max_keys = 3
    mixture.run(symbols[:50], keys=keys[:50])
    if frozen:
        mixture = mixture.freeze()
        mixture.run(symbols[50:100], keys=keys[50:100])
    twin = loaded(saved(mixture))
    assert (twin.n_keys, twin.max_keys) == (mixture.n_keys, 3)
    for key in set(keys):
        np.testing.assert_array_equal(twin.predict_proba(key), mixture.predict_proba(key))
    np.testing.assert_array_equal(
        twin.run(symbols[100:], keys=keys[100:]).log_predictive,
        mixture.run(symbols[100:], keys=keys[100:]).log_predictive,
    )


def test_a_frozen_mixture_without_keys_is_saved_as_ever() -> None:
    mixture = mdvpf.Mixture(saved_chains())
    mixture.run([0, 1, 2])
    frozen = mixture.freeze()
    frozen.run([0, 1, 2, 2])
    opened = unsealed(saved(frozen))
    assert {name for name in opened.arrays if "weight" in name or "key" in name} == {
        "log_weight",
        "present_log_weight",
    }
    assert "keys" not in opened.values()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda arrays: arrays["key_numbers"].__setitem__(0, 0),
        lambda arrays: arrays["key_numbers"].__setitem__(0, -3),
        lambda arrays: arrays["key_numbers"].__setitem__(0, arrays["key_numbers"][1]),
        lambda arrays: arrays["key_log_weights"].__setitem__((0, 0), 1.0),
        lambda arrays: arrays["key_log_weights"].__setitem__((0, 0), np.nan),
        lambda arrays: arrays["key_log_weights"].__setitem__((0, 0), -np.inf),
        lambda arrays: arrays.update(key_log_weights=arrays["key_log_weights"][:1]),
        lambda arrays: arrays.update(key_log_weights=arrays["key_log_weights"][:, :1]),
        lambda arrays: arrays.update(key_numbers=arrays["key_numbers"].astype(np.float64)),
        lambda arrays: arrays.pop("key_log_weights"),
        lambda arrays: arrays.pop("key_numbers"),
    ],
)
def test_frozen_weights_that_cannot_be_are_refused(spoil: Any) -> None:
    mixture = mdvpf.Mixture(saved_chains())
    mixture.run([0, 1, 2])
    frozen = mixture.freeze()
    frozen.run([0, 1, 2, 2], keys=["a", "b", "a", None])
    opened = unsealed(saved(frozen))
    assert loaded(sealed(opened)).n_keys == 3
    spoil(opened.arrays)
    with pytest.raises(mdvpf.CheckpointError):
        loaded(sealed(opened))


def test_update_ends_the_key_used_longest_ago() -> None:
    def make() -> mdvpf.Mixture:
        return mdvpf.Mixture([mdvpf.Markov(3), mdvpf.ContextTree(3)])

    bounded, twin = make(), make()
    for each in (bounded, twin):
        each.new_sequence()
    bounded.max_keys = 2
    for symbol, key in [(0, "a"), (1, "b"), (2, "c"), (1, "a")]:
        if key == "c":
            twin.new_sequence("a")
        if key == "a" and symbol == 1:
            twin.new_sequence("b")
        assert bounded.update(symbol, key) == twin.update(symbol, key)
    assert bounded.n_keys == 2
    with pytest.raises(TypeError, match="key"):
        bounded.new_sequence(1.5)  # type: ignore[arg-type]
    assert bounded.update(0, "a") == twin.update(0, "a")


# -- open alphabets ------------------------------------------------------------------------------

OPEN_SYMBOLS = [0, 1, None, 0, 2, 1, 1, 3, 0, 2, 4, 1]


@pytest.mark.parametrize("by", ["run", "update"])
def test_open_alphabets_are_as_the_formula_has_them(by: str) -> None:
    discounts = (0.5, 0.1)
    twins = [OwnOpenCounts(discount) for discount in discounts]
    weights = np.array([0.5, 0.5])
    expected = []
    for symbol in OPEN_SYMBOLS:
        found = [member.predict_proba() for member in twins]
        if symbol is None:
            expected.append(0.0)
            continue
        joint = np.array([w * p[symbol] for w, p in zip(weights, found, strict=True)])
        expected.append(math.log(joint.sum()))
        weights = joint / joint.sum()
        for member in twins:
            member.update(symbol)
    mixture = mdvpf.Mixture([OwnOpenCounts(discount) for discount in discounts], share=0.0)
    assert mixture.is_open
    assert mixture.predict_proba().tolist() == [1.0]
    found = scores(mixture, OPEN_SYMBOLS, None, by)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
    assert mixture.n_symbols == 5
    assert mixture.predict_proba().shape == (6,)
    assert mixture.predict_proba().sum() == pytest.approx(1.0, rel=1e-12)
    with pytest.raises(ValueError, match="symbol=6"):
        mixture.update(6)
    with pytest.raises(ValueError, match=r"symbols\[1\]=7"):
        mixture.run([5, 7])
    assert mixture.n_symbols == 5


def test_all_members_are_open_or_none() -> None:
    seen = OwnOpenCounts()
    seen.run([0, 1, 2])
    with pytest.raises(ValueError, match=r"members\[1\] has an open one: expected a closed"):
        mdvpf.Mixture([OwnChain(), seen])
    with pytest.raises(ValueError, match=r"members\[1\] has 0 symbols: expected 3"):
        mdvpf.Mixture([seen, OwnOpenCounts()])
    with pytest.raises(ValueError, match="restart=8: expected None"):
        mdvpf.Mixture([seen], restart=8)


def test_ready_made_mixtures_say_that_they_need_an_alphabet() -> None:
    with pytest.raises(ValueError, match="n_symbols=None: expected an integer"):
        mdvpf.by_evidence(None)
    with pytest.raises(ValueError, match="n_symbols=None: expected an integer"):
        mdvpf.auto(None, version=1)
