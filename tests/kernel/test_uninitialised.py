"""Compiled objects without `__init__`: every method raises an error, and none crashes."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

# Functions that work on any object come first; then every member is called with all kinds of
# arguments.
SCRIPT = """
    import numpy as np
    from mdvpf.{module} import *
    from mdvpf.{module} import {name}

    thing, no_numbers = {name}.__new__({name}), np.zeros(0)
    for call in ({calls}):
        try:
            call()
        except RuntimeError as error:
            assert "never initialised" in str(error), error
        else:
            raise SystemExit("no error")

    rng = np.random.default_rng(0)
    arrays = [np.zeros(shape, dtype) for shape in [(0,), (1,), (2,), (1, 1), (0, 0), (1, 3), (1, 6)]
              for dtype in (np.uint8, np.int32, np.int64, np.uint32, np.float64)]
    candidates = [0, -1, 0.0, None, (), [], [0], True, *arrays, {more}]
    members = [name for name in dir({name}) if not name.startswith("__")]
    for member in [*members, "__sizeof__"]:
        for n in 20 * list(range(14)):
            thing = {name}.__new__({name})
            given = [candidates[i] for i in rng.integers(len(candidates), size=n)]
            try:
                found = getattr(thing, member)
                if callable(found):
                    found(*given)
            except Exception:
                pass
    print("to the end")
"""
CALLS = {
    "ParticleSystem": """
        lambda: thing.absorb(-1, 0.0, no_numbers), lambda: thing.new_sequence(no_numbers),
        lambda: thing.predict(no_numbers), thing.copy, thing.snapshot, thing.memory, thing.verify,
        thing.state_text, thing.settle, lambda: thing.n_held(0),
    """,
    "CountTree": """
        lambda: thing.absorb(Context(3), -1, True),
        lambda: thing.predict(Context(3), np.empty((1, 0))), thing.copy, thing.verify,
    """,
    "SoftTables": """
        lambda: thing.absorb(-1), thing.new_sequence, lambda: thing.predict(no_numbers),
        thing.freeze, thing.copy,
    """,
}


@pytest.mark.parametrize(
    ("module", "name", "more"),
    [
        ("_core", "ParticleSystem", ""),
        ("baselines._tree", "CountTree", "Context(2)"),
        ("learners._soft_hmm", "SoftTables", ""),
    ],
)
def test_uninitialised_objects_raise_and_do_not_crash(module: str, name: str, more: str) -> None:
    script = textwrap.dedent(SCRIPT)
    script = script.format(module=module, name=name, more=more, calls=CALLS[name].strip())
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    assert done.stdout == "to the end\n"
