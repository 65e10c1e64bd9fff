"""Open channels of a product in predictives: from counts of symbols to weights of all outcomes.

A state counts the D symbols seen. The outcomes of the next observation are these symbols and a new
one. The weight of an outcome is its count plus ``concentration * q``, where q is the base
distribution of the stream at that time, so the weights of a state sum to its number of observations
plus the concentration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from mdvpf._support.validate import SMALLEST_PARAMETER
from mdvpf.model import (
    Categorical,
    Channel,
    NumberFamily,
    OpenVocabulary,
    Product,
    channels_of,
)
from mdvpf.model.number_families import CATEGORICAL, Part

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def parts_of(
    family: NumberFamily, statistics: Floats, n_seen: Sequence[int]
) -> Iterator[tuple[Part, Channel, Floats]]:
    """Yield the family, the description and the statistics of each channel.

    An open channel is described as a categorical one over its outcomes, without a prior. Its
    statistics must be those that `with_base` returns.
    """
    sizes = iter(n_seen)
    families = family.families if isinstance(family, Product) else (family,)
    start = 0
    for part in families:
        for channel in channels_of(part):
            if isinstance(part, OpenVocabulary):
                n = next(sizes, 0) + 1
                channel = Channel(CATEGORICAL, (0.0,), (True,) * (1 + n), n)
            yield part, channel, statistics[:, start : start + channel.n_statistics]
            start += channel.n_statistics


def with_base(
    family: NumberFamily,
    statistics: Floats,
    seen: Sequence[Ints],
    n_kept: Sequence[int] | None = None,
) -> Floats:
    """Replace the counts of open channels by the weights of all outcomes.

    Parameters
    ----------
    family : NumberFamily
        The family.
    statistics : ndarray of float64, shape (n, statistics)
        Rows of statistics.
    seen : sequence of ndarray of int64
        For each open channel how often each symbol was seen, in the stream or, if the array has two
        dimensions, in that of each row. A symbol never seen has 0 there.
    n_kept : sequence of int, optional
        For each open channel the number of symbols to keep; the others join the new one.
    """
    if not seen:
        return statistics
    assert isinstance(family, Product)
    parts, start = [], 0
    sizes = iter(n_kept or ())
    times = iter(seen)
    for part in family.families:
        if isinstance(part, OpenVocabulary):
            known = next(times)
            end = start + 1 + known.shape[-1]
            parts.append(_outcomes(part, statistics[:, start:end], known, next(sizes, None)))
        else:
            end = start + sum(channel.n_statistics for channel in channels_of(part))
            parts.append(statistics[:, start:end])
        start = end
    return np.concatenate(parts, axis=1)


def _outcomes(family: OpenVocabulary, statistics: Floats, seen: Ints, n_kept: int | None) -> Floats:
    """Return the sum of the weights of all outcomes, and each of them."""
    known = np.broadcast_to(seen, (len(statistics), seen.shape[-1]))
    n_known = (known > 0).sum(axis=1, keepdims=True)
    total = known.sum(axis=1, keepdims=True) + family.strength
    masses = np.pad(np.where(known > 0, known - family.discount, 0.0), ((0, 0), (0, 1)))
    np.put_along_axis(masses, n_known, family.strength + family.discount * n_known, axis=1)
    weights = np.pad(statistics[:, 1:], ((0, 0), (0, 1)))
    weights = weights + family.concentration * masses / total
    if n_kept is not None:
        others = weights[:, n_kept:].sum(axis=1, keepdims=True)
        weights = np.concatenate([weights[:, :n_kept], others], axis=1)
    return np.concatenate([statistics[:, :1] + family.concentration, weights], axis=1)


def closed(
    family: NumberFamily, statistics: Floats, seen: Sequence[Ints]
) -> tuple[NumberFamily, Floats]:
    """Return a family without open alphabets, and statistics with the same predictives.

    An `OpenVocabulary` becomes a `Categorical` over its outcomes. Their weights are its counts, and
    the smallest beta vanishes next to them.
    """
    if not seen:
        return family, statistics
    assert isinstance(family, Product)
    sizes = iter(seen)
    parts = [
        Categorical(len(next(sizes)) + 1, SMALLEST_PARAMETER)
        if isinstance(part, OpenVocabulary)
        else part
        for part in family.families
    ]
    return Product(*parts), with_base(family, statistics, seen)
