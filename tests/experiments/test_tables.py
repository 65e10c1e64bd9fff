"""One table, three printers: all print the same contents."""

from __future__ import annotations

import csv
import io
import math
import statistics
from pathlib import Path

import pytest

from mdvpf._support.tables import Column, Estimate, Table

TABLE = Table(
    "scores",
    "Scores",
    (
        Column("method"),
        Column("score"),
        Column("total", ".1f", show_error=False),
        Column("time (s)", ".2f", volatile=True),
    ),
    (
        ("VPA", Estimate(-1.23456789, 0.1), Estimate(10.0, 2.0), 0.125),
        ("SMC, K = 1,000", None, Estimate(1 / 3, math.nan), math.nan),
    ),
    ("A note.",),
)


def test_an_estimate_is_a_mean_with_its_standard_error() -> None:
    values = [0.5, -1.25, 3.0, 7.5, 2.0]
    estimate = Estimate.of(values)
    assert estimate.mean == pytest.approx(statistics.fmean(values), rel=1e-15)
    error = statistics.stdev(values) / math.sqrt(len(values))
    assert estimate.error == pytest.approx(error, rel=1e-14)


def test_one_value_has_no_standard_error() -> None:
    assert Estimate.of([2.0]).mean == 2.0
    assert math.isnan(Estimate.of([2.0]).error)


def test_csv_keeps_every_digit_and_leaves_times_out() -> None:
    rows = list(csv.reader(io.StringIO(TABLE.csv())))
    assert rows[0] == [
        "method",
        "score",
        "score: standard error",
        "total",
        "total: standard error",
    ]
    assert float(rows[1][1]) == -1.23456789
    assert rows[1][3:] == ["10.0", "2.0"]
    assert rows[2][0] == "SMC, K = 1,000"
    assert rows[2][1:3] == ["", ""]
    assert float(rows[2][3]) == 1 / 3
    assert rows[2][4] == ""


def test_times_are_in_a_table_of_their_own() -> None:
    rows = list(csv.reader(io.StringIO(TABLE.csv(volatile=True))))
    assert rows == [["method", "time (s)"], ["VPA", "0.125"], ["SMC, K = 1,000", ""]]


def test_markdown_is_rounded() -> None:
    lines = TABLE.markdown().splitlines()
    assert lines[2] == "| method | score | total |"
    assert lines[4] == "| VPA | -1.235 ± 0.100 | 10.0 |"
    assert lines[5] == "| SMC, K = 1,000 |  | 0.3 |"
    assert lines[-1] == "A note."


def test_the_terminal_shows_all_columns() -> None:
    console = pytest.importorskip("rich.console").Console(file=io.StringIO(), width=120)
    console.print(TABLE.rich())
    text = console.file.getvalue()
    for expected in ("Scores", "time (s)", "-1.235 ± 0.100", "0.12", "A note."):
        assert expected in text


def test_the_terminal_takes_brackets_as_they_are() -> None:
    console = pytest.importorskip("rich.console").Console(file=io.StringIO(), width=120)
    columns = (Column("[b]name"), Column("[/x]"))
    console.print(Table("t", "of a[red].txt", columns, (("[/]", "[i]"),), ("[u]note",)).rich())
    text = console.file.getvalue()
    for expected in ("of a[red].txt", "[b]name", "[/x]", "[/]", "[i]", "[u]note"):
        assert expected in text


def test_the_costs_get_files_of_their_own(tmp_path: Path) -> None:
    TABLE.write(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "scores.csv",
        "scores.md",
        "scores-costs.csv",
        "scores-costs.md",
    }
    assert (tmp_path / "scores.csv").read_text(encoding="utf-8") == TABLE.csv()
