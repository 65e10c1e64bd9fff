"""A half-life in time: counts fade by the time stamps of the symbols, not by their number."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

import mdvpf
from mdvpf.model import Clock, read_times
from mdvpf.reference import ReferenceFilter
from tests.kernel.sealing import reloaded

ALGORITHMS = [
    mdvpf.VPA(),
    mdvpf.MDVPA(),
    mdvpf.MDVPA(selection="optimal"),
    mdvpf.SMC(),
    mdvpf.ParticleLearning(),
    mdvpf.OptimalResampling(),
]
MODELS = [{}, {"oracle": "rows"}, {"machine": "mealy", "oracle": "any"}, {"kappa": 0.5}]


def irregular(n: int, seed: int) -> list[float | None]:
    """Times with pauses, some of them late, some unknown, one after a long silence."""
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.exponential(3.0, n)) + 1.7e9
    times[n // 2 :] += 1e6
    late = rng.random(n) < 0.1
    times[late] -= 20.0
    return [None if rng.random() < 0.1 else float(time) for time in times]


def a_stream(n: int, seed: int) -> list[int | None]:
    rng = np.random.default_rng(seed)
    return [None if rng.random() < 0.05 else int(rng.integers(3)) for _ in range(n)]


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=repr)
def test_a_symbol_a_second_is_a_half_life_in_symbols(algorithm):
    """With time stamps 0, 1, 2, ... a half-life of h seconds is one of h symbols."""
    symbols = a_stream(60, seed=1)
    filters = [
        ReferenceFilter(mdvpf.InfiniteHMM(3, half_life=half_life), algorithm, 5, rng=1)
        for half_life in (7.0, timedelta(seconds=7))
    ]
    for i, symbol in enumerate(symbols):
        by_number, by_time = (pf.update(symbol, time=float(i)) for pf in filters)
        assert by_time.log_predictive == pytest.approx(by_number.log_predictive, abs=1e-9)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("options", MODELS, ids=repr)
@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=repr)
def test_the_core_fades_as_the_reference_does(algorithm, options):
    model = mdvpf.InfiniteHMM(3, half_life=timedelta(seconds=20), **options)
    pf = mdvpf.ParticleFilter(model, algorithm, 6, rng=3)
    reference = ReferenceFilter(model, algorithm, 6, rng=3, rounding=True)
    keys = ["a", "b", None]
    for i, (symbol, time) in enumerate(zip(a_stream(150, 4), irregular(150, 5), strict=True)):
        key = keys[i * i % 3]
        if time is not None:
            pf.tell_time(time)
        np.testing.assert_allclose(
            pf.predict_proba(key), reference.predict_proba(key, time=time), rtol=1e-6
        )
        step, expected = pf.update(symbol, key), reference.update(symbol, key, time=time)
        assert step.log_predictive == pytest.approx(expected.log_predictive, abs=1e-9)
        assert pf.states.tolist() == [particle.state for particle in reference.particles]
        pf._core.verify()


@pytest.mark.parametrize("algorithm", [mdvpf.MDVPA(), mdvpf.OptimalResampling()], ids=repr)
def test_a_run_takes_times_as_updates_do(algorithm):
    model = mdvpf.InfiniteHMM(3, half_life=timedelta(seconds=20))
    one, other = (mdvpf.ParticleFilter(model, algorithm, 6, rng=3) for _ in range(2))
    symbols, times = a_stream(100, 4), irregular(100, 5)
    found = one.run(symbols, times=times).log_predictive
    for symbol, time, expected in zip(symbols, times, found.tolist(), strict=True):
        if time is not None:
            other.tell_time(time)
        assert other.update(symbol).log_predictive == expected
    np.testing.assert_array_equal(one.predict_proba(), other.predict_proba())


@pytest.mark.parametrize("algorithm", [mdvpf.MDVPA(), mdvpf.VPA()], ids=repr)
def test_a_saved_filter_knows_the_time(algorithm):
    model = mdvpf.InfiniteHMM(3, half_life=timedelta(seconds=20))
    pf = mdvpf.ParticleFilter(model, algorithm, 6)
    symbols, times = a_stream(100, 4), irregular(100, 5)
    pf.run(symbols[:50], times=times[:50])
    twin = reloaded(pf)
    assert twin.model == model
    np.testing.assert_array_equal(
        twin.run(symbols[50:], times=times[50:]).log_predictive,
        pf.run(symbols[50:], times=times[50:]).log_predictive,
    )


def test_after_a_long_silence_nothing_is_left():
    model = mdvpf.InfiniteHMM(3, half_life=timedelta(seconds=1))
    pf = mdvpf.ParticleFilter(model, n_particles=10)
    pf.run([0] * 50, times=range(50))
    pf.tell_time(1e9)
    np.testing.assert_allclose(pf.predict_proba(), 1 / 3, rtol=1e-6)


def test_others_take_no_notice_of_the_time():
    symbols = [0, 1, 1, 0, 2] * 4
    for make in (
        lambda: mdvpf.Markov(3),
        lambda: mdvpf.ParticleFilter(mdvpf.InfiniteHMM(3, half_life=5.0), n_particles=5),
        lambda: mdvpf.Mixture([mdvpf.Markov(3), mdvpf.ContextTree(3)]),
    ):
        with_times = make().run(symbols, times=[10.0 * i for i in range(20)])
        np.testing.assert_array_equal(with_times.log_predictive, make().run(symbols).log_predictive)


def test_members_of_a_mixture_forget_by_time():
    model = mdvpf.InfiniteHMM(3, half_life=timedelta(seconds=5))
    pf = mdvpf.ParticleFilter(model, n_particles=5)
    mixture = mdvpf.Mixture([pf])
    symbols, times = a_stream(60, 4), irregular(60, 5)
    np.testing.assert_allclose(
        mixture.run(symbols, times=times).log_predictive,
        pf.run(symbols, times=times).log_predictive,
        atol=1e-12,
    )


def test_times_are_read_in_all_their_forms():
    model = mdvpf.InfiniteHMM(3, half_life=np.timedelta64(20, "s"))
    assert model.half_life == timedelta(seconds=20)
    seconds = [1.7e9 + 7 * i for i in range(6)]
    forms = [
        seconds,
        [datetime.fromtimestamp(time, UTC) for time in seconds],
        np.array([int(time) for time in seconds], dtype="datetime64[s]"),
    ]
    found = [
        mdvpf.ParticleFilter(model, n_particles=5).run([0, 1, 2, 0, 1, 2], times=times)
        for times in forms
    ]
    for result in found[1:]:
        np.testing.assert_array_equal(result.log_predictive, found[0].log_predictive)


def test_a_time_can_be_missing_in_all_forms_of_times():
    pandas = pytest.importorskip("pandas")
    first, last = np.datetime64(1000, "s"), np.datetime64(1040, "s")
    masked = np.ma.masked_array([1000.0, 5.0, 1040.0], [False, True, False])
    forms = [
        [1000.0, None, 1040.0],
        [1000.0, math.nan, 1040.0],
        [1000.0, pandas.NA, 1040.0],
        [first, np.datetime64("NaT"), last],
        np.array([first, np.datetime64("NaT"), last]),
        masked,
        masked.astype("datetime64[s]"),
        pandas.Series(masked.astype("datetime64[s]").filled(np.datetime64("NaT")), index=[7, 8, 9]),
    ]
    for times in forms:
        np.testing.assert_array_equal(read_times(times, 3), [1000.0, np.nan, 1040.0])


def test_each_time_of_a_list_is_read_by_itself():
    times = [np.datetime64("1970-01-02"), 90000.0]
    np.testing.assert_array_equal(read_times(times, 2), [86400.0, 90000.0])


@pytest.mark.parametrize(
    ("times", "error"),
    [
        ([0.0], ValueError),
        (["now", "then"], TypeError),
        ([0.0, float("inf")], ValueError),
        ([0.0, datetime(2026, 1, 1)], ValueError),
        ("ab", TypeError),
        (5, TypeError),
        ({0.0, 1.0}, TypeError),
        (np.zeros((2, 2)), ValueError),
    ],
)
def test_bad_times_are_refused_and_change_nothing(times, error):
    model = mdvpf.InfiniteHMM(3, half_life=timedelta(seconds=5))
    pf = mdvpf.ParticleFilter(model, n_particles=5)
    with pytest.raises(error, match="times"):
        pf.run([0, 1], times=times)
    assert pf.log_evidence == 0.0


def test_a_bad_half_life_is_refused():
    spans = [np.timedelta64("NaT"), np.timedelta64(1, "Y"), np.timedelta64(2**62, "s")]
    for half_life in (timedelta(0), timedelta(seconds=-1), *spans, 0.0, "1h"):
        with pytest.raises((ValueError, TypeError), match="half_life"):
            mdvpf.InfiniteHMM(3, half_life=half_life)
    with pytest.raises(ValueError, match="counts fade in one way only"):
        mdvpf.InfiniteHMM(3, half_life=timedelta(seconds=1), forget=1.0)


def test_the_clock_counts_at_most_64_half_lives_of_a_silence():
    clock = Clock(timedelta(seconds=1)).at(0.0).at(1e12)
    assert clock.elapsed == 64.0
    assert clock.at(1e12 + 0.5).elapsed == 64.5


@pytest.mark.parametrize("algorithm", [mdvpf.VPA(), mdvpf.ParticleLearning()], ids=repr)
def test_rows_are_recounted_at_the_time_of_the_step(algorithm):
    """Before every 64th step the oracle of rows forgets what has faded by the time of that step."""
    model = mdvpf.InfiniteHMM(3, oracle="rows", half_life=timedelta(seconds=3))
    pf = mdvpf.ParticleFilter(model, algorithm, 10, rng=1)
    reference = ReferenceFilter(model, algorithm, 10, rng=1, rounding=True)
    rng = np.random.default_rng(0)
    times = np.cumsum(rng.choice([0, 1, 5, 30], 140)).tolist()
    for symbol, time in zip(rng.integers(3, size=140).tolist(), times, strict=True):
        pf.tell_time(time)
        expected = reference.update(symbol, time=time).log_predictive
        assert pf.update(symbol).log_predictive == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("time", [8.0, 12.0, 1e6])
def test_a_filter_that_was_told_the_time_is_saved_with_what_it_holds_back(time):
    model = mdvpf.InfiniteHMM(3, half_life=timedelta(seconds=10))
    pf = mdvpf.ParticleFilter(model, n_particles=10)
    pf.run([0, 1, 2, 0, 1, 2, 0, 0], times=range(8))
    pf.tell_time(time)
    twin = reloaded(pf)
    np.testing.assert_array_equal(twin.predict_proba(), pf.predict_proba())
    symbols, times = [1, 2, 0, 1], [1e6 + i for i in range(4)]
    np.testing.assert_array_equal(
        twin.run(symbols, times=times).log_predictive, pf.run(symbols, times=times).log_predictive
    )
