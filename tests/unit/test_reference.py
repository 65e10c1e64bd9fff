"""The reference filters against calculations by hand and by enumeration of all paths.

Expected values are fractions from the formulas of the model, or sums over every path of states;
none comes from an earlier run of the code under test.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from mdvpf.model import InfiniteHMM
from mdvpf.model.algorithms import MDVPA, SMC, VPA, Algorithm, OptimalResampling, ParticleLearning
from mdvpf.reference import (
    START,
    Candidate,
    Particle,
    ReferenceFilter,
    draw,
    emission_probability,
    expand,
    label_norm,
    log_sum_exp,
    lookahead_terms,
    mdvpa_step,
    move,
    particle_learning_step,
    resample,
    select_optimal,
    select_top,
    smc_step,
    thin,
    transition_probabilities,
)
from tests.algorithms import EVERY_ALGORITHM

ORACLES = ["unvisited", "any"]

# The model with alpha = gamma = beta = 1 and two symbols: fractions stay small enough to check.
UNIT = InfiniteHMM(n_symbols=2, alpha=1.0, gamma=1.0, beta=1.0)


def never() -> float:
    raise AssertionError("a random number was drawn where none is needed")


def follow(path: list[int], symbols: list[int | None], log_weight: float = 0.0) -> Particle:
    """Return the particle with states `path` that emitted `symbols`."""
    particle = Particle()
    for state, symbol in zip(path, symbols, strict=True):
        particle = move(particle, state, symbol, parent=0, log_weight=log_weight)
    return particle


def all_paths(length: int, max_states: int | None = None) -> Iterator[list[int]]:
    """Yield every path whose states are numbered by first appearance."""
    paths: list[list[int]] = [[]]
    for _ in range(length):
        paths = [
            [*path, state]
            for path in paths
            for state in range(len(set(path)) + 1)
            if max_states is None or state < max_states
        ]
    yield from paths


def transition_by_formula(
    model: InfiniteHMM, arrows: list[tuple[int, int]], j: int, c: int
) -> Fraction:
    """Return p(c | j) after the transitions `arrows`: section 2.1 of the design, case by case."""
    alpha, gamma = Fraction(model.alpha), Fraction(model.gamma)
    existing = sorted({to for _, to in arrows})
    into = Counter(to for _, to in arrows)
    seen = Counter(to for origin, to in arrows if origin == j)
    t_j = sum(seen.values())

    def free(state: int) -> Fraction:
        if model.oracle == "unvisited":
            unvisited = sum(into[other] for other in existing if not seen[other])
            if state not in existing:
                return alpha / (t_j + alpha) * gamma / (unvisited + gamma)
            if seen[state]:
                return Fraction(seen[state]) / (t_j + alpha)
            return alpha / (t_j + alpha) * into[state] / (unvisited + gamma)
        total = sum(into.values())
        if state not in existing:
            return alpha / (t_j + alpha) * gamma / (total + gamma)
        return (seen[state] + alpha * into[state] / (total + gamma)) / (t_j + alpha)

    if model.max_states is not None and len(existing) >= model.max_states:
        return free(c) / sum(free(state) for state in existing)
    return free(c)


def probability_of_path(model: InfiniteHMM, path: list[int], symbols: list[int | None]) -> Fraction:
    """Return the joint probability of a path and the symbols emitted on it."""
    beta, v = Fraction(model.beta), model.n_symbols
    arrows = list(pairwise([START, *path]))
    result = Fraction(1)
    for n, (state, symbol) in enumerate(zip(path, symbols, strict=True)):
        result *= transition_by_formula(model, arrows[:n], arrows[n][0], state)
        if symbol is not None:
            emitted = [y for s, y in zip(path[:n], symbols[:n], strict=True) if s == state]
            emitted = [y for y in emitted if y is not None]
            result *= (emitted.count(symbol) + beta) / (len(emitted) + v * beta)
    return result


def marginal_likelihood(model: InfiniteHMM, symbols: list[int | None]) -> float:
    """Return the probability of the symbols: the sum over all paths."""
    paths = all_paths(len(symbols), model.max_states)
    return float(sum(probability_of_path(model, path, symbols) for path in paths))


# The model


def test_transition_from_nowhere_is_to_the_first_state() -> None:
    assert transition_probabilities(UNIT, Particle()) == [1.0]


def test_unvisited_oracle_by_hand() -> None:
    # Path 0 1 1 0: from 0 went 0 -> 1 only, so t[0] = 1. Into 0: twice, once from the start.
    # U = into[0] = 2: p = 1/(1+1) * 2/(2+1), 1/(1+1), 1/(1+1) * 1/(2+1).
    particle = follow([0, 1, 1, 0], [0, 0, 0, 0])
    assert transition_probabilities(UNIT, particle) == pytest.approx([1 / 3, 1 / 2, 1 / 6])


def test_any_oracle_by_hand() -> None:
    # The same path: s = 4, into = 2, 2. (0 + 2/5)/2, (1 + 2/5)/2, 1/2 * 1/5.
    model = InfiniteHMM(n_symbols=2, oracle="any")
    particle = follow([0, 1, 1, 0], [0, 0, 0, 0])
    assert transition_probabilities(model, particle) == pytest.approx([0.2, 0.7, 0.1])


def test_max_states_leaves_out_the_new_state_and_rescales() -> None:
    particle = follow([0, 1, 1, 0], [0, 0, 0, 0])
    model = InfiniteHMM(n_symbols=2, max_states=2)  # (1/3, 1/2) over 5/6
    assert transition_probabilities(model, particle) == pytest.approx([0.4, 0.6])
    model = InfiniteHMM(n_symbols=2, oracle="any", max_states=2)  # (0.2, 0.7) over 0.9
    assert transition_probabilities(model, particle) == pytest.approx([2 / 9, 7 / 9])
    model = InfiniteHMM(n_symbols=2, max_states=3)
    assert len(transition_probabilities(model, particle)) == 3


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("max_states", [None, 1, 2, 3])
def test_transitions_sum_to_one_and_follow_the_formulas(
    oracle: str, max_states: int | None
) -> None:
    model = InfiniteHMM(3, alpha=0.7, gamma=2.5, oracle=oracle, max_states=max_states)
    for path in all_paths(4, max_states):
        particle = follow(path, [0, 1, 2, 0])
        probabilities = transition_probabilities(model, particle)
        assert math.fsum(probabilities) == pytest.approx(1.0, abs=1e-14)
        arrows = list(pairwise([START, *path]))
        expected = [
            float(transition_by_formula(model, arrows, path[-1], c))
            for c in range(len(probabilities))
        ]
        assert probabilities == pytest.approx(expected, rel=1e-14)


def test_emission_by_hand() -> None:
    model = InfiniteHMM(n_symbols=3, beta=0.5)
    particle = follow([0, 0, 1, 0], [2, 2, 0, None])
    assert emission_probability(model, particle, 0, 2) == pytest.approx(2.5 / 3.5)
    assert emission_probability(model, particle, 0, 1) == pytest.approx(0.5 / 3.5)
    assert emission_probability(model, particle, 1, 0) == pytest.approx(1.5 / 2.5)
    assert emission_probability(model, particle, 2, 1) == 1 / 3
    assert emission_probability(model, particle, 0, None) == 1.0


def test_moving_leaves_the_parent_alone() -> None:
    parent = follow([0], [1])
    child = move(parent, 1, 0, parent=0, log_weight=0.0)
    grandchild = move(child, 1, None, parent=0, log_weight=0.0)
    assert (parent.path, parent.n_states, parent.state) == ([0], 1, 0)
    assert parent.transition == {(START, 0): 1}
    assert child.emission == {(0, 1): 1, (1, 0): 1}
    assert grandchild.transition == {(START, 0): 1, (0, 1): 1, (1, 1): 1}
    assert grandchild.emission == child.emission
    assert grandchild.into == {0: 1, 1: 2}
    counts = grandchild.counts(2)
    assert counts.start.tolist() == [1, 0]
    assert counts.transition.tolist() == [[0, 1], [0, 1]]
    assert counts.emission.tolist() == [[0, 1], [1, 0]]


# Selection


def test_log_sum_exp_neither_overflows_nor_underflows() -> None:
    assert log_sum_exp([-5000.0, -5000.0]) == pytest.approx(-5000.0 + math.log(2.0))
    assert log_sum_exp([5000.0, -math.inf]) == 5000.0
    assert log_sum_exp([-math.inf]) == -math.inf


def test_top_keeps_the_largest_in_candidate_order() -> None:
    scores = [math.log(p) for p in (0.1, 0.4, 0.2, 0.3)]
    survivors = select_top(scores, 2)
    assert [survivor.candidate for survivor in survivors] == [1, 3]
    weights = [math.exp(survivor.log_weight) for survivor in survivors]
    assert weights == pytest.approx([4 / 7, 3 / 7])


def test_ties_within_the_grid_go_to_the_earliest() -> None:
    # 1e-12 is far below 2**-32, about 2.3e-10: the third is no better than the second.
    survivors = select_top([-5.0, -1.0, -1.0 + 1e-12, -1.0], 1)
    assert [survivor.candidate for survivor in survivors] == [1]
    survivors = select_top([-5.0, -1.0, -1.0 + 1e-8, -1.0], 2)
    assert [survivor.candidate for survivor in survivors] == [1, 2]


def test_weights_use_the_scores_before_rounding() -> None:
    low, high = select_top([0.0, 1e-11], 2)
    assert high.log_weight - low.log_weight == pytest.approx(1e-11, rel=1e-4)


def test_minus_infinity_sorts_last() -> None:
    survivors = select_top([-math.inf, -1e200, 0.0], 2)
    assert [survivor.candidate for survivor in survivors] == [1, 2]
    assert select_top([-math.inf, 0.0], 2)[0].log_weight == -math.inf


@pytest.mark.parametrize(
    "scores", [[0.0, math.nan], [0.0, math.inf], [-math.inf, -math.inf], [math.nan]]
)
def test_scores_without_an_order_are_errors(scores: list[float]) -> None:
    with pytest.raises(ValueError, match="scores"):
        select_top(scores, 1)
    with pytest.raises(ValueError, match="scores"):
        select_optimal(scores, 1, never)


def test_optimal_keeps_all_when_there_is_room() -> None:
    survivors = select_optimal([math.log(0.3), math.log(0.1)], 2, never)
    weights = [math.exp(survivor.log_weight) for survivor in survivors]
    assert weights == pytest.approx([0.75, 0.25])


def test_optimal_by_hand() -> None:
    # q = .05 .5 .15 .1 .2, K = 3. Largest first .5 .2 .15 .1 .05 with tails 1 .5 .3:
    # .5 < 1/3? no. .2 < .5/2? yes. So A = 1 and c = 1/4, and with u = 1/2 the points are
    # 1/8 and 3/8 along the light ones' .05 .2 .3 .5, which hit candidates 2 and 4.
    scores = [math.log(q) for q in (0.05, 0.5, 0.15, 0.1, 0.2)]
    survivors = select_optimal(scores, 3, lambda: 0.5)
    assert [survivor.candidate for survivor in survivors] == [1, 2, 4]
    weights = [math.exp(survivor.log_weight) for survivor in survivors]
    assert weights == pytest.approx([0.5, 0.25, 0.25])


def test_optimal_draws_nothing_when_the_heavy_ones_fill_the_budget() -> None:
    # The tail after the two largest underflows to nothing, so A = K.
    survivors = select_optimal([0.0, -1.0, -2000.0, -3000.0], 2, never)
    assert [survivor.candidate for survivor in survivors] == [0, 1]
    # Even if the kept candidates themselves are negligible beside the first, stable order decides.
    survivors = select_optimal([-2000.0, 0.0, -3000.0], 2, never)
    assert [survivor.candidate for survivor in survivors] == [0, 1]
    assert survivors[0].log_weight == pytest.approx(-2000.0)


@pytest.mark.parametrize("n_particles", [1, 2, 3, 5])
def test_mean_weight_of_the_optimal_rule_is_the_share(n_particles: int) -> None:
    shares = [0.02, 0.3, 0.05, 0.13, 0.3, 0.07, 0.01, 0.12]
    scores = [math.log(share) for share in shares]
    grid = 20_000
    mean = [0.0] * len(shares)
    for i in range(grid):
        survivors = select_optimal(scores, n_particles, lambda i=i: (i + 0.5) / grid)
        assert len({survivor.candidate for survivor in survivors}) == n_particles
        assert math.fsum(math.exp(s.log_weight) for s in survivors) == pytest.approx(1.0)
        for candidate, log_weight in survivors:
            mean[candidate] += math.exp(log_weight) / grid
    assert mean == pytest.approx(shares, abs=2 / grid)


def test_thinning_gives_points_lost_to_rounding_to_the_last_free_items() -> None:
    # u = 1 cannot be drawn, but represents a draw that rounds to it: both points are one too high.
    assert thin([3, 5, 8], [1.0, 1.0, 1.0], 3, 1.0) == [3, 5, 8]
    # Two points on the wide first item: the second one goes to its neighbour.
    assert thin([3, 5, 8], [2.0, 0.5, 0.5], 2, 0.0) == [3, 5]


# Drawing


def test_draw_takes_the_first_cumulative_weight_above_the_point() -> None:
    weights = [0.0, 1.0, 0.0, 2.0, 1.0]  # cumulative 0 1 1 3 4
    assert draw(weights, [0.0, 0.2499, 0.25, 0.7499, 0.75, 0.9999]) == [1, 1, 3, 3, 4, 4]
    assert draw([1.0, 2.0, 0.0], [1.0]) == [1]


def test_resampling_uses_its_uniforms_as_specified() -> None:
    weights = [0.1, 0.2, 0.3, 0.4]
    ends = [0.1, 0.3, 0.6, 1.0]

    def first_above(points: list[float]) -> list[int]:
        return sorted(next(i for i, end in enumerate(ends) if end > point) for point in points)

    u = np.random.default_rng(5).random(4).tolist()
    rng = np.random.default_rng
    assert resample(weights, "multinomial", rng(5)) == first_above(u)
    assert resample(weights, "stratified", rng(5)) == first_above(
        [(j + u[j]) / 4 for j in range(4)]
    )
    assert resample(weights, "systematic", rng(5)) == first_above(
        [(j + u[0]) / 4 for j in range(4)]
    )
    # Residual: 4 w = .4 .8 1.2 1.6, whole 0 0 1 1, remainder .4 .8 .2 .6 with ends over 2.
    ends = [0.2, 0.6, 0.7, 1.0]
    assert resample(weights, "residual", rng(5)) == sorted([2, 3, *first_above(u[:2])])


def test_residual_resampling_forgives_rounding_and_draws_no_more_than_it_needs() -> None:
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    third = 0.3333333333333333  # three times it is 1.0, twice-rounded neighbours are not
    weights = [third, math.nextafter(third, 0.0), third]
    assert 3 * weights[1] < 1.0
    assert resample(weights, "residual", rng) == [0, 1, 2]
    assert rng.bit_generator.state == before


# The filters, by hand


@pytest.mark.parametrize("algorithm", EVERY_ALGORITHM.values(), ids=repr)
def test_first_predictive_is_uniform(algorithm: Algorithm) -> None:
    pf = ReferenceFilter(InfiniteHMM(n_symbols=5), algorithm, 4, rng=0)
    assert pf.predict_proba() == pytest.approx([0.2] * 5, abs=1e-15)
    assert pf.update(3).log_predictive == pytest.approx(math.log(0.2))


@pytest.mark.parametrize("algorithm", EVERY_ALGORITHM.values(), ids=repr)
def test_evidence_of_two_symbols_by_hand(algorithm: Algorithm) -> None:
    # After one 0 every filter holds the same counts. Stay (1/2) and emit 0 again: 2/3; move to
    # the new state (1/2) and emit: 1/2. So p(0 | 0) = 1/3 + 1/4 = 7/12 and p(1 | 0) = 5/12.
    pf = ReferenceFilter(UNIT, algorithm, 6, rng=1)
    pf.update(0)
    assert pf.predict_proba() == pytest.approx([7 / 12, 5 / 12], abs=1e-14)
    assert pf.update(0).log_predictive == pytest.approx(math.log(7 / 12))
    if not isinstance(algorithm, SMC):
        assert pf.log_evidence == pytest.approx(math.log(7 / 24))


@pytest.mark.parametrize("algorithm", EVERY_ALGORITHM.values(), ids=repr)
@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("max_states", [None, 2])
def test_predictives_sum_to_one(algorithm: Algorithm, oracle: str, max_states: int | None) -> None:
    model = InfiniteHMM(3, alpha=0.5, gamma=3.0, beta=0.2, oracle=oracle, max_states=max_states)
    pf = ReferenceFilter(model, algorithm, 5, rng=2)
    for n, symbol in enumerate([0, 1, None, 2, 1, 1, None, None, 0, 2]):
        before = pf.predict_proba()
        assert before.sum() == pytest.approx(1.0, abs=1e-12)
        step = pf.update(symbol)
        expected = 0.0 if symbol is None else math.log(before[symbol])
        assert step.log_predictive == pytest.approx(expected, abs=1e-12)
        assert step.n_particles == len(pf.particles) <= 5
        assert math.fsum(p.weight for p in pf.particles) == pytest.approx(1.0, abs=1e-12)
        assert max_states is None or max(p.n_states for p in pf.particles) <= max_states
        if n == 5:
            pf.new_sequence()
            assert {p.state for p in pf.particles} == {START}


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("max_states", [None, 2])
def test_vpa_with_room_for_every_path_is_exact(oracle: str, max_states: int | None) -> None:
    model = InfiniteHMM(3, alpha=0.5, gamma=1.5, beta=0.3, oracle=oracle, max_states=max_states)
    symbols: list[int | None] = [0, 1, 0, None, 2, 0]
    pf = ReferenceFilter(model, VPA(), n_particles=203)  # the Bell number of 6
    steps = [pf.update(symbol) for symbol in symbols]
    assert pf.log_evidence == pytest.approx(math.log(marginal_likelihood(model, symbols)))
    assert {step.discarded for step in steps} == {0.0}
    total = marginal_likelihood(model, symbols)
    for particle in pf.particles:
        expected = float(probability_of_path(model, particle.path, symbols)) / total
        assert particle.weight == pytest.approx(expected, rel=1e-12)
    assert len(pf.particles) == len(list(all_paths(6, max_states)))


@pytest.mark.parametrize("algorithm", [SMC(), SMC(resampling="residual"), ParticleLearning()])
def test_mean_evidence_of_the_drawing_filters_is_the_marginal_likelihood(
    algorithm: Algorithm,
) -> None:
    model = InfiniteHMM(2, beta=0.5)
    symbols: list[int | None] = [0, 1, 1, 0]
    evidence = []
    for seed in range(1500):
        pf = ReferenceFilter(model, algorithm, 2, rng=seed)
        for symbol in symbols:
            pf.update(symbol)
        evidence.append(math.exp(pf.log_evidence))
    error = np.std(evidence) / math.sqrt(len(evidence))
    assert abs(np.mean(evidence) - marginal_likelihood(model, symbols)) < 4 * error


def test_mean_evidence_of_optimal_resampling_is_exact_on_a_grid() -> None:
    # Three symbols and K = 1: one uniform, for the second of them, decides everything.
    model = InfiniteHMM(2, beta=0.5)
    first = ReferenceFilter(model, OptimalResampling(), 1)
    first.update(0)
    grid = 1000
    mean = 0.0
    for i in range(grid):
        scores = [c.log_score for c in expand(model, first.particles, 1)]
        ((candidate, _),) = select_optimal(scores, 1, lambda i=i: (i + 0.5) / grid)
        chosen = follow([0, candidate], [0, 1])
        third = sum(math.exp(c.log_score) for c in expand(model, [chosen], 1))
        mean += 0.5 * sum(math.exp(score) for score in scores) * third / grid
    assert mean == pytest.approx(marginal_likelihood(model, [0, 1, 1]), rel=2 / grid)


def test_vpa_with_one_particle_is_greedy() -> None:
    # 0: state 0. Then 1: stay 1/2 * 1/3 = 1/6, new 1/2 * 1/2 = 1/4, so state 1.
    # From 1, never left: into = 1, 1, U = 2, the new state 1/3. Emitting 1: state 0 has
    # 1/3 * 1/3 = 1/9, state 1 has 1/3 * 2/3 = 2/9, the new one 1/3 * 1/2 = 1/6: stay in 1.
    pf = ReferenceFilter(UNIT, VPA(), n_particles=1)
    first, second, third = (pf.update(symbol) for symbol in (0, 1, 1))
    (particle,) = pf.particles
    assert particle.path == [0, 1, 1]
    assert particle.transition == {(START, 0): 1, (0, 1): 1, (1, 1): 1}
    assert particle.emission == {(0, 0): 1, (1, 1): 2}
    assert particle.into == {0: 1, 1: 2}
    assert particle.weight == 1.0
    assert first.discarded == 0.0
    assert second.discarded == pytest.approx((1 / 6) / (5 / 12))
    assert third.discarded == pytest.approx((1 / 9 + 1 / 6) / (1 / 2))
    assert pf.log_evidence == pytest.approx(math.log(1 / 2 * 5 / 12 * 1 / 2))


def test_vpa_report_and_parents_by_hand() -> None:
    # After 0 0: weights 4/7 for path 0 0 and 3/7 for 0 1. On another 0, from 0 0: t[0] = 1,
    # U = 0: stay 1/2 * 3/4 = 3/8, new 1/2 * 1/2 = 1/4. From 0 1: t[1] = 0, U = 2:
    # each of the three 1/3, emission 2/3, 2/3, 1/2. Times the weights, over 84:
    # 18, 12, 8, 8, 6: K = 3 keeps the first three; the tie goes to the earlier candidate.
    pf = ReferenceFilter(UNIT, VPA(), n_particles=3)
    for symbol in (0, 0):
        pf.update(symbol)
    step = pf.update(0)
    assert [(p.parent, p.path) for p in pf.particles] == [
        (0, [0, 0, 0]),
        (0, [0, 0, 1]),
        (1, [0, 1, 0]),
    ]
    assert [p.weight for p in pf.particles] == pytest.approx([18 / 38, 12 / 38, 8 / 38])
    assert step.log_predictive == pytest.approx(math.log(52 / 84))
    assert step.discarded == pytest.approx(14 / 52)
    assert step.mean_states == pytest.approx((18 + 24 + 16) / 38)
    assert step.ess == pytest.approx(38**2 / (18**2 + 12**2 + 8**2))
    assert step.n_particles == 3


def test_vpa_without_carried_weights_forgets_them() -> None:
    # As above, but without 4/7 and 3/7: 3/8, 1/4, 2/9, 2/9, 1/6 over 72: 27 18 16 16 12.
    pf = ReferenceFilter(UNIT, VPA(carry_weights=False), n_particles=3)
    for symbol in (0, 0):
        pf.update(symbol)
    step = pf.update(0)
    assert [p.weight for p in pf.particles] == pytest.approx([27 / 61, 18 / 61, 16 / 61])
    assert step.discarded == pytest.approx(28 / 89)
    assert step.log_predictive == pytest.approx(math.log(52 / 84))  # always with the weights


def test_a_missing_symbol_moves_but_emits_nothing() -> None:
    pf = ReferenceFilter(UNIT, VPA(), n_particles=10)
    step = pf.update(None)
    assert step.log_predictive == 0.0
    (particle,) = pf.particles
    assert (particle.path, particle.emission, particle.into) == ([0], {}, {0: 1})
    # Stay or new, 1/2 each; state 0 has emitted nothing, so either emits with 1/2.
    assert pf.predict_proba() == pytest.approx([0.5, 0.5])
    assert pf.log_evidence == 0.0


def test_a_new_sequence_starts_from_the_start_state() -> None:
    pf = ReferenceFilter(UNIT, VPA(), n_particles=1)
    for symbol in (0, 1):
        pf.update(symbol)
    pf.new_sequence()
    (particle,) = pf.particles
    assert (particle.state, particle.path) == (START, [0, 1])
    # t[S] = 1 to state 0, so 1/2; state 1 is unvisited from S with into 1: 1/2 * 1/2; new 1/4.
    # Emitting 0: 1/2 * 2/3 + 1/4 * 1/3 + 1/4 * 1/2 = 13/24.
    assert pf.predict_proba() == pytest.approx([13 / 24, 11 / 24])
    pf.update(0)
    (particle,) = pf.particles
    assert particle.path == [0, 1, 0]
    assert particle.transition == {(START, 0): 2, (0, 1): 1}


# SMC and ParticleLearning, with known uniforms


def test_smc_step_by_hand() -> None:
    # From state 0 seen once: stay below u = 1/2, else the new state. Emitting 1: 1/3 or 1/2.
    start = follow([0], [0], log_weight=-math.log(4))
    u = np.random.default_rng(3).random(8).tolist()
    states = [0 if x < 0.5 else 1 for x in u[:4]]
    assert set(states) == {0, 1}
    emission = [(1 / 3, 1 / 2)[state] for state in states]
    weights = [e / sum(emission) for e in emission]
    ends = np.cumsum(weights)
    ancestors = sorted(int(np.argmax(ends > x)) for x in u[4:])

    after = smc_step(UNIT, [start] * 4, 1, SMC(), np.random.default_rng(3))
    assert [p.parent for p in after.particles] == ancestors
    assert [p.state for p in after.particles] == [states[k] for k in ancestors]
    assert [p.weight for p in after.particles] == pytest.approx([0.25] * 4)
    assert after.log_evidence == pytest.approx(math.log(sum(emission) / 4))
    assert after.ess == pytest.approx(1 / sum(w * w for w in weights))
    lost = sum(w for k, w in enumerate(weights) if k not in ancestors)
    assert after.discarded == pytest.approx(lost)


def test_smc_resamples_only_below_the_threshold() -> None:
    start = follow([0], [0], log_weight=-math.log(4))
    rng = np.random.default_rng(3)
    after = smc_step(UNIT, [start] * 4, 1, SMC(ess_threshold=0.5), rng)
    twin = np.random.default_rng(3)
    states = [0 if x < 0.5 else 1 for x in twin.random(4)]
    emission = [(1 / 3, 1 / 2)[state] for state in states]
    assert [p.state for p in after.particles] == states
    assert [p.weight for p in after.particles] == pytest.approx(
        [e / sum(emission) for e in emission]
    )
    assert after.discarded == 0.0
    assert rng.bit_generator.state == twin.bit_generator.state  # only the states were drawn


def test_smc_with_threshold_one_resamples_even_equal_weights() -> None:
    # The first symbol weighs all alike: the effective sample size is K, and not below it.
    uniforms = np.random.default_rng(7).random(8).tolist()
    pf = ReferenceFilter(UNIT, SMC(ess_threshold=1.0), 4, rng=7)
    assert pf.update(0).ess == pytest.approx(4.0)
    assert [p.parent for p in pf.particles] == sorted(int(4 * u) for u in uniforms[4:])


def test_smc_evidence_is_that_of_the_drawn_states() -> None:
    # Without resampling in between, the uniforms of the second step are the second three.
    pf = ReferenceFilter(UNIT, SMC(ess_threshold=0.0), 3, rng=11)
    pf.update(0)
    pf.update(1)
    uniforms = np.random.default_rng(11).random(6).tolist()
    emission = [1 / 3 if u < 0.5 else 1 / 2 for u in uniforms[3:]]
    assert pf.log_evidence == pytest.approx(math.log(1 / 2 * sum(emission) / 3))


def test_smc_evidence_ignores_a_missing_symbol() -> None:
    pf = ReferenceFilter(UNIT, SMC(), 4, rng=0)
    pf.update(0)
    before = pf.log_evidence
    pf.update(None)
    assert pf.log_evidence == before == pytest.approx(math.log(0.5))


def test_particle_learning_step_by_hand() -> None:
    # Path 0 0 on 0 0 foresees 0 with 3/8 + 1/4 = 5/8, path 0 1 with 2/9 + 2/9 + 1/6 = 11/18.
    # With equal weights the first parent has 45/89, and its states split at 3/5; those of the
    # second at 4/11 and 8/11.
    parents = [follow(path, [0, 0], log_weight=-math.log(2)) for path in ([0, 0], [0, 1])]
    for seed in range(20):
        u = np.random.default_rng(seed).random(4).tolist()
        expected = []
        for x, z in zip(u[:2], u[2:], strict=True):
            parent = int(x >= 45 / 89)
            ends = [3 / 5] if parent == 0 else [4 / 11, 8 / 11]
            expected.append((parent, sum(z >= end for end in ends)))
        after = particle_learning_step(UNIT, parents, 0, np.random.default_rng(seed))
        assert [(p.parent, p.state) for p in after.particles] == sorted(expected)
        assert [p.weight for p in after.particles] == pytest.approx([0.5, 0.5])
        score = {(0, 0): 27, (0, 1): 18, (1, 0): 16, (1, 1): 16, (1, 2): 12}
        lost = sum(value for key, value in score.items() if key not in expected)
        assert after.discarded == pytest.approx(lost / 89, abs=1e-15)


@pytest.mark.parametrize("algorithm", [SMC(), ParticleLearning()])
def test_filters_that_draw_start_from_copies_of_the_empty_particle(algorithm: Algorithm) -> None:
    pf = ReferenceFilter(UNIT, algorithm, 3)
    assert [(p.state, p.path, p.parent) for p in pf.particles] == [(START, [], -1)] * 3
    assert [p.weight for p in pf.particles] == pytest.approx([1 / 3] * 3)


# MD-VPA


def two_parents() -> list[Particle]:
    """Return paths 0 0 and 0 1 on 0 0, at weights 4/7 and 3/7."""
    return [
        follow([0, 0], [0, 0], log_weight=math.log(4 / 7)),
        follow([0, 1], [0, 0], log_weight=math.log(3 / 7)),
    ]


# Potentials of the five candidates (0,0) (0,1) (1,0) (1,1) (1,2) for a 0 and for a 1: the
# transitions are 1/2 1/2 and 1/3 1/3 1/3, the emissions of 1 are 1/4 1/2 and 1/3 1/3 1/2.
F0 = [3 / 8, 1 / 4, 2 / 9, 2 / 9, 1 / 6]
F1 = [1 / 8, 1 / 4, 1 / 9, 1 / 9, 1 / 6]
PARENT_WEIGHT = [4 / 7, 4 / 7, 3 / 7, 3 / 7, 3 / 7]
LABELS = [0, 1, 0, 1, 2]


def test_expansion_by_hand() -> None:
    expected = [
        Candidate(parent, state, math.log(weight * f))
        for parent, state, weight, f in zip([0, 0, 1, 1, 1], LABELS, PARENT_WEIGHT, F0, strict=True)
    ]
    for candidate, by_hand in zip(expand(UNIT, two_parents(), 0), expected, strict=True):
        assert candidate[:2] == by_hand[:2]
        assert candidate.log_score == pytest.approx(by_hand.log_score)


def test_label_norms_by_hand() -> None:
    values = [math.log(1 / 8), math.log(1 / 2)]
    assert label_norm(values, "geometric", 100) == pytest.approx(math.log(1 / 4))
    assert label_norm(values, "sum", 100) == pytest.approx(math.log(5 / 8) / 100)
    assert label_norm(values, "none", 100) == 0.0


@pytest.mark.parametrize(
    ("normalizer", "norm"),
    [
        # Label 0 is offered by both parents, label 1 too, label 2 by the second alone.
        ("geometric", [math.sqrt(1 / 72), math.sqrt(1 / 36), 1 / 6]),
        ("sum", [(17 / 72) ** (1 / 10), (13 / 36) ** (1 / 10), (1 / 6) ** (1 / 10)]),
        ("none", [1.0, 1.0, 1.0]),
    ],
)
@pytest.mark.parametrize("carry_weights", [True, False])
def test_mdvpa_weights_by_hand(normalizer: str, norm: list[float], carry_weights: bool) -> None:
    discount = 0.5
    algorithm = MDVPA(normalizer=normalizer, carry_weights=carry_weights)
    expected = [
        (weight if carry_weights else 1.0) * f0 * (f1 / norm[label]) ** discount
        for weight, f0, f1, label in zip(PARENT_WEIGHT, F0, F1, LABELS, strict=True)
    ]
    children = mdvpa_step(UNIT, two_parents(), 0, 1, 10, algorithm, discount, never)
    assert [(p.parent, p.state) for p in children] == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]
    assert [p.weight for p in children] == pytest.approx([x / sum(expected) for x in expected])


def test_lookahead_changes_who_survives() -> None:
    # Without: 18 12 8 8 6 over 84, so (0,0) wins. With the raw look-ahead at discount 1 the
    # scores are 18/8, 12/4, 8/9, 8/9, 6/6: (0,1) wins.
    algorithm = MDVPA(normalizer="none")
    (blind,) = mdvpa_step(UNIT, two_parents(), 0, None, 1, algorithm, 1.0, never)
    (sighted,) = mdvpa_step(UNIT, two_parents(), 0, 1, 1, algorithm, 1.0, never)
    assert (blind.path, sighted.path) == ([0, 0, 0], [0, 0, 1])


def test_labels_at_the_limit_of_states_are_normed_over_those_that_offer_them() -> None:
    # With max_states = 2 the second parent offers no new state: transitions 1/2 1/2 there.
    model = InfiniteHMM(n_symbols=2, beta=1.0, max_states=2)
    terms = lookahead_terms(model, two_parents(), 1, "geometric", 10)
    f1 = [1 / 8, 1 / 4, 1 / 6, 1 / 6]
    norm = [math.sqrt(1 / 48), math.sqrt(1 / 24)] * 2
    expected = [math.log(f / g) for f, g in zip(f1, norm, strict=True)]
    assert terms == pytest.approx(expected)


def test_optimal_selection_of_a_completed_step_uses_the_whole_score() -> None:
    scores = [math.log(a * f * g) for a, f, g in zip(PARENT_WEIGHT, F0, F1, strict=True)]
    algorithm = MDVPA(normalizer="none", selection="optimal")
    children = mdvpa_step(UNIT, two_parents(), 0, 1, 3, algorithm, 1.0, lambda: 0.3)
    expected = select_optimal(scores, 3, lambda: 0.3)
    candidates = [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]
    assert [(p.parent, p.state) for p in children] == [candidates[i] for i, _ in expected]
    assert [p.log_weight for p in children] == pytest.approx([w for _, w in expected])


SYMBOLS: list[int | None] = [0, 1, 1, None, 0, 2, 2, None, None, 1, 0, 0]


def test_mdvpa_without_discount_is_vpa_bit_for_bit() -> None:
    model = InfiniteHMM(3)
    ours, plain = (
        ReferenceFilter(model, algorithm, 7) for algorithm in (MDVPA(discount=0.0), VPA())
    )
    for n, symbol in enumerate(SYMBOLS):
        assert ours.update(symbol) == plain.update(symbol)
        assert ours.particles == plain.particles
        if n == 5:
            ours.new_sequence()
            plain.new_sequence()
            assert ours.particles == plain.particles
    assert ours.log_evidence == plain.log_evidence


def test_mdvpa_shows_a_set_that_has_not_seen_the_lookahead() -> None:
    """The visible set is the committed one advanced by the plain rule."""
    model = InfiniteHMM(3, beta=0.5)
    pf = ReferenceFilter(model, MDVPA(discount=0.5), 4)
    for n, symbol in enumerate([0, 1, 2, 0, 1]):
        pf.update(symbol)
        assert pf.n_steps == n
        candidates = expand(model, pf.committed, symbol)
        survivors = select_top([candidate.log_score for candidate in candidates], 4)
        assert [(p.parent, p.state, p.log_weight) for p in pf.particles] == [
            (candidates[i].parent, candidates[i].state, log_weight) for i, log_weight in survivors
        ]
        assert all(len(p.path) == n for p in pf.committed)


def test_mdvpa_without_carried_weights_shows_vpa_without_them() -> None:
    # Step 1 has one candidate; the geometric norm of one parent cancels, so step 2 is VPA's.
    shown = ReferenceFilter(UNIT, MDVPA(carry_weights=False), 3)
    for symbol in (0, 0, 0):
        shown.update(symbol)
    assert [p.weight for p in shown.committed] == pytest.approx([4 / 7, 3 / 7])
    assert [p.weight for p in shown.particles] == pytest.approx([27 / 61, 18 / 61, 16 / 61])


def test_the_discount_is_asked_only_for_steps_that_look_ahead() -> None:
    asked: list[int] = []

    def discount(n: int) -> float:
        asked.append(n)
        return 0.1

    pf = ReferenceFilter(UNIT, MDVPA(discount=discount), 3)
    # Step 1 sees 1; 2 is followed by a missing symbol; 3, itself missing, sees 0; 4 ends.
    for symbol in (0, 1, None, 0):
        pf.update(symbol)
    assert asked == [1, 3]
    pf.new_sequence()
    assert (asked, pf.n_steps) == ([1, 3], 4)
    pf.new_sequence()
    assert pf.n_steps == 4
    pf.update(1)
    pf.update(1)
    assert asked == [1, 3, 5]


def test_a_sequence_of_discounts_that_runs_out_leaves_the_filter_alone() -> None:
    pf = ReferenceFilter(UNIT, MDVPA(discount=[0.5], selection="optimal"), 3, rng=0)
    for symbol in (0, 1):
        pf.update(symbol)
    particles, committed, evidence = pf.particles, pf.committed, pf.log_evidence
    with pytest.raises(ValueError, match="discount"):
        pf.update(1)
    assert (pf.particles, pf.committed, pf.log_evidence) == (particles, committed, evidence)
    assert pf.n_steps == 1


def test_a_new_sequence_completes_the_pending_step_by_its_selection() -> None:
    pf = ReferenceFilter(UNIT, MDVPA(selection="optimal", discount=0.0), 1, rng=4)
    for symbol in (0, 0):
        pf.update(symbol)
    # Stay 1/3, new 1/4: the plain rule shows 0 0; the optimal one draws, below 4/7 or not.
    assert pf.particles[0].path == [0, 0]
    pf.new_sequence()
    u = np.random.default_rng(4).random()
    assert u >= 4 / 7  # the seed is chosen so that the two rules differ
    assert pf.particles[0].path == [0, 1]
    assert pf.particles[0].state == START
    assert pf.particles[0].weight == pytest.approx(1.0)


# Bad input


@pytest.mark.parametrize("symbol", [-1, 2, True, 0.0, math.nan, "0"])
def test_bad_symbols_are_refused_and_change_nothing(symbol: object) -> None:
    pf = ReferenceFilter(UNIT, SMC(), 2, rng=0)
    before = pf.particles
    with pytest.raises((TypeError, ValueError), match="symbol="):
        pf.update(symbol)
    assert pf.particles == before
    assert pf.log_evidence == 0.0


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match="model="):
        ReferenceFilter(3)
    with pytest.raises(TypeError, match=r"algorithm=.*MDVPA"):
        ReferenceFilter(UNIT, "vpa")
    with pytest.raises(ValueError, match="n_particles=0"):
        ReferenceFilter(UNIT, VPA(), 0)
