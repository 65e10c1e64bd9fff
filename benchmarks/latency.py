"""Latency: instructions of the most expensive step against the median step.

Most work is spread evenly over steps, but some happens only once in many steps: merging and moving
records, releasing states, refreshing sums. Callgrind counts the instructions of each of 1,000 steps
on text, after a warm-up of 1,000 steps (``--dump-after`` the core's call for one symbol).

By default VPA and MD-VPA are measured; their most expensive step may take at most four times the
median. ``--extensions`` measures filters with real counts, which have no such limit.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import mdvpf
from benchmarks.common import MissingData, load_text
from benchmarks.gate import ROOT, find_symbol, symbols
from mdvpf.model.algorithms import Algorithm

WARM_UP = 1000
N_STEPS = 1000
N_PARTICLES = 1000
ALLOWED = 4.0
MOST_EXPENSIVE = 8  # steps to name

FILTERS: dict[str, tuple[Algorithm, dict[str, object]]] = {
    "VPA": (mdvpf.VPA(), {}),
    "MD-VPA": (mdvpf.MDVPA(), {}),
}
EXTENSIONS: dict[str, tuple[Algorithm, dict[str, object]]] = {
    "VPA, forget=1": (mdvpf.VPA(), {"forget": 1.0}),
    "MD-VPA, forget=1": (mdvpf.MDVPA(), {"forget": 1.0}),
    "VPA, forget=1, rows": (mdvpf.VPA(), {"forget": 1.0, "oracle": "rows"}),
    "VPA, forget=1, rows, mealy": (
        mdvpf.VPA(),
        {"forget": 1.0, "oracle": "rows", "machine": "mealy"},
    ),
}


def workload(name: str) -> None:
    """Run the warm-up of one filter in a single call, then update it symbol by symbol."""
    algorithm, options = {**FILTERS, **EXTENSIONS}[name]
    model = mdvpf.InfiniteHMM(27, beta=0.01, **options)  # type: ignore[arg-type]
    pf = mdvpf.ParticleFilter(model, algorithm, n_particles=N_PARTICLES, rng=0)
    text = load_text(WARM_UP + N_STEPS)
    pf.run(text[:WARM_UP])
    for symbol in text[WARM_UP:].tolist():
        pf.update(symbol)


def count(name: str, folder: Path) -> list[int]:
    """Return the instructions of each step after the warm-up."""
    step, _ = symbols()
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out"]
    command += [f"--toggle-collect={step}", f"--dump-after={find_symbol('absorb')}"]
    command += [sys.executable, "-m", "benchmarks.latency", "--workload", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(f"the workload failed under callgrind:\n{done.stderr}")
    counts = []
    for i in range(1, N_STEPS + 1):
        dump = (folder / f"out.{i}").read_text()
        counts.append(int(re.findall(r"^totals: (\d+)$", dump, re.MULTILINE)[0]))
    return counts[1:]  # the first dump includes the warm-up


def describe(name: str, counts: list[int]) -> str:
    median = int(np.median(counts))
    largest = np.argsort(counts)[::-1][:MOST_EXPENSIVE]
    steps = ", ".join(f"{WARM_UP + 2 + i}: {counts[i] / median:.2f}" for i in largest)
    return (
        f"{name:<28} median {median:>11,}  most {max(counts):>11,}  "
        f"ratio {max(counts) / median:.2f}\n    most expensive symbols: {steps}"
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.latency", description="instructions of single steps"
    )
    parser.add_argument("--extensions", action="store_true", help="measure real counts instead")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep callgrind's files")
    parser.add_argument("--workload", metavar="NAME", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", help="filters, by name")
    options = parser.parse_args(arguments)
    if options.workload is not None:
        workload(options.workload)
        return 0
    if shutil.which("valgrind") is None or shutil.which("nm") is None:
        print("latency skipped: valgrind or nm is not installed")
        return 0
    try:
        load_text(1)
    except MissingData as error:
        print(f"latency skipped: {error}")
        return 0
    passed = True
    for name in options.names or (EXTENSIONS if options.extensions else FILTERS):
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            if options.keep is not None:
                folder = options.keep / re.sub(r"\W+", "-", name)
                folder.mkdir(parents=True, exist_ok=True)
            counts = count(name, folder)
        print(describe(name, counts), flush=True)
        if name in FILTERS:
            passed = passed and max(counts) <= ALLOWED * float(np.median(counts))
    if not passed:
        print(f"FAILED: a step takes more than {ALLOWED:g} times the median")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
