# cython: language_level=3
"""Sums over arrays, in four lanes or sequentially.

An array that is summed in lanes is padded with zeros to a multiple of four. A sequential sum keeps
its bits if zeros are left out.
"""

from libc.stdint cimport uint32_t


cdef inline double total_of(const double* values, uint32_t n) noexcept nogil:
    """The sum of n values, in lanes."""
    cdef double a = 0.0
    cdef double b = 0.0
    cdef double c = 0.0
    cdef double d = 0.0
    cdef uint32_t i
    for i in range(0, n, 4):
        a += values[i]
        b += values[i + 1]
        c += values[i + 2]
        d += values[i + 3]
    return (a + b) + (c + d)


cdef inline double weighted_sum(
    const double* values, const double* factors, uint32_t n
) noexcept nogil:
    """The sum of n products, in lanes."""
    cdef double a = 0.0
    cdef double b = 0.0
    cdef double c = 0.0
    cdef double d = 0.0
    cdef uint32_t i
    for i in range(0, n, 4):
        a += values[i] * factors[i]
        b += values[i + 1] * factors[i + 1]
        c += values[i + 2] * factors[i + 2]
        d += values[i + 3] * factors[i + 3]
    return (a + b) + (c + d)


cdef inline double sum_of(const double* values, uint32_t n) noexcept nogil:
    """The sum of n values, sequentially."""
    cdef double total = 0.0
    cdef uint32_t i
    for i in range(n):
        total += values[i]
    return total


cdef inline double product_sum(
    const double* values, const double* factors, uint32_t n
) noexcept nogil:
    """The sum of n products, sequentially."""
    cdef double total = 0.0
    cdef uint32_t i
    for i in range(n):
        total += values[i] * factors[i]
    return total
