"""The predictions of single particles add up to that of the filter."""

from __future__ import annotations

import numpy as np
import pytest

from mdvpf import SMC, VPA, InfiniteHMM, Markov, ParticleFilter, estimation_variance
from mdvpf.filter.variance import particle_predictives
from mdvpf.model.algorithms import ALGORITHMS

MODELS = [
    InfiniteHMM(4, alpha=0.7, gamma=2.0, beta=0.2),
    InfiniteHMM(4, alpha=0.7, gamma=2.0, beta=0.2, oracle="any"),
    InfiniteHMM(4, beta=0.2, max_states=2),
    InfiniteHMM(4, beta=0.2, oracle="rows"),
    InfiniteHMM(4, beta=0.2, machine="mealy"),
    InfiniteHMM(4, beta=0.2, kappa=2.0, max_states=3),
]
NAMES = ["unvisited", "any", "bounded", "rows", "mealy", "sticky"]


@pytest.mark.parametrize("model", MODELS, ids=NAMES)
@pytest.mark.parametrize("kind", ALGORITHMS)
def test_weighted_mean_is_the_predictive(kind: type, model: InfiniteHMM) -> None:
    symbols = np.random.default_rng(1).integers(0, 4, size=40)
    pf = ParticleFilter(model, kind(), n_particles=20, rng=2)
    for symbol in symbols.tolist():
        expected = pf.predict_proba()
        for candidate in range(4):
            values = particle_predictives(pf, candidate)
            assert pf.weights @ values == pytest.approx(expected[candidate], abs=1e-12)
        pf.update(symbol)
    pf.update(None)
    pf.new_sequence()
    assert pf.weights @ particle_predictives(pf, 0) == pytest.approx(pf.predict_proba()[0])


def test_variance_is_of_the_symbol_to_come() -> None:
    symbols = np.random.default_rng(3).integers(0, 4, size=25)
    pf = ParticleFilter(MODELS[0], SMC(), n_particles=15, rng=4)
    for symbol in symbols.tolist():
        values, weights = particle_predictives(pf, symbol), pf.weights
        second = weights @ values**2
        expected = second - (weights @ values) ** 2
        assert estimation_variance(pf, symbol) == pytest.approx(expected, abs=1e-12)
        pf.update(symbol)


def test_one_particle_agrees_with_itself() -> None:
    pf = ParticleFilter(MODELS[0], VPA(), n_particles=1)
    pf.run([0, 1, 2, 3] * 5)
    assert estimation_variance(pf, 2) == pytest.approx(0, abs=1e-30)


def test_bad_input_is_named() -> None:
    with pytest.raises(TypeError, match="pf=Markov"):
        estimation_variance(Markov(3), 0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="symbol=4: expected"):
        estimation_variance(ParticleFilter(MODELS[0], VPA(), n_particles=1), 4)
