"""A process that is killed and resumed at any moment ends as one that was never interrupted.

It absorbs symbols and saves the filter every few of them. SIGKILL ends it after a random while, and
the next process continues from the file.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

import mdvpf
from tests.kernel.inspecting import assert_same, laid_open, n_absorbed

N_KILLS = 200
LONGEST_LIFE = 0.06  # seconds after the first checkpoint: on a slow machine every life has one
EVERY = 3  # symbols between two checkpoints
V = 8

LIFE = """
    import sys
    from pathlib import Path
    from tests.kernel.test_kill import EVERY, begun, stream
    import mdvpf
    from tests.kernel.inspecting import n_absorbed

    path, algorithm = Path(sys.argv[1]), sys.argv[2]
    pf = mdvpf.ParticleFilter.load(path) if path.exists() else begun(algorithm)
    symbols = stream()
    told = False
    while n_absorbed(pf) < len(symbols):
        for symbol in symbols[n_absorbed(pf):][:EVERY]:
            pf.update(symbol)
        pf.save(path)
        if not told:
            print("saved", flush=True)
            told = True
"""

ALGORITHMS = {
    "MD-VPA": mdvpf.MDVPA(selection="optimal"),
    "SMC": mdvpf.SMC(resampling="residual", ess_threshold=0.5),
}


def begun(algorithm: str) -> mdvpf.ParticleFilter:
    model = mdvpf.InfiniteHMM(V, beta=0.2)
    return mdvpf.ParticleFilter(model, ALGORITHMS[algorithm], 100, rng=8, history=50)


def stream() -> list[int | None]:
    rng = np.random.default_rng(4)
    symbols = np.cumsum(rng.integers(1, 3, 500_000)) % V
    return [None if symbol == 5 else symbol for symbol in symbols.tolist()]


@pytest.mark.torture
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_kills_change_nothing(algorithm: str, tmp_path: Path, torture_scale: float) -> None:
    path = tmp_path / "filter"
    rng = random.Random(1)
    command = [sys.executable, "-c", textwrap.dedent(LIFE), str(path), algorithm]
    root = Path(__file__).resolve().parents[2]
    seen = 0
    for _ in range(int(N_KILLS * torture_scale) // len(ALGORITHMS)):
        with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "saved\n"
            time.sleep(rng.random() * LONGEST_LIFE)
            process.kill()
        assert process.returncode == -9, "it ended before it was killed"
        n = n_absorbed(mdvpf.ParticleFilter.load(path))
        assert n > seen
        seen = n
    pf = mdvpf.ParticleFilter.load(path)
    never_killed = begun(algorithm)
    symbols = stream()[: n_absorbed(pf) + 100]
    expected = never_killed.run(symbols).log_predictive[-100:]
    found = pf.run(symbols[-100:]).log_predictive
    assert np.array_equal(found, expected)
    assert_same(pf, laid_open(never_killed))
    pf.save(path)
    assert os.listdir(tmp_path) == ["filter"]  # no file of a killed process remains
