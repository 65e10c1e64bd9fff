"""Counts up to 2**32 - 1, the largest that the core can hold, and one symbol more.

No test feeds so many symbols: the filter comes from a checkpoint whose counts were replaced.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import mdvpf
from mdvpf.model.algorithms import Algorithm
from tests.algorithms import EVERY_ALGORITHM
from tests.kernel.inspecting import assert_same, laid_open
from tests.kernel.sealing import loaded, saved, sealed, unsealed

LARGEST = 2**32 - 1
V = 2
BETA = Fraction(1, 4)


def filter_after(n: int, algorithm: Algorithm) -> mdvpf.ParticleFilter:
    """A filter with one particle of one state, which has met the symbol 0 n times in a sequence."""
    model = mdvpf.InfiniteHMM(V, beta=float(BETA), max_states=1)
    pf = mdvpf.ParticleFilter(model, algorithm, n_particles=1, rng=0)
    pf.run([0, 0])
    pf.new_sequence()  # nothing is held back
    opened = unsealed(saved(pf))
    opened.values()["core"]["n_steps"] = n
    opened.arrays["spread"] = np.array([float(n / (n + V * BETA))])
    opened.arrays["current"] = np.array([1], dtype=np.uint8)  # but the sequence goes on
    # The group of emission columns, then that of the rows of S and of the state: how many pairs
    # and items of four bytes; where each of four rows ends, and the pairs.
    opened.arrays["shape"] = np.array([4 * 1 + 2, 4 * 2 + 2], dtype=np.uint8)
    columns = [1, 1, 1, 1, 0, n]
    rows = [1, 2, 2, 2, 0, 1, 0, n - 1]
    opened.arrays["items"] = np.array([*columns, *rows], dtype="<u4").view(np.uint8)
    result: mdvpf.ParticleFilter = loaded(sealed(opened))
    result._core.verify()
    return result


@pytest.mark.parametrize("name", EVERY_ALGORITHM)
def test_predictions_hold_up_to_the_largest_count_and_the_next_symbol_is_refused(name: str) -> None:
    n = LARGEST - 3
    pf = filter_after(n, EVERY_ALGORITHM[name])
    with pytest.raises(OverflowError, match="2\\*\\*32 - 1"):
        while n <= LARGEST:
            total = n + V * BETA
            expected = [float((n + BETA) / total), float(BETA / total)]
            np.testing.assert_allclose(pf.predict_proba(), expected, rtol=1e-12, atol=0.0)
            before = laid_open(pf)
            pf.update(0)
            n += 1
    assert n == LARGEST
    assert_same(pf, before)
