"""Open alphabets of chains and trees in checkpoints: how often each symbol was seen.

Files with a closed alphabet do not have these numbers. They must agree with the counts of the tree.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdvpf.baselines._tree import CountTree
from mdvpf.checkpoint import State, narrow, require, widen

VERSION = 2  # the first version of the format with open alphabets
_NAME = "seen"


def with_seen(state: State, tree: CountTree, *, is_open: bool) -> State:
    """Add the number of times that each symbol was seen, if the alphabet is open."""
    if not is_open:
        return state
    seen = np.empty(tree.n_symbols, dtype=np.int64)
    tree.seen(seen)
    arrays = {**state.arrays, _NAME: narrow(seen.astype(np.uint64))}
    return State(state.values, arrays, version=VERSION)


def fill_seen(tree: CountTree, state: State, *, is_open: bool) -> None:
    """Restore an open alphabet to a new tree, before its counts."""
    if is_open:
        seen = widen(state.arrays.pop(_NAME), "<u8")
        require(np.all(seen <= np.iinfo(np.int64).max), "a symbol was seen too often")
        tree.set_seen(seen.astype(np.int64))


def check_seen(
    tree: CountTree,
    symbols: NDArray[Any],
    counts: NDArray[Any],
    *,
    is_open: bool,
    is_exact: bool = True,
) -> None:
    """Check that the symbols of an open alphabet were seen as often as they were counted.

    Counts that decay, or a tree with evicted contexts, are not exact. Each symbol must then have a
    count that is positive and at most the number of times it was seen.
    """
    if not is_open:
        return
    n = tree.n_symbols
    seen = np.empty(n, dtype=np.int64)
    tree.seen(seen)
    counted = np.bincount(symbols, minlength=n)
    require(np.all(counted > 0), "a symbol was seen that was never counted")
    sums = np.bincount(symbols, weights=counts, minlength=n)
    # Decayed counts have rounding errors.
    fits = sums == seen if is_exact else sums <= seen * (1.0 + 1e-6)
    require(np.all(fits), "a symbol was seen less often than it was counted, or more")
