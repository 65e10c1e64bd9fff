"""`Dense`: base class of the peers with dense tables; it has no timed code."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray


class Dense(ABC):
    """VPA over dense tables; ``run`` returns the log predictive of every symbol."""

    def __init__(
        self,
        n_symbols: int,
        n_particles: int,
        *,
        alpha: float = 1.0,
        gamma: float = 1.0,
        beta: float = 0.3,
    ) -> None:
        self.n_symbols = n_symbols
        self.budget = n_particles
        self.alpha, self.gamma, self.beta = alpha, gamma, beta
        self._start()

    @abstractmethod
    def _start(self) -> None:
        """Allocate the tables of one empty particle."""

    @abstractmethod
    def _step(self, symbol: int) -> float:
        """Absorb a symbol; return its log predictive."""

    def run(self, symbols: NDArray[np.integer]) -> NDArray[np.float64]:
        """Absorb the symbols; return the log predictive of each, fixed before it was used."""
        return np.array([self._step(symbol) for symbol in symbols.tolist()])
