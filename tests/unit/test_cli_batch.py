"""`mdvpf batch`: files in, files out, and on from there."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

pytest.importorskip("typer")
pytest.importorskip("pyarrow", reason="needs mdvpf[parquet]")
pytest.importorskip("joblib", reason="needs mdvpf[parallel]")

import pyarrow.parquet as pq

from mdvpf.cli import main


def write(path: Path, n: int, seed: int) -> None:
    rng = random.Random(seed)
    lines = [f"u{rng.randrange(5)},{rng.choice(['news', 'sport'])}" for _ in range(n)]
    path.write_text("\n".join(["user,page", *lines]) + "\n")


def rows(folder: Path) -> list[dict[str, object]]:
    found = [
        row for path in sorted(folder.glob("rows-*")) for row in pq.read_table(path).to_pylist()
    ]
    return sorted(found, key=lambda row: row["row"])


def test_two_days_after_one_another_give_what_both_in_one_file_give(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for day in (1, 2):
        write(tmp_path / f"{day}.csv", 80, seed=day)
    both = tmp_path / "both.csv"
    lines = [(tmp_path / f"{day}.csv").read_text().splitlines() for day in (1, 2)]
    both.write_text("\n".join([*lines[0], *lines[1][1:]]) + "\n")
    columns = ["--column", "page", "--key", "user"]
    method = ["--method", "Markov 1", "--false-alarms", "0.1"]

    def run(*arguments: object) -> int:
        return main(["batch", *map(str, arguments), *columns])

    assert run(both, "--out", tmp_path / "both", *method) == 0
    assert run(tmp_path / "1.csv", "--out", tmp_path / "first", *method, "--partitions", 3) == 0
    assert run(tmp_path / "2.csv", "--out", tmp_path / "second", "--state", tmp_path / "first") == 0
    expected = [row["surprise"] for row in rows(tmp_path / "both")]
    found = [row["surprise"] for day in ("first", "second") for row in rows(tmp_path / day)]
    assert len(found) == 160
    assert found == expected
    assert run(both, "--out", tmp_path / "first", *method) == 1
    assert "another batch" in capsys.readouterr().err
    assert run(both, "--out", tmp_path / "x", "--state", tmp_path / "first", *method) == 2
    assert "not allowed with --state" in capsys.readouterr().err
    assert run(both, "--out", tmp_path / "y", "--state", tmp_path) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--false-incidents", "2/day"], "false_incidents='2/day': expected --time"),
        (["--state", ".", "--false-alarms", "0.1"], "--false-alarms: not allowed with --state"),
    ],
)
def test_bad_options_are_named(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "1.csv", 20, seed=1)
    command = ["batch", str(tmp_path / "1.csv"), "--out", str(tmp_path / "out")]
    assert main([*command, "--column", "page", "--key", "user", *options]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_table_without_rows_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "empty.csv", 0, seed=1)
    command = ["batch", str(tmp_path / "empty.csv"), "--out", str(tmp_path / "out")]
    assert main([*command, "--column", "page", "--key", "user"]) == 2
    assert "empty.csv: no symbols" in " ".join(capsys.readouterr().err.split())
