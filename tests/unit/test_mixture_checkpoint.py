"""Mixtures are saved and loaded like a filter: they go on as if never interrupted."""

from __future__ import annotations

import copy
import io
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import mdvpf

SYMBOLS = np.random.default_rng(0).integers(3, size=120)


def some_mixture(discount: Any = "1/n", **options: Any) -> mdvpf.Mixture:
    model = mdvpf.InfiniteHMM(3, beta=0.1)
    inner = mdvpf.Mixture([mdvpf.Markov(3, order=o) for o in (0, 1)], share="1/n", restart=4)
    members = [
        mdvpf.ParticleFilter(model, mdvpf.MDVPA(discount=discount), 10),
        mdvpf.ParticleFilter(model, mdvpf.OptimalResampling(), 10, rng=1),
        mdvpf.ContextTree(3),
        inner,
    ]
    return mdvpf.Mixture(members, **options)


def saved(mixture: mdvpf.Mixture) -> io.BytesIO:
    file = io.BytesIO()
    mixture.save(file)
    file.seek(0)
    return file


@pytest.mark.parametrize("n", [0, 1, 7, 8, 60])
@pytest.mark.parametrize(
    "options",
    [{}, {"restart": 8}, {"restart": mdvpf.Restart(3, mass="1/n", levels=2), "share": 0.0}],
)
def test_it_goes_on_as_if_never_interrupted(n: int, options: dict[str, Any]) -> None:
    mixture = some_mixture(n_threads=2, **options)
    if n:
        mixture.run(SYMBOLS[:n])
    for twin in (
        mdvpf.Mixture.load(saved(mixture)),
        mdvpf.Predictor.load(saved(mixture)),
        pickle.loads(pickle.dumps(mixture)),
        copy.deepcopy(mixture),
    ):
        assert repr(twin) == repr(mixture)
        assert twin.n_threads == 2
        assert_array_equal(twin.predict_proba(), mixture.predict_proba())
        expected = mixture.copy().run(SYMBOLS[n:])
        result = twin.run(SYMBOLS[n:])
        for name in ("log_predictive", "weights", "member_log_predictive", "ess"):
            assert_array_equal(getattr(result, name), getattr(expected, name))


def test_a_callable_discount_is_asked_for() -> None:
    def half(n: int) -> float:
        return 0.5

    mixture = some_mixture(half, restart=4)
    mixture.run(SYMBOLS[:10])
    with pytest.raises(mdvpf.CheckpointError, match="discount"):
        mdvpf.Mixture.load(saved(mixture))
    twin = mdvpf.Mixture.load(saved(mixture), discount=half)
    assert_array_equal(twin.score(SYMBOLS), mixture.score(SYMBOLS))
    two = mdvpf.Mixture([some_mixture(half), some_mixture(lambda n: 0.25)])
    with pytest.raises(TypeError, match="different callables"):
        two.save(io.BytesIO())


@pytest.mark.parametrize(
    "spoil",
    [
        lambda s: s.values.update(time=3),
        lambda s: s.values.update(time=-1),
        lambda s: s.values.update(time=1.5),
        lambda s: s.values.update(n_shared=1000),
        lambda s: s.values.update(shape=[1, 4]),
        lambda s: s.values.update(shape=[4]),
        lambda s: s.values.update(restart=None),
        lambda s: s.values.update(restart={"every": 0, "mass": 0.1, "levels": None}),
        lambda s: s.values.update(share=2),
        lambda s: s.values.update(n_threads=0),
        lambda s: s.arrays.update(log_weights=s.arrays["log_weights"] + 1),
        lambda s: s.arrays.update(log_weights=s.arrays["log_weights"] * np.nan),
        lambda s: s.arrays.update(log_weights=s.arrays["log_weights"][:1]),
        lambda s: s.parts.pop("template 1"),
        lambda s: s.parts.pop("member 1 1"),
        lambda s: s.parts.update({"member 1 1": mdvpf.Markov(4)}),
        lambda s: s.parts.update({"member 9 9": mdvpf.Markov(3)}),
    ],
)
def test_contradictions_are_found(spoil: Any) -> None:
    mixture = some_mixture(restart=8)
    mixture.run(SYMBOLS[:20])
    whole = mixture._to_state()
    state = replace(
        whole, values=dict(whole.values), arrays=dict(whole.arrays), parts=dict(whole.parts)
    )
    vars(mixture)["_to_state"] = lambda: state
    mdvpf.Mixture.load(saved(mixture))  # as long as it is the whole one
    spoil(state)
    with pytest.raises(mdvpf.CheckpointError):
        mdvpf.Mixture.load(saved(mixture))


def test_what_cannot_be_saved_says_so() -> None:
    class Mine(mdvpf.Predictor):
        n_symbols = 2
        copy = lambda self: self  # noqa: E731
        new_sequence = predict_proba = update = None

    with pytest.raises(TypeError, match="Mine cannot be saved"):
        mdvpf.Mixture([Mine()]).save(io.BytesIO())
