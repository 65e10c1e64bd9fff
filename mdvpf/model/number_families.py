"""Emission families for numeric observations.

`Gaussian` is for measurements, `Poisson` for counts, and `Product` joins channels that are observed
together; `CompiledEmission` is a family written by the user. A family is a frozen dataclass that
holds the prior; the particles hold the statistics.

The core treats every family as a list of *channels*. A channel is one column of an observation with
its own statistics: a Gaussian has one channel for each dimension, a product has the channels of all
its families. In every channel NaN means a missing value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mdvpf._support import validate
from mdvpf.model.compiled_emission import CompiledEmission
from mdvpf.model.emissions import Categorical, OpenVocabulary

# Squares of numbers within this limit, and sums of them, are finite.
LARGEST_NUMBER = 1e140
_MOST_CHANNELS = 4096

# Kinds of channels, in the order of `ChannelKind` in `_kernel/constants.pxd`.
GAUSSIAN, POISSON, CATEGORICAL, COMPILED, OPEN = range(5)


class Channel(NamedTuple):
    """Description of one column of an observation for the core.

    Attributes
    ----------
    kind : int
        `GAUSSIAN`, `POISSON`, `CATEGORICAL`, `COMPILED` or `OPEN`.
    parameters : tuple of float
        Parameters of the prior. Gaussian: mean, mean_strength, shape, scale; Poisson: shape, rate;
        categorical: beta; open: concentration, strength, discount.
    fades : tuple of bool
        Whether each statistic of a state is a sum of weights. The statistics are the number of
        observations, followed by their mean and sum of squared deviations (Gaussian), their sum
        (Poisson), or the count of each symbol (categorical, open).
    n_symbols : int
        Size of the alphabet of a categorical channel, number of symbols seen in an open one, else
        0.
    """

    kind: int
    parameters: tuple[float, ...]
    fades: tuple[bool, ...]
    n_symbols: int = 0

    @property
    def n_statistics(self) -> int:
        """Number of statistics of the channel in a state."""
        return len(self.fades)


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Real numbers: independent dimensions, each normal with unknown mean and variance.

    The prior of a dimension is normal-inverse-gamma: the variance is inverse-gamma with `shape`
    and `scale`, and given the variance the mean is normal around `mean`, with variance divided by
    `mean_strength`. The predictive distribution of a state is Student's t.

    Parameters
    ----------
    n_dims : int, default 1
        Numbers in an observation. NaN or None is a missing value.
    mean : float, default 0.0
        Prior mean of every dimension.
    mean_strength : float, default 1.0
        Weight of the prior mean, in observations.
    shape : float, default 1.0
        Shape of the prior of the variance; its weight is 2 * shape observations.
    scale : float, default 1.0
        Scale of the prior of the variance: about shape times the expected variance in a state.

    Examples
    --------
    >>> import mdvpf
    >>> model = mdvpf.InfiniteHMM(emission=mdvpf.Gaussian(scale=0.5), kappa=5.0)
    >>> pf = mdvpf.ParticleFilter(model, n_particles=50)
    >>> result = pf.run([0.1, -0.2, 0.0, 5.1, 4.9, None, 5.0])
    >>> pf.predictive().mean() > 2.5
    True
    """

    n_dims: int = 1
    mean: float = 0.0
    mean_strength: float = 1.0
    shape: float = 1.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "n_dims", validate.integer("n_dims", self.n_dims, low=1, high=_MOST_CHANNELS))
        mean = validate.real("mean", self.mean, low=-LARGEST_NUMBER, high=LARGEST_NUMBER)
        put(self, "mean", mean)
        for name in ("mean_strength", "shape", "scale"):
            put(self, name, validate.hyper_parameter(name, getattr(self, name)))

    @property
    def channels(self) -> tuple[Channel, ...]:
        """The channels of an observation: one for each dimension."""
        parameters = (self.mean, self.mean_strength, self.shape, self.scale)
        return (Channel(GAUSSIAN, parameters, (True, False, True)),) * self.n_dims


@dataclass(frozen=True, slots=True)
class Poisson:
    """Counts: Poisson with an unknown rate in every state.

    The prior of the rate is a gamma distribution with mean ``shape / rate``. The predictive of a
    state is negative binomial.

    Parameters
    ----------
    shape : float, default 1.0
        Shape of the prior: the number of events in `rate` pseudo-observations.
    rate : float, default 1.0
        Rate of the prior: the number of pseudo-observations.

    Examples
    --------
    >>> import mdvpf
    >>> model = mdvpf.InfiniteHMM(emission=mdvpf.Poisson(shape=2.0, rate=0.5))
    >>> pf = mdvpf.ParticleFilter(model, n_particles=50)
    >>> pf.predictive().mean()
    4.0
    """

    shape: float = 1.0
    rate: float = 1.0

    def __post_init__(self) -> None:
        for name in ("shape", "rate"):
            value = validate.hyper_parameter(name, getattr(self, name))
            object.__setattr__(self, name, value)

    @property
    def channels(self) -> tuple[Channel, ...]:
        """The one channel of an observation."""
        return (Channel(POISSON, (self.shape, self.rate), (True, True)),)


Part = Gaussian | Poisson | Categorical | OpenVocabulary | CompiledEmission
"""A family that a product can contain."""

PARTS = (Gaussian, Poisson, Categorical, OpenVocabulary, CompiledEmission)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Product:
    """Channels that are observed together, independent of each other given the state.

    An observation is a tuple with one entry for each family, and `run` takes a tuple of arrays.
    Each entry can be missing separately.

    Parameters
    ----------
    *families : Gaussian, Poisson, Categorical, OpenVocabulary, CompiledEmission or Product
        At least one. A nested product is replaced by its families. Each `OpenVocabulary` numbers
        its symbols by first appearance, and a state has a count for each symbol that the stream has
        had so far. The functions of a `CompiledEmission` get only the numbers and the statistics of
        that family.

    Examples
    --------
    >>> import mdvpf
    >>> family = mdvpf.Product(mdvpf.Gaussian(), mdvpf.Categorical(3))
    >>> family
    Product(Gaussian(n_dims=1, mean=0.0, ...), Categorical(n_symbols=3, beta=0.333...))
    >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=family), n_particles=50)
    >>> result = pf.run(([0.1, 0.2, None], [0, 0, 2]))
    >>> step = pf.update((0.3, None))

    With an open alphabet:

    >>> family = mdvpf.Product(mdvpf.Poisson(), mdvpf.OpenVocabulary())
    >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=family), n_particles=50)
    >>> result = pf.run(([3, 4, 0, 1], [0, 0, 1, None]))
    >>> pf.predictive().marginal(1).pmf([0, 1, 2]).shape
    (3,)
    """

    families: tuple[Part, ...]

    def __init__(self, *families: Part | Product) -> None:
        found: list[Part] = []
        for i, family in enumerate(families):
            if isinstance(family, Product):
                found += family.families
            elif isinstance(family, PARTS):
                found.append(family)
            else:
                raise TypeError(
                    f"families[{i}]={family!r}: expected a Gaussian, a Poisson, a Categorical, an "
                    "OpenVocabulary, a CompiledEmission or a Product of these"
                )
        if not found:
            raise ValueError("families: got none; expected at least one")
        object.__setattr__(self, "families", tuple(found))
        if len(self.channels) > _MOST_CHANNELS:
            raise ValueError(
                f"families with {len(self.channels)} numbers: expected at most {_MOST_CHANNELS}"
            )

    def __repr__(self) -> str:
        return f"Product({', '.join(map(repr, self.families))})"

    @property
    def channels(self) -> tuple[Channel, ...]:
        """The channels of an observation: those of all families."""
        return tuple(channel for family in self.families for channel in channels_of(family))

    @property
    def open_channels(self) -> tuple[int, ...]:
        """Which numbers of an observation are symbols of an open alphabet."""
        found, first = [], 0
        for family in self.families:
            if isinstance(family, OpenVocabulary):
                found.append(first)
            first += getattr(family, "n_dims", 1)
        return tuple(found)


NumberFamily = Gaussian | Poisson | Product | CompiledEmission
NUMBER_FAMILIES = (Gaussian, Poisson, Product, CompiledEmission)


def compiled_parts(family: Any) -> list[CompiledEmission]:
    """Return the compiled families in an emission, in order.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf.model.number_families import compiled_parts
    >>> compiled_parts(mdvpf.Product(mdvpf.Gaussian(), mdvpf.Poisson()))
    []
    """
    parts = family.families if isinstance(family, Product) else (family,)
    return [part for part in parts if isinstance(part, CompiledEmission)]


_STATISTICS = {GAUSSIAN: ("number", "mean", "squared deviations"), POISSON: ("number", "sum")}


def statistic_names(family: Any, n_seen: Sequence[int] = ()) -> list[str]:
    """Return the names of the statistics of a state, in the order of `counts().emission`.

    `n_seen` has the number of symbols seen in each open channel.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf.model.number_families import statistic_names
    >>> statistic_names(mdvpf.Poisson())
    ['number', 'sum']
    >>> statistic_names(mdvpf.Product(mdvpf.Poisson(), mdvpf.Categorical(2)))
    ['0: number', '0: sum', '1: number', '1: symbol 0', '1: symbol 1']
    """
    channels = channels_of(family, n_seen)
    names = [_names_of(channel) for channel in channels]
    if sum(map(bool, names)) == 1:
        return [name for of_channel in names for name in of_channel]
    return [f"{i}: {name}" for i, of_channel in enumerate(names) for name in of_channel]


def _names_of(channel: Channel) -> Sequence[str]:
    if channel.kind == COMPILED:
        return [f"statistic {i}" for i in range(channel.n_statistics)]
    if channel.kind in (CATEGORICAL, OPEN):
        return ["number", *(f"symbol {symbol}" for symbol in range(channel.n_symbols))]
    return _STATISTICS[channel.kind]


def channels_of(family: Any, n_seen: Sequence[int] = ()) -> tuple[Channel, ...]:
    """Return the channels of a numeric family, or of a part of a product.

    The first channel of a `CompiledEmission` holds all its statistics. `n_seen` has the number of
    symbols seen in each open channel; without it, none was seen.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf.model import channels_of
    >>> family = mdvpf.Product(mdvpf.Poisson(), mdvpf.OpenVocabulary())
    >>> [channel.n_statistics for channel in channels_of(family, [5])]
    [2, 6]
    """
    if isinstance(family, CompiledEmission):
        others = (Channel(COMPILED, (), ()),) * (family.n_dims - 1)
        return Channel(COMPILED, (), family.fades), *others
    if isinstance(family, Categorical):
        assert family.beta is not None
        fades = (True,) * (1 + family.n_symbols)
        return (Channel(CATEGORICAL, (family.beta,), fades, family.n_symbols),)
    if isinstance(family, OpenVocabulary):
        parameters = (family.concentration, family.strength, family.discount)
        return (_with_symbols(Channel(OPEN, parameters, ()), n_seen[0] if n_seen else 0),)
    found: tuple[Channel, ...] = family.channels
    if isinstance(family, Product) and n_seen:
        sizes = iter(n_seen)
        return tuple(_with_symbols(c, next(sizes)) if c.kind == OPEN else c for c in found)
    return found


def _with_symbols(channel: Channel, n_symbols: int) -> Channel:
    return channel._replace(fades=(True,) * (1 + n_symbols), n_symbols=n_symbols)
