"""`Options` of an experiment; each experiment has its own defaults."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Self

from mdvpf._support import validate
from mdvpf.experiments.methods import ALL_NAMES, EXPERIMENT_NAMES, Entry, Filter, entries
from mdvpf.model import InfiniteHMM, Machine, Oracle
from mdvpf.model.algorithms import MDVPA, Algorithm, Normalizer, Selection
from mdvpf.streams.methods import (
    ALGORITHM_SETTINGS,
    ALGORITHMS,
    BASE,
    EXTENSION_SETTINGS,
    MODEL_SETTINGS,
    check_settings,
    configured_algorithm,
    resolve_method,
)

MOST_SEEDS = 100_000

# Settings that at least one of the named methods must have. Other settings need no check: MD-VPA,
# which always runs, has them.
CHECKED_SETTINGS = ("oracle", "max_states", *EXTENSION_SETTINGS, *ALGORITHM_SETTINGS)


@dataclass(frozen=True, slots=True)
class Options:
    """Size, seeds and hyper-parameters of an experiment.

    Parameters
    ----------
    particles : int
        The budget K of the filters.
    seeds : int
        Number of streams: data seeds, windows or blocks.
    length : int
        Number of symbols of a part of a stream; each experiment defines which part.
    alpha, gamma, beta : float, optional
        Hyper-parameters of the infinite HMM; by default 1, 1 and 0.3, as in
        `InfiniteHMM.paper`.
    oracle, max_states, machine, kappa, forget, half_life : optional
        Other settings of the infinite HMM; by default as in `InfiniteHMM`.
    discount, normalizer, carry_weights, selection : optional
        Settings of MD-VPA; VPA has `carry_weights`, too. By default as in `MDVPA`.
    most_particles : int, default 10000
        Number of particles of the reference, or the largest one of a grid.
    methods : tuple of str, default EXPERIMENT_NAMES
        Names of the methods, as for `resolve_method`; MD-VPA is always added.
    seed : int, default 0
        Seed from which all other seeds are spawned.
    literal : bool, default False
        Whether to run the literal readings of Algorithm 1, too (artificial).
    given : tuple of str, optional
        Names of the options that the user has set.

    Examples
    --------
    >>> from mdvpf.experiments.options import Options
    >>> Options(particles=100, seeds=50, length=150).changed(seeds=None, beta=1.0).beta
    1.0
    """

    particles: int
    seeds: int
    length: int
    alpha: float = 1.0
    gamma: float = 1.0
    beta: float = 0.3
    oracle: Oracle = "unvisited"
    max_states: int | None = None
    machine: Machine = "moore"
    kappa: float = 0.0
    forget: float = 0.0
    half_life: float | None = None
    discount: str | float = "1/n"
    normalizer: Normalizer = "geometric"
    carry_weights: bool = True
    selection: Selection = "top"
    most_particles: int = 10_000
    methods: tuple[str, ...] = EXPERIMENT_NAMES
    seed: int = 0
    literal: bool = False
    given: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("particles", "most_particles"):
            validate.integer(name, getattr(self, name), low=1)
        validate.integer("seeds", self.seeds, low=1, high=MOST_SEEDS)
        validate.integer("length", self.length, low=20)
        validate.integer("seed", self.seed, low=0)
        InfiniteHMM(1, **{name: getattr(self, name) for name in MODEL_SETTINGS})  # checks them
        algorithm = MDVPA(**{name: getattr(self, name) for name in ALGORITHM_SETTINGS})
        if not isinstance(algorithm.discount, (str, float)):  # a file cannot store a callable
            raise TypeError(f"discount={self.discount!r}: expected a name or a number")
        object.__setattr__(self, "discount", algorithm.discount)
        chosen = [resolve_method(name, ALL_NAMES, argument="methods") for name in self.methods]
        given = {name: getattr(self, name) for name in CHECKED_SETTINGS if name in self.given}
        check_settings(chosen, given)
        names = {BASE, *chosen}
        object.__setattr__(self, "methods", tuple(name for name in ALL_NAMES if name in names))

    def changed(self, **values: int | float | str | tuple[str, ...] | None) -> Self:
        """Return the options with some values replaced; None leaves a value unchanged."""
        known = {field.name for field in fields(self)}
        given = {name: value for name, value in values.items() if value is not None}
        if not given.keys() <= known:
            raise TypeError(f"unknown options: {sorted(given.keys() - known)}")
        return replace(self, **given, given=tuple(given))  # type: ignore[arg-type]

    def algorithm(self, name: str) -> Algorithm:
        """Return the algorithm of a name with the settings of these options."""
        return configured_algorithm(
            name, {setting: getattr(self, setting) for setting in ALGORITHM_SETTINGS}
        )

    def filter(self, algorithm: Algorithm, n_particles: int) -> Filter:
        """Return a filter with the given algorithm and the model of these options."""
        return Filter(
            algorithm,
            n_particles,
            self.alpha,
            self.gamma,
            self.beta,
            self.oracle,
            self.max_states,
            self.machine,
            self.kappa,
            self.forget,
            self.half_life,
        )

    def entries(self, generator: bool = False) -> list[Entry]:
        """Return the methods with the settings of these options."""
        filters = {name: self.filter(self.algorithm(name), self.particles) for name in ALGORITHMS}
        return entries(filters, self.methods, max_states=self.max_states, generator=generator)

    @property
    def filters(self) -> list[str]:
        """Names of the filters among the methods."""
        return [name for name in self.methods if name in ALGORITHMS]

    @property
    def note(self) -> str:
        """A note on settings other than size and hyper-parameters; empty if all are defaults."""
        usual = {field.name: field.default for field in fields(self)}
        unusual = [
            f"{name} = {getattr(self, name)}"
            for name in CHECKED_SETTINGS
            if getattr(self, name) != usual[name]
        ]
        if not unusual:
            return ""
        return (
            f"Set for this run: {', '.join(unusual)}. Lines named after a setting keep that "
            "setting."
        )
