"""The monitor of a stream: labels of every kind in lines of text, bad calls, files."""

from __future__ import annotations

import copy
import io
import json
import pickle
from typing import Any

import pytest

import mdvpf
from tests.kernel.sealing import saved

LABELS = ["ls", 7, b"\x00x", ("cd", ("a", 1)), "make all"]


def labelled(**options: Any) -> mdvpf.Monitor:
    predictor = mdvpf.Markov(5, order=1)
    predictor.vocabulary = mdvpf.Vocabulary(LABELS)
    return mdvpf.Monitor(predictor, **options)


def test_labels_of_every_kind() -> None:
    monitor = labelled()
    texts = ["ls", "7", '{"bytes": "0078"}', '["cd", ["a", 1]]', "  make all\n"]
    reports = [monitor.read(text) for text in texts]
    assert [report.symbol for report in reports if report] == LABELS
    for report, text in zip(reports, texts, strict=True):
        assert report is not None
        shown = json.loads(report.to_json())["symbol"]
        assert shown == text.strip() or shown == json.loads(text)


def test_labels_that_look_alike_in_a_line_are_refused() -> None:
    predictor = mdvpf.Markov(2, order=0)
    predictor.vocabulary = mdvpf.Vocabulary([7, "7"])
    with pytest.raises(ValueError, match="7 and '7' are both '7' in a line"):
        mdvpf.Monitor(predictor)


@pytest.mark.parametrize("missing", ["", " NA", "ls", "7"])
def test_what_cannot_stand_for_a_missing_symbol(missing: str) -> None:
    with pytest.raises(ValueError, match="missing="):
        labelled(missing=missing)


@pytest.mark.parametrize("detector", [None, 3, "pf", mdvpf.InfiniteHMM(3)])
def test_what_is_no_detector(detector: Any) -> None:
    with pytest.raises(TypeError, match="detector="):
        mdvpf.Monitor(detector)
    with pytest.raises(TypeError, match="missing=3"):
        labelled(missing=3)


@pytest.mark.parametrize("bad", ["nothing", b"\xff\xfe", '"ls"', "[7", "LS"])
def test_a_malformed_line_changes_nothing(bad: str | bytes) -> None:
    monitor = labelled()
    monitor.read("ls")
    before = saved(monitor)
    with pytest.raises(ValueError, match=r"^line 2: "):
        monitor.read(bad)
    assert saved(monitor) == before


@pytest.mark.parametrize("learn", ["all", "unflagged", "none"])
def test_blocks_are_judged_as_the_detector_does(learn: str) -> None:
    def detector() -> mdvpf.SurpriseDetector:
        options: dict[str, Any] = {"block": 4, "learn": learn, "warm_up": 5, "false_alarms": 0.2}
        return mdvpf.SurpriseDetector(mdvpf.Markov(3, order=1), **options)

    monitor, twin = mdvpf.Monitor(detector()), detector()
    symbols = [0, 1, 2] * 30 + [2, 1, 1, 0] * 5 + [0, 1, 2] * 10
    for symbol in symbols:
        report, expected = monitor.read(f"{symbol}"), twin.update(symbol)
        assert report is not None
        assert (report.surprise, report.alarm) == (expected.surprise, expected.alarm)
        assert dict(report.expected)[symbol] == pytest.approx(2.718281828459045**-expected.surprise)
    assert saved(monitor.detector) == saved(twin)


def test_copies_and_files_of_every_kind_go_on_alike() -> None:
    monitor = labelled(missing="NA")
    lines = ["ls", "7", "NA", "", "make all", "ls"] * 5
    for line in lines:
        monitor.read(line)
    file = io.BytesIO()
    monitor.save(file)
    file.seek(0)
    others = [mdvpf.Monitor.load(file), copy.deepcopy(monitor), pickle.loads(pickle.dumps(monitor))]
    expected = [monitor.read(line) for line in lines]
    for other in others:
        assert [other.read(line) for line in lines] == expected
        assert saved(other) == saved(monitor)


def test_a_file_with_something_else_is_refused() -> None:
    file = io.BytesIO()
    labelled().save(file)
    file.seek(0)
    with pytest.raises(mdvpf.CheckpointError, match="it holds a Monitor; expected a Markov"):
        mdvpf.Markov.load(file)
    damaged = bytearray(file.getvalue())
    damaged[-1] ^= 1
    with pytest.raises(mdvpf.CheckpointError, match="damaged"):
        mdvpf.Monitor.load(io.BytesIO(damaged))


def test_a_file_asks_for_a_callable_discount() -> None:
    algorithm = mdvpf.MDVPA(discount=halved)
    monitor = mdvpf.Monitor(mdvpf.ParticleFilter(mdvpf.InfiniteHMM(2), algorithm, 5))
    for line in "0110":
        monitor.read(line)
    content = saved(monitor)
    with pytest.raises(mdvpf.CheckpointError, match=r"load\(file, discount=\.\.\.\)"):
        mdvpf.Monitor.load(io.BytesIO(content))
    twins = [
        mdvpf.Monitor.load(io.BytesIO(content), discount=halved),
        pickle.loads(pickle.dumps(monitor)),
        copy.deepcopy(monitor),
    ]
    expected = monitor.read("1")
    assert [twin.read("1") for twin in twins] == [expected] * 3


def halved(step: int) -> float:
    return 0.5 / step


class Tagged(mdvpf.Monitor):
    """A user's own class."""


def test_a_subclass_is_loaded_and_pickled_as_itself() -> None:
    monitor = Tagged(mdvpf.Markov(2), missing="NA")
    monitor.read("1")
    for twin in (
        Tagged.load(io.BytesIO(saved(monitor))),
        pickle.loads(pickle.dumps(monitor)),
    ):
        assert type(twin) is Tagged
        assert saved(twin) == saved(monitor)


def test_what_is_impossible_has_no_number_in_json() -> None:
    hmm = mdvpf.datasets.HMM([1], [[1]], [[1, 0]])
    monitor = mdvpf.Monitor(mdvpf.KnownHMM(hmm))
    report = monitor.read("1")
    assert report is not None
    assert report.surprise == float("inf")
    found = json.loads(report.to_json())
    assert (found["log_predictive"], found["surprise"]) == (None, None)
    assert found["expected"] == [
        {"symbol": 0, "probability": 1.0},
        {"symbol": 1, "probability": 0.0},
    ]


def test_a_byte_order_mark_is_no_part_of_a_symbol() -> None:
    monitor = labelled()
    report = monitor.read("\ufeffls\r\n".encode())
    assert report is not None
    assert report.symbol == "ls"


@pytest.mark.parametrize("line", [None, 3, bytearray(b"ls"), ["ls"]])
def test_a_line_is_text_or_bytes(line: Any) -> None:
    monitor = labelled()
    with pytest.raises(TypeError, match=r"line=.*expected a str or bytes"):
        monitor.read(line)
    assert monitor.n_lines == 0
