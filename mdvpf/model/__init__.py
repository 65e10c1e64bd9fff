"""What is configured: the model and the algorithms, as frozen dataclasses without any state.

`infinite_hmm` has the model with its hyper-parameters, `algorithms` the five filters.
"""

from mdvpf.model.infinite_hmm import MACHINES, ORACLES, InfiniteHMM, Machine, Oracle, extensions

__all__ = ["MACHINES", "ORACLES", "InfiniteHMM", "Machine", "Oracle", "extensions"]
