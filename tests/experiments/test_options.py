"""`--method` and the settings of methods on `mdvpf reproduce` and `mdvpf compare`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdvpf
from mdvpf.cli import main
from mdvpf.experiments import efficiency
from mdvpf.experiments.artificial import ABLATION, ARTIFICIAL
from mdvpf.experiments.experiment import versions
from mdvpf.experiments.literal import literal_runs
from mdvpf.experiments.methods import Auto, Filter, plain
from mdvpf.experiments.options import Options
from mdvpf.experiments.runs import Run
from mdvpf.experiments.settings import setting_runs
from mdvpf.streams.methods import ALGORITHM_SETTINGS, ALGORITHMS, EXTENSION_SETTINGS, SETTINGS

CHANGES: dict[str, Any] = {
    "alpha": 2.0,
    "gamma": 3.0,
    "beta": 0.2,
    "oracle": "any",
    "max_states": 7,
    "machine": "mealy",
    "kappa": 0.25,
    "forget": 1.5,
    "half_life": 30.0,
    "discount": 0.5,
    "normalizer": "sum",
    "carry_weights": False,
    "selection": "optimal",
}
TOGETHER = {name: value for name, value in CHANGES.items() if name != "half_life"}  # but forget
SMALL = Options(particles=6, seeds=1, length=20)


def filters(options: Options) -> dict[str, Filter]:
    return {
        entry.label: entry.method for entry in options.entries() if isinstance(entry.method, Filter)
    }


# -- the options ------------------------------------------------------------------------------


def test_the_defaults_are_those_of_the_model_and_of_the_algorithms() -> None:
    assert set(CHANGES) == set(SETTINGS)
    model = mdvpf.InfiniteHMM(2)
    for label, method in filters(SMALL).items():
        assert method.algorithm == ALGORITHMS[label]
        assert (method.oracle, method.max_states) == (model.oracle, model.max_states)
        assert {name: getattr(method, name) for name in EXTENSION_SETTINGS} == {
            name: getattr(model, name) for name in EXTENSION_SETTINGS
        }
    mdvpa = mdvpf.MDVPA()
    assert {name: getattr(SMALL, name) for name in ALGORITHM_SETTINGS} == {
        name: getattr(mdvpa, name) for name in ALGORITHM_SETTINGS
    }
    assert SMALL.note == ""


@pytest.mark.parametrize("setting", CHANGES)
def test_a_setting_reaches_every_filter_that_has_it(setting: str) -> None:
    value = CHANGES[setting]
    chosen = SMALL.changed(**{setting: value})
    owners = {
        label
        for label, method in filters(chosen).items()
        if value in (getattr(method, setting, None), getattr(method.algorithm, setting, None))
    }
    expected = set(ALGORITHMS)
    if setting in ALGORITHM_SETTINGS:
        expected = {"MD-VPA", "VPA"} if setting == "carry_weights" else {"MD-VPA"}
    assert owners == expected
    changed = {k for k, v in filters(chosen).items() if v != filters(SMALL)[k]}
    assert changed == expected


def test_the_predictor_has_the_settings_of_the_method() -> None:
    (run, *_) = ARTIFICIAL.plan(ARTIFICIAL.defaults.changed(seeds=1, length=20))
    method = filters(SMALL.changed(**TOGETHER))["MD-VPA"]
    pf = method.predictor(run.data, np.random.SeedSequence(0))
    wanted = {k: v for k, v in TOGETHER.items() if k not in ALGORITHM_SETTINGS}
    assert pf.model == mdvpf.InfiniteHMM(8, **wanted)
    assert pf.algorithm == mdvpf.MDVPA(0.5, "sum", False, "optimal")
    assert method.draws
    assert pf.n_particles == 6


def test_the_mixture_has_the_most_states_too() -> None:
    options = SMALL.changed(max_states=4, methods=("auto",))
    (auto,) = (e.method for e in options.entries() if isinstance(e.method, Auto))
    assert auto.max_states == 4


@pytest.mark.parametrize("setting", CHANGES)
def test_results_with_another_setting_are_never_recalled(setting: str) -> None:
    (run, *_) = ARTIFICIAL.plan(ARTIFICIAL.defaults.changed(seeds=1, length=20))

    def key(options: Options) -> str:
        (entry,) = (e for e in options.entries() if e.label == "MD-VPA")
        return Run("methods", entry, run.data, run.seed).key(versions())

    assert key(SMALL) == key(SMALL.changed(seeds=2))
    assert key(SMALL.changed(**{setting: CHANGES[setting]})) != key(SMALL)
    json.dumps(plain(SMALL.changed(**TOGETHER)))


def test_the_variants_keep_their_own_settings_on_the_model_of_the_options() -> None:
    options = ARTIFICIAL.defaults.changed(seeds=1, length=20, discount=0.3, oracle="any")
    runs = ARTIFICIAL.plan(options)
    variants = {run.entry.label: run.entry.method for run in runs if run.group == "ablation"}
    assert {label: method.algorithm for label, method in variants.items()} == ABLATION
    made = [run.entry.method for run in runs if isinstance(run.entry.method, Filter)]
    assert {method.oracle for method in made} == {"any"}


def test_grids_of_other_experiments_have_the_settings() -> None:
    options = SMALL.changed(oracle="any", discount=0.3, max_states=5)
    (first, *_) = ARTIFICIAL.plan(ARTIFICIAL.defaults.changed(seeds=1, length=20))
    for run in setting_runs(options, first.data, first.seed, [(2.0, 0.1)], False):
        method = run.entry.method
        assert (method.oracle, method.max_states) == ("any", 5)
        assert (method.gamma, method.beta) == (2.0, 0.1)
    chosen = efficiency.settings("books", options.changed(oracle="any", beta=0.7))
    assert (chosen.oracle, chosen.beta) == ("any", 0.7)
    assert chosen.gamma == efficiency.DEFAULTS["books"].gamma


def test_names_are_read_in_every_spelling() -> None:
    assert SMALL.changed(methods=("mdvpa", "markov1", "GENERATOR")).methods == (
        "MD-VPA",
        "Markov 1",
        "generator",
    )


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"methods": ("SMC",), "normalizer": "sum"}, ValueError, "normalizer='sum': SMC has none"),
        ({"methods": ("auto",), "oracle": "any"}, ValueError, "oracle='any': auto chooses"),
        ({"methods": ("generator",), "discount": 1.0}, ValueError, r"discount=1\.0: generator"),
        ({"methods": ("magic",)}, ValueError, "methods='magic': expected one of SMC"),
        ({"discount": "n"}, ValueError, "discount='n'"),
        ({"discount": (1.0, 0.5)}, TypeError, "discount=.*expected a name or a number"),
        ({"normalizer": "x"}, ValueError, "normalizer='x'"),
        ({"max_states": 0}, ValueError, "max_states=0"),
        ({"machine": "x"}, ValueError, "machine='x'"),
        ({"forget": 1.0, "half_life": 2.0}, ValueError, r"half_life=2\.0"),
        ({"methods": ("auto",), "kappa": 1.0}, ValueError, r"kappa=1\.0: auto chooses"),
        ({"carry_weights": 1}, TypeError, "carry_weights=1"),
    ],
)
def test_wrong_options_are_refused(
    changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        SMALL.changed(**changes)


def test_one_of_the_methods_with_the_setting_is_enough() -> None:
    SMALL.changed(methods=("SMC", "MD-VPA"), normalizer="sum")
    SMALL.changed(methods=("Markov 1", "SMC"), oracle="any")
    SMALL.changed(methods=("Markov 1",), particles=3, beta=0.1)  # MD-VPA, the base, has them


# -- the commands -----------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    pytest.importorskip("typer")
    pytest.importorskip("matplotlib")
    path = tmp_path / "commands.txt"
    path.write_text("\n".join(["ls", "cd", "make", "make"] * 10), encoding="utf-8")
    return path


def configured(folder: Path) -> dict[str, dict[str, Any]]:
    content = json.loads((folder / "configuration.json").read_text(encoding="utf-8"))
    return {run["label"]: run["method"] for run in content["runs"] if run["group"] == "methods"}


def test_methods_with_commas_or_the_option_again_or_the_old_name(
    file: Path, tmp_path: Path
) -> None:
    spellings = (
        ["--method", "vpa,markov1", "--method", "SMC"],
        ["--method", "SMC", "--method", "VPA", "--method", "Markov 1"],
        ["--methods", "SMC,VPA,Markov 1"],
        ["--methods", "SMC,VPA", "--method", "Markov-1"],
    )
    for i, arguments in enumerate(spellings):
        out = tmp_path / f"out {i}"
        assert main(["compare", str(file), "-K", "5", *arguments, "--out", str(out)]) == 0
        assert list(configured(out)) == ["SMC", "VPA", "MD-VPA", "Markov 1"]


def test_compare_runs_and_shows_the_settings(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    arguments = ["--method", "SMC,MD-VPA", "--discount", "0.5", "--no-carry-weights"]
    arguments += ["--normalizer", "none", "--oracle", "any", "--max-states", "3"]
    assert main(["compare", str(file), "-K", "5", *arguments, "--out", str(out)]) == 0
    found = configured(out)
    assert found["MD-VPA"]["algorithm"] == {
        "type": "MDVPA",
        "discount": 0.5,
        "normalizer": "none",
        "carry_weights": False,
        "selection": "top",
    }
    assert {(m["oracle"], m["max_states"]) for m in found.values()} == {("any", 3)}
    note = "Set for this run: oracle = any, max_states = 3, discount = 0.5, normalizer = none"
    assert note in (out / "table.md").read_text(encoding="utf-8")
    assert "Set for this run" in capsys.readouterr().out
    model = mdvpf.InfiniteHMM(3, oracle="any", max_states=3)
    algorithm = mdvpf.MDVPA(discount=0.5, normalizer="none", carry_weights=False)
    pf = mdvpf.ParticleFilter(model, algorithm, n_particles=5)
    with np.load(out / "arrays.npz") as arrays:
        shown = arrays["methods/MD-VPA/log_predictive"][0]
    symbols = [1, 0, 2, 2] * 10  # labels in alphabetical order: cd, ls, make
    assert shown.tolist() == pf.run(symbols).log_predictive.tolist()


def test_reproduce_runs_the_settings_and_resumes_only_equal_runs(tmp_path: Path) -> None:
    pytest.importorskip("typer")
    pytest.importorskip("matplotlib")
    size = ["--seeds", "1", "--length", "20", "-K", "5", "--most-particles", "5"]
    command = ["reproduce", "artificial", *size, "--method", "VPA", "--out", str(tmp_path)]
    folder = tmp_path / "artificial"
    assert main(command) == 0
    assert "Set for this run" not in (folder / "table.md").read_text(encoding="utf-8")
    with np.load(folder / "arrays.npz") as arrays:
        usual = arrays["methods/VPA/log_predictive"]
    more = ["--no-carry-weights", "--selection", "optimal"]
    assert main([*command, "--resume", "--method", "mdvpa", *more]) == 0
    assert configured(folder)["VPA"]["algorithm"]["carry_weights"] is False
    with np.load(folder / "arrays.npz") as arrays:
        assert arrays["methods/VPA/log_predictive"].tolist() != usual.tolist()
        assert "filter seed 1/MD-VPA/log_predictive" in arrays  # it draws now
        assert "filter seed 1/VPA/log_predictive" not in arrays
    assert main([*command, "--resume"]) == 0
    with np.load(folder / "arrays.npz") as arrays:
        assert arrays["methods/VPA/log_predictive"].tolist() == usual.tolist()


@pytest.mark.parametrize("command", ["compare", "reproduce"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "SMC", "--normalizer", "sum"], "normalizer='sum': SMC has none"),
        (["--method", "SMC,VPA", "--discount", "1"], "discount=1.0: SMC and VPA have none"),
        (["--method", "SMC", "--method", "magic"], "method='magic': expected one of SMC, VPA"),
        (["--methods", "magic"], "methods='magic': expected one of SMC, VPA"),
        (["--method", "SMC,"], "method='': expected one of SMC, VPA"),
        (["--discount", "often"], "discount='often': expected 1/n"),
        (["--oracle", "delphi"], "oracle='delphi': expected one of"),
    ],
)
def test_a_wrong_command_line(
    command: str,
    arguments: list[str],
    message: str,
    file: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    what = str(file) if command == "compare" else "artificial"
    assert main([command, what, *arguments]) == 2
    complaint = capsys.readouterr().err
    assert message in complaint
    assert len(complaint.splitlines()) == 1


@pytest.mark.parametrize("settings", [{"oracle": "rows"}, {"kappa": 0.5}, {"half_life": 9.0}])
def test_the_literal_readings_are_those_of_the_paper_s_model(settings: dict[str, Any]) -> None:
    (name,) = settings
    with pytest.raises(ValueError, match=f"literal=True: expected the default of {name}"):
        literal_runs(SMALL.changed(**settings), [], [])
