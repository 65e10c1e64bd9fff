"""`Mixture`: a weighted average of predictors, with weights by their past predictions.

The mixture is the exponentially weighted average of its members under log loss. After each symbol a
share of the weight is spread evenly (`weights.py`), and copies of the members may restart
(`restart.py`). Members depend neither on the weights nor on each other. In a run each member
therefore processes many symbols at once, on any thread (`members.py`), and the log predictives are
combined afterwards, symbol by symbol.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf._support.attributes import ReadOnly
from mdvpf._support.shown import shown_members
from mdvpf.checkpoint import State, register
from mdvpf.filter import ParticleFilter
from mdvpf.mixture.base import MixtureBase
from mdvpf.mixture.frozen import FrozenMixture
from mdvpf.mixture.members import Members, frozen_members, read_members
from mdvpf.mixture.mixed_numbers import MixedNumbers
from mdvpf.mixture.regret_bound import regret_bound
from mdvpf.mixture.restart import Restart, read_restart
from mdvpf.mixture.saved_state import (
    mixture_state,
    read_saved_members,
    read_weights,
)
from mdvpf.mixture.weights import Rate, Weights, read_rate, weighted_fields
from mdvpf.model import InfiniteHMM, read_observation
from mdvpf.model.algorithms import MDVPA, Algorithm
from mdvpf.predictor import (
    MISSING,
    N_FIELDS,
    NO_KEY,
    FilterResult,
    Label,
    MixtureResult,
    Predictor,
    Step,
    Stream,
    read_key,
    read_reports,
)

_CHUNK = 256  # symbols that each member runs over before the predictions are combined


@register("Mixture")
class Mixture(MixtureBase, MixedNumbers):
    """Weighted average of predictors, by fixed share.

    With weights w, the probability of a symbol y is ``sum_i w[i] p_i(y)``. After y, the weights
    become ``w[i] p_i(y)``, normalised, and then ``(1 - a) w[i] + a / N`` for N members and a share
    a. A missing symbol does not change the weights.

    Keys are passed on to the members: each of them has a position for every key. All keys share the
    weights, as they share counts. In a restarted copy the sequences of all keys start anew.

    On any stream, the log evidence of the mixture is below that of each member by at most
    ``log(N) - sum log(1 - a)``, summed over all symbols except the last: ``log(N)`` without a
    share, ``log(N) + log(n)`` after n symbols with "1/n", ``log(N) + 0.01005 (n - 1)`` with a share
    of 0.01. Against a *sequence* of members that switches m times, the bound is ``m log(N / a)``
    larger. See `regret_bound`, also for the cost of restarts.

    Parameters
    ----------
    members : sequence of Predictor
        At least one, all with the same alphabet, or all with open ones. They are copied, and the
        copies end the sequences of all keys.
    share : float or "1/n", default 0.01
        The share a: constant, or 1/(n + 1) after the n-th symbol that is not missing.
    restart : Restart or int, optional
        Add copies of all members that restart from the state in which the members are passed, on a
        geometric cover of time; an integer is its `every`. N is then the number of living members
        and copies. Each copy has its own random numbers. Restarts need a closed alphabet: a copy
        would not know the symbols that came before it.
    n_threads : int, default 1
        Threads that run the members. Results do not depend on it.

    Attributes
    ----------
    share, restart, n_threads
        As passed.
    recipe : dict or None
        Which function made the mixture (`auto` or `by_evidence`), and its arguments; else None.

    Examples
    --------
    >>> import mdvpf
    >>> chains = [mdvpf.Markov(3, order=order) for order in (0, 1, 2)]
    >>> mixture = mdvpf.Mixture(chains)
    >>> _ = mixture.run([0, 1, 0, 2] * 30)
    >>> mixture.weights.round(1).tolist()
    [0.0, 0.0, 1.0]
    """

    share: ReadOnly[Rate] = ReadOnly()
    restart: ReadOnly[Restart | None] = ReadOnly()
    n_threads: ReadOnly[int] = ReadOnly()

    def __init__(
        self,
        members: Sequence[Predictor],
        *,
        share: Rate = 0.01,
        restart: Restart | int | None = None,
        n_threads: int = 1,
    ) -> None:
        found = read_members(members)
        self.share = read_rate("share", share)
        self.restart = read_restart(restart)
        if self.restart is not None and (found[0].is_open or found[0]._n_seen):
            raise ValueError(
                f"restart={restart!r}: expected None, as the members have open alphabets: "
                "restarted copies would not know the symbols that came before them"
            )
        self.n_threads = validate.integer("n_threads", n_threads, low=1)
        self._members = Members.first(found, self.restart)
        if any(None in member._table for member in found):
            self._table.use(None)
        self.recipe = None
        self._weights = Weights(len(found), self.share)

    def __repr__(self) -> str:
        members = shown_members(self.members, (leaf for _, leaf in self.flatten()))
        return f"Mixture({members}, share={self.share!r}, restart={self.restart!r})"

    def _description(self) -> str:
        members = ", ".join(member._description() for member in self.members)
        return f"Mixture([{members}], share={self.share!r}, restart={self.restart!r})"

    @classmethod
    def grid(
        cls,
        n_symbols: int,
        *,
        alpha: Iterable[float] = (1.0, 10.0),
        gamma: Iterable[float] = (1.0, 10.0, 50.0),
        beta: Iterable[float] = (0.1, 0.01, 0.003),
        algorithm: Iterable[Algorithm] = (MDVPA(),),
        n_particles: int = 100,
        rng: Any = None,
        max_states: int | None = None,
        share: Rate = 0.01,
        restart: Restart | int | None = None,
        n_threads: int = 1,
    ) -> Self:
        """Return a mixture of filters, one for each combination of hyper-parameters.

        Parameters
        ----------
        n_symbols : int
            Size of the alphabet.
        alpha, gamma, beta : iterable of float, optional
            Values of the hyper-parameters of `InfiniteHMM`: by default 1 and 10; 1, 10 and 50;
            0.1, 0.01 and 0.003.
        algorithm : iterable of algorithms, optional
            Algorithms of the filters; by default ``MDVPA()`` alone.
        n_particles : int, default 100
            The budget of each filter.
        rng : None, int, SeedSequence, BitGenerator or Generator, optional
            As for `ParticleFilter`; every filter gets its own generator.
        max_states : int, optional
            As for `InfiniteHMM`.
        share, restart, n_threads
            As for `Mixture`.

        Examples
        --------
        >>> import mdvpf
        >>> mixture = mdvpf.Mixture.grid(4, alpha=[1], gamma=[1], beta=[0.3, 0.01], n_particles=20)
        >>> _ = mixture.run([0, 1, 2, 3] * 20)
        >>> [member.model.beta for member in mixture.members], int(mixture.weights.argmax())
        ([0.3, 0.01], 1)
        """
        generator = validate.generator("rng", rng)
        axes = [
            validate.entries("algorithm", algorithm, of="algorithms"),
            validate.entries("alpha", alpha, of="numbers"),
            validate.entries("gamma", gamma, of="numbers"),
            validate.entries("beta", beta, of="numbers"),
        ]
        members = [
            ParticleFilter(
                InfiniteHMM(n_symbols, alpha=a, gamma=g, beta=b, max_states=max_states),
                kind,
                n_particles,
                rng=int(generator.integers(2**63)),
            )
            for kind, a, g, b in product(*axes)
        ]
        return cls(members, share=share, restart=restart, n_threads=n_threads)

    # -- what is inside --------------------------------------------------------------------

    @property
    def weights(self) -> NDArray[np.float64]:
        """Weight of each member with its restarted copies in the prediction of the next symbol."""
        weights: NDArray[np.float64] = np.exp(self._weights.log).sum(axis=0)
        return weights

    def _living_weights(self) -> NDArray[np.float64]:
        weights: NDArray[np.float64] = np.exp(self._weights.log).ravel()
        return weights

    def regret_bound(self, stop: int, start: int = 0, n_switches: int = 0) -> float:
        """Return a bound on the regret of the mixture, in nats, for any stream.

        Compare the sum of log predictives over the symbols `start` to `stop` (from 0, `stop`
        excluded) of the mixture and of a sequence of living members, which starts with a member
        born at `start` and has `n_switches` switches. The mixture's sum is never lower by more than
        this bound.

        A member born at ``start`` lives until the next of its level is born. Any interval of n
        symbols that begins at a multiple of `Restart.every` is covered by about ``log2(n / every)``
        members born in it, each twice as long as the one before. On every interval, the mixture is
        therefore as good as filters started there, up to the sum of these members' bounds. With
        ``"1/n"`` for `share` and `Restart.mass` this sum grows like the square of the log of time.

        Parameters
        ----------
        stop : int
            End of the symbols, excluded.
        start : int, default 0
            0 for the members themselves, or a time at which copies are born.
        n_switches : int, default 0
            Number of switches in the sequence of members.

        Examples
        --------
        >>> import mdvpf
        >>> chains = [mdvpf.Markov(2, order=order) for order in (0, 1)]
        >>> round(mdvpf.Mixture(chains, share=0).regret_bound(1000), 3)
        0.693
        >>> mixture = mdvpf.Mixture(chains, share="1/n", restart=mdvpf.Restart(100, mass="1/n"))
        >>> round(mixture.regret_bound(400, start=200), 3)
        2.768
        """
        stop = validate.integer("stop", stop, low=1)
        start = validate.integer("start", start, low=0, high=stop - 1)
        n_switches = validate.integer("n_switches", n_switches, low=0)
        return regret_bound(len(self.members), self.share, self.restart, start, stop, n_switches)

    # -- the protocol ----------------------------------------------------------------------

    def predict_proba(self, key: Label | None = None) -> NDArray[np.float64]:
        """Return the distribution of the next symbol of a key.

        Examples
        --------
        >>> import mdvpf
        >>> mixture = mdvpf.Mixture([mdvpf.Markov(4), mdvpf.ContextTree(4)])
        >>> mixture.predict_proba().tolist()
        [0.25, 0.25, 0.25, 0.25]
        """
        return self._predict(self._number(key))

    def _predict(self, number: int = NO_KEY) -> NDArray[np.float64]:
        self._members.check_whole()
        if self._family is not None:
            raise TypeError("predict_proba: members are over numbers; expected predictive()")
        out = np.zeros(self.n_symbols + self.is_open)
        for weight, member in zip(np.exp(self._weights.log).flat, self.living, strict=True):
            out += weight * member._predict(number)
        return out

    def update(self, symbol: Any, key: Label | None = None) -> Step:
        """Absorb one symbol of a key, or an observation if members are over numbers.

        Examples
        --------
        >>> import mdvpf
        >>> mixture = mdvpf.Mixture([mdvpf.Markov(4), mdvpf.ContextTree(4)])
        >>> round(mixture.update(3).log_predictive, 6)
        -1.386294
        """
        if self._family is None:
            return super().update(symbol, key)
        self._members.check_whole()
        if (key := read_key("key", key)) is not None:
            self._check_keys()
        row = read_observation(self._family, symbol, self._n_seen)
        return self._update_numbers(row, key)

    def _step(self, symbol: int, number: int = NO_KEY) -> Sequence[float]:
        found, born = self._members.step(symbol, number)
        weights = self._weights
        log_predictive = 0.0 if symbol == MISSING else weights.absorb(found[..., 0])
        fields = weighted_fields(np.exp(weights.log)[np.newaxis], found[np.newaxis])
        if born:
            assert self.restart is not None
            weights.replace(born, self.restart.mass_at(self._members.time))
        return log_predictive, *fields[0].tolist()

    def copy(self) -> Self:
        """Return an independent copy.

        Examples
        --------
        >>> import mdvpf
        >>> mixture = mdvpf.Mixture([mdvpf.Markov(2), mdvpf.ContextTree(2)])
        >>> other = mixture.copy()
        >>> _ = other.update(0)
        >>> mixture.predict_proba().tolist()
        [0.5, 0.5]
        """
        other = self._twin()
        other._members = self._members.copy()
        other._weights = self._weights.copy()
        return other

    def __copy__(self) -> Self:
        return self.copy()

    def freeze(self) -> FrozenMixture:
        """Return a predictor that no longer learns.

        Members and living copies are frozen. Every sequence starts from the present weights; within
        a sequence they follow Bayes' rule, without a share. Each key has its own weights. An open
        alphabet becomes a closed one with the symbols seen and one more, which represents all
        others; the frozen mixture then has no `vocabulary`.

        Examples
        --------
        >>> import mdvpf
        >>> mixture = mdvpf.Mixture.grid(2, alpha=[1], gamma=[1], n_particles=10)
        >>> _ = mixture.run([0, 1] * 20)
        >>> frozen = mixture.freeze()
        >>> bool((abs(frozen.weights - mixture.weights) < 1e-12).all())
        True
        """
        self._members.check_whole()
        pairs = [
            (weight, member)
            for weight, member in zip(np.exp(self._weights.log).flat, self.living, strict=True)
            if weight > 0.0
        ]
        members = frozen_members([member for _, member in pairs], self._table)
        frozen = FrozenMixture._of(members, [weight for weight, _ in pairs])
        frozen._key_table = self._table.copy()
        if self.vocabulary is not None and not self.is_open:
            frozen.vocabulary = self.vocabulary.copy()
        return frozen

    # -- checkpoints -----------------------------------------------------------------------

    def _to_state(self) -> State:
        self._members.check_whole()
        self._left_out()
        options = {"share": self.share, "n_threads": self.n_threads, "recipe": self.recipe}
        return mixture_state(options, self._members, self._weights)

    @classmethod
    def _from_state(cls, state: State, given: dict[str, Any]) -> Self:
        values = state.values
        members = read_saved_members(state)
        self = object.__new__(cls)
        options = {"share": values["share"], "n_threads": values["n_threads"]}
        Mixture.__init__(self, members.rows[0], restart=members.restart, **options)
        self._members = members
        read_weights(state, self._weights)
        self.recipe = values.get("recipe")  # files of version 0.1 have none
        return self

    # -- one run ---------------------------------------------------------------------------

    @property
    def _chunk(self) -> int:
        return _CHUNK

    @property
    def _n_fields(self) -> int:
        return N_FIELDS + 2 * len(self._members.rows[0])

    def _result(self, reports: NDArray[np.float64]) -> FilterResult:
        weights, scores = np.split(reports[:, N_FIELDS:].copy(), 2, axis=1)
        return MixtureResult(**read_reports(reports), weights=weights, member_log_predictive=scores)

    def _absorb(
        self, stream: Stream, plan: None, part: slice, reports: NDArray[np.float64]
    ) -> None:
        now, time = stream[part], self._members.time
        with self._members.together():
            found = self._members.run(now, self.n_threads)
            births = {} if self.restart is None else self.restart.births(time, time + len(now))
            self._weights.combine(now.symbols, found, births, reports)
