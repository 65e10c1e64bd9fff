"""A filter that can hold every history drops none, and is exact: compared with enumeration."""

from __future__ import annotations

import math
from dataclasses import asdict

import numpy as np
import pytest

import mdvpf
from tests.enumeration import (
    Rule,
    Sequences,
    evidence,
    flat,
    histories,
    lengths,
    log_evidence,
    predictive,
    prefixes,
)

ORACLES = ("unvisited", "any")

HYPER_PARAMETERS = {
    "default": (1.0, 1.0, 0.3),
    "small": (0.05, 0.02, 0.01),
    "large": (20.0, 50.0, 3.0),
    "sticky": (1e-3, 1e3, 10.0),
    "restless": (1e3, 1e-3, 1e-3),
}

STREAMS: dict[str, Sequences] = {
    "one sequence": [[0, 1, 1, 0, 2, 1, 1]],
    "two sequences": [[0, 1, 1, 2], [1, 0, 1]],
    "missing symbols": [[0, None, 1, 1, None, 0, 2]],
    "missing at the ends of sequences": [[None, 1, 0, None], [None, 0, 2]],
}

# If nothing is dropped, all of these are the same filter.
EXACT_ALGORITHMS = {
    "VPA": mdvpf.VPA(),
    "MD-VPA geometric": mdvpf.MDVPA(discount=0.0),
    "MD-VPA sum": mdvpf.MDVPA(discount=0.0, normalizer="sum"),
    "MD-VPA none": mdvpf.MDVPA(discount=0.0, normalizer="none"),
    "MD-VPA optimal": mdvpf.MDVPA(discount=0.0, selection="optimal"),
    "OptimalResampling": mdvpf.OptimalResampling(),
}


def filter_for(
    rule: Rule,
    algorithm: mdvpf.algorithms.Algorithm,
    n_particles: int,
    history: str | None = None,
) -> mdvpf.ParticleFilter:
    model = mdvpf.InfiniteHMM(**asdict(rule))
    return mdvpf.ParticleFilter(model, algorithm, n_particles=n_particles, rng=0, history=history)


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("hyper_parameters", HYPER_PARAMETERS)
@pytest.mark.parametrize("max_states", [None, 1, 2, 3])
@pytest.mark.parametrize("oracle", ORACLES)
def test_vpa_evidence_is_the_marginal_likelihood(
    oracle: str, max_states: int | None, hyper_parameters: str, stream: str
) -> None:
    alpha, gamma, beta = HYPER_PARAMETERS[hyper_parameters]
    rule = Rule(3, alpha, gamma, beta, oracle, max_states)
    sequences = STREAMS[stream]
    exact = histories(rule, sequences)
    pf = filter_for(rule, mdvpf.VPA(), len(exact))
    result = pf.run(flat(sequences), lengths=lengths(sequences))
    expected = math.log(math.fsum(exact.values()))
    assert pf.log_evidence == pytest.approx(expected, rel=0, abs=1e-10)
    assert result.log_evidence == pytest.approx(expected, rel=0, abs=1e-10)
    assert math.fsum(result.log_predictive) == pytest.approx(expected, rel=0, abs=1e-10)
    assert len(pf.weights) == len(exact)


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("cut", [8, 3])
def test_vpa_is_exact_with_all_4140_histories_of_eight_symbols(oracle: str, cut: int) -> None:
    symbols = [0, 1, 0, 0, 2, 1, 3, 0]
    sequences = [part for part in (symbols[:cut], symbols[cut:]) if part]
    rule = Rule(4, alpha=0.7, gamma=1.3, beta=0.2, oracle=oracle)
    pf = filter_for(rule, mdvpf.VPA(), 4140)
    result = pf.run(symbols, lengths=lengths(sequences))
    assert len(pf.weights) == 4140
    assert pf.log_evidence == pytest.approx(log_evidence(rule, sequences), rel=0, abs=1e-10)
    assert result.discarded == pytest.approx(np.zeros(8), rel=0, abs=1e-12)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("algorithm", EXACT_ALGORITHMS)
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("oracle", ORACLES)
def test_every_filter_that_drops_nothing_is_exact(oracle: str, stream: str, algorithm: str) -> None:
    rule = Rule(3, alpha=0.6, gamma=1.7, beta=0.15, oracle=oracle)
    sequences = STREAMS[stream]
    pf = filter_for(rule, EXACT_ALGORITHMS[algorithm], 877)
    pf.run(flat(sequences), lengths=lengths(sequences))
    assert pf.log_evidence == pytest.approx(log_evidence(rule, sequences), rel=0, abs=1e-10)
    assert pf.predict_proba() == pytest.approx(
        np.array(predictive(rule, sequences)), rel=0, abs=1e-12
    )


@pytest.mark.parametrize("algorithm", EXACT_ALGORITHMS)
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize(("oracle", "max_states"), [("unvisited", None), ("any", None), ("any", 2)])
def test_predictive_before_every_symbol_is_the_ratio_of_evidences(
    oracle: str, max_states: int | None, stream: str, algorithm: str
) -> None:
    rule = Rule(3, alpha=1.4, gamma=0.8, beta=0.25, oracle=oracle, max_states=max_states)
    sequences = [sequence[:3] for sequence in STREAMS[stream]]
    pf = filter_for(rule, EXACT_ALGORITHMS[algorithm], 203)
    for known, symbol in zip(prefixes(sequences), flat(sequences), strict=True):
        if not known[-1]:
            pf.new_sequence()
        exact = np.array(predictive(rule, known))
        assert pf.predict_proba() == pytest.approx(exact, rel=0, abs=1e-12)
        step = pf.update(symbol)
        ratio = evidence(rule, [*known[:-1], [*known[-1], symbol]]) / evidence(rule, known)
        assert step.log_predictive == pytest.approx(math.log(ratio), rel=0, abs=1e-10)
    pf.new_sequence()
    exact = np.array(predictive(rule, [*sequences, []]))
    assert pf.predict_proba() == pytest.approx(exact, rel=0, abs=1e-12)


@pytest.mark.parametrize("algorithm", EXACT_ALGORITHMS)
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("oracle", ORACLES)
def test_weights_are_the_posterior_of_the_histories(
    oracle: str, stream: str, algorithm: str
) -> None:
    rule = Rule(3, alpha=0.9, gamma=2.2, beta=0.4, oracle=oracle)
    sequences = STREAMS[stream]
    joint = histories(rule, sequences)
    seen = math.fsum(joint.values())
    pf = filter_for(rule, EXACT_ALGORITHMS[algorithm], len(joint), history="full")
    pf.run(flat(sequences), lengths=lengths(sequences))
    weights = pf.weights
    shown = {tuple(int(s) for s in pf.path(k)): weights[k] for k in range(len(weights))}
    assert shown.keys() == joint.keys()
    assert shown == pytest.approx(
        {path: probability / seen for path, probability in joint.items()}, rel=1e-10, abs=0
    )
