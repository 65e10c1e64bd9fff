"""Anomalies put into event logs: activities that are skipped, repeated or swapped.

Real logs seldom have labels for strange cases. Here some cases of a log are changed at random, and
labels say which cases and how.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf.datasets.event_logs import EventLog

KINDS = ("skipped", "repeated", "swapped")


@dataclass(frozen=True, slots=True, eq=False)
class SpoiledLog:
    """An event log of which some cases were made strange.

    Attributes
    ----------
    log : EventLog
        The log with its anomalies, in time order.
    kinds : dict of str to str
        By case, in order of first appearance in the log: "skipped", "repeated", "swapped", or ""
        for a case that was left as it was.

    Examples
    --------
    >>> from mdvpf import datasets
    >>> from mdvpf.datasets.log_anomalies import spoil
    >>> found = spoil(datasets.help_desk(n_cases=100, rng=0), share=0.2, rng=1)
    >>> int(found.is_strange.sum()), len(found.kinds)
    (20, 100)
    """

    log: EventLog
    kinds: dict[str, str]

    @property
    def is_strange(self) -> NDArray[np.bool_]:
        """Whether each case was spoiled, in the order of ``log.grouped()``."""
        return np.array([kind != "" for kind in self.kinds.values()])


def spoil(
    log: EventLog,
    share: float = 0.1,
    *,
    kinds: Iterable[str] = KINDS,
    n_changes: int = 1,
    rng: Any = None,
) -> SpoiledLog:
    """Put anomalies into some cases of a log.

    There are three kinds. An activity is left out (skipped), or comes twice in a row (repeated), or
    two different neighbours are swapped while the times stay (swapped). Only cases with two
    different activities in a row are chosen: an anomaly could leave others empty or unchanged.

    Parameters
    ----------
    log : EventLog
        The usual log. It is left as it is.
    share : float, default 0.1
        Share of the cases that are changed. Their number is rounded.
    kinds : iterable of {"skipped", "repeated", "swapped"}
        The kinds of anomalies. Each changed case has one kind, and all kinds are about as frequent.
    n_changes : int, default 1
        Number of anomalies in a changed case; as many as possible in a short one.
    rng : None, int, SeedSequence, BitGenerator or Generator, optional
        Seed or generator of the random numbers.

    Examples
    --------
    >>> from mdvpf import datasets
    >>> from mdvpf.datasets.log_anomalies import spoil
    >>> usual = datasets.help_desk(n_cases=100, rng=0)
    >>> found = spoil(usual, kinds=["repeated"], rng=1)
    >>> len(found.log.symbols) - len(usual.symbols)
    10
    """
    if not isinstance(log, EventLog):
        raise TypeError(f"log of type {type(log).__name__}: expected an EventLog")
    share = validate.real("share", share, low=0.0, high=1.0)
    wanted = [
        validate.choice(f"kinds[{i}]", kind, KINDS)
        for i, kind in enumerate(validate.entries("kinds", kinds, of="kinds of anomalies"))
    ]
    n_changes = validate.integer("n_changes", n_changes, low=1)
    generator = validate.generator("rng", rng)
    cases: dict[str, list[tuple[float, int]]] = {}
    for key, time, symbol in zip(log.keys, log.times.tolist(), log.symbols.tolist(), strict=True):
        cases.setdefault(key, []).append((time, symbol))
    possible = [key for key, events in cases.items() if _neighbours(events)]
    n = round(share * len(cases))
    if n > len(possible):
        raise ValueError(
            f"share={share!r} of {len(cases)} cases: expected at most {len(possible)} cases, those "
            "with two different activities in a row"
        )
    chosen = generator.permutation(len(possible))[:n].tolist()
    spoiled = {possible[case]: wanted[i % len(wanted)] for i, case in enumerate(chosen)}
    events = []
    for key, own in cases.items():
        changed = own
        for _ in range(n_changes if key in spoiled else 0):
            changed = _change(changed, spoiled[key], generator)
        events += [(time, key, symbol) for time, symbol in changed]
    events.sort(key=lambda event: event[0])  # stable: equal times keep the order in a case
    keys = [key for _, key, _ in events]
    return SpoiledLog(
        EventLog(
            np.array([symbol for _, _, symbol in events], dtype=np.int64),
            keys,
            np.array([time for time, _, _ in events]),
            log.labels,
        ),
        {key: spoiled.get(key, "") for key in dict.fromkeys(keys)},
    )


def _neighbours(events: list[tuple[float, int]]) -> list[int]:
    """Return the indices of activities that are followed by a different one."""
    return [i for i in range(len(events) - 1) if events[i][1] != events[i + 1][1]]


def _change(
    events: list[tuple[float, int]], kind: str, generator: Generator
) -> list[tuple[float, int]]:
    """Return the events of a case with one more anomaly, if the case is long enough."""
    if kind == "swapped":
        possible = _neighbours(events)
        if not possible:
            return events
        i = possible[int(generator.integers(len(possible)))]
        (earlier, first), (later, second) = events[i], events[i + 1]
        return [*events[:i], (earlier, second), (later, first), *events[i + 2 :]]
    i = int(generator.integers(len(events)))
    if kind == "repeated":
        return [*events[: i + 1], *events[i:]]
    return [*events[:i], *events[i + 1 :]] if len(events) > 1 else events
