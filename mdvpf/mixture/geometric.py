"""`GeometricMixture`: geometric (log-linear) mixing with learnt powers, averaged with fixed share.

A linear mixture is about as good as its best member. A product of powers of the members'
distributions can be better than every member: it sharpens their agreement and corrects their common
errors. Learnt powers come without a guarantee on adversarial data. The mixture therefore averages
several heads, some of them linear: see `_mixing.pyx`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf._support.attributes import ReadOnly
from mdvpf._support.shown import shown_members
from mdvpf.checkpoint import State, read_array, register, require
from mdvpf.filter import ParticleFilter
from mdvpf.mixture._mixing import Mixer
from mdvpf.mixture.base import MixtureBase, memory_of_all
from mdvpf.mixture.influence import adapt, cuts, influences, is_time
from mdvpf.mixture.members import Members, frozen_members, mean_of_filters, read_members
from mdvpf.mixture.weights import Rate, rate_at, read_rate, weighted_fields
from mdvpf.predictor import (
    N_FIELDS,
    NO_KEY,
    FilterResult,
    Label,
    MemoryReport,
    MixtureResult,
    Predictor,
    Stream,
    read_reports,
)

SHARES: tuple[Rate, ...] = (0.01, "1/n")
RATES = (0.002,)
RIDGES = (100.0,)

_LARGEST_CHUNK = 256  # symbols that each member runs over before the predictions are combined
_CHUNK_NUMBERS = 2**20  # approximate number of probabilities in one chunk


@register("GeometricMixture")
class GeometricMixture(MixtureBase):
    """A mixture that averages linear and geometric combinations of the members' distributions.

    The mixture combines N distributions: one for each member, except that a `PitmanYorMixture`
    contributes one for every setting. Several *heads* combine them:

    - linear heads, one for each of `shares`: fixed share as in `Mixture`, except that the share is
      redistributed by the prior, in which members have equal weights;
    - geometric heads, ``p(y)`` proportional to ``exp(sum_i v[i] log p_i(y))``, over the first
      linear head and the N distributions. The powers v start at 1/2 for the head and 1/2 times the
      prior for the others. They are learnt by gradient steps on the log loss (one head for each of
      `rates`), ``v[i] += rate * (log p_i(y_n) - sum_y p(y) log p_i(y))``, or by online Newton steps
      (one for each of `ridges`), where the gradient g is multiplied by the inverse of ``ridge * 1 +
      sum of g g'`` over all symbols up to this one. Powers stay between -10 and 10, and log
      probabilities below -40 count as -40.

    The prediction is the average of the heads by fixed share, with the share ``1 / (n + 1)`` after
    n symbols. The linear heads have half of the prior weight. A missing symbol changes no weight.

    On any stream, the log evidence is below that of each of the N distributions by no more than
    `regret_bound`, which grows with the log of the number of symbols. Gradient steps have the bound
    of online gradient descent against any fixed powers (Zinkevich 2003). Newton steps (Hazan,
    Agarwal and Kale 2007) have no bound here, but gain most in practice.

    Parameters
    ----------
    members : sequence of Predictor
        At least one, all with the same alphabet, or all with open ones. They are copied, and the
        copies end the sequences of all keys.
    shares : sequence of float or "1/n", default (0.01, "1/n")
        Shares of the linear heads, at least one.
    rates : sequence of float, default (0.002,)
        Rates of the heads with gradient steps.
    ridges : sequence of float, default (100.0,)
        Ridges of the heads with Newton steps.
    n_threads : int, default 1
        Threads that run the members. Results do not depend on it.
    adapt_particles : bool, default False
        Whether filters of the kinds MDVPA, VPA and OptimalResampling have all their particles only
        at the start and while they have influence: after every 256 symbols the weights and powers
        decide how many of its `n_particles` each filter keeps. See `mdvpf.mixture.influence`.

    Attributes
    ----------
    shares, rates, ridges, n_threads, adapt_particles
        As passed.
    recipe : dict or None
        Which function made the mixture (`auto`), and its arguments; else None.

    Examples
    --------
    >>> import mdvpf
    >>> trees = mdvpf.PitmanYorMixture(3, depths=[0, 1, 2], discounts=[0.5], strengths=[0.3])
    >>> mixture = mdvpf.GeometricMixture([trees, mdvpf.Markov(3)])
    >>> result = mixture.run([0, 1, 0, 2] * 100)
    >>> bool(result.log_predictive[-100:].mean() > -0.01)
    True
    """

    shares: ReadOnly[tuple[Rate, ...]] = ReadOnly()
    rates: ReadOnly[tuple[float, ...]] = ReadOnly()
    ridges: ReadOnly[tuple[float, ...]] = ReadOnly()
    n_threads: ReadOnly[int] = ReadOnly()
    adapt_particles: ReadOnly[bool] = ReadOnly()

    def __init__(
        self,
        members: Sequence[Predictor],
        *,
        shares: Sequence[Rate] = SHARES,
        rates: Sequence[float] = RATES,
        ridges: Sequence[float] = RIDGES,
        n_threads: int = 1,
        adapt_particles: bool = False,
    ) -> None:
        found = read_members(members)
        found[0]._check_symbols("members")
        self.shares = tuple(
            read_rate(f"shares[{i}]", share)
            for i, share in enumerate(validate.entries("shares", shares, of="numbers"))
        )
        self.rates = _read_reals("rates", rates, low=0.0, high=1.0)
        self.ridges = _read_reals("ridges", ridges, low=1e-6, high=1e9)
        self.n_threads = validate.integer("n_threads", n_threads, low=1)
        self.adapt_particles = validate.flag("adapt_particles", adapt_particles)
        self._members = Members.first(found, None)
        if any(None in member._table for member in found):
            self._table.use(None)
        self.recipe = None
        self._learns = True
        self._mixer = self._new_mixer()

    def _new_mixer(self) -> Mixer:
        """Return the initial weights and powers."""
        sizes = self._sizes
        prior = np.repeat(1.0 / (len(sizes) * np.array(sizes)), sizes)
        return Mixer(
            prior,
            np.array([-1.0 if share == "1/n" else share for share in self.shares]),
            np.array(self.rates),
            np.array(self.ridges),
            self._head_prior(),
            -1.0,
        )

    def _head_prior(self) -> NDArray[np.float64]:
        n_linear, n_geometric = len(self.shares), len(self.rates) + len(self.ridges)
        prior = np.array([1.0 / n_linear] * n_linear + [1.0 / max(n_geometric, 1)] * n_geometric)
        return np.asarray(prior / prior.sum())

    @property
    def _sizes(self) -> list[int]:
        """The number of distributions of each member."""
        return [member._n_distributions for member in self.members]

    def __repr__(self) -> str:
        members = shown_members(self.members, (leaf for _, leaf in self.flatten()))
        return f"GeometricMixture({members}{self._shown_options()})"

    def _description(self) -> str:
        members = ", ".join(member._description() for member in self.members)
        return f"GeometricMixture([{members}]{self._shown_options()})"

    def _shown_options(self) -> str:
        state = "" if self._learns else ", frozen"
        return f", shares={self.shares}, rates={self.rates}, ridges={self.ridges}{state}"

    # -- what is inside --------------------------------------------------------------------

    @property
    def weights(self) -> NDArray[np.float64]:
        """Weight of each member in the first linear head, summed over its distributions."""
        linear = self._mixer.export()["linear"]
        return np.asarray(self._by_member(linear[:1])[0])

    def _living_weights(self) -> NDArray[np.float64]:
        return self.weights

    def _by_member(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return each row of weights summed over the distributions of each member."""
        starts = np.cumsum([0, *self._sizes[:-1]])
        return np.asarray(np.add.reduceat(weights, starts, axis=1))

    @property
    def head_weights(self) -> NDArray[np.float64]:
        """Weights of the linear, gradient and Newton heads (in this order) for the next symbol."""
        return self._mixer.export()["heads"]

    @property
    def powers(self) -> NDArray[np.float64]:
        """Powers of the geometric heads, one row each: first linear head, then distributions.

        Examples
        --------
        >>> import mdvpf
        >>> mixture = mdvpf.GeometricMixture([mdvpf.Markov(2), mdvpf.ContextTree(2)])
        >>> mixture.powers.tolist()
        [[0.5, 0.25, 0.25], [0.5, 0.25, 0.25]]
        """
        return self._mixer.export()["powers"]

    @property
    def frozen(self) -> bool:
        """Whether the mixture no longer learns; see `freeze`."""
        return not self._learns

    def memory(self) -> MemoryReport:
        """Return the memory in use: the sum of the members' reports, and the weights.

        Examples
        --------
        >>> import mdvpf
        >>> mixture = mdvpf.GeometricMixture([mdvpf.Markov(2), mdvpf.ContextTree(2)])
        >>> mixture.memory().live < 10_000
        True
        """
        own = sum(array.nbytes for array in self._mixer.export().values())
        return memory_of_all(self.members, own)

    def regret_bound(self, stop: int, n_switches: int = 0) -> float:
        """Return a bound on the regret against its distributions, for any stream.

        The log evidence of the first `stop` symbols is never lower than that of a sequence of the N
        distributions with `n_switches` switches by more than this bound.

        Parameters
        ----------
        stop : int
            Number of symbols.
        n_switches : int, default 0
            Number of switches in the sequence of distributions.

        Examples
        --------
        >>> import mdvpf
        >>> mixture = mdvpf.GeometricMixture([mdvpf.Markov(2), mdvpf.ContextTree(2)])
        >>> round(mixture.regret_bound(1000), 2)
        15.89
        """
        stop = validate.integer("stop", stop, low=1)
        n_switches = validate.integer("n_switches", n_switches, low=0)
        sizes = self._sizes
        least = 1.0 / (len(sizes) * max(sizes))
        heads = math.log(stop) - np.log(self._head_prior()[: len(self.shares)])
        bounds = []
        for head, share in zip(heads, self.shares, strict=True):
            given = np.array([rate_at(share, n) for n in (1, max(stop - 1, 1))])
            kept = math.log(stop) if share == "1/n" else -(stop - 1) * math.log1p(-given[0])
            bound = float(head) + kept - math.log(least)
            if n_switches:
                smallest = float(given.min())
                bound += n_switches * -math.log(smallest * least) if smallest else math.inf
            bounds.append(bound)
        return min(bounds)

    # -- the protocol ----------------------------------------------------------------------

    def predict_proba(self, key: Label | None = None) -> NDArray[np.float64]:
        """Return the distribution of the next symbol of a key.

        Examples
        --------
        >>> import mdvpf
        >>> mixture = mdvpf.GeometricMixture([mdvpf.Markov(4), mdvpf.ContextTree(4)])
        >>> mixture.predict_proba().tolist()
        [0.25, 0.25, 0.25, 0.25]
        """
        return self._predict(self._number(key))

    def _predict(self, number: int = NO_KEY) -> NDArray[np.float64]:
        self._members.check_whole()
        columns = [member._predict_distributions(number) for member in self.members]
        out = np.empty(self.n_symbols + self.is_open)
        self._mixer.predict(np.concatenate(columns), out)
        return out

    def _step(self, symbol: int, number: int = NO_KEY) -> Sequence[float]:
        reports = np.empty((1, self._n_fields))
        self._advance(Stream.one(symbol, number), reports)
        log_predictive, _, *others = reports[0, :N_FIELDS].tolist()
        return log_predictive, *others

    def copy(self) -> Self:
        """Return an independent copy.

        Examples
        --------
        >>> import mdvpf
        >>> mixture = mdvpf.GeometricMixture([mdvpf.Markov(2), mdvpf.ContextTree(2)])
        >>> other = mixture.copy()
        >>> _ = other.update(0)
        >>> mixture.predict_proba().tolist()
        [0.5, 0.5]
        """
        other = self._twin()
        other._members = self._members.copy()
        other._mixer = self._new_mixer()
        other._mixer.restore(**self._mixer.export(), n_seen=self._mixer.n_seen)
        return other

    def __copy__(self) -> Self:
        return self.copy()

    def freeze(self) -> Self:
        """Return a copy that no longer learns.

        Members are frozen, and all weights and powers stay fixed. An open alphabet becomes a closed
        one with the symbols seen and one more, which represents all others; the copy then has no
        `vocabulary`.

        Examples
        --------
        >>> import mdvpf
        >>> mixture = mdvpf.GeometricMixture([mdvpf.Markov(2), mdvpf.ContextTree(2)])
        >>> _ = mixture.run([0, 1] * 20)
        >>> frozen = mixture.freeze()
        >>> _ = frozen.run([1, 1] * 20)
        >>> bool((frozen.weights == mixture.weights).all())
        True
        """
        other = self.copy()
        rows = [frozen_members(other.members, self._table)]
        other._members = Members(rows, None, [], other._members.time)
        other._learns = False
        if self.is_open:
            other.vocabulary = None
        return other

    # -- checkpoints -----------------------------------------------------------------------

    def _to_state(self) -> State:
        self._members.check_whole()
        self._left_out()
        values = {
            "shares": list(self.shares),
            "rates": list(self.rates),
            "ridges": list(self.ridges),
            "n_threads": self.n_threads,
            "recipe": self.recipe,
            "frozen": not self._learns,
            "n_members": len(self.members),
            "time": self._members.time,
            "n_seen": self._mixer.n_seen,
        }
        if self.adapt_particles:
            values["adapt_particles"] = True
        parts = {f"member {i}": member for i, member in enumerate(self.members)}
        return State(values, dict(self._mixer.export()), parts)

    @classmethod
    def _from_state(cls, state: State, given: dict[str, Any]) -> Self:
        values, parts = state.values, state.parts
        n = validate.integer("n_members", values["n_members"], low=1, high=len(parts))
        time = validate.integer("time", values["time"], low=0)
        members = [parts.pop(f"member {i}") for i in range(n)]
        require(not parts, "unexpected parts in a mixture")
        require(all(isinstance(each, Predictor) for each in members), "a member is not a predictor")
        self = object.__new__(cls)
        names = ("shares", "rates", "ridges", "n_threads")
        adapts = values.get("adapt_particles", False)
        options = {name: values[name] for name in names} | {"adapt_particles": adapts}
        GeometricMixture.__init__(self, members, **options)
        self._members = Members([members], None, [], time)
        self._learns = not validate.flag("frozen", values["frozen"])
        expected = self._mixer.export()
        arrays = {
            name: read_array(state, name, "<f8", each.shape) for name, each in expected.items()
        }
        require(all(np.isfinite(each).all() for each in arrays.values()), "a weight is not finite")
        for name in ("linear", "heads"):
            sums = np.atleast_2d(arrays[name]).sum(axis=1)
            require(np.all(arrays[name] >= 0.0), "a weight is negative")
            require(np.allclose(sums, 1.0, rtol=0.0, atol=1e-6), "weights do not sum to one")
        n_seen = validate.integer("n_seen", values["n_seen"], low=0, high=time)
        self._mixer.restore(**arrays, n_seen=n_seen)
        self.recipe = values["recipe"]
        return self

    # -- one run ---------------------------------------------------------------------------

    @property
    def _chunk(self) -> int:
        numbers = sum(self._sizes) * (self.n_symbols + 1)
        return max(1, min(_LARGEST_CHUNK, _CHUNK_NUMBERS // numbers))

    @property
    def _n_fields(self) -> int:
        return N_FIELDS + 2 * len(self.members)

    def _result(self, reports: NDArray[np.float64]) -> FilterResult:
        weights, scores = np.split(reports[:, N_FIELDS:].copy(), 2, axis=1)
        return MixtureResult(**read_reports(reports), weights=weights, member_log_predictive=scores)

    def _absorb(
        self, stream: Stream, plan: None, part: slice, reports: NDArray[np.float64]
    ) -> None:
        with self._members.together():
            self._advance(stream[part], reports)

    def _absorb_distributions(
        self, stream: Stream, plan: None, reports: NDArray[np.float64], out: NDArray[np.float64]
    ) -> None:
        found = np.empty((len(stream), self._n_fields))
        with self._members.together():
            for start in range(0, len(stream), self._chunk):
                part = slice(start, start + self._chunk)
                self._advance(stream[part], found[part], out[0, part])
        reports[:] = found[:, :N_FIELDS]

    def _influences(self) -> NDArray[np.float64]:
        """Return the influence of each member: see `influence.py`."""
        learnt = self._mixer.export()
        linear = self._by_member(learnt["linear"])
        powers = self._by_member(np.abs(learnt["powers"][:, 1:]))
        return influences(linear, powers, learnt["heads"])

    def _advance(
        self,
        stream: Stream,
        reports: NDArray[np.float64],
        mixed: NDArray[np.float64] | None = None,
    ) -> None:
        """Let the members absorb a chunk, and combine their distributions."""
        if not self.adapt_particles:
            self._advance_part(stream, reports, mixed)
            return
        for part in cuts(self._members.time, len(stream)):
            self._advance_part(stream[part], reports[part], None if mixed is None else mixed[part])
            if is_time(self._members.time):
                adapt(self.members, self._influences())

    def _advance_part(
        self, stream: Stream, reports: NDArray[np.float64], mixed: NDArray[np.float64] | None
    ) -> None:
        """`_advance` for symbols between two changes of the numbers of particles."""
        n, members, sizes = len(stream), self.members, self._sizes
        widths = self._widths(stream)
        columns = np.empty((sum(sizes), n, int(widths[-1])))
        found = np.empty((n, 1, len(members), N_FIELDS))
        ends = np.cumsum(sizes)

        def run(i: int) -> None:
            out, report = columns[ends[i] - sizes[i] : ends[i]], np.empty((n, N_FIELDS))
            members[i]._absorb_distributions(stream, members[i]._plan(stream), report, out)
            found[:, 0, i] = report

        if self.n_threads == 1:
            for i in range(len(members)):
                run(i)
        else:
            with ThreadPoolExecutor(self.n_threads) as pool:
                list(pool.map(run, range(len(members))))
        weights = np.empty((n, len(columns)))
        heads = np.empty((n, len(self._head_prior())))
        log_predictive = np.empty(n)
        self._mixer.advance(
            stream.symbols, columns, widths, self._learns, log_predictive, weights, heads, mixed
        )
        self._members.time += n
        by_member = self._by_member(weights)
        reports[:, 0] = reports[:, 1] = log_predictive
        reports[:, 2:N_FIELDS] = weighted_fields(by_member[:, np.newaxis], found)
        if self._states_are_known:
            after = np.vstack([by_member[1:], self.weights])
            reports[:, 2] = mean_of_filters(members, after, found[:, 0, :, 2])
        reports[:, N_FIELDS : N_FIELDS + len(members)] = by_member
        reports[:, N_FIELDS + len(members) :] = found[:, 0, :, 0]

    @property
    def _states_are_known(self) -> bool:  # type: ignore[override]
        """Whether the mixture has filters and no nested mixtures."""
        members = self.members
        is_flat = not any(isinstance(member, MixtureBase) for member in members)
        return is_flat and any(isinstance(member, ParticleFilter) for member in members)

    def _widths(self, stream: Stream) -> NDArray[np.int64]:
        """Return the size of the distribution before each symbol."""
        n_known = self.n_symbols
        if not self.is_open:
            return np.full(len(stream), n_known)
        seen = np.maximum.accumulate(np.concatenate([[n_known - 1], stream.symbols[:-1]]))
        return np.asarray(seen + 2, dtype=np.int64)


def _read_reals(name: str, values: Any, *, low: float, high: float) -> tuple[float, ...]:
    """Return numbers in ``low..high``, possibly none, or raise."""
    found = validate.sequence(name, values, of="numbers")
    return tuple(validate.real(f"{name}[{i}]", y, low=low, high=high) for i, y in enumerate(found))
