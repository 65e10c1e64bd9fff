"""`FrozenFilter`: the particles of a filter as finite HMMs that no longer learn.

Every particle is a finite HMM or a Mealy machine (`finite_hmm.py`). Exact forward filtering tracks
its state. Bayes' rule updates the weights of the particles within a sequence; a new sequence starts
from the weights that the filter had when it was frozen. Predictions within a sequence therefore
depend on that sequence only, and a run advances many sequences together, whether they are
consecutive or interleaved.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf._support.interrupts import interrupts_held
from mdvpf.checkpoint import State, read_array, register, require
from mdvpf.datasets import HMM
from mdvpf.filter.finite_hmm import FiniteMachine
from mdvpf.filter.sequences import ENDED, Sequences
from mdvpf.predictor import MISSING, NO_KEY, Label, Predictor, Step, Stream, read_symbol
from mdvpf.predictor.saved_numbers import numbers_to_arrays, read_key_numbers

_CHUNK = 16_384  # symbols in one call of `_absorb`
_BATCH_SIZE = 500_000  # approximate limit on the state probabilities of sequences in one batch
_TABLES = ("start", "transition", "emission")
_TOLERANCE = 1e-6  # of sums of probabilities in a checkpoint
_MEALY = {"machine": "mealy"}  # the values in a checkpoint of Mealy machines


class _Position:
    """The current weights and states of sequences, by sequence and particle.

    Attributes
    ----------
    log_weight : ndarray of shape (n_sequences, n_particles)
        Normalised log weight of each particle.
    state : ndarray of shape (n_sequences, n_particles, n_states)
        Each particle's distribution of the state that emits the next symbol.
    """

    def __init__(self, log_weight: NDArray[np.float64], state: NDArray[np.float64]) -> None:
        self.log_weight = log_weight
        self.state = state

    @classmethod
    def joined(cls, positions: Sequence[_Position]) -> Self:
        """Return the sequences of all positions together."""
        return cls(
            np.concatenate([each.log_weight for each in positions]),
            np.concatenate([each.state for each in positions]),
        )

    def first(self, n: int) -> _Position:
        """Return the first n sequences."""
        return _Position(self.log_weight[:n], self.state[:n])

    def only(self, i: int) -> _Position:
        """Return one of the sequences."""
        return _Position(self.log_weight[i : i + 1].copy(), self.state[i : i + 1].copy())


@register("FrozenFilter")
class FrozenFilter(Predictor):
    """A weighted mixture of finite HMMs with fixed parameters; `ParticleFilter.freeze` returns it.

    Only `freeze` can build a mixture of Mealy machines. They are not converted to HMMs, so that
    every symbol keeps a positive probability.

    Parameters
    ----------
    hmms : sequence of HMM
        The particles, all with the same alphabet.
    weights : array_like of float
        The weights at the start of a sequence. They are divided by their sum.
    states : array_like of int, optional
        The current state of each particle. The default is -1 for all: before the first symbol of a
        sequence.

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
    _is_of_0_1 = False

    def __init__(self, hmms: Sequence[HMM], weights: Any, states: Any = None) -> None:
        found = _read_hmms(hmms)
        self._set_tables([(hmm.start, hmm.transition, hmm.emission) for hmm in found])
        n = len(found)
        self._log_weight = np.log(_read_weights(weights, n))
        current = np.full(n, -1) if states is None else validate.integers("states", states, low=-1)
        if len(current) != n or np.any(current >= self._sizes):
            raise ValueError(f"states={current.tolist()}: expected a state of each of {n} HMMs")
        self._set_position(current, MISSING)

    @classmethod
    def _of_machines(
        cls,
        machines: Sequence[FiniteMachine],
        weights: NDArray[np.float64],
        standings: Mapping[int, tuple[NDArray[np.int64], int | None]],
    ) -> Self:
        """Return a mixture of machines, all Moore or all Mealy.

        `standings` holds, by the number of a key, the label of each particle's current state, -1
        for the start state, and the last symbol, None if it was missing.
        """
        self = object.__new__(cls)
        self._set_tables([(found.start, found.transition, found.emission) for found in machines])
        self._log_weight = np.log(weights / weights.sum())
        for number, (labels, symbol) in standings.items():
            pairs = zip(machines, labels.tolist(), strict=True)
            current = np.array([found.state_of(label) for found, label in pairs])
            self._set_position(current, MISSING if symbol is None else symbol, number)
        return self

    def _set_tables(self, parts: Sequence[tuple[NDArray[np.float64], ...]]) -> None:
        """Stack start, transition and emission of all particles; all keys are at the start."""
        self._positions: dict[int, _Position] = {}  # by key number; absent keys are at the start
        self._sizes = np.array([len(start) for start, _, _ in parts], dtype=np.int64)
        n, most = len(parts), int(self._sizes.max())
        _, transition, emission = parts[0]
        # Rows and columns of states that a particle lacks are zero. The symbol is the first axis
        # because tables are looked up by symbol.
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
        """Return the transitions of all particles after a symbol.

        An HMM has one table for all symbols. MISSING is -1 and selects the last table of a Mealy
        machine.
        """
        return self._transition[symbol] if self._is_mealy else self._transition

    def _set_position(self, states: NDArray[np.int64], symbol: int, number: int = NO_KEY) -> None:
        """Set the position of a key from each particle's last state, -1 for S, and symbol."""
        position = self._origin()
        transition = self._transition_after(symbol)
        for k in np.flatnonzero(states >= 0).tolist():
            position.state[0, k] = transition[k, states[k]]
        self._positions[number] = position

    def __repr__(self) -> str:
        return f"FrozenFilter({len(self._sizes)} particles, n_symbols={self.n_symbols})"

    def _origin(self) -> _Position:
        """Return the position at the start of a sequence."""
        return _Position(self._log_weight[np.newaxis].copy(), self._start[np.newaxis].copy())

    def _position(self, number: int) -> _Position:
        """Return the position of a key."""
        found = self._positions.get(number)
        return self._origin() if found is None else found

    # -- the protocol ----------------------------------------------------------------------

    @property
    def n_symbols(self) -> int:
        """Size of the alphabet."""
        return len(self._emission)

    @property
    def weights(self) -> NDArray[np.float64]:
        """Weight of each particle in the prediction of the next symbol of key=None."""
        weights: NDArray[np.float64] = np.exp(self._position(NO_KEY).log_weight[0])
        return weights

    def predict_proba(self, key: Label | None = None) -> NDArray[np.float64]:
        """Return the distribution of the next symbol of a key."""
        return self._predict(self._number(key))

    def _predict(self, number: int = NO_KEY) -> NDArray[np.float64]:
        at = self._position(number)
        share = np.exp(at.log_weight[0])[:, np.newaxis] * at.state[0]
        out: NDArray[np.float64] = self._emission.reshape(self.n_symbols, -1) @ share.ravel()
        out /= out.sum()
        return out

    def update(self, symbol: int | None, key: Label | None = None) -> Step:
        """Filter one symbol of a key; None is a missing symbol. The parameters do not change."""
        return Step._make(self._update(read_symbol(symbol, self.n_symbols), key))

    def _step(self, symbol: int, number: int = NO_KEY) -> Sequence[float]:
        at = self._position(number)
        found = self._advance(at, np.array([symbol]))
        self._positions[number] = at
        log_predictive, mean_states, ess = (float(values[0]) for values in found)
        return log_predictive, mean_states, ess, len(self._sizes), 0.0

    def new_sequence(self, key: Label | None = None) -> None:
        """End the sequence of a key: the next starts from the weights at the time of `freeze`."""
        self._new_sequence(key)

    def _end(self, number: int = NO_KEY) -> None:
        self._positions.pop(number, None)

    def copy(self) -> Self:
        """Return an independent copy that shares the fixed parameters."""
        other = self._twin()
        other._positions = {number: at.only(0) for number, at in self._positions.items()}
        return other

    def __copy__(self) -> Self:
        return self.copy()

    def freeze(self) -> Self:
        """Return a copy, because this filter is frozen already."""
        return self.copy()

    # -- the arithmetic --------------------------------------------------------------------

    def _advance(
        self, at: _Position, symbols: NDArray[Any]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Advance sequences by one symbol each, in place.

        Returns the log predictives, and the mean numbers of states and effective sample sizes
        after the symbols. Impossible and missing symbols do not condition weights or states.
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
        """Return the distributions of the next states.

        One matrix product a particle serves all sequences; in a Mealy machine, all sequences with
        the same symbol.
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
        numbers = None if stream.numbers is None else stream.numbers[part]
        sequences = Sequences.read(stream.ended[part], numbers)
        reports[:, 4] = len(self._sizes)
        reports[:, 5] = 0.0
        with interrupts_held():
            ends = self._absorb_sequences(stream.symbols[part], sequences, reports)
            for number, i in sequences.last.items():
                if i == ENDED:
                    self._end(number)
                else:
                    self._positions[number] = ends[i]
        reports[:, 1] = reports[:, 0]

    def _absorb_sequences(
        self, symbols: NDArray[np.int32], found: Sequences, reports: NDArray[np.float64]
    ) -> dict[int, _Position]:
        """Absorb sequences in batches, the longest first; return the final positions of open ones.

        `_positions` does not change.
        """
        ends = dict.fromkeys(found.last.values(), self._origin())
        batch = max(1, _BATCH_SIZE // self._start.size)
        order = np.argsort(-found.sizes, kind="stable")
        for begin in range(0, len(order), batch):
            chosen = order[begin : begin + batch]
            sizes = found.sizes[chosen]
            at = _Position.joined([self._first(found, i) for i in chosen.tolist()])
            n = len(chosen)
            for t in range(int(sizes[0])):
                at = at.first(n)
                self._report(reports, found.order[found.starts[chosen[:n]] + t], at, symbols)
                longer = int(np.searchsorted(-sizes, -(t + 1), side="left"))
                for i in range(longer, n):
                    if int(chosen[i]) in ends:
                        ends[int(chosen[i])] = at.only(i)
                n = longer
        return ends

    def _first(self, found: Sequences, i: int) -> _Position:
        """Return the position of a sequence before its first symbol of the part."""
        number = found.continued.get(i)
        return self._origin() if number is None else self._position(number)

    def _report(
        self,
        reports: NDArray[np.float64],
        indices: NDArray[np.int64],
        at: _Position,
        symbols: NDArray[np.int32],
    ) -> None:
        """Advance sequences by the symbols at `indices`, and write their reports there."""
        reports[indices, 0], reports[indices, 2], reports[indices, 3] = self._advance(
            at, symbols[indices]
        )

    # -- checkpoints -----------------------------------------------------------------------

    def _to_state(self) -> State:
        arrays = {name: getattr(self, f"_{name}") for name in _TABLES}
        arrays["sizes"] = self._sizes
        arrays["log_weight"] = self._log_weight
        present = self._position(NO_KEY)
        arrays["present_log_weight"] = present.log_weight[0]
        arrays["state"] = present.state[0]
        numbers = sorted(number for number in self._positions if number != NO_KEY)
        if numbers:
            joined = _Position.joined([self._positions[number] for number in numbers])
            arrays |= numbers_to_arrays(numbers)
            arrays |= {"key_log_weights": joined.log_weight, "key_states": joined.state}
        return State(dict(_MEALY) if self._is_mealy else {}, arrays)

    @classmethod
    def _from_state(cls, state: State, given: dict[str, Any]) -> Self:
        is_mealy = state.values == _MEALY
        require(is_mealy or not state.values, "unknown values of a frozen filter")
        self = object.__new__(cls)
        start = read_array(state, "start", "<f8", (None, None))
        n, most = start.shape
        require(n > 0 and most > 0, "no particles, or none with a state")
        sizes = read_array(state, "sizes", "<i8", (n,))
        require(np.all((sizes >= 1) & (sizes <= most)), "numbers of states out of range")
        emission = read_array(state, "emission", "<f8", (None, n, most))
        require(len(emission) > 0, "no symbols")
        symbols = (len(emission) + 1,) if is_mealy else ()
        transition = read_array(state, "transition", "<f8", (*symbols, n, most, most))
        exists = np.arange(most) < sizes[:, np.newaxis]
        require(_are_distributions(start, exists[:, np.newaxis, :]), "start is not a distribution")
        exists_both = exists[:, :, np.newaxis] & exists[:, np.newaxis, :]
        for table in transition.reshape(-1, n, most, most):
            require(
                _are_distributions(table, exists_both), "a transition row is not a distribution"
            )
        emits = emission.transpose(1, 2, 0)
        require(
            _are_distributions(emits, exists[:, :, np.newaxis]),
            "an emission row is not a distribution",
        )
        self._sizes, self._start = sizes, start
        self._transition, self._emission = transition, emission
        self._log_weight = read_array(state, "log_weight", "<f8", (n,))
        _check_weights(self._log_weight)
        at = _Position(
            read_array(state, "present_log_weight", "<f8", (n,))[np.newaxis],
            read_array(state, "state", "<f8", (n, most))[np.newaxis],
        )
        numbers = [NO_KEY, *read_key_numbers(state)]
        n_keys = len(numbers) - 1
        if n_keys:
            weights = read_array(state, "key_log_weights", "<f8", (n_keys, n))
            states = read_array(state, "key_states", "<f8", (n_keys, n, most))
            at = _Position.joined([at, _Position(weights, states)])
        _check_weights(at.log_weight)
        for rows in at.state:
            require(
                _are_distributions(rows, exists[:, np.newaxis, :]), "state is not a distribution"
            )
        self._positions = {number: at.only(i) for i, number in enumerate(numbers)}
        return self


def _check_weights(log_weight: NDArray[np.float64]) -> None:
    """Check normalised log weights, on the last axis."""
    require(np.all(log_weight <= _TOLERANCE), "weights that are too large, or NaN")
    sums = np.exp(log_weight).sum(axis=-1)
    require(np.all(np.abs(sums - 1.0) < _TOLERANCE), "weights do not sum to one")


def _read_hmms(hmms: Any) -> list[HMM]:
    found = validate.entries("hmms", hmms, of="HMMs")
    for i, hmm in enumerate(found):
        if not isinstance(hmm, HMM):
            raise TypeError(f"hmms[{i}]={hmm!r}: expected an HMM")
        if hmm.n_symbols != found[0].n_symbols:
            raise ValueError(
                f"hmms[{i}] has {hmm.n_symbols} symbols: expected {found[0].n_symbols}, "
                "the number of hmms[0]"
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
    """Return whether existing rows sum to one and all other entries are zero.

    `exists` marks the entries that may be positive; it is broadcast to the table. A row without
    any such entry does not exist.
    """
    table = rows if rows.ndim == 3 else rows[:, np.newaxis, :]
    allowed = np.broadcast_to(exists, table.shape)
    if not np.all(table >= 0.0) or np.any(table[~allowed]):
        return False
    sums = table.sum(axis=2)
    wanted = allowed.any(axis=2)
    return bool(np.all(np.abs(sums - wanted) < _TOLERANCE))
