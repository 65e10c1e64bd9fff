"""The base of the predictors that look back: a compiled tree of counts, and the present context.

What they count is in a `CountTree`, which has their rule; what came before is in a `Context`. All
of them absorb a chunk of symbols in one compiled call, and one symbol is a chunk of one. A frozen
predictor reads its tree and never writes it, so its copies share the tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf.baselines._tree import Context, CountTree
from mdvpf.checkpoint import State, require, taken
from mdvpf.predictor import NO_KEY, MemoryReport, Predictor, Step, Stream, read_symbol

START = -2  # how the start of a sequence is written in a context, where MISSING is -1
LARGEST_COUNT = 2**53  # up to here, doubles hold every integer

# The rules of a `CountTree`.
CHAIN, WEIGHTING, PITMAN_YOR, GRID = range(4)


class ContextPredictor(Predictor):
    """The protocol, for predictors whose counts are in a compiled tree."""

    _rule: ClassVar[int]

    def __init__(self, n_symbols: int, depth: int, **rule: Any) -> None:
        self._n_symbols = validate.integer("n_symbols", n_symbols, low=1)
        numbers: dict[str, Any] = {"beta": 1.0, "decay": 1.0, "share": 0.0, "max_nodes": 0}
        self._tree = CountTree(
            kind=self._rule,
            n_symbols=self._n_symbols,
            depth=depth,
            pairs=np.array(rule.pop("pairs", ()), dtype=np.float64).reshape(-1, 2),
            depths=np.array(rule.pop("depths", ()), dtype=np.int64),
            **{**numbers, **rule},
        )
        self._context = Context(depth)
        self._learns = True
        self.new_sequence()

    @property
    def n_symbols(self) -> int:
        """Size of the alphabet."""
        return self._n_symbols

    @property
    def frozen(self) -> bool:
        """Whether it no longer learns; see `freeze`."""
        return not self._learns

    def predict_proba(self) -> NDArray[np.float64]:
        """Return the distribution of the next symbol."""
        out = np.empty(self._n_symbols)
        self._tree.predict(self._context, out)
        return out

    def update(self, symbol: int | None) -> Step:
        """Absorb one symbol; None is a missing one."""
        return Step._make(self._update(read_symbol(symbol, self._n_symbols), None))

    def _step(self, symbol: int, number: int = NO_KEY) -> Sequence[float]:
        log_predictive, size = self._tree.absorb(self._context, symbol, self._learns)
        return log_predictive, size, 1.0, 1, 0.0

    def new_sequence(self) -> None:
        """End the sequence: the next symbol starts a new one."""
        self._tree.start(self._context)

    def copy(self) -> Self:
        """Return an independent copy."""
        other = self._twin()
        other._context = self._context.copy()
        if self._learns:
            other._tree = self._tree.copy()
        return other

    def __copy__(self) -> Self:
        return self.copy()

    def freeze(self) -> Self:
        """Return a predictor that predicts as this one does now, and no longer learns.

        It goes along with the sequence: what came before still tells what comes next.

        Examples
        --------
        >>> import mdvpf
        >>> tree = mdvpf.PitmanYorTree(n_symbols=2, depth=1)
        >>> _ = tree.run([0, 1] * 20)
        >>> frozen = tree.freeze()
        >>> first = frozen.score([1, 1, 1])
        >>> _ = frozen.run([1] * 1000)
        >>> frozen.new_sequence()
        >>> bool(frozen.score([1, 1])[1] == first[2])
        True
        """
        other = self.copy()
        other._learns = False
        return other

    def memory(self) -> MemoryReport:
        """Return where the memory goes: a row is a context.

        Examples
        --------
        >>> import mdvpf
        >>> tree = mdvpf.PitmanYorTree(n_symbols=10**6, depth=2)
        >>> _ = tree.run([5, 7, 5, 7])
        >>> report = tree.memory()
        >>> report.rows, report.allocated < 10_000
        (5, True)
        """
        live, allocated = self._tree.memory()
        n_nodes = self._tree.n_nodes
        return MemoryReport(live, allocated, 4 * n_nodes * self._n_symbols, n_nodes, 0, 0)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self._tree.__sizeof__()

    # -- one run ---------------------------------------------------------------------------

    _may_reject = False

    @property
    def _chunk(self) -> int:
        return 1 << 15

    def _absorb(
        self, stream: Stream, plan: None, part: slice, reports: NDArray[np.float64]
    ) -> None:
        self._tree.advance(
            self._context, stream.symbols[part], stream.starts[part], self._learns, reports
        )


# -- checkpoints ---------------------------------------------------------------------------------


class Dump(NamedTuple):
    """What a tree has counted: its nodes, the root aside, and its entries.

    Attributes
    ----------
    parents, edges : ndarray
        Number of the parent, and the symbol by which the context is longer than that of the parent.
        The root is number 0 and is left out here.
    node_values : ndarray of shape (n_nodes, any)
        Numbers of each node, the root included.
    owners, symbols : ndarray
        Node and symbol of each entry.
    entry_values : ndarray of shape (n_entries, any)
        Numbers of each entry.
    """

    parents: NDArray[np.uint32]
    edges: NDArray[np.int32]
    node_values: NDArray[np.float64]
    owners: NDArray[np.uint32]
    symbols: NDArray[np.int32]
    entry_values: NDArray[np.float64]


def dumped(tree: CountTree, node_width: int, entry_width: int) -> Dump:
    """Return what a tree has counted."""
    n, n_entries = tree.n_nodes, tree.n_entries
    dump = Dump(
        np.empty(n - 1, dtype=np.uint32),
        np.empty(n - 1, dtype=np.int32),
        np.empty((n, node_width)),
        np.empty(n_entries, dtype=np.uint32),
        np.empty(n_entries, dtype=np.int32),
        np.empty((n_entries, entry_width)),
    )
    tree.dump(*dump)
    return dump


def counts_to_arrays(
    numbers: NDArray[Any], symbols: NDArray[Any], counts: NDArray[Any], n_symbols: int
) -> dict[str, NDArray[Any]]:
    """Return entries as two arrays: the keys number * n_symbols + symbol, and the counts."""
    return {"keys": numbers.astype(np.int64) * n_symbols + symbols, "counts": counts}


def counts_from_arrays(
    state: State, kind: str, totals: NDArray[Any], n_symbols: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """Return the numbers, symbols and counts of entries; each number has its total as their sum."""
    keys = taken(state, "keys", "<i8", (None,))
    counts = taken(state, "counts", kind, (len(keys),))
    numbers = keys // n_symbols
    require(len(np.unique(keys)) == len(keys), "a count occurs twice")
    require(np.all((keys >= 0) & (numbers < len(totals))), "a count of nothing")
    require(np.all(np.isfinite(counts) & (counts >= 0)), "a count is not a number")
    if kind == "<i8":
        require(np.all(totals <= LARGEST_COUNT), "a count is too large")
    sums = np.bincount(numbers, weights=counts, minlength=len(totals))
    # Fading counts are summed in another order here, over a life that may have been long.
    require(np.allclose(sums, totals, rtol=1e-6, atol=0.0), "counts do not sum to their totals")
    return numbers, (keys % n_symbols).astype(np.int32), counts.astype(np.float64)


def read_context(context: Any, n_symbols: int, length: int, low: int = START) -> list[int]:
    """Return symbols, missing ones and starts as a list of at most that length, or raise."""
    require(isinstance(context, list) and len(context) <= length, "the context is too long")
    found: list[int] = validate.integers("context", context, low=low, high=n_symbols - 1).tolist()
    return found


def read_frozen(values: dict[str, Any]) -> bool:
    """Take away whether a predictor is frozen: only those that are say so."""
    return validate.flag("frozen", values.pop("frozen", False))


def frozen_value(predictor: ContextPredictor) -> dict[str, Any]:
    """Return what `read_frozen` reads."""
    return {"frozen": True} if predictor.frozen else {}
