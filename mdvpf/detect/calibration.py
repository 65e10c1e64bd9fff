"""P-values of the statistics of blocks, and a limit for a wanted rate of false incidents.

`Tail` keeps the last values of a statistic and computes the p-value of a new one. Within the range
of these values the p-value is conformal: the share of values that are at least as large. It is
valid if the last blocks and the present one are exchangeable, and nearly valid if the statistic
drifts little within the `memory` of the tail. Above the largest values the tail is assumed to be
exponential, with a scale from the median excess. This extrapolation is conservative where real
tails are lighter. An abrupt change makes p-values small, which is how incidents are found.

`Rate` turns a wanted number of false incidents, per 10,000 symbols or per day, into a limit: a
p-value below it raises an alarm. Blocks depend on each other and alarms merge into incidents, so
the number of incidents differs from the number of small p-values. `Rate` corrects the limit as
adaptive conformal inference does (Gibbs and Candès 2021), but by a factor of 4 at most, so that a
stream in which nothing happens stays silent.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from mdvpf._support import validate

MOST_EXTRAPOLATED = 10  # number of largest values to which the exponential tail is fitted
DAY = 86400.0  # seconds
SYMBOLS = 10_000  # unit of a rate per symbols
PER = ("symbols", "day")
GAIN = 0.1  # by how much an incident lowers the logarithm of the limit
LARGEST_CORRECTION = math.log(4.0)
LARGEST_VALUE = 1e4
_SMALLEST = 1e-300


@dataclass(slots=True)
class Tail:
    """The upper tail of a statistic, from its last values.

    Attributes
    ----------
    memory : int
        Number of values kept.
    least_scale : float
        Smallest scale of the exponential tail. For a statistic in nats the natural scale is 1: if
        the predictor is correct, an excess of e nats has the probability exp(-e).
    values : deque of float
        The last values, oldest first.

    Examples
    --------
    >>> from mdvpf.detect.calibration import Tail
    >>> tail = Tail(memory=100, least_scale=1.0)
    >>> for i in range(99):
    ...     tail.add(i / 10)
    >>> tail.p_value(5.0)  # 49 of 99 were at least as large
    0.5
    >>> tail.p_value(30.0) < 1e-6
    True
    """

    memory: int
    least_scale: float
    values: deque[float] = field(default_factory=deque)
    _sorted: list[float] = field(default_factory=list)

    def p_value(self, value: float) -> float:
        """Return the probability of a value at least as large, if nothing has changed."""
        n = len(self._sorted)
        larger = n - bisect_left(self._sorted, value)
        n_tail = min(MOST_EXTRAPOLATED, n // 4)
        if larger >= n_tail:
            return (1 + larger) / (1 + n)
        start, scale = self._shape(n_tail)
        return max(_SMALLEST, (1 + n_tail) / (1 + n) * math.exp((start - value) / scale))

    def clipped(self, value: float) -> float:
        """Return the smaller of the value and the start of the exponential tail."""
        n_tail = min(MOST_EXTRAPOLATED, len(self._sorted) // 4)
        return min(value, self._sorted[-n_tail]) if n_tail else value

    def add(self, value: float) -> None:
        """Add a value, and drop the oldest one if there are too many."""
        if len(self.values) == self.memory:
            del self._sorted[bisect_left(self._sorted, self.values.popleft())]
        self.values.append(value)
        insort(self._sorted, value)

    def _shape(self, n_tail: int) -> tuple[float, float]:
        """Return the start of the exponential tail and its scale."""
        largest = self._sorted[-n_tail:]
        middle = largest[(n_tail - 1) // 2] + largest[n_tail // 2]
        return largest[0], max((middle / 2 - largest[0]) / math.log(2.0), self.least_scale)

    def restore(self, values: Iterable[Any]) -> None:
        """Restore the values of a checkpoint, or raise."""
        found = [
            validate.real("value", value, low=-LARGEST_VALUE, high=LARGEST_VALUE)
            for value in values
        ]
        if len(found) > self.memory:
            raise ValueError(f"{len(found)} values: expected at most {self.memory}")
        self.values, self._sorted = deque(found), sorted(found)

    def copy(self) -> Tail:
        """Return an independent copy."""
        return Tail(self.memory, self.least_scale, deque(self.values), list(self._sorted))


@dataclass(slots=True)
class Rate:
    """The p-value limit of alarms, adapted to a wanted rate of false incidents.

    Attributes
    ----------
    wanted : float
        False incidents per 10,000 symbols, or per day.
    per : str
        "symbols" or "day".
    block : int
        Symbols of a block.
    correction : float
        Logarithm of the factor that makes incidents as frequent as wanted.
    days : float
        Mean duration of a block in days; 0 while it is unknown.
    n_timed : int
        Number of durations in that mean.
    last_time : float
        Time of the end of the last block, in seconds; NaN if it is unknown.

    Examples
    --------
    >>> from mdvpf.detect.calibration import Rate
    >>> Rate(wanted=5.0, per="symbols", block=10).limit
    0.005
    """

    wanted: float
    per: str
    block: int
    correction: float = 0.0
    days: float = 0.0
    n_timed: int = 0
    last_time: float = math.nan

    @property
    def per_block(self) -> float:
        """Wanted number of false incidents in a block."""
        units = self.block / SYMBOLS if self.per == "symbols" else self.days
        return min(self.wanted * units, 0.5)

    @property
    def limit(self) -> float:
        """The p-value below which there is an alarm; 0 for a rate per day without times yet."""
        return self.per_block * math.exp(self.correction)

    def end_block(self, time: float, opened: bool, memory: int) -> None:
        """Adapt the limit after a block that ended at `time` (NaN if unknown).

        `opened` is whether it opened an incident, `memory` the number of blocks over which their
        duration is averaged.
        """
        if not math.isnan(time):
            last = time if math.isnan(self.last_time) else self.last_time
            self.last_time = max(time, last)
            if self.n_timed or self.last_time > last:
                # Clocks are coarse, so a block may have duration 0.
                self.n_timed += 1
                step = (self.last_time - last) / DAY - self.days
                self.days += step / min(self.n_timed, memory)
        moved = self.correction + GAIN * (self.per_block - opened)
        self.correction = min(max(moved, -LARGEST_CORRECTION), LARGEST_CORRECTION)

    def correct(self) -> None:
        """Raise the limit by as much as an incident lowers it.

        Feedback calls this for an incident that was real, and for a miss.
        """
        self.correction = min(self.correction + GAIN, LARGEST_CORRECTION)

    def restore(self, values: dict[str, Any]) -> None:
        """Restore the values of a checkpoint, or raise."""
        limit = LARGEST_CORRECTION
        self.correction = validate.real("correction", values["correction"], low=-limit, high=limit)
        self.days = validate.real("days", values["days"], low=0.0, high=1e15)
        self.n_timed = validate.integer("n_timed", values["n_timed"], low=0, high=2**62)
        last = values["last_time"]
        self.last_time = (
            math.nan if last is None else validate.real("last_time", last, low=-1e18, high=1e18)
        )

    def to_values(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {
            "correction": self.correction,
            "days": self.days,
            "n_timed": self.n_timed,
            "last_time": None if math.isnan(self.last_time) else self.last_time,
        }
