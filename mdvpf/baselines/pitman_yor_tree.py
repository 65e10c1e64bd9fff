"""`PitmanYorTree`: contexts up to a depth, each of which backs off to the next shorter one."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf._support.attributes import ReadOnly
from mdvpf.baselines._tree import CountTree
from mdvpf.baselines.context_predictor import (
    LARGEST_COUNT,
    PITMAN_YOR,
    ContextPredictor,
    dump_tree,
    fill_positions,
    frozen_value,
    positions_to_arrays,
    read_context,
    read_frozen,
    read_n_symbols,
)
from mdvpf.baselines.saved_alphabet import check_seen, fill_seen, with_seen
from mdvpf.checkpoint import State, narrow, register, require, widen


@register("PitmanYorTree")
class PitmanYorTree(ContextPredictor):
    """Hierarchical Pitman-Yor predictor with one table for each type: interpolated Kneser-Ney.

    It is a Sequence Memoizer of bounded depth (Wood et al. 2011). Let u be a context (the last
    symbols of the sequence) with counts ``c_u(y)``, their sum ``c_u`` and ``t_u`` distinct symbols,
    and let v be the context that is one symbol shorter::

        P_u(y) = (max(c_u(y) - discount, 0) + (strength + discount * t_u) * P_v(y))
                 / (c_u + strength)

    ``P_u = P_v`` where ``c_u = 0``. The empty context backs off to ``1 / n_symbols``, or with an
    open alphabet to q(y), the base distribution of an `OpenVocabulary` with strength 1 and discount
    0.5. A symbol adds one to its count in the longest context, which has `depth` symbols or fewer
    at the start of a sequence. It also adds one in each shorter context, down to the first one that
    has already seen it. A missing symbol is not counted and empties the context.

    Parameters
    ----------
    n_symbols : int or None
        Size of the alphabet; None if it is open: symbols are numbered by first appearance, and
        `n_symbols` is how many were seen.
    depth : int, default 5
        Largest length of a context.
    discount : float, default 0.8
        Amount that is subtracted from every count: at least 0 and below 1.
    strength : float, default 0.3
        Pseudo-count of the prediction of the shorter context: at least 0, and positive if
        `discount` is 0.
    max_nodes : int, optional
        Largest number of contexts, at least ``depth + 1``. Beyond it the least recently used
        context is evicted with its counts; it is always a leaf of the tree. Shorter contexts keep
        their counts (Bartlett, Pfau and Wood 2010). Eviction is deterministic, so results are
        reproducible. By default there is no limit.

    Attributes
    ----------
    depth, discount, strength, max_nodes
        As passed.

    See Also
    --------
    PitmanYorMixture : many settings on one tree, mixed by evidence.

    References
    ----------
    S. Goldwater, T. L. Griffiths and M. Johnson (2006). Interpolating between types and tokens by
    estimating power-law generators.

    F. Wood, J. Gasthaus, C. Archambeau, L. James and others (2011). The Sequence Memoizer.

    N. Bartlett, D. Pfau and F. Wood (2010). Forgetting counts: constant memory inference for a
    dependent hierarchical Pitman-Yor process.

    Examples
    --------
    >>> import mdvpf
    >>> tree = mdvpf.PitmanYorTree(n_symbols=3, depth=2)
    >>> _ = tree.run([0, 1, 2] * 10)
    >>> tree.predict_proba().round(3).tolist()
    [0.949, 0.026, 0.026]

    With an open alphabet the last entry is the probability of an unseen symbol:

    >>> tree = mdvpf.PitmanYorTree(None, depth=2)
    >>> _ = tree.run([0, 1, 2] * 10)
    >>> tree.n_symbols, tree.predict_proba().round(3).tolist()
    (3, [0.947, 0.024, 0.024, 0.005])
    """

    _rule = PITMAN_YOR

    depth: ReadOnly[int] = ReadOnly()
    discount: ReadOnly[float] = ReadOnly()
    strength: ReadOnly[float] = ReadOnly()
    max_nodes: ReadOnly[int | None] = ReadOnly()

    def __init__(
        self,
        n_symbols: int | None,
        depth: int = 5,
        discount: float = 0.8,
        strength: float = 0.3,
        *,
        max_nodes: int | None = None,
    ) -> None:
        n_symbols = read_n_symbols(n_symbols)
        self.depth = validate.integer("depth", depth, low=0)
        self.discount = validate.discount("discount", discount)
        self.strength = read_strength("strength", strength, self.discount)
        self.max_nodes = read_max_nodes(max_nodes, self.depth)
        super().__init__(
            n_symbols,
            self.depth,
            pairs=[(self.discount, self.strength)],
            depths=[self.depth],
            max_nodes=self.max_nodes or 0,
        )

    def __repr__(self) -> str:
        limit = "" if self.max_nodes is None else f", max_nodes={self.max_nodes}"
        return (
            f"PitmanYorTree({self._n_symbols}, depth={self.depth}, discount={self.discount}, "
            f"strength={self.strength}{limit})"
        )

    def _to_state(self) -> State:
        values = {
            "n_symbols": self._n_symbols,
            "depth": self.depth,
            "discount": self.discount,
            "strength": self.strength,
            "max_nodes": self.max_nodes,
            "context": self._context.symbols(),
            **frozen_value(self),
        }
        arrays = tree_to_arrays(self._tree, ("counts",))
        state = State(values, arrays | positions_to_arrays(self._context))
        return with_seen(state, self._tree, is_open=self._n_symbols is None)

    @classmethod
    def _from_state(cls, state: State, given: dict[str, Any]) -> Self:
        values = dict(state.values)
        context, is_frozen = values.pop("context"), read_frozen(values)
        self = object.__new__(cls)
        PitmanYorTree.__init__(self, **values)
        self._learns = not is_frozen
        is_open = self._n_symbols is None
        fill_seen(self._tree, state, is_open=is_open)
        _, owners, symbols, counts = tree_from_arrays(self._tree, state, ("counts",))
        # The first occurrence of a symbol in a context is counted in the next shorter one, too.
        own = counts[:, 0] - (owners > 0)
        is_exact = self.max_nodes is None
        check_seen(self._tree, symbols, own, is_open=is_open, is_exact=is_exact)
        self._context.replace(read_context(context, self.n_symbols, self.depth, low=0))
        lengths = range(self.depth + 1)
        fill_positions(self._context, state, self.n_symbols, lengths, low=0)
        return self


# -- shared with PitmanYorMixture ----------------------------------------------------------------


def read_strength(name: str, value: Any, discount: float) -> float:
    """Return a strength that is valid with the discount, or raise."""
    strength = validate.real(name, value, low=0.0, high=validate.LARGEST_PARAMETER)
    if discount == 0.0 and strength < validate.SMALLEST_PARAMETER:
        raise ValueError(
            f"{name}={value!r}: expected at least {validate.SMALLEST_PARAMETER:g} with discount 0"
        )
    return strength


def read_max_nodes(max_nodes: Any, depth: int) -> int | None:
    """Return a limit on the nodes, or raise."""
    if max_nodes is None:
        return None
    return validate.integer("max_nodes", max_nodes, low=depth + 1, also=", or None")


def tree_to_arrays(tree: CountTree, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Return the contexts of a tree, and its counts under the given names."""
    dump = dump_tree(tree, node_width=len(names), entry_width=len(names))
    arrays: dict[str, NDArray[Any]] = {
        "parents": dump.parents,
        "edges": dump.edges,
        "owners": dump.owners,
        "symbols": dump.symbols,
    }
    arrays |= {name: dump.entry_values[:, i] for i, name in enumerate(names)}
    return {name: narrow(array.astype(np.uint64)) for name, array in arrays.items()}


def tree_from_arrays(
    tree: CountTree, state: State, names: tuple[str, ...]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Restore what `tree_to_arrays` returned to a new tree, or raise.

    Returns the parents of nodes, and the owners, symbols and counts of entries. In the last column
    of the counts, a context must have counted each symbol at least once for every context that is
    one symbol longer and has seen it.
    """
    n_symbols = tree.n_symbols
    shapes = ("parents", "edges", "owners", "symbols", *names)
    parents, edges, owners, symbols, *counts = (
        widen(state.arrays.pop(name), "<u8") for name in shapes
    )
    n = len(parents) + 1
    require(len(edges) == n - 1, "a node without a symbol")
    require(
        all(len(each) == len(owners) for each in (symbols, *counts)),
        "arrays of counts with different lengths",
    )
    require(np.all(parents < np.arange(1, n, dtype=np.uint64)), "a node stored before its parent")
    require(np.all(edges < n_symbols), "a symbol that is not of the alphabet")
    require(
        np.all(owners < n) and np.all(symbols < n_symbols), "a count of an unknown node or symbol"
    )
    require(all(np.all(each <= LARGEST_COUNT) for each in counts), "a count is too large")
    require(np.all(counts[0] >= 1), "a count of zero")
    values = np.column_stack(counts).astype(np.float64)
    owners = owners.astype(np.int64)
    totals = np.zeros((n, len(names)))
    for i in range(len(names)):
        totals[:, i] = np.bincount(owners, weights=values[:, i], minlength=n)
    require(np.all(totals <= LARGEST_COUNT), "a count is too large")
    require(n == 1 or np.all(totals[:, 0] > 0), "a context has seen nothing")
    tree.fill(
        parents.astype(np.uint32),
        edges.astype(np.int32),
        totals,
        owners.astype(np.uint32),
        symbols.astype(np.int32),
        values,
    )
    parents = parents.astype(np.int64)
    symbols = symbols.astype(np.int64)
    _check_types(parents, owners, symbols, values, n_symbols)
    return parents, owners, symbols, values


def _check_types(
    parents: NDArray[np.int64],
    owners: NDArray[np.int64],
    symbols: NDArray[np.int64],
    values: NDArray[np.float64],
    n_symbols: int,
) -> None:
    """Check that shorter contexts have counted the symbols that longer ones have seen."""
    order = np.lexsort((symbols, owners))
    keys = owners[order] * n_symbols + symbols[order]
    is_longer = owners > 0
    above = parents[owners[is_longer] - 1] * n_symbols + symbols[is_longer]
    index = np.searchsorted(keys, above)
    found = index < len(keys)
    found[found] = keys[index[found]] == above[found]
    require(np.all(found), "a shorter context has not seen a symbol")
    seen = np.bincount(index, minlength=len(keys))
    require(np.all(values[order, -1] >= seen), "a context has counted too little")
