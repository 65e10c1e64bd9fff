"""Types of the compiled weights; `tests/unit/test_stub.py` checks them against the module."""

import numpy as np
from numpy.typing import NDArray

class Mixer:
    def __init__(
        self,
        prior: NDArray[np.float64],
        shares: NDArray[np.float64],
        rates: NDArray[np.float64],
        ridges: NDArray[np.float64],
        head_prior: NDArray[np.float64],
        head_share: float,
    ) -> None: ...
    @property
    def n_columns(self) -> int: ...
    @property
    def n_seen(self) -> int: ...
    def advance(
        self,
        symbols: NDArray[np.int32],
        columns: NDArray[np.float64],
        widths: NDArray[np.int64],
        learn: bool,
        log_predictive: NDArray[np.float64],
        weights: NDArray[np.float64],
        heads: NDArray[np.float64],
        mixed: NDArray[np.float64] | None = None,
    ) -> None: ...
    def predict(self, columns: NDArray[np.float64], out: NDArray[np.float64]) -> None: ...
    def export(self) -> dict[str, NDArray[np.float64]]: ...
    def restore(
        self,
        linear: NDArray[np.float64],
        powers: NDArray[np.float64],
        inverse: NDArray[np.float64],
        heads: NDArray[np.float64],
        n_seen: int,
    ) -> None: ...
