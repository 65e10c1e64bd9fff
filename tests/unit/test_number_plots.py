"""Pictures of filters over numbers, and the integral transforms that one of them shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats

import mdvpf
from mdvpf.filter.calibration import integral_transforms
from mdvpf.plots import calibration_figure, fan_figure
from mdvpf.plots.filter_plots import emission_table, run_figure

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def pf() -> mdvpf.ParticleFilter:
    family = mdvpf.Gaussian(mean_strength=0.01, shape=2.0, scale=0.1)
    model = mdvpf.InfiniteHMM(emission=family)
    return mdvpf.ParticleFilter(model, mdvpf.VPA(), n_particles=20, history="full")


LOAD = [0.1, 0.0, 5.0, 5.1, 4.9, 0.05]


@pytest.fixture(scope="module")
def result(pf: mdvpf.ParticleFilter) -> mdvpf.FilterResult:
    return pf.run(LOAD)


def test_a_fan_has_the_quantiles_of_the_forecast(
    pf: mdvpf.ParticleFilter, result: mdvpf.FilterResult
) -> None:
    ahead = pf.forecast(4, size=30, rng=1)
    figure = fan_figure(LOAD, ahead, path=pf.path(), levels=(0.9, 0.5), changes=[2], title="load")
    (axes,) = figure.axes
    outer, inner, *points = axes.collections
    for band, level in ((outer, 0.9), (inner, 0.5)):
        low, high = ahead[0].interval(level)
        corners: Any = band.get_paths()[0].vertices
        at_first = corners[np.isclose(corners[:, 0], len(LOAD))][:, 1]
        assert at_first.min() == pytest.approx(low) and at_first.max() == pytest.approx(high)
    median: Any = axes.patches[0]
    np.testing.assert_allclose(median.get_data().values, [part.ppf(0.5) for part in ahead])
    by_state = {str(part.get_label()): np.asarray(part.get_offsets()) for part in points}
    path = pf.path()
    assert by_state.keys() == {f"state {state}" for state in set(path.tolist())}
    for state in set(path.tolist()):
        shown = by_state[f"state {state}"]
        assert shown[:, 1].tolist() == np.array(LOAD)[path == state].tolist()


def test_a_run_over_numbers_shows_surprise_below_zero(
    pf: mdvpf.ParticleFilter, result: mdvpf.FilterResult
) -> None:
    surprise = -result.log_predictive
    low, _ = run_figure(result).axes[0].get_ylim()
    assert low <= min(0.0, surprise.min())
    with pytest.raises(TypeError, match="fan_figure"):
        emission_table(pf)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"observations": [[1.0, 2.0]]}, "observations"),
        ({"observations": [1.0], "path": [0, 1]}, "path"),
        ({"observations": [1.0], "predictives": [3]}, "predictives"),
        ({"observations": [1.0], "levels": [2.0]}, "levels"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        fan_figure(**arguments)


def test_transforms_are_the_distribution_functions_of_the_predictions() -> None:
    model = mdvpf.InfiniteHMM(emission=mdvpf.Gaussian(2, shape=2.0))
    first, pf = (mdvpf.ParticleFilter(model, n_particles=10) for _ in range(2))
    rows = np.array([[0.1, 3.0], [np.nan, 2.0], [4.0, np.nan]])
    found = integral_transforms(first, rows)
    for row, transforms in zip(rows, found, strict=True):
        for i in range(2):
            expected = float(pf.predictive().marginal(i).cdf(row[i]))
            np.testing.assert_equal(transforms[i], expected if row[i] == row[i] else np.nan)
        pf.update(row)


def test_transforms_of_counts_are_uniform_within_their_jumps() -> None:
    rng = np.random.default_rng(3)
    counts = rng.poisson(rng.gamma(2.0) / 0.5, 300)
    pf = mdvpf.ParticleFilter(
        mdvpf.InfiniteHMM(emission=mdvpf.Poisson(2.0, 0.5), max_states=1), mdvpf.VPA(), 1
    )
    found = integral_transforms(pf, counts, rng=1)
    assert scipy.stats.kstest(found[20:], "uniform").pvalue > 1e-3
    with pytest.raises(TypeError, match="over numbers"):
        integral_transforms(mdvpf.ParticleFilter(mdvpf.InfiniteHMM(2), n_particles=2), [0])


def test_a_histogram_of_transforms_counts_each_once() -> None:
    figure = calibration_figure({"flat": np.linspace(0.0, 1.0, 400), "some": [0.5, np.nan]})
    assert [axes.get_title() for axes in figure.axes] == ["flat", "some"]
    patches: list[Any] = list(figure.axes[0].patches)
    heights = [patch.get_height() for patch in patches if patch.get_width() < 0.1]
    assert len(heights) == 20 and np.mean(heights) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="transforms"):
        calibration_figure([2.0])
