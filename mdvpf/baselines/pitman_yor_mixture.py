"""`PitmanYorMixture`: Pitman-Yor trees with many settings, mixed by evidence, on shared counts.

A mixture of separate trees would count every symbol once for each tree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf._support.attributes import ReadOnly
from mdvpf._support.shown import shown_list
from mdvpf.baselines.context_predictor import (
    GRID,
    ContextPredictor,
    fill_positions,
    frozen_value,
    positions_to_arrays,
    read_context,
    read_frozen,
    read_n_symbols,
)
from mdvpf.baselines.pitman_yor_tree import (
    read_max_nodes,
    read_strength,
    tree_from_arrays,
    tree_to_arrays,
)
from mdvpf.baselines.saved_alphabet import check_seen, fill_seen, with_seen
from mdvpf.checkpoint import State, read_array, register, require

DEPTHS = (0, 1, 2, 3, 4, 5, 6, 7, 8)
DISCOUNTS = (0.5, 0.65, 0.8, 0.9)
STRENGTHS = (0.3, 2.0)

_LARGEST_LOG_WEIGHT = 1e300  # in absolute value


class Setting(NamedTuple):
    """A setting of a `PitmanYorTree`."""

    depth: int
    discount: float
    strength: float


@register("PitmanYorMixture")
class PitmanYorMixture(ContextPredictor):
    """Pitman-Yor trees with all combinations of depths, discounts and strengths, mixed by evidence.

    Each setting predicts exactly as a separate `PitmanYorTree` would. All settings share one tree
    of counts, so a symbol is counted once. The weights of the settings start equal and follow
    Bayes' rule.

    Parameters
    ----------
    n_symbols : int or None
        Size of the alphabet; None if it is open: symbols are numbered by first appearance, and
        `n_symbols` is how many were seen.
    depths : sequence of int, default 0 to 8
        Largest lengths of a context.
    discounts : sequence of float, default (0.5, 0.65, 0.8, 0.9)
        As for `PitmanYorTree`.
    strengths : sequence of float, default (0.3, 2.0)
        As for `PitmanYorTree`.
    share : float, default 0.0
        Share of the weight, from 0 to 1, that is redistributed evenly over the settings after each
        symbol that is not missing. A positive share lets the mixture switch to the setting that is
        best now: deep contexts pay off late, when the weights of shallow ones are far ahead.
    max_nodes : int, optional
        Largest number of contexts; see `PitmanYorTree`. With it the settings no longer predict
        exactly as separate trees, because all of them lose the contexts that the deepest one
        evicts.
    max_entries : int, optional
        Largest number of pairs of a context and a symbol seen after it; only with `max_nodes`.
        Beyond it the least recently used contexts are evicted, except for those of the current
        position.

    Attributes
    ----------
    depths, discounts, strengths : tuple
        The settings to combine; depths in ascending order.
    share, max_nodes, max_entries
        As passed.

    Examples
    --------
    >>> import mdvpf
    >>> mixture = mdvpf.PitmanYorMixture(n_symbols=2, depths=[0, 2], discounts=[0.5])
    >>> _ = mixture.run([0, 0, 1] * 20)
    >>> mixture.predict_proba().round(2).tolist()
    [0.99, 0.01]
    >>> mixture.best
    Setting(depth=2, discount=0.5, strength=0.3)
    """

    _rule = GRID

    depths: ReadOnly[tuple[int, ...]] = ReadOnly()
    discounts: ReadOnly[tuple[float, ...]] = ReadOnly()
    strengths: ReadOnly[tuple[float, ...]] = ReadOnly()
    share: ReadOnly[float] = ReadOnly()
    max_nodes: ReadOnly[int | None] = ReadOnly()
    max_entries: ReadOnly[int | None] = ReadOnly()

    def __init__(
        self,
        n_symbols: int | None,
        depths: Sequence[int] = DEPTHS,
        discounts: Sequence[float] = DISCOUNTS,
        strengths: Sequence[float] = STRENGTHS,
        *,
        share: float = 0.0,
        max_nodes: int | None = None,
        max_entries: int | None = None,
    ) -> None:
        n_symbols = read_n_symbols(n_symbols)
        found = validate.integers(
            "depths", validate.entries("depths", depths, of="integers"), low=0
        )
        self.depths = tuple(sorted(found.tolist()))
        if len(set(self.depths)) < len(self.depths):
            raise ValueError(f"depths={list(depths)!r}: expected different ones")
        self.discounts = tuple(
            validate.discount(f"discounts[{i}]", each)
            for i, each in enumerate(validate.entries("discounts", discounts, of="numbers"))
        )
        self.strengths = tuple(
            read_strength(f"strengths[{i}]", each, min(self.discounts))
            for i, each in enumerate(validate.entries("strengths", strengths, of="numbers"))
        )
        self.share = validate.real("share", share, low=0.0, high=1.0)
        self.max_nodes = read_max_nodes(max_nodes, self.depths[-1])
        self.max_entries = _read_max_entries(max_entries, self.max_nodes)
        super().__init__(
            n_symbols,
            self.depths[-1],
            pairs=list(product(self.discounts, self.strengths)),
            depths=self.depths,
            share=self.share,
            max_nodes=self.max_nodes or 0,
            max_entries=self.max_entries or 0,
        )

    def __repr__(self) -> str:
        limit = "" if self.max_nodes is None else f", max_nodes={self.max_nodes}"
        limit += "" if self.max_entries is None else f", max_entries={self.max_entries}"
        return (
            f"PitmanYorMixture({self._n_symbols}, depths={shown_list(self.depths)}, "
            f"discounts={shown_list(self.discounts)}, strengths={shown_list(self.strengths)}, "
            f"share={self.share}{limit})"
        )

    @property
    def settings(self) -> list[Setting]:
        """The settings, in the order of `weights`."""
        return [
            Setting(depth, discount, strength)
            for discount, strength, depth in product(self.discounts, self.strengths, self.depths)
        ]

    def _log_weights(self) -> NDArray[np.float64]:
        out = np.empty(len(self.discounts) * len(self.strengths) * len(self.depths))
        self._tree.log_weights(out)
        return out

    @property
    def weights(self) -> NDArray[np.float64]:
        """Weight of each setting in the prediction of the next symbol."""
        log_weights = self._log_weights()
        weights = np.exp(log_weights - log_weights.max())
        return np.asarray(weights / weights.sum())

    @property
    def best(self) -> Setting:
        """The setting with the largest weight."""
        return self.settings[int(self._log_weights().argmax())]

    # -- checkpoints -----------------------------------------------------------------------

    def _to_state(self) -> State:
        values = {
            "n_symbols": self._n_symbols,
            "depths": list(self.depths),
            "discounts": list(self.discounts),
            "strengths": list(self.strengths),
            "share": self.share,
            "max_nodes": self.max_nodes,
            **({} if self.max_entries is None else {"max_entries": self.max_entries}),
            "context": self._context.symbols(),
            **frozen_value(self),
        }
        arrays = tree_to_arrays(self._tree, ("occurrences", "types"))
        arrays["log_weights"] = self._log_weights()
        state = State(values, arrays | positions_to_arrays(self._context))
        return with_seen(state, self._tree, is_open=self._n_symbols is None)

    @classmethod
    def _from_state(cls, state: State, given: dict[str, Any]) -> Self:
        values = dict(state.values)
        context, is_frozen = values.pop("context"), read_frozen(values)
        n_settings = math.prod(len(values[name]) for name in ("depths", "discounts", "strengths"))
        # Checked before anything of this length is allocated.
        log_weights = read_array(state, "log_weights", "<f8", (n_settings,))
        require(np.all(np.abs(log_weights) <= _LARGEST_LOG_WEIGHT), "a weight is not a number")
        self = object.__new__(cls)
        PitmanYorMixture.__init__(self, **values)
        self._learns = not is_frozen
        is_open = self._n_symbols is None
        fill_seen(self._tree, state, is_open=is_open)
        require(abs(log_weights.max()) <= math.log(n_settings) + 1.0, "weights are out of range")
        parents, owners, symbols, counts = tree_from_arrays(
            self._tree, state, ("occurrences", "types")
        )
        at_root = owners == 0
        check_seen(self._tree, symbols[at_root], counts[at_root, 0], is_open=is_open)
        levels = [0]
        for parent in parents.tolist():
            levels.append(levels[parent] + 1)
        occurrences, types = counts.T
        is_deepest = np.array(levels)[owners] == self.depths[-1]
        require(np.all(np.where(is_deepest, types == 0, types >= 1)), "types out of place")
        require(np.all(types <= occurrences), "more types than occurrences")
        self._tree.set_log_weights(log_weights)
        self._context.replace(read_context(context, self.n_symbols, self.depths[-1], low=0))
        lengths = range(self.depths[-1] + 1)
        fill_positions(self._context, state, self.n_symbols, lengths, low=0)
        return self


def _read_max_entries(max_entries: Any, max_nodes: int | None) -> int | None:
    """Return a limit on the entries, or raise."""
    if max_entries is None:
        return None
    if max_nodes is None:
        raise ValueError(f"max_entries={max_entries!r}: expected None without max_nodes")
    return validate.integer("max_entries", max_entries, low=1, also=", or None")
