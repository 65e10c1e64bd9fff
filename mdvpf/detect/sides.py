"""The four sides on which a block can be strange, with a statistic for each.

- *surprising*: the surprise exceeds the entropy that the predictor expected. Symbols that the
  predictor knows to be unpredictable do not count. With a background: the background explains the
  block better than the predictor does.
- *predictable*: the surprise is far below its usual level. A predictor that learns adapts within a
  few symbols and then expects little entropy. So this side compares with the surprise of past
  blocks, not with the entropy expected within the block.
- *repetitive*: a key repeats one symbol unusually often. The statistic is the number of
  repetitions, but at most two for each nat of their surprise. So heartbeats, which the predictor
  expects, do not count. The first two sides can miss a crash loop: a fast learner soon expects it,
  and a slow one may find each of its lines about as likely as any other.
- *looping*: the same for loops of 2 to `LONGEST_LOOP` symbols. It is a side of its own because many
  logs have repeated routines but no repeated lines.

All statistics use only what was known before each symbol came.

Observations that are numbers repeat if all numbers are equal, to the bit. The model gives an exact
repetition of a real number the probability 0. So repetitions of observations with a real number
count in full, and only the ranks of past blocks say how many are usual. For counts and symbols
alone the surprise is that of a probability, and the limit for each nat holds.

Over numbers the surprising side has a second statistic, the largest excess of the block (`SPIKE`).
A filter adapts to a jump within one or two observations. Their excess is small against the sum of a
block, which noise moves by some nats, but large for a single observation.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Any

from mdvpf._support import validate
from mdvpf.model.number_families import LARGEST_NUMBER
from mdvpf.model.observations import Row
from mdvpf.predictor import Label
from mdvpf.predictor.vocabulary import label_from_json, label_to_json

SURPRISING, PREDICTABLE = "surprising", "predictable"
REPETITIVE, LOOPING = "repetitive", "looping"
SIDES = (SURPRISING, PREDICTABLE, REPETITIVE, LOOPING)
SPIKE = "spike"  # the second statistic of the surprising side over numbers
SIDE_TEXTS = {
    SURPRISING: "more surprising than expected",
    PREDICTABLE: "far too predictable",
    REPETITIVE: "repetitive",
    LOOPING: "a loop",
}
LONGEST_LOOP = 8  # symbols
MOST_REPETITIONS = 16.0  # largest statistic of a loop
PER_NAT = 2.0  # repetitions that count for each nat of surprise
MOST_KEYS = 1000  # keys whose loops are remembered


@dataclass(slots=True)
class KeyLoops:
    """The loops that one key may be in.

    Attributes
    ----------
    past : deque of int or Row
        Its last symbols or observations, the latest last.
    runs : list of int
        For each period from 1: how many symbols in a row were equal to the one a period earlier.
    spent : list of float
        For each period: the total surprise of those symbols, in nats.
    """

    past: deque[int | Row]
    runs: list[int]
    spent: list[float]

    def add(self, symbol: int | Row, surprise: float) -> tuple[float, float]:
        """Add a symbol; return the strength of its repetition and of the strongest other loop."""
        repeated, looped = 0.0, 0.0
        past, runs, spent = self.past, self.runs, self.spent
        for i, earlier in enumerate(reversed(past)):
            if earlier == symbol:
                runs[i] += 1
                spent[i] += surprise
                strength = min(runs[i] / (i + 1), PER_NAT * spent[i], MOST_REPETITIONS)
                if i == 0:
                    repeated = strength
                elif runs[0] <= i:  # a repetition is a loop of every period
                    looped = max(looped, strength)
            elif runs[i]:
                runs[i], spent[i] = 0, 0.0
        past.append(symbol)
        return repeated, looped

    def copy(self) -> KeyLoops:
        """Return an independent copy."""
        return KeyLoops(self.past.copy(), list(self.runs), list(self.spent))


@dataclass(slots=True)
class Loops:
    """The loops of each key.

    Attributes
    ----------
    recent : ordered dict of key to KeyLoops
        The key used longest ago comes first.
    """

    recent: OrderedDict[Label | None, KeyLoops] = field(default_factory=OrderedDict)

    def add(self, symbol: int | Row, key: Label | None, surprise: float) -> tuple[float, float]:
        """Add a symbol of a key; return the same as `KeyLoops.add`."""
        return self._of(key).add(symbol, surprise)

    def _of(self, key: Label | None) -> KeyLoops:
        found = self.recent.get(key)
        if found is None:
            if len(self.recent) == MOST_KEYS:
                self.recent.popitem(last=False)
            past: deque[int | Row] = deque(maxlen=LONGEST_LOOP)
            found = KeyLoops(past, [0] * LONGEST_LOOP, [0.0] * LONGEST_LOOP)
            self.recent[key] = found
        else:
            self.recent.move_to_end(key)
        return found

    def end(self, key: Label | None) -> None:
        """Forget a key."""
        self.recent.pop(key, None)

    def copy(self) -> Loops:
        """Return an independent copy."""
        return Loops(OrderedDict((key, loops.copy()) for key, loops in self.recent.items()))

    def to_values(self) -> list[Any]:
        """Return the state of each key, for a checkpoint."""
        return [
            [None if key is None else label_to_json(key), list(of.past), of.runs, of.spent]
            for key, of in self.recent.items()
        ]

    def restore(self, values: list[Any], n_symbols: int, n_dims: int = 0) -> None:
        """Restore the state of a checkpoint, or raise; observations have `n_dims` numbers."""
        self.recent = OrderedDict()
        for saved, past, runs, spent in values:
            key = None if saved is None else label_from_json(saved)
            if len(past) > LONGEST_LOOP or {len(runs), len(spent)} != {LONGEST_LOOP}:
                raise ValueError(f"loops of {len(past)}, {len(runs)} and {len(spent)} symbols")
            self.recent[key] = KeyLoops(
                deque(
                    (read_kept("symbol", y, n_symbols, n_dims) for y in past), maxlen=LONGEST_LOOP
                ),
                [validate.integer("run", run, low=0, high=2**62) for run in runs],
                [validate.real("spent", nats, low=0.0, high=1e300) for nats in spent],
            )
        if len(self.recent) != len(values) or len(values) > MOST_KEYS:
            raise ValueError(
                f"loops of {len(values)} keys: expected each once, {MOST_KEYS} at most"
            )


def read_kept(name: str, saved: Any, n_symbols: int, n_dims: int) -> int | Row:
    """Return a symbol or, with `n_dims`, an observation of a checkpoint, or raise."""
    if not n_dims:
        return validate.integer(name, saved, low=0, high=n_symbols - 1)
    if not isinstance(saved, list) or len(saved) != n_dims or saved == [None] * n_dims:
        raise ValueError(f"{name}={saved!r}: expected {n_dims} numbers, not all missing")
    limit = LARGEST_NUMBER
    return tuple(
        None if each is None else validate.real(name, each, low=-limit, high=limit)
        for each in saved
    )


@dataclass(slots=True)
class BlockSums:
    """Sums and maxima over the symbols of a block, for its statistics.

    Attributes
    ----------
    surprise, excess : float
        Sums of the surprise, and of surprise minus expected entropy (or of the log ratio).
    repeated, looped : float
        The strength of the strongest repetition, and of the strongest other loop.
    count : int
        Number of symbols, without missing ones.
    largest : float
        The largest excess, 0 if all are negative.
    """

    surprise: float = 0.0
    excess: float = 0.0
    repeated: float = 0.0
    looped: float = 0.0
    count: int = 0
    largest: float = 0.0

    def add(self, surprise: float, excess: float, repeated: float, looped: float) -> None:
        """Add a symbol."""
        self.surprise += surprise
        self.excess += excess
        self.repeated = max(self.repeated, repeated)
        self.looped = max(self.looped, looped)
        self.count += 1
        self.largest = max(self.largest, excess)

    def statistics(self) -> dict[str, float]:
        """Return the statistic of each side: the first two in nats a symbol, the spike in nats."""
        return {
            SURPRISING: self.excess / self.count,
            PREDICTABLE: -self.surprise / self.count,
            REPETITIVE: self.repeated,
            LOOPING: self.looped,
            SPIKE: self.largest,
        }

    def clear(self) -> None:
        """Begin a new block."""
        self.surprise, self.excess, self.repeated, self.looped = 0.0, 0.0, 0.0, 0.0
        self.count, self.largest = 0, 0.0
