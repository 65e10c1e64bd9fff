"""Files as the commands read them: formats, keys, and files that contradict the options."""

from __future__ import annotations

import gzip
import json
import os
import re
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdvpf
from mdvpf.cli import main
from mdvpf.streams.readers import FileStream, read_file, read_files


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


# --- Python


def test_keys_times_and_fields(tmp_path: Path) -> None:
    lines = [("ann", "b", 1, 0), ("bob", "a", 2, 1), ("ann", "c", 3, 0)]
    content = "".join(
        json.dumps({"user": {"name": user}, "s": s, "at": at, "odd": odd}) + "\n"
        for user, s, at, odd in lines
    )
    path = write(tmp_path / "log.jsonl", content)
    data = read_file(
        path, column="s", key=["user.name"], time="at", time_unit="s", pass_fields=["odd"]
    )
    assert data.symbols.tolist() == [1, 0, 2]
    assert data.labels == ("a", "b", "c")
    assert data.keys == ["ann", "bob", "ann"]
    assert data.lengths is None
    assert data.times is not None
    assert data.times.tolist() == [1.0, 2.0, 3.0]
    assert data.fields == {"odd": [0, 1, 0]}


def test_keys_one_after_the_other() -> None:
    stream = FileStream(
        "x",
        np.ma.masked_equal([0, 1, -1, 3], -1),
        tuple("abcd"),
        None,
        ["k", 7, 7, "k"],
        np.arange(4.0),
        {"f": list("wxyz")},
    )
    found = stream.grouped()
    assert found.symbols.tolist() == [0, 3, 1, None]
    assert found.lengths is not None
    assert found.lengths.tolist() == [2, 2]
    assert found.keys is None
    assert found.times is not None
    assert found.times.tolist() == [0.0, 3.0, 1.0, 2.0]
    assert found.fields == {"f": list("wzxy")}
    assert found.grouped() is found
    assert stream.is_interleaved
    assert not found.is_interleaved


def test_cases_that_are_not_interleaved_are_sequences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("typer")
    rng = np.random.default_rng(7)
    rows = [(i // 10, "abc"[rng.integers(3)]) for i in range(200)]
    path = write(tmp_path / "log.csv", "k,s\n" + "".join(f"{k},{s}\n" for k, s in rows))
    printed = []
    for option in ("--key", "--breaks"):
        options = ["--column", "s", option, "k", "--method", "Markov 1", "--false-alarms", "0.3"]
        assert main(["detect", str(path), *options]) == 0
        printed.append([json.loads(line) for line in capsys.readouterr().out.splitlines()])
    assert printed[0]
    for keyed, broken in zip(*printed, strict=True):
        assert keyed.pop("key") == str((keyed["symbols"][1] - 1) // 10)
        assert keyed == broken


def test_numbers_and_texts_are_different_symbols(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"s": 1}\n{"s": "1"}\n{"s": null}\n{"s": 0.5}\n')
    data = read_file(path, column="s")
    assert data.labels == ("0.5", 1, "1")
    assert data.symbols.tolist() == [1, 2, None, 0]


def test_files_of_different_formats_share_an_alphabet(tmp_path: Path) -> None:
    train = write(tmp_path / "train.csv", "s\nb\nc\n")
    test = write(tmp_path / "test.jsonl.gz", gzip.compress(b'{"s": "a"}\n{"s": "c"}\n'))
    streams = read_files([train, test], column="s")
    assert [stream.symbols.tolist() for stream in streams] == [[1, 2], [0, 2]]


def test_compressed_files_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", gzip.compress(b"ab\n\nba\n"))
    assert read_file(path).symbols.tolist() == [0, 1]
    assert read_file(path, text=True).symbols.tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_table_is_not_read_as_lines(delimiter: str, packed: bool, tmp_path: Path) -> None:
    rows = [["user", "page"], ["ann", f'"a{delimiter}b"'], ["bob", "c"]]
    content = "\ufeff" + "\r\n".join(delimiter.join(row) for row in rows)
    data = content.encode()
    path = write(tmp_path / "log", gzip.compress(data) if packed else data)
    with pytest.raises(ValueError, match=r"log: every line has 2 cells; expected --column"):
        read_file(path)
    assert read_file(path, format="lines").n_symbols == 3
    name = "tsv" if delimiter == "\t" else "csv"
    options = {"delimiter": ";"} if delimiter == ";" else {}
    assert read_file(path, format=name, column="page", **options).labels == (f"a{delimiter}b", "c")


def test_the_name_of_a_table_is_enough_to_ask_for_a_column(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", "page\nnews\nsport\n")
    with pytest.raises(ValueError, match=r"log\.csv: column is not given; expected --column"):
        read_file(path)
    assert read_file(path, format="lines").n_symbols == 3


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this platform")
def test_nothing_is_lost_from_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text("a\nb\na\n"))
    writer.start()
    assert read_file(pipe).symbols.tolist() == [0, 1, 0]
    writer.join()


@pytest.mark.parametrize(
    ("content", "option"),
    [
        ('{"page": 1}\n\n{"page": 2}\n', "--format json"),
        ('<?xml version="1.0"?>\n<log></log>\n', "--format xes"),
        (b"PAR1\x15\x04\x15", "--format parquet"),
    ],
)
def test_other_formats_are_not_read_as_lines(
    content: str | bytes, option: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "log", content)
    with pytest.raises(ValueError, match=f"log: .*{option}"):
        read_file(path)


@pytest.mark.parametrize(
    "content",
    [
        "a,b\nc\n",  # not every line has a comma
        "a,b\nc,d,e\n",  # not the same number of cells
        "a,b\n",  # one line says nothing
        '{"a": 1}\nb\n',
        "{a\n{b\n",
        "{" * 5000 + "\n" + "b\n",
        "a b\nc d\n",
    ],
)
def test_lines_that_only_resemble_something_else_are_lines(content: str, tmp_path: Path) -> None:
    lines = [line for line in content.split("\n") if line]
    path = write(tmp_path / "log", content + "x\ny z\n" * (len(lines) == 1))
    assert read_file(path).n_symbols == len(lines) + 2 * (len(lines) == 1)


def test_values_of_breaks_that_come_back_get_a_warning(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", "case,s\n1,a\n2,b\n1,b\n2,a\n")
    with pytest.warns(UserWarning, match=r"log\.csv: '1' in 'case' comes back.*--key case"):
        data = read_file(path, column="s", breaks="case")
    assert data.lengths is not None
    assert data.lengths.tolist() == [1, 1, 1, 1]
    grouped = write(tmp_path / "grouped.csv", "case,s\n1,a\n1,b\n2,b\n2,a\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = read_file(grouped, column="s", breaks="case")
    assert data.lengths is not None
    assert data.lengths.tolist() == [2, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"column": "s", "breaks": "k", "key": "k"}, "breaks='k', key='k': expected at most one"),
        ({"text": True, "key": "k"}, "text=True, key='k': expected at most one"),
        ({"text": True, "format": "csv"}, "text=True, format='csv'"),
        ({"format": "lines", "key": "k"}, "key='k': the format 'lines' has no such option"),
        ({"format": "lines", "column": "s"}, "column='s': the format 'lines' has no"),
        ({"format": "xml"}, "format='xml'"),
        ({"column": "s", "breaks": "z"}, "no column 'z'"),
        ({"column": "s", "by_time": True}, "by_time=True"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "log", "k,s\n1,a\n2,b\n")
    with pytest.raises(ValueError, match=re.escape(message)):
        read_file(path, **options)


# --- The commands


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Two processes that alternate, one counting upwards and one downwards."""
    pytest.importorskip("typer")
    rows = [(i % 2, (i // 2) % 4 if i % 2 else -(i // 2) % 4) for i in range(200)]
    lines = [
        json.dumps({"process": {"id": process}, "call": f"c{call}", "at": 1000 * i})
        for i, (process, call) in enumerate(rows)
    ]
    return write(tmp_path / "calls.jsonl", "\n".join(lines))


def test_evaluate_scores_every_key_as_a_sequence(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--column", "call", "--key", "process.id", "--method", "Markov 2", "--json"]
    assert main(["evaluate", str(log), str(log), *options]) == 0
    found = json.loads(capsys.readouterr().out)
    down = [-i % 4 for i in range(100)]
    up = [i % 4 for i in range(100)]
    # For a frozen chain, the order of training makes no difference.
    expected = mdvpf.evaluate(mdvpf.Markov(4, order=2), [down, up], [down, up])
    assert found["n_sequences"] == 2
    assert found["nats"] == pytest.approx(expected.nats, rel=1e-12)


def test_evaluate_reads_a_log_of_cases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("typer")
    case = "".join(f'<event><string key="concept:name" value="{a}"/></event>' for a in "abc")
    content = "<log>" + f"<trace>{case}</trace>" * 10 + "</log>"
    path = write(tmp_path / "log.xes", gzip.compress(content.encode()))
    assert main(["evaluate", str(path), str(path), "--method", "Markov 1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    expected = mdvpf.evaluate(mdvpf.Markov(3, order=1), [[0, 1, 2]] * 10, [[0, 1, 2]] * 10)
    assert found["n_sequences"] == 10
    assert found["nats"] == pytest.approx(expected.nats, rel=1e-12)


def test_missing_symbols_are_not_scored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("typer")
    path = write(tmp_path / "a.txt", "a\nb\n?\na\nb\n")
    options = ["--missing", "?", "--method", "Markov 1"]
    assert main(["evaluate", str(path), str(path), *options, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n_symbols"] == 4
    assert main(["evaluate", str(path), str(path), *options]) == 0
    assert "0 of them only in the test" in capsys.readouterr().out


def test_a_warning_is_a_line_for_the_user(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--column", "call", "--breaks", "process.id", "--method", "Markov 1"]
    assert main(["detect", str(log), *options]) == 0
    printed = capsys.readouterr().err
    assert printed.startswith(f"mdvpf: warning: {log}: 0 in 'process.id' comes back")
    assert "--key process.id" in printed


@pytest.mark.parametrize("command", ["detect", "compare"])
def test_a_table_without_a_column_is_an_error_of_the_command(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("typer")
    path = write(tmp_path / "log", "user,page\nann,a\nbob,b\n")
    assert main([command, str(path)]) == 1
    assert "expected --column" in capsys.readouterr().err


def test_compare_takes_keys(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    options = ["--column", "call", "--key", "process.id", "--method", "Markov 2", "-K", "5"]
    assert main(["compare", str(log), *options, "--out", str(out)]) == 0
    assert "Markov 2" in capsys.readouterr().out


def test_compare_refuses_missing_symbols(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("typer")
    path = write(tmp_path / "a.jsonl", '{"s": 1}\n{"s": null}\n{"s": 2}\n')
    assert main(["compare", str(path), "--column", "s"]) == 1
    assert "some symbols are missing" in capsys.readouterr().err


def test_times_are_in_the_reports(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--column", "call", "--time", "at", "--time-unit", "ms", "--false-alarms", "0.5"]
    assert main(["detect", str(log), *options, "--method", "Markov 0"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert found
    assert all(each["time"] == each["symbols"][1] - 1 for each in found)
    assert all("key" not in each for each in found)


def test_detect_takes_keys(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--column", "call", "--key", "process.id", "--false-alarms", "0.5", "--train", "50"]
    assert main(["detect", str(log), *options, "--method", "Markov 2"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert found
    data = read_file(log, column="call", key="process.id")
    assert data.keys is not None
    markov = mdvpf.Markov(4, order=2)
    detector = mdvpf.SurpriseDetector(markov, false_alarms=0.5)
    markov.run(data.symbols[:50], keys=data.keys[:50])
    result = detector.run(data.symbols[50:], keys=data.keys[50:])
    named = np.flatnonzero(result.alarm | (result.change >= 0))
    assert [each["symbols"][1] - 51 for each in found] == named.tolist()
    assert [each["level"] for each in found] == result.level[named].tolist()
    assert [each["key"] for each in found] == [data.keys[50 + i] for i in named]
