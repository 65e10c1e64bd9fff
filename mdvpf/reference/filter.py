"""`ReferenceFilter`: runs the steps of any algorithm, and delays those of MD-VPA by a symbol."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf.model import Clock, InfiniteHMM, read_observation
from mdvpf.model.algorithms import (
    DUPLICATING,
    MDVPA,
    SMC,
    VPA,
    Algorithm,
    OptimalResampling,
    ParticleLearning,
)
from mdvpf.predictor import Step
from mdvpf.predictor.keys import read_max_keys
from mdvpf.reference.memory import Memory
from mdvpf.reference.particle import Key, Particle, Symbol, at_clock, ended, standing
from mdvpf.reference.rule import SelectionRule, checked_algorithm, run_rule
from mdvpf.reference.selection import log_predictive
from mdvpf.reference.steps import (
    Advance,
    mdvpa_step,
    optimal_resampling_step,
    particle_learning_step,
    smc_step,
    vpa_step,
)


class Pending(NamedTuple):
    """A symbol whose step waits for the look-ahead, the set shown, and how many it keeps."""

    symbol: Symbol
    key: Key
    provisional: list[Particle]
    kept: int


class ReferenceFilter:
    """A particle filter for the infinite hidden Markov model in plain Python.

    Parameters
    ----------
    model : InfiniteHMM
        The model and its hyper-parameters.
    algorithm : MDVPA, VPA, SMC, ParticleLearning, OptimalResampling or SelectionRule, optional
        How particles are selected; ``MDVPA()`` by default. Also accepts any object with the method
        ``step`` of `SelectionRule`.
    n_particles : int, default 1000
        The budget of particles.
    rng : Generator, int or None, optional
        The source of random numbers, as `numpy.random.default_rng` takes it. MDVPA (with
        ``selection="top"``) and VPA draw none.
    rounding : bool, default False
        Round counts to 24 significant bits as the compiled core does with forgetting, Mealy rows,
        the oracle of rows or stickiness (see `Memory`), to compare it survivor by survivor.
    max_keys : int or None, optional
        Largest number of keys in use; a further key ends the one updated longest ago. None means
        no limit.

    Attributes
    ----------
    log_evidence : float
        Log evidence of all symbols so far.
    n_steps : int
        Number of completed steps; with MDVPA the step of the last symbol is pending.

    Examples
    --------
    >>> from mdvpf.model.algorithms import VPA
    >>> from mdvpf.model import InfiniteHMM
    >>> from mdvpf.reference import ReferenceFilter
    >>> pf = ReferenceFilter(InfiniteHMM(n_symbols=2, beta=1.0), VPA(), n_particles=10)
    >>> pf.predict_proba().tolist()
    [0.5, 0.5]
    >>> pf.update(0).n_particles
    1
    >>> pf.predict_proba().round(4).tolist()
    [0.5833, 0.4167]
    >>> round(pf.update(0).mean_states, 4)
    1.4286
    >>> [(particle.path, round(particle.weight, 4)) for particle in pf.particles]
    [([0, 0], 0.5714), ([0, 1], 0.4286)]

    The same with counts that fade, and with the rounding of the compiled core:

    >>> model = InfiniteHMM(n_symbols=2, half_life=7.0)
    >>> exact, rounded = (
    ...     ReferenceFilter(model, VPA(), n_particles=10, rounding=rounding)
    ...     for rounding in (False, True)
    ... )
    >>> for pf in (exact, rounded):
    ...     for symbol in (0, 0, 1, 0, 1):
    ...         step = pf.update(symbol)
    >>> 0.0 < abs(rounded.log_evidence - exact.log_evidence) < 1e-6
    True

    Two interleaved sequences, which share all counts:

    >>> pf = ReferenceFilter(InfiniteHMM(n_symbols=2, beta=1.0), VPA(), n_particles=10)
    >>> for symbol, key in [(0, "a"), (1, "b"), (0, "a"), (1, "b")]:
    ...     step = pf.update(symbol, key)
    >>> pf.predict_proba("a").round(3).tolist(), pf.predict_proba("b").round(3).tolist()
    ([0.503, 0.497], [0.498, 0.502])
    >>> pf.n_keys
    2
    """

    def __init__(
        self,
        model: InfiniteHMM,
        algorithm: Algorithm | SelectionRule | None = None,
        n_particles: int = 1000,
        *,
        rng: Any = None,
        rounding: bool = False,
        max_keys: int | None = None,
    ) -> None:
        if not isinstance(model, InfiniteHMM):
            raise TypeError(f"model={model!r}: expected an InfiniteHMM")
        self.model = model
        self.algorithm = checked_algorithm(MDVPA() if algorithm is None else algorithm)
        self.n_particles = validate.integer("n_particles", n_particles, low=1)
        self.rounding = validate.flag("rounding", rounding)
        self.max_keys = read_max_keys(max_keys)
        self.log_evidence = 0.0
        self.n_steps = 0
        self._rng = validate.generator("rng", rng)
        self._kept = self.n_particles  # at most, after each of the next steps
        self._committed = self._empty_particles()
        self._clock = model.clock
        self._pending: Pending | None = None
        self._keys: OrderedDict[Key, None] = OrderedDict()  # the least recently updated first

    def _empty_particles(self) -> list[Particle]:
        n = self.n_particles if type(self.algorithm) in DUPLICATING else 1
        memory = Memory.of(self.model, rounding=self.rounding)
        return [Particle(log_weight=-math.log(n), memory=memory) for _ in range(n)]

    @property
    def committed(self) -> list[Particle]:
        """Particles after the completed steps; MDVPA shows others while a symbol is pending."""
        return list(self._committed)

    @property
    def particles(self) -> list[Particle]:
        """Particles of the shown set: with MDVPA, the provisional set if a symbol is pending."""
        return list(self._committed if self._pending is None else self._pending.provisional)

    @property
    def n_keys(self) -> int:
        """Number of keys in use."""
        return len(self._keys)

    @property
    def n_symbols(self) -> int:
        """Size of the alphabet; for an open one, the number of symbols seen; 0 for numbers."""
        if self.model.numbers is not None:
            return 0
        return len(self.particles[0].seen) if self.model.is_open else self.model.n_symbols

    def predict_proba(self, key: Key = None, *, time: float | None = None) -> NDArray[np.float64]:
        """Return the distribution of the next symbol of a key.

        In an open alphabet the last entry is the probability of a symbol never seen. Families over
        numbers have `log_density` instead.
        """
        if self.model.numbers is not None:
            raise TypeError(f"emission={self.model.numbers!r}: expected log_density(observation)")
        particles = self._shown(key, self._clock_at(time))
        log_probabilities = [
            log_predictive(self.model, particles, symbol)
            for symbol in range(self.n_symbols + self.model.is_open)
        ]
        return np.array([math.exp(value) for value in log_probabilities])

    def log_density(self, observation: Any, key: Key = None, *, time: float | None = None) -> float:
        """Return the log density of an observation as the next one of a key."""
        particles = self._shown(key, self._clock_at(time))
        return log_predictive(self.model, particles, self._read(observation))

    def _read(self, symbol: Any) -> Symbol:
        """Validate an observation and return it as particles store it."""
        family = self.model.numbers
        if family is not None:
            n_open = len(self.particles[0].memory.open_channels)
            seen = self.particles[0].seen or ((),) * n_open
            n_seen = [len(times) for times in seen]
            numbers = tuple(read_observation(family, symbol, n_seen).tolist())
            return None if all(math.isnan(number) for number in numbers) else numbers
        if symbol is None:
            return None
        most = self.n_symbols if self.model.is_open else self.n_symbols - 1
        return validate.integer("symbol", symbol, low=0, high=most)

    def _clock_at(self, time: float | None) -> Clock | None:
        return None if self._clock is None else self._clock.at(time)

    def _shown(self, key: Key, clock: Clock | None) -> list[Particle]:
        """Return the shown particles at the position of a key and the time of a clock."""
        elapsed = 0.0 if clock is None else clock.elapsed
        return [standing(at_clock(particle, elapsed), key) for particle in self.particles]

    def update(self, symbol: Any, key: Key = None, *, time: float | None = None) -> Step:
        """Absorb one observation, None if it is missing; report on the set shown after it."""
        symbol = self._read(symbol)
        makes_room = key not in self._keys and self.n_keys == self.max_keys
        self._clock = self._clock_at(time)
        before = log_predictive(self.model, self._shown(key, self._clock), symbol)
        if self._pending is None:
            self._committed = self._at_clock(self._committed)
        if type(self.algorithm) is MDVPA:
            after = self._wait_for_lookahead(self.algorithm, symbol, key)
        else:
            after = self._advance(symbol, key)
            self._commit(after.particles)
        self._keys[key] = None
        self._keys.move_to_end(key)
        if makes_room:
            self._end_unused()
        self.log_evidence += before if after.log_evidence is None else after.log_evidence
        return Step(
            log_predictive=before,
            mean_states=math.fsum(p.weight * len(p.into) for p in after.particles),
            ess=after.ess,
            n_particles=len(after.particles),
            discarded=after.discarded,
        )

    def new_sequence(self, key: Key = None) -> None:
        """End the sequence of a key; counts, weights and the number of steps are kept."""
        if type(self.algorithm) is MDVPA and self._pending is not None:
            self._commit(self._completed(self.algorithm, self._pending, lookahead=None))
        self._committed = [ended(particle, key) for particle in self._committed]
        self._keys.pop(key, None)

    def _end_unused(self) -> None:
        """End the key used longest ago: the step that a new key completes is complete by now."""
        unused, _ = self._keys.popitem(last=False)
        self._committed = [ended(particle, unused) for particle in self._committed]
        if self._pending is not None:
            provisional = [ended(particle, unused) for particle in self._pending.provisional]
            self._pending = self._pending._replace(provisional=provisional)

    def _at_clock(self, particles: list[Particle]) -> list[Particle]:
        """Return particles with their counts as of the latest time."""
        if self._clock is None:
            return particles
        return [at_clock(particle, self._clock.elapsed) for particle in particles]

    def _keep(self, n: int) -> None:
        """Let the steps on the next symbols keep at most n particles."""
        self._kept = validate.integer("n", n, low=1, high=self.n_particles)

    def _commit(self, particles: list[Particle]) -> None:
        self._committed = self._at_clock(particles)
        self._pending = None
        self.n_steps += 1

    def _advance(self, symbol: Symbol, key: Key) -> Advance:
        algorithm = self.algorithm
        model, k = self.model, self._kept
        particles = [standing(particle, key) for particle in self._committed]
        if type(algorithm) is VPA:
            return vpa_step(model, particles, symbol, k, carry_weights=algorithm.carry_weights)
        if type(algorithm) is SMC:
            return smc_step(model, particles, symbol, algorithm, self._rng)
        if type(algorithm) is ParticleLearning:
            return particle_learning_step(model, particles, symbol, self._rng)
        if type(algorithm) is OptimalResampling:
            return optimal_resampling_step(model, particles, symbol, k, self._rng.random)
        assert isinstance(algorithm, SelectionRule)
        return run_rule(algorithm, model, particles, symbol, k, self._rng)

    def _wait_for_lookahead(self, algorithm: MDVPA, symbol: Symbol, key: Key) -> Advance:
        """Complete the pending step, and make the symbol pending.

        The symbol is the look-ahead of the pending step if both have the same key.
        """
        if self._pending is not None:
            lookahead = symbol if key == self._pending.key else None
            self._commit(self._completed(algorithm, self._pending, lookahead=lookahead))
        self._committed = [standing(particle, key) for particle in self._committed]
        provisional = vpa_step(
            self.model,
            self._committed,
            symbol,
            self._kept,
            carry_weights=algorithm.carry_weights,
        )
        self._pending = Pending(symbol, key, provisional.particles, self._kept)
        return provisional

    def _completed(self, algorithm: MDVPA, pending: Pending, lookahead: Symbol) -> list[Particle]:
        discount = 0.0
        if lookahead is not None:
            discount = float(algorithm.discounts([self.n_steps + 1])[0])
        return mdvpa_step(
            self.model,
            self._committed,
            pending.symbol,
            lookahead,
            self.n_particles,
            algorithm,
            discount,
            self._rng.random,
            n_kept=pending.kept,
        )
