"""`ContextPredictor`: base class of predictors that count symbols by their context.

A `CountTree` holds the counts and applies the rule of the predictor. A `Context` holds the previous
symbols of each key. One compiled call absorbs a chunk of symbols; `update` is a chunk of one. A
frozen predictor never writes its tree, so its copies share it.

An open alphabet (n_symbols=None) has the base distribution of `OpenVocabulary` with default
strength and discount. Freezing closes it: the symbols are then those seen so far, and one more for
all unseen symbols.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf.baselines._tree import Context, CountTree
from mdvpf.checkpoint import State, narrow, read_array, require, widen
from mdvpf.model import OpenVocabulary
from mdvpf.predictor import NO_KEY, Label, MemoryReport, Predictor, Step, Stream, read_symbol
from mdvpf.predictor.saved_numbers import numbers_to_arrays, read_key_numbers

START = -2  # the start of a sequence in a context, where MISSING is -1
LARGEST_COUNT = 2**53  # up to here, doubles hold every integer

# The rules of a `CountTree`.
CHAIN, WEIGHTING, PITMAN_YOR, GRID = range(4)

_OPEN = OpenVocabulary()  # base distribution of open alphabets


class ContextPredictor(Predictor):
    """A predictor whose counts are in a compiled tree."""

    _rule: ClassVar[int]

    def __init__(self, n_symbols: int | None, depth: int, **rule: Any) -> None:
        self._n_symbols = read_n_symbols(n_symbols)
        numbers: dict[str, Any] = {"beta": 1.0, "decay": 1.0, "share": 0.0}
        numbers |= {"max_nodes": 0, "max_entries": 0}
        self._tree = CountTree(
            kind=self._rule,
            n_symbols=self._n_symbols or 0,  # an open alphabet starts empty
            depth=depth,
            pairs=np.array(rule.pop("pairs", ()), dtype=np.float64).reshape(-1, 2),
            depths=np.array(rule.pop("depths", ()), dtype=np.int64),
            is_open=self._n_symbols is None,
            base_strength=_OPEN.strength,
            base_discount=_OPEN.discount,
            **{**numbers, **rule},
        )
        self._context = Context(depth)
        self._is_memoryless = depth == 0
        self._learns = True
        self._end()

    @property
    def n_symbols(self) -> int:
        """Size of the alphabet; if it is open, the number of symbols seen so far."""
        if self._n_symbols is None:
            return self._tree.n_symbols + self.frozen
        return self._n_symbols

    @property
    def is_open(self) -> bool:
        """Whether the alphabet is open: then `n_symbols` denotes an unseen symbol."""
        return self._n_symbols is None and self._learns

    @property
    def _n_outcomes(self) -> int:
        """Number of possible next symbols; all unseen symbols count as one."""
        return self._tree.n_symbols + (self._n_symbols is None)

    @property
    def frozen(self) -> bool:
        """Whether the predictor is frozen (`freeze`) and no longer learns."""
        return not self._learns

    def predict_proba(self, key: Label | None = None) -> NDArray[np.float64]:
        """Return the distribution of the next symbol of a key."""
        return self._predict(self._number(key))

    def _predict(self, number: int = NO_KEY) -> NDArray[np.float64]:
        out = np.empty(self._n_outcomes)
        self._tree.predict(self._context, out[np.newaxis], number)
        return out

    def update(self, symbol: int | None, key: Label | None = None) -> Step:
        """Absorb one symbol of a key; None is a missing one.

        In an open alphabet, `n_symbols` denotes an unseen symbol.
        """
        return Step._make(self._update(read_symbol(symbol, self._n_outcomes), key))

    def _step(self, symbol: int, number: int = NO_KEY) -> Sequence[float]:
        log_predictive, size = self._tree.absorb(self._context, symbol, self._learns, number)
        return log_predictive, size, 1.0, 1, 0.0

    def new_sequence(self, key: Label | None = None) -> None:
        """End the sequence of a key: its next symbol starts a new one."""
        self._new_sequence(key)

    def _end(self, number: int = NO_KEY) -> None:
        self._tree.end(self._context, number)

    @property
    def _has_begun(self) -> bool:
        symbols = self._context.symbols()
        return symbols[0] != START if symbols else self._is_memoryless

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
        """Return a copy that predicts as this predictor does now, and no longer learns.

        The copy still updates its context with each symbol. An open alphabet becomes a closed one:
        the symbols seen so far, and one more for all unseen symbols; it has no `vocabulary`.

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
        if other.is_open:
            other.vocabulary = None
        other._learns = False
        return other

    def memory(self) -> MemoryReport:
        """Return the memory in use; a row is a context.

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
        live_positions, allocated_positions = self._context.memory()
        n_nodes = self._tree.n_nodes
        return MemoryReport(
            live + live_positions,
            allocated + allocated_positions,
            4 * n_nodes * self._n_outcomes,
            n_nodes,
            0,
            0,
        )

    def __sizeof__(self) -> int:
        positions = self._context.memory()[1]
        return object.__sizeof__(self) + self._tree.__sizeof__() + positions

    # -- one run ---------------------------------------------------------------------------

    _may_reject = False

    @property
    def _chunk(self) -> int:
        return 1 << 15

    def _absorb(
        self, stream: Stream, plan: None, part: slice, reports: NDArray[np.float64]
    ) -> None:
        numbers = None if stream.numbers is None else stream.numbers[part]
        self._tree.advance(
            self._context, stream.symbols[part], stream.ended[part], self._learns, reports, numbers
        )

    @property
    def _n_distributions(self) -> int:
        return self._tree.n_distributions

    def _predict_distributions(self, number: int = NO_KEY) -> NDArray[np.float64]:
        out = np.empty((self._tree.n_distributions, self._n_outcomes))
        self._tree.predict(self._context, out, number)
        return out

    def _absorb_distributions(
        self, stream: Stream, plan: None, reports: NDArray[np.float64], out: NDArray[np.float64]
    ) -> None:
        self._tree.advance(
            self._context,
            stream.symbols,
            stream.ended,
            self._learns,
            reports,
            stream.numbers,
            out,
        )


def read_n_symbols(n_symbols: Any) -> int | None:
    """Return the size of an alphabet, None if it is open, or raise."""
    if n_symbols is None:
        return None
    return validate.integer("n_symbols", n_symbols, low=1, also=", or None for an open alphabet")


def read_beta(beta: Any, default: float, n_symbols: int | None) -> float:
    """Return a pseudo-count, or raise; for an open alphabet the total over all symbols."""
    if beta is None:
        return default if n_symbols is not None else _OPEN.concentration
    return validate.hyper_parameter("beta", beta)


# -- checkpoints ---------------------------------------------------------------------------------


class Dump(NamedTuple):
    """The nodes and entries of a tree as arrays.

    Attributes
    ----------
    parents, edges : ndarray
        For each node but the root, which is number 0: the number of its parent, and the symbol that
        its context adds to the parent's.
    node_values : ndarray of shape (n_nodes, any)
        Values of each node, including the root.
    owners, symbols : ndarray
        Node and symbol of each entry.
    entry_values : ndarray of shape (n_entries, any)
        Values of each entry.
    """

    parents: NDArray[np.uint32]
    edges: NDArray[np.int32]
    node_values: NDArray[np.float64]
    owners: NDArray[np.uint32]
    symbols: NDArray[np.int32]
    entry_values: NDArray[np.float64]


def dump_tree(tree: CountTree, node_width: int, entry_width: int) -> Dump:
    """Return the nodes and entries of a tree."""
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
    """Return entries as two arrays: their keys, number * n_symbols + symbol, and their counts."""
    return {"keys": numbers.astype(np.int64) * n_symbols + symbols, "counts": counts}


def counts_from_arrays(
    state: State, kind: str, totals: NDArray[Any], n_symbols: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """Return the numbers, symbols and counts of entries; check that counts sum to the totals."""
    keys = read_array(state, "keys", "<i8", (None,))
    counts = read_array(state, "counts", kind, (len(keys),))
    size = max(n_symbols, 1)  # an open alphabet may have none
    numbers = keys // size
    require(len(np.unique(keys)) == len(keys), "a count occurs twice")
    require(np.all((keys >= 0) & (numbers < len(totals))), "a count of an unknown node")
    require(np.all(np.isfinite(counts) & (counts >= 0)), "a count is not a number")
    if kind == "<i8":
        require(np.all(totals <= LARGEST_COUNT), "a count is too large")
    sums = np.bincount(numbers, weights=counts, minlength=len(totals))
    # Fading counts are summed in another order here, over a life that may have been long.
    require(np.allclose(sums, totals, rtol=1e-6, atol=0.0), "counts do not sum to their totals")
    return numbers, (keys % size).astype(np.int32), counts.astype(np.float64)


def read_context(context: Any, n_symbols: int, length: int, low: int = START) -> list[int]:
    """Return symbols, missing ones and starts as a list of at most that length, or raise."""
    require(isinstance(context, list) and len(context) <= length, "the context is too long")
    found: list[int] = validate.integers("context", context, low=low, high=n_symbols - 1).tolist()
    return found


# The contexts of all keys except None. A file has these arrays only if such keys were used.
_LENGTHS, _SYMBOLS = "key_lengths", "key_symbols"


def positions_to_arrays(context: Context) -> dict[str, NDArray[Any]]:
    """Return the concatenated contexts of keys, each with the latest symbol first."""
    numbers = context.numbers()
    if not numbers:
        return {}
    contexts = [context.symbols(number) for number in numbers]
    return {
        **numbers_to_arrays(numbers),
        _LENGTHS: narrow(np.array([len(symbols) for symbols in contexts], dtype=np.uint64)),
        _SYMBOLS: np.array(list(chain.from_iterable(contexts)), dtype=np.int32),
    }


def fill_positions(
    context: Context, state: State, n_symbols: int, lengths: range, low: int = START
) -> None:
    """Restore what `positions_to_arrays` returned to a new context, or raise."""
    numbers = read_key_numbers(state)
    if not numbers:
        return
    sizes = widen(state.arrays.pop(_LENGTHS), "<u8")
    symbols = read_array(state, _SYMBOLS, "<i4", (None,))
    require(len(numbers) == len(sizes), "a key without a context")
    require(np.all((sizes >= lengths[0]) & (sizes <= lengths[-1])), "a context of another length")
    require(np.all(sizes <= len(symbols)) and sizes.sum() == len(symbols), "contexts too short")
    require(np.all((symbols >= low) & (symbols < n_symbols)), "a context with an unknown symbol")
    ends = np.cumsum(sizes).tolist()
    found = symbols.tolist()
    for number, size, end in zip(numbers, sizes.tolist(), ends, strict=True):
        context.replace(found[end - size : end], number)


def read_frozen(values: dict[str, Any]) -> bool:
    """Remove the entry `frozen` from the values and return it; only frozen predictors have one."""
    return validate.flag("frozen", values.pop("frozen", False))


def frozen_value(predictor: ContextPredictor) -> dict[str, Any]:
    """Return the values that `read_frozen` reads."""
    return {"frozen": True} if predictor.frozen else {}
