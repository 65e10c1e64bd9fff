"""Particles that follow the influence of their filter on a `GeometricMixture`.

Every particle costs time, and on most streams most filters of a mixture hardly matter. The
*influence* of a filter is the average, by the weights of the heads, of its weights in the linear
heads and its powers in the geometric ones. At fixed times it determines the number of particles of
the filter.

At the start every filter has all its `n_particles`, because the states that it finds early decide
what it finds later: particles that are added later descend from the few that were left. Afterwards
the number falls by at most half at a time, but rises at once. Filters without influence keep a few
particles and go on learning, because they may gain influence in another part of the stream.

The numbers depend only on the symbols so far. Results therefore do not depend on how a stream is
cut into calls, or on threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from mdvpf.filter import ParticleFilter
from mdvpf.model.algorithms import DUPLICATING
from mdvpf.predictor import Predictor

INTERVAL = 256  # symbols between two changes; each change ends a chunk, which costs time

_FULL = 0.5  # a filter of this influence or more has all its particles
_LEAST = 1 / 8  # share of its particles that a filter always keeps
_FALL = 0.5  # least share of the present number that remains after a change


def influences(
    linear: NDArray[np.float64], powers: NDArray[np.float64], heads: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the influence of each member of a mixture.

    Parameters
    ----------
    linear : ndarray of shape (linear heads, members)
        Weights of the members in the linear heads.
    powers : ndarray of shape (geometric heads, members)
        Sums of the absolute powers of the distributions of each member.
    heads : ndarray
        Weights of the linear heads, then of the geometric ones.

    Examples
    --------
    >>> import numpy as np
    >>> from mdvpf.mixture.influence import influences
    >>> heads = np.array([0.75, 0.25])
    >>> influences(np.array([[0.9, 0.1]]), np.array([[0.1, 0.5]]), heads).round(6).tolist()
    [0.7, 0.2]
    """
    return np.asarray(heads @ np.vstack([linear, powers]))


def particles_for(n_particles: int, influence: float, before: int) -> int:
    """Return how many of its particles a filter keeps; `before` is the number so far.

    Examples
    --------
    >>> from mdvpf.mixture.influence import particles_for
    >>> [particles_for(80, influence, before=10) for influence in (0.0, 0.1, 0.25, 0.5, 3.0)]
    [10, 16, 40, 80, 80]
    >>> particles_for(80, 0.0, before=80)
    40
    """
    share = min(1.0, max(_LEAST, influence / _FULL))
    return max(1, round(n_particles * share), round(_FALL * before))


def adapt(members: Sequence[Predictor], influence: NDArray[np.float64]) -> None:
    """Let each filter keep as many particles as its influence gives it.

    SMC and ParticleLearning always have all their particles.
    """
    for member, own in zip(members, influence.tolist(), strict=True):
        if isinstance(member, ParticleFilter) and not isinstance(member.algorithm, DUPLICATING):
            member._keep(particles_for(member.n_particles, own, member._kept))


def is_time(time: int) -> bool:
    """Return whether filters get another number of particles after this many symbols."""
    return time % INTERVAL == 0


def cuts(time: int, n: int) -> Iterator[slice]:
    """Yield the parts of the n symbols after a time, so that an interval ends only with a part.

    Examples
    --------
    >>> from mdvpf.mixture.influence import cuts
    >>> list(cuts(250, 10))
    [slice(0, 6, None), slice(6, 10, None)]
    """
    start = 0
    while start < n:
        stop = min(n, start + INTERVAL - (time + start) % INTERVAL)
        yield slice(start, stop)
        start = stop
