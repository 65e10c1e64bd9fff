"""What is judged: surprise as a level, smoothed symbol by symbol, or the mean of a block."""

from __future__ import annotations

from dataclasses import dataclass

LARGEST = 1000.0  # nats: what a symbol of probability zero counts for


@dataclass(slots=True)
class Level:
    """The level of surprise at the present symbol.

    Attributes
    ----------
    block : int or None
        Symbols of a block; None for a level at every symbol.
    smoothing : float
        Without blocks: how many symbols the level is averaged over, with fading memory.
    time : int
        Symbols so far.
    total : float
        Surprise of the block so far, or the smoothed one.
    count : int
        Symbols that it is made of, missing ones aside.
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
        """Take in a symbol; return the level that is to be judged, None if there is none now."""
        self.time += 1
        if not missing:
            self.count += 1
            surprise = min(surprise, LARGEST)
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
