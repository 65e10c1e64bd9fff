"""The literal readings of Algorithm 1, and the regret of Theorem 1."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from mdvpf import MDVPA, SMC, VPA, Gaussian, InfiniteHMM, OpenVocabulary
from mdvpf.reference import LiteralFilter, Particle, ReferenceFilter, move, theorem_regret
from mdvpf.reference.literal import literal_transitions
from mdvpf.reference.particle import log_potentials, transition_probabilities

MODEL = InfiniteHMM(3, alpha=0.7, gamma=1.5, beta=0.4)
SYMBOLS = np.random.default_rng(5).integers(0, 3, size=25).tolist()


@pytest.mark.parametrize("carry_weights", [True, False])
@pytest.mark.parametrize("normalizer", ["geometric", "sum", "none"])
def test_without_literal_readings_it_is_the_reference(normalizer: str, carry_weights: bool) -> None:
    algorithm = MDVPA(normalizer=normalizer, carry_weights=carry_weights)  # type: ignore[arg-type]
    plain = ReferenceFilter(MODEL, algorithm, n_particles=8)
    expected = [plain.update(symbol).log_predictive for symbol in SYMBOLS]
    pf = LiteralFilter(MODEL, 8, normalizer=normalizer, carry_weights=carry_weights)  # type: ignore[arg-type]
    assert pf.run(SYMBOLS).log_predictive == pytest.approx(expected, abs=1e-12)


def test_the_leaky_score_is_of_the_set_that_has_seen_the_symbol() -> None:
    result = LiteralFilter(MODEL, 8, normalizer="geometric", carry_weights=True).run(SYMBOLS)
    plain = ReferenceFilter(MODEL, MDVPA(), n_particles=8)
    assert result.log_leaked[0] == result.log_predictive[0]
    for n, (symbol, following) in enumerate(pairwise(SYMBOLS)):
        plain.update(symbol)
        seen = ReferenceFilter(MODEL, MDVPA(), n_particles=8)
        for each in SYMBOLS[: n + 2]:  # its committed set was selected with the last of them
            seen.update(each)
        scores = [
            particle.weight * math.exp(log_potential)
            for particle in seen.committed
            for log_potential in log_potentials(MODEL, particle, following)
        ]
        assert result.log_leaked[n + 1] == pytest.approx(math.log(math.fsum(scores)), abs=1e-12)
        if n == 8:
            break


def test_dividing_by_k_is_another_normaliser_only_while_labels_are_rare() -> None:
    by_k = LiteralFilter(MODEL, 8, normalizer="mean over K", carry_weights=True).run(SYMBOLS)
    by_n = LiteralFilter(MODEL, 8, normalizer="geometric", carry_weights=True).run(SYMBOLS)
    assert not np.allclose(by_k.log_predictive, by_n.log_predictive)
    # With one particle and one budget every label has K candidates.
    alone = [
        LiteralFilter(MODEL, 1, normalizer=name, carry_weights=True).run(SYMBOLS).log_predictive
        for name in ("mean over K", "geometric")
    ]
    assert alone[0].tolist() == alone[1].tolist()


def test_initial_states_are_drawn_with_their_weights() -> None:
    pf = LiteralFilter(MODEL, 50, initial_states=4, rng=3)
    assert {particle.state for particle in pf.particles} == set(range(4))
    assert math.fsum(particle.weight for particle in pf.particles) == pytest.approx(1.0)
    assert len({particle.weight for particle in pf.particles}) == 50
    assert pf.run(SYMBOLS).log_predictive[0] == pytest.approx(-math.log(3))
    assert all(particle.n_states >= 4 for particle in pf.particles)


@pytest.mark.parametrize("oracle", ["unvisited", "any"])
def test_states_that_were_never_entered_are_as_likely_as_the_new_one(oracle: str) -> None:
    model = InfiniteHMM(3, alpha=0.7, gamma=1.5, beta=0.4, oracle=oracle)  # type: ignore[arg-type]
    particle = Particle(state=0, n_states=3, into={0: 0, 1: 0, 2: 0})
    particle = move(particle, 1, 2, parent=0, log_weight=0.0)
    moves = literal_transitions(model, particle)
    assert math.fsum(moves) == pytest.approx(1.0)
    assert moves[0] == moves[2] == moves[3] > 0
    for state in (0, 2):
        particle = move(particle, state, 0, parent=0, log_weight=0.0)
    assert literal_transitions(model, particle) == pytest.approx(
        transition_probabilities(model, particle), abs=1e-15
    )


def test_the_free_energy_with_the_next_symbol_chooses_by_that_symbol_alone() -> None:
    # Two symbols, room for one particle: the third symbol chooses the state of the second step.
    pf = LiteralFilter(
        MODEL, 1, discount=0.0, carry_weights=True, normalizer="none", free_energy="lookahead"
    )
    symbols = [0, 1, 0]
    pf.run(symbols)
    particle = move(Particle(), 0, 0, parent=0, log_weight=0.0)  # the first state is certain
    by_next = int(np.argmax(log_potentials(MODEL, particle, 0)))
    assert pf.particles[0].path[:2] == [0, by_next]


def test_the_regret_of_the_theorem_by_enumeration() -> None:
    # With room for all paths nothing is dropped: weights are posteriors, comparators all paths.
    symbols = [0, 1, 1, 0, 2]
    found = theorem_regret(MODEL, VPA(), 1000, symbols)
    paths = {(): (Particle(), 0.0)}
    total = 0.0
    for n, (symbol, following) in enumerate(pairwise(symbols)):
        losses, weights, children = [], [], {}
        for path, (particle, loss) in paths.items():
            ahead = log_potentials(MODEL, particle, following)
            for state, log_potential in enumerate(log_potentials(MODEL, particle, symbol)):
                log_weight = particle.log_weight + log_potential
                child = move(particle, state, symbol, parent=0, log_weight=log_weight)
                children[(*path, state)] = (child, loss - ahead[state])
                losses.append(-ahead[state])
                weights.append(math.exp(log_weight))
        total += float(np.average(losses, weights=weights))
        best = min(loss for _, loss in children.values())
        assert found[n] == pytest.approx(total - best, abs=1e-12)
        paths = children


def test_weights_that_are_dropped_are_dropped_in_the_theorems_regret_too() -> None:
    for kind in (VPA, MDVPA):
        kept, dropped = (
            theorem_regret(MODEL, kind(carry_weights=carry), 4, SYMBOLS) for carry in (True, False)
        )
        assert not np.allclose(kept, dropped)


def test_bad_input_is_named() -> None:
    with pytest.raises(TypeError, match="model=3: expected an InfiniteHMM"):
        LiteralFilter(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected one without max_states"):
        LiteralFilter(InfiniteHMM(3, max_states=2))
    with pytest.raises(ValueError, match="normalizer='mean'"):
        LiteralFilter(MODEL, normalizer="mean")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="initial_states=-1"):
        LiteralFilter(MODEL, initial_states=-1)
    with pytest.raises(ValueError, match="expected selection='top'"):
        theorem_regret(MODEL, MDVPA(selection="optimal"), 5, SYMBOLS)
    for family in (OpenVocabulary(), Gaussian()):
        with pytest.raises(ValueError, match=r"model=.*: expected one with a closed alphabet"):
            theorem_regret(InfiniteHMM(emission=family), VPA(), 5, SYMBOLS)
    with pytest.raises(TypeError, match=r"algorithm=SMC\(.*: expected an MDVPA or a VPA"):
        theorem_regret(MODEL, SMC(), 5, SYMBOLS)  # type: ignore[arg-type]
