"""`mdvpf filter` under torture: it loses no line and no report, whatever ends it at any moment.

Every round has a stream, a way of reading it (a file, a pipe), a way of writing reports (a pipe,
standard output in a file, ``--output``), and one failure at a random moment. Then the command is
resumed to the end. The expected reports come from a monitor in this process, which is never
interrupted.
"""

from __future__ import annotations

import array
import fcntl
import json
import os
import random
import signal
import sys
import termios
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import mdvpf
from mdvpf.streams.filter_run import FilterRun
from mdvpf.streams.formats import make_format
from mdvpf.streams.methods import make_predictor
from tests.torture.nursery import Nursery

pytest.importorskip("typer")
pytestmark = [
    pytest.mark.torture,
    pytest.mark.skipif(sys.platform != "linux", reason="stops and continues processes"),
]

N_ROUNDS = 500
N_SHARES = 4  # tests that share the rounds, for several processes
V = 6
EVERY = 50  # lines between two checkpoints
SMALLER_THAN_A_CHECKPOINT = 600
READ_AT_ONCE = 4096  # bytes that the command takes from a pipe
SIGNALS = {"SIGTERM": signal.SIGTERM, "SIGHUP": signal.SIGHUP, "SIGINT": signal.SIGINT}
METHODS = {"Markov 1": None, "MD-VPA": 8}  # and their particles
TROUBLES = (*SIGNALS, "SIGKILL", "full output", "full device", "no checkpoint", "reader leaves")


@dataclass(repr=False)
class Round:
    """One round: the input, the output, and the failure."""

    seed: int
    folder: Path
    nursery: Nursery
    lines: list[bytes] = field(default_factory=list)
    found: list[bytes] = field(default_factory=list)  # reports, in the order of writing
    killed: tuple[FilterRun, int] = field(init=False)  # the checkpoint, and bytes taken by then

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.trouble = TROUBLES[self.seed % len(TROUBLES)]
        self.method = self.rng.choice(list(METHODS))
        self.has_keys = self.rng.random() < 0.5
        self.has_pipe = self.trouble != "no checkpoint" and self.rng.random() < 0.5
        self.has_file_out = self.trouble == "full output" or (
            self.trouble not in ("full device", "no checkpoint", "reader leaves")
            and self.rng.random() < 0.4
        )
        self.is_output_option = self.has_file_out and self.rng.random() < 0.6
        n = self.rng.randrange(300, 1500)
        for i in range(n):
            symbol = (i * 3 + (self.rng.random() < 0.2)) % V
            if self.has_keys:
                record = {"s": symbol, "k": f"k{self.rng.randrange(9)}", "n": i}
                self.lines.append(json.dumps(record).encode() + b"\n")
            else:
                self.lines.append(b"\n" if self.rng.random() < 0.02 else b"%d\n" % symbol)

    @property
    def format_options(self) -> dict[str, object]:
        return {"symbol": "s", "key": "k", "pass_fields": ["n"]} if self.has_keys else {}

    def monitor(self) -> mdvpf.Monitor:
        settings = {} if self.method.startswith("Markov") else {"max_states": 10}
        predictor = make_predictor(self.method, V, METHODS[self.method], 1, **settings)
        name = "json" if self.has_keys else "lines"
        detector = mdvpf.SurpriseDetector(predictor, false_incidents=1.0)  # as the command has it
        return mdvpf.Monitor(detector, format=make_format(name, self.format_options))

    def expected(self, lines: list[bytes]) -> list[bytes]:
        """Return the reports on lines that are read without an interruption."""
        monitor = self.monitor()
        reports = (monitor.read(line) for line in lines)
        return [report.to_json().encode() for report in reports if report is not None]

    @property
    def arguments(self) -> list[str]:
        found = ["filter", str(self.source) if not self.has_pipe else "-", "--symbols", str(V)]
        found += ["--method", self.method, "--seed", "1"]
        if not self.method.startswith("Markov"):
            found += ["-K", str(METHODS[self.method]), "--max-states", "10"]
        found += ["--checkpoint", str(self.folder / "kept"), "--resume", "--every", str(EVERY)]
        if self.has_keys:
            found += ["--format", "json", "--column", "s", "--key", "k", "--pass", "n"]
        if self.is_output_option:
            found += ["--output", str(self.reports)]
        return found

    # -- input and output --------------------------------------------------------------------

    @property
    def source(self) -> Path:
        return self.folder / "source"

    @property
    def reports(self) -> Path:
        return self.folder / "reports"

    def open_source(self) -> None:
        if self.trouble == "no checkpoint":  # that of the first process would not be written either
            FilterRun(self.monitor()).save(self.folder / "kept")
        if not self.has_pipe:
            self.source.write_bytes(b"".join(self.lines))
            return
        os.mkfifo(self.source)
        # Its content outlives the processes.
        self.kept_open = os.open(self.source, os.O_RDWR | os.O_NONBLOCK)
        self.n_fed, self.feeding = 0, threading.Lock()
        self.feeder = threading.Thread(target=self._feed)
        self.feeder.start()

    def _feed(self) -> None:
        rng = random.Random(self.seed + 1)
        content = b"".join(self.lines)
        while self.n_fed < len(content):
            n = rng.choice((1, 7, 100, 1000, 10000))  # lines are cut anywhere
            try:
                with self.feeding:
                    self.n_fed += os.write(self.kept_open, content[self.n_fed : self.n_fed + n])
            except BlockingIOError:
                time.sleep(0.001)
            if rng.random() < 0.1:
                time.sleep(rng.random() * 0.002)

    def n_taken(self) -> int:
        """Return how many bytes were taken from the pipe."""
        waiting = array.array("i", [0])
        with self.feeding:
            fcntl.ioctl(self.kept_open, termios.FIONREAD, waiting)
            return self.n_fed - waiting[0]

    def close_source(self) -> None:
        """Let the last process see the end of the input."""
        if self.has_pipe:
            self.feeder.join()
            os.close(self.kept_open)

    def complaints(self) -> str:
        """Return the messages of the latest run, which may have been killed before it had any."""
        path = self.folder / "complaints"
        return path.read_text() if path.exists() else ""

    def live(self, *, last: bool) -> int:
        """Run the command once, the last time without a failure; return how it ended."""
        trouble = None if last else self.trouble
        self.code = 0
        if self.has_file_out:
            return self._live_with_file(trouble)
        if trouble == "full device":
            process = self._start(stdout=Path("/dev/full"))
            return self.nursery.wait(process)
        pipe = self.folder / "pipe"
        if not pipe.exists():
            os.mkfifo(pipe)
        reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        limit = SMALLER_THAN_A_CHECKPOINT if trouble == "no checkpoint" else None
        process = self._start(stdout=pipe, largest_file=limit)
        ender = threading.Thread(target=self._end_source) if last else None
        if ender is not None:
            ender.start()
        content = self._read(reading, process, trouble)
        code = self.nursery.wait(process)
        if ender is not None:
            ender.join()
        self.found += content.split(b"\n")[:-1]
        self.half = content.split(b"\n")[-1]
        return code

    def _end_source(self) -> None:
        time.sleep(0.01)  # until the command has opened it
        self.close_source()

    def _start(self, stdout: Path, largest_file: int | None = None) -> int:
        stdin = self.source if self.has_pipe else Path(os.devnull)
        return self.nursery.start(
            self.arguments, stdin, stdout, self.folder / "complaints", largest_file
        )

    def _read(self, reading: int, process: int, trouble: str | None) -> bytes:
        """Read the output of one run, and cause its failure."""
        patience = self.rng.randrange(1, 150_000) if self.rng.random() < 0.8 else 1
        content = b""
        is_done = trouble in (None, "no checkpoint")
        opened = False
        while True:
            if not is_done and len(content) >= patience:
                is_done = True
                time.sleep(self.rng.random() * 0.003)
                if trouble == "reader leaves":
                    content += self._leave(reading, process)
                    return content
                os.kill(process, SIGNALS.get(str(trouble), signal.SIGKILL))
            try:
                data = os.read(reading, self.rng.choice((100, 5000, 65536)))
            except BlockingIOError:
                opened = True
                time.sleep(0.0005)
                continue
            if data:
                opened = True
                content += data
            elif opened or self._is_gone(process):
                os.close(reading)
                return content
            else:
                time.sleep(0.0005)

    def _is_gone(self, process: int) -> bool:
        try:
            state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            return True
        return state == "Z"

    def _leave(self, reading: int, process: int) -> bytes:
        """Read all output, and close it while the command is stopped."""
        os.kill(process, signal.SIGSTOP)
        while not self._is_gone(process):
            state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
            if state == "T":
                break
        content = b""
        while True:
            try:
                data = os.read(reading, 65536)
            except BlockingIOError:
                break
            if not data:
                break
            content += data
        os.close(reading)
        os.kill(process, signal.SIGCONT)
        return content

    def _live_with_file(self, trouble: str | None) -> int:
        limit = None
        if trouble == "full output":
            # There is room for a checkpoint with the unwritten reports.
            limit = self.rng.randrange(60_000, 150_000)
        stdout = Path(os.devnull) if self.is_output_option else self.reports
        process = self._start(stdout=stdout, largest_file=limit)
        if trouble is None:
            self._end_source()
        elif trouble != "full output":
            patience = self.rng.randrange(0, 300_000)
            deadline = time.monotonic() + 0.2 * self.rng.random()
            while time.monotonic() < deadline and not self._is_gone(process):
                if self.reports.exists() and self.reports.stat().st_size > patience:
                    break
                time.sleep(0.0003)
            os.kill(process, SIGNALS.get(trouble, signal.SIGKILL))
        elif self.has_pipe:
            self._wait_or_end(process)
        return self.nursery.wait(process)

    def _wait_or_end(self, process: int) -> None:
        """Wait until a disk was full; a short stream may not have filled it."""
        deadline = time.monotonic() + 0.5
        while time.monotonic() < deadline and not self._is_gone(process):
            time.sleep(0.001)
        if not self._is_gone(process):
            os.kill(process, signal.SIGTERM)


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    found = Nursery()
    yield found
    found.close()


@pytest.mark.parametrize("share", range(N_SHARES))
def test_whatever_ends_the_command_nothing_is_lost(
    share: int, nursery: Nursery, tmp_path: Path, torture_scale: float
) -> None:
    n_rounds = int(N_ROUNDS * torture_scale)
    for seed in range(share, max(n_rounds, len(TROUBLES)), N_SHARES):
        folder = tmp_path / str(seed)
        folder.mkdir()
        play(Round(seed, folder, nursery))


def play(game: Round) -> None:
    what = (
        f"seed {game.seed}: {game.trouble}, {game.method}, "
        f"{'pipe' if game.has_pipe else 'file'}, keys {game.has_keys}, "
        f"{'--output' if game.is_output_option else 'file' if game.has_file_out else 'pipe'} out"
    )
    game.open_source()
    code = game.live(last=False)
    complaints = game.complaints()
    assert code in allowed_codes(game), f"{what}: exit code {code}: {complaints}"
    if game.trouble == "SIGKILL" and game.has_pipe:
        if not (game.folder / "kept").exists():  # killed before it began
            return game.close_source()
        game.killed = FilterRun.load(game.folder / "kept"), game.n_taken()
    code = game.live(last=True)
    complaints = game.complaints()
    assert code == 0, f"{what}: exit code {code} at the end: {complaints}"
    if game.has_file_out:
        game.found = game.reports.read_bytes().split(b"\n")[:-1]
    if game.trouble == "SIGKILL" and game.has_pipe:
        check_killed_on_a_pipe(game, what)
        return
    expected = game.expected(game.lines)
    may_repeat = not game.is_output_option and game.trouble in ("SIGKILL", "no checkpoint")
    if may_repeat:
        reports: dict[int, bytes] = {}
        for line in game.found:
            line = whole(line)
            number = json.loads(line)["line"]
            assert reports.setdefault(number, line) == line, f"{what}: line {number} differs"
        game.found = [reports[number] for number in sorted(reports)]
    assert game.found == expected, f"{what}: {first_difference(game.found, expected)}"
    assert sorted(path.name for path in game.folder.glob("*kept*")) in (
        ["kept"],
        ["kept", "kept.previous"],
    ), what


def whole(line: bytes) -> bytes:
    """Return a report without the half report that a killed process left before it in a file."""
    return line[line.rindex(b'{"line"') :]


def allowed_codes(game: Round) -> tuple[int, ...]:
    """Return how the first run may end: by its failure, or before that at the end of the input."""
    ended = () if game.has_pipe else (0,)
    return {
        "SIGTERM": (0, -signal.SIGTERM),  # the latter before it has begun, or after its end
        "SIGHUP": (0, -signal.SIGHUP),
        "SIGINT": (130, -signal.SIGINT, *ended),
        "SIGKILL": (-9, *ended),
        "full output": (1, 0, -signal.SIGTERM),
        "full device": (1,),
        "no checkpoint": (1,),
        "reader leaves": (0,),
    }[game.trouble]


def first_difference(found: list[bytes], expected: list[bytes]) -> str:
    for i, (one, other) in enumerate(zip(found, expected, strict=False)):
        if one != other:
            return f"report {i}: {one!r}, expected {other!r}"
    return f"{len(found)} reports, expected {len(expected)}"


def check_killed_on_a_pipe(game: Round, what: str) -> None:
    """Check the promise of the page: only lines read after the last checkpoint are lost.

    The second run continues from the checkpoint as if the lost lines had never existed.
    """
    content = b"".join(game.lines)
    run, n_taken = game.killed
    assert run.position is not None, what
    n_kept = run.position.n_bytes + len(run.inbox)
    n_lost = len(content[n_kept:n_taken].splitlines())
    shortest = min(len(line) for line in game.lines)
    assert n_lost <= 2 * EVERY + READ_AT_ONCE // shortest, f"{what}: {n_lost} lines are lost"
    inbox = run.inbox[: run.inbox.rfind(b"\n") + 1]
    after = (inbox + content[n_taken:]).splitlines(keepends=True)
    second = []
    for line in after:
        try:
            report = run.monitor.read(line)
        except ValueError:  # the end of a line whose start is lost
            assert line is after[inbox.count(b"\n")], what
            run.monitor.skip()
            continue
        if report is not None:
            second.append(report.to_json().encode())
    expected = game.expected(game.lines)
    reports = [whole(line) for line in game.found]
    n_first = len(reports) - len(second)
    assert reports[:n_first] == expected[:n_first], what
    assert reports[n_first:] == second, f"{what}: {first_difference(reports[n_first:], second)}"
