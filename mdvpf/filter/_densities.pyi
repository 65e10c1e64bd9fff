"""Types of the compiled calls; `tests/unit/test_stub.py` checks them against the module."""

import numpy as np
from numpy.typing import NDArray

def log_densities(
    function: int,
    user_data: int,
    observations: NDArray[np.float64],
    statistics: NDArray[np.float64],
    which: NDArray[np.int64],
    dim: int,
    numbers: NDArray[np.float64],
    out: NDArray[np.float64],
) -> int: ...
def update_each(
    function: int,
    user_data: int,
    observations: NDArray[np.float64],
    statistics: NDArray[np.float64],
) -> int: ...
