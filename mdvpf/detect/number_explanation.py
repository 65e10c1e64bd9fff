"""Explain incidents over numbers: what was observed, and what was expected and usual.

An explanation uses only the trace of the last observations. It compares the numbers of the incident
with those before it. It names no similar earlier stretch, because exact numbers rarely recur.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf._support.extras import needed
from mdvpf.detect.sides import (
    LONGEST_LOOP,
    LOOPING,
    REPETITIVE,
    SIDE_TEXTS,
    SIDES,
    SURPRISING,
)
from mdvpf.detect.trace import LARGEST_TIME, Trace, TraceWindow
from mdvpf.model import NumberFamily, channels_of
from mdvpf.model.number_families import CATEGORICAL, OPEN
from mdvpf.predictor import MISSING

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, slots=True)
class NumberSummary:
    """One number of the observations of an incident.

    Attributes
    ----------
    number : int
        Which number of an observation, from 0.
    count : int
        How often it was observed.
    mean, low, high : float
        Its mean and its range. For a categorical number `mean` is the most frequent symbol.
    expected : float
        The mean of what the predictor expected, before each observation; NaN if unknown. For a
        categorical number, the symbol that was most often the likeliest.
    usual, usual_low, usual_high : float
        Mean and range in the trace before the incident; NaN if there is nothing before it. For a
        categorical number `usual` is the most frequent symbol.
    is_symbol : bool
        Whether it is a categorical number.

    Examples
    --------
    >>> from mdvpf.detect.number_explanation import NumberSummary
    >>> NumberSummary(0, 8, 5.0, 4.5, 5.5, 1.0, 1.1, -0.8, 3.0).high
    5.5
    """

    number: int
    count: int
    mean: float
    low: float
    high: float
    expected: float
    usual: float
    usual_low: float
    usual_high: float
    is_symbol: bool = False


@dataclass(frozen=True, slots=True)
class StrangeObservation:
    """An observation that contributed to a surprising incident.

    Attributes
    ----------
    time : int
    numbers, expected : tuple of float
        What was observed and what was expected; NaN if missing or unknown.
    nats : float
        Its contribution to the judged level.

    Examples
    --------
    >>> from mdvpf.detect.number_explanation import StrangeObservation
    >>> StrangeObservation(7, (9.5,), (5.0,), 12.3).nats
    12.3
    """

    time: int
    numbers: tuple[float, ...]
    expected: tuple[float, ...]
    nats: float


@dataclass(frozen=True, slots=True)
class NumberExplanation:
    """The explanation of an incident over numbers.

    Attributes
    ----------
    start, end : int
        Times of its first and its last observation.
    side : str
        The side on which it is strange.
    numbers : tuple of NumberSummary
        The numbers of an observation, the most unusual first.
    observations : tuple of StrangeObservation
        On the surprising side: the observations that contribute most, the most important first.
    repeated : int
        The longest run of observations of a key that equal the one `period` before.
    period : int
        1 unless the side is "looping".
    mean_surprise : float
        Mean surprise of an observation, in nats; it may be negative, as that of a density.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf.detect.number_explanation import explain_numbers
    >>> from mdvpf.detect.trace import Trace
    >>> trace = Trace(length=100, n_dims=1)
    >>> for y in [0.5, 1.5] * 10 + [1.5] * 8:
    ...     trace.add(0, surprise=1.0, numbers=[y], expected_numbers=[1.0])
    >>> print(explain_numbers(trace, mdvpf.Gaussian(), 20, 27, "repetitive").text())
    observations 20 to 27 are repetitive (8 observations, mean surprise 1.00 nats)
    7 times in a row the same observation as before
    always 1.5 (expected 1; before: mean 1, from 0.5 to 1.5)
    """

    start: int
    end: int
    side: str
    numbers: tuple[NumberSummary, ...]
    observations: tuple[StrangeObservation, ...]
    repeated: int
    period: int
    mean_surprise: float

    def text(self, first: int = 0, n: int = 2) -> str:
        """Return the explanation as a few lines of text.

        Parameters
        ----------
        first : int, default 0
            Number to report for the observation of time 0.
        n : int, default 2
            Largest number of numbers and of observations to report.

        Examples
        --------
        >>> import mdvpf
        >>> from mdvpf.detect.number_explanation import explain_numbers
        >>> from mdvpf.detect.trace import Trace
        >>> trace = Trace(length=100, n_dims=1)
        >>> trace.add(0, surprise=9.0, excess=8.0, numbers=[4.0], expected_numbers=[0.25])
        >>> print(explain_numbers(trace, mdvpf.Gaussian(), 0, 0, "surprising").text(first=1))
        observation 1 is more surprising than expected (1 observation, mean surprise 9.00 nats)
        always 4 (expected 0.25)
        observation 1 was 4, expected 0.25: 8.0 nats
        """
        start, end = self.start + first, self.end + first
        size = self.end - self.start + 1
        span = f"observations {start:,} to {end:,} are"
        if size == 1:
            span = f"observation {start:,} is"
        count = "1 observation" if size == 1 else f"{size:,} observations"
        mean = f"mean surprise {self.mean_surprise:.2f} nats"
        lines = [f"{span} {SIDE_TEXTS[self.side]} ({count}, {mean})"]
        if self.side in (REPETITIVE, LOOPING) and self.repeated and n:
            where = "before" if self.period == 1 else f"{self.period} before"
            lines.append(f"{_times(self.repeated)} in a row the same observation as {where}")
        n_dims = len(self.numbers)
        for each in self.numbers[:n]:
            name = "" if n_dims == 1 else f"number {each.number + 1}: "
            lines.append(name + _summary_text(each))
        for one in self.observations[:n]:
            expected = "" if np.isnan(one.expected).all() else f", expected {_row(one.expected)}"
            what = f"observation {one.time + first:,} was {_row(one.numbers)}"
            lines.append(f"{what}{expected}: {one.nats:.1f} nats")
        return "\n".join(lines)

    def to_dict(self, first: int = 0) -> dict[str, Any]:
        """Return the explanation as a dictionary of JSON values.

        Parameters
        ----------
        first : int, default 0
            Number to report for the observation of time 0.

        Examples
        --------
        >>> import mdvpf
        >>> from mdvpf.detect.number_explanation import explain_numbers
        >>> from mdvpf.detect.trace import Trace
        >>> trace = Trace(length=100, n_dims=1)
        >>> trace.add(0, surprise=9.0, numbers=[4.0])
        >>> why = explain_numbers(trace, mdvpf.Gaussian(), 0, 0, "surprising")
        >>> why.to_dict()["numbers"][0]["mean"]
        4.0
        """
        return {
            "text": self.text(first),
            "numbers": [
                {name: _finite(getattr(each, name)) for name in NumberSummary.__slots__}
                for each in self.numbers
            ],
            "observations": [
                {
                    "observation": each.time + first,
                    "numbers": [_finite(y) for y in each.numbers],
                    "expected": [_finite(y) for y in each.expected],
                    "nats": each.nats,
                }
                for each in self.observations
            ],
            "repeated": self.repeated,
            "period": self.period,
        }

    def to_pandas(self) -> pandas.DataFrame:
        """Return the summaries as a data frame, one row for each number of an observation.

        Examples
        --------
        >>> import mdvpf
        >>> from mdvpf.detect.number_explanation import explain_numbers
        >>> from mdvpf.detect.trace import Trace
        >>> trace = Trace(length=100, n_dims=2)
        >>> trace.add(0, surprise=9.0, numbers=[4.0, 5.0])
        >>> why = explain_numbers(trace, mdvpf.Gaussian(2), 0, 0, "surprising")
        >>> why.to_pandas()["mean"].tolist()
        [4.0, 5.0]
        """
        with needed("to_pandas", "pandas", "pandas"):
            import pandas
        names = list(NumberSummary.__slots__)
        rows = [[getattr(each, name) for name in names] for each in self.numbers]
        return pandas.DataFrame(rows, columns=names)


def explain_numbers(
    trace: Trace, family: NumberFamily, start: int, end: int, side: str, *, n: int = 5
) -> NumberExplanation:
    """Explain why a stretch of a stream of numbers was an incident.

    Parameters
    ----------
    trace : Trace
        The last observations of the stream.
    family : NumberFamily
        The family of the predictor.
    start, end : int
        Times of the first and the last observation of the incident.
    side : {"surprising", "predictable", "repetitive", "looping"}
        The side on which it is strange.
    n : int, default 5
        Largest number of observations to report.

    Raises
    ------
    ValueError
        If the trace no longer has any observation of the incident. If it has some, the explanation
        is about these.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf.detect.number_explanation import explain_numbers
    >>> from mdvpf.detect.trace import Trace
    >>> trace = Trace(length=100, n_dims=1)
    >>> for y in [0.5, 1.5] * 10 + [7.5] * 4:
    ...     trace.add(0, surprise=y, numbers=[y])
    >>> explain_numbers(trace, mdvpf.Gaussian(), 20, 23, "surprising").observations[0].time
    20
    """
    if not isinstance(trace, Trace):
        raise TypeError(f"trace={trace!r}: expected a Trace")
    if trace.n_dims != len(channels_of(family)):
        raise ValueError(f"trace={trace!r}: expected one of observations of {family!r}")
    validate.choice("side", side, SIDES)
    n = validate.integer("n", n, low=1)
    inside = trace.window(start, end)
    if len(inside) == 0:
        raise ValueError(
            f"start={start!r}, end={end!r}: expected an incident whose observations are still in "
            f"the trace, which begins at {trace.first_time}"
        )
    before = trace.window(0, start - 1) if start > 0 else trace.window(LARGEST_TIME, LARGEST_TIME)
    seen = inside.symbol != MISSING
    repeated, period = _repetitions(inside, side)
    return NumberExplanation(
        start,
        end,
        side,
        _summaries(inside, before, family, side),
        _strangest(inside, n) if side == SURPRISING else (),
        repeated,
        period,
        float(inside.surprise[seen].mean()) if seen.any() else 0.0,
    )


def _summaries(
    inside: TraceWindow, before: TraceWindow, family: NumberFamily, side: str
) -> tuple[NumberSummary, ...]:
    """Summarise each number, the most unusual first."""
    found, ranks = [], []
    for i, channel in enumerate(channels_of(family)):
        now, earlier = (_present(each.numbers[:, i]) for each in (inside, before))
        expected = _present(inside.expected_numbers[:, i])
        is_symbol = channel.kind in (CATEGORICAL, OPEN)
        centre = _commonest if is_symbol else _mean
        mean, low, high = _range(now, centre)
        usual, usual_low, usual_high = _range(earlier, centre)
        found.append(
            NumberSummary(
                *(i, len(now), mean, low, high, centre(expected)),
                *(usual, usual_low, usual_high, is_symbol),
            )
        )
        ranks.append(_unusualness(now, earlier, side))
    order = np.argsort(-np.array(ranks), kind="stable").tolist()
    return tuple(found[i] for i in order)


def _unusualness(now: NDArray[np.float64], earlier: NDArray[np.float64], side: str) -> float:
    """Return how unusual a number is: the move of its mean, or how much less it varies."""
    if len(now) == 0 or len(earlier) == 0:
        return 0.0
    scale = float(earlier.std())
    if side == SURPRISING:
        moved = float(np.abs(now - earlier.mean()).mean())
        return moved / scale if scale > 0.0 else math.inf if moved > 0.0 else 0.0
    return 1.0 - float(now.std()) / scale if scale > 0.0 else 0.0


def _strangest(inside: TraceWindow, n: int) -> tuple[StrangeObservation, ...]:
    """Return the observations that contribute most to the judged level."""
    seen = np.flatnonzero(inside.symbol != MISSING)
    excess = np.where(np.isfinite(inside.excess), inside.excess, inside.surprise)
    excess = np.nan_to_num(excess)
    order = seen[np.argsort(-excess[seen], kind="stable")][:n]
    return tuple(
        StrangeObservation(
            int(inside.time[i]),
            tuple(inside.numbers[i].tolist()),
            tuple(inside.expected_numbers[i].tolist()),
            float(excess[i]),
        )
        for i in order.tolist()
        if excess[i] > 0.0
    )


def _repetitions(inside: TraceWindow, side: str) -> tuple[int, int]:
    """Return the longest run of repetitions and its period: the one with most rounds."""
    groups: dict[Any, list[bytes]] = {}
    for key, symbol, numbers in zip(inside.key, inside.symbol, inside.numbers, strict=True):
        if symbol != MISSING:
            groups.setdefault(key, []).append((numbers + 0.0).tobytes())
    best, found = 0.0, (0, 1)
    for period in range(2, LONGEST_LOOP + 1) if side == LOOPING else (1,):
        longest = max((_longest_run(rows, period) for rows in groups.values()), default=0)
        if longest / period > best:
            best, found = longest / period, (longest, period)
    return found


def _longest_run(rows: list[bytes], period: int) -> int:
    longest = run = 0
    for earlier, now in zip(rows, rows[period:], strict=False):
        run = run + 1 if earlier == now else 0
        longest = max(longest, run)
    return longest


def _present(column: NDArray[np.float64]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = column[~np.isnan(column)]
    return found


def _mean(numbers: NDArray[np.float64]) -> float:
    return float(numbers.mean()) if len(numbers) else math.nan


def _commonest(symbols: NDArray[np.float64]) -> float:
    if len(symbols) == 0:
        return math.nan
    kinds, counts = np.unique(symbols, return_counts=True)
    return float(kinds[counts.argmax()])


def _range(numbers: NDArray[np.float64], centre: Any) -> tuple[float, float, float]:
    if len(numbers) == 0:
        return math.nan, math.nan, math.nan
    return centre(numbers), float(numbers.min()), float(numbers.max())


def _summary_text(each: NumberSummary) -> str:
    if each.count == 0:
        return "always missing"
    centre = "mostly" if each.is_symbol else "mean"
    text = f"always {each.low:.4g}"
    if each.low < each.high:
        text = f"{centre} {each.mean:.4g}, from {each.low:.4g} to {each.high:.4g}"
    notes = [] if math.isnan(each.expected) else [f"expected {each.expected:.4g}"]
    if each.usual_low == each.usual_high:
        notes.append(f"before: always {each.usual:.4g}")
    elif not math.isnan(each.usual):
        range_ = f"from {each.usual_low:.4g} to {each.usual_high:.4g}"
        notes.append(f"before: {centre} {each.usual:.4g}, {range_}")
    return f"{text} ({'; '.join(notes)})" if notes else text


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _row(numbers: tuple[float, ...]) -> str:
    shown = ["missing" if math.isnan(y) else f"{y:.4g}" for y in numbers]
    return shown[0] if len(shown) == 1 else f"({', '.join(shown)})"


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
