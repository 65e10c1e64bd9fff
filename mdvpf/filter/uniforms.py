"""Uniforms drawn ahead of the steps that may use them; those that were not used are put back.

The core draws nothing, and says afterwards how many uniforms it used. The generator ends where it
would be if each had been drawn when it was needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.random import PCG64, Generator
from numpy.typing import NDArray

NO_UNIFORMS = np.empty(0)


@contextmanager
def drawn_uniforms(
    generator: Generator, most: int
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.int64]]]:
    """Draw all the uniforms that some steps may use, and put back those that they did not.

    Yields the uniforms and an array whose entry 1 receives how many were used.
    """
    progress = np.zeros(2, dtype=np.int64)
    if most == 0:
        yield NO_UNIFORMS, progress
        return
    state = generator.bit_generator.state
    try:
        yield generator.random(most), progress
    finally:
        used = int(progress[1])
        if used < most:
            generator.bit_generator.state = state
            generator.random(used)


def draw_one(generator: Generator) -> tuple[NDArray[np.float64], Any]:
    """Draw one uniform, faster than `drawn_uniforms`; return it and what puts it back."""
    bits = generator.bit_generator
    # To read the state takes longer than to draw, and PCG64 can step back.
    state = None if type(bits) is PCG64 else bits.state
    return generator.random(1), state


def put_back_one(generator: Generator, state: Any) -> None:
    """Put the one uniform back that was drawn last."""
    bits: Any = generator.bit_generator
    if state is None:
        after = bits.state
        bits.advance(2**128 - 1)  # which forgets what else is in the state
        state = after | {"state": bits.state["state"]}
    bits.state = state
