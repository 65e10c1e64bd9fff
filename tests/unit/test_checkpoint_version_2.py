"""Every later version reads checkpoints of version 2, of filters with real counts.

The files in ``tests/data`` are never written again. Their expected continuation is not stored: a
filter that was never interrupted runs over the same stream from its beginning. ``python -m
tests.unit.test_checkpoint_version_2`` has written them, and writes only missing ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdvpf
from mdvpf.model.algorithms import Algorithm
from tests.kernel.inspecting import BREAK, feed, generator_state
from tests.kernel.real_models import make_events

DATA = Path(__file__).resolve().parents[1] / "data"
K = 6
N_BEFORE = 150  # events before the checkpoint
N_AFTER = 60

# Algorithm, symbols, history, extensions of the model: everything that a file can hold.
CASES: dict[str, tuple[Algorithm, int, int | str | None, dict[str, Any]]] = {
    "mdvpa": (
        mdvpf.MDVPA(discount=0.5),
        5,
        4,
        {"machine": "mealy", "oracle": "rows", "half_life": 8.0, "max_states": 4},
    ),
    "mdvpa-optimal": (
        mdvpf.MDVPA(normalizer="sum", selection="optimal"),
        4,
        None,
        {"kappa": 0.75, "forget": 0.7},
    ),
    "vpa": (mdvpf.VPA(), 300, "full", {"machine": "mealy", "kappa": 0.5, "forget": 1.0}),
    "smc": (mdvpf.SMC(ess_threshold=0.5), 5, "full", {"oracle": "rows", "half_life": 20.0}),
    "learning": (mdvpf.ParticleLearning(), 260, 1, {"machine": "mealy"}),
    "optimal": (mdvpf.OptimalResampling(), 3, 9, {"oracle": "rows", "kappa": 2.0}),
}


def begun(name: str) -> mdvpf.ParticleFilter:
    """The filter that was saved, after the events before."""
    algorithm, n_symbols, history, extension = CASES[name]
    model = mdvpf.InfiniteHMM(n_symbols, alpha=1.5, gamma=2.0, beta=0.2, **extension)
    pf = mdvpf.ParticleFilter(model, algorithm, K, rng=17, history=history)
    feed(pf, make_events(n_symbols, N_BEFORE, len(name)))
    return pf


def path_of(name: str) -> Path:
    return DATA / f"version-2-{name}.mdvpf"


@pytest.mark.parametrize("name", CASES)
def test_a_file_of_version_2_continues_as_if_never_interrupted(name: str) -> None:
    """Weights of steps come from the mathematical library, whose rounding may differ."""
    pf, expected = mdvpf.ParticleFilter.load(path_of(name)), begun(name)
    assert (pf.model, pf.algorithm, pf.n_particles, pf.history) == (
        expected.model,
        expected.algorithm,
        expected.n_particles,
        expected.history,
    )
    np.testing.assert_allclose(pf.log_evidence, expected.log_evidence, rtol=1e-6)
    for event in make_events(pf.n_symbols, N_AFTER, 50):
        pf._core.verify()
        np.testing.assert_allclose(pf.predict_proba(), expected.predict_proba(), rtol=1e-5)
        feed(pf, [event])
        feed(expected, [event])
        assert pf.states.tolist() == expected.states.tolist()
        np.testing.assert_allclose(pf.weights, expected.weights, rtol=1e-5)
        assert generator_state(pf.rng) == generator_state(expected.rng)
        if pf.history is not None:
            for k in range(len(pf.weights)):
                assert pf.path(k).tolist() == expected.path(k).tolist()
    for k in range(len(pf.weights)):
        for table, counted in zip(pf.counts(k), expected.counts(k), strict=True):
            np.testing.assert_allclose(table, counted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_a_file_of_version_2_is_refused_by_readers_of_version_1(name: str) -> None:
    """Version 0.1 looks only at bytes 8 to 11, which hold the version of the format."""
    assert path_of(name).read_bytes()[8:12] == (2).to_bytes(4, "little")


def test_the_files_have_what_a_file_can_hold() -> None:
    files = {name: mdvpf.ParticleFilter.load(path_of(name)) for name in CASES}
    assert {type(pf.algorithm).__name__ for pf in files.values()} == {
        "MDVPA",
        "VPA",
        "SMC",
        "ParticleLearning",
        "OptimalResampling",
    }
    assert files["mdvpa"]._core.pending
    for pf in files.values():
        assert pf._core.n_steps > 128  # rows were counted afresh
    for name, (_, n_symbols, _, _) in CASES.items():
        events = make_events(n_symbols, N_BEFORE, len(name))
        assert None in events
        assert BREAK in events


if __name__ == "__main__":
    for missing in CASES:
        if not path_of(missing).exists():
            begun(missing).save(path_of(missing))
