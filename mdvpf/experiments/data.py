"""`Data`, the stream of a run: its symbols, and its sources where they are known.

The symbols are part of the run, so that a worker of a cluster needs no files.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdvpf.datasets import HMM


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """One stream of symbols.

    Attributes
    ----------
    name : str
        Name that is unique within an experiment.
    symbols : ndarray of int or float
        The symbols, or the numbers.
    n_symbols : int
        Size of the alphabet; 0 for numbers.
    lengths : ndarray of int, optional
        Lengths of the concatenated sequences.
    change_points : tuple of int
        Indices of the first symbols of new sources.
    hmms : tuple of HMM
        The source of each segment, if it is known.
    """

    name: str
    symbols: NDArray[Any]
    n_symbols: int
    lengths: NDArray[np.int64] | None = None
    change_points: tuple[int, ...] = ()
    hmms: tuple[HMM, ...] = ()

    def __repr__(self) -> str:
        return f"Data({self.name!r}, {len(self)} symbols of {self.n_symbols}, {self.digest[:12]})"

    def __len__(self) -> int:
        return len(self.symbols)

    @property
    def digest(self) -> str:
        """Hash of the content."""
        digest = hashlib.sha256()
        _feed(digest, [getattr(self, field.name) for field in fields(self)])
        return digest.hexdigest()


def _feed(digest: Any, value: Any) -> None:
    """Add a value to a hash, in an unambiguous encoding."""
    if isinstance(value, np.ndarray):
        digest.update(f"{value.dtype.str}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, HMM):
        _feed(digest, [getattr(value, field.name) for field in fields(value)])
    elif isinstance(value, (list, tuple)):
        digest.update(f"[{len(value)}".encode())
        for item in value:
            _feed(digest, item)
    else:
        digest.update(repr(value).encode())
    digest.update(b";")
