"""The counts of a particle, and what the model needs besides where they do not tell."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mdvpf._core import ParticleSystem
from mdvpf.model import InfiniteHMM, extensions
from mdvpf.predictor import Counts


class RealCounts(NamedTuple):
    """The counts of a particle, and what does not follow from them where they fade.

    Attributes
    ----------
    counts : Counts
        Counts as of the next step.
    into : ndarray of float64
        How often each state was entered; 0 of those that have faded away.
    rows_into : ndarray of float64
        From how many rows each state was reached; zeros but for the oracle of rows.
    """

    counts: Counts
    into: NDArray[np.float64]
    rows_into: NDArray[np.float64]


def shown_counts(
    core: ParticleSystem, model: InfiniteHMM, particle: int, n_states: int
) -> RealCounts:
    """Return the counts of a particle shown, of whatever model.

    `n_states` is how many states the path of the particle has visited.
    """
    if extensions(model):
        return real_counts(core, model, particle, n_states)
    transition = np.zeros((n_states + 1, n_states), dtype=np.int64)
    emission = np.zeros((n_states, model.n_symbols), dtype=np.int64)
    core.counts(particle, transition, emission)
    counts = Counts(transition[0].copy(), transition[1:].copy(), emission)
    return RealCounts(counts, transition.sum(axis=0).astype(np.float64), np.zeros(n_states))


def real_counts(
    core: ParticleSystem, model: InfiniteHMM, particle: int, n_states: int
) -> RealCounts:
    """Return the counts of a particle as of the next step, where the core has real numbers.

    They are integers where nothing fades. Of a Mealy machine the transitions have a middle axis
    for the symbol, the last for a missing one.
    """
    n_symbols = model.n_symbols
    n_rows = n_symbols + 1 if model.machine == "mealy" else 1
    transition: NDArray[Any] = np.zeros((1 + n_states * n_rows, n_states))
    emission: NDArray[Any] = np.zeros((n_states, n_symbols))
    into, rows_into = np.zeros(n_states), np.zeros(n_states)
    core.real_counts(particle, transition, emission, into, rows_into)
    if not model.fades:
        transition = transition.astype(np.int64)
        emission = emission.astype(np.int64)
    shape = (n_states, n_rows, n_states) if model.machine == "mealy" else (n_states, n_states)
    counts = Counts(transition[0].copy(), transition[1:].reshape(shape).copy(), emission)
    return RealCounts(counts, into, rows_into)
