"""An experiment on a Dask cluster of two processes: the same bits as here, even if one dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mdvpf.experiments.artificial import ARTIFICIAL
from mdvpf.experiments.experiment import run_all, versions
from mdvpf.experiments.runs import Outcome, Run, Store
from mdvpf.parallel import Executor

distributed = pytest.importorskip("distributed")

TINY = ARTIFICIAL.defaults.changed(
    particles=8, seeds=1, length=20, most_particles=20, methods=("SMC", "VPA", "Markov 1")
)


@pytest.fixture
def cluster() -> Iterator[Any]:
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        yield cluster


def tables(where: Executor, folder: Path, seeds: int = 1) -> list[str]:
    """Return the tables of the experiment, none of whose runs failed."""
    options = TINY.changed(seeds=seeds)
    groups, failures = run_all(ARTIFICIAL.plan(options), where, Store(folder, versions()))
    assert not failures
    return [table.csv() for table in ARTIFICIAL.report(options, groups).tables]


def on(cluster: Any) -> Executor:
    return Executor(backend="dask", scheduler=cluster.scheduler_address)


def test_the_tables_are_the_same_as_without_a_cluster(cluster: Any, tmp_path: Path) -> None:
    assert tables(on(cluster), tmp_path / "dask") == tables(Executor(), tmp_path / "here")


def test_a_scheduler_that_is_not_there() -> None:
    executor = Executor(backend="dask", scheduler="tcp://127.0.0.1:1")
    with pytest.raises(OSError, match=r"scheduler='tcp://127.0.0.1:1'"):
        executor.map(int, ["1"])


@pytest.mark.torture
@pytest.mark.usefixtures("full_torture")
def test_a_worker_that_is_killed_changes_nothing(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = cluster.workers[0].process.pid
    kept: list[Run] = []
    keep = Store.keep

    def keep_and_kill(store: Store, run: Run, outcome: Outcome) -> None:
        keep(store, run, outcome)
        kept.append(run)
        if len(kept) == 5:
            os.kill(victim, signal.SIGKILL)

    monkeypatch.setattr(Store, "keep", keep_and_kill)
    found = tables(on(cluster), tmp_path / "dask", seeds=10)
    monkeypatch.undo()
    assert len(kept) > 5
    with pytest.raises(ProcessLookupError):
        os.kill(victim, 0)
    assert found == tables(Executor(), tmp_path / "here", seeds=10)
