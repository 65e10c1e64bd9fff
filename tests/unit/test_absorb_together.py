"""Events that are absorbed together: the same reports and the same monitor as one by one."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

import mdvpf
from mdvpf.checkpoint.saveable import encoded
from mdvpf.streams import together as module
from mdvpf.streams.events import Event
from mdvpf.streams.formats import make_format
from mdvpf.streams.methods import make_predictor
from mdvpf.streams.report import Report
from mdvpf.streams.together import absorb_together, read_together

V = 5


def monitors(method: str, n_expected: int | None = 0, **settings: float) -> list[mdvpf.Monitor]:
    particles = 10 if method in ("MD-VPA", "SMC") else None
    return [
        mdvpf.Monitor(
            mdvpf.SurpriseDetector(make_predictor(method, V, particles, 1), **settings),
            n_expected=n_expected,
            max_keys=6,
        )
        for _ in range(2)
    ]


def assert_same(one: mdvpf.Monitor, other: mdvpf.Monitor, events: list[Event]) -> list[Report]:
    together = absorb_together(one, events)
    assert together is not None
    singly = [other.absorb(event) for event in events]
    # repr, as NaN is not equal to itself
    assert list(map(repr, together)) == list(map(repr, singly))
    assert b"".join(encoded(one)) == b"".join(encoded(other))
    return together


@pytest.mark.parametrize("method", ["MD-VPA", "SMC", "Markov 1", "PitmanYorTree 3"])
@pytest.mark.parametrize("n_keys", [0, 9])
def test_events_together_have_the_reports_of_one_by_one(method: str, n_keys: int) -> None:
    one, other = monitors(method, smoothing=3.0)
    rng = random.Random(0)
    for _ in range(4):
        events = [
            Event(rng.randrange(V), f"k{rng.randrange(n_keys)}" if n_keys else None)
            for _ in range(60)
        ]
        assert len(assert_same(one, other, events)) == 60
    assert one.n_lines == 240


@pytest.mark.parametrize("method", ["MD-VPA", "Markov 1"])
def test_incidents_and_expected_symbols_are_those_of_one_by_one(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With missing symbols, over parts that do not end with blocks, and a trace that overflows."""
    monkeypatch.setattr(module, "MOST_PROBABILITIES", 37 * V)
    one, other = monitors(method, None, false_incidents=500.0, warm_up=10, trace=40)
    rng = random.Random(2)
    events = [Event(rng.randrange(V), f"k{rng.randrange(8)}") for _ in range(300)]
    events[50] = Event(None, "k1")
    events[150:190] = [Event(3, "k2")] * 40
    together = assert_same(one, other, events)
    assert any(report.why for report in together)
    assert all(len(report.expected) == 3 for report in together)


def test_alarms_are_passed_on_before_the_next_event() -> None:
    (one, _) = monitors("Markov 1", false_incidents=500.0, warm_up=10)
    seen = []

    def note(report: Report) -> None:
        assert report.incident == one.detector.incidents[-1].number
        seen.append((report.line, one.detector.incidents[-1].end))

    rng = random.Random(0)
    events = [Event(rng.randrange(V)) for _ in range(200)] + [Event(3)] * 60
    reports = absorb_together(one, events, note)
    assert reports is not None
    assert seen == [(report.line, report.index) for report in reports if report.alarm]
    assert len(seen) > 1


def test_with_a_background_it_is_the_same() -> None:
    one, other = (
        mdvpf.Monitor(
            mdvpf.SurpriseDetector(
                mdvpf.Markov(V), background=mdvpf.Markov(V, order=0), false_incidents=1.0
            )
        )
        for _ in range(2)
    )
    rng = random.Random(4)
    together = assert_same(one, other, [Event(rng.randrange(V)) for _ in range(100)])
    assert len(together[0].expected) == 3


def test_with_times_it_is_the_same() -> None:
    model = mdvpf.InfiniteHMM(V, half_life=timedelta(seconds=30))
    one, other = (
        mdvpf.Monitor(
            mdvpf.SurpriseDetector(
                mdvpf.ParticleFilter(model, n_particles=5, rng=0), false_incidents=5.0, per="day"
            )
        )
        for _ in range(2)
    )
    rng = random.Random(1)
    events = [
        Event(rng.randrange(V), time=None if i % 7 == 3 else i + 5 * rng.random())
        for i in range(80)
    ]
    together = assert_same(one, other, events)
    assert [report.time for report in together] == [event.time for event in events]


@pytest.mark.parametrize(
    "event",
    [
        Event(None, no_symbol=True),
        Event(1, time=float("nan")),
        Event(1, ends=True),
        Event(V),
        Event("x"),
    ],
)
def test_events_that_need_more_than_a_symbol_are_left_alone(event: Event) -> None:
    one, other = monitors("Markov 1")
    assert absorb_together(one, [Event(1), event]) is None
    assert b"".join(encoded(one)) == b"".join(encoded(other))


@pytest.mark.parametrize("budget", ["fast", "default"])
def test_auto_absorbs_together_and_reports_its_states(
    budget: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With keys and missing symbols, over parts of a run; also what states its filters have."""
    monkeypatch.setattr(module, "MOST_PROBABILITIES", 37 * V)
    one, other = (
        mdvpf.Monitor(
            mdvpf.SurpriseDetector(mdvpf.auto(V, 20, budget=budget, rng=0), false_incidents=500.0),
            max_keys=6,
        )
        for _ in range(2)
    )
    rng = random.Random(5)
    events = [Event(rng.randrange(V), f"k{rng.randrange(6)}") for _ in range(100)]
    events[40] = Event(None, "k1")
    together = assert_same(one, other, events)
    assert all(len(report.expected) == 3 for report in together)
    assert absorb_together(one, [Event(0, "a seventh")]) is None


def test_mixtures_that_do_not_report_states_are_left_alone() -> None:
    chains = mdvpf.Mixture([mdvpf.Markov(V), mdvpf.Markov(V, order=2)])
    for mixture in (chains, mdvpf.GeometricMixture([chains])):
        assert absorb_together(mdvpf.Monitor(mixture, n_expected=0), [Event(1)]) is None


# --- Lines


@pytest.mark.parametrize("last", [b"\n", b"x\n", b"5\n", b"\xff\n", b"4\n"])
@pytest.mark.parametrize("n", [0, 1, 20])
def test_lines_up_to_the_first_that_needs_care_of_its_own(last: bytes, n: int) -> None:
    options = {"missing": "?", "end": "4"}
    one, other = (
        mdvpf.Monitor(mdvpf.Markov(V), format=make_format("lines", options)) for _ in range(2)
    )
    lines = [b"?\n" if i == 3 else b"%d\n" % (i % 4) for i in range(n)]
    found = read_together(one, [*lines, last, b"1\n"])
    assert list(map(repr, found)) == [repr(other.read(line)) for line in lines]
    assert b"".join(encoded(one)) == b"".join(encoded(other))


def test_lines_whose_keys_end_on_the_way_are_absorbed_one_by_one() -> None:
    table = {"symbol": "x", "key": "u"}
    one, other = (
        mdvpf.Monitor(mdvpf.auto(V, 84, rng=0), format=make_format("csv", table), max_keys=2)
        for _ in range(2)
    )
    lines = [b"%d,k%d\n" % (i % V, i % 3) for i in range(12)]
    assert read_together(one, [b"x,u\n", *lines]) == []  # the header is no event
    assert one.n_lines == 0
    for monitor in (one, other):
        assert monitor.read("x,u\n") is None
    found = read_together(one, lines)
    assert list(map(repr, found)) == [repr(other.read(line)) for line in lines]
    assert b"".join(encoded(one)) == b"".join(encoded(other))


@pytest.mark.parametrize("name", ["journal", "text"])
def test_formats_that_learn_from_events_are_not_read_ahead(name: str) -> None:
    if name == "text":
        pytest.importorskip("drain3")
    form = make_format(name, {"symbol": "PRIORITY"} if name == "journal" else {})
    monitor = mdvpf.Monitor(mdvpf.Markov(V), format=form)
    before = b"".join(encoded(monitor))
    line = b'{"__CURSOR": "s=1", "PRIORITY": "1"}\n'
    assert read_together(monitor, [line, line]) == []
    assert b"".join(encoded(monitor)) == before


def test_predictors_that_gain_nothing_are_left_alone() -> None:
    monitor = mdvpf.Monitor(mdvpf.Markov(None))  # of an open alphabet
    assert read_together(monitor, [b"0\n", b"1\n"]) == []
    assert monitor.n_lines == 0
