"""Tables of the particles of a filter, and their number of candidates."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

import mdvpf


def tables(pf: mdvpf.ParticleFilter) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the transition and emission counts of each particle; row 0 is the start state's.

    Calling `ParticleFilter.counts` for every particle is too slow: each call describes all of them.
    """
    for k, m in enumerate(pf.n_states.tolist()):
        transition = np.zeros((m + 1, m), np.int64)
        emission = np.zeros((m, pf.n_symbols), np.int64)
        pf._core.counts(k, transition, emission)
        yield transition, emission


def n_candidates(pf: mdvpf.ParticleFilter) -> int:
    """Return the number of candidates of the current particles for the next symbol."""
    n_states = pf.n_states
    most = pf.model.max_states
    new = len(n_states) if most is None else int(np.sum(n_states < most))
    return int(n_states.sum()) + new
