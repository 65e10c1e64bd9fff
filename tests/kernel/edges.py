"""Edges: the cases in which the last bit decides, from the scores of the reference.

Core and reference do the same arithmetic in a different order. A score may therefore fall on
different sides of a point of the selection grid, and a uniform on different sides of a cumulative
weight.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

import mdvpf
from mdvpf import reference
from mdvpf.reference import GRID, Particle
from tests.kernel.inspecting import Shown, Symbol

EPSILON = float(np.finfo(float).eps)
NEAR = 1e-12  # two cumulative sums this close, relatively, may differ in rounding alone
# With counts of 32 bits the weights of steps are rounded too: so close are scores and sums then.
NEAR_ROUNDED = 1e-6

# The optimal rule keeps the same candidates, and one of core and reference draws no uniform for it.
DRAWS_OR_NOT = "draws or not"


def grid_range(log_scores: Sequence[float], slack: float) -> Iterator[tuple[float, float]]:
    """Yield the smallest and the largest grid key of each score, given its error.

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
    slack: float = 0.0,
) -> str | None:
    """Return the edge if both sets of survivors are the best up to last bits.

    A set is if it becomes the best when its scores rise as far as their error allows, and all
    others fall.
    """
    candidates = reference.expand(model, particles, symbol, carry_weights=carry_weights)
    ranges = list(grid_range([c.log_score for c in candidates], slack))
    places = {(c.parent, c.state): i for i, c in enumerate(candidates)}
    # A state that fades away as soon as it is left is shown as S. It was the new one: none lasts.
    entered = np.where(found.states == reference.START, found.n_states - 1, found.states)
    pairs = zip(found.parents.tolist(), entered.tolist(), strict=True)
    ours = {places.get(place, -1) for place in pairs}
    theirs = {places[particle.parent, particle.path[-1]] for particle in expected}
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
    *,
    n_kept: int,
    slack: float = 0.0,
    near: float = NEAR,
) -> str | None:
    """Return the edge if the last bits of the scores may decide a completed step of MD-VPA.

    Its survivors are not visible. The test is whether it would make a difference to lower the
    expected scores and raise all others as far as their errors allow.
    """
    carry = algorithm.carry_weights
    candidates = reference.expand(model, particles, symbol, carry_weights=carry)
    scores = [candidate.log_score for candidate in candidates]
    if lookahead is not None:
        discount = float(algorithm.discounts([step])[0])
        seen = [reference.seeing(particle, symbol) for particle in particles]
        terms = reference.lookahead_terms(model, seen, lookahead, algorithm.normalizer, n_particles)
        scores = [score + discount * term for score, term in zip(scores, terms, strict=True)]
        # Terms are differences of logs, whose rounding errors they keep. The mean over particles
        # rounds once a particle.
        logs = reference.lookahead_terms(model, seen, lookahead, "none", n_particles)
        largest = max(map(abs, [*logs, *terms]))
        slack += discount * EPSILON * (len(particles) + 8.0 * largest + 8.0)
    if algorithm.selection == "optimal":
        return edge_of_optimal(scores, n_kept, uniforms.random, near)
    kept = {survivor.candidate for survivor in reference.select_top(scores, n_kept)}
    ranges = list(grid_range(scores, slack))
    keys = [low if i in kept else high for i, (low, high) in enumerate(ranges)]
    return "grid" if first_by_key(keys, n_kept) != kept else None


def edge_of_optimal(
    log_scores: Sequence[float],
    n_particles: int,
    uniform: Callable[[], float],
    near: float = NEAR,
) -> str | None:
    """Return the edge if a last bit decides which candidates the optimal rule keeps or draws.

    A share that equals the weight of the light ones is kept whether it counts as heavy or as light.
    But if all shares from there to the budget do, nothing is light but shares below rounding:
    either these are thinned, with one uniform, or all that fits is heavy, and nothing is drawn.
    """
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
    is_tied = [
        math.isclose(largest_first[a], tails[a] / (n_particles - a), rel_tol=near)
        for a in range(n_particles)
    ]
    if True in is_tied[: n_heavy + 1]:
        return DRAWS_OR_NOT if all(is_tied[is_tied.index(True) :]) else "heavy or light"
    n_draws = n_particles - n_heavy
    if n_draws == 0:
        return None
    by_share = sorted(range(len(shares)), key=lambda i: -shares[i])
    light = [shares[i] for i in sorted(by_share[n_heavy:])]
    u = uniform()
    points = [(j + u) / n_draws for j in range(n_draws)]
    return "uniform" if is_near_an_edge(light, points, near) else None


def is_near_an_edge(weights: Sequence[float], points: Iterable[float], near: float = NEAR) -> bool:
    """Whether a point in [0, 1) falls on the edge between two cumulative weights."""
    cumulative = np.cumsum(weights)
    wanted = np.array(list(points)) * cumulative[-1]
    distance = np.abs(wanted[:, None] - cumulative[None, :])
    return bool(np.any(distance <= near * cumulative[-1]))


def edge_of_learning(
    model: mdvpf.InfiniteHMM,
    particles: Sequence[Particle],
    symbol: Symbol,
    uniforms: np.random.Generator,
    near: float = NEAR,
) -> str | None:
    n = len(particles)
    scores = [
        [particle.log_weight + value for value in reference.log_potentials(model, particle, symbol)]
        for particle in particles
    ]
    totals = [reference.log_sum_exp(values) for values in scores]
    shares = [math.exp(share) for share in reference.normalised(totals)]
    points = uniforms.random(n).tolist()
    if is_near_an_edge(shares, points, near):
        return "uniform"
    for parent, u in zip(reference.draw(shares, points), uniforms.random(n).tolist(), strict=True):
        weights = [math.exp(score) for score in reference.normalised(scores[parent])]
        if is_near_an_edge(weights, [u], near):
            return "uniform"
    return None


def edge_of_smc(
    model: mdvpf.InfiniteHMM,
    particles: Sequence[Particle],
    symbol: Symbol,
    algorithm: mdvpf.SMC,
    uniforms: np.random.Generator,
    near: float = NEAR,
) -> str | None:
    n = len(particles)
    log_scores = []
    for particle, u in zip(particles, uniforms.random(n).tolist(), strict=True):
        transition = reference.transition_probabilities(model, particle)
        if is_near_an_edge(transition, [u], near):
            return "uniform"
        state = reference.draw(transition, [u])[0]
        emission = reference.emission_probability(model, particle, state, symbol)
        log_scores.append(particle.log_weight + math.log(emission))
    log_weights = reference.normalised(log_scores)
    ess = reference.effective_size(log_weights)
    threshold = algorithm.ess_threshold
    if threshold not in (None, 1.0) and math.isclose(ess, threshold * n, rel_tol=near):
        return "effective sample size"
    if not reference.is_time_to_resample(ess, n, threshold):
        return None
    weights = [math.exp(log_weight) for log_weight in log_weights]
    if algorithm.resampling == "residual":
        expected = [n * weight for weight in weights]
        scaled = [number * GRID for number in expected]
        if any(abs(x - math.floor(x) - 0.5) < 1e-4 for x in scaled):
            return "grid"
        if any(abs(x + 0.5 - GRID * round((x + 0.5) / GRID)) < near * GRID for x in scaled):
            return "grid"
        whole = [math.floor(round(x) / GRID) for x in scaled]
        n_draws = n - sum(whole)
        weights = [max(0.0, a - b) for a, b in zip(expected, whole, strict=True)]
        points = uniforms.random(n_draws).tolist()
        return "uniform" if n_draws and is_near_an_edge(weights, points, near) else None
    if algorithm.resampling == "multinomial":
        points = uniforms.random(n).tolist()
    elif algorithm.resampling == "stratified":
        points = [(j + u) / n for j, u in enumerate(uniforms.random(n).tolist())]
    else:
        u = uniforms.random()
        points = [(j + u) / n for j in range(n)]
    return "uniform" if is_near_an_edge(weights, points, near) else None
