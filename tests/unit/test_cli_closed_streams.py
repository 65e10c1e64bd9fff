"""Commands whose standard streams are closed, full or gone never lose a result silently."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import mdvpf

pytest.importorskip("typer")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a shell of POSIX")

COMMANDS = [
    "--version",
    "--help",
    "inspect {kept}",
    "detect {strange} --method markov1 --false-alarms 0.01",
    "evaluate {clicks} {clicks} --method markov1",
]
LONG_ONE = "compare {clicks} --particles 5 --method VPA --out {folder}/compare"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    kept, clicks, strange = (tmp_path / name for name in ("kept", "clicks", "strange"))
    mdvpf.Markov(3).save(kept)
    clicks.write_text("0\n1\n2\n" * 5)
    strange.write_text("0\n1\n2\n" * 60 + "2\n1\n0\n" * 10)
    return {"kept": kept, "clicks": clicks, "strange": strange, "folder": tmp_path}


def run(command: str, closed: str, files: dict[str, Path]) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a shell that redirects its streams."""
    words = command.format(**files)
    return subprocess.run(
        ["/bin/sh", "-c", f"exec {sys.executable} -m mdvpf {words} {closed}"],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "COLUMNS": "80"},
        check=False,
    )


@pytest.mark.parametrize("command", [*COMMANDS, LONG_ONE])
def test_a_result_that_cannot_be_written_is_an_error(command: str, files: dict[str, Path]) -> None:
    done = run(command, ">&-", files)
    assert done.returncode == 1
    messages = [line for line in done.stderr.decode().splitlines() if line.startswith("mdvpf: ")]
    assert len(messages) == 1 and "Bad file descriptor" in messages[0]
    assert b"Traceback" not in done.stderr and b"Exception" not in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_unused_streams_may_be_closed(command: str, files: dict[str, Path]) -> None:
    done = run(command, "<&- 2>&-", files)
    assert done.returncode == 0
    assert done.stdout and not done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_everything_closed_is_an_error_without_a_word(command: str, files: dict[str, Path]) -> None:
    done = run(command, "<&- >&- 2>&-", files)
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_is_an_error(command: str, files: dict[str, Path]) -> None:
    done = run(command, "> /dev/full", files)
    assert done.returncode == 1
    assert b"No space left" in done.stderr and b"Exception" not in done.stderr


def test_a_file_that_is_written_does_not_become_standard_output(files: dict[str, Path]) -> None:
    pytest.importorskip("constriction")
    packed = files["folder"] / "packed"
    done = run(f"compress {files['clicks']} -K 84 --out {packed}", "<&- >&- 2>&-", files)
    assert done.returncode == 1  # the message about it could not be written; the file could
    assert mdvpf.coding.unpack(packed.read_bytes()) == files["clicks"].read_bytes()
    done = run(f"decompress {packed} --out {files['folder'] / 'again'}", "<&- 2>&-", files)
    assert done.returncode == 0
    assert (files["folder"] / "again").read_bytes() == files["clicks"].read_bytes()
