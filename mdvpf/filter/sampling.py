"""Continuations of a stream: each follows one particle and goes on counting, alone.

A continuation draws a state and a symbol by the predictive rule of the model, adds them to its own
counts, and so on: no selection, no weights. Many are drawn together, one array operation a step for
all of them. Their counts are those of the particles, which are stored once and never change, and
what each has added since, which is a list of its steps. `Continuations` has all parts of the model:
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
from mdvpf.model import InfiniteHMM

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

START = -1
GONE = 0.9999 / 1024  # with forgetting, a transition or a state that was counted less is gone
ROWS_COUNTED_EVERY = 64  # steps, with forgetting

_TOGETHER = 2_000_000  # numbers in an array of continuations that are drawn together, about


class _Tables:
    """The counts of several particles, joined; places are found by binary search."""

    def __init__(self, particles: Sequence[ParticleStatistics], n_rows: int) -> None:
        self.n_particles = len(particles)
        self.n_rows = n_rows  # more than any code of a row
        self.most_states = 1 + max(particle.n_states for particle in particles)
        owner, row, state, count = _joined([particle.transition for particle in particles])
        order = np.argsort(owner * n_rows + row, kind="stable")
        self.row_key = (owner * n_rows + row)[order]
        self.row = row[order]
        self.reached = state[order]
        self.transitions = count[order]
        owner, state, symbol, count = _joined([particle.emission for particle in particles])
        order = np.argsort(owner * self.most_states + state, kind="stable")
        self.emitter_key = (owner * self.most_states + state)[order]
        self.symbol = symbol[order]
        self.emissions = count[order]
        self.cumulative = np.concatenate([[0.0], np.cumsum(self.emissions)])

    def transitions_from(self, particle: Ints, row: Ints) -> tuple[Ints, Ints]:
        """Return where the transitions from a row of each particle begin and end."""
        key = particle * self.n_rows + row
        return _range(self.row_key, key, key)

    def transitions_of(self, particle: Ints) -> tuple[Ints, Ints]:
        """Return where all the transitions of each particle begin and end."""
        first = particle * self.n_rows
        return _range(self.row_key, first, first + self.n_rows - 1)

    def emissions_from(self, particle: Ints, state: Ints) -> tuple[Ints, Ints]:
        """Return where the emissions of a state of each particle begin and end."""
        # The state after the last that any particle has emitted nothing.
        key = particle * self.most_states + np.minimum(state, self.most_states - 1)
        return _range(self.emitter_key, key, key)


def _joined(parts: Sequence[Entries]) -> tuple[Ints, Ints, Ints, Floats]:
    """Return the entries of all particles, each with the number of its particle."""
    owner = np.repeat(np.arange(len(parts)), [len(part.times) for part in parts])
    place = np.concatenate([part.place for part in parts])
    value = np.concatenate([part.value for part in parts])
    return owner, place, value, np.concatenate([part.times for part in parts])


def _range(keys: Ints, first: Ints, last: Ints) -> tuple[Ints, Ints]:
    return np.searchsorted(keys, first, "left"), np.searchsorted(keys, last, "right")


def _spelled_out(begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Return all indices of some ranges, in order, and before them which range each is in."""
    sizes = end - begin
    which = np.repeat(np.arange(len(sizes)), sizes)
    offset = np.arange(len(which)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return which, begin[which] + offset


class Continuations:
    """Several continuations, each of one of the particles given.

    Parameters
    ----------
    model : InfiniteHMM
        The model of the particles.
    particles : sequence of ParticleStatistics
        The particles, all as of the same step.
    which : ndarray of int64
        For each continuation the index of its particle.
    length : int
        The most steps that will be made.
    seen : ndarray of int64, optional
        Of an open alphabet, how often each symbol was seen.

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
        self._fades = model.forget > 0.0 or model.half_life is not None
        self._first = self.step = particles[0].step
        if any(particle.step != self.step for particle in particles):
            raise ValueError("particles: expected all of them as of the same step")
        most = max(particle.n_states for particle in particles)
        # Rows of symbols that are new in a continuation come after those of all others.
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
            np.bincount(particle.emission.place, particle.emission.times, particle.n_states)
            for particle in particles
        ]
        self._emitted = _padded(totals, width)[which]
        # The steps made: from a row to a state on a symbol. An amount of one, as of the step, is
        # added to the transition, or what makes it one if it had faded away.
        self._n_made = 0
        shape = len(which), length
        self._made_row, self._made_state, self._made_symbol = (
            np.zeros(shape, dtype=np.int64) for _ in range(3)
        )
        self._made_amount = np.zeros(shape)

    @property
    def n_particles(self) -> int:
        """How many particles the continuations follow."""
        return self._tables.n_particles

    @property
    def followed(self) -> Ints:
        """For each continuation the index of its particle."""
        return self._particle

    @property
    def moved_to(self) -> Ints:
        """The state that each continuation went to last, which may have faded away since."""
        states: Ints = self._made_state[:, self._n_made - 1]
        return states

    @property
    def left_of_last(self) -> float:
        """What is left now of a count of one at the step that was made last."""
        return float(self._left_of(self.step - 1))

    # -- forgetting ------------------------------------------------------------------------

    def _left_of(self, steps: Any) -> Any:
        """Return what is left now of a count of one at the given steps."""
        if isinstance(self.model.half_life, timedelta):
            return np.ones(np.shape(steps))  # nobody knows how much time passes
        if self.model.half_life is not None:
            return np.exp2((steps - self.step) / self.model.half_life)
        if self.model.forget > 0.0:
            return np.power(steps / self.step, self.model.forget)
        return np.ones(np.shape(steps))

    def _left_of_made(self) -> Floats:
        left: Floats = self._left_of(self._first + np.arange(self._n_made))
        return left

    def _fade(self) -> None:
        """Bring all sums from the step that was made to the next one."""
        left = float(self._left_of(self.step - 1))
        self._into *= left
        self._emitted *= left
        gone = self._into < GONE
        for sums in (self._into, self._emitted, self._rows_into):
            sums[gone] = 0.0
        homeless = (self.state >= 0) & gone[self._each, self.state]
        self.state[homeless] = START
        self._row[homeless] = START_ROW
        if self.step % ROWS_COUNTED_EVERY == 0:
            self._count_rows(gone)

    def _count_rows(self, gone: NDArray[np.bool_]) -> None:
        """Count afresh from how many rows each state is reached."""
        tables, n = self._tables, self._n_made
        which, index = _spelled_out(*tables.transitions_of(self._particle))
        made = np.repeat(self._each, n)
        owner = np.concatenate([which, made])
        row = np.concatenate([tables.row[index], self._made_row[:, :n].ravel()])
        state = np.concatenate([tables.reached[index], self._made_state[:, :n].ravel()])
        amount = self._made_amount[:, :n] * self._left_of_made()
        count = np.concatenate(
            [tables.transitions[index] * self._left_of(self._first), amount.ravel()]
        )
        order = np.lexsort((row, state, owner))
        owner, state, row = owner[order], state[order], row[order]
        is_first = np.ones(len(order), dtype=bool)
        is_first[1:] = (np.diff(owner) != 0) | (np.diff(state) != 0) | (np.diff(row) != 0)
        first = np.flatnonzero(is_first)
        there = np.add.reduceat(count[order], first) >= GONE
        self._rows_into[:] = 0.0
        np.add.at(self._rows_into, (owner[first][there], state[first][there]), 1.0)
        self._rows_into[gone] = 0.0

    # -- probabilities ---------------------------------------------------------------------

    def _transitions(self) -> Floats:
        """Return the transitions from the row of each continuation, also those that are gone."""
        tables, n = self._tables, self._n_made
        counts = np.zeros_like(self._into)
        which, index = _spelled_out(*tables.transitions_from(self._particle, self._row))
        left = self._left_of(self._first)
        counts[which, tables.reached[index]] = tables.transitions[index] * left
        which, made = np.nonzero(self._made_row[:, :n] == self._row[:, np.newaxis])
        amount = self._made_amount[which, made] * self._left_of_made()[made]
        np.add.at(counts, (which, self._made_state[which, made]), amount)
        return counts

    def _seen(self, transitions: Floats) -> Floats:
        return np.where(transitions < GONE, 0.0, transitions) if self._fades else transitions

    def transition_probabilities(self) -> Floats:
        """Return the probability of each next state; of the new one at the index `n_states`."""
        return self._probabilities(self._transitions())

    def _probabilities(self, transitions: Floats) -> Floats:
        model = self.model
        seen = self._seen(transitions)
        if model.kappa > 0.0:
            standing = np.flatnonzero(self.state >= 0)
            seen = seen.copy()
            seen[standing, self.state[standing]] += model.kappa
        if model.oracle == "unvisited":
            offered = np.where(seen > 0.0, 0.0, self._into)
        else:
            offered = self._into if model.oracle == "any" else self._rows_into
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
        joint = np.zeros((tables.n_particles, tables.most_states))  # of all that follow a particle
        np.add.at(joint, self._particle, rate[:, : tables.most_states])
        worth = joint.ravel()[tables.emitter_key] * tables.emissions
        counted = np.bincount(tables.symbol, worth, base.n_entries)
        made = rate[self._each[:, np.newaxis], self._made_state[:, : self._n_made]]
        made *= self._left_of_made()
        symbols = np.minimum(self._made_symbol[:, : self._n_made], base.n_entries - 1)
        added = np.bincount(symbols.ravel(), made.ravel(), base.n_entries)
        total = counted * self._left_of(self._first) + added + base.spread(rate, symbols)
        mean: Floats = total / len(self._each)
        return mean

    # -- steps -----------------------------------------------------------------------------

    def draw(self, rng: np.random.Generator) -> Ints:
        """Draw a state and a symbol for each continuation, and move there; return the symbols."""
        transitions = self._transitions()
        cumulative = np.cumsum(self._probabilities(transitions), axis=1)
        drawn, symbol_drawn = rng.random((2, len(self._each)))
        states = _first_above(cumulative, drawn * cumulative[:, -1])
        symbols = self._symbols(states, symbol_drawn)
        self._move(states, symbols, transitions)
        return symbols

    def move(self, states: Ints, symbols: Ints) -> None:
        """Let each continuation go to a state, possibly a new one, and emit a symbol there."""
        self._move(states, symbols, self._transitions())

    def _symbols(self, states: Ints, drawn: Floats) -> Ints:
        """Return the symbols that uniforms stand for: of beta, of steps made, of the particle."""
        tables, n = self._tables, self._n_made
        place = drawn * (self._emitted[self._each, states] + self._base.prior)
        symbols = self._base.draw(place, self._made_symbol[:, :n])
        place -= self._base.prior
        if n:
            made = (self._made_state[:, :n] == states[:, np.newaxis]) * self._left_of_made()
            cumulative = np.cumsum(made, axis=1)
            found = self._made_symbol[self._each, _first_above(cumulative, place)]
            is_prior = place < 0.0
            symbols = np.where(is_prior, symbols, found)
            place = np.where(is_prior, place, place - cumulative[:, -1])
        begin, end = tables.emissions_from(self._particle, states)
        counted = np.flatnonzero((place >= 0.0) & (end > begin))
        begin, end = begin[counted], end[counted]
        goal = tables.cumulative[begin] + place[counted] / self._left_of(self._first)
        index = np.searchsorted(tables.cumulative[1:], goal, "right")
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
        n = self._n_made
        before = transitions[self._each, states]
        opens = self._seen(before) == 0.0
        self._made_row[:, n] = self._row
        self._made_state[:, n] = states
        self._made_symbol[:, n] = symbols
        self._made_amount[:, n] = np.where(opens, 1.0 - before, 1.0)
        self._n_made += 1
        self._into[self._each, states] += 1.0
        self._emitted[self._each, states] += 1.0
        self._rows_into[self._each, states] += opens
        self.state = states.copy()
        self.n_states = np.maximum(self.n_states, states + 1)
        self._row = self._row_codes(states, symbols)
        self.step += 1
        if self._fades:
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
    """Return for each row the first index whose sum is above the value, else the last."""
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
    """Draw a particle by weight for each of `size` continuations; yield some of them at a time.

    With them come their numbers, in 0..size - 1: continuations of one particle are made together.
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
                found = statistics(k)
                last, widest = k, max(widest, found.n_states)
                if which and (len(which) + 1) * (widest + length) > _TOGETHER:
                    break
                particles.append(found)
            elif (len(which) + 1) * (widest + length) > _TOGETHER:
                break
            which.append(len(particles) - 1)
        part = order[first : first + len(which)]
        yield part, Continuations(model, particles, np.array(which), length, seen)
        first += len(which)
