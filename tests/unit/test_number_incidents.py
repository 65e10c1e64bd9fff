"""Incidents over numbers: sensors that get stuck, jump or get noisy, and counts."""

from __future__ import annotations

import copy
import io
import itertools
import json
import math
import pickle
from typing import Any

import numpy as np
import pytest

import mdvpf
from mdvpf.detect.expectation import UNKNOWN, Expectation
from mdvpf.detect.explanation import Explanation
from mdvpf.detect.number_explanation import NumberExplanation, explain_numbers
from mdvpf.detect.sides import SIDES, Loops
from mdvpf.detect.trace import Trace
from mdvpf.detect.watch import IncidentWatch
from mdvpf.filter.expected_numbers import expected_numbers
from mdvpf.filter.predictive import Predictive
from mdvpf.model import read_observations, split_observations
from mdvpf.model.observations import observation_of, row_of
from tests.kernel.sealing import reloaded
from tests.number_families import BUILT_IN, CLOSED, STREAMS
from tests.unit.test_compiled_emission import poisson

N = 1500  # observations before something happens
LONG = 4000
WITHIN = 20  # observations within which it is an incident
SENSOR = mdvpf.Gaussian(mean_strength=0.01, shape=2.0, scale=0.2)


def filter_of(family: Any = SENSOR, n_particles: int = 5) -> mdvpf.ParticleFilter:
    model = mdvpf.InfiniteHMM(emission=family, kappa=10.0)
    return mdvpf.ParticleFilter(model, n_particles=n_particles)


def regimes(n: int, seed: int) -> np.ndarray[Any, Any]:
    """Return a stationary stream of three regimes, of which one is noisy."""
    rng = np.random.default_rng(seed)
    state = np.repeat(rng.integers(0, 3, n // 25), 25)
    scales = np.array([0.3, 1.0, 0.3])
    return np.asarray(np.array([0.0, 3.0, 6.0])[state] + scales[state] * rng.normal(size=n))


def repeated(family: Any, observations: list[Any], n: int) -> Any:
    """Return n observations in the form that `run` takes."""
    rows = np.array([row_of(mdvpf.model.read_observation(family, y)) for y in observations], float)
    return split_observations(family, np.resize(rows, (n, rows.shape[1])))


# -- the promise


def test_there_are_as_many_false_incidents_as_wanted_within_a_factor_of_1_5() -> None:
    n, rate = 20_000, 50.0
    detector = mdvpf.SurpriseDetector(filter_of(), false_incidents=rate)
    found = detector.run(regimes(n, 0)).incidents
    expected = rate * n / 10_000
    assert expected == 100
    assert expected / 1.5 <= len(found) <= 1.5 * expected


@pytest.mark.parametrize("start", [0, 3, 7])  # where in a block it happens
def test_a_fault_of_a_sensor_is_found_and_named(start: int) -> None:
    rng = np.random.default_rng(1)
    usual = rng.normal(size=LONG + start)
    faults = {
        "repetitive": [np.full(WITHIN, usual[-1])],
        "surprising": [8.0 + rng.normal(size=WITHIN), 5.0 * rng.normal(size=WITHIN)],
    }
    detector = mdvpf.SurpriseDetector(filter_of(), false_incidents=1.0)
    assert detector.run(usual).incidents == []
    for side, streams in faults.items():
        for stream in streams:
            found = detector.copy().run(stream).incidents
            assert [each.side for each in found] == [side]


def test_a_single_observation_far_off_is_enough() -> None:
    detector = mdvpf.SurpriseDetector(filter_of(), false_incidents=1.0)
    detector.run(np.random.default_rng(12).normal(size=LONG + 7))
    detection = detector.update(8.0)  # the last of its block
    assert detection.alarm and detection.side == "surprising"


def test_a_sensor_that_is_usually_constant_raises_nothing() -> None:
    detector = mdvpf.SurpriseDetector(filter_of(), false_incidents=10.0)
    assert detector.run(np.full(1600, 20.5)).incidents == []


def test_a_quantised_sensor_raises_no_more_than_wanted() -> None:
    rng = np.random.default_rng(2)
    n, rate = 8000, 50.0
    y = np.round(0.3 * rng.normal(size=n), 1)  # 0.0 comes back all day
    detector = mdvpf.SurpriseDetector(filter_of(), false_incidents=rate)
    assert len(detector.run(y).incidents) <= 1.5 * rate * n / 10_000


def test_counts_that_get_stuck_are_found_and_counts_that_always_are_are_not() -> None:
    rng = np.random.default_rng(3)
    family = mdvpf.Poisson(shape=2.0, rate=0.1)
    detector = mdvpf.SurpriseDetector(filter_of(family), false_incidents=1.0)
    assert detector.run(rng.poisson(20.0, size=N)).incidents == []
    assert detector.run(np.full(WITHIN, 20)).incidents
    idle = mdvpf.SurpriseDetector(filter_of(family), false_incidents=10.0)
    assert idle.run(np.zeros(1600)).incidents == []


def test_a_noisy_regime_that_the_filter_knows_is_not_surprising() -> None:
    """Rare noise between quiet stretches: its surprise is high, its excess over the entropy not."""
    rng = np.random.default_rng(4)
    scale = np.where(np.arange(6000) % 1000 < 950, 0.1, 3.0)  # 50 noisy of every 1000
    mean = np.where(scale > 1.0, 20.0, 0.0)
    y = mean + scale * rng.normal(size=6000)
    result = mdvpf.SurpriseDetector(filter_of(), false_incidents=2.0).run(y)
    noisy = scale > 1.0
    assert result.surprise[noisy].mean() > result.surprise[~noisy].mean() + 2.0
    late = noisy & (np.arange(6000) > 3000)
    inside = late & np.roll(late, 16)  # the first blocks have the change itself
    assert not result.alarm[inside].any()


def test_surprise_of_a_narrow_density_is_not_cut_off() -> None:
    rng = np.random.default_rng(5)
    y = 0.001 * rng.normal(size=300)
    narrow = mdvpf.Gaussian(shape=2.0, scale=1e-6)
    pf = filter_of(narrow)
    expected = -pf.copy().run(y).log_predictive
    assert expected[50:].max() < 0.0
    detector = mdvpf.SurpriseDetector(pf, smoothing=2)
    found = detector.run(y)
    np.testing.assert_array_equal(found.surprise, expected)
    twin = reloaded(detector)
    assert twin.threshold == detector.threshold < 0.0


# -- what a predictive expects


def test_the_entropy_of_a_gaussian_state_is_that_of_student_t() -> None:
    stats = pytest.importorskip("scipy.stats")
    statistics = np.array([[0.0, 0.0, 0.0], [1.0, 2.0, 0.0], [50.0, -3.0, 200.0]])
    family = mdvpf.Gaussian(mean=1.0, mean_strength=0.5, shape=0.7, scale=2.0)
    for row in statistics:
        one = Predictive(family, np.ones(1), row[np.newaxis])
        column = one._columns[0]
        exact = stats.t(column.df, column.loc, column.scale).entropy()
        found = expected_numbers(one)
        assert found.entropy == pytest.approx(float(exact[0]), rel=0, abs=1e-8)
        assert found.values == (pytest.approx(float(column.loc[0]), rel=1e-12),)


@pytest.mark.parametrize("mean", [0.01, 0.5, 3.0, 20.0, 300.0])
def test_the_entropy_of_counts_is_nearly_that_of_their_distribution(mean: float) -> None:
    statistics = np.array([[400.0, 400.0 * mean]])
    one = Predictive(mdvpf.Poisson(), np.ones(1), statistics)
    k = np.arange(int(mean + 40.0 * math.sqrt(mean) + 40.0))
    logs = one.logpmf(k)
    exact = -(np.exp(logs) * logs).sum()
    assert expected_numbers(one).entropy == pytest.approx(exact, rel=0, abs=0.1)


def test_the_entropy_of_a_product_is_the_sum_and_of_a_mixture_the_mean() -> None:
    family = mdvpf.Product(mdvpf.Gaussian(), mdvpf.Categorical(3, 1.0))
    rows = np.array([[9.0, 2.0, 4.0, 5.0, 5.0, 0.0, 0.0], [9.0, -2.0, 4.0, 5.0, 0.0, 0.0, 5.0]])
    first, second = (Predictive(family, np.ones(1), row[np.newaxis]) for row in rows)
    p = np.array([6.0, 1.0, 1.0]) / 8.0
    alone = expected_numbers(first.marginal(0)).entropy - (p * np.log(p)).sum()
    assert expected_numbers(first).entropy == pytest.approx(alone, rel=1e-12)
    both = expected_numbers(Predictive(family, np.array([1.0, 3.0]), rows))
    wanted = 0.25 * expected_numbers(first).entropy + 0.75 * expected_numbers(second).entropy
    assert both.entropy == pytest.approx(wanted, rel=1e-12)
    assert expected_numbers(first).values[1] == 0.0
    assert both.values[1] == 2.0


def test_a_detection_has_the_expected_entropy() -> None:
    pf = filter_of()
    pf.run(regimes(100, 1))
    detector = mdvpf.SurpriseDetector(pf.copy(), false_incidents=1.0)
    expected = expected_numbers(pf.predictive())
    assert detector.update(0.5).entropy == expected.entropy
    assert detector.trace is not None
    window = detector.trace.window(0, 0)
    assert window.numbers.tolist() == [[0.5]]
    assert window.expected_numbers.tolist() == [list(expected.values)]


def test_a_family_of_the_user_is_judged_by_its_plain_surprise() -> None:
    rng = np.random.default_rng(6)
    detector = mdvpf.SurpriseDetector(filter_of(poisson()), false_incidents=5.0, warm_up=5)
    result = detector.run(rng.poisson(5.0, size=400).astype(float))
    assert np.isnan(result.entropy).all()
    assert np.isfinite(result.p_value[399])
    assert not detector.wants_predictive


# -- repetitions


def test_rows_are_compared_exactly_and_missing_equals_missing() -> None:
    family = mdvpf.Gaussian(2)
    rows = read_observations(family, [[0.5, None], [0.5, None], [0.5, 0.0], [0.5, -0.0]])
    tokens = [row_of(row) for row in rows]
    assert tokens[0] == tokens[1] != tokens[2] == tokens[3]
    loops = Loops()
    assert [loops.add(token, None, 1000.0)[0] for token in tokens] == [0.0, 1.0, 0.0, 1.0]
    apart = [row_of(np.array([y])) for y in (0.1, np.nextafter(0.1, 1.0))]
    assert apart[0] != apart[1]


@pytest.mark.parametrize(
    ("family", "observation", "repeats"),
    [
        (mdvpf.Gaussian(), 0.5, 10.0),
        (mdvpf.Poisson(), 3, 2.0),
        (mdvpf.Product(mdvpf.Poisson(), mdvpf.Categorical(2)), (3, 1), 2.0),
        (mdvpf.Product(mdvpf.Gaussian(), mdvpf.Poisson()), (0.5, 3), 10.0),
        (mdvpf.Product(mdvpf.Gaussian(), mdvpf.Poisson()), (None, 3), 2.0),
    ],
)
def test_only_repetitions_without_a_real_number_are_limited_by_their_surprise(
    family: Any, observation: Any, repeats: float
) -> None:
    settings: dict[str, Any] = {"false_incidents": 1.0, "per": "symbols", "sides": ("repetitive",)}
    watch = IncidentWatch.of(
        block=100, memory=100, warm_up=5, cooldown=None, trace=None, family=family, **settings
    )
    row = mdvpf.model.read_observation(family, observation)
    for _ in range(11):  # ten repetitions of 0.1 nats
        watch.note(0, None, 0.1, UNKNOWN, math.nan, False, row)
    assert watch.rule.sums.repeated == pytest.approx(repeats, rel=1e-9)


def test_the_excess_over_a_large_entropy_of_many_numbers_is_not_cut_off() -> None:
    family = mdvpf.Gaussian(4000)
    settings: dict[str, Any] = {"false_incidents": 1.0, "per": "symbols", "sides": SIDES}
    watch = IncidentWatch.of(
        block=100, memory=100, warm_up=5, cooldown=None, trace=None, family=family, **settings
    )
    expected = Expectation(5600.0, -1, math.nan, (0.0,) * 4000)
    watch.note(0, None, 5612.0, expected, math.nan, False, np.zeros(4000))
    assert watch.rule.sums.excess == watch.rule.sums.largest == 12.0


# -- the same from any side

# What the predictor learns, for each stream: an open alphabet is learnt whole.
LEARNING = [
    (stream, learn)
    for stream in STREAMS
    for learn in ("all", "unflagged", "none")
    if learn == "all" or stream in CLOSED
]


@pytest.mark.parametrize(("stream", "learn"), LEARNING)
def test_updates_and_runs_agree(stream: str, learn: str) -> None:
    family, observations = STREAMS[stream]
    n = 203
    settings: dict[str, Any] = {"false_incidents": 300.0, "warm_up": 5, "learn": learn}
    one, many = (mdvpf.SurpriseDetector(filter_of(family), **settings) for _ in range(2))
    keys = [i % 2 for i in range(n)]
    singly = [
        one.update(y, key)
        for y, key in zip(itertools.islice(itertools.cycle(observations), n), keys, strict=False)
    ]
    result = many.run(repeated(family, observations, n), keys=keys)
    for name in ("surprise", "entropy", "level", "p_value", "alarm"):
        np.testing.assert_array_equal(
            getattr(result, name), [getattr(each, name) for each in singly]
        )
    assert one.incidents == many.incidents


def test_times_reach_the_clock_and_the_filter() -> None:
    y = regimes(400, 2)
    settings: dict[str, Any] = {"false_incidents": 25.0, "per": "day", "warm_up": 5}
    one, many = (mdvpf.SurpriseDetector(filter_of(), **settings) for _ in range(2))
    times = 1e9 + 60.0 * np.arange(400.0)
    result = many.run(y, times=times)
    for number, time in zip(y, times, strict=True):
        one.tell_time(float(time))
        one.update(float(number))
    assert one.incidents == many.incidents
    assert one._watch is not None and many._watch is not None
    assert one._watch.rule.rate.limit == many._watch.rule.rate.limit > 0.0
    assert len(result) == 400


@pytest.mark.parametrize(("stream", "learn"), [each for each in LEARNING if each[0] in BUILT_IN])
def test_files_copies_and_pickles_go_on_to_the_bit(stream: str, learn: str) -> None:
    family, observations = STREAMS[stream]
    settings: dict[str, Any] = {"false_incidents": 300.0, "warm_up": 5, "trace": 70}
    detector = mdvpf.SurpriseDetector(filter_of(family), learn=learn, **settings)
    detector.run(repeated(family, observations, 101), keys=[i % 3 for i in range(101)])
    file = io.BytesIO()
    detector.save(file)
    twins = [
        detector.copy(),
        copy.copy(detector),
        pickle.loads(pickle.dumps(detector)),
        mdvpf.SurpriseDetector.load(io.BytesIO(file.getvalue())),
    ]
    later = repeated(family, observations[::-1], 150)
    expected = detector.run(later)
    last = io.BytesIO()
    detector.save(last)
    for twin in twins:
        found = twin.run(later)
        np.testing.assert_array_equal(found.p_value, expected.p_value)
        np.testing.assert_array_equal(found.surprise, expected.surprise)
        assert twin.incidents == detector.incidents
        again = io.BytesIO()
        twin.save(again)
        assert again.getvalue() == last.getvalue()


def test_what_is_no_number_changes_nothing() -> None:
    detector = mdvpf.SurpriseDetector(filter_of(), false_incidents=5.0)
    detector.run(regimes(100, 3))
    before = pickle.dumps(detector)
    with pytest.raises(TypeError, match="symbol='x'"):
        detector.update("x")
    with pytest.raises(ValueError, match="symbols"):
        detector.run([0.5, math.inf])
    with pytest.raises(TypeError, match="symbol=None"):
        detector.judge(detector.reader.copy().update(0.5))
    assert pickle.dumps(detector) == before


def test_missing_observations_are_not_judged() -> None:
    detector = mdvpf.SurpriseDetector(filter_of(), false_incidents=5.0, warm_up=2)
    result = detector.run([None] * 16 + [0.5, 1.0] * 16 + [math.nan] * 8)
    assert np.isnan(result.p_value[:32]).all()
    assert np.isfinite(result.p_value[39])
    assert np.isnan(result.p_value[-1])


# -- a detector for each key


def users(family: Any = SENSOR, **settings: Any) -> mdvpf.KeyedDetector:
    chosen = {"false_incidents": 300.0, "warm_up": 5, **settings}
    return mdvpf.KeyedDetector(mdvpf.SurpriseDetector(filter_of(family), **chosen))


def test_streams_that_would_number_symbols_differently_are_refused() -> None:
    open_filter = filter_of(STREAMS["open product"][0])
    with pytest.raises(ValueError, match="learn='none': expected 'all'"):
        mdvpf.SurpriseDetector(open_filter, learn="none", false_incidents=1.0)
    with pytest.raises(ValueError, match=r"template=.*closed alphabet"):
        mdvpf.KeyedDetector(mdvpf.SurpriseDetector(open_filter, false_incidents=1.0))
    with pytest.raises(ValueError, match=r"predictor=.*closed alphabet"):
        mdvpf.Background(open_filter, learn=True)


@pytest.mark.parametrize("stream", CLOSED)
def test_a_key_is_judged_as_if_it_had_a_detector_to_itself(stream: str) -> None:
    family, observations = STREAMS[stream]
    n = 202
    keyed = users(family)
    result = keyed.run(repeated(family, observations, n), ["a", "b"] * (n // 2))
    alone = mdvpf.SurpriseDetector(filter_of(family), false_incidents=300.0, warm_up=5)
    expected = [alone.update(observations[i % len(observations)]) for i in range(0, n, 2)]
    np.testing.assert_array_equal(result.p_value[::2], [each.p_value for each in expected])
    assert keyed.of("a").incidents == alone.incidents


def test_keyed_detectors_go_on_after_a_checkpoint_and_a_snapshot() -> None:
    y = regimes(400, 4)
    keys = ["a" if i % 3 else "b" for i in range(400)]
    keyed = users()
    keyed.run(y[:205], keys[:205])
    file = io.BytesIO()
    keyed.save(file)
    elsewhere = users()
    for key in ("a", "b"):
        elsewhere.restore(key, keyed.snapshot(key))
    twins = [keyed.copy(), mdvpf.KeyedDetector.load(io.BytesIO(file.getvalue())), elsewhere]
    expected = keyed.run(y[205:], keys[205:])
    for twin in twins:
        found = twin.run(y[205:], keys[205:])
        np.testing.assert_array_equal(found.p_value, expected.p_value)
        np.testing.assert_array_equal(found.surprise, expected.surprise)


def test_an_observation_that_is_refused_drops_no_key() -> None:
    template = mdvpf.SurpriseDetector(filter_of())
    keyed = mdvpf.KeyedDetector(template, max_keys=1)
    keyed.update(0.5, "a")
    with pytest.raises(TypeError, match="symbol='x'"):
        keyed.update("x", "b")
    assert keyed.keys == ["a"]


# -- why


def stuck_at(value: float, family: Any = SENSOR) -> mdvpf.SurpriseDetector:
    rng = np.random.default_rng(7)
    detector = mdvpf.SurpriseDetector(filter_of(family), false_incidents=1.0)
    detector.run(rng.normal(size=N + 4))
    detector.run(np.full(20, value))
    return detector


def test_a_stuck_sensor_is_explained_by_its_value() -> None:
    detector = stuck_at(0.25)
    why = detector.explain(detector.incidents[-1])
    assert isinstance(why, NumberExplanation)
    (summary,) = why.numbers
    assert (summary.mean, summary.low, summary.high) == (0.25, 0.25, 0.25)
    assert summary.usual_low < -2.0 < 2.0 < summary.usual_high
    assert why.repeated == len(detector.incidents[-1]) - 1
    assert why.observations == ()
    text = why.text()
    assert "repetitive" in text and "always 0.25" in text and f"{why.repeated} times" in text
    assert json.loads(json.dumps(why.to_dict(), allow_nan=False))["numbers"][0]["mean"] == 0.25


def test_a_jump_is_explained_by_its_observations_and_the_most_unusual_number_comes_first() -> None:
    rng = np.random.default_rng(8)
    usual = rng.normal(size=(N, 2)) * [1.0, 100.0]
    detector = mdvpf.SurpriseDetector(filter_of(mdvpf.Gaussian(2)), false_incidents=1.0)
    detector.run(usual)
    jump = rng.normal(size=(16, 2)) * [1.0, 100.0]
    jump[3:, 0] += 12.0
    detector.run(jump)
    why = detector.explain(detector.incidents[-1], n=3)
    assert isinstance(why, NumberExplanation)
    assert why.side == "surprising"
    assert [each.number for each in why.numbers] == [0, 1]
    assert detector.trace is not None
    window = detector.trace.window(detector.incidents[-1].start, detector.incidents[-1].end)
    worst = int(window.excess.argmax())
    assert why.observations[0].time == window.time[worst]
    assert why.observations[0].numbers == tuple(window.numbers[worst])
    assert len(why.observations) <= 3
    assert "number 1: mean" in why.text()
    frame = pytest.importorskip("pandas") and why.to_pandas()
    assert frame["number"].tolist() == [0, 1]


def test_a_loop_is_explained_by_its_period_and_categorical_numbers_by_the_commonest() -> None:
    family = mdvpf.Product(mdvpf.Gaussian(), mdvpf.Categorical(3))
    trace = Trace(length=100, n_dims=2)
    for i in range(24):
        trace.add(0, surprise=1.0, numbers=[[0.5, 1.5, 2.5][i % 3], [2, 2, 0][i % 3]])
    why = explain_numbers(trace, family, 0, 23, "looping")
    assert (why.repeated, why.period) == (21, 3)
    symbol = next(each for each in why.numbers if each.is_symbol)
    assert symbol.mean == 2.0
    assert "number 2: mostly 2" in why.text(n=2)
    with pytest.raises(ValueError, match="observations of Gaussian"):
        explain_numbers(trace, mdvpf.Gaussian(), 0, 23, "looping")
    with pytest.raises(ValueError, match="begins at 0"):
        explain_numbers(trace, family, 50, 60, "looping")


def test_an_incident_over_numbers_is_drawn() -> None:
    pytest.importorskip("matplotlib")
    from mdvpf.plots import incident_figure

    detector = stuck_at(0.25)
    figure = incident_figure(detector.trace, detector.explain(detector.incidents[-1]), first=1)
    above, below = figure.axes
    names = [text.get_text() for text in below.get_legend().get_texts()]
    assert names == ["observed", "expected"]
    drawn = np.asarray(below.lines[0].get_ydata())
    assert (drawn == 0.25).sum() == 20
    assert "repetitive" in above.get_title()


# -- the trace


def test_a_trace_keeps_the_last_rows_and_gives_them_back() -> None:
    rng = np.random.default_rng(9)
    rows = rng.normal(size=(300, 3))
    rows[7, 1] = math.nan
    trace = Trace(length=130, n_dims=3)
    for row in rows:
        trace.add(0, surprise=-1.0, entropy=-2.0, numbers=row, expected_numbers=2.0 * row)
    for each in (trace, trace.copy(), Trace.from_values(trace.to_values(), 3)):
        window = each.window(0, 1000)
        np.testing.assert_array_equal(window.numbers, rows[170:])
        np.testing.assert_array_equal(window.expected_numbers, 2.0 * rows[170:])
    with pytest.raises(ValueError, match="numbers="):
        trace.add(0, numbers=[1.0])
    with pytest.raises(ValueError, match="numbers="):
        Trace(length=5).add(0, numbers=[1.0])
    bad = trace.to_values() | {"numbers": np.zeros((130, 2))}
    with pytest.raises(ValueError, match="numbers of dtype float64"):
        Trace.from_values(bad, 3)


def test_a_trace_of_symbols_has_the_fields_that_it_always_had() -> None:
    trace = Trace(length=5)
    trace.add(3)
    assert set(trace.to_values()) == {
        *("length", "time", "keys", "key", "last", "symbol", "previous", "surprise"),
        *("entropy", "excess", "expected", "probability"),
    }
    assert trace.window(0, 0).numbers.shape == (1, 0)


@pytest.mark.parametrize("stream", STREAMS)
def test_a_row_is_an_observation_again(stream: str) -> None:
    family, observations = STREAMS[stream]
    for observation in observations:
        row = mdvpf.model.read_observation(family, observation)
        again = mdvpf.model.read_observation(family, observation_of(family, row_of(row)))
        np.testing.assert_array_equal(again, row)


# -- a live stream


def test_a_monitor_reports_incidents_over_numbers() -> None:
    rng = np.random.default_rng(10)
    y = [*rng.normal(size=N + 4).tolist(), *[0.25] * 20]
    settings: dict[str, Any] = {"false_incidents": 1.0}
    monitor = mdvpf.Monitor(mdvpf.SurpriseDetector(filter_of(), **settings))
    reports = [monitor.read(f"{number!r}\n") for number in y]
    detector = mdvpf.SurpriseDetector(filter_of(), **settings)
    expected = detector.run(y)
    np.testing.assert_array_equal([each.p_value for each in reports if each], expected.p_value)
    alarms = [each for each in reports if each is not None and each.alarm]
    assert alarms[-1].side == "repetitive"
    assert alarms[-1].why is not None and "always 0.25" in alarms[-1].why
    twin = mdvpf.Monitor(mdvpf.SurpriseDetector(filter_of(), **settings))
    report = twin.read("nan\n")
    assert report is not None
    assert twin.detector._level.count == 0  # missing, as for `update`


def test_explanations_have_the_kind_of_the_observations() -> None:
    over_numbers = stuck_at(0.25)
    assert isinstance(over_numbers.explain(over_numbers.incidents[-1]), NumberExplanation)
    rng = np.random.default_rng(11)
    over_symbols = mdvpf.SurpriseDetector(mdvpf.Markov(8, order=1), false_incidents=1.0)
    over_symbols.run(rng.integers(8, size=2000))
    over_symbols.run([3] * 40)
    assert isinstance(over_symbols.explain(over_symbols.incidents[-1]), Explanation)
