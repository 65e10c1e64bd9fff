"""Context-tree weighting (Willems, Shtarkov and Tjalkens 1995), for any alphabet.

The probability of the symbols at a node is an even mixture of two terms: the estimate of the node
as a leaf, and the product of the probabilities at its children. A node stores only the ratio of
the two. This is enough to mix the predictions along a path, from the deepest node to the root.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from mdvpf._support import validate
from mdvpf._support.attributes import ReadOnly
from mdvpf.baselines.context_predictor import (
    WEIGHTING,
    ContextPredictor,
    counts_from_arrays,
    counts_to_arrays,
    dump_tree,
    fill_positions,
    frozen_value,
    positions_to_arrays,
    read_beta,
    read_context,
    read_frozen,
    read_n_symbols,
)
from mdvpf.baselines.saved_alphabet import check_seen, fill_seen, with_seen
from mdvpf.checkpoint import State, read_array, register, require


@register("ContextTree")
class ContextTree(ContextPredictor):
    """Context-tree weighting: the exact average over all variable-order chains up to a depth.

    A tree defines for each context how many symbols it uses. Each leaf has a Dirichlet prior over
    the next symbol (the KT estimator for `beta` = 1/2). In the prior over trees, a node that can be
    split is split with probability 1/2. The sum over all trees is computed along the path of the
    current context, from its deepest node to the root, in time proportional to `depth`.

    The start of a sequence counts as a symbol before its first one. So the first `depth` symbols
    are predicted from what followed the starts of earlier sequences.

    Parameters
    ----------
    n_symbols : int or None
        Size of the alphabet; None for an open one: symbols are then numbered by first appearance,
        and `n_symbols` is the number of symbols seen so far.
    depth : int, default 3
        Largest length of a context.
    beta : float, default 0.5, or 1 with an open alphabet
        Pseudo-count of every symbol in every context. With an open alphabet it is the total over
        all symbols: a leaf predicts y with probability ``(n[y] + beta * q(y)) / (n + beta)``, where
        q is the base distribution of an `OpenVocabulary` with default strength and discount.

    Examples
    --------
    >>> import mdvpf
    >>> tree = mdvpf.ContextTree(n_symbols=2, depth=2)
    >>> _ = tree.run([0, 0, 1] * 20)
    >>> tree.predict_proba().round(2).tolist()
    [0.97, 0.03]
    """

    _rule = WEIGHTING

    depth: ReadOnly[int] = ReadOnly()
    beta: ReadOnly[float] = ReadOnly()

    def __init__(self, n_symbols: int | None, depth: int = 3, beta: float | None = None) -> None:
        n_symbols = read_n_symbols(n_symbols)
        self.depth = validate.integer("depth", depth, low=0)
        self.beta = read_beta(beta, 0.5, n_symbols)
        super().__init__(n_symbols, self.depth, beta=self.beta)

    def __repr__(self) -> str:
        return f"ContextTree({self._n_symbols}, depth={self.depth}, beta={self.beta})"

    # -- checkpoints -----------------------------------------------------------------------

    # A child is saved as parent * (n_symbols + 2) + symbol + 2; the two extra symbols are a
    # missing symbol and the start.

    def _to_state(self) -> State:
        values = {
            "n_symbols": self._n_symbols,
            "depth": self.depth,
            "beta": self.beta,
            "context": self._context.symbols(),
            **frozen_value(self),
        }
        n_symbols = self._tree.n_symbols
        dump = dump_tree(self._tree, node_width=2, entry_width=1)
        arrays = {
            # All nodes but the root, in the order of their numbers.
            "children": dump.parents.astype(np.int64) * (n_symbols + 2) + dump.edges + 2,
            "totals": dump.node_values[:, 0].astype(np.int64),
            "odds": dump.node_values[:, 1],
        }
        counts = dump.entry_values[:, 0].astype(np.int64)
        arrays |= counts_to_arrays(dump.owners, dump.symbols, counts, n_symbols)
        state = State(values, arrays | positions_to_arrays(self._context))
        return with_seen(state, self._tree, is_open=self._n_symbols is None)

    @classmethod
    def _from_state(cls, state: State, given: dict[str, Any]) -> Self:
        values = dict(state.values)
        context, is_frozen = values.pop("context"), read_frozen(values)
        self = object.__new__(cls)
        ContextTree.__init__(self, **values)
        self._learns = not is_frozen
        is_open = self._n_symbols is None
        fill_seen(self._tree, state, is_open=is_open)
        n_symbols = self._tree.n_symbols
        children = read_array(state, "children", "<i8", (None,))
        n = len(children) + 1
        totals = read_array(state, "totals", "<i8", (n,))
        odds = read_array(state, "odds", "<f8", (n,))
        parents = children // (n_symbols + 2)
        is_ordered = (children >= 0) & (parents < np.arange(1, n))
        require(np.all(is_ordered), "a node stored before its parent")
        require(np.all(np.isfinite(odds)), "odds that are not finite")
        owners, symbols, counts = counts_from_arrays(state, "<i8", totals, n_symbols)
        at_root = owners == 0
        check_seen(self._tree, symbols[at_root], counts[at_root], is_open=is_open)
        self._tree.fill(
            parents.astype(np.uint32),
            (children % (n_symbols + 2) - 2).astype(np.int32),
            np.column_stack([totals.astype(np.float64), odds]),
            owners.astype(np.uint32),
            symbols,
            counts[:, None],
        )
        self._context.replace(read_context(context, self.n_symbols, self.depth))
        fill_positions(self._context, state, self.n_symbols, range(self.depth + 1))
        return self
