"""How a particle remembers: what chooses a row of transitions, and how counts fade."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from datetime import timedelta

from mdvpf.model import InfiniteHMM, Machine

GONE = 0.9999 / 1024
"""A transition or a state that was counted less than this has faded away.

The 0.9999 lets counts of exactly 1 / 1024 survive rounding.
"""

ROWS_COUNTED_EVERY = 64
"""With forgetting, the rows that reach a state are counted afresh before every such step."""


_GOLDEN_RATIO = 0x9E3779B97F4A7C15  # its fraction, times 2**64
_DROPPED_BITS = 29  # of the 53 significant bits of a double, if 24 are left
_AS_DOUBLE = struct.Struct("<d")
_AS_BITS = struct.Struct("<Q")


def round24(x: float, step: int) -> float:
    """Round a positive number to the 24 significant bits of a 32-bit float.

    Whether up or down is decided by a dither that depends on the step alone and is spread evenly
    over the steps. So a sum of many small numbers is right on average, where rounding to nearest
    would drop every one of them beside a large sum. A power of two as a factor changes nothing.

    Examples
    --------
    >>> from mdvpf.reference import round24
    >>> [round24(2.0**24 + 1.0, step) - 2.0**24 for step in range(1, 9)]
    [2.0, 0.0, 2.0, 0.0, 0.0, 2.0, 0.0, 2.0]
    >>> round24(1.5, 1), round24(2.0**24, 1)
    (1.5, 16777216.0)
    """
    dither = step * _GOLDEN_RATIO % 2**64 >> 64 - _DROPPED_BITS
    (bits,) = _AS_BITS.unpack(_AS_DOUBLE.pack(x))
    bits = bits + dither >> _DROPPED_BITS << _DROPPED_BITS
    rounded: float = _AS_DOUBLE.unpack(_AS_BITS.pack(bits))[0]
    return rounded


@dataclass(frozen=True, slots=True)
class Memory:
    """The part of a model that says how a particle counts.

    Step i, numbered from 1 over the life of the filter, has the weight ``w_i = i**forget`` or
    ``2**(i / half_life)``; if the half-life is a time span, ``2**c`` where c is the `clock` of a
    particle, the half-lives that have passed. A count at step n is the sum of ``w_i / w_n`` over
    what was counted.

    There are two ways to keep that. Without `rounding` a particle keeps the counts themselves,
    which are multiplied by ``w_n / w_{n+1}`` after step n. With it a particle keeps what the
    compiled core has in 32 bits: the sums of ``w_i``, rounded by `round24` whenever one of them
    grows. They are multiplied by a power of two after each step, so that no weight overflows;
    divided by `unit` they are the counts.

    Attributes
    ----------
    machine, forget, half_life
        As in `InfiniteHMM`.
    rounding : bool
        Whether counts are rounded as in the compiled core.
    is_open : bool
        Whether the alphabet is open: what was seen in the whole stream is counted too.

    Examples
    --------
    >>> from mdvpf.reference import Memory
    >>> Memory(forget=1.0).left_after(3)
    0.75
    >>> Memory(half_life=0.5).left_after(3)
    0.25

    With rounding, step 3 adds 3 of ``forget=1`` as 1.5 times 2, and step 4 adds 4 as 1 times 4.
    In between all sums are halved:

    >>> memory = Memory(forget=1.0, rounding=True)
    >>> round(memory.unit(3), 9), memory.scale_after(3), memory.unit(4)
    (1.5, 0.5, 1.0)
    """

    machine: Machine = "moore"
    forget: float = 0.0
    half_life: float | timedelta | None = None
    rounding: bool = False
    is_open: bool = False

    @classmethod
    def of(cls, model: InfiniteHMM, *, rounding: bool = False) -> Memory:
        """Return the memory that the particles of a model have."""
        return cls(model.machine, model.forget, model.half_life, rounding, model.is_open)

    @property
    def fades(self) -> bool:
        """Whether counts fade at all; if not, they are integers."""
        return self.forget > 0.0 or self.half_life is not None

    @property
    def by_time(self) -> bool:
        """Whether counts fade by time, not by the number of steps."""
        return isinstance(self.half_life, timedelta)

    def left_after(self, step: int) -> float:
        """Return what is left at the next step of a count of one at `step`: w_n / w_{n+1}."""
        if isinstance(self.half_life, timedelta):
            return 1.0  # until the clock is moved
        if self.half_life is not None:
            return math.pow(2.0, -1.0 / self.half_life)
        return math.pow(step / (step + 1), self.forget)

    def weight(self, step: int, clock: float = 0.0) -> tuple[float, int]:
        """Return w_n as a significand from 1 to 2 and an exponent of two."""
        logarithm = self.forget * math.log2(step)
        if isinstance(self.half_life, timedelta):
            logarithm = clock
        elif self.half_life is not None:
            logarithm = step / self.half_life
        exponent = math.floor(logarithm)
        return math.pow(2.0, logarithm - exponent), exponent

    def unit(self, step: int, clock: float = 0.0) -> float:
        """Return what a particle keeps for a count of one at `step`."""
        return self.weight(step, clock)[0] if self.rounding else 1.0

    def scale_between(self, clock: float, later: float) -> float:
        """Return the factor for all that a particle keeps when its clock is moved."""
        if self.rounding:
            return math.ldexp(1.0, self.weight(1, clock)[1] - self.weight(1, later)[1])
        return math.pow(2.0, clock - later)

    def scale_after(self, step: int) -> float:
        """Return the factor by which all that a particle keeps is multiplied after `step`."""
        if self.rounding and not self.by_time:
            return math.ldexp(1.0, self.weight(step)[1] - self.weight(step + 1)[1])
        return self.left_after(step)

    def increased(self, kept: float, step: int, clock: float = 0.0) -> float:
        """Return what a particle keeps of a count that `step` increases by one."""
        return round24(kept + self.unit(step, clock), step) if self.rounding else kept + 1
