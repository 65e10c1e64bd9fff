# cython: language_level=3
"""The weights of steps, and how real counts are stored: how forgetting is computed.

Step n has the weight w_n, which grows; to count is to add the weight of the step, and a count as of
step n is the sum divided by w_n. So what was counted earlier fades without being touched.

Sums are stored as 32-bit floats in units of a power of two, the *scale* of a record or of a block,
which follows the weights when the record is written. A sum is cut to 24 bits after a dither is
added that depends on the step alone. So it is rounded up or down, right on average, and an
increment does not vanish beside a large count, however large. Whole numbers below 2**24 stay exact.
"""

from libc.math cimport exp2, floor, frexp, log2, pow
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from mdvpf._kernel.types cimport Clock, Model, System

cdef enum:
    FASTEST = 64            # binades a step: at this rate nothing outlives a step
    LARGEST_POWER = 900     # larger weights are computed from their logs
    STEEPEST = 16777216     # exponent: nothing outlives one of the first 10**5 steps
    FARTHEST = 1073741824   # binades: a scale that is so far behind does not fall back further


cdef inline Clock clock_at(const Model* model, int64_t step, double elapsed) noexcept nogil:
    """The weight of a step, numbered from 1, after so many half-lives if they go by time."""
    cdef Clock clock
    cdef double power
    cdef int exponent = 0
    clock.exponent = 0
    clock.mantissa = 1.0
    if model.rate > 0.0:
        power = step * (model.rate if model.rate < FASTEST else <double>FASTEST)
        if model.by_time:
            power = elapsed
        clock.exponent = <int64_t>floor(power)
        clock.mantissa = exp2(power - floor(power))
    elif model.forget > 0.0:
        power = (model.forget if model.forget < STEEPEST else <double>STEEPEST) \
            * log2(<double>step)
        if power < LARGEST_POWER:
            clock.mantissa = frexp(pow(<double>step, model.forget), &exponent)
            clock.exponent = exponent
        else:
            clock.exponent = <int64_t>floor(power)
            clock.mantissa = exp2(power - floor(power))
    clock.inverse = 1.0 / clock.mantissa
    clock.dither = (<uint64_t>step * 0x9E3779B97F4A7C15u) >> 35
    return clock


cdef inline void set_clocks(System* system) noexcept nogil:
    """Set the clocks by the number of completed steps."""
    if system.model.real:
        system.now_elapsed = system.elapsed
        system.now = clock_at(&system.model, system.n_steps + 1, system.elapsed)
        system.after = clock_at(&system.model, system.n_steps + 2, system.elapsed)


cdef inline void tell_time(System* system, double elapsed) noexcept nogil:
    """Note the time of the symbol that comes next. What is pending keeps its own."""
    cdef Clock now = system.now
    cdef double now_elapsed = system.now_elapsed
    system.elapsed = elapsed
    set_clocks(system)
    if system.pending:
        system.now = now
        system.now_elapsed = now_elapsed


# ---- scales ------------------------------------------------------------------------------

cdef inline int32_t scale_at(const Clock* clock) noexcept nogil:
    """The scale of what is written at a step. Scales are compared by their differences."""
    return <int32_t><uint32_t><uint64_t>clock.exponent


cdef inline int32_t scales_apart(int32_t scale, const Clock* clock) noexcept nogil:
    """How many binades a scale is above that of a step: mostly it is below."""
    return <int32_t>(<uint32_t>scale - <uint32_t>scale_at(clock))


cdef inline int32_t not_too_far(int32_t scale, const Clock* clock) noexcept nogil:
    """The scale, or one closer to the step: differences of scales have 32 bits."""
    if scales_apart(scale, clock) > -FARTHEST:
        return scale
    return <int32_t>(<uint32_t>scale_at(clock) - <uint32_t>FARTHEST)


cdef inline double power_of_two(int32_t exponent) noexcept nogil:
    """2**exponent; 0 where it is too small to matter."""
    cdef uint64_t bits
    cdef double value = 0.0
    if exponent > -1000:
        bits = <uint64_t>(min(exponent, 1000) + 1023) << 52
        memcpy(&value, &bits, sizeof(value))
    return value


cdef inline double fading(int32_t scale, const Clock* clock) noexcept nogil:
    """The factor from a stored sum to a count as of a step."""
    return power_of_two(scales_apart(scale, clock)) * clock.inverse


cdef inline double cut(double total, const Clock* clock) noexcept nogil:
    """A sum that a step has written, cut to 24 bits."""
    cdef uint64_t bits
    memcpy(&bits, &total, sizeof(bits))
    bits += clock.dither
    bits &= ~<uint64_t>0x1FFFFFFF
    memcpy(&total, &bits, sizeof(bits))
    return total


cdef inline double with_weight(double stored, int32_t scale, const Clock* clock) noexcept nogil:
    """A stored sum after the weight of the step is added, in units of the scale."""
    return cut(stored + clock.mantissa * power_of_two(-scales_apart(scale, clock)), clock)
