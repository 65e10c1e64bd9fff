"""Regret against brute force: all sequences of comparators, all leave-one-out fits."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mdvpf.regret import (
    best_sequence,
    growth_exponent,
    regret,
    shifting_regret,
)


def best_by_enumeration(gains: np.ndarray, n_switches: int) -> float:
    n_experts, n = gains.shape
    return max(
        sum(gains[e, i] for i, e in enumerate(choice))
        for choice in product(range(n_experts), repeat=n)
        if sum(a != b for a, b in pairwise(choice)) <= n_switches
    )


def test_regret_is_the_difference_of_sums_so_far() -> None:
    own, other = np.random.default_rng(0).normal(size=(2, 20))
    expected = [sum(other[: n + 1]) - sum(own[: n + 1]) for n in range(20)]
    np.testing.assert_allclose(regret(own, other), expected, rtol=0, atol=1e-12)


def test_regret_keeps_other_axes() -> None:
    own, other = np.random.default_rng(0).normal(size=(2, 3, 20))
    rows = [regret(a, b) for a, b in zip(own, other, strict=True)]
    np.testing.assert_array_equal(regret(own, other), rows)


def test_regret_of_impossible_symbols() -> None:
    inf = np.inf
    assert regret([-1, -inf, -1], [-1, -1, -1]).tolist() == [0, inf, inf]
    assert regret([-1, -1, -1], [-1, -inf, -1]).tolist() == [0, -inf, -inf]
    np.testing.assert_array_equal(regret([-1, -inf], [-1, -inf]), [0, np.nan])


@given(
    n_experts=st.integers(1, 3),
    n=st.integers(1, 6),
    n_switches=st.integers(0, 6),
    seed=st.integers(0),
)
def test_best_sequence_is_the_best_of_all(
    n_experts: int, n: int, n_switches: int, seed: int
) -> None:
    # Coarse values, so that there are ties.
    gains = np.random.default_rng(seed).integers(-4, 0, size=(n_experts, n)).astype(float)
    best = best_sequence(gains, n_switches)
    expected = [best_by_enumeration(gains, s) for s in range(n_switches + 1)]
    assert best.totals.tolist() == expected
    assert best.prefixes.tolist() == [
        best_by_enumeration(gains[:, : i + 1], n_switches) for i in range(n)
    ]
    assert np.count_nonzero(np.diff(best.choice)) <= n_switches
    assert best.log_predictive.tolist() == [gains[e, i] for i, e in enumerate(best.choice)]
    assert best.log_predictive.sum() == expected[-1]


def test_many_comparators_and_impossible_symbols() -> None:
    gains = np.random.default_rng(1).normal(size=(21, 60))
    gains[gains < np.minimum(1, gains.max(axis=0))] = -np.inf  # most comparators fail soon
    best = best_sequence(gains, 59)
    np.testing.assert_allclose(best.totals[-1], gains.max(axis=0).sum(), rtol=1e-12)
    np.testing.assert_array_equal(best.choice, gains.argmax(axis=0))
    assert best.totals[0] == -np.inf


def test_without_switches_it_is_the_best_comparator() -> None:
    gains = np.random.default_rng(2).normal(size=(300, 50))
    best = best_sequence(gains, 0)
    assert set(best.choice) == {gains.sum(axis=1).argmax()}


def test_shifting_regret_is_against_the_best_for_each_prefix() -> None:
    rng = np.random.default_rng(3)
    own, gains = rng.normal(size=6), rng.normal(size=(2, 6))
    expected = [best_by_enumeration(gains[:, :n], 2) - own[:n].sum() for n in range(1, 7)]
    np.testing.assert_allclose(shifting_regret(own, gains, 2), expected, rtol=0, atol=1e-12)


def test_shifting_regret_of_several_runs() -> None:
    rng = np.random.default_rng(3)
    runs, gains = rng.normal(size=(4, 6)), rng.normal(size=(2, 6))
    rows = [shifting_regret(own, gains, 1) for own in runs]
    np.testing.assert_array_equal(shifting_regret(runs, gains, 1), rows)


def leave_one_out(curves: np.ndarray, points: np.ndarray) -> tuple[float, float]:
    """Return the exponent and its standard error, with polyfit and a loop."""

    def fit(rows: np.ndarray) -> float:
        return np.polyfit(np.log(points), np.log(rows.mean(axis=0)[points - 1]), 1)[0]

    n = len(curves)
    slopes = np.array([fit(np.delete(curves, i, axis=0)) for i in range(n)])
    return fit(curves), np.sqrt((n - 1) / n * np.sum((slopes - slopes.mean()) ** 2))


@pytest.mark.parametrize("exponent", [0.0, 0.3, 0.5, 1.0, 1.7])
def test_the_exponent_of_a_power_is_found(exponent: float) -> None:
    curve = np.arange(1, 5001) ** exponent
    growth = growth_exponent([0.1 * curve, 7 * curve])
    for value in (growth.exponent, growth.low, growth.high):
        assert value == pytest.approx(exponent, abs=1e-12)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99])
def test_the_interval_is_the_jackknife_with_t(confidence: float) -> None:
    rng = np.random.default_rng(4)
    curves = np.cumsum(rng.exponential(size=(7, 400)), axis=1) * rng.exponential(size=(7, 1))
    points = np.array([10, 30, 100, 400])
    growth = growth_exponent(curves, points, confidence=confidence)
    exponent, error = leave_one_out(curves, points)
    width = error * stats.t.ppf((1 + confidence) / 2, 6)
    assert growth.exponent == pytest.approx(exponent, abs=1e-12)
    assert growth.low == pytest.approx(exponent - width, abs=1e-10)
    assert growth.high == pytest.approx(exponent + width, abs=1e-10)
    np.testing.assert_allclose(growth.mean_regret, curves.mean(axis=0)[points - 1], rtol=1e-12)


@pytest.mark.parametrize("n_runs", [5, 20])
def test_the_interval_covers_the_exponent_as_often_as_it_says(n_runs: int) -> None:
    # The mean of these curves is n ** 0.6; each run wanders around it.
    rng = np.random.default_rng(5)
    mean = np.arange(1, 5) ** 0.6
    n = 1000
    hits = 0
    for _ in range(n):
        curves = np.cumsum(rng.exponential(size=(n_runs, 4)) * np.diff(mean, prepend=0), axis=1)
        growth = growth_exponent(curves, confidence=0.9)
        hits += growth.low <= 0.6 <= growth.high
    # With quantiles of the normal instead of Student's t it would be 0.82 with five runs.
    assert 0.86 < hits / n < 0.93


def test_default_checkpoints_span_two_decades() -> None:
    growth = growth_exponent(np.ones((2, 10_000)))
    assert growth.checkpoints[[0, -1]].tolist() == [100, 10_000]
    assert len(growth.checkpoints) == 9
    assert growth_exponent(np.ones((2, 2))).checkpoints.tolist() == [1, 2]


def test_regret_that_is_not_positive_has_no_exponent() -> None:
    with pytest.raises(ValueError, match=r"regrets with mean -1 at a checkpoint: expected posit"):
        growth_exponent([[1, 1], [1, -3]])
    growth = growth_exponent([[1, 3], [1, 3], [1, -1]])
    assert growth.exponent == pytest.approx(np.log(5 / 3) / np.log(2))
    assert growth.high > growth.exponent > growth.low
    growth = growth_exponent([[1, 5], [1, -1]])
    assert (growth.low, growth.high) == (-np.inf, np.inf)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: regret([0, 0], [0]), r"comparator of shape \(1,\): expected \(2,\)"),
        (lambda: regret([np.nan], [0]), "log_predictive with entries that are NaN"),
        (lambda: regret([0], [np.inf]), "comparator with entries that are NaN or"),
        (lambda: regret([], []), "log_predictive of shape"),
        (lambda: best_sequence([0.0], 1), "comparators of shape"),
        (lambda: best_sequence([[0.0]], -1), "n_switches=-1: expected an integer"),
        (lambda: shifting_regret([0.0], [[0.0, 0.0]], 1), r"expected \(..., symbols\) and"),
        (lambda: growth_exponent([[1, 2, 3]]), "regrets of shape"),
        (lambda: growth_exponent([[1, np.inf], [1, 2]]), "regrets with entries that are not"),
        (lambda: growth_exponent([[1, 2], [1, 2]], [1]), "checkpoints=.1.: expected two"),
        (lambda: growth_exponent([[1, 2], [1, 2]], [1, 3]), r"checkpoints\[1\]=3: expected"),
        (lambda: growth_exponent([[1, 2], [1, 2]], confidence=1), "confidence=1: expected"),
    ],
)
def test_bad_input_is_refused(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()  # type: ignore[operator]


def test_non_numbers_are_a_type_error() -> None:
    with pytest.raises(TypeError, match="log_predictive='abc': expected an array"):
        regret("abc", [0])
    with pytest.raises(TypeError, match=r"regrets=\[\[1, 2\], \[1\]\]: expected an array"):
        growth_exponent([[1, 2], [1]])
