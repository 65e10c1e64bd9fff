"""Emission families over symbols of a fixed or an open alphabet.

`Categorical` is the Dirichlet-multinomial over V symbols. `OpenVocabulary` is for alphabets that
are not known in advance: symbols are numbered by first appearance, and a symbol never seen is
always possible. A family is an immutable dataclass of parameters; it holds no counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdvpf._support import validate

# Limits of concentration and strength. In the worst case a count less the discount is 1e-16, the
# stream has 1e16 symbols, and both parameters are factors of a probability. Within these limits a
# product of probabilities stays above the floor that `validate` sets for closed alphabets.
_SMALLEST = 1e-20
_LARGEST = 1e20


@dataclass(frozen=True, slots=True)
class Categorical:
    """Symbols of a fixed alphabet: a symmetric Dirichlet-multinomial in every state.

    With ``e[c, y]`` for how often state c emitted y, its next symbol is y with probability
    ``(e[c, y] + beta) / (e[c] + V * beta)``.

    Parameters
    ----------
    n_symbols : int
        Size V of the alphabet; symbols are 0, 1, ..., V - 1.
    beta : float, optional
        Pseudo-count of every symbol; 1 / V by default.

    Examples
    --------
    >>> import mdvpf
    >>> family = mdvpf.Categorical(n_symbols=4)
    >>> family.beta
    0.25
    >>> mdvpf.InfiniteHMM(emission=family) == mdvpf.InfiniteHMM(n_symbols=4)
    True
    """

    n_symbols: int
    beta: float | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "n_symbols", validate.integer("n_symbols", self.n_symbols, low=1))
        beta = 1.0 / self.n_symbols if self.beta is None else self.beta
        put(self, "beta", validate.hyper_parameter("beta", beta, also=", or None"))


@dataclass(frozen=True, slots=True)
class OpenVocabulary:
    """Symbols of an open alphabet, numbered by first appearance.

    If D symbols were seen so far, the symbol D stands for any symbol never seen. Let ``g[y]`` be
    how often y was seen in the whole stream, and G the sum over y. The base distribution is
    ``q(y) = (g[y] - discount) / (G + strength)``, and for a new symbol
    ``(strength + discount * D) / (G + strength)``. A state emits y with probability
    ``(e[c, y] + concentration * q(y)) / (e[c] + concentration)``, a new state with ``q(y)``.
    Missing symbols are not counted in g, and g does not fade. In a `Product` the stream is that of
    the channel.

    Parameters
    ----------
    concentration : float, default 1.0
        Weight of the base distribution in every state, in observations. From 1e-20 to 1e20.
    strength : float, default 1.0
        Weight of new symbols in addition to the discounts. From 1e-20 to 1e20.
    discount : float, default 0.5
        Part of the count of every symbol seen that goes to new ones, at least 0 and less than 1.
        The larger it is, the more new symbols are expected late in the stream.

    Examples
    --------
    >>> import mdvpf
    >>> model = mdvpf.InfiniteHMM(emission=mdvpf.OpenVocabulary())
    >>> pf = mdvpf.ParticleFilter(model, n_particles=10)
    >>> pf.n_symbols, pf.predict_proba().tolist()
    (0, [1.0])
    >>> _ = pf.run([0, 0, 1, 0])
    >>> pf.n_symbols, len(pf.predict_proba())
    (2, 3)
    """

    concentration: float = 1.0
    strength: float = 1.0
    discount: float = 0.5

    def __post_init__(self) -> None:
        put = object.__setattr__
        for name in ("concentration", "strength"):
            value = validate.real(name, getattr(self, name), low=_SMALLEST, high=_LARGEST)
            put(self, name, value)
        put(self, "discount", validate.discount("discount", self.discount))

    def base_probability(self, seen: Sequence[int], symbol: int) -> float:
        """Return q(symbol), given how often each symbol was seen.

        Parameters
        ----------
        seen : sequence of int
            How often each of the D symbols was seen.
        symbol : int
            A symbol seen, or D for one never seen.

        Examples
        --------
        >>> import mdvpf
        >>> family = mdvpf.OpenVocabulary(strength=1.0, discount=0.5)
        >>> [family.base_probability([3, 1], symbol) for symbol in range(3)]
        [0.5, 0.1, 0.4]
        """
        total = sum(seen) + self.strength
        if symbol == len(seen):
            return (self.strength + self.discount * len(seen)) / total
        return (seen[symbol] - self.discount) / total

    def base_distribution(self, seen: ArrayLike) -> NDArray[np.float64]:
        """Return q of the D symbols seen and, last, of a symbol never seen.

        Parameters
        ----------
        seen : array_like of int
            How often each of the D symbols was seen.

        Examples
        --------
        >>> import mdvpf
        >>> mdvpf.OpenVocabulary().base_distribution([3, 1]).tolist()
        [0.5, 0.1, 0.4]
        """
        times = np.asarray(seen, dtype=np.float64)
        masses = np.append(times - self.discount, self.strength + self.discount * len(times))
        base: NDArray[np.float64] = masses / (times.sum() + self.strength)
        return base


Emission = Categorical | OpenVocabulary
