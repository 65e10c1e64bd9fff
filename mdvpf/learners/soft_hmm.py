"""`SoftHMM`: a hidden Markov model learnt online from delayed expected counts that decay."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf._support.attributes import Checked, ReadOnly
from mdvpf.checkpoint import State, register, rng_state
from mdvpf.datasets.hmm_sources import HMM
from mdvpf.learners._soft_hmm import SoftTables
from mdvpf.learners.finite_hmm import mealy_hmm, moore_hmm
from mdvpf.learners.saved_state import export_positions, export_tables, read_keys, restore_tables
from mdvpf.predictor import NO_KEY, Label, MemoryReport, Predictor, Step, Stream, read_symbol

_CHUNK_OF_SEEDS = 16384  # symbols times seeds between two updates of the progress bar
_MOST_STATES = 10_000
_MOST_SEEDS = 10_000
_LONGEST_LAG = 1000
_LARGEST_FORGET = 100.0  # bounds the growth of the unit to 2**100 in a step


@register("SoftHMM")
class SoftHMM(Predictor):
    """Hidden Markov model of a fixed size with one table of expected counts, learnt in one pass.

    The forward filter uses the current counts. A transition and an emission are counted `lag`
    symbols late, weighted by their probability given the symbols up to then. At the end of a
    sequence, the last ones are counted with fewer later symbols. Counts decay: step i has the
    weight ``i**forget``, so early counts, made when little was known, become negligible. A row with
    few counts backs off to the states that many rows reach. The states of the first 1,000 symbols
    are sampled, which breaks the symmetry between states; other seeds give other models.

    While it learns, the filter drops states that are less than 1/1000 as likely as the likeliest
    one. A missing symbol has log predictive 0 and adds no emission.

    Keys share all counts. The lag of a key counts the symbols of that key; steps are numbered over
    all keys.

    Parameters
    ----------
    n_symbols : int
        Size of the alphabet. It cannot be open.
    n_states : int, default 40
        Number of hidden states; a few too many do little harm.
    machine : {"mealy", "moore"}, default "mealy"
        Whether the next state depends on the state and its symbol (Mealy), or on the state only
        (Moore).
    forget : float, default 4.0
        Exponent of the weight of a step; 0 never forgets. About the last n / (forget + 1) of n
        symbols count.
    lag : int, default 2
        Number of later symbols that are seen before a step is counted.
    alpha : float, default 1.0
        Prior weight of the base distribution in a row of transitions.
    gamma : float, default 10.0
        Prior weight of the uniform distribution in the base distribution.
    beta : float, default 0.1
        Prior count of every symbol in every state.
    rng : None, int, SeedSequence, BitGenerator or Generator, optional
        Seed or generator of the random numbers, used only in the constructor.
    n_seeds : int, default 1
        Number of independent models, which are mixed by evidence.

    Attributes
    ----------
    n_states, machine, forget, lag, alpha, gamma, beta, n_seeds
        As passed.

    Notes
    -----
    In a `Step`, `mean_states` is the effective number of states in use (the inverse of the sum of
    squared shares of the emission counts), `ess` the effective number of seeds and `n_particles`
    their number.

    Examples
    --------
    >>> import mdvpf
    >>> learner = mdvpf.SoftHMM(n_symbols=2, n_states=4, rng=0)
    >>> result = learner.run([0, 0, 1] * 2000)
    >>> bool(result.log_predictive[-100:].mean() > -0.01)
    True
    """

    n_states: ReadOnly[int] = ReadOnly()
    machine: ReadOnly[str] = ReadOnly()
    forget: ReadOnly[float] = ReadOnly()
    lag: ReadOnly[int] = ReadOnly()
    alpha: ReadOnly[float] = ReadOnly()
    gamma: ReadOnly[float] = ReadOnly()
    beta: ReadOnly[float] = ReadOnly()
    n_seeds: ReadOnly[int] = ReadOnly()
    rng: Checked[np.random.Generator] = Checked(lambda rng: validate.generator("rng", rng))

    def __init__(
        self,
        n_symbols: int,
        n_states: int = 40,
        machine: str = "mealy",
        forget: float = 4.0,
        lag: int = 2,
        alpha: float = 1.0,
        gamma: float = 10.0,
        beta: float = 0.1,
        rng: Any = None,
        *,
        n_seeds: int = 1,
    ) -> None:
        self._configure(n_symbols, n_states, machine, forget, lag, alpha, gamma, beta)
        self.n_seeds = validate.integer("n_seeds", n_seeds, low=1, high=_MOST_SEEDS)
        self.rng = validate.generator("rng", rng)
        self._keys = self.rng.integers(2**64, size=self.n_seeds, dtype=np.uint64)
        self._tables = self._fresh_tables()

    def _configure(
        self,
        n_symbols: Any,
        n_states: Any,
        machine: Any,
        forget: Any,
        lag: Any,
        alpha: Any,
        gamma: Any,
        beta: Any,
    ) -> None:
        if n_symbols is None:
            raise ValueError(
                "n_symbols=None: expected the size of the alphabet, as SoftHMM has a prior count "
                "for every symbol; for an open alphabet use PitmanYorTree(None) or a "
                "ParticleFilter of InfiniteHMM(emission=OpenVocabulary())"
            )
        self._n_symbols = validate.integer("n_symbols", n_symbols, low=1)
        self.n_states = validate.integer("n_states", n_states, low=1, high=_MOST_STATES)
        self.machine = validate.choice("machine", machine, ["mealy", "moore"])
        self.forget = validate.real("forget", forget, low=0.0, high=_LARGEST_FORGET)
        self.lag = validate.integer("lag", lag, low=0, high=_LONGEST_LAG)
        self.alpha = validate.hyper_parameter("alpha", alpha)
        self.gamma = validate.hyper_parameter("gamma", gamma)
        self.beta = validate.hyper_parameter("beta", beta)

    def _options(self) -> dict[str, Any]:
        names = ("n_states", "machine", "forget", "lag", "alpha", "gamma", "beta")
        return {"n_symbols": self._n_symbols, **{name: getattr(self, name) for name in names}}

    def _fresh_tables(self) -> SoftTables:
        options = self._options()
        return SoftTables(mealy=options.pop("machine") == "mealy", keys=self._keys, **options)

    def __repr__(self) -> str:
        options = self._options()
        others = "".join(f", {name}={options[name]!r}" for name in list(options)[1:])
        state = ", frozen" if self.frozen else ""
        return f"SoftHMM({self._n_symbols}{others}, n_seeds={self.n_seeds}{state})"

    @property
    def n_symbols(self) -> int:
        """Size of the alphabet."""
        return self._n_symbols

    @property
    def frozen(self) -> bool:
        """Whether the learner is frozen (`freeze`) and no longer learns."""
        return self._tables.frozen

    @property
    def weights(self) -> NDArray[np.float64]:
        """Normalised weight of each seed; in a frozen learner, the weight for key=None."""
        log_weights = self._exported()["log_weights"][0]
        weights = np.exp(log_weights)
        normalised: NDArray[np.float64] = weights / weights.sum()
        return normalised

    def predict_proba(self, key: Label | None = None) -> NDArray[np.float64]:
        """Return the distribution of the next symbol of a key.

        Examples
        --------
        >>> import mdvpf
        >>> mdvpf.SoftHMM(n_symbols=4).predict_proba().round(6).tolist()
        [0.25, 0.25, 0.25, 0.25]
        """
        return self._predict(self._number(key))

    def _predict(self, number: int = NO_KEY) -> NDArray[np.float64]:
        out = np.empty(self._n_symbols)
        self._tables.predict(out, number)
        return out

    def update(self, symbol: int | None, key: Label | None = None) -> Step:
        """Absorb one symbol of a key; None is a missing one.

        Examples
        --------
        >>> import mdvpf
        >>> learner = mdvpf.SoftHMM(n_symbols=4)
        >>> round(learner.update(3).log_predictive, 6)
        -1.386294
        """
        return Step._make(self._update(read_symbol(symbol, self._n_symbols), key))

    def _step(self, symbol: int, number: int = NO_KEY) -> Sequence[float]:
        return self._tables.absorb(symbol, number)

    def new_sequence(self, key: Label | None = None) -> None:
        """End the sequence of a key: its next symbol starts a new one.

        Steps that still wait for their lag are counted with the symbols seen so far.
        """
        self._new_sequence(key)

    def _end(self, number: int = NO_KEY) -> None:
        self._tables.new_sequence(number)

    def copy(self) -> Self:
        """Return an independent copy.

        Examples
        --------
        >>> import mdvpf
        >>> learner = mdvpf.SoftHMM(n_symbols=2, rng=0)
        >>> other = learner.copy()
        >>> other.update(0) == learner.update(0)
        True
        """
        tables = self._tables.copy()
        other = self._twin()
        other.rng = copy.deepcopy(self.rng)
        other._tables = tables
        return other

    def __copy__(self) -> Self:
        return self.copy()

    _may_reject = False
    _is_of_0_1 = False

    @property
    def _chunk(self) -> int:
        return max(1, _CHUNK_OF_SEEDS // self.n_seeds)

    def _absorb(
        self, stream: Stream, plan: None, part: slice, reports: NDArray[np.float64]
    ) -> None:
        numbers = None if stream.numbers is None else stream.numbers[part]
        self._tables.advance(stream.symbols[part], stream.ended[part], reports, numbers)

    def _absorb_distributions(
        self, stream: Stream, plan: None, reports: NDArray[np.float64], out: NDArray[np.float64]
    ) -> None:
        self._tables.advance(stream.symbols, stream.ended, reports, stream.numbers, out[0])

    # -- the learnt model ------------------------------------------------------------------

    def memory(self) -> MemoryReport:
        """Return where the memory goes: tables of all seeds, and positions of keys.

        Examples
        --------
        >>> import mdvpf
        >>> learner = mdvpf.SoftHMM(n_symbols=4, n_states=10, rng=0)
        >>> _ = learner.run([0, 1, 2, 3] * 20)
        >>> 1_000 < learner.memory().live < 100_000
        True
        """
        tables = sum(array.nbytes for array in self._exported().values())
        used = tables + self._tables.memory()
        n_rows = self.n_states * (self._n_symbols + 1 if self.machine == "mealy" else 1)
        dense = 4 * self.n_seeds * self.n_states * (n_rows + self._n_symbols)
        return MemoryReport(used, used, dense, self._tables.sizes[0], 0, 0)

    def freeze(self) -> Self:
        """Return a copy that predicts as this learner does now, and no longer learns.

        The copy filters exactly, with the current posterior means. The weights of the seeds follow
        the evidence within a sequence; each sequence starts from the present weights.

        Examples
        --------
        >>> import mdvpf
        >>> learner = mdvpf.SoftHMM(n_symbols=2, n_states=4, rng=0)
        >>> _ = learner.run([0, 1] * 1000)
        >>> frozen = learner.freeze()
        >>> before = frozen.score([1, 1], lengths=[2])
        >>> _ = frozen.run([1, 1, 0, 0], lengths=[4])
        >>> bool((frozen.score([1, 1], lengths=[2]) == before).all())
        True
        """
        other = self.copy()
        other._tables.freeze()
        return other

    def to_hmm(self) -> HMM:
        """Return the model of the heaviest seed as a finite HMM of posterior means.

        A Moore machine keeps its states. A Mealy machine becomes an equivalent HMM. Its states are
        the pairs of a state and a symbol that occurred, followed by one state for each state of the
        machine, which emits all symbols that were not seen there. For sequences without missing
        symbols, the forward filter of this HMM predicts as that seed of the frozen learner does.

        Examples
        --------
        >>> import mdvpf
        >>> learner = mdvpf.SoftHMM(n_symbols=3, n_states=2, machine="moore", rng=0)
        >>> _ = learner.run([0, 1, 2] * 100)
        >>> learner.to_hmm().emission.shape
        (2, 3)
        """
        arrays = self._exported()
        best = int(arrays["log_weights"][0].argmax())
        make = mealy_hmm if self.machine == "mealy" else moore_hmm
        unit = self._tables.unit
        return make(arrays, best, self._n_symbols, self.alpha * unit, self.beta * unit)

    def _exported(self) -> dict[str, NDArray[Any]]:
        return export_tables(self._tables, self.n_states, self.n_seeds)

    # -- checkpoints -----------------------------------------------------------------------

    def _to_state(self) -> State:
        values = {
            "options": self._options(),
            "rng": rng_state.to_values(self.rng),
            "n_steps": self._tables.n_steps,
            "shift": self._tables.shift,
            "frozen": self.frozen,
        }
        arrays = {"keys": self._keys, **self._exported()}
        return State(values, arrays | export_positions(self._tables, self.n_states, self.n_seeds))

    @classmethod
    def _from_state(cls, state: State, given: dict[str, Any]) -> Self:
        self = object.__new__(cls)
        self._keys = read_keys(state)
        self._configure(**state.values["options"])
        self.n_seeds = validate.integer("n_seeds", len(self._keys), low=1, high=_MOST_SEEDS)
        self.rng = rng_state.from_values(state.values["rng"])
        self._tables = restore_tables(self._fresh_tables(), state, self.n_states, self.n_seeds)
        return self
