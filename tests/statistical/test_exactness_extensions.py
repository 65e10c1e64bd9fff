"""Real counts, Mealy rows, the oracle of rows and stickiness: the core against enumeration.

The core holds such counts in 32 bits, so it is exact to 1e-5.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import asdict, replace

import numpy as np
import pytest

import mdvpf
from mdvpf.model.algorithms import Algorithm
from tests.enumeration import (
    Rule,
    Sequences,
    flat,
    histories,
    lengths,
    log_evidence,
    predictive,
    prefixes,
)
from tests.statistical.test_exactness import EXACT_ALGORITHMS, HYPER_PARAMETERS, STREAMS
from tests.statistical.test_exactness_reference import (
    FADING,
    FORGETTING,
    MACHINES,
    ORACLES,
    hash_of,
    random_stream,
    settings,
)
from tests.statistical.unbiasedness import Case, check_mean_evidence

TOLERANCE = 1e-5


def filter_for(
    rule: Rule, algorithm: Algorithm, n_particles: int, seed: int = 0
) -> mdvpf.ParticleFilter:
    model = mdvpf.InfiniteHMM(**asdict(rule))
    return mdvpf.ParticleFilter(model, algorithm, n_particles, rng=seed, history="full")


def assert_holds_the_posterior(rule: Rule, sequences: Sequences) -> mdvpf.ParticleFilter:
    """Check a VPA that can hold all histories: its evidence, and the weight of each history."""
    exact = histories(rule, sequences)
    pf = filter_for(rule, mdvpf.VPA(), len(exact))
    result = pf.run(flat(sequences), lengths=lengths(sequences))
    seen = math.fsum(exact.values())
    assert pf.log_evidence == pytest.approx(math.log(seen), rel=0, abs=TOLERANCE)
    assert math.fsum(result.log_predictive) == pytest.approx(math.log(seen), rel=0, abs=TOLERANCE)
    weights = {tuple(pf.path(k).tolist()): weight for k, weight in enumerate(pf.weights)}
    assert weights == pytest.approx(
        {path: probability / seen for path, probability in exact.items()}, rel=TOLERANCE, abs=0
    )
    pf._core.verify()
    return pf


# --- All combinations


@pytest.mark.parametrize("max_states", [None, 1, 2, 3])
@pytest.mark.parametrize("kappa", [0.0, 0.7])
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("forgetting", FORGETTING)
def test_vpa_that_drops_nothing_is_exact_for_every_combination(
    forgetting: str, oracle: str, machine: str, kappa: float, max_states: int | None
) -> None:
    rule = Rule(2, 0.7, 1.3, 0.2, oracle, max_states, machine, kappa, **FORGETTING[forgetting])
    # Another stream for each setting, with missing symbols and ends of sequences.
    seed = hash_of(forgetting, oracle, machine, str(max_states), str(kappa))
    assert_holds_the_posterior(rule, random_stream(seed, 6, rule.n_symbols))


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("forgetting", ["for ever", "forget 4", "half-life 2.5", "half-life 0.3"])
def test_vpa_is_exact_with_and_without_missing_symbols_and_breaks(
    forgetting: str, oracle: str, machine: str, stream: str
) -> None:
    rule = Rule(3, oracle=oracle, machine=machine, kappa=0.3, **FORGETTING[forgetting])
    assert_holds_the_posterior(rule, [sequence[:6] for sequence in STREAMS[stream]])


@pytest.mark.parametrize("hyper_parameters", HYPER_PARAMETERS)
@pytest.mark.parametrize(
    "rule",
    [
        Rule(3, oracle="rows"),
        Rule(3, oracle="rows", machine="mealy"),
        Rule(3, oracle="unvisited", machine="mealy", kappa=0.3),
        Rule(3, oracle="rows", forget=2.0),
        Rule(3, oracle="unvisited", half_life=3.0, max_states=3),
    ],
    ids=str,
)
def test_vpa_is_exact_for_large_and_small_hyper_parameters(
    rule: Rule, hyper_parameters: str
) -> None:
    alpha, gamma, beta = HYPER_PARAMETERS[hyper_parameters]
    assert_holds_the_posterior(
        replace(rule, alpha=alpha, gamma=gamma, beta=beta), [[0, 1, 1, 0], [2, 1]]
    )


@pytest.mark.parametrize(("forgetting", "oracle", "machine", "kappa", "max_states"), settings())
def test_prediction_is_the_ratio_of_evidences(
    forgetting: str, oracle: str, machine: str, kappa: float, max_states: int | None
) -> None:
    rule = Rule(2, 0.7, 1.3, 0.2, oracle, max_states, machine, kappa, **FORGETTING[forgetting])
    stream = random_stream(hash_of(forgetting, oracle, machine), 5, rule.n_symbols)
    pf = filter_for(rule, mdvpf.VPA(), 52)
    for known, symbol in zip(prefixes(stream), flat(stream), strict=True):
        if not known[-1]:
            pf.new_sequence()
        assert pf.predict_proba() == pytest.approx(
            np.array(predictive(rule, known)), rel=0, abs=TOLERANCE
        )
        pf.update(symbol)
    assert pf.predict_proba() == pytest.approx(
        np.array(predictive(rule, stream)), rel=0, abs=TOLERANCE
    )
    pf.new_sequence()
    assert pf.predict_proba() == pytest.approx(
        np.array(predictive(rule, [*stream, []])), rel=0, abs=TOLERANCE
    )


# --- The other algorithms, with nothing to drop

RULES = {
    "mealy, rows, sticky, forget 4": FADING,
    "half-life 0.4": replace(FADING, machine="moore", forget=0.0, half_life=0.4),
    "two states, half-life 1": Rule(
        2, oracle="unvisited", machine="mealy", half_life=1.0, max_states=2
    ),
    "mealy, rows": Rule(2, oracle="rows", machine="mealy"),
    "any, sticky, forget 1": Rule(2, beta=0.15, oracle="any", kappa=1.5, forget=1.0),
}
SIX: Sequences = [[0, 1, None, 0], [1, 1]]


@pytest.mark.parametrize("algorithm", EXACT_ALGORITHMS)
@pytest.mark.parametrize("rule", RULES)
def test_every_filter_that_drops_nothing_is_exact(rule: str, algorithm: str) -> None:
    pf = filter_for(RULES[rule], EXACT_ALGORITHMS[algorithm], 203)
    pf.run(flat(SIX), lengths=lengths(SIX))
    expected = log_evidence(RULES[rule], SIX)
    assert pf.log_evidence == pytest.approx(expected, rel=0, abs=TOLERANCE)
    assert pf.predict_proba() == pytest.approx(
        np.array(predictive(RULES[rule], SIX)), rel=0, abs=TOLERANCE
    )


@pytest.mark.parametrize("normalizer", ["geometric", "sum", "none"])
@pytest.mark.parametrize("rule", RULES)
def test_mdvpa_without_a_discount_is_vpa_bit_for_bit(rule: str, normalizer: str) -> None:
    stream = random_stream(11, 90, 2)
    filters = [
        filter_for(RULES[rule], algorithm, 6)
        for algorithm in (mdvpf.VPA(), mdvpf.MDVPA(discount=0.0, normalizer=normalizer))
    ]
    vpa, mdvpa = (pf.run(flat(stream), lengths=lengths(stream)) for pf in filters)
    assert mdvpa.log_predictive.tobytes() == vpa.log_predictive.tobytes()
    assert filters[1].weights.tobytes() == filters[0].weights.tobytes()
    assert filters[1].predict_proba().tobytes() == filters[0].predict_proba().tobytes()


def test_predictions_of_all_strings_sum_to_one() -> None:
    for rule in RULES.values():
        strings = itertools.product(range(2), repeat=4)
        total = math.fsum(
            math.exp(filter_for(rule, mdvpf.VPA(), 15).run(string).log_evidence)
            for string in strings
        )
        assert total == pytest.approx(1.0, rel=0, abs=TOLERANCE)


# --- No bias

CASES = {
    "mealy, rows, sticky, forget 4": Case(FADING, [[0, 1, None, 0], [0, 1, 0]], n_particles=4),
    "half-life 0.4": Case(RULES["half-life 0.4"], [[0, 1, 0, 1, 0, 1]], n_particles=4),
    "unvisited, half-life 5": Case(
        Rule(2, alpha=0.5, gamma=1.0, beta=0.25, half_life=5.0), [[0, 1, 0], [0, 1, 0]], 3
    ),
    "mealy, any, three states": Case(
        Rule(2, alpha=2.0, gamma=0.7, beta=0.25, oracle="any", max_states=3, machine="mealy"),
        [[0, 1, None, 0], [1, None, 1]],
        n_particles=5,
    ),
}

UNBIASED: dict[str, Algorithm] = {
    "SMC": mdvpf.SMC(),
    "SMC systematic, ESS": mdvpf.SMC(resampling="systematic", ess_threshold=0.5),
    "SMC residual": mdvpf.SMC(resampling="residual"),
    "SMC stratified, ESS": mdvpf.SMC(resampling="stratified", ess_threshold=0.8),
    "ParticleLearning": mdvpf.ParticleLearning(),
    "OptimalResampling": mdvpf.OptimalResampling(),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("algorithm", UNBIASED)
@pytest.mark.parametrize("case", CASES)
def test_mean_evidence_over_seeds_is_the_marginal_likelihood(case: str, algorithm: str) -> None:
    check_mean_evidence(CASES[case], UNBIASED[algorithm])
