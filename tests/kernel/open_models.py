"""Models with an open alphabet, and streams for them whose symbols are numbered as they appear."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

import mdvpf
from tests.extended_models import EXTENSIONS
from tests.kernel.inspecting import BREAK, Event

# Integer counts of either oracle, then every extension: for those the core holds 32-bit floats.
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "any": {"oracle": "any"},
    "three states": {"max_states": 3},
    **EXTENSIONS,
}


def make_model(setting: str, **family: float) -> mdvpf.InfiniteHMM:
    family = {"concentration": 0.7, "strength": 1.5, "discount": 0.3, **family}
    emission = mdvpf.OpenVocabulary(**family)
    return mdvpf.InfiniteHMM(gamma=2.0, emission=emission, **SETTINGS[setting])


def renumbered(events: Iterable[Event]) -> list[Event]:
    """Number the symbols of a stream by first appearance."""
    numbers: dict[int, int] = {}
    return [
        numbers.setdefault(event, len(numbers)) if isinstance(event, int) else event
        for event in events
    ]


def growing_events(n: int, new: float, seed: int = 0, *, breaks: bool = True) -> list[Event]:
    """Old symbols and a share of new ones; some are missing, some start a sequence."""
    rng = np.random.default_rng(seed)
    events: list[Event] = []
    n_seen = 0
    symbol = 0
    for kind in rng.random(n).tolist():
        if breaks and kind > 0.96:
            events.append(BREAK)
        if 0.9 < kind < 0.95:
            events.append(None)
        elif n_seen == 0 or kind < new:
            events.append(n_seen)
            n_seen += 1
        else:
            symbol = int(rng.integers(n_seen)) if rng.random() < 0.4 else (symbol + 1) % n_seen
            events.append(symbol)
    return events
