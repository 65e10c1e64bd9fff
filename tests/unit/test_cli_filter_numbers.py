"""`mdvpf filter --emission`: numbers instead of symbols, as they arrive."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdvpf
from mdvpf.cli import main
from mdvpf.streams.events import Event
from mdvpf.streams.formats import make_format
from tests.kernel.sealing import reloaded

pytest.importorskip("typer")

Run = Callable[..., tuple[int, list[str], str]]
NUMBERS = [0.25, -0.5, 7.0, 6.5, 0.125]
SETTINGS = ["--emission", "gaussian", "--prior", "mean_strength=0.1,shape=2", "-K", "20"]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command on a text; return the exit code, the lines printed and the complaints."""

    def run_command(text: str, *arguments: str) -> tuple[int, list[str], str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        code = main(list(arguments))
        printed = capsys.readouterr()
        return code, printed.out.splitlines(), printed.err

    return run_command


def expected(numbers: list[Any]) -> list[float]:
    family = mdvpf.Gaussian(mean_strength=0.1, shape=2.0)
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=family), n_particles=20)
    return [pf.update(number).log_predictive for number in numbers]


def test_reports_have_the_log_densities_of_the_filter(run: Run) -> None:
    text = "".join(f"{number}\n" for number in NUMBERS)
    code, lines, _ = run(text + "?\n", "filter", *SETTINGS, "--missing", "?")
    reports = [json.loads(line) for line in lines]
    assert code == 0
    assert [report["symbol"] for report in reports] == [*NUMBERS, None]
    assert [report["log_predictive"] for report in reports] == expected([*NUMBERS, None])
    assert all(report["expected"] == [] for report in reports)


def test_a_run_goes_on_from_its_checkpoint(run: Run, tmp_path: Path) -> None:
    file, kept = tmp_path / "numbers.txt", tmp_path / "kept.mdvpf"
    found = []
    for end in (2, 5):
        file.write_text("".join(f"{number}\n" for number in NUMBERS[:end]))
        code, lines, _ = run(
            "", "filter", str(file), *SETTINGS, "--checkpoint", str(kept), "--resume"
        )
        assert code == 0
        found += [json.loads(line)["log_predictive"] for line in lines]
    assert found == expected(NUMBERS)
    code, lines, _ = run("", "inspect", str(kept))
    assert code == 0 and "squared deviations" in "\n".join(lines)
    code, _, complaint = run(
        "", "filter", str(file), "--emission", "poisson", "--checkpoint", str(kept), "--resume"
    )
    assert code == 2 and "emission=Poisson" in complaint and "Gaussian" in complaint


def test_several_numbers_a_line_and_other_reports(run: Run) -> None:
    two = ["--emission", "Gaussian", "--prior", "n_dims=2", "-K", "5"]
    code, lines, _ = run("1.5 nan\n0.5 2\n", "filter", *two, "--report", "text")
    assert code == 0 and lines[0].startswith("1: 1.5 nan, surprise")
    code, lines, _ = run("3\n", "filter", "--emission", "poisson", "-K", "5", "--report", "csv")
    assert code == 0 and lines[1].startswith("1,0,,,3.0,3,")


@pytest.mark.parametrize("report", ["json", "csv", "text"])
def test_nan_is_a_missing_number(run: Run, report: str) -> None:
    code, lines, errors = run("1.5\nnan\n", "filter", *SETTINGS, "--report", report)
    assert (code, errors) == (0, "")
    if report == "json":
        found = json.loads(lines[1])
        assert (found["symbol"], found["label"], found["log_predictive"]) == (None, "nan", 0.0)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("one\n", "expected a number"), ("inf\n", "inf"), ("1 2\n", "expected a number")],
)
def test_what_is_no_number_is_malformed(run: Run, text: str, complaint: str) -> None:
    code, lines, errors = run(text, "filter", *SETTINGS)
    assert code != 0 and lines == [] and complaint in errors and "line 1" in errors


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--emission", "normal"], "emission"),
        (["--prior", "mean=1", "--symbols", "3"], "prior"),
        (["--emission", "gaussian", "--prior", "means=1"], "prior"),
        (["--emission", "gaussian", "--prior", "mean=low"], "prior='mean=low': mean='low'"),
        (["--emission", "gaussian", "--symbols", "3"], "symbols=3: expected not together"),
        (["--emission", "gaussian", "--method", "auto"], "method"),
        (["--emission", "gaussian", "--machine", "mealy"], "machine"),
        (["--emission", "gaussian", "--expected", "2"], "n_expected"),
    ],
)
def test_bad_options_are_named(run: Run, arguments: list[str], complaint: str) -> None:
    code, lines, errors = run("1\n", "filter", *arguments)
    assert code == 2 and lines == [] and complaint in errors


def test_a_monitor_reads_fields_keys_and_channels() -> None:
    family = mdvpf.Product(mdvpf.Gaussian(), mdvpf.Categorical(3))
    model = mdvpf.InfiniteHMM(emission=family)
    monitor = mdvpf.Monitor(
        mdvpf.ParticleFilter(model, n_particles=5),
        format=make_format("json", {"symbol": "value", "key": "host"}),
    )
    pf = mdvpf.ParticleFilter(model, n_particles=5)
    report = monitor.read('{"value": "0.5 2", "host": "a"}')
    assert report is not None and report.symbol == "0.5 2"
    assert report.log_predictive == pf.update((0.5, 2), "a").log_predictive
    report = monitor.absorb(Event("nan 1", "b"))
    assert report is not None
    assert report.log_predictive == pf.update((None, 1), "b").log_predictive
    with pytest.raises(ValueError, match=r"line 3.*symbol\[1\]"):
        monitor.absorb(Event("0.5 7", "a"))
    twin = reloaded(monitor)
    after = [each.absorb(Event("1.5 0", "a")) for each in (monitor, twin)]
    assert after[0] is not None and after[0] == after[1]
    assert np.isfinite(after[0].log_predictive)


@pytest.mark.parametrize("emission", ["gaussian", "poisson"])
def test_incidents_over_numbers(run: Run, tmp_path: Path, emission: str) -> None:
    rng = np.random.default_rng(0)
    usual = rng.normal(size=804) if emission == "gaussian" else rng.poisson(20.0, size=804)
    numbers = [*usual.tolist(), *[usual.tolist()[0]] * 20]
    text = "".join(f"{number!r}\n" for number in numbers)
    options = ["--emission", emission, "-K", "5", "--false-incidents", "20"]
    code, lines, _ = run(text, "filter", *options)
    reports = [json.loads(line) for line in lines]
    assert code == 0
    found = [report for report in reports[800:] if report["alarm"]]
    assert "repetitive" in [report["side"] for report in found]
    assert "times in a row the same observation" in found[-1]["why"]
    kept, file = tmp_path / "kept.mdvpf", tmp_path / "numbers.txt"
    again = []
    for end in (403, len(numbers)):  # in the middle of a block
        file.write_text("".join(f"{number!r}\n" for number in numbers[:end]))
        code, lines, _ = run(
            "", "filter", str(file), *options, "--checkpoint", str(kept), "--resume"
        )
        assert code == 0
        again += [json.loads(line) for line in lines]
    assert again == reports


def test_over_numbers_alarms_have_a_fixed_share_unless_incidents_are_wanted(run: Run) -> None:
    for options, is_judged in (([], False), (["--cooldown", "9"], True)):
        text = "".join(f"{number}\n" for number in np.random.default_rng(0).normal(size=480))
        code, lines, _ = run(text, "filter", "--emission", "gaussian", "-K", "5", *options)
        assert code == 0
        assert (json.loads(lines[-1])["p_value"] is not None) is is_judged
    code, _, errors = run(
        "1\n", "filter", *SETTINGS, "--false-incidents", "1", "--false-alarms", "0.1"
    )
    assert code == 2 and "false_incidents" in errors
