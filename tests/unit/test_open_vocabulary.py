"""Open vocabularies in the interface: arguments, predictions, continuations, finite machines."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mdvpf
from mdvpf.reference import (
    LiteralFilter,
    Memory,
    Particle,
    log_potentials,
    log_predictive,
    move,
    theorem_regret,
)
from tests.kernel.open_models import SETTINGS, growing_events, make_model

OPEN = mdvpf.OpenVocabulary()


# --- Arguments


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("concentration", 0.0, ValueError),
        ("concentration", 1e-21, ValueError),
        ("concentration", math.nan, ValueError),
        ("strength", 0.0, ValueError),
        ("strength", 1e21, ValueError),
        ("strength", "1", TypeError),
        ("discount", 1.0, ValueError),
        ("discount", -0.1, ValueError),
        ("discount", True, TypeError),
    ],
)
def test_parameters_are_checked(name: str, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=re.escape(f"{name}={value!r}: expected")):
        mdvpf.OpenVocabulary(**{name: value})


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [("n_symbols", 0, ValueError), ("n_symbols", None, TypeError), ("beta", 0.0, ValueError)],
)
def test_a_categorical_is_checked(name: str, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=re.escape(f"{name}={value!r}: expected")):
        mdvpf.Categorical(**{"n_symbols": 3, name: value})


def test_n_symbols_and_beta_are_short_for_a_categorical() -> None:
    model = mdvpf.InfiniteHMM(emission=mdvpf.Categorical(3, 0.2), kappa=1.0)
    assert model == mdvpf.InfiniteHMM(3, beta=0.2, kappa=1.0)
    assert repr(model) == repr(mdvpf.InfiniteHMM(3, beta=0.2, kappa=1.0))
    assert not model.is_open
    assert mdvpf.InfiniteHMM(emission=mdvpf.Categorical(4)).beta == 0.25


@pytest.mark.parametrize("family", [OPEN, mdvpf.Categorical(3)])
@pytest.mark.parametrize("given", [{"n_symbols": 3}, {"beta": 0.1}, {"n_symbols": 3, "beta": 0.1}])
def test_a_model_takes_one_of_both(family: Any, given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected None together with emission="):
        mdvpf.InfiniteHMM(emission=family, **given)


@pytest.mark.parametrize("family", ["OpenVocabulary", 3, mdvpf.OpenVocabulary])
def test_other_families_are_refused(family: Any) -> None:
    with pytest.raises(TypeError, match="emission="):
        mdvpf.InfiniteHMM(emission=family)


def test_a_model_of_an_open_alphabet_is_a_value_like_others() -> None:
    model = mdvpf.InfiniteHMM(alpha=2.0, emission=mdvpf.OpenVocabulary(discount=0.1))
    assert model.n_symbols is None
    assert eval(repr(model), vars(mdvpf)) == model
    assert dataclasses.replace(model, alpha=3.0).emission == model.emission
    assert model != dataclasses.replace(model, emission=OPEN)
    assert hash(model) == hash(dataclasses.replace(model))
    assert not model.has_real_counts


def test_methods_without_open_alphabets_raise_an_error() -> None:
    model = mdvpf.InfiniteHMM(emission=OPEN)
    pf = mdvpf.ParticleFilter(model, n_particles=5)
    with pytest.raises(ValueError, match="emission="):
        LiteralFilter(model)
    with pytest.raises(ValueError, match="closed alphabet"):
        theorem_regret(model, mdvpf.VPA(), 3, [0, 1])
    with pytest.raises(ValueError, match="closed alphabet"):
        mdvpf.estimation_variance(pf, 0)


# --- The base distribution


def test_base_distribution_is_that_of_the_formula() -> None:
    family = mdvpf.OpenVocabulary(strength=2.0, discount=0.25)
    seen = [5, 1, 2]
    expected = [(5 - 0.25) / 10, 0.75 / 10, 1.75 / 10, (2 + 0.25 * 3) / 10]
    assert family.base_distribution(seen) == pytest.approx(expected)
    assert [family.base_probability(seen, y) for y in range(4)] == pytest.approx(expected)
    assert family.base_distribution([]).tolist() == [1.0]


@pytest.mark.parametrize("discount", [0.0, 0.5, math.nextafter(1.0, 0.0)])
@pytest.mark.parametrize("strength", [1e-20, 1.0, 1e20])
@pytest.mark.parametrize("concentration", [1e-20, 1.0, 1e20])
@pytest.mark.parametrize("other", [1e-60, 1e60])
def test_extreme_parameters_give_finite_predictions(
    other: float, concentration: float, strength: float, discount: float
) -> None:
    family = mdvpf.OpenVocabulary(concentration, strength, discount)
    for algorithm in (mdvpf.VPA(), mdvpf.MDVPA(), mdvpf.OptimalResampling()):
        model = mdvpf.InfiniteHMM(alpha=other, gamma=1.0 / other, emission=family)
        pf = mdvpf.ParticleFilter(model, algorithm, 20, rng=0)
        result = pf.run(growing_events(40, 0.3, breaks=False))
        assert np.all(np.isfinite(result.log_predictive))
        assert pf.predict_proba().sum() == pytest.approx(1.0)
        pf._core.verify()


# --- Predictions


def test_a_filter_that_has_seen_nothing_expects_a_new_symbol() -> None:
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=OPEN), n_particles=5)
    assert (pf.n_symbols, pf.is_open, pf.predict_proba().tolist()) == (0, True, [1.0])
    assert pf.update(0).log_predictive == 0.0
    assert pf.n_symbols == 1
    assert pf.top(5) == sorted(enumerate(pf.predict_proba()), key=lambda pair: -pair[1])


def test_score_takes_new_symbols_and_leaves_the_filter_as_it_was() -> None:
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=OPEN), n_particles=5)
    pf.run([0, 1, 0])
    assert len(pf.score([2, 3, 0, 3])) == 4
    assert pf.n_symbols == 2


# --- Continuations


@pytest.mark.parametrize("setting", SETTINGS)
def test_frequencies_of_samples_are_the_predictions(setting: str) -> None:
    pf = mdvpf.ParticleFilter(make_model(setting, concentration=3.0), n_particles=6)
    pf.run(growing_events(40, 0.15, breaks=False))
    size = 20_000
    drawn = pf.sample(2, size=size, rng=1)
    n_symbols = pf.n_symbols + 1
    assert drawn.max() <= pf.n_symbols + 1
    forecast = pf.forecast(2, size=4000, rng=2)
    assert forecast.shape == (2, n_symbols)
    for i in range(2):
        found = np.bincount(np.minimum(drawn[:, i], pf.n_symbols), minlength=n_symbols) / size
        most = 5.0 * np.sqrt(forecast[i] * (1 - forecast[i]) / size) + 0.01 * i + 1e-3
        assert np.all(np.abs(found - forecast[i]) <= most)
        assert forecast[i].sum() == pytest.approx(1.0, abs=1e-5)
    # A new symbol of a continuation gets a number after all known ones.
    is_new = drawn[:, 0] == pf.n_symbols
    assert np.all(drawn[~is_new, 1] <= pf.n_symbols)


def test_continuations_follow_the_model() -> None:
    """The mean of the exact predictives after one step equals that of one step of the filter."""
    pf = mdvpf.ParticleFilter(make_model("plain"), mdvpf.VPA(), n_particles=1)
    pf.run([0, 1, 0, 1, 2])
    now = pf.predict_proba()
    after = np.zeros(len(now))
    for symbol, probability in enumerate(now):
        after += probability * _after(pf, symbol, len(now))
    found = pf.forecast(2, size=60_000, rng=3)[1]
    assert found == pytest.approx(after, abs=0.004)


def _after(pf: mdvpf.ParticleFilter, symbol: int, n: int) -> NDArray[np.float64]:
    """Return the prediction after one more symbol, with all new symbols as one."""
    state, counts = int(pf.states[0]), pf.counts(0)
    seen = np.empty(pf.n_symbols, dtype=np.int64)
    pf._core.seen(seen)
    transition = {
        (j - 1, c): int(times)
        for j, row in enumerate(np.vstack([counts.start[None], counts.transition]))
        for c, times in enumerate(row)
        if times
    }
    emission = {
        (c, y): int(times)
        for c, row in enumerate(counts.emission)
        for y, times in enumerate(row)
        if times
    }
    into = {c: int(counts.emission[c].sum()) for c in range(len(counts.start))}
    particle = Particle(
        state=state,
        n_states=len(into),
        path=[0] * 5,
        transition=transition,
        emission=emission,
        into=into,
        seen=tuple(seen.tolist()),
        memory=Memory.of(pf.model),
    )
    logs = log_potentials(pf.model, particle, symbol)
    total = math.fsum(map(math.exp, logs))
    children = [
        move(particle, c, symbol, parent=0, log_weight=log - math.log(total))
        for c, log in enumerate(logs)
    ]
    n_seen = len(children[0].seen)
    found = [math.exp(log_predictive(pf.model, children, y)) for y in range(n_seen + 1)]
    return np.append(found[: n - 1], sum(found[n - 1 :]))


# --- Finite machines


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_frozen_filter_has_one_symbol_for_all_that_were_never_seen(setting: str) -> None:
    pf = mdvpf.ParticleFilter(make_model(setting), n_particles=6)
    pf.run(growing_events(60, 0.1, breaks=False))
    frozen = pf.freeze()
    assert frozen.n_symbols == pf.n_symbols + 1
    assert not frozen.is_open
    assert frozen.predict_proba().sum() == pytest.approx(1.0)
    frozen.run([0, pf.n_symbols, pf.n_symbols, 0])
    assert pf.to_hmm().emission.shape[1] == pf.n_symbols + 1


def test_a_finite_hmm_has_the_emissions_of_the_formula() -> None:
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=OPEN, max_states=1), n_particles=1)
    pf.run([0, 0, 1])
    q = np.array([1.5, 0.5, 2.0]) / 4.0
    assert pf.to_hmm().emission == pytest.approx(((np.array([2, 1, 0]) + q) / 4.0)[np.newaxis])


def test_a_frozen_filter_that_has_seen_nothing_predicts_what_the_filter_does() -> None:
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=OPEN), n_particles=5)
    assert pf.freeze().predict_proba().tolist() == [1.0]
