"""Judge surprise: levels, an adaptive threshold, and sustained rises.

`Level` averages surprise, over symbols with fading memory or over blocks.

A level is compared with recent levels. `Threshold` keeps their mean (the centre) and their standard
deviation, with fading memory. The score of a level is ``(level - centre) / deviation``, and a score
above the cut is an alarm. Every level moves the cut: up by ``gain * (1 - false_alarms)`` after an
alarm, else down by ``gain * false_alarms``. Scores are clipped, which bounds the cut. On any
stream, the share of alarms after n levels is therefore within ``(2 * CLIP + gain) / (gain * n)`` of
the wanted share. Feedback of the user moves the cut as well.

`Rise` is Page's test: it sums the excess of scores over `DRIFT`. Scores are clipped at `SUSTAINED`,
so that a single level cannot establish a change point.
"""

from __future__ import annotations

import math
from dataclasses import MISSING, dataclass, fields
from statistics import NormalDist
from typing import Any

from mdvpf._support import validate

CLIP = 10.0  # scores are clipped to -CLIP..CLIP
SUSTAINED = 3.0  # largest score in Page's test
DRIFT = 0.5  # subtracted from every score in Page's test
SMALLEST_DEVIATION = 1e-9
LARGEST = 1000.0  # surprise of a symbol of probability zero, in nats

_ROUNDED = 1.0 + 1e-6  # tolerance for rounding in sums


@dataclass(slots=True)
class Level:
    """The level of surprise at the present symbol.

    Attributes
    ----------
    block : int or None
        Symbols of a block; None for a level at every symbol.
    smoothing : float
        Without blocks: number of symbols over which the level is averaged, with fading memory.
    time : int
        Number of symbols so far.
    total : float
        Sum of the surprise in the block so far, or the smoothed surprise.
    count : int
        Number of symbols in `total`, without missing ones.
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
        """Add a symbol; return the level to be judged, or None if there is none now."""
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

    def check(self, signed: bool) -> None:
        """Raise if no stream can lead to this state; with `signed`, levels may be negative."""
        most = self.time if self.block is None else self.time % self.block
        largest = LARGEST * (self.count if self.block is not None else min(self.count, 1))
        least = -_ROUNDED * largest if signed else 0.0
        if self.count > most or not least <= self.total <= _ROUNDED * largest:
            raise ValueError(f"sum={self.total}, count={self.count}: impossible surprise")


@dataclass(slots=True)
class Threshold:
    """A threshold that adapts to the levels, to keep the wanted share of alarms.

    Attributes
    ----------
    false_alarms : float
        The wanted share of alarms.
    gain : float
        Step size of the cut, in standard deviations.
    memory : int
        Number of levels that the mean and the deviation remember.
    warm_up : int
        Number of levels that are not judged.
    seen : int
        Number of levels so far.
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
        """Return the deviation of a level from the centre, in standard deviations; at first 0."""
        return (level - self.centre) / self.deviation if self.seen > 1 else 0.0

    def judge(self, level: float) -> bool:
        """Return whether a level is an alarm, and learn from it."""
        alarm = False
        if self.judges:
            score = min(max(self.score(level), -CLIP), CLIP)
            alarm = score > self.cut
            # A flagged level changes centre and variance like a level at the threshold. If feedback
            # has moved the threshold below the centre, it counts like a level at the centre.
            level = min(level, max(self.level, self.centre)) if alarm else level
            self.cut += self.gain * (alarm - self.false_alarms)
        self.seen += 1
        weight = 1.0 / min(self.seen, self.memory)
        step = level - self.centre
        self.centre += weight * step
        self.variance = (1.0 - weight) * (self.variance + weight * step * step)
        return alarm

    def correct(self, alarm: bool, strange: bool) -> None:
        """Move the cut after feedback on a judgement.

        `judge` treats every level as normal, so feedback that it was normal changes nothing. If the
        level was strange, its move of the cut is undone. If it was also missed, the cut is lowered
        by as much as a false alarm raises it.
        """
        if strange:
            self.cut -= self.gain * (alarm - self.false_alarms)
            if not alarm:
                self.cut -= self.gain

    def check(self, signed: bool) -> None:
        """Raise if no levels can lead to this state; with `signed`, they may be negative."""
        largest = _ROUNDED * LARGEST * min(self.seen, 1)
        least = -largest if signed else -1e-9
        if self.seen < 0 or not least <= self.centre <= largest or self.variance > largest**2:
            raise ValueError(
                f"seen={self.seen}, centre={self.centre}, variance={self.variance}: impossible "
                "mean and variance of levels"
            )


@dataclass(slots=True)
class Rise:
    """Page's test for a sustained rise of the scores.

    Attributes
    ----------
    limit : float
        The sum above which a change point is reported.
    pace : float
        Number of levels that overlap. Each score is divided by it.
    total : float
        Sum of score minus drift; 0 between rises.
    start : int
        Time at which the present rise began; -1 between rises.
    levels : float
        Sum of the levels of the present rise.
    count : int
        Number of these levels.
    """

    limit: float
    pace: float
    total: float = 0.0
    start: int = -1
    levels: float = 0.0
    count: int = 0

    def add(self, score: float, level: float, time: int) -> tuple[int, float] | None:
        """Add a score; return start and mean level of a rise that it establishes, or None."""
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

    def check(self, time: int, seen: int, signed: bool) -> None:
        """Raise if `time` symbols with `seen` levels cannot have led to this state."""
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
                f"count={self.count}: impossible rise of scores"
            )


def to_values(thing: Threshold | Rise) -> dict[str, Any]:
    """Return the state of a threshold or a rise for a checkpoint, without its settings."""
    return {name: getattr(thing, name) for name in _running(thing)}


def from_values(thing: Threshold | Rise, values: dict[str, Any]) -> None:
    """Restore the state of a checkpoint, or raise."""
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
    """Return names and types of the fields that a stream changes: those with a default."""
    return {field.name: str(field.type) for field in fields(thing) if field.default is not MISSING}
