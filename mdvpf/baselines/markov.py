"""`Markov`: chains of a fixed order, the plainest predictors with a memory."""

from __future__ import annotations

import math
from typing import Any, Self

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

_LARGEST_UNIT = 1e100
_LARGEST_TIME = 2**62


@register("Markov")
class Markov(Baseline):
    """Markov chain of a fixed order, with a symmetric Dirichlet prior for every context.

    After a context that was followed by y on ``n[y]`` of its ``n`` occasions, y has probability
    ``(n[y] + beta) / (n + n_symbols * beta)``. With `decay` the counts of a context are multiplied
    by it whenever the context occurs again, so that about its last ``1 / (1 - decay)`` occasions
    count; contexts that do not occur forget nothing.

    Parameters
    ----------
    n_symbols : int
        Size of the alphabet.
    order : int, default 1
        How many symbols make a context; with 0 all symbols are independent.
    beta : float, default 0.3
        Pseudo-count of every symbol in every context.
    decay : float, default 1.0
        What is left of a count when its context occurs again, above 0 and up to 1.

    Examples
    --------
    >>> import mdvpf
    >>> chain = mdvpf.Markov(n_symbols=3, order=1, beta=0.5)
    >>> _ = chain.run([0, 1, 2, 0, 1, 2, 0])
    >>> chain.predict_proba().round(3).tolist()
    [0.143, 0.714, 0.143]
    """

    _tables = ("_contexts", "_totals", "_units", "_counts")

    def __init__(
        self, n_symbols: int, order: int = 1, beta: float = 0.3, decay: float = 1.0
    ) -> None:
        super().__init__(n_symbols)
        self.order = validate.integer("order", order, low=0)
        self.beta = validate.hyper_parameter("beta", beta)
        self.decay = validate.real("decay", decay, low=validate.SMALLEST_PARAMETER, high=1.0)
        self._contexts: dict[tuple[int, ...], int] = {}  # each context to its number
        self._totals: list[float] = []  # per context
        self._counts: dict[int, float] = {}  # by number of the context * n_symbols + symbol
        # Instead of multiplying old counts by `decay`, new ones are made larger: what an
        # occurrence counts at present, per context. Probabilities have it in every term.
        self._units: list[float] = []
        self.new_sequence()

    def __repr__(self) -> str:
        return (
            f"Markov({self._n_symbols}, order={self.order}, beta={self.beta}, decay={self.decay})"
        )

    def _size(self) -> int:
        return len(self._totals)

    def new_sequence(self) -> None:
        """End the sequence: the next symbol follows the context of a start."""
        self._context = (START,) * self.order

    def predict_proba(self) -> NDArray[np.float64]:
        """Return the distribution of the next symbol."""
        number = self._contexts.get(self._context)
        if number is None:
            return np.full(self._n_symbols, 1.0 / self._n_symbols)
        counts = row(self._counts, number, self._n_symbols)
        return dirichlet(counts, self._totals[number], self.beta * self._units[number])

    def _advance(self, symbol: int) -> float:
        context = self._context
        if self.order:
            self._context = (*context[1:], symbol)
        if symbol == MISSING:
            return 0.0
        n_symbols = self._n_symbols
        number = self._contexts.get(context)
        if number is None:
            number = self._contexts[context] = len(self._totals)
            self._totals.append(0.0)
            self._units.append(1.0)
        unit = self._units[number]
        total = self._totals[number]
        key = number * n_symbols + symbol
        count = self._counts.get(key, 0.0)
        prior = self.beta * unit
        log_predictive = math.log((count + prior) / (total + n_symbols * prior))
        if self.decay != 1.0:
            self._units[number] = unit = unit / self.decay
        self._counts[key] = count + unit
        self._totals[number] = total + unit
        if unit > _LARGEST_UNIT:
            self._rescale(number)
        return log_predictive

    def _rescale(self, number: int) -> None:
        """Divide everything about a context by its unit, before it grows out of range."""
        unit = self._units[number]
        for key in range(number * self._n_symbols, (number + 1) * self._n_symbols):
            if key in self._counts:
                self._counts[key] /= unit
        self._totals[number] /= unit
        self._units[number] = 1.0

    def _to_state(self) -> State:
        values = {
            "n_symbols": self._n_symbols,
            "order": self.order,
            "beta": self.beta,
            "decay": self.decay,
            "context": list(self._context),
        }
        contexts = np.array(list(self._contexts), dtype=np.int32)
        arrays: dict[str, NDArray[Any]] = {
            "contexts": contexts.reshape(len(self._contexts), self.order),
            "totals": np.array(self._totals, dtype=np.float64),
            "units": np.array(self._units, dtype=np.float64),
        }
        return State(values, arrays | counts_to_arrays(self._counts, "<f8"))

    @classmethod
    def _from_state(cls, state: State, given: dict[str, Any]) -> Self:
        values = dict(state.values)
        context = values.pop("context")
        # Before anything is made of that length.
        require(len(context) == values["order"], "a context of another order")
        self = object.__new__(cls)
        Markov.__init__(self, **values)
        totals = taken(state, "totals", "<f8", (None,))
        n = len(totals)
        units = taken(state, "units", "<f8", (n,))
        contexts = taken(state, "contexts", "<i4", (n, self.order))
        require(np.all((contexts >= START) & (contexts < self._n_symbols)), "a strange context")
        require(np.all((units >= 1.0) & (units <= _LARGEST_UNIT)), "a unit is out of range")
        self._contexts = {tuple(each): i for i, each in enumerate(contexts.tolist())}
        require(len(self._contexts) == n, "a context occurs twice")
        self._counts = counts_from_arrays(state, "<f8", totals, self._n_symbols)
        self._totals = totals.tolist()
        self._units = units.tolist()
        self._context = read_context(context, self._n_symbols, self.order)
        return self
