"""Results of benchmarks: figures with targets and points of curves, as a table and as JSON.

A *job* is a function that returns figures and points. Its results are in
``benchmarks/results/NAME.jsonl``, one JSON object a line. The first line describes the machine and
the software.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).with_name("results")


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured number with its target, if it has one: at most or at least some value."""

    what: str
    value: float
    unit: str = "x"
    at_most: float | None = None
    at_least: float | None = None
    note: str = ""

    @property
    def target(self) -> str:
        if self.at_most is not None:
            return f"at most {_number(self.at_most)}"
        return "" if self.at_least is None else f"at least {_number(self.at_least)}"

    @property
    def met(self) -> str:
        if self.at_most is not None:
            return "yes" if self.value <= self.at_most else "NO"
        if self.at_least is not None:
            return "yes" if self.value >= self.at_least else "NO"
        return ""


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a curve in a plot."""

    curve: str
    x: float
    y: float


Result = list[Figure | Point]


def _number(value: float) -> str:
    if value == int(value) and abs(value) < 1e7:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def table(figures: Iterable[Figure]) -> str:
    """Return the figures as a table."""
    head = ("what", "measured", "target", "met", "note")
    rows = [
        (f.what, f"{_number(f.value)} {f.unit}".strip(), f.target, f.met, f.note) for f in figures
    ]
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
             for row in [head, tuple("-" * width for width in widths), *rows]]  # fmt: skip
    return "\n".join(lines)


@cache
def compiler() -> str:
    """Return the C compiler, its version and the machine: the key of the gate's figures."""
    name = os.environ.get("CC", "cc").split()[0]
    try:
        texts = [
            subprocess.run([name, option], capture_output=True, text=True, check=True).stdout
            for option in ("--version", "-dumpversion")
        ]
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    full = re.search(r"\d+\.\d+\.\d+", texts[0])
    family = "clang" if "clang" in texts[0] else "gcc"
    return f"{family} {full[0] if full else texts[1].strip()}, {platform.machine()}"


def _environment() -> dict[str, object]:
    commit = subprocess.run(
        ["git", "-C", str(RESULTS.parent), "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "commit": commit.stdout.strip() or "unknown",
        "compiler": compiler(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def save(name: str, result: Result) -> None:
    """Save the results of a job; they replace those of an earlier run."""
    RESULTS.mkdir(exist_ok=True)
    lines = [{"kind": "environment", "job": name, **_environment()}]
    lines += [{"kind": type(item).__name__.lower(), "job": name, **asdict(item)} for item in result]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (RESULTS / f"{name}.jsonl").write_text(text, encoding="utf-8")


def load(name: str) -> Result:
    """Return the saved results of a job; an empty list if there are none."""
    path = RESULTS / f"{name}.jsonl"
    if not path.exists():
        return []
    result: Result = []
    for line in path.read_text(encoding="utf-8").splitlines():
        item = json.loads(line)
        kind = {"figure": Figure, "point": Point}.get(item.pop("kind"))
        item.pop("job")
        if kind is not None:
            result.append(kind(**item))
    return result


def figures_of(result: Result) -> list[Figure]:
    return [item for item in result if isinstance(item, Figure)]
