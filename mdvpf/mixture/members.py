"""Everybody in a mixture: the members and their copies, level by level, always at the same symbol.

What one of them does depends on nobody else. So over many symbols each place of a level runs on
its own, on one of several threads (`_lives.py`). One symbol goes through all of them in turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf._support.interrupts import interrupts_held
from mdvpf.mixture.lives import newborn, run_life, run_lives
from mdvpf.mixture.restart import Restart
from mdvpf.predictor import N_FIELDS, Predictor, Step, Stream

_N_STEP = len(Step._fields)


def read_members(members: Any) -> list[Predictor]:
    """Return copies of predictors with the same alphabet, at least one, or raise."""
    found = validate.entries("members", members, of="predictors")
    for i, member in enumerate(found):
        if not isinstance(member, Predictor):
            raise TypeError(f"members[{i}]={member!r}: expected a predictor")
        if member.n_symbols != found[0].n_symbols:
            raise ValueError(
                f"members[{i}] has {member.n_symbols} symbols: expected {found[0].n_symbols}, "
                "as members[0] has"
            )
    return [member.copy() for member in found]


class Population:
    """The members of a mixture, and the copies of them that start afresh.

    Attributes
    ----------
    rows : list of lists of Predictor
        Who lives, one row a level: row 0 are the members that never restart.
    templates : list of Predictor
        What copies start from; none without restarts.
    time : int
        Symbols so far, missing ones included.
    """

    def __init__(self, members: Sequence[Predictor], restart: Restart | None) -> None:
        self.restart = restart
        self.rows = [list(members)]
        self.templates = [member.copy() for member in members] if restart else []
        self.time = 0
        # Who may refuse a symbol has to be asked before anybody absorbs it.
        self.wary = [member for member in self.rows[0] if member._may_refuse]
        self._is_broken = False

    @property
    def living(self) -> list[Predictor]:
        """The members and all copies that live."""
        return [member for row in self.rows for member in row]

    def copy(self) -> Population:
        """Return an independent copy."""
        self.check_whole()
        other = Population([member.copy() for member in self.rows[0]], None)
        other.restart = self.restart
        other.rows += [[member.copy() for member in row] for row in self.rows[1:]]
        other.templates = self.templates  # they are only copied
        other.time = self.time
        return other

    def step(self, symbol: int) -> tuple[NDArray[np.float64], int]:
        """Let everybody absorb a symbol.

        Returns the fields of `Step` by level and member, and the level of those who were born
        after it; 0 if nobody was.
        """
        steps = [member._step(symbol) for row in self.rows for member in row]
        found = np.fromiter(chain.from_iterable(steps), np.float64, _N_STEP * len(steps))
        found = found.reshape(len(self.rows), -1, _N_STEP)
        self.time += 1
        level = self.restart.level_at(self.time) if self.restart else 0
        if level:
            born = [newborn(template, self.time) for template in self.templates]
            self.rows[level : level + 1] = [born]
        return found, level

    def run(self, stream: Stream, n_threads: int) -> NDArray[np.float64]:
        """Let everybody absorb a stream; return a report for each symbol, level and member."""
        n, n_members, restart, time = len(stream), len(self.rows[0]), self.restart, self.time
        n_rows = 1 if restart is None else 1 + restart.n_levels(time + n)
        reports = np.empty((n, n_rows, n_members, N_FIELDS))

        def run(place: tuple[int, int]) -> Predictor:
            i, j = place
            if i == 0 or restart is None:
                run_life(self.rows[0][j], stream, reports[:, 0, j])
                return self.rows[0][j]
            member = self.rows[i][j] if i < len(self.rows) else None
            return run_lives(member, self.templates[j], restart, i, time, stream, reports[:, i, j])

        places = list(product(range(n_rows), range(n_members)))
        if n_threads == 1:
            living = list(map(run, places))
        else:
            with ThreadPoolExecutor(n_threads) as pool:
                living = list(pool.map(run, places))
        self.rows = [living[i : i + n_members] for i in range(0, len(living), n_members)]
        self.time += n
        return reports

    # -- failures --------------------------------------------------------------------------

    @contextmanager
    def together(self) -> Iterator[None]:
        """Let Ctrl-C wait, and remember if what happens inside fails: some are then ahead."""
        with interrupts_held():
            try:
                yield
            except BaseException:
                self._is_broken = True
                raise

    def check_whole(self) -> None:
        """Raise if somebody is ahead of the others."""
        if self._is_broken:
            raise RuntimeError(
                "a member of the mixture failed on the way: it cannot go on; make it anew, "
                "or load it from a checkpoint"
            )
