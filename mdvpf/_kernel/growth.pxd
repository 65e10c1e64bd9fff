# cython: language_level=3
"""Growth: room for the column of a symbol never seen and, in a Mealy machine, for its rows.

A block has the root of its tree of columns. The root grows by some handles at a time, up to
MAX_ROOT. Then all trees become one level deeper: every NODE_SIZE handles of a root move to a new
node. The tree of rows of each state grows in the same way. All memory is reserved before anything
moves.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from mdvpf._kernel.alphabet cimport reserve_seen
from mdvpf._kernel.constants cimport (
    GROUP_BITS, MAX_ROOT, NO_MEMORY, NODE_BITS, NODE_SIZE, NODE_UNITS, NONE, OK,
    Status,
)
from mdvpf._kernel.counts cimport children, new_record
from mdvpf._kernel.particles cimport block_of, root_of, rows_of, shares_block, used_groups
from mdvpf._kernel.pool cimport at, pages_for, reserve_pages
from mdvpf._kernel.shelves cimport lay_out_anew
from mdvpf._kernel.types cimport Pool, Record, System, handle_t

cdef enum:
    LIFTED = 1              # note of a tree that was counted and will move below a new node


cdef inline uint32_t depth_for(uint32_t column) noexcept nogil:
    """Levels of the tree of columns, the root included, that has this column."""
    cdef uint64_t group = column >> GROUP_BITS  # 64 bits, since shifts may exceed 31
    cdef uint32_t depth = 1
    while group >> (NODE_BITS * (depth - 1)) >= MAX_ROOT:
        depth += 1
    return depth


cdef inline uint32_t row_depth_for(const System* system, uint32_t column) noexcept nogil:
    """Levels of the tree of rows that has the row of this column; 0 in a Moore machine."""
    cdef uint64_t group = column >> GROUP_BITS
    cdef uint32_t depth = 0
    if system.model.mealy:
        while group >> (NODE_BITS * depth):
            depth += 1
    return depth


cdef inline uint32_t root_for(const System* system, uint32_t column) noexcept nogil:
    """Handles that the root needs for this column, at the present depth."""
    return (column >> GROUP_BITS >> (NODE_BITS * (system.depth - 1))) + 1


# ---- columns -----------------------------------------------------------------------------

cdef inline bint is_empty(const handle_t* handles) noexcept nogil:
    cdef int i
    for i in range(NODE_SIZE):
        if handles[i] != NONE:
            return False
    return True


cdef inline void release_once(Pool* pool, const handle_t* handles) noexcept nogil:
    """Release records that a node holds as well, so that none has to be freed."""
    cdef int i
    for i in range(NODE_SIZE):
        if handles[i] != NONE:
            (<Record*>at(pool, handles[i])).refs -= 1


cdef inline void lift_root(
    System* system, uint32_t* block, handle_t* latest
) noexcept nogil:
    """Move the handles of a root to nodes.

    `latest` has the latest node made for each index of a root. A block shares it if it has the same
    handles there.
    """
    cdef Pool* pool = &system.pool
    cdef handle_t* root = root_of(system, block)
    cdef handle_t[MAX_ROOT + NODE_SIZE] held
    cdef handle_t* below
    cdef uint32_t n = (system.root_size + NODE_SIZE - 1) >> NODE_BITS
    cdef uint32_t i
    memset(held, 0, sizeof(held))
    memcpy(held, root, system.root_size * sizeof(handle_t))
    memset(root, 0, system.root_size * sizeof(handle_t))
    for i in range(n):
        below = &held[i << NODE_BITS]
        if is_empty(below):
            continue
        if latest[i] != NONE and memcmp(
            children(pool, latest[i]), below, NODE_SIZE * sizeof(handle_t)
        ) == 0:
            release_once(pool, below)
            (<Record*>at(pool, latest[i])).refs += 1
        else:
            latest[i] = new_record(pool, NODE_UNITS, 0, 1)
            memcpy(children(pool, latest[i]), below, NODE_SIZE * sizeof(handle_t))
        root[i] = latest[i]


cdef inline Status deepen_columns(System* system) noexcept nogil:
    """Make the trees of columns one level deeper."""
    cdef handle_t[MAX_ROOT] latest
    cdef size_t n = 0
    cdef int64_t k
    for k in range(system.n_particles):
        n += not shares_block(system, k)
    if reserve_pages(
        &system.pool, pages_for(n * ((MAX_ROOT >> NODE_BITS) + 1), NODE_UNITS)
    ) != OK:
        return NO_MEMORY
    memset(latest, 0, sizeof(latest))
    for k in range(system.n_particles):
        if not shares_block(system, k):
            lift_root(system, block_of(system, k), latest)
    system.depth += 1
    return OK


# ---- rows --------------------------------------------------------------------------------

cdef inline size_t count_trees(System* system) noexcept nogil:
    """Mark the trees of rows; return how many different ones there are."""
    cdef size_t n = 0
    cdef uint32_t* block
    cdef Record* record
    cdef uint32_t i
    cdef int64_t k
    for k in range(system.n_particles):
        if shares_block(system, k):
            continue
        block = block_of(system, k)
        for i in range(used_groups(system, block)):
            if rows_of(system, block)[i] != NONE:
                record = <Record*>at(&system.pool, rows_of(system, block)[i])
                n += record.note == NONE
                record.note = LIFTED
    return n


cdef inline void lift_rows(System* system, uint32_t* block, bint unmark) noexcept nogil:
    """Move each tree of rows below a node; blocks that share the tree share the node.

    The note of a tree is the node above it, once there is one. With `unmark`, only the marks are
    removed.
    """
    cdef Pool* pool = &system.pool
    cdef handle_t* held = rows_of(system, block)
    cdef Record* record
    cdef handle_t node
    cdef uint32_t i
    for i in range(used_groups(system, block)):
        if held[i] == NONE:
            continue
        record = <Record*>at(pool, held[i])
        if unmark:
            record.note = NONE
        elif record.note == LIFTED:
            node = new_record(pool, NODE_UNITS, 0, 1)
            memset(children(pool, node), 0, NODE_SIZE * sizeof(handle_t))
            children(pool, node)[0] = held[i]
            record.note = node
            held[i] = node
        else:
            node = record.note
            record.refs -= 1
            (<Record*>at(pool, node)).refs += 1
            held[i] = node


cdef inline Status deepen_rows(System* system) noexcept nogil:
    """Make the trees of rows one level deeper."""
    cdef size_t n = count_trees(system)
    cdef bint failed = reserve_pages(&system.pool, pages_for(n, NODE_UNITS)) != OK
    cdef const handle_t* rows
    cdef uint32_t i
    cdef int64_t k
    for k in range(system.n_particles):
        if not shares_block(system, k):
            lift_rows(system, block_of(system, k), failed)
    if failed:
        return NO_MEMORY
    for k in range(system.n_particles):
        rows = rows_of(system, block_of(system, k))
        for i in range(used_groups(system, block_of(system, k))):
            if rows[i] != NONE:
                (<Record*>at(&system.pool, children(&system.pool, rows[i])[0])).note = NONE
    system.row_depth += 1
    return OK


# ---- rows and columns --------------------------------------------------------------------

cdef inline Status reserve_symbol(System* system, uint32_t column) noexcept nogil:
    """Make room for a symbol of an open alphabet, which may be new. Counts do not change.

    If memory runs out, what has already grown stays larger.
    """
    cdef uint32_t needed
    if column <= system.model.n_symbols:
        return OK
    if reserve_seen(system, column) != OK:
        return NO_MEMORY
    while system.row_depth < row_depth_for(system, column):
        if deepen_rows(system) != OK:
            return NO_MEMORY
    if system.depth < depth_for(column) and deepen_columns(system) != OK:
        return NO_MEMORY
    needed = root_for(system, column)
    if needed <= system.root_size <= 2 * needed + MAX_ROOT // 8:  # larger after `deepen_columns`
        return OK
    needed = min(<uint32_t>MAX_ROOT, needed + needed // 4)
    return lay_out_anew(system, system.state_capacity, needed, system.positions.enabled)
