"""`ParticleFilter`: a model, an algorithm and K particles, fed with symbols.

The life of a symbol: `Stream.read` checks it, `_plan` looks up the discount of the step that it
completes, `uniforms.py` draws uniforms for the randomised filters, and the compiled core does the
rest (`_absorb`): predict, score, select, commit, report.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mdvpf._core import ParticleSystem
from mdvpf._support import validate
from mdvpf._support.attributes import Checked, ReadOnly
from mdvpf.checkpoint import State, register
from mdvpf.filter.core_arguments import algorithm_codes, model_codes, uniforms_per_step
from mdvpf.filter.inside import History, Inside
from mdvpf.filter.saved_state import (
    clock_values,
    filter_state,
    read_clock,
    read_configuration,
    restored_core,
)
from mdvpf.filter.uniforms import NO_UNIFORMS, draw_one, drawn_uniforms, put_back_one
from mdvpf.model import InfiniteHMM, NumberFamily, read_observation
from mdvpf.model.algorithms import ALGORITHMS, DUPLICATING, MDVPA, OWN_RULE_PAGE, Algorithm
from mdvpf.model.number_families import compiled_parts
from mdvpf.predictor import (
    MISSING,
    NO_KEY,
    Label,
    Step,
    Stream,
    read_symbol,
)

_MAX_THREADS = 1024  # more threads would only wait for each other
_CHUNK_OF_PARTICLES = 500_000  # approximate limit on symbols times particles in a core call
_LONG_RUN = 256  # symbols; after shorter runs, freeing the work space costs more than it saves


class Plan(NamedTuple):
    """Values for each symbol of a run, computed before it starts.

    Attributes
    ----------
    discounts : ndarray of float64
        Discount of the step that the symbol completes.
    latest, elapsed : ndarray of float64 or None
        The latest time stamp up to the symbol, and the half-lives elapsed until then. None unless
        counts fade by time.
    """

    discounts: NDArray[np.float64]
    latest: NDArray[np.float64] | None
    elapsed: NDArray[np.float64] | None


@register("ParticleFilter")
class ParticleFilter(Inside):
    """Online inference for the infinite hidden Markov model with K particles.

    Parameters
    ----------
    model : InfiniteHMM
        The model and its hyper-parameters.
    algorithm : MDVPA, VPA, SMC, ParticleLearning or OptimalResampling, default MDVPA()
        Which candidates survive a step. The core has these five algorithms and takes no
        subclasses; `mdvpf.reference.ReferenceFilter` runs a rule of your own.
    n_particles : int, default 1000
        The budget K: the largest number of particles.
    rng : None, int, SeedSequence, BitGenerator or Generator, optional
        Seed or generator of the random numbers, as `numpy.random.default_rng` takes it. VPA and
        MD-VPA with ``selection="top"`` draw none.
    n_threads : int, default 1
        Upper limit on the threads that score the candidates of a step. More than one pays from
        some thousand particles on. Results have the same bits for any number. A build without
        OpenMP and a forked process use one thread.
    history : None, int or "full", optional
        Which states `path` returns: none, the last `history` ones, or all.
    max_keys : int, optional
        Largest number of keys in use. A further key ends the sequence of the key that was updated
        longest ago. Unlimited by default; memory then grows with the number of keys.

    Attributes
    ----------
    model, algorithm, n_particles, n_threads, history
        As passed.
    rng : numpy.random.Generator
        The generator in use.

    Examples
    --------
    >>> import mdvpf
    >>> model = mdvpf.InfiniteHMM(n_symbols=3, beta=0.1)
    >>> pf = mdvpf.ParticleFilter(model, n_particles=100)
    >>> result = pf.run([0, 1, 2] * 30)
    >>> int(pf.predict_proba().argmax())
    0
    """

    model: ReadOnly[InfiniteHMM] = ReadOnly()
    algorithm: ReadOnly[Algorithm] = ReadOnly()
    n_particles: ReadOnly[int] = ReadOnly()
    n_threads: ReadOnly[int] = ReadOnly()
    history: ReadOnly[History] = ReadOnly()
    _observation: NDArray[np.float64] | None = None  # set only while an update runs
    rng: Checked[np.random.Generator] = Checked(lambda rng: validate.generator("rng", rng))

    def __init__(
        self,
        model: InfiniteHMM,
        algorithm: Algorithm = MDVPA(),
        n_particles: int = 1000,
        *,
        rng: Any = None,
        n_threads: int = 1,
        history: History = None,
        max_keys: int | None = None,
    ) -> None:
        if not isinstance(model, InfiniteHMM):
            raise TypeError(f"model={model!r}: expected an InfiniteHMM")
        if type(algorithm) not in ALGORITHMS:
            raise TypeError(
                f"algorithm={algorithm!r}: expected an instance of "
                + ", ".join(kind.__name__ for kind in ALGORITHMS)
                + ", not of a subclass: the core has only these five rules; run a rule of your "
                f"own in mdvpf.reference.ReferenceFilter, see {OWN_RULE_PAGE}"
            )
        self.model = model
        self.algorithm = algorithm
        self.n_particles = validate.integer("n_particles", n_particles, low=1)
        self.n_threads = validate.integer("n_threads", n_threads, low=1)
        self.history = _read_history(history)
        self.rng = validate.generator("rng", rng)
        self.max_keys = max_keys
        self._clock = model.clock
        self._draws = uniforms_per_step(algorithm, self.n_particles)
        self._core = ParticleSystem(
            **model_codes(model),
            **algorithm_codes(algorithm),
            budget=self.n_particles,
            lag=_lag(self.history),
            n_threads=min(self.n_threads, _MAX_THREADS),
        )

    def __repr__(self) -> str:
        return (
            f"ParticleFilter({self.model!r}, {self.algorithm!r}, "
            f"n_particles={self.n_particles}, history={self.history!r})"
        )

    # -- the protocol ----------------------------------------------------------------------

    @property
    def n_symbols(self) -> int:
        """Size of the alphabet; for an open one, the number of symbols seen; 0 for numbers."""
        return 0 if self.model.numbers is not None else self._core.n_symbols

    @property
    def _family(self) -> NumberFamily | None:
        return self.model.numbers

    @property
    def is_open(self) -> bool:
        """Whether the alphabet is open: `n_symbols` stands for a symbol never seen."""
        return self.model.is_open

    def predict_proba(self, key: Label | None = None) -> NDArray[np.float64]:
        """Return the distribution of the next symbol of a key.

        In an open alphabet the last entry is the probability of a symbol never seen. Families over
        numbers have `predictive` instead.

        Examples
        --------
        >>> import mdvpf
        >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(n_symbols=4), n_particles=10)
        >>> pf.predict_proba().tolist()
        [0.25, 0.25, 0.25, 0.25]
        """
        return self._predict(self._number(key))

    def _predict(self, number: int = NO_KEY) -> NDArray[np.float64]:
        self._check_symbols("predict_proba")
        out = np.empty(self.n_symbols + self.is_open)
        self._core.predict(out, number)
        return out

    def update(self, symbol: Any, key: Label | None = None) -> Step:
        """Absorb one symbol or observation, and report on the step.

        Parameters
        ----------
        symbol : int or None
            The symbol, or None if it is missing. In an open alphabet `n_symbols` is a new symbol.
            In a family over numbers: a number, a sequence of numbers, or a tuple for a product;
            None or NaN stands for a missing value. An open channel of a product numbers its symbols
            by first appearance.
        key : label, optional
            Which of several interleaved sequences the symbol belongs to: a str, an int, bytes, or
            a tuple of these. Sequences share all counts; each has its own current state.

        Examples
        --------
        >>> import mdvpf
        >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(n_symbols=4), n_particles=10)
        >>> step = pf.update(3)
        >>> round(step.log_predictive, 6)
        -1.386294
        """
        family = self.model.numbers
        if family is not None:
            row = read_observation(family, symbol, self._n_seen)
            return Step._make(self._update_numbers(row, key))
        return Step._make(self._update(read_symbol(symbol, self.n_symbols + self.is_open), key))

    def _update_numbers(self, row: NDArray[np.float64], key: Label | None) -> Sequence[float]:
        """Absorb a validated observation."""
        self._observation = row[np.newaxis]
        try:
            return self._update(MISSING if np.isnan(row).all() else 0, key)
        finally:
            self._observation = None

    def _step(self, symbol: int, number: int = NO_KEY) -> Sequence[float]:
        core, row = self._core, self._observation
        discount = 0.0
        if (
            isinstance(self.algorithm, MDVPA)
            and core.pending
            and symbol != MISSING
            and number == core.number
        ):
            discount = self.algorithm.discount_at(core.n_steps + 1)
        if self._draws == 0:
            return core.absorb(symbol, discount, NO_UNIFORMS, number, row)[:5]
        if self._draws > 1:
            with drawn_uniforms(self.rng, self._draws) as (uniforms, progress):
                *fields, progress[1] = core.absorb(symbol, discount, uniforms, number, row)
            return fields
        uniform, state = draw_one(self.rng)
        used = 0
        try:
            *fields, used = core.absorb(symbol, discount, uniform, number, row)
        finally:
            if not used:
                put_back_one(self.rng, state)
        return fields

    def _make_room(self, one: Stream) -> Sequence[float]:
        row = self._observation
        return super()._make_room(one if row is None else replace(one, observations=row))

    def new_sequence(self, key: Label | None = None) -> None:
        """End the sequence of a key: its next symbol starts a new one.

        Counts, weights and the number of steps are kept. If MD-VPA has a pending symbol, of any
        key, its step is completed without look-ahead.

        Examples
        --------
        >>> import mdvpf
        >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(n_symbols=2), n_particles=10)
        >>> _ = pf.update(0)
        >>> pf.new_sequence()
        >>> pf.states.tolist()
        [-1]
        """
        self._new_sequence(key)

    def _end(self, number: int = NO_KEY) -> None:
        with drawn_uniforms(self.rng, self._draws) as (uniforms, progress):
            progress[1] = self._core.new_sequence(uniforms, number)

    @property
    def _kept(self) -> int:
        """The largest number of particles after the next steps: see `_keep`."""
        return self._core.kept[0]

    def _keep(self, n: int) -> None:
        """Let the steps on the next symbols keep at most n particles, 1 to `n_particles`.

        SMC and ParticleLearning always have `n_particles`. If MD-VPA has a pending symbol, its step
        keeps as many as it would have without the call. K in formulas remains `n_particles`.
        """
        n = validate.integer("n", n, low=1, high=self.n_particles)
        if isinstance(self.algorithm, DUPLICATING):
            raise TypeError(f"algorithm={self.algorithm!r}: expected one that may have fewer")
        self._core.keep(n)

    def copy(self) -> Self:
        """Return an independent copy, including the state of the generator.

        Examples
        --------
        >>> import mdvpf
        >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(n_symbols=2), n_particles=10)
        >>> other = pf.copy()
        >>> _ = other.update(0)
        >>> pf.log_evidence
        0.0
        """
        other = self._twin()
        other.rng = copy.deepcopy(self.rng)
        other._core = self._core.copy()
        return other

    def __copy__(self) -> Self:
        return self.copy()

    # -- checkpoints -----------------------------------------------------------------------

    def _to_state(self) -> State:
        options = {
            "n_particles": self.n_particles,
            "n_threads": self.n_threads,
            "history": self.history,
        }
        state = filter_state(self.model, self.algorithm, self.rng, options, self._core)
        if self._clock is not None:
            state.values["clock"] = clock_values(self._clock, self._core)
        return state

    @classmethod
    def _from_state(cls, state: State, given: dict[str, Any]) -> Self:
        self = object.__new__(cls)
        ParticleFilter.__init__(self, **read_configuration(state, given))
        if self._clock is None:
            self._core = restored_core(self._core, state, self.model)
            return self
        self._clock, pending = read_clock(self._clock, state.values["clock"])
        self._core.tell_time(pending)
        self._core = restored_core(self._core, state, self.model)
        self._core.tell_time(self._clock.elapsed)
        return self

    @property
    def _has_begun(self) -> bool:
        return bool((self.states >= 0).any())

    def _left_out(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if isinstance(self.algorithm, MDVPA) and callable(self.algorithm.discount):
            found["discount"] = self.algorithm.discount
        if compiled_parts(self.model.emission):
            found["emission"] = self.model.emission
        return found

    # -- one run ---------------------------------------------------------------------------

    def _tell_time(self, time: float) -> None:
        if self._clock is not None:
            clock = self._clock.at(time)
            self._core.tell_time(clock.elapsed)
            self._clock = clock

    def _plan(self, stream: Stream) -> Plan:
        """Return the discount of the step that each symbol completes; 0 without look-ahead."""
        discounts = np.zeros(len(stream))
        if isinstance(self.algorithm, MDVPA):
            first = self._core.n_steps + self._core.pending
            step = np.arange(first, first + len(stream))
            needed = stream.symbols != MISSING
            needed &= stream.is_continued(self._core.number)
            needed &= step > self._core.n_steps
            discounts[needed] = self.algorithm.discounts(step[needed])
        if self._clock is None or stream.times is None:
            return Plan(discounts, None, None)
        return Plan(discounts, *self._clock.through(stream.times))

    @property
    def _may_reject(self) -> bool:
        if not isinstance(self.algorithm, MDVPA):
            return False
        return not isinstance(self.algorithm.discount, (str, float))

    @property
    def _chunk(self) -> int:
        return max(1, _CHUNK_OF_PARTICLES // self.n_particles)

    def _absorb(
        self,
        stream: Stream,
        plan: Plan,
        part: slice,
        reports: NDArray[np.float64],
        distributions: NDArray[np.float64] | None = None,
    ) -> None:
        most = self._draws * (part.stop - part.start)
        with drawn_uniforms(self.rng, most) as (uniforms, progress):
            try:
                self._core.advance(
                    stream.symbols[part],
                    stream.ended[part],
                    plan.discounts[part],
                    uniforms,
                    reports,
                    progress,
                    None if stream.numbers is None else stream.numbers[part],
                    None if plan.elapsed is None else plan.elapsed[part],
                    distributions,
                    None if stream.observations is None else stream.observations[part],
                )
            finally:
                self._note_time(plan, part.start + int(progress[0]))

    def _absorb_distributions(
        self, stream: Stream, plan: Plan, reports: NDArray[np.float64], out: NDArray[np.float64]
    ) -> None:
        for start in range(0, len(stream), self._chunk):
            part = slice(start, min(start + self._chunk, len(stream)))
            self._absorb(stream, plan, part, reports[part], out[0, part])
        self._settle(len(stream))

    def _note_time(self, plan: Plan, n: int) -> None:
        """Set the clock to the latest time of the first n symbols."""
        if self._clock is None or plan.latest is None or plan.elapsed is None or n == 0:
            return
        time = float(plan.latest[n - 1])
        self._clock = replace(
            self._clock,
            time=None if math.isnan(time) else time,
            elapsed=float(plan.elapsed[n - 1]),
        )

    def _settle(self, n: int) -> None:
        if n >= _LONG_RUN:
            self._core.settle()


def _read_history(history: Any) -> History:
    if history is None:
        return None
    if isinstance(history, str):
        validate.choice("history", history, ["full"], also=", an integer >= 1, or None")
        return "full"
    return validate.integer("history", history, low=1, also=', None or "full"')


def _lag(history: History) -> int:
    """Return the core's code for the states of a path to keep: -1 none, 0 all, else the last n."""
    match history:
        case None:
            return -1
        case "full":
            return 0
    return history
