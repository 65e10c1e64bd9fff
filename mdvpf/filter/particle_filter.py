"""`ParticleFilter`: a model, an algorithm and K particles, fed with symbols.

The life of a symbol: it is checked (`Stream.read`), the discount of the step that it
completes is looked up (`_plan`), uniforms are drawn for the filters that draw (`uniforms.py`),
and the compiled core does the rest (`_absorb`): predict, score, select, commit, report.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from mdvpf._core import ParticleSystem
from mdvpf._support import validate
from mdvpf.checkpoint import State, register
from mdvpf.datasets import HMM
from mdvpf.filter.core_arguments import algorithm_codes, model_codes, uniforms_per_step
from mdvpf.filter.finite_hmm import finite_hmm, finite_machine
from mdvpf.filter.forecasts import Forecasts
from mdvpf.filter.frozen import FrozenFilter
from mdvpf.filter.particle_statistics import ParticleStatistics, particle_statistics
from mdvpf.filter.real_counts import RealCounts, dense_counts, held_counts
from mdvpf.filter.saved_state import filter_state, read_configuration, restored_core
from mdvpf.filter.uniforms import NO_UNIFORMS, draw_one, drawn_uniforms, put_back_one
from mdvpf.model import InfiniteHMM
from mdvpf.model.algorithms import ALGORITHMS, MDVPA, OWN_RULE_PAGE, Algorithm
from mdvpf.predictor import MISSING, NO_KEY, Counts, MemoryReport, Step, Stream, read_symbol

History = int | Literal["full"] | None

_MAX_THREADS = 1024  # more would only wait for each other
_CHUNK_OF_PARTICLES = 500_000  # symbols times particles in one call of the core, about
_LONG_RUN = 256  # symbols: after fewer, to make the work space of steps anew costs too much


@register("ParticleFilter")
class ParticleFilter(Forecasts):
    """Online inference for the infinite hidden Markov model with K particles.

    Parameters
    ----------
    model : InfiniteHMM
        The model and its hyper-parameters.
    algorithm : MDVPA, VPA, SMC, ParticleLearning or OptimalResampling, default MDVPA()
        Which candidates survive a step. The core has these five, and takes no subclasses; for a
        rule of one's own there is `mdvpf.reference.ReferenceFilter`.
    n_particles : int, default 1000
        The budget K: at most so many particles are kept.
    rng : None, int, SeedSequence, BitGenerator or Generator, optional
        Seed or generator of the random numbers, as `numpy.random.default_rng` takes it. VPA and
        MD-VPA with ``selection="top"`` draw none.
    n_threads : int, default 1
        Upper limit on the threads that score the candidates of a step, which pays from some
        thousand particles on. Results have the same bits for any number. One is used where the
        package was built without OpenMP, and in a process that was forked.
    history : None, int or "full", optional
        Which states `path` can tell: none, the last so many, or all.

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

    def __init__(
        self,
        model: InfiniteHMM,
        algorithm: Algorithm = MDVPA(),
        n_particles: int = 1000,
        *,
        rng: Any = None,
        n_threads: int = 1,
        history: History = None,
    ) -> None:
        if not isinstance(model, InfiniteHMM):
            raise TypeError(f"model={model!r}: expected an InfiniteHMM")
        if type(algorithm) not in ALGORITHMS:
            raise TypeError(
                f"algorithm={algorithm!r}: expected an instance of "
                + ", ".join(kind.__name__ for kind in ALGORITHMS)
                + ", not of a subclass: the core has these five rules and no others; a rule of "
                f"your own runs in mdvpf.reference.ReferenceFilter, see {OWN_RULE_PAGE}"
            )
        self.model = model
        self.algorithm = algorithm
        self.n_particles = validate.integer("n_particles", n_particles, low=1)
        self.n_threads = validate.integer("n_threads", n_threads, low=1)
        self.history = _read_history(history)
        self.rng = validate.generator("rng", rng)
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
        """Size of the alphabet."""
        return self.model.n_symbols

    def predict_proba(self) -> NDArray[np.float64]:
        """Return the distribution of the next symbol.

        Examples
        --------
        >>> import mdvpf
        >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(n_symbols=4), n_particles=10)
        >>> pf.predict_proba().tolist()
        [0.25, 0.25, 0.25, 0.25]
        """
        out = np.empty(self.n_symbols)
        self._core.predict(out)
        return out

    def update(self, symbol: int | None) -> Step:
        """Absorb one symbol and report on the step.

        Parameters
        ----------
        symbol : int or None
            The symbol; None if it is missing.

        Examples
        --------
        >>> import mdvpf
        >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(n_symbols=4), n_particles=10)
        >>> step = pf.update(3)
        >>> round(step.log_predictive, 6)
        -1.386294
        """
        return Step._make(self._update(read_symbol(symbol, self.model.n_symbols), None))

    def _step(self, symbol: int, number: int = NO_KEY) -> Sequence[float]:
        core = self._core
        discount = 0.0
        if isinstance(self.algorithm, MDVPA) and core.pending and symbol != MISSING:
            discount = self.algorithm.discount_at(core.n_steps + 1)
        if self._draws == 0:
            return core.absorb(symbol, discount, NO_UNIFORMS)[:5]
        if self._draws > 1:
            with drawn_uniforms(self.rng, self._draws) as (uniforms, progress):
                *fields, progress[1] = core.absorb(symbol, discount, uniforms)
            return fields
        uniform, state = draw_one(self.rng)
        used = 0
        try:
            *fields, used = core.absorb(symbol, discount, uniform)
        finally:
            if not used:
                put_back_one(self.rng, state)
        return fields

    def new_sequence(self) -> None:
        """End the sequence: the next symbol starts a new one.

        Counts, weights and the number of steps are kept. A symbol that MD-VPA holds back for
        its look-ahead is absorbed without one.

        Examples
        --------
        >>> import mdvpf
        >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(n_symbols=2), n_particles=10)
        >>> _ = pf.update(0)
        >>> pf.new_sequence()
        >>> pf.states.tolist()
        [-1]
        """
        with drawn_uniforms(self.rng, self._draws) as (uniforms, progress):
            progress[1] = self._core.new_sequence(uniforms)

    def copy(self) -> Self:
        """Return an independent copy, its random numbers included.

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
        return filter_state(self.model, self.algorithm, self.rng, options, self._core)

    @classmethod
    def _from_state(cls, state: State, given: dict[str, Any]) -> Self:
        self = object.__new__(cls)
        ParticleFilter.__init__(self, **read_configuration(state, given))
        self._core = restored_core(self._core, state, self.model)
        return self

    def _left_out(self) -> dict[str, Any]:
        if isinstance(self.algorithm, MDVPA) and callable(self.algorithm.discount):
            return {"discount": self.algorithm.discount}
        return {}

    # -- one run ---------------------------------------------------------------------------

    def _plan(self, stream: Stream) -> NDArray[np.float64]:
        """Return the discount of the step that each symbol completes: 0 where none is used."""
        discounts = np.zeros(len(stream))
        if isinstance(self.algorithm, MDVPA):
            first = self._core.n_steps + self._core.pending
            step = np.arange(first, first + len(stream))
            needed = stream.symbols != MISSING
            needed &= stream.starts == 0
            needed &= step > self._core.n_steps
            discounts[needed] = self.algorithm.discounts(step[needed])
        return discounts

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
        plan: NDArray[np.float64],
        part: slice,
        reports: NDArray[np.float64],
    ) -> None:
        most = self._draws * (part.stop - part.start)
        with drawn_uniforms(self.rng, most) as (uniforms, progress):
            self._core.advance(
                stream.symbols[part], stream.starts[part], plan[part], uniforms, reports, progress
            )

    def _settle(self, n: int) -> None:
        if n >= _LONG_RUN:
            self._core.settle()

    # -- what is inside --------------------------------------------------------------------

    @property
    def log_evidence(self) -> float:
        """Log evidence of everything seen so far.

        The sum of the log predictives; for SMC, the log of the unbiased estimate.
        """
        return self._core.log_evidence

    def _describe(self) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
        n = self._core.n_particles
        weights = np.empty(n)
        states, n_states, parents = (np.empty(n, dtype=np.int64) for _ in range(3))
        self._core.describe(weights, states, n_states, parents)
        return weights, states, n_states

    @property
    def weights(self) -> NDArray[np.float64]:
        """Normalised weight of each particle."""
        return self._describe()[0]

    @property
    def states(self) -> NDArray[np.int64]:
        """State that each particle is in; -1 before the first symbol of a sequence."""
        return self._describe()[1]

    @property
    def n_states(self) -> NDArray[np.int64]:
        """Number of states that each particle has."""
        return self._describe()[2]

    def _mean_states(self) -> float:
        weights, _, n_states = self._describe()
        return float(weights @ n_states)

    def _particle(self, k: int | None) -> int:
        if k is None:
            return int(self.weights.argmax())
        return validate.integer("k", k, low=0, high=self._core.n_particles - 1, also=", or None")

    def path(self, k: int | None = None) -> NDArray[np.int64]:
        """Return the states on the path of a particle, all sequences joined.

        Parameters
        ----------
        k : int, optional
            The particle; the heaviest by default.

        Examples
        --------
        >>> import mdvpf
        >>> model = mdvpf.InfiniteHMM(n_symbols=2, beta=0.01)
        >>> pf = mdvpf.ParticleFilter(model, n_particles=10, history=4)
        >>> _ = pf.run([0, 1] * 5)
        >>> pf.path().tolist()
        [0, 1, 0, 1]
        """
        particle = self._particle(k)
        if self.history is None:
            raise ValueError(
                'history=None: no paths are kept; expected history="full", or history=L for the '
                "last L states, when the filter is made"
            )
        out = np.empty(self._core.path_length(), dtype=np.int64)
        self._core.path(particle, out)
        return out

    def counts(self, k: int | None = None) -> Counts:
        """Return the counts of a particle as dense arrays.

        With forgetting they are real numbers, as of the next step. The transitions of a Mealy
        machine have a middle axis for the symbol, the last for a missing one.

        Parameters
        ----------
        k : int, optional
            The particle; the heaviest by default.

        Examples
        --------
        >>> import mdvpf
        >>> model = mdvpf.InfiniteHMM(n_symbols=2, beta=0.01)
        >>> pf = mdvpf.ParticleFilter(model, n_particles=10)
        >>> _ = pf.run([0, 1] * 5)
        >>> pf.counts().transition.tolist()
        [[0, 5], [4, 0]]
        """
        particle = self._particle(k)
        n_states = int(self.n_states[particle])
        return dense_counts(self._core, self.model, particle, n_states).counts

    def _counts(self, k: int) -> RealCounts:
        return held_counts(self._core, self.model, k, int(self.n_states[k]))

    def _statistics(self, k: int) -> ParticleStatistics:
        return particle_statistics(self, k)

    def to_hmm(self, k: int | None = None) -> HMM:
        """Return a particle as a finite HMM: the posterior means of its counts.

        The new state, which an HMM of a fixed size cannot have, is dropped, and the rows are
        divided by their sum. States that have faded away are left out.

        A Mealy machine becomes the equivalent HMM over the pairs of a state and a symbol that
        occurred. In it a symbol that never occurred has probability 0; `freeze` gives none up.

        Parameters
        ----------
        k : int, optional
            The particle; the heaviest by default.

        Examples
        --------
        >>> import mdvpf
        >>> model = mdvpf.InfiniteHMM(n_symbols=2, beta=0.01)
        >>> pf = mdvpf.ParticleFilter(model, n_particles=10)
        >>> _ = pf.run([0, 1] * 50)
        >>> pf.to_hmm().transition.round(2).tolist()
        [[0.02, 0.98], [0.98, 0.02]]
        """
        return finite_hmm(self.model, self._counts(self._particle(k)))

    def freeze(self, n_particles: int | None = None) -> FrozenFilter:
        """Return a predictor that predicts as this one does now, and no longer learns.

        The particles become finite HMMs as `to_hmm` makes them, or Mealy machines with the same
        states. Each follows the sequence by forward filtering from the state in which its particle
        stands, and they are mixed by weight: by Bayes' rule within a sequence, and with the
        particles' weights again at the start of the next. MD-VPA is frozen as it shows itself.

        Parameters
        ----------
        n_particles : int, optional
            How many particles are kept, the heaviest; all by default. They take memory and time in
            proportion to their number and to the square of the number of states. Mealy machines
            have a table for each symbol: K of them with M states and V symbols take
            ``8 * K * M**2 * (V + 1)`` bytes.

        Examples
        --------
        >>> import mdvpf
        >>> model = mdvpf.InfiniteHMM(n_symbols=2, beta=0.01)
        >>> pf = mdvpf.ParticleFilter(model, n_particles=10)
        >>> _ = pf.run([0, 1] * 50)
        >>> frozen = pf.freeze(n_particles=3)
        >>> _ = frozen.run([1, 1] * 50)
        >>> frozen.new_sequence()
        >>> int(frozen.predict_proba().argmax())
        0
        """
        weights, states, _ = self._describe()
        most = len(weights)
        if n_particles is not None:
            most = validate.integer("n_particles", n_particles, low=1, also=", or None")
        heaviest = np.argsort(-weights, kind="stable")[:most]
        heaviest = heaviest[weights[heaviest] > 0.0]
        machines = [finite_machine(self.model, self._counts(k)) for k in heaviest.tolist()]
        frozen = FrozenFilter._of_machines(
            machines, weights[heaviest], states[heaviest], self._core.last_symbol
        )
        frozen.vocabulary = self.vocabulary
        return frozen

    def memory(self) -> MemoryReport:
        """Return where the memory goes.

        Examples
        --------
        >>> import mdvpf
        >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(n_symbols=2), n_particles=10)
        >>> pf.memory().rows
        0
        """
        return MemoryReport(*self._core.memory())

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self._core.__sizeof__()


def _read_history(history: Any) -> History:
    if history is None:
        return None
    if isinstance(history, str):
        validate.choice("history", history, ["full"])
        return "full"
    return validate.integer("history", history, low=1, also=', None or "full"')


def _lag(history: History) -> int:
    """Return how the core is told what to keep of the paths: -1 nothing, 0 everything."""
    match history:
        case None:
            return -1
        case "full":
            return 0
    return history
