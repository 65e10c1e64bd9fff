"""What can be set about an experiment; where nothing is set, each has its own default."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Self

from mdvpf._support import validate
from mdvpf.experiments.methods import EXPERIMENT_NAMES, NAMES, Entry, entries
from mdvpf.streams.methods import ALGORITHMS, BASE

MOST_SEEDS = 100_000


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
        Symbols of a part of a stream; each experiment says of which.
    alpha, gamma, beta : float, optional
        Hyper-parameters of the infinite HMM; by default 1, 1 and 0.3.
    most_particles : int, default 10000
        The largest K: of the reference, or of a grid.
    methods : tuple of str, default EXPERIMENT_NAMES
        Names of the methods; MD-VPA is always among them.
    seed : int, default 0
        The seed that all others come from.
    literal : bool, default False
        Whether the literal readings of Algorithm 1 are run as well (artificial).
    given : tuple of str, optional
        Names of the options that were set, not left at the default of the experiment.

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
        for name in ("alpha", "gamma", "beta"):
            validate.hyper_parameter(name, getattr(self, name))
        for method in self.methods:
            validate.choice("methods", method, NAMES)
        wanted = {BASE, *self.methods}
        object.__setattr__(self, "methods", tuple(name for name in NAMES if name in wanted))

    def changed(self, **values: int | float | tuple[str, ...] | None) -> Self:
        """Return the options with some values replaced; None leaves a value as it is."""
        known = {field.name for field in fields(self)}
        given = {name: value for name, value in values.items() if value is not None}
        if not given.keys() <= known:
            raise TypeError(f"unknown options: {sorted(given.keys() - known)}")
        return replace(self, **given, given=tuple(given))  # type: ignore[arg-type]

    def entries(self, generator: bool = False) -> list[Entry]:
        """Return the methods, configured."""
        return entries(
            self.methods,
            n_particles=self.particles,
            alpha=self.alpha,
            gamma=self.gamma,
            beta=self.beta,
            generator=generator,
        )

    @property
    def filters(self) -> list[str]:
        """Names of the filters among the methods."""
        return [name for name in self.methods if name in ALGORITHMS]
