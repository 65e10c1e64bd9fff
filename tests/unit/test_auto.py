"""The default mixture: what is in it, and its budget."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import mdvpf


def filters_of(predictor: mdvpf.Predictor) -> list[mdvpf.ParticleFilter]:
    if isinstance(predictor, mdvpf.Mixture):
        return [pf for member in predictor.living for pf in filters_of(member)]
    return [predictor] if isinstance(predictor, mdvpf.ParticleFilter) else []


@pytest.mark.parametrize("n_particles", [None, 500])
def test_the_budget_holds_for_ever(n_particles: int | None) -> None:
    budget = () if n_particles is None else (n_particles,)
    predictor = mdvpf.auto(3, *budget, rng=0)
    most = n_particles or 20_000
    rng = np.random.default_rng(0)
    if n_particles:
        result = predictor.run(rng.integers(3, size=1100))
        n_baselines = 60 + 12 + (6 + 3) * 8
        assert result.n_particles.max() <= most + n_baselines
    for _ in range(3):
        predictor.run(rng.integers(3, size=20))
    assert sum(pf.n_particles for pf in filters_of(predictor)) <= most


def test_without_baselines_there_are_only_filters() -> None:
    with_them, without = mdvpf.auto(3, 100), mdvpf.auto(3, 100, baselines=False)
    assert len(filters_of(with_them)) == len(filters_of(without))

    def leaves(predictor: mdvpf.Predictor) -> list[mdvpf.Predictor]:
        if isinstance(predictor, mdvpf.Mixture):
            return [leaf for member in predictor.members for leaf in leaves(member)]
        return [predictor]

    assert all(isinstance(leaf, mdvpf.ParticleFilter) for leaf in leaves(without))
    kinds = {type(leaf) for leaf in leaves(with_them)}
    assert kinds == {mdvpf.ParticleFilter, mdvpf.Markov, mdvpf.ContextTree}


def test_it_is_known_by_what_it_was_made_with() -> None:
    predictor = mdvpf.auto(3, 500, max_states=4, rng=1)
    predictor.run([0, 1, 2] * 40)
    recipe = {"name": "auto", "n_particles": 500, "baselines": True, "max_states": 4}
    assert predictor.recipe == predictor.copy().recipe == recipe
    assert pickle.loads(pickle.dumps(predictor)).recipe == recipe
    assert all(pf.n_particles == 500 // 84 for pf in filters_of(predictor))
    assert all(pf.model.max_states == 4 for pf in filters_of(predictor))
    assert max(pf.n_states.max() for pf in filters_of(predictor)) <= 4
    without = mdvpf.auto(3, 84, baselines=False)
    assert without.recipe == {
        "name": "auto",
        "n_particles": 84,
        "baselines": False,
        "max_states": None,
    }
    assert mdvpf.Mixture.grid(3, n_particles=5).recipe is None


@pytest.mark.parametrize("baselines", [True, False])
def test_a_run_is_its_updates(baselines: bool) -> None:
    symbols = np.random.default_rng(2).integers(3, size=80).tolist()
    symbols[20] = None
    predictor = mdvpf.auto(3, 420, baselines=baselines, rng=3)
    twin = predictor.copy()
    result = predictor.run(symbols)
    steps = [twin.update(symbol) for symbol in symbols]
    for name in mdvpf.Step._fields:
        assert_array_equal(getattr(result, name), [getattr(step, name) for step in steps])
    assert_array_equal(predictor.predict_proba(), twin.predict_proba())
    assert_array_equal(predictor.run(symbols).log_predictive, twin.run(symbols).log_predictive)


def test_seeds_and_threads() -> None:
    symbols = np.random.default_rng(1).integers(4, size=120)
    runs = [mdvpf.auto(4, 200, rng=7, n_threads=n).run(symbols).log_predictive for n in (1, 2)]
    assert_array_equal(runs[0], runs[1])


def test_it_is_nearly_as_good_as_any_of_its_members() -> None:
    symbols = np.random.default_rng(1).integers(2, size=400).cumsum() % 5
    predictor = mdvpf.auto(5, 400, rng=0)
    result = predictor.run(symbols)
    best = result.member_log_predictive.sum(axis=0).max()
    assert result.log_predictive.sum() >= best - predictor.regret_bound(400)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"n_symbols": 0}, ValueError, "n_symbols=0"),
        ({"n_particles": 3}, ValueError, "n_particles=3"),
        ({"baselines": 1}, TypeError, "baselines=1"),
        ({"rng": "x"}, TypeError, "rng='x'"),
    ],
)
def test_bad_arguments(arguments: dict[str, object], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        mdvpf.auto(**{"n_symbols": 3, **arguments})
