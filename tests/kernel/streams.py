"""Streams shared by the tests of the core."""

from __future__ import annotations

import numpy as np

from tests.kernel.inspecting import Symbol


def random_symbols(seed: int, length: int, n_symbols: int, *, missing: float = 0.0) -> list[Symbol]:
    """Return symbols that count upwards, with a jump now and then, some of them missing."""
    rng = np.random.default_rng(seed)
    jumps = np.where(rng.random(length) < 0.4, rng.integers(n_symbols, size=length), 1)
    absent = rng.random(length) < missing
    symbols = (np.cumsum(jumps) % n_symbols).tolist()
    return [None if gone else symbol for symbol, gone in zip(symbols, absent, strict=True)]
