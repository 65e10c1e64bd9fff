"""Sparse counts and current state of a particle, from which continuations start.

`particle_statistics` reads them from a filter. `sampling.py` needs nothing else of a particle.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mdvpf._core import ParticleSystem
from mdvpf.filter.real_counts import RealCounts
from mdvpf.model import InfiniteHMM
from mdvpf.predictor import NO_KEY, Counts

START_ROW = 0


class Entries(NamedTuple):
    """The non-zero counts of a table in coordinate form.

    Attributes
    ----------
    row : ndarray of int64
        The row of a transition (`row_codes`) or the state of an emission.
    column : ndarray of int64
        The next state of a transition or the symbol of an emission.
    count : ndarray of float64
        The count.
    """

    row: NDArray[np.int64]
    column: NDArray[np.int64]
    count: NDArray[np.float64]  # type: ignore[assignment]  # hides tuple.count, which is not used

    @classmethod
    def of_table(cls, table: NDArray[np.int64] | NDArray[np.float64]) -> Entries:
        """Return the non-zero entries of a table."""
        row, column = np.nonzero(table)
        return cls(row, column, table[row, column].astype(np.float64))


class ParticleStatistics(NamedTuple):
    """The counts and the current state of a particle, as of the next step.

    States are numbered 0..n_states - 1; the numbers may differ from the particle's labels.

    Attributes
    ----------
    state : int
        The current state, -1 for the start state.
    row : int
        The row of the next transition, by `row_codes`.
    step : int
        The number n of the next step, from 1 over the life of the filter.
    n_states : int
        Number of states, faded ones included; also the number of the new state.
    into : ndarray of float64, shape (n_states,)
        How often each state was entered; 0 if it has faded away.
    rows_into : ndarray of float64, shape (n_states,)
        The number of rows that reach each state.
    transition, emission : Entries
        The counts.
    """

    state: int
    row: int
    step: int
    n_states: int
    into: NDArray[np.float64]
    rows_into: NDArray[np.float64]
    transition: Entries
    emission: Entries

    @classmethod
    def of_counts(
        cls,
        model: InfiniteHMM,
        counts: Counts,
        state: int,
        step: int,
        *,
        symbol: int | None = None,
        into: NDArray[np.float64] | None = None,
        rows_into: NDArray[np.float64] | None = None,
    ) -> ParticleStatistics:
        """Return the statistics of a particle, given dense counts as `pf.counts` returns them.

        `symbol` is the last symbol, None if it was missing; only a Mealy machine needs it. Without
        forgetting, `into` and `rows_into` follow from the counts. With forgetting they do not:
        `into` includes transitions that have faded away, and rows are recounted only now and then.

        Examples
        --------
        >>> import numpy as np
        >>> from mdvpf import Counts, InfiniteHMM
        >>> from mdvpf.filter.particle_statistics import ParticleStatistics
        >>> moves, symbols = np.array([[0, 2], [1, 0]]), np.array([[2, 0], [0, 2]])
        >>> counts = Counts(np.array([1, 0]), moves, symbols)
        >>> found = ParticleStatistics.of_counts(InfiniteHMM(2), counts, state=1, step=5)
        >>> found.into.tolist(), found.rows_into.tolist(), found.row
        ([2.0, 2.0], [2.0, 1.0], 2)
        """
        n_states = len(counts.start)
        table = counts.start[np.newaxis]
        if n_states:
            table = np.vstack([table, counts.transition.reshape(-1, n_states)])
        n_symbols = counts.emission.shape[1]
        last = np.array([n_symbols if symbol is None else symbol])
        return cls(
            state=state,
            row=int(row_codes(model, np.array([state]), last, n_symbols)[0]),
            step=step,
            n_states=n_states,
            into=(table.sum(axis=0) if into is None else into).astype(np.float64),
            rows_into=((table > 0).sum(axis=0) if rows_into is None else rows_into).astype(
                np.float64
            ),
            transition=Entries.of_table(table),
            emission=Entries.of_table(counts.emission),
        )


def row_codes(
    model: InfiniteHMM,
    states: NDArray[np.int64],
    symbols: NDArray[np.int64],
    n_symbols: int | None = None,
) -> NDArray[np.int64]:
    """Return the number of the transition row that follows each pair of a state and a symbol.

    Row 0 belongs to the start state. The others number the rows of `Counts.transition` from 1; in a
    Mealy machine a state has a row for each symbol. A missing symbol is `n_symbols`, which defaults
    to that of the model; an open alphabet must pass it.
    """
    codes = 1 + states
    if model.machine == "mealy":
        codes = 1 + states * ((model.n_symbols if n_symbols is None else n_symbols) + 1) + symbols
    return np.where(states < 0, START_ROW, codes)


class ShownParticles(Protocol):
    """The part of a filter that `particle_statistics` reads."""

    model: InfiniteHMM
    _core: ParticleSystem

    def _standing(self, number: int) -> tuple[NDArray[np.int64], int | None]:
        """Return the state of each particle in a key, and the last symbol of the key."""
        ...

    def _counts(self, k: int) -> RealCounts:
        """Return the counts of a particle, without states that were released."""
        ...


def particle_statistics(pf: ShownParticles, k: int, number: int = NO_KEY) -> ParticleStatistics:
    """Return the statistics of a particle of a filter, with its state in a key.

    States that were released are left out.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf.filter.particle_statistics import particle_statistics
    >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(n_symbols=2), n_particles=10)
    >>> _ = pf.run([0, 0, 0])
    >>> particle_statistics(pf, 0).step
    4
    """
    found = pf._counts(k)
    states, symbol = pf._standing(number)
    standing = np.flatnonzero(found.labels == states[k])
    return ParticleStatistics.of_counts(
        pf.model,
        found.counts,
        int(standing[0]) if len(standing) else -1,
        step=pf._core.n_steps + int(pf._core.pending) + 1,
        symbol=symbol,
        into=found.into,
        rows_into=found.rows_into if pf.model.oracle == "rows" else None,
    )
