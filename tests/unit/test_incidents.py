"""Incidents: p-values of blocks on several sides, at a wanted rate of false ones."""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np
import pytest

import mdvpf
from mdvpf import datasets
from mdvpf.detect.calibration import Rate, Tail
from mdvpf.detect.sides import KeyLoops, Loops
from mdvpf.streams.methods import make_predictor

N = 1000  # lines before a crash loop
LOOP = 20  # lines of it within which it is an incident


def hmm_stream(seed: int, n: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    moves, symbols = rng.dirichlet(np.full(8, 0.3), 8), rng.dirichlet(np.full(20, 0.2), 8)
    moves, symbols = moves.cumsum(axis=1), symbols.cumsum(axis=1)
    draws, state, found = rng.random((n, 2)), 0, np.empty(n, dtype=np.int64)
    for i, (move, symbol) in enumerate(draws):
        state = min(int(np.searchsorted(moves[state], move)), 7)
        found[i] = min(int(np.searchsorted(symbols[state], symbol)), 19)
    return found


def crash_loop(
    n_processes: int, seed: int, n: int = N
) -> tuple[np.ndarray[Any, Any], list[str], int]:
    """Return a log that ends in identical lines of one process, its keys and its alphabet."""
    log = datasets.processes(n, n_processes=n_processes, rng=seed)
    rng = np.random.default_rng(1000 + seed)
    place, stop = int(rng.integers(n)), n - int(rng.integers(8))  # which line; where in a block
    symbols = np.concatenate([log.symbols[:stop], np.full(LOOP, log.symbols[place])])
    return symbols, [*log.keys[:stop], *[log.keys[place]] * LOOP], log.n_symbols


@pytest.mark.parametrize("n_processes", [1, 8])
@pytest.mark.parametrize(
    ("method", "particles"),
    [
        ("VPA", 20),
        ("MD-VPA", 20),
        ("SMC", 20),
        ("ParticleLearning", 20),
        ("OptimalResampling", 20),
        ("Markov 0", None),
        ("Markov 1", None),
        ("ContextTree 2", None),
        ("PitmanYorTree 3", None),
    ],
)
def test_a_crash_loop_is_an_incident_within_20_lines(
    method: str, particles: int | None, n_processes: int
) -> None:
    symbols, keys, n_symbols = crash_loop(n_processes, 0)
    predictor = make_predictor(method, n_symbols, particles, seed=0)
    detector = mdvpf.SurpriseDetector(predictor, false_incidents=1.0)
    result = detector.run(symbols, keys=keys if n_processes > 1 else None)
    assert result.alarm[-LOOP:].any()


@pytest.mark.parametrize("n_processes", [1, 8])
@pytest.mark.parametrize("n", [500, N])
def test_auto_finds_a_crash_loop_within_20_lines(n_processes: int, n: int) -> None:
    symbols, keys, n_symbols = crash_loop(n_processes, 0, n=n)
    predictor = mdvpf.auto(n_symbols, rng=0)
    detector = mdvpf.SurpriseDetector(predictor, false_incidents=1.0)
    result = detector.run(symbols, keys=keys if n_processes > 1 else None)
    assert result.alarm[-LOOP:].any()


@pytest.mark.parametrize("n_processes", [1, 8])
def test_a_crash_loop_is_an_incident_with_a_background_too(n_processes: int) -> None:
    symbols, keys, n_symbols = crash_loop(n_processes, 0)
    keyed: dict[str, Any] = {} if n_processes == 1 else {"keys": keys}
    everybody = mdvpf.PitmanYorTree(n_symbols, depth=3)
    everybody.run(datasets.processes(N, n_processes=8, rng=9).symbols % n_symbols)
    predictor = mdvpf.PitmanYorTree(n_symbols, depth=3)
    detector = mdvpf.SurpriseDetector(predictor, background=everybody, false_incidents=1.0)
    assert detector.run(symbols, **keyed).alarm[-LOOP:].any()


def test_there_are_as_many_false_incidents_as_wanted_within_a_factor_of_1_5() -> None:
    n, rate = 20_000, 50.0
    detector = mdvpf.SurpriseDetector(mdvpf.Markov(20, order=1), false_incidents=rate)
    found = detector.run(hmm_stream(1, n)).incidents
    expected = rate * n / 10_000
    assert expected == 100
    assert expected / 1.5 <= len(found) <= 1.5 * expected


def test_a_rate_per_day_is_the_rate_per_symbol_at_a_steady_pace() -> None:
    symbols = hmm_stream(1, 2000)
    by_day = mdvpf.SurpriseDetector(mdvpf.Markov(20), false_incidents=25.0, per="day")
    times = np.arange(2000) * (86400.0 / 10_000)  # 10,000 symbols a day
    n_by_day = len(by_day.run(symbols, times=times).incidents)
    plain = mdvpf.SurpriseDetector(mdvpf.Markov(20), false_incidents=25.0)
    n_plain = len(plain.run(symbols).incidents)
    assert abs(n_by_day - n_plain) <= 2


def test_a_coarse_clock_does_not_make_the_days_longer() -> None:
    rates = [Rate(wanted=1.0, per="day", block=8) for _ in range(2)]
    for i in range(1000):
        for rate, time in zip(rates, (2.0 * i, 100.0 * (i // 50)), strict=True):
            rate.end_block(time, False, 500)
    assert rates[0].days == pytest.approx(2.0 / 86400.0, rel=1e-9)
    assert rates[1].days == pytest.approx(rates[0].days, rel=0.05)


def test_without_times_a_rate_per_day_raises_nothing() -> None:
    detector = mdvpf.SurpriseDetector(mdvpf.Markov(20), false_incidents=25.0, per="day")
    assert not detector.run(hmm_stream(1, 1200)).alarm.any()


def test_heartbeats_that_always_repeat_raise_nothing() -> None:
    for beat in ([3], [3, 3, 5], list(range(8))):
        detector = mdvpf.SurpriseDetector(mdvpf.Markov(8, order=1), false_incidents=10.0)
        assert detector.run(np.resize(beat, 1600)).incidents == []


def test_a_stuck_sensor_is_too_predictable_even_if_its_value_was_usual() -> None:
    rng = np.random.default_rng(3)
    usual = rng.integers(8, size=4000)
    detector = mdvpf.SurpriseDetector(mdvpf.PitmanYorTree(8, depth=2), false_incidents=1.0)
    detector.run(usual)
    found = detector.run(np.full(64, 5)).incidents
    assert found
    assert found[-1].side in ("repetitive", "predictable")


def test_a_loop_of_several_lines_is_found() -> None:
    rng = np.random.default_rng(3)
    detector = mdvpf.SurpriseDetector(mdvpf.Markov(8, order=1), false_incidents=1.0)
    detector.run(rng.integers(8, size=4000))
    sides = {each.side for each in detector.run([1, 5, 2, 7] * 25).incidents}
    assert "looping" in sides


def test_a_replay_of_noise_is_too_predictable_for_a_tree() -> None:
    rng = np.random.default_rng(3)
    usual = rng.integers(20, size=4000)
    detector = mdvpf.SurpriseDetector(mdvpf.PitmanYorTree(20, depth=5), false_incidents=1.0)
    detector.run(usual)
    found = detector.run(usual[2000:2200]).incidents
    assert [each.side for each in found] == ["predictable"]


def test_what_the_predictor_knows_to_be_random_is_not_surprising() -> None:
    """Stretches of noise between stretches of order: surprise is high, excess is not."""
    rng = np.random.default_rng(4)
    parts = [[8, 9] * 20, [10, *rng.integers(8, size=39)]]
    stream = np.concatenate(
        [p for _ in range(60) for p in (parts[0], [10, *rng.integers(8, size=39)])]
    )
    detector = mdvpf.SurpriseDetector(mdvpf.Markov(11, order=1), false_incidents=2.0)
    found = [each for each in detector.run(stream).incidents if each.start > 1600]
    assert len(found) <= 2 * 1.5 * len(stream) / 10_000 + 1


def test_neighbouring_alarms_are_one_incident_and_others_are_not() -> None:
    rng = np.random.default_rng(3)
    detector = mdvpf.SurpriseDetector(mdvpf.Markov(8, order=1), false_incidents=0.5)
    detector.run(rng.integers(8, size=4000))
    first = detector.run([3] * 100).incidents
    assert len(first) == 1
    assert first[0].start - 4000 < 20
    assert first[0].start <= first[0].peak <= first[0].end < 4100
    assert first[0].n_alarms > 1
    detector.run(rng.integers(8, size=400))
    second = detector.run([3] * 100).incidents
    assert second[-1].number > first[-1].number


def test_repeated_crash_loops_do_not_become_usual() -> None:
    rng = np.random.default_rng(3)
    chain = mdvpf.Markov(8, order=1)
    detector = mdvpf.SurpriseDetector(chain, false_incidents=1.0)
    detector.run(rng.integers(8, size=3000))
    missed = 0
    for i in range(5):
        missed += not detector.run([i % 8] * 40).alarm.any()
        detector.run(rng.integers(8, size=250))
    assert missed == 0


def test_an_incident_that_lasts_longer_than_the_memory_becomes_usual_and_ends() -> None:
    rng = np.random.default_rng(3)
    detector = mdvpf.SurpriseDetector(mdvpf.Markov(8, order=1), false_incidents=1.0, memory=100)
    detector.run(rng.integers(8, size=1200))
    (found,) = detector.run([3] * 2000).incidents
    assert found.start < 1220
    assert 100 * 8 < len(found) < 120 * 8
    assert detector.run(rng.integers(8, size=80)).incidents  # and the end of it is one again


def test_a_confirmed_incident_does_not_lower_the_limit() -> None:
    rng = np.random.default_rng(3)
    detector = mdvpf.SurpriseDetector(mdvpf.Markov(8, order=1), false_incidents=1.0)
    detector.run(rng.integers(8, size=3000))
    found = next(d for d in (detector.update(3) for _ in range(40)) if d.alarm)
    assert detector._watch is not None
    before = detector._watch.rule.rate.limit
    detector.feedback(found, strange=True)
    raised = detector._watch.rule.rate.limit
    assert raised > before
    again = next(d for d in (detector.update(3) for _ in range(40)) if d.alarm)
    raised = detector._watch.rule.rate.limit
    assert again.incident is not None
    assert found.incident is not None
    assert again.incident.number == found.incident.number
    detector.feedback(again, strange=True)  # only the first alarm had lowered the limit
    assert detector._watch.rule.rate.limit == raised


@pytest.mark.parametrize("learn", ["all", "unflagged", "none"])
def test_updates_and_runs_agree(learn: str) -> None:
    stream = hmm_stream(2, 700)
    keys = [i % 3 for i in range(len(stream))]
    one, many = (
        mdvpf.SurpriseDetector(mdvpf.Markov(20), false_incidents=50.0, learn=learn)
        for _ in range(2)
    )
    singly = [one.update(int(y), key) for y, key in zip(stream, keys, strict=True)]
    result = many.run(stream, keys=keys)
    assert [result[i] for i in range(len(result)) if result[i].alarm] == [
        each for each in singly if each.alarm
    ]
    np.testing.assert_array_equal(result.p_value, [each.p_value for each in singly])


@pytest.mark.parametrize("cut", [5, 403])
def test_a_checkpoint_and_a_copy_go_on_to_the_bit(cut: int) -> None:
    stream = hmm_stream(2, 800)
    keys = [f"key {i % 3}" for i in range(len(stream))]
    detector = mdvpf.SurpriseDetector(
        mdvpf.ParticleFilter(mdvpf.InfiniteHMM(20), n_particles=10), false_incidents=50.0
    )
    detector.run(stream[:cut], keys=keys[:cut])
    file = io.BytesIO()
    detector.save(file)
    twins = [detector.copy(), mdvpf.SurpriseDetector.load(io.BytesIO(file.getvalue()))]
    expected = detector.run(stream[cut:], keys=keys[cut:])
    for twin in twins:
        found = twin.run(stream[cut:], keys=keys[cut:])
        np.testing.assert_array_equal(found.p_value, expected.p_value)
        assert twin.incidents == detector.incidents
        again = io.BytesIO()
        twin.save(again)
        last = io.BytesIO()
        detector.save(last)
        assert again.getvalue() == last.getvalue()


def test_missing_symbols_and_blocks_without_a_symbol_are_not_judged() -> None:
    detector = mdvpf.SurpriseDetector(mdvpf.Markov(4), false_incidents=5.0, warm_up=2)
    result = detector.run([None] * 16 + [0, 1] * 16 + [None] * 8)
    assert np.isnan(result.p_value[:32]).all()
    assert np.isfinite(result.p_value[39])
    assert np.isnan(result.p_value[-1])


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"false_incidents": 0.0}, "false_incidents=0.0"),
        ({"false_incidents": 1.0, "per": "week"}, "per='week'"),
        ({"false_incidents": 1.0, "cooldown": -1}, "cooldown=-1"),
        ({"false_incidents": 1.0, "smoothing": 5.0}, "smoothing=5.0"),
        ({"cooldown": 5}, "cooldown=5"),
        ({"per": "day"}, "per='day'.*: expected only with false_incidents"),
        ({"trace": 5}, "trace=5"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        mdvpf.SurpriseDetector(mdvpf.Markov(4), **settings)


def test_what_came_less_often_than_usual_is_no_reason_for_a_repetition() -> None:
    rng = np.random.default_rng(3)
    detector = mdvpf.SurpriseDetector(mdvpf.Markov(8, order=1), false_incidents=1.0)
    detector.run(rng.integers(8, size=1200))
    detector.run([3] * 20 + [5, 5, 5, 1] + [3] * 24)
    why = detector.explain(detector.incidents[-1])
    assert why.symbols[0].what == 3
    assert all(each.count > each.usual for each in (*why.symbols, *why.transitions))


def test_what_was_expected_is_a_symbol_that_had_been_seen() -> None:
    """Of an open alphabet, where the number of a symbol never seen is later that of another."""
    detector = mdvpf.SurpriseDetector(mdvpf.Markov(None, order=1), false_incidents=1.0)
    symbols = [0, 1, 2, 3, 0, 1, 4, 2, 5]
    detector.run(symbols)
    assert detector.trace is not None
    expected = detector.trace.window(0, len(symbols)).expected.tolist()
    assert expected[0] == -1
    assert all(y in symbols[:i] for i, y in enumerate(expected) if i)


# -- what they are made of


def test_p_values_among_kept_values_are_conformal_ranks() -> None:
    tail = Tail(memory=500, least_scale=1e-6)
    values = np.random.default_rng(0).normal(size=400)
    for value in values:
        tail.add(float(value))
    for level in (-1.0, 0.0, 1.0):
        assert tail.p_value(level) == (1 + np.count_nonzero(values >= level)) / 401


def test_p_values_of_exchangeable_values_are_valid() -> None:
    rng = np.random.default_rng(1)
    for draw in (rng.exponential, rng.normal):
        tail, found = Tail(memory=500, least_scale=0.1), []
        for value in draw(size=20_000):
            if len(tail.values) == 500:
                found.append(tail.p_value(float(value)))
            tail.add(float(value))
        for limit in (0.1, 0.01, 0.002):
            share, n = np.mean(np.array(found) <= limit), len(found)
            assert share <= limit + 4 * math.sqrt(limit / n)


def test_equal_values_are_never_strange() -> None:
    tail = Tail(memory=100, least_scale=1.0)
    for _ in range(300):
        tail.add(2.0)
    assert tail.p_value(2.0) == 1.0


def test_the_limit_is_corrected_by_a_factor_of_4_at_most() -> None:
    rate = Rate(wanted=10.0, per="symbols", block=10)
    for _ in range(100_000):
        rate.end_block(math.nan, False, 500)
    assert rate.limit == pytest.approx(4 * 0.01, rel=1e-9)
    for _ in range(1000):
        rate.end_block(math.nan, True, 500)
    assert rate.limit == pytest.approx(0.01 / 4, rel=1e-9)


def test_repetitions_count_no_more_than_two_for_each_nat_of_surprise() -> None:
    loops = Loops()
    found = [loops.add(3, None, surprise=0.1)[0] for _ in range(11)]
    assert found[0] == 0.0
    assert found[-1] == pytest.approx(2.0, rel=1e-9)  # ten repetitions of 0.1 nats
    surprised = [loops.add(4, "other", surprise=5.0)[0] for _ in range(11)]
    assert surprised[-1] == 10.0


def test_a_loop_is_counted_in_rounds_and_a_repetition_is_no_loop() -> None:
    loops = Loops()
    found = [loops.add(symbol, None, surprise=9.0) for symbol in [1, 2, 3] * 6]
    assert found[-1] == (0.0, 5.0)
    still = [loops.add(1, "still", surprise=9.0) for _ in range(12)]
    assert still[-1] == (11.0, 0.0)


def test_loops_of_keys_are_bounded() -> None:
    loops = Loops()
    for i in range(3000):
        loops.add(1, i, 1.0)
    assert len(loops.recent) == 1000
    assert isinstance(loops.recent[2999], KeyLoops)
