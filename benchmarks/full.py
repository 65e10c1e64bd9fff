"""Run measurements: ``python -m benchmarks.full`` runs all jobs, ``... NAME`` selected ones.

Each job runs in a separate process, so that jobs share neither memory nor caches.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable

from benchmarks import memory, soft_hmm, speed, sweeps
from benchmarks.common import MissingData
from benchmarks.figures import Result, figures_of, load, save, table

JOBS: dict[str, Callable[[], Result]] = {
    "floor-1e3": lambda: speed.floor(1000, at_most=3),
    "floor-1e4": lambda: speed.floor(10_000, at_most=5),
    "floor-1e5": lambda: speed.floor(100_000, at_most=8),
    "peers-1e3": lambda: speed.peers(1000, dense_numpy=12, dense_numba=6),
    "peers-1e4": lambda: speed.peers(10_000, dense_numpy=12, dense_numba=10),
    "algorithms-1e3": lambda: speed.algorithms(1000),
    "algorithms-1e4": lambda: speed.algorithms(10_000),
    "trees": speed.trees,
    "noise": speed.noise,
    "update": speed.update_overhead,
    "growth": speed.growth_in_k,
    "threads": speed.threads,
    "two-filters": speed.two_filters,
    "long-run": speed.long_run,
    "soft-hmm": soft_hmm.against_vpa,
    "live-bytes": memory.live_bytes,
    "words": memory.words,
    "accounting": memory.accounting,
    "memory-profile": memory.profile,
    "clicks": memory.clicks,
    "history": memory.history,
    "sweep-particles": sweeps.particles,
    "sweep-stream": sweeps.stream,
    "sweep-states": sweeps.states,
    "sweep-symbols": sweeps.symbols,
    "large": memory.large,
}
ON_REQUEST = {"large"}  # takes half an hour; runs only if it is named
SHORT = [
    name
    for name in JOBS
    if name.startswith(("floor", "peers", "algorithms", "trees", "noise", "update"))
]
SHORT.remove("floor-1e5")


def run_here(name: str) -> int:
    """Run one job in this process and save its results."""
    try:
        save(name, JOBS[name]())
    except MissingData as error:
        print(f"{name}: skipped, {error}")
        return 1
    return 0


def run(names: list[str]) -> int:
    """Run jobs one after the other, each in a separate process; print a table of all results."""
    failed = []
    for name in names:
        start = time.perf_counter()
        command = [sys.executable, "-m", "benchmarks.full", "--here", name]
        if subprocess.run(command, check=False).returncode:
            failed.append(name)
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
    figures = [figure for name in names if name not in failed for figure in figures_of(load(name))]
    print(f"\n{table(figures)}")
    if failed:
        print(f"\nfailed or skipped: {', '.join(failed)}")
    return len(failed)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.full", description="measurements")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"jobs: {', '.join(JOBS)}")
    parser.add_argument("--short", action="store_true", help="the jobs of `make bench`")
    parser.add_argument("--here", action="store_true", help="in this process, without a table")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in JOBS]
    if unknown:
        parser.error(f"{', '.join(unknown)}: expected names of {', '.join(JOBS)}")
    names = options.names or [name for name in JOBS if name not in ON_REQUEST]
    if options.short:
        names = SHORT
    if options.here:
        return sum(run_here(name) for name in names)
    return run(names)


if __name__ == "__main__":
    sys.exit(main())
