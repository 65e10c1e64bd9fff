"""Families over numbers, as users meet them: arguments, observations, predictives, forecasts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.stats

import mdvpf
from mdvpf.filter.calibration import integral_transforms
from mdvpf.model import read_observation, read_observations
from mdvpf.model.number_families import statistic_names
from tests.number_families import BUILT_IN, STREAMS

VPA = mdvpf.VPA()
GAUSSIAN = mdvpf.Gaussian(mean=0.5, mean_strength=0.3, shape=1.5, scale=0.4)


def make_filter(family: Any, algorithm: Any = VPA, n: int = 20, **model: Any) -> Any:
    model = mdvpf.InfiniteHMM(emission=family, **model)
    return mdvpf.ParticleFilter(model, algorithm, n, rng=1)


# ---- arguments -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: mdvpf.Gaussian(0), "n_dims"),
        (lambda: mdvpf.Gaussian(mean=math.nan), "mean"),
        (lambda: mdvpf.Gaussian(mean=math.inf), "mean"),
        (lambda: mdvpf.Gaussian(mean_strength=0.0), "mean_strength"),
        (lambda: mdvpf.Gaussian(shape=-1.0), "shape"),
        (lambda: mdvpf.Gaussian(scale="1"), "scale"),  # type: ignore[arg-type]
        (lambda: mdvpf.Poisson(shape=0.0), "shape"),
        (lambda: mdvpf.Poisson(rate=True), "rate"),
        (lambda: mdvpf.Product(), "families"),
        (lambda: mdvpf.Product(mdvpf.Gaussian(), mdvpf.InfiniteHMM(2)), r"families\[1\]"),  # type: ignore[arg-type]
        (lambda: mdvpf.InfiniteHMM(3, emission=mdvpf.Gaussian()), "n_symbols"),
        (lambda: mdvpf.InfiniteHMM(emission=mdvpf.Gaussian, beta=0.1), "emission"),  # type: ignore[arg-type]
        (lambda: mdvpf.InfiniteHMM(emission=mdvpf.Poisson(), machine="mealy"), "machine"),
    ],
)
def test_bad_arguments_are_named(make: Any, argument: str) -> None:
    with pytest.raises((TypeError, ValueError), match=argument):
        make()


def test_a_product_of_products_is_a_product() -> None:
    a, b, c = mdvpf.Gaussian(2), mdvpf.Poisson(), mdvpf.Categorical(3)
    assert mdvpf.Product(mdvpf.Product(a, b), c) == mdvpf.Product(a, b, c)
    assert hash(mdvpf.Product(a, b)) == hash(mdvpf.Product(a, b))


# ---- observations ----------------------------------------------------------------------------


def test_observations_come_in_many_forms() -> None:
    one = read_observations(mdvpf.Gaussian(), [1, None, 2.5, math.nan])
    masked = np.ma.masked_invalid(np.array([1.0, np.nan, 2.5, np.nan]))
    for form in (
        masked,
        np.array([[1.0], [np.nan], [2.5], [np.nan]]),
        np.array([1, None, 2.5, None]),
    ):
        np.testing.assert_array_equal(read_observations(mdvpf.Gaussian(), form), one)
    two = read_observations(mdvpf.Gaussian(2), np.array([[1.0, 2.0], [np.nan, 3.0]]))
    assert two.shape == (2, 2)
    counts = read_observations(mdvpf.Poisson(), np.array([3, 0, 7]))
    assert counts.tolist() == [[3.0], [0.0], [7.0]]
    family = mdvpf.Product(mdvpf.Gaussian(2), mdvpf.Categorical(3))
    rows = read_observations(family, (np.zeros((2, 2)), [2, None]))
    np.testing.assert_array_equal(rows, [[0.0, 0.0, 2.0], [0.0, 0.0, np.nan]])
    np.testing.assert_array_equal(read_observation(family, ((0.0, 0.0), 2)), rows[0])
    assert np.isnan(read_observation(family, None)).all()


def test_nulls_of_frames_are_missing_numbers() -> None:
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    expected = [[1.0, 2.0], [np.nan, 3.0]]
    for kind in ("float64", "Float64", "object"):
        frame = pandas.DataFrame({"a": [1.0, None], "b": [2.0, 3.0]}).astype(kind)
        np.testing.assert_array_equal(read_observations(mdvpf.Gaussian(2), frame), expected)
    family = mdvpf.Product(mdvpf.Poisson(), mdvpf.Categorical(3))
    for column in (pyarrow.array([1, None]), pandas.Series([1, None], dtype="Int64")):
        rows = read_observations(family, (column, column))
        np.testing.assert_array_equal(rows, [[1.0, 1.0], [np.nan, np.nan]])


@pytest.mark.parametrize("family", [mdvpf.Categorical(3), mdvpf.OpenVocabulary(), mdvpf.Poisson()])
def test_a_bad_entry_of_an_array_is_shown_as_it_was_given(family: Any) -> None:
    with pytest.raises(ValueError, match=r"^symbols\[0\]\[1\]=-7: expected an integer in 0\.\."):
        make_filter(mdvpf.Product(family)).run((np.array([0, -7]),))


@pytest.mark.parametrize("observations", [{1.0, 2.0}, {1.0: 2.0}, "12", 5])
def test_observations_come_in_order(observations: Any) -> None:
    with pytest.raises(TypeError, match=r"^symbols=.*: expected a sequence of observations"):
        make_filter(GAUSSIAN).run(observations)


@pytest.mark.parametrize(
    ("family", "observation"),
    [
        (mdvpf.Gaussian(), math.inf),
        (mdvpf.Gaussian(), "1"),
        (mdvpf.Gaussian(), True),
        (mdvpf.Gaussian(), 1e200),
        (mdvpf.Gaussian(2), 1.0),
        (mdvpf.Gaussian(2), (1.0, 2.0, 3.0)),
        (mdvpf.Gaussian(2), (1.0, -math.inf)),
        (mdvpf.Poisson(), -1),
        (mdvpf.Poisson(), 1.5),
        (mdvpf.Product(mdvpf.Gaussian(), mdvpf.Categorical(2)), (0.0, 2)),
        (mdvpf.Product(mdvpf.Gaussian(), mdvpf.Categorical(2)), (0.0, 1.0)),
        (mdvpf.Product(mdvpf.Gaussian(), mdvpf.Categorical(2)), 0.0),
    ],
)
def test_bad_observations_are_refused_and_change_nothing(family: Any, observation: Any) -> None:
    pf = make_filter(family)
    before = pf._core.snapshot()
    with pytest.raises((TypeError, ValueError), match="symbol"):
        pf.update(observation)
    with pytest.raises((TypeError, ValueError), match="symbols"):
        pf.run([observation, observation])
    assert pf._core.snapshot() == before


def test_lengths_and_keys_are_checked() -> None:
    pf = make_filter(GAUSSIAN)
    with pytest.raises(ValueError, match="lengths"):
        pf.run([1.0, 2.0], lengths=[3])
    with pytest.raises(ValueError, match="symbols: arrays of lengths"):
        make_filter(mdvpf.Product(GAUSSIAN, GAUSSIAN)).run(([1.0], [1.0, 2.0]))
    with pytest.raises(ValueError, match="got none"):
        pf.run([])
    result = pf.run([1.0, 2.0, 1.5], keys=["a", "b", "a"])
    assert pf.n_keys == 2 and len(result.log_predictive) == 3


def test_a_missing_observation_has_log_predictive_0_and_counts_as_a_step() -> None:
    pf = make_filter(mdvpf.Gaussian(2))
    assert pf.update((None, math.nan)).log_predictive == 0.0
    assert pf.update(None).log_predictive == 0.0
    assert pf._core.n_steps == 2
    assert pf.counts().emission.sum() == 0.0


# ---- what symbols have and numbers have not ---------------------------------------------------


def test_what_only_symbols_have_names_predictive() -> None:
    pf = make_filter(GAUSSIAN)
    for method in ("predict_proba", "top", "to_hmm"):
        with pytest.raises(TypeError, match=r"predictive\(\)"):
            getattr(pf, method)()
    with pytest.raises(TypeError, match="predict_proba"):
        mdvpf.ParticleFilter(mdvpf.InfiniteHMM(2), n_particles=2).predictive()
    assert pf.n_symbols == 0


# ---- the predictive --------------------------------------------------------------------------


def test_the_predictive_before_anything_is_that_of_the_prior() -> None:
    found = make_filter(GAUSSIAN).predictive()
    scale = math.sqrt(0.4 * (0.3 + 1.0) / (1.5 * 0.3))
    prior = scipy.stats.t(df=3.0, loc=0.5, scale=scale)
    x = np.linspace(-4.0, 5.0, 7)
    np.testing.assert_allclose(found.logpdf(x), prior.logpdf(x), rtol=1e-12)
    np.testing.assert_allclose(found.pdf(x), prior.pdf(x), rtol=1e-12)
    np.testing.assert_allclose(found.cdf(x), prior.cdf(x), rtol=1e-10)
    np.testing.assert_allclose(found.sf(x), prior.sf(x), rtol=1e-10)
    np.testing.assert_allclose(found.ppf([0.1, 0.5, 0.99]), prior.ppf([0.1, 0.5, 0.99]), rtol=1e-8)
    np.testing.assert_allclose(found.interval(0.9), prior.interval(0.9), rtol=1e-8)
    assert found.mean() == pytest.approx(0.5) and found.var() == pytest.approx(prior.var())
    assert found.quantile(0.25) == found.ppf(0.25)


def test_the_predictive_of_counts_is_negative_binomial_before_anything() -> None:
    found = make_filter(mdvpf.Poisson(2.0, 0.5)).predictive()
    prior = scipy.stats.nbinom(2.0, 0.5 / 1.5)
    k = np.arange(-1, 30)
    np.testing.assert_allclose(found.pmf(k), prior.pmf(k), rtol=1e-10)
    np.testing.assert_allclose(found.cdf(k), prior.cdf(k), rtol=1e-10)
    levels = np.array([0.01, 0.3, 0.5, 0.9, 0.999])
    np.testing.assert_array_equal(found.ppf(levels), prior.ppf(levels))
    assert found.mean() == pytest.approx(prior.mean())
    assert found.var() == pytest.approx(prior.var())
    assert found.logpmf(2.5) == -math.inf


@pytest.mark.parametrize("shape", [1e-3, 0.7, 30.0, 1e6])
@pytest.mark.parametrize("rate", [1e-3, 1.0, 200.0])
def test_quantiles_of_counts_are_those_of_the_distribution(shape: float, rate: float) -> None:
    prior = scipy.stats.nbinom(shape, rate / (1.0 + rate))
    levels = np.array([1e-9, 0.01, 0.3, 0.5, 0.9, 0.999, 1.0 - 1e-9])
    found = make_filter(mdvpf.Poisson(shape, rate)).predictive().ppf(levels)
    assert (prior.cdf(found) >= levels * (1.0 - 1e-12)).all()
    assert (prior.cdf(found - 1.0) <= levels * (1.0 + 1e-12)).all()


def test_quantiles_of_counts_beyond_what_doubles_resolve() -> None:
    pf = make_filter(mdvpf.Poisson())
    pf.run([2**53, None, 2**53])
    found = pf.predictive().ppf([0.1, 0.5, 0.9, 1e-300])
    assert (found >= 0.0).all() and (found <= 1e17).all()


def test_quantiles_are_floats() -> None:
    pf = make_filter(mdvpf.Product(mdvpf.Poisson(), mdvpf.Categorical(4)))
    pf.run(([7, 8, 6, 7], [0, 1, 0, 3]))
    for i in range(2):
        levels = (0.05, 0.5, 0.95, 0.999)
        assert {type(pf.predictive().marginal(i).ppf(q)) for q in levels} == {np.float64}


def test_missing_numbers_of_a_predictive() -> None:
    family = mdvpf.Product(GAUSSIAN, mdvpf.Categorical(3), mdvpf.Poisson())
    found = make_filter(family).predictive()
    alone = found.marginal(1).logpdf(2)
    masked = np.ma.masked_array([0.1, 2.0, 5.0], [True, False, True])
    for x in ([None, 2, None], [math.nan, 2, math.nan], masked):
        assert found.logpdf(x) == pytest.approx(alone)
        assert np.isnan(found.cdf(x))
    for i in range(3):
        part = found.marginal(i)
        np.testing.assert_array_equal(part.cdf([math.nan, -math.inf, math.inf]), [math.nan, 0, 1])


@pytest.mark.parametrize("size", [-1, 2.5, (2, -1), "2"])
def test_a_bad_size_of_a_draw_is_named(size: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^size=.*: expected an integer in 0\.\."):
        make_filter(GAUSSIAN).predictive().rvs(size)


@pytest.mark.parametrize("algorithm", [mdvpf.VPA(), mdvpf.MDVPA(), mdvpf.SMC()])
@pytest.mark.parametrize("stream", STREAMS)
def test_the_predictive_of_an_observation_is_what_the_step_reports(
    stream: str, algorithm: Any
) -> None:
    family, observations = STREAMS[stream]
    pf = make_filter(family, algorithm, half_life=6.0)
    for i, observation in enumerate(observations * 2):
        key = "b" if i % 4 == 3 else None
        row = read_observation(family, observation)
        expected = pf.predictive(key).logpdf(row if len(row) > 1 else row[0])
        found = pf.update(observation, key).log_predictive
        assert found == pytest.approx(float(expected), rel=0, abs=1e-9)


def test_densities_integrate_to_the_distribution_function() -> None:
    pf = make_filter(GAUSSIAN)
    pf.run([0.1, -0.3, 5.0, 5.2, 0.0, 4.9])
    found = pf.predictive()
    x = np.linspace(-300.0, 300.0, 60_001)
    integral = np.trapezoid(found.pdf(x), x)
    assert integral == pytest.approx(found.cdf(300.0) - found.cdf(-300.0), abs=1e-5)
    for q in (0.03, 0.5, 0.8):
        assert found.cdf(found.ppf(q)) == pytest.approx(q, abs=1e-10)


def test_draws_have_the_distribution() -> None:
    pf = make_filter(mdvpf.Product(GAUSSIAN, mdvpf.Poisson(), mdvpf.Categorical(3)))
    pf.run(([0.1, 5.0, 0.0, 5.1], [1, 8, 2, 9], [0, 1, 0, 2]))
    found = pf.predictive()
    drawn = found.rvs(size=4000, random_state=3)
    assert drawn.shape == (4000, 3)
    np.testing.assert_array_equal(found.sample(size=4000, rng=3), drawn)
    ranks = found.marginal(0).cdf(drawn[:, 0])
    assert scipy.stats.kstest(ranks, "uniform").pvalue > 1e-3
    for i in (1, 2):
        part = found.marginal(i)
        assert drawn[:, i].mean() == pytest.approx(part.mean(), abs=4 * part.std() / 60)
        values, times = np.unique(drawn[:, i], return_counts=True)
        expected = part.pmf(values) * 4000
        error = np.abs(times - expected)
        assert (error < 5 * np.sqrt(expected) + 5).all()
    with pytest.raises(ValueError, match="marginal"):
        found.ppf(0.5)
    with pytest.raises(TypeError, match="logpdf"):
        found.logpmf([0.0, 1.0, 1.0])


def test_probability_integral_transforms_are_uniform() -> None:
    """Calibration: a stream drawn from the model itself, as the filter expects it."""
    rng = np.random.default_rng(11)
    states = np.repeat(rng.integers(0, 3, 50), 4)
    y = np.array([-6.0, 0.0, 7.0])[states] + rng.normal(size=200)
    pf = make_filter(mdvpf.Gaussian(shape=2.0, scale=2.0, mean_strength=0.05), n=60, kappa=3.0)
    ranks = []
    for value in y.tolist():
        ranks.append(float(pf.predictive().cdf(value)))
        pf.update(value)
    assert scipy.stats.kstest(ranks[50:], "uniform").pvalue > 1e-3


# ---- sample and forecast ---------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", [mdvpf.VPA(), mdvpf.MDVPA()])
@pytest.mark.parametrize("stream", BUILT_IN)
def test_samples_have_the_predictive_as_their_first_step(stream: str, algorithm: Any) -> None:
    family, observations = STREAMS[stream]
    pf = make_filter(family, algorithm, forget=1.0)
    for observation in observations:
        pf.update(observation)
    before = pf._core.snapshot()
    drawn = pf.sample(length=3, size=1500, rng=2)
    n_dims = len(read_observation(family, None))
    assert drawn.shape == ((1500, 3) if n_dims == 1 else (1500, 3, n_dims))
    first = pf.predictive().marginal(0)
    values = drawn.reshape(1500, 3, n_dims)[:, 0, 0]
    for q in (0.2, 0.5, 0.8):
        level = first.ppf(q)
        assert (values <= level).mean() == pytest.approx(float(first.cdf(level)), abs=0.06)
    assert pf._core.snapshot() == before


def test_a_forecast_starts_with_the_predictive_and_follows_the_cycle() -> None:
    pf = make_filter(mdvpf.Gaussian(scale=0.1, mean_strength=0.01), alpha=1e-3)
    pf.run([0.0, 5.0, 10.0] * 25)
    ahead = pf.forecast(horizon=4, size=200, rng=1)
    assert [round(float(part.ppf(0.5))) for part in ahead] == [0, 5, 10, 0]
    x = np.linspace(-1.0, 11.0, 5)
    np.testing.assert_allclose(ahead[0].logpdf(x), pf.predictive().logpdf(x))


def test_a_forecast_is_the_mixture_over_continuations() -> None:
    """The mean of the second step is that of the samples, to sampling error."""
    pf = make_filter(mdvpf.Poisson(3.0, 1.0))
    pf.run([2, 9, 1, 8, 3, 7])
    second = pf.forecast(horizon=2, size=4000, rng=4)[1]
    drawn = pf.sample(length=2, size=4000, rng=5)[:, 1]
    assert drawn.mean() == pytest.approx(second.mean(), abs=5 * float(second.std()) / 60)


# ---- open alphabets in products --------------------------------------------------------------

OPEN = mdvpf.Product(mdvpf.OpenVocabulary(), mdvpf.Poisson(), mdvpf.OpenVocabulary(0.5, 2.0, 0.0))
OPEN_STREAM = ([0, 0, 1, None, 0, 2], [3, None, 9, 2, 4, 8], [0, 1, None, 1, 2, 3])


@pytest.mark.parametrize("algorithm", [mdvpf.VPA(), mdvpf.MDVPA()])
def test_the_predictive_of_an_open_channel_includes_a_new_symbol(algorithm: Any) -> None:
    pf = make_filter(OPEN, algorithm)
    assert pf.predictive().marginal(0).pmf([0, 1]).tolist() == [1.0, 0.0]
    pf.run(OPEN_STREAM)
    found = pf.predictive()
    for i, n_seen in ((0, 3), (2, 4)):
        part = found.marginal(i)
        assert part.pmf(np.arange(n_seen + 1)).sum() == pytest.approx(1.0, rel=0, abs=1e-12)
        assert part.pmf(n_seen) > 0.0 == part.pmf(n_seen + 1)
        assert part.cdf(n_seen) == pytest.approx(1.0, rel=0, abs=1e-12)
        assert part.cdf(n_seen - 1) == pytest.approx(1.0 - part.pmf(n_seen), rel=0, abs=1e-12)
    assert found.is_discrete


def test_forecasts_join_the_symbols_that_are_new_by_then() -> None:
    pf = make_filter(OPEN)
    pf.run(OPEN_STREAM)
    for expected in pf.forecast(5, size=50, rng=3):
        for i, n_seen in ((0, 3), (2, 4)):
            part = expected.marginal(i).pmf(np.arange(n_seen + 1))
            assert part.sum() == pytest.approx(1.0, rel=0, abs=1e-12)


def test_samples_number_new_symbols_by_first_appearance() -> None:
    family = mdvpf.Product(mdvpf.OpenVocabulary(10.0, 50.0), mdvpf.OpenVocabulary(10.0, 50.0))
    pf = make_filter(family)
    pf.run(([0, 1], [0, None]))
    for drawn in pf.sample(length=40, size=20, rng=1):
        for column, n_seen in zip(drawn.T.astype(int).tolist(), (2, 1), strict=True):
            for symbol in column:
                assert 0 <= symbol <= n_seen
                n_seen = max(n_seen, symbol + 1)
            assert n_seen > 5
    assert pf._n_seen == (2, 1)


def test_a_first_forecast_averages_what_samples_then_predict() -> None:
    """Row 1 of a forecast from the continuations equals that of updated copies, on average."""
    pf = make_filter(mdvpf.Product(mdvpf.OpenVocabulary(strength=3.0)), max_states=1)
    pf.run(([0, 1, 0],))
    first = pf.predictive().marginal(0).pmf([0, 1, 2])
    exact = np.zeros(3)
    for symbol, probability in enumerate(first.tolist()):
        twin = pf.copy()
        twin.update((symbol,))
        after = twin.predictive().marginal(0).pmf(np.arange(4))
        exact += probability * np.array([after[0], after[1], after[2:].sum()])
    found = pf.forecast(2, size=20_000, rng=0)[1].marginal(0).pmf([0, 1, 2])
    np.testing.assert_allclose(found, exact, rtol=0, atol=0.005)


def test_names_of_statistics_include_the_symbols_seen() -> None:
    pf = make_filter(OPEN)
    pf.run(OPEN_STREAM)
    names = statistic_names(OPEN, pf._n_seen)
    assert names[:6] == [
        "0: number",
        "0: symbol 0",
        "0: symbol 1",
        "0: symbol 2",
        "1: number",
        "1: sum",
    ]
    assert len(names) == pf.counts().emission.shape[1]
    assert statistic_names(mdvpf.Product(mdvpf.Poisson(), mdvpf.OpenVocabulary()))[2:] == [
        "1: number"
    ]


def test_integral_transforms_of_open_channels() -> None:
    pf = make_filter(OPEN)
    with pytest.raises(ValueError, match=r"symbols\[0\]\[1\]=2: expected at most 1"):
        integral_transforms(pf, ([0, 2], [1, 1], [0, 0]))
    assert pf._core.n_steps == 0
    found = integral_transforms(pf, OPEN_STREAM, rng=0)
    present = np.array([[y is not None for y in column] for column in OPEN_STREAM]).T
    assert ((found >= 0.0) & (found <= 1.0))[present].all() and np.isnan(found[~present]).all()


def test_mixtures_of_open_channels() -> None:
    first, second = make_filter(OPEN), make_filter(OPEN, mdvpf.MDVPA())
    mixture = mdvpf.Mixture([first, second])
    mixture.run(OPEN_STREAM)
    assert mixture.predictive().marginal(0).pmf([0, 1, 2, 3]).sum() == pytest.approx(1.0)
    with pytest.raises(ValueError, match=r"symbol\[0\]=4"):
        mixture.update((4, None, None))
    first.run(OPEN_STREAM)
    with pytest.raises(ValueError, match=r"members\[1\] has seen \[0, 0\]"):
        mdvpf.Mixture([first, second])
    with pytest.raises(ValueError, match="restart"):
        mdvpf.Mixture([second], restart=mdvpf.Restart())


def test_a_detector_over_an_open_channel_marks_new_symbols() -> None:
    family = mdvpf.Product(mdvpf.OpenVocabulary(strength=0.1, discount=0.0), mdvpf.Poisson())
    detector = mdvpf.SurpriseDetector(make_filter(family))
    result = detector.run(([0, 1] * 60 + [2], [3] * 121))
    assert int(np.argmax(result.surprise[5:])) == 115
    assert result.alarm[-1]
