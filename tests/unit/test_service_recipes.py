"""The recipes for the service: the unit is valid, the dashboard asks for what there is."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.running_service import running

RECIPES = Path(__file__).resolve().parents[2] / "docs" / "recipes"


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    text = (RECIPES / "mdvpf.service").read_text().replace("/opt/mdvpf/bin/mdvpf", sys.executable)
    (tmp_path / "mdvpf.service").write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / "mdvpf.service")],
        capture_output=True,
        text=True,
        check=False,
    )
    own = [line for line in done.stderr.splitlines() if "mdvpf" in line]
    assert done.returncode == 0, done.stderr
    assert own == []


def test_the_dashboard_asks_for_metrics_that_there_are(tmp_path: Path) -> None:
    for package in ("starlette", "uvicorn", "prometheus_client"):
        pytest.importorskip(package, reason="needs mdvpf[service]")
    dashboard = json.loads((RECIPES / "grafana.json").read_text())
    asked = {
        name
        for panel in dashboard["panels"]
        for target in panel["targets"]
        for name in re.findall(r"\bmdvpf_\w+", target["expr"])
    }
    assert len(asked) > 8
    text = """[streams.clicks]\nsymbols = 6\nmethod = "MD-VPA"\nparticles = 5\n"""
    with running(tmp_path, text) as (client, _):
        client.send("clicks", [{"symbol": 1}])
        metrics = client.ask("/metrics").body.decode()
    found = set(re.findall(r"^(mdvpf_\w+)", metrics, re.MULTILINE))
    assert asked <= found


def test_the_notebook_has_code_that_compiles() -> None:
    notebook = json.loads((RECIPES / "service.ipynb").read_text())
    cells = ["".join(each["source"]) for each in notebook["cells"] if each["cell_type"] == "code"]
    assert len(cells) == 5
    for cell in cells:
        compile(cell, "service.ipynb", "exec")


@pytest.mark.torture
def test_the_notebook_runs(capsys: pytest.CaptureFixture[str]) -> None:
    for package in ("starlette", "uvicorn", "prometheus_client", "typer"):
        pytest.importorskip(package, reason="needs mdvpf[service]")
    notebook = json.loads((RECIPES / "service.ipynb").read_text())
    names: dict[str, object] = {}
    for each in notebook["cells"]:
        if each["cell_type"] == "code":
            exec(compile("".join(each["source"]), "service.ipynb", "exec"), names)
    printed = capsys.readouterr().out
    assert "0 accepted, 500 repeated" in printed
    assert "nc" in printed
    assert "exit code 0" in printed
