# cython: language_level=3
"""Resampling from given uniforms: how many offspring each of some weights has."""

from libc.math cimport floor, rint
from libc.stdint cimport int64_t

from mdvpf._types cimport (
    GRID, RESAMPLING_MULTINOMIAL, RESAMPLING_RESIDUAL, RESAMPLING_STRATIFIED, ResamplingKind,
)


cdef inline int64_t first_above(const double* cumulative, int64_t n, double target) noexcept nogil:
    """The first i with ``cumulative[i] > target``; if rounding leaves none, the last that adds."""
    cdef int64_t low = 0
    cdef int64_t high = n - 1
    cdef int64_t middle
    cdef bint beyond = target >= cumulative[n - 1]
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] > target or (beyond and cumulative[middle] == cumulative[n - 1]):
            high = middle
        else:
            low = middle + 1
    return low


cdef inline int64_t residual_part(
    double* weight, int64_t n, int64_t budget, int64_t* offspring
) noexcept nogil:
    """Give each its whole number of offspring, leave the rest in `weight`; return how many lack.

    Whole numbers are read off a grid of 2**-32, so that K * (1/K) is 1 whatever its last bit.
    """
    cdef int64_t i
    cdef int64_t lacking = budget
    cdef double wanted, whole
    for i in range(n):
        wanted = budget * weight[i]
        whole = floor(rint(wanted * GRID) / GRID)
        offspring[i] = <int64_t>whole
        lacking -= offspring[i]
        weight[i] = wanted - whole if wanted > whole else 0.0
    return lacking


cdef inline void draw(
    ResamplingKind scheme, double* weight, int64_t n, int64_t n_draws,
    const double* uniforms, int64_t* offspring,
) noexcept nogil:
    """Add to the offspring counts of n weights by `n_draws` draws. The weights are overwritten."""
    cdef int64_t i
    cdef double point
    for i in range(1, n):
        weight[i] += weight[i - 1]
    for i in range(n_draws):
        if scheme == RESAMPLING_MULTINOMIAL or scheme == RESAMPLING_RESIDUAL:
            point = uniforms[i]
        elif scheme == RESAMPLING_STRATIFIED:
            point = (i + uniforms[i]) / n_draws
        else:
            point = (i + uniforms[0]) / n_draws
        offspring[first_above(weight, n, point * weight[n - 1])] += 1
