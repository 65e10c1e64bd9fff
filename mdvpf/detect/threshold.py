"""From surprise to a judgement: levels, a threshold on them, and sustained rises.

`Level` averages surprise, symbol by symbol with fading memory, or over blocks.

Levels are measured against their own recent past: `Threshold` keeps their mean and standard
deviation, with fading memory, and calls ``(level - centre) / deviation`` the score. An alarm is a
score above a cut, and the cut is moved by every level: up by ``gain * (1 - false_alarms)`` after an
alarm, down by ``gain * false_alarms`` otherwise. Since the cut cannot go where no clipped score is,
the share of alarms comes to what was wanted on any stream whatever, within
``(2 * CLIP + gain) / (gain * n)`` after n levels. What a user says about a judgement afterwards
moves the cut as well.

`Rise` is Page's test: it adds up by how much scores exceed what chance would give. A score counts
for `SUSTAINED` at most, so that no single level, strange as it may be, makes a change point.
"""

from __future__ import annotations

import math
from dataclasses import MISSING, dataclass, fields
from statistics import NormalDist
from typing import Any

from mdvpf._support import validate

CLIP = 10.0  # scores beyond are as good as this
SUSTAINED = 3.0
DRIFT = 0.5  # what Page's test takes off every score
SMALLEST_DEVIATION = 1e-9
LARGEST = 1000.0  # nats: what a symbol of probability zero counts for

_ROUNDED = 1.0 + 1e-6  # by how much rounding may have raised a sum


@dataclass(slots=True)
class Level:
    """The level of surprise at the present symbol.

    Attributes
    ----------
    block : int or None
        Symbols of a block; None for a level at every symbol.
    smoothing : float
        Without blocks: how many symbols the level is averaged over, with fading memory.
    time : int
        Symbols so far.
    total : float
        Surprise of the block so far, or the smoothed one.
    count : int
        Symbols that it is made of, missing ones aside.
    """

    block: int | None
    smoothing: float
    time: int = 0
    total: float = 0.0
    count: int = 0

    @property
    def in_block(self) -> bool:
        """Whether a block has begun and not ended."""
        return self.block is not None and self.time % self.block != 0

    def add(self, surprise: float, missing: bool) -> float | None:
        """Take in a symbol; return the level that is to be judged, None if there is none now."""
        self.time += 1
        if not missing:
            self.count += 1
            surprise = min(max(surprise, -LARGEST), LARGEST)
            if self.block is not None:
                self.total += surprise
            else:
                self.total += (surprise - self.total) / min(self.count, self.smoothing)
        if self.block is None:
            return None if missing else self.total
        if self.in_block:
            return None
        level = self.total / self.count if self.count else None
        self.total, self.count = 0.0, 0
        return level

    def check(self, signed: bool = False) -> None:
        """Raise unless a stream can have led here; log likelihood ratios have a sign."""
        most = self.time if self.block is None else self.time % self.block
        largest = LARGEST * (self.count if self.block is not None else min(self.count, 1))
        least = -_ROUNDED * largest if signed else 0.0
        if self.count > most or not least <= self.total <= _ROUNDED * largest:
            raise ValueError(f"sum={self.total}, count={self.count}: no such surprise is possible")


@dataclass(slots=True)
class Threshold:
    """A threshold that follows the levels, and holds the share of alarms.

    Attributes
    ----------
    false_alarms : float
        The wanted share of alarms.
    gain : float
        By how much, in standard deviations, an alarm raises the cut.
    memory : int
        How many levels the mean and the deviation remember.
    warm_up : int
        So many levels are not judged.
    seen : int
        Levels so far.
    centre, variance : float
        Mean and variance of the remembered levels.
    cut : float
        The score above which there is an alarm.
    """

    false_alarms: float
    gain: float
    memory: int
    warm_up: int
    seen: int = 0
    centre: float = 0.0
    variance: float = 0.0
    cut: float = math.nan

    def __post_init__(self) -> None:
        if math.isnan(self.cut):
            self.cut = NormalDist().inv_cdf(1.0 - self.false_alarms)

    @property
    def judges(self) -> bool:
        """Whether the warm-up is over."""
        return self.seen >= self.warm_up

    @property
    def deviation(self) -> float:
        """Standard deviation of the remembered levels."""
        return max(math.sqrt(self.variance), SMALLEST_DEVIATION)

    @property
    def level(self) -> float:
        """The level above which there is an alarm; infinite in the warm-up."""
        return self.centre + self.cut * self.deviation if self.judges else math.inf

    def score(self, level: float) -> float:
        """Return a level as deviations from the centre; 0 before there is a centre."""
        return (level - self.centre) / self.deviation if self.seen > 1 else 0.0

    def judge(self, level: float) -> bool:
        """Return whether a level is an alarm, and learn from it."""
        alarm = False
        if self.judges:
            score = min(max(self.score(level), -CLIP), CLIP)
            alarm = score > self.cut
            # What is flagged moves the scale no more than a level at the threshold would; a
            # threshold that feedback has put below the centre moves nothing.
            level = min(level, max(self.level, self.centre)) if alarm else level
            self.cut += self.gain * (alarm - self.false_alarms)
        self.seen += 1
        weight = 1.0 / min(self.seen, self.memory)
        step = level - self.centre
        self.centre += weight * step
        self.variance = (1.0 - weight) * (self.variance + weight * step * step)
        return alarm

    def correct(self, alarm: bool, strange: bool) -> None:
        """Move the cut by what turned out about a judgement.

        Without being told, a level is taken for usual: that the user confirms it changes nothing.
        If it was strange, its own move is taken back; if it was missed, the cut goes down as far
        as a false alarm would have raised it.
        """
        if strange:
            self.cut -= self.gain * (alarm - self.false_alarms)
            if not alarm:
                self.cut -= self.gain

    def check(self, signed: bool = False) -> None:
        """Raise unless levels can have led here; log likelihood ratios have a sign."""
        largest = _ROUNDED * LARGEST * min(self.seen, 1)
        least = -largest if signed else -1e-9
        if self.seen < 0 or not least <= self.centre <= largest or self.variance > largest**2:
            raise ValueError(
                f"seen={self.seen}, centre={self.centre}, variance={self.variance}: no levels "
                "have such a mean and variance"
            )


@dataclass(slots=True)
class Rise:
    """Page's test for a sustained rise of the scores.

    Attributes
    ----------
    limit : float
        The sum that makes a change point.
    pace : float
        How many levels overlap: each counts for so much less.
    total : float
        The sum of what scores exceed the drift by; 0 between rises.
    start : int
        Time at which the present rise began; -1 between rises.
    levels : float
        Sum of the levels of the present rise.
    count : int
        How many they are.
    """

    limit: float
    pace: float
    total: float = 0.0
    start: int = -1
    levels: float = 0.0
    count: int = 0

    def add(self, score: float, level: float, time: int) -> tuple[int, float] | None:
        """Take in a score; return when a rise that is now established began, and its mean level."""
        total = self.total + (min(score, SUSTAINED) - DRIFT) / self.pace
        if total <= 0.0:
            self._end()
            return None
        if not self.count:
            self.start = time
        self.total = total
        self.levels += level
        self.count += 1
        if total <= self.limit:
            return None
        found = self.start, self.levels / self.count
        self._end()
        return found

    def _end(self) -> None:
        self.total, self.start, self.levels, self.count = 0.0, -1, 0.0, 0

    def check(self, time: int, seen: int, signed: bool = False) -> None:
        """Raise unless so many symbols, of which so many levels were made, can have led here."""
        largest = _ROUNDED * LARGEST * self.count
        if self.count == 0:
            possible = (self.total, self.start, self.levels) == (0.0, -1, 0.0)
        else:
            possible = 0 < self.count <= seen and 0 <= self.start < time
            possible &= 0.0 < self.total <= self.limit
            possible &= (-largest if signed else 0.0) <= self.levels <= largest
        if not possible:
            raise ValueError(
                f"total={self.total}, start={self.start}, levels={self.levels}, "
                f"count={self.count}: no scores rise like that"
            )


def to_values(thing: Threshold | Rise) -> dict[str, Any]:
    """Return what a checkpoint holds of a threshold or a rise beyond its settings."""
    return {name: getattr(thing, name) for name in _running(thing)}


def from_values(thing: Threshold | Rise, values: dict[str, Any]) -> None:
    """Put such values back, or raise."""
    kinds = _running(thing)
    if set(values) != set(kinds):
        raise ValueError(f"{sorted(values)}: expected {sorted(kinds)}")
    for name, kind in kinds.items():
        value = values[name]
        if kind == "int":
            setattr(thing, name, validate.integer(name, value, low=-1, high=2**62))
        else:
            low = 0.0 if name == "variance" else -1e100
            setattr(thing, name, validate.real(name, value, low=low, high=1e100))


def _running(thing: Threshold | Rise) -> dict[str, str]:
    """Return the fields that a stream changes, with their types: those with a default."""
    return {field.name: str(field.type) for field in fields(thing) if field.default is not MISSING}
