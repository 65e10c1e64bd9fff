"""Pictures of a filter show the numbers of the filter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdvpf
from mdvpf import plots
from mdvpf.plots.filter_plots import emission_table, run_figure, transition_graph

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def pf() -> mdvpf.ParticleFilter:
    made = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(5, beta=0.05), n_particles=50, history="full")
    made.vocabulary = mdvpf.Vocabulary(["ls", "cd", "$a$", "make", "never"])
    return made


@pytest.fixture(scope="module")
def result(pf: mdvpf.ParticleFilter) -> mdvpf.FilterResult:
    rng = np.random.default_rng(1)
    return pf.run([0, 1, 2, 3] * 40 + rng.integers(0, 2, 100).tolist())


def test_the_strips_of_a_run(pf: mdvpf.ParticleFilter, result: mdvpf.FilterResult) -> None:
    alarms = np.zeros(len(result), dtype=np.bool_)
    alarms[[0, 160, 161]] = True
    figure = run_figure(result, path=pf.path(), alarms=alarms, changes=[160], title="a run")
    surprise, states, ess, discarded, strip = figure.axes
    lines = {line.get_label(): line for line in surprise.lines}
    assert np.array_equal(lines["each symbol"].get_ydata(), -result.log_predictive)
    smooth = lines["mean of the last 50"]
    assert np.asarray(smooth.get_ydata())[-1] == pytest.approx(-result.log_predictive[-50:].mean())
    assert np.asarray(smooth.get_xdata())[-1] == len(result) - 1
    assert np.asarray(lines["alarm"].get_xdata()).tolist() == [0, 160, 161]
    assert np.asarray(lines["change point"].get_xdata()).tolist() == [160, 160]
    for axes, values in ((states, "mean_states"), (ess, "ess"), (discarded, "discarded")):
        assert np.array_equal(axes.lines[0].get_ydata(), getattr(result, values))
    shown: Any = strip.images[0].get_array()
    assert shown.argmax(axis=0).tolist() == pf.path().tolist()
    assert np.array_equal(shown.sum(axis=0), np.ones(len(result)))


def test_columns_of_a_path_that_cannot_be_divided() -> None:
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(2, beta=0.01), n_particles=5, history="full")
    result = pf.run([0, 1, 1] * 500 + [0])
    image = run_figure(result, path=pf.path()).axes[-1].images[0]
    shown: Any = image.get_array()
    assert shown.shape[1] == 751  # of two symbols each, and one of one
    assert shown[pf.path()[-1], -1] == 1.0
    assert list(image.get_extent())[:2] == [-0.5, 1501.5]


def test_a_long_path_is_shown_as_shares_of_time() -> None:
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(2, beta=0.01), n_particles=5, history=1600)
    result = pf.run([0, 1] * 1000)
    figure = run_figure(result, path=pf.path())
    image = figure.axes[-1].images[0]
    shown: Any = image.get_array()
    pairs = pf.path().reshape(800, 2)
    expected = [(pairs == state).mean(axis=1) for state in range(len(shown))]
    assert np.allclose(shown, expected, rtol=0, atol=1e-12)
    assert list(image.get_extent())[:2] == [399.5, 1999.5]  # the last 1600 symbols of the run


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alarms": [True]}, r"alarms of bool, shape \(1,\): expected 260 bools"),
        ({"alarms": np.zeros(260)}, "alarms of float64"),
        ({"path": np.zeros(261, dtype=int)}, "path of 261 states"),
        ({"path": [-1]}, "path"),
    ],
)
def test_what_does_not_fit_the_run(
    options: dict[str, Any], message: str, result: mdvpf.FilterResult
) -> None:
    with pytest.raises(ValueError, match=message):
        run_figure(result, **options)


def test_the_transition_graph(pf: mdvpf.ParticleFilter, result: mdvpf.FilterResult) -> None:
    counts = pf.counts().transition
    shares = counts / counts.sum(axis=1, keepdims=True)
    for least in (0.0, 0.05, 0.6):
        texts = sorted(t.get_text() for t in transition_graph(pf, least=least).axes[0].texts)
        arrows = [f"{share:.2f}" for share in shares[(counts > 0) & (shares >= least)]]
        assert texts == sorted(arrows + [str(i) for i in range(len(counts))])
    other = int(pf.weights.argmin())
    assert f"particle {other}: " in transition_graph(pf, k=other).axes[0].get_title()
    with pytest.raises(ValueError, match="least"):
        transition_graph(pf, least=2.0)


def test_the_emission_table(pf: mdvpf.ParticleFilter, result: mdvpf.FilterResult) -> None:
    counts = pf.counts().emission
    axes = emission_table(pf).axes[0]
    shown: Any = axes.images[0].get_array()
    assert np.allclose(shown, counts / counts.sum(axis=1, keepdims=True), rtol=0, atol=1e-12)
    written = {t.get_position(): t.get_text() for t in axes.texts}
    assert written == {(j, i): str(counts[i, j]) for i, j in np.argwhere(counts).tolist()}
    labels = [tick.get_text() for tick in axes.get_xticklabels()]
    assert labels == ["ls", "cd", r"\$a\$", "make", "never"]
    few = emission_table(pf, top=2).axes[0]
    assert [tick.get_text() for tick in few.get_xticklabels()] == ["ls", "cd"]
    assert "2 of 5 symbols" in few.get_title()


def test_a_filter_that_has_seen_little_can_be_drawn(tmp_path: Path) -> None:
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(2), n_particles=5, history="full")
    for draw in (transition_graph, emission_table):
        with pytest.raises(ValueError, match="has no states"):
            draw(pf)
        with pytest.raises(TypeError, match=r"pf=Markov.*: expected a ParticleFilter"):
            draw(mdvpf.Markov(2))  # type: ignore[arg-type]
    result = pf.run([1])
    for figure in (run_figure(result, path=pf.path()), transition_graph(pf), emission_table(pf)):
        assert all(file.stat().st_size > 1000 for file in plots.save(figure, tmp_path / "one"))


def test_an_impossible_symbol_can_be_drawn() -> None:
    result = mdvpf.KnownHMM(mdvpf.datasets.HMM([1], [[1]], [[1, 0]])).run([0, 1, 0])
    assert result.log_predictive.tolist() == [0.0, -np.inf, 0.0]
    assert run_figure(result).axes[0].get_ylim() == (0.0, 1.0)
