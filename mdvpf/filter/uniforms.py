"""Draw uniforms ahead of the steps that may use them, and put unused ones back.

The core draws no random numbers. It takes uniforms and reports how many it used. Afterwards the
generator is in the state that it would have if each uniform had been drawn when it was used.
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
    """Draw `most` uniforms; when the block ends, put the unused ones back.

    Yields the uniforms and an array of two integers. The block must set entry 1 to the number of
    uniforms used.
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


@contextmanager
def restored_on_error(generator: Generator) -> Iterator[None]:
    """If the block raises, put back everything that it drew."""
    state = generator.bit_generator.state
    try:
        yield
    except BaseException:
        generator.bit_generator.state = state
        raise


def draw_one(generator: Generator) -> tuple[NDArray[np.float64], Any]:
    """Draw one uniform, faster than `drawn_uniforms`; also return a state for `put_back_one`."""
    bits = generator.bit_generator
    # Reading the state takes longer than drawing, and PCG64 can step back without it.
    state = None if type(bits) is PCG64 else bits.state
    return generator.random(1), state


def put_back_one(generator: Generator, state: Any) -> None:
    """Put back the uniform drawn by the last `draw_one`."""
    bits: Any = generator.bit_generator
    if state is None:
        after = bits.state
        bits.advance(2**128 - 1)  # steps back by one, but resets other fields of the state
        state = after | {"state": bits.state["state"]}
    bits.state = state
