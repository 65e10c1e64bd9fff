"""Families over numbers: reference and core are exact for the rule, and random filters unbiased.

Transitions that fade are held in 32 bits by the core: what would be exact is so to 1e-5 there.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import mdvpf
from mdvpf.reference import ReferenceFilter
from tests.enumeration import Rule, Seen, evidence, histories, log_evidence
from tests.number_families import STREAMS, Numbers

SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "any": {"oracle": "any"},
    "rows, sticky": {"oracle": "rows", "kappa": 0.7},
    "two states": {"max_states": 2},
    "forget 2": {"forget": 2.0},
    "half-life 1.5, rows": {"half_life": 1.5, "oracle": "rows"},
}
FADING = {"forget 2", "half-life 1.5, rows"}
ENOUGH = 900  # 877 histories of 7 observations
FILTERS = {"reference": ReferenceFilter, "core": mdvpf.ParticleFilter}


def rule_and_model(stream: str, setting: str) -> tuple[Rule, mdvpf.InfiniteHMM]:
    family = STREAMS[stream][0]
    shared: dict[str, Any] = {"alpha": 0.7, "gamma": 1.3, **SETTINGS[setting]}
    rule = Rule(0, emission=Numbers(family), **shared)
    return rule, mdvpf.InfiniteHMM(emission=family, **shared)


CASES = [
    (stream, setting)
    for stream in STREAMS
    for setting in SETTINGS
    if stream not in ("two dimensions", "poisson") or setting in ("plain", "forget 2")
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", FILTERS)
@pytest.mark.parametrize(("stream", "setting"), CASES)
def test_enough_particles_have_the_marginal_likelihood(
    stream: str, setting: str, kind: str
) -> None:
    rule, model = rule_and_model(stream, setting)
    observations = STREAMS[stream][1]
    assert len(observations) == 7
    pf = FILTERS[kind](model, mdvpf.VPA(), ENOUGH)
    for observation in observations:
        pf.update(observation)
    exact = log_evidence(rule, [observations])
    tolerance = 1e-5 if kind == "core" and setting in FADING else 1e-9
    assert pf.log_evidence == pytest.approx(exact, rel=0, abs=tolerance)


@pytest.mark.parametrize("stream", STREAMS)
def test_weights_are_the_posterior_of_histories(stream: str) -> None:
    rule, model = rule_and_model(stream, "plain")
    observations = STREAMS[stream][1][:5]
    pf = mdvpf.ParticleFilter(model, mdvpf.VPA(), ENOUGH, history="full")
    for observation in observations:
        pf.update(observation)
    exact = histories(rule, [observations])
    total = math.fsum(exact.values())
    found = {tuple(pf.path(k).tolist()): weight for k, weight in enumerate(pf.weights.tolist())}
    assert found.keys() == exact.keys()
    for path, probability in exact.items():
        assert found[path] == pytest.approx(probability / total, rel=1e-9)


@pytest.mark.parametrize("setting", ["plain", "forget 2"])
@pytest.mark.parametrize("stream", ["gaussian", "product", "everything"])
def test_keys_share_statistics_and_keep_their_positions(stream: str, setting: str) -> None:
    rule, model = rule_and_model(stream, setting)
    observations = STREAMS[stream][1]
    keys = ["a", "b", "a", "a", "b", "a", "b"]
    pf = mdvpf.ParticleFilter(model, mdvpf.VPA(), ENOUGH)
    for observation, key in zip(observations, keys, strict=True):
        pf.update(observation, key)
    events = [Seen(observation, key) for observation, key in zip(observations, keys, strict=True)]
    tolerance = 1e-5 if setting in FADING else 1e-9
    assert pf.log_evidence == pytest.approx(log_evidence(rule, events), rel=0, abs=tolerance)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "algorithm",
    [
        mdvpf.SMC(),
        mdvpf.SMC("systematic", 0.5),
        mdvpf.ParticleLearning(),
        mdvpf.OptimalResampling(),
    ],
    ids=str,
)
@pytest.mark.parametrize("stream", ["gaussian", "poisson"])
def test_mean_evidence_over_seeds_is_the_marginal_likelihood(stream: str, algorithm: Any) -> None:
    n_seeds = 5_000
    rule, model = rule_and_model(stream, "plain")
    observations = STREAMS[stream][1][:5]
    estimates = np.empty(n_seeds)
    for seed in range(n_seeds):
        pf = mdvpf.ParticleFilter(model, algorithm, n_particles=6, rng=seed)
        pf.run(observations)
        estimates[seed] = math.exp(pf.log_evidence)
    exact = evidence(rule, [observations])
    standard_error = estimates.std(ddof=1) / math.sqrt(n_seeds)
    assert 0.0 < standard_error < 0.05 * exact
    assert estimates.mean() == pytest.approx(exact, rel=0, abs=4.0 * standard_error)
