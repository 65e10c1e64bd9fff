"""What is configured: the model and the algorithms, as frozen dataclasses without any state.

`infinite_hmm` has the model with its hyper-parameters, `algorithms` the five filters.
"""

from mdvpf.model.infinite_hmm import ORACLES, InfiniteHMM, Oracle

__all__ = ["ORACLES", "InfiniteHMM", "Oracle"]
