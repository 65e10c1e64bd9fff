"""What a filter has to beat: the generator itself, Markov chains, context trees.

They have the protocol of the filters, so that experiments and mixtures take any of them, and they
are exact: each follows one hypothesis, or an average that can be computed in closed form, and
nothing is drawn or discarded. A `Step` of theirs therefore has one particle, an effective sample
size of 1 and nothing discarded; `mean_states` is the number of states of the HMM, of contexts of
the chain, of nodes of the tree.

Contexts are what came just before, in the same sequence. A missing symbol in a context is a value
like any other, and so is the start of the sequence; neither is ever predicted. Only contexts that
occurred take memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdvpf import _validate
from mdvpf._baseline import (
    START,
    Baseline,
    counts_from_arrays,
    counts_to_arrays,
    dirichlet,
    read_context,
    require,
    row,
)
from mdvpf._context_tree import ContextTree
from mdvpf.checkpoint import State, register, taken
from mdvpf.hmm import HMM, read_hmms
from mdvpf.predictor import MISSING

__all__ = ["KnownHMM", "Markov", "ContextTree"]

_LARGEST_UNIT = 1e100
_LARGEST_TIME = 2**62
_MATRICES = ("start", "transition", "emission")


@register("KnownHMM")
class KnownHMM(Baseline):
    """Exact forward filter of given HMMs that switch at given times: the generator itself.

    With an HMM the next state starts afresh from its start distribution, and so it does in a new
    sequence. A symbol of probability zero has log predictive -inf; what it says about the state
    is contradictory, and is ignored.

    Parameters
    ----------
    hmms : HMM or sequence of HMM
        The HMM of each segment.
    change_points : array_like of int, optional
        Where the second and later segments start: before symbol so many of the life of the
        predictor, counted from 0, missing symbols included.
    n_symbols : int, optional
        Size of the alphabet; that of the HMM with the largest by default. What is not in the
        alphabet of the HMM of a segment has probability zero.

    Examples
    --------
    >>> import mdvpf
    >>> stream = mdvpf.datasets.switching_hmm(rng=0)
    >>> generator = mdvpf.KnownHMM(stream.hmms, stream.change_points)
    >>> result = generator.run(stream.symbols)
    >>> bool(result.log_predictive.mean() > -1.45)
    True
    """

    def __init__(
        self,
        hmms: HMM | Sequence[HMM],
        change_points: ArrayLike = (),
        *,
        n_symbols: int | None = None,
    ) -> None:
        self.hmms = read_hmms([hmms] if isinstance(hmms, HMM) else hmms)
        points = _validate.integers("change_points", change_points, low=1).tolist()
        if len(points) != len(self.hmms) - 1:
            raise ValueError(
                f"change_points has {len(points)} entries: expected {len(self.hmms) - 1}, "
                "one less than hmms"
            )
        if any(later <= earlier for earlier, later in pairwise(points)):
            raise ValueError(f"change_points={points}: expected increasing numbers")
        largest = max(hmm.n_symbols for hmm in self.hmms)
        super().__init__(largest if n_symbols is None else n_symbols)
        if self._n_symbols < largest:
            raise ValueError(f"n_symbols={n_symbols}: expected {largest} or more, as hmms have")
        self.change_points = tuple(points)
        self._time = 0
        self._segment = 0
        self._state = self.hmms[0].start  # distribution of the state that emits the next symbol

    def __repr__(self) -> str:
        sizes = ", ".join(f"{hmm.n_states} states" for hmm in self.hmms)
        return f"KnownHMM([{sizes}], change_points={list(self.change_points)})"

    def _size(self) -> int:
        return self.hmms[self._segment].n_states

    def predict_proba(self) -> NDArray[np.float64]:
        """Return the distribution of the next symbol."""
        emission = self.hmms[self._segment].emission
        out = np.zeros(self._n_symbols)
        out[: emission.shape[1]] = self._state @ emission
        return out

    def new_sequence(self) -> None:
        """End the sequence: the next symbol comes from the start of the present HMM."""
        self._state = self.hmms[self._segment].start

    def _advance(self, symbol: int) -> float:
        hmm = self.hmms[self._segment]
        state = self._state
        log_predictive = 0.0
        if symbol != MISSING:
            emitted = hmm.emission[:, symbol] if symbol < hmm.n_symbols else np.zeros(len(state))
            probability = float(state @ emitted)
            if probability > 0.0:
                log_predictive = math.log(probability)
                state = state * emitted / probability
            else:
                log_predictive = -math.inf
        self._time += 1
        if self._segment < len(self.change_points) and (
            self._time == self.change_points[self._segment]
        ):
            self._segment += 1
            self._state = self.hmms[self._segment].start
        else:
            self._state = state @ hmm.transition
        return log_predictive

    def _to_state(self) -> State:
        values = {
            "n_symbols": self._n_symbols,
            "change_points": list(self.change_points),
            "time": self._time,
        }
        arrays = {"state": self._state}
        for i, hmm in enumerate(self.hmms):
            arrays |= {f"{name} {i}": getattr(hmm, name) for name in _MATRICES}
        return State(values, arrays)

    @classmethod
    def _from_state(cls, state: State, given: dict[str, Any]) -> Self:
        values = dict(state.values)
        time = _validate.integer("time", values.pop("time"), low=0, high=_LARGEST_TIME)
        n_hmms = len(values["change_points"]) + 1
        self = object.__new__(cls)
        KnownHMM.__init__(self, [_exact_hmm(state, i) for i in range(n_hmms)], **values)
        self._time = time
        self._segment = sum(point <= time for point in self.change_points)
        self._state = taken(state, "state", "<f8", (self._size(),))
        require(np.all(self._state >= 0), "a probability is negative")
        require(abs(self._state.sum() - 1.0) < 1e-6, "probabilities do not sum to one")
        return self


def _exact_hmm(state: State, i: int) -> HMM:
    """Return an HMM with the very numbers saved: its constructor would divide by sums again."""
    start = taken(state, f"start {i}", "<f8", (None,))
    others = [taken(state, f"{name} {i}", "<f8", (len(start), None)) for name in _MATRICES[1:]]
    hmm = HMM(start, *others)
    for name, saved in zip(_MATRICES, (start, *others), strict=True):
        saved.setflags(write=False)
        object.__setattr__(hmm, name, saved)
    return hmm


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
        self.order = _validate.integer("order", order, low=0)
        self.beta = _validate.hyper_parameter("beta", beta)
        self.decay = _validate.real("decay", decay, low=_validate.SMALLEST_PARAMETER, high=1.0)
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
