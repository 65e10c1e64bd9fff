"""Simple predictors to compare with: the generator itself, Markov chains, context trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdvpf.hmm import HMM
from mdvpf.predictor import Predictor, Stream
from mdvpf.result import Step


class _Baseline(Predictor):
    n_symbols: int  # type: ignore[assignment]

    def predict_proba(self) -> NDArray[np.float64]:
        """Return the distribution of the next symbol."""
        raise NotImplementedError

    def update(self, symbol: int | None) -> Step:
        """Absorb one symbol; None is a missing one."""
        raise NotImplementedError

    def new_sequence(self) -> None:
        """End the sequence: the next symbol starts a new one."""
        raise NotImplementedError

    def copy(self) -> Self:
        """Return an independent copy."""
        raise NotImplementedError

    def _plan(self, stream: Stream) -> Any:
        return None

    def _absorb(self, stream: Stream, plan: Any, part: slice, reports: NDArray[np.float64]) -> None:
        raise NotImplementedError


class KnownHMM(_Baseline):
    """Exact forward filter of given HMMs that switch at given times: the generator itself."""

    def __init__(
        self,
        hmms: Sequence[HMM] | HMM,
        change_points: ArrayLike = (),
        *,
        n_symbols: int | None = None,
    ) -> None:
        raise NotImplementedError


class Markov(_Baseline):
    """Markov chain of a fixed order with a Dirichlet prior for every context."""

    def __init__(
        self, n_symbols: int, order: int = 1, beta: float = 0.3, decay: float = 1.0
    ) -> None:
        raise NotImplementedError


class ContextTree(_Baseline):
    """Context-tree weighting: all variable-order chains up to a depth, mixed exactly."""

    def __init__(self, n_symbols: int, depth: int = 3, beta: float = 0.5) -> None:
        raise NotImplementedError
