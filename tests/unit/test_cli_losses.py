"""A failure of `mdvpf filter` loses nothing, in each of the ways that the page lists."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import mdvpf
from mdvpf.checkpoint import FileLock, previous_of
from mdvpf.cli import main
from mdvpf.streams.filter_run import FilterRun
from mdvpf.streams.monitor import Monitor
from mdvpf.streams.service import StreamConfig
from mdvpf.streams.service.state import StreamState

pytest.importorskip("typer")

MODEL = ["--symbols", "4", "--method", "Markov 1"]
COMMAND = [sys.executable, "-m", "mdvpf", "filter"]
N = 40
LINES = [f"{(i * i + i // 3) % 4}\n" for i in range(N)]


class Command:
    """`mdvpf filter` with a checkpoint, in this process."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.kept, self.source = folder / "kept", folder / "stream"
        self.capsys = capsys
        self.complaint = ""

    def __call__(self, *arguments: str, code: int = 0) -> list[str]:
        """Run the command; return the lines of its output."""
        given = [str(self.source), *MODEL, "--checkpoint", str(self.kept), "--resume"]
        found = main(["filter", *given, *arguments])
        printed = self.capsys.readouterr()
        self.complaint = printed.err
        assert found == code, printed.err
        return printed.out.splitlines()

    def write(self, lines: list[str], path: Path | None = None) -> None:
        (path or self.source).write_text("".join(lines))


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(tmp_path, capsys)


def new_monitor() -> Monitor:
    """Return what the command begins with."""
    return Monitor(mdvpf.SurpriseDetector(mdvpf.Markov(4, order=1), false_incidents=1.0))


def expected(lines: list[str]) -> list[str]:
    """Return the reports of a run without any interruption."""
    monitor = new_monitor()
    reports = [monitor.read(line) for line in lines]
    return [report.to_json() for report in reports if report is not None]


# --- The input


def test_an_unfinished_line_is_held_back_until_its_end_comes(command: Command) -> None:
    command.source.write_text("".join(LINES[:10]) + "1")
    assert command() == expected(LINES[:10])
    assert "line 11 has no end (1 bytes) and is held back" in command.complaint
    command.source.write_text("".join(LINES[:10]) + "1\n2\n")
    assert command() == expected([*LINES[:10], "1\n", "2\n"])[10:]


def test_an_unfinished_line_can_be_taken_as_it_is(command: Command) -> None:
    command.source.write_text("".join(LINES[:10]) + "1")
    assert command("--take-unfinished") == expected([*LINES[:10], "1"])
    assert command() == []


def test_an_unfinished_line_of_a_pipe_is_kept(tmp_path: Path) -> None:
    options = [*COMMAND, *MODEL, "--checkpoint", str(tmp_path / "kept"), "--resume"]
    content = "".join(LINES).replace("1", "01").encode()  # so that lines can be cut
    found = b""
    for first in range(0, len(content), 50):
        part = content[first : first + 50]
        done = subprocess.run(options, input=part, capture_output=True, check=True)
        found += done.stdout
    assert found.decode().splitlines() == [
        line.replace('"label": "1"', '"label": "01"') for line in expected(LINES)
    ]


def test_another_stream_is_refused(command: Command) -> None:
    command.write(LINES)
    command()
    before = command.kept.read_bytes()
    command.write(list(reversed(LINES)) + LINES)
    assert command(code=1) == []
    assert "another stream" in command.complaint
    assert str(command.source) in command.complaint
    assert FilterRun.load(command.kept).position == FilterRun.load(_write(before, command)).position
    assert command("--from-start") == expected([*LINES, *reversed(LINES), *LINES])[N:]


def _write(content: bytes, command: Command) -> Path:
    path = command.kept.with_name("before")
    path.write_bytes(content)
    return path


def test_what_was_read_may_not_change(command: Command) -> None:
    lines = LINES * 60  # more than the two ends that are compared
    command.write(lines)
    command()
    changed = [*lines[:-2], "3\n" if lines[-2] != "3\n" else "2\n", lines[-1]]
    command.write([*changed, "0\n"])
    assert command(code=1) == []
    assert "has changed" in command.complaint


def test_a_truncated_file_is_named_as_such(command: Command) -> None:
    command.write(LINES)
    command()
    command.write(LINES[:7])
    assert command(code=1) == []
    assert "14 bytes, and the checkpoint was made after 80 (40 lines)" in command.complaint
    assert "truncated" in command.complaint
    assert "--from-start" in command.complaint


@pytest.mark.parametrize("name", ["stream.1", "stream-20260101", "elsewhere", "stream.1.gz"])
def test_a_rotated_file_is_finished_first(name: str, command: Command) -> None:
    command.write(LINES[:20])
    assert command() == expected(LINES[:20])
    command.write(LINES[:30])
    old = command.source.with_name(name)
    command.source.rename(old)
    if name.endswith(".gz"):
        old.write_bytes(gzip.compress(old.read_bytes()))
    command.write(LINES[30:])
    assert command() == expected(LINES)[20:]
    assert f"{command.source}: it was rotated; finishing {old} first" in command.complaint
    command.write([*LINES[30:], "1\n"])
    assert command() == expected([*LINES, "1\n"])[N:]  # and on in the new one


@pytest.mark.parametrize("suffixes", [(".2", ".1"), ("-20260101", "-20260102"), (".2.gz", ".1")])
def test_files_that_were_rotated_more_than_once_are_read_in_order(
    suffixes: tuple[str, str], command: Command
) -> None:
    command.write(LINES[:10])
    command()
    older, younger = (command.source.with_name(f"stream{suffix}") for suffix in suffixes)
    content = "".join(LINES[:20])
    older.write_bytes(gzip.compress(content.encode()) if ".gz" in suffixes[0] else content.encode())
    command.write(LINES[20:29], younger)
    command.source.with_name("stream.bak").write_text("".join(LINES[:5]))  # none of them
    command.write(LINES[29:])
    assert command() == expected(LINES)[10:]


def test_a_rotated_file_without_a_new_one(command: Command) -> None:
    command.write(LINES[:20])
    command()
    command.write(LINES)
    command.source.rename(command.source.with_name("stream.1"))
    assert command() == expected(LINES)[20:]


def test_a_compressed_file_resumes(command: Command) -> None:
    command.source.write_bytes(gzip.compress("".join(LINES[:20]).encode()))
    assert command() == expected(LINES[:20])
    command.source.write_bytes(gzip.compress("".join(LINES).encode()))
    assert command() == expected(LINES)[20:]


@pytest.mark.parametrize(("n_bytes", "code"), [(12, 1), (-9, 0)])  # -9: all lines are still there
def test_a_compressed_file_that_was_cut_is_no_interrupt(
    command: Command, n_bytes: int, code: int
) -> None:
    content = gzip.compress("".join(LINES).encode())
    command.source.write_bytes(content)
    assert command() == expected(LINES)
    command.source.write_bytes(content[:n_bytes])
    assert command(code=1) == []
    assert "stream: expected a complete gzip file" in command.complaint
    assert main(["verify", str(command.kept), "--input", str(command.source)]) == code


def test_a_pipe_may_be_packed_without_a_checkpoint(tmp_path: Path) -> None:
    content = gzip.compress("".join(LINES[:20]).encode()) + gzip.compress(
        "".join(LINES[20:]).encode()
    )
    done = subprocess.run([*COMMAND, *MODEL], input=content, capture_output=True, check=True)
    assert done.stdout.decode().splitlines() == expected(LINES)
    options = ["--checkpoint", str(tmp_path / "kept")]
    done = subprocess.run([*COMMAND, *MODEL, *options], input=content, capture_output=True)
    assert done.returncode == 1
    assert b"expected zcat before it" in done.stderr


def test_a_pipe_that_comes_again_is_noticed(tmp_path: Path) -> None:
    options = [*COMMAND, *MODEL, "--checkpoint", str(tmp_path / "kept"), "--resume"]
    content = "".join(LINES * 10).encode()
    subprocess.run(options, input=content, capture_output=True, check=True)
    done = subprocess.run(options, input=content, capture_output=True, check=True)
    assert b"it begins as it did when the checkpoint was new" in done.stderr
    done = subprocess.run(options, input=content[2:], capture_output=True, check=True)
    assert done.stderr == b""


def test_a_file_as_standard_input_resumes_at_its_position(tmp_path: Path) -> None:
    source = tmp_path / "stream"
    options = [*COMMAND, *MODEL, "--checkpoint", str(tmp_path / "kept"), "--resume"]
    found = b""
    for n in (15, N):
        source.write_text("".join(LINES[:n]))
        with source.open("rb") as file:
            found += subprocess.run(options, stdin=file, capture_output=True, check=True).stdout
    assert found.decode().splitlines() == expected(LINES)


def test_a_checkpoint_without_a_position_counts_lines(command: Command) -> None:
    monitor = new_monitor()
    for line in LINES[:20]:
        monitor.read(line)
    monitor.save(command.kept)
    command.write(LINES)
    assert command() == expected(LINES)[20:]


# --- Entries of a journal


def entry(i: int) -> str:
    cursor = f"s=6f;i={i:x};b=1;m=2;t=3;x=4"
    fields = {"__CURSOR": cursor, "__REALTIME_TIMESTAMP": str(10**15 + i), "PRIORITY": str(i % 4)}
    return json.dumps(fields) + "\n"


def test_entries_of_a_journal_that_come_again_are_passed_over(tmp_path: Path) -> None:
    options = [*COMMAND, "--max-labels", "5", "--method", "Markov 1", "--format", "journal"]
    options += ["--column", "PRIORITY", "--checkpoint", str(tmp_path / "kept"), "--resume"]
    numbers = []
    for first, stop in ((0, 20), (10, 30), (30, 40)):
        text = "".join(entry(i) for i in range(first, stop)).encode()
        done = subprocess.run(options, input=text, capture_output=True, check=True)
        numbers += [json.loads(line)["time"] for line in done.stdout.splitlines()]
    assert numbers == [(10**15 + i) / 1e6 for i in range(40)]


# --- The output


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_reports_that_were_not_written_are_written_after_a_restart(tmp_path: Path) -> None:
    source, kept = tmp_path / "stream", tmp_path / "kept"
    source.write_text("".join(LINES))
    options = [*COMMAND, str(source), *MODEL, "--checkpoint", str(kept), "--resume"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(options, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert b"No space left on device: 'standard output'" in done.stderr
    assert FilterRun.load(kept).outbox.lines
    done = subprocess.run(options, capture_output=True, check=True)
    assert done.stdout.decode().splitlines() == expected(LINES)
    assert not FilterRun.load(kept).outbox.lines


def test_an_output_of_its_own_has_every_report_once(command: Command, tmp_path: Path) -> None:
    output = tmp_path / "reports"
    output.write_text("of another time\n")
    command.write(LINES[:20])
    command("--output", str(output))
    old = command.kept.read_bytes()
    command.write(LINES)
    assert command("--output", str(output)) == []
    command.kept.write_bytes(old)  # as if it had been killed before the second checkpoint
    output.write_bytes(output.read_bytes() + b"half a rep")
    command("--output", str(output))
    assert output.read_text().splitlines() == ["of another time", *expected(LINES)]


def test_an_output_that_is_not_the_same_is_refused(command: Command, tmp_path: Path) -> None:
    output = tmp_path / "reports"
    command.write(LINES[:20])
    command("--output", str(output))
    content = output.read_bytes()
    for other in (content[:-1], b"x" * len(content), None):
        if other is None:
            output.unlink()
        else:
            output.write_bytes(other)
        command("--output", str(output), code=1)
        assert str(output) in command.complaint
        assert "another --output" in command.complaint
    command.write(LINES)
    command("--output", str(tmp_path / "others"))
    assert (tmp_path / "others").read_text().splitlines() == expected(LINES)[20:]


@pytest.mark.skipif(sys.platform == "win32", reason="closes descriptors by a shell")
@pytest.mark.parametrize(("closed", "name"), [("<&-", "input"), (">&-", "output")])
def test_closed_streams_are_named(closed: str, name: str, tmp_path: Path) -> None:
    shell = f'exec "$@" {closed}'
    done = subprocess.run(
        ["sh", "-c", shell, "sh", *COMMAND, *MODEL, "--checkpoint", str(tmp_path / "kept")],
        input=b"0\n",
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"mdvpf: standard {name} is closed; expected".encode() in done.stderr
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(sys.platform == "win32", reason="opens descriptors by a shell")
@pytest.mark.parametrize(("turned", "name"), [("0>/dev/null", "input"), ("1</dev/null", "output")])
def test_streams_that_are_open_the_other_way_count_as_closed(turned: str, name: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {turned}', "sh", *COMMAND, *MODEL],
        input=b"0\n",
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"mdvpf: standard {name} is closed; expected".encode() in done.stderr


# --- Reports


def test_only_alarms_and_changes_are_written_if_asked_for(command: Command) -> None:
    lines = ["0\n", "1\n", "2\n"] * 100 + ["3\n"] + ["0\n", "1\n", "2\n"] * 10
    command.write(lines)
    monitor = Monitor(mdvpf.Markov(4, order=1))
    reports = [monitor.read(line) for line in lines]
    strange = [r.to_json() for r in reports if r and (r.alarm or r.change is not None)]
    assert 0 < len(strange) < 20
    assert command("--alarms-only", "--false-alarms", "0.01") == strange


def test_csv_has_one_header(command: Command) -> None:
    command.write(LINES[:2])
    first = command("--report", "csv")
    command.write(LINES[:4])
    second = command("--report", "csv")
    assert first[0].startswith("line,index,key,time,symbol,label,log_predictive")
    assert [row.split(",")[0] for row in [*first[1:], *second]] == ["1", "2", "3", "4"]
    assert len({row.count(",") for row in [*first, *second]}) == 1


def test_text_is_one_readable_line_a_report(command: Command) -> None:
    command.write(LINES[:2])
    rows = command("--report", "text")
    assert rows[0] == "1: 0, surprise 1.386; expected 0 0.25, 1 0.25, 2 0.25"


def test_labels_are_numbered_as_they_come_across_a_resumption(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, kept = tmp_path / "stream", tmp_path / "kept"
    options = [str(source), "--max-labels", "2", "--method", "Markov 0", "--checkpoint", str(kept)]
    found: list[dict[str, Any]] = []
    words = ["ls", "cd", "ls", "rm", "cp", "cd"]
    for n in (3, 6):
        source.write_text("".join(f"{word}\n" for word in words[:n]))
        assert main(["filter", *options, "--resume"]) == 0
        found += [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [report["symbol"] for report in found] == ["ls", "cd", "ls", "OTHER", "OTHER", "cd"]
    assert [report["label"] for report in found] == words


# --- Checkpoints


def test_a_second_process_is_refused_with_the_number_of_the_first(command: Command) -> None:
    command.write(LINES)
    with FileLock(command.kept):
        assert command(code=1) == []
    assert f"in use by process {os.getpid()}" in command.complaint
    assert command() == expected(LINES)
    assert not command.kept.with_name("kept.lock").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="kills a process")
def test_the_lock_of_a_killed_process_is_no_obstacle(command: Command) -> None:
    options = [*COMMAND, *MODEL, "--checkpoint", str(command.kept)]
    process = subprocess.Popen(options, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    while not command.kept.exists():
        time.sleep(0.01)
    command.write(LINES)
    assert command(code=1) == []
    assert f"in use by process {process.pid}" in command.complaint
    process.kill()
    process.communicate()
    assert command.kept.with_name("kept.lock").exists()
    assert command() == expected(LINES)


@pytest.mark.parametrize("damage", ["cut", "flipped", "missing"])
def test_the_checkpoint_before_takes_the_place_of_a_damaged_one(
    damage: str, command: Command
) -> None:
    command.write(LINES[:10])
    command()
    command.write(LINES[:20])
    command()
    content = bytearray(command.kept.read_bytes())
    content[len(content) // 2] ^= 1
    if damage == "missing":
        command.kept.unlink()
    else:
        command.kept.write_bytes(content if damage == "flipped" else content[:100])
    command.write(LINES)
    assert command() == expected(LINES)[10:]  # the same once more, and what follows
    assert f"continuing from {previous_of(command.kept)}" in command.complaint
    assert Monitor.load(command.kept).n_lines == N
    assert Monitor.load(previous_of(command.kept)).n_lines == 10  # and not the damaged one


def test_both_damaged_is_an_error_that_names_the_file(command: Command) -> None:
    command.write(LINES[:10])
    command()
    command()
    for path in (command.kept, previous_of(command.kept)):
        path.write_bytes(b"nothing")
    command(code=1)
    assert "not a checkpoint" in command.complaint


def test_a_missing_checkpoint_is_not_recreated_by_mistake(command: Command) -> None:
    command.write(LINES)
    command()
    command.kept.rename(previous_of(command.kept))
    given = [str(command.source), *MODEL, "--checkpoint", str(command.kept)]
    assert main(["filter", *given]) == 2


def test_checkpoints_may_have_long_names(command: Command) -> None:
    command.kept = command.kept.with_name("k" * 240)
    command.write(LINES[:20])
    command("--every", "5")
    command.write(LINES)
    assert command("--every", "5") == expected(LINES)[20:]
    assert sorted(len(path.name) for path in command.kept.parent.iterdir()) == [6, 240, 249]


def test_a_checkpoint_of_the_service_is_left_to_it(command: Command) -> None:
    config = StreamConfig("clicks", {"symbols": 4, "method": "Markov 1"})
    StreamState.new(config).save(command.kept)
    content = command.kept.read_bytes()
    command.write(LINES)
    command(code=1)
    assert "it holds a ServiceStream; expected a FilterRun" in command.complaint
    assert command.kept.read_bytes() == content


# --- verify


def test_verify_says_which_checkpoint_is_good_and_fits_the_input(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    command.write(LINES)
    command()
    command()
    assert main(["verify", str(command.kept), "--input", str(command.source)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == f"{command.kept}: good; 40 lines, 80 bytes of {command.source}"
    assert shown[1].startswith(f"{previous_of(command.kept)}: good; 40 lines")
    assert shown[2] == f"{command.source}: its first 40 lines match the checkpoint"
    lines = LINES.copy()
    lines[20] = "3\n" if lines[20] != "3\n" else "2\n"
    command.write(lines)
    assert main(["verify", str(command.kept), "--input", str(command.source)]) == 1
    assert "does not match the checkpoint" in capsys.readouterr().out
    command.kept.write_bytes(command.kept.read_bytes()[:-1])
    assert main(["verify", str(command.kept)]) == 0  # the previous one exists
    assert "--resume would continue from" in capsys.readouterr().out
    previous_of(command.kept).unlink()
    assert main(["verify", str(command.kept)]) == 1
    assert f"{command.kept}: it ends too early\n" in capsys.readouterr().out
    assert main(["verify", str(command.kept) + " of nobody"]) == 1


def test_inspect_shows_both_ends_of_the_stream(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    command.write(LINES)
    command("--output", str(command.kept.with_name("reports")))
    assert main(["inspect", str(command.kept)]) == 0
    shown = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines()]
    facts = {row[0]: row[1] for row in rows if len(row) == 2}
    assert facts["input"] == str(command.source)
    assert facts["bytes read"] == "80"
    assert facts["reports still to be written"] == "0"


def test_lag_is_reported(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    command.write(LINES * 1000)
    clock = iter(range(10**9))
    monkeypatch.setattr("mdvpf.cli.lag.time.monotonic", lambda: next(clock) / 1000)
    command("--lag-every", "7.5")
    rows = command.complaint.splitlines()
    assert "lines a second, and" in rows[0]
    assert "bytes of input wait" in rows[0]
    assert rows[-1].startswith("mdvpf: 40,000 lines in ")
