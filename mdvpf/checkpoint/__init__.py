"""Checkpoints: how predictors, detectors and monitors become a file, and come back from it.

`saveable` has the base class of everything that can be saved, `file_format` the bytes of the file,
`atomic_write` puts them on disk, and `rng_state` turns generators of random numbers into values.
`lock` keeps two processes from writing the same checkpoint, and `generations` keeps the last two.
What is saved of a class is said by that class.
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
    narrowed,
    register,
    require,
    taken,
    unpickled,
    widened,
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
    "narrowed",
    "previous_of",
    "register",
    "require",
    "taken",
    "unpickled",
    "widened",
]
