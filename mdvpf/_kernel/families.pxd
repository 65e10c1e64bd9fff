# cython: language_level=3
"""Emission families over numbers: log predictives, and updates of statistics.

An observation is a row of doubles, one for each channel; NaN is a missing number. A state has a row
of statistics, with the statistics of each channel in turn:

=========== ==================================================================================
Gaussian    number of observations, their mean, sum of squared deviations from it
Poisson     number of observations, their sum
categorical number of observations, number of observations of each symbol
open        the same; room for more symbols than were seen, see `open_channels.pxd`
compiled    defined by the user's functions
=========== ==================================================================================

Numbers and sums are sums of weights in units of the scale of the row (`clock.pxd`). Multiplied by
the fading of the row, they are as of the present step. A mean does not fade. A row of zeros is the
prior.
"""

from libc.math cimport floor, isfinite, isnan, lgamma, log, log1p, sqrt
from libc.stdint cimport uint8_t, uint32_t

from mdvpf._kernel.constants cimport (
    CHANNEL_CATEGORICAL, CHANNEL_COMPILED, CHANNEL_GAUSSIAN, CHANNEL_OPEN, CHANNEL_POISSON,
    LARGEST_NUMBER,
)
from mdvpf._kernel.number_types cimport Channel

cdef extern from *:
    """
    #define MDVPF_PI 3.14159265358979323846
    """
    const double PI "MDVPF_PI"


cdef inline bint fades(const Channel* channel, uint32_t i) noexcept nogil:
    """Whether the i-th statistic of a channel is a sum of weights."""
    return not (channel.kind == CHANNEL_GAUSSIAN and i == 1)


# ---- predictives -------------------------------------------------------------------------

cdef inline bint has_constants(const Channel* channel) noexcept nogil:
    """Whether log predictives in a state share terms that do not depend on the observation."""
    return channel.kind == CHANNEL_GAUSSIAN or channel.kind == CHANNEL_POISSON


cdef inline void student_constants(
    const double* prior, double n, double mean, double squares, double* out
) noexcept nogil:
    """The constants of Student's t, the predictive of a normal-inverse-gamma posterior.

    These are 2 a times the squared scale, the location, a + 1/2 and the log of the largest density.
    Gamma(a + 1/2) / Gamma(a) is computed by the asymptotic series at an argument of at least 10;
    the recurrence of the gamma function reduces smaller a to such an argument.
    """
    cdef double kappa = prior[1] + n
    cdef double a = prior[2] + 0.5 * n
    cdef double away = mean - prior[0]
    cdef double b = prior[3] + 0.5 * squares + 0.5 * (prior[1] * n / kappa) * away * away
    cdef double spread = 2.0 * b * ((kappa + 1.0) / kappa)
    cdef double over = 1.0
    cdef double under = 1.0
    cdef double start = a
    cdef double per, square, series
    while start < 10.0:
        over *= start
        under *= start + 0.5
        start += 1.0
    per = 1.0 / start
    square = per * per
    series = per * (-0.125 + square * (1.0 / 192 + square * (-1.0 / 640 + square * (
        17.0 / 14336 + square * (-31.0 / 18432 + square * (691.0 / 180224))))))
    out[0] = spread
    out[1] = prior[0] + away * (n / kappa)
    out[2] = a + 0.5
    out[3] = log(over / under * sqrt(start / (PI * spread))) + series


cdef inline double log_student(const double* constants, double y) noexcept nogil:
    """Log density of Student's t, from its constants."""
    cdef double z = y - constants[1]
    cdef double ratio = z * z / constants[0]
    cdef double tail = log1p(ratio)
    if ratio > 1e300:
        tail = 2.0 * log(z if z > 0.0 else -z) - log(constants[0])
    return constants[3] - constants[2] * tail


cdef inline void negative_binomial_constants(
    double shape, double rate, double* out
) noexcept nogil:
    """The constants of the predictive of a gamma posterior."""
    out[0] = shape
    out[1] = lgamma(shape)
    out[2] = shape * log1p(1.0 / rate)
    out[3] = log1p(rate)


cdef inline double log_negative_binomial(
    const double* constants, double y, double log_factorial
) noexcept nogil:
    """Log probability of a count, from the constants."""
    return lgamma(constants[0] + y) - constants[1] - log_factorial - constants[2] \
        - y * constants[3]


cdef inline void state_constants(
    const Channel* channel, const double* row, double fading, double* out
) noexcept nogil:
    """The constants of a channel in a state with a row of statistics; the first is positive."""
    cdef const double* own = row + channel.offset
    cdef const double* prior = &channel.parameters[0]
    cdef double n = own[0] * fading
    if channel.kind == CHANNEL_GAUSSIAN:
        student_constants(prior, n, own[1], own[2] * fading, out)
    else:
        negative_binomial_constants(prior[0] + own[1] * fading, prior[1] + n, out)


cdef inline double channel_constant(
    const Channel* channel, double y, double base
) noexcept nogil:
    """The part of a number's log predictive that is the same in all states.

    `base` is the base probability of the symbol in an open channel.
    """
    if channel.kind == CHANNEL_OPEN:
        return channel.parameters[0] * base
    return lgamma(y + 1.0) if channel.kind == CHANNEL_POISSON else 0.0


cdef inline double log_channel(
    const Channel* channel, const double* constants, const double* row, double fading, double y,
    double constant,
) noexcept nogil:
    """Log predictive of the number y of a channel in a state with a row of statistics.

    `constants` are those of `state_constants` if the channel has any.
    """
    cdef const double* own = row + channel.offset
    cdef const double* prior = &channel.parameters[0]
    cdef double n = own[0] * fading
    if channel.kind == CHANNEL_GAUSSIAN:
        return log_student(constants, y)
    if channel.kind == CHANNEL_POISSON:
        return log_negative_binomial(constants, y, constant)
    if channel.kind == CHANNEL_OPEN:
        return log((own[1 + <uint32_t>y] * fading + constant) / (n + prior[0]))
    return log((own[1 + <uint32_t>y] * fading + prior[0]) / (n + channel.n_symbols * prior[0]))


# ---- updates -----------------------------------------------------------------------------

cdef inline void fade_row(
    const uint8_t* fading, uint32_t size, double* row, double factor
) noexcept nogil:
    """Multiply all sums of weights of a row by a factor."""
    cdef uint32_t i
    for i in range(size):
        if fading[i]:
            row[i] *= factor


cdef inline void observe(
    const Channel* channels, uint32_t n_channels, const double* observation, double weight,
    double* row,
) noexcept nogil:
    """Add an observation to a row, with a weight in units of its scale; not to users' parts."""
    cdef const Channel* channel
    cdef double* own
    cdef double y, away
    cdef uint32_t c
    for c in range(n_channels):
        channel = &channels[c]
        y = observation[c]
        if isnan(y) or channel.kind == CHANNEL_COMPILED:
            continue
        own = row + channel.offset
        own[0] += weight
        if channel.kind == CHANNEL_GAUSSIAN:
            away = y - own[1]
            own[1] += away * (weight / own[0])
            own[2] += weight * away * (y - own[1])
        elif channel.kind == CHANNEL_POISSON:
            own[1] += weight * y
        else:
            own[1 + <uint32_t>y] += weight


# ---- validation --------------------------------------------------------------------------

cdef inline bint is_observation(
    const Channel* channels, uint32_t n_channels, const double* observation
) noexcept nogil:
    """Whether every number is missing or a possible value of its channel."""
    cdef double y, low, high
    cdef uint32_t c
    for c in range(n_channels):
        y = observation[c]
        low = -LARGEST_NUMBER
        high = LARGEST_NUMBER
        if channels[c].kind != CHANNEL_GAUSSIAN and channels[c].kind != CHANNEL_COMPILED:
            low = 0.0
            high = 9007199254740992.0
            if channels[c].kind == CHANNEL_CATEGORICAL:
                high = <double>channels[c].n_symbols - 1.0
            elif channels[c].kind == CHANNEL_OPEN:
                high = 2147483630.0  # and see `are_in_order`
            if floor(y) != y and not isnan(y):
                return False
        if not isnan(y) and not low <= y <= high:
            return False
    return True


cdef inline bint is_missing(const double* observation, uint32_t n_channels) noexcept nogil:
    """Whether all numbers are missing."""
    cdef uint32_t c
    for c in range(n_channels):
        if not isnan(observation[c]):
            return False
    return True


cdef inline bint is_row(
    const Channel* channels, uint32_t n_channels, const double* row
) noexcept nogil:
    """Whether the numbers are possible statistics of a state."""
    cdef double value, low, high
    cdef uint32_t c, i
    for c in range(n_channels):
        for i in range(channels[c].n_statistics):
            value = row[channels[c].offset + i]
            if channels[c].kind == CHANNEL_COMPILED:
                if not isfinite(value):
                    return False
                continue
            low = 0.0 if fades(&channels[c], i) else -LARGEST_NUMBER
            high = 1e20
            if channels[c].kind == CHANNEL_GAUSSIAN and i > 0:
                high = LARGEST_NUMBER if i == 1 else 1e304
            elif channels[c].kind == CHANNEL_POISSON and i == 1:
                high = 1e40
            if not low <= value <= high:
                return False
    return True
