"""`FrozenMixture`: frozen members, mixed by Bayes' rule within a sequence.

Members do not learn. Weights change within a sequence only: every sequence starts from the weights
at the time of freezing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf._support.interrupts import interrupts_held
from mdvpf._support.shown import shown_members
from mdvpf.checkpoint import State, read_array, register, require
from mdvpf.filter.predictive import Predictive
from mdvpf.mixture.members import Combined, check_members, read_members
from mdvpf.mixture.weights import Weights, weighted_fields
from mdvpf.model import read_observation
from mdvpf.predictor import (
    MISSING,
    N_FIELDS,
    NO_KEY,
    NONE_ENDS,
    Label,
    Predictor,
    Step,
    Stream,
    read_symbol,
)

_CHUNK = 4096  # symbols that each member runs over before the predictions are combined
_TOLERANCE = 1e-6  # of the sum of the weights in a checkpoint


@register("FrozenMixture")
class FrozenMixture(Combined):
    """Frozen predictors with the weights of a mixture: what `Mixture.freeze` returns.

    Within a sequence the weights follow Bayes' rule, without a share. A new sequence starts from
    `weights`. Every key therefore has its own weights, as part of its position.

    Parameters
    ----------
    members : sequence of Predictor
        At least one, all with the same alphabet. The mixture keeps frozen copies, which end the
        sequences of all keys.
    weights : array_like of float
        Weight of each member at the start of a sequence. The constructor normalises them.

    Examples
    --------
    >>> import mdvpf
    >>> mixture = mdvpf.Mixture.grid(2, alpha=[1], gamma=[1], n_particles=10)
    >>> _ = mixture.run([0, 1] * 20)
    >>> frozen = mixture.freeze()
    >>> before = frozen.score([0, 1, 0], lengths=[3])
    >>> _ = frozen.run([1] * 100)
    >>> bool((frozen.score([0, 1, 0], lengths=[3]) == before).all())
    True
    """

    _may_reject = False

    def __init__(self, members: Sequence[Predictor], weights: Any) -> None:
        self._set([member.freeze() for member in read_members(members)], weights)

    @classmethod
    def _of(cls, members: Sequence[Predictor], weights: Any) -> Self:
        """Return a mixture of frozen members, whose positions have the numbers of its keys."""
        self = object.__new__(cls)
        self._set(check_members(members), weights)
        return self

    def _set(self, members: list[Predictor], weights: Any) -> None:
        self._members = members
        self._log_weight = _read_weights("weights", weights, len(members))
        # The present log weights by number of the key; a key without an entry is at its start.
        # Copies share the arrays, which are never modified.
        self._present: dict[int, NDArray[np.float64]] = {}

    def __repr__(self) -> str:
        return f"FrozenMixture({shown_members(self._members, self._leaves())})"

    def _leaves(self) -> Iterator[Predictor]:
        """Yield the members that are not mixtures, of nested mixtures too."""
        for member in self._members:
            if isinstance(member, FrozenMixture):
                yield from member._leaves()
            else:
                yield member

    def _description(self) -> str:
        members = ", ".join(member._description() for member in self._members)
        return f"FrozenMixture([{members}])"

    @property
    def members(self) -> tuple[Predictor, ...]:
        """The frozen members, for inspection only: the mixture owns them."""
        return tuple(self._members)

    @property
    def weights(self) -> NDArray[np.float64]:
        """Weight of each member in the prediction of the next symbol, for key=None."""
        return self._weights_of(NO_KEY)

    def _weights_of(self, number: int) -> NDArray[np.float64]:
        weights: NDArray[np.float64] = np.exp(self._present.get(number, self._log_weight))
        return weights

    def predict_proba(self, key: Label | None = None) -> NDArray[np.float64]:
        """Return the distribution of the next symbol of a key.

        Examples
        --------
        >>> import mdvpf
        >>> mixture = mdvpf.Mixture([mdvpf.Markov(4), mdvpf.ContextTree(4)])
        >>> mixture.freeze().predict_proba().tolist()
        [0.25, 0.25, 0.25, 0.25]
        """
        self._check_symbols("predict_proba")
        return self._predict(self._number(key))

    def predictive(self, key: Label | None = None) -> Predictive:
        """Return the distribution of the next observation of a key, for members over numbers.

        Examples
        --------
        >>> import mdvpf
        >>> model = mdvpf.InfiniteHMM(emission=mdvpf.Gaussian(mean=3.0))
        >>> mixture = mdvpf.Mixture([mdvpf.ParticleFilter(model, n_particles=5)])
        >>> mixture.freeze().predictive().mean()
        3.0
        """
        if self._family is None:
            raise TypeError("predictive: observations are symbols; expected predict_proba()")
        return self._predictive(self._number(key))

    def _predictive(self, number: int) -> Predictive:
        parts = [member._predictive(number) for member in self._members]  # type: ignore[attr-defined]
        return Predictive.mixed(self._weights_of(number), parts)

    def _predict(self, number: int = NO_KEY) -> NDArray[np.float64]:
        out = np.zeros(self.n_symbols + self.is_open)
        for weight, member in zip(self._weights_of(number).tolist(), self._members, strict=True):
            out += weight * member._predict(number)
        return out

    def update(self, symbol: Any, key: Label | None = None) -> Step:
        """Advance by one symbol of a key without learning; None is a missing symbol.

        Examples
        --------
        >>> import mdvpf
        >>> mixture = mdvpf.Mixture([mdvpf.Markov(4), mdvpf.ContextTree(4)])
        >>> round(mixture.freeze().update(3).log_predictive, 6)
        -1.386294
        """
        if self._family is not None:
            return self._update_numbers(read_observation(self._family, symbol), key)
        code = read_symbol(symbol, self.n_symbols + self.is_open)
        with interrupts_held():
            log_predictive, mean_states, ess, n_particles, discarded = self._update(code, key)
        return Step(log_predictive, mean_states, ess, int(n_particles), discarded)

    def _step(self, symbol: int, number: int = NO_KEY) -> Sequence[float]:
        steps = [member._step(symbol, number) for member in self._members]
        found = np.array([steps], dtype=np.float64)
        log_predictive = 0.0
        if symbol != MISSING:
            rule = Weights(len(self._members), 0.0)
            log_predictive = self._follow(rule, number, found[..., 0])
        weights = self._weights_of(number)
        fields = weighted_fields(weights[np.newaxis, np.newaxis], found[np.newaxis])
        return log_predictive, *fields[0].tolist()

    def _follow(self, rule: Weights, number: int, log_predictive: NDArray[np.float64]) -> float:
        """Update the weights by the members' log predictives; return that of the mixture."""
        rule.log = self._present.get(number, self._log_weight)[np.newaxis]
        mixed = rule.absorb(log_predictive)
        self._present[number] = rule.log[0]
        return mixed

    def new_sequence(self, key: Label | None = None) -> None:
        """End the sequence of a key: the next one starts from the frozen weights.

        Examples
        --------
        >>> import mdvpf
        >>> mixture = mdvpf.Mixture([mdvpf.Markov(2, order=0), mdvpf.Markov(2, order=1)])
        >>> _ = mixture.run([0, 1] * 20)
        >>> frozen = mixture.freeze()
        >>> _ = frozen.run([1] * 10)
        >>> frozen.weights.round(2).tolist()
        [1.0, 0.0]
        >>> frozen.new_sequence()
        >>> frozen.weights.round(2).tolist()
        [0.01, 0.99]
        """
        self._new_sequence(key)

    def _end(self, number: int = NO_KEY) -> None:
        for member in self._members:
            member._end(number)
        self._present.pop(number, None)

    def copy(self) -> Self:
        """Return an independent copy."""
        other = self._twin()
        other._members = [member.copy() for member in self._members]
        other._present = self._present.copy()
        return other

    def __copy__(self) -> Self:
        return self.copy()

    def freeze(self) -> Self:
        """Return a copy, which is frozen too."""
        return self.copy()

    # -- one run ---------------------------------------------------------------------------

    @property
    def _chunk(self) -> int:
        return _CHUNK

    def _absorb(
        self, stream: Stream, plan: None, part: slice, reports: NDArray[np.float64]
    ) -> None:
        now = stream[part]
        with interrupts_held():
            found = np.stack(
                [m._run(now, m._plan(now))[:, :N_FIELDS] for m in self._members], axis=1
            )
            after = np.empty((len(now), 1, len(self._members)))
            rule = Weights(len(self._members), 0.0)
            numbers = [NO_KEY] * len(now) if now.numbers is None else now.numbers.tolist()
            each = zip(now.symbols.tolist(), now.ended.tolist(), numbers, strict=True)
            for t, (symbol, ended, number) in enumerate(each):
                if ended != NONE_ENDS:
                    self._present.pop(ended, None)
                reports[t, 0] = 0.0
                if symbol != MISSING:
                    reports[t, 0] = self._follow(rule, number, found[t, :, 0])
                after[t] = self._present.get(number, self._log_weight)
        reports[:, 1] = reports[:, 0]
        reports[:, 2:] = weighted_fields(np.exp(after), found[:, np.newaxis])

    # -- checkpoints -----------------------------------------------------------------------

    def _to_state(self) -> State:
        present = self._present.get(NO_KEY, self._log_weight)
        arrays = {"log_weight": self._log_weight, "present_log_weight": present}
        keyed = {number: log for number, log in self._present.items() if number != NO_KEY}
        if keyed:
            arrays["key_numbers"] = np.array(list(keyed), dtype=np.int32)
            arrays["key_log_weights"] = np.stack(list(keyed.values()))
        parts = {f"member {i}": member for i, member in enumerate(self._members)}
        return State({}, arrays, parts)

    @classmethod
    def _from_state(cls, state: State, given: dict[str, Any]) -> Self:
        require(not state.values, "unexpected values in a frozen mixture")
        parts = dict(state.parts)
        members = [parts.pop(f"member {i}") for i in range(len(parts))]
        require(all(isinstance(each, Predictor) for each in members), "a member is not a predictor")
        n = len(members)
        first, present = (
            read_array(state, f"{name}log_weight", "<f8", (n,)) for name in ("", "present_")
        )
        numbers, logs = np.empty(0, dtype=np.int32), np.empty((0, n))
        if "key_numbers" in state.arrays:
            numbers = read_array(state, "key_numbers", "<i4", (None,))
            logs = read_array(state, "key_log_weights", "<f8", (len(numbers), n))
        require(np.all(numbers > NO_KEY), "a key out of range")
        require(len(np.unique(numbers)) == len(numbers), "a key occurs twice")
        every = np.vstack([first, present, logs])
        require(np.all(every <= _TOLERANCE), "a weight above one, or NaN")
        sums = np.exp(every).sum(axis=1)
        require(np.all(np.abs(sums - 1.0) < _TOLERANCE), "weights do not sum to one")
        self = cls._of([member.freeze() for member in members], np.ones(n))
        self._log_weight = first
        self._present = {NO_KEY: present, **dict(zip(numbers.tolist(), logs, strict=True))}
        return self


def _read_weights(name: str, weights: Any, n: int) -> NDArray[np.float64]:
    """Return the logs of the normalised weights, or raise."""
    values = validate.entries(name, weights, of="numbers")
    found = np.array(
        [validate.real(f"{name}[{i}]", w, low=0.0, high=1e100) for i, w in enumerate(values)]
    )
    if len(found) != n or not found.any():
        raise ValueError(f"{name}={weights!r}: expected {n} numbers, not all of them zero")
    with np.errstate(divide="ignore"):
        logs: NDArray[np.float64] = np.log(found / found.sum())
    return logs
