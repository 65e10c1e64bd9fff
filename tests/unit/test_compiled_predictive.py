"""The predictive of a family of the user: everything computed from its density is right."""

from __future__ import annotations

import ctypes
import math
import sys
from typing import Any

import numpy as np
import pytest
import scipy.stats as st

import mdvpf
from benchmarks.numbers import in_numba
from mdvpf.filter import Predictive
from mdvpf.filter.calibration import integral_transforms
from tests import own_families

pytest.importorskip("numba", reason="needs Numba: install mdvpf[numba]")

LEVELS = np.array([1e-6, 0.01, 0.2, 0.5, 0.8, 0.99, 1.0 - 1e-6])


def of_rows(family: mdvpf.CompiledEmission, *rows: list[float], weights: Any = None) -> Predictive:
    weights = np.ones(len(rows)) if weights is None else np.array(weights)
    return Predictive(family, weights, np.array(rows, dtype=np.float64))


def of_shape(kind: str, a: float, b: float) -> Predictive:
    return of_rows(own_families.shaped(), [own_families.SHAPES.index(kind), a, b])


# ---- one number, against closed forms ----------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "a", "b", "expected"),
    [
        ("gamma", 2.0, 3.0, st.gamma(2.0, scale=3.0)),
        ("gamma", 0.1, 1.0, st.gamma(0.1)),  # grows without bounds towards 0
        ("gamma", 0.81, 1e-4, st.gamma(0.81, scale=1e-4)),
        ("gamma", 0.999, 1.0, st.gamma(0.999)),
        ("gamma", 1.0, 1e-6, st.expon(scale=1e-6)),
        ("gamma", 1e6, 1.0, st.gamma(1e6)),
        ("beta", 2.0, 3.0, st.beta(2.0, 3.0)),
        ("beta", 0.5, 3.0, st.beta(0.5, 3.0)),
        ("beta", 3000.0, 3.0, st.beta(3000.0, 3.0)),
        ("uniform", -3.0, math.pi, st.uniform(-3.0, 3.0 + math.pi)),
        ("uniform", 100.3, 109.0, st.uniform(100.3, 8.7)),
        ("lognormal", 0.0, 3.0, st.lognorm(3.0)),
        ("lognormal", 2.0, 0.01, st.lognorm(0.01, scale=math.exp(2.0))),
        ("t", 50.0, 1.0, st.t(50.0)),
        ("t", 2.1, 1e-3, st.t(2.1, scale=1e-3)),
        ("pareto", 3.0, 1.37, st.pareto(3.0, scale=1.37)),
        ("pareto", 2.5, 1e9, st.pareto(2.5, scale=1e9)),
        ("laplace", 1e5, 0.1, st.laplace(1e5, 0.1)),
    ],
)
def test_a_density_of_any_shape_has_its_distribution_function_and_moments(
    kind: str, a: float, b: float, expected: Any
) -> None:
    found = of_shape(kind, a, b)
    x = expected.ppf(LEVELS)
    np.testing.assert_allclose(found.cdf(x), LEVELS, rtol=0, atol=1e-9)
    np.testing.assert_allclose(expected.cdf(found.ppf(LEVELS)), LEVELS, rtol=0, atol=1e-9)
    assert found.mean() == pytest.approx(expected.mean(), rel=1e-8)
    assert found.var() == pytest.approx(expected.var(), rel=1e-6)
    assert not found.is_discrete


@pytest.mark.parametrize(
    ("kind", "a", "mean", "variance"),
    [
        ("t", 0.3, math.nan, math.nan),
        ("t", 1.0, math.nan, math.nan),
        ("t", 1.05, 0.0, math.inf),
        ("t", 2.0, 0.0, math.inf),
        ("t", 2.01, 0.0, 2.01 / 0.01),
        ("pareto", 0.5, math.inf, math.nan),
        ("pareto", 1.5, 3.0, math.inf),
    ],
)
def test_moments_that_do_not_exist_are_not_numbers_or_infinite(
    kind: str, a: float, mean: float, variance: float
) -> None:
    found = of_shape(kind, a, 1.0)
    assert found.mean() == pytest.approx(mean, rel=1e-8, abs=1e-9, nan_ok=True)
    assert found.var() == pytest.approx(variance, rel=1e-6, nan_ok=True)


@pytest.mark.parametrize("df", [0.3, 1.0, 2.0, 5.0])
def test_heavy_tails_have_their_quantiles(df: float) -> None:
    found, expected = of_shape("t", df, 7.0), st.t(df, scale=7.0)
    levels = np.array([1e-9, 1e-4, 0.4])
    np.testing.assert_allclose(found.ppf(levels), expected.ppf(levels), rtol=1e-5)
    assert found.ppf([0.0, 1.0]).tolist() == [-math.inf, math.inf]
    assert np.isnan(found.ppf([-0.1, math.nan])).all()


@pytest.mark.parametrize("a", [3.0, -1e4, 1e8])
@pytest.mark.parametrize("b", [5.0, 2e4])
def test_two_modes_far_apart_are_both_found(a: float, b: float) -> None:
    found = of_shape("two normals", a, b)
    x = np.array([a - 1.0, a, a + 2.0, b - 1.0, b, b + 0.3])
    expected = (st.norm.cdf(x - a) + st.norm.cdf(x - b)) / 2.0
    np.testing.assert_allclose(found.cdf(x), expected, rtol=0, atol=1e-8)
    assert found.mean() == pytest.approx((a + b) / 2.0, rel=1e-9)
    assert found.var() == pytest.approx(1.0 + (a - b) ** 2 / 4.0, rel=1e-9)


@pytest.mark.parametrize("statistics", [[0.0, 0.0], [3.0, -7.0], [100.0, 1e10], [1e6, 1e14]])
def test_a_normal_with_known_variance_is_normal(statistics: list[float]) -> None:
    n, total = statistics
    k = 0.1 + n
    expected = st.norm(total / k, math.sqrt(1.0 + 1.0 / k))
    found = of_rows(own_families.known_variance(), statistics)
    x = expected.ppf(LEVELS)
    # A number of 1e8 is itself rounded by 1e-8.
    rounding = 1e-12 + 1e-16 * abs(expected.mean())
    np.testing.assert_allclose(found.cdf(x), LEVELS, rtol=0, atol=rounding)
    np.testing.assert_allclose(found.ppf(LEVELS), x, rtol=1e-15, atol=1e-7)
    assert found.mean() == pytest.approx(expected.mean(), rel=1e-15, abs=1e-12)
    assert found.var() == pytest.approx(expected.var(), rel=1e-8)


@pytest.mark.parametrize(
    "statistics", [[3.0, 1.0], [10.0, 1000.0], [100.0, 1e5], [2.0, 1e6], [0.5, 3.0]]
)
def test_a_beta_negative_binomial_is_one(statistics: list[float]) -> None:
    r, a, b = 3.0, 2.0 + 3.0 * statistics[0], 1.0 + statistics[1]
    found = of_rows(own_families.beta_negative_binomial(2.0, 1.0, r), statistics)
    assert found.is_discrete
    most = int(2.0 * r * b / (a - 1.0))
    counts = np.arange(min(most, 300_000) + 50)
    expected = np.cumsum(found.pmf(counts))
    np.testing.assert_allclose(found.cdf(counts[::37]), expected[::37], rtol=0, atol=2e-9)
    assert found.mean() == pytest.approx(r * b / (a - 1.0), rel=1e-8)
    variance = r * (a + r - 1.0) * b * (a + b - 1.0) / ((a - 2.0) * (a - 1.0) ** 2)
    assert found.var() == pytest.approx(variance, rel=1e-5)
    for q in LEVELS:
        count = found.ppf(q)
        assert count == np.floor(count) >= 0.0
        assert found.cdf(count - 1.0) < q <= found.cdf(count)


def test_the_probabilities_of_counts_are_those_of_the_family() -> None:
    found = of_rows(own_families.beta_negative_binomial(2.0, 1.0, 3.0), [3.0, 1.0])
    counts = np.arange(30)
    np.testing.assert_allclose(found.pmf(counts), st.betanbinom.pmf(counts, 3.0, 11.0, 2.0))
    assert found.pmf([-1.0, 0.5, math.inf]).tolist() == [0.0, 0.0, 0.0]
    assert found.cdf([-1.0, -0.5]).tolist() == [0.0, 0.0]
    assert found.cdf(3.7) == found.cdf(3.0)
    assert found.ppf([0.0, 1.0]).tolist() == [-1.0, math.inf]
    with pytest.raises(TypeError, match="logpmf"):
        of_shape("t", 1.0, 1.0).logpmf(0)


def test_a_variance_of_counts_that_is_infinite_is_infinite() -> None:
    found = of_rows(own_families.beta_negative_binomial(2.0, 1.0, 3.0), [0.0, 0.0])
    assert found.mean() == pytest.approx(3.0, rel=1e-8)
    assert found.var() == math.inf


# ---- filters, against the built-in families ----------------------------------------------------

GAUSSIAN = (0.5, 0.3, 1.5, 0.4)
POISSON = (2.0, 0.5)


def pair(kind: str, **options: Any) -> tuple[mdvpf.ParticleFilter, mdvpf.ParticleFilter]:
    """Return a filter over a family of the user and one over the same built-in family."""
    rng = np.random.default_rng(3)
    if kind == "Gaussian":
        families: Any = in_numba(GAUSSIAN), mdvpf.Gaussian(1, *GAUSSIAN)
        y = 0.5 * rng.normal(size=60) + np.repeat([0.0, 4.0, 1.0], 20)
    else:
        families = own_families.poisson(*POISSON), mdvpf.Poisson(*POISSON)
        y = rng.poisson(np.repeat([2.0, 30.0, 5.0], 20)).astype(np.float64)
    found = []
    for family in families:
        model = mdvpf.InfiniteHMM(emission=family, **options)
        found.append(mdvpf.ParticleFilter(model, mdvpf.VPA(), n_particles=20, rng=1))
        found[-1].run(y)
    return found[0], found[1]


@pytest.mark.parametrize("kind", ["Gaussian", "Poisson"])
def test_a_predictive_agrees_with_the_built_in_one(kind: str) -> None:
    own, built_in = (pf.predictive() for pf in pair(kind, forget=1.0))
    x = np.arange(-3.0, 60.0)
    np.testing.assert_allclose(own.cdf(x), built_in.cdf(x), rtol=0, atol=1e-9)
    np.testing.assert_allclose(own.sf(x), built_in.sf(x), rtol=0, atol=1e-9)
    np.testing.assert_allclose(own.ppf(LEVELS[1:-1]), built_in.ppf(LEVELS[1:-1]), rtol=1e-8)
    np.testing.assert_allclose(own.interval(0.9), built_in.interval(0.9), rtol=1e-8)
    assert own.mean() == pytest.approx(built_in.mean(), rel=1e-9)
    assert own.var() == pytest.approx(built_in.var(), rel=1e-6)
    assert own.std() == pytest.approx(built_in.std(), rel=1e-6)
    assert own.is_discrete == built_in.is_discrete
    assert own.marginal(0).cdf(1.0) == own.cdf(1.0)
    assert own.quantile(0.3) == own.ppf(0.3)


def test_a_mean_of_1e8_with_a_variance_of_1_is_found() -> None:
    prior = (1e8, 0.1, 2.0, 1.0)
    y = 1e8 + np.random.default_rng(0).normal(size=50)
    found = []
    for family in (in_numba(prior), mdvpf.Gaussian(1, *prior)):
        pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=family), mdvpf.VPA(), 20)
        pf.run(y)
        found.append(pf.predictive())
    own, built_in = found
    x = 1e8 + np.linspace(-4.0, 4.0, 33)
    # Numbers of 1e8 are 1.5e-8 apart.
    np.testing.assert_allclose(own.cdf(x), built_in.cdf(x), rtol=0, atol=1e-8)
    np.testing.assert_allclose(own.ppf(LEVELS[1:-1]), built_in.ppf(LEVELS[1:-1]), atol=1e-7)
    assert own.mean() == pytest.approx(built_in.mean(), rel=1e-15)
    assert own.var() == pytest.approx(built_in.var(), rel=1e-6)


@pytest.mark.parametrize("statistics", [[1e4, 0.0], [10.0, 1e7], [1e5, 1e8]])
def test_counts_of_every_size_have_their_distribution(statistics: list[float]) -> None:
    found = of_rows(own_families.poisson(*POISSON), statistics)
    built_in = Predictive(mdvpf.Poisson(*POISSON), np.ones(1), np.array([statistics]))
    x = built_in.ppf(LEVELS)
    # The family's log gamma functions are rounded: of 1e8, by 2e-7.
    np.testing.assert_allclose(found.cdf(x), built_in.cdf(x), rtol=0, atol=1e-7)
    assert found.mean() == pytest.approx(built_in.mean(), rel=1e-9)
    assert found.var() == pytest.approx(built_in.var(), rel=1e-6)


def test_functions_that_call_python_are_called() -> None:
    doubles = ctypes.POINTER(ctypes.c_double)
    to_status = ctypes.c_int

    def exponential(y: Any, statistics: Any, n: int, out: Any, data: Any) -> int:
        for i in range(n):
            out[i] = -y[0] if y[0] >= 0.0 else -1e300
        return 0

    density = ctypes.CFUNCTYPE(
        to_status, doubles, doubles, ctypes.c_int64, doubles, ctypes.c_void_p
    )(exponential)
    update = ctypes.CFUNCTYPE(to_status, doubles, ctypes.c_double, doubles, ctypes.c_void_p)(
        lambda y, weight, statistics, data: 0
    )
    family = mdvpf.CompiledEmission(density, update, 1)
    found = of_rows(family, [0.0])
    np.testing.assert_allclose(found.cdf([0.5, 3.0]), 1.0 - np.exp([-0.5, -3.0]), atol=1e-9)
    assert found.ppf(0.5) == pytest.approx(math.log(2.0), rel=1e-9)


def test_nothing_of_it_needs_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    own, built_in = (pf.predictive() for pf in pair("Gaussian"))
    for name in ("scipy", "scipy.special", "scipy.stats"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match="scipy"):
        built_in.cdf(0.0)
    low, high = own.interval(0.9)
    assert low < own.ppf(0.5) < high
    assert own.cdf(high) - own.cdf(low) == pytest.approx(0.9, abs=1e-9)


# ---- draws -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["t", "two normals", "gamma"])
def test_draws_have_the_distribution(kind: str) -> None:
    found = of_shape(kind, 1.5, 3.0)
    drawn = found.rvs(3000, random_state=1)
    assert st.kstest(drawn, found.cdf).pvalue > 1e-3
    other = of_shape(kind, 1.5, 3.5).rvs(3000, random_state=2)
    assert st.kstest(other, found.cdf).pvalue < 1e-2


def test_draws_of_a_mixture_are_draws_of_its_components() -> None:
    rows = [[5.0, 5e3], [5.0, 0.0], [0.0, 0.0]]
    found = of_rows(own_families.known_variance(), *rows, weights=[0.5, 0.3, 0.2])
    drawn = found.rvs(3000, random_state=1)
    assert st.kstest(drawn, found.cdf).pvalue > 1e-3
    np.testing.assert_array_equal(found.sample(3000, np.random.default_rng(1)), drawn)
    assert found.rvs((2, 3), random_state=0).shape == (2, 3)
    assert isinstance(found.rvs(random_state=0), float)


def test_draws_of_counts_have_the_distribution() -> None:
    found = of_rows(own_families.poisson(*POISSON), [3.0, 12.0], [5.0, 0.0])
    drawn = found.rvs(5000, random_state=1)
    counts = np.arange(12)
    observed = np.append(np.bincount(drawn.astype(int), minlength=12)[:12], (drawn > 11).sum())
    expected = 5000 * np.append(found.pmf(counts), found.sf(11))
    assert st.chisquare(observed, expected).pvalue > 1e-3


@pytest.mark.parametrize("kind", ["Gaussian", "Poisson"])
def test_continuations_are_distributed_as_those_of_the_built_in_family(kind: str) -> None:
    own, built_in = pair(kind, half_life=30.0)
    drawn = own.sample(3, size=2000, rng=1)
    expected = built_in.sample(3, size=2000, rng=2)
    assert drawn.shape == expected.shape == (2000, 3)
    if kind == "Gaussian":  # the test needs a continuous distribution
        assert st.kstest(drawn[:, 0], built_in.predictive().cdf).pvalue > 1e-3
    # Sums depend on what a continuation has learnt from its own numbers.
    for i in range(3):
        assert st.ks_2samp(drawn[:, i], expected[:, i]).pvalue > 1e-3
    assert st.ks_2samp(drawn.sum(axis=1), expected.sum(axis=1)).pvalue > 1e-3
    np.testing.assert_array_equal(own.sample(3, size=2000, rng=1), drawn)


@pytest.mark.parametrize("kind", ["Gaussian", "Poisson"])
def test_a_forecast_is_that_of_the_built_in_family(kind: str) -> None:
    own, built_in = (pf.forecast(3, size=2000, rng=1) for pf in pair(kind))
    x = np.arange(-2.0, 50.0)
    np.testing.assert_allclose(own[0].cdf(x), built_in[0].cdf(x), rtol=0, atol=1e-9)
    for found, expected in zip(own[1:], built_in[1:], strict=True):
        # The mean of 2,000 functions has a standard deviation below 0.5 / sqrt(2000) = 0.011.
        np.testing.assert_allclose(found.cdf(x), expected.cdf(x), rtol=0, atol=0.05)
        assert len(found.weights) > 2000
        assert found.ppf(0.1) < found.ppf(0.9)


# ---- several numbers ---------------------------------------------------------------------------


def test_marginals_leave_the_other_numbers_out() -> None:
    found = of_rows(own_families.sums_of_normals(), [0.0])
    assert found.n_dims == 3
    for i in range(3):
        part, expected = found.marginal(i), st.norm(1e3, math.sqrt(i + 1.0))
        np.testing.assert_allclose(part.cdf(expected.ppf(LEVELS)), LEVELS, rtol=0, atol=1e-9)
        assert part.logpdf(1001.0) == pytest.approx(expected.logpdf(1001.0), rel=1e-12)
    np.testing.assert_allclose(found.mean(), [1e3, 1e3, 1e3], rtol=1e-12)
    np.testing.assert_allclose(found.var(), [1.0, 2.0, 3.0], rtol=1e-6)
    with pytest.raises(ValueError, match=r"cdf.*marginal\(0\)"):
        found.cdf([1e3, 1e3, 1e3])
    with pytest.raises(ValueError, match="marginal"):
        found.ppf(0.5)


def test_several_numbers_are_drawn_one_given_another() -> None:
    model = mdvpf.InfiniteHMM(emission=own_families.sums_of_normals())
    pf = mdvpf.ParticleFilter(model, n_particles=3)
    pf.update((1000.0, None, 1000.0))
    for drawn in (pf.predictive().rvs(2000, random_state=1), pf.sample(1, 2000, rng=2)[:, 0]):
        assert drawn.shape == (2000, 3)
        steps = np.diff(drawn, axis=1, prepend=1e3)  # independent, and standard normal
        for i in range(3):
            assert st.kstest(steps[:, i], st.norm.cdf).pvalue > 1e-3
        assert np.abs(np.corrcoef(steps.T) - np.eye(3)).max() < 0.1
    assert pf.sample(4, size=2, rng=0).shape == (2, 4, 3)
    assert [part.n_dims for part in pf.forecast(2, size=3, rng=0)] == [3, 3]


# ---- mixtures, transforms and pictures ---------------------------------------------------------


def test_a_mixture_of_filters_mixes_their_distributions() -> None:
    priors = [(0.0, 0.5, 2.0, 1.0), (4.0, 0.1, 3.0, 2.0)]
    mixtures = []
    for families in ([in_numba(p) for p in priors], [mdvpf.Gaussian(1, *p) for p in priors]):
        members = [
            mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=family), n_particles=5)
            for family in families
        ]
        mixtures.append(mdvpf.Mixture(members))
        mixtures[-1].run([0.0, 5.0, 4.5])
    own, built_in = (mixture.predictive() for mixture in mixtures)
    x = np.linspace(-5.0, 9.0, 50)
    np.testing.assert_allclose(own.logpdf(x), built_in.logpdf(x), rtol=0, atol=1e-9)
    np.testing.assert_allclose(own.cdf(x), built_in.cdf(x), rtol=0, atol=1e-9)
    np.testing.assert_allclose(own.interval(0.8), built_in.interval(0.8), rtol=1e-8)
    assert own.mean() == pytest.approx(built_in.mean(), rel=1e-9)
    assert own.var() == pytest.approx(built_in.var(), rel=1e-6)
    assert not own.is_discrete and own.marginal(0).ppf(0.2) == own.ppf(0.2)
    assert st.kstest(own.rvs(2000, random_state=1), built_in.cdf).pvalue > 1e-3


def test_a_family_of_the_user_mixes_with_a_built_in_one() -> None:
    own, built_in = (pf.predictive() for pf in pair("Gaussian"))
    mixed = Predictive.mixed(np.array([0.3, 0.7]), [own, built_in])
    x = np.linspace(-2.0, 6.0, 9)
    np.testing.assert_allclose(mixed.cdf(x), built_in.cdf(x), rtol=0, atol=1e-9)
    np.testing.assert_allclose(mixed.pdf(x), built_in.pdf(x), rtol=1e-9)
    assert mixed.var() == pytest.approx(built_in.var(), rel=1e-6)
    assert st.kstest(mixed.rvs(2000, random_state=1), built_in.cdf).pvalue > 1e-3


def test_members_with_counts_and_with_real_numbers_do_not_mix() -> None:
    members = [
        mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=family), n_particles=5)
        for family in (in_numba(GAUSSIAN), own_families.poisson(*POISSON))
    ]
    with pytest.raises(ValueError, match=r"members\[1\] has other observations"):
        mdvpf.Mixture(members)


@pytest.mark.parametrize("kind", ["Gaussian", "Poisson"])
def test_integral_transforms_are_those_of_the_built_in_family(kind: str) -> None:
    y = [1.0, None, 3.0, 20.0, 2.0]
    own, built_in = pair(kind)
    found, expected = (integral_transforms(pf, y, rng=5) for pf in (own, built_in))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)
    twin = pair(kind)[0]
    twin.run(y)
    assert own._core.snapshot() == twin._core.snapshot()


def test_pictures_show_it() -> None:
    pytest.importorskip("matplotlib")
    from mdvpf.plots import calibration_figure, fan_figure

    own, _ = pair("Gaussian")
    ahead = own.forecast(3, size=50, rng=0)
    figure = fan_figure([0.0, 1.0], ahead)
    median: Any = figure.axes[0].patches[0]
    np.testing.assert_allclose(median.get_data().values, [part.ppf(0.5) for part in ahead])
    transforms = integral_transforms(own, [0.0, 1.0, 4.0])
    assert len(calibration_figure(transforms).axes[0].patches) >= 20


# ---- failures ----------------------------------------------------------------------------------


@pytest.mark.parametrize("ask", ["cdf", "ppf", "mean", "var", "rvs"])
@pytest.mark.parametrize(
    ("family", "row", "message"),
    [
        ("unnormalised", [0.0], r"'unnormalised'.*integrate to 2, expected 1"),
        ("flat", [0.0], r"'flat'.*expected 1"),
        ("nowhere", [0.0], r"'nowhere'.*integrate to no probability, expected 1"),
        ("status", [0.0], r"log_predictive of 'status' returned the status 3"),
        ("nan", [0.0], r"log_predictive of 'nan' wrote nan at the observation -"),
    ],
)
def test_a_density_that_is_none_is_named(
    family: str, row: list[float], message: str, ask: str
) -> None:
    found = of_rows(broken(family), row)
    rng = np.random.default_rng(1)
    before = rng.bit_generator.state
    with pytest.raises(ValueError, match=message):
        if ask == "rvs":
            found.rvs(3, random_state=rng)
        else:
            getattr(found, ask)(*[0.5] * (ask in ("cdf", "ppf")))
    assert rng.bit_generator.state == before


def test_a_plateau_too_narrow_to_be_found_is_an_error_and_not_a_wrong_number() -> None:
    found = of_shape("uniform", 155.9, 156.1)
    with pytest.raises(ValueError, match=r"'shaped'.*no probability, expected 1"):
        found.mean()


def broken(name: str) -> mdvpf.CompiledEmission:
    doubles = ctypes.POINTER(ctypes.c_double)

    def log_predictive(y: Any, statistics: Any, n: int, out: Any, data: Any) -> int:
        value = {
            "unnormalised": math.log(2.0) - y[0] ** 2 / 2.0 - 0.5 * math.log(2.0 * math.pi),
            "flat": -2.3,
            "nowhere": -1e300,
            "status": 0.0,
            "nan": math.nan if y[0] < 0.0 else -abs(y[0]),
        }[name]
        for i in range(n):
            out[i] = value
        return 3 * (name == "status")

    density = ctypes.CFUNCTYPE(
        ctypes.c_int, doubles, doubles, ctypes.c_int64, doubles, ctypes.c_void_p
    )(log_predictive)
    update = ctypes.CFUNCTYPE(ctypes.c_int, doubles, ctypes.c_double, doubles, ctypes.c_void_p)(
        lambda y, weight, statistics, data: 0
    )
    return mdvpf.CompiledEmission(density, update, 1, name=name)


@pytest.mark.parametrize("fault", ["status", "value"])
def test_a_failure_within_a_continuation_changes_nothing(fault: str) -> None:
    doubles = ctypes.POINTER(ctypes.c_double)
    normal = own_families.known_variance()
    fails = False

    def update(y: Any, weight: float, statistics: Any, data: Any) -> int:
        statistics[0] += weight
        statistics[1] += math.nan if fails and fault == "value" else weight * y[0]
        return 7 * (fails and fault == "status")

    compiled = ctypes.CFUNCTYPE(ctypes.c_int, doubles, ctypes.c_double, doubles, ctypes.c_void_p)(
        update
    )
    data = list(normal.user_data)
    family = mdvpf.CompiledEmission(normal.addresses[0], compiled, 2, user_data=data, name="mine")
    # Reading the particles of MD-VPA would call `update` in the core, which has its own error.
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=family), mdvpf.VPA(), 5, rng=1)
    pf.run([0.0, 5.0, 5.1])
    before, state = pf._core.snapshot(), pf.rng.bit_generator.state
    fails = True
    for ask in (lambda: pf.sample(3, 4, rng=pf.rng), lambda: pf.forecast(3, 4, rng=pf.rng)):
        with pytest.raises(ValueError, match=r"update of 'mine' (returned.*7|wrote.*nan)"):
            ask()
        assert pf._core.snapshot() == before
        assert pf.rng.bit_generator.state == state


def test_transforms_that_fail_leave_the_filter_as_it_was() -> None:
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=broken("unnormalised")), n_particles=3)
    before = pf._core.snapshot()
    with pytest.raises(ValueError, match="unnormalised"):
        integral_transforms(pf, [None, 0.5, 1.0])
    assert pf._core.snapshot() == before
