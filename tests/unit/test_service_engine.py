"""Events of the service: each once, in order, whatever happens in between."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

import mdvpf
from mdvpf.checkpoint import CheckpointError
from mdvpf.streams.service import Engine, ServiceConfig, StreamConfig, views
from mdvpf.streams.service import event_log as event_log_module
from mdvpf.streams.service.engine import Contradiction, Unavailable
from mdvpf.streams.service.ingest import MalformedBatch, Overloaded
from mdvpf.streams.service.state import IdWindow, StreamState, digest_of
from tests.running_service import MARKOV


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sync nothing: no test here takes the power away, and a busy disk takes its time."""
    monkeypatch.setattr(os, "fsync", lambda file: None)


def configured(folder: Path, text: str = MARKOV, **given: Any) -> ServiceConfig:
    return ServiceConfig.from_toml(text, folder=str(folder), **given)


def events(first: int, last: int, seed: int = 0) -> list[dict[str, Any]]:
    return [
        {"symbol": (i * 3 + i // 7 + seed) % 6, "key": f"k{i % 4}", "id": i}
        for i in range(first, last)
    ]


def body(found: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in found)


def uninterrupted(found: list[dict[str, Any]], text: str = MARKOV) -> mdvpf.Monitor:
    """Return the monitor of a stream that has absorbed events one after the other."""
    config = ServiceConfig.from_toml(text, folder="unused")
    monitor = config.streams["clicks"].new_monitor()
    for event in found:
        monitor.read(json.dumps(event))
    return monitor


def same(one: mdvpf.Monitor, other: mdvpf.Monitor) -> bool:
    """Tell whether two monitors are the same to the last bit."""
    from mdvpf.checkpoint.saveable import encoded

    return b"".join(encoded(one)) == b"".join(encoded(other))


def monitor_of(engine: Engine) -> mdvpf.Monitor:
    with engine.streams["clicks"].look() as state:
        return state.monitor


def crashed(engine: Engine) -> None:
    """End an engine as kill -9 would: without saving anything."""
    engine.error = "crashed"  # nothing is saved at the end
    engine.stop()


def test_a_batch_is_absorbed_in_order_and_reported(tmp_path: Path) -> None:
    with Engine(configured(tmp_path)) as engine:
        batch = engine.send("clicks", body(events(0, 100)))
        assert len(batch) == len(batch.reports) == 100
        assert same(monitor_of(engine), uninterrupted(events(0, 100)))


def test_a_repeated_batch_has_no_second_effect(tmp_path: Path) -> None:
    with Engine(configured(tmp_path)) as engine:
        engine.send("clicks", body(events(0, 50)))
        assert engine.send("clicks", body(events(0, 50))).n_repeated == 50
        mixed = engine.send("clicks", body(events(30, 70) + events(60, 80)))
        assert (len(mixed), mixed.n_repeated) == (30, 30)
        assert same(monitor_of(engine), uninterrupted(events(0, 80)))


def test_events_without_ids_count_every_time(tmp_path: Path) -> None:
    with Engine(configured(tmp_path)) as engine:
        for _ in range(2):
            engine.send("clicks", b'{"symbol": 1, "key": "a"}\n{"symbol": 2, "key": "a"}')
        assert monitor_of(engine).n_lines == 4


def test_ids_are_remembered_as_long_as_the_window_says(tmp_path: Path) -> None:
    config = configured(tmp_path, MARKOV + "remember_ids = 10\n")
    with Engine(config) as engine:
        engine.send("clicks", body(events(0, 20)))
        assert engine.send("clicks", body(events(10, 20))).n_repeated == 10
        assert engine.send("clicks", body(events(9, 10))).n_repeated == 0


@pytest.mark.parametrize("method", ["Markov 1", "MD-VPA", "SMC"])
def test_after_a_crash_the_log_gives_the_same_state(tmp_path: Path, method: str) -> None:
    text = MARKOV.replace("Markov 1", method)
    if method != "Markov 1":
        text += "particles = 8\nmax_states = 6\n"
    engine = Engine(configured(tmp_path, text)).start()
    engine.send("clicks", body(events(0, 90)))
    engine.streams["clicks"].save()
    engine.send("clicks", body(events(60, 150)))
    crashed(engine)
    with Engine(configured(tmp_path, text)) as engine:
        assert same(monitor_of(engine), uninterrupted(events(0, 150), text))
        assert engine.send("clicks", body(events(0, 150))).n_repeated == 150
        engine.send("clicks", body(events(150, 200)))
        assert same(monitor_of(engine), uninterrupted(events(0, 200), text))


def test_a_graceful_stop_leaves_nothing_to_replay(tmp_path: Path) -> None:
    with Engine(configured(tmp_path)) as engine:
        engine.send("clicks", body(events(0, 50)))
    messages: list[str] = []
    with Engine(configured(tmp_path), messages.append) as engine:
        assert same(monitor_of(engine), uninterrupted(events(0, 50)))
    assert messages == []


def test_streams_are_absorbed_by_several_threads(tmp_path: Path) -> None:
    text = "".join(MARKOV.replace("clicks", f"s{i}") for i in range(4))
    with Engine(configured(tmp_path, text, threads=3)) as engine:
        sent = []
        for first in range(0, 200, 20):
            for stream in engine.streams.values():
                batch = stream.ingest.read_batch(body(events(first, first + 20)), 100)
                engine.submit(stream, batch)
                sent.append(batch)
        for batch in sent:
            batch.absorbed.result(30)
        expected = uninterrupted(events(0, 200))
        for stream in engine.streams.values():
            with stream.look() as state:
                assert same(state.monitor, expected)


def test_a_damaged_checkpoint_falls_back_on_the_one_before_and_the_log(tmp_path: Path) -> None:
    config = configured(tmp_path, segment_bytes=1000)
    engine = Engine(config).start()
    for first in range(0, 200, 20):
        engine.send("clicks", body(events(first, first + 20)))
        engine.streams["clicks"].save()
        engine.log.prune({"clicks": engine.streams["clicks"].kept[0]})
    crashed(engine)
    path = tmp_path / "streams" / "clicks.mdvpf"
    path.write_bytes(path.read_bytes()[:-9])
    messages: list[str] = []
    with Engine(config, messages.append) as engine:
        assert same(monitor_of(engine), uninterrupted(events(0, 200)))
    assert any("previous" in message for message in messages)


def test_the_log_is_pruned_by_the_keeper(tmp_path: Path) -> None:
    config = configured(tmp_path, segment_bytes=1000, checkpoint_seconds=0.05)
    with Engine(config) as engine:
        for first in range(0, 400, 40):
            engine.send("clicks", body(events(first, first + 40)))
        for _ in range(600):  # half a minute, for a busy machine
            if engine.log.n_bytes < 5000:
                break
            threading.Event().wait(0.05)
        assert engine.log.n_bytes < 5000  # of some 17,000


def test_feedback_survives_a_crash_and_counts_once(tmp_path: Path) -> None:
    text = MARKOV + "false_alarms = 0.05\n"
    usual = [{"symbol": i % 3, "key": "k", "id": i} for i in range(200)]
    strange = [{"symbol": 5 - i % 2, "key": "k", "id": 1000 + i} for i in range(5)]
    engine = Engine(configured(tmp_path, text)).start()
    engine.send("clicks", body(usual + strange))
    stream = engine.streams["clicks"]
    with stream.look() as state:
        number = next(iter(state.incidents))
        before = state.monitor.detector.threshold
    engine.submit_feedback(stream, number, True).result()
    with pytest.raises(Contradiction):
        engine.submit_feedback(stream, number, False)
    engine.send("clicks", body([{"symbol": 0, "key": "k", "id": "last"}]))
    twin = monitor_of(engine).copy()
    with stream.look() as state:
        assert state.incidents[number].strange is True
    assert before != twin.detector.threshold
    crashed(engine)
    with Engine(configured(tmp_path, text)) as engine:
        assert same(monitor_of(engine), twin)
        with engine.streams["clicks"].look() as state:
            assert state.incidents[number].strange is True


def test_a_malformed_batch_changes_nothing(tmp_path: Path) -> None:
    lines = [
        b'{"symbol": 9, "key": "a"}',  # no such symbol
        b'{"symbol": 1}',  # no key
        b'{"symbol": 1, "key": "a", "id": [1]}',
        b'{"symbol": 1, "key": "a", "id": ""}',
        b'{"symbol": 1, "key": "%s"}' % (b"x" * 1001),
        b'{"symbol": 1, "key": "a", "more": "%s"}' % (b"x" * 70_000),
        b'{"symbol": 1, "key": "a", "id": "%s"}' % (b"x" * 300),
        b"[1]",
        b"\xff",
        b'{"symbol": 1, "key": "a"',
        b"[" * 100_000,
    ]
    with Engine(configured(tmp_path)) as engine:
        for line in lines:
            with pytest.raises(MalformedBatch, match="line 2") as error:
                engine.send("clicks", b'{"symbol": 1, "key": "a"}\n' + line)
            assert len(error.value.errors) == 1
        assert monitor_of(engine).n_lines == 0
        assert engine.log.n_bytes == 0


def test_too_many_events_are_refused(tmp_path: Path) -> None:
    with (
        Engine(configured(tmp_path, max_events=10)) as engine,
        pytest.raises(MalformedBatch, match="at most 10"),
    ):
        engine.send("clicks", body(events(0, 11)))


def test_a_stream_that_is_far_behind_takes_no_more(tmp_path: Path) -> None:
    with Engine(configured(tmp_path, max_lag=30)) as engine:
        stream = engine.streams["clicks"]
        batches = []
        # As long as somebody looks nothing is absorbed.
        with stream.look(), pytest.raises(Overloaded):
            for first in range(0, 100, 10):
                batch = stream.ingest.read_batch(body(events(first, first + 10)), 100)
                engine.submit(stream, batch)
                batch.synced.result()
                batches.append(batch)
        for batch in batches:
            batch.absorbed.result()
        assert monitor_of(engine).n_lines == 10 * len(batches) == 30


def test_a_full_disk_refuses_batches_and_forgets_their_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(file: int, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    with Engine(configured(tmp_path)) as engine:
        engine.send("clicks", body(events(0, 10)))
        with monkeypatch.context() as patch:
            patch.setattr(event_log_module, "_write", fail)
            with pytest.raises(Unavailable, match="No space left"):
                engine.send("clicks", body(events(0, 20)))
        assert engine.error is None
        assert engine.streams["clicks"].ingest.lag == 0
        assert len(engine.send("clicks", body(events(0, 20)))) == 10
        assert same(monitor_of(engine), uninterrupted(events(0, 20)))


def test_a_repetition_is_not_acknowledged_before_what_it_repeats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_sync, go_on = threading.Event(), threading.Event()

    def fail(file: int, data: bytes) -> None:
        first_sync.set()
        go_on.wait(10)
        raise OSError(28, "No space left on device")

    with Engine(configured(tmp_path)) as engine:
        stream = engine.streams["clicks"]
        with monkeypatch.context() as patch:
            patch.setattr(event_log_module, "_write", fail)
            one, two = (stream.ingest.read_batch(body(events(0, 5)), 100) for _ in range(2))
            engine.submit(stream, one)
            assert first_sync.wait(10)
            engine.submit(stream, two)  # while the first is being written
            assert two.n_repeated == 5
            go_on.set()
            for batch in (one, two):
                with pytest.raises(Unavailable):
                    batch.synced.result(10)
        assert len(engine.send("clicks", body(events(0, 5)))) == 5


def test_a_repetition_fails_with_what_it_repeats_even_if_that_was_sent_again(
    tmp_path: Path,
) -> None:
    with Engine(configured(tmp_path)) as engine:
        ingest = engine.streams["clicks"].ingest
        one, two, three = (ingest.read_batch(body(events(0, 5)), 100) for _ in range(3))
        ingest.admit(one, lambda batch: None)
        ingest.admit(two, lambda batch: None)
        ingest.withdraw(one)
        ingest.admit(three, lambda batch: None)  # not in the log yet
        assert len(three) == 5
        assert not ingest.still_holds(two)
        assert ingest.still_holds(three)


def test_a_record_that_failed_half_way_is_not_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply = StreamState.apply

    def fail_second(state: StreamState, found: Any) -> Any:
        if state.monitor.n_lines >= 200:
            raise MemoryError
        return apply(state, found)

    with monkeypatch.context() as patch:
        patch.setattr(StreamState, "apply", fail_second)
        engine = Engine(configured(tmp_path)).start()
        stream = engine.streams["clicks"]
        batch = stream.ingest.read_batch(body(events(0, 300)), 1000)
        failed = threading.Event()
        engine.on_failure = failed.set
        engine.submit(stream, batch)
        assert failed.wait(10)
        assert monitor_of(engine).n_lines == 200
        stream.save()  # as the keeper may do before the process ends
        engine.stop()
        with pytest.raises(Unavailable):
            batch.absorbed.result(0)
    with Engine(configured(tmp_path)) as engine:
        assert same(monitor_of(engine), uninterrupted(events(0, 300)))


def test_at_the_end_every_stream_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = MARKOV + MARKOV.replace("clicks", "others")
    engine = Engine(configured(tmp_path, text)).start()
    for name in ("clicks", "others"):
        engine.send(name, body(events(0, 5)))

    def fail() -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(engine.streams["clicks"], "save", fail)
    with pytest.raises(OSError, match="No space left"):
        engine.stop()
    assert engine.streams["others"].kept[1] == 2


def test_after_a_failed_sync_nothing_is_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(file: int) -> None:
        raise OSError(5, "Input/output error")

    failed: list[bool] = []
    engine = Engine(configured(tmp_path)).start()
    engine.on_failure = lambda: failed.append(True)
    engine.send("clicks", body(events(0, 5)))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(Unavailable):
            engine.send("clicks", body(events(5, 9)))
    with pytest.raises(Unavailable):
        engine.send("clicks", body(events(5, 9)))
    engine.stop()
    assert failed == [True]
    with Engine(configured(tmp_path)) as engine:  # the events may be there or not: once at most
        engine.send("clicks", body(events(0, 9)))
        assert same(monitor_of(engine), uninterrupted(events(0, 9)))


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    with Engine(configured(tmp_path)), pytest.raises(OSError, match="in use"):
        Engine(configured(tmp_path)).start()


def test_a_stream_cannot_change_on_the_way(tmp_path: Path) -> None:
    with Engine(configured(tmp_path)):
        pass
    with pytest.raises(ValueError, match="method cannot change"):
        Engine(configured(tmp_path, MARKOV.replace("Markov 1", "Markov 2"))).start()
    with Engine(configured(tmp_path, MARKOV + "remember_ids = 5\n")):
        pass


def test_events_of_a_stream_that_is_gone_are_not_dropped(tmp_path: Path) -> None:
    engine = Engine(configured(tmp_path)).start()
    engine.send("clicks", body(events(0, 5)))
    crashed(engine)
    other = MARKOV.replace("clicks", "others")
    with pytest.raises(ValueError, match="'clicks' wait in the log"):
        Engine(configured(tmp_path, other)).start()
    with Engine(configured(tmp_path)):
        pass
    with Engine(configured(tmp_path, other)) as engine:  # all of it is in a checkpoint now
        assert engine.send("others", body(events(0, 5))).number == 2


def test_open_vocabularies_survive_a_crash(tmp_path: Path) -> None:
    text = MARKOV.replace("symbols = 6", "max_labels = 4")
    found = [{"symbol": f"page {i % 6}", "key": "k", "id": i} for i in range(60)]
    engine = Engine(configured(tmp_path, text)).start()
    engine.send("clicks", body(found[:30]))
    engine.streams["clicks"].save()
    engine.send("clicks", body(found[30:]))
    crashed(engine)
    with Engine(configured(tmp_path, text)) as engine:
        assert same(monitor_of(engine), uninterrupted(found, text))
        with pytest.raises(MalformedBatch, match="symbol: expected at most 1000"):
            engine.send("clicks", body([{"symbol": "x" * 1001, "key": "k"}]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "streams: expected one"),
        ("[streams.x]\n", "expected either symbols, or one of vocabulary, vocabulary_file"),
        ("[streams.x]\nsymbols = 2\ncolour = 1\n", "streams.x.colour: unknown"),
        ("colour = 1\n[streams.x]\nsymbols = 2\n", "colour: unknown"),
        ('[streams."../x"]\nsymbols = 2\n', "expected a name"),
        ("[streams.x]\nsymbols = 0\n", "streams.x: n_symbols=0"),
        ('[streams.x]\nsymbols = 2\nmethod = "magic"\n', "streams.x: method='magic'"),
        ('[streams.x]\nsymbols = 2\nfalse_incidents = "2/week"\n', "false_incidents='2/week'"),
        ('[streams.x]\nsymbols = 2\nfalse_incidents = "2/day"\n', "'2/day': expected time"),
        ("[streams.x]\nvocabulary_file = 5\n", "streams.x.vocabulary_file=5: expected the name"),
        ('[streams.x]\nvocabulary_file = "/"\n', "streams.x.vocabulary_file='/': Is a directory"),
        ("token_file = 5\n[streams.x]\nsymbols = 2\n", "token_file=5: expected the name"),
        ('host = "0.0.0.0"\n[streams.x]\nsymbols = 2\n', "expected a token_file"),
        ('hosts = "example.org"\n[streams.x]\nsymbols = 2\n', "expected a list of names"),
        ("max_body_bytes = 2000000000\n[streams.x]\nsymbols = 2\n", "max_body_bytes=2000000000"),
        ("port = 99999\n[streams.x]\nsymbols = 2\n", "port=99999"),
        ("streams = 1\n", "expected tables"),
        ("=", "expected a file in TOML"),
    ],
)
def test_a_bad_configuration_is_named(text: str, message: str) -> None:
    with pytest.raises((TypeError, ValueError)) as error:
        for stream in ServiceConfig.from_toml(text, folder="state").streams.values():
            stream.new_monitor()
    assert message in str(error.value)


def test_labels_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "pages.txt").write_text("news\nsport\n\nnews\n")
    text = '[streams.x]\nvocabulary_file = "pages.txt"\nunknown = "OTHER"\nmethod = "Markov 1"\n'
    config = ServiceConfig.from_toml(text, tmp_path, folder="state")
    assert config.folder == tmp_path / "state"
    assert config.streams["x"].new_monitor().predictor.n_symbols == 3


def test_a_state_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    state = StreamState.new(StreamConfig("x", {"symbols": 2, "method": "Markov 1"}))
    state.applied = -1
    state.save(tmp_path / "bad")
    with pytest.raises(CheckpointError):
        StreamState.load(tmp_path / "bad")


def test_the_window_of_ids_keeps_the_last() -> None:
    window = IdWindow.of(3, [digest_of(i) for i in range(5)])
    assert [digest_of(i) in window for i in range(5)] == [False, False, True, True, True]
    assert len(IdWindow.of(0, [digest_of(1)])) == 0


@pytest.mark.parametrize(
    "record",
    [
        {"symbol": 1, "key": "a"},
        {"symbol": "1", "key": "a"},
        {"symbol": "é", "key": "ü"},
        {"symbol": 1, "key": 7},
        {"symbol": 2.0, "key": "a"},
        {"symbol": True, "key": "a"},
        {"symbol": None, "key": "a"},
    ],
)
def test_the_fast_way_to_an_event_gives_the_same(record: dict[str, Any]) -> None:
    config = ServiceConfig.from_toml(MARKOV, folder="unused").streams["clicks"]
    state = StreamState.new(config)
    event, _ = state.parse(json.dumps(record).encode())
    assert event == state.monitor.format.parse(json.dumps(record).encode())


def test_the_states_of_a_mixture_are_those_of_its_heaviest_filter(tmp_path: Path) -> None:
    text = MARKOV.replace("Markov 1", "evidence")
    with Engine(configured(tmp_path, text)) as engine:
        engine.send("clicks", body(events(0, 20)))
        shown = views.model(engine.streams["clicks"])
        assert shown["filter"] is not None
        assert sum(state["visits"] for state in shown["states"]) > 0
        assert views.status(engine.streams["clicks"])["method"] == "evidence"
