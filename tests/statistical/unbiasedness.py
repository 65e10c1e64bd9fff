"""The mean of the evidence over seeds against enumeration."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import numpy as np
import pytest

import mdvpf
from mdvpf.model.algorithms import Algorithm
from tests.enumeration import Rule, Sequences, evidence, flat, lengths

N_SEEDS = 10_000


@dataclass(frozen=True)
class Case:
    """A model, a stream and a number of particles.

    Few particles, and patterns that repeat: early success of a particle predicts later success, so
    that a weight lost or kept by mistake biases the evidence by several per cent.
    """

    rule: Rule
    sequences: Sequences
    n_particles: int


def check_mean_evidence(case: Case, algorithm: Algorithm) -> None:
    """Check that the mean over seeds is the marginal likelihood, within four standard errors."""
    model = mdvpf.InfiniteHMM(**asdict(case.rule))
    symbols, parts = flat(case.sequences), lengths(case.sequences)
    estimates = np.empty(N_SEEDS)
    for seed in range(N_SEEDS):
        pf = mdvpf.ParticleFilter(model, algorithm, case.n_particles, rng=seed)
        pf.run(symbols, lengths=parts)
        estimates[seed] = math.exp(pf.log_evidence)

    exact = evidence(case.rule, case.sequences)
    standard_error = estimates.std(ddof=1) / math.sqrt(N_SEEDS)
    assert 0.0 < standard_error < 0.02 * exact
    assert estimates.mean() == pytest.approx(exact, rel=0, abs=4.0 * standard_error)
