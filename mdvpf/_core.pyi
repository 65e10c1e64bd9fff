"""Types of the compiled core; `tests/unit/test_stub.py` checks them against the module."""

import numpy as np
from numpy.typing import NDArray

class ParticleSystem:
    def __init__(
        self,
        *,
        n_symbols: int,
        alpha: float,
        gamma: float,
        beta: float,
        any_state: bool,
        by_rows: bool,
        mealy: bool,
        kappa: float,
        forget: float,
        rate: float,
        by_time: bool,
        max_states: int,
        algorithm: int,
        duplicating: bool,
        budget: int,
        carry_weights: bool,
        normalizer: int,
        select_optimal: bool,
        resampling: int,
        ess_threshold: float,
        lag: int,
        n_threads: int,
        is_open: bool,
        concentration: float,
        strength: float,
        discount: float,
        channels: NDArray[np.float64] | None,
        fading: NDArray[np.uint8] | None,
        functions: tuple[tuple[int | bytes, ...], ...] | None,
    ) -> None: ...
    def __sizeof__(self) -> int: ...
    @property
    def n_particles(self) -> int: ...
    @property
    def n_steps(self) -> int: ...
    @property
    def log_evidence(self) -> float: ...
    @property
    def pending(self) -> bool: ...
    @property
    def number(self) -> int: ...
    @property
    def last_symbol(self) -> int | None: ...
    def standing(self, number: int, states: NDArray[np.int64]) -> int | None: ...
    @property
    def n_symbols(self) -> int: ...
    def seen(self, out: NDArray[np.int64]) -> None: ...
    def advance(
        self,
        symbols: NDArray[np.int32],
        ended: NDArray[np.int32],
        discounts: NDArray[np.float64],
        uniforms: NDArray[np.float64],
        reports: NDArray[np.float64],
        progress: NDArray[np.int64],
        numbers: NDArray[np.int32] | None = None,
        times: NDArray[np.float64] | None = None,
        distributions: NDArray[np.float64] | None = None,
        observations: NDArray[np.float64] | None = None,
    ) -> None: ...
    def absorb(
        self,
        symbol: int,
        discount: float,
        uniforms: NDArray[np.float64],
        number: int = 0,
        observation: NDArray[np.float64] | None = None,
    ) -> tuple[float, float, float, int, float, int]: ...
    def new_sequence(self, uniforms: NDArray[np.float64], number: int = 0) -> int: ...
    @property
    def kept(self) -> tuple[int, int]: ...
    def keep(self, n: int) -> None: ...
    def tell_time(self, elapsed: float) -> None: ...
    @property
    def elapsed(self) -> tuple[float, float]: ...
    def copy(self) -> ParticleSystem: ...
    def snapshot(self) -> tuple[int, float, float, int | None, tuple[bytes, ...]]: ...
    def restored(
        self,
        n_steps: int,
        log_evidence: float,
        margin: float,
        pending: int | None,
        sections: tuple[bytes, ...],
    ) -> ParticleSystem: ...
    def describe(
        self,
        weights: NDArray[np.float64],
        states: NDArray[np.int64],
        n_states: NDArray[np.int64],
        parents: NDArray[np.int64],
    ) -> None: ...
    def predict(self, out: NDArray[np.float64], number: int = 0) -> None: ...
    def path_length(self) -> int: ...
    def path(self, particle: int, out: NDArray[np.int64]) -> None: ...
    def counts(
        self, particle: int, transition: NDArray[np.int64], emission: NDArray[np.int64]
    ) -> None: ...
    def n_held(self, particle: int) -> int: ...
    def real_counts(
        self,
        particle: int,
        transition: NDArray[np.float64],
        emission: NDArray[np.float64],
        into: NDArray[np.float64],
        reached: NDArray[np.float64],
        labels: NDArray[np.int64] | None = None,
    ) -> None: ...
    @property
    def n_rows(self) -> int: ...
    @property
    def layout(self) -> tuple[int, list[tuple[int, int]]]: ...
    def components(
        self,
        weights: NDArray[np.float64],
        statistics: NDArray[np.float64],
        number: int = 0,
    ) -> None: ...
    def statistics(self, particle: int, out: NDArray[np.float64]) -> None: ...
    def settle(self) -> None: ...
    def memory(self) -> tuple[int, int, int, int, int, int]: ...
    def verify(self) -> None: ...
    def state_text(self, most: int = 20) -> str: ...
    def _fail_allocation_after(self, n: int) -> None: ...
    def _settle_every(self, n_steps: int) -> None: ...
    @property
    def _n_settled(self) -> int: ...
    def _release_every(self, n_steps: int) -> None: ...
    def _free_stretches(self, n: int) -> None: ...
    @property
    def _n_stretches(self) -> int: ...
