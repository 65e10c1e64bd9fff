"""The counts of a particle where they are real numbers, or rows are chosen by symbols too."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdvpf._core import ParticleSystem
from mdvpf.model import InfiniteHMM
from mdvpf.predictor import Counts


def real_counts(core: ParticleSystem, model: InfiniteHMM, particle: int, n_states: int) -> Counts:
    """Return the counts as of the next step; states that have faded away have zeros.

    They are integers where nothing fades. Of a Mealy machine the transitions have a middle axis
    for the symbol, the last for a missing one.
    """
    n_symbols = model.n_symbols
    n_rows = n_symbols + 1 if model.machine == "mealy" else 1
    transition: NDArray[Any] = np.zeros((1 + n_states * n_rows, n_states))
    emission: NDArray[Any] = np.zeros((n_states, n_symbols))
    core.real_counts(particle, transition, emission)
    if not model.fades:
        transition = transition.astype(np.int64)
        emission = emission.astype(np.int64)
    shape = (n_states, n_rows, n_states) if model.machine == "mealy" else (n_states, n_states)
    return Counts(transition[0].copy(), transition[1:].reshape(shape).copy(), emission)
