"""The default mixture: what is in it, its budgets, its memory, and that of version 0.1."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import mdvpf
from mdvpf.mixture.base import MixtureBase
from tests.kernel.sealing import reloaded


def filters_of(predictor: mdvpf.Predictor) -> list[mdvpf.ParticleFilter]:
    if isinstance(predictor, MixtureBase):
        return [pf for member in predictor.living for pf in filters_of(member)]
    return [predictor] if isinstance(predictor, mdvpf.ParticleFilter) else []


def leaves(predictor: mdvpf.Predictor) -> list[mdvpf.Predictor]:
    if isinstance(predictor, MixtureBase):
        return [leaf for member in predictor.members for leaf in leaves(member)]
    return [predictor]


# -- version 2


@pytest.mark.parametrize(("n_symbols", "version"), [(3, 2), (300, 2), (None, 2), (3, 1)])
def test_a_run_is_its_updates(n_symbols: int | None, version: int) -> None:
    symbols = np.random.default_rng(2).integers(3, size=70).tolist()
    symbols[:4] = [0, 1, 2, 0]  # by first appearance, for the open alphabet
    symbols[20] = None
    particles = 168 if version == 1 else 20
    predictor = mdvpf.auto(n_symbols, particles, version=version, rng=3)
    twin = predictor.copy()
    result = predictor.run(symbols)
    probabilities, steps = [], []
    for symbol in symbols:
        probabilities.append(1.0 if symbol is None else twin.predict_proba()[symbol])
        steps.append(twin.update(symbol))
    for name in mdvpf.Step._fields:
        assert_array_equal(getattr(result, name), [getattr(step, name) for step in steps])
    np.testing.assert_allclose(np.log(probabilities), result.log_predictive, rtol=1e-12, atol=1e-14)
    assert predictor.predict_proba().sum() == pytest.approx(1.0, abs=1e-12)
    assert_array_equal(predictor.predict_proba(), twin.predict_proba())


def test_keys_that_are_interleaved_do_not_disturb_each_other_much() -> None:
    """Two strict rhythms are learnt beside each other, which is hopeless without keys."""
    keys = np.random.default_rng(0).permutation(["a", "b"] * 180).tolist()  # who is next is drawn
    streams = {"a": iter([0, 1, 2] * 200), "b": iter([3, 3, 4] * 200)}
    mixed = [next(streams[key]) for key in keys]
    predictor = mdvpf.auto(5, 20, rng=0)
    assert predictor.run(mixed, keys=keys).log_predictive[-100:].mean() > -0.05
    assert predictor.n_keys == 2


@pytest.mark.parametrize("budget", ["fast", "default", "best"])
def test_budgets_are_what_they_say(budget: str) -> None:
    predictor = mdvpf.auto(4, budget=budget, rng=0)
    particles = sum(pf.n_particles for pf in filters_of(predictor))
    expected = {"fast": (1, 32), "default": (4, 440), "best": (4, 1760)}[budget]
    assert (len(filters_of(predictor)), particles) == expected
    assert predictor.recipe is not None
    assert predictor.recipe["budget"] == budget


def test_the_particles_are_shared_out() -> None:
    predictor = mdvpf.auto(4, 50, rng=0, max_states=3)
    assert sum(pf.n_particles for pf in filters_of(predictor)) <= 50
    assert all(pf.model.max_states == 3 for pf in filters_of(predictor))


def test_it_is_known_by_what_it_was_made_with() -> None:
    predictor = mdvpf.auto(3, 20, max_states=4, rng=1)
    predictor.run([0, 1, 2] * 40)
    recipe = {
        "name": "auto",
        "version": 2,
        "budget": "default",
        "n_particles": 20,
        "max_bytes": 200_000_000,
        "baselines": True,
        "max_states": 4,
    }
    assert predictor.recipe == predictor.copy().recipe == recipe
    assert pickle.loads(pickle.dumps(predictor)).recipe == recipe
    assert mdvpf.GeometricMixture([mdvpf.Markov(3)]).recipe is None


@pytest.mark.parametrize("n_symbols", [3, 300])
def test_without_baselines_there_are_no_trees(n_symbols: int) -> None:
    without = mdvpf.auto(n_symbols, 20, baselines=False)
    kinds = {type(leaf) for leaf in leaves(without)}
    assert kinds <= {mdvpf.ParticleFilter, mdvpf.SoftHMM}
    assert mdvpf.PitmanYorMixture in {type(leaf) for leaf in leaves(mdvpf.auto(n_symbols, 20))}


@pytest.mark.parametrize("version", [1, 2])
def test_it_is_nearly_as_good_as_any_of_its_members(version: int) -> None:
    symbols = np.random.default_rng(1).integers(2, size=300).cumsum() % 5
    predictor = mdvpf.auto(5, 168, version=version, rng=0)
    result = predictor.run(symbols)
    best = result.member_log_predictive.sum(axis=0).max()
    assert result.log_predictive.sum() >= best - predictor.regret_bound(300)


@pytest.mark.parametrize("version", [1, 2])
def test_threads_change_no_bit(version: int) -> None:
    symbols = np.random.default_rng(1).integers(4, size=90)
    runs = [
        mdvpf.auto(4, 100, version=version, rng=7, n_threads=n).run(symbols).log_predictive
        for n in (1, 2)
    ]
    assert_array_equal(runs[0], runs[1])


def test_a_checkpoint_goes_on_with_the_same_bits() -> None:
    symbols = np.random.default_rng(5).integers(6, size=200)
    predictor = mdvpf.auto(6, 20, rng=0)
    predictor.run(symbols, keys=symbols.tolist())
    loaded = reloaded(predictor)
    runs = [each.run(symbols, keys=symbols.tolist()) for each in (predictor, loaded)]
    assert_array_equal(runs[0].log_predictive, runs[1].log_predictive)
    assert_array_equal(predictor.powers, loaded.powers)


def test_memory_stays_within_its_bound_on_noise() -> None:
    """Uniform noise is the hardest for trees: every context is new."""
    max_bytes = 10_000_000
    predictor = mdvpf.auto(60, 10, max_bytes=max_bytes, budget="fast", rng=0)
    rng = np.random.default_rng(0)
    sizes = []
    for _ in range(3):
        predictor.run(rng.integers(60, size=4_000))
        sizes.append(predictor.memory().allocated)
    tree = predictor.members[0]
    assert isinstance(tree, mdvpf.PitmanYorMixture)
    assert tree.max_nodes is not None
    assert tree._tree.n_nodes == tree.max_nodes
    assert sizes[-1] <= max_bytes
    assert sizes[-1] <= 1.05 * sizes[-2]
    file = io.BytesIO()
    predictor.save(file)
    assert len(file.getvalue()) <= max_bytes


def test_keys_are_limited_by_the_bytes() -> None:
    """Without a limit, a million users would take 50 GB."""
    predictor = mdvpf.auto(3, max_bytes=10_000_000, rng=0)
    assert predictor.max_keys == 32
    predictor.run([0] * 60, keys=list(range(60)))
    assert predictor.n_keys == 32
    assert mdvpf.auto(3).max_keys > mdvpf.auto(3, budget="best").max_keys
    assert mdvpf.auto(None).max_keys > mdvpf.auto(300).max_keys > mdvpf.auto(3).max_keys
    predictor.max_keys = None
    predictor.run([0] * 60, keys=list(range(60)))
    assert predictor.n_keys == 60


def test_the_report_on_memory_has_all_that_grows() -> None:
    predictor = mdvpf.auto(4, 10, rng=0)
    symbols = np.random.default_rng(0).integers(4, size=200)
    before = [member.memory().live for member in predictor.members]
    predictor.run(symbols, keys=list(range(200)))
    after = [member.memory().live for member in predictor.members]
    growth = dict.fromkeys((type(member).__name__ for member in predictor.members), 0)
    for member, first, last in zip(predictor.members, before, after, strict=True):
        growth[type(member).__name__] += last - first
    for name in ("PitmanYorMixture", "SoftHMM", "Recall", "ParticleFilter"):
        assert growth[name] > 0, name
    assert growth["Recall"] > 200 * 5_000  # positions of keys
    assert predictor.memory().live > sum(after)


@pytest.mark.parametrize("n_symbols", [1, 5_001])
def test_extreme_alphabets_have_finite_predictions(n_symbols: int) -> None:
    symbols = [0, n_symbols - 1, None, 0, 0, None]
    predictor = mdvpf.auto(n_symbols, 10, rng=0)
    result = predictor.run(symbols)
    assert np.isfinite(result.log_predictive).all()
    assert result.log_predictive[[2, 5]].tolist() == [0.0, 0.0]
    if n_symbols == 1:
        np.testing.assert_allclose(result.log_predictive, 0.0, atol=1e-12)
    probabilities = predictor.freeze().predict_proba()
    assert probabilities.shape == (n_symbols,)
    assert probabilities.sum() == pytest.approx(1.0, abs=1e-9)


def test_an_open_alphabet_goes_on_after_a_checkpoint() -> None:
    predictor = mdvpf.auto(rng=0)
    predictor.vocabulary = mdvpf.Vocabulary.open()
    words = ["the", "cat", "sat", "on", "the", "mat", "and", "the", "dog", "sat"]
    predictor.run(words, keys=["x", "y"] * 5)
    loaded = reloaded(predictor)
    runs = [each.run(["the", "bird", "sat"]).log_predictive for each in (predictor, loaded)]
    assert_array_equal(runs[0], runs[1])
    assert loaded.vocabulary is not None
    assert loaded.vocabulary.labels[-1] == "bird"
    assert loaded.freeze().predict_proba().sum() == pytest.approx(1.0, abs=1e-9)


# -- version 1


def test_the_budget_of_version_1_holds_for_ever() -> None:
    predictor = mdvpf.auto(3, 500, version=1, rng=0)
    rng = np.random.default_rng(0)
    result = predictor.run(rng.integers(3, size=1100))
    n_baselines = 60 + 12 + (6 + 3) * 8
    assert result.n_particles.max() <= 500 + n_baselines
    for _ in range(3):
        predictor.run(rng.integers(3, size=20))
    assert sum(pf.n_particles for pf in filters_of(predictor)) <= 500


def test_version_1_is_the_mixture_of_0_1() -> None:
    predictor = mdvpf.auto(3, 500, version=1, max_states=4, rng=1)
    kinds = {type(leaf) for leaf in leaves(predictor)}
    assert kinds == {mdvpf.ParticleFilter, mdvpf.Markov, mdvpf.ContextTree}
    predictor.run([0, 1, 2] * 40)
    assert len(filters_of(predictor)) == 36 + 6 * 4  # copies of three restarts by then
    assert all(pf.n_particles == 500 // 84 for pf in filters_of(predictor))
    assert max(pf.n_states.max() for pf in filters_of(predictor)) <= 4
    without = mdvpf.auto(3, 84, version=1, baselines=False)
    assert {type(leaf) for leaf in leaves(without)} == {mdvpf.ParticleFilter}
    assert without.recipe == {
        "name": "auto",
        "version": 1,
        "n_particles": 84,
        "baselines": False,
        "max_states": None,
    }


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"n_symbols": 0}, ValueError, "n_symbols=0"),
        ({"n_particles": 3}, ValueError, "n_particles=3"),
        ({"baselines": 1}, TypeError, "baselines=1"),
        ({"rng": "x"}, TypeError, "rng='x'"),
        ({"budget": "cheap"}, ValueError, "budget='cheap'"),
        ({"max_bytes": 1000}, ValueError, "max_bytes=1000"),
        ({"version": 3}, ValueError, "version=3"),
        ({"n_symbols": None, "version": 1}, ValueError, "n_symbols=None"),
    ],
)
def test_bad_arguments_are_refused(
    arguments: dict[str, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        mdvpf.auto(**{"n_symbols": 3, **arguments})
