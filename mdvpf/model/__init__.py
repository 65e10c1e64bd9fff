"""What is configured: the model and the algorithms, as frozen dataclasses without any state.

`infinite_hmm` has the model with its hyper-parameters, `emissions` what its states emit,
`algorithms` the five filters.
"""

from mdvpf.model.clock import Clock, Time, read_time, read_times
from mdvpf.model.emissions import Categorical, Emission, OpenVocabulary
from mdvpf.model.infinite_hmm import MACHINES, ORACLES, InfiniteHMM, Machine, Oracle, extensions

__all__ = [
    "MACHINES",
    "ORACLES",
    "Categorical",
    "Clock",
    "Emission",
    "InfiniteHMM",
    "Machine",
    "OpenVocabulary",
    "Oracle",
    "Time",
    "extensions",
    "read_time",
    "read_times",
]
