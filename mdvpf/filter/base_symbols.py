"""Base distributions of the emissions in continuations of a stream.

`EvenBase` is the uniform distribution over a closed alphabet. `OpenBase` is the base distribution
of `OpenVocabulary`: proportional to how often each symbol occurred in the stream and in the
continuation, with some probability for a new symbol.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mdvpf.model import InfiniteHMM

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class EvenBase:
    """The uniform base distribution of a closed alphabet.

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

    def draw(self, position: Floats, drawn: Ints) -> Ints:
        """Invert the cumulative mass at positions in 0..prior; the caller ignores larger ones."""
        return np.minimum(position / self._beta, self.n_symbols - 1).astype(np.int64)

    def emission_mass(self, rate: Floats, drawn: Ints) -> Floats | float:
        """Return the prior mass of each symbol, times `rate`, summed over states and rows."""
        even: float = self._beta * rate.sum()
        return even


class OpenBase:
    """The base distribution of an open alphabet, given how often each symbol was seen.

    Row i of the argument `drawn` holds the symbols that continuation i has drawn, in order. Symbols
    from `n_symbols` on are new in that continuation.

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

    def _total(self, drawn: Ints) -> float:
        return self._n_seen + int(drawn.shape[1]) + self._family.strength

    def draw(self, position: Floats, drawn: Ints) -> Ints:
        """Invert the cumulative mass at positions in 0..prior; the caller ignores larger ones."""
        known = self.n_symbols
        n_known = np.max(drawn + 1, axis=1, initial=known)  # one entry a continuation
        left = np.minimum(position / self.prior, 1.0) * self._total(drawn)
        symbols: Ints = n_known.copy()
        left -= self._family.strength + self._family.discount * n_known
        if known:
            found = np.searchsorted(self._cumulative, left, "right")
            symbols = np.where(left >= 0.0, np.minimum(found, known - 1), symbols)
            left -= self._cumulative[-1]
        if drawn.shape[1]:
            # The discount applies to the first appearance of a symbol that is new here.
            before = np.maximum.accumulate(np.maximum(drawn + 1, known), axis=1)
            before = np.concatenate([np.full((len(drawn), 1), known), before[:, :-1]], axis=1)
            amount = 1.0 - self._family.discount * (drawn >= before)
            above = np.cumsum(amount, axis=1) > left[:, np.newaxis]
            above[:, -1] = True
            found = drawn[np.arange(len(drawn)), above.argmax(axis=1)]
            symbols = np.where(left >= 0.0, found, symbols)
        return symbols

    def emission_mass(self, rate: Floats, drawn: Ints) -> Floats:
        """Return the prior mass of each symbol, times `rate`, summed over states and rows.

        The last entry covers all symbols that the stream has not seen, drawn ones included.
        """
        mass = self.prior * rate.sum(axis=1) / self._total(drawn)  # one entry a continuation
        known = self.n_symbols
        shares = np.zeros(self.n_entries)
        shares[:known] = mass.sum() * self._masses
        weights = np.repeat(mass, drawn.shape[1])
        shares += np.bincount(drawn.ravel(), weights, self.n_entries)
        # Drawn new symbols and undrawn ones share the last entry, so their discounts cancel.
        shares[known] += mass.sum() * (self._family.strength + self._family.discount * known)
        return shares
