"""Limiting cases, and predictions that are fixed before the filter sees the next symbol."""

from __future__ import annotations

import math
from dataclasses import asdict

import numpy as np
import pytest

import mdvpf
from mdvpf.model.algorithms import DUPLICATING
from tests.algorithms import EVERY_ALGORITHM
from tests.enumeration import Rule, Symbol, flat, lengths, potentials, tally

ORACLES = ("unvisited", "any")
V = 4
K = 12

SMC_ALGORITHMS = {name for name in EVERY_ALGORITHM if name.startswith("SMC")}

every_algorithm = pytest.mark.parametrize("algorithm", EVERY_ALGORITHM)
every_oracle = pytest.mark.parametrize("oracle", ORACLES)


def random_sequences(seed: int, shape: tuple[int, ...], missing: float = 0.2) -> list[list[Symbol]]:
    """Sequences of a sticky symbol that jumps now and then, with some symbols missing."""
    rng = np.random.default_rng(seed)
    sequences: list[list[Symbol]] = []
    for n in shape:
        jumps = rng.random(n) < 0.5
        symbols = np.cumsum(np.where(jumps, rng.integers(1, V, size=n), 0)) % V
        absent = rng.random(n) < missing
        sequences.append([None if a else int(y) for y, a in zip(symbols, absent, strict=True)])
    return sequences


def make_filter(
    algorithm: str | mdvpf.algorithms.Algorithm,
    oracle: str = "unvisited",
    max_states: int | None = None,
    n_particles: int = K,
    history: str | int | None = None,
) -> mdvpf.ParticleFilter:
    model = mdvpf.InfiniteHMM(
        V, alpha=1.1, gamma=1.9, beta=0.23, oracle=oracle, max_states=max_states
    )
    chosen = EVERY_ALGORITHM[algorithm] if isinstance(algorithm, str) else algorithm
    return mdvpf.ParticleFilter(model, chosen, n_particles=n_particles, rng=17, history=history)


# --- Visible results


@every_algorithm
@every_oracle
@pytest.mark.parametrize("max_states", [None, 1, 3])
def test_predictive_is_a_distribution_at_every_moment(
    max_states: int | None, oracle: str, algorithm: str
) -> None:
    pf = make_filter(algorithm, oracle, max_states)
    for sequence in random_sequences(1, (20, 10)):
        pf.new_sequence()
        for symbol in sequence:
            assert_distribution(pf.predict_proba())
            pf.update(symbol)
        assert_distribution(pf.predict_proba())


def assert_distribution(predictive: np.ndarray) -> None:
    assert predictive.shape == (V,)
    assert np.all(predictive > 0.0)
    assert math.fsum(predictive) == pytest.approx(1.0, rel=0, abs=1e-12)


@every_algorithm
@every_oracle
@pytest.mark.parametrize("max_states", [None, 2])
def test_log_predictive_is_the_prediction_made_just_before(
    max_states: int | None, oracle: str, algorithm: str
) -> None:
    pf = make_filter(algorithm, oracle, max_states)
    for sequence in random_sequences(2, (15, 15)):
        pf.new_sequence()
        for symbol in sequence:
            predictive = pf.predict_proba()
            expected = 0.0 if symbol is None else math.log(predictive[symbol])
            assert pf.update(symbol).log_predictive == pytest.approx(expected, rel=0, abs=1e-12)


@every_algorithm
@every_oracle
def test_shown_set_is_consistent_with_the_step(oracle: str, algorithm: str) -> None:
    pf = make_filter(algorithm, oracle)
    for sequence in random_sequences(4, (15, 15)):
        pf.new_sequence()
        for symbol in sequence:
            step = pf.update(symbol)
            weights, states, n_states = pf.weights, pf.states, pf.n_states
            assert len(weights) == len(states) == len(n_states) == step.n_particles <= K
            assert math.fsum(weights) == pytest.approx(1.0, rel=0, abs=1e-12)
            assert np.all(weights >= 0.0)
            assert np.all((states >= 0) & (states < n_states))
            assert step.mean_states == pytest.approx(float(weights @ n_states), rel=1e-12)
            assert -1e-12 <= step.discarded <= 1.0
            if algorithm not in SMC_ALGORITHMS:
                assert step.ess == pytest.approx(1.0 / float(weights @ weights), rel=1e-10)


@every_algorithm
def test_evidence_is_the_sum_of_log_predictives_but_for_smc(algorithm: str) -> None:
    pf = make_filter(algorithm)
    result = pf.run(flat(random_sequences(5, (30,))))
    product_of_predictives = math.fsum(result.log_predictive)
    assert result.log_evidence == pytest.approx(pf.log_evidence, rel=0, abs=1e-12)
    difference = abs(pf.log_evidence - product_of_predictives)
    if algorithm in SMC_ALGORITHMS:
        assert difference > 1e-3
    else:
        assert difference < 1e-10


@every_algorithm
def test_particles_are_in_s_before_a_sequence(algorithm: str) -> None:
    pf = make_filter(algorithm)
    copies = K if isinstance(EVERY_ALGORITHM[algorithm], DUPLICATING) else 1
    assert pf.states.tolist() == [-1] * copies
    assert pf.n_states.tolist() == [0] * copies
    assert pf.weights == pytest.approx(np.full(copies, 1.0 / copies), rel=1e-12)
    assert pf.predict_proba() == pytest.approx(np.full(V, 1.0 / V), rel=1e-12)
    assert pf.log_evidence == 0.0
    pf.run([0, 1, 1, 2, 0])
    assert np.all(pf.states >= 0)
    pf.new_sequence()
    assert np.all(pf.states == -1)
    assert np.all(pf.n_states >= 1)
    assert math.fsum(pf.weights) == pytest.approx(1.0, rel=0, abs=1e-12)


@every_algorithm
def test_new_sequence_twice_is_new_sequence_once(algorithm: str) -> None:
    once, twice = make_filter(algorithm), make_filter(algorithm)
    twice.new_sequence()
    for sequence in random_sequences(6, (7, 7, 7)):
        once.new_sequence()
        twice.new_sequence()
        twice.new_sequence()
        assert_same_shown_set(once, twice)
        for symbol in sequence:
            assert once.update(symbol) == twice.update(symbol)
    assert_same_shown_set(once, twice)
    assert once.log_evidence == twice.log_evidence


@every_algorithm
@every_oracle
@pytest.mark.parametrize("max_states", [1, 2, 3])
def test_max_states_is_reached_and_never_exceeded(
    max_states: int, oracle: str, algorithm: str
) -> None:
    pf = make_filter(algorithm, oracle, max_states)
    most = 0
    for sequence in random_sequences(7, (40, 20)):
        pf.new_sequence()
        for symbol in sequence:
            pf.update(symbol)
            most = max(most, int(pf.n_states.max()))
    assert most == max_states


# --- Missing symbols, counts and paths


@every_algorithm
@every_oracle
def test_missing_symbol_predicts_nothing_and_emits_nothing(oracle: str, algorithm: str) -> None:
    pf = make_filter(algorithm, oracle)
    observed, consumed = 0, 0
    for sequence in random_sequences(8, (12, 8), missing=0.4):
        pf.new_sequence()
        for symbol in sequence:
            evidence_before = pf.log_evidence
            step = pf.update(symbol)
            consumed += 1
            if symbol is None:
                assert step.log_predictive == 0.0
                assert pf.log_evidence == pytest.approx(evidence_before, rel=0, abs=1e-12)
            else:
                observed += 1
                assert step.log_predictive < 0.0
            for k in range(step.n_particles):
                counts = pf.counts(k)
                assert counts.emission.sum() == observed
                assert counts.start.sum() + counts.transition.sum() == consumed
    assert 0 < observed < consumed


@every_algorithm
@every_oracle
def test_path_and_symbols_add_up_to_the_counts_of_every_particle(
    oracle: str, algorithm: str
) -> None:
    pf = make_filter(algorithm, oracle, history="full")
    known: list[list[Symbol]] = []
    for sequence in random_sequences(9, (8, 1, 9)):
        pf.new_sequence()
        known.append([])
        assert_paths_add_up(pf, known)
        for symbol in sequence:
            pf.update(symbol)
            known[-1].append(symbol)
            assert_paths_add_up(pf, known)
    heaviest = np.flatnonzero(pf.weights >= pf.weights.max() * (1 - 1e-12))
    assert pf.path().tolist() in [pf.path(int(k)).tolist() for k in heaviest]


def assert_paths_add_up(pf: mdvpf.ParticleFilter, known: list[list[Symbol]]) -> None:
    states, n_states = pf.states, pf.n_states
    for k in range(len(states)):
        path = tuple(int(state) for state in pf.path(k))
        assert len(path) == sum(lengths(known))
        assert list(dict.fromkeys(path)) == list(range(n_states[k])), "not by first appearance"
        recount, counts = tally(path, known), pf.counts(k)
        m = recount.n_states
        assert (int(states[k]), int(n_states[k])) == (recount.current, m)
        start = [recount.transitions[-1, c] for c in range(m)]
        transition = [[recount.transitions[j, c] for c in range(m)] for j in range(m)]
        emission = [[recount.emissions[c, y] for y in range(V)] for c in range(m)]
        assert counts.start.shape == (m,)
        assert counts.transition.shape == (m, m)
        assert counts.emission.shape == (m, V)
        np.testing.assert_array_equal(counts.start, start)
        np.testing.assert_array_equal(counts.transition, np.reshape(transition, (m, m)))
        np.testing.assert_array_equal(counts.emission, np.reshape(emission, (m, V)))


# --- Predictions before the symbol


@every_algorithm
@every_oracle
@pytest.mark.parametrize("changed_to", ["another symbol", "missing", "end of the sequence"])
def test_no_prediction_depends_on_a_later_symbol(
    changed_to: str, oracle: str, algorithm: str
) -> None:
    symbols = flat(random_sequences(11, (14,), missing=0.15))
    original = make_filter(algorithm, oracle).run(symbols, lengths=[len(symbols)])
    for n in range(1, len(symbols)):
        changed, parts = list(symbols), [len(symbols)]
        if changed_to == "another symbol":
            changed[n] = (0 if symbols[n] is None else symbols[n] + 1) % V
        elif changed_to == "missing":
            changed[n] = None
        else:
            parts = [n, len(symbols) - n]
        alternative = make_filter(algorithm, oracle).run(changed, lengths=parts)
        np.testing.assert_array_equal(original.log_predictive[:n], alternative.log_predictive[:n])


@every_algorithm
@every_oracle
@pytest.mark.parametrize("selected", [0, 1, 2, 3, None])
def test_prediction_of_a_symbol_in_a_run_is_that_of_a_filter_that_never_sees_it(
    selected: int | None, oracle: str, algorithm: str
) -> None:
    symbols = flat(random_sequences(12, (12,), missing=0.15))
    for n in range(1, len(symbols)):
        blind = make_filter(algorithm, oracle)
        blind.run(symbols[:n])
        seeing = make_filter(algorithm, oracle)
        result = seeing.run([*symbols[:n], selected, *symbols[n + 1 :]])
        expected = 0.0 if selected is None else math.log(blind.predict_proba()[selected])
        assert result.log_predictive[n] == pytest.approx(expected, rel=0, abs=1e-12)


def test_look_ahead_does_change_later_predictions() -> None:
    symbols = flat(random_sequences(13, (40,), missing=0.0))
    plain = make_filter(mdvpf.VPA()).run(symbols)
    bold = make_filter(mdvpf.MDVPA(discount=2.5)).run(symbols)
    np.testing.assert_array_equal(plain.log_predictive[:2], bold.log_predictive[:2])
    assert np.abs(plain.log_predictive - bold.log_predictive).max() > 1e-3


# --- Limiting cases


@every_oracle
@pytest.mark.parametrize("normalizer", ["geometric", "sum", "none"])
@pytest.mark.parametrize("carry_weights", [True, False])
@pytest.mark.parametrize("max_states", [None, 4])
def test_md_vpa_without_discount_is_vpa_bit_for_bit(
    max_states: int | None, carry_weights: bool, normalizer: str, oracle: str
) -> None:
    md_vpa = make_filter(
        mdvpf.MDVPA(
            discount=0.0, normalizer=normalizer, carry_weights=carry_weights, selection="top"
        ),
        oracle,
        max_states,
    )
    vpa = make_filter(mdvpf.VPA(carry_weights=carry_weights), oracle, max_states)
    for sequence in random_sequences(14, (60, 1, 30)):
        md_vpa.new_sequence()
        vpa.new_sequence()
        assert_same_shown_set(md_vpa, vpa)
        for symbol in sequence:
            assert md_vpa.update(symbol) == vpa.update(symbol)
            assert_same_shown_set(md_vpa, vpa)
    assert md_vpa.log_evidence == vpa.log_evidence


@pytest.mark.parametrize("discount", [lambda n: 0.0, [0.0] * 200], ids=["callable", "sequence"])
def test_every_form_of_no_discount_is_vpa_in_a_long_run(
    discount: mdvpf.algorithms.Discount,
) -> None:
    sequences = random_sequences(15, (120, 79))
    md_vpa = make_filter(mdvpf.MDVPA(discount=discount), n_particles=50)
    vpa = make_filter(mdvpf.VPA(), n_particles=50)
    ours = md_vpa.run(flat(sequences), lengths=lengths(sequences))
    theirs = vpa.run(flat(sequences), lengths=lengths(sequences))
    np.testing.assert_array_equal(ours.log_predictive, theirs.log_predictive)
    assert_same_shown_set(md_vpa, vpa)


@every_oracle
@pytest.mark.parametrize("max_states", [None, 3])
def test_vpa_with_one_particle_is_greedy(max_states: int | None, oracle: str) -> None:
    rule = Rule(V, alpha=1.1, gamma=1.9, beta=0.23, oracle=oracle, max_states=max_states)
    model = mdvpf.InfiniteHMM(**asdict(rule))
    pf = mdvpf.ParticleFilter(model, mdvpf.VPA(), n_particles=1, history="full")
    path: tuple[int, ...] = ()
    known: list[list[Symbol]] = []
    for sequence in random_sequences(16, (40, 25)):
        pf.new_sequence()
        known.append([])
        for symbol in sequence:
            offered = potentials(rule, tally(path, known), symbol)
            step = pf.update(symbol)
            assert step.log_predictive == pytest.approx(
                math.log(math.fsum(offered)), rel=0, abs=1e-10
            )
            # Of equal candidates, up to rounding, the first wins.
            path = (*path, next(m for m, f in enumerate(offered) if f > max(offered) * (1 - 1e-11)))
            known[-1].append(symbol)
            assert pf.weights.tolist() == [1.0]
            assert pf.states.tolist() == [path[-1]]
    assert pf.path().tolist() == list(path)
    assert len(set(path)) > 1


def assert_same_shown_set(one: mdvpf.ParticleFilter, other: mdvpf.ParticleFilter) -> None:
    np.testing.assert_array_equal(one.weights, other.weights)
    np.testing.assert_array_equal(one.states, other.states)
    np.testing.assert_array_equal(one.n_states, other.n_states)
    np.testing.assert_array_equal(one.predict_proba(), other.predict_proba())
