# cython: language_level=3
"""Resampling from given uniforms: the number of offspring of each weight.

A single draw is a binary search in the cumulative weights (`first_above`). Many draws use a
*guide*: the total is divided into as many equal intervals as there are weights, and the guide has,
for each interval, the index at which a linear search starts. That search takes one step on average.
"""

from libc.math cimport floor, rint
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memset

from mdvpf._kernel.constants cimport (
    GRID, RESAMPLING_MULTINOMIAL, RESAMPLING_RESIDUAL, RESAMPLING_STRATIFIED,
    ResamplingKind,
)


cdef inline int64_t first_above(const double* cumulative, int64_t n, double target) noexcept nogil:
    """The first i with ``cumulative[i] > target``; if there is none, the last with a weight > 0."""
    cdef int64_t low = 0
    cdef int64_t half
    if target >= cumulative[n - 1]:
        while cumulative[low] < cumulative[n - 1]:
            low += 1
        return low
    while n > 1:  # without a branch on the comparison, which would be unpredictable
        half = n >> 1
        low += half * (cumulative[low + half - 1] <= target)
        n -= half
    return low


cdef inline uint64_t interval_of(double value, double scale, int64_t n) noexcept nogil:
    """The interval, of n, that the value is in. It is monotone in the value."""
    cdef uint64_t interval = <uint64_t><int64_t>(value * scale)
    return interval if interval < <uint64_t>n else <uint64_t>n - 1


cdef inline void make_guide(const double* cumulative, int64_t n, uint64_t* guide) noexcept nogil:
    """Write, for each of the n intervals, how many values are in earlier intervals."""
    cdef double scale = n / cumulative[n - 1]
    cdef uint64_t interval
    cdef int64_t i
    memset(guide, 0, <size_t>n * sizeof(uint64_t))
    for i in range(n - 1):
        interval = interval_of(cumulative[i], scale, n) + 1
        if interval < <uint64_t>n:
            guide[interval] += 1
    for i in range(1, n):
        guide[i] += guide[i - 1]


cdef inline int64_t find_by_guide(
    const double* cumulative, int64_t n, const uint64_t* guide, double point
) noexcept nogil:
    """`first_above` for the point times the total, in constant time on average."""
    cdef double target = point * cumulative[n - 1]
    cdef int64_t i
    if target >= cumulative[n - 1]:
        return first_above(cumulative, n, target)
    i = <int64_t>guide[interval_of(target, n / cumulative[n - 1], n)]
    while cumulative[i] <= target:
        i += 1
    return i


cdef inline int64_t set_whole_parts(
    double* weight, int64_t n, int64_t budget, int64_t* offspring
) noexcept nogil:
    """Set offspring to the whole parts of their expectations; return the number still to draw.

    The fractional parts are left in `weight`. Expectations are rounded to a grid of 2**-32, so that
    K * (1/K) is 1 whatever its last bit.
    """
    cdef int64_t i
    cdef int64_t n_left = budget
    cdef double expected, whole
    for i in range(n):
        expected = budget * weight[i]
        whole = floor(rint(expected * GRID) / GRID)
        offspring[i] = <int64_t>whole
        n_left -= offspring[i]
        weight[i] = expected - whole if expected > whole else 0.0
    return n_left


cdef inline void draw(
    ResamplingKind scheme, double* weight, int64_t n, int64_t n_draws,
    const double* uniforms, uint64_t* guide, int64_t* offspring,
) noexcept nogil:
    """Draw `n_draws` times from n weights and count the offspring of each.

    The weights and `guide`, which has room for n numbers, are overwritten.
    """
    cdef int64_t i
    cdef double point
    if n_draws == 0:
        return
    for i in range(1, n):
        weight[i] += weight[i - 1]
    make_guide(weight, n, guide)
    for i in range(n_draws):
        if scheme == RESAMPLING_MULTINOMIAL or scheme == RESAMPLING_RESIDUAL:
            point = uniforms[i]
        elif scheme == RESAMPLING_STRATIFIED:
            point = (i + uniforms[i]) / n_draws
        else:
            point = (i + uniforms[0]) / n_draws
        offspring[find_by_guide(weight, n, guide, point)] += 1
