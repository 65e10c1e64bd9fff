"""`MixtureBase`: what `Mixture` and `GeometricMixture` have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdvpf._support.attributes import Checked
from mdvpf.filter import ParticleFilter
from mdvpf.mixture.members import Combined, Members
from mdvpf.mixture.saved_state import read_recipe
from mdvpf.predictor import (
    NO_KEY,
    Label,
    MemoryReport,
    Predictor,
    Step,
    Stream,
    read_key,
    read_symbol,
)


def memory_of_all(predictors: Iterable[Predictor], own: int = 0) -> MemoryReport:
    """Return the sum of the memory reports of all predictors, plus `own` bytes."""
    reports = [astuple(MemoryReport(own, own, 0, 0, 0, 0))]
    reports += [astuple(each.memory()) for each in predictors if hasattr(each, "memory")]
    return MemoryReport(*(sum(field) for field in zip(*reports, strict=True)))


def reports_states(predictor: Predictor) -> bool:
    """Return whether the steps of a predictor report the number of states of its filters."""
    if isinstance(predictor, MixtureBase):
        return predictor._states_are_known
    return isinstance(predictor, ParticleFilter)


class MixtureBase(Combined):
    """A predictor that mixes learning members, all of which have absorbed the same symbols."""

    _states_are_known = False  # whether steps report the mean number of states of the filters

    _members: Members
    recipe: Checked[dict[str, Any] | None] = Checked(read_recipe)

    @abstractmethod
    def _living_weights(self) -> NDArray[np.float64]:
        """Return the weight of each of `living` in the next prediction."""

    @property
    def members(self) -> tuple[Predictor, ...]:
        """The members without restarted copies, for inspection only: the mixture owns them."""
        return tuple(self._members.rows[0])

    @property
    def living(self) -> tuple[Predictor, ...]:
        """The members and all living restarted copies."""
        return tuple(self._members.living)

    def flatten(self) -> Iterator[tuple[float, Predictor]]:
        """Flatten nested mixtures: yield each predictor with its weight in the next prediction.

        Examples
        --------
        >>> import mdvpf
        >>> inner = mdvpf.Mixture([mdvpf.Markov(2, order=0), mdvpf.Markov(2, order=1)])
        >>> mixture = mdvpf.Mixture([inner, mdvpf.ContextTree(2)])
        >>> [(weight, type(leaf).__name__) for weight, leaf in mixture.flatten()]
        [(0.25, 'Markov'), (0.25, 'Markov'), (0.5, 'ContextTree')]
        """
        for weight, member in zip(self._living_weights(), self.living, strict=True):
            if isinstance(member, MixtureBase):
                yield from ((float(weight) * share, leaf) for share, leaf in member.flatten())
            else:
                yield float(weight), member

    def mean_states(self) -> float | None:
        """Return the mean number of states of all filters, by weight; None if there are none.

        Examples
        --------
        >>> import mdvpf
        >>> mixture = mdvpf.Mixture.grid(2, n_particles=10)
        >>> _ = mixture.update(0)
        >>> mixture.mean_states()
        1.0
        """
        filters = [(w, leaf) for w, leaf in self.flatten() if isinstance(leaf, ParticleFilter)]
        mass = sum(weight for weight, _ in filters)
        return sum(w * pf._mean_states() for w, pf in filters) / mass if mass > 0.0 else None

    def memory(self) -> MemoryReport:
        """Return the memory in use: the sum of the reports of all living members.

        A custom predictor is included only if it has a `memory` method.

        Examples
        --------
        >>> import mdvpf
        >>> mdvpf.Mixture.grid(2, n_particles=10).memory().rows
        0
        """
        return memory_of_all(self.living)

    # -- the protocol ----------------------------------------------------------------------

    def update(self, symbol: int | None, key: Label | None = None) -> Step:
        """Absorb one symbol of a key; None is a missing one.

        Examples
        --------
        >>> import mdvpf
        >>> mixture = mdvpf.Mixture([mdvpf.Markov(4), mdvpf.ContextTree(4)])
        >>> round(mixture.update(3).log_predictive, 6)
        -1.386294
        """
        self._members.check_whole()
        code = read_symbol(symbol, self.n_symbols + self.is_open)
        key = read_key("key", key)
        if key is not None:
            self._check_keys()
        if self._members.may_reject:
            one = Stream.one(code, *self._table.next_use(key))
            for member in self._members.may_reject:
                member._plan(one)  # raises before any member has changed
        with self._members.together():
            log_predictive, mean_states, ess, n_particles, discarded = self._update(code, key)
        return Step(log_predictive, mean_states, ess, int(n_particles), discarded)

    @abstractmethod
    def _step(self, symbol: int, number: int = NO_KEY) -> Sequence[float]:
        """Absorb a validated symbol, or `MISSING`; return the fields of `Step`."""

    def _tell_time(self, time: float) -> None:
        for member in self.living:
            member._tell_time(time)

    def new_sequence(self, key: Label | None = None) -> None:
        """End the sequence of a key: its next symbol starts a new one, for all members.

        Examples
        --------
        >>> import mdvpf
        >>> mixture = mdvpf.Mixture([mdvpf.Markov(2), mdvpf.ContextTree(2)])
        >>> _ = mixture.run([0, 1, 1, 1])
        >>> mixture.new_sequence()
        >>> bool(mixture.predict_proba()[0] > 0.5)
        True
        """
        self._members.check_whole()
        self._new_sequence(key)

    def _end(self, number: int = NO_KEY) -> None:
        with self._members.together():
            for member in self.living:
                member._end(number)

    def _left_out(self) -> dict[str, Any]:
        found = [member._left_out() for member in self.members]
        discounts = [each["discount"] for each in found if each]
        if any(discount is not discounts[0] for discount in discounts):
            raise TypeError("members with different callables as discounts cannot be saved")
        return {"discount": discounts[0]} if discounts else {}

    def _plan(self, stream: Stream) -> None:
        """Let the members validate the stream; restarted copies accept whatever members accept."""
        self._members.check_whole()
        for member in self._members.rows[0]:
            member._plan(stream)

    @property
    def _may_reject(self) -> bool:
        return bool(self._members.may_reject)
