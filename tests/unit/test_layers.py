"""Dependencies point down only: what each file may import, read from the sources."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "mdvpf"

# What each module may import from the package. A new module gets its line here.
PYTHON_LAYERS: dict[str, set[str]] = {
    "_validate": set(),
    "_extras": set(),
    "_durable": set(),
    "_uniforms": set(),
    "_generator": {"_validate"},
    "_container": set(),
    "checkpoint": {"_container", "_durable"},
    "vocabulary": {"_validate"},
    "result": {"_extras"},
    "model": {"_validate"},
    "algorithms": {"_validate"},
    "progress": {"_extras"},
    "predictor": {"_validate", "checkpoint", "progress", "result", "vocabulary"},
    "reference": {"_validate", "algorithms", "model", "result"},
    "_codes": {"algorithms", "model"},
    "_filter_state": {"_core", "_generator", "_validate", "algorithms", "checkpoint", "model"},
    "filter": {
        "_core",
        "_codes",
        "_filter_state",
        "_uniforms",
        "_validate",
        "algorithms",
        "checkpoint",
        "model",
        "predictor",
        "result",
    },
    "_files": set(),
    "hmm": {"_validate"},
    "_baseline": {"_validate", "checkpoint", "predictor", "result"},
    "_context_tree": {"_baseline", "_validate", "checkpoint", "predictor"},
    "baselines": {"_baseline", "_context_tree", "_validate", "checkpoint", "hmm", "predictor"},
    "regret": {"_validate"},
    "_threshold": {"_validate"},
    "_detection": set(),
    "_level": set(),
    "_belief": {"predictor"},
    "detect": {
        "_belief",
        "_detection",
        "_level",
        "_threshold",
        "_validate",
        "checkpoint",
        "predictor",
        "progress",
    },
    "_texts": {"_files", "_validate"},
    "_logs": {"_files"},
    "datasets": {"_logs", "_texts", "hmm"},
    "monitor": {
        "_leaves",
        "_validate",
        "checkpoint",
        "detect",
        "filter",
        "predictor",
        "result",
        "vocabulary",
    },
    "filter_plots": {"_validate", "filter", "plots", "result", "vocabulary"},
    "_share": {"_validate"},
    "restart": {"_share", "_validate"},
    "_bound": {"_share", "restart"},
    "_combine": {"_share", "predictor", "restart", "result"},
    "_lives": {"filter", "predictor", "restart"},
    "_population": {"_baseline", "_lives", "_validate", "predictor", "restart", "result"},
    "_mixture_state": {
        "_baseline",
        "_population",
        "_share",
        "_validate",
        "checkpoint",
        "predictor",
        "restart",
    },
    "_grid": {"_validate", "algorithms", "filter", "model"},
    "mixture": {
        "_bound",
        "_combine",
        "_grid",
        "_mixture_state",
        "_population",
        "_share",
        "_validate",
        "algorithms",
        "checkpoint",
        "filter",
        "predictor",
        "restart",
        "result",
    },
    "_leaves": {"filter", "mixture", "predictor"},
    "parallel": {"_extras", "_validate", "progress"},
    "plots": {"_extras"},
    "_auto": {
        "_validate",
        "algorithms",
        "baselines",
        "filter",
        "mixture",
        "predictor",
        "restart",
    },
    "coding": {"_extras", "_validate", "algorithms", "filter", "model", "predictor", "progress"},
    "packing": {"_auto", "_validate", "coding", "predictor"},
    "__init__": {
        "_auto",
        "algorithms",
        "baselines",
        "checkpoint",
        "datasets",
        "detect",
        "filter",
        "mixture",
        "model",
        "monitor",
        "predictor",
        "regret",
        "restart",
        "result",
        "vocabulary",
    },
}

# The files of a subpackage, from the ground up: each may use those before it, and the modules
# that the subpackage stands on.
SUBPACKAGES: dict[str, tuple[set[str], list[str]]] = {
    "experiments": (
        {
            "_auto",
            "_validate",
            "algorithms",
            "baselines",
            "_threshold",
            "datasets",
            "detect",
            "filter",
            "mixture",
            "model",
            "parallel",
            "plots",
            "predictor",
            "progress",
            "regret",
        },
        [
            "__init__",
            "data",
            "spread",
            "tables",
            "methods",
            "options",
            "runs",
            "results",
            "hindsight",
            "figures",
            "experiment",
            "settings",
            "artificial",
            "books",
            "webclick",
            "efficiency",
            "adversarial",
            "roc",
            "masquerade",
            "files",
            "compare",
        ],
    ),
    "adapters": (
        {"_extras", "filter", "model", "predictor", "vocabulary"},
        ["__init__", "pandas", "river"],
    ),
    "cli": (
        {
            "_auto",
            "_durable",
            "_leaves",
            "_validate",
            "algorithms",
            "baselines",
            "checkpoint",
            "detect",
            "experiments",
            "filter",
            "mixture",
            "model",
            "monitor",
            "packing",
            "parallel",
            "predictor",
            "progress",
            "vocabulary",
        },
        [
            "shared",
            "predictors",
            "live",
            "reproduce",
            "compare",
            "filter",
            "inspect",
            "detect",
            "coding",
            "app",
            "__init__",
        ],
    ),
}
for _package, (_below, _files) in SUBPACKAGES.items():
    _below = _below | {name for name in PYTHON_LAYERS if name.split(".")[0] in _below}
    for _i, _file in enumerate(_files):
        PYTHON_LAYERS[f"{_package}.{_file}"] = _below | {f"{_package}.{x}" for x in _files[:_i]}
PYTHON_LAYERS["__main__"] = {"cli.__init__"}

# The parts of the core, from the ground up: each may use those before it.
CORE_LAYERS = [
    "_types.pxd",
    "_pool.pxd",
    "_buffers.pxd",
    "_counts.pxd",
    "_emission.pxd",
    "_select.pxd",
    "_optimal.pxd",
    "_history.pxd",
    "_score.pxd",
    "_parts.pxd",
    "_collect.pxd",
    "_expand.pxd",
    "_thin.pxd",
    "_changes.pxd",
    "_move.pxd",
    "_room.pxd",
    "_commit.pxd",
    "_log_tables.pxd",
    "_lookahead.pxd",
    "_tilt.pxd",
    "_resample.pxd",
    "_step.pxd",
    "_step_mdvpa.pxd",
    "_step_draws.pxd",
    "_settle.pxd",
    "_steps.pxd",
    "_snapshot.pxd",
    "_restore_records.pxd",
    "_restore_particles.pxd",
    "_restore.pxd",
    "_verify.pxd",
    "_core.pyx",
]


def source_of(module: str) -> Path:
    return PACKAGE / f"{module.replace('.', '/')}.py"


@lru_cache
def python_imports(path: Path) -> frozenset[str]:
    """Return the modules of the package that a Python file imports, wherever in the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: a relative import"
            if node.module in ("mdvpf", *(f"mdvpf.{name}" for name in SUBPACKAGES)):
                found |= {f"{node.module}.{alias.name}" for alias in node.names}
            else:
                found.add(node.module or "")
    assert "mdvpf" not in found, f"{path.name}: imports the whole package"
    modules = {name.removeprefix("mdvpf.") for name in found if name.startswith("mdvpf.")}
    return frozenset(
        name if "." not in name or source_of(name).exists() else f"{name.split('.')[0]}.__init__"
        for name in modules
    )


def core_imports(source: str) -> tuple[set[str], set[str]]:
    """Return what Cython source cimports from the package, and what it imports or includes."""
    cimported = set(re.findall(r"^\s*from\s+mdvpf\.(\w+)\s+cimport\b", source, re.MULTILINE))
    others = r"^\s*(?:from\s+(?:mdvpf|\.)\S*\s+import\b|c?import\s+mdvpf\b|include\b|from\s+\.).*"
    imported = set(re.findall(others, source, re.MULTILINE))
    imported |= set(re.findall(r"^\s*from\s+mdvpf\s+cimport\b.*", source, re.MULTILINE))
    return cimported, imported


def closure(name: str) -> set[str]:
    """Return everything that a module imports, directly or not."""
    reached: set[str] = set()
    to_do = {name}
    while to_do:
        module = to_do.pop()
        below = python_imports(source_of(module)) if module != "_core" else set()
        to_do |= below - reached
        reached |= below
    return reached


def test_every_file_has_a_layer() -> None:
    files = {path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py")}
    assert files == {source_of(module).relative_to(PACKAGE) for module in PYTHON_LAYERS}
    core = {path.name for pattern in ("*.pxd", "*.pyx") for path in PACKAGE.glob(pattern)}
    assert core == set(CORE_LAYERS)


@pytest.mark.parametrize("module", PYTHON_LAYERS)
def test_python_imports_point_down(module: str) -> None:
    assert python_imports(source_of(module)) <= PYTHON_LAYERS[module]


def test_no_module_is_below_itself() -> None:
    for module in PYTHON_LAYERS:
        assert module not in closure(module)


def test_the_reference_uses_nothing_compiled() -> None:
    assert not closure("reference") & {"_core", "filter", "predictor"}


@pytest.mark.parametrize("part", CORE_LAYERS)
def test_core_imports_point_down(part: str) -> None:
    cimported, imported = core_imports((PACKAGE / part).read_text())
    below = {Path(name).stem for name in CORE_LAYERS[: CORE_LAYERS.index(part)]}
    assert cimported <= below
    assert not imported, "the core uses no Python of the package, and one way to cimport"


def test_every_part_of_the_core_is_used() -> None:
    used = set()
    for part in CORE_LAYERS:
        used |= core_imports((PACKAGE / part).read_text())[0]
    assert used == {Path(part).stem for part in CORE_LAYERS[:-1]}


def test_the_design_page_draws_every_file_above_those_that_it_imports() -> None:
    page = (PACKAGE.parent / "docs" / "design.md").read_text(encoding="utf-8")
    (drawing,) = re.findall(r"^## The layers\n\n```text\n(.*?)```", page, re.DOTALL | re.MULTILINE)
    rows = re.split(r"\n(?=\S)", drawing)  # what is indented goes on with the row above it
    drawn = [re.findall(r"\b\w+(?=/|\.p(?:yx?|xd)\b)", row) for row in rows]
    place = {name: i for i, names in enumerate(drawn) for name in names}
    assert len(place) == sum(map(len, drawn)), "a file is drawn twice"
    modules = {name.split(".")[0] for name in PYTHON_LAYERS} - {"__init__", "reference"}
    assert set(place) == modules | {Path(part).stem for part in CORE_LAYERS}
    for module in PYTHON_LAYERS.keys() - {"__init__", "reference"}:
        for below in python_imports(source_of(module)):
            assert place[module.split(".")[0]] <= place[below.split(".")[0]], (module, below)
    for part in CORE_LAYERS:
        for below in core_imports((PACKAGE / part).read_text())[0]:
            assert place[Path(part).stem] <= place[below], (part, below)


@pytest.mark.parametrize(
    "line",
    [
        "from mdvpf import filter",
        "from mdvpf.filter import ParticleFilter",
        "    import mdvpf.filter",
        "cimport mdvpf._pool",
        "from . import filter",
        "from .filter import ParticleFilter",
        "from ._pool cimport at",
        "from mdvpf cimport _pool",
        'include "_pool.pxi"',
    ],
)
def test_the_reader_of_imports_sees(line: str) -> None:
    assert core_imports(f"from libc.math cimport log\n{line}\n") == (set(), {line})


def test_every_buffer_is_listed() -> None:
    # Lost ones would leak, or be shared with copies.
    source = PACKAGE.joinpath("_types.pxd").read_text(encoding="utf-8")
    structs = dict(re.findall(r"^cdef struct (\w+):\n((?:(?: +.*)?\n)+)", source, re.MULTILINE))

    def n_buffers(name: str) -> int:
        fields = re.findall(r"^ +(\w+) +\w+", structs[name], re.MULTILINE)
        return sum(
            1 if kind == "Buffer" else n_buffers(kind)
            for kind in fields
            if kind == "Buffer" or (kind in structs and kind not in {"Pool", "Buffer"})
        )

    listed = PACKAGE.joinpath("_buffers.pxd").read_text(encoding="utf-8")
    constants = dict(re.findall(r"^    (\w+) = (\d+) ", listed, re.MULTILINE))
    names = re.findall(r"^    out\[(\w+)\] = &", listed, re.MULTILINE)
    places = [int(constants.get(name, name)) for name in names]
    assert places == list(range(n_buffers("System")))
    assert int(constants["N_BUFFERS"]) == len(places)
