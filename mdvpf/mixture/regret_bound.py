"""A bound on the regret of a mixture against its members, for any stream.

Let u be the initial weight of a member, and P and Q the probabilities that the member and the
mixture give to the symbols. Bayes' rule multiplies the weight by P / Q in all. Every other change
of the weights keeps at least a part c of it, so the final weight is at least
``u * c1 * c2 * ... * P / Q``. No weight is above one, hence ``log P - log Q`` is at most
``-log u - log c1 - log c2 - ...``. A share of a keeps 1 - a. The birth of copies with mass m keeps
1 - m. A switch to another of N members keeps a / N. The death of a copy only increases the weights
of the others.
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
    losses = [rate_at(share, n) for n in range(start + 1, stop)]
    smallest = min(losses, default=0.0)
    losses += [mass for n, mass in masses.items() if n > start]
    bound -= math.fsum(math.log1p(-loss) for loss in losses)
    if n_switches:
        if smallest == 0.0:
            return math.inf
        bound += n_switches * math.log(n_members * (1 + n_levels) / smallest)
    return bound
