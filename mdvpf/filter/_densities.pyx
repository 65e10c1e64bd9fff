# cython: language_level=3
"""Calls of the two C functions of a `CompiledEmission`, for many rows of statistics at once.

`mdvpf/filter/density_tables.py` evaluates the density of a different number in every row, and
`number_sampling.py` updates every row with an observation of its own. The functions release the
GIL; functions of ctypes take it back by themselves.
"""

from libc.stdint cimport int64_t, uintptr_t

import numpy as np

ctypedef int (*LogPredictive)(
    const double*, const double*, int64_t, double*, void*
) noexcept nogil
ctypedef int (*Update)(const double*, double, double*, void*) noexcept nogil


def log_densities(
    uintptr_t function,
    uintptr_t user_data,
    const double[:, ::1] observations,
    const double[:, ::1] statistics,
    const int64_t[::1] which,
    Py_ssize_t dim,
    const double[::1] numbers,
    double[::1] out,
):
    """Write the log density of each number in its row; return 0, or the status of a failure.

    Number j is entry `dim` of the observation of row ``which[j]``; the other entries of that
    observation are those of `observations`.
    """
    cdef LogPredictive call = <LogPredictive>function
    cdef Py_ssize_t n = numbers.shape[0]
    cdef Py_ssize_t n_dims = observations.shape[1]
    cdef double[::1] current = np.empty(n_dims)
    cdef Py_ssize_t i, j
    cdef int64_t row
    cdef int64_t last = -1
    cdef int status = 0
    with nogil:
        for j in range(n):
            row = which[j]
            if row != last:
                for i in range(n_dims):
                    current[i] = observations[row, i]
                last = row
            current[dim] = numbers[j]
            status = call(&current[0], &statistics[row, 0], 1, &out[j], <void*>user_data)
            if status != 0:
                break
    return status


def update_each(
    uintptr_t function,
    uintptr_t user_data,
    const double[:, ::1] observations,
    double[:, ::1] statistics,
):
    """Add an observation to each row of statistics; return 0, or the status of a failure."""
    cdef Update call = <Update>function
    cdef Py_ssize_t i
    cdef int status = 0
    with nogil:
        for i in range(observations.shape[0]):
            status = call(&observations[i, 0], 1.0, &statistics[i, 0], <void*>user_data)
            if status != 0:
                break
    return status
