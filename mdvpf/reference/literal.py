"""Literal readings of the paper's Algorithm 1 that the package does not use.

Each reading is a separate option, so that an experiment can measure its effect:

- `LiteralResult.log_leaked` scores a symbol with the set that was selected with that symbol as its
  look-ahead. It is not a prediction, because the filter has seen the symbol.
- ``initial_states=M_0`` starts from K particles, each in a random one of M_0 states, with weights
  w_0 drawn uniformly from the simplex. The oracle offers a state that was never entered with weight
  gamma, like the new state.
- ``carry_weights=False`` scores candidates without the weights of their parents.
- ``free_energy="lookahead"`` evaluates the first factor of the score with the next symbol too, the
  alternative that section 3.1 mentions.
- ``normalizer`` is ``"sum"`` (Algorithm 1), ``"mean over K"`` (section 3.1 and Appendix II: the sum
  of the logs over the particles that have the label, divided by K), ``"geometric"`` (the package's:
  divided by their number) or ``"none"``.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf.model import InfiniteHMM, extensions
from mdvpf.model.algorithms import MDVPA, Discount
from mdvpf.reference.particle import Particle, emission_probability
from mdvpf.reference.selection import Candidate, label_norm, log_sum_exp, select_top
from mdvpf.reference.steps import offspring

LiteralNormalizer = Literal["sum", "mean over K", "geometric", "none"]
FreeEnergy = Literal["symbol", "lookahead"]
NORMALIZERS: tuple[LiteralNormalizer, ...] = ("sum", "mean over K", "geometric", "none")


@dataclass(frozen=True, slots=True, eq=False)
class LiteralResult:
    """The result of a run of `LiteralFilter`.

    Attributes
    ----------
    log_predictive : ndarray
        Log probability of each symbol under the set that had not seen it.
    log_leaked : ndarray
        Log probability of each symbol under the set that was selected with it as the look-ahead.
        Not a prediction.
    mean_states : ndarray
        Weighted mean number of entered states after each symbol.
    """

    log_predictive: NDArray[np.float64]
    log_leaked: NDArray[np.float64]
    mean_states: NDArray[np.float64]


class LiteralFilter:
    """MD-VPA as Algorithm 1 prints it, in plain Python.

    Parameters
    ----------
    model : InfiniteHMM
        The model; without `max_states`.
    n_particles : int, default 100
        The budget K.
    discount, carry_weights
        As for `MDVPA`; the defaults are "1/n" and False.
    normalizer : {"sum", "mean over K", "geometric", "none"}, default "sum"
        The normalizer of the look-ahead of a candidate.
    free_energy : {"symbol", "lookahead"}, default "symbol"
        The symbol with which the first factor of the score is evaluated.
    initial_states : int, default 0
        M_0; 0 starts from one empty particle, as the package does.
    rng : None, int, SeedSequence, BitGenerator or Generator, optional
        Used for the initial states and weights only.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf.reference import LiteralFilter
    >>> pf = LiteralFilter(mdvpf.InfiniteHMM.paper(2), n_particles=10)
    >>> result = pf.run([0, 1, 0, 0, 1, 1] * 3)
    >>> predicted, leaked = result.log_predictive.sum(), result.log_leaked.sum()
    >>> print(f"{predicted:.3f} {leaked:.3f}")
    -13.828 -13.961
    """

    def __init__(
        self,
        model: InfiniteHMM,
        n_particles: int = 100,
        *,
        discount: Discount = "1/n",
        normalizer: LiteralNormalizer = "sum",
        carry_weights: bool = False,
        free_energy: FreeEnergy = "symbol",
        initial_states: int = 0,
        rng: Any = None,
    ) -> None:
        if not isinstance(model, InfiniteHMM):
            raise TypeError(f"model={model!r}: expected an InfiniteHMM")
        if model.max_states is not None:
            raise ValueError(f"model={model!r}: expected one without max_states")
        for name, value in extensions(model).items():
            raise ValueError(f"model={model!r}: expected the default for {name}={value!r}")
        validate.choice("normalizer", normalizer, NORMALIZERS)
        validate.choice("free_energy", free_energy, ["symbol", "lookahead"])
        self.model = model
        self.n_particles = validate.integer("n_particles", n_particles, low=1)
        self.algorithm = MDVPA(discount=discount, carry_weights=carry_weights)
        self.normalizer: LiteralNormalizer = normalizer
        self.free_energy: FreeEnergy = free_energy
        n_initial = validate.integer("initial_states", initial_states, low=0)
        self.particles = self._initial(n_initial, validate.generator("rng", rng))
        self.n_steps = 0

    def _initial(self, n_states: int, rng: np.random.Generator) -> list[Particle]:
        if n_states == 0:
            return [Particle()]
        states = rng.integers(n_states, size=self.n_particles).tolist()
        weights = rng.dirichlet(np.ones(self.n_particles)).tolist()
        return [
            Particle(
                state=state,
                n_states=n_states,
                log_weight=math.log(weight),
                into=dict.fromkeys(range(n_states), 0),
            )
            for state, weight in zip(states, weights, strict=True)
        ]

    def run(self, symbols: Sequence[int]) -> LiteralResult:
        """Absorb a sequence of symbols, none of them missing; the last one has no look-ahead."""
        codes = validate.integers("symbols", symbols, low=0, high=self.model.n_symbols - 1).tolist()
        honest: list[float] = []
        leaked: list[float] = []
        states: list[float] = []
        for symbol, lookahead in zip(codes, [*codes[1:], None], strict=True):
            candidates = self._expand(symbol)
            if not honest:  # no set was selected with the first symbol as look-ahead
                leaked.append(self._log_predictive(self.particles, symbol))
                honest.append(leaked[0])
            scores = self._base_scores(candidates)
            shown = self._children(symbol, candidates, scores)
            if lookahead is not None:
                honest.append(self._log_predictive(shown, lookahead))
                terms = self._terms(candidates, lookahead)
                discount = self.algorithm.discount_at(self.n_steps + 1)
                if self.free_energy == "lookahead":
                    scores = self._base_scores(self._expand(lookahead))
                scores = [a + discount * b for a, b in zip(scores, terms, strict=True)]
                shown = self._children(symbol, candidates, scores)
                leaked.append(self._log_predictive(shown, lookahead))
            self.particles = shown
            self.n_steps += 1
            entered = [sum(n > 0 for n in particle.into.values()) for particle in shown]
            states.append(math.fsum(p.weight * n for p, n in zip(shown, entered, strict=True)))
        return LiteralResult(np.array(honest), np.array(leaked), np.array(states))

    # -- one step --------------------------------------------------------------------------

    def _expand(self, symbol: int) -> list[Candidate]:
        """Return all candidates; their scores include the weights of their parents."""
        return [
            Candidate(k, state, particle.log_weight + log_potential)
            for k, particle in enumerate(self.particles)
            for state, log_potential in enumerate(self._log_potentials(particle, symbol))
        ]

    def _base_scores(self, candidates: Sequence[Candidate]) -> list[float]:
        """Return the scores of candidates, without their parents' weights if so configured."""
        if self.algorithm.carry_weights:
            return [candidate.log_score for candidate in candidates]
        return [
            candidate.log_score - self.particles[candidate.parent].log_weight
            for candidate in candidates
        ]

    def _log_potentials(self, particle: Particle, symbol: int) -> list[float]:
        return [
            math.log(move) + math.log(emission_probability(self.model, particle, state, symbol))
            for state, move in enumerate(literal_transitions(self.model, particle))
        ]

    def _log_predictive(self, particles: Sequence[Particle], symbol: int) -> float:
        return log_sum_exp(
            [
                particle.log_weight + log_potential
                for particle in particles
                for log_potential in self._log_potentials(particle, symbol)
            ]
        )

    def _terms(self, candidates: Sequence[Candidate], lookahead: int) -> list[float]:
        """Return the regret term of each candidate, before the discount."""
        foreseen = [self._log_potentials(particle, lookahead) for particle in self.particles]
        by_label: defaultdict[int, list[float]] = defaultdict(list)
        for candidate in candidates:
            by_label[candidate.state].append(foreseen[candidate.parent][candidate.state])
        norm = {label: self._norm(values) for label, values in by_label.items()}
        return [foreseen[k][state] - norm[state] for k, state, _ in candidates]

    def _norm(self, log_values: Sequence[float]) -> float:
        if self.normalizer == "mean over K":
            return math.fsum(log_values) / self.n_particles
        return label_norm(log_values, self.normalizer, self.n_particles)

    def _children(
        self, symbol: int, candidates: Sequence[Candidate], scores: Sequence[float]
    ) -> list[Particle]:
        survivors = select_top(scores, self.n_particles)
        return offspring(self.particles, symbol, candidates, survivors)


def literal_transitions(model: InfiniteHMM, particle: Particle) -> list[float]:
    """Return the probability of each next state, the new one last.

    Unlike in `transition_probabilities`, the oracle offers a state that exists but was never
    entered with weight gamma, like the new state: "a new state (i.e, one never visited from any
    state ...)" of Appendix I.
    """
    states = range(particle.n_states)
    seen = [particle.transition.get((particle.state, state), 0) for state in states]
    offered = [
        0.0 if seen[c] and model.oracle == "unvisited" else (particle.into[c] or model.gamma)
        for c in states
    ]
    oracle_total = sum(offered) + model.gamma
    mass = [seen[c] + model.alpha * (offered[c] / oracle_total) for c in states]
    mass.append(model.alpha * (model.gamma / oracle_total))
    total = sum(seen) + model.alpha
    return [part / total for part in mass]
