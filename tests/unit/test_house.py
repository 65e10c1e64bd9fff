"""The layout: few entries at the top, short files, imports that point down, old names that work."""

from __future__ import annotations

import ast
import importlib
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mdvpf

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "mdvpf"
SOURCES = sorted(PACKAGE.rglob("*.py"))

# The public modules of version 0.1, and names in them.
MODULES_OF_0_1 = {
    "adapters.pandas": ["state_column"],
    "adapters.river": ["SymbolFilter"],
    "algorithms": ["MDVPA", "VPA", "SMC", "ParticleLearning", "OptimalResampling"],
    "baselines": ["KnownHMM", "Markov", "ContextTree"],
    "checkpoint": ["CheckpointError", "Saveable", "State", "register", "unpickled"],
    "cli": ["main"],
    "coding": ["compress", "decompress", "CodingError"],
    "datasets": ["HMM", "HMMStream", "EXPANSIVE", "switching_hmm", "books", "msnbc", "masquerade"],
    "detect": ["SurpriseDetector", "Detection", "DetectionResult"],
    "filter": ["ParticleFilter"],
    "filter_plots": ["run_figure", "transition_graph", "emission_table"],
    "hmm": ["HMM", "HMMStream", "random_hmm", "sample_hmms", "switching_hmm"],
    "mixture": ["Mixture"],
    "model": ["InfiniteHMM"],
    "monitor": ["Monitor", "Report"],
    "packing": ["pack", "unpack"],
    "parallel": ["Executor", "Failure", "spawn"],
    "plots": ["Line", "Panel", "figure", "trailing_mean"],
    "predictor": ["Predictor", "Stream", "MISSING", "read_symbol"],
    "progress": ["progress_bar"],
    "reference": ["ReferenceFilter"],
    "regret": ["regret", "best_sequence", "shifting_regret", "growth_exponent"],
    "restart": ["Restart"],
    "result": ["Step", "FilterResult", "MixtureResult", "Counts", "MemoryReport"],
    "vocabulary": ["Vocabulary", "label_text"],
}


def is_source(path: Path) -> bool:
    return path.suffix not in (".so", ".pyd") and path.name != "__pycache__"


def test_files_are_short() -> None:
    long = {"_core.pyx": 800}
    for path in PACKAGE.rglob("*"):
        if path.suffix in (".py", ".pyx", ".pxd"):
            most = long.get(path.name, 350 if path.suffix == ".pxd" else 500)
            n_lines = len(path.read_text(encoding="utf-8").splitlines())
            assert n_lines <= most, path.relative_to(ROOT)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_file_has_a_docstring(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_are_absolute_and_only_the_filter_uses_the_core(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
            if "mdvpf._core" in names:
                assert path.parent.name == "filter"


@pytest.mark.parametrize("name", MODULES_OF_0_1)
def test_modules_of_0_1_can_be_imported(name: str) -> None:
    if name.startswith("adapters."):
        pytest.importorskip(name.split(".")[1])
    module = importlib.import_module(f"mdvpf.{name}")
    for public in MODULES_OF_0_1[name]:
        assert hasattr(module, public)


def test_names_in_a_pickle_of_0_1_still_exist() -> None:
    # The pickle names a class and a function by their old modules.
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(2), n_particles=3)
    content = pickle.dumps(pf, protocol=0)
    old = content.replace(b"mdvpf.checkpoint.saveable", b"mdvpf.checkpoint")
    old = old.replace(b"mdvpf.filter.particle_filter", b"mdvpf.filter")
    assert old != content
    assert isinstance(pickle.loads(old), mdvpf.ParticleFilter)


def test_the_top_of_the_package_fits_on_a_screen() -> None:
    assert len([path for path in PACKAGE.iterdir() if is_source(path)]) <= 25


def test_imports_point_down() -> None:
    pytest.importorskip("importlinter", reason="import-linter is not installed")
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-logo", "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_the_design_page_shows_every_entry_of_the_package() -> None:
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    (drawing,) = re.findall(r"^```text\nmdvpf/\n(.*?)```", page, re.DOTALL | re.MULTILINE)
    entries = {path.name for path in PACKAGE.iterdir() if is_source(path)}
    shown = set(re.findall(r"(?<![\w/])([\w.]+)/?(?=[\s,])", drawing))
    assert entries <= shown, entries - shown
