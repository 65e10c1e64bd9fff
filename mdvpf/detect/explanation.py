"""Explain incidents: contributing symbols, expected symbols, and similar earlier stretches.

An explanation uses only the trace of the last symbols. On the surprising side, symbols and
transitions are ranked by their contribution to the judged level, in nats. On the other sides they
are ranked by the excess of their count over the count expected from the trace before the incident.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf._support.extras import needed
from mdvpf.detect.sides import SIDE_TEXTS, SIDES, SURPRISING
from mdvpf.detect.trace import LARGEST_TIME, Trace, TraceWindow
from mdvpf.predictor import MISSING, Label, Vocabulary, label_text

if TYPE_CHECKING:
    import pandas

LONGEST_COMPARED = 500  # most symbols of an incident that are compared with earlier stretches


@dataclass(frozen=True, slots=True)
class Contribution:
    """A symbol or a transition of an incident.

    Attributes
    ----------
    what : label
        The symbol.
    after : label or None
        For a transition: the symbol before it in its sequence.
    count : int
        Its number of occurrences in the incident.
    usual : float
        The number of occurrences expected from its share in the trace before the incident; NaN if
        the trace has no symbols before the incident.
    nats : float
        Its total contribution to the judged level.

    Examples
    --------
    >>> from mdvpf.detect.explanation import Contribution
    >>> Contribution("restart", count=16, usual=0.5, nats=31.0).count
    16
    """

    what: Label
    count: int
    usual: float
    nats: float
    after: Label | None = None


@dataclass(frozen=True, slots=True)
class Instead:
    """A surprising symbol, and the symbol expected in its place.

    Attributes
    ----------
    time : int
    symbol : label
    surprise : float
        In nats.
    expected : label
        The likeliest symbol of those seen before.
    probability : float
        Its probability.

    Examples
    --------
    >>> from mdvpf.detect.explanation import Instead
    >>> Instead(7, "rm", 6.5, "ls", 0.9).expected
    'ls'
    """

    time: int
    symbol: Label
    surprise: float
    expected: Label
    probability: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of an incident.

    Attributes
    ----------
    start, end : int
        Times of its first and its last symbol.
    side : str
        The side on which it is strange.
    symbols, transitions : tuple of Contribution
        The symbols and transitions that contribute most, the most important first.
    expected : tuple of Instead
        The most surprising symbols, and the symbols expected instead; empty if these are unknown.
    nearest : int or None
        Start of the most similar earlier stretch of the same length; None if the trace has none.
    similarity : float
        Share of the incident's symbols and transitions that also occur in this stretch; NaN without
        such a stretch.
    mean_surprise : float
        Mean surprise of a symbol of the incident, in nats.

    Examples
    --------
    >>> from mdvpf.detect.explanation import explain
    >>> from mdvpf.detect.trace import Trace
    >>> trace = Trace(length=100)
    >>> for symbol in [0, 1, 2] * 10 + [1] * 8:
    ...     trace.add(symbol, surprise=1.0)
    >>> print(explain(trace, 30, 37, "repetitive").text())
    symbols 30 to 37 are repetitive (8 symbols, mean surprise 1.00 nats)
    1 came 8 times (usually 2.7)
    1 after 1 came 7 times (usually 0.0)
    1 after 2 came once (usually 0.0)
    most like symbols 22 to 29: 19 % in common
    """

    start: int
    end: int
    side: str
    symbols: tuple[Contribution, ...]
    transitions: tuple[Contribution, ...]
    expected: tuple[Instead, ...]
    nearest: int | None
    similarity: float
    mean_surprise: float

    def text(self, first: int = 0, n: int = 2) -> str:
        """Return the explanation as a few lines of text.

        Parameters
        ----------
        first : int, default 0
            Number to report for the symbol of time 0.
        n : int, default 2
            Largest number of symbols, of transitions and of expectations to report.

        Examples
        --------
        >>> from mdvpf.detect.explanation import explain
        >>> from mdvpf.detect.trace import Trace
        >>> trace = Trace(length=100)
        >>> trace.add(3, surprise=2.0, excess=1.5, expected=5, probability=0.75)
        >>> print(explain(trace, 0, 0, "surprising").text(first=1))
        symbol 1 is more surprising than expected (1 symbol, mean surprise 2.00 nats)
        3 came once: 1.5 nats
        symbol 1 was 3, expected 5 (75 %)
        """
        start, end = self.start + first, self.end + first
        size = self.end - self.start + 1
        span = f"symbol {start:,} is" if size == 1 else f"symbols {start:,} to {end:,} are"
        count = "1 symbol" if size == 1 else f"{size:,} symbols"
        mean = f"mean surprise {self.mean_surprise:.2f} nats"
        lines = [f"{span} {SIDE_TEXTS[self.side]} ({count}, {mean})"]
        contributions = (*self.symbols[:n], *self.transitions[:n])
        lines += [self._contribution_text(each) for each in contributions]
        for each in self.expected[:n] if self.side == SURPRISING else ():
            lines.append(
                f"symbol {each.time + first:,} was {_shown(each.symbol)}, "
                f"expected {_shown(each.expected)} "
                f"({each.probability:.0%})".replace("%", " %")
            )
        if self.nearest is not None:
            near = self.nearest + first
            lines.append(
                f"most like symbols {near:,} to {near + size - 1:,}: {100 * self.similarity:.0f} % "
                "in common"
            )
        return "\n".join(lines)

    def _contribution_text(self, each: Contribution) -> str:
        shown = _shown(each.what)
        if each.after is not None:
            shown += f" after {_shown(each.after)}"
        times = "once" if each.count == 1 else f"{each.count:,} times"
        if self.side == SURPRISING:
            return f"{shown} came {times}: {each.nats:.1f} nats"
        usual = "" if math.isnan(each.usual) else f" (usually {each.usual:.1f})"
        return f"{shown} came {times}{usual}"

    def to_dict(self, first: int = 0) -> dict[str, Any]:
        """Return the explanation as a dictionary of JSON values.

        Parameters
        ----------
        first : int, default 0
            Number to report for the symbol of time 0.

        Examples
        --------
        >>> from mdvpf.detect.explanation import explain
        >>> from mdvpf.detect.trace import Trace
        >>> trace = Trace(length=100)
        >>> trace.add(3, surprise=2.0)
        >>> explain(trace, 0, 0, "surprising").to_dict()["symbols"]
        [{'what': 3, 'count': 1, 'usual': None, 'nats': 2.0}]
        """
        return {
            "text": self.text(first),
            "symbols": [_entry(each) for each in self.symbols],
            "transitions": [_entry(each) for each in self.transitions],
            "expected": [
                {
                    "symbol": _plain(each.symbol),
                    "surprise": _finite(each.surprise),
                    "expected": _plain(each.expected),
                    "probability": each.probability,
                }
                for each in self.expected
            ],
            "nearest": None if self.nearest is None else self.nearest + first,
            "similarity": _finite(self.similarity),
        }

    def to_pandas(self) -> pandas.DataFrame:
        """Return the contributions as a data frame, one row for each symbol or transition.

        Examples
        --------
        >>> from mdvpf.detect.explanation import explain
        >>> from mdvpf.detect.trace import Trace
        >>> trace = Trace(length=100)
        >>> for symbol in [0, 1, 1]:
        ...     trace.add(symbol, surprise=2.0)
        >>> explain(trace, 1, 2, "surprising").to_pandas()["count"].tolist()
        [2, 1, 1]
        """
        with needed("to_pandas", "pandas", "pandas"):
            import pandas
        rows = [
            (each.what, each.after, each.count, each.usual, each.nats)
            for each in (*self.symbols, *self.transitions)
        ]
        return pandas.DataFrame(rows, columns=["symbol", "after", "count", "usual", "nats"])


def explain(
    trace: Trace,
    start: int,
    end: int,
    side: str,
    *,
    vocabulary: Vocabulary | None = None,
    n: int = 5,
) -> Explanation:
    """Explain why a stretch of a stream was an incident.

    Parameters
    ----------
    trace : Trace
        The last symbols of the stream.
    start, end : int
        Times of the first and the last symbol of the incident.
    side : {"surprising", "predictable", "repetitive", "looping"}
        The side on which it is strange.
    vocabulary : Vocabulary, optional
        The labels of the symbols.
    n : int, default 5
        Largest number of symbols, of transitions and of expectations to report.

    Raises
    ------
    ValueError
        If the trace no longer has any symbol of the incident. If it has some, the explanation is
        about these.

    Examples
    --------
    >>> from mdvpf.detect.explanation import explain
    >>> from mdvpf.detect.trace import Trace
    >>> trace = Trace(length=100)
    >>> for symbol in [0, 1] * 10 + [1, 0, 0, 0]:
    ...     trace.add(symbol, surprise=0.1 + symbol)
    >>> explain(trace, 20, 23, "repetitive").symbols[0].what
    0
    """
    if not isinstance(trace, Trace):
        raise TypeError(f"trace={trace!r}: expected a Trace")
    validate.choice("side", side, SIDES)
    n = validate.integer("n", n, low=1)
    inside = trace.window(start, end)
    if len(inside) == 0:
        raise ValueError(
            f"start={start!r}, end={end!r}: expected an incident whose symbols are still in the "
            f"trace, which begins at {trace.first_time}"
        )
    before = trace.window(0, start - 1) if start > 0 else trace.window(LARGEST_TIME, LARGEST_TIME)
    namer = _Namer(vocabulary)
    seen = inside.symbol != MISSING
    mean = float(inside.surprise[seen].mean()) if seen.any() else 0.0
    nearest, similarity = _nearest(before, inside)
    return Explanation(
        start,
        end,
        side,
        _contributions(inside, before, side, namer, n, pairs=False),
        _contributions(inside, before, side, namer, n, pairs=True),
        _expected(inside, namer, n),
        nearest,
        similarity,
        mean,
    )


class _Namer:
    """Return the name of a symbol: its label in a vocabulary, or its number."""

    def __init__(self, vocabulary: Vocabulary | None) -> None:
        self._vocabulary = vocabulary
        self._n = None if vocabulary is None else len(vocabulary)

    def __call__(self, symbol: int) -> Label:
        if self._vocabulary is None or self._n is None or symbol >= self._n:
            return symbol
        found = self._vocabulary.decode([symbol])[0]
        return symbol if found is None else found


def _codes(window: TraceWindow, pairs: bool) -> NDArray[np.int64]:
    """Return a code for each symbol or transition; -1 where it is missing."""
    symbols = window.symbol.astype(np.int64)
    if not pairs:
        return symbols
    previous = window.previous.astype(np.int64)
    found = (previous << 32) | symbols
    found[(symbols == MISSING) | (previous == MISSING)] = -1
    return found


def _contributions(
    inside: TraceWindow, before: TraceWindow, side: str, namer: _Namer, n: int, *, pairs: bool
) -> tuple[Contribution, ...]:
    codes, earlier = _codes(inside, pairs), _codes(before, pairs)
    excess = np.nan_to_num(np.where(np.isfinite(inside.excess), inside.excess, inside.surprise))
    kept = codes >= 0
    kinds, first, which, counts = np.unique(
        codes[kept], return_index=True, return_inverse=True, return_counts=True
    )
    nats = np.bincount(which, weights=excess[kept], minlength=len(kinds))
    earlier = earlier[earlier >= 0]
    usual = np.full(len(kinds), np.nan)
    if len(earlier):
        known, n_known = np.unique(earlier, return_counts=True)
        places = np.minimum(np.searchsorted(known, kinds), len(known) - 1)
        found = np.where(known[places] == kinds, n_known[places], 0)
        usual = found / len(earlier) * int(kept.sum())
    rank = nats if side == SURPRISING else counts - np.nan_to_num(usual)
    order = np.lexsort((first, -rank))[:n]
    if side != SURPRISING:  # leave out symbols that were not more frequent than before
        order = order[: max(1, np.count_nonzero(rank[order] > 0.0))]
    return tuple(
        Contribution(
            namer(int(kinds[i]) & 0xFFFFFFFF),
            int(counts[i]),
            float(usual[i]),
            float(nats[i]),
            namer(int(kinds[i]) >> 32) if pairs else None,
        )
        for i in order.tolist()
    )


def _expected(inside: TraceWindow, namer: _Namer, n: int) -> tuple[Instead, ...]:
    known = (inside.expected != MISSING) & (inside.symbol != MISSING)
    known &= inside.expected != inside.symbol
    places = np.flatnonzero(known)
    places = places[np.argsort(-inside.surprise[places], kind="stable")][:n]
    return tuple(
        Instead(
            int(inside.time[i]),
            namer(int(inside.symbol[i])),
            float(inside.surprise[i]),
            namer(int(inside.expected[i])),
            float(inside.probability[i]),
        )
        for i in places.tolist()
    )


def _nearest(before: TraceWindow, inside: TraceWindow) -> tuple[int | None, float]:
    """Return start and similarity of the earlier stretch with most symbols and transitions shared.

    Of equally similar stretches, the latest is returned.
    """
    n = min(len(inside), LONGEST_COMPARED)
    if len(before) < n:
        return None, math.nan
    shared = np.zeros(len(before) - n + 1, dtype=np.int64)
    total = 0
    for pairs in (False, True):
        codes, earlier = _codes(inside, pairs)[:n], _codes(before, pairs)
        kinds, counts = np.unique(codes[codes >= 0], return_counts=True)
        total += int(counts.sum())
        for kind, count in zip(kinds.tolist(), counts.tolist(), strict=True):
            sums = np.concatenate([[0], np.cumsum(earlier == kind)])
            shared += np.minimum(sums[n:] - sums[:-n], count)
    if total == 0:
        return None, math.nan
    best = len(shared) - 1 - int(shared[::-1].argmax())
    return int(before.time[best]), float(shared[best] / total)


def _shown(label: Label) -> str:
    text = label_text(label)
    return text if text.isprintable() else repr(text)


def _plain(label: Any) -> Any:
    return label if isinstance(label, (str, int)) else _shown(label)


def _entry(each: Contribution) -> dict[str, Any]:
    entry = {"what": _plain(each.what), "count": each.count}
    if each.after is not None:
        entry["after"] = _plain(each.after)
    return entry | {"usual": _finite(each.usual), "nats": each.nats}


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
