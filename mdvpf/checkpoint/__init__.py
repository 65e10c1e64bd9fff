"""Checkpoints: save predictors, detectors and monitors to a file and load them.

`saveable` has the base class of everything that can be saved, `file_format` encodes and decodes the
file, `atomic_write` replaces a file on disk, and `rng_state` saves generators of random numbers.
`lock` keeps two processes from writing the same checkpoint, and `generations` keeps the last two
checkpoints. Each class defines what a checkpoint of it holds.
"""

from mdvpf.checkpoint.file_format import CheckpointError
from mdvpf.checkpoint.generations import Generations, previous_of
from mdvpf.checkpoint.lock import FileLock, LockedError
from mdvpf.checkpoint.saveable import (
    CallableNeeded,
    File,
    Saveable,
    State,
    load,
    narrow,
    read_array,
    register,
    require,
    unpickled,
    widen,
)

__all__ = [
    "CallableNeeded",
    "CheckpointError",
    "File",
    "FileLock",
    "Generations",
    "LockedError",
    "Saveable",
    "State",
    "load",
    "narrow",
    "previous_of",
    "read_array",
    "register",
    "require",
    "unpickled",
    "widen",
]
