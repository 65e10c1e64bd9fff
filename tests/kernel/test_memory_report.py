"""`memory()` against the growth of a fresh process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

GROWTH = """
import ctypes, json, os, sys
from pathlib import Path
import numpy as np
import mdvpf

def resident():
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):  # what was freed is given back first
        libc.malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def make(name, n_particles):
    algorithm = getattr(mdvpf, name)()
    model = mdvpf.InfiniteHMM(27, beta=0.01)
    return mdvpf.ParticleFilter(model, algorithm, n_particles, rng=0, history=history)

name, n, by = sys.argv[1], int(sys.argv[2]), sys.argv[3]
history = json.loads(sys.argv[4])
rng = np.random.default_rng(0)
# Each symbol has three likely successors.
successors = rng.integers(27, size=(27, 3))
symbols = [0]
for choice, stray in zip(rng.integers(3, size=n), rng.random(n), strict=True):
    symbols.append(int(stray * 270) if stray < 0.1 else int(successors[symbols[-1], choice]))

def feed(pf, symbols):
    if by == "run":
        pf.run(symbols)
    else:
        for symbol in symbols:
            pf.update(symbol)

feed(make(name, 10), symbols[:n])  # whatever the first steps of a process take, code included
before = resident()
pf = make(name, 10_000)
feed(pf, symbols[:n])
grown = resident() - before
report = pf.memory()
before = resident()
twin = pf.copy()
copied = resident() - before
print(json.dumps({
    "grown": grown, "copied": copied, "live": report.live, "allocated": report.allocated,
    "sizeof": sys.getsizeof(pf), "fixed": sys.getsizeof(make(name, 1)),
}))
"""


def measure(algorithm: str, n: int, by: str, history: int | str | None = None) -> dict[str, int]:
    done = subprocess.run(
        [sys.executable, "-c", GROWTH, algorithm, str(n), by, json.dumps(history)],
        cwd=ROOT,
        # Arrays of any size worth counting go back to the system when they are freed.
        env={**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


reads_proc = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
unsanitized = pytest.mark.skipif(
    "asan" in os.environ.get("LD_PRELOAD", ""), reason="sanitizers take memory too"
)
ALGORITHMS = ["VPA", "MDVPA", "OptimalResampling", "SMC", "ParticleLearning"]


@reads_proc
@unsanitized
@pytest.mark.parametrize(
    ("algorithm", "history"),
    [*((name, None) for name in ALGORITHMS), ("VPA", "full"), ("VPA", 50), ("SMC", "full")],
)
def test_after_a_run_both_figures_match_the_growth_of_the_process(
    algorithm: str, history: int | str | None
) -> None:
    found = measure(algorithm, 300, "run", history)
    assert found["allocated"] == pytest.approx(found["grown"], rel=0.15)
    # SMC may have so few distinct particles that tables of the model matter: 20 kB.
    assert found["live"] == pytest.approx(found["grown"] - found["fixed"], rel=0.15)
    assert found["live"] < found["allocated"]
    assert found["copied"] < 1.15 * found["grown"]
    assert found["sizeof"] == pytest.approx(found["allocated"], rel=0.01)


@reads_proc
@unsanitized
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_between_updates_there_is_work_space_as_well(algorithm: str) -> None:
    found = measure(algorithm, 300, "update")
    assert found["allocated"] == pytest.approx(found["grown"], rel=0.15)
    assert found["live"] < 0.85 * found["grown"]
    assert found["copied"] < 0.85 * found["grown"]  # a copy has none yet
