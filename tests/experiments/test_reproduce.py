"""Every experiment at a tiny size, through the command line."""

from __future__ import annotations

import csv
import json
import math
import statistics
from pathlib import Path

import numpy as np
import pytest

from mdvpf import KnownHMM
from mdvpf.cli import main
from mdvpf.experiments import experiment as experiments
from mdvpf.experiments.artificial import ARTIFICIAL, streams

pytest.importorskip("typer")
pytest.importorskip("matplotlib")

TINY = ["--seeds", "2", "--particles", "6", "--most-particles", "12"]
FEW = ["--method", "SMC,VPA,Markov 1,ContextTree 2"]


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def reproduce(name: str, out: Path, *more: str) -> Path:
    assert main(["--debug", "reproduce", name, *TINY, "--out", str(out), *more]) == 0
    return out / name


def check_folder(folder: Path) -> None:
    """Check that all promised files exist and that the table has its common parts."""
    names = {path.name for path in folder.iterdir()}
    figure = f"{folder.name}.png"
    assert {"configuration.json", "arrays.npz", "table.csv", "table.md", figure} <= names
    assert figure.replace("png", "svg") in names
    assert (folder / figure).read_bytes().startswith(b"\x89PNG")
    configuration = json.loads((folder / "configuration.json").read_text(encoding="utf-8"))
    assert configuration["options"]["particles"] == 6
    assert {"python", "numpy", "mdvpf"} <= configuration["versions"].keys()
    tables = [rows(file) for file in folder.glob("*.csv")]
    methods = {row["method"].split(" (")[0] for table in tables for row in table if "method" in row}
    assert {"MD-VPA", "SMC", "VPA", "Markov 1", "ContextTree 2"} <= methods
    costs = rows(next(folder.glob("*-costs.csv")))
    assert any("processor time" in column for column in costs[0])


@pytest.fixture(scope="module")
def artificial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return reproduce("artificial", tmp_path_factory.mktemp("out"), "--length", "20")


def test_artificial_has_every_method_and_smc_depends_on_the_seed_of_the_filter(
    artificial: Path,
) -> None:
    check_folder(artificial)
    labels = [row["method"].split(" (")[0] for row in rows(artificial / "table.csv")]
    assert labels == [
        "SMC",
        "SMC, K = 60",
        "VPA",
        "MD-VPA",
        "ParticleLearning",
        "OptimalResampling",
        "Markov 0",
        "Markov 1",
        "Markov 2",
        "ContextTree 1",
        "ContextTree 2",
        "ContextTree 3",
        "generator",
    ]
    errors = {row["method"]: row for row in rows(artificial / "errors.csv")}
    assert float(errors["MD-VPA"]["sd over filter seeds"]) == 0
    assert float(errors["SMC"]["sd over filter seeds"]) > 0
    ablation = {row["method"]: row for row in rows(artificial / "ablation.csv")}
    vpa = next(row for row in rows(artificial / "table.csv") if row["method"] == "VPA")
    assert ablation["discount=0 (is VPA)"]["whole"] == vpa["whole"]


def test_literal_readings_have_tables_of_their_own(tmp_path: Path, artificial: Path) -> None:
    folder = reproduce("artificial", tmp_path, "--length", "20", *FEW, "--literal")
    readings = {row["method"]: row for row in rows(folder / "literal.csv")}
    table = {row["method"]: row for row in rows(artificial / "table.csv")}
    for method in ("SMC", "VPA", "MD-VPA"):  # the last in plain Python, the others compiled
        assert float(readings[method]["whole"]) == pytest.approx(float(table[method]["whole"]))
    assert len(readings) == 11
    assert [row["method"] for row in rows(folder / "theorem.csv")] == ["VPA", "MD-VPA"]
    assert len(rows(folder / "first-half.csv")) == 16


def test_differences_are_paired(artificial: Path) -> None:
    table = {row["method"]: row for row in rows(artificial / "table.csv")}
    with np.load(artificial / "arrays.npz") as arrays:
        base = arrays["methods/MD-VPA/log_predictive"]
        smc = arrays["methods/SMC/log_predictive"]
        generator = arrays["methods/generator/log_predictive"]
    assert base.shape == smc.shape == (2, 40)
    pairs = list(zip(smc, base, strict=True))
    for part, span in {"before": slice(0, 20), "after": slice(20, 40)}.items():
        each = [statistics.fmean(s[span]) - statistics.fmean(b[span]) for s, b in pairs]
        column = f"{part}, minus MD-VPA"
        assert float(table["SMC"][column]) == pytest.approx(statistics.fmean(each), abs=1e-12)
        error = statistics.stdev(each) / math.sqrt(2)
        assert float(table["SMC"][f"{column}: standard error"]) == pytest.approx(error, abs=1e-12)
    errors = {row["method"]: row for row in rows(artificial / "errors.csv")}
    regret = (generator.sum() - base.sum()) / 2
    assert float(errors["MD-VPA"]["regret (nats)"]) == pytest.approx(regret, abs=1e-10)
    for part, span in {"before": slice(0, 20), "after": slice(20, 40)}.items():
        found = float(errors["MD-VPA"][f"regret {part} (nats)"])
        assert found == pytest.approx((generator - base)[:, span].sum() / 2, abs=1e-10)
    with np.load(artificial / "arrays.npz") as arrays:
        more = [arrays[f"filter seed {j}/SMC/log_predictive"] for j in (1, 2, 3, 4)]
    each = [np.mean([run[i] for run in (smc, *more)]) - base[i].mean() for i in (0, 1)]
    found = float(errors["SMC"]["over filter seeds, minus MD-VPA"])
    assert found == pytest.approx(statistics.fmean(each), abs=1e-12)
    bits = float(errors["MD-VPA"]["redundancy (bits a symbol)"])
    assert bits == pytest.approx(regret / 40 / math.log(2), abs=1e-10)


def test_shifting_regret_is_against_the_best_sequence_in_hindsight(artificial: Path) -> None:
    with np.load(artificial / "arrays.npz") as arrays:
        runs = {
            key.split("/")[1]: arrays[key]
            for key in arrays
            if key.startswith("methods/") and key.endswith("/log_predictive")
        }
    learners = [runs[label] for label in runs if label.startswith(("Markov", "ContextTree"))]
    assert len(learners) == 6
    expected: dict[int, list[float]] = {0: [], 1: []}
    for i, data in enumerate(streams(2, 20, ARTIFICIAL.defaults.seed)):
        pool = [np.full(40, -math.log(8)), *(values[i] for values in learners)]
        for hmm in data.hmms:
            known = KnownHMM(hmm, n_symbols=8)
            halves = [known.copy().run(half).log_predictive for half in np.split(data.symbols, 2)]
            pool.append(np.concatenate(halves))
        own = runs["MD-VPA"][i].sum()
        expected[0].append(max(a.sum() for a in pool) - own)
        best = max(a[:n].sum() + b[n:].sum() for n in range(1, 41) for a in pool for b in pool)
        expected[1].append(best - own)
    row = next(r for r in rows(artificial / "shifting.csv") if r["method"] == "MD-VPA")
    for s, regrets in expected.items():
        found = float(row[f"S = {s}: regret (nats)"])
        assert found == pytest.approx(statistics.fmean(regrets), abs=1e-10)
    low, exponent, high = (
        float(row[f"S = 1: {x}"]) for x in ("low (95 %)", "exponent", "high (95 %)")
    )
    assert low < exponent < high


def test_a_chain_has_its_best_beta(artificial: Path) -> None:
    configuration = json.loads((artificial / "configuration.json").read_text(encoding="utf-8"))
    betas = {run["variant"] for run in configuration["runs"] if run["label"] == "Markov 1"}
    (shown,) = (r["method"] for r in rows(artificial / "table.csv") if "Markov 1" in r["method"])
    assert shown.removeprefix("Markov 1 (").removesuffix(")") in betas
    assert len(betas) > 2


def test_a_rerun_gives_the_same_files_bit_for_bit(artificial: Path, tmp_path: Path) -> None:
    again = reproduce("artificial", tmp_path, "--length", "20", "--jobs", "2")
    for file in artificial.iterdir():
        if file.suffix in (".csv", ".md", ".png", ".svg") and "costs" not in file.name:
            assert (again / file.name).read_bytes() == file.read_bytes(), file.name


def test_resume_repeats_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = ["--length", "20", *FEW]
    folder = reproduce("artificial", tmp_path, *small)
    first = (folder / "table.csv").read_bytes()
    (damaged, *_) = sorted((folder / "runs").glob("*.npz"))
    damaged.write_bytes(damaged.read_bytes()[:100])
    done: list[object] = []
    execute = experiments.execute
    monkeypatch.setattr(experiments, "execute", lambda run: (done.append(run), execute(run))[1])
    reproduce("artificial", tmp_path, *small, "--resume")
    assert len(done) == 1
    assert (folder / "table.csv").read_bytes() == first
    reproduce("artificial", tmp_path, *small, "--resume", "--beta", "0.5")
    assert len(done) > 10


def test_failing_runs_are_reported_and_the_others_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    execute = experiments.execute

    def fails_for_vpa(run: experiments.Run) -> experiments.Outcome:
        if run.entry.label == "VPA" and run.data.name == "stream 1":
            raise RuntimeError("no luck")
        return execute(run)

    monkeypatch.setattr(experiments, "execute", fails_for_vpa)
    arguments = ["artificial", *TINY, *FEW, "--length", "20", "--out", str(tmp_path)]
    assert main(["reproduce", *arguments]) == 3
    complaint = capsys.readouterr().err
    assert len(complaint.splitlines()) == 1
    assert "RuntimeError: no luck" in complaint
    assert "'VPA'" in complaint
    assert "stream 1" in complaint
    labels = [row["method"] for row in rows(tmp_path / "artificial" / "table.csv")]
    assert {"SMC", "VPA", "MD-VPA"} <= set(labels)


def test_adversarial_has_a_finite_regret_for_every_method(tmp_path: Path) -> None:
    folder = reproduce("adversarial", tmp_path, "--length", "100", *FEW)
    check_folder(folder)
    table = rows(folder / "table.csv")
    assert len(table) == 3 * 5  # methods without the generator, for each number of switches
    assert all(math.isfinite(float(row["regret at N = 100 (nats)"])) for row in table)


def test_books_tries_settings(tmp_path: Path, data_dir: Path) -> None:
    folder = reproduce("books", tmp_path, "--length", "30", *FEW)
    check_folder(folder)
    settings = {(row["gamma"], row["beta"]) for row in rows(folder / "settings.csv")}
    assert {("1.0", "0.1"), ("50.0", "0.1")} <= settings


def test_webclick_with_breaks_differs_from_webclick_joined(tmp_path: Path, data_dir: Path) -> None:
    folder = reproduce("webclick", tmp_path, "--length", "60", *FEW)
    check_folder(folder)
    with np.load(folder / "arrays.npz") as arrays:
        apart = arrays["with breaks/VPA/log_predictive"]
        joined = arrays["joined/VPA/log_predictive"]
    assert apart.shape == joined.shape == (2, 60)
    assert not np.array_equal(apart, joined)


def test_efficiency_names_the_fewest_particles_that_match(tmp_path: Path, data_dir: Path) -> None:
    folder = reproduce("efficiency", tmp_path, "--length", "60", *FEW)
    check_folder(folder)
    for row in rows(folder / "table.csv"):
        if "MD-VPA" in row["data: filter"]:
            continue
        means = {k: float(row[f"K = {k}"]) for k in (10, 12)}
        enough = [k for k, mean in means.items() if mean >= 0]
        assert row["K that matches"] == (str(min(enough)) if enough else "> 12")
