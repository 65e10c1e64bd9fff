"""How far a mixture can fall behind its members, whatever the symbols.

A member that began with the weight u, and kept at least a part c of it in each of the changes that
do not look at predictions, has the weight ``u * c1 * c2 * ... * P / Q`` in the end, where P and Q
are the probabilities that it and the mixture gave to the symbols. No weight is above one: so
``log P - log Q`` is at most ``-log u - log c1 - log c2 - ...``. What a change leaves is 1 - a after
a share of a, and 1 - m when others are born with a mass of m. To switch to another of N members
leaves a / N. Whoever dies leaves the others more than they had.
"""

from __future__ import annotations

import math

from mdvpf.mixture.restart import Restart
from mdvpf.mixture.weights import Rate, rate_at


def regret_bound(
    n_members: int, share: Rate, restart: Restart | None, start: int, stop: int, n_switches: int
) -> float:
    """Return the bound on the symbols from `start` to `stop`; see `Mixture.regret_bound`."""
    bound = math.log(n_members)
    masses: dict[int, float] = {}  # by time of birth
    n_levels = 0
    if restart is not None:
        times = range(0, stop, restart.every)[1:]
        masses = {n: restart.mass_at(n) for n in times if restart.level_at(n)}
        n_levels = restart.n_levels(stop - 1)
    if start:
        if start not in masses:
            raise ValueError(f"start={start}: expected 0, or a time at which copies are born")
        bound -= math.log(masses[start])
    taken = [rate_at(share, n) for n in range(start + 1, stop)]
    smallest = min(taken, default=0.0)
    taken += [mass for n, mass in masses.items() if n > start]
    bound -= math.fsum(math.log1p(-part) for part in taken)
    if n_switches:
        if smallest == 0.0:
            return math.inf
        bound += n_switches * math.log(n_members * (1 + n_levels) / smallest)
    return bound
