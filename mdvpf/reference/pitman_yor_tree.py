"""`PitmanYorTree` in plain Python."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable


class ReferencePitmanYorTree:
    """`PitmanYorTree` in plain Python: counts by context, a tuple with the latest symbol last.

    Every key has its own context. With ``n_symbols=None`` the alphabet is open, and the base
    distribution is q of `OpenVocabulary` with strength 1 and discount 0.5.

    Examples
    --------
    >>> import math
    >>> from mdvpf.reference import ReferencePitmanYorTree
    >>> tree = ReferencePitmanYorTree(2, depth=1, discount=0.5, strength=0.5)
    >>> [round(math.exp(tree.update(symbol)), 4) for symbol in (0, 0, None, 1)]
    [0.5, 0.6667, 1.0, 0.2]
    """

    def __init__(self, n_symbols: int | None, depth: int, discount: float, strength: float) -> None:
        self.n_symbols, self.depth = n_symbols, depth
        self.discount, self.strength = discount, strength
        self.counts: defaultdict[tuple[int, ...], dict[int, int]] = defaultdict(dict)
        self.contexts: dict[Hashable, tuple[int, ...]] = {}
        self.seen: Counter[int] = Counter()  # how often each symbol was seen, over all keys

    @property
    def context(self) -> tuple[int, ...]:
        """The context of key=None."""
        return self.contexts.get(None, ())

    @context.setter
    def context(self, context: tuple[int, ...]) -> None:
        self.contexts[None] = context

    def base(self, symbol: int) -> float:
        """Return the base probability, below the empty context."""
        if self.n_symbols is not None:
            return 1.0 / self.n_symbols
        strength, discount = 1.0, 0.5
        total = self.seen.total() + strength
        if symbol in self.seen:
            return (self.seen[symbol] - discount) / total
        return (strength + discount * len(self.seen)) / total

    def probability(self, symbol: int, context: tuple[int, ...]) -> float:
        """Return P_u(y) for a context u of any length."""
        below = self.probability(symbol, context[1:]) if context else self.base(symbol)
        seen = self.counts[context]
        if not seen:
            return below
        own = max(seen.get(symbol, 0) - self.discount, 0.0)
        base_mass = self.strength + self.discount * len(seen)
        return (own + base_mass * below) / (sum(seen.values()) + self.strength)

    def new_sequence(self, key: Hashable = None) -> None:
        """End the sequence of a key."""
        self.contexts.pop(key, None)

    def update(self, symbol: int | None, key: Hashable = None) -> float:
        """Absorb a symbol of a key, None if it is missing, and return its log predictive."""
        context = self.contexts.pop(key, ())
        if symbol is None:
            return 0.0
        log_predictive = math.log(self.probability(symbol, context))
        self.contexts[key] = (*context, symbol)[-self.depth :] if self.depth else ()
        self.seen[symbol] += 1
        for start in range(len(context) + 1):
            seen = self.counts[context[start:]]
            seen[symbol] = seen.get(symbol, 0) + 1
            if seen[symbol] > 1:
                break
        return log_predictive
