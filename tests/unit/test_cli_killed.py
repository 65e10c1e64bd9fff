"""What `mdvpf filter` knows after it was killed, or its input rotated, between checkpoints."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mdvpf.checkpoint import previous_of
from mdvpf.cli import main
from mdvpf.streams.filter_run import FilterRun
from mdvpf.streams.report import csv_header

pytest.importorskip("typer")

MODEL = ["--symbols", "4", "--method", "Markov 1"]
COMMAND = [sys.executable, "-m", "mdvpf", "filter", *MODEL]
KILLED = b"the last run was killed; what it took from a pipe after its last checkpoint, at line "


def read_and_killed(command: list[str]) -> None:
    """Let a command read a line of a pipe, and kill it once it has written its report."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"1\n")
    process.stdin.flush()
    assert process.stdout.readline()
    process.kill()
    process.communicate()


@pytest.mark.skipif(sys.platform == "win32", reason="kills a process")
def test_lines_of_a_pipe_that_a_killed_run_took_after_its_resumption_are_missed(
    tmp_path: Path,
) -> None:
    command = [*COMMAND, "--checkpoint", str(tmp_path / "kept"), "--resume"]
    subprocess.run(command, input=b"0\n1\n", capture_output=True, check=True)
    read_and_killed(command)
    done = subprocess.run(command, input=b"2\n", capture_output=True, check=True)
    assert KILLED + b"2, is lost" in done.stderr
    done = subprocess.run(command, input=b"2\n", capture_output=True, check=True)
    assert done.stderr == b""  # the run before ended normally


def test_the_line_that_may_be_cut_follows_those_that_the_checkpoint_had_read_ahead(
    tmp_path: Path,
) -> None:
    kept = tmp_path / "kept"
    command = [*COMMAND, "--checkpoint", str(kept), "--resume"]
    subprocess.run(command, input=b"0\n1\n", capture_output=True, check=True)
    run = FilterRun.load(kept)
    run.inbox, run.has_ended = b"2\n3\n1", False  # as if it had been killed while it read a 12
    run.save(kept)
    done = subprocess.run(command, input=b"-2\n1\n", capture_output=True, check=True)
    assert b"line 5" in done.stderr
    assert b"; skipped" in done.stderr
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(report["line"], report["symbol"]) for report in reports] == [(3, 2), (4, 3), (6, 1)]
    run.save(kept)
    done = subprocess.run(command, input=b"1\n-2\n", capture_output=True, check=False)
    assert done.returncode == 1  # only the first line that arrives may be cut


def test_lines_of_a_pipe_after_the_checkpoint_before_the_damaged_one_are_missed(
    tmp_path: Path,
) -> None:
    kept = tmp_path / "kept"
    command = [*COMMAND, "--checkpoint", str(kept), "--resume"]
    subprocess.run(command, input=b"0\n1\n", capture_output=True, check=True)
    before = kept.read_bytes()
    subprocess.run(command, input=b"2\n", capture_output=True, check=True)
    previous_of(kept).write_bytes(before)  # the checkpoint of a run that had ended
    assert FilterRun.load(previous_of(kept)).has_ended
    kept.write_bytes(b"nothing")
    done = subprocess.run(command, input=b"3\n", capture_output=True, check=True)
    assert KILLED + b"2, is lost" in done.stderr
    assert FilterRun.load(kept).monitor.n_lines == 3
    assert not FilterRun.load(previous_of(kept)).has_ended  # written before the first line came


def test_csv_has_one_header_after_a_kill_before_the_second_checkpoint(tmp_path: Path) -> None:
    source, kept, output = tmp_path / "stream", tmp_path / "kept", tmp_path / "reports"
    source.write_text("0\n1\n2\n")
    given = ["filter", str(source), *MODEL, "--report", "csv", "--checkpoint", str(kept)]
    assert main([*given, "--output", str(output)]) == 0
    whole = output.read_text()
    start = previous_of(kept).read_bytes()
    for name in (output, tmp_path / "others"):
        kept.write_bytes(start)  # as if it had been killed before the second one
        assert FilterRun.load(kept).monitor.n_lines == 0
        assert main([*given, "--output", str(name), "--resume"]) == 0
        assert name.read_text() == whole
    assert whole.splitlines()[0] == csv_header()
    assert whole.count(csv_header()) == 1


@pytest.mark.parametrize("n_read", [0, 4])
def test_a_rotated_file_is_finished_though_the_new_one_begins_alike(
    n_read: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, kept = tmp_path / "stream", tmp_path / "kept"
    given = ["filter", str(source), *MODEL, "--checkpoint", str(kept), "--resume"]
    source.write_text("1\n" * n_read)
    assert main(given) == 0
    with source.open("a") as file:
        file.write("1\n" * 3)
    source.rename(tmp_path / "stream.1")
    source.write_text("1\n" * 6)
    capsys.readouterr()
    assert main(given) == 0
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 3 + 6
    assert f"it was rotated; finishing {tmp_path / 'stream.1'} first" in printed.err
    assert main(given) == 0
    assert capsys.readouterr().out == ""


def test_a_file_that_was_written_anew_continues_beside_its_backup(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, kept = tmp_path / "stream", tmp_path / "kept"
    given = ["filter", str(source), *MODEL, "--checkpoint", str(kept), "--resume"]
    source.write_text("1\n" * 4)
    assert main(given) == 0
    source.rename(tmp_path / "stream.bak")  # as editors do
    source.write_text("1\n" * 6)
    capsys.readouterr()
    assert main(given) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
