"""Places in a mixture: in each the member that lives there now, and those that will follow it.

There is one place for each member and level. What happens in a place depends on nothing outside of
it, so that places can run on threads.
"""

from __future__ import annotations

from threading import Lock

import numpy as np
from numpy.typing import NDArray

from mdvpf.filter import ParticleFilter
from mdvpf.mixture.restart import Restart
from mdvpf.predictor import Predictor, Stream

# A report of a member that is not born: it has no weight, and anything finite will do.
_UNBORN = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0)

_COPYING = Lock()  # places of several levels start from one template, which one thread can use


def newborn(template: Predictor, time: int) -> Predictor:
    """Return a copy that starts afresh; those of different times draw different numbers."""
    with _COPYING:
        member = template.copy()
    if isinstance(member, ParticleFilter):
        words = member.rng.integers(2**32, size=4)  # a copy of the template's
        member.rng = np.random.default_rng([time, *words.tolist()])
    return member


def run_life(member: Predictor, stream: Stream, reports: NDArray[np.float64]) -> None:
    """Let a member absorb a stream, writing the fields that all predictors report."""
    plan = member._plan(stream)
    n = len(stream)
    own = np.empty((n, member._n_fields))
    for start in range(0, n, member._chunk):
        part = slice(start, min(start + member._chunk, n))
        member._absorb(stream, plan, part, own[part])
    member._settle(n)
    reports[:] = own[:, : reports.shape[1]]


def run_lives(
    member: Predictor | None,
    template: Predictor,
    restart: Restart,
    level: int,
    time: int,
    stream: Stream,
    reports: NDArray[np.float64],
) -> Predictor:
    """Let those that live in one place of a level, one after another, absorb a stream.

    Returns who lives there at its end: there is somebody, or the place would not be run.
    """
    start, n = 0, len(stream)
    while start < n:
        birth = restart.next_birth(time + start, level)
        stop = min(n, birth - time)
        if member is None:
            reports[start:stop] = _UNBORN
        else:
            part = Stream(stream.symbols[start:stop], stream.starts[start:stop])
            run_life(member, part, reports[start:stop])
        if birth == time + stop:
            member = newborn(template, birth)
        start = stop
    assert member is not None
    return member
