"""The belief of a detector: a predictor, and which blocks it learns.

A predictor that learns everything also learns strange blocks, and is not surprised when they recur.
With "unflagged", a copy of the predictor reads each block and replaces the predictor only if there
was no alarm. The other of the two is kept until the next symbol, because feedback may reverse the
judgement.

With a background, "own" does best on masquerades. A frozen copy of the predictor reads the block,
so that the predictor cannot adapt to a strange block while reading it. The predictor learns the
block afterwards if it explains the block better than the background does.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

from mdvpf._support import validate
from mdvpf.detect.sides import read_kept
from mdvpf.model import read_time
from mdvpf.model.observations import Row, observation_of
from mdvpf.predictor import Label, Predictor
from mdvpf.predictor.vocabulary import label_from_json, label_to_json

LEARN = ("all", "unflagged", "none", "own")


class Event(NamedTuple):
    """An event in a block: a symbol, the end of a sequence, or a new time.

    Attributes
    ----------
    symbol : int, Row or None
        The symbol, or the numbers of an observation; None if it was missing.
    key : label or None
        Its key.
    ends : bool
        Whether the event is the end of the key's sequence.
    time : float or None
        For a call of `tell_time`: its argument.
    """

    symbol: int | Row | None
    key: Label | None
    ends: bool = False
    time: float | None = None


class Belief:
    """A predictor, and the copy of it that reads a block.

    Attributes
    ----------
    predictor : Predictor
        The predictor that learns. In a block it has not learnt that block, unless `learn` is "all".
    learn : str
        One of `LEARN`.
    other : Predictor or None
        In a block: the copy that reads it. After a block: the predictor after the opposite
        judgement.
    reading : bool
        Whether `other` is the copy that reads the block; the block may have no symbol yet.
    events : list of Event
        With "own": the events of the current block, which may be learnt at its end.
    """

    def __init__(self, predictor: Predictor, learn: str) -> None:
        self.predictor = predictor
        self.learn = learn
        self.other: Predictor | None = None
        self.reading = False
        self.events: list[Event] = []

    def reader(self) -> Predictor:
        """Return the predictor that absorbs the next symbol: `predictor` or its reading copy."""
        if self.learn == "all":
            return self.predictor
        if self.other is None or not self.reading:
            self.other = self.predictor.freeze() if self.learn == "own" else self.predictor.copy()
            self.reading = True
        return self.other

    def note(self, symbol: int | Row | None, key: Label | None) -> None:
        """Record a symbol (None if missing) that may be learnt at the end of the block."""
        if self.learn == "own":
            self.events.append(Event(symbol, key))

    def note_time(self, time: float) -> None:
        """Record a time, which the predictor is told at the end of the block."""
        if self.learn == "own":
            self.events.append(Event(None, None, time=time))

    def end_block(self, alarm: bool, level: float | None) -> None:
        """End a block and learn it or not. With "own", `level` is its mean log likelihood ratio."""
        self.reading = False
        if self.learn == "own":
            is_own = level is not None and level < 0.0
            for symbol, key, ends, time in self.events:
                if ends:
                    end_sequence(self.predictor, key)
                elif time is not None:
                    self.predictor.tell_time(time)
                elif is_own:
                    named = {} if key is None else {"key": key}
                    self.predictor.update(self._observation(symbol), **named)
            self.other, self.events = None, []
        elif self.learn == "none":
            self.other = None
        elif self.learn == "unflagged" and not alarm:
            assert self.other is not None
            self.predictor, self.other = self.other, self.predictor

    def _observation(self, symbol: int | Row | None) -> Any:
        """Return the symbol of an event in the form that `update` accepts."""
        family = self.predictor._family
        if symbol is None or isinstance(symbol, int) or family is None:
            return symbol
        return observation_of(family, symbol)

    def revise(self) -> None:
        """Reverse the decision on the last block: learn it or forget it."""
        if self.other is not None and not self.reading:
            self.predictor, self.other = self.other, None

    def fits(self, in_block: bool) -> bool:
        """Return whether `other` exists if it must, and has the right kind and alphabet."""
        if self.other is None:
            return self.learn == "all" or not in_block
        is_twin = self.learn == "own" or type(self.other) is type(self.predictor)
        return self.learn != "all" and is_twin and self.other.n_symbols == self.predictor.n_symbols

    def new_sequence(self, key: Label | None) -> None:
        """Start a new sequence of a key."""
        if self.learn == "own" and self.other is not None:
            self.events.append(Event(None, key, ends=True))
            end_sequence(self.other, key)
            return
        for each in self._both():
            end_sequence(each, key)

    def expire(self, key: Label | None) -> None:
        """End the sequence of a key where it is in use.

        Ending a sequence that is not in use would absorb the pending symbol of MD-VPA.
        """
        if self.learn == "own" and self.other is not None:
            if key in self.other._table or key in self.predictor._table:
                self.new_sequence(key)
            return
        for each in self._both():
            # A custom predictor without keys does not record whether its sequence has begun.
            if key in each._table or not each._takes_keys:
                end_sequence(each, key)

    def _both(self) -> list[Predictor]:
        return [self.predictor] if self.other is None else [self.predictor, self.other]

    def events_to_values(self) -> list[list[Any]]:
        """Return the events of the current block, for a checkpoint."""
        return [
            [symbol, None if key is None else label_to_json(key), ends]
            + ([] if time is None else [time])
            for symbol, key, ends, time in self.events
        ]

    def restore_events(self, values: list[Any], n_symbols: int, n_dims: int = 0) -> None:
        """Restore the events of a checkpoint, or raise."""
        if values and (self.learn != "own" or self.other is None):
            raise ValueError("events: expected only in a block that may be learnt")
        self.events = [
            Event(
                None if symbol is None else read_kept("symbol", symbol, n_symbols, n_dims),
                None if key is None else label_from_json(key),
                validate.flag("ends", ends),
                *(read_time("time", time) for time in times[:1]),
            )
            for symbol, key, ends, *times in values
        ]

    def copy(self) -> Self:
        """Return an independent copy."""
        twin = type(self)(self.predictor.copy(), self.learn)
        twin.other = None if self.other is None else self.other.copy()
        twin.reading = self.reading
        twin.events = list(self.events)
        return twin


def end_sequence(predictor: Predictor, key: Label | None) -> None:
    """End the sequence of a key. The key None is not passed: custom predictors may take no keys."""
    if key is None:
        predictor.new_sequence()
    else:
        predictor.new_sequence(key)
