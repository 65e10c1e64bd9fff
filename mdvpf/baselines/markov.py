"""`Markov`: Markov chains of a fixed order."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf._support.attributes import ReadOnly
from mdvpf.baselines.context_predictor import (
    CHAIN,
    START,
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

_LARGEST_UNIT = 1e100


@register("Markov")
class Markov(ContextPredictor):
    """Markov chain of a fixed order, with a symmetric Dirichlet prior for every context.

    If y followed a context ``n[y]`` times out of ``n``, its probability after this context is
    ``(n[y] + beta) / (n + n_symbols * beta)``. With an open alphabet it is
    ``(n[y] + beta * q(y)) / (n + beta)``, where q is the base distribution of an `OpenVocabulary`
    with default strength and discount.

    Each occurrence of a context multiplies its counts by `decay`, so about its last
    ``1 / (1 - decay)`` occurrences count. Counts of other contexts do not decay, nor does q.

    Parameters
    ----------
    n_symbols : int or None
        Size of the alphabet; None if it is open: symbols are numbered by first appearance, and
        `n_symbols` is how many were seen.
    order : int, default 1
        Length of a context; with 0 the symbols are independent.
    beta : float, default 0.3, or 1 with an open alphabet
        Pseudo-count of every symbol in every context; with an open alphabet the total over all
        symbols.
    decay : float, default 1.0
        Factor of the counts of a context when it occurs again, above 0 and at most 1.

    Examples
    --------
    >>> import mdvpf
    >>> chain = mdvpf.Markov(n_symbols=3, order=1, beta=0.5)
    >>> _ = chain.run([0, 1, 2, 0, 1, 2, 0])
    >>> chain.predict_proba().round(3).tolist()
    [0.143, 0.714, 0.143]
    """

    _rule = CHAIN

    order: ReadOnly[int] = ReadOnly()
    beta: ReadOnly[float] = ReadOnly()
    decay: ReadOnly[float] = ReadOnly()

    def __init__(
        self,
        n_symbols: int | None,
        order: int = 1,
        beta: float | None = None,
        decay: float = 1.0,
    ) -> None:
        n_symbols = read_n_symbols(n_symbols)
        self.order = validate.integer("order", order, low=0)
        self.beta = read_beta(beta, 0.3, n_symbols)
        self.decay = validate.real("decay", decay, low=validate.SMALLEST_PARAMETER, high=1.0)
        super().__init__(n_symbols, self.order, beta=self.beta, decay=self.decay)

    def __repr__(self) -> str:
        return (
            f"Markov({self._n_symbols}, order={self.order}, beta={self.beta}, decay={self.decay})"
        )

    # -- checkpoints -----------------------------------------------------------------------

    # A file lists contexts in the order of first appearance, each with its latest symbol last. In
    # the tree they are the nodes of depth `order`, whose paths begin with the latest symbol.

    def _to_state(self) -> State:
        values = {
            "n_symbols": self._n_symbols,
            "order": self.order,
            "beta": self.beta,
            "decay": self.decay,
            "context": self._context.symbols()[::-1],
            **frozen_value(self),
        }
        dump = dump_tree(self._tree, node_width=2, entry_width=1)
        parents = np.concatenate([[0], dump.parents]).astype(np.int64)
        edges = np.concatenate([[0], dump.edges]).astype(np.int32)
        numbers = np.unique(dump.owners)  # nodes with counts
        contexts = np.empty((len(numbers), self.order), dtype=np.int32)
        node = numbers.astype(np.int64)
        for i in range(self.order):
            contexts[:, i] = edges[node]  # a node's own edge is the oldest symbol
            node = parents[node]
        arrays: dict[str, NDArray[Any]] = {
            "contexts": contexts,
            "totals": dump.node_values[numbers, 0],
            "units": dump.node_values[numbers, 1],
        }
        owners = np.searchsorted(numbers, dump.owners)
        counts = dump.entry_values[:, 0]
        arrays |= counts_to_arrays(owners, dump.symbols, counts, self._tree.n_symbols)
        state = State(values, arrays | positions_to_arrays(self._context))
        return with_seen(state, self._tree, is_open=self._n_symbols is None)

    @classmethod
    def _from_state(cls, state: State, given: dict[str, Any]) -> Self:
        values = dict(state.values)
        context, is_frozen = values.pop("context"), read_frozen(values)
        # Checked before anything of this length is allocated.
        require(len(context) == values["order"], "a context of another order")
        self = object.__new__(cls)
        Markov.__init__(self, **values)
        self._learns = not is_frozen
        is_open = self._n_symbols is None
        fill_seen(self._tree, state, is_open=is_open)
        n_symbols = self._tree.n_symbols
        totals = read_array(state, "totals", "<f8", (None,))
        n = len(totals)
        units = read_array(state, "units", "<f8", (n,))
        contexts = read_array(state, "contexts", "<i4", (n, self.order))
        require(
            np.all((contexts >= START) & (contexts < n_symbols)), "a context with an unknown symbol"
        )
        require(np.all((units >= 1.0) & (units <= _LARGEST_UNIT)), "a unit is out of range")
        owners, symbols, counts = counts_from_arrays(state, "<f8", totals, n_symbols)
        is_exact = self.decay == 1.0
        found = counts / units[owners]
        check_seen(self._tree, symbols, found, is_open=is_open, is_exact=is_exact)
        require(len(np.unique(owners)) == n, "a context without counts")
        parents, edges, nodes = _as_tree(contexts)
        require(len(set(nodes)) == n, "a context occurs twice")
        node_values = np.zeros((len(parents) + 1, 2))
        node_values[nodes] = np.column_stack([totals, units])
        owner_nodes = np.array(nodes, dtype=np.uint32)[owners]
        self._tree.fill(parents, edges, node_values, owner_nodes, symbols, counts[:, None])
        self._context.replace(read_context(context, self.n_symbols, self.order)[::-1])
        fill_positions(self._context, state, self.n_symbols, range(self.order, self.order + 1))
        return self


def _as_tree(
    contexts: NDArray[np.int32],
) -> tuple[NDArray[np.uint32], NDArray[np.int32], list[int]]:
    """Return the parents and edges of a tree whose paths are the contexts, and their nodes."""
    children: dict[tuple[int, int], int] = {}
    nodes = []
    for context in contexts.tolist():
        node = 0
        for symbol in reversed(context):
            node = children.setdefault((node, symbol), len(children) + 1)
        nodes.append(node)
    paths = np.array(list(children), dtype=np.int64).reshape(-1, 2)
    return paths[:, 0].astype(np.uint32), paths[:, 1].astype(np.int32), nodes
