"""`FrozenMixture`: frozen members, mixed by Bayes' rule within a sequence.

The members no longer learn, and neither does the mixture from one sequence to the next: every
sequence starts from the weights that the mixture had when it was frozen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf._support.interrupts import interrupts_held
from mdvpf.checkpoint import State, register, require, taken
from mdvpf.mixture.members import read_members
from mdvpf.mixture.weights import Weights, weighted_fields
from mdvpf.predictor import MISSING, N_FIELDS, NO_KEY, Predictor, Step, Stream, read_symbol

_CHUNK = 4096  # symbols that each member runs over before the predictions are combined
_TOLERANCE = 1e-6  # of the sum of the weights in a checkpoint


@register("FrozenMixture")
class FrozenMixture(Predictor):
    """Frozen predictors with the weights of a mixture: what `Mixture.freeze` returns.

    Within a sequence the weights follow Bayes' rule, without a share. A new sequence starts from
    the weights that were passed.

    Parameters
    ----------
    members : sequence of Predictor
        At least one, all with the same alphabet. They are frozen.
    weights : array_like of float
        The weight of each at the start of a sequence. They are divided by their sum.

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
        self._members = [member.freeze() for member in read_members(members)]
        self._log_weight = _read_weights("weights", weights, len(self._members))
        self._weights = Weights(len(self._members), 0.0)
        self._weights.log = self._log_weight[np.newaxis].copy()

    def __repr__(self) -> str:
        return f"FrozenMixture({self._members!r})"

    @property
    def n_symbols(self) -> int:
        """Size of the alphabet."""
        return self._members[0].n_symbols

    @property
    def members(self) -> tuple[Predictor, ...]:
        """The frozen members. To look at: they belong to the mixture."""
        return tuple(self._members)

    @property
    def weights(self) -> NDArray[np.float64]:
        """Weight of each member in the prediction of the next symbol."""
        weights: NDArray[np.float64] = np.exp(self._weights.log[0])
        return weights

    def predict_proba(self) -> NDArray[np.float64]:
        """Return the distribution of the next symbol."""
        out = np.zeros(self.n_symbols)
        for weight, member in zip(self.weights.tolist(), self._members, strict=True):
            out += weight * member.predict_proba()
        return out

    def update(self, symbol: int | None) -> Step:
        """Follow one symbol; None is a missing one. Nothing is learnt."""
        code = read_symbol(symbol, self.n_symbols)
        with interrupts_held():
            log_predictive, mean_states, ess, n_particles, discarded = self._update(code, None)
        return Step(log_predictive, mean_states, ess, int(n_particles), discarded)

    def _step(self, symbol: int, number: int = NO_KEY) -> Sequence[float]:
        found = np.array([[member._step(symbol) for member in self._members]], dtype=np.float64)
        log_predictive = 0.0 if symbol == MISSING else self._weights.absorb(found[..., 0])
        fields = weighted_fields(np.exp(self._weights.log)[np.newaxis], found[np.newaxis])
        return log_predictive, *fields[0].tolist()

    def new_sequence(self) -> None:
        """End the sequence: the next starts from the weights at freezing."""
        for member in self._members:
            member.new_sequence()
        self._weights.log = self._log_weight[np.newaxis].copy()

    def copy(self) -> Self:
        """Return an independent copy."""
        other = self._twin()
        other._members = [member.copy() for member in self._members]
        other._weights = self._weights.copy()
        return other

    def __copy__(self) -> Self:
        return self.copy()

    def freeze(self) -> Self:
        """Return a copy: it is frozen already."""
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
            each = zip(now.symbols.tolist(), now.starts.tolist(), strict=True)
            for t, (symbol, is_new) in enumerate(each):
                if is_new:
                    self._weights.log = self._log_weight[np.newaxis].copy()
                reports[t, 0] = 0.0
                if symbol != MISSING:
                    reports[t, 0] = self._weights.absorb(found[t, :, 0])
                after[t] = self._weights.log
        reports[:, 1] = reports[:, 0]
        reports[:, 2:] = weighted_fields(np.exp(after), found[:, np.newaxis])

    # -- checkpoints -----------------------------------------------------------------------

    def _to_state(self) -> State:
        arrays = {"log_weight": self._log_weight, "present_log_weight": self._weights.log[0]}
        parts = {f"member {i}": member for i, member in enumerate(self._members)}
        return State({}, arrays, parts)

    @classmethod
    def _from_state(cls, state: State, given: dict[str, Any]) -> Self:
        require(not state.values, "values that no frozen mixture has")
        parts = dict(state.parts)
        members = [parts.pop(f"member {i}") for i in range(len(parts))]
        require(all(isinstance(each, Predictor) for each in members), "a member predicts nothing")
        shape = (len(members),)
        logs = [taken(state, f"{name}log_weight", "<f8", shape) for name in ("", "present_")]
        for log in logs:
            require(np.all(log <= _TOLERANCE), "weights that are too large, or NaN")
            require(abs(np.exp(log).sum() - 1.0) < _TOLERANCE, "weights without sum")
        self = object.__new__(cls)
        FrozenMixture.__init__(self, members, np.ones(len(members)))
        self._log_weight = logs[0]
        self._weights.log = logs[1][np.newaxis]
        return self


def _read_weights(name: str, weights: Any, n: int) -> NDArray[np.float64]:
    """Return the logs of weights, divided by their sum, or raise."""
    values = validate.entries(name, weights, of="numbers")
    found = np.array(
        [validate.real(f"{name}[{i}]", w, low=0.0, high=1e100) for i, w in enumerate(values)]
    )
    if len(found) != n or not found.any():
        raise ValueError(f"{name}={weights!r}: expected {n} numbers, not all of them zero")
    with np.errstate(divide="ignore"):
        logs: NDArray[np.float64] = np.log(found / found.sum())
    return logs
