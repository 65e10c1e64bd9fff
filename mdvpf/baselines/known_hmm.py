"""`KnownHMM`: the generator of a stream as its predictor, which is optimal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdvpf._support import validate
from mdvpf._support.attributes import ReadOnly
from mdvpf._support.shown import shown_list
from mdvpf.baselines.base import Baseline
from mdvpf.checkpoint import State, read_array, register, require
from mdvpf.datasets.hmm_sources import HMM, read_hmms
from mdvpf.predictor import MISSING, NO_KEY
from mdvpf.predictor.saved_numbers import numbers_to_arrays, read_key_numbers

_LARGEST_TIME = 2**62
_MATRICES = ("start", "transition", "emission")


@register("KnownHMM")
class KnownHMM(Baseline):
    """Exact forward filter of given HMMs that switch at given times: the generator itself.

    At a change point, and in a new sequence, the state is drawn from the start distribution of the
    current HMM. Each key has its own state; a change of HMM applies to all keys. A symbol of
    probability zero has log predictive -inf, and does not change the distribution of the state.

    Parameters
    ----------
    hmms : HMM or sequence of HMM
        The HMM of each segment.
    change_points : array_like of int, optional
        Indices of the first symbols of the second and later segments. Symbols are counted from 0
        over the life of the predictor, including missing symbols and all keys.
    n_symbols : int, optional
        Size of the alphabet, by default the largest one of the HMMs. It is never open: a symbol
        that the HMM of a segment does not have gets probability zero.

    Examples
    --------
    >>> import mdvpf
    >>> stream = mdvpf.datasets.switching_hmm(rng=0)
    >>> generator = mdvpf.KnownHMM(stream.hmms, stream.change_points)
    >>> result = generator.run(stream.symbols)
    >>> bool(result.log_predictive.mean() > -1.45)
    True
    """

    hmms: ReadOnly[tuple[HMM, ...]] = ReadOnly()
    change_points: ReadOnly[tuple[int, ...]] = ReadOnly()

    def __init__(
        self,
        hmms: HMM | Sequence[HMM],
        change_points: ArrayLike = (),
        *,
        n_symbols: int | None = None,
    ) -> None:
        self.hmms = read_hmms([hmms] if isinstance(hmms, HMM) else hmms)
        points = validate.integers("change_points", change_points, low=1).tolist()
        if len(points) != len(self.hmms) - 1:
            raise ValueError(
                f"change_points has {len(points)} entries: expected {len(self.hmms) - 1}, "
                "one less than hmms has"
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
        # The distribution of the state that emits the next symbol, by the number of the key. A key
        # without an entry is at the start of a sequence.
        self._states: dict[int, NDArray[np.float64]] = {}

    def __repr__(self) -> str:
        sizes = shown_list([hmm.n_states for hmm in self.hmms])
        return f"KnownHMM({sizes} states, change_points={shown_list(self.change_points)})"

    def _size(self) -> int:
        return self.hmms[self._segment].n_states

    def _state(self, number: int) -> NDArray[np.float64]:
        """Return the distribution of the state that emits the next symbol of a key."""
        return self._states.get(number, self.hmms[self._segment].start)

    def _predict(self, number: int = NO_KEY) -> NDArray[np.float64]:
        emission = self.hmms[self._segment].emission
        out = np.zeros(self._n_symbols)
        out[: emission.shape[1]] = self._state(number) @ emission
        return out

    def _end(self, number: int = NO_KEY) -> None:
        self._states.pop(number, None)

    def copy(self) -> Self:
        """Return an independent copy."""
        other = super().copy()
        other._states = self._states.copy()
        return other

    def freeze(self) -> Self:
        """Return a copy that keeps the current HMM and never switches."""
        other = object.__new__(type(self))
        KnownHMM.__init__(other, self.hmms[self._segment], n_symbols=self._n_symbols)
        other._states = self._states.copy()
        other._key_table = self._table.copy()
        other.vocabulary = None if self.vocabulary is None else self.vocabulary.copy()
        return other

    def _advance(self, symbol: int, number: int) -> float:
        hmm = self.hmms[self._segment]
        state = self._state(number)
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
            self._states.clear()
        else:
            self._states[number] = state @ hmm.transition
        return log_predictive

    def _to_state(self) -> State:
        values = {
            "n_symbols": self._n_symbols,
            "change_points": list(self.change_points),
            "time": self._time,
        }
        arrays: dict[str, NDArray[Any]] = {"state": self._state(NO_KEY)}
        numbers = sorted(number for number in self._states if number != NO_KEY)
        if numbers:
            arrays |= numbers_to_arrays(numbers)
            arrays["key_states"] = np.stack([self._states[number] for number in numbers])
        for i, hmm in enumerate(self.hmms):
            arrays |= {f"{name} {i}": getattr(hmm, name) for name in _MATRICES}
        return State(values, arrays)

    @classmethod
    def _from_state(cls, state: State, given: dict[str, Any]) -> Self:
        values = dict(state.values)
        time = validate.integer("time", values.pop("time"), low=0, high=_LARGEST_TIME)
        n_hmms = len(values["change_points"]) + 1
        self = object.__new__(cls)
        KnownHMM.__init__(self, [_exact_hmm(state, i) for i in range(n_hmms)], **values)
        self._time = time
        self._segment = sum(point <= time for point in self.change_points)
        states = read_array(state, "state", "<f8", (self._size(),))[np.newaxis]
        numbers = [NO_KEY, *read_key_numbers(state)]
        if len(numbers) > 1:
            others = read_array(state, "key_states", "<f8", (len(numbers) - 1, self._size()))
            states = np.concatenate([states, others])
        require(np.all(states >= 0), "a probability is negative")
        require(np.all(np.abs(states.sum(axis=1) - 1.0) < 1e-6), "probabilities do not sum to one")
        self._states = dict(zip(numbers, states, strict=True))
        return self


def _exact_hmm(state: State, i: int) -> HMM:
    """Return an HMM with exactly the saved numbers; its constructor would normalise them again."""
    start = read_array(state, f"start {i}", "<f8", (None,))
    others = [read_array(state, f"{name} {i}", "<f8", (len(start), None)) for name in _MATRICES[1:]]
    hmm = HMM(start, *others)
    for name, saved in zip(_MATRICES, (start, *others), strict=True):
        saved.setflags(write=False)
        object.__setattr__(hmm, name, saved)
    return hmm
