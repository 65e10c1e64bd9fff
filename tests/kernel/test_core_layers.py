"""The parts of the core import downwards only, and every one of them is used."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "mdvpf"
KERNEL = PACKAGE / "_kernel"

# From the ground up: each may use those before it. A new part gets its line here.
LAYERS = [
    "constants",
    "buffer_types",
    "number_types",
    "types",
    "lanes",
    "pool",
    "buffers",
    "alphabet",
    "counts",
    "clock",
    "real_counts",
    "families",
    "compiled_parts",
    "open_channels",
    "emission",
    "top_k",
    "optimal_rule",
    "history",
    "labels",
    "particles",
    "statistics",
    "row_scores",
    "positions",
    "real_particles",
    "shown",
    "memory_report",
    "real_scores",
    "number_scores",
    "number_expansion",
    "number_tables",
    "count_tables",
    "real_tables",
    "transition",
    "threads",
    "sparse_expansion",
    "expansion",
    "optimal_rule_bounded",
    "shared_updates",
    "merging",
    "stretches",
    "compaction",
    "shelves",
    "growth",
    "reserve",
    "prediction",
    "keys",
    "real_commit",
    "release_records",
    "release_states",
    "commit",
    "log_tables",
    "real_lookahead",
    "number_lookahead",
    "lookahead",
    "regret_term",
    "resampling",
    "number_draws",
    "step_ranked",
    "step_mdvpa",
    "step_drawn",
    "settling",
    "step",
    "sections",
    "snapshot",
    "position_snapshot",
    "real_snapshot",
    "restore_records",
    "saved_alphabet",
    "restore_particles",
    "position_restore",
    "restore",
    "real_restore_lengths",
    "real_restore_records",
    "real_restore_trees",
    "saved_channels",
    "saved_statistics",
    "real_restore",
    "saving",
    "verify",
    "verify_real",
    "verify_positions",
    "verify_statistics",
    "verify_all",
    "state_text",
]


def source_of(part: str) -> str:
    path = PACKAGE / "_core.pyx" if part == "_core" else KERNEL / f"{part}.pxd"
    return path.read_text(encoding="utf-8")


def core_imports(source: str) -> tuple[set[str], set[str]]:
    """Return the parts that Cython source cimports, and any other import from the package."""
    cimported = r"^\s*from\s+mdvpf\._kernel\.(\w+)\s+cimport\b"
    others = (
        r"^\s*(?:from\s+mdvpf(?!\._kernel\.\w+\s+cimport\b).*|from\s+\..*"
        r"|c?import\s+mdvpf\b.*|include\b.*)"
    )
    return (
        set(re.findall(cimported, source, re.MULTILINE)),
        set(re.findall(others, source, re.MULTILINE)),
    )


def test_every_part_has_a_layer() -> None:
    assert {path.stem for path in KERNEL.glob("*")} - {"__init__"} == set(LAYERS)
    assert [path.name for path in PACKAGE.glob("*.p[yx][xd]")] == ["_core.pyx"]


@pytest.mark.parametrize("part", [*LAYERS, "_core"])
def test_core_imports_point_down(part: str) -> None:
    cimported, others = core_imports(source_of(part))
    below = LAYERS if part == "_core" else LAYERS[: LAYERS.index(part)]
    assert cimported <= set(below)
    assert not others, "the core uses no Python of the package, and one way to cimport"


def test_every_part_of_the_core_is_used() -> None:
    used = set().union(*(core_imports(source_of(part))[0] for part in [*LAYERS, "_core"]))
    assert used == set(LAYERS)


@pytest.mark.parametrize("part", LAYERS)
def test_parts_are_short(part: str) -> None:
    assert source_of(part).count("\n") <= 350


@pytest.mark.parametrize(
    "line",
    [
        "from mdvpf import filter",
        "from mdvpf.filter import ParticleFilter",
        "    import mdvpf.filter",
        "cimport mdvpf._kernel.pool",
        "from . import filter",
        "from .filter import ParticleFilter",
        "from .pool cimport at",
        "from mdvpf._kernel cimport pool",
        "from mdvpf._kernel.pool import at",
        'include "pool.pxi"',
    ],
)
def test_the_reader_of_imports_sees(line: str) -> None:
    assert core_imports(f"from libc.math cimport log\n{line}\n") == (set(), {line})
