"""Coverage of the core: map gcov's counts of the C file to the Cython sources.

Cython writes a comment with the source file and line before each piece of C code. (`#line`
directives would not suffice, because several lines of C follow each of them.) A source line counts
as run if any of its C code ran. Usage: core_coverage.py FOLDER TESTS..., where FOLDER is a copy of
the package that was built with MDVPF_COVERAGE=1.

The tests run in one process, and only that process counts: processes that tests start and kill may
leave incomplete files of counts.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from itertools import groupby
from pathlib import Path

MARKER = re.compile(r'^\s*/\* "(mdvpf/[\w/]+\.p(?:yx|xd))":(\d+)$')

# Processes that the tests start inherit GCOV_PREFIX and write their counts there. This process
# deletes the variable first, so it writes its counts next to the sources.
RUN = """
import os, sys, pytest
os.environ["GCOV_PREFIX"] = sys.argv[1]
code = pytest.main(["-q", "-p", "no:xdist", "--benchmark-disable", *sys.argv[2:]])
del os.environ["GCOV_PREFIX"]
sys.exit(code)
"""


def run_tests(folder: Path, tests: list[str]) -> None:
    """Run the tests, after deleting the counts of earlier runs."""
    for counted in folder.rglob("*.gcda"):
        counted.unlink()
    with tempfile.TemporaryDirectory() as elsewhere:
        subprocess.run([sys.executable, "-c", RUN, elsewhere, *tests], cwd=folder, check=True)


def counts_of_c(folder: Path) -> dict[int, int]:
    """Return how often each line of code in the C file ran."""
    counted = next(folder.rglob("_core.gcda")).resolve()
    command = ["gcov", "--json-format", "--stdout", str(counted)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    files = json.loads(done.stdout)["files"]
    (lines,) = (file["lines"] for file in files if file["file"].endswith("/_core.c"))
    counts: defaultdict[int, int] = defaultdict(int)
    for line in lines:
        counts[line["line_number"]] += line["count"]
    return counts


def counts_of_sources(folder: Path) -> dict[str, dict[int, int]]:
    """Return how often each line of the Cython sources ran, by file."""
    counts = counts_of_c(folder)
    found: defaultdict[str, defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
    source, number = "", 0
    text = (folder / "build" / "cython" / "mdvpf" / "_core.c").read_text(encoding="utf-8")
    for i, line in enumerate(text.splitlines(), start=1):
        marker = MARKER.match(line)
        if marker:
            source, number = marker[1], int(marker[2])
        elif source and i in counts:
            found[source][number] = max(found[source][number], counts[i])
    return found


def ranges(numbers: list[int]) -> str:
    """Return ascending numbers as text, with consecutive ones as ranges."""
    runs = groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])
    ends = [[number for _, number in run] for _, run in runs]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in ends)


def report(folder: Path) -> None:
    """Print the share of the lines of each source that ran, and the lines that did not."""
    n_lines = n_run = 0
    for source, counts in sorted(counts_of_sources(folder).items()):
        missed = sorted(number for number, count in counts.items() if count == 0)
        n_lines += len(counts)
        n_run += len(counts) - len(missed)
        share = 1.0 - len(missed) / len(counts)
        print(f"{source:40} {len(counts):5} {share:7.1%}  {ranges(missed)}")
    print(f"{'lines of the core that ran':40} {n_lines:5} {n_run / n_lines:7.1%}")


if __name__ == "__main__":
    run_tests(Path(sys.argv[1]), sys.argv[2:])
    report(Path(sys.argv[1]))
