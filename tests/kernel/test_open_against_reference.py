"""An open alphabet: core and reference agree survivor by survivor."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import strategies as st

import mdvpf
from tests.algorithms import EVERY_ALGORITHM
from tests.kernel import test_against_reference, test_extensions_against_reference
from tests.kernel.agreement import Case, check_agreement
from tests.kernel.comparing import Pair
from tests.kernel.inspecting import BREAK
from tests.kernel.open_models import SETTINGS, growing_events, make_model, renumbered
from tests.kernel.test_against_reference import KINDS


@st.composite
def families(draw: st.DrawFn, fades: bool) -> mdvpf.OpenVocabulary:
    """Parameters; with forgetting none that make a pseudo-count small (see `betas`)."""
    exponents = st.floats(0.0, 2.0) if fades else st.floats(-3.0, 3.0)
    usual = exponents.map(lambda x: 10.0**x)
    extreme = st.sampled_from([1.0]) if fades else st.sampled_from([1e-20, 1e20])
    return mdvpf.OpenVocabulary(
        concentration=draw(st.one_of(*[usual] * 6, extreme)),
        strength=draw(st.one_of(*[usual] * 6, extreme)),
        discount=draw(st.one_of(st.floats(0.0, 0.9), st.sampled_from([0.0, 0.5, 0.999]))),
    )


@st.composite
def cases(draw: st.DrawFn, kind: str) -> Case:
    module = draw(st.sampled_from([test_against_reference, test_extensions_against_reference]))
    case = draw(module.cases(kind))
    family = draw(families(fades=case.model.fades))
    model = replace(case.model, n_symbols=None, beta=None, emission=family)
    return replace(case, model=model, events=tuple(renumbered(case.events)))


@pytest.mark.parametrize("kind", KINDS)
def test_core_agrees_with_the_reference_step_by_step(kind: str) -> None:
    check_agreement(cases(kind), max_examples={"MDVPA": 40, "SMC": 30}.get(kind, 20))


@pytest.mark.torture
@pytest.mark.parametrize("kind", KINDS)
def test_core_agrees_with_the_reference_on_many_more_cases(kind: str, torture_scale: float) -> None:
    check_agreement(cases(kind), max_examples=int(8000 * torture_scale))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("algorithm", EVERY_ALGORITHM)
@pytest.mark.parametrize("setting", SETTINGS)
def test_every_algorithm_agrees_with_the_reference_in_every_setting(
    setting: str, algorithm: str
) -> None:
    pair = Pair(make_model(setting), EVERY_ALGORITHM[algorithm], n_particles=5, seed=3)
    assert pair.follow(growing_events(70, 0.2), tables=10) is None
    assert pair.core.n_symbols > 8


# --- Trees that grow

# Roots grow up to 256 columns; then the trees of columns are deeper. Those of the rows of a Mealy
# machine grow from 4 columns on, and from 64.


@pytest.mark.parametrize("algorithm", ["MD-VPA optimal", "SMC"])
@pytest.mark.parametrize("setting", ["plain", "any", "mealy", "mealy, rows, sticky, half-life 4"])
def test_core_agrees_with_the_reference_while_the_trees_grow(setting: str, algorithm: str) -> None:
    model = replace(make_model(setting), max_states=5)
    pair = Pair(model, EVERY_ALGORITHM[algorithm], n_particles=5, seed=1, history=None)
    assert pair.follow(growing_events(370, 0.78), predictions=60, tables=60) is None
    assert pair.core.n_symbols > 258


def test_a_new_symbol_is_missing_or_breaks_in_between() -> None:
    for algorithm in EVERY_ALGORITHM.values():
        pair = Pair(make_model("mealy"), algorithm, n_particles=4, seed=2)
        assert pair.follow([None, BREAK, 0, BREAK, BREAK, 1, None, 2, BREAK, 2, 3]) is None
