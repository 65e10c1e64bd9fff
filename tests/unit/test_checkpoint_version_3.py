"""Every later version reads checkpoints of version 3, of filters over numbers.

As in `test_checkpoint_version_2.py`: the files in ``tests/data`` are never written again, and a
filter that was never interrupted gives their expected continuation. ``python -m
tests.unit.test_checkpoint_version_3`` has written them, and writes only missing ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdvpf
from mdvpf.model.algorithms import Algorithm
from tests.number_families import STREAMS

DATA = Path(__file__).resolve().parents[1] / "data"

# Algorithm, stream, settings of the model other than the family.
CASES: dict[str, tuple[Algorithm, str, dict[str, Any]]] = {
    "mdvpa-product": (mdvpf.MDVPA(), "product", {"half_life": 5.0, "oracle": "rows"}),
    "vpa-gaussian": (mdvpf.VPA(), "gaussian", {"kappa": 0.5}),
    "smc-poisson": (mdvpf.SMC(), "poisson", {"forget": 1.0}),
}


def begun(name: str) -> mdvpf.ParticleFilter:
    """The filter that was saved."""
    algorithm, stream, extension = CASES[name]
    family, observations = STREAMS[stream]
    model = mdvpf.InfiniteHMM(emission=family, **extension)
    pf = mdvpf.ParticleFilter(model, algorithm, 6, rng=17, history=4)
    for i, observation in enumerate(observations * 3):
        pf.update(observation, "other" if i % 4 == 3 else None)
    return pf


def path_of(name: str) -> Path:
    return DATA / f"version-3-{name}.mdvpf"


@pytest.mark.parametrize("name", CASES)
def test_a_file_of_version_3_continues_as_if_never_interrupted(name: str) -> None:
    pf, expected = mdvpf.ParticleFilter.load(path_of(name)), begun(name)
    assert (pf.model, pf.algorithm) == (expected.model, expected.algorithm)
    np.testing.assert_allclose(pf.log_evidence, expected.log_evidence, rtol=1e-6)
    for i, observation in enumerate(STREAMS[CASES[name][1]][1]):
        key = "other" if i % 3 == 0 else None
        found, step = pf.update(observation, key), expected.update(observation, key)
        assert found == pytest.approx(step, rel=1e-5, abs=1e-5)
        pf._core.verify()
        assert pf.states.tolist() == expected.states.tolist()
        np.testing.assert_allclose(pf.counts().emission, expected.counts().emission, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_a_file_of_version_3_is_refused_by_readers_of_version_2(name: str) -> None:
    """Earlier versions look only at bytes 8 to 11, which hold the version of the format."""
    assert path_of(name).read_bytes()[8:12] == (3).to_bytes(4, "little")


if __name__ == "__main__":
    for case in CASES:
        if not path_of(case).exists():
            begun(case).save(path_of(case))
