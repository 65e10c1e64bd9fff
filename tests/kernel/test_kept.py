"""A filter that keeps fewer particles than K for a while: `ParticleFilter._keep`."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import mdvpf
from mdvpf.model.algorithms import NORMALIZERS, SELECTIONS, Algorithm
from mdvpf.reference import ReferenceFilter
from tests.kernel import (
    test_against_reference,
    test_extensions_against_reference,
    test_numbers_against_reference,
)
from tests.kernel.agreement import Case, check_agreement
from tests.kernel.comparing import Keep, Pair
from tests.kernel.inspecting import BREAK, Event, assert_same, feed, laid_open
from tests.kernel.sealing import reloaded
from tests.kernel.test_against_reference import switching_hmm
from tests.kernel.test_allocation_failure import (
    assert_survives_failures,
    make_filter,
    updated,
)
from tests.number_families import STREAMS

CHOOSING = ("VPA", "MDVPA", "OptimalResampling")
FROM_CANDIDATES: dict[str, Algorithm] = {
    "VPA": mdvpf.VPA(),
    "VPA without weights": mdvpf.VPA(carry_weights=False),
    "OptimalResampling": mdvpf.OptimalResampling(),
    **{
        f"MD-VPA {normalizer} {selection}": mdvpf.MDVPA(normalizer=normalizer, selection=selection)
        for normalizer in NORMALIZERS
        for selection in SELECTIONS
    },
}
MODELS: dict[str, dict[str, Any]] = {
    "paper": {},
    "forget": {"forget": 2.0},
    "mealy": {"machine": "mealy", "half_life": 30.0},
}


def with_changes(case: Case) -> list[Event | Keep]:
    """Return the events of a case, with changes of the number kept before one in three."""
    rng = np.random.default_rng([case.seed, 2])
    found: list[Event | Keep] = []
    for event in case.events:
        if rng.random() < 0.3:
            found.append(Keep(int(rng.integers(1, case.n_particles + 1))))
        found.append(event)
    return found


def follow(case: Case) -> Pair:
    """Feed a case in which the number kept changes to core and reference."""
    pair = case.pair()
    pair.follow(with_changes(case), tables=10 if len(case.events) > 30 else 1)
    return pair


SOURCES = {"paper": test_against_reference, "extensions": test_extensions_against_reference}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("kind", CHOOSING)
def test_core_agrees_with_the_reference_while_the_number_kept_changes(
    kind: str, source: str
) -> None:
    check_agreement(SOURCES[source].cases(kind), {"MDVPA": 40}.get(kind, 20), follow)


@pytest.mark.torture
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("kind", CHOOSING)
def test_core_agrees_with_the_reference_on_many_more_cases(
    kind: str, source: str, torture_scale: float
) -> None:
    check_agreement(SOURCES[source].cases(kind), int(8000 * torture_scale), follow)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("algorithm", FROM_CANDIDATES)
def test_each_algorithm_follows_a_number_that_falls_and_rises(algorithm: str, model: str) -> None:
    """With enough candidates that the core collects only those that reach a bound."""
    pair = Pair(
        mdvpf.InfiniteHMM(5, beta=0.3, **MODELS[model]),
        FROM_CANDIDATES[algorithm],
        n_particles=150,
        seed=3,
    )
    kept = [150, 150, 7, 90, 1, 150]
    sizes = []
    for n, part in zip(kept, np.array_split(switching_hmm(1, 60, 5), len(kept)), strict=True):
        pair.keep(n)
        for symbol in [*part.tolist(), None]:
            edge = pair.update(symbol, compare_predictions=False, compare_tables=False)
            assert edge is None
        sizes.append(len(pair.core.weights))
    pair.compare_prediction()
    assert sizes == kept
    assert pair.core.n_particles == 150


@pytest.mark.parametrize("model", test_numbers_against_reference.MODELS)
@pytest.mark.parametrize("algorithm", FROM_CANDIDATES)
def test_families_over_numbers_follow_the_number_too(algorithm: str, model: str) -> None:
    for family, observations in STREAMS.values():
        both = mdvpf.InfiniteHMM(emission=family, **test_numbers_against_reference.MODELS[model])
        pf: Any = mdvpf.ParticleFilter(both, FROM_CANDIDATES[algorithm], 7, rng=1)
        ref = ReferenceFilter(both, FROM_CANDIDATES[algorithm], 7, rng=1, rounding=True)
        kept = [7, 2, 2, 5, 1, 7, 7, 3, 6, 1]
        for n, observation in zip(kept, (observations * 2)[:10], strict=True):
            pf._keep(n)
            ref._keep(n)
            test_numbers_against_reference.compare(pf, ref, observation)
            assert len(pf.weights) <= n


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("algorithm", FROM_CANDIDATES)
def test_threads_change_no_bit(algorithm: str, model: str) -> None:
    symbols = switching_hmm(3, 80, 5)
    found = []
    for n_threads in (1, 3):
        pf = mdvpf.ParticleFilter(
            mdvpf.InfiniteHMM(5, beta=0.3, **MODELS[model]),
            FROM_CANDIDATES[algorithm],
            1500,
            rng=1,
            n_threads=n_threads,
        )
        parts = np.array_split(symbols, 8)
        for n, part in zip([1500, 3, 900, 1500, 50, 1500, 1, 1200], parts, strict=True):
            pf._keep(n)
            found.append(pf.run(part).log_predictive)
        pf._core.verify()
    np.testing.assert_array_equal(np.concatenate(found[:8]), np.concatenate(found[8:]))


# --- MD-VPA with a pending symbol


def test_a_pending_step_keeps_as_many_as_when_its_symbol_was_absorbed() -> None:
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(4, beta=0.3), mdvpf.MDVPA(), 50)
    pf.run([0, 1, 2, 3] * 10)
    pf._keep(5)
    assert len(pf.weights) == 50  # of the pending symbol
    pf.new_sequence()
    assert len(pf.weights) == 50
    pf.update(0)
    assert len(pf.weights) == 5
    pf._keep(50)
    pf.new_sequence()
    assert len(pf.weights) == 5


def test_a_filter_comes_back_to_all_its_particles() -> None:
    """With K again, its steps are those of any filter with the same particles."""
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(4, beta=0.3), mdvpf.VPA(), 64)
    pf.run([0, 1, 2, 3] * 10)
    pf._keep(2)
    pf.run([0, 1, 2, 3] * 2)
    assert len(pf.weights) == 2
    pf._keep(64)
    pf.run([0, 1, 2, 3] * 2)
    assert len(pf.weights) == 64


# --- checkpoints and copies


def half_way(algorithm: str, model: str, *, ends: bool) -> mdvpf.ParticleFilter:
    """Return a filter in which the pending step and the next ones keep different numbers."""
    pf = mdvpf.ParticleFilter(
        mdvpf.InfiniteHMM(5, beta=0.3, **MODELS[model]), FROM_CANDIDATES[algorithm], 40, rng=1
    )
    feed(pf, switching_hmm(2, 40, 5))
    pf._keep(9)
    feed(pf, [0, 1])
    if ends:
        pf.new_sequence()
    pf._keep(25)
    return pf


@pytest.mark.parametrize(
    "duplicate", [reloaded, copy.copy, copy.deepcopy, lambda pf: pickle.loads(pickle.dumps(pf))]
)
@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("algorithm", FROM_CANDIDATES)
def test_files_and_copies_have_the_number_kept(
    algorithm: str, model: str, ends: bool, duplicate: Any
) -> None:
    pf = half_way(algorithm, model, ends=ends)
    other = duplicate(pf)
    other._core.verify()
    assert other._core.kept == pf._core.kept
    events: list[Event] = [2, None, 0, BREAK, 4, 4, 1]
    assert_same(other, laid_open(pf))
    feed(pf, events)
    feed(other, events)
    assert_same(other, laid_open(pf))
    assert len(other.weights) == 25


def core_values(pf: mdvpf.ParticleFilter) -> dict[str, Any]:
    values: dict[str, Any] = pf._to_state().values["core"]
    return values


def test_files_have_the_number_kept_only_if_it_is_not_k() -> None:
    pf = half_way("MD-VPA geometric top", "paper", ends=False)
    values = core_values(pf)
    assert (values["kept"], values["pending_kept"]) == (25, 9)
    pf._keep(40)
    assert "kept" not in core_values(pf)
    pf.update(0)
    assert not {"kept", "pending_kept"} & set(core_values(pf))


@pytest.mark.parametrize("name", ["kept", "pending_kept"])
@pytest.mark.parametrize("number", [0, -1, 41, 2.5, "9", None, 2**70])
def test_a_number_out_of_range_is_refused(name: str, number: Any) -> None:
    pf = half_way("MD-VPA geometric top", "paper", ends=False)
    state = pf._to_state()
    state.values["core"][name] = number
    with pytest.raises((ValueError, TypeError), match=name):
        mdvpf.ParticleFilter._from_state(state, {})


# --- failures


@pytest.mark.parametrize("name", ["VPA", "MD-VPA", "MD-VPA optimal", "OptimalResampling"])
@pytest.mark.parametrize("kept", [(6, 1), (1, 6), (2, 4)])
def test_failed_allocations_change_nothing_while_the_number_kept_changes(
    name: str, kept: tuple[int, int]
) -> None:
    def make() -> mdvpf.ParticleFilter:
        pf = make_filter(name, "full")
        feed(pf, [0, 1, 2, 3, 1, 0, 0])
        pf._keep(kept[0])
        feed(pf, [4, 1])
        pf._keep(kept[1])
        return pf.copy()

    assert assert_survives_failures(make, lambda pf: updated(pf, 2)) > 3


@pytest.mark.parametrize("n", [0, -3, 41])
def test_numbers_from_1_to_k_can_be_kept(n: int) -> None:
    pf = half_way("VPA", "paper", ends=False)
    with pytest.raises(ValueError, match=r"n=.*expected"):
        pf._keep(n)
    assert pf._kept == 25


@pytest.mark.parametrize("algorithm", [mdvpf.SMC(), mdvpf.ParticleLearning()])
def test_filters_that_draw_always_have_k(algorithm: Algorithm) -> None:
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(3), algorithm, 10)
    with pytest.raises(TypeError, match="algorithm="):
        pf._keep(5)
    with pytest.raises(ValueError, match="n=5"):
        pf._core.keep(5)
    pf.update(0)
    assert len(pf.weights) == 10
