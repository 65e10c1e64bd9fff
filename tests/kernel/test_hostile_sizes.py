"""Small files that claim to be large: memory and time depend on the size of the file."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import mdvpf
from tests.kernel.sealing import loaded, saved, sealed, unsealed

MEGABYTE = 2**20
SCRIPT = """
    import resource, sys
    import mdvpf
    scale = 1 if sys.platform == "darwin" else 1024
    mdvpf.SoftHMM(2, n_states=2, rng=0).update(0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
    learner = mdvpf.SoftHMM.load(sys.argv[1])
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale - before)
"""


@pytest.mark.parametrize(
    ("n_states", "n_seeds", "lag"), [(10_000, 1, 2), (2, 2000, 1000), (3000, 10, 1000)]
)
def test_a_soft_hmm_takes_memory_as_it_learns_and_not_as_it_is_loaded(
    n_states: int, n_seeds: int, lag: int, tmp_path: Path
) -> None:
    learner = mdvpf.SoftHMM(2, n_states=n_states, n_seeds=n_seeds, lag=lag, rng=0)
    content = saved(learner)
    file = tmp_path / "learner"
    file.write_bytes(content)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), str(file)],
        capture_output=True,
        text=True,
        check=True,
    )
    # Tables of all positions and pairs of states would take 100 times as much.
    assert int(done.stdout) < 20 * len(content) + 8 * MEGABYTE


LARGEST = 2**31 - 2
INSPECT = """
    import resource, sys
    resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31))  # an alphabet would take 16 GiB
    from mdvpf.cli import main
    sys.exit(main(["inspect", sys.argv[1]]))
"""


@pytest.mark.skipif(
    "asan" in os.environ.get("LD_PRELOAD", ""),
    reason="sanitizers claim more addresses than the limit leaves",
)
@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on memory")
@pytest.mark.parametrize("machine", ["moore", "mealy"])
@pytest.mark.parametrize("symbols", [[], [0, 5, LARGEST - 1]])
def test_inspecting_a_large_alphabet_takes_no_tables_of_it(
    symbols: list[int], machine: str, tmp_path: Path
) -> None:
    pytest.importorskip("typer")
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(LARGEST, machine=machine), n_particles=5)
    if symbols:
        pf.run(symbols)
    content = saved(pf)
    assert len(content) < 6000
    file = tmp_path / "filter"
    file.write_bytes(content)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(INSPECT), str(file)],
        capture_output=True,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "too many to show" in done.stdout


def test_more_labels_than_a_look_ahead_can_hold_are_an_error() -> None:
    # K particles whose M states may all have different labels, in a file of one block: the hash
    # table of labels would have 2**32 places, a number that does not fit in 32 bits.
    n_particles, n_states, n_steps = 2**15, 2**14, 2**31
    model = mdvpf.InfiniteHMM(2, half_life=5.0)
    pf = mdvpf.ParticleFilter(model, mdvpf.MDVPA(), n_particles=1)
    pf.run([0, 1, 0, 1])
    pf.new_sequence()
    opened = unsealed(saved(pf))
    opened.values()["options"]["n_particles"] = n_particles
    opened.values()["core"]["n_steps"] = n_steps
    lengths = {"into": n_states, "rows": n_states // 4 + 1}
    opened.arrays |= {  # zeros: states that have faded away, without rows
        name: np.pad(opened.arrays[name], (0, n - opened.arrays[name].size))
        for name, n in lengths.items()
    }
    opened.arrays |= {
        "weight": np.full(n_particles, 1 / n_particles),
        "ancestor": np.zeros(n_particles, np.uint32),
        "copies": np.array([n_particles], np.uint32),
        "n_states": np.array([n_states], np.uint32),
        "kind": np.append(opened.arrays["kind"], np.uint8(255)),  # a record of labels
        "labels": np.array([len(opened.arrays["kind"]) + 1], np.uint32),
        "n_labels": np.zeros(1, np.uint32),
        "next_label": np.array([n_steps - n_states - 2**16], np.uint32),
    }
    content = sealed(opened, version=2)
    assert len(content) < 500_000
    hostile = loaded(content)
    with pytest.raises(MemoryError, match="has not changed the filter"):
        hostile.update(0)
