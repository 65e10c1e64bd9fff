"""The steps of the five filters: from a list of particles and a symbol to the next list."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import numpy as np

from mdvpf.model import InfiniteHMM
from mdvpf.model.algorithms import (
    MDVPA,
    SMC,
)
from mdvpf.reference.particle import (
    Particle,
    Symbol,
    log_emission_probability,
    move,
    seeing,
    transition_probabilities,
)
from mdvpf.reference.selection import (
    Candidate,
    Survivor,
    draw,
    expand,
    log_sum_exp,
    lookahead_terms,
    normalised,
    resample,
    select_optimal,
    select_top,
)


class Advance(NamedTuple):
    """The set after a step, with the fields of `Step` that depend on the selection.

    `log_evidence` is the symbol's contribution to the log evidence of the filter; None means its
    log predictive.
    """

    particles: list[Particle]
    ess: float
    discarded: float
    log_evidence: float | None = None


def effective_size(log_weights: Sequence[float]) -> float:
    """Return the effective sample size of normalised weights."""
    return 1.0 / math.fsum(math.exp(2.0 * log_weight) for log_weight in log_weights)


def lost_share(log_scores: Sequence[float], survivors: Collection[int]) -> float:
    """Return the share of the total weight of the candidates that did not survive."""
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
    """Return the children of the surviving candidates, and the share that the selection lost."""
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
    *,
    n_kept: int | None = None,
) -> list[Particle]:
    """Complete a step of MD-VPA: select by the symbol and the discounted look-ahead.

    Without a look-ahead the discount is not used. `n_kept` is the number of survivors if it is not
    `n_particles`, which is the K of the normalizer.
    """
    n_kept = n_particles if n_kept is None else n_kept
    candidates = expand(model, particles, symbol, carry_weights=algorithm.carry_weights)
    log_scores = [candidate.log_score for candidate in candidates]
    if lookahead is not None:
        seen = [seeing(particle, symbol) for particle in particles]
        terms = lookahead_terms(model, seen, lookahead, algorithm.normalizer, n_particles)
        log_scores = [
            score + discount * term for score, term in zip(log_scores, terms, strict=True)
        ]
    if algorithm.selection == "optimal":
        survivors = select_optimal(log_scores, n_kept, uniform)
    else:
        survivors = select_top(log_scores, n_kept)
    return offspring(particles, symbol, candidates, survivors)


def smc_step(
    model: InfiniteHMM,
    particles: Sequence[Particle],
    symbol: Symbol,
    algorithm: SMC,
    rng: np.random.Generator,
) -> Advance:
    """Draw each particle's state, weight it by the emission, and resample if needed.

    The discarded share is the weight of the particles without offspring; it is 0 without
    resampling.
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
            particle.log_weight + log_emission_probability(model, particle, state, symbol),
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
    """Draw parents by the total weight of their candidates, then a candidate of each parent.

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
    chosen = []
    for parent, u in zip(parents, rng.random(n).tolist(), strict=True):
        indices = of_parent[parent]
        shares = [math.exp(share) for share in normalised([log_scores[i] for i in indices])]
        chosen.append(indices[draw(shares, [u])[0]])
    survivors = [Survivor(index, -math.log(n)) for index in sorted(chosen)]
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
