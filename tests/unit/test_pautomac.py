"""PAutomaC: strings include their ends, and the automaton is that of the solution."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdvpf
from mdvpf import datasets
from mdvpf.experiments.pautomac import PROBLEMS
from tests.pautomac_files import model_text, strings_text, two_states, write_problem

SMALL = two_states(4)
TRAIN = [[0, 3], [], [1, 1, 0], [0]]
TEST = [[], [0], [1, 0], [0, 3], [0, 0, 0]]
END = 4


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_problem(tmp_path, 5, SMALL, TRAIN, TEST)
    return tmp_path


@pytest.mark.parametrize("packed", [False, True])
def test_strings_have_the_end_symbol(packed: bool, tmp_path: Path) -> None:
    write_problem(tmp_path, 5, SMALL, TRAIN, TEST, packed)
    problem = datasets.pautomac(5, tmp_path)
    assert [string.tolist() for string in problem.train] == [[*x, END] for x in TRAIN]
    assert [string.tolist() for string in problem.test] == [[*x, END] for x in TEST]
    assert (problem.number, problem.n_symbols, problem.end) == (5, 5, END)


def test_the_folder_of_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = folder / "root"
    write_problem(root / "pautomac", 7, SMALL, TRAIN, TEST)
    monkeypatch.setenv("MDVPF_DATA", str(root))
    assert datasets.pautomac(7).number == 7
    with pytest.raises(FileNotFoundError, match=r"no file 5\.pautomac\.train .*FlexFringe"):
        datasets.pautomac(5)
    monkeypatch.delenv("MDVPF_DATA")
    with pytest.raises(FileNotFoundError, match=r"academic research.*MDVPF_DATA names \(not set\)"):
        datasets.pautomac(7)


def test_probabilities_of_strings_are_sums_over_paths(folder: Path) -> None:
    problem = datasets.pautomac(5, folder)
    true = np.array([SMALL.probability(string) for string in TEST])
    found = problem.automaton.log_probabilities(problem.test)
    np.testing.assert_allclose(np.exp(found), true, rtol=1e-12)
    np.testing.assert_allclose(problem.solution, true / true.sum(), rtol=1e-12)
    assert problem.automaton.log_probabilities([[2, END]])[0] == -math.inf  # never emitted
    with pytest.raises(ValueError, match=r"strings\[0\]=\[0\]: expected the end symbol 4 last"):
        problem.automaton.log_probabilities([[0]])


def test_the_hmm_of_an_automaton_has_its_strings(folder: Path) -> None:
    problem = datasets.pautomac(5, folder)
    hmm = problem.automaton.to_hmm()
    known = mdvpf.KnownHMM(hmm)
    lengths = [len(string) for string in problem.test]
    logs = known.score(np.concatenate(problem.test), lengths)
    found = np.add.reduceat(logs, np.cumsum(lengths) - lengths)
    true = [math.log(SMALL.probability(string)) for string in TEST]
    np.testing.assert_allclose(found, true, rtol=1e-12)
    # After an end another string starts without a call of `new_sequence`.
    np.testing.assert_allclose(known.score(np.concatenate(problem.test)), logs, rtol=1e-12)
    prefix = known.score([0, 3, 0])
    assert prefix.sum() == pytest.approx(math.log(SMALL.prefix_probability([0, 3, 0])), rel=1e-12)


def test_the_score_by_hand(folder: Path) -> None:
    problem = datasets.pautomac(5, folder)
    p = problem.solution
    q = np.array([0.1, 0.2, 0.3, 0.2, 0.1])
    cross = -sum(a * math.log2(b / 0.9) for a, b in zip(p, q, strict=True))
    entropy = -sum(a * math.log2(a) for a in p)
    score = problem.score(np.log(q) - 700.0)  # any constant
    assert score.perplexity == pytest.approx(2**cross, rel=1e-12)
    assert score.floor == pytest.approx(2**entropy, rel=1e-12)
    assert score.gap == pytest.approx(2**cross - 2**entropy, rel=1e-12)
    assert score.bits == pytest.approx(cross - entropy, rel=1e-12)
    assert problem.floor == pytest.approx(2**entropy, rel=1e-12)
    assert problem.score(np.log(p)).gap == pytest.approx(0.0, abs=1e-12)
    assert problem.score([-1e6, 0, 0, 0, 0]).perplexity == math.inf


@pytest.mark.parametrize(
    ("solution", "logs", "message"),
    [
        ([0.5, 0.5], [0.0], "log_probabilities of shape"),
        ([0.5, 0.5], [0.0, -math.inf], "log_probabilities with infinite"),
        ([0.5, 0.5], [0.0, math.nan], "log_probabilities with infinite"),
        ([0.0, 0.0], [0.0, 0.0], "solution"),
        ([1.5, -0.5], [0.0, 0.0], "solution"),
    ],
)
def test_bad_scores_are_refused(solution: Any, logs: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        datasets.pautomac_score(solution, logs)


MODEL = model_text(SMALL)


@pytest.mark.parametrize(
    ("part", "text", "message"),
    [
        (".train", "", "first line"),
        (".train", "x 4\n", "integers"),
        (".train", "1 0\n0\n", "first line"),
        (".train", "2 4\n1 0\n", "1 strings, or a part of one; expected 2"),
        (".train", "1 4\n3 0 0\n", "a part of one"),
        (".train", "1 4\n-1 0\n", "length -1"),
        (".train", "1 4\n1 4\n", r"outside of 0\.\.3"),
        (".train", "1 4\n1 -1\n", r"outside of 0\.\.3"),
        (".test", strings_text(TEST, 5), "alphabet of 5"),
        (".test", strings_text(TEST[:2], 4), "5 probabilities of 2"),
        ("_solution.txt", "2\n0.5\n", "number of probabilities"),
        ("_solution.txt", "1\none\n", "numbers"),
        ("_solution.txt", "1\n-1\n", "no probabilities"),
        ("_solution.txt", "1\nnan\n", "no probabilities"),
        ("_model.txt", "", "sections"),
        ("_model.txt", MODEL.replace("(0,0) 0.7", "(0,0) 0.8"), "section S .* sum to one"),
        ("_model.txt", MODEL.replace("(0,1,0) 0.5", "(0,1,0) 0.6"), "section T .* sum to one"),
        ("_model.txt", MODEL.replace("(1) 0.4", "(1) -0.4"), "section F .* no probabilities"),
        ("_model.txt", MODEL.replace("(1) 0.4", "(1) nan"), "section F .* no probabilities"),
        ("_model.txt", MODEL.replace("(0) 0.75", "(0,1) 0.75"), "section I .* not of 1 numbers"),
        ("_model.txt", MODEL.replace("(0,0) 0.7", "(0,9) 0.7"), r"outside of 0\.\.3"),
        ("_model.txt", MODEL.replace("(0,0) 0.7", "0,0 0.7"), "expected .numbers."),
        ("_model.txt", MODEL.replace("(0,0) 0.7", "(0,0) much"), "not the expected content"),
        ("_model.txt", MODEL.replace("(1) 0.4", "(99999) 0.4"), "smaller numbers"),
    ],
)
def test_files_that_are_not_the_right_ones(
    part: str, text: str, message: str, folder: Path
) -> None:
    (folder / f"5.pautomac{part}").write_text(text)
    with pytest.raises(ValueError, match=message):
        datasets.pautomac(5, folder)


@pytest.mark.parametrize(
    ("problem", "path", "error", "message"),
    [
        (0, None, ValueError, "problem=0"),
        (49, None, ValueError, "problem=49"),
        ("5", None, TypeError, "problem='5'"),
        (5, "/nowhere/at/all", FileNotFoundError, "no such file"),
        (5, __file__, ValueError, "expected a folder"),
    ],
)
def test_bad_arguments_are_refused(
    problem: Any, path: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        datasets.pautomac(problem, path)


@pytest.mark.parametrize("number", PROBLEMS)
def test_the_real_automata_have_the_published_probabilities(
    number: int, pautomac_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MDVPF_DATA", str(pautomac_dir))
    problem = datasets.pautomac(number)
    logs = problem.automaton.log_probabilities(problem.test)
    own = np.exp(logs) / np.exp(logs).sum()
    np.testing.assert_allclose(own, problem.solution, rtol=1e-9)
    assert problem.score(logs).gap == pytest.approx(0.0, abs=1e-9)
    assert len(problem.test) == 1000
    assert np.isfinite(problem.automaton.log_probabilities(problem.train[:1000])).all()
