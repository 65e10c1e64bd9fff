# cython: language_level=3
"""Settling: between two steps, merge equal records and release memory that only steps need.

A step needs work space, and room for records, blocks and history nodes that are freed again. At the
end of a long run all of that is released, and records, blocks and nodes are moved together in the
order of particles.

Within a run this is spread over steps, so that none of them takes much longer than others. In
`SETTLE_INTERVAL` steps, equal records are merged at each place of the blocks, one place after a
step. After one of these steps work space is released; after another, records are moved together if
a quarter of their room is unused; and after a third, blocks and nodes if half of theirs is. Parts
that cannot be moved for want of memory stay as they are.
"""

from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memset

from mdvpf._kernel.buffers cimport (
    N_LIFETIMES, NODES, RECORDS,
    BufferGroup,
    find_arrays, forget_extents, group_of, shelf_bytes, state_bytes,
)
from mdvpf._kernel.compaction cimport move_records
from mdvpf._kernel.constants cimport BLOCK_LEAF, OK, PAGE_BYTES
from mdvpf._kernel.history cimport pack_nodes
from mdvpf._kernel.merging cimport merge_some
from mdvpf._kernel.particles cimport block_of, shares_block
from mdvpf._kernel.pool cimport dispose, duplicate, resize, used_bytes
from mdvpf._kernel.shelves cimport move_blocks
from mdvpf._kernel.statistics cimport pack_rows
from mdvpf._kernel.types cimport Buffer, History, System

cdef enum:
    SETTLE_INTERVAL = 256   # steps: records become equal slowly
    SLACK = 8 * PAGE_BYTES  # unused room that does not matter


# ---- unused room -------------------------------------------------------------------------

cdef inline size_t unused_records(const System* system) noexcept nogil:
    """Bytes of pages that no record is in."""
    return used_bytes(&system.pool) - <size_t>system.pool.live_bytes


cdef inline bint is_loose(const System* system) noexcept nogil:
    """Whether enough room is unused to be worth moving records and blocks together after a run.

    Some always is: the last page of each class is not full, and the next step needs some shelves.
    """
    cdef size_t room = used_bytes(&system.pool) + shelf_bytes(system, system.n_shelves)
    cdef size_t unused = unused_records(system) + shelf_bytes(system, system.n_free_shelves)
    return unused > room // 16 + SLACK


cdef inline bint has_loose_nodes(const System* system) noexcept nogil:
    cdef const History* history = &system.history
    return history.n_touched > history.n_live + history.n_touched // 16 + PAGE_BYTES // 4


cdef inline bint has_sparse_records(const System* system) noexcept nogil:
    """Whether so much room of records is unused that they are moved within a run."""
    return unused_records(system) > used_bytes(&system.pool) // 4 + SLACK


cdef inline uint32_t fitting_capacity(const System* system) noexcept nogil:
    """States to have room for: fewer than there is room for, where many were released."""
    cdef uint32_t capacity = (system.most_states + system.most_states // 8 + 4) & ~3u
    return capacity if 2 * capacity < system.state_capacity else system.state_capacity


cdef inline bint has_sparse_blocks(const System* system) noexcept nogil:
    return shelf_bytes(system, system.n_free_shelves) \
        > shelf_bytes(system, system.n_shelves) // 2 + SLACK \
        or fitting_capacity(system) < system.state_capacity


cdef inline bint has_sparse_nodes(const System* system) noexcept nogil:
    cdef const History* history = &system.history
    return history.n_touched > 2 * history.n_live + PAGE_BYTES // 4


# ---- between two steps -------------------------------------------------------------------

cdef inline void fit(System* system, Buffer* buffer, size_t used) noexcept nogil:
    """Cut a buffer down to the bytes that are used."""
    cdef Buffer fitting
    memset(&fitting, 0, sizeof(Buffer))
    if used == 0 or duplicate(&system.memory, &fitting, buffer, used) == OK:
        dispose(&system.memory, buffer)
        buffer[0] = fitting


cdef inline void release_work(System* system) noexcept nogil:
    """Release work space and unused room of buffers, except where it is too small to matter."""
    cdef BufferGroup group
    cdef Buffer* buffer
    cdef size_t used, i
    cdef int lifetime
    for lifetime in range(N_LIFETIMES):
        group = group_of(system, lifetime)
        for i in range(group.n):
            buffer = &group.first[i]
            used = state_bytes(system, lifetime, buffer)
            # Records and blocks are not cut but moved. A buffer that is at least half full stays.
            if lifetime != RECORDS and buffer != &system.stored.blocks \
                    and buffer.bytes > PAGE_BYTES and used < buffer.bytes // 2:
                fit(system, buffer, used)
    find_arrays(system)
    forget_extents(system)


cdef inline void move_nodes(System* system) noexcept nogil:
    """Move the nodes of histories together, in the order in which they are."""
    cdef BufferGroup group = group_of(system, NODES)
    cdef Buffer numbers
    cdef uint32_t* block
    cdef size_t used, i
    cdef int64_t k
    memset(&numbers, 0, sizeof(Buffer))
    if resize(&system.memory, &numbers, system.history.n_touched * sizeof(uint32_t)) != OK:
        return
    pack_nodes(&system.history, <uint32_t*>numbers.data)
    for k in range(system.n_particles):
        if not shares_block(system, k):
            block = block_of(system, k)
            block[BLOCK_LEAF] = (<uint32_t*>numbers.data)[block[BLOCK_LEAF]]
    dispose(&system.memory, &numbers)
    for i in range(group.n):
        used = state_bytes(system, NODES, &group.first[i])
        if used < group.first[i].bytes:
            fit(system, &group.first[i], used)


cdef inline void settle(System* system) noexcept nogil:
    """Release work space; move records, blocks and nodes together if much room is unused.

    Equal records are not merged, so that what is shared does not depend on when this is called.
    """
    pack_rows(system)
    release_work(system)
    if is_loose(system) and move_records(system) == OK:
        move_blocks(system, fitting_capacity(system))
    if has_loose_nodes(system):
        move_nodes(system)


cdef inline void settle_some(System* system) noexcept nogil:
    """Do the part of settling that is due after the latest step."""
    cdef int64_t interval = system.settle_interval
    cdef int64_t turn = system.n_steps % interval
    system.n_settled = 0
    if system.n_steps < interval:
        return
    merge_some(system, turn, interval)
    if turn == 0:
        pack_rows(system)
        release_work(system)
    if turn == interval // 4 and has_sparse_records(system):
        move_records(system)
    if turn == 3 * interval // 4:
        if has_sparse_blocks(system):
            move_blocks(system, fitting_capacity(system))
        if has_sparse_nodes(system):
            move_nodes(system)
