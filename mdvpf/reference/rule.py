"""`SelectionRule`: the interface of a user's selection rule, and the checks of its results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from mdvpf._support import validate
from mdvpf.model import InfiniteHMM
from mdvpf.model.algorithms import ALGORITHMS, OWN_RULE_PAGE, Algorithm
from mdvpf.reference.particle import Particle, Symbol
from mdvpf.reference.steps import Advance

_TOLERANCE = 1e-6  # of the sum of the weights


@runtime_checkable
class SelectionRule(Protocol):
    """A rule that decides which candidates survive: any object with a method `step`.

    The first step receives one empty particle. A step must not change its particles; `move` and
    `advanced` create children of them.

    Examples
    --------
    The rule of VPA:

    >>> import mdvpf
    >>> from mdvpf import reference
    >>> class Best:
    ...     def step(self, model, particles, symbol, n_particles, rng):
    ...         candidates = reference.expand(model, particles, symbol)
    ...         scores = [candidate.log_score for candidate in candidates]
    ...         survivors = reference.select_top(scores, n_particles)
    ...         return reference.advanced(particles, symbol, candidates, survivors)
    >>> model = mdvpf.InfiniteHMM(n_symbols=2, beta=1.0)
    >>> own = reference.ReferenceFilter(model, Best(), n_particles=3)
    >>> vpa = reference.ReferenceFilter(model, mdvpf.VPA(), n_particles=3)
    >>> all(own.update(symbol) == vpa.update(symbol) for symbol in (0, 0, 1, 0, 1))
    True
    """

    def step(
        self,
        model: InfiniteHMM,
        particles: Sequence[Particle],
        symbol: Symbol,
        n_particles: int,
        rng: np.random.Generator,
    ) -> Advance:
        """Return the set after a step.

        Parameters
        ----------
        model : InfiniteHMM
            The model.
        particles : sequence of Particle
            The set before the step; its weights sum to one.
        symbol : int or None
            The symbol to absorb; None if it is missing.
        n_particles : int
            The budget: the set may not be larger after the step.
        rng : numpy.random.Generator
            The source of random numbers. If the step raises, its state is restored.

        Returns
        -------
        Advance
            The particles, at least one, with weights that sum to one; the effective sample size;
            and the share of the candidates' weight that was discarded.
        """
        ...


def checked_algorithm(algorithm: Any) -> Algorithm | SelectionRule:
    """Return an algorithm that the reference can run, or raise."""
    if type(algorithm) in ALGORITHMS:
        known: Algorithm = algorithm
        return known
    if not isinstance(algorithm, type) and callable(getattr(algorithm, "step", None)):
        rule: SelectionRule = algorithm
        return rule
    raise TypeError(
        f"algorithm={algorithm!r}: expected an instance of "
        + ", ".join(kind.__name__ for kind in ALGORITHMS)
        + " (of a subclass only if it has a step of its own), or any object with a method "
        f"step(model, particles, symbol, n_particles, rng) -> Advance, see {OWN_RULE_PAGE}"
    )


def run_rule(
    rule: SelectionRule,
    model: InfiniteHMM,
    particles: Sequence[Particle],
    symbol: Symbol,
    n_particles: int,
    rng: np.random.Generator,
) -> Advance:
    """Run a step of a rule and check its result; on an error, restore the state of `rng`."""
    state = rng.bit_generator.state
    try:
        found = rule.step(model, particles, symbol, n_particles, rng)
        _check(found, f"{type(rule).__name__}.step", n_particles)
    except BaseException:
        rng.bit_generator.state = state
        raise
    return found


def _check(found: Any, name: str, n_particles: int) -> None:
    if not isinstance(found, Advance):
        raise TypeError(f"{name} returned {type(found).__name__}: expected an Advance")
    particles = found.particles
    if not isinstance(particles, list) or not all(isinstance(p, Particle) for p in particles):
        raise TypeError(f"{name} returned particles={particles!r}: expected a list of Particle")
    if not 1 <= len(particles) <= n_particles:
        raise ValueError(
            f"{name} returned {len(particles)} particles: expected 1..{n_particles}, the budget"
        )
    total = math.fsum(particle.weight for particle in particles)
    if not abs(total - 1.0) <= _TOLERANCE:
        raise ValueError(f"{name} returned weights that sum to {total!r}: expected 1")
    validate.real(f"{name} returned ess", found.ess, low=0.0, high=math.inf)
    validate.real(
        f"{name} returned discarded", found.discarded, low=-_TOLERANCE, high=1 + _TOLERANCE
    )
    if found.log_evidence is not None:
        validate.real(
            f"{name} returned log_evidence",
            found.log_evidence,
            low=-math.inf,
            high=math.inf,
            also=", or None",
        )
