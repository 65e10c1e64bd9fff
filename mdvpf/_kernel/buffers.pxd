# cython: language_level=3
"""Buffers: operations on all buffers of a system, and how much of each is in use.

Buffers are over-reserved, because memory that is never written costs nothing. A buffer therefore
has three sizes: its length; the bytes that were ever written, which `memory()` reports as
allocated; and the bytes that hold state, which a copy needs.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from mdvpf._kernel.constants cimport NO_MEMORY, OK, SHELF, TABLED, Status
from mdvpf._kernel.number_types cimport N_CONSTANTS
from mdvpf._kernel.pool cimport dispose, duplicate, resize, used_bytes
from mdvpf._kernel.types cimport (
    Buffer, Candidate, HistoryBuffers, Lookahead, Page, PendingBuffers, PoolBuffers, RowTotal,
    Scratch, SharedUpdate, StoredBuffers, SurvivorBuffers, Survivors, System, WorkBuffers,
)

# The lifetimes of buffers, one for each struct in `buffer_types.pxd`.
cdef enum:
    STORED
    RECORDS
    NODES
    PENDING
    WORK
    N_LIFETIMES

cdef struct BufferSet:
    Buffer* first
    size_t n


cdef inline bint make_room(
    System* system, Buffer* buffer, size_t n, size_t item_bytes
) noexcept nogil:
    """Make a buffer long enough for n items; False if there is no memory."""
    return resize(&system.memory, buffer, n * item_bytes) == OK


cdef inline BufferSet buffers_of(System* system, int lifetime) noexcept nogil:
    cdef BufferSet buffers
    if lifetime == STORED:
        buffers.first = <Buffer*>&system.stored
        buffers.n = sizeof(StoredBuffers) // sizeof(Buffer)
    elif lifetime == RECORDS:
        buffers.first = <Buffer*>&system.pool.store
        buffers.n = sizeof(PoolBuffers) // sizeof(Buffer)
    elif lifetime == NODES:
        buffers.first = <Buffer*>&system.history.tree
        buffers.n = sizeof(HistoryBuffers) // sizeof(Buffer)
    elif lifetime == PENDING:
        buffers.first = <Buffer*>&system.pending_step
        buffers.n = sizeof(PendingBuffers) // sizeof(Buffer)
    else:
        buffers.first = <Buffer*>&system.work
        buffers.n = sizeof(WorkBuffers) // sizeof(Buffer)
    return buffers


# ---- typed pointers ----------------------------------------------------------------------

cdef inline void find_survivors(
    Survivors* survivors, const SurvivorBuffers* buffers
) noexcept nogil:
    survivors.parent = <uint32_t*>buffers.parent.data
    survivors.state = <uint32_t*>buffers.state.data
    survivors.weight = <double*>buffers.weight.data
    survivors.log_weight = <double*>buffers.log_weight.data


cdef inline void find_arrays(System* system) noexcept nogil:
    """Set all typed pointers into buffers. Call this after buffers may have moved."""
    cdef const WorkBuffers* work = &system.work
    cdef const PendingBuffers* pending_step = &system.pending_step
    cdef Scratch* scratch = &system.scratch
    cdef Lookahead* ahead = &system.lookahead
    system.model.inverse = <const double*>system.stored.emission_tables.data
    system.model.spread_term = system.model.inverse + TABLED
    system.candidates.items = <Candidate*>pending_step.candidates.data
    system.tilted.items = <Candidate*>work.tilted.data
    find_survivors(&system.chosen, &work.chosen)
    find_survivors(&system.moved, &work.moved)
    find_survivors(&system.provisional, &pending_step.provisional)
    system.updates.notes = <SharedUpdate*>work.updates.data
    scratch.transition = <double*>work.own.transition.data
    scratch.emission = <double*>work.own.emission.data
    scratch.emitted = <uint32_t*>work.own.emitted.data
    scratch.stamp = <uint64_t*>work.own.stamp.data
    scratch.ones = <double*>work.ones.data
    scratch.overlay_into = <uint32_t*>work.overlay_into.data
    scratch.overlay_row = <uint32_t*>work.overlay_row.data
    scratch.overlay_column = <uint32_t*>work.overlay_column.data
    scratch.overlay_missing = <uint32_t*>work.overlay_missing.data
    scratch.keys = <uint64_t*>work.keys.data
    scratch.key_work = <uint64_t*>work.key_work.data
    scratch.shares = <double*>work.shares.data
    scratch.real_into = <double*>work.own.real_into.data
    scratch.real_offered = <double*>work.own.real_offered.data
    scratch.real_emitted = <double*>work.own.real_emitted.data
    scratch.row.state = <uint32_t*>work.own.row_states.data
    scratch.row.count = <double*>work.own.row_counts.data
    scratch.column.state = <uint32_t*>work.own.column_states.data
    scratch.column.count = <double*>work.own.column_counts.data
    ahead.tabled = <const int64_t*>system.stored.log_tables.data
    ahead.row_total = <RowTotal*>pending_step.row_total.data
    ahead.potential = <int64_t*>work.potential.data
    ahead.log_sum = <int64_t*>work.own.log_sum.data
    ahead.share_sum = <int64_t*>work.own.share_sum.data
    ahead.n_with = <int64_t*>work.own.n_with.data
    ahead.largest = <int64_t*>work.own.largest.data
    ahead.labels = <uint32_t*>work.labels.data
    ahead.candidate_place = <uint32_t*>work.candidate_place.data
    ahead.n_offering = <int64_t*>work.n_offering.data
    ahead.linear_sum = <double*>work.linear_sum.data
    ahead.normalizer = <double*>work.normalizer.data


# ---- bytes that hold state ---------------------------------------------------------------

cdef inline size_t shelf_bytes(const System* system, uint32_t n_shelves) noexcept nogil:
    return <size_t>n_shelves * SHELF * system.stride * sizeof(uint32_t)


cdef inline size_t pending_bytes(const System* system, const Buffer* buffer) noexcept nogil:
    """Bytes of a buffer that belong to the pending step, if there is one."""
    cdef const PendingBuffers* buffers = &system.pending_step
    cdef size_t n = <size_t>system.provisional.n
    if not system.pending:
        return 0
    if buffer == &buffers.candidates:
        return <size_t>system.candidates.n * sizeof(Candidate)
    if buffer == &buffers.row_total:
        return <size_t>system.n_particles * sizeof(RowTotal) * system.lookahead.has_totals
    if buffer == &buffers.provisional.parent or buffer == &buffers.provisional.state:
        return n * sizeof(uint32_t)
    if buffer == &buffers.provisional.log_weight and not system.provisional.logarithmic:
        return 0
    return n * sizeof(double)


cdef inline size_t state_bytes(
    const System* system, int lifetime, const Buffer* buffer
) noexcept nogil:
    """Bytes of a buffer that hold state."""
    if lifetime == WORK:
        return 0
    if lifetime == PENDING:
        return pending_bytes(system, buffer)
    if lifetime == NODES and buffer != &system.history.tree.heads:
        return min(buffer.bytes, system.history.n_touched * sizeof(uint32_t))
    if buffer == &system.pool.store.arena:
        return used_bytes(&system.pool)
    if buffer == &system.pool.store.pages:  # there are none before the first record
        return min(buffer.bytes, system.pool.n_pages * sizeof(Page))
    if buffer == &system.stored.blocks:
        return shelf_bytes(system, system.n_shelves)
    if buffer == &system.stored.log_weight and not system.logarithmic:
        return 0
    if buffer == &system.stored.statistics:
        return <size_t>system.numbers.n_rows * system.numbers.size * sizeof(double)
    if buffer == &system.stored.statistic_refs or buffer == &system.stored.statistic_scale:
        return system.numbers.n_rows * sizeof(uint32_t)
    return buffer.bytes


# ---- bytes that were written -------------------------------------------------------------

cdef inline void reset_extents(System* system) noexcept nogil:
    """Reset the extents of work space that was just allocated."""
    memset(&system.extent, 0, sizeof(system.extent))
    if system.pending:
        system.extent.collected = system.candidates.n


cdef inline size_t work_extent(const System* system, const Buffer* buffer) noexcept nogil:
    """Bytes of work space that may have been written."""
    cdef const WorkBuffers* work = &system.work
    cdef size_t collected = <size_t>system.extent.collected
    cdef size_t compared = <size_t>max(system.extent.collected, system.extent.sampled)
    cdef size_t threads = <size_t>system.n_threads
    if buffer == &system.pending_step.candidates:
        # All threads but the first write further back; then all candidates are moved together.
        return collected * (2 * threads - 1) // threads * sizeof(Candidate)
    if buffer == &work.tilted:
        return collected * sizeof(Candidate)
    if system.model.real and (
        buffer == &work.labels or buffer == &work.own.log_sum or buffer == &work.own.largest
        or buffer == &work.n_offering or buffer == &work.linear_sum or buffer == &work.normalizer
    ):
        return <size_t>system.lookahead.n_labels * sizeof(int64_t)
    if buffer == &work.candidate_place:
        return collected * sizeof(uint32_t)
    if buffer == &work.potential:
        return collected * sizeof(int64_t)
    if buffer == &work.keys or buffer == &work.key_work or buffer == &work.shares:
        return compared * sizeof(uint64_t)
    if buffer == &work.block_potentials:
        return <size_t>system.extent.potentials * sizeof(double)
    if buffer == &work.updates:
        return <size_t>system.extent.updates * sizeof(SharedUpdate)
    if buffer == &work.row_constants:
        return <size_t>system.extent.constants * system.numbers.n_channels * N_CONSTANTS \
            * sizeof(double)
    if buffer == &work.log_density or buffer == &work.relative_density:
        return system.numbers.n_rows * sizeof(double)
    if buffer == &work.faded_rows:
        return <size_t>system.numbers.n_rows * system.numbers.widest * sizeof(double)
    if buffer == &work.successor or buffer == &work.prepared:
        return system.numbers.n_rows * sizeof(uint32_t)
    if buffer == &work.chosen.log_weight:
        return buffer.bytes * system.logarithmic
    if buffer == &work.moved.log_weight:
        return buffer.bytes * system.moved.logarithmic
    if buffer == &system.pending_step.provisional.log_weight:
        return buffer.bytes * system.provisional.logarithmic
    return buffer.bytes


cdef inline int64_t allocated_bytes(System* system) noexcept nogil:
    """Bytes of the system and its buffers, without those that were never written."""
    cdef BufferSet buffers
    cdef Buffer* buffer
    cdef size_t total = sizeof(System)
    cdef size_t i
    cdef int lifetime
    for lifetime in range(N_LIFETIMES):
        buffers = buffers_of(system, lifetime)
        for i in range(buffers.n):
            buffer = &buffers.first[i]
            if lifetime == WORK or lifetime == PENDING:
                total += min(buffer.bytes, work_extent(system, buffer))
            elif buffer == &system.pool.store.pages:
                total += buffer.bytes
            else:
                total += min(buffer.bytes, state_bytes(system, lifetime, buffer))
    return <int64_t>total


# ---- all of them -------------------------------------------------------------------------

cdef inline int64_t reserved_bytes(System* system) noexcept nogil:
    """The total length of all buffers, which `system.memory.allocated` must equal."""
    cdef BufferSet buffers
    cdef size_t total = 0
    cdef size_t i
    cdef int lifetime
    for lifetime in range(N_LIFETIMES):
        buffers = buffers_of(system, lifetime)
        for i in range(buffers.n):
            total += buffers.first[i].bytes
    return <int64_t>total


cdef inline void release_buffers(System* system) noexcept nogil:
    cdef BufferSet buffers
    cdef size_t i
    cdef int lifetime
    for lifetime in range(N_LIFETIMES):
        buffers = buffers_of(system, lifetime)
        for i in range(buffers.n):
            dispose(&system.memory, &buffers.first[i])


cdef inline Status copy_system(System* target, const System* source) noexcept nogil:
    """Make the empty system `target` a copy. After a failure it can only be released."""
    cdef BufferSet buffers, origin
    cdef size_t i, used
    cdef int lifetime
    memcpy(target, source, sizeof(System))
    target.memory.allocated = 0
    target.pool.memory = &target.memory
    reset_extents(target)
    for lifetime in range(N_LIFETIMES):
        buffers = buffers_of(target, lifetime)
        memset(buffers.first, 0, buffers.n * sizeof(Buffer))
    for lifetime in range(N_LIFETIMES):
        buffers = buffers_of(target, lifetime)
        origin = buffers_of(<System*>source, lifetime)
        for i in range(buffers.n):
            used = state_bytes(source, lifetime, &origin.first[i])
            if duplicate(&target.memory, &buffers.first[i], &origin.first[i], used) != OK:
                return NO_MEMORY
    find_arrays(target)
    return OK
