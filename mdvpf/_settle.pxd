# cython: language_level=3
"""Settling: between two steps, give back what none of the particles needs.

A step needs work space, and room for records, blocks and history nodes that are gone after it.
Between two steps all of that can go, and what is left be put in order: records that are equal
become one, and records and blocks lie in the order of particles. So it is done after some steps,
and at the end of a long run. Where the memory to put things in order cannot be had, they stay as
they are.
"""

from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memset

from mdvpf._history cimport pack_nodes
from mdvpf._move cimport move_records
from mdvpf._pool cimport dispose, duplicate, resize, used_bytes
from mdvpf._room cimport move_blocks
from mdvpf._score cimport block_of, is_copy
from mdvpf._types cimport (
    BLOCK_LEAF, OK, PAGE_BYTES, SHELF,
    Buffer, Candidate, History, RowTotal, System,
)

cdef enum:
    SETTLE_INTERVAL = 256   # steps: records become equal slowly, and to look at all takes time
    FIRST_PENDING_BUFFER = 14   # from here on, what MD-VPA holds of a pending step
    N_STATE_BUFFERS = 20    # what a copy needs
    N_BUFFERS = 54          # and work space, which is made anew when there is none


cdef inline void list_buffers(System* system, Buffer** out) noexcept nogil:
    """List every buffer of the system, those that hold its state first: the one list of them."""
    out[0] = &system.blocks
    out[1] = &system.free_shelves
    out[2] = &system.slot
    out[3] = &system.log_weight
    out[4] = &system.weight
    out[5] = &system.ancestors
    out[6] = &system.tabled
    out[7] = &system.lookahead.tabled
    out[8] = &system.history.parent
    out[9] = &system.history.refs
    out[10] = &system.history.state
    out[11] = &system.history.next
    out[12] = &system.history.previous
    out[13] = &system.history.heads
    out[FIRST_PENDING_BUFFER] = &system.candidates.items
    out[15] = &system.lookahead.row_total
    out[16] = &system.shown.parent
    out[17] = &system.shown.state
    out[18] = &system.shown.weight
    out[19] = &system.shown.log_weight
    out[20] = &system.new_slot
    out[21] = &system.future
    out[22] = &system.chosen.parent
    out[23] = &system.chosen.state
    out[24] = &system.chosen.weight
    out[25] = &system.chosen.log_weight
    out[26] = &system.match
    out[27] = &system.foresight
    out[28] = &system.n_children
    out[29] = &system.scratch.transition
    out[30] = &system.scratch.emission
    out[31] = &system.scratch.ones
    out[32] = &system.scratch.stamp
    out[33] = &system.scratch.emitted
    out[34] = &system.scratch.times
    out[35] = &system.scratch.keys
    out[36] = &system.scratch.order
    out[37] = &system.scratch.shares
    out[38] = &system.scratch.overlay_into
    out[39] = &system.scratch.overlay_row
    out[40] = &system.scratch.overlay_column
    out[41] = &system.scratch.overlay_missing
    out[42] = &system.lookahead.potential
    out[43] = &system.lookahead.log_sum
    out[44] = &system.lookahead.share_sum
    out[45] = &system.lookahead.linear_sum
    out[46] = &system.lookahead.largest
    out[47] = &system.lookahead.n_with
    out[48] = &system.lookahead.n_offering
    out[49] = &system.lookahead.normalizer
    out[50] = &system.part_space
    out[51] = &system.part_sizes
    out[52] = &system.changes.notes
    out[53] = &system.tilted.items


# ---- what is in use ----------------------------------------------------------------------

cdef inline size_t shelf_bytes(const System* system, uint32_t n_shelves) noexcept nogil:
    return <size_t>n_shelves * SHELF * system.stride * sizeof(uint32_t)


cdef inline bint is_of_nodes(const System* system, const Buffer* buffer) noexcept nogil:
    """Whether the buffer has an entry for each node of the histories."""
    return &system.history.parent <= buffer <= &system.history.previous


cdef inline size_t pending_bytes(const System* system, const Buffer* buffer) noexcept nogil:
    """How many bytes of a buffer belong to the pending step."""
    cdef size_t n = <size_t>system.shown.n
    if buffer == &system.candidates.items:
        return <size_t>system.candidates.n * sizeof(Candidate)
    if buffer == &system.lookahead.row_total:
        return <size_t>system.n_particles * sizeof(RowTotal) * system.lookahead.has_totals
    if buffer == &system.shown.parent or buffer == &system.shown.state:
        return n * sizeof(uint32_t)
    if buffer == &system.shown.weight:
        return n * sizeof(double)
    return n * sizeof(double) * system.shown.logarithmic


cdef inline size_t state_bytes(const System* system, const Buffer* buffer, int i) noexcept nogil:
    """How many bytes of a buffer hold state; `i` is its place in the list."""
    if i >= N_STATE_BUFFERS:
        return 0
    if i >= FIRST_PENDING_BUFFER:
        return pending_bytes(system, buffer) if system.pending else 0
    if buffer == &system.blocks:
        return shelf_bytes(system, system.n_shelves)
    if buffer == &system.log_weight and not system.logarithmic:
        return 0
    if is_of_nodes(system, buffer):
        return min(buffer.bytes, system.history.n_touched * sizeof(uint32_t))
    return buffer.bytes


cdef inline bint is_loose(const System* system) noexcept nogil:
    """Whether it pays to move records and blocks together.

    The last pages of the classes are never full, and the next step needs some shelves.
    """
    cdef size_t room = used_bytes(&system.pool) + shelf_bytes(system, system.n_shelves)
    cdef size_t unused = used_bytes(&system.pool) - <size_t>system.pool.live_bytes \
        + shelf_bytes(system, system.n_free_shelves)
    return unused > room // 16 + 8 * PAGE_BYTES


cdef inline bint has_loose_nodes(const System* system) noexcept nogil:
    cdef const History* history = &system.history
    return history.n_touched > history.n_live + history.n_touched // 16 + PAGE_BYTES // 4


# ---- between two steps -------------------------------------------------------------------

cdef inline void fit(System* system, Buffer* buffer, size_t used) noexcept nogil:
    """Cut a buffer down to what is used of it."""
    cdef Buffer fitting
    memset(&fitting, 0, sizeof(Buffer))
    if used == 0 or duplicate(&system.memory, &fitting, buffer, used) == OK:
        dispose(&system.memory, buffer)
        buffer[0] = fitting


cdef inline void forget_extents(System* system) noexcept nogil:
    """Note that nothing is written to the work space."""
    system.most_collected = system.candidates.n if system.pending else 0
    system.most_sampled = 0
    system.most_shares = 0
    system.changes.most = 0


cdef inline void release_work(System* system) noexcept nogil:
    """Give back the work space, but for what is too small to matter."""
    cdef Buffer* buffers[N_BUFFERS]
    cdef size_t used
    cdef int i
    list_buffers(system, buffers)
    for i in range(N_BUFFERS):
        if buffers[i] == &system.blocks:  # which are not cut but moved
            continue
        used = state_bytes(system, buffers[i], i)
        # What is at least half used has room to grow, no more.
        if buffers[i].bytes > PAGE_BYTES and used < buffers[i].bytes // 2:
            fit(system, buffers[i], used)
    forget_extents(system)


cdef inline void move_nodes(System* system) noexcept nogil:
    """Move the nodes of histories together, in the order in which they are."""
    cdef Buffer* buffers[N_BUFFERS]
    cdef Buffer numbers
    cdef uint32_t* block
    cdef int64_t k
    cdef int i
    memset(&numbers, 0, sizeof(Buffer))
    if resize(&system.memory, &numbers, system.history.n_touched * sizeof(uint32_t)) != OK:
        return
    pack_nodes(&system.history, <uint32_t*>numbers.data)
    for k in range(system.n_particles):
        if not is_copy(system, k):
            block = block_of(system, k)
            block[BLOCK_LEAF] = (<uint32_t*>numbers.data)[block[BLOCK_LEAF]]
    dispose(&system.memory, &numbers)
    list_buffers(system, buffers)
    for i in range(N_STATE_BUFFERS):
        if is_of_nodes(system, buffers[i]):
            fit(system, buffers[i], state_bytes(system, buffers[i], i))


cdef inline void settle(System* system, bint merging) noexcept nogil:
    """Give back work space; move together what is loose, and all records if they are merged."""
    release_work(system)
    if (merging or is_loose(system)) and move_records(system, merging) == OK:
        move_blocks(system, system.state_capacity)
    if has_loose_nodes(system):
        move_nodes(system)
