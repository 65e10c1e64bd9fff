"""A user's own rules: the reference runs and checks them, the core refuses them."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import mdvpf
from mdvpf import reference
from mdvpf.model.algorithms import ALGORITHMS
from mdvpf.reference import Advance, Particle, ReferenceFilter, SelectionRule

MODEL = mdvpf.InfiniteHMM(n_symbols=3, beta=0.5)
SYMBOLS = [0, 1, None, 2, 0, 1, 1, 2, 0]


class Best:
    """VPA as a user would write it."""

    def step(
        self,
        model: mdvpf.InfiniteHMM,
        particles: Sequence[Particle],
        symbol: int | None,
        n_particles: int,
        rng: np.random.Generator,
    ) -> Advance:
        candidates = reference.expand(model, particles, symbol)
        scores = [candidate.log_score for candidate in candidates]
        survivors = reference.select_top(scores, n_particles)
        return reference.advanced(particles, symbol, candidates, survivors)


class Drawn(Best):
    """One candidate, drawn in proportion to its score; its K copies are one particle."""

    def step(self, model, particles, symbol, n_particles, rng):  # type: ignore[no-untyped-def]
        candidates = reference.expand(model, particles, symbol)
        shares = [math.exp(candidate.log_score) for candidate in candidates]
        (i,) = reference.draw(shares, [rng.random()])
        return reference.advanced(particles, symbol, candidates, [reference.Survivor(i, 0.0)])


@dataclass
class Changed:
    """The result of the rule of VPA, damaged by a function after some symbols."""

    spoil: Callable[[Advance], Any]
    left: int = 4

    def step(self, model, particles, symbol, n_particles, rng):  # type: ignore[no-untyped-def]
        rng.random()
        found = Best().step(model, particles, symbol, n_particles, rng)
        self.left -= 1
        return found if self.left >= 0 else self.spoil(found)


def test_a_custom_copy_of_the_vpa_rule_gives_the_results_of_vpa() -> None:
    own, vpa = (ReferenceFilter(MODEL, rule, 6) for rule in (Best(), mdvpf.VPA()))
    for symbol in SYMBOLS:
        assert own.update(symbol) == vpa.update(symbol)
        assert own.particles == vpa.particles
    own.new_sequence()
    vpa.new_sequence()
    assert own.update(1) == vpa.update(1)
    assert (own.log_evidence, own.n_steps) == (vpa.log_evidence, vpa.n_steps)


def test_a_rule_draws_from_the_generator_of_the_filter() -> None:
    def evidence(seed: int) -> float:
        pf = ReferenceFilter(MODEL, Drawn(), 1, rng=seed)
        for symbol in SYMBOLS:
            pf.update(symbol)
        return pf.log_evidence

    assert evidence(3) == evidence(3)
    assert len({evidence(seed) for seed in range(10)}) > 1


def test_the_step_of_a_subclass_is_used() -> None:
    class Greedy(mdvpf.MDVPA):
        __slots__ = ()

        def step(self, model, particles, symbol, n_particles, rng):  # type: ignore[no-untyped-def]
            return Best().step(model, particles, symbol, 1, rng)

    own = ReferenceFilter(MODEL, Greedy(), 5)
    greedy = ReferenceFilter(MODEL, mdvpf.VPA(), 1)
    assert [own.update(s) for s in SYMBOLS] == [greedy.update(s) for s in SYMBOLS]
    assert isinstance(Greedy(), SelectionRule)
    assert not isinstance(mdvpf.MDVPA(), SelectionRule)


def test_evidence_of_a_rule_may_differ_from_its_predictive() -> None:
    class Told(Best):
        def step(self, *arguments: Any) -> Advance:
            return super().step(*arguments)._replace(log_evidence=-1.5)

    pf = ReferenceFilter(MODEL, Told(), 5)
    assert pf.update(0).log_predictive == pytest.approx(math.log(1 / 3))
    assert pf.log_evidence == -1.5


def heavier(found: Advance) -> Advance:
    return found._replace(particles=[replace(p, log_weight=0.0) for p in found.particles])


@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        (lambda found: None, TypeError, "returned NoneType: expected an Advance"),
        (lambda found: tuple(found), TypeError, "returned tuple: expected an Advance"),
        (lambda found: found._replace(particles=[]), ValueError, "returned 0 particles"),
        (
            lambda found: found._replace(particles=found.particles * 2),
            ValueError,
            r"returned 12 particles: expected 1\.\.6",
        ),
        (
            lambda found: found._replace(particles=tuple(found.particles)),
            TypeError,
            "expected a list of Particle",
        ),
        (lambda found: found._replace(particles=[0]), TypeError, "expected a list of Particle"),
        (heavier, ValueError, r"weights that sum to 6\.0: expected 1"),
        (lambda found: found._replace(ess=math.nan), ValueError, "returned ess=nan"),
        (lambda found: found._replace(discarded=2.0), ValueError, r"returned discarded=2\.0"),
        (lambda found: found._replace(log_evidence="1"), TypeError, "returned log_evidence='1'"),
        (lambda found: 1 // 0, ZeroDivisionError, "zero"),
    ],
)
def test_a_step_that_fails_leaves_filter_and_generator_as_they_were(
    spoil: Callable[[Advance], Any], error: type[Exception], message: str
) -> None:
    rng = np.random.default_rng(8)
    pf = ReferenceFilter(MODEL, Changed(spoil), 6, rng=rng)
    for symbol in SYMBOLS[:4]:
        pf.update(symbol)
    before = copy.deepcopy((pf.particles, pf.log_evidence, pf.n_steps, rng.bit_generator.state))
    with pytest.raises(error, match=message) as caught:
        pf.update(1)
    if error is not ZeroDivisionError:
        assert str(caught.value).startswith("Changed.step returned")
    assert (pf.particles, pf.log_evidence, pf.n_steps, rng.bit_generator.state) == before


class NoStep:
    step = 3


class Sub(mdvpf.MDVPA):
    __slots__ = ()


@pytest.mark.parametrize("algorithm", [NoStep(), Sub(), Best, mdvpf.VPA, "VPA", 5], ids=range(6))
def test_an_object_without_a_step_is_refused_with_a_remedy(algorithm: Any) -> None:
    with pytest.raises(TypeError, match="expected an instance of MDVPA, VPA, SMC") as caught:
        ReferenceFilter(MODEL, algorithm)
    message = str(caught.value)
    assert message.startswith(f"algorithm={algorithm!r}: ")
    assert "step(model, particles, symbol, n_particles, rng) -> Advance" in message
    assert "docs/howto/own-rule.md" in message


@pytest.mark.parametrize("kind", ALGORITHMS)
def test_the_core_refuses_subclasses_and_says_what_runs_them(kind: type) -> None:
    subclass = type("Mine", (kind,), {"__slots__": ()})
    with pytest.raises(TypeError, match=r"algorithm=.*Mine\(.*expected an instance of") as caught:
        mdvpf.ParticleFilter(MODEL, subclass())
    assert "mdvpf.reference.ReferenceFilter" in str(caught.value)
    assert "docs/howto/own-rule.md" in str(caught.value)


def test_the_core_refuses_custom_rules() -> None:
    with pytest.raises(TypeError, match="the core has only these five rules"):
        mdvpf.ParticleFilter(MODEL, Best())  # type: ignore[arg-type]
