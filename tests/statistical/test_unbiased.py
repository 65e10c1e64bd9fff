"""The random filters estimate the evidence without bias: the mean over seeds is exact."""

from __future__ import annotations

import pytest

import mdvpf
from tests.enumeration import Rule
from tests.statistical.unbiasedness import Case, check_mean_evidence

CASES = {
    "one sequence": Case(
        Rule(3, alpha=0.5, gamma=1.0, beta=0.3, oracle="unvisited"),
        [[0, 1, 0, 1, 0, 1, 0]],
        n_particles=5,
    ),
    "sequence break": Case(
        Rule(2, alpha=0.8, gamma=1.5, beta=0.2, oracle="any"),
        [[0, 1, 0], [0, 1, 0]],
        n_particles=3,
    ),
    "missing symbol": Case(
        Rule(2, alpha=2.0, gamma=0.7, beta=0.25, oracle="unvisited", max_states=3),
        [[0, 1, None, 0], [1, None, 1]],
        n_particles=5,
    ),
    "missing symbol, any oracle": Case(
        Rule(2, alpha=0.5, gamma=1.5, beta=0.2, oracle="any"),
        [[0, 1, None, 1, 0, 1]],
        n_particles=4,
    ),
}

ALGORITHMS = {
    "SMC multinomial": mdvpf.SMC(resampling="multinomial"),
    "SMC stratified": mdvpf.SMC(resampling="stratified"),
    "SMC systematic": mdvpf.SMC(resampling="systematic"),
    "SMC residual": mdvpf.SMC(resampling="residual"),
    "SMC multinomial, ESS": mdvpf.SMC(resampling="multinomial", ess_threshold=0.5),
    "SMC stratified, ESS": mdvpf.SMC(resampling="stratified", ess_threshold=0.8),
    "SMC systematic, ESS": mdvpf.SMC(resampling="systematic", ess_threshold=0.5),
    "SMC residual, ESS": mdvpf.SMC(resampling="residual", ess_threshold=0.8),
    "SMC never resampled": mdvpf.SMC(ess_threshold=0.0),
    "ParticleLearning": mdvpf.ParticleLearning(),
    "OptimalResampling": mdvpf.OptimalResampling(),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("case", CASES)
def test_mean_evidence_over_seeds_is_the_marginal_likelihood(case: str, algorithm: str) -> None:
    check_mean_evidence(CASES[case], ALGORITHMS[algorithm])
