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

    def new_sequence(self, key: Label | None = None) -> None:
        """End the sequence of a key."""
        for predictor in (self.predictor, self.other):
            if predictor is not None and key is None:  # users' own need not know of keys
                predictor.new_sequence()
            elif predictor is not None:
                predictor.new_sequence(key)

    def copy(self) -> Self:
        """Return an independent copy."""
        twin = type(self)(self.predictor.copy(), self.learn)
        twin.other = None if self.other is None else self.other.copy()
        return twin
