# cython: language_level=3
"""Particles: the parts of a block, and views of a particle for scoring.

A `View` has everything that scoring reads of a particle. For a stored particle it points into the
tables; for a provisional particle of MD-VPA it points to copies of the rows with one more step
added. Scoring does the same arithmetic in the same order for both, so results have the same bits.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memcpy, memset

from mdvpf._kernel.constants cimport (
    BLOCK_CURRENT, BLOCK_HEADER, BLOCK_SPREAD, BLOCK_STATES, GROUP, GROUP_BITS, MISSING, NONE,
    prefetch, unlikely,
)
from mdvpf._kernel.counts cimport columns, count_in, overlaid, row_in, state_in
from mdvpf._kernel.pool cimport at
from mdvpf._kernel.types cimport Record, Row, Scratch, System, View, handle_t

cdef enum:
    FETCH_ROWS = 8          # rows are prefetched this many particles ahead
    FETCH_BLOCK = 16        # blocks are prefetched this many particles ahead
    FETCH_FROM = 32768      # blocks of fewer particles stay in the cache and are not prefetched


# ---- blocks ------------------------------------------------------------------------------

cdef inline uint32_t* block_in(const System* system, uint32_t slot) noexcept nogil:
    return <uint32_t*>system.stored.blocks.data + <size_t>slot * system.stride


cdef inline uint32_t* block_of(const System* system, int64_t particle) noexcept nogil:
    return block_in(system, (<uint32_t*>system.stored.slot.data)[particle])


cdef inline bint shares_block(const System* system, int64_t particle) noexcept nogil:
    """Whether the particle shares the block of the one before it."""
    cdef const uint32_t* slot = <const uint32_t*>system.stored.slot.data
    return particle > 0 and slot[particle] == slot[particle - 1]


cdef inline int64_t end_of_sharing(const System* system, int64_t particle) noexcept nogil:
    """The first particle after this one that does not share its block."""
    particle += 1
    while particle < system.n_particles and shares_block(system, particle):
        particle += 1
    return particle


cdef inline uint32_t n_offered(const System* system, int64_t particle) noexcept nogil:
    """The number of candidates of the particle."""
    cdef uint32_t n_states = block_of(system, particle)[BLOCK_STATES]
    return n_states + (n_states < system.model.max_states or system.model.real)


cdef inline uint32_t* into_of(const System* system, uint32_t* block) noexcept nogil:
    return block + BLOCK_HEADER


cdef inline handle_t* rows_of(const System* system, uint32_t* block) noexcept nogil:
    """Handles of the groups of transition rows; row 0 is that of the start state."""
    return block + system.rows_offset


cdef inline uint32_t row_handles(const System* system, uint32_t n_states) noexcept nogil:
    """The number of handles of rows that so many states use."""
    if unlikely(system.model.mealy):
        return n_states + 1
    return (n_states >> GROUP_BITS) + 1


cdef inline uint32_t used_groups(const System* system, const uint32_t* block) noexcept nogil:
    """The number of handles of rows that the states of a block use."""
    return row_handles(system, block[BLOCK_STATES])


cdef inline handle_t* root_of(const System* system, uint32_t* block) noexcept nogil:
    return block + system.root_offset


cdef inline const Record* group_at(const System* system, handle_t handle) noexcept nogil:
    if handle == NONE:
        return NULL
    return <const Record*>at(&system.pool, handle)


cdef inline Row transition_row(
    const System* system, uint32_t* block, uint32_t row
) noexcept nogil:
    return row_in(
        group_at(system, rows_of(system, block)[row >> GROUP_BITS]), row & (GROUP - 1)
    )


cdef inline Row column_of(
    const System* system, uint32_t* block, uint32_t symbol
) noexcept nogil:
    return row_in(
        group_at(system, columns(system, root_of(system, block), symbol)), symbol & (GROUP - 1)
    )


cdef inline double* spread_in(uint32_t* block) noexcept nogil:
    """Sum over the states of a block of into / (into + prior)."""
    return <double*>(block + BLOCK_SPREAD)


# ---- views -------------------------------------------------------------------------------

cdef inline const uint32_t* emitted_by(const View* view, uint32_t* work) noexcept nogil:
    """How often each state emitted a symbol that was observed, padded with zeros."""
    cdef uint32_t i
    memcpy(work, view.into, view.n_states * sizeof(uint32_t))
    memset(work + view.n_states, 0, 4 * sizeof(uint32_t))
    for i in range(view.missing.n):
        work[state_in(&view.missing, i)] -= count_in(&view.missing, i)
    return work


cdef inline void view_particle(
    const System* system, uint32_t* block, View* view
) noexcept nogil:
    """View a stored particle."""
    view.n_states = block[BLOCK_STATES]
    view.entered = system.n_steps
    view.into = into_of(system, block)
    view.row = transition_row(system, block, block[BLOCK_CURRENT])
    view.emitted = view.into
    if system.seen_missing:
        view.missing = column_of(system, block, system.model.missing)
        if view.missing.n:
            view.emitted = emitted_by(view, system.scratch.emitted)
    else:
        view.missing.n = 0
    view.offers_new = view.n_states < system.model.max_states


cdef inline void view_for(
    const System* system, int64_t particle, int32_t symbol, View* view, Row* counts
) noexcept nogil:
    """View a particle and the column of the symbol."""
    cdef uint32_t* block = block_of(system, particle)
    view_particle(system, block, view)
    counts.n = 0
    if symbol != MISSING:
        counts[0] = column_of(system, block, <uint32_t>symbol)


cdef inline void view_moved(
    const System* system, uint32_t* block, uint32_t state, int32_t symbol, uint32_t current,
    View* view,
) noexcept nogil:
    """View a particle as it would be after moving to the state on the symbol.

    `current` is 1 + the state that its next transition leaves: `state`, or that of another key.
    """
    cdef const Scratch* scratch = &system.scratch
    cdef uint32_t* into = scratch.overlay_into
    cdef uint32_t n = block[BLOCK_STATES]
    view_particle(system, block, view)
    memset(into + n, 0, 5 * sizeof(uint32_t))
    memcpy(into, into_of(system, block), n * sizeof(uint32_t))
    into[state] += 1
    view.into = into
    view.entered += 1
    if state == n:
        view.n_states += 1
    if current > n:
        view.row.n = 0
    else:
        view.row = transition_row(system, block, current)
    if current == block[BLOCK_CURRENT]:
        view.row = overlaid(&view.row, state, scratch.overlay_row)
    if symbol == MISSING:
        view.missing = overlaid(&view.missing, state, scratch.overlay_missing)
    view.emitted = into
    if view.missing.n:
        view.emitted = emitted_by(view, scratch.emitted)
    view.offers_new = view.n_states < system.model.max_states


cdef inline Row column_moved(
    const System* system, uint32_t* block, uint32_t state, int32_t symbol, uint32_t column_symbol
) noexcept nogil:
    """The column of one symbol as it would be after the move of `view_moved`."""
    cdef Row row = column_of(system, block, column_symbol)
    if symbol == <int32_t>column_symbol:
        row = overlaid(&row, state, system.scratch.overlay_column)
    return row


# ---- prefetching -------------------------------------------------------------------------

cdef inline void fetch_block(const System* system, int64_t particle) noexcept nogil:
    """Prefetch a block, or the beginning of a long one."""
    cdef const uint32_t* block = block_of(system, particle)
    prefetch(block)
    prefetch(block + 16)
    prefetch(block + 32)


cdef inline void fetch_rows(
    const System* system, int64_t particle, int32_t symbol
) noexcept nogil:
    """Prefetch the row and the column that scoring the symbol reads."""
    cdef uint32_t* block = block_of(system, particle)
    cdef handle_t handle = rows_of(system, block)[block[BLOCK_CURRENT] >> GROUP_BITS]
    if handle != NONE:
        prefetch(at(&system.pool, handle))
        prefetch(<char*>at(&system.pool, handle) + 64)
    if symbol != MISSING and system.depth == 1:
        handle = root_of(system, block)[<uint32_t>symbol >> GROUP_BITS]
        if handle != NONE:
            prefetch(at(&system.pool, handle))


cdef inline void fetch_ahead(
    const System* system, int64_t particle, int64_t stride, int32_t symbol
) noexcept nogil:
    """Prefetch a particle that will be scored soon; every `stride`-th one is scored."""
    if system.n_particles >= FETCH_FROM and particle + FETCH_BLOCK * stride < system.n_particles:
        fetch_block(system, particle + FETCH_BLOCK * stride)
    if particle + FETCH_ROWS * stride < system.n_particles:
        fetch_rows(system, particle + FETCH_ROWS * stride, symbol)
