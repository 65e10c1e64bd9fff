"""A predictor of one's own: what the protocol asks for is enough for everything built on it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

import mdvpf


class Last(mdvpf.Predictor):
    """Expects the last symbol again, with probability 3/4; the first of a sequence is even."""

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
    # Copies born after the second symbol, with a mass of 0.02, have no past: they are even.
    expected = [0.5, 0.75, 1.0, 0.98 * 0.25 + 0.02 * 0.5, 0.5]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    surprise = mdvpf.SurpriseDetector(Last()).run(SYMBOLS, LENGTHS).surprise
    np.testing.assert_allclose(np.exp(-surprise), PROBABILITIES, rtol=1e-15)
