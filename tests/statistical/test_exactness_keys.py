"""Interleaved sequences against enumeration: each key has a position, and all share the counts."""

from __future__ import annotations

import math
from dataclasses import asdict

import numpy as np
import pytest

import mdvpf
from mdvpf.model.algorithms import Algorithm
from mdvpf.reference import ReferenceFilter
from tests.enumeration import End, Event, Rule, Seen, evidence, histories, predictive
from tests.statistical.test_exactness_reference import hash_of, rule_of, settings

KEYS = (None, "a", 7)


def random_events(seed: int, n: int, n_symbols: int) -> list[Event]:
    """Interleaved sequences with missing symbols and ends."""
    rng = np.random.default_rng(seed)
    events: list[Event] = []
    for _ in range(n):
        if rng.random() < 0.25:
            events.append(End(KEYS[rng.integers(len(KEYS))]))
        symbol = None if rng.random() < 0.2 else int(rng.integers(n_symbols))
        events.append(Seen(symbol, KEYS[rng.integers(len(KEYS))]))
    return events


def feed(pf: ReferenceFilter, events: list[Event]) -> list[float]:
    """The log predictives of a stream."""
    found = []
    for event in events:
        if isinstance(event, End):
            pf.new_sequence(event.key)
        else:
            found.append(pf.update(event.symbol, event.key).log_predictive)
    return found


def reference_for(rule: Rule, algorithm: Algorithm, n_particles: int) -> ReferenceFilter:
    return ReferenceFilter(mdvpf.InfiniteHMM(**asdict(rule)), algorithm, n_particles, rng=0)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("forgetting", "oracle", "machine", "kappa", "max_states"), settings())
@pytest.mark.parametrize("seed", range(2))
def test_vpa_that_drops_nothing_is_exact_for_every_key(
    forgetting: str, oracle: str, machine: str, kappa: float, max_states: int | None, seed: int
) -> None:
    rule = rule_of(forgetting, oracle, machine, kappa, max_states, seed)
    events = random_events(hash_of(forgetting, oracle, machine) + seed, 6, rule.n_symbols)
    exact = histories(rule, events)
    pf = reference_for(rule, mdvpf.VPA(), len(exact))
    log_predictives = feed(pf, events)
    seen = math.fsum(exact.values())
    assert math.fsum(log_predictives) == pytest.approx(math.log(seen), rel=0, abs=1e-9)
    weights = {tuple(particle.path): particle.weight for particle in pf.particles}
    assert weights == pytest.approx(
        {path: probability / seen for path, probability in exact.items()}, rel=1e-9, abs=0
    )
    for key in (*KEYS, "never used"):
        assert pf.predict_proba(key) == pytest.approx(
            np.array(predictive(rule, events, key)), rel=0, abs=1e-9
        )


EXACT_ALGORITHMS: dict[str, Algorithm] = {
    "VPA": mdvpf.VPA(),
    "MD-VPA": mdvpf.MDVPA(discount=0.0),
    "MD-VPA, optimal": mdvpf.MDVPA(discount=0.0, selection="optimal"),
    "OptimalResampling": mdvpf.OptimalResampling(),
}


@pytest.mark.parametrize("algorithm", EXACT_ALGORITHMS)
@pytest.mark.parametrize("machine", ["moore", "mealy"])
def test_predictive_of_every_key_before_every_symbol_is_the_ratio_of_evidences(
    machine: str, algorithm: str
) -> None:
    rule = Rule(2, alpha=1.4, gamma=0.8, beta=0.25, machine=machine, forget=1.0)
    events = random_events(5, 5, 2)
    pf = reference_for(rule, EXACT_ALGORITHMS[algorithm], 203)
    for i, event in enumerate(events):
        known = events[:i]
        for key in KEYS:
            assert pf.predict_proba(key) == pytest.approx(
                np.array(predictive(rule, known, key)), rel=0, abs=1e-9
            )
        if isinstance(event, End):
            pf.new_sequence(event.key)
            continue
        ratio = evidence(rule, [*known, event]) / evidence(rule, known)
        step = pf.update(event.symbol, event.key)
        assert step.log_predictive == pytest.approx(math.log(ratio), rel=0, abs=1e-9)


def test_positions_are_of_keys_and_counts_of_all() -> None:
    # By hand: S -> 0 for "a", then "b" from S again: 0 was entered once by a transition S -> 0.
    rule = Rule(2, alpha=1.0, gamma=1.0, beta=1.0)
    pf = reference_for(rule, mdvpf.VPA(), 2)
    pf.update(0, "a")
    pf.update(0, "b")
    stay, fresh = pf.particles
    assert (stay.path, fresh.path) == ([0, 0], [0, 1])
    # S -> 0 is a visited transition, 1 / 2, and the new state has the rest; e[0] is (1 + 1) / 3.
    assert stay.weight == pytest.approx((1 / 2 * 2 / 3) / (1 / 2 * 2 / 3 + 1 / 2 * 1 / 2))
    assert stay.counts(2).start.tolist() == [2]
    assert fresh.counts(2).start.tolist() == [1, 1]
    assert fresh.counts(2).transition.tolist() == [[0, 0], [0, 0]]
