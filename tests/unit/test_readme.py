"""The code in the README runs as it stands there."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import numpy as np

README = Path(__file__).parents[2] / "README.md"


def test_the_code_of_the_readme_runs_and_predicts() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for block in blocks:
            exec(compile(block, README.name, "exec"), names)
    assert len(printed.getvalue().splitlines()) == 3
    # The clicks repeat 0, 3, 3, 1: a filter that learnt anything expects a 3 after the last 0.
    assert np.argmax(names["pf"].predict_proba()) == 3


def test_the_code_of_the_page_on_detection_raises_the_alarm() -> None:
    page = README.parent / "docs" / "detection.md"
    (block,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(block, page.name, "exec"), names)
    assert names["detection"].alarm
