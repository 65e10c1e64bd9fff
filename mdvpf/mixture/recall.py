"""`Recall`: one copy of a predictor for each regime; only the copy of the present regime learns.

A predictor that forgets must learn a returning regime again; one that does not forget mixes the
regimes up. `Recall` freezes the copies of the other regimes. They continue to predict, and their
scores show when their regime returns.
"""

from __future__ import annotations

import math
from itertools import takewhile
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf._support.attributes import ReadOnly
from mdvpf.checkpoint import State, read_array, register, require
from mdvpf.mixture._mixing import Mixer
from mdvpf.mixture.base import memory_of_all
from mdvpf.mixture.frozen import FrozenMixture
from mdvpf.mixture.members import frozen_members
from mdvpf.mixture.saved_blocks import Block, blocks_from_arrays, blocks_to_arrays, times_of
from mdvpf.model import read_time
from mdvpf.predictor import (
    N_FIELDS,
    NO_KEY,
    Label,
    MemoryReport,
    Predictor,
    Step,
    Stream,
    read_symbol,
)

_SHARE = 0.01
_TRIAL = 8  # blocks after which an unsuccessful newcomer is replaced
_LEAST_TRIAL = 4  # blocks before a newcomer can get a slot
_BACKUP = 2  # blocks between two backups of the learning copy
_NEW_BLOCKS = 3  # how many of the last blocks a new slot learns: they made the newcomer lead
_FADING = 0.5  # decay of the scores from block to block


@register("Recall")
class Recall(Predictor):
    """Copies of a predictor, one for each regime of the stream; one copy learns at a time.

    After every block of symbols, the scores of the copies are compared: sums of log predictives
    that decay by half from block to block. If the score of a frozen copy exceeds that of the
    learning copy by more than `margin` nats, the frozen copy becomes the learning one. It learns
    this block and the following ones, and the other is frozen. An additional copy, the newcomer,
    restarts every eight blocks. If it is ahead by the same margin after at least four blocks, a new
    copy gets a slot; if no slot is free, it replaces the copy that learnt longest ago. A copy that
    is frozen returns to its state of two to four blocks before, so that it has not learnt the next
    regime.

    The prediction is the average of all copies by fixed share 0.01. When a copy becomes the
    learning one, the sequences of all keys start anew for it.

    Parameters
    ----------
    template : Predictor
        The predictor to copy, in its present state. Its alphabet cannot be open: a copy would not
        know the symbols that came before it.
    n_slots : int, default 6
        Largest number of regimes to remember.
    block : int, default 16
        Symbols in a block.
    margin : float, default 3.0
        Lead in nats at which another copy replaces the learning one.

    Attributes
    ----------
    n_slots, block, margin
        As passed.
    n_regimes : int
        Number of slots in use.
    active : int
        The slot of the copy that learns.

    Examples
    --------
    >>> import mdvpf
    >>> stream = mdvpf.datasets.taking_turns(2, n_visits=2, length=300, rng=0)
    >>> predictor = mdvpf.Recall(mdvpf.PitmanYorTree(stream.n_symbols, depth=2))
    >>> _ = predictor.run(stream.symbols)
    >>> predictor.n_regimes > 1
    True
    """

    n_slots: ReadOnly[int] = ReadOnly()
    block: ReadOnly[int] = ReadOnly()
    margin: ReadOnly[float] = ReadOnly()

    def __init__(
        self, template: Predictor, n_slots: int = 6, block: int = 16, margin: float = 3.0
    ) -> None:
        if not isinstance(template, Predictor):
            raise TypeError(f"template={template!r}: expected a predictor")
        template._check_symbols("template")
        if template.is_open or template._n_distributions != 1:
            raise ValueError(
                f"template={template!r}: expected one with a closed alphabet and one distribution "
                "of the next symbol"
            )
        self.n_slots = validate.integer("n_slots", n_slots, low=2, high=1000)
        self.block = validate.integer("block", block, low=1)
        self.margin = validate.real("margin", margin, low=0.0, high=1e6)
        self._template = template.copy()
        for key in self._template._table.labels():
            self._template.new_sequence(key)
        self._learners = [self._template.copy()]
        self._sleepers: list[Predictor | None] = [None]  # frozen copies; None for the learning one
        self._newcomer = self._template.copy()
        self._older = self._newer = self._template.copy()  # backups of the learning copy
        self._used = [0]  # for each slot, the last block in which it learnt
        self._active = 0
        self._time = 0
        self._birth = 0  # number of the first block of the newcomer
        self._scores = np.zeros(self.n_slots + 1)  # decayed log predictives; the newcomer's is last
        self._numbers: set[int] = set()  # numbers of all keys so far; those of ended keys recur
        # The last blocks, each in parts: symbols, or the number of a key that ended between them.
        self._heard: list[Block] = [[]]
        self._told = math.nan  # the time of the next symbol, if `tell_time` was called
        self._mixer = self._new_mixer()

    def _new_mixer(self) -> Mixer:
        n = self.n_slots + 1
        none = np.empty(0)
        return Mixer(np.full(n, 1.0 / n), np.array([_SHARE]), none, none, np.ones(1), 0.0)

    def __repr__(self) -> str:
        options = f"n_slots={self.n_slots}, block={self.block}, margin={self.margin}"
        return f"Recall({self._template!r}, {options})"

    @property
    def n_symbols(self) -> int:
        """Size of the alphabet."""
        return self._template.n_symbols

    @property
    def n_regimes(self) -> int:
        """Number of slots in use."""
        return len(self._learners)

    @property
    def active(self) -> int:
        """The slot of the copy that learns."""
        return self._active

    @property
    def _takes_keys(self) -> bool:
        return self._template._takes_keys

    # -- the protocol ----------------------------------------------------------------------

    def _present(self) -> list[Predictor]:
        """Return the predictor of each slot in use, then the newcomer."""
        pairs = zip(self._learners, self._sleepers, strict=True)
        return [*(sleeper or learner for learner, sleeper in pairs), self._newcomer]

    def _columns(self, found: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return the distributions of all slots; a free slot has that of the learning copy."""
        unused = [found[self._active]] * (self.n_slots + 1 - len(found))
        return np.concatenate([*found[:-1], *unused, found[-1]])

    def predict_proba(self, key: Label | None = None) -> NDArray[np.float64]:
        """Return the distribution of the next symbol of a key."""
        return self._predict(self._number(key))

    def _predict(self, number: int = NO_KEY) -> NDArray[np.float64]:
        found = [each._predict_distributions(number) for each in self._present()]
        out = np.empty(self.n_symbols)
        self._mixer.predict(self._columns(found), out)
        return out

    def update(self, symbol: int | None, key: Label | None = None) -> Step:
        """Absorb one symbol of a key; None is a missing one."""
        return Step._make(self._update(read_symbol(symbol, self.n_symbols), key))

    def _step(self, symbol: int, number: int = NO_KEY) -> tuple[float, float, float, int, float]:
        reports = np.empty((1, N_FIELDS))
        out = np.empty((1, 1, self.n_symbols))
        self._absorb_distributions(Stream.one(symbol, number), None, reports, out)
        log_predictive, _, mean_states, *_ = reports[0].tolist()
        return log_predictive, mean_states, 1.0, 1, 0.0

    def new_sequence(self, key: Label | None = None) -> None:
        """End the sequence of a key: its next symbol starts a new one."""
        self._new_sequence(key)

    def _end(self, number: int = NO_KEY) -> None:
        for each in self._present():
            each._end(number)
        block = self._heard[-1]
        just_ended = takewhile(lambda part: isinstance(part, int), reversed(block))
        if number in self._numbers and number not in just_ended:
            block.append(number)

    def _tell_time(self, time: float) -> None:
        for each in self._present():
            each._tell_time(time)
        self._told = time

    def copy(self) -> Self:
        """Return an independent copy."""
        other = self._twin()
        other._learners = [each.copy() for each in self._learners]
        other._sleepers = [None if each is None else each.copy() for each in self._sleepers]
        other._newcomer = self._newcomer.copy()
        other._older, other._newer = self._older.copy(), self._newer.copy()
        other._used = self._used.copy()
        other._scores = self._scores.copy()
        other._numbers = self._numbers.copy()
        other._heard = [parts.copy() for parts in self._heard]
        other._mixer = self._new_mixer()
        other._mixer.restore(**self._mixer.export(), n_seen=self._mixer.n_seen)
        return other

    def __copy__(self) -> Self:
        return self.copy()

    def freeze(self) -> FrozenMixture:
        """Return a predictor that no longer learns: all copies, mixed by Bayes' rule.

        It begins with the prediction of this predictor.
        """
        weights = self._mixer.export()["linear"][0]
        members = frozen_members(self._present(), self._table)
        kept = np.append(weights[: self.n_regimes], weights[-1])
        # A free slot predicts as the learning copy does (`_columns`).
        kept[self._active] += weights[self.n_regimes : -1].sum()
        frozen = FrozenMixture._of(members, [float(weight) for weight in kept])
        frozen._key_table = self._table.copy()
        frozen.vocabulary = None if self.vocabulary is None else self.vocabulary.copy()
        return frozen

    def memory(self) -> MemoryReport:
        """Return the memory in use: the sum of the reports of all copies."""
        sleepers = [each for each in self._sleepers if each is not None]
        every = [self._template, self._newcomer, self._older, self._newer]
        every += [*self._learners, *sleepers]
        return memory_of_all({id(each): each for each in every}.values())

    # -- one run ---------------------------------------------------------------------------

    _may_reject = False
    _is_of_0_1 = False

    @property
    def _chunk(self) -> int:
        return 4096

    def _absorb(
        self, stream: Stream, plan: None, part: slice, reports: NDArray[np.float64]
    ) -> None:
        now = stream[part]
        self._absorb_distributions(now, None, reports, np.empty((1, len(now), self.n_symbols)))

    def _absorb_distributions(
        self, stream: Stream, plan: None, reports: NDArray[np.float64], out: NDArray[np.float64]
    ) -> None:
        start = 0
        while start < len(stream):
            stop = min(len(stream), start + self.block - self._time % self.block)
            self._absorb_part(stream[start:stop], reports[start:stop], out[0, start:stop])
            if self._time % self.block == 0:
                self._compare()
            start = stop

    def _absorb_part(
        self, stream: Stream, reports: NDArray[np.float64], out: NDArray[np.float64]
    ) -> None:
        """Absorb a part of a block."""
        stream, self._told = _at_time(stream, self._told), math.nan
        n, present = len(stream), self._present()
        found = [np.empty((1, n, self.n_symbols)) for _ in present]
        slots = [*range(self.n_regimes), self.n_slots]
        for slot, each, distributions in zip(slots, present, found, strict=True):
            each._absorb_distributions(stream, each._plan(stream), reports, distributions)
            # Summed from left to right, so that the parts of a block do not change the result.
            terms = np.append(self._scores[slot], reports[:, 0])
            self._scores[slot] = np.add.accumulate(terms)[-1]
        weights, heads = np.empty((n, self.n_slots + 1)), np.empty((n, 1))
        log_predictive = np.empty(n)
        widths = np.full(n, self.n_symbols)
        self._mixer.advance(
            stream.symbols, self._columns(found), widths, True, log_predictive, weights, heads, out
        )
        reports[:] = (0.0, 0.0, self.n_regimes, 1.0, 1.0, 0.0)
        reports[:, 0] = reports[:, 1] = log_predictive
        self._time += n
        self._heard[-1].append(stream)
        self._numbers.update([NO_KEY] if stream.numbers is None else stream.numbers.tolist())

    # -- selection of the learning copy ----------------------------------------------------

    def _compare(self) -> None:
        """Select the learning copy after the last symbol of a block."""
        block = self._time // self.block
        self._used[self._active] = block
        scores, newcomer = self._scores[: self.n_regimes], self._scores[-1]
        least = scores[self._active] + self.margin
        best = int(scores.argmax())
        if scores[best] > max(least, newcomer):
            self._put_to_sleep()
            self._active = best
            self._sleepers[best] = None
            self._learn_again(1)
            self._start_trial(block)
        elif newcomer > least and block - self._birth >= _LEAST_TRIAL:
            self._put_to_sleep()
            self._active = self._free_slot()
            self._learners[self._active] = self._template.copy()
            self._sleepers[self._active] = None
            self._learn_again(_NEW_BLOCKS)
            self._start_trial(block)
        elif block - self._birth >= _TRIAL:
            self._newcomer = self._template.copy()
            self._scores[-1] = self._scores[self._active]  # no evidence for or against it yet
            self._birth = block
        self._used[self._active] = block
        if block % _BACKUP == 0:
            self._older, self._newer = self._newer, self._learners[self._active].copy()
        self._scores *= _FADING
        self._heard.append([])
        del self._heard[:-_NEW_BLOCKS]

    def _learn_again(self, n_blocks: int) -> None:
        """Let the new learning copy learn the last blocks, which are of its regime."""
        learner = self._learners[self._active]
        for parts in self._heard[-n_blocks:]:
            for part in parts:
                if isinstance(part, int):
                    learner._end(part)
                else:
                    learner._run(part, learner._plan(part))

    def _put_to_sleep(self) -> None:
        """Freeze the learning copy in its state before the regime changed."""
        learner = self._older
        # The backup missed the last blocks, so its position in sequences is only approximate.
        self._sleepers[self._active] = learner.freeze()
        for number in sorted(self._numbers):  # the backup has positions of keys that ended since
            learner._end(number)
        self._learners[self._active] = learner

    def _free_slot(self) -> int:
        """Return a slot for another regime: a new one, or the one that learnt longest ago."""
        if self.n_regimes < self.n_slots:
            self._learners.append(self._newcomer)
            self._sleepers.append(None)
            self._used.append(0)
            return self.n_regimes - 1
        sleeping = [slot for slot in range(self.n_regimes) if slot != self._active]
        return min(sleeping, key=lambda slot: self._used[slot])

    def _start_trial(self, block: int) -> None:
        """Reset the backups, the newcomer and the scores after a change of the learning copy."""
        self._older = self._learners[self._active].copy()
        self._newer = self._older.copy()
        self._newcomer = self._template.copy()
        self._birth = block
        self._scores[:] = 0.0

    # -- checkpoints -----------------------------------------------------------------------

    def _to_state(self) -> State:
        values = {
            "n_slots": self.n_slots,
            "block": self.block,
            "margin": self.margin,
            "active": self._active,
            "time": self._time,
            "birth": self._birth,
            "used": self._used,
            "key_numbers": sorted(self._numbers),
            "n_seen": self._mixer.n_seen,
            "told": None if math.isnan(self._told) else self._told,
        }
        parts = {
            "template": self._template,
            "newcomer": self._newcomer,
            "older": self._older,
            "newer": self._newer,
        }
        parts |= {f"learner {i}": each for i, each in enumerate(self._learners)}
        parts |= {f"sleeper {i}": each for i, each in enumerate(self._sleepers) if each is not None}
        arrays = {"weights": self._mixer.export()["linear"], "scores": self._scores}
        return State(values, arrays | blocks_to_arrays(self._heard), parts)

    @classmethod
    def _from_state(cls, state: State, given: dict[str, Any]) -> Self:
        values, parts = state.values, state.parts
        self = object.__new__(cls)
        options = {name: values[name] for name in ("n_slots", "block", "margin")}
        Recall.__init__(self, parts.pop("template"), **options)
        n = self.n_slots
        self._used = validate.integers("used", values["used"], low=0).tolist()
        require(1 <= len(self._used) <= n, "slots that do not exist")
        slots = range(len(self._used))
        self._active = validate.integer("active", values["active"], low=0, high=slots[-1])
        self._time = validate.integer("time", values["time"], low=0)
        self._birth = validate.integer("birth", values["birth"], low=0)
        self._numbers = set(validate.integers("key_numbers", values["key_numbers"], low=0).tolist())
        self._learners = [parts.pop(f"learner {i}") for i in slots]
        self._sleepers = [parts.pop(f"sleeper {i}", None) for i in slots]
        self._newcomer, self._older = parts.pop("newcomer"), parts.pop("older")
        self._newer = parts.pop("newer")
        require(not parts, "unexpected parts")
        is_awake = [sleeper is None for sleeper in self._sleepers]
        require(is_awake == [slot == self._active for slot in slots], "not exactly one copy learns")
        everyone = [*self._present(), *self._learners, self._older, self._newer]
        sizes = {each.n_symbols for each in everyone}
        require(sizes == {self.n_symbols}, "copies with different alphabets")
        weights = read_array(state, "weights", "<f8", (1, n + 1))
        self._scores = read_array(state, "scores", "<f8", (n + 1,)).copy()
        is_sound = np.isfinite(weights).all() and abs(weights.sum() - 1.0) < 1e-6
        require(is_sound and np.all(weights >= 0.0), "weights do not sum to one")
        self._heard = blocks_from_arrays(state, self.n_symbols, _NEW_BLOCKS)
        self._told = math.nan if values["told"] is None else read_time("told", values["told"])
        n_seen = validate.integer("n_seen", values["n_seen"], low=0, high=self._time)
        exported = self._mixer.export() | {"linear": weights}
        self._mixer.restore(**exported, n_seen=n_seen)
        return self


def _at_time(stream: Stream, time: float) -> Stream:
    """Return a stream whose first symbol comes at a time; NaN if it is unknown."""
    if math.isnan(time) or (stream.times is not None and not math.isnan(stream.times[0])):
        return stream
    times = times_of(stream).copy()
    times[0] = time
    return Stream(stream.symbols, stream.ended, stream.numbers, None, times)
