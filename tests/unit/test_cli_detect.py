"""`mdvpf detect`: the same as the detector in Python, and sums that are right."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest

import mdvpf
from mdvpf.cli import main

pytest.importorskip("typer")

N, TRAIN = 900, 330


def stream() -> tuple[list[int], list[int], list[bool]]:
    """Symbols, the sequence of each, and whether it is strange."""
    rng = np.random.default_rng(2)
    strange = [700 <= i < 730 for i in range(N)]
    symbols = [int(rng.integers(3)) if odd else i % 3 for i, odd in enumerate(strange)]
    return symbols, [i // 200 for i in range(N)], strange


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "calls.csv"
    rows = [f"{'abc'[s]},{p},{int(odd)}" for s, p, odd in zip(*stream(), strict=True)]
    path.write_text("\n".join(["call,process,attack", *rows, ""]))
    return path


@pytest.mark.parametrize("block", [None, 10])
def test_the_same_as_in_python(
    block: int | None, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [] if block is None else ["--block", "10", "--learn", "unflagged"]
    options += ["--breaks", "process", "--label", "attack", "--method", "Markov 1", "--beta", "0.2"]
    options += ["--false-alarms", "0.01"]
    assert main(["detect", str(file), "--column", "call", "--train", str(TRAIN), *options]) == 0
    printed = capsys.readouterr()
    found = [json.loads(line) for line in printed.out.splitlines()]

    symbols, _, strange = stream()
    learn = "all" if block is None else "unflagged"
    markov = mdvpf.Markov(3, order=1, beta=0.2)
    detector = mdvpf.SurpriseDetector(markov, block=block, learn=learn)
    alarms, expected = [], []
    for i, symbol in enumerate(symbols):
        if i % 200 == 0:
            detector.new_sequence()
        if i < TRAIN:
            markov.update(symbol)
            continue
        each = detector.update(symbol)
        if np.isnan(each.level):
            continue
        first = i - (block or 1) + 1
        alarms.append((each.alarm, any(strange[first : i + 1])))
        if each.alarm or each.change is not None:
            change = None if each.change is None else each.change + TRAIN + 1
            expected.append(([first + 1, i + 1], each.level, each.alarm, change, alarms[-1][1]))
    assert expected
    assert [
        tuple(f[k] for k in ("symbols", "level", "alarm", "change", "strange")) for f in found
    ] == [(s, pytest.approx(level, rel=1e-12), a, c, o) for s, level, a, c, o in expected]
    hits = sum(alarm for alarm, odd in alarms if odd)
    n_odd = sum(odd for _, odd in alarms)
    assert f"{hits} of {n_odd} " in printed.err
    assert f"{sum(a for a, odd in alarms if not odd)} of {len(alarms) - n_odd} " in printed.err


def test_the_default_mixture_judges_unless_told_otherwise(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--column", "call", "-K", "84", "--seed", "4", "--block", "10"]
    assert main(["detect", str(file), *options, "--false-alarms", "0.3"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    detector = mdvpf.SurpriseDetector(mdvpf.auto(3, 84, rng=4), block=10, false_alarms=0.3)
    detector.new_sequence()
    result = detector.run(stream()[0])
    named = np.flatnonzero(result.alarm | (result.change >= 0))
    assert len(named)
    assert [each["symbols"][1] - 1 for each in found] == named.tolist()
    assert [each["level"] for each in found] == result.level[named].tolist()


@pytest.mark.parametrize("beta", [None, 0.02])
def test_a_context_tree_takes_beta(
    beta: float | None, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--column", "call", "--method", "ContextTree 2", "--false-alarms", "0.3"]
    options += [] if beta is None else ["--beta", str(beta)]
    assert main(["detect", str(file), *options]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    tree = mdvpf.ContextTree(3, depth=2, **({} if beta is None else {"beta": beta}))
    detector = mdvpf.SurpriseDetector(tree, false_alarms=0.3)
    detector.new_sequence()
    result = detector.run(stream()[0])
    named = np.flatnonzero(result.alarm | (result.change >= 0))
    assert len(named)
    assert [each["level"] for each in found] == result.level[named].tolist()


def test_an_unlabelled_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "stream"
    path.write_text("\n".join("abc"[s] for s in stream()[0]))
    assert main(["detect", str(path), "-K", "20", "--smoothing", "5", "--method", "MD-VPA"]) == 0
    printed = capsys.readouterr()
    assert "hits" not in printed.err
    assert re.search(r"judgements\W+900", printed.err)
    changes = [json.loads(line)["change"] for line in printed.out.splitlines()]
    assert any(change is not None and 695 < change < 735 for change in changes)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--label", "attack"], 2, "label='attack'"),
        (["--column", "call", "--label", "nothing"], 1, "no column 'nothing'"),
        (["--column", "call", "--label", "call"], 1, "row 1 has 'a' in column 'call'"),
        (["--column", "call", "--train", "900"], 2, "train=900"),
        (["--column", "call", "--method", "generator"], 2, "method='generator'"),
        (["--column", "call", "--learn", "none", "--false-alarms", "0.1"], 2, "learn='none'"),
        (["--column", "call", "--gamma", "2"], 2, "gamma=2.0: auto chooses the settings"),
        (
            ["--column", "call", "--method", "Markov 1", "--alpha", "2"],
            2,
            "alpha=2.0: Markov 1 has",
        ),
        (["--column", "call", "--method", "ContextTree 2", "-K", "9"], 2, "particles=9: ContextT"),
    ],
)
def test_what_makes_no_sense(
    options: list[str], code: int, message: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["detect", str(file), *options]) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err


def test_an_interrupt_promises_nothing_that_cannot_be_resumed(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mdvpf.cli.detect_input.read_file", interrupted)
    assert main(["detect", str(file)]) == 130
    assert capsys.readouterr().err == "mdvpf: interrupted\n"
    monkeypatch.setattr("mdvpf.cli.compare.read_file", interrupted)
    assert main(["compare", str(file)]) == 130
    assert "interrupted; pass --resume to continue" in capsys.readouterr().err


@pytest.mark.parametrize("attack", [True, False])
def test_the_area_under_the_curve_counts_pairs(
    attack: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    symbols, _, strange = stream()
    path = tmp_path / "calls.csv"
    rows = [f"{s},{int(odd and attack)}" for s, odd in zip(symbols, strange, strict=True)]
    path.write_text("\n".join(["call,attack", *rows]))
    options = ["--column", "call", "--label", "attack", "--method", "Markov 1"]
    options += ["--false-alarms", "0.01"]
    assert main(["detect", str(path), *options]) == 0
    found = re.search(
        r"area under the curve of the levels\W+(nan|0\.\d{3})", capsys.readouterr().err
    )
    assert found is not None
    if not attack:
        assert found[1] == "nan"
        return
    detector = mdvpf.SurpriseDetector(mdvpf.Markov(3, order=1))
    detector.new_sequence()
    levels, odd = detector.run(symbols).level, np.array(strange)
    pairs = itertools.product(levels[odd], levels[~odd])
    expected = np.mean([(a > b) + 0.5 * (a == b) for a, b in pairs])
    assert float(found[1]) == pytest.approx(expected, abs=0.00051)
