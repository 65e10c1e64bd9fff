# cython: language_level=3
"""The statistics of states in families over numbers: a table of rows that particles share.

A row has the statistics of one state (`families.pxd`) and never changes: an observation produces a
new row, the *successor*. A block has the number of a row for each of its states, and rows have
reference counts. A successor depends only on the row and the observation, so all particles that
move to a state with this row share it. Each successor is computed once, before the commit, while
an error can still be reported. Row 0 is the prior, for states without observations.

A row has a scale, like a record of real counts. In a free row it links to the next free row.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy, memset

from mdvpf._kernel.buffers cimport make_room
from mdvpf._kernel.clock cimport power_of_two, scale_at, scales_apart
from mdvpf._kernel.compiled_parts cimport update_parts
from mdvpf._kernel.constants cimport (
    BAD_EMISSION, BLOCK_HEADER, BLOCK_STATES, MISSING, NO_MEMORY, OK,
    Status,
)
from mdvpf._kernel.families cimport fade_row, observe
from mdvpf._kernel.particles cimport block_of, shares_block
from mdvpf._kernel.number_types cimport N_CONSTANTS, Channel
from mdvpf._kernel.types cimport Clock, Survivors, System

cdef enum:
    PRIOR = 0               # the row of a state without observations
    MOST_ROWS = 0x7FFFFFF0


# ---- parts of the table ------------------------------------------------------------------

cdef inline const Channel* channels_of(const System* system) noexcept nogil:
    return <const Channel*>system.stored.channels.data


cdef inline double* row_at(const System* system, uint32_t row) noexcept nogil:
    return <double*>system.stored.statistics.data + <size_t>row * system.numbers.size


cdef inline const uint8_t* fading_of(const System* system) noexcept nogil:
    """For each statistic of a row, whether it is a sum of weights."""
    return <const uint8_t*>system.stored.fading.data


cdef inline uint32_t* refs_of_rows(const System* system) noexcept nogil:
    return <uint32_t*>system.stored.statistic_refs.data


cdef inline int32_t* scales_of_rows(const System* system) noexcept nogil:
    return <int32_t*>system.stored.statistic_scale.data


cdef inline uint32_t* successors(const System* system) noexcept nogil:
    """The successor of each row in the present commit; 0 if none is needed."""
    return <uint32_t*>system.work.successor.data


cdef inline double* constants_of(
    const System* system, uint32_t row, uint32_t channel
) noexcept nogil:
    """The constants of a channel in a row of the table; the first is 0 if they are not known."""
    cdef size_t n = <size_t>row * system.numbers.n_channels + channel
    return <double*>system.work.row_constants.data + n * N_CONSTANTS


cdef inline const double* log_densities(const System* system) noexcept nogil:
    """The log density of the scored observation for each row."""
    return <const double*>system.work.log_density.data


cdef inline double* observation_of(const System* system, bint pending) noexcept nogil:
    """The next observation, or the pending one."""
    return <double*>system.stored.observation.data + pending * system.numbers.n_channels


cdef inline uint32_t* statistics_of(const System* system, uint32_t* block) noexcept nogil:
    """The row of each state of a block."""
    return block + BLOCK_HEADER + (2 if system.model.by_rows else 1) * system.state_capacity


# ---- reference counts --------------------------------------------------------------------

cdef inline void release_row(System* system, uint32_t row) noexcept nogil:
    cdef uint32_t* refs = refs_of_rows(system)
    refs[row] -= 1
    if refs[row] == 0:
        free_row(system, row)


cdef inline void free_row(System* system, uint32_t row) noexcept nogil:
    scales_of_rows(system)[row] = <int32_t>system.numbers.freed
    system.numbers.freed = row
    system.numbers.n_live -= 1


cdef inline void hold_statistics(System* system, uint32_t* block) noexcept nogil:
    cdef const uint32_t* rows = statistics_of(system, block)
    cdef uint32_t* refs = refs_of_rows(system)
    cdef uint32_t i
    for i in range(block[BLOCK_STATES]):
        refs[rows[i]] += 1


cdef inline void release_statistics(System* system, uint32_t* block) noexcept nogil:
    cdef const uint32_t* rows = statistics_of(system, block)
    cdef uint32_t i
    for i in range(block[BLOCK_STATES]):
        release_row(system, rows[i])


# ---- allocation --------------------------------------------------------------------------

cdef inline Status reserve_rows(System* system, size_t n_more) noexcept nogil:
    """Reserve room for `n_more` rows."""
    cdef size_t n_free = system.numbers.n_rows - system.numbers.n_live
    cdef size_t n = system.numbers.n_rows + (n_more - n_free if n_more > n_free else 0)
    if n > MOST_ROWS \
            or not make_room(system, &system.stored.statistics, n * system.numbers.size,
                             sizeof(double)) \
            or not make_room(system, &system.work.faded_rows, n * system.numbers.widest,
                             sizeof(double)) \
            or not make_room(system, &system.stored.statistic_refs, n, sizeof(uint32_t)) \
            or not make_room(system, &system.stored.statistic_scale, n, sizeof(int32_t)) \
            or not make_room(system, &system.work.successor, n, sizeof(uint32_t)) \
            or not make_room(system, &system.work.prepared, n_more, sizeof(uint32_t)) \
            or not make_room(system, &system.work.log_density, n, sizeof(double)) \
            or not make_room(system, &system.work.relative_density, n, sizeof(double)):
        return NO_MEMORY
    return OK


cdef inline uint32_t take_row(System* system) noexcept nogil:
    """Return a free row with one reference; room was reserved."""
    cdef uint32_t row = system.numbers.freed
    cdef uint32_t c
    if row:
        system.numbers.freed = <uint32_t>scales_of_rows(system)[row]
    else:
        row = system.numbers.n_rows
        system.numbers.n_rows += 1
    system.numbers.n_live += 1
    refs_of_rows(system)[row] = 1
    if row < system.extent.constants:
        for c in range(system.numbers.n_channels):
            constants_of(system, row, c)[0] = 0.0
    return row


# ---- updates -----------------------------------------------------------------------------

cdef inline uint32_t row_of(const System* system, uint32_t* block, uint32_t state) noexcept nogil:
    """The row of a state, or the prior for the new state."""
    return statistics_of(system, block)[state] if state < block[BLOCK_STATES] else <uint32_t>PRIOR


cdef inline Status write_successor(
    System* system, uint32_t row, const double* observation, double* out
) noexcept nogil:
    """Write the row after an observation of the next step, in the scale of that step."""
    cdef const Clock* now = &system.now
    memcpy(out, row_at(system, row), system.numbers.size * sizeof(double))
    if row != PRIOR and scales_of_rows(system)[row] != scale_at(now):
        fade_row(fading_of(system), system.numbers.size, out,
                 power_of_two(scales_apart(scales_of_rows(system)[row], now)))
    observe(channels_of(system), system.numbers.n_channels, observation, now.mantissa, out)
    return update_parts(system, observation, now.mantissa, out)


cdef inline Status prepare_rows(
    System* system, const Survivors* chosen, const double* observation
) noexcept nogil:
    """Compute the successors of the rows of all states chosen; room was reserved."""
    cdef uint32_t* successor = successors(system)
    cdef uint32_t* prepared = <uint32_t*>system.work.prepared.data
    cdef uint32_t row, fresh
    cdef int64_t i
    for i in range(chosen.n):
        row = row_of(system, block_of(system, chosen.parent[i]), chosen.state[i])
        if successor[row] == 0:
            fresh = take_row(system)
            prepared[system.numbers.n_prepared] = fresh
            system.numbers.n_prepared += 1
            if write_successor(system, row, observation, row_at(system, fresh)) != OK:
                return BAD_EMISSION
            scales_of_rows(system)[fresh] = scale_at(&system.now)
            successor[row] = fresh
    return OK


cdef inline Status prepare_statistics(
    System* system, const Survivors* chosen, const Survivors* also, int32_t symbol, bint pending
) noexcept nogil:
    """Compute all rows that a commit of `chosen` needs, and of `also` unless it is NULL.

    A list holds one reference to each of them until `drop_prepared`.
    """
    cdef size_t n = <size_t>chosen.n + (<size_t>also.n if also != NULL else 0)
    if not system.numbers.n_channels:
        return OK
    if reserve_rows(system, n) != OK:
        return NO_MEMORY
    memset(successors(system), 0, system.numbers.n_rows * sizeof(uint32_t))
    if symbol == MISSING:
        return OK
    if prepare_rows(system, chosen, observation_of(system, pending)) != OK or (
        also != NULL and prepare_rows(system, also, observation_of(system, pending)) != OK
    ):
        drop_prepared(system)
        return BAD_EMISSION
    return OK


cdef inline void drop_prepared(System* system) noexcept nogil:
    """Release the list of prepared rows, after a commit or if there is none."""
    cdef const uint32_t* prepared = <const uint32_t*>system.work.prepared.data
    cdef uint32_t i
    for i in range(system.numbers.n_prepared):
        release_row(system, prepared[i])
    system.numbers.n_prepared = 0


cdef inline void move_statistics(
    System* system, uint32_t* block, uint32_t state, bint is_new, bint is_missing
) noexcept nogil:
    """Replace the row of a state by its successor; a new state gets the prior first."""
    cdef uint32_t* held = &statistics_of(system, block)[state]
    cdef uint32_t after
    if is_new:
        held[0] = PRIOR
        refs_of_rows(system)[PRIOR] += 1
    if not is_missing:
        after = successors(system)[held[0]]
        refs_of_rows(system)[after] += 1
        release_row(system, held[0])
        held[0] = after


# ---- compaction --------------------------------------------------------------------------

cdef inline void pack_rows(System* system) noexcept nogil:
    """Compact the table if about half of it is free, unless memory for renumbering is lacking."""
    cdef uint32_t* number
    cdef uint32_t* rows
    cdef uint32_t n = 0
    cdef uint32_t i
    cdef int64_t k
    if system.numbers.n_rows < 2 * system.numbers.n_live + 64 \
            or not make_room(system, &system.work.successor, system.numbers.n_rows,
                             sizeof(uint32_t)):
        return
    number = successors(system)
    for i in range(system.numbers.n_rows):
        if refs_of_rows(system)[i]:
            number[i] = n
            if n != i:
                memcpy(row_at(system, n), row_at(system, i), system.numbers.size * sizeof(double))
                refs_of_rows(system)[n] = refs_of_rows(system)[i]
                scales_of_rows(system)[n] = scales_of_rows(system)[i]
            n += 1
    for k in range(system.n_particles):
        if not shares_block(system, k):
            rows = statistics_of(system, block_of(system, k))
            for i in range(block_of(system, k)[BLOCK_STATES]):
                rows[i] = number[rows[i]]
    system.numbers.n_rows = n
    system.numbers.freed = 0
    system.extent.constants = 0
