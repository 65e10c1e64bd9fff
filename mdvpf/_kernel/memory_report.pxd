# cython: language_level=3
"""The use of memory: shared rows, live bytes, and bytes of plain tables for comparison."""

from libc.stdint cimport int64_t, uint32_t

from mdvpf._kernel.buffers cimport PENDING, BufferSet, buffers_of, pending_bytes
from mdvpf._kernel.constants cimport BLOCK_STATES, GROUP, NODE_SIZE, NONE
from mdvpf._kernel.counts cimport children, row_end, row_start
from mdvpf._kernel.particles cimport (
    block_of, group_at, root_of, rows_of, shares_block, used_groups,
)
from mdvpf._kernel.real_counts cimport real_end, real_start
from mdvpf._kernel.statistics cimport refs_of_rows
from mdvpf._kernel.types cimport Record, System, handle_t

cdef struct MemoryCounts:
    int64_t live            # bytes in use
    int64_t dense           # bytes that plain tables would take, one set a particle
    int64_t rows            # different rows of counts
    int64_t shared          # rows that several particles share


cdef inline void visit(
    const System* system, handle_t handle, uint32_t level, unsigned char* marks,
    MemoryCounts* found,
) noexcept nogil:
    """Count the rows below a handle: as rows at the first visit, as shared at the second."""
    cdef const Record* group
    cdef uint32_t which
    cdef int i
    if handle == NONE or marks[handle] == 2:
        return
    marks[handle] += 1
    if level == 0:
        group = group_at(system, handle)
        for which in range(<uint32_t>GROUP):
            if (real_end(group, which) > real_start(group, which) if system.model.real
                    else row_end(group, which) > row_start(group, which)):
                if marks[handle] == 1:
                    found.rows += 1
                else:
                    found.shared += 1
        return
    for i in range(NODE_SIZE):
        visit(system, children(&system.pool, handle)[i], level - 1, marks, found)


cdef inline MemoryCounts count_memory(System* system, unsigned char* marks) noexcept nogil:
    """Count everything. `marks` has a zero for each unit of the pool."""
    cdef BufferSet pending_step = buffers_of(system, PENDING)
    cdef MemoryCounts found
    cdef uint32_t* block
    cdef int64_t blocks = 0
    cdef int64_t k, m
    cdef uint32_t i
    found.dense = 0
    found.rows = 0
    found.shared = 0
    for k in range(system.n_particles):
        block = block_of(system, k)
        blocks += not shares_block(system, k)
        m = block[BLOCK_STATES]
        if system.numbers.n_channels:
            found.dense += 4 * m * (m + 1) + <int64_t>sizeof(double) * m * system.numbers.size
        else:
            found.dense += 4 * m * (m + 1 + system.model.n_symbols)
        for i in range(used_groups(system, block)):
            visit(system, rows_of(system, block)[i], system.row_depth, marks, &found)
        for i in range(system.root_size):
            visit(system, root_of(system, block)[i], system.depth - 1, marks, &found)
    found.live = system.pool.live_bytes + blocks * <int64_t>(system.stride * sizeof(uint32_t))
    found.live += system.positions.n_stretches
    found.live += <int64_t>sizeof(uint32_t) * system.positions.n_numbers \
        * (2 if system.model.mealy else 1)
    found.live += system.n_particles * <int64_t>(2 * sizeof(uint32_t) + sizeof(double))
    for i in range(1, system.numbers.n_rows):
        found.rows += refs_of_rows(system)[i] > 0
        found.shared += refs_of_rows(system)[i] > 1
    found.live += system.numbers.n_live \
        * <int64_t>(system.numbers.size * sizeof(double) + 2 * sizeof(uint32_t))
    if system.model.is_open:
        found.live += <int64_t>sizeof(int64_t) * system.model.n_symbols
    if system.logarithmic:
        found.live += system.n_particles * <int64_t>sizeof(double)
    found.live += system.history.n_live * <int64_t>sizeof(uint32_t) \
        * (5 if system.history.lag else 3)
    for i in range(<uint32_t>pending_step.n):
        found.live += pending_bytes(system, &pending_step.first[i])
    return found
