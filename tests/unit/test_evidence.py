"""`by_evidence`: weights are posteriors, and the mixture stays close to its best member."""

from __future__ import annotations

import math

import numpy as np
import pytest

import mdvpf


def stream(n: int) -> np.ndarray:
    return mdvpf.datasets.sample_hmms([mdvpf.datasets.EXPANSIVE], [n], rng=3).symbols


def test_weights_are_posteriors_of_the_members() -> None:
    mixture = mdvpf.by_evidence(8, n_seeds=2, n_particles=20, rng=1)
    alone = [member.copy() for member in mixture.members]
    symbols = stream(400)
    log_predictive = mixture.run(symbols).log_predictive
    evidence = np.array([member.run(symbols).log_predictive.sum() for member in alone])
    posterior = np.exp(evidence - evidence.max())
    assert mixture.weights == pytest.approx(posterior / posterior.sum(), abs=1e-9)
    assert log_predictive.sum() == pytest.approx(
        evidence.max() + math.log(posterior.sum() / 5), abs=1e-8
    )
    assert evidence.max() - log_predictive.sum() <= math.log(5)


def test_a_seed_repeats_it_and_a_file_continues(tmp_path: object) -> None:
    first, second = (mdvpf.by_evidence(8, n_seeds=2, n_particles=20, rng=7) for _ in range(2))
    symbols = stream(300)
    one, two = first.run(symbols[:200]), second.run(symbols[:200])
    assert one.log_predictive.tolist() == two.log_predictive.tolist()
    file = f"{tmp_path}/mixture"
    first.save(file)
    loaded = mdvpf.Mixture.load(file)
    assert loaded.recipe == {"name": "evidence", "n_seeds": 2, "n_particles": 20}
    on = [mixture.run(symbols[200:]).log_predictive.tolist() for mixture in (loaded, second)]
    assert on[0] == on[1]


def test_frozen_it_learns_nothing_and_predicts_the_same() -> None:
    mixture = mdvpf.by_evidence(8, n_seeds=2, n_particles=20, rng=7)
    mixture.run(stream(300), [300])
    mixture.new_sequence()
    frozen = mixture.freeze()
    assert frozen.predict_proba() == pytest.approx(mixture.predict_proba(), rel=1e-2)
    once = frozen.run([1, 2, 3], [3]).log_predictive.tolist()
    assert frozen.run([1, 2, 3], [3]).log_predictive.tolist() == once


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="n_seeds=0"):
        mdvpf.by_evidence(3, n_seeds=0)
    with pytest.raises(ValueError, match="n_symbols=0"):
        mdvpf.by_evidence(0)
