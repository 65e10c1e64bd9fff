"""From statistics of blocks to p-values, and from p-values to a wanted rate of false incidents.

`Tail` keeps the last values of a statistic and says how rare a new one is among them. Among the
values kept the p-value is the conformal one, the share of values at least as large: valid if the
last blocks and the present one are exchangeable, and nearly so if the statistic drifts little
within the `memory` of the tail. Beyond the largest values the tail is taken as exponential, with
the median excess as its scale: an extrapolation, which is conservative where real tails are
lighter. An abrupt change makes p-values small: that is the incident that one wants to see.

`Rate` turns a wanted number of false incidents, per 10,000 symbols or per day, into the p-value
below which there is an alarm. Blocks depend on each other and alarms merge into incidents, so the
number of incidents differs from that of small p-values. `Rate` corrects for it as adaptive
conformal inference does (Gibbs and Candès 2021), but by a factor of 4 at most: a stream in which
nothing happens stays silent.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from mdvpf._support import validate

MOST_EXTRAPOLATED = 10  # of the largest values: beyond them the tail is exponential
DAY = 86400.0  # seconds
SYMBOLS = 10_000  # that a rate without a unit refers to
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
        How many values are kept.
    least_scale : float
        The exponential tail is never steeper than this scale. A statistic in nats has a natural
        one: what a correct predictor gives e nats less has e**-e of the probability.
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
        """Return how likely a value at least as large is, if nothing has changed."""
        n = len(self._sorted)
        larger = n - bisect_left(self._sorted, value)
        n_tail = min(MOST_EXTRAPOLATED, n // 4)
        if larger >= n_tail:
            return (1 + larger) / (1 + n)
        start, scale = self._shape(n_tail)
        return max(_SMALLEST, (1 + n_tail) / (1 + n) * math.exp((start - value) / scale))

    def clipped(self, value: float) -> float:
        """Return a value, but no more than where the exponential tail starts."""
        n_tail = min(MOST_EXTRAPOLATED, len(self._sorted) // 4)
        return min(value, self._sorted[-n_tail]) if n_tail else value

    def add(self, value: float) -> None:
        """Take in a value; the oldest one goes if there are too many."""
        if len(self.values) == self.memory:
            del self._sorted[bisect_left(self._sorted, self.values.popleft())]
        self.values.append(value)
        insort(self._sorted, value)

    def _shape(self, n_tail: int) -> tuple[float, float]:
        """Return where the exponential tail starts, and its scale."""
        largest = self._sorted[-n_tail:]
        middle = largest[(n_tail - 1) // 2] + largest[n_tail // 2]
        return largest[0], max((middle / 2 - largest[0]) / math.log(2.0), self.least_scale)

    def restore(self, values: Iterable[Any]) -> None:
        """Put values of a checkpoint back, or raise."""
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
    """The p-value below which there is an alarm, for a wanted rate of false incidents.

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
        Mean duration of a block in days; 0 while it is not known.
    n_timed : int
        How many durations it is the mean of.
    last_time : float
        Time of the end of the last block, in seconds; NaN if it is not known.

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
        """How many false incidents are wanted in a block."""
        units = self.block / SYMBOLS if self.per == "symbols" else self.days
        return min(self.wanted * units, 0.5)

    @property
    def limit(self) -> float:
        """The p-value below which there is an alarm; 0 while the length of a day is not known."""
        return self.per_block * math.exp(self.correction)

    def end_block(self, time: float, opened: bool, memory: int) -> None:
        """Take in a block: when it ended (NaN if unknown), and whether it opened an incident."""
        if not math.isnan(time):
            last = time if math.isnan(self.last_time) else self.last_time
            self.last_time = max(time, last)
            if self.n_timed or self.last_time > last:
                # A block may take no time at all: clocks are coarse.
                self.n_timed += 1
                step = (self.last_time - last) / DAY - self.days
                self.days += step / min(self.n_timed, memory)
        moved = self.correction + GAIN * (self.per_block - opened)
        self.correction = min(max(moved, -LARGEST_CORRECTION), LARGEST_CORRECTION)

    def correct(self) -> None:
        """Raise the limit by as much as an incident lowers it.

        For an incident that was real, or for a miss.
        """
        self.correction = min(self.correction + GAIN, LARGEST_CORRECTION)

    def restore(self, values: dict[str, Any]) -> None:
        """Put values of a checkpoint back, or raise."""
        limit = LARGEST_CORRECTION
        self.correction = validate.real("correction", values["correction"], low=-limit, high=limit)
        self.days = validate.real("days", values["days"], low=0.0, high=1e15)
        self.n_timed = validate.integer("n_timed", values["n_timed"], low=0, high=2**62)
        last = values["last_time"]
        self.last_time = (
            math.nan if last is None else validate.real("last_time", last, low=-1e18, high=1e18)
        )

    def to_values(self) -> dict[str, Any]:
        """Return what a checkpoint holds of it."""
        return {
            "correction": self.correction,
            "days": self.days,
            "n_timed": self.n_timed,
            "last_time": None if math.isnan(self.last_time) else self.last_time,
        }
