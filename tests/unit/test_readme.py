"""The code in the README and in the documentation runs and prints what the text shows."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import json
import re
import runpy
import textwrap
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "```python" in path.read_text("utf-8"))
PUBLIC = ("mdvpf", "mdvpf.datasets", "mdvpf.regret")


def blocks(path: Path) -> list[str]:
    """Return the Python blocks of a page, including those in lists."""
    found = re.findall(
        r"^( *)```python\n(.*?)^\1```$", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    return [textwrap.dedent(block) for _, block in found]


def test_the_code_of_the_readme_runs_and_prints_what_the_readme_says() -> None:
    shown = re.findall(r"```text\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    printed = []
    for block in blocks(README):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(block, README.name, "exec"), names)
        printed.append(output.getvalue())
    assert len(printed) == 2
    assert printed == shown


def test_the_figures_of_the_readme_stand_on_the_pages_that_it_names() -> None:
    _, figures = README.read_text(encoding="utf-8").split("## Figures\n")
    rows = [line for line in figures.split("\n## ")[0].splitlines() if line.startswith("| ")][1:]
    assert rows
    for row in rows:
        _, _, figure, link, _ = row.split("|")
        page = (ROOT / re.findall(r"\((.*?)\)", link)[0]).read_text(encoding="utf-8")
        for number in re.findall(r"\d[\d,.]*\d", figure):
            assert re.search(rf"(?<![\d.,]){re.escape(number)}(?!\d)", page), (number, link)


def test_the_code_of_the_page_on_detection_raises_the_alarm() -> None:
    page = README.parent / "docs" / "detection.md"
    block, *_ = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(block, page.name, "exec"), names)
    assert names["incident"].side == "repetitive"
    assert 2000 <= names["incident"].start < 2020


def test_mdvpf_filter_writes_the_report_that_the_page_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("typer")
    from mdvpf.cli import main

    page = (DOCS / "streams.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    vocabulary, log = tmp_path / "commands.txt", tmp_path / "commands.log"
    vocabulary.write_text("ls\nmake\ncd\n")
    log.write_text("ls\nmake\ncd\nls\nls\n" * 8)
    options = ["--vocabulary", str(vocabulary), "--unknown", "OTHER", "--seed", "0"]
    assert main(["filter", str(log), *options]) == 0
    shown, found = json.loads(text), json.loads(capsys.readouterr().out.splitlines()[39])
    assert list(found) == list(shown)
    for name, value in shown.items():
        if name == "expected":
            assert [each["symbol"] for each in found[name]] == [each["symbol"] for each in value]
            digits = [round(each["probability"], 2) for each in found[name]]
            assert digits == [each["probability"] for each in value]
        elif isinstance(value, float):
            assert round(found[name], 1 if name == "mean_states" else 2) == value
        else:
            assert found[name] == value


def test_there_are_pages_with_code() -> None:
    names = {path.relative_to(DOCS).as_posix() for path in PAGES}
    assert {"tutorial.md", "howto/long-streams.md"} <= names


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_code_of_a_page_runs_and_prints_what_the_page_says(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "import numba" in path.read_text("utf-8"):
        pytest.importorskip("numba", reason="the page needs Numba: install mdvpf[numba]")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    report = io.StringIO()
    assert blocks(path)
    for block in blocks(path):
        if not block.startswith(">>> "):
            exec(compile(block, path.name, "exec"), names)
            continue
        session = doctest.DocTestParser().get_doctest(block, names, path.name, str(path), 0)
        assert session.examples
        doctest.DocTestRunner().run(session, out=report.write, clear_globs=False)
        names = session.globs  # a copy of the given names
    assert not report.getvalue(), report.getvalue()


@pytest.mark.parametrize(
    "script", sorted((DOCS / "gallery").glob("*.py")), ids=lambda script: script.stem
)
def test_an_example_of_the_gallery_is_drawn_and_shown(script: Path) -> None:
    pytest.importorskip("matplotlib")
    drawn = runpy.run_path(str(script))
    for axes in drawn["drawing"].axes:
        lines = [line for line in axes.get_lines() if len(line.get_xdata()) > 2]
        assert len(lines) == len(drawn.get("lines", ()))
        assert all(np.isfinite(line.get_ydata()).all() for line in lines)
        assert lines or axes.patches
    assert f"figures/{script.stem}.png" in (DOCS / "gallery" / "index.md").read_text("utf-8")


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_is_in_the_reference(module: str) -> None:
    listed = set(re.findall(r"^(?:   |\.\. data:: )(\w+)$", (DOCS / "api.rst").read_text(), re.M))
    modules = set(
        re.findall(r"^\.\. automodule:: mdvpf\.(\w+)$", (DOCS / "api.rst").read_text(), re.M)
    )
    public = {name for name in importlib.import_module(module).__all__ if name[0] != "_"}
    assert public <= listed | modules


def listed_names() -> list[str]:
    """Return the names in the API reference, each with its module."""
    found, module = [], ""
    for line in (DOCS / "api.rst").read_text(encoding="utf-8").splitlines():
        if line.startswith(".. currentmodule:: "):
            module = line.split()[-1]
        elif re.fullmatch(r"   [\w.]+", line) and line.strip() != "reference":
            found.append(f"{module}.{line.strip()}")
    return found


@pytest.mark.parametrize("name", listed_names())
def test_every_name_in_the_reference_has_an_example(name: str) -> None:
    module, _, last = name.rpartition(".")
    if module == "mdvpf.adapters.river":
        pytest.importorskip("river")
    assert ">>> " in getattr(importlib.import_module(module), last).__doc__


LINKS = [README, ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]


@pytest.mark.parametrize("path", LINKS, ids=lambda path: path.stem)
def test_links_lead_to_files(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
        drawn_by_the_build = path.parent.name == "gallery" and target.startswith("figures/")
        assert drawn_by_the_build or (path.parent / target).exists(), target


@pytest.mark.parametrize("path", LINKS, ids=lambda path: path.stem)
def test_files_that_are_named_exist(path: Path) -> None:
    named = r"`((?:mdvpf|tests|docs|benchmarks)/[\w/.-]+\.(?:pyx?|pyi|pxd|md|rst|json))`"
    for name in re.findall(named, path.read_text(encoding="utf-8")):
        assert (ROOT / name).exists(), name
