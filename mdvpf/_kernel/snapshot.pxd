# cython: language_level=3
"""Snapshots: the state of a system as arrays, without handles, pages and slots.

Blocks are listed in the order of particles, with the number of particles that share each; weights
and ancestors are listed by particle. Each group, and each node of the trees of columns, is listed
once and has a number, from 1; 0 is none. So sharing survives, and the arrays do not depend on the
layout of memory. Histories are listed by generation, the newest first. Within a generation, nodes
are in the order in which the next generation refers to them.

`take_snapshot` writes the arrays and `restore.pxd` reads them. Systems with real counts have
another format (`real_snapshot.pxd`).
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcpy, memset

from mdvpf._kernel.constants cimport (
    BLOCK_CURRENT, BLOCK_LEAF, BLOCK_STATES, GROUP, NO_MEMORY, NODE_SIZE, NONE, OK, PAGE_BITS,
    PAGE_UNITS,
    Status,
)
from mdvpf._kernel.counts cimport children, group_bytes, item, items_of
from mdvpf._kernel.history cimport path_length
from mdvpf._kernel.particles cimport (
    block_of, group_at, root_of, row_handles, rows_of, shares_block, spread_in, used_groups,
)
from mdvpf._kernel.pool cimport count_records, dispose, resize
from mdvpf._kernel.sections cimport (
    ANCESTOR, CHILDREN, COLUMNS, COPIES, CURRENT, GENERATIONS, ITEMS, LEAF, LEVELS, LOG_WEIGHT,
    N_SECTIONS, N_STATES, PARENT, ROWS, SHAPE, SPREAD, STATE, WEIGHT,
    Snapshot,
    words,
)
from mdvpf._kernel.types cimport Buffer, History, Record, System, handle_t


# ---- records -----------------------------------------------------------------------------

# The numbers of records, and the records in the order of their numbers, level by level.
cdef struct Numbering:
    Buffer number           # uint32_t[units of the pool]: number of the record at a handle
    Buffer order            # handle_t[]: nodes of the top level first, groups last
    int64_t n               # records numbered so far
    int64_t level_start     # records before the level being numbered


cdef inline void number_record(Numbering* numbering, handle_t handle) noexcept nogil:
    """Number a record of the present level unless it has a number."""
    cdef uint32_t* number
    if handle == NONE:
        return
    number = &(<uint32_t*>numbering.number.data)[handle - PAGE_UNITS]
    if number[0] == 0:
        (<handle_t*>numbering.order.data)[numbering.n] = handle
        numbering.n += 1
        number[0] = <uint32_t>(numbering.n - numbering.level_start)


cdef inline uint32_t number_of(const Numbering* numbering, handle_t handle) noexcept nogil:
    return 0 if handle == NONE else (<uint32_t*>numbering.number.data)[handle - PAGE_UNITS]


cdef inline Status number_records(
    System* system, Numbering* numbering, Snapshot* snapshot
) noexcept nogil:
    """Number all records, and write the number of nodes of each level."""
    cdef size_t units = (<size_t>system.pool.n_pages - 1) << PAGE_BITS
    cdef size_t n_records = count_records(&system.pool)
    cdef uint32_t depth, i
    cdef int64_t k, start
    if resize(&system.memory, &numbering.number, units * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &numbering.order, n_records * sizeof(handle_t)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &snapshot.section[LEVELS],
              (system.depth - 1) * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    if units:
        memset(numbering.number.data, 0, units * sizeof(uint32_t))
    for k in range(system.n_particles):
        for i in range(system.root_size):
            number_record(numbering, root_of(system, block_of(system, k))[i])
    for depth in range(system.depth - 1):
        start = numbering.level_start
        numbering.level_start = numbering.n
        words(snapshot, LEVELS)[depth] = <uint32_t>(numbering.n - start)
        for k in range(start, numbering.level_start):
            for i in range(<uint32_t>NODE_SIZE):
                number_record(
                    numbering,
                    children(&system.pool, (<handle_t*>numbering.order.data)[k])[i],
                )
    for k in range(system.n_particles):
        for i in range(used_groups(system, block_of(system, k))):
            number_record(numbering, rows_of(system, block_of(system, k))[i])
    return OK


cdef inline uint8_t* write_group(const Record* group, uint8_t* out) noexcept nogil:
    """Write the items of a group, low bytes first; return the end of the output."""
    cdef uint32_t width = group.shape & 3
    cdef uint32_t i, value
    cdef int byte
    for i in range(<uint32_t>GROUP + 2 * (group.shape >> 2)):
        value = item(items_of(group), width, i)
        for byte in range(1 << width):
            out[0] = <uint8_t>(value >> (8 * byte))
            out += 1
    return out


cdef inline Status write_records(
    System* system, const Numbering* numbering, Snapshot* snapshot
) noexcept nogil:
    """Write the nodes and the groups, in the order of their numbers."""
    cdef const handle_t* order = <const handle_t*>numbering.order.data
    cdef int64_t n_nodes = numbering.level_start
    cdef int64_t n_groups = numbering.n - n_nodes
    cdef size_t bytes = 0
    cdef uint8_t* items
    cdef int64_t k
    cdef uint32_t i
    for k in range(n_nodes, numbering.n):
        bytes += group_bytes(group_at(system, order[k]).shape)
    if resize(&system.memory, &snapshot.section[CHILDREN],
              <size_t>n_nodes * NODE_SIZE * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &snapshot.section[SHAPE],
              <size_t>n_groups * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &snapshot.section[ITEMS], bytes) != OK:
        return NO_MEMORY
    for k in range(n_nodes):
        for i in range(<uint32_t>NODE_SIZE):
            words(snapshot, CHILDREN)[k * NODE_SIZE + i] = number_of(
                numbering, children(&system.pool, order[k])[i])
    items = <uint8_t*>snapshot.section[ITEMS].data
    for k in range(n_groups):
        words(snapshot, SHAPE)[k] = group_at(system, order[n_nodes + k]).shape
        items = write_group(group_at(system, order[n_nodes + k]), items)
    return OK


# ---- particles ---------------------------------------------------------------------------

cdef inline size_t count_blocks(const System* system) noexcept nogil:
    cdef size_t n = 0
    cdef int64_t k
    for k in range(system.n_particles):
        n += not shares_block(system, k)
    return n


cdef inline size_t count_states(const System* system) noexcept nogil:
    """Number of states of all blocks."""
    cdef size_t n = 0
    cdef int64_t k
    for k in range(system.n_particles):
        if not shares_block(system, k):
            n += block_of(system, k)[BLOCK_STATES]
    return n


cdef inline Status write_weights(System* system, Snapshot* snapshot) noexcept nogil:
    """Write the weight and the ancestor of every particle."""
    cdef size_t n = <size_t>system.n_particles
    if resize(&system.memory, &snapshot.section[WEIGHT], n * sizeof(double)) != OK:
        return NO_MEMORY
    if system.logarithmic and resize(
        &system.memory, &snapshot.section[LOG_WEIGHT], n * sizeof(double)
    ) != OK:
        return NO_MEMORY
    if resize(&system.memory, &snapshot.section[ANCESTOR], n * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    memcpy(snapshot.section[WEIGHT].data, system.stored.weight.data, n * sizeof(double))
    if system.logarithmic:
        memcpy(snapshot.section[LOG_WEIGHT].data, system.stored.log_weight.data,
               n * sizeof(double))
    memcpy(snapshot.section[ANCESTOR].data, system.stored.ancestors.data, n * sizeof(uint32_t))
    return OK


cdef inline Status write_particles(
    System* system, const Numbering* numbering, Snapshot* snapshot
) noexcept nogil:
    cdef size_t n_blocks = count_blocks(system)
    cdef uint32_t row_groups = row_handles(system, system.most_states)
    cdef size_t[N_SECTIONS] bytes
    cdef uint32_t* block
    cdef uint32_t i
    cdef int64_t b = -1
    cdef int64_t k
    memset(bytes, 0, sizeof(bytes))
    bytes[COPIES] = n_blocks * sizeof(uint32_t)
    bytes[SPREAD] = n_blocks * sizeof(double)
    bytes[N_STATES] = n_blocks * sizeof(uint32_t)
    bytes[CURRENT] = n_blocks * sizeof(uint32_t)
    bytes[ROWS] = n_blocks * row_groups * sizeof(uint32_t)
    bytes[COLUMNS] = n_blocks * system.root_size * sizeof(uint32_t)
    if write_weights(system, snapshot) != OK:
        return NO_MEMORY
    for i in range(<uint32_t>COPIES, <uint32_t>COLUMNS + 1):
        if resize(&system.memory, &snapshot.section[i], bytes[i]) != OK:
            return NO_MEMORY
    for k in range(system.n_particles):
        if shares_block(system, k):
            words(snapshot, COPIES)[b] += 1
            continue
        b += 1
        block = block_of(system, k)
        words(snapshot, COPIES)[b] = 1
        (<double*>snapshot.section[SPREAD].data)[b] = spread_in(block)[0]
        words(snapshot, N_STATES)[b] = block[BLOCK_STATES]
        words(snapshot, CURRENT)[b] = block[BLOCK_CURRENT]
        for i in range(row_groups):
            words(snapshot, ROWS)[b * row_groups + i] = number_of(
                numbering, rows_of(system, block)[i]) if i < used_groups(system, block) else 0
        for i in range(system.root_size):
            words(snapshot, COLUMNS)[b * system.root_size + i] = number_of(
                numbering, root_of(system, block)[i])
    return OK


# ---- histories ---------------------------------------------------------------------------

cdef inline Status write_history(
    System* system, Numbering* numbering, Snapshot* snapshot
) noexcept nogil:
    """Number the history nodes by generation, and write them."""
    cdef History* history = &system.history
    cdef const uint32_t* parent = <const uint32_t*>history.tree.parent.data
    cdef uint32_t* number
    cdef uint32_t* order
    cdef int64_t n_generations = path_length(history)
    cdef int64_t start = 0      # of the generation
    cdef int64_t n = 0          # nodes numbered so far
    cdef int64_t b = 0          # blocks so far
    cdef int64_t generation, last, k
    cdef uint32_t node
    if not history.enabled or n_generations == 0:
        return OK
    if resize(&system.memory, &numbering.number, history.n_touched * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &numbering.order, <size_t>history.n_live * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &snapshot.section[LEAF],
              count_blocks(system) * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &snapshot.section[GENERATIONS],
              <size_t>n_generations * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &snapshot.section[STATE],
              <size_t>history.n_live * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    number = <uint32_t*>numbering.number.data
    order = <uint32_t*>numbering.order.data
    memset(number, 0, history.n_touched * sizeof(uint32_t))
    for k in range(system.n_particles):
        if shares_block(system, k):
            continue
        node = block_of(system, k)[BLOCK_LEAF]
        if number[node] == 0:
            order[n] = node
            n += 1
            number[node] = <uint32_t>n
        words(snapshot, LEAF)[b] = number[node] - 1
        b += 1
    for generation in range(n_generations):
        last = n
        words(snapshot, GENERATIONS)[generation] = <uint32_t>(last - start)
        for k in range(start, last):
            words(snapshot, STATE)[k] = (<uint32_t*>history.tree.state.data)[order[k]]
            node = parent[order[k]]
            if generation < n_generations - 1 and number[node] == 0:
                order[n] = node
                n += 1
                number[node] = <uint32_t>(n - last)
        if generation < n_generations - 1:
            start = last
    if resize(&system.memory, &snapshot.section[PARENT],
              <size_t>start * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    for k in range(start):
        words(snapshot, PARENT)[k] = number[parent[order[k]]] - 1
    return OK


cdef inline Status take_snapshot(System* system, Snapshot* snapshot) noexcept nogil:
    """Fill the empty snapshot. The caller disposes of it, also after a failure."""
    cdef Numbering numbering
    cdef Status status
    memset(&numbering, 0, sizeof(Numbering))
    status = number_records(system, &numbering, snapshot)
    if status == OK:
        status = write_records(system, &numbering, snapshot)
    if status == OK:
        status = write_particles(system, &numbering, snapshot)
    dispose(&system.memory, &numbering.number)
    dispose(&system.memory, &numbering.order)
    if status == OK:
        status = write_history(system, &numbering, snapshot)
    dispose(&system.memory, &numbering.number)
    dispose(&system.memory, &numbering.order)
    return status
