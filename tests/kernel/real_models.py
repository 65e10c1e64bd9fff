"""Models whose counts are real numbers, and a stream for tests of their checkpoints."""

from __future__ import annotations

from typing import Any

import numpy as np

import mdvpf
from tests.kernel.inspecting import BREAK, Event

# Each extension alone, all together, and their interactions: states that fade away while there is
# no room for new ones, counts that last only one step, rows that are recounted.
EXTENSIONS: dict[str, dict[str, Any]] = {
    "rows": {"oracle": "rows"},
    "mealy": {"machine": "mealy"},
    "kappa": {"kappa": 1.5},
    "forget": {"forget": 0.8},
    "half_life": {"half_life": 3.0},
    "short half_life": {"half_life": 0.1},
    "rows that fade": {"oracle": "rows", "half_life": 2.0, "max_states": 2},
    "all": {"oracle": "rows", "machine": "mealy", "kappa": 0.5, "forget": 1.3, "max_states": 3},
    "any": {"oracle": "any", "machine": "mealy", "half_life": 40.0},
}


def make_model(extension: str, n_symbols: int = 5) -> mdvpf.InfiniteHMM:
    return mdvpf.InfiniteHMM(n_symbols, beta=0.1, gamma=2.0, **EXTENSIONS[extension])


def make_events(n_symbols: int, n: int, seed: int = 0) -> list[Event]:
    """A stream with jumps, missing symbols and ends of sequences."""
    rng = np.random.default_rng(seed)
    found: list[Event] = []
    symbol = 0
    for _ in range(n):
        kind = rng.random()
        symbol = int(rng.integers(n_symbols)) if kind < 0.3 else (symbol + 1) % n_symbols
        found.append(BREAK if kind > 0.95 else None if kind > 0.9 else symbol)
    return found
