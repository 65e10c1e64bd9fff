"""The floor kernel: a lower bound on the time of any filter (see `floor.c`).

The C code is compiled on first use, with the options of the package's core. `FloorKernel` works on
the counts that the next step of a filter reads, and so on the same candidates.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import mdvpf
from benchmarks.particles import tables

SOURCE = Path(__file__).with_name("floor.c")
OPTIONS = ["-O3", "-ffp-contract=off"]  # as in setup.py
SHARED = ["-std=c99", "-Wall", "-Wextra", "-shared", "-fPIC"]


class MissingCompiler(RuntimeError):
    """No C compiler was found."""


class _Counts(ctypes.Structure):
    _fields_ = [
        ("n_particles", ctypes.c_int64),
        ("n_candidates", ctypes.c_void_p),
        ("weight", ctypes.c_void_p),
        ("transition", ctypes.c_void_p),
        ("emission", ctypes.c_void_p),
        ("alpha", ctypes.c_double),
        ("prior", ctypes.c_double),
    ]


@cache
def _compiled() -> ctypes.CDLL:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise MissingCompiler("the floor needs a C compiler: expected cc, gcc or clang")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "floor.so"
        subprocess.run(
            [compiler, *OPTIONS, *SHARED, str(SOURCE), "-o", str(library)],
            check=True,
        )
        loaded = ctypes.CDLL(str(library))  # remains loaded after the file is deleted
    loaded.floor_step.restype = ctypes.c_int64
    loaded.floor_step.argtypes = [ctypes.POINTER(_Counts), ctypes.c_int64] + [ctypes.c_void_p] * 5
    return loaded


class FloorKernel:
    """The floor on given counts; `step` returns the indices of the best candidates."""

    def __init__(
        self,
        n_candidates: NDArray[np.uint32],
        weight: NDArray[np.float64],
        transition: NDArray[np.uint16],
        emission: NDArray[np.uint16],
        *,
        budget: int,
        alpha: float,
        prior: float,
    ) -> None:
        total = int(n_candidates.sum())
        if not len(transition) == len(emission) == total:
            raise ValueError(f"transition, emission: expected {total} counts, one a candidate")
        self.n_candidates = total
        self._arrays = (n_candidates, weight, transition, emission)  # kept alive
        self._counts = _Counts(
            len(weight), *(array.ctypes.data for array in self._arrays), alpha, prior
        )
        self._work = (
            np.empty(int(n_candidates.max())),
            np.empty(total + 1),
            np.empty(total + 1),
            np.empty(total + 1, np.uint32),
        )
        self.survivors = np.empty(budget + 1, np.uint32)
        # Prepared once: NumPy's lookup of addresses is slow compared with a small step.
        self._step = _compiled().floor_step
        self._arguments = (
            ctypes.byref(self._counts),
            ctypes.c_int64(budget),
            *(ctypes.c_void_p(array.ctypes.data) for array in (*self._work, self.survivors)),
        )

    @classmethod
    def of(cls, pf: mdvpf.ParticleFilter, symbol: int) -> FloorKernel:
        """Return the floor for the step of a filter on a symbol."""
        rows, columns = [], []
        for state, (transition, emission) in zip(pf.states.tolist(), tables(pf), strict=True):
            # The new state has no counts.
            rows.append(np.append(transition[state + 1], 0).astype(np.uint16))
            columns.append(np.append(emission[:, symbol], 0).astype(np.uint16))
        return cls(
            (pf.n_states + 1).astype(np.uint32),
            pf.weights,
            np.concatenate(rows),
            np.concatenate(columns),
            budget=pf.n_particles,
            alpha=pf.model.alpha,
            prior=pf.n_symbols * pf.model.beta,
        )

    def step(self) -> NDArray[np.uint32]:
        return self.survivors[: self._step(*self._arguments)]
