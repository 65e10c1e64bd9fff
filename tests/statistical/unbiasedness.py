"""The mean of the evidence over seeds against enumeration."""

from __future__ import annotations

import math
from dataclasses import asdict

import numpy as np
import pytest

import mdvpf
from mdvpf.model.algorithms import Algorithm
from tests.enumeration import Rule, Sequences, evidence, flat, lengths


def check_mean_evidence(
    rule: Rule, sequences: Sequences, algorithm: Algorithm, n_particles: int, n_seeds: int
) -> None:
    """Check that the mean over seeds is the marginal likelihood, within four standard errors."""
    model = mdvpf.InfiniteHMM(**asdict(rule))
    symbols, parts = flat(sequences), lengths(sequences)
    estimates = np.empty(n_seeds)
    for seed in range(n_seeds):
        pf = mdvpf.ParticleFilter(model, algorithm, n_particles=n_particles, rng=seed)
        pf.run(symbols, lengths=parts)
        estimates[seed] = math.exp(pf.log_evidence)

    exact = evidence(rule, sequences)
    standard_error = estimates.std(ddof=1) / math.sqrt(n_seeds)
    assert 0.0 < standard_error < 0.02 * exact
    assert estimates.mean() == pytest.approx(exact, rel=0, abs=4.0 * standard_error)
