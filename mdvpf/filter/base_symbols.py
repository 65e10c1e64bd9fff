"""What a state emits before it has counted anything, in continuations of a stream.

`EvenBase` is that of a closed alphabet: all symbols alike. `OpenBase` is that of an open one: by
how often each symbol was seen, in the stream and in the continuation, and a new one now and then.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mdvpf.model import InfiniteHMM

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class EvenBase:
    """The base of a closed alphabet.

    Examples
    --------
    >>> import numpy as np
    >>> import mdvpf
    >>> from mdvpf.filter.base_symbols import EvenBase
    >>> base = EvenBase(mdvpf.InfiniteHMM(n_symbols=4, beta=0.5))
    >>> base.prior, base.draw(np.array([0.0, 1.9]), np.zeros((2, 0), int)).tolist()
    (2.0, [0, 3])
    """

    def __init__(self, model: InfiniteHMM) -> None:
        self.n_symbols = self.n_entries = model.n_symbols
        self.prior = model.n_symbols * model.beta
        self._beta = model.beta

    def draw(self, place: Floats, made: Ints) -> Ints:
        """Return the symbols at places in 0..prior; what is beyond gives any."""
        return np.minimum(place / self._beta, self.n_symbols - 1).astype(np.int64)

    def spread(self, rate: Floats, made: Ints) -> Floats | float:
        """Return what all symbols get of states with rates, summed over the continuations."""
        even: float = self._beta * rate.sum()
        return even


class OpenBase:
    """The base of an open alphabet, of which so many symbols were seen so often.

    Symbols that a continuation made are rows of `made`, in order; those from `n_symbols` on are new
    in it.

    Examples
    --------
    >>> import numpy as np
    >>> import mdvpf
    >>> from mdvpf.filter.base_symbols import OpenBase
    >>> model = mdvpf.InfiniteHMM(emission=mdvpf.OpenVocabulary(strength=1.0, discount=0.5))
    >>> base = OpenBase(model, np.array([3, 1]))
    >>> base.draw(np.array([0.39, 0.41, 0.99]), np.zeros((3, 0), int)).tolist()
    [2, 0, 1]
    """

    def __init__(self, model: InfiniteHMM, seen: Ints) -> None:
        assert model.vocabulary is not None
        self._family = model.vocabulary
        self.n_symbols = len(seen)
        self.n_entries = self.n_symbols + 1
        self.prior = self._family.concentration
        self._masses = seen - self._family.discount
        self._cumulative = np.cumsum(self._masses)
        self._n_seen = int(seen.sum())

    def _total(self, made: Ints) -> float:
        return self._n_seen + int(made.shape[1]) + self._family.strength

    def draw(self, place: Floats, made: Ints) -> Ints:
        """Return the symbols at places in 0..prior; what is beyond gives any."""
        known = self.n_symbols
        n_known = np.max(made + 1, axis=1, initial=known)  # of each continuation
        left = np.minimum(place / self.prior, 1.0) * self._total(made)
        symbols: Ints = n_known.copy()
        left -= self._family.strength + self._family.discount * n_known
        if known:
            found = np.searchsorted(self._cumulative, left, "right")
            symbols = np.where(left >= 0.0, np.minimum(found, known - 1), symbols)
            left -= self._cumulative[-1]
        if made.shape[1]:
            # A symbol that is new in a continuation has less of its first appearance.
            before = np.maximum.accumulate(np.maximum(made + 1, known), axis=1)
            before = np.concatenate([np.full((len(made), 1), known), before[:, :-1]], axis=1)
            amount = 1.0 - self._family.discount * (made >= before)
            above = np.cumsum(amount, axis=1) > left[:, np.newaxis]
            above[:, -1] = True
            found = made[np.arange(len(made)), above.argmax(axis=1)]
            symbols = np.where(left >= 0.0, found, symbols)
        return symbols

    def spread(self, rate: Floats, made: Ints) -> Floats:
        """Return what all symbols get of states with rates, summed over the continuations.

        The last entry is for symbols that were not seen before the continuations, made ones too.
        """
        mass = self.prior * rate.sum(axis=1) / self._total(made)  # of each continuation
        known = self.n_symbols
        shares = np.zeros(self.n_entries)
        shares[:known] = mass.sum() * self._masses
        weights = np.repeat(mass, made.shape[1])
        shares += np.bincount(made.ravel(), weights, self.n_entries)
        # Appearances of new symbols are whole here, their discounts being among what is new.
        shares[known] += mass.sum() * (self._family.strength + self._family.discount * known)
        return shares
