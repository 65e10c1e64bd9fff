"""The experiment on PAutomaC: gaps and regrets are what a calculation by hand gives."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest

import mdvpf
from mdvpf import datasets
from mdvpf.cli import main
from mdvpf.experiments import experiment as experiments
from mdvpf.experiments import pautomac
from tests.pautomac_files import Small, write_problems

pytest.importorskip("typer")
pytest.importorskip("matplotlib")

TINY = ["--seeds", "2", "--particles", "6", "--length", "40", "--methods", "VPA,SMC"]
CHOSEN = {"alpha": 1.0, "gamma": 10.0, "beta": 0.1}


def rows(file: Path) -> dict[str, dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as stream:
        return {row["method"]: row for row in csv.DictReader(stream)}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_problems(folder)
    return folder


@pytest.fixture(autouse=True)
def small(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MDVPF_DATA", str(root))
    monkeypatch.setattr(pautomac, "POINTS", (10, 25))
    monkeypatch.setattr(pautomac, "SEGMENT", 30)


@pytest.fixture
def automata(root: Path) -> dict[int, Small]:
    return write_problems(root)


def reproduce(out: Path, *more: str) -> Path:
    assert main(["--debug", "reproduce", "pautomac", *TINY, "--out", str(out), *more]) == 0
    return out / "pautomac"


@pytest.fixture(scope="module")
def finished(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MDVPF_DATA", str(root))
        patch.setattr(pautomac, "POINTS", (10, 25))
        patch.setattr(pautomac, "SEGMENT", 30)
        return reproduce(tmp_path_factory.mktemp("out"))


def test_everything_is_written(finished: Path) -> None:
    names = {path.name for path in finished.iterdir()}
    tables = {"table.csv", "table-costs.csv", "gaps.csv", "curve.csv", "drift-1.csv", "drift-2.csv"}
    assert tables | {"configuration.json", "arrays.npz", "pautomac.png"} <= names
    labels = ["SMC", "VPA", "MD-VPA"]
    views = [label for each in labels for label in (each, f"{each}, heaviest particle")]
    assert list(rows(finished / "table.csv")) == views
    assert list(rows(finished / "drift-1.csv")) == [*labels, "generator"]
    assert float(rows(finished / "table-costs.csv")["VPA"]["memory (MB)"]) > 0
    assert "At most" not in (finished / "table.md").read_text(encoding="utf-8")
    assert "at most the first 40" in (finished / "table.md").read_text(encoding="utf-8")


def expected_gap(number: int, n_strings: int, n_particles: int | None) -> float:
    """The gap of VPA by the public interface: learn, freeze, score string by string."""
    problem = datasets.pautomac(number)
    model = mdvpf.InfiniteHMM(problem.n_symbols, **CHOSEN)
    pf = mdvpf.ParticleFilter(model, mdvpf.VPA(), n_particles=6)
    for string in problem.train[:n_strings]:
        pf.new_sequence()
        for symbol in string.tolist():
            pf.update(symbol)
    frozen = pf.freeze(n_particles)
    logs = [frozen.score(string, [len(string)]).sum() for string in problem.test]
    q = np.exp(logs) / np.exp(logs).sum()
    p = problem.solution
    return float(2 ** -(p @ np.log2(q)) - 2 ** -(p @ np.log2(p)))


@pytest.mark.parametrize("n_particles", [None, 1])
def test_gaps_and_their_geometric_means(finished: Path, n_particles: int | None) -> None:
    label = "VPA" if n_particles is None else "VPA, heaviest particle"
    gaps = {n: expected_gap(n, 40, n_particles) for n in pautomac.PROBLEMS}
    found = rows(finished / "gaps.csv")[label]
    for number, gap in gaps.items():
        assert float(found[str(number)]) == pytest.approx(gap, rel=1e-8)
    means = rows(finished / "table.csv")[label]
    parts = {
        "choosing": pautomac.CHOOSING,
        "reporting": pautomac.REPORTING,
        "all": pautomac.PROBLEMS,
    }
    for part, numbers in parts.items():
        mean = math.prod(gaps[number] for number in numbers) ** (1 / len(numbers))
        assert float(means[f"gap, {part}"]) == pytest.approx(mean, rel=1e-8)


def test_the_learning_curve_ends_at_the_table(finished: Path) -> None:
    curve = rows(finished / "curve.csv")
    table = rows(finished / "table.csv")
    for label, row in curve.items():
        assert list(row) == ["method", "10 strings", "25 strings", "all strings learnt"]
        assert row["all strings learnt"] == table[label]["gap, all"]
    gaps = [expected_gap(number, 25, None) for number in pautomac.PROBLEMS]
    mean = math.prod(gaps) ** (1 / len(gaps))
    assert float(curve["VPA"]["25 strings"]) == pytest.approx(mean, rel=1e-8)


def test_floors_are_those_of_the_automata(finished: Path, automata: dict[int, Small]) -> None:
    floors = rows(finished / "gaps.csv")["perplexity of the automaton"]
    for number, automaton in automata.items():
        test = [string.tolist()[:-1] for string in datasets.pautomac(number).test]
        p = np.array([automaton.probability(string) for string in test])
        p /= p.sum()
        assert float(floors[str(number)]) == pytest.approx(2 ** -(p @ np.log2(p)), rel=1e-10)


def test_the_regret_is_against_the_automaton_in_force(
    finished: Path, automata: dict[int, Small]
) -> None:
    problems = [datasets.pautomac(number) for number in (3, 9)]
    data = pautomac.drift_stream(problems, 30, 0, np.random.SeedSequence(5))
    assert data.change_points == (30, 60, 90, 120, 150)
    assert data.lengths is not None
    known = mdvpf.KnownHMM(data.hmms, data.change_points).score(data.symbols, data.lengths)
    starts = np.cumsum(data.lengths) - data.lengths
    logs = np.add.reduceat(known, starts)
    for start, length, log in zip(starts.tolist(), data.lengths.tolist(), logs, strict=True):
        automaton = automata[(3, 9)[start // 30 % 2]]
        string = data.symbols[start : start + length].tolist()
        assert start // 30 == (start + length - 1) // 30  # a string belongs to one automaton
        if string[-1] == problems[0].end:
            expected = automaton.probability(string[:-1])
        else:
            expected = automaton.prefix_probability(string)
        assert log == pytest.approx(math.log(expected), rel=1e-9)
    with np.load(finished / "arrays.npz") as arrays:
        own, true = (arrays[f"drift 3 9/{x}/log_predictive"] for x in ("VPA", "generator"))
    assert own.shape == true.shape == (2, 180)
    regret = float(rows(finished / "drift-1.csv")["VPA"]["regret (nats)"])
    assert regret == pytest.approx((true - own).sum(axis=1).mean(), rel=1e-10)


def test_alphabets_in_common_take_turns() -> None:
    problems = [datasets.pautomac(number) for number in pautomac.PROBLEMS]
    found = [[p.number for p in group] for group in pautomac.same_alphabet(problems)]
    assert found == [[3, 9], [6, 28]]


def test_a_rerun_is_the_same_and_resuming_repeats_nothing(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = reproduce(tmp_path)
    for file in finished.iterdir():
        if file.suffix in (".csv", ".md", ".png", ".svg") and "costs" not in file.name:
            assert (again / file.name).read_bytes() == file.read_bytes(), file.name
    done: list[object] = []
    monkeypatch.setattr(experiments, "execute", done.append)
    reproduce(tmp_path, "--resume")
    assert done == []


def test_failed_runs_are_left_out_of_the_means(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    execute = experiments.execute

    def fails(run: experiments.Run) -> experiments.Outcome:
        if run.entry.label == "VPA" and run.data.name == "problem 9":
            raise RuntimeError("no luck")
        return execute(run)

    monkeypatch.setattr(experiments, "execute", fails)
    assert main(["reproduce", "pautomac", *TINY, "--out", str(tmp_path)]) == 3
    assert "no luck" in capsys.readouterr().err
    table = rows(tmp_path / "pautomac" / "table.csv")
    assert table["VPA"]["gap, reporting"] == table["VPA"]["gap, all"] == ""
    assert float(table["VPA"]["gap, choosing"]) > 0
    assert rows(tmp_path / "pautomac" / "gaps.csv")["VPA"]["9"] == ""


def test_no_method_beats_the_automata_of_the_real_problems(
    tmp_path: Path, pautomac_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MDVPF_DATA", str(pautomac_dir))
    monkeypatch.setattr(pautomac, "POINTS", ())
    folder = reproduce(tmp_path)
    floors = rows(folder / "gaps.csv")["perplexity of the automaton"]
    p = datasets.pautomac(24).solution
    assert float(floors["24"]) == pytest.approx(2 ** -(p @ np.log2(p)), rel=1e-9)
    assert all(float(row["gap, all"]) > 0 for row in rows(folder / "table.csv").values())
