"""What the kernel tests share: a filter laid open, and a filter next to its reference.

Core and reference do the same arithmetic in a different order, so they may part where a last
bit decides: a score on the edge between two points of the selection grid, a uniform on the edge
between two cumulative weights. Such a parting is no error, but only such a one: it is worked
out from the scores of the reference, and every other difference fails.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mdvpf
from mdvpf import reference
from mdvpf.algorithms import Algorithm
from mdvpf.reference import GRID, Particle, ReferenceFilter

Symbol = int | None
BREAK = "break"  # an event of a stream: a new sequence starts
Event = Symbol | str
Edge = tuple[str, str]  # where a last bit decides, and the algorithm

EPSILON = float(np.finfo(float).eps)
NEAR = 1e-12  # two cumulative sums this close, relatively, may differ in rounding alone


# --- A filter laid open


@dataclass(frozen=True)
class Shown:
    """The particles that a filter shows."""

    weights: NDArray[np.float64]
    states: NDArray[np.int64]
    n_states: NDArray[np.int64]
    parents: NDArray[np.int64]


def shown(pf: mdvpf.ParticleFilter) -> Shown:
    n = len(pf.weights)
    weights = np.empty(n)
    states, n_states, parents = (np.empty(n, dtype=np.int64) for _ in range(3))
    pf._core.describe(weights, states, n_states, parents)
    return Shown(weights, states, n_states, parents)


def generator_state(generator: np.random.Generator) -> dict[str, Any]:
    return dict(generator.bit_generator.state)


def n_absorbed(pf: mdvpf.ParticleFilter) -> int:
    """How many symbols the filter has seen."""
    return int(pf._core.n_steps + pf._core.pending)


def laid_open(pf: mdvpf.ParticleFilter) -> dict[str, Any]:
    """Everything that can be seen of a filter, to be compared bit for bit."""
    particles = shown(pf)
    seen: dict[str, Any] = {
        "n_steps": pf._core.n_steps,
        "pending": pf._core.pending,
        "log_evidence": pf.log_evidence,
        "prediction": pf.predict_proba().tobytes(),
        "generator": repr(generator_state(pf.rng)),
        "weights": particles.weights.tobytes(),
        "states": particles.states.tolist(),
        "n_states": particles.n_states.tolist(),
        "parents": particles.parents.tolist(),
    }
    for k in range(len(particles.states)):
        seen[f"counts({k})"] = [(table.shape, table.tobytes()) for table in pf.counts(k)]
        if pf.history is not None:
            seen[f"path({k})"] = pf.path(k).tolist()
    return seen


def assert_same(pf: mdvpf.ParticleFilter, expected: dict[str, Any]) -> None:
    """Check a filter against what was seen before, or of another one, to the last bit."""
    found = laid_open(pf)
    differing = [name for name in expected | found if expected.get(name) != found.get(name)]
    assert not differing


def feed(pf: mdvpf.Predictor | ReferenceFilter, events: Iterable[Event]) -> None:
    """Pass events on, one by one."""
    for event in events:
        if isinstance(event, str):
            pf.new_sequence()
        else:
            pf.update(event)


def recounted(
    path: NDArray[np.int64], events: Sequence[Event], n_symbols: int
) -> mdvpf.result.Counts:
    """Count a path and the symbols emitted on it, from scratch."""
    n_states = int(path.max(initial=-1)) + 1
    symbols = np.array([-1 if e is None else e for e in events if e != BREAK], dtype=np.int64)
    origins = np.concatenate([[-1], path])[: len(path)]
    n_seen = 0
    for event in events:
        if event == BREAK:
            if n_seen < len(origins):
                origins[n_seen] = -1
        else:
            n_seen += 1
    tables = mdvpf.result.Counts(
        np.zeros(n_states, dtype=np.int64),
        np.zeros((n_states, n_states), dtype=np.int64),
        np.zeros((n_states, n_symbols), dtype=np.int64),
    )
    first = origins == -1
    seen = symbols >= 0
    np.add.at(tables.start, path[first], 1)
    np.add.at(tables.transition, (origins[~first], path[~first]), 1)
    np.add.at(tables.emission, (path[seen], symbols[seen]), 1)
    return tables


def assert_counts_follow_paths(pf: mdvpf.ParticleFilter, events: Sequence[Event]) -> None:
    """Check the counts of every particle against its path, and the core against itself."""
    pf._core.verify()
    for k in range(len(pf.weights)):
        path = pf.path(k)
        assert len(path) == sum(event != BREAK for event in events)
        expected = recounted(path, events, pf.n_symbols)
        for name, found, table in zip(expected._fields, pf.counts(k), expected, strict=True):
            assert np.array_equal(found, table), f"{name} of particle {k}"


# --- A filter next to its reference


class Pair:
    """The compiled filter and its reference, fed the same symbols from the same seed.

    `update` and `new_sequence` compare everything afterwards. They return the edge on which
    the two parted, if a last bit decided, and None as long as they agree. After they have
    parted there is nothing more to compare.
    """

    def __init__(
        self,
        model: mdvpf.InfiniteHMM,
        algorithm: Algorithm,
        n_particles: int,
        *,
        seed: int = 0,
        history: int | str | None = "full",
        verify: bool = True,
    ) -> None:
        self.verify = verify  # after every step: it takes long for thousands of particles
        self.generators = np.random.default_rng(seed), np.random.default_rng(seed)
        self.core = mdvpf.ParticleFilter(
            model, algorithm, n_particles, rng=self.generators[0], history=history
        )
        self.slow = ReferenceFilter(model, algorithm, n_particles, rng=self.generators[1])
        self.pending: list[Symbol] = []  # the symbol that MD-VPA holds back, if there is one

    def follow(
        self, events: Iterable[Event], *, predictions: int = 3, tables: int = 1
    ) -> Edge | None:
        """Feed events until the two part; compare predictions and tables every so often."""
        for number, event in enumerate(events):
            if isinstance(event, str):
                edge = self.new_sequence()
            else:
                edge = self.update(
                    event,
                    compare_predictions=number % predictions == 0,
                    compare_tables=number % tables == 0,
                )
            if edge is not None:
                return edge
        self.core._core.verify()
        self.compare_prediction()
        self.compare_tables()
        return None

    def update(
        self,
        symbol: Symbol,
        *,
        compare_predictions: bool = True,
        compare_tables: bool = True,
    ) -> Edge | None:
        edges = self._edges(symbol, ends=False)
        found = self.core.update(symbol)
        expected = self.slow.update(symbol)
        if self.verify:
            self.core._core.verify()
        # Fixed before the symbol was used, so it never depends on the selection.
        np.testing.assert_allclose(
            found.log_predictive, expected.log_predictive, rtol=0.0, atol=1e-10
        )
        if self._same_survivors():
            for name in ("mean_states", "ess", "discarded"):
                np.testing.assert_allclose(
                    getattr(found, name),
                    getattr(expected, name),
                    rtol=1e-9,
                    atol=1e-9,
                    err_msg=name,
                )
            assert found.n_particles == expected.n_particles
        else:
            return self._explained(edges)
        return self._compared(compare_predictions, compare_tables)

    def new_sequence(self) -> Edge | None:
        edges = self._edges(None, ends=True)
        self.core.new_sequence()
        self.slow.new_sequence()
        self.core._core.verify()
        if not self._same_survivors():
            return self._explained(edges)
        assert np.all(self.core.states == reference.START)
        return self._compared(True, True)

    def _compared(self, predictions: bool, tables: bool) -> None:
        if predictions:
            self.compare_prediction()
        if tables:
            self.compare_tables()
        np.testing.assert_allclose(
            self.core.log_evidence, self.slow.log_evidence, rtol=1e-12, atol=1e-9
        )
        assert generator_state(self.generators[0]) == generator_state(self.generators[1])
        assert self.core._core.n_steps == self.slow.n_steps

    def _same_survivors(self) -> bool:
        """Whether both show the same particles, with the same weights."""
        found = shown(self.core)
        expected = self.slow.particles
        same = (
            found.states.tolist() == [particle.state for particle in expected]
            and found.n_states.tolist() == [particle.n_states for particle in expected]
            and (
                n_absorbed(self.core) == 0
                or found.parents.tolist() == [particle.parent for particle in expected]
            )
            and generator_state(self.generators[0]) == generator_state(self.generators[1])
        )
        weights = [particle.weight for particle in expected]
        return same and bool(np.allclose(found.weights, weights, rtol=1e-9, atol=1e-9))

    def compare_prediction(self) -> None:
        """Compare what both predict; of a large alphabet, for some symbols only."""
        found = self.core.predict_proba()
        np.testing.assert_allclose(found.sum(), 1.0, rtol=0.0, atol=1e-10)
        n = self.core.n_symbols
        symbols = range(n) if n <= 12 else sorted({0, 1, n // 3, n // 2, n - 2, n - 1})
        for symbol in symbols:
            expected = reference.log_predictive(self.core.model, self.slow.particles, symbol)
            np.testing.assert_allclose(found[symbol], math.exp(expected), rtol=1e-9, atol=1e-10)

    def compare_tables(self) -> None:
        """Compare the counts and the path of every particle."""
        for k, particle in enumerate(self.slow.particles):
            expected = particle.counts(self.core.n_symbols)
            for found, table in zip(self.core.counts(k), expected, strict=True):
                assert np.array_equal(found, table)
            if self.core.history == "full":
                assert self.core.path(k).tolist() == particle.path
            elif self.core.history is not None:
                assert self.core.path(k).tolist() == particle.path[-self.core.history :]

    # -- where they may part

    def _explained(self, edges: list[Callable[[Shown], str | None]]) -> Edge:
        found = shown(self.core)
        for edge in edges:
            reason = edge(found)
            if reason is not None:
                return reason, type(self.core.algorithm).__name__
        raise AssertionError(
            f"core and reference differ after {n_absorbed(self.core)} symbols, "
            f"and no last bit explains it: {self.core!r}"
        )

    def _edges(self, symbol: Symbol, *, ends: bool) -> list[Callable[[Shown], str | None]]:
        """Return the ways in which the coming step may go astray, to be asked if it does."""
        model, k = self.core.model, self.core.n_particles
        before = self.slow.committed
        uniforms = copy.deepcopy(self.generators[1])
        algorithm = self.core.algorithm
        if isinstance(algorithm, mdvpf.VPA):
            return (
                []
                if ends
                else [
                    lambda found: edge_of_top(
                        model,
                        before,
                        symbol,
                        k,
                        found,
                        self.slow.particles,
                        carry_weights=algorithm.carry_weights,
                    )
                ]
            )
        if isinstance(algorithm, mdvpf.SMC):
            return (
                [] if ends else [lambda _: edge_of_smc(model, before, symbol, algorithm, uniforms)]
            )
        if isinstance(algorithm, mdvpf.ParticleLearning):
            return [] if ends else [lambda _: edge_of_learning(model, before, symbol, uniforms)]
        if isinstance(algorithm, mdvpf.OptimalResampling):
            scores = [c.log_score for c in reference.expand(model, before, symbol)]
            return [] if ends else [lambda _: edge_of_optimal(scores, k, uniforms.random)]
        if not isinstance(algorithm, mdvpf.MDVPA):  # one that has nothing to explain yet
            return []
        waiting, self.pending = self.pending, [] if ends else [symbol]
        n = self.slow.n_steps + 1

        def completed(_: Shown) -> str | None:
            if not waiting:
                return None
            lookahead = None if ends else symbol
            return edge_of_completion(
                model, before, waiting[0], lookahead, k, algorithm, n, uniforms
            )

        def provisional(found: Shown) -> str | None:
            if ends:
                return None
            return edge_of_top(
                model,
                self.slow.committed,
                symbol,
                k,
                found,
                self.slow.particles,
                carry_weights=algorithm.carry_weights,
            )

        return [completed, provisional]


def grid_range(log_scores: Sequence[float], slack: float) -> Iterator[tuple[float, float]]:
    """Yield the least and the largest grid key that each score may have, given its error.

    `slack` is the error of the scores in excess of the rounding of the numbers themselves.
    """
    largest = max(log_scores)
    for score in log_scores:
        scaled = (score - largest) * GRID
        if math.isinf(scaled):
            yield scaled, scaled
            continue
        error = max(1e-4, GRID * (slack + 8.0 * EPSILON * max(1.0, abs(score), abs(largest))))
        yield float(round(scaled - error)), float(round(scaled + error))


def first_by_key(keys: Sequence[float], n: int) -> set[int]:
    return set(sorted(range(len(keys)), key=lambda i: (-keys[i], i))[:n])


def edge_of_top(
    model: mdvpf.InfiniteHMM,
    particles: Sequence[Particle],
    symbol: Symbol,
    n_particles: int,
    found: Shown,
    expected: Sequence[Particle],
    *,
    carry_weights: bool = True,
) -> str | None:
    """Return the edge if those found and those expected are both the best up to last bits.

    They are if raising the scores that are among them as far as their error allows, and
    lowering all others, makes them the best.
    """
    candidates = reference.expand(model, particles, symbol, carry_weights=carry_weights)
    ranges = list(grid_range([c.log_score for c in candidates], 0.0))
    places = {(c.parent, c.state): i for i, c in enumerate(candidates)}
    pairs = zip(found.parents.tolist(), found.states.tolist(), strict=True)
    ours = {places.get(place, -1) for place in pairs}
    theirs = {places[particle.parent, particle.state] for particle in expected}
    for kept in (ours, theirs):
        keys = [high if i in kept else low for i, (low, high) in enumerate(ranges)]
        if first_by_key(keys, n_particles) != kept:
            return None
    return "grid" if ours != theirs else None


def edge_of_completion(
    model: mdvpf.InfiniteHMM,
    particles: Sequence[Particle],
    symbol: Symbol,
    lookahead: Symbol,
    n_particles: int,
    algorithm: mdvpf.MDVPA,
    step: int,
    uniforms: np.random.Generator,
) -> str | None:
    """Return the edge if the last bits of the scores may decide a completed step of MD-VPA.

    Its survivors are not shown, so this asks whether lowering those expected and raising all
    others, as far as their errors allow, would make a difference.
    """
    carry = algorithm.carry_weights
    candidates = reference.expand(model, particles, symbol, carry_weights=carry)
    scores = [candidate.log_score for candidate in candidates]
    slack = 0.0
    if lookahead is not None:
        discount = float(algorithm.discounts([step])[0])
        terms = reference.lookahead_terms(
            model, particles, lookahead, algorithm.normalizer, n_particles
        )
        scores = [score + discount * term for score, term in zip(scores, terms, strict=True)]
        # The mean over particles rounds once a particle.
        slack = discount * EPSILON * (len(particles) + 8.0 * max(map(abs, terms)) + 8.0)
    if algorithm.selection == "optimal":
        return edge_of_optimal(scores, n_particles, uniforms.random)
    kept = {survivor.candidate for survivor in reference.select_top(scores, n_particles)}
    ranges = list(grid_range(scores, slack))
    keys = [low if i in kept else high for i, (low, high) in enumerate(ranges)]
    return "grid" if first_by_key(keys, n_particles) != kept else None


def edge_of_optimal(
    log_scores: Sequence[float], n_particles: int, uniform: Callable[[], float]
) -> str | None:
    """Return the edge if a last bit decides whom the optimal rule keeps or draws."""
    shares = [math.exp(share) for share in reference.normalised(log_scores)]
    if len(shares) <= n_particles:
        return None
    largest_first = sorted(shares, reverse=True)
    tail = 0.0
    tails = [0.0]
    for share in reversed(largest_first):
        tail += share
        tails.append(tail)
    tails.reverse()
    n_heavy, _ = reference.heavy_and_light(shares, n_particles)
    for a in range(min(n_heavy + 1, n_particles)):
        light_weight = tails[a] / (n_particles - a)
        if math.isclose(largest_first[a], light_weight, rel_tol=NEAR):
            return "heavy or light"
    n_draws = n_particles - n_heavy
    if n_draws == 0:
        return None
    by_share = sorted(range(len(shares)), key=lambda i: -shares[i])
    light = [shares[i] for i in sorted(by_share[n_heavy:])]
    u = uniform()
    points = [(j + u) / n_draws for j in range(n_draws)]
    return "uniform" if is_near_an_edge(light, points) else None


def is_near_an_edge(weights: Sequence[float], points: Iterable[float]) -> bool:
    """Whether a point in [0, 1) falls on the edge between two cumulative weights."""
    cumulative = np.cumsum(weights)
    wanted = np.array(list(points)) * cumulative[-1]
    distance = np.abs(wanted[:, None] - cumulative[None, :])
    return bool(np.any(distance <= NEAR * cumulative[-1]))


def edge_of_learning(
    model: mdvpf.InfiniteHMM,
    particles: Sequence[Particle],
    symbol: Symbol,
    uniforms: np.random.Generator,
) -> str | None:
    n = len(particles)
    scores = [
        [particle.log_weight + value for value in reference.log_potentials(model, particle, symbol)]
        for particle in particles
    ]
    totals = [reference.log_sum_exp(values) for values in scores]
    shares = [math.exp(share) for share in reference.normalised(totals)]
    points = uniforms.random(n).tolist()
    if is_near_an_edge(shares, points):
        return "uniform"
    for parent, u in zip(reference.draw(shares, points), uniforms.random(n).tolist(), strict=True):
        if is_near_an_edge([math.exp(s) for s in reference.normalised(scores[parent])], [u]):
            return "uniform"
    return None


def edge_of_smc(
    model: mdvpf.InfiniteHMM,
    particles: Sequence[Particle],
    symbol: Symbol,
    algorithm: mdvpf.SMC,
    uniforms: np.random.Generator,
) -> str | None:
    n = len(particles)
    log_scores = []
    for particle, u in zip(particles, uniforms.random(n).tolist(), strict=True):
        transition = reference.transition_probabilities(model, particle)
        if is_near_an_edge(transition, [u]):
            return "uniform"
        state = reference.draw(transition, [u])[0]
        emission = reference.emission_probability(model, particle, state, symbol)
        log_scores.append(particle.log_weight + math.log(emission))
    log_weights = reference.normalised(log_scores)
    ess = reference.effective_size(log_weights)
    threshold = algorithm.ess_threshold
    if threshold not in (None, 1.0) and math.isclose(ess, threshold * n, rel_tol=NEAR):
        return "effective sample size"
    if not reference.is_time_to_resample(ess, n, threshold):
        return None
    weights = [math.exp(log_weight) for log_weight in log_weights]
    if algorithm.resampling == "residual":
        expected = [n * weight for weight in weights]
        scaled = [number * GRID for number in expected]
        if any(abs(x - math.floor(x) - 0.5) < 1e-4 for x in scaled):
            return "grid"
        whole = [math.floor(round(x) / GRID) for x in scaled]
        n_draws = n - sum(whole)
        weights = [max(0.0, a - b) for a, b in zip(expected, whole, strict=True)]
        points = uniforms.random(n_draws).tolist()
        return "uniform" if n_draws and is_near_an_edge(weights, points) else None
    if algorithm.resampling == "multinomial":
        points = uniforms.random(n).tolist()
    elif algorithm.resampling == "stratified":
        points = [(j + u) / n for j, u in enumerate(uniforms.random(n).tolist())]
    else:
        u = uniforms.random()
        points = [(j + u) / n for j in range(n)]
    return "uniform" if is_near_an_edge(weights, points) else None
