# cython: language_level=3
"""The log density of an observation for all rows of statistics at once.

Particles share rows, so there are far fewer rows than states of particles. Where counts do not
fade, a row never changes, and the terms of its density that do not depend on the observation are
computed once.
"""

from libc.math cimport exp
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memcpy, memset

from mdvpf._kernel.buffers cimport make_room
from mdvpf._kernel.clock cimport fading, forgets
from mdvpf._kernel.compiled_parts cimport channel_of_part, compiled_at, note_fault
from mdvpf._kernel.constants cimport (
    CHANNEL_COMPILED, CHANNEL_OPEN, MISSING, NO_MEMORY, OK,
    Status,
)
from mdvpf._kernel.families cimport (
    channel_constant, fade_row, has_constants, is_missing, log_channel, state_constants,
)
from mdvpf._kernel.number_types cimport (
    LOG_PREDICTIVE_STATUS, LOG_PREDICTIVE_VALUE, N_CONSTANTS,
    Channel, Compiled,
)
from mdvpf._kernel.open_channels cimport base_of_channel
from mdvpf._kernel.statistics cimport (
    PRIOR,
    channels_of, constants_of, fading_of, observation_of, refs_of_rows, row_at, scales_of_rows,
)
from mdvpf._kernel.types cimport Clock, System


cdef inline void score_built_in(
    const System* system, const double* observation, bint counted, const Clock* clock, double* out
) noexcept nogil:
    """Add the log predictives of all built-in channels of an observation, for every row."""
    cdef const uint32_t* refs = refs_of_rows(system)
    cdef const int32_t* scale = scales_of_rows(system)
    cdef const Channel* channel
    cdef bint kept = not forgets(system)
    cdef double[N_CONSTANTS] own
    cdef double* constants
    cdef double base, constant, part, y
    cdef uint32_t c, i
    for c in range(system.numbers.n_channels):
        channel = &channels_of(system)[c]
        y = observation[c]
        if y != y or channel.kind == CHANNEL_COMPILED:
            continue
        base = base_of_channel(system, channel, y, counted) if channel.kind == CHANNEL_OPEN else 0.0
        constant = channel_constant(channel, y, base)
        for i in range(system.numbers.n_rows):
            if refs[i]:
                part = 1.0 if kept or i == PRIOR else fading(scale[i], clock)
                constants = constants_of(system, i, c) if kept else &own[0]
                if has_constants(channel) and not (kept and constants[0] > 0.0):
                    state_constants(channel, row_at(system, i), part, constants)
                out[i] += log_channel(channel, constants, row_at(system, i), part, y, constant)


cdef inline bint reserve_constants(System* system) noexcept nogil:
    """Make room for the constants of all rows; those of new rows are not known yet."""
    cdef size_t size = system.numbers.n_channels * <size_t>N_CONSTANTS * sizeof(double)
    cdef size_t known = <size_t>system.extent.constants
    cdef size_t n_rows = system.numbers.n_rows
    if forgets(system):
        return True
    if not make_room(system, &system.work.row_constants, n_rows * size, 1):
        return False
    if known < n_rows:
        memset(<char*>system.work.row_constants.data + known * size, 0, (n_rows - known) * size)
        system.extent.constants = <int64_t>n_rows
    return True


cdef inline const double* rows_of_part(
    System* system, const Channel* channel, const Clock* clock
) noexcept nogil:
    """The statistics of one user's family in all rows, one after another; NULL: no memory.

    They are copied if they fade, or if rows have more than them. The function is then still called
    once for all rows: a call may cost more than a copy.
    """
    cdef uint32_t n_rows = system.numbers.n_rows
    cdef size_t size = channel.n_statistics
    cdef bint fades = forgets(system)
    cdef double* copied
    cdef uint32_t i
    if size == system.numbers.size and not fades:
        return row_at(system, PRIOR)
    if not make_room(system, &system.work.faded_rows, n_rows * size, sizeof(double)):
        return NULL
    copied = <double*>system.work.faded_rows.data
    for i in range(n_rows):
        memcpy(copied + i * size, row_at(system, i) + channel.offset, size * sizeof(double))
        if fades and i != PRIOR and refs_of_rows(system)[i]:
            fade_row(fading_of(system) + channel.offset, <uint32_t>size, copied + i * size,
                     fading(scales_of_rows(system)[i], clock))
    return copied


cdef inline Status score_compiled(
    System* system, uint32_t k, const double* observation, const Clock* clock, double* own,
    double* out,
) noexcept nogil:
    """Add the log predictives by a user's function, for every row; `own` is work space."""
    cdef const Compiled* part = compiled_at(system, k)
    cdef const double* rows
    cdef uint32_t n_rows = system.numbers.n_rows
    cdef uint32_t i
    cdef int status
    if is_missing(observation + part.first, part.n_channels):
        return OK
    rows = rows_of_part(system, channel_of_part(system, part), clock)
    if rows == NULL:
        return NO_MEMORY
    memset(own, 0, n_rows * sizeof(double))
    status = part.log_predictive(observation + part.first, rows, n_rows, own, part.user_data)
    if status != 0:
        return note_fault(system, k, LOG_PREDICTIVE_STATUS, status)
    for i in range(n_rows):
        if refs_of_rows(system)[i]:
            if not -1e290 < own[i] < 1e290:
                return note_fault(system, k, LOG_PREDICTIVE_VALUE, 0)
            out[i] += own[i]
    return OK


cdef inline Status score_rows(
    System* system, int32_t symbol, bint pending, const Clock* clock
) noexcept nogil:
    """Compute the log density of an observation for every row, as of a step."""
    cdef uint32_t n_rows = system.numbers.n_rows
    cdef Status status
    cdef double* out
    cdef uint32_t k
    if not system.numbers.n_channels:
        return OK
    if not make_room(system, &system.work.log_density, n_rows, sizeof(double)) \
            or not make_room(system, &system.work.relative_density, n_rows, sizeof(double)) \
            or not reserve_constants(system):
        return NO_MEMORY
    out = <double*>system.work.log_density.data
    memset(out, 0, n_rows * sizeof(double))
    if symbol != MISSING:
        score_built_in(system, observation_of(system, pending), pending, clock, out)
        for k in range(system.numbers.n_compiled):  # the work space is used again below
            status = score_compiled(system, k, observation_of(system, pending), clock,
                                    <double*>system.work.relative_density.data, out)
            if status != OK:
                return status
    relate_densities(system)
    return OK


cdef inline void relate_densities(System* system) noexcept nogil:
    """Compute the density of each row in use, relative to the largest."""
    cdef const uint32_t* refs = refs_of_rows(system)
    cdef const double* density = <const double*>system.work.log_density.data
    cdef double* relative = <double*>system.work.relative_density.data
    cdef double best = density[PRIOR]
    cdef uint32_t i
    for i in range(system.numbers.n_rows):
        if refs[i] and density[i] > best:
            best = density[i]
    system.numbers.best = best
    for i in range(system.numbers.n_rows):
        relative[i] = exp(density[i] - best) if refs[i] else 0.0
