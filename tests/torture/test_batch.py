"""A batch on a Dask cluster whose workers are killed: the same rows as without a cluster."""

from __future__ import annotations

import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

import mdvpf
from mdvpf.parallel import Executor
from mdvpf.streams import batch, run_batch

distributed = pytest.importorskip("distributed", reason="needs mdvpf[dask]")
pd = pytest.importorskip("pandas", reason="needs pandas")
pytest.importorskip("narwhals", reason="needs mdvpf[frames]")
pytest.importorskip("pyarrow", reason="needs mdvpf[parquet]")
pytestmark = [
    pytest.mark.torture,
    pytest.mark.skipif(sys.platform == "win32", reason="kills processes"),
]

N_PARTITIONS = 12


def test_a_worker_that_is_killed_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(0)
    rows = [(f"user {rng.randrange(60)}", rng.randrange(5)) for _ in range(6000)]
    frame = pd.DataFrame(rows, columns=["user", "page"])
    frame.to_parquet(tmp_path / "clicks.parquet")
    model = mdvpf.InfiniteHMM(5)
    predictor = mdvpf.ParticleFilter(model, mdvpf.MDVPA(), n_particles=50, rng=0)
    template = mdvpf.SurpriseDetector(predictor, block=8)
    given: dict[str, Any] = {"symbol": "page", "key": "user", "n_partitions": N_PARTITIONS}
    kept: list[int] = []
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        victims = [worker.process.pid for worker in cluster.workers.values()]
        keep = batch._Store.keep

        def keep_and_kill(store: Any, task: batch.Partition, found: Any) -> None:
            keep(store, task, found)
            kept.append(task.number)
            if len(kept) in (2, 5) and victims:
                os.kill(victims.pop(), signal.SIGKILL)

        monkeypatch.setattr(batch._Store, "keep", keep_and_kill)
        executor = Executor(backend="dask", scheduler=cluster.scheduler_address)
        path = tmp_path / "clicks.parquet"
        found = run_batch(path, template, folder=tmp_path / "out", executor=executor, **given)
    assert not victims
    assert sorted(kept) == list(range(N_PARTITIONS))
    expected = run_batch(frame, template, **given)
    for name in ("row", "surprise", "alarm", "key"):
        assert found[name].to_pylist() == expected[name].tolist()
