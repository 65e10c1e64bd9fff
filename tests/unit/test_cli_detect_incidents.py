"""`mdvpf detect` and `mdvpf filter`: incidents, words, pictures, backgrounds, scores of keys."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import mdvpf
from mdvpf.cli import main

pytest.importorskip("typer")

N, LOOP = 1600, 40
LABELS = ("start", "read", "write", "wait", "done", "error")
METHOD = ["--method", "Markov 1"]


def usual(seed: int, n: int = N) -> list[str]:
    return [LABELS[i] for i in np.random.default_rng(seed).integers(5, size=n)]


@pytest.fixture
def crash(tmp_path: Path) -> Path:
    """Return a log that ends in a crash loop, in lines N + 1 to N + LOOP."""
    path = tmp_path / "crash.log"
    path.write_text("\n".join([*usual(0), *["error"] * LOOP, *usual(1, 80)]))
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Return rows of 3 users, interleaved; ann has a crash loop in rows N + 1 to N + LOOP."""
    rows = [f"{['ann', 'bob', 'eve'][i % 3]},{event}" for i, event in enumerate(usual(0))]
    rows += ["ann,error"] * LOOP
    path = tmp_path / "users.csv"
    path.write_text("\n".join(["user,event", *rows, ""]))
    return path


def objects(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_crash_loop_is_written_as_an_incident_with_its_reason(
    crash: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["detect", str(crash), *METHOD]) == 0
    found = objects(capsys)[-1]
    start, end = found["symbols"]  # type: ignore[misc]
    assert N < start <= N + 20
    assert start <= found["peak"] <= end <= N + LOOP + 8
    assert found["side"] in ("predictable", "repetitive")
    why = found["why"]
    assert why["symbols"][0]["what"] == "error"  # type: ignore[index]
    assert why["text"].startswith(f"symbols {start:,} to {end:,} are")  # type: ignore[index]


def test_positions_count_what_was_learnt_before(
    crash: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["detect", str(crash), *METHOD, "--train", "100"]) == 0
    found = objects(capsys)[-1]
    start, end = found["symbols"]  # type: ignore[misc]
    assert N < start <= N + 20
    assert f"symbols {start:,} to {end:,}" in found["why"]["text"]  # type: ignore[index]


def test_words_and_a_picture(
    crash: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "incident.png"
    assert main(["detect", str(crash), *METHOD, "--words", "--picture", str(picture)]) == 0
    words = capsys.readouterr().out
    assert "error came" in words
    assert "most like symbols" in words
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_without_an_incident_there_is_no_picture_and_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    path, picture = tmp_path / "beat.log", tmp_path / "incident.png"
    path.write_text("\n".join(["alive", "alive", "beat"] * 300))
    assert main(["detect", str(path), *METHOD, "--picture", str(picture)]) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "no incident" in printed.err
    assert not picture.exists()


@pytest.mark.parametrize("method", ["auto", *METHOD[1:]])
def test_a_heartbeat_that_is_the_only_line_raises_nothing(
    method: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "beat.log"
    path.write_text("heartbeat ok\n" * 1000)
    assert main(["detect", str(path), "--method", method]) == 0
    assert capsys.readouterr().out == ""


def test_a_file_that_ends_in_the_warm_up_is_no_silent_success(
    crash: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    big = [*METHOD, "--block", "100"]
    assert main(["detect", str(crash), *big]) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "no alarm was possible: the first 50 blocks of 100 symbols" in printed.err
    assert main(["detect", str(crash), *big, "--warm-up", "4"]) == 0
    assert "no alarm was possible" not in capsys.readouterr().err


def test_each_key_says_how_many_detectors_were_dropped(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keyed = ["--column", "event", "--key", "user", "--each-key", *METHOD]
    assert main(["detect", str(table), *keyed, "--max-keys", "1"]) == 0
    assert "started anew" in capsys.readouterr().err
    assert main(["detect", str(table), *keyed]) == 0
    assert "started anew" not in capsys.readouterr().err


def background_file(tmp_path: Path, kind: str) -> Path:
    path = tmp_path / f"others.{kind}"
    events = [LABELS[i] for i in np.random.default_rng(5).integers(6, size=3000)]
    if kind == "log":
        path.write_text("\n".join(events))
        return path
    predictor = mdvpf.Markov(6, order=1)
    predictor.vocabulary = mdvpf.Vocabulary(sorted(LABELS))
    predictor.run(events)
    predictor.save(path)
    return path


@pytest.mark.parametrize("kind", ["log", "mdvpf"])
def test_a_background_is_a_file_or_a_checkpoint(
    kind: str, crash: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Levels are those of the detector in Python, over the same background."""
    others = background_file(tmp_path, kind)
    options = ["--background", str(others), "--block", "10", "--false-alarms", "0.3"]
    assert main(["detect", str(crash), *METHOD, *options]) == 0
    found = objects(capsys)
    vocabulary = mdvpf.Vocabulary(sorted(LABELS))
    background = mdvpf.Markov(6, order=1)
    background.run(vocabulary.encode([LABELS[i] for i in others_events()]))
    detector = mdvpf.SurpriseDetector(
        mdvpf.Markov(6, order=1), block=10, false_alarms=0.3, background=background
    )
    result = detector.run(vocabulary.encode(crash.read_text().split()))
    named = np.flatnonzero(result.alarm | (result.change >= 0))
    assert len(named)
    np.testing.assert_allclose([each["level"] for each in found], result.level[named], rtol=1e-9)


def others_events() -> list[int]:
    return np.random.default_rng(5).integers(6, size=3000).tolist()


def test_a_label_that_the_background_does_not_know_is_named(
    tmp_path: Path, crash: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    predictor = mdvpf.Markov(2)
    predictor.vocabulary = mdvpf.Vocabulary(["start", "read"])
    predictor.save(tmp_path / "two.mdvpf")
    assert main(["detect", str(crash), *METHOD, "--background", str(tmp_path / "two.mdvpf")]) == 1
    assert "done" in capsys.readouterr().err


def test_each_key_has_a_detector_over_a_shared_background(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    others = tmp_path / "others.csv"
    others.write_text("\n".join(["user,event", *(f"x,{event}" for event in usual(7)), ""]))
    options = ["--column", "event", "--key", "user", "--each-key", "--background", str(others)]
    assert main(["detect", str(table), *METHOD, *options]) == 0
    found = objects(capsys)
    assert found[-1]["key"] == "ann"
    assert N < found[-1]["symbols"][0] <= N + 20  # type: ignore[index]
    assert main(["detect", str(table), *METHOD, *options, "--words"]) == 0
    assert "key ann: symbols" in capsys.readouterr().out


@pytest.mark.parametrize("options", [[], ["--format", "xes"]])
def test_each_key_of_an_event_log_is_a_case(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    event = '<event><string key="concept:name" value="{}"/></event>'
    trace = "<trace>" + event.format("open") + event.format("close") + "</trace>"
    path = tmp_path / "log.xes"
    path.write_text(f"<log>{3 * trace}</log>")
    assert main(["detect", str(path), "--each-key", *METHOD, *options]) == 0
    assert "keys" in capsys.readouterr().err


def test_each_key_scores_whole_sequences(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--column", "event", "--key", "user", "--per", "key"]
    assert main(["detect", str(table), *METHOD, *options]) == 0
    found = objects(capsys)
    assert {each["key"] for each in found} == {"ann", "bob", "eve"}
    assert [each["p_value"] for each in found] == sorted(each["p_value"] for each in found)  # type: ignore[type-var]
    assert sum(each["length"] for each in found) == N + LOOP  # type: ignore[misc]


def test_a_limit_of_no_keys_is_refused(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--column", "event", "--key", "user", "--each-key", "--max-keys", "0", *METHOD]
    assert main(["detect", str(table), *options]) != 0
    assert "max_keys=0" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["detect"], ["filter", "--max-labels", "9"]])
def test_a_rate_per_day_needs_times(
    command: list[str], crash: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, str(crash), "--false-incidents", "2/day", *METHOD]) == 2
    assert "false_incidents='2/day': expected --time" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--each-key"], "--each-key: expected only with --key"),
        (["--max-keys", "3"], "max_keys=3"),
        (["--key", "user", "--each-key", "--train", "50"], "--each-key: expected not together"),
        (["--false-incidents", "2/week"], "false_incidents='2/week'"),
        (["--false-incidents", "2", "--false-alarms", "0.1"], "expected not together with"),
        (["--background-learns"], "--background-learns: expected only with"),
        (["--words", "--per", "key"], "--words and --picture"),
        (["--per", "user"], "per='user'"),
        (["--per", "key", "--block", "3"], "block=3: expected not together with --per"),
        (["--per", "key", "--cooldown", "3"], "cooldown=3: expected not together with --per"),
        (["--picture", "incident.table"], "picture='incident.table': expected a name that ends"),
        (["--picture", "no/such/incident.png"], "expected a folder that exists"),
    ],
)
def test_what_makes_no_sense(
    options: list[str], message: str, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["detect", str(table), "--column", "event", *METHOD, *options]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in " ".join(printed.err.replace("│", " ").split())


def test_filter_compares_with_a_background_and_resumes(
    crash: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The alphabet is that of the background; a checkpoint holds it."""
    others = background_file(tmp_path, "mdvpf")
    options = [*METHOD, "--background", str(others), "--alarms-only"]
    assert main(["filter", str(crash), *options]) == 0
    whole = objects(capsys)
    assert any(N < each["line"] <= N + 20 for each in whole)  # type: ignore[operator]
    halves = []
    for part, text in enumerate((crash.read_text().split()[:N], crash.read_text().split()[N:])):
        path = tmp_path / f"part {part}"
        path.write_text("".join(f"{each}\n" for each in text))
        resumed = [
            "--checkpoint",
            str(tmp_path / "live.mdvpf"),
            *["--resume", "--from-start"][: 2 * part],
        ]
        assert main(["filter", str(path), *options, *resumed]) == 0
        halves += objects(capsys)
    assert [each["why"] for each in halves] == [each["why"] for each in whole]
