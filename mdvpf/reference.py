"""The five filters in plain Python: the executable specification of the compiled core.

Everything here is slow and says what it does. A particle is a path with its counts in
dictionaries; a step is a function from a list of particles and a symbol to the next list.
Nothing is shared with the compiled core, so that where both agree, both are probably right.

The symbols of the paper, and what they are called here:

====================  =================================================================
``K``                 ``n_particles``, the budget; a set may still be smaller
``M_k``               ``particle.n_states``; also the label of the state that would be new
``x_k``               ``particle.state``; `START` before the first symbol of a sequence
``w_k``               ``particle.weight``, kept as ``particle.log_weight``
``t[j, c]``           ``particle.transition[j, c]``
``into[c]``           ``particle.into[c]``
``e[c, y]``           ``particle.emission[c, y]``
``y_n``               ``symbol``; None if it is missing
``y_{n+1}``           ``lookahead``; None if it is missing or the sequence ends
``p(m | x_k)``        `transition_probabilities`
``p(y | m)``          `emission_probability`
``log f(k, m, y)``    `log_potentials`
``(k, m), b(k, m)``   `Candidate`, its ``log_score``; all of them: `expand`
``G(m)``              `label_norm`
``eps_n``             ``discount``
====================  =================================================================

A step reads top down: `expand` the particles into candidates, select among them (`select_top`,
`select_optimal`) or draw (`draw`, `resample`), and `move` each chosen parent to its state.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf.algorithms import (
    ALGORITHMS,
    DUPLICATING,
    MDVPA,
    SMC,
    VPA,
    Algorithm,
    Normalizer,
    OptimalResampling,
    ParticleLearning,
    Resampling,
)
from mdvpf.model import InfiniteHMM
from mdvpf.predictor import Counts, Step

START = -1
"""The state before the first symbol of a sequence: it has a transition row, and no way in."""

NO_PARENT = -1
"""The parent of a particle that has seen nothing."""

GRID = 2.0**32
"""Scores closer than 1 / GRID are ties: rounding must not decide who survives."""

Symbol = int | None
"""An observation; None is a missing one."""


# The particle


@dataclass(frozen=True, slots=True)
class Particle:
    """One hypothesis about the past: a path of states, its counts and its weight.

    Particles are never changed: `move` makes a child with counts of its own.

    Attributes
    ----------
    state : int
        The state it stands in, -1 before the first symbol of a sequence.
    n_states : int
        How many states its path has visited; they are numbered by first appearance.
    log_weight : float
        Log of its weight; the weights of a set sum to one.
    parent : int
        Index of its parent in the set that the step started from, -1 if there is none.
    path : list of int
        The states visited, all sequences joined, without the start state.
    transition : dict of (int, int) to int
        Transitions so far from a state, or from -1 for the start state, to another.
    emission : dict of (int, int) to int
        How often a state emitted a symbol.
    into : dict of int to int
        How often a state was entered, from the start state too.
    """

    state: int = START
    n_states: int = 0
    log_weight: float = 0.0
    parent: int = NO_PARENT
    path: list[int] = field(default_factory=list)
    transition: dict[tuple[int, int], int] = field(default_factory=dict)
    emission: dict[tuple[int, int], int] = field(default_factory=dict)
    into: dict[int, int] = field(default_factory=dict)

    @property
    def weight(self) -> float:
        """Share of this particle in the set."""
        return math.exp(self.log_weight)

    def counts(self, n_symbols: int) -> Counts:
        """Return the counts as dense arrays."""
        start = np.zeros(self.n_states, dtype=np.int64)
        transition = np.zeros((self.n_states, self.n_states), dtype=np.int64)
        emission = np.zeros((self.n_states, n_symbols), dtype=np.int64)
        for (origin, state), times in self.transition.items():
            if origin == START:
                start[state] = times
            else:
                transition[origin, state] = times
        for (state, symbol), times in self.emission.items():
            emission[state, symbol] = times
        return Counts(start, transition, emission)


def move(
    particle: Particle, state: int, symbol: Symbol, *, parent: int, log_weight: float
) -> Particle:
    """Return the child that goes to `state` and emits `symbol` there."""
    transition = dict(particle.transition)
    transition[particle.state, state] = transition.get((particle.state, state), 0) + 1
    into = dict(particle.into)
    into[state] = into.get(state, 0) + 1
    emission = dict(particle.emission)
    if symbol is not None:
        emission[state, symbol] = emission.get((state, symbol), 0) + 1
    return Particle(
        state=state,
        n_states=max(particle.n_states, state + 1),
        log_weight=log_weight,
        parent=parent,
        path=[*particle.path, state],
        transition=transition,
        emission=emission,
        into=into,
    )


# The model


def transition_probabilities(model: InfiniteHMM, particle: Particle) -> list[float]:
    """Return the probability of each next state: the existing ones, then the new one.

    The transitions seen from the present state are joined by an oracle of mass alpha, which
    spreads that mass over the states it offers, by how often they were entered, and over the
    new state by gamma. The two oracles differ in what they offer. At `max_states` the new
    state is left out, and the divisor is the mass of the others.
    """
    states = range(particle.n_states)
    seen = [particle.transition.get((particle.state, state), 0) for state in states]
    if model.oracle == "unvisited":
        offered = [0 if seen[state] else particle.into[state] for state in states]
    else:
        offered = [particle.into[state] for state in states]
    oracle_total = sum(offered) + model.gamma
    mass = [seen[c] + model.alpha * (offered[c] / oracle_total) for c in states]
    if model.max_states is not None and particle.n_states >= model.max_states:
        total = sum(seen) + model.alpha * (sum(offered) / oracle_total)
    else:
        mass.append(model.alpha * (model.gamma / oracle_total))
        total = sum(seen) + model.alpha
    return [part / total for part in mass]


def emission_probability(
    model: InfiniteHMM, particle: Particle, state: int, symbol: Symbol
) -> float:
    """Return the probability that `state` emits `symbol`; 1 for a missing symbol."""
    if symbol is None:
        return 1.0
    if state == particle.n_states:
        return 1.0 / model.n_symbols
    total = sum(particle.emission.get((state, y), 0) for y in range(model.n_symbols))
    times = particle.emission.get((state, symbol), 0)
    return (times + model.beta) / (total + model.n_symbols * model.beta)


def log_potentials(model: InfiniteHMM, particle: Particle, symbol: Symbol) -> list[float]:
    """Return the log probability of going to each next state and emitting `symbol` there."""
    return [
        math.log(probability) + math.log(emission_probability(model, particle, state, symbol))
        for state, probability in enumerate(transition_probabilities(model, particle))
    ]


# Candidates


class Candidate(NamedTuple):
    """A parent, by index, the state it would go to, and the log score of that."""

    parent: int
    state: int
    log_score: float


def expand(
    model: InfiniteHMM,
    particles: Sequence[Particle],
    symbol: Symbol,
    *,
    carry_weights: bool = True,
) -> list[Candidate]:
    """Return all candidates with their base scores, ordered by parent and state."""
    return [
        Candidate(k, state, (particle.log_weight if carry_weights else 0.0) + log_potential)
        for k, particle in enumerate(particles)
        for state, log_potential in enumerate(log_potentials(model, particle, symbol))
    ]


def log_predictive(model: InfiniteHMM, particles: Sequence[Particle], symbol: Symbol) -> float:
    """Return the log probability of the next symbol: the total weight of its candidates."""
    if symbol is None:
        return 0.0
    return log_sum_exp([candidate.log_score for candidate in expand(model, particles, symbol)])


def label_norm(log_values: Sequence[float], normalizer: Normalizer, n_particles: int) -> float:
    """Return what the look-ahead of a candidate is compared with.

    `log_values` are the log potentials of the look-ahead in all candidates of one label.
    """
    if normalizer == "geometric":
        return math.fsum(log_values) / len(log_values)
    if normalizer == "sum":
        return log_sum_exp(log_values) / n_particles
    return 0.0


def lookahead_terms(
    model: InfiniteHMM,
    particles: Sequence[Particle],
    lookahead: int,
    normalizer: Normalizer,
    n_particles: int,
) -> list[float]:
    """Return, for each candidate, how much better than its label it foresees `lookahead`.

    The candidate is scored as if the look-ahead were emitted in its state at this very step,
    from the counts of the parent: the paper's regret term before the discount.
    """
    candidates = expand(model, particles, lookahead, carry_weights=False)
    by_label: defaultdict[int, list[float]] = defaultdict(list)
    for candidate in candidates:
        by_label[candidate.state].append(candidate.log_score)
    norm = {
        label: label_norm(values, normalizer, n_particles) for label, values in by_label.items()
    }
    return [candidate.log_score - norm[candidate.state] for candidate in candidates]


# Selection: which candidates survive, and with which weight


class Survivor(NamedTuple):
    """A selected candidate, by index, and the log weight it goes on with."""

    candidate: int
    log_weight: float


def log_sum_exp(values: Sequence[float]) -> float:
    """Return the log of the sum of the exponentials, without overflow or underflow."""
    largest = max(values)
    if math.isinf(largest):
        return largest
    return largest + math.log(math.fsum(math.exp(value - largest) for value in values))


def normalised(log_scores: Sequence[float]) -> list[float]:
    """Return the log scores shifted so that their exponentials sum to one."""
    total = log_sum_exp(log_scores)
    return [log_score - total for log_score in log_scores]


def selection_keys(log_scores: Sequence[float]) -> list[float]:
    """Return the scores below the largest on a grid, so that near-equal scores are ties."""
    if any(math.isnan(score) for score in log_scores) or math.isinf(max(log_scores)):
        raise ValueError(
            f"the candidates' scores reach {max(log_scores)!r} or are not numbers: "
            "expected numbers, the largest finite; a smaller discount keeps them so"
        )
    largest = max(log_scores)
    scaled = [(score - largest) * GRID for score in log_scores]
    return [key if math.isinf(key) else float(round(key)) for key in scaled]


def select_top(log_scores: Sequence[float], n_particles: int) -> list[Survivor]:
    """Keep the best candidates; at the cut the earliest win, and all stay in order."""
    keys = selection_keys(log_scores)
    best = sorted(range(len(keys)), key=lambda i: (-keys[i], i))[:n_particles]
    kept = sorted(best)
    log_weights = normalised([log_scores[i] for i in kept])
    return [Survivor(i, log_weight) for i, log_weight in zip(kept, log_weights, strict=True)]


def select_optimal(
    log_scores: Sequence[float], n_particles: int, uniform: Callable[[], float]
) -> list[Survivor]:
    """Keep the heavy candidates as they are, and thin the light ones to one common weight.

    The rule of Fearnhead and Clifford (2003). `uniform` is called once, and only if there is
    something to draw. Over that uniform the mean weight of every candidate is its share.
    """
    selection_keys(log_scores)  # only for its error: scores that are not numbers
    log_shares = normalised(log_scores)
    shares = [math.exp(log_share) for log_share in log_shares]
    n_heavy, light_weight = heavy_and_light(shares, n_particles)
    by_share = sorted(range(len(shares)), key=lambda i: -shares[i])
    log_weights = {i: log_shares[i] for i in by_share[:n_heavy]}
    n_draws = n_particles - n_heavy
    if n_heavy < len(shares) and n_draws > 0:
        light = sorted(by_share[n_heavy:])
        for i in thin(light, [shares[i] for i in light], n_draws, uniform()):
            log_weights[i] = math.log(light_weight)
    return [Survivor(i, log_weights[i]) for i in sorted(log_weights)]


def heavy_and_light(shares: Sequence[float], n_particles: int) -> tuple[int, float]:
    """Return how many of the largest shares are kept, and the common weight of the rest."""
    if len(shares) <= n_particles:
        return len(shares), 0.0
    largest_first = sorted(shares, reverse=True)
    tail = list(accumulate(reversed(largest_first), initial=0.0))[::-1]
    for n_heavy in range(n_particles):
        light_weight = tail[n_heavy] / (n_particles - n_heavy)
        if largest_first[n_heavy] < light_weight:
            return n_heavy, light_weight
    return n_particles, 0.0


def thin(items: Sequence[int], shares: Sequence[float], n_draws: int, uniform: float) -> list[int]:
    """Draw `n_draws` of the ascending `items`, none twice, at even distances in their shares.

    No share exceeds the distance between two points, so an item holds at most one point. Where
    rounding puts two on one item, or one past the end, the next or the last free item has it.
    """
    cumulative = list(accumulate(shares))
    points = [(j + uniform) * cumulative[-1] / n_draws for j in range(n_draws)]
    drawn: list[int] = []
    for item, end in zip(items, cumulative, strict=True):
        if len(drawn) < n_draws and points[len(drawn)] < end:
            drawn.append(item)
    free = sorted(set(items) - set(drawn))
    n_missing = n_draws - len(drawn)
    return sorted(drawn + free[len(free) - n_missing :])


# Drawing


def draw(weights: Sequence[float], points: Collection[float]) -> list[int]:
    """Return, for each point in [0, 1), the first index whose cumulative weight exceeds it."""
    cumulative = list(accumulate(weights))
    total = cumulative[-1]
    last = cumulative.index(total)  # for a point that was rounded up to 1
    return [min(bisect_right(cumulative, point * total), last) for point in points]


def resample(weights: Sequence[float], scheme: Resampling, rng: np.random.Generator) -> list[int]:
    """Return as many indices as there are weights, drawn in proportion to them and sorted."""
    n = len(weights)
    if scheme == "multinomial":
        return sorted(draw(weights, rng.random(n).tolist()))
    if scheme == "stratified":
        return draw(weights, [(j + u) / n for j, u in enumerate(rng.random(n).tolist())])
    if scheme == "systematic":
        u = rng.random()
        return draw(weights, [(j + u) / n for j in range(n)])
    return residual_resample(weights, rng)


def residual_resample(weights: Sequence[float], rng: np.random.Generator) -> list[int]:
    """Take each index as often as its expected number allows, and draw the remainder."""
    n = len(weights)
    expected = [n * weight for weight in weights]
    # On the grid, so that 0.9999999999999999 counts as one.
    whole = [math.floor(round(number * GRID) / GRID) for number in expected]
    indices = [i for i, times in enumerate(whole) for _ in range(times)]
    n_draws = n - len(indices)
    if n_draws > 0:
        remainder = [max(0.0, a - b) for a, b in zip(expected, whole, strict=True)]
        indices += draw(remainder, rng.random(n_draws).tolist())
    return sorted(indices)


# The steps of the five filters


class Advance(NamedTuple):
    """The set after a step, and what `Step` reports about how it came to be.

    `log_evidence` is what the symbol adds to the log evidence of the filter, where that is
    not its log predictive.
    """

    particles: list[Particle]
    ess: float
    discarded: float
    log_evidence: float | None = None


def effective_size(log_weights: Sequence[float]) -> float:
    """Return the effective sample size of normalised weights."""
    return 1.0 / math.fsum(math.exp(2.0 * log_weight) for log_weight in log_weights)


def lost_share(log_scores: Sequence[float], survivors: Collection[int]) -> float:
    """Return the share of the weight of all that is held by those without a survivor."""
    kept = set(survivors)
    shares = normalised(log_scores)
    return math.fsum(math.exp(share) for i, share in enumerate(shares) if i not in kept)


def offspring(
    particles: Sequence[Particle],
    symbol: Symbol,
    candidates: Sequence[Candidate],
    survivors: Sequence[Survivor],
) -> list[Particle]:
    """Return the children of the surviving candidates, in order."""
    return [
        move(
            particles[candidates[i].parent],
            candidates[i].state,
            symbol,
            parent=candidates[i].parent,
            log_weight=log_weight,
        )
        for i, log_weight in survivors
    ]


def advanced(
    particles: Sequence[Particle],
    symbol: Symbol,
    candidates: Sequence[Candidate],
    survivors: Sequence[Survivor],
) -> Advance:
    """Return the set of the surviving candidates, and what the selection lost."""
    return Advance(
        offspring(particles, symbol, candidates, survivors),
        effective_size([survivor.log_weight for survivor in survivors]),
        lost_share(
            [candidate.log_score for candidate in candidates],
            [survivor.candidate for survivor in survivors],
        ),
    )


def vpa_step(
    model: InfiniteHMM,
    particles: Sequence[Particle],
    symbol: Symbol,
    n_particles: int,
    *,
    carry_weights: bool,
) -> Advance:
    """Keep the best candidates, weighted by their scores."""
    candidates = expand(model, particles, symbol, carry_weights=carry_weights)
    survivors = select_top([candidate.log_score for candidate in candidates], n_particles)
    return advanced(particles, symbol, candidates, survivors)


def mdvpa_step(
    model: InfiniteHMM,
    particles: Sequence[Particle],
    symbol: Symbol,
    lookahead: Symbol,
    n_particles: int,
    algorithm: MDVPA,
    discount: float,
    uniform: Callable[[], float],
) -> list[Particle]:
    """Complete a step of MD-VPA: select by the symbol and, discounted, the one after it.

    Without a look-ahead the discount is not used.
    """
    candidates = expand(model, particles, symbol, carry_weights=algorithm.carry_weights)
    log_scores = [candidate.log_score for candidate in candidates]
    if lookahead is not None:
        terms = lookahead_terms(model, particles, lookahead, algorithm.normalizer, n_particles)
        log_scores = [
            score + discount * term for score, term in zip(log_scores, terms, strict=True)
        ]
    if algorithm.selection == "optimal":
        survivors = select_optimal(log_scores, n_particles, uniform)
    else:
        survivors = select_top(log_scores, n_particles)
    return offspring(particles, symbol, candidates, survivors)


def smc_step(
    model: InfiniteHMM,
    particles: Sequence[Particle],
    symbol: Symbol,
    algorithm: SMC,
    rng: np.random.Generator,
) -> Advance:
    """Draw each particle's state, weigh it by the emission, and resample if it is time.

    The share discarded is that of the particles, each with its one drawn state, that have no
    offspring; it is 0 without resampling.
    """
    n = len(particles)
    states = [
        draw(transition_probabilities(model, particle), [u])[0]
        for particle, u in zip(particles, rng.random(n).tolist(), strict=True)
    ]
    drawn = [
        Candidate(
            k,
            state,
            particle.log_weight + math.log(emission_probability(model, particle, state, symbol)),
        )
        for k, (particle, state) in enumerate(zip(particles, states, strict=True))
    ]
    log_scores = [candidate.log_score for candidate in drawn]
    log_evidence = 0.0 if symbol is None else log_sum_exp(log_scores)
    log_weights = normalised(log_scores)
    ess = effective_size(log_weights)
    if is_time_to_resample(ess, n, algorithm.ess_threshold):
        weights = [math.exp(log_weight) for log_weight in log_weights]
        ancestors = resample(weights, algorithm.resampling, rng)
        survivors = [Survivor(k, -math.log(n)) for k in ancestors]
    else:
        survivors = [Survivor(k, log_weight) for k, log_weight in enumerate(log_weights)]
    children = advanced(particles, symbol, drawn, survivors)
    return children._replace(ess=ess, log_evidence=log_evidence)


def is_time_to_resample(ess: float, n_particles: int, threshold: float | None) -> bool:
    """Return whether the effective sample size calls for resampling."""
    return threshold is None or threshold == 1.0 or ess < threshold * n_particles


def particle_learning_step(
    model: InfiniteHMM,
    particles: Sequence[Particle],
    symbol: Symbol,
    rng: np.random.Generator,
) -> Advance:
    """Draw parents by the total of their candidates, then for each one of its candidates.

    The i-th uniform for states belongs to the i-th parent drawn, before survivors are sorted.
    """
    n = len(particles)
    candidates = expand(model, particles, symbol)
    of_parent: list[list[int]] = [[] for _ in particles]
    for index, candidate in enumerate(candidates):
        of_parent[candidate.parent].append(index)
    log_scores = [candidate.log_score for candidate in candidates]
    log_totals = [log_sum_exp([log_scores[i] for i in indices]) for indices in of_parent]
    parents = draw([math.exp(share) for share in normalised(log_totals)], rng.random(n).tolist())
    taken = []
    for parent, u in zip(parents, rng.random(n).tolist(), strict=True):
        indices = of_parent[parent]
        shares = [math.exp(share) for share in normalised([log_scores[i] for i in indices])]
        taken.append(indices[draw(shares, [u])[0]])
    survivors = [Survivor(index, -math.log(n)) for index in sorted(taken)]
    return advanced(particles, symbol, candidates, survivors)


def optimal_resampling_step(
    model: InfiniteHMM,
    particles: Sequence[Particle],
    symbol: Symbol,
    n_particles: int,
    uniform: Callable[[], float],
) -> Advance:
    """Reduce the candidates to the budget without bias and without duplicates."""
    candidates = expand(model, particles, symbol)
    log_scores = [candidate.log_score for candidate in candidates]
    survivors = select_optimal(log_scores, n_particles, uniform)
    return advanced(particles, symbol, candidates, survivors)


# The filter


class Pending(NamedTuple):
    """A symbol whose step waits for the one after it, and the set shown in the meantime."""

    symbol: Symbol
    provisional: list[Particle]


class ReferenceFilter:
    """A particle filter for the infinite hidden Markov model, as plainly as it can be said.

    Parameters
    ----------
    model : InfiniteHMM
        The model and its hyper-parameters.
    algorithm : MDVPA, VPA, SMC, ParticleLearning or OptimalResampling, optional
        How particles are chosen; ``MDVPA()`` by default.
    n_particles : int, default 1000
        The budget of particles.
    rng : Generator, int or None, optional
        The source of random numbers, as `numpy.random.default_rng` takes it. MDVPA (with
        ``selection="top"``) and VPA draw none.

    Attributes
    ----------
    log_evidence : float
        Log evidence of all symbols so far.
    n_steps : int
        How many steps were completed; with MDVPA the last symbol waits for the one after it.

    Examples
    --------
    >>> from mdvpf.algorithms import VPA
    >>> from mdvpf.model import InfiniteHMM
    >>> from mdvpf.reference import ReferenceFilter
    >>> pf = ReferenceFilter(InfiniteHMM(n_symbols=2, beta=1.0), VPA(), n_particles=10)
    >>> pf.predict_proba().tolist()
    [0.5, 0.5]
    >>> pf.update(0).n_particles
    1
    >>> pf.predict_proba().round(4).tolist()
    [0.5833, 0.4167]
    >>> round(pf.update(0).mean_states, 4)
    1.4286
    >>> [(particle.path, round(particle.weight, 4)) for particle in pf.particles]
    [([0, 0], 0.5714), ([0, 1], 0.4286)]
    """

    def __init__(
        self,
        model: InfiniteHMM,
        algorithm: Algorithm | None = None,
        n_particles: int = 1000,
        *,
        rng: Any = None,
    ) -> None:
        if not isinstance(model, InfiniteHMM):
            raise TypeError(f"model={model!r}: expected an InfiniteHMM")
        algorithm = MDVPA() if algorithm is None else algorithm
        if not isinstance(algorithm, ALGORITHMS):
            raise TypeError(
                f"algorithm={algorithm!r}: expected one of "
                + ", ".join(kind.__name__ for kind in ALGORITHMS)
            )
        self.model = model
        self.algorithm: Algorithm = algorithm
        self.n_particles = validate.integer("n_particles", n_particles, low=1)
        self.log_evidence = 0.0
        self.n_steps = 0
        self._rng = validate.generator("rng", rng)
        self._committed = self._empty_particles()
        self._pending: Pending | None = None

    def _empty_particles(self) -> list[Particle]:
        n = self.n_particles if isinstance(self.algorithm, DUPLICATING) else 1
        return [Particle(log_weight=-math.log(n)) for _ in range(n)]

    @property
    def committed(self) -> list[Particle]:
        """Particles of the completed steps; only MDVPA shows others while a symbol waits."""
        return list(self._committed)

    @property
    def particles(self) -> list[Particle]:
        """Particles of the shown set, in order: of MDVPA, the provisional one if there is one."""
        return list(self._committed if self._pending is None else self._pending.provisional)

    def predict_proba(self) -> NDArray[np.float64]:
        """Return the distribution of the next symbol."""
        particles = self.particles
        log_probabilities = [
            log_predictive(self.model, particles, symbol) for symbol in range(self.model.n_symbols)
        ]
        return np.array([math.exp(value) for value in log_probabilities])

    def update(self, symbol: Symbol) -> Step:
        """Absorb one symbol, None if it is missing, and report on the set shown after it."""
        if symbol is not None:
            symbol = validate.integer("symbol", symbol, low=0, high=self.model.n_symbols - 1)
        before = log_predictive(self.model, self.particles, symbol)
        if isinstance(self.algorithm, MDVPA):
            after = self._wait_for_lookahead(self.algorithm, symbol)
        else:
            after = self._advance(self.algorithm, symbol)
            self._commit(after.particles)
        self.log_evidence += before if after.log_evidence is None else after.log_evidence
        return Step(
            log_predictive=before,
            mean_states=math.fsum(p.weight * p.n_states for p in after.particles),
            ess=after.ess,
            n_particles=len(after.particles),
            discarded=after.discarded,
        )

    def new_sequence(self) -> None:
        """Let the next symbol start a sequence; counts, weights and steps are kept."""
        if isinstance(self.algorithm, MDVPA) and self._pending is not None:
            self._commit(self._completed(self.algorithm, self._pending.symbol, lookahead=None))
        self._committed = [replace(particle, state=START) for particle in self._committed]

    def _commit(self, particles: list[Particle]) -> None:
        self._committed = particles
        self._pending = None
        self.n_steps += 1

    def _advance(
        self, algorithm: VPA | SMC | ParticleLearning | OptimalResampling, symbol: Symbol
    ) -> Advance:
        model, particles, k = self.model, self._committed, self.n_particles
        if isinstance(algorithm, VPA):
            return vpa_step(model, particles, symbol, k, carry_weights=algorithm.carry_weights)
        if isinstance(algorithm, SMC):
            return smc_step(model, particles, symbol, algorithm, self._rng)
        if isinstance(algorithm, ParticleLearning):
            return particle_learning_step(model, particles, symbol, self._rng)
        return optimal_resampling_step(model, particles, symbol, k, self._rng.random)

    def _wait_for_lookahead(self, algorithm: MDVPA, symbol: Symbol) -> Advance:
        """Complete the waiting step, for which `symbol` is the look-ahead, and wait again."""
        if self._pending is not None:
            self._commit(self._completed(algorithm, self._pending.symbol, lookahead=symbol))
        provisional = vpa_step(
            self.model,
            self._committed,
            symbol,
            self.n_particles,
            carry_weights=algorithm.carry_weights,
        )
        self._pending = Pending(symbol, provisional.particles)
        return provisional

    def _completed(self, algorithm: MDVPA, symbol: Symbol, lookahead: Symbol) -> list[Particle]:
        discount = 0.0
        if lookahead is not None:
            discount = float(algorithm.discounts([self.n_steps + 1])[0])
        return mdvpa_step(
            self.model,
            self._committed,
            symbol,
            lookahead,
            self.n_particles,
            algorithm,
            discount,
            self._rng.random,
        )
