"""The counts of a particle as dense arrays, with the sums that forgetting keeps separately.

`oracle_weights` turns these sums into the weights of states in the oracle.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mdvpf._core import ParticleSystem
from mdvpf.model import InfiniteHMM
from mdvpf.predictor import Counts


class RealCounts(NamedTuple):
    """The counts of a particle, and sums that do not follow from them if counts fade.

    Attributes
    ----------
    counts : Counts
        Counts as of the next step.
    into : ndarray of float64
        How often each state was entered; 0 if it has faded away.
    rows_into : ndarray of float64
        The number of rows that reach each state; zeros unless the oracle is "rows".
    labels : ndarray of int64
        The label of each state of the tables.
    """

    counts: Counts
    into: NDArray[np.float64]
    rows_into: NDArray[np.float64]
    labels: NDArray[np.int64]


def dense_counts(
    core: ParticleSystem, model: InfiniteHMM, particle: int, n_states: int
) -> RealCounts:
    """Return the counts of a particle for all `n_states` states that its path has visited.

    With forgetting, that number grows without bound on an endless stream; `held_counts` leaves
    out the states that were released.
    """
    if model.has_real_counts:
        return _real_counts(core, model, particle, np.arange(n_states), by_label=True)
    transition = np.zeros((n_states + 1, n_states), dtype=np.int64)
    emission = np.zeros((n_states, core.n_symbols), dtype=np.int64)
    core.counts(particle, transition, emission)
    counts = Counts(transition[0].copy(), transition[1:].copy(), emission)
    into = transition.sum(axis=0).astype(np.float64)
    return RealCounts(counts, into, np.zeros(n_states), np.arange(n_states))


def held_counts(
    core: ParticleSystem, model: InfiniteHMM, particle: int, n_states: int
) -> RealCounts:
    """Return the counts of a particle without the states that were released.

    States that have faded away but were not released yet are included.
    """
    if not model.has_real_counts:
        return dense_counts(core, model, particle, n_states)
    labels = np.zeros(core.n_held(particle), dtype=np.int64)
    return _real_counts(core, model, particle, labels, by_label=False)


def _real_counts(
    core: ParticleSystem,
    model: InfiniteHMM,
    particle: int,
    labels: NDArray[np.int64],
    *,
    by_label: bool,
) -> RealCounts:
    """Return the counts of a particle whose core holds real numbers; integers if nothing fades.

    The transitions of a Mealy machine have a middle axis for the symbol; its last entry is a
    missing symbol.
    """
    n_states, n_symbols = len(labels), core.n_symbols
    n_rows = n_symbols + 1 if model.machine == "mealy" else 1
    transition: NDArray[Any] = np.zeros((1 + n_states * n_rows, n_states))
    emission: NDArray[Any] = np.zeros((n_states, n_symbols))
    into, rows_into = np.zeros(n_states), np.zeros(n_states)
    core.real_counts(particle, transition, emission, into, rows_into, None if by_label else labels)
    if not model.fades:
        transition = transition.astype(np.int64)
        emission = emission.astype(np.int64)
    shape = (n_states, n_rows, n_states) if model.machine == "mealy" else (n_states, n_states)
    counts = Counts(transition[0].copy(), transition[1:].reshape(shape).copy(), emission)
    return RealCounts(counts, into, rows_into, labels)


def oracle_weights(
    model: InfiniteHMM,
    seen: NDArray[np.float64],
    into: NDArray[np.float64],
    rows_into: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the weight of each existing state in the oracle, given the counts of a row.

    `seen` has the transitions from that row, kappa included. All arrays may have leading axes.
    """
    if model.oracle == "unvisited":
        return np.where(seen > 0.0, 0.0, into)
    return into if model.oracle == "any" else rows_into
