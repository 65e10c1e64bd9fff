"""The names of methods, their settings, and the predictors that they make."""

from __future__ import annotations

from typing import Any

import pytest

import mdvpf
from mdvpf.streams.methods import (
    ALGORITHMS,
    METHODS,
    SETTINGS,
    check_settings,
    found_settings,
    make_predictor,
    method_of,
    resolve_method,
    settings_of,
)

VALUES: dict[str, Any] = {
    "alpha": 2.0,
    "gamma": 3.0,
    "beta": 0.2,
    "oracle": "any",
    "max_states": 7,
    "machine": "mealy",
    "kappa": 0.5,
    "forget": 2.0,
    "half_life": 30.0,
    "discount": 0.5,
    "normalizer": "sum",
    "carry_weights": False,
    "selection": "optimal",
}


def test_there_is_a_value_for_every_setting() -> None:
    assert set(VALUES) == set(SETTINGS)


@pytest.mark.parametrize("name", METHODS)
def test_case_spaces_hyphens_and_underscores_make_no_difference(name: str) -> None:
    bare = name.replace(" ", "").replace("-", "")
    for written in (name, bare, name.lower(), name.upper(), f" {bare} ", "_".join(bare)):
        assert resolve_method(written) == name


def test_every_name_is_still_told_from_every_other() -> None:
    assert len({resolve_method(name.lower()) for name in METHODS}) == len(METHODS)


@pytest.mark.parametrize("name", ["magic", "", "Markov", "Markov 11", "VP", "MD VPA 1"])
def test_an_unknown_name_is_an_error_that_lists_the_names(name: str) -> None:
    with pytest.raises(ValueError, match="expected one of") as caught:
        resolve_method(name, argument="methods")
    assert str(caught.value).startswith(f"methods={name!r}: ")
    assert all(known in str(caught.value) for known in METHODS)


def test_a_name_is_text() -> None:
    with pytest.raises(TypeError, match="method=3: expected one of auto"):
        resolve_method(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_setting_reaches_the_predictor_or_is_an_error(name: str, setting: str) -> None:
    value = VALUES[setting]
    if setting not in settings_of(name):
        with pytest.raises(
            ValueError, match=f"^{setting}={value!r}: {name} (has|chooses) "
        ) as caught:
            make_predictor(name, 4, **{setting: value})
        assert "expected only with" in str(caught.value)
        return
    predictor = make_predictor(name, 4, seed=0, **{setting: value})
    assert found_settings(predictor)[setting] == value
    others = found_settings(make_predictor(name, 4, seed=0))
    changed = {key for key, found in found_settings(predictor).items() if found != others[key]}
    assert changed == {setting}


def test_every_method_lists_its_settings() -> None:
    model = {"particles", "alpha", "gamma", "beta", "oracle", "max_states"}
    model |= {"machine", "kappa", "forget", "half_life"}
    own = {"discount", "normalizer", "carry_weights", "selection"}
    for name in ALGORITHMS:
        expected = model | {"MD-VPA": own, "VPA": {"carry_weights"}}.get(name, set())
        assert set(settings_of(name)) == expected
    assert set(settings_of("auto")) == {"particles", "max_states"}
    assert settings_of("Markov 2") == settings_of("ContextTree 1") == ("beta",)


def test_the_predictor_is_the_one_that_python_makes() -> None:
    made = make_predictor("mdvpa", 4, 30, discount=0.5, oracle="any", normalizer="none")
    model = mdvpf.InfiniteHMM(4, oracle="any")
    algorithm = mdvpf.MDVPA(discount=0.5, normalizer="none")
    same = mdvpf.ParticleFilter(model, algorithm, n_particles=30)
    symbols = [0, 1, 2, 3, 3, 1] * 10
    assert made.run(symbols).log_predictive.tolist() == same.run(symbols).log_predictive.tolist()


@pytest.mark.parametrize(("name", "setting"), [("Markov 0", "particles"), ("auto", "beta")])
def test_particles_and_hyper_parameters_are_checked_alike(name: str, setting: str) -> None:
    with pytest.raises(ValueError, match=f"^{setting}=5: "):
        make_predictor(name, 4, **{setting: 5})


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(TypeError, match=r"unknown settings: \['decay'\]"):
        make_predictor("Markov 1", 4, decay=0.9)


def test_of_several_methods_one_must_have_a_setting() -> None:
    check_settings(["SMC", "VPA"], {"carry_weights": False})
    with pytest.raises(ValueError, match=r"normalizer='sum': SMC and VPA have none; .* MD-VPA"):
        check_settings(["SMC", "VPA"], {"normalizer": "sum"})
    with pytest.raises(ValueError, match=r"carry_weights=False: SMC has none; .* VPA or MD-VPA"):
        check_settings(["SMC"], {"carry_weights": False})
    with pytest.raises(ValueError, match=r"oracle='any': Markov 1 has none; .* a filter"):
        check_settings(["Markov 1"], {"oracle": "any"})


@pytest.mark.parametrize("name", METHODS)
def test_the_name_of_a_predictor_does_not_depend_on_its_settings(name: str) -> None:
    settings = {setting: VALUES[setting] for setting in settings_of(name) if setting in VALUES}
    settings.pop("half_life", None)  # not together with forget
    assert method_of(make_predictor(name, 4, seed=0)) == name
    assert method_of(make_predictor(name, 4, seed=0, **settings)) == name


@pytest.mark.parametrize(
    "predictor",
    [
        mdvpf.ParticleFilter(mdvpf.InfiniteHMM(3), mdvpf.SMC(resampling="systematic"), 5),
        mdvpf.Markov(3, order=1, decay=0.9),
        mdvpf.Markov(3, order=3),
        mdvpf.ContextTree(3, depth=4),
        mdvpf.Mixture([mdvpf.Markov(3), mdvpf.Markov(3, order=0)]),
    ],
    ids=lambda predictor: repr(predictor)[:40],
)
def test_unnamed_predictors_have_no_name(predictor: mdvpf.Predictor) -> None:
    assert method_of(predictor) is None
