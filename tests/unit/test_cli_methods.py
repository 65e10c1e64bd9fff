"""`--method` and the settings of methods on `mdvpf filter` and `mdvpf detect`."""

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
from mdvpf.cli.inspect import _counts
from mdvpf.streams.monitor import Monitor

pytest.importorskip("typer")

Run = Callable[..., tuple[int, list[dict[str, Any]], str]]
SYMBOLS = [int(x) for x in np.cumsum(np.random.default_rng(3).integers(1, 3, 50)) % 4]
TEXT = "".join(f"{symbol}\n" for symbol in SYMBOLS)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `mdvpf filter`; return the exit code, the printed objects and standard error."""

    def run_filter(text: str, *arguments: str) -> tuple[int, list[dict[str, Any]], str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        code = main(["filter", *arguments])
        printed = capsys.readouterr()
        return code, [json.loads(line) for line in printed.out.splitlines()], printed.err

    return run_filter


def filter_of(algorithm: mdvpf.algorithms.Algorithm, **model: Any) -> mdvpf.ParticleFilter:
    return mdvpf.ParticleFilter(mdvpf.InfiniteHMM(4, **model), algorithm, 30, rng=5)


CASES: list[tuple[list[str], mdvpf.Predictor]] = [
    (["--method", "markov1"], mdvpf.Markov(4, order=1)),
    (["--method", "Markov 0", "--beta", "0.2"], mdvpf.Markov(4, order=0, beta=0.2)),
    (["--method", "contexttree-2"], mdvpf.ContextTree(4, depth=2)),
    (["--method", "MDVPA", "-K", "30"], filter_of(mdvpf.MDVPA())),
    (["--algorithm", "md-vpa", "-K", "30"], filter_of(mdvpf.MDVPA())),
    (["--method", "smc", "-K", "30", "--seed", "5"], filter_of(mdvpf.SMC())),
    (
        ["--method", "MD-VPA", "-K", "30", "--discount", "1/sqrt(n)", "--normalizer", "none"],
        filter_of(mdvpf.MDVPA(discount="1/sqrt(n)", normalizer="none")),
    ),
    (
        ["--method", "MD-VPA", "-K", "30", "--selection", "optimal", "--seed", "5"],
        filter_of(mdvpf.MDVPA(selection="optimal")),
    ),
    (
        ["--method", "VPA", "-K", "30", "--no-carry-weights", "--oracle", "any"],
        filter_of(mdvpf.VPA(carry_weights=False), oracle="any"),
    ),
    (
        ["--method", "VPA", "-K", "30", "--carry-weights", "--max-states", "2"],
        filter_of(mdvpf.VPA(), max_states=2),
    ),
]
EXTENDED: list[tuple[list[str], mdvpf.Predictor]] = [
    (
        ["--method", "VPA", "-K", "30", "--oracle", "rows", "--forget", "1.5"],
        filter_of(mdvpf.VPA(), oracle="rows", forget=1.5),
    ),
    (
        ["--method", "MD-VPA", "-K", "30", "--machine", "mealy", "--half-life", "20"],
        filter_of(mdvpf.MDVPA(), machine="mealy", half_life=20.0),
    ),
    (
        ["--method", "SMC", "-K", "30", "--kappa", "0.5", "--seed", "5"],
        filter_of(mdvpf.SMC(), kappa=0.5),
    ),
]
IDS = [" ".join(arguments) for arguments, _ in CASES]


@pytest.mark.parametrize(
    ("arguments", "predictor"), CASES + EXTENDED, ids=IDS + [str(case[0]) for case in EXTENDED]
)
def test_filter_is_the_predictor_of_python(
    arguments: list[str], predictor: mdvpf.Predictor, run: Run
) -> None:
    code, reports, complaint = run(TEXT, "--symbols", "4", *arguments)
    assert (code, complaint) == (0, "")
    expected = predictor.copy().run(SYMBOLS).log_predictive
    assert [report["log_predictive"] for report in reports] == expected.tolist()


@pytest.mark.parametrize(
    ("arguments", "predictor"), [case for case in CASES + EXTENDED if case[0][0] == "--method"]
)
def test_detect_is_the_predictor_of_python(
    arguments: list[str],
    predictor: mdvpf.Predictor,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "stream"
    file.write_text("0\n1\n2\n3\n\n" + TEXT)  # so that labels are numbered as they are
    assert main(["detect", str(file), "--false-alarms", "0.5", *arguments]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    fresh = predictor.copy()
    detector = mdvpf.SurpriseDetector(fresh, false_alarms=0.5)
    levels = {}
    for part, first in (([0, 1, 2, 3], 1), (SYMBOLS, 5)):
        detector.new_sequence()
        levels |= {first + i: detector.update(y).level for i, y in enumerate(part)}
    assert found
    for judgement in found:
        assert judgement["level"] == pytest.approx(levels[judgement["symbols"][0]], rel=1e-12)


@pytest.mark.parametrize(("arguments", "predictor"), CASES, ids=IDS)
def test_resuming_with_the_same_options_continues(
    arguments: list[str], predictor: mdvpf.Predictor, run: Run, tmp_path: Path
) -> None:
    options = ["--symbols", "4", *arguments, "--checkpoint", str(tmp_path / "kept"), "--resume"]
    half = "".join(TEXT.splitlines(keepends=True)[:25])
    code, first, _ = run(half, *options)
    assert code == 0
    code, second, _ = run(TEXT.removeprefix(half), *options)
    assert code == 0
    expected = predictor.copy().run(SYMBOLS).log_predictive
    assert [report["log_predictive"] for report in first + second] == expected.tolist()
    assert main(["inspect", str(tmp_path / "kept")]) == 0


@pytest.mark.parametrize(
    ("begun", "same", "other"),
    [
        (
            ["--method", "Markov 1", "--beta", "0.2"],
            [["--method", "markov1"], ["--algorithm", "Markov 1"], ["--beta", "0.2"], []],
            {
                "method='Markov 2': the checkpoint has 'Markov 1'": ["--method", "Markov 2"],
                "method='MD-VPA': the checkpoint has 'Markov 1'": ["--method", "MD-VPA"],
                "algorithm='auto': the checkpoint has 'Markov 1'": ["--algorithm", "auto"],
                "beta=0.3: the checkpoint has 0.2": ["--beta", "0.3"],
                "particles=5: the checkpoint has None": ["-K", "5"],
                "oracle='any': the checkpoint has None": ["--oracle", "any"],
            },
        ),
        (
            ["--method", "ContextTree 3"],
            [["--method", "context tree 3"], ["--beta", "0.5"]],
            {
                "method='ContextTree 2': the checkpoint has 'ContextTree 3'": [
                    "--method",
                    "ContextTree 2",
                ],
                "beta=0.1: the checkpoint has 0.5": ["--beta", "0.1"],
            },
        ),
        (
            ["--method", "MD-VPA", "-K", "9", "--discount", "0.5", "--no-carry-weights"],
            [
                ["--method", "mdvpa"],
                ["--discount", ".5"],
                ["--no-carry-weights"],
                ["--normalizer", "geometric"],
                ["--oracle", "unvisited"],
            ],
            {
                "discount='1/n': the checkpoint has 0.5": ["--discount", "1/n"],
                "carry_weights=True: the checkpoint has False": ["--carry-weights"],
                "normalizer='sum': the checkpoint has 'geometric'": ["--normalizer", "sum"],
                "selection='optimal': the checkpoint has 'top'": ["--selection", "optimal"],
                "oracle='any': the checkpoint has 'unvisited'": ["--oracle", "any"],
                "max_states=3: the checkpoint has None": ["--max-states", "3"],
                "method='VPA': the checkpoint has MDVPA(discount=0.5": ["--method", "VPA"],
                "algorithm='VPA': the checkpoint has MDVPA(": ["--algorithm", "VPA"],
            },
        ),
        (
            ["--method", "SMC", "-K", "9"],
            [["--method", "smc"]],
            {"discount=1.0: the checkpoint has None": ["--discount", "1"]},
        ),
    ],
)
def test_options_are_compared_with_the_checkpoint(
    begun: list[str], same: list[list[str]], other: dict[str, list[str]], run: Run, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    options = ["--checkpoint", str(kept), "--resume"]
    assert run("0\n1\n", "--symbols", "4", *begun, *options)[0] == 0
    for arguments in same:
        assert run("2\n", *options, *arguments)[0] == 0
    before = kept.read_bytes()
    for message, arguments in other.items():
        code, reports, complaint = run("0\n", *options, *arguments)
        assert (code, reports) == (2, [])
        assert message in complaint
    assert kept.read_bytes() == before


def test_an_unnamed_filter_is_shown_by_its_settings(run: Run, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    pf = filter_of(mdvpf.SMC(resampling="systematic"))
    Monitor(pf).save(kept)
    options = ["--checkpoint", str(kept), "--resume"]
    code, _, complaint = run("0\n", *options, "--method", "SMC")
    assert code == 2
    assert "method='SMC': the checkpoint has SMC(resampling='systematic'" in complaint
    assert run("0\n", *options)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "magic"], "method='magic': expected one of auto, SMC, VPA, MD-VPA"),
        (["--algorithm", "magic"], "algorithm='magic': expected one of auto"),
        (["--method", "VPA", "--algorithm", "SMC"], "expected only --method"),
        (["--method", "SMC", "--normalizer", "sum"], "normalizer='sum': SMC has none"),
        (["--method", "VPA", "--discount", "1"], "discount=1.0: VPA has none"),
        (["--method", "Markov 1", "--max-states", "2"], "max_states=2: Markov 1 has none"),
        (["--method", "Markov 1", "-K", "9"], "particles=9: Markov 1 has none"),
        (["--no-carry-weights"], "carry_weights=False: auto chooses the settings of its filters"),
        (["--method", "MD-VPA", "--normalizer", "x"], "normalizer='x': expected one of"),
        (["--method", "MD-VPA", "--selection", "x"], "selection='x': expected one of"),
        (["--method", "MD-VPA", "--oracle", "x"], "oracle='x': expected one of"),
        (["--method", "MD-VPA", "--discount", "n"], "discount='n': expected 1/n, 1/sqrt(n), or a"),
        (["--method", "MD-VPA", "--discount", "-1"], "discount=-1.0: expected a number in 0"),
        (["--method", "MD-VPA", "--discount", "nan"], "discount=nan: expected a number in 0"),
        (["--method", "MD-VPA", "--max-states", "0"], "max_states=0: expected an integer in 1"),
        (["--method", "MD-VPA", "--machine", "x"], "machine='x': expected one of 'moore'"),
        (["--method", "MD-VPA", "--kappa", "-1"], "kappa=-1.0: expected a number in 0"),
        (["--method", "MD-VPA", "--forget", "nan"], "forget=nan: expected a number in 0"),
        (["--method", "VPA", "--half-life", "0"], "half_life=0.0: expected a number in"),
        (["--method", "VPA", "--half-life", "2", "--forget", "1"], "half_life=2.0: expected None"),
        (["--method", "Markov 1", "--forget", "1"], "forget=1.0: Markov 1 has none"),
        (["--machine", "mealy"], "machine='mealy': auto chooses the settings of its filters"),
    ],
)
def test_a_wrong_command_line(
    arguments: list[str],
    message: str,
    run: Run,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, reports, complaint = run("0\n", "--symbols", "4", *arguments)
    assert (code, reports) == (2, [])
    assert message in complaint
    assert len(complaint.splitlines()) == 1
    if "--algorithm" not in arguments:
        file = tmp_path / "stream"
        file.write_text(TEXT)
        assert main(["detect", str(file), *arguments]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize("command", ["filter", "detect", "evaluate", "compare", "reproduce"])
def test_the_help_has_one_spelling(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")  # so that no option is cut in two
    assert main([command, "--help"]) == 0
    text = capsys.readouterr().out
    for option in ("--method", "--particles", "--discount", "--normalizer", "--oracle"):
        assert option in text
    for option in ("--no-carry-weights", "--selection", "--max-states", "--alpha", "--beta"):
        assert option in text
    for option in ("--machine", "--kappa", "--forget", "--half-life"):
        assert option in text
    assert "--methods" not in text
    assert "--algorithm" not in text


def test_the_tables_of_inspect_have_counts_that_fade_and_those_of_a_mealy_machine() -> None:
    pf = filter_of(mdvpf.VPA(), machine="mealy", forget=1.0)
    pf.run(SYMBOLS)
    transition, emission = _counts(pf, top=12)
    counts = pf.counts()
    moves = np.vstack([counts.start, counts.transition.sum(axis=1)])
    for table, expected in ((transition, moves), (emission, counts.emission)):
        found = [[float(cell) for cell in row[1:]] for row in table.rows]
        np.testing.assert_allclose(found, expected, rtol=0.0, atol=0.005001)
