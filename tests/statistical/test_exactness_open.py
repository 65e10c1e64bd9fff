"""Open alphabets: reference and core are exact, and predictions are distributions.

Where the core holds counts in 32 bits, it is exact to 1e-5.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import mdvpf
from mdvpf.reference import ReferenceFilter
from tests.enumeration import (
    Open,
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
from tests.kernel.open_models import growing_events
from tests.statistical.test_exactness import EXACT_ALGORITHMS

TOLERANCE = 1e-9

ALPHABETS = {
    "default": Open(),
    "no discount": Open(concentration=0.3, strength=2.0, discount=0.0),
    "large discount": Open(concentration=5.0, strength=0.1, discount=0.95),
}
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "any": {"oracle": "any"},
    "rows, sticky": {"oracle": "rows", "kappa": 0.7},
    "mealy": {"machine": "mealy"},
    "two states": {"max_states": 2},
    "forget 2": {"forget": 2.0},
    "half-life 1.5, rows, mealy": {"half_life": 1.5, "oracle": "rows", "machine": "mealy"},
}
STREAMS: dict[str, Sequences] = {
    "old and new": [[0, 1, 0, 0, 2, 1]],
    "all new": [[0, 1, 2, 3, 4]],
    "missing and breaks": [[None, 0, 1, None], [0, 2]],
    "all missing": [[None, None], [None]],
}


def model_for(rule: Rule) -> mdvpf.InfiniteHMM:
    assert rule.emission is not None
    fields = {
        name: getattr(rule, name)
        for name in ("alpha", "gamma", "oracle", "max_states", "machine", "kappa", "forget")
    }
    family = rule.emission
    return mdvpf.InfiniteHMM(
        **fields,
        half_life=rule.half_life,
        emission=mdvpf.OpenVocabulary(family.concentration, family.strength, family.discount),
    )


def rule_for(setting: str, alphabet: str = "default") -> Rule:
    return Rule(0, alpha=0.7, gamma=1.3, emission=ALPHABETS[alphabet], **SETTINGS[setting])


def feed(pf: Any, sequences: Sequences) -> None:
    for sequence in sequences:
        pf.new_sequence()
        for symbol in sequence:
            pf.update(symbol)


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("alphabet", ALPHABETS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_reference_that_drops_nothing_is_exact(setting: str, alphabet: str, stream: str) -> None:
    rule, sequences = rule_for(setting, alphabet), STREAMS[stream]
    exact = histories(rule, sequences)
    pf = ReferenceFilter(model_for(rule), mdvpf.VPA(), len(exact))
    feed(pf, sequences)
    seen = math.fsum(exact.values())
    assert pf.log_evidence == pytest.approx(math.log(seen), rel=0, abs=TOLERANCE)
    weights = {tuple(particle.path): particle.weight for particle in pf.particles}
    assert weights == pytest.approx(
        {path: probability / seen for path, probability in exact.items()}, rel=TOLERANCE
    )


@pytest.mark.parametrize("setting", SETTINGS)
def test_predictions_of_the_reference_are_ratios_of_evidences(setting: str) -> None:
    rule, sequences = rule_for(setting), STREAMS["missing and breaks"]
    pf = ReferenceFilter(model_for(rule), mdvpf.VPA(), 203)
    for known, symbol in zip(prefixes(sequences), flat(sequences), strict=True):
        if not known[-1]:
            pf.new_sequence()
        found = pf.predict_proba()
        assert len(found) == 1 + len({y for y in flat(known) if y is not None})
        assert found.sum() == pytest.approx(1.0, rel=0, abs=TOLERANCE)
        assert found == pytest.approx(np.array(predictive(rule, known)), rel=0, abs=TOLERANCE)
        pf.update(symbol)


@pytest.mark.parametrize("algorithm", EXACT_ALGORITHMS)
def test_every_reference_that_drops_nothing_is_exact(algorithm: str) -> None:
    rule, sequences = rule_for("plain"), STREAMS["missing and breaks"]
    pf = ReferenceFilter(model_for(rule), EXACT_ALGORITHMS[algorithm], 203, rng=0)
    feed(pf, sequences)
    assert pf.log_evidence == pytest.approx(log_evidence(rule, sequences), rel=0, abs=TOLERANCE)
    assert pf.predict_proba() == pytest.approx(
        np.array(predictive(rule, sequences)), rel=0, abs=TOLERANCE
    )


def core_tolerance(model: mdvpf.InfiniteHMM) -> float:
    return 1e-5 if model.has_real_counts else TOLERANCE


@pytest.mark.one_in(3)
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("alphabet", ALPHABETS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_core_that_drops_nothing_is_exact(setting: str, alphabet: str, stream: str) -> None:
    rule, sequences = rule_for(setting, alphabet), STREAMS[stream]
    exact = histories(rule, sequences)
    model = model_for(rule)
    pf = mdvpf.ParticleFilter(model, mdvpf.VPA(), len(exact), history="full")
    pf.run(flat(sequences), lengths=lengths(sequences))
    pf._core.verify()
    seen = math.fsum(exact.values())
    most = core_tolerance(model)
    assert pf.log_evidence == pytest.approx(math.log(seen), rel=0, abs=most)
    weights = {tuple(pf.path(k).tolist()): weight for k, weight in enumerate(pf.weights)}
    assert weights == pytest.approx(
        {path: probability / seen for path, probability in exact.items()}, rel=most
    )
    assert pf.predict_proba() == pytest.approx(
        np.array(predictive(rule, sequences)), rel=0, abs=most
    )


@pytest.mark.parametrize("algorithm", EXACT_ALGORITHMS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_every_core_that_drops_nothing_is_exact(setting: str, algorithm: str) -> None:
    rule, sequences = rule_for(setting), STREAMS["missing and breaks"]
    model = model_for(rule)
    pf = mdvpf.ParticleFilter(model, EXACT_ALGORITHMS[algorithm], 203, rng=0)
    most = core_tolerance(model)
    for known, symbol in zip(prefixes(sequences), flat(sequences), strict=True):
        if not known[-1]:
            pf.new_sequence()
        found = pf.predict_proba()
        assert found.sum() == pytest.approx(1.0, rel=0, abs=TOLERANCE)
        assert found == pytest.approx(np.array(predictive(rule, known)), rel=0, abs=most)
        pf.update(symbol)
    assert pf.log_evidence == pytest.approx(log_evidence(rule, sequences), rel=0, abs=most)


@pytest.mark.parametrize("normalizer", ["geometric", "sum", "none"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_mdvpa_without_a_discount_is_vpa_bit_for_bit(setting: str, normalizer: str) -> None:
    stream = growing_events(90, 0.2, breaks=False)
    vpa, mdvpa = (
        mdvpf.ParticleFilter(model_for(rule_for(setting)), algorithm, 6)
        for algorithm in (mdvpf.VPA(), mdvpf.MDVPA(discount=0.0, normalizer=normalizer))
    )
    found, expected = mdvpa.run(stream), vpa.run(stream)
    assert found.log_predictive.tobytes() == expected.log_predictive.tobytes()
    assert mdvpa.predict_proba().tobytes() == vpa.predict_proba().tobytes()


def test_evidences_of_all_strings_sum_to_one() -> None:
    third = Fraction(1, 3)
    rule = Rule(0, alpha=third, gamma=Fraction(2), emission=Open(third, Fraction(2), third))
    strings = [
        string
        for string in itertools.product(range(4), repeat=4)
        if all(y <= len(set(string[:i])) for i, y in enumerate(string))
    ]
    assert len(strings) == 15  # partitions of four things
    assert sum(evidence(rule, [string]) for string in strings) == 1


def test_lookahead_counts_the_pending_symbol_and_its_step_does_not() -> None:
    model = mdvpf.InfiniteHMM(emission=mdvpf.OpenVocabulary(1.0, 1.0, 0.5))
    pf = ReferenceFilter(model, mdvpf.MDVPA(discount=1.0, normalizer="none"), 10)
    for symbol in (0, 1, 0):
        pf.update(symbol)
    # The step of the 1 starts in state 0, which was entered once and emitted a 0. Its q is that of
    # a new symbol after one: (1 + 0.5) / 2. The look-ahead knows of a 0 and a 1: q(0) = 0.5 / 3.
    q, ahead = 1.5 / 2, 0.5 / 3
    stay = (1 / 2 * q / 2) * (1 / 2 * (1 + ahead) / 2)
    new = (1 / 2 * q) * (1 / 2 * ahead)
    weights = [particle.weight for particle in pf.committed]
    assert weights == pytest.approx([stay / (stay + new), new / (stay + new)])
