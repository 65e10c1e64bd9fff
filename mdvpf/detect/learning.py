"""The belief of a detector: a predictor, and what it may learn from.

A predictor that learns from everything learns the strange as well, and is not surprised when it
comes again. With blocks it can be kept from that: a copy reads the block, and takes the predictor's
place only if there was no alarm. The one that was not taken is kept until the next symbol, in case
the user says that the judgement was wrong.

With a background there is another way, which does best on masquerades: the block is read by the
predictor as it stands, frozen, so that a block that is strange throughout does not become usual on
the way, and it is learnt afterwards if the predictor explains it better than the background does.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

from mdvpf._support import validate
from mdvpf.model import read_time
from mdvpf.predictor import Label, Predictor
from mdvpf.predictor.vocabulary import label_from_json, label_to_json

LEARN = ("all", "unflagged", "none", "own")


class Event(NamedTuple):
    """Something that happened in a block.

    Attributes
    ----------
    symbol : int or None
        The symbol that came, None if it was missing.
    key : label or None
        Its key.
    ends : bool
        Whether no symbol came, but the sequence of the key ended.
    time : float or None
        If this is not None, no symbol came either, but the time was told.
    """

    symbol: int | None
    key: Label | None
    ends: bool = False
    time: float | None = None


class Belief:
    """A predictor, and the copy of it that reads a block.

    Attributes
    ----------
    predictor : Predictor
        What has been learnt; inside of a block, without that block unless `learn` is "all".
    learn : str
        One of `LEARN`.
    other : Predictor or None
        Inside of a block: the copy that reads it. After one: the predictor as it would be, had
        the judgement been the other one.
    reading : bool
        Whether `other` is the copy that reads a block, which may be about to begin.
    events : list of Event
        With "own", inside of a block: what has happened in it, to be learnt at its end.
    """

    def __init__(self, predictor: Predictor, learn: str) -> None:
        self.predictor = predictor
        self.learn = learn
        self.other: Predictor | None = None
        self.reading = False
        self.events: list[Event] = []

    def reader(self) -> Predictor:
        """Return what absorbs the next symbol: the predictor, or the copy that reads a block."""
        if self.learn == "all":
            return self.predictor
        if self.other is None or not self.reading:
            self.other = self.predictor.freeze() if self.learn == "own" else self.predictor.copy()
            self.reading = True
        return self.other

    def note(self, symbol: int | None, key: Label | None) -> None:
        """Note a symbol that was read, None if it was missing, in case that it is learnt later."""
        if self.learn == "own":
            self.events.append(Event(symbol, key))

    def note_time(self, time: float) -> None:
        """Note that the time was told to the reader, in case that the block is learnt later."""
        if self.learn == "own":
            self.events.append(Event(None, None, time=time))

    def end_block(self, alarm: bool, level: float | None = None) -> None:
        """Learn the block that was read, or do not; its level is what a background says of it."""
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
                    self.predictor.update(symbol, **named)
            self.other, self.events = None, []
        elif self.learn == "none":
            self.other = None
        elif self.learn == "unflagged" and not alarm:
            assert self.other is not None
            self.predictor, self.other = self.other, self.predictor

    def revise(self) -> None:
        """Learn the last block if it was left out, and forget it if it was learnt."""
        if self.other is not None and not self.reading:
            self.predictor, self.other = self.other, None

    def fits(self, in_block: bool) -> bool:
        """Return whether there is another where there must be one, and of the same kind."""
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

        To end one that is not would still absorb the symbol that MD-VPA holds back.
        """
        if self.learn == "own" and self.other is not None:
            if key in self.other._table or key in self.predictor._table:
                self.new_sequence(key)
            return
        for each in self._both():
            # A user's own that takes no keys does not note whether its only sequence has begun.
            if key in each._table or not each._takes_keys:
                end_sequence(each, key)

    def _both(self) -> list[Predictor]:
        return [self.predictor] if self.other is None else [self.predictor, self.other]

    def events_to_values(self) -> list[list[Any]]:
        """Return what a checkpoint holds of the block that is being read."""
        return [
            [symbol, None if key is None else label_to_json(key), ends]
            + ([] if time is None else [time])
            for symbol, key, ends, time in self.events
        ]

    def restore_events(self, values: list[Any], n_symbols: int) -> None:
        """Put it back, or raise."""
        if values and (self.learn != "own" or self.other is None):
            raise ValueError("events: expected only inside of a block that may be learnt")
        self.events = [
            Event(
                None
                if symbol is None
                else validate.integer("symbol", symbol, low=0, high=n_symbols - 1),
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
    """End the sequence of a key; one of a user's own may take no keys."""
    if key is None:
        predictor.new_sequence()
    else:
        predictor.new_sequence(key)
