"""Overhead of `mdvpf filter`: processor time of the command against that of `run`.

The command reads a file of integers and writes its reports to a file; `run` absorbs the same
symbols in this process. Processor time is measured, so other processes do not matter. The start-up
time, measured on an empty file, is subtracted. The two take turns, and the median is reported.

With 10,000 symbols, MD-VPA and 100 particles the command may take at most three times as long.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import mdvpf
from benchmarks.common import MissingData, load_words

ALLOWED = 3.0
N_SYMBOLS = 10_000
N_PARTICLES = 100
BETA = 0.01


def seconds_of_run(symbols: list[int]) -> float:
    """Return the processor time that `run` takes."""
    model = mdvpf.InfiniteHMM(N_SYMBOLS, beta=BETA)
    pf = mdvpf.ParticleFilter(model, mdvpf.MDVPA(), N_PARTICLES)
    start = time.process_time()
    pf.run(symbols)
    return time.process_time() - start


def seconds_of_command(source: Path, folder: Path, options: list[str]) -> float:
    """Return the processor time that the command takes."""
    command = [sys.executable, "-m", "mdvpf", "filter", str(source), "--symbols", str(N_SYMBOLS)]
    command += ["--method", "MD-VPA", "-K", str(N_PARTICLES), "--beta", str(BETA), *options]
    with (folder / "reports").open("wb") as reports:
        process = subprocess.Popen(command, stdout=reports)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"the command failed: {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def measure(n: int, rounds: int) -> bool:
    """Print the ratios; return whether the first one meets the target."""
    try:
        words = load_words(N_SYMBOLS, n)
    except MissingData:  # similar data: word frequencies follow Zipf's law
        weights = 1.0 / np.arange(1, N_SYMBOLS + 1)
        words = np.random.default_rng(0).choice(N_SYMBOLS, n, p=weights / weights.sum())
    symbols = words.tolist()
    variants = {
        "as it is": [],
        "with checkpoints": ["--checkpoint", "kept"],
        "with expected symbols": ["--expected", "3"],
    }
    ratios: dict[str, list[float]] = {name: [] for name in variants}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, empty = folder / "symbols", folder / "empty"
        source.write_text("".join(f"{symbol}\n" for symbol in symbols))
        empty.write_text("")
        for i in range(rounds):
            plain = seconds_of_run(symbols)
            nothing = seconds_of_command(empty, folder, [])
            for variant, options in variants.items():
                own = [str(folder / f"kept {i}") if each == "kept" else each for each in options]
                seconds = seconds_of_command(source, folder, own) - nothing
                ratios[variant].append(seconds / plain)
    print(f"{n:,} symbols of {N_SYMBOLS:,}, MD-VPA, K = {N_PARTICLES}: times that of run")
    for variant, found in ratios.items():
        print(f"  {variant}: {np.median(found):.2f}")
    return bool(np.median(ratios["as it is"]) <= ALLOWED)


def main() -> int:
    """Measure; return 1 if the command misses its target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--symbols", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    return 0 if measure(options.symbols, options.rounds) else 1


if __name__ == "__main__":
    sys.exit(main())
