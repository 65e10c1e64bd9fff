# cython: language_level=3
"""Forgetting: the weights of steps, and the storage of real counts.

Step n has the weight w_n, which grows with n. Counting adds the weight of the step to a sum, and a
count as of step n is the sum divided by w_n. Earlier counts fade although their sums do not change.

Sums are stored as 32-bit floats, as multiples of a power of two, the *scale* of their record or
block. The scale follows the weights when the record is written. A sum is cut to 24 bits after a
dither is added that depends on the step alone. Rounding is therefore unbiased, and an increment
does not vanish beside a large count. Whole numbers below 2**24 stay exact.
"""

from libc.math cimport exp2, floor, frexp, log2, pow
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from mdvpf._kernel.types cimport Clock, Model, System

cdef enum:
    FASTEST = 64            # binades a step: larger rates have the same effect
    LARGEST_POWER = 900     # weights above two to this power are computed from their logs
    STEEPEST = 16777216     # larger exponents have the same effect in the first 10**5 steps
    FARTHEST = 1073741824   # binades: scales are kept this close to the weight of the step


cdef inline bint forgets(const System* system) noexcept nogil:
    """Whether counts fade."""
    return system.model.forget > 0.0 or system.model.rate > 0.0


cdef inline Clock clock_at(const Model* model, int64_t step, double elapsed) noexcept nogil:
    """The weight of a step, numbered from 1, at a time of `elapsed` half-lives."""
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
    """Set the clocks from the number of completed steps."""
    if system.model.real:
        system.now_elapsed = system.elapsed
        system.now = clock_at(&system.model, system.n_steps + 1, system.elapsed)
        system.after = clock_at(&system.model, system.n_steps + 2, system.elapsed)


cdef inline void set_elapsed(System* system, double elapsed) noexcept nogil:
    """Set the time of the next symbol. A pending symbol keeps its time."""
    cdef Clock now = system.now
    cdef double now_elapsed = system.now_elapsed
    system.elapsed = elapsed
    set_clocks(system)
    if system.pending:
        system.now = now
        system.now_elapsed = now_elapsed


# ---- scales ------------------------------------------------------------------------------

cdef inline int32_t scale_at(const Clock* clock) noexcept nogil:
    """The scale of sums written at a step. It may wrap: only differences of scales are used."""
    return <int32_t><uint32_t><uint64_t>clock.exponent


cdef inline int32_t scales_apart(int32_t scale, const Clock* clock) noexcept nogil:
    """How many binades a scale is above that of a step; usually it is negative."""
    return <int32_t>(<uint32_t>scale - <uint32_t>scale_at(clock))


cdef inline int32_t clamp_scale(int32_t scale, const Clock* clock) noexcept nogil:
    """The scale, moved closer to the step where their difference could overflow 32 bits."""
    if scales_apart(scale, clock) > -FARTHEST:
        return scale
    return <int32_t>(<uint32_t>scale_at(clock) - <uint32_t>FARTHEST)


cdef inline double power_of_two(int32_t exponent) noexcept nogil:
    """2**exponent; 0 if it is below 2**-1000, 2**1000 if it is above."""
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
    """A sum, cut to 24 bits with the dither of a step."""
    cdef uint64_t bits
    memcpy(&bits, &total, sizeof(bits))
    bits += clock.dither
    bits &= ~<uint64_t>0x1FFFFFFF
    memcpy(&total, &bits, sizeof(bits))
    return total


cdef inline double with_weight(double stored, int32_t scale, const Clock* clock) noexcept nogil:
    """A stored sum plus the weight of the step, as a multiple of 2**scale."""
    return cut(stored + clock.mantissa * power_of_two(-scales_apart(scale, clock)), clock)
