"""The detector: surprise, levels, a threshold that holds a rate, feedback, change points, files."""

from __future__ import annotations

import copy
import io
import math
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import mdvpf
from mdvpf import Detection, SurpriseDetector
from mdvpf.detect.threshold import CLIP, DRIFT, SUSTAINED, Rise, Threshold
from tests.kernel.sealing import reloaded

RNG_SYMBOLS = np.random.default_rng(1).choice(4, size=600, p=[0.4, 0.3, 0.2, 0.1])


def chain(n_symbols: int = 4) -> mdvpf.Markov:
    return mdvpf.Markov(n_symbols, order=1, beta=0.5)


def small_filter(n_symbols: int = 4) -> mdvpf.ParticleFilter:
    model = mdvpf.InfiniteHMM(n_symbols)
    return mdvpf.ParticleFilter(model, mdvpf.OptimalResampling(), 8, rng=3)


KINDS: dict[str, Callable[[], SurpriseDetector]] = {
    "every symbol": lambda: SurpriseDetector(chain(), false_alarms=0.05),
    "smoothed": lambda: SurpriseDetector(chain(), smoothing=7.5, false_alarms=0.05),
    "blocks": lambda: SurpriseDetector(small_filter(), block=9, warm_up=5, false_alarms=0.2),
    "unflagged": lambda: SurpriseDetector(
        small_filter(), block=9, warm_up=5, false_alarms=0.2, learn="unflagged"
    ),
    "none": lambda: SurpriseDetector(
        chain(), block=9, warm_up=5, false_alarms=0.2, learn="none", change_limit=2.0
    ),
}


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest) -> Callable[[], SurpriseDetector]:
    return KINDS[request.param]


def fields(result: mdvpf.DetectionResult) -> list[bytes]:
    return [np.asarray(getattr(result, name)).tobytes() for name in type(result).__slots__]


def same(first: Detection, second: Detection) -> bool:
    return repr(first) == repr(second)  # NaN is not equal to itself, but its text is


# -- surprise and levels -------------------------------------------------------------------------


def test_surprise_is_minus_the_log_predictive() -> None:
    expected = -chain().run(RNG_SYMBOLS).log_predictive
    result = SurpriseDetector(chain()).run(RNG_SYMBOLS)
    np.testing.assert_array_equal(result.surprise, expected)
    np.testing.assert_array_equal(result.time, np.arange(len(RNG_SYMBOLS)))


def test_a_level_without_smoothing_is_the_surprise() -> None:
    result = SurpriseDetector(chain()).run(RNG_SYMBOLS)
    np.testing.assert_allclose(result.level, result.surprise, rtol=1e-12, atol=0)


def test_a_smoothed_level_is_a_mean_that_fades() -> None:
    result = SurpriseDetector(chain(), smoothing=4).run(RNG_SYMBOLS[:9])
    s = result.surprise
    np.testing.assert_allclose(result.level[:4], np.cumsum(s[:4]) / [1, 2, 3, 4], rtol=1e-12)
    weights = 0.25 * 0.75 ** np.arange(5)[::-1]
    expected = 0.75**5 * s[:4].mean() + weights @ s[4:]
    assert result.level[8] == pytest.approx(expected, rel=1e-12)


def test_a_block_is_judged_at_its_end_by_its_mean() -> None:
    result = SurpriseDetector(chain(), block=10).run(RNG_SYMBOLS)
    ends = np.arange(9, 600, 10)
    np.testing.assert_array_equal(np.flatnonzero(~np.isnan(result.level)), ends)
    means = result.surprise.reshape(-1, 10).mean(axis=1)
    np.testing.assert_allclose(result.level[ends], means, rtol=1e-12)


def test_missing_symbols_are_not_judged_and_count_for_nothing() -> None:
    result = SurpriseDetector(chain(), block=3).run([0, None, 1, None, None, None, 2, 2, 2])
    assert result.surprise[1] == 0.0
    assert result.level[2] == pytest.approx((result.surprise[0] + result.surprise[2]) / 2)
    assert math.isnan(result.level[5])  # a block of nothing
    single = SurpriseDetector(chain(), smoothing=3)
    surprises = [single.update(symbol).surprise for symbol in (1, 1)]
    assert math.isnan(single.update(None).level)
    last = single.update(1)
    assert last.level == pytest.approx((sum(surprises) + last.surprise) / 3)


def test_an_impossible_symbol_is_an_alarm_and_does_not_stick() -> None:
    hmm = mdvpf.datasets.HMM(np.ones(1), np.ones((1, 1)), np.array([[0.5, 0.5, 0.0]]))
    detector = SurpriseDetector(mdvpf.KnownHMM(hmm), smoothing=5)
    detector.run([0, 1] * 50)
    impossible = detector.update(2)
    assert impossible.surprise == math.inf and impossible.alarm
    assert math.isfinite(impossible.level) and math.isfinite(detector.threshold)
    assert not detector.run([0, 1] * 100).alarm[-50:].any()


# -- one path ------------------------------------------------------------------------------------


def test_run_is_update_on_each_symbol(make: Callable[[], SurpriseDetector]) -> None:
    symbols = [None if i % 50 == 20 else int(s) for i, s in enumerate(RNG_SYMBOLS)]
    lengths = [100, 7, 493]
    together = make().run(symbols, lengths)
    detector, one_by_one = make(), []
    starts = {0, 100, 107}
    for i, symbol in enumerate(symbols):
        if i in starts:
            detector.new_sequence()
        one_by_one.append(detector.update(symbol))
    assert fields(mdvpf.DetectionResult.of(one_by_one)) == fields(together)
    assert together.alarm.any()
    assert all(same(together[i], each) for i, each in enumerate(one_by_one))


def test_a_run_in_parts_is_the_run(make: Callable[[], SurpriseDetector]) -> None:
    whole = make().run(RNG_SYMBOLS)
    detector = make()
    parts = [detector.run(part) for part in np.split(RNG_SYMBOLS, [4, 5, 300])]
    for name in ("level", "score", "threshold", "alarm", "change"):
        joined = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_array_equal(joined, getattr(whole, name))


def test_a_run_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []

    @contextmanager
    def noted(show: bool, total: int, label: str) -> Iterator[Callable[[int], None]]:
        assert (show, total, label) == (True, 45, "SurpriseDetector")
        yield steps.append

    monkeypatch.setattr("mdvpf.detect.detector.progress_bar", noted)
    detector = SurpriseDetector(chain(), block=10, learn="unflagged")
    detector.run(RNG_SYMBOLS[:45], [25, 20], progress=True)
    assert steps == [10, 10, 5, 5, 10, 5]
    with pytest.raises(TypeError, match="progress='yes'"):
        detector.run([0], progress="yes")  # type: ignore[arg-type]


def test_what_is_judged_does_not_hang_on_what_follows() -> None:
    for kind in KINDS.values():
        first = kind().run(np.append(RNG_SYMBOLS[:300], 0))
        second = kind().run(np.append(RNG_SYMBOLS[:300], 3))
        np.testing.assert_array_equal(first.threshold, second.threshold)
        np.testing.assert_array_equal(first.alarm[:300], second.alarm[:300])


# -- the threshold -------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("kind", ["normal", "heavy", "drifting", "alternating"])
def test_the_share_of_alarms_is_the_wanted_one_on_any_stream(kind: str, rate: float) -> None:
    rng = np.random.default_rng(5)
    n = 20_000
    levels = {
        "normal": rng.normal(3.0, 1.0, n),
        "heavy": rng.pareto(1.5, n),
        "drifting": rng.exponential(1.0, n) + np.linspace(0, 50, n),
        "alternating": np.where(np.arange(n) // 500 % 2, 10.0, 0.0) + rng.exponential(1.0, n),
    }[kind]
    gain = 0.2
    threshold = Threshold(rate, gain, memory=200, warm_up=20)
    alarms = [threshold.judge(float(level)) for level in levels][20:]
    # The promise of the module. It follows from the clipped scores alone.
    assert abs(np.mean(alarms) - rate) <= (2 * CLIP + gain) / (gain * len(alarms))


def test_the_scale_is_the_mean_and_the_variance_of_the_levels() -> None:
    levels = np.random.default_rng(2).exponential(1.0, 15)
    threshold = Threshold(0.1, 0.1, memory=100, warm_up=100)
    for level in levels:
        threshold.judge(float(level))
    assert threshold.centre == pytest.approx(levels.mean(), rel=1e-12)
    assert threshold.variance == pytest.approx(levels.var(), rel=1e-12)


def test_no_alarm_in_the_warm_up() -> None:
    detector = SurpriseDetector(mdvpf.Markov(50, order=0), warm_up=30)
    result = detector.run([0] * 29 + [49])
    assert not result.alarm.any() and np.isinf(result.threshold).all()
    assert math.isfinite(detector.threshold)


def test_an_alarm_is_a_level_above_the_threshold_that_was_shown() -> None:
    result = SurpriseDetector(chain(), false_alarms=0.1).run(RNG_SYMBOLS)
    np.testing.assert_array_equal(result.alarm, result.level > result.threshold)
    assert 0 < result.alarm.sum() < 200


# -- feedback ------------------------------------------------------------------------------------


def judged(strange_last: bool) -> tuple[SurpriseDetector, Detection, float, float]:
    """Return a detector after a judgement, the judgement, and the cut before and after it."""
    detector = SurpriseDetector(mdvpf.Markov(4, order=1), gain=0.3, false_alarms=0.02)
    detector.run([0, 1] * 100)
    before = detector._threshold.cut
    detection = detector.update(3 if strange_last else 0)
    assert detection.alarm is strange_last
    return detector, detection, before, detector._threshold.cut


def test_a_right_alarm_leaves_the_threshold_where_it_was() -> None:
    detector, detection, before, after = judged(strange_last=True)
    assert after == pytest.approx(before + 0.3 * 0.98)
    detector.feedback(detection, strange=True)
    assert detector._threshold.cut == pytest.approx(before)


def test_a_miss_lowers_the_threshold() -> None:
    detector, detection, before, after = judged(strange_last=False)
    assert after == pytest.approx(before - 0.3 * 0.02)
    detector.feedback(detection, strange=True)
    assert detector._threshold.cut == pytest.approx(before - 0.3)


@pytest.mark.parametrize("strange_last", [False, True])
def test_what_is_confirmed_as_usual_changes_nothing(strange_last: bool) -> None:
    detector, detection, _, after = judged(strange_last)
    detector.feedback(detection, strange=False)
    assert detector._threshold.cut == after


def test_with_feedback_the_share_is_that_among_the_usual() -> None:
    rng = np.random.default_rng(8)
    threshold = Threshold(0.05, 0.2, memory=200, warm_up=20)
    false, usual, misses = 0, 0, 0
    for _ in range(20_000):
        strange = rng.random() < 0.2
        alarm = threshold.judge(float(rng.normal(2.5 if strange else 0.0)))
        if threshold.seen > 20:
            threshold.correct(alarm, bool(strange))
            usual, false = usual + (not strange), false + (alarm and not strange)
            misses += strange and not alarm
    # Each reported miss makes room for one false alarm.
    assert false == pytest.approx(0.05 * usual + misses, abs=2 * CLIP / 0.2 + 1)


def test_feedback_makes_the_predictor_learn_or_forget_the_block() -> None:
    usual, strange = [0, 1] * 100, [3, 2] * 5
    detector = SurpriseDetector(chain(), block=10, warm_up=5, learn="unflagged")
    detector.run(usual)
    untaught = detector.predictor.copy()
    alarm = detector.run(strange)[9]
    assert alarm.alarm
    np.testing.assert_array_equal(detector.predictor.predict_proba(), untaught.predict_proba())
    detector.feedback(alarm, strange=False)
    untaught.run(strange)
    np.testing.assert_array_equal(detector.predictor.predict_proba(), untaught.predict_proba())

    detector = SurpriseDetector(chain(), block=10, warm_up=5, learn="unflagged")
    detector.run(usual)
    untaught = detector.predictor.copy()
    quiet = detector.run(usual[:10])[9]
    assert not quiet.alarm
    detector.feedback(quiet, strange=True)
    np.testing.assert_array_equal(detector.predictor.predict_proba(), untaught.predict_proba())


def test_late_feedback_moves_the_threshold_only() -> None:
    detector = SurpriseDetector(chain(), block=10, warm_up=5, learn="unflagged")
    detector.run([0, 1] * 100)
    alarm = detector.run([3, 2] * 5)[9]
    detector.update(0)
    learnt, cut = detector.predictor.predict_proba(), detector._threshold.cut
    detector.feedback(alarm, strange=True)
    np.testing.assert_array_equal(detector.predictor.predict_proba(), learnt)
    assert detector._threshold.cut < cut


# -- what is learnt ------------------------------------------------------------------------------


def test_without_learning_every_block_is_scored_by_the_same_predictor() -> None:
    predictor = chain()
    predictor.run(RNG_SYMBOLS[:300])
    blocks = RNG_SYMBOLS[300:].reshape(-1, 10)
    expected = np.array([-predictor.score(block) for block in blocks])
    result = SurpriseDetector(predictor, block=10, learn="none").run(RNG_SYMBOLS[300:])
    np.testing.assert_array_equal(result.surprise.reshape(-1, 10), expected)


def test_unflagged_blocks_are_learnt_and_flagged_ones_are_not() -> None:
    detector = KINDS["unflagged"]()
    result = detector.run(RNG_SYMBOLS[:594])
    flagged = result.alarm[8::9]
    assert 0 < flagged.sum() < len(flagged)
    twin = small_filter()
    for block, alarm in zip(RNG_SYMBOLS[:594].reshape(-1, 9), flagged, strict=True):
        if not alarm:
            twin.run(block)
    np.testing.assert_array_equal(detector.predictor.predict_proba(), twin.predict_proba())


def test_learning_can_end_between_blocks() -> None:
    detector = SurpriseDetector(chain(), block=10, warm_up=30)
    detector.run(RNG_SYMBOLS[:300])
    detector.learn = "none"
    learnt = chain()
    learnt.run(RNG_SYMBOLS[:300])
    expected = [-learnt.score(block) for block in RNG_SYMBOLS[300:].reshape(-1, 10)]
    result = detector.run(RNG_SYMBOLS[300:])
    np.testing.assert_array_equal(result.surprise, np.concatenate(expected))
    detector.update(0)
    with pytest.raises(ValueError, match="between two blocks"):
        detector.learn = "all"


# -- change points -------------------------------------------------------------------------------


def test_a_change_of_source_is_the_first_change_point() -> None:
    rng = np.random.default_rng(4)
    first = rng.choice(8, size=1500, p=[0.6, 0.3, 0.1 / 6, *[0.1 / 6] * 5])
    second = rng.choice(8, size=300, p=[*[0.1 / 6] * 6, 0.5, 0.4])
    for options in ({}, {"smoothing": 5.0}, {"block": 10}):
        detector = SurpriseDetector(mdvpf.Markov(8, order=0, beta=0.1), **options)
        points = detector.run(np.concatenate([first, second])).change_points
        assert len(points) >= 1 and abs(points[0] - 1500) <= 20, options


def test_one_level_is_no_sustained_rise() -> None:
    rise = Rise(10.0, pace=1.0)
    assert rise.add(1e6, 1.0, 0) is None
    least = math.floor(10.0 / (SUSTAINED - DRIFT)) + 1
    found = [rise.add(1e6, 1.0, i) for i in range(1, least)]
    assert found[:-1] == [None] * (least - 2) and found[-1] == (0, 1.0)


def test_a_rise_begins_where_the_sum_last_left_zero() -> None:
    scores = [0.0, 2.0, -5.0, 1.5, 1.5, 1.5, 1.5]
    rise = Rise(3.5, pace=1.0)
    found = [rise.add(score, float(i), 10 * i) for i, score in enumerate(scores)]
    assert found == [None] * 6 + [(30, 4.5)]  # the mean of 3, 4, 5 and 6


def test_what_is_usual_goes_with_a_change_where_everything_is_learnt() -> None:
    rng = np.random.default_rng(6)
    detector = SurpriseDetector(mdvpf.Markov(16, order=0, beta=1.0), block=20)
    detector.run(rng.integers(0, 2, size=2000))
    result = detector.run(rng.integers(0, 16, size=4000))
    assert len(result.change_points) >= 1
    assert result.alarm.sum() < 20


# -- copies and files ----------------------------------------------------------------------------


COPIES = {
    "copy": SurpriseDetector.copy,
    "copy.copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda detector: pickle.loads(pickle.dumps(detector)),
    "file": reloaded,
}


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("at", [0, 3, 360, 364])
def test_copies_go_on_alike_and_apart(
    make: Callable[[], SurpriseDetector], way: str, at: int
) -> None:
    detector = make()
    if at:
        detector.run(RNG_SYMBOLS[:at])
    twin = COPIES[way](detector)
    assert repr(twin) == repr(detector)
    expected = make()
    if at:
        expected.run(RNG_SYMBOLS[:at])
    rest = expected.run(RNG_SYMBOLS[at:])
    assert fields(twin.run(RNG_SYMBOLS[at:])) == fields(rest)
    assert fields(detector.run(RNG_SYMBOLS[at:])) == fields(rest)


def test_feedback_survives_a_file() -> None:
    detector = SurpriseDetector(chain(), block=10, warm_up=5, learn="unflagged")
    detector.run([0, 1] * 100)
    alarm = detector.run([3, 2] * 5)[9]
    twin = reloaded(detector)
    for each in (detector, twin):
        each.feedback(alarm, strange=False)
    assert fields(twin.run(RNG_SYMBOLS)) == fields(detector.run(RNG_SYMBOLS))


def test_a_file_asks_for_a_callable_discount() -> None:
    model = mdvpf.InfiniteHMM(4)
    predictor = mdvpf.ParticleFilter(model, mdvpf.MDVPA(discount=lambda n: 1 / n), 5)
    detector = SurpriseDetector(predictor, block=9, learn="none")
    detector.run(RNG_SYMBOLS[:40])  # inside of a block: two predictors
    file = io.BytesIO()
    detector.save(file)
    file.seek(0)
    with pytest.raises(mdvpf.CheckpointError, match="discount"):
        SurpriseDetector.load(file)
    file.seek(0)
    twin = SurpriseDetector.load(file, discount=lambda n: 1 / n)
    assert fields(twin.run(RNG_SYMBOLS)) == fields(detector.run(RNG_SYMBOLS))


def test_a_detector_is_no_predictor_in_a_file() -> None:
    file = io.BytesIO()
    SurpriseDetector(chain()).save(file)
    file.seek(0)
    with pytest.raises(mdvpf.CheckpointError, match="SurpriseDetector"):
        mdvpf.Predictor.load(file)
    file = io.BytesIO()
    chain().save(file)
    file.seek(0)
    with pytest.raises(mdvpf.CheckpointError, match="Markov"):
        SurpriseDetector.load(file)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: setattr(d._level, "time", -1),
        lambda d: setattr(d._level, "total", -1.0),
        lambda d: d.__dict__.update(_judged=10**6),
        lambda d: setattr(d._level, "count", 10**6),
        lambda d: setattr(d._belief, "other", None),
        lambda d: setattr(d._belief, "other", mdvpf.ContextTree(4, depth=1)),
        lambda d: setattr(d._belief, "other", chain(3)),
        lambda d: setattr(d._belief, "learn", "some"),
        lambda d: d.__dict__.update(block=0),
        lambda d: setattr(d._threshold, "variance", -1.0),
        lambda d: setattr(d._threshold, "cut", "high"),
        lambda d: setattr(d._threshold, "seen", 1.5),
        lambda d: setattr(d._rise, "total", 1e200),
        lambda d: setattr(d._belief, "predictor", SurpriseDetector(chain())),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(
    change: Callable[[SurpriseDetector], None],
) -> None:
    detector = KINDS["none"]()
    detector.run(RNG_SYMBOLS[:40])
    change(detector)
    file = io.BytesIO()
    detector.save(file)
    file.seek(0)
    with pytest.raises(mdvpf.CheckpointError):
        SurpriseDetector.load(file)


# -- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"block": 0}, ValueError, "block=0"),
        ({"block": 2.0}, TypeError, "block=2.0"),
        ({"smoothing": 0.5}, ValueError, "smoothing=0.5"),
        ({"smoothing": 3, "block": 5}, ValueError, "smoothing=3 with block=5"),
        ({"false_alarms": 0.0}, ValueError, "false_alarms=0.0"),
        ({"false_alarms": 0.6}, ValueError, "false_alarms=0.6"),
        ({"false_alarms": True}, TypeError, "false_alarms=True"),
        ({"learn": "some"}, ValueError, "learn='some'"),
        ({"learn": "none"}, ValueError, "without block"),
        ({"warm_up": 1}, ValueError, "warm_up=1"),
        ({"memory": 1}, ValueError, "memory=1"),
        ({"gain": -0.1}, ValueError, "gain=-0.1"),
        ({"gain": math.nan}, ValueError, "gain=nan"),
        ({"change_limit": 0.0}, ValueError, "change_limit=0.0"),
    ],
)
def test_bad_settings_are_named(
    options: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        SurpriseDetector(chain(), **options)  # type: ignore[arg-type]


def test_a_predictor_is_needed() -> None:
    with pytest.raises(TypeError, match="expected a Predictor"):
        SurpriseDetector("chain")  # type: ignore[arg-type]


@pytest.mark.parametrize("symbol", [-1, 4, 1.0, True, "a"])
def test_a_bad_symbol_leaves_the_detector_as_it_was(
    make: Callable[[], SurpriseDetector], symbol: object
) -> None:
    detector = make()
    detector.run(RNG_SYMBOLS[:200])
    with pytest.raises((TypeError, ValueError), match="symbol"):
        detector.update(symbol)  # type: ignore[arg-type]
    with pytest.raises((TypeError, ValueError), match="symbols"):
        detector.run([0, 1, symbol])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="lengths"):
        detector.run([0, 1], lengths=[3])
    expected = make()
    expected.run(RNG_SYMBOLS[:200])
    assert fields(detector.run(RNG_SYMBOLS[200:])) == fields(expected.run(RNG_SYMBOLS[200:]))


def test_feedback_is_about_judgements_of_this_detector() -> None:
    detector = SurpriseDetector(chain(), block=10, warm_up=2)
    result = detector.run(RNG_SYMBOLS[:40])
    with pytest.raises(ValueError, match="judged"):
        detector.feedback(result[3], strange=True)
    with pytest.raises(ValueError, match="judged"):
        detector.feedback(result[9], strange=True)  # of the warm-up
    with pytest.raises(TypeError, match="strange=1"):
        detector.feedback(result[29], strange=1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected a Detection"):
        detector.feedback(None, strange=True)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="this detector"):
        SurpriseDetector(chain()).feedback(result[29], strange=True)


def test_no_surprise_is_zero_without_a_sign() -> None:
    certain = mdvpf.Markov(1)
    detector = SurpriseDetector(certain)
    assert str(detector.update(None).surprise) == "0.0"
    assert str(detector.update(0).surprise) == "0.0"
    assert [str(surprise) for surprise in detector.run([0, None, 0]).surprise.tolist()] == [
        "0.0"
    ] * 3


def test_a_discount_that_will_run_out_is_refused_before_anything_has_changed() -> None:
    algorithm = mdvpf.MDVPA(discount=[0.5] * 1500)
    predictor = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(2), algorithm, n_particles=3)
    detector = SurpriseDetector(predictor)
    detector.update(0)
    before = detector.copy()
    with pytest.raises(ValueError, match="discount has 1500 values"):
        detector.run([0, 1] * 800)
    assert detector.update(1) == before.update(1)
    assert len(detector.run([0, 1] * 740)) == 1480
