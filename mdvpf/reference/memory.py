"""How the counts of a particle fade and are rounded."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from datetime import timedelta

from mdvpf.model import InfiniteHMM, Machine, Product

GONE = 0.9999 / 1024
"""A transition or a state whose count is below this value has faded away.

The factor 0.9999 keeps counts of exactly 1 / 1024 in spite of rounding.
"""

ROWS_COUNTED_EVERY = 64
"""With forgetting, `rows_into` is recounted before every step that is a multiple of this number."""

_GOLDEN_RATIO = 0x9E3779B97F4A7C15  # the fractional part, times 2**64
_DROPPED_BITS = 29  # 53 significant bits of a double less 24
_AS_DOUBLE = struct.Struct("<d")
_AS_BITS = struct.Struct("<Q")


def round24(x: float, step: int) -> float:
    """Round a positive number to the 24 significant bits of a 32-bit float.

    A dither that depends only on the step, and is spread evenly over the steps, decides whether to
    round up or down. A sum of many small numbers is therefore right on average, whereas rounding to
    nearest would lose every small number added to a large sum. Scaling by a power of two commutes
    with this rounding.

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
    """The part of a model that determines how a particle counts.

    Step i, numbered from 1 over the life of the filter, has the weight ``w_i = i**forget`` or
    ``2**(i / half_life)``. If the half-life is a time span, the weight is ``2**c``, where c is the
    particle's `clock`: the number of half-lives elapsed. A count at step n is the sum of
    ``w_i / w_n`` over the steps that it counts.

    Particles store counts in one of two ways. Without `rounding` a particle stores the counts
    themselves and multiplies them by ``w_n / w_{n+1}`` after step n. With `rounding` it stores what
    the compiled core stores in 32 bits: sums of ``w_i``, rounded by `round24` whenever they grow.
    After each step they are multiplied by a power of two, so that no weight overflows. Dividing
    them by `unit` gives the counts.

    Attributes
    ----------
    machine, forget, half_life
        As in `InfiniteHMM`.
    rounding : bool
        Whether counts are rounded as in the compiled core.
    is_open : bool
        Whether the alphabet is open; particles then also count the symbols of the whole stream.
    open_channels : tuple of int
        In families over numbers, which numbers of an observation are symbols of open alphabets.

    Examples
    --------
    >>> from mdvpf.reference import Memory
    >>> Memory(forget=1.0).left_after(3)
    0.75
    >>> Memory(half_life=0.5).left_after(3)
    0.25

    With rounding and ``forget=1``, step 3 adds its weight 3 as 1.5 * 2, and step 4 adds 4 as 1 * 4.
    Between the two steps all sums are halved:

    >>> memory = Memory(forget=1.0, rounding=True)
    >>> round(memory.unit(3), 9), memory.scale_after(3), memory.unit(4)
    (1.5, 0.5, 1.0)
    """

    machine: Machine = "moore"
    forget: float = 0.0
    half_life: float | timedelta | None = None
    rounding: bool = False
    is_open: bool = False
    open_channels: tuple[int, ...] = ()

    @classmethod
    def of(cls, model: InfiniteHMM, *, rounding: bool = False) -> Memory:
        """Return the memory of the particles of a model."""
        channels = model.numbers.open_channels if isinstance(model.numbers, Product) else ()
        return cls(model.machine, model.forget, model.half_life, rounding, model.is_open, channels)

    @property
    def fades(self) -> bool:
        """Whether counts fade; otherwise they are integers."""
        return self.forget > 0.0 or self.half_life is not None

    @property
    def by_time(self) -> bool:
        """Whether counts fade by time, not by the number of steps."""
        return isinstance(self.half_life, timedelta)

    def left_after(self, step: int) -> float:
        """Return w_n / w_{n+1}, the value at the next step of a count of one at `step`."""
        if isinstance(self.half_life, timedelta):
            return 1.0  # only the clock makes counts fade
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
        """Return the stored value of a count of one at `step`."""
        return self.weight(step, clock)[0] if self.rounding else 1.0

    def scale_between(self, clock: float, later: float) -> float:
        """Return the factor of all stored values when the clock advances."""
        if self.rounding:
            return math.ldexp(1.0, self.weight(1, clock)[1] - self.weight(1, later)[1])
        return math.pow(2.0, clock - later)

    def scale_after(self, step: int) -> float:
        """Return the factor of all stored values after `step`."""
        if self.rounding and not self.by_time:
            return math.ldexp(1.0, self.weight(step)[1] - self.weight(step + 1)[1])
        return self.left_after(step)

    def increased(self, stored: float, step: int, clock: float = 0.0) -> float:
        """Return the stored value of a count after `step` increases it by one."""
        return round24(stored + self.unit(step, clock), step) if self.rounding else stored + 1
