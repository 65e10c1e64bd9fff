"""Sampled continuations of a stream: each starts from one particle and keeps counting.

A continuation repeats two actions: draw a state and a symbol by the predictive rule of the model,
and add them to its own counts. There is no selection and there are no weights. Many continuations
advance together in array operations. The counts of the particles are stored once and never change;
each continuation adds a list of its drawn steps. `Continuations` supports every part of the model:
oracles, Mealy rows, stickiness, forgetting, `max_states`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdvpf.filter.base_symbols import EvenBase, OpenBase
from mdvpf.filter.particle_statistics import START_ROW, Entries, ParticleStatistics, row_codes
from mdvpf.filter.real_counts import oracle_weights
from mdvpf.model import InfiniteHMM

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

START = -1
GONE = 0.9999 / 1024  # with forgetting, transitions and states with smaller counts are removed
ROWS_COUNTED_EVERY = 64  # steps between recounts of `rows_into`, with forgetting

_BATCH_SIZE = 2_000_000  # approximate limit on the array entries of one batch of continuations


class _Tables:
    """The counts of several particles, concatenated and sorted for binary search."""

    def __init__(self, particles: Sequence[ParticleStatistics], n_rows: int) -> None:
        self.n_particles = len(particles)
        self.n_rows = n_rows  # an upper bound on the row codes
        self.width = 1 + max(particle.n_states for particle in particles)  # with the new state
        owner, row, state, count = _concatenated([particle.transition for particle in particles])
        order = np.argsort(owner * n_rows + row, kind="stable")
        self.row_key = (owner * n_rows + row)[order]
        self.row = row[order]
        self.reached = state[order]
        self.transitions = count[order]
        owner, state, symbol, count = _concatenated([particle.emission for particle in particles])
        order = np.argsort(owner * self.width + state, kind="stable")
        self.emitter_key = (owner * self.width + state)[order]
        self.symbol = symbol[order]
        self.emissions = count[order]
        self.cumulative = np.concatenate([[0.0], np.cumsum(self.emissions)])

    def transitions_from(self, particle: Ints, row: Ints) -> tuple[Ints, Ints]:
        """Return begin and end of the transitions from one row of each particle."""
        key = particle * self.n_rows + row
        return _range(self.row_key, key, key)

    def transitions_of(self, particle: Ints) -> tuple[Ints, Ints]:
        """Return begin and end of all transitions of each particle."""
        first = particle * self.n_rows
        return _range(self.row_key, first, first + self.n_rows - 1)

    def emissions_from(self, particle: Ints, state: Ints) -> tuple[Ints, Ints]:
        """Return begin and end of the emissions of one state of each particle."""
        # The last column has no emissions, so it serves every state beyond the tables.
        key = particle * self.width + np.minimum(state, self.width - 1)
        return _range(self.emitter_key, key, key)


def _concatenated(parts: Sequence[Entries]) -> tuple[Ints, Ints, Ints, Floats]:
    """Return particle index, row, column and count of the entries of all particles."""
    owner = np.repeat(np.arange(len(parts)), [len(part.count) for part in parts])
    row = np.concatenate([part.row for part in parts])
    column = np.concatenate([part.column for part in parts])
    return owner, row, column, np.concatenate([part.count for part in parts])


def _range(keys: Ints, first: Ints, last: Ints) -> tuple[Ints, Ints]:
    return np.searchsorted(keys, first, "left"), np.searchsorted(keys, last, "right")


def _expand_ranges(begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Return the range number and the index of every element of the given ranges."""
    sizes = end - begin
    which = np.repeat(np.arange(len(sizes)), sizes)
    offset = np.arange(len(which)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return which, begin[which] + offset


class Continuations:
    """Several continuations, each of which starts from one of the given particles.

    Parameters
    ----------
    model : InfiniteHMM
        The model of the particles.
    particles : sequence of ParticleStatistics
        The particles, all at the same step.
    which : ndarray of int64
        The index of each continuation's particle.
    length : int
        The largest number of steps that will be drawn.
    seen : ndarray of int64, optional
        How often each symbol was seen, for an open alphabet.

    Examples
    --------
    >>> import numpy as np
    >>> import mdvpf
    >>> from mdvpf.filter.particle_statistics import particle_statistics
    >>> from mdvpf.filter.sampling import Continuations
    >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(n_symbols=2), n_particles=10)
    >>> _ = pf.run([0, 0, 0])
    >>> ahead = Continuations(pf.model, [particle_statistics(pf, 0)], np.zeros(5, int), length=1)
    >>> ahead.draw(np.random.default_rng(0)).shape
    (5,)
    """

    def __init__(
        self,
        model: InfiniteHMM,
        particles: Sequence[ParticleStatistics],
        which: Ints,
        length: int,
        seen: Ints | None = None,
    ) -> None:
        self.model = model
        self._base = EvenBase(model) if seen is None else OpenBase(model, seen)
        self._first = self.step = particles[0].step
        if any(particle.step != self.step for particle in particles):
            raise ValueError("particles: expected all of them at the same step")
        most = max(particle.n_states for particle in particles)
        # Rows of symbols that are new in a continuation follow all other rows.
        n_symbols = self._base.n_symbols + 1 if model.machine == "mealy" else 1
        self._first_new_row = 1 + (most + length + 1) * n_symbols
        self._length = length
        self._tables = _Tables(particles, self._first_new_row + (most + length + 1) * length)
        self._particle = which
        self._each = np.arange(len(which))
        self.state = np.array([particle.state for particle in particles])[which]
        self.n_states = np.array([particle.n_states for particle in particles])[which]
        self._row = np.array([particle.row for particle in particles])[which]
        width = most + 2
        self._into = _padded([particle.into for particle in particles], width)[which]
        self._rows_into = _padded([particle.rows_into for particle in particles], width)[which]
        totals = [
            np.bincount(particle.emission.row, particle.emission.count, particle.n_states)
            for particle in particles
        ]
        self._emitted = _padded(totals, width)[which]
        # The steps drawn: from a row to a state, on a symbol. A step adds 1 to its transition; if
        # the transition had faded away, it adds what brings the count back to 1.
        self._n_drawn = 0
        shape = len(which), length
        self._drawn_row, self._drawn_state, self._drawn_symbol = (
            np.zeros(shape, dtype=np.int64) for _ in range(3)
        )
        self._drawn_amount = np.zeros(shape)

    @property
    def n_particles(self) -> int:
        """Number of particles that the continuations start from."""
        return self._tables.n_particles

    @property
    def particle_indices(self) -> Ints:
        """The index of each continuation's particle."""
        return self._particle

    @property
    def last_states(self) -> Ints:
        """The last state that each continuation drew; it may have faded away since."""
        states: Ints = self._drawn_state[:, self._n_drawn - 1]
        return states

    @property
    def last_decay(self) -> float:
        """The factor by which a count of the last step has decayed."""
        return float(self._decay(self.step - 1))

    # -- forgetting ------------------------------------------------------------------------

    def _decay(self, steps: Any) -> Any:
        """Return the factors by which counts of the given steps have decayed."""
        if isinstance(self.model.half_life, timedelta):
            return np.ones(np.shape(steps))  # future time stamps are unknown
        if self.model.half_life is not None:
            return np.exp2((steps - self.step) / self.model.half_life)
        if self.model.forget > 0.0:
            return np.power(steps / self.step, self.model.forget)
        return np.ones(np.shape(steps))

    def _decay_of_drawn(self) -> Floats:
        left: Floats = self._decay(self._first + np.arange(self._n_drawn))
        return left

    def _fade(self) -> None:
        """Decay all sums from the last step to the next one."""
        left = float(self._decay(self.step - 1))
        self._into *= left
        self._emitted *= left
        gone = self._into < GONE
        for sums in (self._into, self._emitted, self._rows_into):
            sums[gone] = 0.0
        released = (self.state >= 0) & gone[self._each, self.state]
        self.state[released] = START
        self._row[released] = START_ROW
        if self.step % ROWS_COUNTED_EVERY == 0:
            self._count_rows(gone)

    def _count_rows(self, gone: NDArray[np.bool_]) -> None:
        """Recount the number of rows that reach each state."""
        tables, n = self._tables, self._n_drawn
        which, index = _expand_ranges(*tables.transitions_of(self._particle))
        drawn = np.repeat(self._each, n)
        owner = np.concatenate([which, drawn])
        row = np.concatenate([tables.row[index], self._drawn_row[:, :n].ravel()])
        state = np.concatenate([tables.reached[index], self._drawn_state[:, :n].ravel()])
        amount = self._drawn_amount[:, :n] * self._decay_of_drawn()
        count = np.concatenate(
            [tables.transitions[index] * self._decay(self._first), amount.ravel()]
        )
        order = np.lexsort((row, state, owner))
        owner, state, row = owner[order], state[order], row[order]
        is_first = np.ones(len(order), dtype=bool)
        is_first[1:] = (np.diff(owner) != 0) | (np.diff(state) != 0) | (np.diff(row) != 0)
        first = np.flatnonzero(is_first)
        kept = first[np.add.reduceat(count[order], first) >= GONE]
        self._rows_into[:] = 0.0
        np.add.at(self._rows_into, (owner[kept], state[kept]), 1.0)
        self._rows_into[gone] = 0.0

    # -- probabilities ---------------------------------------------------------------------

    def _transitions(self) -> Floats:
        """Return the transition counts of each continuation's row, faded ones included."""
        tables, n = self._tables, self._n_drawn
        counts = np.zeros_like(self._into)
        which, index = _expand_ranges(*tables.transitions_from(self._particle, self._row))
        left = self._decay(self._first)
        counts[which, tables.reached[index]] = tables.transitions[index] * left
        which, drawn = np.nonzero(self._drawn_row[:, :n] == self._row[:, np.newaxis])
        amount = self._drawn_amount[which, drawn] * self._decay_of_drawn()[drawn]
        np.add.at(counts, (which, self._drawn_state[which, drawn]), amount)
        return counts

    def _seen(self, transitions: Floats) -> Floats:
        return np.where(transitions < GONE, 0.0, transitions) if self.model.fades else transitions

    def transition_probabilities(self) -> Floats:
        """Return the probability of each next state; the new state has the index `n_states`."""
        return self._probabilities(self._transitions())

    def _probabilities(self, transitions: Floats) -> Floats:
        model = self.model
        seen = self._seen(transitions)
        if model.kappa > 0.0:
            standing = np.flatnonzero(self.state >= 0)
            seen = seen.copy()
            seen[standing, self.state[standing]] += model.kappa
        offered = oracle_weights(model, seen, self._into, self._rows_into)
        total = offered.sum(axis=1) + model.gamma
        mass: Floats = seen + model.alpha * (offered / total[:, np.newaxis])
        new = model.alpha * (model.gamma / total)
        if model.max_states is not None:
            n_existing = np.count_nonzero(self._into, axis=1)
            new = np.where(n_existing >= model.max_states, 0.0, new)
        mass[self._each, self.n_states] = new
        mass /= mass.sum(axis=1, keepdims=True)
        return mass

    def mean_predictive(self) -> Floats:
        """Return the exact distribution of the next symbol, averaged over the continuations."""
        tables, base = self._tables, self._base
        rate = self.transition_probabilities()
        rate /= self._emitted + base.prior
        by_particle = np.zeros((tables.n_particles, tables.width))
        np.add.at(by_particle, self._particle, rate[:, : tables.width])
        weights = by_particle.ravel()[tables.emitter_key] * tables.emissions
        counted = np.bincount(tables.symbol, weights, base.n_entries)
        weights = rate[self._each[:, np.newaxis], self._drawn_state[:, : self._n_drawn]]
        weights *= self._decay_of_drawn()
        symbols = np.minimum(self._drawn_symbol[:, : self._n_drawn], base.n_entries - 1)
        drawn = np.bincount(symbols.ravel(), weights.ravel(), base.n_entries)
        total = counted * self._decay(self._first) + drawn + base.emission_mass(rate, symbols)
        mean: Floats = total / len(self._each)
        return mean

    # -- steps -----------------------------------------------------------------------------

    def draw(self, rng: np.random.Generator) -> Ints:
        """Draw and add one step of each continuation; return the symbols."""
        transitions = self._transitions()
        cumulative = np.cumsum(self._probabilities(transitions), axis=1)
        for_states, for_symbols = rng.random((2, len(self._each)))
        states = _first_above(cumulative, for_states * cumulative[:, -1])
        symbols = self._symbols(states, for_symbols)
        self._move(states, symbols, transitions)
        return symbols

    def move(self, states: Ints, symbols: Ints) -> None:
        """Add a given step to each continuation: a state, possibly a new one, and a symbol."""
        self._move(states, symbols, self._transitions())

    def _symbols(self, states: Ints, uniforms: Floats) -> Ints:
        """Invert the emission's cumulative mass: first the prior, then drawn steps, then counts."""
        tables, n = self._tables, self._n_drawn
        position = uniforms * (self._emitted[self._each, states] + self._base.prior)
        symbols = self._base.draw(position, self._drawn_symbol[:, :n])
        position -= self._base.prior
        if n:
            weights = (self._drawn_state[:, :n] == states[:, np.newaxis]) * self._decay_of_drawn()
            cumulative = np.cumsum(weights, axis=1)
            found = self._drawn_symbol[self._each, _first_above(cumulative, position)]
            is_prior = position < 0.0
            symbols = np.where(is_prior, symbols, found)
            position = np.where(is_prior, position, position - cumulative[:, -1])
        begin, end = tables.emissions_from(self._particle, states)
        counted = np.flatnonzero((position >= 0.0) & (end > begin))
        begin, end = begin[counted], end[counted]
        target = tables.cumulative[begin] + position[counted] / self._decay(self._first)
        index = np.searchsorted(tables.cumulative[1:], target, "right")
        symbols[counted] = tables.symbol[np.clip(index, begin, end - 1)]
        return symbols

    def _row_codes(self, states: Ints, symbols: Ints) -> Ints:
        known = self._base.n_symbols
        codes = row_codes(self.model, states, symbols, known)
        if self.model.machine == "mealy":
            new = self._first_new_row + states * self._length + symbols - known
            codes = np.where(symbols >= known, new, codes)
        return codes

    def _move(self, states: Ints, symbols: Ints, transitions: Floats) -> None:
        n = self._n_drawn
        before = transitions[self._each, states]
        opens = self._seen(before) == 0.0
        self._drawn_row[:, n] = self._row
        self._drawn_state[:, n] = states
        self._drawn_symbol[:, n] = symbols
        self._drawn_amount[:, n] = np.where(opens, 1.0 - before, 1.0)
        self._n_drawn += 1
        self._into[self._each, states] += 1.0
        self._emitted[self._each, states] += 1.0
        self._rows_into[self._each, states] += opens
        self.state = states.copy()
        self.n_states = np.maximum(self.n_states, states + 1)
        self._row = self._row_codes(states, symbols)
        self.step += 1
        if self.model.fades:
            self._fade()
        if int(self.n_states.max()) >= self._into.shape[1]:
            self._into, self._emitted, self._rows_into = (
                np.pad(sums, ((0, 0), (0, 1 + sums.shape[1] // 2)))
                for sums in (self._into, self._emitted, self._rows_into)
            )


def _padded(rows: Sequence[NDArray[Any]], width: int) -> Floats:
    table = np.zeros((len(rows), width))
    for i, row in enumerate(rows):
        table[i, : len(row)] = row
    return table


def _first_above(cumulative: Floats, values: Floats) -> Ints:
    """Return the first index of each row whose sum exceeds the value, or the last index."""
    above = cumulative > values[:, np.newaxis]
    above[:, -1] = True
    found: Ints = above.argmax(axis=1)
    return found


# -- of a filter -----------------------------------------------------------------------------


def continuations(
    model: InfiniteHMM,
    weights: Floats,
    statistics: Callable[[int], ParticleStatistics],
    length: int,
    size: int,
    rng: np.random.Generator,
    seen: Ints | None = None,
) -> Iterator[tuple[Ints, Continuations]]:
    """Draw a particle by weight for each of `size` continuations; yield them in batches.

    A batch is the indices of its continuations, in 0..size - 1, and the continuations. A batch
    holds continuations of one particle next to each other.
    """
    cumulative = np.cumsum(weights)
    drawn = np.searchsorted(cumulative, rng.random(size) * cumulative[-1], "right")
    drawn = np.minimum(drawn, len(weights) - 1)
    order = np.argsort(drawn, kind="stable")
    first = 0
    while first < size:
        particles: list[ParticleStatistics] = []
        which: list[int] = []
        widest, last = 0, -1
        for k in drawn[order[first:]].tolist():
            if k != last:
                particle = statistics(k)
                last, widest = k, max(widest, particle.n_states)
                if which and (len(which) + 1) * (widest + length) > _BATCH_SIZE:
                    break
                particles.append(particle)
            elif (len(which) + 1) * (widest + length) > _BATCH_SIZE:
                break
            which.append(len(particles) - 1)
        part = order[first : first + len(which)]
        yield part, Continuations(model, particles, np.array(which), length, seen)
        first += len(which)
