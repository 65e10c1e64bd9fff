"""`FrozenNumbers`: the particles of a filter over numbers as finite HMMs that no longer learn.

It is a `FrozenFilter` in which every observation of a stream is a symbol of its own: the entries of
that symbol in the table of emissions are the densities of the observation in all states. They are
divided by the largest one, so that only negligible densities underflow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mdvpf.checkpoint import State, read_array, register, require
from mdvpf.filter.finite_hmm import FiniteMachine
from mdvpf.filter.frozen import FrozenFilter
from mdvpf.filter.predictive import Predictive
from mdvpf.filter.saved_state import family_values, read_family
from mdvpf.model import NumberFamily, channels_of, read_observation
from mdvpf.model.number_families import LARGEST_NUMBER, compiled_parts
from mdvpf.predictor import MISSING, NONE_ENDS, Label, Step, Stream

_CHUNK_ENTRIES = 1_000_000  # approximate number of densities in one call of `_absorb`
_LARGEST_SUM = 1e300


@register("FrozenNumbers")
class FrozenNumbers(FrozenFilter):
    """A weighted mixture of finite HMMs over numbers; `ParticleFilter.freeze` returns it.

    Every state emits by the predictive of its statistics. There is no new state.

    Examples
    --------
    >>> import mdvpf
    >>> model = mdvpf.InfiniteHMM(emission=mdvpf.Gaussian(mean_strength=0.1), kappa=5.0)
    >>> pf = mdvpf.ParticleFilter(model, n_particles=10)
    >>> _ = pf.run([0.1, -0.2, 0.0, 5.1, 4.9, 5.0] * 5)
    >>> frozen = pf.freeze()
    >>> before = frozen.score([0.0, 5.0], lengths=[2])
    >>> _ = frozen.run([9.0] * 100)
    >>> bool((frozen.score([0.0, 5.0], lengths=[2]) == before).all())
    True
    """

    _emits: NumberFamily
    _statistics: NDArray[np.float64]  # of all states that exist, particle by particle

    @classmethod
    def _of_numbers(
        cls,
        family: NumberFamily,
        statistics: NDArray[np.float64],
        machines: Sequence[FiniteMachine],
        weights: NDArray[np.float64],
        standings: Mapping[int, tuple[NDArray[np.int64], int | None]],
    ) -> Self:
        """Return a mixture of machines; `statistics` has a row for each state of each machine."""
        self = cls._of_machines(machines, weights, standings)
        self._emits, self._statistics = family, statistics
        return self

    def __repr__(self) -> str:
        return f"FrozenNumbers({len(self._sizes)} particles, emission={self._emits!r})"

    @property
    def _family(self) -> NumberFamily | None:
        return self._emits

    @property
    def _exists(self) -> NDArray[np.bool_]:
        """Which entries of the tables are states, shape (n_particles, n_states)."""
        exists: NDArray[np.bool_] = np.arange(self._start.shape[1]) < self._sizes[:, np.newaxis]
        return exists

    @property
    def n_symbols(self) -> int:
        """0, as for every filter over numbers."""
        return 0

    def predict_proba(self, key: Label | None = None) -> NDArray[np.float64]:
        """Raise: use `predictive`."""
        self._check_symbols("predict_proba")
        raise AssertionError

    def predictive(self, key: Label | None = None) -> Predictive:
        """Return the distribution of the next observation of a key.

        Examples
        --------
        >>> import mdvpf
        >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=mdvpf.Poisson()), n_particles=5)
        >>> _ = pf.run([7, 8, 6, 7, 9, 7] * 10)
        >>> bool(6.5 < pf.freeze().predictive().mean() < 8.0)
        True
        """
        return self._predictive(self._number(key))

    def _predictive(self, number: int) -> Predictive:
        at = self._position(number)
        shares = np.exp(at.log_weight[0])[:, np.newaxis] * at.state[0]
        return Predictive(self._emits, shares[self._exists], self._statistics)

    def update(self, symbol: Any, key: Label | None = None) -> Step:
        """Filter one observation of a key; None is a missing one. The parameters do not change."""
        row = read_observation(self._emits, symbol)
        code = np.array([MISSING if np.isnan(row).all() else 0], dtype=np.int32)
        keys: list[Label | None] | None = None if key is None else [key]
        none_ends = np.full(1, NONE_ENDS, dtype=np.int32)
        stream = Stream(code, none_ends, None, keys, None, row[np.newaxis])
        log_predictive, _, mean_states, ess, *_ = self._run_keyed(stream)[0].tolist()
        return Step(log_predictive, mean_states, ess, len(self._sizes), 0.0)

    @property
    def _chunk(self) -> int:
        return max(1, _CHUNK_ENTRIES // self._start.size)

    def _absorb(
        self, stream: Stream, plan: None, part: slice, reports: NDArray[np.float64]
    ) -> None:
        assert stream.observations is not None
        rows, symbols = stream.observations[part], stream.symbols[part]
        states = Predictive(self._emits, np.ones(len(self._statistics)), self._statistics)
        logs = states.component_logpdf(rows)
        largest = logs.max(axis=1)
        shift = np.where((symbols != MISSING) & np.isfinite(largest), largest, 0.0)
        densities = np.zeros((len(rows), *self._start.shape))
        densities[:, self._exists] = np.exp(logs - shift[:, np.newaxis])
        numbers = None if stream.numbers is None else stream.numbers[part]
        codes = np.where(symbols == MISSING, MISSING, np.arange(len(rows))).astype(np.int32)
        before, self._emission = self._emission, densities
        try:
            now = Stream(codes, stream.ended[part], numbers)
            super()._absorb(now, plan, slice(0, len(rows)), reports)
        finally:
            self._emission = before
        reports[:, :2] += shift[:, np.newaxis]

    # -- checkpoints -----------------------------------------------------------------------

    def _to_state(self) -> State:
        state = super()._to_state()
        del state.arrays["emission"]
        state.arrays["statistics"] = self._statistics
        return State({"emission": family_values(self._emits)}, state.arrays)

    @classmethod
    def _from_state(cls, state: State, given: dict[str, Any]) -> Self:
        family = read_family(state.values["emission"], given)
        n_statistics = sum(channel.n_statistics for channel in channels_of(family))
        statistics = read_array(state, "statistics", "<f8", (None, n_statistics))
        start, sizes = (state.arrays.get(name) for name in ("start", "sizes"))
        require(
            start is not None and sizes is not None and start.ndim == 2 and sizes.ndim == 1,
            "no tables of a frozen filter",
        )
        assert start is not None and sizes is not None
        exists = np.arange(start.shape[1]) < sizes[:, np.newaxis]
        require("emission" not in state.arrays, "a table of emissions over numbers")
        state.arrays["emission"] = exists[np.newaxis].astype(np.float64)
        self = super()._from_state(State({}, state.arrays), given)
        require(len(statistics) == int(self._sizes.sum()), "statistics of other states")
        fades = np.array([fade for each in channels_of(family) for fade in each.fades])
        limit = np.where(fades, _LARGEST_SUM, LARGEST_NUMBER)
        good = np.abs(statistics) <= limit
        if not compiled_parts(family):
            good &= (statistics >= 0.0) | ~fades
        require(bool(good.all()), "statistics that no observations have")
        self._emits, self._statistics = family, statistics
        return self

    def _left_out(self) -> dict[str, Any]:
        return {"emission": self._emits} if compiled_parts(self._emits) else {}
