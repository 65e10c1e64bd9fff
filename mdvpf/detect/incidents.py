"""Incidents: neighbouring alarms as one event with a start, an end and a peak.

`IncidentRule` judges a block on each of its sides (`sides.py`) by p-values (`calibration.py`). It
raises alarms so that false incidents have the wanted rate. An alarm that comes at most `cooldown`
symbols after the last one belongs to the same incident. Any other alarm opens a new one.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any

from mdvpf._support import validate
from mdvpf.detect.calibration import LARGEST_VALUE, Rate, Tail
from mdvpf.detect.sides import (
    LOOPING,
    MOST_REPETITIONS,
    REPETITIVE,
    SIDES,
    SPIKE,
    SURPRISING,
    BlockSums,
    Loops,
)
from mdvpf.model.observations import Row
from mdvpf.predictor import Label

KEPT = 100  # last incidents
LARGEST_SUM = 1e9  # nats in a block
COOLDOWN_BLOCKS = 8  # default cooldown, in blocks
PENDING = 2  # delay in blocks before a block counts as usual


@dataclass(frozen=True, slots=True)
class Incident:
    """A group of neighbouring alarms.

    Attributes
    ----------
    number : int
        Number of the incident in the life of the detector, from 0.
    start, end : int
        Times of the first and the last symbol of its blocks with an alarm.
    peak : int
        Time of the last symbol of the block with the smallest p-value.
    side : str
        The side on which that block is strange: "surprising", "predictable", "repetitive" or
        "looping".
    p_value : float
        The p-value of that block: the probability of a block at least as strange on any side, if
        nothing has changed.
    n_alarms : int
        Number of blocks with an alarm.

    Examples
    --------
    >>> import mdvpf
    >>> import numpy as np
    >>> usual = np.random.default_rng(0).integers(8, size=2000)
    >>> detector = mdvpf.SurpriseDetector(mdvpf.Markov(8, order=1), false_incidents=1.0)
    >>> _ = detector.run(usual)
    >>> _ = detector.run([3] * 40)
    >>> incident = detector.incidents[-1]
    >>> incident.side, 2000 <= incident.start < 2020
    ('repetitive', True)
    """

    number: int
    start: int
    end: int
    peak: int
    side: str
    p_value: float
    n_alarms: int

    def __len__(self) -> int:
        return self.end - self.start + 1


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of a block.

    Attributes
    ----------
    p_value : float
        NaN in the warm-up, or if every symbol was missing.
    side : str or None
        On which side the block is the strangest.
    alarm : bool
    incident : Incident or None
        For an alarm: its incident, up to this block.
    """

    p_value: float = math.nan
    side: str | None = None
    alarm: bool = False
    incident: Incident | None = None


NO_VERDICT = Verdict()


@dataclass(slots=True)
class IncidentRule:
    """Alarms at a wanted rate of false incidents, from the statistics of blocks.

    Attributes
    ----------
    rate : Rate
    memory : int
        Number of blocks that the tails remember.
    warm_up : int
        Number of initial blocks that are assumed normal and not judged.
    cooldown : int
        Largest number of symbols between two alarms of one incident.
    sides : tuple of str
        The sides that are judged; `SPIKE` is reported as the surprising side.
    """

    rate: Rate
    memory: int
    warm_up: int
    cooldown: int
    sides: tuple[str, ...]
    loops: Loops = field(default_factory=Loops)
    sums: BlockSums = field(default_factory=BlockSums)
    tails: dict[str, Tail] = field(default_factory=dict)
    pending: deque[dict[str, float]] = field(default_factory=deque)  # blocks not yet learnt
    seen: int = 0  # blocks with a symbol
    n_incidents: int = 0
    recent: deque[Incident] = field(default_factory=lambda: deque(maxlen=KEPT))

    def __post_init__(self) -> None:
        if not self.tails:
            # The smallest scales: one repetition, and for the other sides one nat in a block.
            scales = {REPETITIVE: 1.0, LOOPING: 1.0, SPIKE: 1.0}
            self.tails = {
                side: Tail(self.memory, scales.get(side, 1.0 / self.rate.block))
                for side in self.sides
            }

    def add(
        self,
        symbol: int | Row,
        key: Label | None,
        surprise: float,
        excess: float,
        repetition: float | None = None,
    ) -> None:
        """Add a symbol that is not missing to the block.

        `repetition` is the surprise if it repeats an earlier one; by default its surprise.
        """
        repetition = surprise if repetition is None else repetition
        self.sums.add(surprise, excess, *self.loops.add(symbol, key, repetition))

    def end_block(self, end: int, clock: float) -> Verdict:
        """Judge the block whose last symbol has the index `end`, at the time `clock`."""
        verdict, opened = NO_VERDICT, False
        if self.sums.count:
            verdict, opened = self._judge(end)
            self.seen += 1
        self.sums.clear()
        if self.seen > self.warm_up:
            self.rate.end_block(clock, opened, self.memory)
        return verdict

    def _judge(self, end: int) -> tuple[Verdict, bool]:
        found = {
            side: min(max(value, -LARGEST_VALUE), LARGEST_VALUE)
            for side, value in self.sums.statistics().items()
            if side in self.sides
        }
        if self.seen < self.warm_up:
            self._learn(found)
            return NO_VERDICT, False
        n = len(self.sides)
        p_values = {side: self.tails[side].p_value(value) for side, value in found.items()}
        side = min(self.sides, key=lambda each: p_values[each])
        p_value = min(1.0, n * p_values[side])
        side = SURPRISING if side == SPIKE else side
        limit = self.rate.limit
        if p_value > limit or limit == 0.0:
            if not self._is_near(end):
                self._learn(found)
            return Verdict(p_value, side), False
        incident, opened = self._extend(end, side, p_value)
        if len(incident) > self.memory * self.rate.block:  # the incident is the new normal
            self._learn(found)
            return Verdict(p_value, side, True, incident), opened
        self.pending.clear()  # the tails do not learn the blocks just before an alarm
        if opened:  # the tails learn the first block, clipped to the start of their extrapolation
            for each, value in found.items():
                self.tails[each].add(self.tails[each].clipped(value))
        return Verdict(p_value, side, True, incident), opened

    def _is_near(self, end: int) -> bool:
        """Return whether a block without alarm is in an incident or right after it."""
        return bool(self.recent) and end - self.recent[-1].end <= self.cooldown

    def _learn(self, found: dict[str, float]) -> None:
        """Queue a block for the tails, which learn it `PENDING` blocks later."""
        self.pending.append(found)
        if len(self.pending) > PENDING:
            for side, value in self.pending.popleft().items():
                self.tails[side].add(value)

    def _extend(self, end: int, side: str, p_value: float) -> tuple[Incident, bool]:
        """Add an alarm to the last incident, or open a new one."""
        start = end - self.rate.block + 1
        last = self.recent[-1] if self.recent else None
        if last is None or start - last.end > self.cooldown:
            new = Incident(self.n_incidents, start, end, end, side, p_value, 1)
            self.n_incidents += 1
            self.recent.append(new)
            return new, True
        longer = replace(last, end=end, n_alarms=last.n_alarms + 1)
        if p_value < last.p_value:
            longer = replace(longer, peak=end, side=side, p_value=p_value)
        self.recent[-1] = longer
        return longer, False

    def copy(self) -> IncidentRule:
        """Return an independent copy."""
        return replace(
            self,
            rate=replace(self.rate),
            loops=self.loops.copy(),
            sums=replace(self.sums),
            tails={side: tail.copy() for side, tail in self.tails.items()},
            pending=deque(dict(each) for each in self.pending),
            recent=self.recent.copy(),
        )

    # -- checkpoints -----------------------------------------------------------------------

    def to_values(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {
            "rate": self.rate.to_values(),
            "loops": self.loops.to_values(),
            "sums": [
                self.sums.surprise,
                self.sums.excess,
                self.sums.repeated,
                self.sums.looped,
                self.sums.count,
                *([self.sums.largest] if SPIKE in self.sides else []),
            ],
            "tails": {side: list(tail.values) for side, tail in self.tails.items()},
            "pending": list(self.pending),
            "seen": self.seen,
            "n_incidents": self.n_incidents,
            "recent": [
                [
                    each.number,
                    each.start,
                    each.end,
                    each.peak,
                    each.side,
                    each.p_value,
                    each.n_alarms,
                ]
                for each in self.recent
            ],
        }

    def restore(self, values: dict[str, Any], n_symbols: int, time: int, n_dims: int = 0) -> None:
        """Restore the state of a checkpoint, or raise if `time` symbols cannot have led to it.

        Over numbers, `n_dims` is the number of them in an observation.
        """
        self.rate.restore(values["rate"])
        self.loops.restore(values["loops"], n_symbols, n_dims)
        surprise, excess, repeated, looped, count, *largest = values["sums"]
        if len(largest) != (SPIKE in self.sides):
            raise ValueError(f"{5 + len(largest)} sums: expected as many as there are statistics")
        in_block = time % self.rate.block
        self.sums = BlockSums(
            validate.real(
                "surprise", surprise, low=-LARGEST_SUM if n_dims else 0.0, high=LARGEST_SUM
            ),
            validate.real("excess", excess, low=-LARGEST_SUM, high=LARGEST_SUM),
            validate.real("repeated", repeated, low=0.0, high=MOST_REPETITIONS),
            validate.real("looped", looped, low=0.0, high=MOST_REPETITIONS),
            validate.integer("count", count, low=0, high=in_block),
            *(validate.real("largest", each, low=0.0, high=LARGEST_SUM) for each in largest),
        )
        if set(values["tails"]) != set(self.sides):
            raise ValueError(f"tails of {sorted(values['tails'])}: expected {sorted(self.sides)}")
        for side, kept in values["tails"].items():
            self.tails[side].restore(kept)
        self.pending = deque(self._read_statistics(each) for each in values["pending"])
        if len(self.pending) > PENDING:
            raise ValueError(f"{len(self.pending)} pending blocks: expected at most {PENDING}")
        high = time // self.rate.block
        self.seen = validate.integer("seen", values["seen"], low=0, high=high)
        n_kept = {len(tail.values) for tail in self.tails.values()}
        if len(n_kept) != 1 or max(n_kept) > self.seen:
            raise ValueError(f"tails of {sorted(n_kept)} values after {self.seen} blocks")
        self.n_incidents = validate.integer("n_incidents", values["n_incidents"], low=0, high=high)
        self.recent.clear()
        for saved in values["recent"]:
            self.recent.append(_read_incident(saved, self.n_incidents, time))

    def _read_statistics(self, saved: dict[str, Any]) -> dict[str, float]:
        return {
            side: validate.real(side, saved[side], low=-LARGEST_VALUE, high=LARGEST_VALUE)
            for side in self.sides
        }


def _read_incident(saved: list[Any], n_incidents: int, time: int) -> Incident:
    number, start, end, peak, side, p_value, n_alarms = saved
    high = n_incidents - 1
    end = validate.integer("end", end, low=0, high=time - 1)
    start = validate.integer("start", start, low=0, high=end)
    return Incident(
        validate.integer("number", number, low=0, high=high),
        start,
        end,
        validate.integer("peak", peak, low=start, high=end),
        validate.choice("side", side, SIDES),
        validate.real("p_value", p_value, low=0.0, high=1.0),
        validate.integer("n_alarms", n_alarms, low=1, high=time),
    )
