"""A new key ends the one used longest ago, and is predicted as `predict_proba` says before that."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import mdvpf
from mdvpf.mixture.recall import Recall
from mdvpf.predictor import Step
from mdvpf.reference import ReferenceFilter

V = 3
KEYS = [None, "a", "b", 5]
ALGORITHMS = [
    mdvpf.MDVPA(),
    mdvpf.MDVPA(selection="optimal"),
    mdvpf.VPA(),
    mdvpf.SMC(),
    mdvpf.ParticleLearning(),
    mdvpf.OptimalResampling(),
]
MODELS = [
    mdvpf.InfiniteHMM(V),
    mdvpf.InfiniteHMM(V, forget=4.0, machine="mealy", oracle="rows"),
    mdvpf.InfiniteHMM(V, half_life=20.0, kappa=1.0),
]


class Counter(mdvpf.Predictor):
    """A user's predictor that counts a symbol only when its sequence ends."""

    def __init__(self) -> None:
        self.counts = np.ones(V)
        self.waiting: dict[object, list[int]] = {}

    @property
    def n_symbols(self) -> int:
        return V

    def predict_proba(self, key: object = None) -> np.ndarray:  # type: ignore[override]
        return self.counts / self.counts.sum()

    def update(self, symbol: int | None, key: object = None) -> Step:  # type: ignore[override]
        found = 0.0 if symbol is None else math.log(self.predict_proba()[symbol])
        self.waiting.setdefault(key, []).extend([] if symbol is None else [symbol])
        return Step(found, mean_states=1.0, ess=1.0, n_particles=1, discarded=0.0)

    def new_sequence(self, key: object = None) -> None:  # type: ignore[override]
        for symbol in self.waiting.pop(key, []):
            self.counts[symbol] += 1.0

    def copy(self) -> Counter:
        other = Counter()
        other.counts = self.counts.copy()
        other.waiting = {key: list(symbols) for key, symbols in self.waiting.items()}
        return other


def soft_hmm(**options: object) -> mdvpf.SoftHMM:
    return mdvpf.SoftHMM(V, n_states=5, rng=0, **options)  # type: ignore[arg-type]


def optimal() -> mdvpf.ParticleFilter:
    algorithm = mdvpf.MDVPA(selection="optimal")
    return mdvpf.ParticleFilter(MODELS[0], algorithm, 5, rng=0)


OTHERS: dict[str, Callable[[], mdvpf.Predictor]] = {
    "SoftHMM": lambda: soft_hmm(n_seeds=2),
    "SoftHMM without lag": lambda: soft_hmm(lag=0, machine="moore"),
    "PitmanYorTree": lambda: mdvpf.PitmanYorTree(V),
    "Mixture": lambda: mdvpf.Mixture([optimal(), soft_hmm()], restart=8),
    "Mixture with a user's predictor": lambda: mdvpf.Mixture([Counter(), soft_hmm()]),
    "GeometricMixture": lambda: mdvpf.GeometricMixture([optimal(), soft_hmm(), Counter()]),
    "Recall": lambda: Recall(mdvpf.GeometricMixture([mdvpf.Markov(V), soft_hmm()]), block=16),
    "auto": lambda: mdvpf.auto(V, rng=0),
    "a user's predictor": Counter,
    "frozen": lambda: soft_hmm().freeze(),
}


def stream(n: int) -> list[tuple[int | None, str | int | None]]:
    rng = np.random.default_rng(0)
    symbols = [None if rng.random() < 0.1 else int(rng.integers(V)) for _ in range(n)]
    return [(symbol, KEYS[rng.integers(len(KEYS))]) for symbol in symbols]


def check(predictor: mdvpf.Predictor, tolerance: float = 1e-10) -> None:
    predictor.max_keys = 2
    other = predictor.copy()
    pairs = stream(120)
    found = []
    for symbol, key in pairs:
        predicted = predictor.predict_proba(key=key)
        found.append(predictor.update(symbol, key=key).log_predictive)
        expected = 0.0 if symbol is None else math.log(predicted[symbol])
        assert found[-1] == pytest.approx(expected, rel=0, abs=tolerance)
        assert predictor.n_keys <= 2
    symbols, keys = zip(*pairs, strict=True)
    result = other.run(list(symbols), keys=list(keys))
    np.testing.assert_allclose(result.log_predictive, found, rtol=0, atol=tolerance)
    for key in KEYS:
        one, two = predictor.predict_proba(key=key), other.predict_proba(key=key)
        np.testing.assert_allclose(one, two, rtol=0, atol=tolerance)


@pytest.mark.parametrize("model", MODELS, ids=["plain", "mealy", "sticky"])
@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=repr)
def test_filters_predict_a_new_key_as_they_score_it(
    model: mdvpf.InfiniteHMM, algorithm: mdvpf.model.Algorithm
) -> None:
    # Counts that fade have 32 bits.
    tolerance = 1e-10 if model is MODELS[0] else 1e-6
    check(mdvpf.ParticleFilter(model, algorithm, 10, rng=1), tolerance)


@pytest.mark.parametrize("name", OTHERS)
def test_others_predict_a_new_key_as_they_score_it(name: str) -> None:
    check(OTHERS[name](), 1e-6 if name == "auto" else 1e-10)


@pytest.mark.parametrize("max_keys", [1, 2])
def test_the_core_makes_room_as_the_reference_does(max_keys: int) -> None:
    algorithm = mdvpf.MDVPA(selection="optimal")
    options = {"n_particles": 8, "max_keys": max_keys}
    pf = mdvpf.ParticleFilter(MODELS[0], algorithm, rng=3, **options)  # type: ignore[arg-type]
    slow = ReferenceFilter(MODELS[0], algorithm, rng=3, **options)  # type: ignore[arg-type]
    for symbol, key in stream(60):
        predicted = slow.predict_proba(key)
        found, step = pf.update(symbol, key), slow.update(symbol, key)
        expected = 0.0 if symbol is None else math.log(predicted[symbol])
        assert step.log_predictive == pytest.approx(expected, rel=0, abs=1e-10)
        assert found.log_predictive == pytest.approx(step.log_predictive, rel=0, abs=1e-10)
        assert pf.n_keys == slow.n_keys <= max_keys
        pf._core.verify()
