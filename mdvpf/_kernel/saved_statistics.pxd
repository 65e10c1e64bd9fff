# cython: language_level=3
"""Save the statistics of families over numbers to a snapshot, and restore an untrusted snapshot.

Rows are numbered by first appearance, in the order of particles and of their states.
"""

from libc.math cimport NAN
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memcpy, memset

from mdvpf._kernel.clock cimport fading, forgets, scale_at
from mdvpf._kernel.constants cimport (
    BAD_SNAPSHOT, BLOCK_STATES, CHANNEL_COMPILED, NO_MEMORY, OK,
    Status,
)
from mdvpf._kernel.families cimport is_observation, is_row
from mdvpf._kernel.open_channels cimport are_in_order
from mdvpf._kernel.particles cimport block_of, shares_block
from mdvpf._kernel.pool cimport dispose, resize
from mdvpf._kernel.number_types cimport Channel
from mdvpf._kernel.real_particles cimport block_scale, real_into
from mdvpf._kernel.real_snapshot cimport behind
from mdvpf._kernel.restore_records cimport reject
from mdvpf._kernel.saved_channels cimport (
    pack_row, read_channels, saved_size, unpack_row, were_seen, write_channels,
)
from mdvpf._kernel.sections cimport (
    LARGEST_BEHIND, OBSERVATION, STATISTIC, STATISTICS, STATISTICS_BEHIND,
    Snapshot,
    words,
)
from mdvpf._kernel.snapshot cimport count_states
from mdvpf._kernel.statistics cimport (
    PRIOR,
    channels_of, observation_of, refs_of_rows, reserve_rows, row_at, scales_of_rows, statistics_of,
    take_row,
)
from mdvpf._kernel.types cimport Buffer, System


# ---- writing -----------------------------------------------------------------------------

cdef inline Status reserve_statistics(
    System* system, Snapshot* snapshot, Buffer* known
) noexcept nogil:
    cdef size_t n_rows = system.numbers.n_live - 1
    if resize(&system.memory, known, system.numbers.n_rows * sizeof(uint32_t)) != OK \
            or resize(&system.memory, &snapshot.section[STATISTIC],
                      count_states(system) * sizeof(uint32_t)) != OK \
            or resize(&system.memory, &snapshot.section[STATISTICS],
                      n_rows * saved_size(system) * sizeof(double)) != OK \
            or resize(&system.memory, &snapshot.section[STATISTICS_BEHIND],
                      n_rows * sizeof(uint32_t)) != OK \
            or resize(&system.memory, &snapshot.section[OBSERVATION],
                      system.numbers.n_channels * sizeof(double)) != OK:
        return NO_MEMORY
    memset(known.data, 0, system.numbers.n_rows * sizeof(uint32_t))
    return OK


cdef inline void number_rows(
    const System* system, Snapshot* snapshot, uint32_t* number
) noexcept nogil:
    """Write the number of the row of each state, and each row at its first appearance."""
    cdef const uint32_t* rows
    cdef size_t size = saved_size(system)
    cdef size_t n = 0           # rows so far
    cdef size_t n_states = 0    # states so far
    cdef uint32_t i, row
    cdef int64_t k
    for k in range(system.n_particles):
        if shares_block(system, k):
            continue
        rows = statistics_of(system, block_of(system, k))
        for i in range(block_of(system, k)[BLOCK_STATES]):
            row = rows[i]
            if row != PRIOR and number[row] == 0:
                pack_row(system, row_at(system, row),
                         <double*>snapshot.section[STATISTICS].data + n * size)
                words(snapshot, STATISTICS_BEHIND)[n] = behind(
                    scales_of_rows(system)[row], &system.now, LARGEST_BEHIND)
                n += 1
                number[row] = <uint32_t>n
            words(snapshot, STATISTIC)[n_states] = number[row]
            n_states += 1


cdef inline Status write_statistics(System* system, Snapshot* snapshot) noexcept nogil:
    """Write the sections of a family over numbers; without one, write nothing."""
    cdef Buffer known
    cdef Status status
    cdef double* observation
    cdef uint32_t c
    if not system.numbers.n_channels:
        return OK
    memset(&known, 0, sizeof(Buffer))
    status = reserve_statistics(system, snapshot, &known)
    if status == OK:
        number_rows(system, snapshot, <uint32_t*>known.data)
        observation = <double*>snapshot.section[OBSERVATION].data
        for c in range(system.numbers.n_channels):
            observation[c] = observation_of(system, True)[c] if system.pending else <double>NAN
    dispose(&system.memory, &known)
    return write_channels(system, snapshot) if status == OK else status


cdef inline bint is_plausible(
    const System* system, uint32_t* block, uint32_t state, uint32_t row
) noexcept nogil:
    """Whether a state was entered at least as often as each channel of its row was observed."""
    cdef double entered = real_into(system, block)[state] * fading(block_scale(block), &system.now)
    cdef double part = fading(scales_of_rows(system)[row], &system.now)
    cdef const Channel* channels = channels_of(system)
    cdef uint32_t c
    for c in range(system.numbers.n_channels):
        if row != PRIOR and channels[c].kind != CHANNEL_COMPILED \
                and row_at(system, row)[channels[c].offset] * part > entered * 1.0009 + 0.9e-3:
            return False
    return True


# ---- reading -----------------------------------------------------------------------------

cdef inline Status read_rows(System* system, Snapshot* snapshot, size_t n_rows) noexcept nogil:
    """Restore the rows of a snapshot under their numbers, with reference counts of 0."""
    cdef const double* given = <const double*>snapshot.section[STATISTICS].data
    cdef size_t size = saved_size(system)
    cdef uint32_t i, row, distance
    if reserve_rows(system, n_rows) != OK:
        return NO_MEMORY
    for i in range(<uint32_t>n_rows):
        row = take_row(system)
        unpack_row(system, given + i * size, row_at(system, row))
        refs_of_rows(system)[row] = 0
        if not is_row(channels_of(system), system.numbers.n_channels, row_at(system, row)):
            return reject(snapshot, "a statistic is out of range")
        distance = words(snapshot, STATISTICS_BEHIND)[i]
        if distance > (<uint32_t>LARGEST_BEHIND if forgets(system) else 0u):
            return reject(snapshot, "the scale of a row of statistics is out of range")
        scales_of_rows(system)[row] = <int32_t>(<uint32_t>scale_at(&system.now) - distance)
        if not were_seen(system, row_at(system, row),
                         fading(scales_of_rows(system)[row], &system.now)):
            return reject(snapshot, "a state has observed a symbol more often than the stream")
    return OK


cdef inline Status read_statistics(System* system, Snapshot* snapshot) noexcept nogil:
    """Restore the sections of `write_statistics`; the particles are restored already."""
    cdef size_t n_rows = snapshot.section[STATISTICS_BEHIND].bytes // sizeof(uint32_t)
    cdef size_t n_states = 0    # states so far
    cdef size_t size
    cdef uint32_t* rows
    cdef uint32_t i
    cdef int64_t k
    if not system.numbers.n_channels:
        return OK
    if read_channels(system, snapshot) != OK:
        return BAD_SNAPSHOT if snapshot.fault != NULL else NO_MEMORY
    size = saved_size(system)
    if snapshot.section[STATISTICS_BEHIND].bytes != n_rows * sizeof(uint32_t) \
            or n_rows >= 0x7FFFFFF0u \
            or snapshot.section[STATISTICS].bytes != n_rows * size * sizeof(double) \
            or snapshot.section[STATISTIC].bytes != count_states(system) * sizeof(uint32_t) \
            or snapshot.section[OBSERVATION].bytes \
            != system.numbers.n_channels * sizeof(double):
        return reject(snapshot, "a section of statistics has the wrong length")
    memcpy(observation_of(system, False), snapshot.section[OBSERVATION].data,
           system.numbers.n_channels * sizeof(double))
    if not is_observation(
        channels_of(system), system.numbers.n_channels, observation_of(system, False)
    ) or not are_in_order(system, observation_of(system, False), 1):
        return reject(snapshot, "the pending observation is out of range")
    if read_rows(system, snapshot, n_rows) != OK:
        return BAD_SNAPSHOT if snapshot.fault != NULL else NO_MEMORY
    for k in range(system.n_particles):
        if shares_block(system, k):
            continue
        rows = statistics_of(system, block_of(system, k))
        for i in range(block_of(system, k)[BLOCK_STATES]):
            rows[i] = words(snapshot, STATISTIC)[n_states]
            n_states += 1
            if rows[i] > n_rows:
                return reject(snapshot, "a state has a row of statistics that does not exist")
            if not is_plausible(system, block_of(system, k), i, rows[i]):
                return reject(snapshot, "a state has observed more often than it was entered")
            refs_of_rows(system)[rows[i]] += 1
    for i in range(1, <uint32_t>n_rows + 1):
        if refs_of_rows(system)[i] == 0:
            return reject(snapshot, "nobody holds a row of statistics")
    return OK
