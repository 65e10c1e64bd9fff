"""`PitmanYorTree` in plain Python: the formula, and nothing else."""

from __future__ import annotations

import math
from collections import defaultdict

from mdvpf.reference.particle import Symbol


class ReferencePitmanYorTree:
    """`PitmanYorTree` in plain Python: counts by context, a tuple with the latest symbol last.

    Examples
    --------
    >>> import math
    >>> from mdvpf.reference import ReferencePitmanYorTree
    >>> tree = ReferencePitmanYorTree(2, depth=1, discount=0.5, strength=0.5)
    >>> [round(math.exp(tree.update(symbol)), 4) for symbol in (0, 0, None, 1)]
    [0.5, 0.6667, 1.0, 0.2]
    """

    def __init__(self, n_symbols: int, depth: int, discount: float, strength: float) -> None:
        self.n_symbols, self.depth = n_symbols, depth
        self.discount, self.strength = discount, strength
        self.counts: defaultdict[tuple[int, ...], dict[int, int]] = defaultdict(dict)
        self.context: tuple[int, ...] = ()

    def probability(self, symbol: int, context: tuple[int, ...]) -> float:
        """Return P_u(y), of a context u of any length."""
        below = self.probability(symbol, context[1:]) if context else 1.0 / self.n_symbols
        seen = self.counts[context]
        if not seen:
            return below
        own = max(seen.get(symbol, 0) - self.discount, 0.0)
        base_mass = self.strength + self.discount * len(seen)
        return (own + base_mass * below) / (sum(seen.values()) + self.strength)

    def update(self, symbol: Symbol) -> float:
        """Absorb a symbol, None if it is missing, and return its log predictive."""
        context, self.context = self.context, ()
        if symbol is None:
            return 0.0
        log_predictive = math.log(self.probability(symbol, context))
        self.context = (*context, symbol)[-self.depth :] if self.depth else ()
        for start in range(len(context) + 1):
            seen = self.counts[context[start:]]
            seen[symbol] = seen.get(symbol, 0) + 1
            if seen[symbol] > 1:
                break
        return log_predictive
