"""A filter driven by key through its core, with the key numbers that `mdvpf` would assign."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mdvpf
from mdvpf.model.algorithms import MDVPA
from mdvpf.predictor import Step
from tests.kernel.inspecting import Symbol


@dataclass(frozen=True)
class Use:
    """An event of a stream: a symbol of a key."""

    symbol: Symbol
    key: Any = None


@dataclass(frozen=True)
class End:
    """An event of a stream: the sequence of a key ends."""

    key: Any = None


class KeyedFilter:
    """A filter whose core receives the symbols of keys one by one.

    Ended keys free their numbers for reuse, the smallest first; None is always 0.
    """

    def __init__(self, pf: mdvpf.ParticleFilter) -> None:
        self.pf = pf
        self.numbers: dict[Any, int] = {}

    @property
    def core(self) -> Any:
        return self.pf._core

    def number(self, key: Any) -> int:
        if key is None:
            return 0
        if key in self.numbers:
            return self.numbers[key]
        used = {0, *self.numbers.values()}
        return next(i for i in range(len(used) + 1) if i not in used)

    def _uniforms(self) -> NDArray[np.float64]:
        return self.pf.rng.random(self.pf._draws)

    def update(self, symbol: Symbol, key: Any = None) -> Step:
        pf = self.pf
        discount = 0.0
        if isinstance(pf.algorithm, MDVPA) and self.core.pending:
            discount = float(pf.algorithm.discounts([self.core.n_steps + 1])[0])
        state = pf.rng.bit_generator.state
        uniforms = self._uniforms()
        pf.rng.bit_generator.state = state
        number = self.number(key)
        *fields, used = self.core.absorb(
            -1 if symbol is None else symbol, discount, uniforms, number
        )
        pf.rng.random(used)
        if key is not None:
            self.numbers[key] = number
        return Step(*fields)

    def new_sequence(self, key: Any = None) -> None:
        state = self.pf.rng.bit_generator.state
        uniforms = self._uniforms()
        self.pf.rng.bit_generator.state = state
        used = self.core.new_sequence(uniforms, self.number(key))
        self.pf.rng.random(used)
        self.numbers.pop(key, None)

    def predict_proba(self, key: Any = None) -> NDArray[np.float64]:
        out = np.empty(self.pf.n_symbols + self.pf.is_open)
        self.core.predict(out, self.number(key))
        return out

    def reload(self) -> None:
        """Go on with a core that was restored from a snapshot."""
        n_steps, log_evidence, margin, pending, sections = self.core.snapshot()
        fresh = mdvpf.ParticleFilter(
            self.pf.model, self.pf.algorithm, self.pf.n_particles, history=self.pf.history
        )
        self.pf._core = fresh._core.restored(n_steps, log_evidence, margin, pending, sections)
