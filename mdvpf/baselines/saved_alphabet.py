"""Open alphabets of chains and trees in checkpoints: how often each symbol was seen.

Files of closed alphabets have nothing of it. What the counts of a tree say about the symbols must
agree with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdvpf.baselines._tree import CountTree
from mdvpf.checkpoint import State, narrowed, require, widened

VERSION = 2  # of the format, the first that knows open alphabets
_NAME = "seen"


def with_seen(state: State, tree: CountTree, *, is_open: bool) -> State:
    """Return the state of a predictor, with how often each symbol was seen if that matters."""
    if not is_open:
        return state
    seen = np.empty(tree.n_symbols, dtype=np.int64)
    tree.seen(seen)
    arrays = {**state.arrays, _NAME: narrowed(seen.astype(np.uint64))}
    return State(state.values, arrays, version=VERSION)


def fill_seen(tree: CountTree, state: State, *, is_open: bool) -> None:
    """Give a new tree the open alphabet of a state, before its counts."""
    if is_open:
        seen = widened(state.arrays.pop(_NAME), "<u8")
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
    """Check that the symbols of an open alphabet were seen as often as counts say.

    If those are not exact, because counts fade or contexts were forgotten, all that is known is
    that each symbol was counted, and no more often than it was seen.
    """
    if not is_open:
        return
    n = tree.n_symbols
    seen = np.empty(n, dtype=np.int64)
    tree.seen(seen)
    counted = np.bincount(symbols, minlength=n)
    require(np.all(counted > 0), "a symbol was seen that was never counted")
    sums = np.bincount(symbols, weights=counts, minlength=n)
    # Fading counts are rounded.
    fits = sums == seen if is_exact else sums <= seen * (1.0 + 1e-6)
    require(np.all(fits), "a symbol was seen less often than it was counted, or more")
