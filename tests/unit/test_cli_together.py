"""`mdvpf filter` absorbs waiting lines together: the same bytes as line by line, wherever it looks.

Every case runs twice: with at most one line at once, and with up to 256.
"""

from __future__ import annotations

import io
import json
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mdvpf.checkpoint import Generations, previous_of
from mdvpf.checkpoint.saveable import encoded
from mdvpf.cli import live, main
from mdvpf.streams.filter_run import FilterRun
from mdvpf.streams.line_buffer import LONGEST_LINE
from mdvpf.streams.monitor import Monitor
from mdvpf.streams.report import Report
from mdvpf.streams.together import read_together

pytest.importorskip("typer")

AUTO = ["--symbols", "5", "-K", "84", "--seed", "1"]
CHAIN = ["--symbols", "5", "--method", "Markov 1"]
FILTER = ["--symbols", "5", "--method", "MD-VPA", "-K", "10", "--seed", "1"]
KEYS = ["--column", "x", "--key", "u", "--time", "t", "--time-unit", "s"]


def symbols(n: int, seed: int = 0) -> list[int]:
    """Return symbols that mostly count up, so that surprises differ."""
    rng = random.Random(seed)
    return [rng.randrange(5) if rng.random() < 0.1 else i % 5 for i in range(n)]


def plain(n: int, special: dict[int, bytes] | None = None) -> bytes:
    lines = [b"%d\n" % symbol for symbol in symbols(n)]
    for i, line in (special or {}).items():
        lines[i] = line
    return b"".join(lines)


def table(n: int) -> bytes:
    rows = [b"t,u,x\n"] + [b"%d,k%d,%d\n" % (i, i % 7, x) for i, x in enumerate(symbols(n))]
    rows[40] = rows[0]  # the header once more
    rows[90] = b"\n"
    return b"".join(rows)


def objects(n: int) -> bytes:
    rows: list[dict[str, Any]] = [
        {"t": float(i), "u": f"k{i % 7}", "x": x} for i, x in enumerate(symbols(n))
    ]
    rows[33]["x"] = None
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def entries(n: int) -> bytes:
    rows = [
        {"__CURSOR": f"s=6f;i={i:x};b=1", "__REALTIME_TIMESTAMP": str(10**15 + i), "P": str(x)}
        for i, x in enumerate(symbols(n))
    ]
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


BREAKS = {70: b"\n", 71: b"\n", 120: b"NA\n", 121: b" 3 \r\n", 150: b"\n"}
WRONG = {0: b"?\n", 90: b"x\n", 91: b"\xff\n", 130: b"7" * (LONGEST_LINE + 9) + b"\n"}
ALARMS = {i: b"3\n" for i in range(600, 650)}


class Case(NamedTuple):
    content: bytes
    options: list[str]
    code: int = 0
    longest: int = 64  # at least so many lines come together
    n_reports: int | None = None


CASES = {
    "plain": Case(plain(400), CHAIN, n_reports=400),
    "auto": Case(plain(160), AUTO, longest=32, n_reports=160),
    "filter": Case(plain(300), [*FILTER, "--expected", "0"], n_reports=300),
    "missing and blank": Case(plain(300, BREAKS), [*CHAIN, "--missing", "NA"], n_reports=297),
    "blank after two": Case(b"1\n2\n\n" * 60, CHAIN, longest=2, n_reports=120),
    "malformed": Case(plain(300, WRONG), CHAIN, code=1, longest=0, n_reports=0),
    "malformed later": Case(plain(300, {200: b"9\n"}), CHAIN, code=1, n_reports=200),
    "skipped": Case(plain(300, WRONG), [*CHAIN, "--skip-malformed"], n_reports=296),
    "alarms": Case(
        plain(900, ALARMS),
        [*CHAIN, "--alarms-only", "--false-incidents", "500"],
    ),
    "change points": Case(
        plain(900, ALARMS), [*CHAIN, "--alarms-only", "--false-alarms", "0.05", "--smoothing", "3"]
    ),
    "table with keys": Case(table(300), [*CHAIN, "--format", "csv", *KEYS], n_reports=298),
    "objects with keys": Case(
        objects(160), [*AUTO, "--format", "json", *KEYS], longest=16, n_reports=160
    ),
    "too many keys": Case(table(200), [*CHAIN, "--format", "csv", *KEYS, "--max-keys", "3"]),
    "keys that age": Case(
        table(200), [*CHAIN, "--format", "csv", *KEYS, "--key-ttl", "5"], longest=0
    ),
    "new labels": Case(
        plain(200), ["--max-labels", "4", "--method", "Markov 1"], longest=0, n_reports=200
    ),
    "a journal": Case(
        entries(100), [*CHAIN, "--format", "journal", "--column", "P"], longest=0, n_reports=100
    ),
    "numbers": Case(
        plain(60), ["--emission", "gaussian", "-K", "5", "--seed", "1"], longest=0, n_reports=60
    ),
}


class Seen(NamedTuple):
    """All that a run leaves behind."""

    code: int
    out: str
    err: str
    checkpoints: list[tuple[int, bytes]]
    files: list[bytes]


Run = Callable[..., tuple[Seen, list[int]]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `mdvpf filter`; return what it leaves, and how many lines came together each time."""
    monkeypatch.setattr(live, "LONGEST_TOGETHER", 1e9)  # however slow this machine is
    begin = Generations.save_in_background

    def run_filter(
        most: int, parts: Sequence[bytes], options: list[str], is_file: bool = False
    ) -> tuple[Seen, list[int]]:
        source, kept = tmp_path / "stream", tmp_path / "kept"
        saved: list[tuple[int, bytes]] = []
        sizes: list[int] = []

        def note(self: Generations, thing: FilterRun, before: Any = None) -> None:
            saved.append((thing.monitor.n_lines, b"".join(encoded(thing))))
            begin(self, thing, before)

        def read(monitor: Monitor, lines: Sequence[bytes]) -> list[Report]:
            found = read_together(monitor, lines)
            sizes.append(len(found))
            return found

        monkeypatch.setattr(live, "MOST_TOGETHER", most)
        monkeypatch.setattr(live, "read_together", read)
        monkeypatch.setattr(Generations, "save_in_background", note)
        for path in (kept, previous_of(kept)):
            path.unlink(missing_ok=True)
        source.write_bytes(b"")  # keeps its inode
        out = err = ""
        for part in parts:
            with source.open("ab") as file:
                file.write(part)
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(part)))
            given = [str(source)] if is_file else []
            given += ["--checkpoint", str(kept), "--resume", "--every", "90", "--lag-every", "0"]
            code = main(["filter", *given, *options])
            printed = capsys.readouterr()
            out, err = out + printed.out, err + printed.err
        files = [path.read_bytes() for path in (kept, previous_of(kept))]
        return Seen(code, out, err, saved, files), sizes

    return run_filter


@pytest.mark.parametrize("is_file", [False, True], ids=["pipe", "file"])
@pytest.mark.parametrize("name", CASES)
def test_the_same_bytes_as_line_by_line(name: str, is_file: bool, run: Run) -> None:
    case = CASES[name]
    singly, sizes = run(1, [case.content], case.options, is_file)
    assert sizes == []
    together, sizes = run(256, [case.content], case.options, is_file)
    assert together == singly
    assert together.code == case.code, together.err
    assert max(sizes, default=0) >= case.longest
    reports = together.out.splitlines()
    if case.n_reports is not None:
        assert len(reports) == case.n_reports
    if "--alarms-only" in case.options:
        assert 0 < len(reports) < 100


@pytest.mark.parametrize("options", [CHAIN, AUTO], ids=["chain", "auto"])
def test_no_checkpoint_is_passed_over_and_a_file_resumes(options: list[str], run: Run) -> None:
    content = plain(300)
    whole, _ = run(1, [content], options, is_file=True)
    parts = [content[:250], content[250:301], content[301:]]  # one of them ends inside a line
    singly, _ = run(1, parts, options, is_file=True)
    together, sizes = run(256, parts, options, is_file=True)
    assert together == singly
    assert together.out == whole.out
    assert [n_lines for n_lines, _ in together.checkpoints] == [90, 180, 270]
    assert max(sizes) > 30


@pytest.mark.parametrize("most", [1, 256])
def test_lines_of_a_pipe_that_were_not_absorbed_are_kept(most: int, run: Run) -> None:
    """After a line that is malformed, the checkpoint holds the rest of what was read."""
    content = plain(300, {200: b"x\n"})
    seen, _ = run(most, [content], CHAIN)
    assert "line 201: 'x': expected an integer in 0..4" in seen.err
    whole, _ = run(most, [content, b""], [*CHAIN, "--skip-malformed"])
    again, _ = run(1, [content], [*CHAIN, "--skip-malformed"])
    assert whole.out == again.out


def test_lines_that_take_long_are_absorbed_one_by_one(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(10**6))
    monkeypatch.setattr(live, "LONGEST_TOGETHER", 1.5)
    monkeypatch.setattr(
        "mdvpf.cli.live.time.process_time", lambda: float(next(clock))
    )  # a second a step
    _, sizes = run(256, [plain(100)], CHAIN)
    assert sizes == []  # two might take longer than that


def test_after_an_error_between_lines_the_checkpoint_before_it_remains(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source, kept = tmp_path / "other", tmp_path / "others"
    content = plain(300)
    source.write_bytes(content)
    given = ["filter", str(source), *CHAIN, "--checkpoint", str(kept), "--every", "90", "--resume"]
    absorb = Monitor._report

    def fail(self: Monitor, *arguments: Any) -> Report:
        if self.n_lines == 222:
            raise MemoryError
        return absorb(self, *arguments)

    monkeypatch.setattr(Monitor, "_report", fail)
    assert main(given) == 1
    printed = capsys.readouterr()
    assert "an error interrupted the monitor between lines" in printed.err
    assert FilterRun.load(kept).monitor.n_lines == 180
    monkeypatch.undo()
    assert main(given) == 0
    found = printed.out.splitlines()[:180] + capsys.readouterr().out.splitlines()
    whole, _ = run(1, [content], CHAIN)
    assert found == whole.out.splitlines()
