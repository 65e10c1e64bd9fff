"""A custom emission family: two compiled functions over doubles.

The core calls the functions without the interpreter, so they must be C functions: compiled by Numba
(``numba.cfunc``), loaded by ctypes or cffi, or wrapped in a ``scipy.LowLevelCallable``.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdvpf._support import validate

Floats = NDArray[np.float64]

_DOUBLES = ctypes.POINTER(ctypes.c_double)
_LOG_PREDICTIVE = ctypes.CFUNCTYPE(
    ctypes.c_int, _DOUBLES, _DOUBLES, ctypes.c_int64, _DOUBLES, ctypes.c_void_p
)
_UPDATE = ctypes.CFUNCTYPE(ctypes.c_int, _DOUBLES, ctypes.c_double, _DOUBLES, ctypes.c_void_p)
_EXPECTED = "a numba.cfunc, a scipy.LowLevelCallable, a function of ctypes or cffi, or an address"
SUPPORTS = ("real", "counts")
_PROBES = (0.0, 1.0, 2.0, 5.0)  # valid both as counts and as real numbers


@dataclass(frozen=True, eq=False, init=False, repr=False)
class CompiledEmission:
    """A custom emission family, defined by two C functions.

    A state keeps `n_statistics` doubles, all zero before its first observation. The functions
    are ::

        int log_predictive(const double *observation, const double *statistics,
                           int64_t n_states, double *out, void *user_data);
        int update(const double *observation, double weight, double *statistics,
                   void *user_data);

    `log_predictive` writes the log density of the observation in each of `n_states` states, whose
    statistics are stored one after another. `update` adds the observation to the statistics of one
    state, as if it had occurred `weight` times. Both return 0 on success and another number on
    failure, and must write finite numbers. A missing number is NaN. If all numbers are missing, or
    all of this family in a product, the functions are not called.

    `predictive()`, `sample` and `forecast` compute distribution functions, moments and draws from
    the density, so it must integrate to 1. They also call `log_predictive` with numbers that cannot
    occur; for those it may write minus infinity.

    With forgetting, the core decays the statistics that are sums of weights before either function
    reads them. Other statistics, such as means, do not decay; `fades` marks the ones that do.
    The how-to "Write an emission family of your own" shows families in Numba.

    Parameters
    ----------
    log_predictive, update : C function
        A ``numba.cfunc``, a ``scipy.LowLevelCallable``, a function of ctypes or cffi, or an
        address.
    n_statistics : int
        Number of doubles that a state keeps.
    n_dims : int, default 1
        Numbers in an observation.
    fades : sequence of bool, optional
        Whether each statistic is a sum of weights; all are by default.
    user_data : array_like of float, optional
        Hyper-parameters. They are copied, and both functions get a pointer to the copy.
    name : str, default "own"
        Name of the family in checkpoints and messages.
    support : {"real", "counts"}, default "real"
        The values of each number of an observation. "real": all real numbers, with a density.
        "counts": 0, 1, 2, ..., each with a probability.

    Examples
    --------
    >>> import ctypes, mdvpf
    >>> Doubles = ctypes.POINTER(ctypes.c_double)
    >>> @ctypes.CFUNCTYPE(
    ...     ctypes.c_int, Doubles, Doubles, ctypes.c_int64, Doubles, ctypes.c_void_p
    ... )
    ... def log_predictive(observation, statistics, n_states, out, user_data):
    ...     for i in range(n_states):  # uniform on an interval of 10, whatever was seen
    ...         out[i] = -2.302585092994046
    ...     return 0
    >>> @ctypes.CFUNCTYPE(ctypes.c_int, Doubles, ctypes.c_double, Doubles, ctypes.c_void_p)
    ... def update(observation, weight, statistics, user_data):
    ...     statistics[0] += weight
    ...     return 0
    >>> family = mdvpf.CompiledEmission(log_predictive, update, n_statistics=1)
    >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=family), n_particles=10)
    >>> round(pf.update(3.0).log_predictive, 6)
    -2.302585
    """

    n_statistics: int
    n_dims: int
    fades: tuple[bool, ...]
    user_data: tuple[float, ...]
    name: str
    support: str

    def __init__(
        self,
        log_predictive: Any,
        update: Any,
        n_statistics: int,
        *,
        n_dims: int = 1,
        fades: Any = None,
        user_data: ArrayLike | None = None,
        name: str = "own",
        support: str = "real",
    ) -> None:
        put = object.__setattr__
        size = validate.integer("n_statistics", n_statistics, low=1, high=65536)
        put(self, "n_statistics", size)
        put(self, "n_dims", validate.integer("n_dims", n_dims, low=1, high=4096))
        kept = [True] * size
        if fades is not None:
            kept = validate.sequence("fades", fades, of="bools")
        if len(kept) != size:
            raise ValueError(f"fades={fades!r}: expected {size} entries, one for each statistic")
        put(self, "fades", tuple(validate.flag(f"fades[{i}]", f) for i, f in enumerate(kept)))
        if not isinstance(name, str) or not name:
            raise TypeError(f"name={name!r}: expected a non-empty string")
        put(self, "name", name)
        put(self, "support", validate.choice("support", support, SUPPORTS))
        address, attached_data = _address("log_predictive", log_predictive)
        put(self, "_functions", (address, _address("update", update)[0]))
        put(self, "_owners", (log_predictive, update))  # keep the machine code alive
        if user_data is None:
            put(self, "user_data", ())
            put(self, "_data", attached_data)
        else:
            data = _doubles("user_data", user_data)
            put(self, "user_data", tuple(data.tolist()))
            put(self, "_data", data)

    def __deepcopy__(self, memo: Any) -> CompiledEmission:
        return self  # immutable, and functions cannot be copied

    def __repr__(self) -> str:
        support = "" if self.support == "real" else f", support={self.support!r}"
        return f"CompiledEmission(name={self.name!r}, n_statistics={self.n_statistics}{support})"

    @property
    def addresses(self) -> tuple[int, int, int]:
        """Addresses of the two functions and of their data, for the core."""
        data: Any = self._data  # type: ignore[attr-defined]
        data_address = data.ctypes.data if isinstance(data, np.ndarray) else int(data or 0)
        functions: tuple[int, int] = self._functions  # type: ignore[attr-defined]
        return (*functions, data_address)

    def log_predictive(self, observations: Floats, statistics: Floats) -> Floats:
        """Return the log predictive of each observation in each state.

        Parameters
        ----------
        observations : ndarray of float64, shape (n, n_dims)
            The observations.
        statistics : ndarray of float64, shape (n_states, n_statistics)
            The statistics of each state.

        Returns
        -------
        ndarray of float64, shape (n, n_states)
        """
        function = _LOG_PREDICTIVE(self.addresses[0])
        rows = np.ascontiguousarray(statistics, dtype=np.float64)
        points = np.ascontiguousarray(observations, dtype=np.float64)
        out = np.zeros((len(points), len(rows)))
        for point, row in zip(points, out, strict=True):
            if np.isnan(point).all():
                continue
            status = function(
                point.ctypes.data_as(_DOUBLES),
                rows.ctypes.data_as(_DOUBLES),
                len(rows),
                row.ctypes.data_as(_DOUBLES),
                self.addresses[2],
            )
            self.check_status("log_predictive", status)
            self.check_log_densities(point, row)
        return out

    def check_status(self, function: str, status: int) -> None:
        """Raise if one of the functions returned another status than 0."""
        if status:
            raise ValueError(
                f"{function} of {self.name!r} returned the status {status}: expected 0"
            )

    def check_log_densities(self, observation: Floats, found: Floats) -> None:
        """Raise if the log density of an observation is not a number."""
        if np.isnan(found).any():
            shown = observation.tolist()
            raise ValueError(
                f"log_predictive of {self.name!r} wrote nan at the observation "
                f"{shown[0] if len(shown) == 1 else shown}: expected a log density, a large "
                "negative one where an observation is impossible"
            )

    def statistics_after(self, observations: Floats, weights: Floats) -> Floats:
        """Return the statistics of a state after some observations.

        Parameters
        ----------
        observations : ndarray of float64, shape (n, n_dims)
            The observations. Those without any number are skipped.
        weights : ndarray of float64, shape (n,)
            How often each of them counts.

        Returns
        -------
        ndarray of float64, shape (n_statistics,)
        """
        function = _UPDATE(self.addresses[1])
        row = np.zeros(self.n_statistics)
        points = np.ascontiguousarray(observations, dtype=np.float64)
        for point, weight in zip(points, weights.tolist(), strict=True):
            if np.isnan(point).all():
                continue
            at = (point.ctypes.data_as(_DOUBLES), weight, row.ctypes.data_as(_DOUBLES))
            status = function(*at, self.addresses[2])
            self.check_status("update", status)
        return row

    def fingerprint(self) -> list[float | None]:
        """Return the prior predictive at a few points; checkpoints recognise the family by it."""
        prior = np.zeros((1, self.n_statistics))
        found: list[float | None] = []
        for probe in _PROBES:
            try:
                value = self.log_predictive(np.full((1, self.n_dims), probe), prior)[0, 0]
                found.append(float(value) if np.isfinite(value) else None)
            except ValueError:
                found.append(None)
        return found


def _doubles(name: str, values: Any) -> Floats:
    """Return a flat copy of numbers as doubles, or raise."""
    try:
        return np.array(values, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        raise TypeError(f"{name}={values!r}: expected an array of numbers, or None") from None


def _address(name: str, function: Any) -> tuple[int, int | None]:
    """Return the address of a C function, and of the user data of a LowLevelCallable."""
    if type(function).__name__ == "LowLevelCallable":
        data = function.user_data
        data_address = None if data is None else ctypes.cast(data, ctypes.c_void_p).value
        return _address(name, function.function)[0], data_address
    found: Any = None
    if isinstance(function, int) and not isinstance(function, bool):
        found = function
    elif isinstance(getattr(function, "address", None), int):  # Numba
        found = function.address
    elif isinstance(function, ctypes._CFuncPtr):  # type: ignore[attr-defined]
        found = ctypes.cast(function, ctypes.c_void_p).value
    elif type(function).__name__ == "PyCapsule":
        found = _capsule_address(function)
    elif type(function).__module__ == "_cffi_backend":
        import cffi  # type: ignore[import-untyped,unused-ignore]

        found = int(cffi.FFI().cast("uintptr_t", function))
    if not found:
        raise TypeError(f"{name}={function!r}: expected {_EXPECTED}")
    return found, None


def _capsule_address(capsule: Any) -> int | None:
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    address: int | None = api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))
    return address
