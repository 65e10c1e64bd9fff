"""`mdvpf filter --half-life`: in symbols, or in a time span."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

import mdvpf
from mdvpf.cli import main
from mdvpf.cli.live_options import read_half_life

pytest.importorskip("typer")

EVENTS = [(i * i % 3, 1e9 + 40.0 * i) for i in range(30)]
FORMAT = ["--format", "csv", "--column", "page", "--time", "at", "--time-unit", "s"]
MODEL = ["--symbols", "3", "--method", "VPA", "-K", "10"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, None),
        ("20", 20.0),
        ("30s", timedelta(seconds=30)),
        ("1.5m", timedelta(seconds=90)),
        ("6h", timedelta(hours=6)),
        ("2d", timedelta(days=2)),
    ],
)
def test_what_is_read(text: str | None, expected: float | timedelta | None) -> None:
    found = read_half_life(text)
    assert found == expected
    assert type(found) is type(expected)


def test_counts_fade_by_the_times_of_events(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, kept = tmp_path / "stream", tmp_path / "kept"
    rows = [f"{time},{symbol}\n" for symbol, time in EVENTS]
    found: list[float] = []
    for n, half_life in ((15, "2m"), (30, "120s")):  # the same span, so the run goes on
        source.write_text("at,page\n" + "".join(rows[:n]))
        given = ["filter", str(source), *MODEL, *FORMAT, "--half-life", half_life]
        assert main([*given, "--checkpoint", str(kept), "--resume"]) == 0
        printed = capsys.readouterr().out
        found += [json.loads(line)["log_predictive"] for line in printed.splitlines()]
    model = mdvpf.InfiniteHMM(n_symbols=3, half_life=timedelta(minutes=2))
    pf = mdvpf.ParticleFilter(model, mdvpf.VPA(), n_particles=10)
    expected = pf.run([symbol for symbol, _ in EVENTS], times=[time for _, time in EVENTS])
    assert found == expected.log_predictive.tolist()
    given = ["filter", str(source), *MODEL, *FORMAT, "--half-life", "3m"]
    assert main([*given, "--checkpoint", str(kept), "--resume"]) == 2
    assert "the checkpoint has" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("half_life", "message"),
    [
        ("6 h", "half_life='6 h': expected a number of symbols, or a time span such as 30s"),
        ("1w", "half_life='1w': expected"),
        ("-1s", "half_life='-1s': expected"),
        ("9" * 30 + "d", "expected a number of symbols, or a time span"),
        ("0s", "expected a positive time span"),
        ("2m", "half_life='0:02:00': a time span needs events with times; expected --time"),
    ],
)
def test_what_is_refused(
    half_life: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "stream"
    source.write_text("0\n")
    assert main(["filter", str(source), *MODEL, f"--half-life={half_life}"]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("method", ["auto", "Markov 1"])
def test_a_method_without_a_half_life_names_the_time_span(
    method: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "events.csv"
    path.write_text("page,at\n0,1\n")
    options = ["--symbols", "3", "--method", method, "--half-life", "6h"]
    assert main(["filter", str(path), *FORMAT, *options]) == 2
    assert "half_life='6:00:00': " in capsys.readouterr().err
