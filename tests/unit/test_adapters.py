"""Adapters: river's own checks on streams of symbols, frames of pandas and xarray."""

from __future__ import annotations

import builtins
import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import mdvpf

pd = pytest.importorskip("pandas")
xarray = pytest.importorskip("xarray")
river = pytest.importorskip("river")

from river import anomaly, checks, compose, evaluate, metrics  # noqa: E402

from mdvpf.adapters.pandas import state_column  # noqa: E402
from mdvpf.adapters.river import SymbolFilter  # noqa: E402


def stream(n: int = 300) -> list[tuple[dict[str, Any], bool]]:
    """A cycle of three symbols, in which a fourth now and then replaces one: an anomaly."""
    rng = np.random.default_rng(5)
    strange = rng.random(n) < 0.05
    return [
        ({"symbol": 3 if odd else i % 3, "noise": float(i), "user": "me", "more": 1}, bool(odd))
        for i, odd in enumerate(strange)
    ]


def yield_streams(model: Any, scale: int = 1) -> Iterator[list[tuple[dict[str, Any], bool]]]:
    yield stream(300 * scale)


def smc() -> SymbolFilter:
    algorithm = mdvpf.SMC(resampling="systematic")
    return SymbolFilter(mdvpf.ParticleFilter(mdvpf.InfiniteHMM(4), algorithm, 20, rng=3))


def tree() -> SymbolFilter:
    return SymbolFilter(mdvpf.ContextTree(4, depth=2))


def default() -> SymbolFilter:
    return SymbolFilter(**next(SymbolFilter._unit_test_params()))


MODELS = {"MD-VPA": default, "SMC": smc, "ContextTree": tree}


def river_checks(model: SymbolFilter) -> dict[str, Callable[[Any], None]]:
    """All the checks that river has for such a model, on streams of symbols."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "_yield_datasets", yield_streams)
        return {
            f"{i}: {check.__name__}": check for i, check in enumerate(checks.yield_checks(model))
        }


@pytest.mark.parametrize("name", river_checks(default()))
@pytest.mark.parametrize("kind", MODELS)
def test_the_filter_passes_the_checks_of_river(kind: str, name: str) -> None:
    model = MODELS[kind]()
    check = river_checks(model)[name]
    check(copy.deepcopy(model))


def test_the_checks_of_river_are_the_ones_meant() -> None:
    names = {name.split(": ")[1] for name in river_checks(default())}
    assert {
        "check_pickling",
        "check_clone_is_independent",
        "check_learn_one",
        "check_emerging_features",
        "check_no_state_aliasing_with_input",
        "check_roc_auc",
        "check_bounded_memory_growth",
    } <= names


@pytest.mark.parametrize("kind", MODELS)
def test_scores_are_the_surprise_of_the_predictor_itself(kind: str) -> None:
    model = MODELS[kind]()
    twin = model.predictor.copy()
    for x, _ in stream(100):
        expected = twin.predict_proba()
        assert list(model.predict_proba_one().values()) == expected.tolist()
        score = model.score_one(x)
        model.learn_one(x)
        assert score == pytest.approx(-twin.update(x["symbol"]).log_predictive, abs=1e-9)


def test_the_score_of_the_impossible_is_infinite() -> None:
    model = SymbolFilter(mdvpf.KnownHMM(mdvpf.datasets.HMM([1], [[1]], [[1, 0]])))
    assert [model.score_one({"symbol": symbol}) for symbol in (0, 1)] == [0.0, float("inf")]


def test_a_missing_feature_is_a_missing_symbol() -> None:
    model, twin = default(), default().predictor
    for x in ({"symbol": 1}, {"other": 1}, {"symbol": None}, {}, {"symbol": 2}):
        symbol = x.get("symbol")
        assert (model.score_one(x) == 0.0) == (symbol is None)
        model.learn_one(x)
        twin.update(symbol)
    assert model.predict_proba_one() == dict(enumerate(twin.predict_proba().tolist()))


def test_river_sees_labels() -> None:
    predictor = mdvpf.Markov(3, order=1)
    predictor.vocabulary = mdvpf.Vocabulary(["ls", "cd"], unknown="?")
    model = SymbolFilter(predictor, feature="command")
    for command in ["ls", "cd", "rm"] * 10:
        model.learn_one({"command": command})
    likely = model.predict_proba_one()
    assert max(likely, key=lambda label: likely[label]) == "ls"
    assert likely.keys() == {"ls", "cd", "?"}


@pytest.mark.parametrize("symbol", [-1, 4, 1.5, "ls", True])
def test_a_bad_symbol_is_an_error_and_changes_nothing(symbol: Any) -> None:
    model = default()
    model.learn_one({"symbol": 1})
    before = pickle.dumps(model)
    for method in (model.score_one, model.learn_one):
        with pytest.raises((TypeError, ValueError), match="symbol"):
            method({"symbol": symbol})
    assert pickle.dumps(model) == before


def test_clones_are_new_and_pickles_are_not() -> None:
    model = smc()
    for x, _ in stream(50):
        model.learn_one(x)
    clone, twin = model.clone(), pickle.loads(pickle.dumps(model))
    assert clone.predict_proba_one() == smc().predict_proba_one()
    assert clone.clone(new_params={"feature": "page"}).feature == "page"
    for x, _ in stream(50):
        model.learn_one(x)
        twin.learn_one(x)
        assert model.predict_proba_one() == twin.predict_proba_one()


def test_in_a_pipeline_and_an_evaluation_of_river() -> None:
    model = anomaly.QuantileFilter(default(), q=0.95)
    metric = evaluate.progressive_val_score(stream(400), model, metrics.ROCAUC())
    assert metric.get() > 0.5
    pipeline = compose.Select("symbol") | default()
    x = {"symbol": 2, "noise": 1.0}
    pipeline.learn_one(x)
    assert pipeline.score_one(x) == pytest.approx(_after_learning(2, x))


def _after_learning(symbol: int, x: dict[str, Any]) -> float:
    twin = default().predictor
    twin.update(symbol)
    return -float(np.log(twin.predict_proba()[x["symbol"]]))


# --- pandas and xarray


FIELDS = ["log_predictive", "mean_states", "ess", "n_particles", "discarded"]


def run() -> tuple[mdvpf.ParticleFilter, mdvpf.FilterResult]:
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(3, beta=0.05), n_particles=30, history="full")
    return pf, pf.run([0, 1, 2, None, 0, 1, 2] * 5)


def test_a_frame_has_the_columns_of_the_result() -> None:
    _, result = run()
    frame = result.to_pandas()
    assert list(frame.columns) == FIELDS
    for name in FIELDS:
        assert np.array_equal(frame[name].to_numpy(), getattr(result, name))
        assert frame[name].dtype == getattr(result, name).dtype
    assert frame.attrs["log_evidence"] == result.log_evidence
    assert frame.index.tolist() == list(range(len(result)))


def test_the_frame_takes_the_index_of_the_symbols() -> None:
    _, result = run()
    times = pd.date_range("2024-01-01", periods=len(result), freq="s")
    own = pd.DataFrame({"page": 1}, index=times)
    joined = own.join(result.to_pandas(index=own.index))
    assert np.array_equal(joined["ess"].to_numpy(), result.ess)
    with pytest.raises(ValueError, match=r"Length|length|shape"):
        result.to_pandas(index=[1, 2])


def test_a_dataset_has_the_variables_of_the_result() -> None:
    _, result = run()
    data = result.to_xarray(dim="time", coord=np.arange(len(result)) * 10)
    assert list(data.data_vars) == FIELDS
    for name in FIELDS:
        assert data[name].dims == ("time",)
        assert np.array_equal(data[name].to_numpy(), getattr(result, name))
    assert float(data["ess"].sel(time=20)) == result.ess[2]
    assert data.attrs["log_evidence"] == result.log_evidence
    assert result.to_xarray()["step"].to_numpy().tolist() == list(range(len(result)))


def test_the_state_path_beside_the_columns_of_the_user() -> None:
    pf, result = run()
    own = pd.DataFrame({"n": np.arange(len(result))}, index=[f"r{i}" for i in range(len(result))])
    own["state"] = state_column(pf, own.index)
    assert own["state"].dtype == "Int64"
    assert own["state"].tolist() == pf.path().tolist()
    lightest = int(pf.weights.argmin())
    assert state_column(pf, own.index, k=lightest).tolist() == pf.path(lightest).tolist()
    assert state_column(pf, own.index[-4:]).tolist() == pf.path()[-4:].tolist()
    with pytest.raises(ValueError, match=r"index of 36 rows: expected at most 35"):
        state_column(pf, range(36))


def test_states_that_are_no_longer_kept_are_na() -> None:
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(3, beta=0.05), n_particles=30, history=4)
    pf.run([0, 1, 2])
    with pytest.raises(ValueError, match="index of 5 rows"):
        state_column(pf, range(5))
    pf.run([0, 1, 2])
    column = state_column(pf, range(6), name="regime")
    assert column.name == "regime"
    assert column.isna().tolist() == [True, True, False, False, False, False]
    assert column.tolist()[2:] == pf.path().tolist()


def test_without_a_history_the_error_names_the_fix() -> None:
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(3), n_particles=3)
    pf.update(0)
    with pytest.raises(ValueError, match='history="full"'):
        state_column(pf, [0])


@pytest.mark.parametrize("package", ["pandas", "xarray"])
def test_a_missing_package_is_named_with_its_extra(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: Any, **options: Any) -> Any:
        if name == package:
            raise ImportError(name)
        return real(name, *arguments, **options)

    pf, result = run()
    calls: list[Callable[[], Any]] = [getattr(result, f"to_{package}")]
    if package == "pandas":
        calls.append(lambda: state_column(pf, range(3)))
    monkeypatch.setattr(builtins, "__import__", without)
    for call in calls:
        with pytest.raises(ImportError, match=rf"mdvpf\[{package}\]"):
            call()
