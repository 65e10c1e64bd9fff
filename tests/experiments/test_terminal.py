"""The terminal: exit codes, errors in one line, help with examples, the progress bar."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from mdvpf.cli import main

pytest.importorskip("typer")

from mdvpf.cli import reproduce


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["reproduce", "everything"], 2, "NAME='everything'"),
        (["reproduce"], 2, "Missing argument"),
        (["reproduce", "artificial", "--beta", "-1"], 2, "beta=-1.0"),
        (["reproduce", "artificial", "--beta", "x"], 2, "--beta"),
        (["reproduce", "artificial", "--seeds", "0"], 2, "seeds=0"),
        (["reproduce", "artificial", "--method", "SMC,magic"], 2, "method='magic'"),
        (["reproduce", "artificial", "--methods", "SMC,magic"], 2, "methods='magic'"),
        (["reproduce", "artificial", "--jobs", "0"], 2, "jobs=0"),
        (["reproduce", "artificial", "--backend", "dask"], 2, "scheduler=None"),
        (["compare", "no such file"], 2, "no such file"),
        (["--wrong"], 2, "--wrong"),
        (["nothing"], 2, "nothing"),
    ],
)
def test_a_wrong_command_line(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    assert printed.err.startswith("mdvpf: ")
    assert message in printed.err


def test_errors_take_one_line_and_debug_shows_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "empty.txt"
    file.write_text("", encoding="utf-8")
    assert main(["compare", str(file)]) == 1
    complaint = capsys.readouterr().err
    assert len(complaint.splitlines()) == 1
    assert "expected at least two" in complaint
    with pytest.raises(ValueError, match="expected at least two"):
        main(["compare", str(file), "--debug"])


def test_an_error_without_a_message_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise MemoryError

    monkeypatch.setattr(reproduce, "carry_out", fail)
    assert main(["reproduce", "artificial", "--out", str(tmp_path)]) == 1
    assert "MemoryError" in capsys.readouterr().err


def test_an_interrupt_is_one_line_that_names_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(reproduce, "carry_out", interrupted)
    assert main(["reproduce", "artificial", "--out", str(tmp_path)]) == 130
    complaint = capsys.readouterr().err.splitlines()
    assert len(complaint) == 1
    assert "--resume" in complaint[0]


@pytest.mark.parametrize("command", ["reproduce", "compare", "filter", "inspect", "detect"])
def test_help_has_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert f"mdvpf {command} " in capsys.readouterr().out


def test_help_names_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    printed = capsys.readouterr().out
    assert "Exit codes" in printed
    assert "Predict the next event of a stream" in printed
    assert printed.index("filter") < printed.index("reproduce")


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_a_missing_extra_is_named(missing: str) -> None:
    script = f"""
import sys
sys.modules[{missing!r}] = None
from mdvpf.cli import main
sys.exit(main(["--help"]))
"""
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert found.returncode == 2
    assert found.stderr.splitlines() == [
        "mdvpf: the commands need the packages typer and rich: install them, or mdvpf[cli]"
    ]


def test_figures_that_cannot_be_drawn_are_an_error_before_the_work(tmp_path: Path) -> None:
    script = f"""
import sys
sys.modules["matplotlib"] = None
from mdvpf.cli import main
sys.exit(main(["reproduce", "artificial", "--out", {str(tmp_path)!r}]))
"""
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert found.returncode == 1
    assert found.stderr.splitlines() == [
        "mdvpf: a figure needs the package matplotlib: install it, or mdvpf[plot]"
    ]
    assert not list(tmp_path.iterdir())


def test_a_terminal_gets_a_progress_bar_with_rate_and_time() -> None:
    script = """
import time
from mdvpf._support.progress import progress_bar
with progress_bar(True, 4, "walking", "steps") as advance:
    for _ in range(4):
        advance(1)
        time.sleep(0.15)
"""
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen([sys.executable, "-c", script], stderr=follower, env=environment) as run:
        os.close(follower)
        text = b""
        while True:
            try:
                part = os.read(leader, 4096)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            text += part
    os.close(leader)
    assert run.returncode == 0
    assert b"walking" in text
    assert b"steps/s" in text
    assert b"4/4" in text
    assert b"0:00:0" in text
