"""Candidates, their selection and weights, and draws by given uniforms."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from mdvpf.model import InfiniteHMM
from mdvpf.model.algorithms import (
    Normalizer,
    Resampling,
)
from mdvpf.reference.particle import Particle, Symbol, log_potentials

GRID = 2.0**32
"""Scores closer than about 1 / GRID are ties, so that rounding does not decide who survives."""


class Candidate(NamedTuple):
    """The index of a parent, a possible next state, and the log score of the pair."""

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
    """Return all candidates with their base scores, ordered by parent and state.

    States of probability 0, which have faded away or are reached by no row, are left out.
    """
    return [
        Candidate(k, state, (particle.log_weight if carry_weights else 0.0) + log_potential)
        for k, particle in enumerate(particles)
        for state, log_potential in enumerate(log_potentials(model, particle, symbol))
        if log_potential > -math.inf
    ]


def log_predictive(model: InfiniteHMM, particles: Sequence[Particle], symbol: Symbol) -> float:
    """Return the log probability of the next symbol: the log of its candidates' total weight."""
    if symbol is None:
        return 0.0
    return log_sum_exp([candidate.log_score for candidate in expand(model, particles, symbol)])


def label_norm(log_values: Sequence[float], normalizer: Normalizer, n_particles: int) -> float:
    """Return G(m), the normalizer of the look-ahead.

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
    lookahead: Symbol,
    normalizer: Normalizer,
    n_particles: int,
) -> list[float]:
    """Return the regret term of each candidate, before the discount.

    It is the candidate's log potential of the look-ahead, from the counts of the parent, minus the
    normalizer of its label.
    """
    candidates = expand(model, particles, lookahead, carry_weights=False)
    by_label: defaultdict[int, list[float]] = defaultdict(list)
    for candidate in candidates:
        by_label[candidate.state].append(candidate.log_score)
    norm = {
        label: label_norm(values, normalizer, n_particles) for label, values in by_label.items()
    }
    return [candidate.log_score - norm[candidate.state] for candidate in candidates]


class Survivor(NamedTuple):
    """The index of a selected candidate, and its new log weight."""

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
    """Return the scores relative to the largest, rounded to a grid, so that near-equal ones tie."""
    if any(math.isnan(score) for score in log_scores) or math.isinf(max(log_scores)):
        raise ValueError(
            f"the candidates' scores have the maximum {max(log_scores)!r} or include NaN: "
            "expected a finite maximum and no NaN; use a smaller discount"
        )
    largest = max(log_scores)
    scaled = [(score - largest) * GRID for score in log_scores]
    return [key if math.isinf(key) else float(round(key)) for key in scaled]


def select_top(log_scores: Sequence[float], n_particles: int) -> list[Survivor]:
    """Keep the best candidates in order; among ties at the cut the earliest win."""
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
    """Return the number of the largest shares to keep, and the common weight of the others."""
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
    """Draw `n_draws` distinct ones of the ascending `items` by systematic sampling.

    No share exceeds the distance between two points, so an item receives at most one point. If
    rounding assigns two points to one item, or a point past the end, the next or the last free item
    receives it.
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


def draw(weights: Sequence[float], points: Collection[float]) -> list[int]:
    """Return, for each point in [0, 1), the first index whose cumulative weight exceeds it."""
    cumulative = list(accumulate(weights))
    total = cumulative[-1]
    last = cumulative.index(total)  # used if a point was rounded up to 1
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
    """Take each index as often as the integer part of its expected number; draw the remainder."""
    n = len(weights)
    expected = [n * weight for weight in weights]
    # Rounded to the grid, so that 0.9999999999999999 counts as one.
    whole = [math.floor(round(number * GRID) / GRID) for number in expected]
    indices = [i for i, times in enumerate(whole) for _ in range(times)]
    n_draws = n - len(indices)
    if n_draws > 0:
        remainder = [max(0.0, a - b) for a, b in zip(expected, whole, strict=True)]
        indices += draw(remainder, rng.random(n_draws).tolist())
    return sorted(indices)
