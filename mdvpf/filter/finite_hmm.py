"""A particle as a finite machine or HMM: the posterior means of its counts.

The model always offers a particle one new state. A finite machine has a fixed number of states, so
the new state is dropped and the rows are renormalised. The filter does the same under `max_states`.
States that have faded away are left out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mdvpf.datasets import HMM
from mdvpf.filter.real_counts import RealCounts, oracle_weights
from mdvpf.model import InfiniteHMM
from mdvpf.predictor import Counts

Floats = NDArray[np.float64]


class FiniteMachine(NamedTuple):
    """The posterior means of a particle's counts, over the states that exist.

    Attributes
    ----------
    start : ndarray of shape (M,)
        Distribution of the first state of a sequence.
    transition : ndarray of shape (M, M), or (V + 1, M, M) for a Mealy machine
        Row j is the distribution of the state after state j. In a Mealy machine the first axis is
        the symbol that state j emitted; its last entry is a missing symbol.
    emission : ndarray of shape (M, V)
        Row j is the distribution of the symbol in state j.
    labels : ndarray of int64
        The particle's label of each state of the machine.
    occurred : ndarray of bool, shape (M, V)
        Whether the count of each symbol in each state is positive.
    """

    start: Floats
    transition: Floats
    emission: Floats
    labels: NDArray[np.int64]
    occurred: NDArray[np.bool_]

    def state_of(self, label: int) -> int:
        """Return the state with a label; -1, the start state S, if no state has it."""
        found = np.flatnonzero(self.labels == label)
        return int(found[0]) if len(found) else -1


def _with_unseen(counts: Counts) -> Counts:
    """Return the counts with one more symbol, which never occurred."""
    transition = counts.transition
    if transition.ndim == 3:  # the last row belongs to a missing symbol
        transition = np.insert(transition, transition.shape[1] - 1, 0, axis=1)
    return Counts(counts.start, transition, np.pad(counts.emission, ((0, 0), (0, 1))))


def finite_machine(
    model: InfiniteHMM, found: RealCounts, seen: NDArray[np.int64] | None = None
) -> FiniteMachine:
    """Return a particle with these counts as a machine of the same kind, Moore or Mealy.

    For an open alphabet `seen` holds how often each symbol was seen; the machine has one symbol
    more, which stands for all unseen ones. A particle without states becomes a machine with one
    unlabelled state that emits by the base distribution.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf.filter.finite_hmm import finite_machine
    >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(2, machine="mealy"), n_particles=10)
    >>> _ = pf.run([0, 1, 1] * 20)
    >>> finite_machine(pf.model, pf._counts(0)).transition.shape[0]
    3
    """
    existing = np.flatnonzero(found.into > 0.0)
    labels = found.labels[existing]
    counts, base = found.counts, None
    if model.vocabulary is not None and seen is not None:
        counts, base = _with_unseen(counts), model.vocabulary.base_distribution(seen)
    n_states, n_symbols = len(labels), counts.emission.shape[1]
    is_mealy = model.machine == "mealy"
    if n_states == 0:
        shape = (n_symbols + 1, 1, 1) if is_mealy else (1, 1)
        uniform = np.full((1, n_symbols), 1.0 / n_symbols) if base is None else base[np.newaxis]
        return FiniteMachine(
            np.ones(1), np.ones(shape), uniform, labels, np.zeros((1, n_symbols), dtype=np.bool_)
        )
    into, rows_into = found.into[existing], found.rows_into[existing]
    moves = counts.transition[existing][..., existing].astype(np.float64)
    if is_mealy:
        moves = moves.transpose(1, 0, 2)
    if model.kappa > 0.0:
        moves[..., np.arange(n_states), np.arange(n_states)] += model.kappa
    start = counts.start[existing].astype(np.float64)
    emitted = counts.emission[existing]
    # Over numbers, one symbol stands for every observation.
    pseudo_counts: Floats | float = model.beta if model.numbers is None else 1.0
    if model.vocabulary is not None and base is not None:
        pseudo_counts = model.vocabulary.concentration * base
    emission = emitted.astype(np.float64) + pseudo_counts
    emission /= emission.sum(axis=1, keepdims=True)
    return FiniteMachine(
        _transition_rows(model, start, into, rows_into),
        _transition_rows(model, moves, into, rows_into),
        emission,
        labels,
        emitted > 0,
    )


def finite_hmm(model: InfiniteHMM, found: RealCounts, seen: NDArray[np.int64] | None = None) -> HMM:
    """Return the HMM of the posterior means of a particle's counts.

    A Mealy machine becomes the HMM over the pairs of a state and a symbol that it emitted. Pairs
    that never occurred have probability 0. The HMM has no row for a missing symbol: it averages
    over the symbols that may have been emitted.

    Examples
    --------
    >>> import numpy as np
    >>> from mdvpf import Counts, InfiniteHMM
    >>> from mdvpf.filter.finite_hmm import finite_hmm
    >>> from mdvpf.filter.real_counts import RealCounts
    >>> counts = Counts(np.array([1]), np.array([[2]]), np.array([[3, 0]]))
    >>> found = RealCounts(counts, np.array([3.0]), rows_into=np.array([2.0]), labels=np.arange(1))
    >>> finite_hmm(InfiniteHMM(n_symbols=2, beta=0.5), found).emission.tolist()
    [[0.875, 0.125]]
    """
    machine = finite_machine(model, found, seen)
    if model.machine == "moore":
        return HMM(machine.start, machine.transition, machine.emission)
    state, symbol = np.nonzero(machine.occurred)
    n_symbols = machine.emission.shape[1]
    if len(state) == 0:  # no state, or none that emitted anything
        emission = np.full((1, n_symbols), 1 / n_symbols) if seen is None else machine.emission[:1]
        return HMM(np.ones(1), np.ones((1, 1)), emission)
    emitted = machine.emission[state, symbol]
    start = _normalised(machine.start[state] * emitted)
    rows = machine.transition[symbol, state]  # one row a pair
    transition = _normalised(rows[:, state] * emitted)
    return HMM(start, transition, (symbol[:, np.newaxis] == np.arange(n_symbols)) * 1.0)


def _transition_rows(model: InfiniteHMM, seen: Floats, into: Floats, rows_into: Floats) -> Floats:
    """Return the transitions to the states that exist, from rows of counts, kappa included."""
    offered = oracle_weights(model, seen, into, rows_into)
    total = offered.sum(axis=-1, keepdims=True) + model.gamma
    # The common denominator t[j] + alpha cancels in the normalisation.
    return _normalised(seen + model.alpha * (offered / total))


def _normalised(rows: Floats) -> Floats:
    """Divide rows by their sums; a row of zeros becomes uniform.

    A row is all zeros if every state that it leads to has faded away.
    """
    total = rows.sum(axis=-1, keepdims=True)
    uniform = np.full_like(rows, 1.0 / rows.shape[-1])
    found: Floats = np.divide(rows, total, out=uniform, where=total > 0.0)
    return found
