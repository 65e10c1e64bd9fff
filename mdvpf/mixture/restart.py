"""When the members of a mixture restart: a geometric cover of time.

A predictor with many counts adapts slowly after a change. A fresh copy adapts quickly, but the time
of the change is unknown. Copies are therefore started regularly, after every `every` symbols, and
most of them live briefly. A copy born after ``r * 2**k * every`` symbols, r odd, has *level* k + 1.
It lives until ``(r + 2) * 2**k * every``, when the next copy of its level is born. At any time one
copy of each level is alive, about log2(n / every) in all. Whenever a change happens, some later
copy was born after it and has seen at least about a quarter of the symbols since (Hazan and
Seshadhri 2009, "Efficient learning algorithms for changing environments"; Daniely, Gonen and
Shalev-Shwartz 2015, "Strongly adaptive online learning").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mdvpf._support import validate
from mdvpf.mixture.weights import Rate, rate_at, read_rate


@dataclass(frozen=True, slots=True)
class Restart:
    """Times at which the members of a `Mixture` restart.

    Parameters
    ----------
    every : int, default 16
        Symbols between two births. The shortest life is twice as long.
    mass : float or "1/n", default 0.02
        Total weight of the copies born at one time. ``"1/n"`` is 1/(i + 1) at time ``i * every``;
        the regret then grows only with the log of time.
    levels : int, optional
        Largest number of levels: the longest life is ``2**levels * every``. By default a level is
        added whenever the stream has doubled.

    Examples
    --------
    >>> import mdvpf
    >>> restart = mdvpf.Restart(every=16)
    >>> [restart.level_at(n) for n in (16, 32, 48, 64, 65)]
    [1, 2, 1, 3, 0]
    """

    every: int = 16
    mass: Rate = 0.02
    levels: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "every", validate.integer("every", self.every, low=1))
        object.__setattr__(self, "mass", read_rate("mass", self.mass, zero=False))
        if self.levels is not None:
            levels = validate.integer("levels", self.levels, low=1, high=64, also=", or None")
            object.__setattr__(self, "levels", levels)

    def level_at(self, n: int) -> int:
        """Return the level, from 1, of the copies born after n symbols; 0 if none are born.

        Examples
        --------
        >>> import mdvpf
        >>> mdvpf.Restart(every=10, levels=2).level_at(40)
        0
        """
        count, rest = divmod(n, self.every)
        if rest or not count:
            return 0
        level = (count & -count).bit_length()
        return 0 if self.levels is not None and level > self.levels else level

    def n_levels(self, n: int) -> int:
        """Return the number of levels with living copies after n symbols.

        Examples
        --------
        >>> import mdvpf
        >>> [mdvpf.Restart(every=16).n_levels(n) for n in (15, 16, 1_000, 1_000_000)]
        [0, 1, 6, 16]
        """
        reached = (n // self.every).bit_length()
        return reached if self.levels is None else min(reached, self.levels)

    def next_birth(self, n: int, level: int) -> int:
        """Return the first time later than n at which copies of a level are born.

        Examples
        --------
        >>> import mdvpf
        >>> mdvpf.Restart(every=10).next_birth(50, level=1)
        70
        """
        step = self.every << (level - 1)
        count = n // step + 1
        return step * (count | 1)

    def births(self, start: int, stop: int) -> dict[int, tuple[int, float]]:
        """Return the level and mass of copies born after symbol t of start..stop-1, by t - start.

        Examples
        --------
        >>> import mdvpf
        >>> mdvpf.Restart(every=10, mass=0.5).births(5, 25)
        {4: (1, 0.5), 14: (2, 0.5)}
        """
        first = start - start % self.every + self.every
        times = range(first, stop + 1, self.every)
        return {
            n - 1 - start: (self.level_at(n), self.mass_at(n)) for n in times if self.level_at(n)
        }

    def mass_at(self, n: int) -> float:
        """Return the total weight of the copies born after n symbols.

        Examples
        --------
        >>> import mdvpf
        >>> mdvpf.Restart(every=10, mass="1/n").mass_at(30)
        0.25
        """
        return rate_at(self.mass, n // self.every)


def read_restart(restart: Any) -> Restart | None:
    """Return a `Restart` or None; an integer is read as its `every`."""
    if restart is None or isinstance(restart, Restart):
        return restart
    return Restart(every=validate.integer("restart", restart, low=1, also=", a Restart or None"))
