"""The monitor with events: keys, their ages and ends, formats, open vocabularies, reports."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mdvpf
from mdvpf.predictor import Step
from mdvpf.streams.events import Event
from mdvpf.streams.formats import make_format
from mdvpf.streams.key_ages import KeyAges
from mdvpf.streams.report import Report, csv_header
from tests.kernel.sealing import saved


class Followers(mdvpf.Predictor):
    """Expects what the same key had last, and notes every call."""

    def __init__(self) -> None:
        self.last: dict[Any, int] = {}
        self.ended: list[Any] = []

    @property
    def n_symbols(self) -> int:
        return 3

    def predict_proba(self, key: Any = None) -> NDArray[np.float64]:
        found = np.full(3, 0.1)
        found[self.last.get(key, 0)] = 0.8
        return found

    def update(self, symbol: int | None, key: Any = None) -> Step:
        p = 1.0 if symbol is None else float(self.predict_proba(key)[symbol])
        if symbol is not None:
            self.last[key] = symbol
        return Step(float(np.log(p)), 1.0, 1.0, 1, 0.0)

    def new_sequence(self, key: Any = None) -> None:
        self.last.pop(key, None)
        self.ended.append(key)

    def copy(self) -> Followers:
        other = Followers()
        other.last, other.ended = self.last.copy(), self.ended.copy()
        return other


def followed(**options: Any) -> tuple[mdvpf.Monitor, Followers]:
    predictor = Followers()
    return mdvpf.Monitor(predictor, **options), predictor


def test_a_key_has_a_sequence_of_its_own() -> None:
    monitor, _ = followed()
    reports = [monitor.absorb(Event(s, key=k)) for s, k in [(1, "a"), (2, "b"), (1, "a"), (2, "b")]]
    assert [r.key for r in reports if r] == ["a", "b", "a", "b"]
    assert [round(float(np.exp(-r.surprise)), 3) for r in reports if r] == [0.1, 0.1, 0.8, 0.8]
    assert [r.expected[0] for r in reports if r] == [(0, 0.8), (0, 0.8), (1, 0.8), (2, 0.8)]


def test_a_sequence_ends_after_its_event_or_without_one() -> None:
    monitor, predictor = followed()
    assert monitor.absorb(Event(1, key="a", ends=True)) is not None
    assert monitor.absorb(Event(None, key="b", ends=True, no_symbol=True)) is None
    assert predictor.ended == ["a", "b"]
    assert monitor.n_lines == 2


@pytest.mark.parametrize("has_times", [True, False])
def test_keys_that_nobody_uses_end(has_times: bool) -> None:
    monitor, predictor = followed(key_ttl=10)
    moments = [(0, "a"), (5, "b"), (10, "b"), (11, "c"), (21, "c"), (22, "c"), (40, "c")]
    ended = []
    for moment, key in moments:
        while monitor.n_lines < moment and not has_times:
            monitor.skip()
        monitor.absorb(Event(1, key=key, time=1e9 + moment if has_times else None))
        monitor.n_lines = moment if not has_times else monitor.n_lines
        ended.append(list(predictor.ended))
    assert ended == [[], [], [], ["a"], ["a", "b"], ["a", "b"], ["a", "b", "c"]]


def test_late_events_do_not_turn_time_back() -> None:
    ages = KeyAges(10.0)
    ages.use("a", 100.0, 1)
    ages.use("b", 50.0, 2)  # late: it counts as of now
    assert ages.expired(109.0, 3) == []
    assert ages.expired(111.0, 3) == ["a", "b"]
    twin = KeyAges(10.0)
    twin.restore(json.loads(json.dumps(ages.to_values())))
    assert twin.to_values() == ages.to_values() == ages.copy().to_values()
    with pytest.raises(ValueError, match="once"):
        twin.restore({"latest": None, "keys": [["a", None, 1], ["a", None, 2]]})


def test_a_symbol_that_is_refused_changes_nothing() -> None:
    monitor, predictor = followed(key_ttl=1)
    monitor.absorb(Event(1, key="a", time=0.0))
    with pytest.raises(ValueError, match=r"^line 2: '7': expected an integer in 0\.\.2"):
        monitor.absorb(Event(7, key="b", time=100.0))
    assert (monitor.n_lines, predictor.ended, predictor.last) == (1, [], {"a": 1})
    with pytest.raises(TypeError, match="event="):
        monitor.absorb("a")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (Event(1, key=1.5, time=100.0), "key=1.5"),  # type: ignore[arg-type]
        (Event(1, key="b", time=float("nan")), "time=nan"),
        (Event(1, key="b", time=float("inf")), "time=inf"),
        (Event(1, key="b", time=-float("inf")), "time=-inf"),
    ],
)
def test_a_key_or_a_time_that_is_refused_changes_nothing(event: Event, message: str) -> None:
    monitor, predictor = followed(key_ttl=1)
    monitor.absorb(Event(1, key="a", time=0.0))
    assert monitor._ages is not None
    before = monitor._ages.to_values()
    with pytest.raises((TypeError, ValueError), match=message):
        monitor.absorb(event)
    assert (monitor.n_lines, predictor.ended, predictor.last) == (1, [], {"a": 1})
    assert monitor._ages.to_values() == before


def test_keys_of_a_predictor_that_takes_none_are_not_noted() -> None:
    class Keyless(Followers):
        def update(self, symbol: int | None) -> Step:  # type: ignore[override]
            return super().update(symbol)

    predictor = Keyless()
    monitor = mdvpf.Monitor(predictor, key_ttl=10)
    with pytest.raises(TypeError, match="Keyless takes none"):
        monitor.absorb(Event(1, key="a", time=0.0))
    assert monitor._ages is not None
    assert len(monitor._ages) == 0
    monitor.absorb(Event(1, time=0.0))
    monitor.absorb(Event(1, time=11.0))
    assert predictor.ended == [None]  # its only sequence expires all the same


def test_ages_are_kept_of_as_many_keys_as_are_in_use() -> None:
    monitor, predictor = followed(key_ttl=10, max_keys=2)
    for i, key in enumerate("abcd"):
        monitor.absorb(Event(1, key=key, time=float(i)))
    assert monitor._ages is not None
    assert [key for key, *_ in monitor._ages.to_values()["keys"]] == ["c", "d"]
    assert predictor.ended == ["a", "b"]
    monitor.absorb(Event(1, key="e", time=100.0))
    assert predictor.ended == ["a", "b", "c", "d"]  # each once


def test_a_key_that_is_no_longer_in_use_expires_without_a_trace() -> None:
    monitors = []
    for key_ttl in (10, None):
        model = mdvpf.InfiniteHMM(n_symbols=3)
        pf = mdvpf.ParticleFilter(model, mdvpf.MDVPA(), n_particles=10, rng=1)
        monitor = mdvpf.Monitor(pf, key_ttl=key_ttl)
        monitor.absorb(Event(1, key="a", time=0.0))
        monitor.detector.new_sequence("a")
        for time in range(1, 20):  # on the way the time of a key that ended long ago is over
            monitor.absorb(Event(time % 3, key="b", time=float(time)))
        monitors.append(monitor)
    assert saved(monitors[0].predictor) == saved(monitors[1].predictor)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_keys": 0}, "max_keys=0"),
        ({"key_ttl": -1.0}, "key_ttl=-1.0"),
        ({"n_expected": 4}, "n_expected=4"),
        ({"format": "json"}, "format='json'"),
        ({"format": make_format("lines"), "missing": "x"}, "missing='x'"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        followed(**options)


def test_a_format_is_saved_with_what_it_remembers() -> None:
    form = make_format("csv", {"symbol": "page", "time": "at", "time_unit": "s"})
    monitor = mdvpf.Monitor(mdvpf.Markov(3), format=form, key_ttl=5.0, max_keys=7, n_expected=1)
    assert monitor.read("at,page\n") is None
    monitor.read("10,1\n")
    twins = [mdvpf.Monitor.load(io.BytesIO(saved(monitor))), monitor.copy()]
    expected = monitor.read("11,2\n")
    assert expected is not None
    assert (expected.time, expected.line, len(expected.expected)) == (11.0, 3, 1)
    for twin in twins:
        assert (twin.max_keys, twin.key_ttl, twin.n_expected) == (7, 5.0, 1)
        assert twin.read("11,2\n") == expected
        assert saved(twin) == saved(monitor)


def test_labels_are_taken_as_they_come() -> None:
    predictor = mdvpf.Markov(3, order=0)
    predictor.vocabulary = mdvpf.Vocabulary.open(max_labels=2, unknown="OTHER")
    monitor = mdvpf.Monitor(predictor)
    words = ["ls", "cd", "ls", "rm", "cp"]
    reports = [monitor.read(word) for word in words]
    assert [r.symbol for r in reports if r] == ["ls", "cd", "ls", "OTHER", "OTHER"]
    assert [r.label for r in reports if r] == words
    twin = mdvpf.Monitor.load(io.BytesIO(saved(monitor)))
    assert twin.read("cd") == monitor.read("cd")


@pytest.mark.parametrize("missing", [None, "?"])
def test_labels_of_the_same_text_are_saved_and_copied(missing: str | None) -> None:
    predictor = mdvpf.Markov(4, order=0)
    predictor.vocabulary = mdvpf.Vocabulary.open(max_labels=3, unknown="OTHER")
    monitor = mdvpf.Monitor(predictor, missing=missing)
    labels = ["1", 1, "?", 1, "1"]
    reports = [monitor.absorb(Event(label)) for label in labels]
    assert [r.symbol for r in reports if r] == labels
    for twin in (monitor.copy(), mdvpf.Monitor.load(io.BytesIO(saved(monitor)))):
        assert twin.missing == missing
        assert twin.predictor.vocabulary == predictor.vocabulary
        assert saved(twin) == saved(monitor)
        assert twin.copy().absorb(Event(1)) == monitor.copy().absorb(Event(1))
        assert twin.copy().read("?") == monitor.copy().read("?")


def test_expected_symbols_are_left_out_where_there_are_many() -> None:
    for n_symbols, n_expected, found in [(1000, None, 3), (1001, None, 0), (1001, 2, 2), (9, 0, 0)]:
        monitor = mdvpf.Monitor(mdvpf.Markov(n_symbols, order=0), n_expected=n_expected)
        report = monitor.read("1")
        assert report is not None
        assert len(report.expected) == found


def test_a_report_says_why_there_is_an_alarm() -> None:
    detector = mdvpf.SurpriseDetector(mdvpf.Markov(3), smoothing=3)
    twin = detector.copy()
    monitor = mdvpf.Monitor(detector)
    for symbol in [0, 1, 2] * 40 + [2, 2, 0, 0] * 10:
        report, detection = monitor.read(f"{symbol}"), twin.update(symbol)
        assert report is not None
        found = [report.index, report.surprise, report.alarm, report.change]
        assert found == [detection.time, detection.surprise, detection.alarm, detection.change]
        assert np.array_equal(
            [report.level, report.score, report.threshold],
            [detection.level, detection.score, detection.threshold],
            equal_nan=True,
        )
    assert detector.threshold == twin.threshold


def strange() -> Report:
    fields = {"host": "a,b\n", "load": float("nan"), "tags": [1, {"x": "y"}], "who": object}
    return Report(
        7, 'say "hi"', -1.0, 1.0, True, None, (("a\nb", 0.5),), ("k", 1), 1.5, "x;y", 6, 1.0, 2.0,
        0.5, 3, fields,
    )  # fmt: skip


def test_reports_are_one_line_whatever_is_in_them() -> None:
    report = strange()
    found = json.loads(report.to_json())
    assert found["key"] == ["k", 1]
    assert (found["label"], found["index"], found["change"]) == ("x;y", 6, 3)
    assert found["fields"]["load"] is None
    assert found["fields"]["tags"] == [1, {"x": "y"}]
    text = report.to_text()
    assert "\n" not in text
    assert "ALARM: 1.000 above 0.500" in text
    assert "change since symbol 3" in text
    names = ["host", "load", "tags"]
    rows = list(csv.DictReader(io.StringIO(f"{csv_header(names)}\n{report.to_csv(names)}\n")))
    assert rows[0]["key"] == '["k", 1]'
    assert rows[0]["symbol"] == 'say "hi"'
    cells = [rows[0][name] for name in names]
    assert tuple(cells) == (
        '"a,b\\n"',
        "",
        '[1, {"x": "y"}]',
    )
    cells = [rows[0][name] for name in ("expected_1", "expected_2", "alarm")]
    assert tuple(cells) == (
        '"a\\nb"',
        "",
        "true",
    )


def test_a_limit_on_keys_that_is_passed_wins_over_that_of_the_predictor() -> None:
    for most, expected in ((2, 2), (10_000, 3)):  # the second is the default
        predictor = mdvpf.Markov(3)
        predictor.max_keys = 3
        monitor = mdvpf.Monitor(predictor, max_keys=most)
        for i in range(5):
            monitor.absorb(Event(0, key=f"k{i}"))
        assert predictor.n_keys == expected
