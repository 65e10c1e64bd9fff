"""Families over numbers, computed from the observations themselves without running statistics.

A state stores all its observations with their present weights. Each density computes the weighted
sums from scratch, which is slow but cannot accumulate rounding errors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mdvpf.model import (
    Channel,
    CompiledEmission,
    NumberFamily,
    OpenVocabulary,
    Product,
    channels_of,
)
from mdvpf.model.number_families import CATEGORICAL, GAUSSIAN

Numbers = tuple[float, ...]
"""An observation: one number for each channel, NaN for a missing one."""

Emitted = tuple[tuple[float, Numbers], ...]
"""The observations of a state: pairs of present weight and observation."""


def log_density(
    family: NumberFamily,
    emitted: Emitted,
    observation: Numbers,
    seen: Sequence[Sequence[int]] = (),
) -> float:
    """Return the log predictive density of an observation in a state with these observations.

    `seen` has the counts of the whole stream in each open channel.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf.reference import log_density
    >>> density = log_density(mdvpf.Poisson(), ((1.0, (3.0,)), (0.5, (2.0,))), (0.0,))
    >>> round(density, 6)
    -1.682361
    """
    parts = family.families if isinstance(family, Product) else (family,)
    logs = []
    open_seen = iter(seen)
    first = 0
    for part in parts:
        last = first + len(channels_of(part))
        own = [(w, row[first:last]) for w, row in emitted]
        if isinstance(part, CompiledEmission):
            logs.append(_log_compiled(part, own, observation[first:last]))
        elif isinstance(part, OpenVocabulary):
            logs.append(_log_open(part, own, observation[first], next(open_seen, ())))
        else:
            logs += _log_densities(channels_of(part), own, observation[first:last])
        first = last
    return math.fsum(logs)


def _log_densities(
    channels: Sequence[Channel], emitted: Sequence[tuple[float, Numbers]], observation: Numbers
) -> list[float]:
    """Return the log predictive of each number that is not missing."""
    return [
        _log_density(channel, [(w, row[i]) for w, row in emitted if not math.isnan(row[i])], y)
        for i, (channel, y) in enumerate(zip(channels, observation, strict=True))
        if not math.isnan(y)
    ]


def _log_open(
    family: OpenVocabulary,
    emitted: Sequence[tuple[float, Numbers]],
    y: float,
    seen: Sequence[int],
) -> float:
    """Return the log probability of a symbol, 0 for a missing one."""
    if math.isnan(y):
        return 0.0
    n = math.fsum(w for w, row in emitted if not math.isnan(row[0]))
    times = math.fsum(w for w, row in emitted if row[0] == y)
    prior = family.concentration * family.base_probability(seen, int(y))
    return math.log((times + prior) / (n + family.concentration))


def _log_compiled(
    family: CompiledEmission, emitted: Sequence[tuple[float, Numbers]], observation: Numbers
) -> float:
    """Return the log predictive by the user's functions, from all observations with weights."""
    seen = np.array([row for _, row in emitted]).reshape(-1, family.n_dims)
    statistics = family.statistics_after(seen, np.array([w for w, _ in emitted]))
    found = family.log_predictive(np.array([observation]), statistics[np.newaxis])
    return float(found[0, 0])


def _log_density(channel: Channel, emitted: Sequence[tuple[float, float]], y: float) -> float:
    n = math.fsum(w for w, _ in emitted)
    if channel.kind == CATEGORICAL:
        (beta,) = channel.parameters
        times = math.fsum(w for w, symbol in emitted if symbol == y)
        return math.log((times + beta) / (n + channel.n_symbols * beta))
    total = math.fsum(w * x for w, x in emitted)
    if channel.kind == GAUSSIAN:
        mean = total / n if n > 0.0 else 0.0
        squares = math.fsum(w * (x - mean) ** 2 for w, x in emitted)
        return _log_student(channel.parameters, n, mean, squares, y)
    return _log_negative_binomial(channel.parameters, n, total, y)


def _log_student(
    prior: tuple[float, ...], n: float, mean: float, squares: float, y: float
) -> float:
    """Return the log density of Student's t with the parameters of the posterior."""
    m0, kappa0, a0, b0 = prior
    kappa = kappa0 + n
    a = a0 + n / 2.0
    m = m0 + (mean - m0) * (n / kappa)
    b = b0 + squares / 2.0 + (kappa0 * n / kappa) * (mean - m0) ** 2 / 2.0
    spread = 2.0 * b * (kappa + 1.0) / kappa  # degrees of freedom times the squared scale
    return (
        math.lgamma(a + 0.5)
        - math.lgamma(a)
        - 0.5 * math.log(math.pi * spread)
        - (a + 0.5) * math.log1p((y - m) ** 2 / spread)
    )


def _log_negative_binomial(prior: tuple[float, ...], n: float, total: float, y: float) -> float:
    shape, rate = prior[0] + total, prior[1] + n
    return (
        math.lgamma(shape + y)
        - math.lgamma(shape)
        - math.lgamma(y + 1.0)
        - shape * math.log1p(1.0 / rate)
        - y * math.log1p(rate)
    )
