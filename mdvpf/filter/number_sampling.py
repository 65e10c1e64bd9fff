"""Sampled continuations of a stream of numbers.

States are sampled from a model with a single symbol, which represents any observation. Each
continuation also holds the statistics of its states, draws numbers from them, and updates them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mdvpf.filter.compiled_columns import update_rows
from mdvpf.filter.particle_statistics import ParticleStatistics
from mdvpf.filter.predictive import Predictive
from mdvpf.filter.sampling import Continuations, continuations
from mdvpf.model import CompiledEmission, InfiniteHMM, NumberFamily, channels_of
from mdvpf.model.number_families import CATEGORICAL, GAUSSIAN

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def state_model(model: InfiniteHMM) -> InfiniteHMM:
    """Return the model of the states alone: its single symbol represents any observation."""
    return replace(model, emission=None, n_symbols=1, beta=1.0)


class NumberContinuations:
    """Several continuations with the statistics of their states.

    Parameters
    ----------
    family : NumberFamily
        The emission family.
    ahead : Continuations
        The continuations of the states.
    statistics : ndarray of float64, shape (continuations, states, statistics)
        The statistics of each continuation, as of the next step.
    """

    def __init__(self, family: NumberFamily, ahead: Continuations, statistics: Floats) -> None:
        self._family = family
        self._channels = channels = channels_of(family)
        self._ahead = ahead
        self._statistics = statistics
        self._fades = np.array([fades for channel in channels for fades in channel.fades])

    def draw(self, rng: np.random.Generator) -> Floats:
        """Draw and add one step of each continuation; return the observations."""
        ahead, n = self._ahead, len(self._statistics)
        ahead.draw(rng)
        states = ahead.last_states
        width = self._statistics.shape[1]
        if states.max() >= width:
            room = ((0, 0), (0, 1 + width // 2 + int(states.max()) - width), (0, 0))
            self._statistics = np.pad(self._statistics, room)
        each = np.arange(n)
        current = self._statistics[each, states]
        observed = Predictive(self._family, np.ones(n), current).draw_each(rng)
        self._statistics[each, states] = self._updated(current, observed)
        self._statistics[..., self._fades] *= ahead.last_decay
        return observed

    def _updated(self, statistics: Floats, observed: Floats) -> Floats:
        """Return the statistics of states after one more observation each."""
        if isinstance(self._family, CompiledEmission):
            return update_rows(self._family, observed, statistics)
        statistics = statistics.copy()
        offset = 0
        for channel, y in zip(self._channels, observed.T, strict=True):
            part = statistics[:, offset : offset + channel.n_statistics]
            part[:, 0] += 1.0
            if channel.kind == GAUSSIAN:  # Welford's update of mean and squared deviations
                deviation = y - part[:, 1]
                part[:, 1] += deviation / part[:, 0]
                part[:, 2] += deviation * (y - part[:, 1])
            elif channel.kind == CATEGORICAL:
                part[np.arange(len(y)), 1 + y.astype(np.int64)] += 1.0
            else:
                part[:, 1] += y
            offset += channel.n_statistics
        return statistics

    def components(self) -> tuple[Floats, Floats]:
        """Return the weights and statistics of the one-step predictive of all continuations."""
        weights = self._ahead.transition_probabilities()
        width = weights.shape[1]
        statistics = self._statistics[:, :width]
        if statistics.shape[1] < width:
            room = ((0, 0), (0, width - statistics.shape[1]), (0, 0))
            statistics = np.pad(statistics, room)
        kept = weights > 0.0
        return weights[kept], statistics[kept]


def number_continuations(
    model: InfiniteHMM,
    weights: Floats,
    of_particle: Callable[[int], tuple[ParticleStatistics, Floats]],
    length: int,
    size: int,
    rng: np.random.Generator,
) -> Iterator[tuple[Ints, NumberContinuations]]:
    """Start `size` continuations from particles drawn by weight; yield them in batches.

    `of_particle` returns the counts of a particle and the statistics of its states.
    """
    assert model.numbers is not None
    channels = channels_of(model.numbers)
    tables: list[Floats] = []

    def counted(k: int) -> ParticleStatistics:
        found, statistics = of_particle(k)
        tables.append(statistics)
        return found

    states = state_model(model)
    for part, ahead in continuations(states, weights, counted, length, size, rng):
        n = ahead.n_particles
        found = tables[:n]  # the last one read may belong to the next batch
        tables.clear()
        width = max(len(table) for table in found) + 1
        padded = np.zeros((n, width, sum(c.n_statistics for c in channels)))
        for row, table in zip(padded, found, strict=True):
            row[: len(table)] = table
        yield part, NumberContinuations(model.numbers, ahead, padded[ahead.particle_indices])
