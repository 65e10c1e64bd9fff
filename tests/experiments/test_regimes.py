"""`mdvpf reproduce regimes`: numbers whose regimes change, the generator, and the peers."""

from __future__ import annotations

import csv
import importlib.util
import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from mdvpf.cli import main
from mdvpf.experiments.regime_peers import FIRST, Hmmlearn, Refitted, Segmented, single_state
from mdvpf.experiments.regime_streams import (
    HALVES,
    KINDS,
    ForwardFilter,
    Generator,
    Regimes,
    stream,
)
from mdvpf.experiments.regimes import matched

pytest.importorskip("typer")
pytest.importorskip("matplotlib")

NORMAL = Regimes("Gaussian", (0.0, 3.0), (1.0, 0.5))


def test_the_generator_is_exact() -> None:
    """Against the sum over all paths of states."""
    values = np.array([0.1, 2.9, 3.2, -1.0, 8.0])
    start, transition = np.array([0.7, 0.3]), np.array([[0.9, 0.1], [0.2, 0.8]])
    densities = np.exp(NORMAL.log_densities(values))
    total = 0.0
    for path in itertools.product((0, 1), repeat=len(values)):
        probability = start[path[0]]
        for before, after in itertools.pairwise(path):
            probability *= transition[before, after]
        total += probability * math.prod(densities[t, state] for t, state in enumerate(path))
    found, posteriors = ForwardFilter(NORMAL, start, transition).run(values)
    assert found.sum() == pytest.approx(math.log(total), rel=1e-12)
    np.testing.assert_allclose(posteriors.sum(axis=1), 1.0)


def test_a_number_that_only_an_impossible_regime_explains() -> None:
    """No path has a density that a double can hold: the one with the largest log counts."""
    values, stays = np.array([0.0, 1e3]), np.eye(2)
    found, _ = ForwardFilter(NORMAL, np.array([1.0, 0.0]), stays).run(values)
    assert found[1] == pytest.approx(NORMAL.log_densities(values)[1, 0])


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_has_new_regimes_in_its_second_half(kind: str) -> None:
    data = stream(kind, 400, 0, np.random.SeedSequence(3))
    again = stream(kind, 400, 0, np.random.SeedSequence(3))
    assert data.digest == again.digest
    assert data.change_points == (200,) and set(data.changes) <= set(range(1, 400))
    assert set(HALVES[1]) - set(HALVES[0])
    generator = Generator().predictor(data, np.random.SeedSequence(0)).run(data.symbols)
    assert generator.log_evidence > single_state(kind).run(data.symbols).log_evidence


def test_change_points_are_matched_once() -> None:
    found = np.array([10, 11, 12, 40])
    assert matched(found, np.array([11])) == 1
    assert matched(found, np.array([9, 13, 46])) == 2
    assert matched(np.array([], dtype=np.int64), np.array([3])) == 0


def test_the_experiment_at_a_tiny_size(tmp_path: Path) -> None:
    """Without the peers, if they are not installed: the tables say so."""
    size = ["--seeds", "2", "--particles", "6", "--length", "60"]
    arguments = ["reproduce", "regimes", *size, "--method", "VPA", "--out", str(tmp_path)]
    assert main(["--debug", *arguments]) == 0
    folder = tmp_path / "regimes"
    assert (folder / "regimes.png").read_bytes().startswith(b"\x89PNG")
    for kind in KINDS:
        with (folder / f"table-{kind.lower()}.csv").open(encoding="utf-8") as file:
            rows = {row["method"].split(" (")[0]: row for row in csv.DictReader(file)}
        assert {"VPA", "MD-VPA", "generator"} <= rows.keys()
        assert ("hmmlearn" in rows) == bool(importlib.util.find_spec("hmmlearn"))
    with (folder / "changes.csv").open(encoding="utf-8") as file:
        shares = [float(row["F1"]) for row in csv.DictReader(file)]
    assert len(shares) >= 4 and all(0.0 <= share <= 1.0 for share in shares)
    text = (folder / "changes.md").read_text(encoding="utf-8")
    for name in ("hmmlearn", "ruptures"):
        assert (f"Without {name}: install" in text) == (not importlib.util.find_spec(name))


@pytest.mark.parametrize("kind", KINDS)
def test_hmmlearn_predicts_from_what_came_before(kind: str) -> None:
    pytest.importorskip("hmmlearn", reason="needs hmmlearn: install mdvpf[peers]")
    data = stream(kind, 120, 0, np.random.SeedSequence(1))
    settings = Refitted(window=60, every=30)
    peer = Hmmlearn(kind, settings, seed=1)
    found = peer.run(data.symbols).log_predictive
    single = single_state(kind).run(data.symbols).log_predictive
    np.testing.assert_array_equal(found[:FIRST], single[:FIRST])
    assert (found >= math.log(settings.share) + single - 1e-9).all()
    changed = data.symbols.copy()
    changed[100:] += 7.0
    np.testing.assert_array_equal(
        Hmmlearn(kind, settings, seed=1).run(changed).log_predictive[:100], found[:100]
    )


def test_ruptures_finds_a_change_that_is_plain() -> None:
    pytest.importorskip("ruptures", reason="needs ruptures: install mdvpf[peers]")
    data = stream("Gaussian", 100, 0, np.random.SeedSequence(1))
    rng = np.random.default_rng(1)
    values = np.concatenate([rng.normal(size=50), 20.0 + rng.normal(size=50)])
    search = Segmented().predictor(data, np.random.SeedSequence(0))
    search.run(values)
    assert search.changes == (50,)
