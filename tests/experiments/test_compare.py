"""`mdvpf compare` on a user's own stream, in three kinds of files."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from mdvpf.cli import main
from mdvpf.streams.readers import read_file

WORDS = [["b", "a", "c"], ["a", "a"], ["c"]]
SYMBOLS = [1, 0, 2, 0, 0, 2]
LENGTHS = [3, 2, 1]


def test_one_symbol_a_line(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("\nb\na\nc\n\n  \na\na\n\nc", encoding="utf-8")
    data = read_file(file)
    assert data.symbols.tolist() == SYMBOLS
    assert data.lengths is not None
    assert data.lengths.tolist() == LENGTHS
    assert data.n_symbols == 3


def test_a_column_is_read_and_another_separates_sequences(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    lines = [f"{user},{word}" for user, words in enumerate(WORDS) for word in words]
    file.write_text("user,page\n" + "\n".join(lines) + "\n", encoding="utf-8-sig")
    data = read_file(file, column="page", breaks="user")
    assert data.symbols.tolist() == SYMBOLS
    assert data.lengths is not None
    assert data.lengths.tolist() == LENGTHS
    assert read_file(file, column="page").lengths is None


def test_characters_of_a_text_are_read_and_empty_lines_separate_sequences(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("bac\n\naa\n\n\nc\n", encoding="utf-8")
    data = read_file(file, text=True)
    assert data.symbols.tolist() == SYMBOLS
    assert data.lengths is not None
    assert data.lengths.tolist() == LENGTHS


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_lines_end_where_lines_do(tmp_path: Path, end: str, encoding: str) -> None:
    words = ["a", "b\u2028c", "d\x0ce", "f\x85g", "a"]
    file = tmp_path / "a.txt"
    file.write_bytes(end.join(words).encode(encoding))
    assert read_file(file).symbols.tolist() == [0, 1, 2, 3, 0]
    characters = read_file(file, text=True)
    assert len(characters.symbols) == len("\n".join(words))
    assert characters.n_symbols == len(set("\n".join(words)))


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        (b"", {}, "0 symbols; expected at least two"),
        (b"a\n", {}, "1 symbol; expected at least two"),
        (b"a\na\n", {}, "all 2 symbols are 'a'; expected at least two different"),
        (b"\xff\xfe\n", {}, "UTF-8"),
        (b"x,y\n1,2\n", {"column": "z"}, "no column 'z'"),
        (b"x,y\n1,2\n", {"column": "x", "breaks": "z"}, "no column 'z'"),
        (b"x,y\n1,2\n,2\n", {"column": "x"}, "row 2: nothing in the field 'x'"),
        (b"x,y\n1,2\n", {"breaks": "x"}, "breaks='x'"),
        (b"x,y\n1,2\n", {"column": "x", "text": True}, "at most one"),
    ],
)
def test_bad_files_are_refused(
    tmp_path: Path, content: bytes, arguments: dict[str, object], message: str
) -> None:
    file = tmp_path / "bad"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_file(file, **arguments)  # type: ignore[arg-type]


def test_the_command_prints_and_writes_the_means_of_its_arrays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("typer")
    file = tmp_path / "commands.txt"
    file.write_text("\n".join(["ls", "cd", "make", "make"] * 30), encoding="utf-8")
    out = tmp_path / "out"
    arguments = ["compare", str(file), "--particles", "10", "--beta", "0.1", "--out", str(out)]
    assert main(arguments) == 0
    printed = capsys.readouterr()
    assert "ContextTree 3" in printed.out
    assert str(out / "compare.png") in printed.out
    assert printed.err == ""  # no terminal, no progress bar
    with (out / "table.csv").open(encoding="utf-8", newline="") as stream:
        table = {row["method"].split(" (")[0]: row for row in csv.DictReader(stream)}
    with np.load(out / "arrays.npz") as arrays:
        smc = arrays["methods/SMC/log_predictive"][0]
    # 20 blocks of 6 symbols: the mean over blocks is the mean over symbols.
    assert float(table["SMC"]["whole"]) == pytest.approx(smc.mean(), abs=1e-12)
    # After ls comes cd, after cd make: a chain of order 2 captures all structure.
    assert float(table["Markov 2"]["whole"]) > float(table["Markov 0"]["whole"])
