"""All visible state of a filter, to compare it or to recount it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mdvpf
from mdvpf.reference import ReferenceFilter

Symbol = int | None
BREAK = "break"  # an event of a stream: a new sequence starts
Event = Symbol | str


@dataclass(frozen=True)
class Shown:
    """The particles that a filter shows."""

    weights: NDArray[np.float64]
    states: NDArray[np.int64]
    n_states: NDArray[np.int64]
    parents: NDArray[np.int64]


def shown(pf: mdvpf.ParticleFilter) -> Shown:
    n = len(pf.weights)
    weights = np.empty(n)
    states, n_states, parents = (np.empty(n, dtype=np.int64) for _ in range(3))
    pf._core.describe(weights, states, n_states, parents)
    return Shown(weights, states, n_states, parents)


def generator_state(generator: np.random.Generator) -> dict[str, Any]:
    return dict(generator.bit_generator.state)


def n_absorbed(pf: mdvpf.ParticleFilter) -> int:
    """How many symbols the filter has seen."""
    return int(pf._core.n_steps + pf._core.pending)


def prediction(pf: mdvpf.ParticleFilter) -> Any:
    """The next prediction of a filter; for numbers, the components in a canonical order."""
    if pf.model.numbers is None:
        return pf.predict_proba().tobytes()
    weights, statistics = pf._components(0)
    return sorted(zip(map(tuple, statistics.tolist()), weights.tolist(), strict=True))


def laid_open(pf: mdvpf.ParticleFilter) -> dict[str, Any]:
    """Everything that can be seen of a filter, to be compared bit for bit."""
    particles = shown(pf)
    seen: dict[str, Any] = {
        "n_steps": pf._core.n_steps,
        "pending": pf._core.pending,
        "log_evidence": pf.log_evidence,
        "prediction": prediction(pf),
        "generator": repr(generator_state(pf.rng)),
        "weights": particles.weights.tobytes(),
        "states": particles.states.tolist(),
        "n_states": particles.n_states.tolist(),
        "parents": particles.parents.tolist(),
    }
    for k in range(len(particles.states)):
        seen[f"counts({k})"] = [(table.shape, table.tobytes()) for table in pf.counts(k)]
        if pf.history is not None:
            seen[f"path({k})"] = pf.path(k).tolist()
    return seen


def assert_same(pf: mdvpf.ParticleFilter, expected: dict[str, Any]) -> None:
    """Compare a filter with an earlier or another one, to the last bit."""
    found = laid_open(pf)
    differing = [name for name in expected | found if expected.get(name) != found.get(name)]
    assert not differing


def feed(pf: mdvpf.Predictor | ReferenceFilter, events: Iterable[Event]) -> None:
    """Pass events on, one by one."""
    for event in events:
        if isinstance(event, str):
            pf.new_sequence()
        else:
            pf.update(event)


def recounted(
    path: NDArray[np.int64], events: Sequence[Event], n_symbols: int
) -> mdvpf.result.Counts:
    """Count a path and the symbols emitted on it, from scratch."""
    n_states = int(path.max(initial=-1)) + 1
    symbols = np.array([-1 if e is None else e for e in events if e != BREAK], dtype=np.int64)
    origins = np.concatenate([[-1], path])[: len(path)]
    n_seen = 0
    for event in events:
        if event == BREAK:
            if n_seen < len(origins):
                origins[n_seen] = -1
        else:
            n_seen += 1
    tables = mdvpf.result.Counts(
        np.zeros(n_states, dtype=np.int64),
        np.zeros((n_states, n_states), dtype=np.int64),
        np.zeros((n_states, n_symbols), dtype=np.int64),
    )
    first = origins == -1
    seen = symbols >= 0
    np.add.at(tables.start, path[first], 1)
    np.add.at(tables.transition, (origins[~first], path[~first]), 1)
    np.add.at(tables.emission, (path[seen], symbols[seen]), 1)
    return tables


def assert_counts_follow_paths(pf: mdvpf.ParticleFilter, events: Sequence[Event]) -> None:
    """Check the counts of every particle against its path, and the core against itself."""
    pf._core.verify()
    for k in range(len(pf.weights)):
        path = pf.path(k)
        assert len(path) == sum(event != BREAK for event in events)
        expected = recounted(path, events, pf.n_symbols)
        for name, found, table in zip(expected._fields, pf.counts(k), expected, strict=True):
            assert np.array_equal(found, table), f"{name} of particle {k}"
