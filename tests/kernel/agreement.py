"""Core and reference on drawn cases: they agree to the end of nearly all, and the rest is counted.

In a few cases the last bit decides (`edges`). If it only decides whether a uniform is drawn, the
generators are synchronised, and everything is compared to the end. Otherwise the two part, and the
rest of the case is not compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import mdvpf
from mdvpf.model.algorithms import Algorithm
from tests.kernel.comparing import Pair
from tests.kernel.inspecting import Event

# Largest shares of the filters; one is always allowed. Of 9,900 cases drawn with other seeds none
# parted, and 29 were synchronised. Far more than that would mean that the edges hide a difference.
MOST_PARTED = 0.02
MOST_SYNCHRONISED = 0.2


@dataclass(frozen=True)
class Case:
    """A filter and its events."""

    model: mdvpf.InfiniteHMM
    algorithm: Algorithm
    n_particles: int
    history: int | str | None
    seed: int
    events: tuple[Event, ...]

    def pair(self) -> Pair:
        return Pair(
            self.model, self.algorithm, self.n_particles, seed=self.seed, history=self.history
        )


AnyCase = TypeVar("AnyCase", bound=Case)


def follow(case: Case) -> Pair:
    """Feed the events of a case to core and reference; return them."""
    pair = case.pair()
    pair.follow(case.events, tables=10 if len(case.events) > 30 else 1)
    return pair


def check_agreement(
    cases: st.SearchStrategy[AnyCase],
    max_examples: int,
    follow: Callable[[AnyCase], Pair] = follow,
) -> None:
    """Check that core and reference agree on drawn cases, and that few of them end on an edge."""
    # Hypothesis repeats what is rare with small changes, so filters are counted, and not cases.
    filters: defaultdict[str, set[Any]] = defaultdict(set)

    @settings(
        max_examples=max_examples,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(case=cases)
    def agree(case: AnyCase) -> None:
        pair = follow(case)
        outcome = "parted" if pair.edge else "synchronised" if pair.n_synchronised else "agreed"
        event(outcome if pair.edge is None else f"parted: {pair.edge[0]}")
        filters[outcome].add((case.model, case.algorithm))

    agree()
    n = len(set().union(*filters.values()))
    assert len(filters["parted"]) <= max(1, MOST_PARTED * n), filters["parted"]
    assert len(filters["synchronised"]) <= max(1, MOST_SYNCHRONISED * n), filters["synchronised"]
