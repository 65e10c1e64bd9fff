"""What continues a particle: its counts without zeros, and where it stands.

`particle_statistics` asks a filter for them. The rest of the package that draws continuations
(`sampling.py`) knows nothing else of particles.
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
    """Counts that are not zero.

    Attributes
    ----------
    place : ndarray of int64
        The row of a transition (`row_codes`), the state of an emission.
    value : ndarray of int64
        The state that a transition reaches, the symbol of an emission.
    times : ndarray of float64
        The count.
    """

    place: NDArray[np.int64]
    value: NDArray[np.int64]
    times: NDArray[np.float64]

    @classmethod
    def of_table(cls, table: NDArray[np.int64] | NDArray[np.float64], first: int = 0) -> Entries:
        """Return the entries of a table, whose first row is at the place `first`."""
        place, value = np.nonzero(table)
        return cls(place + first, value, table[place, value].astype(np.float64))


class ParticleStatistics(NamedTuple):
    """A particle as of the step that comes next.

    States have any numbers, not necessarily their labels: nobody asks for those.

    Attributes
    ----------
    state : int
        The state it stands in, -1 for the start state.
    row : int
        The row that its next transition is drawn from, by `row_codes`.
    step : int
        The number n of the step that comes next, from 1 over the life of the filter.
    n_states : int
        How many states it has, faded ones included: the number of the new one.
    into : ndarray of float64, shape (n_states,)
        How often each state was entered, 0 of those that have faded away.
    rows_into : ndarray of float64, shape (n_states,)
        From how many rows each state is reached.
    transition, emission : Entries
        Its counts.
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
        """Return the statistics of a particle with these counts, dense as `pf.counts` has them.

        `symbol` is the last one, None if it was missing; only a Mealy machine needs it. Without
        forgetting `into` and `rows_into` follow from the counts. With it they do not: `into`
        keeps what is left of transitions that are gone, and rows are counted now and then only.

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
    """Return the numbers of the rows of transitions of states that emitted symbols.

    They count the rows of `Counts.transition`, if need be of all its middle axis, from 1; 0 is the
    row of the start state. A missing symbol is `n_symbols`, by default that of the model; one of
    an open alphabet has its own.
    """
    codes = 1 + states
    if model.machine == "mealy":
        codes = 1 + states * ((model.n_symbols if n_symbols is None else n_symbols) + 1) + symbols
    return np.where(states < 0, START_ROW, codes)


class ShownParticles(Protocol):
    """What `particle_statistics` needs of a filter."""

    model: InfiniteHMM
    _core: ParticleSystem

    def _standing(self, number: int) -> tuple[NDArray[np.int64], int | None]:
        """Return the state of each particle in a key, and the last symbol of the key."""
        ...

    def _counts(self, k: int) -> RealCounts:
        """Return the counts of a particle, and what goes with them."""
        ...


def particle_statistics(pf: ShownParticles, k: int, number: int = NO_KEY) -> ParticleStatistics:
    """Return the statistics of a particle that a filter shows, where a key stands.

    States that were released have no numbers.

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
