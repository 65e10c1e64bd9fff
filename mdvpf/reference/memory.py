"""How a particle remembers: what chooses a row of transitions, and how counts fade."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mdvpf.model import InfiniteHMM, Machine

GONE = 0.9999 / 1024
"""A transition or a state that was counted less than this has faded away.

The 0.9999 lets counts of exactly 1 / 1024 survive rounding.
"""

ROWS_COUNTED_EVERY = 64
"""With forgetting, the rows that reach a state are counted afresh before every such step."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The part of a model that says how a particle counts.

    Step i, numbered from 1 over the life of the filter, has the weight ``w_i = i**forget`` or
    ``2**(i / half_life)``. A count at step n is the sum of ``w_i / w_n`` over what was counted.

    Attributes
    ----------
    machine, forget, half_life
        As in `InfiniteHMM`.

    Examples
    --------
    >>> from mdvpf.reference import Memory
    >>> Memory(forget=1.0).left_after(3)
    0.75
    >>> Memory(half_life=0.5).left_after(3)
    0.25
    """

    machine: Machine = "moore"
    forget: float = 0.0
    half_life: float | None = None

    @classmethod
    def of(cls, model: InfiniteHMM) -> Memory:
        """Return the memory that the particles of a model have."""
        return cls(model.machine, model.forget, model.half_life)

    @property
    def fades(self) -> bool:
        """Whether counts fade at all; if not, they are integers."""
        return self.forget > 0.0 or self.half_life is not None

    def left_after(self, step: int) -> float:
        """Return what is left at the next step of a count of one at `step`: w_n / w_{n+1}."""
        if self.half_life is not None:
            return math.pow(2.0, -1.0 / self.half_life)
        return math.pow(step / (step + 1), self.forget)
