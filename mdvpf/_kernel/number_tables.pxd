# cython: language_level=3
"""Families over numbers, for Python: open the table of statistics, and copy statistics out."""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcpy, memset

from mdvpf._kernel.alphabet cimport seen_times
from mdvpf._kernel.buffers cimport make_room
from mdvpf._kernel.clock cimport fading, scale_at
from mdvpf._kernel.compiled_parts cimport open_parts
from mdvpf._kernel.constants cimport (
    BAD_EMISSION, BLOCK_CURRENT, BLOCK_STATES, CHANNEL_OPEN, MISSING, NO_MEMORY, OK,
    ChannelKind, Status,
)
from mdvpf._kernel.families cimport fade_row
from mdvpf._kernel.labels cimport label_of
from mdvpf._kernel.number_scores cimport add_component_weights
from mdvpf._kernel.open_channels cimport stream_row
from mdvpf._kernel.particles cimport block_of
from mdvpf._kernel.positions cimport standing_of, state_of_key
from mdvpf._kernel.real_particles cimport is_gone, outlives_step
from mdvpf._kernel.statistics cimport (
    channels_of, fading_of, observation_of, refs_of_rows, row_at, row_of, scales_of_rows,
    write_successor,
)
from mdvpf._kernel.number_types cimport Channel
from mdvpf._kernel.types cimport Clock, Standing, System


cdef inline Status open_table(
    System* system, const double[:, ::1] given, const uint8_t[::1] fading_marks, tuple functions
) except *:
    """Initialise the channels and the row of the prior.

    `given` has a row for each channel: kind, number of symbols, number of statistics, parameters.
    `fading_marks` marks the statistics that are sums of weights. `functions` has the families of
    users, see `open_parts`.
    """
    cdef size_t n = <size_t>given.shape[0]
    cdef Channel* channels
    cdef uint32_t c, i
    if not make_room(system, &system.stored.channels, n, sizeof(Channel)) \
            or not make_room(system, &system.stored.observation, 2 * n, sizeof(double)):
        return NO_MEMORY
    memset(system.stored.observation.data, 0, 2 * n * sizeof(double))
    channels = <Channel*>system.stored.channels.data
    system.numbers.n_channels = <uint32_t>n
    for c in range(<uint32_t>n):
        channels[c].kind = <ChannelKind><int>given[c, 0]
        channels[c].n_symbols = <uint32_t>given[c, 1]
        channels[c].n_statistics = <uint32_t>given[c, 2]
        channels[c].offset = system.numbers.size
        for i in range(4):
            channels[c].parameters[i] = given[c, 3 + i]
        system.numbers.size += channels[c].n_statistics
        system.numbers.n_open += channels[c].kind == CHANNEL_OPEN
    if open_parts(system, functions) != OK:
        return NO_MEMORY
    if fading_marks.shape[0] != system.numbers.size:
        raise ValueError("fading: expected one entry a statistic")
    if not make_room(system, &system.stored.fading, system.numbers.size, 1):
        return NO_MEMORY
    memcpy(system.stored.fading.data, &fading_marks[0], system.numbers.size)
    if not make_room(system, &system.stored.statistics, system.numbers.size, sizeof(double)) \
            or not make_room(system, &system.stored.statistic_refs, 1, sizeof(uint32_t)) \
            or not make_room(system, &system.stored.statistic_scale, 1, sizeof(uint32_t)):
        return NO_MEMORY
    if system.numbers.n_open:
        if not make_room(system, &system.stored.stream, system.numbers.size, sizeof(double)):
            return NO_MEMORY
        memset(system.stored.stream.data, 0, system.numbers.size * sizeof(double))
    memset(row_at(system, 0), 0, system.numbers.size * sizeof(double))
    refs_of_rows(system)[0] = 1
    scales_of_rows(system)[0] = 0
    system.numbers.n_rows = 1
    system.numbers.n_live = 1
    return OK


cdef inline Status write_row(
    System* system, uint32_t row, bint succeeds, const Clock* clock, double* out
) noexcept nogil:
    """Write a row, or its successor after the pending observation, as of a step."""
    cdef Status status = OK
    cdef double factor
    if succeeds:
        status = write_successor(system, row, observation_of(system, True), out)
        factor = fading(scale_at(&system.now), clock)
    else:
        memcpy(out, row_at(system, row), system.numbers.size * sizeof(double))
        factor = fading(scales_of_rows(system)[row], clock) if row else 1.0
    fade_row(fading_of(system), system.numbers.size, out, factor)
    return status


cdef inline Status write_components(
    System* system, uint32_t number, double* weights, double* statistics
) noexcept nogil:
    """Write the components of the predictive of a key; see `ParticleSystem.components`."""
    cdef const Clock* clock = &system.after if system.pending else &system.now
    cdef uint32_t n_rows = system.numbers.n_rows
    cdef size_t size = system.numbers.size
    cdef double* succeeded = weights + n_rows
    cdef uint32_t* block
    cdef Standing standing
    cdef uint32_t i, current, emitted
    cdef int64_t k
    if system.pending:
        emitted = system.model.missing if system.pending_symbol == MISSING else 0
        for k in range(system.provisional.n):
            block = block_of(system, system.provisional.parent[k])
            standing = standing_of(system, block, system.provisional.state[k], emitted, number)
            add_component_weights(system, block, system.provisional.state[k], &standing,
                                  system.provisional.weight[k], weights, succeeded)
    else:
        for k in range(system.n_particles):
            block = block_of(system, k)
            current = block[BLOCK_CURRENT]
            if number != system.positions.active:
                block[BLOCK_CURRENT] = state_of_key(system, block, number)
            add_component_weights(system, block, 0, NULL,
                                  (<const double*>system.stored.weight.data)[k], weights, succeeded)
            block[BLOCK_CURRENT] = current
    for i in range(n_rows):
        if weights[i] > 0.0:
            write_row(system, i, False, clock, statistics + i * size)
        if succeeded[i] > 0.0:
            if write_row(system, i, True, clock, statistics + (n_rows + i) * size) != OK:
                return BAD_EMISSION
    return OK


cdef inline Status write_statistics_table(
    System* system, int64_t particle, double* out
) noexcept nogil:
    """Write the statistics of a provisional or stored particle, by label."""
    cdef bint pending = system.pending
    cdef const Clock* clock = &system.after if pending else &system.now
    cdef uint32_t state = 0xFFFFFFFFu
    cdef uint32_t* block
    cdef uint32_t i, n
    cdef bint moved
    if pending:
        state = system.provisional.state[particle]
        particle = system.provisional.parent[particle]
    block = block_of(system, particle)
    n = block[BLOCK_STATES] + (state == block[BLOCK_STATES])
    for i in range(n):
        moved = i == state
        if outlives_step(system, block, i) if moved else not is_gone(system, block, i, clock):
            if write_row(
                system, row_of(system, block, i), moved and system.pending_symbol != MISSING,
                clock, out + label_of(system, block, i) * <size_t>system.numbers.size,
            ) != OK:
                return BAD_EMISSION
    return OK


cdef inline tuple layout_of(const System* system):
    """Return the size of a row, and for each channel the start and end of its statistics in use."""
    cdef const Channel* channel
    cdef uint32_t c
    found = []
    for c in range(system.numbers.n_channels):
        channel = &channels_of(system)[c]
        used = 1 + channel.n_symbols if channel.kind == CHANNEL_OPEN else channel.n_statistics
        found.append((channel.offset, channel.offset + used))
    return system.numbers.size, found


cdef inline bint write_seen(const System* system, int64_t[::1] out):
    """Write the counts of an open alphabet, or the row of the stream; False if it does not fit."""
    cdef Py_ssize_t i
    if system.numbers.n_open and out.shape[0] == system.numbers.size:
        for i in range(out.shape[0]):
            out[i] = <int64_t>stream_row(system)[i]
        return True
    if not system.model.is_open or out.shape[0] != system.model.n_symbols:
        return False
    for i in range(out.shape[0]):
        out[i] = <int64_t>seen_times(system)[i]
    return True
