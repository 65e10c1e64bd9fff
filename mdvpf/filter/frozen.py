"""`FrozenFilter`: the particles of a filter as finite HMMs that no longer learn.

Every particle is an HMM, or a Mealy machine, in which the symbol chooses the next row as well
(`finite_hmm.py`). Within each the states are filtered forward exactly. The particles are mixed by
Bayes' rule: within a sequence the weight of a particle grows with how well it predicts, and a new
sequence starts from the weights that the filter had when it was frozen. So what is predicted in a
sequence depends on nothing outside of it, and a run over many short sequences advances many of them
together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf._support.interrupts import interrupts_held
from mdvpf.checkpoint import State, register, require, taken
from mdvpf.datasets import HMM
from mdvpf.filter.finite_hmm import FiniteMachine
from mdvpf.predictor import MISSING, NO_KEY, Predictor, Step, Stream, read_symbol

_CHUNK = 16_384  # symbols of one call of `_absorb`
_TOGETHER = 500_000  # probabilities of states of the sequences that advance together, about
_TABLES = ("start", "transition", "emission")
_TOLERANCE = 1e-6  # of sums of probabilities in a checkpoint
_MEALY = {"machine": "mealy"}  # what a checkpoint says of Mealy machines


class _Position:
    """Where sequences stand: one entry a sequence on the first axis, then one a particle.

    Attributes
    ----------
    log_weight : ndarray of shape (n_sequences, n_particles)
        Normalised log weight of each particle.
    state : ndarray of shape (n_sequences, n_particles, n_states)
        Distribution of the state that emits the next symbol, by particle.
    """

    def __init__(self, log_weight: NDArray[np.float64], state: NDArray[np.float64]) -> None:
        self.log_weight = log_weight
        self.state = state

    def repeated(self, n: int) -> _Position:
        """Return n sequences that stand where the only one does."""
        weights = np.repeat(self.log_weight, n, axis=0)
        return _Position(weights, np.repeat(self.state, n, axis=0))

    def first(self, n: int) -> _Position:
        """Return the first n sequences."""
        return _Position(self.log_weight[:n], self.state[:n])

    def only(self, i: int) -> _Position:
        """Return one of the sequences."""
        return _Position(self.log_weight[i : i + 1].copy(), self.state[i : i + 1].copy())


@register("FrozenFilter")
class FrozenFilter(Predictor):
    """Finite HMMs mixed by weight, with fixed parameters: what `ParticleFilter.freeze` returns.

    Frozen Mealy machines come from there only: they are not made of HMMs, so that no symbol is
    impossible.

    Parameters
    ----------
    hmms : sequence of HMM
        The particles, all with the same alphabet.
    weights : array_like of float
        The weight of each at the start of a sequence. They are divided by their sum.
    states : array_like of int, optional
        The state that each stands in, -1 before the first symbol of a sequence, which is the
        default.

    Examples
    --------
    >>> import mdvpf
    >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(n_symbols=2, beta=0.01), n_particles=10)
    >>> _ = pf.run([0, 1] * 20)
    >>> frozen = pf.freeze()
    >>> before = frozen.score([0, 1, 0], lengths=[3])
    >>> _ = frozen.run([1] * 100)
    >>> bool((frozen.score([0, 1, 0], lengths=[3]) == before).all())
    True
    """

    _may_reject = False

    def __init__(self, hmms: Sequence[HMM], weights: Any, states: Any = None) -> None:
        found = _read_hmms(hmms)
        self._set_tables([(hmm.start, hmm.transition, hmm.emission) for hmm in found])
        n = len(found)
        self._log_weight = np.log(_read_weights(weights, n))
        standing = np.full(n, -1) if states is None else validate.integers("states", states, low=-1)
        if len(standing) != n or np.any(standing >= self._sizes):
            raise ValueError(f"states={standing.tolist()}: expected a state of each of {n} HMMs")
        self._stand(standing, MISSING)

    @classmethod
    def _of_machines(
        cls,
        machines: Sequence[FiniteMachine],
        weights: NDArray[np.float64],
        labels: NDArray[np.int64],
        symbol: int | None,
    ) -> Self:
        """Return the particles as machines, all Moore or all Mealy.

        `labels` are those of the states in which the particles stand, -1 for S; they emitted
        `symbol` last, None if it was missing.
        """
        self = object.__new__(cls)
        self._set_tables([(found.start, found.transition, found.emission) for found in machines])
        self._log_weight = np.log(weights / weights.sum())
        pairs = zip(machines, labels.tolist(), strict=True)
        standing = np.array([found.state_of(label) for found, label in pairs])
        self._stand(standing, MISSING if symbol is None else symbol)
        return self

    def _set_tables(self, parts: Sequence[tuple[NDArray[np.float64], ...]]) -> None:
        """Join start, transition and emission of all particles."""
        self._sizes = np.array([len(start) for start, _, _ in parts], dtype=np.int64)
        n, most = len(parts), int(self._sizes.max())
        _, transition, emission = parts[0]
        # States that a particle lacks have no probability, in whatever row or column. Symbols
        # come first: tables are looked up by them.
        self._start = np.zeros((n, most))
        self._transition = np.zeros((*transition.shape[:-2], n, most, most))
        self._emission = np.zeros((emission.shape[1], n, most))
        for k, (start, transition, emission) in enumerate(parts):
            size = len(start)
            self._start[k, :size] = start
            self._transition[..., k, :size, :size] = transition
            self._emission[:, k, :size] = emission.T

    @property
    def _is_mealy(self) -> bool:
        return self._transition.ndim == 4

    def _transition_after(self, symbol: int) -> NDArray[np.float64]:
        """Return the transitions of all particles after a symbol; those of a missing one are last.

        An HMM has the same after all symbols.
        """
        return self._transition[symbol] if self._is_mealy else self._transition

    def _stand(self, states: NDArray[np.int64], symbol: int) -> None:
        """Stand in a state with each particle, -1 for S, after a symbol."""
        self._position = self._origin()
        transition = self._transition_after(symbol)
        for k in np.flatnonzero(states >= 0).tolist():
            self._position.state[0, k] = transition[k, states[k]]

    def __repr__(self) -> str:
        return f"FrozenFilter({len(self._sizes)} particles, n_symbols={self.n_symbols})"

    def _origin(self) -> _Position:
        """Return where a sequence starts."""
        return _Position(self._log_weight[np.newaxis].copy(), self._start[np.newaxis].copy())

    # -- the protocol ----------------------------------------------------------------------

    @property
    def n_symbols(self) -> int:
        """Size of the alphabet."""
        return len(self._emission)

    @property
    def weights(self) -> NDArray[np.float64]:
        """Weight of each particle in the prediction of the next symbol."""
        weights: NDArray[np.float64] = np.exp(self._position.log_weight[0])
        return weights

    def predict_proba(self) -> NDArray[np.float64]:
        """Return the distribution of the next symbol."""
        share = self.weights[:, np.newaxis] * self._position.state[0]
        out: NDArray[np.float64] = self._emission.reshape(self.n_symbols, -1) @ share.ravel()
        out /= out.sum()
        return out

    def update(self, symbol: int | None) -> Step:
        """Follow one symbol; None is a missing one. Nothing is learnt."""
        return Step._make(self._update(read_symbol(symbol, self.n_symbols), None))

    def _step(self, symbol: int, number: int = NO_KEY) -> Sequence[float]:
        found = self._advance(self._position, np.array([symbol]))
        log_predictive, mean_states, ess = (float(values[0]) for values in found)
        return log_predictive, mean_states, ess, len(self._sizes), 0.0

    def new_sequence(self) -> None:
        """End the sequence: the next starts from the weights at freezing."""
        self._position = self._origin()

    def copy(self) -> Self:
        """Return an independent copy; what never changes is shared."""
        other = self._twin()
        other._position = self._position.only(0)
        return other

    def __copy__(self) -> Self:
        return self.copy()

    def freeze(self) -> Self:
        """Return a copy: it is frozen already."""
        return self.copy()

    # -- the arithmetic --------------------------------------------------------------------

    def _advance(
        self, at: _Position, symbols: NDArray[Any]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Advance sequences by one symbol each, in place.

        Returns the log predictives, the mean numbers of states and the effective sample sizes
        afterwards. Of symbols that are impossible, or missing, nothing is concluded.
        """
        seen = symbols != MISSING
        joint = at.state * self._emission[symbols]
        joint[~seen] = at.state[~seen]  # a missing symbol is emitted with probability 1
        probability = joint.sum(axis=2)
        possible = probability > 0.0
        with np.errstate(divide="ignore"):
            log_joint = at.log_weight + np.log(probability)
        top = log_joint.max(axis=1, keepdims=True)
        known = seen & (top[:, 0] > -math.inf)
        shifted = np.exp(log_joint - np.where(known[:, np.newaxis], top, 0.0))
        mixed = np.where(known, top[:, 0], 0.0) + np.log(np.where(known, shifted.sum(axis=1), 1.0))
        updated = log_joint - mixed[:, np.newaxis]
        at.log_weight = np.where(known[:, np.newaxis], updated, at.log_weight)
        if not np.all(possible):
            joint = np.where(possible[:, :, np.newaxis], joint, at.state)
            probability = np.where(possible, probability, 1.0)
        joint /= probability[:, :, np.newaxis]
        at.state = self._moved(joint, symbols)
        weights = np.exp(at.log_weight)
        log_predictive = np.where(seen & ~known, -math.inf, mixed)
        return log_predictive, weights @ self._sizes, 1.0 / (weights**2).sum(axis=1)

    def _moved(self, states: NDArray[np.float64], symbols: NDArray[Any]) -> NDArray[np.float64]:
        """Return the distributions of the next states: one product of matrices a particle.

        It is made for all sequences together, or in a Mealy machine for those that have the same
        symbol.
        """
        if not self._is_mealy:
            moved = np.matmul(states.transpose(1, 0, 2), self._transition)
            return np.ascontiguousarray(moved.transpose(1, 0, 2))
        result = np.empty_like(states)
        for symbol in np.unique(symbols).tolist():
            chosen = np.flatnonzero(symbols == symbol)
            moved = np.matmul(states[chosen].transpose(1, 0, 2), self._transition_after(symbol))
            result[chosen] = moved.transpose(1, 0, 2)
        return result

    # -- one run ---------------------------------------------------------------------------

    @property
    def _chunk(self) -> int:
        return _CHUNK

    def _absorb(
        self, stream: Stream, plan: None, part: slice, reports: NDArray[np.float64]
    ) -> None:
        symbols, starts = stream.symbols[part], np.flatnonzero(stream.starts[part])
        reports[:, 4] = len(self._sizes)
        reports[:, 5] = 0.0
        ends = np.append(starts[1:], len(symbols))
        with interrupts_held():
            first = int(starts[0]) if len(starts) else len(symbols)
            for i in range(first):  # the sequence that was under way
                self._report(reports, np.array([i]), self._position, symbols)
            if len(starts):
                self._absorb_sequences(symbols, starts, ends - starts, reports)
        reports[:, 1] = reports[:, 0]

    def _absorb_sequences(
        self,
        symbols: NDArray[np.int32],
        starts: NDArray[np.int64],
        sizes: NDArray[np.int64],
        reports: NDArray[np.float64],
    ) -> None:
        """Absorb whole sequences, many at a time, the longest first; stand where the last ends."""
        together = max(1, _TOGETHER // self._start.size)
        order = np.argsort(-sizes, kind="stable")
        last = len(starts) - 1
        for begin in range(0, len(order), together):
            chosen = order[begin : begin + together]
            at = self._origin().repeated(len(chosen))
            for t in range(int(sizes[chosen[0]])):
                n = int(np.searchsorted(-sizes[chosen], -t, side="left"))  # longer than t
                at = at.first(n)
                self._report(reports, starts[chosen[:n]] + t, at, symbols)
                if t == sizes[last] - 1 and last in chosen[:n]:
                    found = int(np.flatnonzero(chosen == last)[0])
                    self._position = at.only(found)

    def _report(
        self,
        reports: NDArray[np.float64],
        places: NDArray[np.int64],
        at: _Position,
        symbols: NDArray[np.int32],
    ) -> None:
        """Advance sequences by the symbols at some places, and report on them there."""
        reports[places, 0], reports[places, 2], reports[places, 3] = self._advance(
            at, symbols[places]
        )

    # -- checkpoints -----------------------------------------------------------------------

    def _to_state(self) -> State:
        arrays = {name: getattr(self, f"_{name}") for name in _TABLES}
        arrays["sizes"] = self._sizes
        arrays["log_weight"] = self._log_weight
        arrays["present_log_weight"] = self._position.log_weight[0]
        arrays["state"] = self._position.state[0]
        return State(dict(_MEALY) if self._is_mealy else {}, arrays)

    @classmethod
    def _from_state(cls, state: State, given: dict[str, Any]) -> Self:
        is_mealy = state.values == _MEALY
        require(is_mealy or not state.values, "values that no frozen filter has")
        self = object.__new__(cls)
        start = taken(state, "start", "<f8", (None, None))
        n, most = start.shape
        require(n > 0 and most > 0, "no particles, or none with a state")
        sizes = taken(state, "sizes", "<i8", (n,))
        require(np.all((sizes >= 1) & (sizes <= most)), "numbers of states that cannot be")
        emission = taken(state, "emission", "<f8", (None, n, most))
        require(len(emission) > 0, "no symbols")
        symbols = (len(emission) + 1,) if is_mealy else ()
        transition = taken(state, "transition", "<f8", (*symbols, n, most, most))
        position = taken(state, "state", "<f8", (n, most))
        exists = np.arange(most) < sizes[:, np.newaxis]
        for name, rows in (("start", start), ("state", position)):
            require(_are_distributions(rows, exists[:, np.newaxis, :]), f"{name} makes no sense")
        exists_both = exists[:, :, np.newaxis] & exists[:, np.newaxis, :]
        for table in transition.reshape(-1, n, most, most):
            require(_are_distributions(table, exists_both), "transition makes no sense")
        emits = emission.transpose(1, 2, 0)
        require(_are_distributions(emits, exists[:, :, np.newaxis]), "emission makes no sense")
        weights = [taken(state, name, "<f8", (n,)) for name in ("log_weight", "present_log_weight")]
        for log_weight in weights:
            require(np.all(log_weight <= _TOLERANCE), "weights that are too large, or NaN")
            require(abs(np.exp(log_weight).sum() - 1.0) < _TOLERANCE, "weights without sum")
        self._sizes, self._start = sizes, start
        self._transition, self._emission = transition, emission
        self._log_weight = weights[0]
        self._position = _Position(weights[1][np.newaxis], position[np.newaxis])
        return self


def _read_hmms(hmms: Any) -> list[HMM]:
    found = validate.entries("hmms", hmms, of="HMMs")
    for i, hmm in enumerate(found):
        if not isinstance(hmm, HMM):
            raise TypeError(f"hmms[{i}]={hmm!r}: expected an HMM")
        if hmm.n_symbols != found[0].n_symbols:
            raise ValueError(
                f"hmms[{i}] has {hmm.n_symbols} symbols: expected {found[0].n_symbols}, as hmms[0]"
            )
    return found


def _read_weights(weights: Any, n: int) -> NDArray[np.float64]:
    values = validate.entries("weights", weights, of="numbers")
    found = np.array(
        [validate.real(f"weights[{i}]", w, low=0.0, high=1e100) for i, w in enumerate(values)]
    )
    if len(found) != n or not np.all(found > 0.0):
        raise ValueError(f"weights={weights!r}: expected {n} positive numbers, one for each HMM")
    found /= found.sum()
    return found


def _are_distributions(rows: NDArray[np.float64], exists: NDArray[np.bool_]) -> bool:
    """Return whether rows that exist are distributions, and nothing else has a probability.

    Rows of a table of two dimensions are the table's; `exists` can be broadcast to the entries.
    """
    table = rows if rows.ndim == 3 else rows[:, np.newaxis, :]
    allowed = np.broadcast_to(exists, table.shape)
    if not np.all(table >= 0.0) or np.any(table[~allowed]):
        return False
    sums = table.sum(axis=2)
    wanted = allowed.any(axis=2)
    return bool(np.all(np.abs(sums - wanted) < _TOLERANCE))
