"""Arguments of the extended model: checked, and in files only if they are used."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

import mdvpf
from mdvpf.model import extensions
from mdvpf.reference import LiteralFilter, ReferenceFilter, theorem_regret

EXTENSIONS: list[dict[str, Any]] = [
    {"oracle": "rows"},
    {"machine": "mealy"},
    {"kappa": 0.5},
    {"forget": 2.0},
    {"half_life": 30.0},
]


@pytest.mark.parametrize("name", ["kappa", "forget", "half_life"])
@pytest.mark.parametrize(
    ("value", "error"),
    [
        (-1.0, ValueError),
        (math.nan, ValueError),
        (math.inf, ValueError),
        (1e300, ValueError),
        ("1", TypeError),
        (True, TypeError),
        ([1.0], TypeError),
    ],
)
def test_numbers_are_checked(name: str, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=re.escape(f"{name}={value!r}: expected")):
        mdvpf.InfiniteHMM(3, **{name: value})


def test_a_half_life_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"half_life=0: expected .*, or None"):
        mdvpf.InfiniteHMM(3, half_life=0)


@pytest.mark.parametrize(("value", "error"), [("Mealy", ValueError), (None, TypeError)])
def test_machines_are_checked(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=f"machine={value!r}: expected one of 'moore', 'mealy'"):
        mdvpf.InfiniteHMM(3, machine=value)


def test_counts_fade_in_one_way_only() -> None:
    with pytest.raises(ValueError, match=r"half_life=3.0: expected None .*forget=1.0"):
        mdvpf.InfiniteHMM(3, forget=1.0, half_life=3)
    assert mdvpf.InfiniteHMM(3, forget=0, half_life=3).half_life == 3.0


def test_the_new_arguments_are_given_by_name() -> None:
    with pytest.raises(TypeError):
        mdvpf.InfiniteHMM(3, 1.0, 1.0, 0.3, "any", None, "mealy")


def test_the_default_is_the_model_of_the_paper() -> None:
    assert extensions(mdvpf.InfiniteHMM(3, alpha=2.0, oracle="any", max_states=4)) == {}


@pytest.mark.parametrize("extension", EXTENSIONS, ids=str)
def test_filters_take_them_and_the_literal_readings_do_not(extension: dict[str, Any]) -> None:
    model = mdvpf.InfiniteHMM(2, **extension)
    assert extensions(model) == extension
    ((name, value),) = extension.items()
    with pytest.raises(ValueError, match=re.escape(f"{name}={value!r}")):
        LiteralFilter(model)
    mdvpf.ParticleFilter(model, n_particles=4).update(0)
    ReferenceFilter(model).update(0)
    assert np.isfinite(theorem_regret(model, mdvpf.MDVPA(), 4, [0, 1, 0, 0, 1])).all()


def test_a_file_has_the_arguments_of_version_1_and_no_others() -> None:
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(3, oracle="any"), n_particles=4)
    model = pf._to_state().values["model"]
    assert list(model) == ["n_symbols", "alpha", "gamma", "beta", "oracle", "max_states"]


def test_a_file_with_an_argument_that_no_model_has_is_refused() -> None:
    state = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(3), n_particles=4)._to_state()
    state.values["model"]["memory"] = 1.0
    with pytest.raises(TypeError, match="memory"):
        mdvpf.ParticleFilter._from_state(state, {})
