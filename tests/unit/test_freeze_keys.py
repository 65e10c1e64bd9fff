"""What is frozen continues every key from where it stands."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import mdvpf
from tests.kernel.sealing import reloaded

V = 3
KEYS = [None, "a", "b", "c"]
SYMBOLS = [0, 1, 2, 1] * 60


def pf(algorithm: mdvpf.model.Algorithm, **options: object) -> mdvpf.ParticleFilter:
    model = mdvpf.InfiniteHMM(V, beta=0.01, **options)  # type: ignore[arg-type]
    return mdvpf.ParticleFilter(model, algorithm, 20, rng=0)


MAKERS: dict[str, Callable[[], mdvpf.Predictor]] = {
    "MD-VPA": lambda: pf(mdvpf.MDVPA()),
    "VPA": lambda: pf(mdvpf.VPA()),
    "Mealy": lambda: pf(mdvpf.VPA(), machine="mealy"),
    "SMC": lambda: pf(mdvpf.SMC(), forget=2.0),
    "Mixture": lambda: mdvpf.Mixture([pf(mdvpf.VPA()), mdvpf.Mixture([pf(mdvpf.MDVPA())])]),
    "GeometricMixture": lambda: mdvpf.GeometricMixture([pf(mdvpf.VPA()), mdvpf.Markov(V)]),
}


def learnt(name: str, keys: list[str | None]) -> mdvpf.Predictor:
    """A predictor that has learnt a cycle, with keys at various places of it."""
    predictor = MAKERS[name]()
    predictor.run(np.repeat(SYMBOLS, len(keys)), keys=keys * len(SYMBOLS))
    for i, key in enumerate(keys):
        for symbol in SYMBOLS[:i]:
            predictor.update(symbol, key=key)
    return predictor


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("keys", [["a", "b", "c"], [None, "a"], ["b", None]])
def test_what_is_frozen_predicts_each_key_as_before(name: str, keys: list[str | None]) -> None:
    predictor = learnt(name, keys)
    frozen = predictor.freeze()
    for key in KEYS:
        expected = predictor.predict_proba(key=key)
        # What is frozen has no new state and, if it was open, other tables: about equal.
        np.testing.assert_allclose(frozen.predict_proba(key=key), expected, rtol=0, atol=0.02)
    assert frozen.n_keys == predictor.n_keys


@pytest.mark.parametrize("name", MAKERS)
def test_keys_of_what_is_frozen_end_and_are_saved(name: str) -> None:
    frozen = learnt(name, ["a", "b", "c"]).freeze()
    loaded = reloaded(frozen)
    for key in KEYS:
        expected = frozen.predict_proba(key=key).tolist()
        assert loaded.predict_proba(key=key).tolist() == expected
    start = frozen.predict_proba(key="unused")
    frozen.new_sequence("b")
    assert frozen.predict_proba(key="b").tolist() == start.tolist()
    assert frozen.n_keys == 2
