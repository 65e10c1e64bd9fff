"""Random logs of interleaved sequences: tickets of a help desk, lines of several processes.

As in real logs, the events of many cases are interleaved in time order. The case or the process is
the key that separates them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from mdvpf._support import validate

# The distribution of the activity after each activity of a ticket. A case ends with "close".
_HELP_DESK: dict[str, dict[str, float]] = {
    "": {"assign": 0.9, "insert": 0.1},
    "insert": {"assign": 1.0},
    "assign": {"take in charge": 0.93, "assign": 0.05, "close": 0.02},
    "take in charge": {"resolve": 0.78, "wait": 0.14, "require upgrade": 0.04, "assign": 0.04},
    "wait": {"take in charge": 0.35, "resolve": 0.55, "wait": 0.1},
    "require upgrade": {"take in charge": 0.7, "wait": 0.3},
    "resolve": {"close": 0.94, "create error": 0.02, "take in charge": 0.04},
    "create error": {"resolve": 1.0},
}
_BETWEEN_EVENTS = 3600.0  # seconds between two events of a case, on average


@dataclass(frozen=True, slots=True, eq=False)
class EventLog:
    """Events of interleaved sequences in time order.

    Attributes
    ----------
    symbols : ndarray of int64
        The events, as indices of `labels`.
    keys : list of str
        The case or the process of each event.
    times : ndarray of float64
        The time of each event in seconds.
    labels : tuple of str
        The labels of the symbols, in order of first appearance.

    Examples
    --------
    >>> from mdvpf import datasets
    >>> log = datasets.help_desk(n_cases=50, rng=0)
    >>> log.keys[:3]
    ['case 0', 'case 0', 'case 0']
    """

    symbols: NDArray[np.int64]
    keys: list[str]
    times: NDArray[np.float64]
    labels: tuple[str, ...]

    @property
    def n_symbols(self) -> int:
        """Size of the alphabet."""
        return len(self.labels)

    def grouped(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the symbols grouped by key, in order of first event, and the sequence lengths.

        Examples
        --------
        >>> from mdvpf import datasets
        >>> log = datasets.help_desk(n_cases=50, rng=0)
        >>> symbols, lengths = log.grouped()
        >>> len(lengths), bool(len(symbols) == lengths.sum() == len(log.symbols))
        (50, True)
        """
        indices: dict[str, list[int]] = {}
        for i, key in enumerate(self.keys):
            indices.setdefault(key, []).append(i)
        order = np.array([i for case in indices.values() for i in case])
        return self.symbols[order], np.array([len(case) for case in indices.values()])


def help_desk(n_cases: int = 1000, *, rng: Any = None) -> EventLog:
    """Draw the log of a help desk: tickets that are opened, assigned, resolved and closed.

    About ten tickets are open at a time, so the next event is nearly always of another case. The
    process is invented; it resembles the public help desk log of process mining.

    Parameters
    ----------
    n_cases : int, default 1000
        Number of tickets.
    rng : None, int, SeedSequence, BitGenerator or Generator, optional
        Seed or generator of the random numbers.

    Examples
    --------
    >>> from mdvpf import datasets
    >>> log = datasets.help_desk(n_cases=50, rng=0)
    >>> [log.labels[symbol] for symbol in log.grouped()[0][:4]]
    ['assign', 'take in charge', 'wait', 'resolve']
    """
    n_cases = validate.integer("n_cases", n_cases, low=1)
    generator = validate.generator("rng", rng)
    events: list[tuple[float, str, str]] = []
    opened = 0.0
    for case in range(n_cases):
        opened += generator.exponential(_BETWEEN_EVENTS / 3)
        time, activity = opened, _next(generator, "")
        while True:
            events.append((time, f"case {case}", activity))
            if activity not in _HELP_DESK:
                break
            time += generator.exponential(_BETWEEN_EVENTS)
            activity = _next(generator, activity)
    return _log(sorted(events))


def _next(generator: Generator, activity: str) -> str:
    followers = _HELP_DESK[activity]
    return str(generator.choice(list(followers), p=list(followers.values())))


def processes(
    n_lines: int = 12_000, n_processes: int = 8, n_routines: int = 12, *, rng: Any = None
) -> EventLog:
    """Draw the log of several processes, each with a line every second or so.

    A process runs one routine after the other. A routine is a fixed sequence of 3 to 8 templates of
    lines; now and then a line is left out. Every process has its favourite routines. New routines
    with new templates appear throughout the log.

    Parameters
    ----------
    n_lines : int, default 12000
        Length of the log.
    n_processes : int, default 8
        Number of processes.
    n_routines : int, default 12
        Number of routines at the end of the log. A third of them exists from the start.
    rng : None, int, SeedSequence, BitGenerator or Generator, optional
        Seed or generator of the random numbers.

    Examples
    --------
    >>> from mdvpf import datasets
    >>> log = datasets.processes(n_lines=1000, rng=0)
    >>> len(set(log.keys)), log.n_symbols > 20
    (8, True)
    """
    n_lines = validate.integer("n_lines", n_lines, low=1)
    n_processes = validate.integer("n_processes", n_processes, low=1)
    n_routines = validate.integer("n_routines", n_routines, low=1)
    generator = validate.generator("rng", rng)
    routines = _draw_routines(generator, n_routines)
    at_first = max(1, n_routines // 3)
    favour = generator.dirichlet(np.full(n_routines, 0.5), n_processes)
    running: list[list[str]] = [[] for _ in range(n_processes)]
    events = []
    times = np.cumsum(generator.exponential(1.0 / n_processes, n_lines))
    for i, time in enumerate(times.tolist()):
        process = int(generator.integers(n_processes))
        if not running[process]:
            n_known = at_first + (n_routines - at_first) * i // n_lines
            chances = favour[process, :n_known] + 1e-3
            routine = routines[int(generator.choice(n_known, p=chances / chances.sum()))]
            left_out = int(generator.integers(len(routine))) if generator.random() < 0.05 else -1
            running[process] = [line for j, line in enumerate(routine) if j != left_out]
        events.append((time, f"process {process}", running[process].pop(0)))
    return _log(events)


def _draw_routines(generator: Generator, n: int) -> list[list[str]]:
    """Return sequences of templates; about a third of a routine's lines occur in earlier ones."""
    templates: list[str] = []
    routines = []
    for _ in range(n):
        lines = []
        for _ in range(int(generator.integers(3, 9))):
            if templates and generator.random() < 1 / 3:
                lines.append(templates[int(generator.integers(len(templates)))])
            else:
                templates.append(f"template {len(templates)}")
                lines.append(templates[-1])
        routines.append(lines)
    return routines


def _log(events: list[tuple[float, str, str]]) -> EventLog:
    labels = {label: i for i, label in enumerate(dict.fromkeys(label for _, _, label in events))}
    return EventLog(
        np.array([labels[label] for _, _, label in events], dtype=np.int64),
        [key for _, key, _ in events],
        np.array([time for time, _, _ in events]),
        tuple(labels),
    )
