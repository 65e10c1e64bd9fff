"""The predictors in a mixture: its members and their restarted copies.

Predictors do not depend on each other or on the weights. A *seat* is a pair of restart level and
member; several predictors may occupy it one after another. In a run over many symbols each seat is
processed independently, on any of several threads. `step` passes a single symbol to all predictors
in turn.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain, product
from threading import Lock, RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf._support.interrupts import interrupts_held
from mdvpf.filter import ParticleFilter
from mdvpf.mixture.restart import Restart
from mdvpf.model import NumberFamily, channels_of
from mdvpf.model.number_families import compiled_parts
from mdvpf.predictor import MISSING, N_FIELDS, NONE_ENDS, Label, Predictor, Step, Stream
from mdvpf.predictor.keys import KeyTable

_N_STEP = len(Step._fields)

# The report of an unborn predictor, which has weight zero: any finite numbers.
_UNBORN = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0)

# Seats of different levels copy the same template; only one thread at a time may use it.
_COPYING = Lock()


def read_members(members: Any) -> list[Predictor]:
    """Return copies of predictors with the same alphabet, at least one, or raise.

    The copies end the sequences of all keys, because the mixture assigns its own key numbers.
    """
    found = [member.copy() for member in check_members(members)]
    for member in found:
        for key in member._table.labels():
            if key is not None:
                member.new_sequence(key)
    return found


def check_members(members: Any) -> list[Predictor]:
    """Return predictors with the same alphabet, at least one, or raise."""
    found = validate.entries("members", members, of="predictors")
    for i, member in enumerate(found):
        if not isinstance(member, Predictor):
            raise TypeError(f"members[{i}]={member!r}: expected a predictor")
        if member.is_open != found[0].is_open:
            kinds = ["a closed alphabet", "an open one"]
            own, first = kinds[member.is_open], kinds[found[0].is_open]
            raise ValueError(f"members[{i}] has {own}: expected {first}, as members[0] has")
        if _channel_kinds(member) != _channel_kinds(found[0]):
            shown = [each._family or "symbols" for each in (member, found[0])]
            raise ValueError(
                f"members[{i}] has other observations, {shown[0]}: expected {shown[1]}, as "
                "members[0] has"
            )
        if member._n_seen != found[0]._n_seen:
            raise ValueError(
                f"members[{i}] has seen {list(member._n_seen)} symbols in its open channels: "
                f"expected {list(found[0]._n_seen)}, as members[0] has"
            )
        if member.n_symbols != found[0].n_symbols:
            raise ValueError(
                f"members[{i}] has {member.n_symbols} symbols: expected {found[0].n_symbols}, "
                "as members[0] has"
            )
    return found


def frozen_members(members: Iterable[Predictor], table: KeyTable) -> list[Predictor]:
    """Freeze the members of a mixture with the positions of its keys.

    Members store positions by number; only `table`, that of the mixture, has the numbers in use.
    """
    frozen = []
    for member in members:
        own = member._table
        member._key_table = table
        try:
            found = member.freeze()
        finally:
            member._key_table = own
        found._key_table = own.copy()
        frozen.append(found)
    return frozen


def _channel_kinds(member: Predictor) -> list[tuple[int, int, tuple[str, ...]]] | None:
    """Return what each channel of a predictor observes; None if the predictor takes symbols.

    An entry has the kind, the size of the alphabet, and the supports of custom families.
    """
    family = member._family
    if family is None:
        return None
    supports = tuple(each.support for each in compiled_parts(family))
    return [(channel.kind, channel.n_symbols, supports) for channel in channels_of(family)]


def mean_of_filters(
    members: Sequence[Predictor], weights: NDArray[np.float64], states: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the weighted mean number of states of the filters, for each row."""
    total, mass = np.zeros(len(weights)), np.zeros(len(weights))
    for i, member in enumerate(members):
        if isinstance(member, ParticleFilter):
            total += weights[:, i] * states[:, i]
            mass += weights[:, i]
    return np.asarray(total / mass)


class Combined(Predictor):
    """A predictor with members: it has their alphabet, and takes keys if all members do."""

    @property
    @abstractmethod
    def members(self) -> tuple[Predictor, ...]:
        """The members."""

    @property
    def n_symbols(self) -> int:
        """Size of the alphabet; for an open one, the number of symbols seen."""
        return self.members[0].n_symbols

    @property
    def is_open(self) -> bool:
        """Whether the alphabet is open; the symbol `n_symbols` then is a new one."""
        return self.members[0].is_open

    @property
    def _has_begun(self) -> bool:
        return any(member._has_begun for member in self.members)

    @property
    def _family(self) -> NumberFamily | None:
        return self.members[0]._family

    @property
    def _n_seen(self) -> tuple[int, ...]:
        return self.members[0]._n_seen

    @property
    def _takes_keys(self) -> bool:
        return all(member._takes_keys for member in self.members)

    def _check_keys(self) -> None:
        for i, member in enumerate(self.members):
            try:
                member._check_keys()
            except TypeError as error:
                raise TypeError(f"members[{i}]: {error}") from None

    def _update_numbers(self, row: NDArray[np.float64], key: Label | None) -> Step:
        """Absorb a validated observation, as a run over one observation."""
        code = np.array([MISSING if np.isnan(row).all() else 0], dtype=np.int32)
        keys: list[Label | None] | None = None if key is None else [key]
        none_ends = np.full(1, NONE_ENDS, dtype=np.int32)
        stream = Stream(code, none_ends, None, keys, None, row[np.newaxis])
        found = self._result(self._run_keyed(stream, lambda n: None))
        fields = (found.log_predictive, found.mean_states, found.ess)
        log_predictive, mean_states, ess = (float(field[0]) for field in fields)
        return Step(
            log_predictive, mean_states, ess, int(found.n_particles[0]), float(found.discarded[0])
        )


class Members:
    """All predictors of a mixture, which have absorbed the same symbols.

    Attributes
    ----------
    rows : list of lists of Predictor
        The living predictors, one row for each restart level. Row 0 has the members themselves.
    templates : list of Predictor
        Initial copies of the members, from which restarts are copied; empty without restarts.
    time : int
        Number of symbols so far, including missing ones.
    """

    def __init__(
        self,
        rows: Sequence[Sequence[Predictor]],
        restart: Restart | None,
        templates: Sequence[Predictor],
        time: int = 0,
    ) -> None:
        self.rows = [list(row) for row in rows]
        self.restart = restart
        self.templates = list(templates)
        self.time = time
        # These members validate a symbol before any member absorbs it.
        self.may_reject = [member for member in self.rows[0] if member._may_reject]
        self._is_broken = False
        self._use = RLock()  # held while the predictors are not all at the same symbol

    @classmethod
    def first(cls, members: Sequence[Predictor], restart: Restart | None) -> Members:
        """Return the members at the start of a stream."""
        return cls([members], restart, [member.copy() for member in members] if restart else [])

    @property
    def living(self) -> list[Predictor]:
        """The members and all living restarted copies."""
        return [member for row in self.rows for member in row]

    def copy(self) -> Members:
        """Return an independent copy.

        Templates never change but are copied too: only one thread at a time may use a template, and
        another thread may save the copy.
        """
        self.check_whole()
        rows = [[member.copy() for member in row] for row in self.rows]
        templates = [template.copy() for template in self.templates]
        return Members(rows, self.restart, templates, self.time)

    # -- one symbol ------------------------------------------------------------------------

    def step(self, symbol: int, number: int) -> tuple[NDArray[np.float64], int]:
        """Let all predictors absorb a symbol of a key.

        Return the fields of `Step` by restart level and member, and the level of the copies born
        after the symbol; 0 if none were born.
        """
        steps = [member._step(symbol, number) for row in self.rows for member in row]
        found = np.fromiter(chain.from_iterable(steps), np.float64, _N_STEP * len(steps))
        found = found.reshape(len(self.rows), -1, _N_STEP)
        self.time += 1
        level = self.restart.level_at(self.time) if self.restart else 0
        if level:
            born = [_newborn(template, self.time) for template in self.templates]
            self.rows[level : level + 1] = [born]
        return found, level

    # -- many symbols ----------------------------------------------------------------------

    def run(self, stream: Stream, n_threads: int) -> NDArray[np.float64]:
        """Let all predictors absorb a stream; return a report by symbol, level and member."""
        n, n_members = len(stream), len(self.rows[0])
        n_rows = 1 if self.restart is None else 1 + self.restart.n_levels(self.time + n)
        reports = np.empty((n, n_rows, n_members, N_FIELDS))

        def run(seat: tuple[int, int]) -> Predictor:
            level, j = seat
            return self._run_seat(level, j, stream, reports[:, level, j])

        seats = list(product(range(n_rows), range(n_members)))
        if n_threads == 1:
            living = list(map(run, seats))
        else:
            with ThreadPoolExecutor(n_threads) as pool:
                living = list(pool.map(run, seats))
        self.rows = [living[i : i + n_members] for i in range(0, len(living), n_members)]
        self.time += n
        return reports

    def _run_seat(
        self, level: int, j: int, stream: Stream, reports: NDArray[np.float64]
    ) -> Predictor:
        """Run the successive predictors of a seat over a stream; return the last one."""
        member = self.rows[level][j] if level < len(self.rows) else None
        start, n = 0, len(stream)
        while start < n:
            birth = self.time + n + 1  # time of the next restart in this seat: after the stream
            if level and self.restart is not None:
                birth = self.restart.next_birth(self.time + start, level)
            stop = min(n, birth - self.time)
            part = stream[start:stop]
            if member is None:
                reports[start:stop] = _UNBORN
            else:
                reports[start:stop] = member._run(part, member._plan(part))[:, :N_FIELDS]
            if birth == self.time + stop:
                member = _newborn(self.templates[j], birth)
            start = stop
        assert member is not None  # `run` only makes seats of levels that are born by the end
        return member

    # -- failures --------------------------------------------------------------------------

    @contextmanager
    def together(self) -> Iterator[None]:
        """Defer Ctrl-C, and mark the mixture as broken if the body fails for some predictors."""
        with interrupts_held():
            if not self._use.acquire(blocking=False):
                raise _in_use()
            try:
                yield
            except BaseException:
                self._is_broken = True
                raise
            finally:
                self._use.release()

    def check_whole(self) -> None:
        """Raise if some predictors are ahead of the others, now or for good."""
        if not self._use.acquire(blocking=False):
            raise _in_use()
        self._use.release()
        if self._is_broken:
            raise RuntimeError(
                "a member of the mixture failed while absorbing symbols, so members disagree; "
                "create the mixture again or load it from a checkpoint"
            )


def _in_use() -> RuntimeError:
    return RuntimeError(
        "this mixture is in use by another thread; expected one call at a time "
        "(copy() gives each thread its own)"
    )


def _newborn(template: Predictor, time: int) -> Predictor:
    """Return a copy of a template; copies born at different times use different random numbers."""
    with _COPYING:
        member = template.copy()
    if isinstance(member, ParticleFilter):
        words = member.rng.integers(2**32, size=4)  # a copy of the template's
        member.rng = np.random.default_rng([time, *words.tolist()])
    return member
