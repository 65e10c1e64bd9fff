"""Read access to the particles of a filter: weights, states, counts, paths, finite HMMs."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mdvpf._core import ParticleSystem
from mdvpf._support import validate
from mdvpf._support.attributes import ReadOnly
from mdvpf.datasets import HMM
from mdvpf.filter.finite_hmm import finite_hmm, finite_machine
from mdvpf.filter.forecasts import Forecasts
from mdvpf.filter.frozen import FrozenFilter
from mdvpf.filter.frozen_numbers import FrozenNumbers
from mdvpf.filter.open_parts import closed
from mdvpf.filter.particle_statistics import ParticleStatistics, particle_statistics
from mdvpf.filter.real_counts import RealCounts, dense_counts, held_counts
from mdvpf.model import Product, channels_of
from mdvpf.predictor import NO_KEY, Counts, MemoryReport

History = int | Literal["full"] | None


class Inside(Forecasts):
    """Base class of the filter: read-only access to its particles.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf.filter.inside import Inside
    >>> issubclass(mdvpf.ParticleFilter, Inside)
    True
    """

    history: ReadOnly[History]
    _core: ParticleSystem

    @property
    def log_evidence(self) -> float:
        """Log evidence of all symbols so far.

        This is the sum of the log predictives; for SMC, the log of the unbiased estimate.
        """
        return self._core.log_evidence

    def _describe(self) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
        n = self._core.n_particles
        weights = np.empty(n)
        states, n_states, parents = (np.empty(n, dtype=np.int64) for _ in range(3))
        self._core.describe(weights, states, n_states, parents)
        return weights, states, n_states

    @property
    def weights(self) -> NDArray[np.float64]:
        """Normalised weight of each particle."""
        return self._describe()[0]

    @property
    def states(self) -> NDArray[np.int64]:
        """State of each particle in the key updated last; -1 before the first symbol."""
        return self._describe()[1]

    @property
    def n_states(self) -> NDArray[np.int64]:
        """Number of states that the path of each particle has visited, also if they faded away."""
        return self._describe()[2]

    def _mean_states(self) -> float:
        weights, _, n_states = self._describe()
        return float(weights @ n_states)

    def _particle(self, k: int | None) -> int:
        if k is None:
            return int(self.weights.argmax())
        return validate.integer("k", k, low=0, high=self._core.n_particles - 1, also=", or None")

    def path(self, k: int | None = None) -> NDArray[np.int64]:
        """Return the states on the path of a particle, all sequences joined.

        Parameters
        ----------
        k : int, optional
            The particle; the heaviest by default.

        Examples
        --------
        >>> import mdvpf
        >>> model = mdvpf.InfiniteHMM(n_symbols=2, beta=0.01)
        >>> pf = mdvpf.ParticleFilter(model, n_particles=10, history=4)
        >>> _ = pf.run([0, 1] * 5)
        >>> pf.path().tolist()
        [0, 1, 0, 1]
        """
        particle = self._particle(k)
        if self.history is None:
            raise ValueError(
                'history=None: no paths are kept; expected history="full", or history=L for the '
                "last L states, when the filter is created"
            )
        out = np.empty(self._core.path_length(), dtype=np.int64)
        self._core.path(particle, out)
        return out

    def counts(self, k: int | None = None) -> Counts:
        """Return the counts of a particle as dense arrays.

        With forgetting they are real numbers, as of the next step. The transitions of a Mealy
        machine have a middle axis for the symbol; its last entry is a missing symbol. In a family
        over numbers `emission` holds the statistics of the states. These are, for each dimension
        of a Gaussian, the number of observations, their mean and their sum of squared deviations;
        for a Poisson the number of observations and their sum; for a categorical or an open
        channel the number of observations and the count of each symbol.

        Parameters
        ----------
        k : int, optional
            The particle; the heaviest by default.

        Examples
        --------
        >>> import mdvpf
        >>> model = mdvpf.InfiniteHMM(n_symbols=2, beta=0.01)
        >>> pf = mdvpf.ParticleFilter(model, n_particles=10)
        >>> _ = pf.run([0, 1] * 5)
        >>> pf.counts().transition.tolist()
        [[0, 5], [4, 0]]
        """
        particle = self._particle(k)
        n_states = int(self.n_states[particle])
        counts = dense_counts(self._core, self.model, particle, n_states).counts
        if self.model.numbers is None:
            return counts
        return counts._replace(emission=self._label_statistics(particle, n_states))

    def _label_statistics(self, k: int, n_states: int) -> NDArray[np.float64]:
        """Return the statistics of all states that a particle's path has visited."""
        size, used = self._row_layout
        out = np.zeros((n_states, size))
        self._core.statistics(k, out)
        return out if used is None else out[:, used]

    @property
    def _row_layout(self) -> tuple[int, NDArray[np.int64] | None]:
        """Size of a row of statistics in the core, and its entries in use; None if it is all."""
        assert self.model.numbers is not None
        if not self._open_channels:
            return sum(c.n_statistics for c in channels_of(self.model.numbers)), None
        size, parts = self._core.layout
        return size, np.concatenate([np.arange(*part) for part in parts])

    @property
    def _open_channels(self) -> tuple[int, ...]:
        """The channels of a family over numbers that are open alphabets."""
        family = self.model.numbers
        return family.open_channels if isinstance(family, Product) else ()

    @property
    def _n_seen(self) -> tuple[int, ...]:
        channels = self._open_channels
        parts = self._core.layout[1] if channels else ()
        return tuple(parts[i][1] - parts[i][0] - 1 for i in channels)

    def _channels_seen(self) -> list[NDArray[np.int64]]:
        channels = self._open_channels
        if not channels:
            return []
        size, parts = self._core.layout
        row = np.empty(size, dtype=np.int64)
        self._core.seen(row)
        return [row[parts[i][0] + 1 : parts[i][1]] for i in channels]

    def _numbers(self, k: int) -> NDArray[np.float64]:
        found = self._label_statistics(k, int(self.n_states[k]))
        held: NDArray[np.float64] = found[self._counts(k).labels]
        return held

    def _components(self, number: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        n = self._core.n_rows
        size, used = self._row_layout
        weights, statistics = np.zeros((2, n)), np.zeros((2, n, size))
        self._core.components(weights, statistics, number)
        kept = weights > 0.0
        rows = statistics[kept]
        return weights[kept], rows if used is None else rows[:, used]

    def _counts(self, k: int) -> RealCounts:
        return held_counts(self._core, self.model, k, int(self.n_states[k]))

    def _standing(self, number: int) -> tuple[NDArray[np.int64], int | None]:
        """Return the state of each particle in a key, and the last symbol of the key."""
        if number == self._core.number:
            return self.states, self._core.last_symbol
        states = np.empty(self._core.n_particles, dtype=np.int64)
        return states, self._core.standing(number, states)

    def _seen(self) -> NDArray[np.int64] | None:
        if not self.is_open:
            return None
        seen = np.empty(self.n_symbols, dtype=np.int64)
        self._core.seen(seen)
        return seen

    def _statistics(self, k: int, number: int) -> ParticleStatistics:
        return particle_statistics(self, k, number)

    def to_hmm(self, k: int | None = None) -> HMM:
        """Return a particle as a finite HMM: the posterior means of its counts.

        An HMM has a fixed number of states, so the new state is dropped and the rows are
        renormalised. States that have faded away are left out.

        A Mealy machine becomes the equivalent HMM over the pairs of a state and a symbol that
        occurred. Symbols that never occurred have probability 0 in that HMM; `freeze` keeps them
        possible. In an open alphabet one more symbol stands for all symbols never seen.

        Parameters
        ----------
        k : int, optional
            The particle; the heaviest by default.

        Examples
        --------
        >>> import mdvpf
        >>> model = mdvpf.InfiniteHMM(n_symbols=2, beta=0.01)
        >>> pf = mdvpf.ParticleFilter(model, n_particles=10)
        >>> _ = pf.run([0, 1] * 50)
        >>> pf.to_hmm().transition.round(2).tolist()
        [[0.02, 0.98], [0.98, 0.02]]
        """
        self._check_symbols("to_hmm")
        return finite_hmm(self.model, self._counts(self._particle(k)), self._seen())

    def freeze(self, n_particles: int | None = None) -> FrozenFilter:
        """Return a predictor with the particles of this filter that no longer learns.

        The particles become finite HMMs as in `to_hmm`, or Mealy machines with the same states.
        In every key each of them starts forward filtering in the current state of its particle.
        Bayes' rule updates their mixture weights within a sequence, for each key separately; a new
        sequence starts from the weights of the particles. MD-VPA freezes its provisional particles.

        In an open alphabet one more symbol stands for all symbols never seen; this alphabet no
        longer grows. Over numbers, every state emits by the predictive of its statistics
        (`FrozenNumbers`).

        Parameters
        ----------
        n_particles : int, optional
            Number of particles to keep, the heaviest first; all by default. Memory and time are
            proportional to this number and to the square of the number of states. Mealy machines
            have a table for each symbol: K of them with M states and V symbols take
            ``8 * K * M**2 * (V + 1)`` bytes.

        Examples
        --------
        >>> import mdvpf
        >>> model = mdvpf.InfiniteHMM(n_symbols=2, beta=0.01)
        >>> pf = mdvpf.ParticleFilter(model, n_particles=10)
        >>> _ = pf.run([0, 1] * 50)
        >>> frozen = pf.freeze(n_particles=3)
        >>> _ = frozen.run([1, 1] * 50)
        >>> frozen.new_sequence()
        >>> int(frozen.predict_proba().argmax())
        0
        """
        weights = self.weights
        most = len(weights)
        if n_particles is not None:
            most = validate.integer("n_particles", n_particles, low=1, also=", or None")
        heaviest = np.argsort(-weights, kind="stable")[:most]
        heaviest = heaviest[weights[heaviest] > 0.0]
        seen = self._seen()
        counts = [self._counts(k) for k in heaviest.tolist()]
        machines = [finite_machine(self.model, each, seen) for each in counts]
        standings = {}
        for number in {NO_KEY, *self._table.numbers()}:
            states, symbol = self._standing(number)
            standings[number] = (states[heaviest], symbol)
        if self.model.numbers is None:
            frozen = FrozenFilter._of_machines(machines, weights[heaviest], standings)
        else:
            size, used = self._row_layout
            prior = np.zeros((1, size if used is None else len(used)))
            statistics = [
                self._label_statistics(k, int(self.n_states[k]))[found.labels]
                if len(found.labels)
                else prior
                for k, found in zip(heaviest.tolist(), machines, strict=True)
            ]
            frozen = FrozenNumbers._of_numbers(
                *closed(self.model.numbers, np.concatenate(statistics), self._channels_seen()),
                machines,
                weights[heaviest],
                standings,
            )
        frozen._key_table = self._table.copy()
        if not self.is_open:
            frozen.vocabulary = self.vocabulary
        return frozen

    def memory(self) -> MemoryReport:
        """Return the memory use of the particles.

        Examples
        --------
        >>> import mdvpf
        >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(n_symbols=2), n_particles=10)
        >>> pf.memory().rows
        0
        """
        return MemoryReport(*self._core.memory())

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self._core.__sizeof__()
