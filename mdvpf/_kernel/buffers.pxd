# cython: language_level=3
"""Buffers: all of them in one list, and how much of each is in use.

Some hold the state of a system, and a copy needs them; what MD-VPA holds of a pending step is among
those. The others are work space, which is made anew when there is none. More is claimed than will
be written, so what was written is noted: the *extents* of the work space.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from mdvpf._kernel.pool cimport used_bytes
from mdvpf._kernel.types cimport SHELF, Buffer, Candidate, Change, RowTotal, System

cdef enum:
    FIRST_PENDING_BUFFER = 14   # from here on, what MD-VPA holds of a pending step
    N_STATE_BUFFERS = 20    # what a copy needs
    N_BUFFERS = 54          # and work space


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


# ---- what was written --------------------------------------------------------------------

cdef inline void forget_extents(System* system) noexcept nogil:
    """Note that nothing is written to the work space."""
    system.most_collected = system.candidates.n if system.pending else 0
    system.most_sampled = 0
    system.most_shares = 0
    system.changes.most = 0


cdef inline size_t unwritten(const Buffer* buffer, size_t written) noexcept nogil:
    return buffer.bytes - written if buffer.bytes > written else 0


cdef inline int64_t allocated_bytes(System* system) noexcept nogil:
    """Bytes held, but for those that were only claimed: nothing was ever written there."""
    cdef size_t threads = <size_t>system.n_threads
    cdef size_t collected = <size_t>system.most_collected
    cdef size_t compared = <size_t>max(
        system.most_collected, system.most_sampled, system.n_particles
    )
    cdef Buffer* buffers[N_BUFFERS]
    cdef int i
    cdef size_t claimed = system.pool.arena.bytes - used_bytes(&system.pool)
    claimed += unwritten(&system.blocks, shelf_bytes(system, system.n_shelves))
    # Parts after the first write elsewhere, before all is moved together.
    claimed += unwritten(
        &system.candidates.items,
        collected * (2 * threads - 1) // threads * sizeof(Candidate),
    )
    claimed += unwritten(&system.tilted.items, collected * sizeof(Candidate))
    claimed += unwritten(&system.lookahead.potential, collected * sizeof(int64_t))
    claimed += unwritten(&system.scratch.keys, compared * sizeof(uint64_t))
    claimed += unwritten(&system.scratch.order, compared * sizeof(uint64_t))
    compared = max(compared, <size_t>system.most_shares)
    claimed += unwritten(&system.scratch.shares, compared * sizeof(double))
    claimed += unwritten(&system.changes.notes, system.changes.most * sizeof(Change))
    if not system.logarithmic:
        claimed += system.log_weight.bytes + system.chosen.log_weight.bytes
    if not system.shown.logarithmic:
        claimed += system.shown.log_weight.bytes
    list_buffers(system, buffers)
    for i in range(N_STATE_BUFFERS):
        if is_of_nodes(system, buffers[i]):
            claimed += unwritten(buffers[i], state_bytes(system, buffers[i], i))
    return system.memory.allocated - <int64_t>claimed + <int64_t>sizeof(System)
