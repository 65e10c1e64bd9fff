"""A user's own predictor: the protocol suffices for everything built on it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

import mdvpf
from tests.keyed_predictors import NumberedChain, OwnChain


class Last(mdvpf.Predictor):
    """Predict the last symbol again with probability 3/4; uniform at the start of a sequence."""

    n_symbols = 2

    def __init__(self) -> None:
        self.last: int | None = None

    def predict_proba(self) -> NDArray[np.float64]:
        if self.last is None:
            return np.array([0.5, 0.5])
        return np.where(np.arange(2) == self.last, 0.75, 0.25)

    def update(self, symbol: int | None) -> mdvpf.Step:
        log_predictive = 0.0 if symbol is None else math.log(self.predict_proba()[symbol])
        self.last = self.last if symbol is None else symbol
        return mdvpf.Step(log_predictive, 2.0, 1.0, 1, 0.0)

    def new_sequence(self) -> None:
        self.last = None

    def copy(self) -> Last:
        other = Last()
        other.last = self.last
        return other


SYMBOLS = [0, 0, None, 1, 1]
LENGTHS = [4, 1]
PROBABILITIES = [0.5, 0.75, 1.0, 0.25, 0.5]


def test_it_runs_and_scores() -> None:
    predictor = Last()
    score = predictor.score(SYMBOLS, LENGTHS)
    assert predictor.last is None
    result = predictor.run(SYMBOLS, LENGTHS)
    np.testing.assert_allclose(np.exp(result.log_predictive), PROBABILITIES, rtol=1e-15)
    np.testing.assert_array_equal(score, result.log_predictive)
    assert result.log_evidence == pytest.approx(math.log(math.prod(PROBABILITIES)), rel=1e-15)
    assert result.mean_states.tolist() == [2.0] * 5
    assert result.n_particles.tolist() == [1] * 5
    assert predictor.last == 1


def test_mixtures_and_detectors_take_it() -> None:
    mixture = mdvpf.Mixture([Last(), Last()], restart=2)
    found = np.exp(mixture.run(SYMBOLS, LENGTHS).log_predictive)
    # Copies made after the second symbol, with a mass of 0.02, have no past: they are uniform.
    expected = [0.5, 0.75, 1.0, 0.98 * 0.25 + 0.02 * 0.5, 0.5]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    surprise = mdvpf.SurpriseDetector(Last()).run(SYMBOLS, LENGTHS).surprise
    np.testing.assert_allclose(np.exp(-surprise), PROBABILITIES, rtol=1e-15)


# -- keys ----------------------------------------------------------------------------------------


def test_without_key_it_works_while_no_key_is_given() -> None:
    predictor = Last()
    predictor.run(SYMBOLS, LENGTHS)
    with pytest.raises(TypeError, match="keys: Last takes none"):
        predictor.run([0, 1], keys=["a", "b"])
    assert predictor.last == 1


KEYS = ["a", 0, "a", None, 0]  # 0 is a key like any other


@pytest.mark.parametrize("kind", [OwnChain, NumberedChain])
def test_keys_are_counted_and_ended(kind: type[OwnChain]) -> None:
    by_run, by_update = kind(), kind()
    symbols = [0, 1, 2, 0, 1]
    found = by_run.run(symbols, keys=KEYS).log_predictive
    pairs = zip(symbols, KEYS, strict=True)
    expected = [by_update.update(symbol, key).log_predictive for symbol, key in pairs]
    assert found.tolist() == expected
    for key in KEYS:
        np.testing.assert_array_equal(by_run.predict_proba(key), by_update.predict_proba(key))
    for predictor in (by_run, by_update):
        assert predictor.n_keys == 3
        assert predictor.copy().n_keys == 3
        assert predictor._table.labels() == ["a", None, 0]  # the one used longest ago comes first
        predictor.max_keys = 2
        assert predictor._table.labels() == [None, 0]
        predictor.update(0, "b")
        assert predictor._table.labels() == [0, "b"]
        with pytest.raises(ValueError, match="symbol=9"):
            predictor.update(9, "c")
        assert predictor._table.labels() == [0, "b"]
        predictor.run([0, 1, 2], keys=["c", "d", "c"])
        assert predictor._table.labels() == ["d", "c"]
        assert len(predictor.inside.last) == 2
        predictor.new_sequence("d")
        assert predictor.n_keys == 1


def test_an_update_that_returns_no_step_is_named() -> None:
    class Bare(Last):
        def update(self, symbol: int | None) -> float:
            return super().update(symbol).log_predictive

        def copy(self) -> Bare:
            return Bare()

    expected = r"Bare.update returned -0\.69\d*: expected a Step"
    with pytest.raises(TypeError, match=expected):
        Bare().run([0, 1])
    with pytest.raises(TypeError, match=expected):
        mdvpf.Mixture([Bare()]).update(0)
