# cython: language_level=3
"""Settling: between two steps, merge equal records and release the work space of steps.

A step needs work space, and leaves the room of records, blocks and history nodes that it has freed.
At the end of a long run all of that is released. Records, blocks and history nodes are then
compacted: they move to contiguous memory, in the order of particles.

Within a run the work is distributed over steps, so that no step takes much longer than others. In
`SETTLE_INTERVAL` steps, each field of the blocks has one turn in which its equal records are
merged. After one of these steps, work space is released. After another, records are compacted if a
quarter of their room is unused. After a third, blocks and history nodes are compacted if half of
their room is unused. If there is no memory for the move, they stay where they are.
"""

from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memset

from mdvpf._kernel.buffers cimport (
    N_LIFETIMES, NODES, RECORDS,
    BufferSet,
    find_arrays, reset_extents, buffers_of, shelf_bytes, state_bytes,
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
    SETTLE_INTERVAL = 256   # steps; records become equal slowly
    SLACK = 8 * PAGE_BYTES  # this much unused room is ignored


# ---- unused room -------------------------------------------------------------------------

cdef inline size_t unused_records(const System* system) noexcept nogil:
    """Bytes of pages that no record uses."""
    return used_bytes(&system.pool) - <size_t>system.pool.live_bytes


cdef inline bint is_loose(const System* system) noexcept nogil:
    """Whether enough room is unused to compact records and blocks after a run.

    Some always is: the last page of each class is not full, and the next step needs some shelves.
    """
    cdef size_t room = used_bytes(&system.pool) + shelf_bytes(system, system.n_shelves)
    cdef size_t unused = unused_records(system) + shelf_bytes(system, system.n_free_shelves)
    return unused > room // 16 + SLACK


cdef inline bint has_loose_nodes(const System* system) noexcept nogil:
    cdef const History* history = &system.history
    return history.n_touched > history.n_live + history.n_touched // 16 + PAGE_BYTES // 4


cdef inline bint has_sparse_records(const System* system) noexcept nogil:
    """Whether enough room is unused to compact records within a run."""
    return unused_records(system) > used_bytes(&system.pool) // 4 + SLACK


cdef inline uint32_t fitting_capacity(const System* system) noexcept nogil:
    """The capacity for states: a smaller one than now if many states were released."""
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
    cdef BufferSet buffers
    cdef Buffer* buffer
    cdef size_t used, i
    cdef int lifetime
    for lifetime in range(N_LIFETIMES):
        buffers = buffers_of(system, lifetime)
        for i in range(buffers.n):
            buffer = &buffers.first[i]
            used = state_bytes(system, lifetime, buffer)
            # Records and blocks are compacted elsewhere. A buffer that is half full stays.
            if lifetime != RECORDS and buffer != &system.stored.blocks \
                    and buffer.bytes > PAGE_BYTES and used < buffer.bytes // 2:
                fit(system, buffer, used)
    find_arrays(system)
    reset_extents(system)


cdef inline void move_nodes(System* system) noexcept nogil:
    """Compact the history nodes, in their present order."""
    cdef BufferSet buffers = buffers_of(system, NODES)
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
    for i in range(buffers.n):
        used = state_bytes(system, NODES, &buffers.first[i])
        if used < buffers.first[i].bytes:
            fit(system, &buffers.first[i], used)


cdef inline void settle(System* system) noexcept nogil:
    """Release work space; compact records, blocks and history nodes if much room is unused.

    Equal records are not merged here, so that sharing does not depend on calls of this function.
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
