"""The detection experiment: curves, alarms against the detector, the command at a tiny size."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

import mdvpf
from mdvpf.cli import main
from mdvpf.detect.roc import Curve, area
from mdvpf.experiments import masquerade
from mdvpf.experiments.masquerade import BLOCK, MASQUERADE, judged, naive_bayes
from mdvpf.experiments.runs import execute

LEARNT, BLOCKS = 1000, 12
PAGE = Path(__file__).resolve().parents[2] / "docs" / "detection.md"


def invented(seed: int = 0) -> mdvpf.datasets.Masquerade:
    """Return users who each have commands of their own, with some blocks of other users'."""
    rng = np.random.default_rng(seed)
    n_users, n_symbols = 4, 12
    habits = rng.dirichlet(np.full(n_symbols, 0.3), size=n_users)
    n = LEARNT + BLOCKS * BLOCK
    symbols = np.array([rng.choice(n_symbols, size=n, p=habit) for habit in habits])
    labels = np.zeros((n_users, BLOCKS), dtype=bool)
    labels[:, [3, 7]] = True
    for i, k in zip(*np.nonzero(labels), strict=True):
        start = LEARNT + k * BLOCK
        other = habits[(i + 1) % n_users]
        symbols[i, start : start + BLOCK] = rng.choice(n_symbols, size=BLOCK, p=other)
    return mdvpf.datasets.Masquerade(symbols, labels, tuple("abcdefghijkl"))


@pytest.fixture
def commands() -> None:
    """Skip a test of the command where it cannot run, or cannot draw."""
    pytest.importorskip("typer")
    pytest.importorskip("matplotlib")


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch) -> mdvpf.datasets.Masquerade:
    found = invented()
    monkeypatch.setattr(mdvpf.datasets, "masquerade", lambda: found)
    return found


def small(**changes: object) -> masquerade.Options:
    return MASQUERADE.defaults.changed(
        particles=5,
        seeds=4,
        length=LEARNT,
        methods=("Markov 0",),
        **changes,  # type: ignore[arg-type]
    )


# -- curves --------------------------------------------------------------------------------------


def test_the_area_is_how_often_the_strange_scores_higher() -> None:
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 6, size=60).astype(float)  # with ties
    strange = rng.random(60) < 0.3
    wins = [(s > u) + 0.5 * (s == u) for s in scores[strange] for u in scores[~strange]]
    assert Curve.of(scores, strange).area == pytest.approx(np.mean(wins), rel=1e-12)


def test_hits_are_the_best_of_all_thresholds() -> None:
    rng = np.random.default_rng(1)
    scores, strange = rng.normal(size=200), rng.random(200) < 0.2
    curve = Curve.of(scores, strange)
    for rate in (0.0, 0.01, 0.05, 0.1, 1.0):
        best = max(
            np.mean(scores[strange] >= cut)
            for cut in [*scores, np.inf]
            if np.mean(scores[~strange] >= cut) <= rate
        )
        assert curve.hits_at(rate) == pytest.approx(best, rel=1e-12)


def test_the_error_of_the_area_is_the_jackknife_over_users() -> None:
    rng = np.random.default_rng(2)
    scores, strange = rng.normal(size=(5, 30)), rng.random((5, 30)) < 0.2
    estimate = area(scores, strange)
    assert estimate.mean == Curve.of(scores, strange).area
    parts = [
        Curve.of(np.delete(scores, i, axis=0), np.delete(strange, i, axis=0)).area for i in range(5)
    ]
    expected = np.sqrt(4 / 5 * np.sum((np.array(parts) - np.mean(parts)) ** 2))
    assert estimate.error == pytest.approx(expected, rel=1e-12)
    doubled = area(scores, strange, minus=-scores)  # whose area is 1 minus that of the scores
    assert doubled.mean == pytest.approx(2 * estimate.mean - 1, rel=1e-12)
    assert doubled.error == pytest.approx(2 * expected, rel=1e-9)


def test_a_curve_needs_both_kinds() -> None:
    with pytest.raises(ValueError, match="strange"):
        Curve.of(np.zeros(3), np.ones(3, dtype=bool))


# -- the runs ------------------------------------------------------------------------------------


def test_without_learning_blocks_have_the_scores_of_score(data: mdvpf.datasets.Masquerade) -> None:
    run = next(r for r in MASQUERADE.plan(small()) if r.group == "fixed")
    predictor = run.predictor()
    learnt = predictor.run(data.symbols[0, :LEARNT]).log_predictive
    blocks = data.symbols[0, LEARNT:].reshape(-1, BLOCK)
    expected = [
        *learnt.reshape(-1, BLOCK).sum(axis=1),
        *(predictor.score(block).sum() for block in blocks),
    ]
    np.testing.assert_allclose(execute(run).log_predictive, expected, rtol=1e-12)


def test_the_alarms_of_the_report_are_those_of_the_detector(
    data: mdvpf.datasets.Masquerade,
) -> None:
    warm_up = LEARNT // BLOCK
    flagged = 0
    for run in MASQUERADE.plan(small()):
        if run.group != "learning" or run.entry.label == "block_detector":
            continue
        levels = -execute(run).log_predictive[None] / BLOCK
        _, alarms = judged(levels, warm_up)
        predictor = run.predictor()
        predictor.run(run.data.symbols[:LEARNT])
        # By hand: the detector learns unflagged blocks, and the level of the next block must agree.
        for k, alarm in enumerate(alarms[0]):
            block = run.data.symbols[LEARNT + k * BLOCK :][:BLOCK]
            assert -predictor.score(block).mean() == pytest.approx(levels[0, warm_up + k])
            if not alarm:
                predictor.run(block)
        flagged += int(alarms.sum())
    assert flagged > 0


def test_a_background_never_contains_the_user(data: mdvpf.datasets.Masquerade) -> None:
    for run in MASQUERADE.plan(small()):
        assert isinstance(run, masquerade.Watch)
        assert (run.others is None) == (masquerade.WITH_BACKGROUND not in run.group)
        if run.others is not None:
            i = int(run.data.name.split()[1]) - 1
            learnt = np.delete(data.symbols, i, axis=0)[:, :LEARNT]
            np.testing.assert_array_equal(run.others.symbols, learnt.ravel())


def test_with_a_background_levels_are_those_of_the_recommended_detector(
    data: mdvpf.datasets.Masquerade,
) -> None:
    """By hand, with counts as in the definition of the Pitman-Yor tree of depth 0."""
    group = "learning" + masquerade.WITH_BACKGROUND
    run = next(
        run
        for run in MASQUERADE.plan(small())
        if run.group == group and run.entry.label == "block_detector"
    )

    def log_shares(counts: np.ndarray) -> np.ndarray:
        seen = np.count_nonzero(counts)
        smooth = (0.3 + 0.8 * seen) / len(counts)
        return np.log((np.maximum(counts - 0.8, 0.0) + smooth) / (counts.sum() + 0.3))

    others = log_shares(np.bincount(data.symbols[1:, :LEARNT].ravel(), minlength=12))
    own = np.bincount(data.symbols[0, :LEARNT], minlength=12)
    expected = []
    for block in data.symbols[0, LEARNT:].reshape(-1, BLOCK):
        expected.append((others - log_shares(own))[block].mean())
        if expected[-1] < 0.0:
            own = own + np.bincount(block, minlength=12)
    found = -execute(run).log_predictive[LEARNT // BLOCK :] / BLOCK
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_users_of_a_group_share_a_background(monkeypatch: pytest.MonkeyPatch) -> None:
    found = invented()
    many = mdvpf.datasets.Masquerade(
        np.tile(found.symbols, (5, 1)), np.tile(found.labels, (5, 1)), found.commands
    )
    monkeypatch.setattr(mdvpf.datasets, "masquerade", lambda: many)
    runs = [run for run in MASQUERADE.plan(small()) if run.entry.label == "Markov 0"]
    assert all(isinstance(run, masquerade.Watch) for run in runs)
    shared = {run.others for run in runs if run.others is not None}  # type: ignore[attr-defined]
    assert [len(others) for others in shared] == [10 * LEARNT]  # of users 11 to 20


def test_a_detector_that_is_told_of_right_alarms_keeps_giving_them() -> None:
    rng = np.random.default_rng(3)
    levels = rng.normal(size=(1, 200))
    strange = np.zeros((1, 180), dtype=bool)
    strange[0, 30:] = True
    levels[0, 50:] += 4.0
    untold, told = (judged(levels, 20, labels)[1][0] for labels in (None, strange))
    np.testing.assert_array_equal(untold[:31], told[:31])
    assert told[30:].sum() > untold[30:].sum()


def test_naive_bayes_compares_with_the_other_users(data: mdvpf.datasets.Masquerade) -> None:
    options = small()
    levels = naive_bayes(data.symbols, 4, 12, options, "none")
    own, others = np.full(12, options.beta), np.full(12, options.beta)
    for symbol in data.symbols[2, :LEARNT]:
        own[symbol] += 1
    for symbol in data.symbols[[0, 1, 3], :LEARNT].ravel():
        others[symbol] += 1
    own, others = own / own.sum(), others / others.sum()
    for k in (0, 3, 11):
        block = data.symbols[2, LEARNT + k * BLOCK :][:BLOCK]
        expected = np.mean([np.log(others[symbol] / own[symbol]) for symbol in block])
        assert levels[2, LEARNT // BLOCK + k] == pytest.approx(expected, rel=1e-12)
    taught = naive_bayes(data.symbols, 4, 12, options, "unflagged")
    np.testing.assert_array_equal(
        taught[:, : LEARNT // BLOCK + 1], levels[:, : LEARNT // BLOCK + 1]
    )
    assert not np.array_equal(taught, levels)


@pytest.mark.parametrize(
    ("option", "value"), [("length", 1100), ("length", 950), ("length", 100), ("seeds", 5)]
)
def test_sizes_that_the_data_do_not_have(
    data: mdvpf.datasets.Masquerade, option: str, value: int
) -> None:
    with pytest.raises(ValueError, match=f"{option}={value}"):
        MASQUERADE.plan(MASQUERADE.defaults.changed(**{"seeds": 4, "length": 1000, option: value}))


def test_users_without_strange_blocks_tell_nothing(data: mdvpf.datasets.Masquerade) -> None:
    data.labels[:2] = False
    with pytest.raises(ValueError, match="seeds=2"):
        MASQUERADE.plan(MASQUERADE.defaults.changed(seeds=2, length=1000))


# -- the command ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("commands")
def test_the_command_writes_tables_and_a_figure(
    tmp_path: Path, data: mdvpf.datasets.Masquerade, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = ["--seeds", "2", "--particles", "5", "--length", "300"]
    few = mdvpf.datasets.Masquerade(
        data.symbols[:2, LEARNT - 300 : LEARNT + 5 * BLOCK], data.labels[:2, :5], data.commands
    )
    monkeypatch.setattr(mdvpf.datasets, "masquerade", lambda: few)
    slow = ("auto", "VPA", "OptimalResampling")  # MD-VPA stands for the filters
    others = [name for name in MASQUERADE.defaults.methods if name not in slow]
    size += ["--method", ",".join(others)]
    assert main(["--debug", "reproduce", "masquerade", *size, "--out", str(tmp_path)]) == 0
    folder = tmp_path / "masquerade"
    assert (folder / "masquerade.png").read_bytes().startswith(b"\x89PNG")
    for name in ("table", "own", "alarms", "background", "alarms_background"):
        with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as stream:
            methods = [row["method"] for row in csv.DictReader(stream)]
        assert methods == [*others, "block_detector", "naive Bayes"]
    with (folder / "table.csv").open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            assert float(row["fixed: area"]) > 0.9  # habits that differ as much as these
            hits = [float(row[f"learning: hits at {rate}%"]) for rate in (1, 5, 10)]
            assert hits == sorted(hits)


@pytest.mark.usefixtures("commands")
def test_the_default_mixture_is_in_the_table(
    tmp_path: Path, data: mdvpf.datasets.Masquerade, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = LEARNT + 4 * BLOCK
    few = mdvpf.datasets.Masquerade(
        data.symbols[:2, n - 400 : n], data.labels[:2, 2:4], data.commands
    )
    monkeypatch.setattr(mdvpf.datasets, "masquerade", lambda: few)
    monkeypatch.setattr(masquerade, "MODES", {"none": "fixed"})  # to save time
    size = ["--seeds", "1", "--particles", "10", "--length", "200", "--method", "auto"]
    assert main(["--debug", "reproduce", "masquerade", *size, "--out", str(tmp_path)]) == 0
    text = (tmp_path / "masquerade" / "table.md").read_text(encoding="utf-8")
    assert "auto with the budget 'fast'" in text
    assert [row[0] for row in rows(text)][1:] == ["MD-VPA", "auto", "block_detector", "naive Bayes"]
    assert "auto" in MASQUERADE.defaults.methods


def test_the_default_mixture_is_todays_with_the_budget_that_the_table_names(
    data: mdvpf.datasets.Masquerade,
) -> None:
    options = MASQUERADE.defaults.changed(particles=25, seeds=1, length=300, methods=("auto",))
    run = next(run for run in MASQUERADE.plan(options) if run.entry.label == "auto")
    predictor = run.entry.method.predictor(run.data, np.random.SeedSequence(0))
    assert (predictor.recipe["version"], predictor.recipe["budget"]) == (2, "fast")


@pytest.mark.usefixtures("commands")
def test_on_the_real_data(tmp_path: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = mdvpf.datasets.masquerade()
    first = int(whole.labels[:2].any(axis=0).argmax())  # few blocks, a strange one among them
    stop = 5000 + BLOCK * (first + 2)
    few = mdvpf.datasets.Masquerade(
        whole.symbols[:, stop - 4 * BLOCK - 300 : stop],
        whole.labels[:, first - 2 : first + 2],
        whole.commands,
    )
    monkeypatch.setattr(mdvpf.datasets, "masquerade", lambda: few)
    options = ["--seeds", "2", "--particles", "3", "--length", "300", "--method", "Markov 0"]
    assert main(["--debug", "reproduce", "masquerade", *options, "--out", str(tmp_path)]) == 0
    text = (tmp_path / "masquerade" / "table.md").read_text(encoding="utf-8")
    assert f"2 users, {few.labels[:2].sum()} strange blocks of 8" in text


@pytest.mark.torture
@pytest.mark.usefixtures("full_torture", "commands")
def test_the_page_shows_the_output_of_the_command(tmp_path: Path, data_dir: Path) -> None:
    others = [name for name in MASQUERADE.defaults.methods if name != "auto"]  # most of an hour
    options = ["--method", ",".join(others), "--out", str(tmp_path)]
    assert main(["--debug", "reproduce", "masquerade", *options]) == 0
    shown = set(rows(PAGE.read_text(encoding="utf-8")))
    tables = {
        name: columns((tmp_path / "masquerade" / f"{name}.md").read_text(encoding="utf-8"))
        for name in ("table", "background", "own", "alarms", "halves")
    }
    methods = [*others, "block_detector", "naive Bayes"]
    assert tables["table"]["method"] == methods
    for mode in ("fixed", "learning", "fixed, background", "learning, background"):
        found = tables["background" if "background" in mode else "table"]
        halves = [tables["halves"][f"{mode}: area, users {part}"] for part in ("1..25", "26..")]
        hits = [found[f"{mode}: hits at {rate}%"] for rate in (1, 5, 10)]
        for row in zip(methods, found[f"{mode}: area"], *halves, *hits, strict=True):
            fixed = mode == "learning" and row[0] == "block_detector"  # on the page once
            assert fixed or row in shown, (mode, row)
    own = tables["own"]
    areas = zip(methods, own["fixed: area"], own["learning: area"], strict=True)
    for row in (*areas, *zip(*tables["alarms"].values(), strict=True)):
        assert row[0] == "block_detector" or row in shown, row


def columns(text: str) -> dict[str, list[str]]:
    """Return the columns of the only table in a text."""
    heads, *body = rows(text)
    return {head: [row[i] for row in body] for i, head in enumerate(heads)}


def rows(text: str) -> list[tuple[str, ...]]:
    """Return the rows of the tables in a page."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [tuple(line.strip("| ").split(" | ")) for line in lines]
