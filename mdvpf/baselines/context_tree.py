"""Context-tree weighting (Willems, Shtarkov and Tjalkens 1995), for any alphabet.

The probability of everything seen at a node is an even mixture of two: one estimate for the node
as a leaf, and the product of what its children say. Of the two only the ratio has to be kept: with
it, the predictions along one path are mixed from the deepest node up to the root.
"""

from __future__ import annotations

import math
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf.baselines.base import (
    START,
    Baseline,
    counts_from_arrays,
    counts_to_arrays,
    dirichlet,
    read_context,
    row,
)
from mdvpf.checkpoint import State, register, require, taken
from mdvpf.predictor import MISSING

T = TypeVar("T", float, NDArray[np.float64])


@register("ContextTree")
class ContextTree(Baseline):
    """Context-tree weighting: chains of every variable order up to a depth, averaged exactly.

    A tree says for each context how far back to look. Each of its leaves has a Dirichlet prior over
    the next symbol (the KT estimator with `beta` = 1/2), and a node that could be split is with
    probability 1/2 in the prior over trees. The sum over all trees is taken along the path of
    the present context, from its deepest node to the root, in time proportional to `depth`.

    A context that reaches back to the start of the sequence ends there, with the start as its last
    symbol: the first `depth` symbols of a sequence are predicted by what followed other starts, as
    far as the tree looks back that far.

    Parameters
    ----------
    n_symbols : int
        Size of the alphabet.
    depth : int, default 3
        How many symbols a context has at the most.
    beta : float, default 0.5
        Pseudo-count of every symbol in every context.

    Examples
    --------
    >>> import mdvpf
    >>> tree = mdvpf.ContextTree(n_symbols=2, depth=2)
    >>> _ = tree.run([0, 0, 1] * 20)
    >>> tree.predict_proba().round(2).tolist()
    [0.97, 0.03]
    """

    _tables = ("_children", "_odds", "_totals", "_counts")

    def __init__(self, n_symbols: int, depth: int = 3, beta: float = 0.5) -> None:
        super().__init__(n_symbols)
        self.depth = validate.integer("depth", depth, low=0)
        self.beta = validate.hyper_parameter("beta", beta)
        # Nodes are numbered as they appear, the root is 0. A child is found by its parent and the
        # symbol, missing symbols and starts included; a count by its node and symbol.
        self._children: dict[int, int] = {}
        self._counts: dict[int, int] = {}
        self._totals = [0]
        self._odds = [0.0]  # log odds that a node is not split, given the symbols so far
        self.new_sequence()

    def __repr__(self) -> str:
        return f"ContextTree({self._n_symbols}, depth={self.depth}, beta={self.beta})"

    def _size(self) -> int:
        return len(self._totals)

    def new_sequence(self) -> None:
        """End the sequence: the next symbol follows the context of a start."""
        self._context: tuple[int, ...] = (START,)[: self.depth]  # the latest first

    def predict_proba(self) -> NDArray[np.float64]:
        """Return the distribution of the next symbol."""
        path = [0]
        for before in self._context:
            child = self._children.get(self._key(path[-1], before))
            if child is None:
                # Nothing was seen below: all trees predict alike.
                mixed = np.full(self._n_symbols, 1.0 / self._n_symbols)
                break
            path.append(child)
        else:
            mixed = self._estimate(path.pop())
        for node in reversed(path):
            mixed = _mix(self._estimate(node), mixed, self._odds[node])
        return mixed

    def _estimate(self, node: int) -> NDArray[np.float64]:
        """Return the distribution of the next symbol if the node is a leaf."""
        counts = row(self._counts, node, self._n_symbols)
        return dirichlet(counts, self._totals[node], self.beta)

    def _key(self, node: int, before: int) -> int:
        return node * (self._n_symbols + 2) + before + 2

    def _advance(self, symbol: int) -> float:
        context = self._context
        if self.depth:
            self._context = (symbol, *context)[: self.depth]
        if symbol == MISSING:
            return 0.0
        # All in one loop: the calls of a method for each node would take longer than the rest.
        counts, totals, odds = self._counts, self._totals, self._odds
        n_symbols, beta = self._n_symbols, self.beta
        mixed = -1.0  # below the leaf there is nothing
        for node in self._path(context):
            key = node * n_symbols + symbol
            count = counts.get(key, 0)
            total = totals[node]
            counts[key] = count + 1
            totals[node] = total + 1
            own = (count + beta) / (total + n_symbols * beta)  # if the node is a leaf
            if mixed < 0.0:
                mixed = own
                continue
            below = mixed
            mixed = _mix(own, below, odds[node])
            odds[node] += math.log(own / below)
        return math.log(mixed)

    def _path(self, context: tuple[int, ...]) -> list[int]:
        """Return the nodes of a context, the deepest first; those that are missing are made."""
        node, path = 0, [0]
        for before in context:
            key = self._key(node, before)
            child = self._children.get(key)
            if child is None:
                child = self._children[key] = len(self._totals)
                self._totals.append(0)
                self._odds.append(0.0)
            path.append(child)
            node = child
        path.reverse()
        return path

    # -- checkpoints -----------------------------------------------------------------------

    def _to_state(self) -> State:
        values = {
            "n_symbols": self._n_symbols,
            "depth": self.depth,
            "beta": self.beta,
            "context": list(self._context),
        }
        arrays = {
            # The root aside, nodes are in the order of their numbers.
            "children": np.array(list(self._children), dtype=np.int64),
            "totals": np.array(self._totals, dtype=np.int64),
            "odds": np.array(self._odds, dtype=np.float64),
        }
        return State(values, arrays | counts_to_arrays(self._counts, "<i8"))

    @classmethod
    def _from_state(cls, state: State, given: dict[str, Any]) -> Self:
        values = dict(state.values)
        context = values.pop("context")
        self = object.__new__(cls)
        ContextTree.__init__(self, **values)
        children = taken(state, "children", "<i8", (None,))
        n = len(children) + 1
        totals = taken(state, "totals", "<i8", (n,))
        odds = taken(state, "odds", "<f8", (n,))
        parents = children // (self._n_symbols + 2)
        require(np.all((children >= 0) & (parents < np.arange(1, n))), "a node before its parent")
        require(np.all(np.isfinite(odds)), "odds that are not numbers")
        depths = [0]
        for parent in parents.tolist():
            depths.append(depths[parent] + 1)
        require(max(depths) <= self.depth, "a node is too deep")
        self._children = {key: number for number, key in enumerate(children.tolist(), 1)}
        require(len(self._children) == n - 1, "a node occurs twice")
        self._counts = counts_from_arrays(state, "<i8", totals, self._n_symbols)
        self._totals = totals.tolist()
        self._odds = odds.tolist()
        self._context = read_context(context, self._n_symbols, self.depth)
        return self


def _mix(own: T, below: T, odds: float) -> T:
    """Return the mean of two predictions, given the log odds of the first."""
    if odds >= 0.0:
        ratio = math.exp(-odds)
        return (own + ratio * below) / (1.0 + ratio)
    ratio = math.exp(odds)
    return (ratio * own + below) / (1.0 + ratio)
