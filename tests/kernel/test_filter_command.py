"""`mdvpf filter`: killed and resumed again and again, and a run of 10^6 symbols."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

import numpy as np
import pytest

N_KILLS = 60
EVERY = 5  # symbols between two checkpoints
LONGEST_LIFE = 0.06  # seconds after the first checkpoint
SYMBOLS_A_LIFE = 1000  # more than it can absorb: nobody reads its reports, and the pipe gets full
N_SOAKED = 1_000_000
N_SAMPLES = 20  # looks at the memory
COMMAND = [sys.executable, "-m", "mdvpf"]
ROOT = Path(__file__).resolve().parents[2]


def stream(n: int) -> list[int]:
    """A walk around eight symbols that turns now and then, with a little noise."""
    rng = np.random.default_rng(6)
    turns = np.where(np.cumsum(rng.random(n) < 1e-3) % 2, 1, 3)
    walk = np.cumsum(turns) % 8
    noise = rng.random(n) < 0.05
    symbols: list[int] = np.where(noise, rng.integers(0, 8, n), walk).tolist()
    return symbols


def whole_lines(content: bytes) -> list[bytes]:
    """Return the complete lines."""
    return content.split(b"\n")[:-1]


@pytest.mark.torture
@pytest.mark.parametrize("algorithm", ["MD-VPA", "SMC"])
def test_kills_of_the_command_change_nothing(
    algorithm: str, tmp_path: Path, torture_scale: float
) -> None:
    source, kept = tmp_path / "stream", tmp_path / "kept"
    n_lives = max(3, int(N_KILLS * torture_scale) // 2)
    symbols = stream(n_lives * SYMBOLS_A_LIFE)
    source.write_text("".join(f"{symbol}\n" for symbol in symbols))
    command = [*COMMAND, "filter", str(source), "--symbols", "8", "-K", "40", "--seed", "1"]
    command += ["--method", algorithm, "--max-states", "12"]
    resumed = [*command, "--checkpoint", str(kept), "--resume", "--every"]
    rng = random.Random(2)
    reports: dict[int, bytes] = {}
    firsts = []
    for _ in range(n_lives):
        with subprocess.Popen([*resumed, str(EVERY)], cwd=ROOT, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            # Reports past `EVERY` symbols prove that there is a checkpoint.
            begin = [process.stdout.readline() for _ in range(EVERY + 1)]
            time.sleep(rng.random() * LONGEST_LIFE)
            process.kill()
            content = b"".join(begin) + process.stdout.read()
        assert process.returncode == -9, "it ended before it was killed"
        firsts.append(json.loads(begin[0])["line"])
        for line in whole_lines(content):
            number = json.loads(line)["line"]
            assert reports.setdefault(number, line) == line  # repeated reports are equal
    assert sorted(set(firsts)) == firsts, "every life got further than the one before"
    last = subprocess.run([*resumed, "1000"], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    for line in whole_lines(last.stdout):
        number = json.loads(line)["line"]
        assert reports.setdefault(number, line) == line
    never_killed = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    assert [reports[number] for number in sorted(reports)] == whole_lines(never_killed.stdout)


@pytest.mark.torture
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_command_stays_the_same_size_over_a_long_stream(
    tmp_path: Path, torture_scale: float, capsys: pytest.CaptureFixture[str]
) -> None:
    n = int(N_SOAKED * torture_scale)
    kept = tmp_path / "kept"
    command = [*COMMAND, "filter", "--symbols", "8", "-K", "100", "--max-states", "12"]
    command += ["--method", "MD-VPA"]
    command += ["--checkpoint", str(kept), "--every", str(n // 100)]
    symbols = "".join(f"{symbol}\n" for symbol in stream(n)).encode()
    start = time.perf_counter()
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        feeder = threading.Thread(target=_feed, args=(process.stdin, symbols))
        feeder.start()
        assert process.stdout is not None
        resident = []
        for n_reports, report in enumerate(process.stdout, start=1):
            assert json.loads(report)["line"] == n_reports
            if n_reports % (n // N_SAMPLES) == 0:
                resident.append(_resident(process.pid))
        feeder.join()
    elapsed = time.perf_counter() - start
    assert process.returncode == 0
    assert n_reports == n
    with capsys.disabled():
        print(
            f"\nsoak: {n:,} symbols, {n / elapsed:,.0f} a second with 100 checkpoints, resident "
            f"{resident[N_SAMPLES // 4] / 1e6:.1f} MB after a quarter, {resident[-2] / 1e6:.1f} MB "
            f"at the end, at most {max(resident) / 1e6:.1f} MB"
        )
    # Flat: no sample after the warm-up is above it by more than a few buffers of the allocator.
    assert max(resident[N_SAMPLES // 4 :]) < resident[N_SAMPLES // 4] + 4e6


def _feed(pipe: IO[bytes], content: bytes) -> None:
    with pipe:
        pipe.write(content)


def _resident(pid: int) -> int:
    """Return the bytes in memory of a process; 0 once it is gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return 0
    return next(
        (1024 * int(row.split()[1]) for row in text.splitlines() if row.startswith("VmRSS")), 0
    )
