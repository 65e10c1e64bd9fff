"""The belief of a detector: a predictor, and what it may learn from.

A predictor that learns from everything learns the strange as well, and is not surprised when it
comes again. With blocks it can be kept from that: a copy reads the block, and takes the predictor's
place only if there was no alarm. The one that was not taken is kept until the next symbol, in case
the user says that the judgement was wrong.
"""

from __future__ import annotations

from typing import Self

from mdvpf.predictor import Label, Predictor

LEARN = ("all", "unflagged", "none")


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
    """

    def __init__(self, predictor: Predictor, learn: str) -> None:
        self.predictor = predictor
        self.learn = learn
        self.other: Predictor | None = None

    def reader(self, in_block: bool) -> Predictor:
        """Return what absorbs the next symbol: the predictor, or the copy that reads a block."""
        if self.learn == "all":
            return self.predictor
        if self.other is None or not in_block:
            self.other = self.predictor.copy()
        return self.other

    def end_block(self, alarm: bool) -> None:
        """Learn the block that was read, or do not."""
        if self.learn == "none":
            self.other = None
        elif self.learn == "unflagged" and not alarm:
            assert self.other is not None
            self.predictor, self.other = self.other, self.predictor

    def revise(self) -> None:
        """Learn the last block if it was left out, and forget it if it was learnt."""
        if self.other is not None:
            self.predictor, self.other = self.other, None

    def fits(self, in_block: bool) -> bool:
        """Return whether there is another where there must be one, and of the same kind."""
        if self.other is None:
            return self.learn == "all" or not in_block
        is_twin = type(self.other) is type(self.predictor)
        return self.learn != "all" and is_twin and self.other.n_symbols == self.predictor.n_symbols

    def new_sequence(self, key: Label | None) -> None:
        """Start a new sequence of a key."""
        for each in self._both():
            _end(each, key)

    def expire(self, key: Label | None) -> None:
        """End the sequence of a key where it is in use.

        To end one that is not would still absorb the symbol that MD-VPA holds back.
        """
        for each in self._both():
            # A user's own that takes no keys does not note whether its only sequence has begun.
            if key in each._table or not each._takes_keys:
                _end(each, key)

    def _both(self) -> list[Predictor]:
        return [self.predictor] if self.other is None else [self.predictor, self.other]

    def copy(self) -> Self:
        """Return an independent copy."""
        twin = type(self)(self.predictor.copy(), self.learn)
        twin.other = None if self.other is None else self.other.copy()
        return twin


def _end(predictor: Predictor, key: Label | None) -> None:
    if key is None:
        predictor.new_sequence()
    else:
        predictor.new_sequence(key)
