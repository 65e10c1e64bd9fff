"""The configuration of a filter: the model and the algorithms, as immutable dataclasses.

`infinite_hmm` has the model with its hyper-parameters, `emissions` the families over symbols,
`number_families` and `compiled_emission` those over numbers, `observations` the validation of
numbers, `clock` the time of models that fade by time, and `algorithms` the five filters.
"""

from mdvpf.model.clock import Clock, Time, read_time, read_times
from mdvpf.model.compiled_emission import CompiledEmission
from mdvpf.model.emissions import Categorical, Emission, OpenVocabulary
from mdvpf.model.infinite_hmm import MACHINES, ORACLES, InfiniteHMM, Machine, Oracle, extensions
from mdvpf.model.number_families import (
    Channel,
    Gaussian,
    NumberFamily,
    Poisson,
    Product,
    channels_of,
)
from mdvpf.model.observations import read_observation, read_observations, split_observations

__all__ = [
    "MACHINES",
    "ORACLES",
    "Categorical",
    "Channel",
    "Clock",
    "CompiledEmission",
    "Emission",
    "Gaussian",
    "InfiniteHMM",
    "Machine",
    "NumberFamily",
    "OpenVocabulary",
    "Oracle",
    "Poisson",
    "Product",
    "Time",
    "channels_of",
    "extensions",
    "read_observation",
    "read_observations",
    "read_time",
    "read_times",
    "split_observations",
]
