"""Chains and trees in plain Python: dicts of counts by context.

Each has `update`, `probability` and `new_sequence`, with a context for every key. If `n_symbols` is
None the alphabet is open: symbols are numbered by first appearance, and the base is that of
`OpenVocabulary`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from typing import Any

import numpy as np

START = "start"
MISSING = "missing"
Past = tuple[Any, ...]  # the latest first


class ContextTwin(ABC):
    strength, discount = 1.0, 0.5  # of the base of an open alphabet

    def __init__(self, n_symbols: int | None, depth: int) -> None:
        self.n_symbols, self.depth = n_symbols, depth
        self.seen: Counter[int] = Counter()
        self.pasts: dict[Any, Past] = {}

    def base(self, symbol: int) -> float:
        if self.n_symbols is not None:
            return 1.0 / self.n_symbols
        total = self.seen.total() + self.strength
        if symbol in self.seen:
            return (self.seen[symbol] - self.discount) / total
        return (self.strength + self.discount * len(self.seen)) / total

    @property
    def start(self) -> Past:
        return ()

    def past(self, key: Any = None) -> Past:
        return self.pasts.get(key, self.start)[: self.depth]

    @abstractmethod
    def probability(self, symbol: int, past: Past) -> float: ...

    @abstractmethod
    def count(self, symbol: int, past: Past) -> None: ...

    def after_missing(self, past: Past) -> Past:
        return (MISSING, *past)

    def distribution(self, key: Any = None) -> list[float]:
        n = len(self.seen) + 1 if self.n_symbols is None else self.n_symbols
        return [self.probability(symbol, self.past(key)) for symbol in range(n)]

    def update(self, symbol: int | None, key: Any = None) -> float:
        past = self.past(key)
        if symbol is None:
            self.pasts[key] = self.after_missing(past)
            return 0.0
        log_predictive = math.log(self.probability(symbol, past))
        self.count(symbol, past)
        self.seen[symbol] += 1
        self.pasts[key] = (symbol, *past)
        return log_predictive

    def new_sequence(self, key: Any = None) -> None:
        self.pasts.pop(key, None)


class ChainTwin(ContextTwin):
    def __init__(self, n_symbols: int | None, order: int, beta: float, decay: float = 1.0) -> None:
        super().__init__(n_symbols, order)
        self.decay = decay
        self.mass = beta if n_symbols is None else n_symbols * beta
        self.counts: defaultdict[Past, dict[int, float]] = defaultdict(dict)

    @property
    def start(self) -> Past:
        return (START,) * self.depth

    def probability(self, symbol: int, past: Past) -> float:
        counts = self.counts[past]
        own = counts.get(symbol, 0.0) + self.mass * self.base(symbol)
        return own / (sum(counts.values()) + self.mass)

    def count(self, symbol: int, past: Past) -> None:
        counts = {each: self.decay * n for each, n in self.counts[past].items()}
        counts[symbol] = counts.get(symbol, 0.0) + 1.0
        self.counts[past] = counts


class WeightingTwin(ContextTwin):
    """The probability of everything at a node is (leaf + product of the children) / 2."""

    def __init__(self, n_symbols: int | None, depth: int, beta: float) -> None:
        super().__init__(n_symbols, depth)
        self.mass = beta if n_symbols is None else n_symbols * beta
        self.counts: defaultdict[Past, Counter[int]] = defaultdict(Counter)
        self.log_leaf: defaultdict[Past, float] = defaultdict(float)
        self.log_tree: defaultdict[Past, float] = defaultdict(float)

    @property
    def start(self) -> Past:
        return (START,)

    def grown(self, symbol: int, past: Past) -> dict[Past, tuple[float, float]]:
        """Log probabilities of the nodes of a context, as a leaf and as a tree, with the symbol."""
        found: dict[Past, tuple[float, float]] = {}
        change = 0.0  # of the tree one symbol deeper
        for n in range(len(past), -1, -1):
            node = past[:n]
            counts = self.counts[node]
            own = (counts[symbol] + self.mass * self.base(symbol)) / (counts.total() + self.mass)
            leaf = self.log_leaf[node] + math.log(own)
            tree = leaf
            if n < len(past):
                children = sum(
                    log for child, log in self.log_tree.items() if child and child[:-1] == node
                )
                tree = float(np.logaddexp(leaf, children + change)) - math.log(2.0)
            change = tree - self.log_tree[node]
            found[node] = leaf, tree
        return found

    def probability(self, symbol: int, past: Past) -> float:
        return math.exp(self.grown(symbol, past)[()][1] - self.log_tree[()])

    def count(self, symbol: int, past: Past) -> None:
        for node, (leaf, tree) in self.grown(symbol, past).items():
            self.log_leaf[node], self.log_tree[node] = leaf, tree
            self.counts[node][symbol] += 1


class PitmanYorTwin(ContextTwin):
    def __init__(self, n_symbols: int | None, depth: int, discount: float, strength: float) -> None:
        super().__init__(n_symbols, depth)
        self.settings = discount, strength
        self.counts: defaultdict[Past, Counter[int]] = defaultdict(Counter)

    def probability(self, symbol: int, past: Past) -> float:
        discount, strength = self.settings
        found = self.base(symbol)
        for n in range(len(past) + 1):
            counts = self.counts[past[:n]]
            if counts:
                own = max(counts[symbol] - discount, 0.0) if symbol in counts else 0.0
                found = own + (strength + discount * len(counts)) * found
                found /= counts.total() + strength
        return found

    def count(self, symbol: int, past: Past) -> None:
        for n in range(len(past), -1, -1):
            self.counts[past[:n]][symbol] += 1
            if self.counts[past[:n]][symbol] > 1:
                break

    def after_missing(self, past: Past) -> Past:
        return ()


class MixtureTwin:
    """Trees of several settings, weighted by how well they predicted."""

    def __init__(self, trees: list[PitmanYorTwin], share: float) -> None:
        self.trees, self.share = trees, share
        self.weights = np.full(len(trees), 1.0 / len(trees))

    def distribution(self, key: Any = None) -> list[float]:
        found: list[float] = (
            self.weights @ np.array([tree.distribution(key) for tree in self.trees])
        ).tolist()
        return found

    def update(self, symbol: int | None, key: Any = None) -> float:
        likelihoods = np.exp([tree.update(symbol, key) for tree in self.trees])
        if symbol is None:
            return 0.0
        probability = float(self.weights @ likelihoods)
        self.weights = self.weights * likelihoods / probability
        self.weights = (1.0 - self.share) * self.weights + self.share / len(self.trees)
        return math.log(probability)

    def new_sequence(self, key: Any = None) -> None:
        for tree in self.trees:
            tree.new_sequence(key)
