# cython: language_level=3
"""Counts: rows in groups of four, shared between particles, cloned when written while shared.

A transition row t[j, :] and an emission column e[:, y] have the same form and are both called a
*row*: pairs of a state and a positive count, in order of first appearance. Four consecutive rows
form a *group*, which is one record: the ends of the four rows, then their pairs, in items of 1, 2
or 4 bytes, the smallest width that holds every item. Groups, not rows, are reference-counted and
shared: a particle holds a quarter as many records, and a clone copies a few more bytes.

The groups of columns of a particle hang in a tree whose nodes are shared in the same way. The root
of the tree is in the block. With fewer than 4 * MAX_ROOT symbols the root is the whole tree.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy, memmove, memset

from mdvpf._kernel.constants cimport (
    GROUP, GROUP_BITS, NODE_BITS, NODE_SIZE, NODE_UNITS, NONE, UNIT_BYTES,
)
from mdvpf._kernel.pool cimport at, class_of, free_record, take_record
from mdvpf._kernel.types cimport Pool, Record, Row, System, handle_t


# ---- items -------------------------------------------------------------------------------

cdef inline uint32_t item(const void* items, uint32_t width, size_t i) noexcept nogil:
    if width == 0:
        return (<const uint8_t*>items)[i]
    if width == 1:
        return (<const uint16_t*>items)[i]
    return (<const uint32_t*>items)[i]


cdef inline void put_item(void* items, uint32_t width, uint32_t i, uint32_t value) noexcept nogil:
    if width == 0:
        (<uint8_t*>items)[i] = <uint8_t>value
    elif width == 1:
        (<uint16_t*>items)[i] = <uint16_t>value
    else:
        (<uint32_t*>items)[i] = value


cdef inline uint32_t width_of(uint32_t value) noexcept nogil:
    return 0 if value < 256 else 1 if value < 65536 else 2


# ---- records -----------------------------------------------------------------------------

cdef inline handle_t new_record(
    Pool* pool, uint32_t units, uint32_t shape, uint32_t refs
) noexcept nogil:
    """Take a record with at least so many units. Its content is undefined."""
    cdef handle_t fresh = take_record(pool, class_of(pool, units))
    cdef Record* record = <Record*>at(pool, fresh)
    record.refs = refs
    record.shape = shape
    record.note = NONE
    return fresh


# ---- rows --------------------------------------------------------------------------------

cdef inline void* items_of(const Record* group) noexcept nogil:
    """The items of a group: GROUP ends, then the pairs."""
    return <char*>group + sizeof(Record)


cdef inline uint32_t row_start(const Record* group, uint32_t which) noexcept nogil:
    return 0 if which == 0 else item(items_of(group), group.shape & 3, which - 1)


cdef inline uint32_t row_end(const Record* group, uint32_t which) noexcept nogil:
    return item(items_of(group), group.shape & 3, which)


cdef inline Row row_in(const Record* group, uint32_t which) noexcept nogil:
    """One row of a group. NULL stands for a group without counts."""
    cdef Row row
    cdef uint32_t start
    row.n = 0
    row.width = 0
    row.pairs = NULL
    if group != NULL:
        start = row_start(group, which)
        row.n = row_end(group, which) - start
        row.width = group.shape & 3
        row.pairs = <const char*>items_of(group) + (<size_t>(GROUP + 2 * start) << row.width)
    return row


cdef inline uint32_t state_in(const Row* row, uint32_t i) noexcept nogil:
    return item(row.pairs, row.width, 2 * i)


cdef inline uint32_t count_in(const Row* row, uint32_t i) noexcept nogil:
    return item(row.pairs, row.width, 2 * i + 1)


cdef inline Row overlaid(const Row* row, uint32_t state, uint32_t* work) noexcept nogil:
    """A copy of the row, in `work`, with the count of the state one larger."""
    cdef Row result
    cdef uint32_t i
    cdef bint found = False
    for i in range(row.n):
        work[2 * i] = state_in(row, i)
        work[2 * i + 1] = count_in(row, i)
        if work[2 * i] == state:
            work[2 * i + 1] += 1
            found = True
    result.n = row.n
    if not found:
        work[2 * row.n] = state
        work[2 * row.n + 1] = 1
        result.n += 1
    result.width = 2
    result.pairs = work
    return result


# ---- adding one --------------------------------------------------------------------------

cdef inline size_t group_bytes(uint32_t shape) noexcept nogil:
    """Bytes of the items of a group of this shape."""
    return <size_t>(GROUP + 2 * <size_t>(shape >> 2)) << (shape & 3)


cdef inline size_t content_bytes(const Record* record) noexcept nogil:
    """Bytes of a group or node after its header."""
    if record.shape == 0:
        return NODE_SIZE * sizeof(handle_t)
    return group_bytes(record.shape)


cdef inline uint32_t group_units(uint32_t shape) noexcept nogil:
    """Units of a record that holds a group of this shape, header included."""
    return <uint32_t>((sizeof(Record) + group_bytes(shape) + UNIT_BYTES - 1) // UNIT_BYTES)


cdef inline void* pairs_of(const Record* group) noexcept nogil:
    return <char*>items_of(group) + (<size_t>GROUP << (group.shape & 3))


cdef inline uint32_t find(const Record* group, uint32_t which, uint32_t state) noexcept nogil:
    """Index of the state's pair in a row of the group; the end of the row if there is none."""
    cdef uint32_t width = group.shape & 3
    cdef uint32_t index = row_start(group, which)
    cdef uint32_t end = row_end(group, which)
    cdef const void* pairs = pairs_of(group)
    while index < end and item(pairs, width, 2 * index) != state:
        index += 1
    return index


cdef inline void begin_group(Record* group, uint32_t width) noexcept nogil:
    """Make the record a group without pairs."""
    group.shape = width
    memset(items_of(group), 0, <size_t>GROUP << width)


cdef inline void copy_group(Record* target, const Record* group, uint32_t width) noexcept nogil:
    """Copy a group to a record of the same width or a wider one."""
    cdef uint32_t n_items = GROUP + 2 * (group.shape >> 2)
    cdef uint32_t i
    target.shape = (group.shape & ~3u) | width
    if (group.shape & 3) == width:
        memcpy(items_of(target), items_of(group), <size_t>n_items << width)
    else:
        for i in range(n_items):
            put_item(items_of(target), width, i, item(items_of(group), group.shape & 3, i))


cdef inline void insert(
    Record* group, uint32_t which, uint32_t index, uint32_t state
) noexcept nogil:
    """Insert a pair with a count of one into a record that is long and wide enough."""
    cdef uint32_t width = group.shape & 3
    cdef uint32_t n = group.shape >> 2
    cdef char* pairs = <char*>pairs_of(group)
    cdef size_t offset = <size_t>index << (width + 1)
    cdef uint32_t i
    memmove(pairs + offset + (2u << width), pairs + offset,
            (<size_t>n << (width + 1)) - offset)
    put_item(pairs, width, 2 * index, state)
    put_item(pairs, width, 2 * index + 1, 1)
    for i in range(which, <uint32_t>GROUP):
        put_item(items_of(group), width, i, item(items_of(group), width, i) + 1)
    group.shape += 4


cdef inline handle_t add_elsewhere(
    Pool* pool, handle_t handle, uint32_t which, uint32_t state
) noexcept nogil:
    """`add_one` in the general case: the group may be cloned, widened or enlarged."""
    cdef Record* group = NULL
    cdef Record* target
    cdef handle_t fresh = handle
    cdef uint32_t index = 0
    cdef uint32_t old_shape = 0
    cdef uint32_t shape = 0     # after
    cdef uint32_t width = 0
    cdef bint found = False
    if handle != NONE:
        group = <Record*>at(pool, handle)
        old_shape = group.shape
        shape = old_shape & ~3u
        width = old_shape & 3
        index = find(group, which, state)
        found = index < row_end(group, which)
    if found:
        width = max(width, width_of(item(pairs_of(group), width, 2 * index + 1) + 1))
    else:
        shape += 4
        width = max(width, width_of(max(state, shape >> 2)))
    shape |= width
    # A record is never of a larger class than its shape requires: the shape determines its size.
    if group == NULL or group.refs > 1 or (old_shape & 3) != width \
            or class_of(pool, group_units(shape)) != class_of(pool, group_units(old_shape)):
        fresh = take_record(pool, class_of(pool, group_units(shape)))
        target = <Record*>at(pool, fresh)
        target.refs = 1
        target.note = 0
        if handle == NONE:
            begin_group(target, width)
        else:
            copy_group(target, <Record*>at(pool, handle), width)
            release_group(pool, handle)
    target = <Record*>at(pool, fresh)
    if found:
        put_item(pairs_of(target), width, 2 * index + 1,
                 item(pairs_of(target), width, 2 * index + 1) + 1)
    else:
        insert(target, which, index, state)
    return fresh


cdef inline handle_t add_one(
    Pool* pool, handle_t handle, uint32_t which, uint32_t state
) noexcept nogil:
    """Add one to a count in a group that the caller holds; return its new handle.

    The count is written in place if the group is not shared and does not outgrow its record.
    Otherwise the group moves to a new record, for which `reserve_commit` has made room.
    """
    cdef Record* group
    cdef uint8_t* count
    cdef uint32_t index
    if handle != NONE:
        group = <Record*>at(pool, handle)
        if group.refs == 1 and (group.shape & 3) == 0:
            index = find(group, which, state)
            count = <uint8_t*>pairs_of(group) + 2 * index + 1
            if index < row_end(group, which) and count[0] < 255:
                count[0] += 1
                return handle
    return add_elsewhere(pool, handle, which, state)


# ---- sharing -----------------------------------------------------------------------------

cdef inline bint is_shared(const Pool* pool, handle_t handle) noexcept nogil:
    return handle != NONE and (<const Record*>at(pool, handle)).refs > 1


cdef inline void hold_all(Pool* pool, const handle_t* handles, uint32_t n) noexcept nogil:
    cdef uint32_t i
    for i in range(n):
        if handles[i] != NONE:
            (<Record*>at(pool, handles[i])).refs += 1


cdef inline void release_group(Pool* pool, handle_t handle) noexcept nogil:
    cdef Record* record
    if handle == NONE:
        return
    record = <Record*>at(pool, handle)
    record.refs -= 1
    if record.refs == 0:
        free_record(pool, handle)


# ---- the tree of columns -----------------------------------------------------------------

cdef inline handle_t* children(const Pool* pool, handle_t node) noexcept nogil:
    return <handle_t*>(<char*>at(pool, node) + sizeof(Record))


cdef inline uint32_t root_index(const System* system, uint32_t symbol) noexcept nogil:
    """Index of the handle in the root that leads to the symbol's group."""
    return symbol >> GROUP_BITS >> (NODE_BITS * (system.depth - 1))


cdef inline handle_t* child_at(
    const Pool* pool, handle_t node, uint32_t level, uint32_t symbol
) noexcept nogil:
    """The entry of a node, `level` levels above the groups, that leads to the symbol's group."""
    return &children(pool, node)[
        (symbol >> GROUP_BITS >> (NODE_BITS * (level - 1))) & (NODE_SIZE - 1)]


cdef inline handle_t columns(
    const System* system, const handle_t* root, uint32_t symbol
) noexcept nogil:
    """The group with the symbol's column; NONE if the group has no counts."""
    cdef uint32_t level = system.depth - 1
    cdef handle_t handle = root[root_index(system, symbol)]
    while level > 0 and handle != NONE:
        handle = child_at(&system.pool, handle, level, symbol)[0]
        level -= 1
    return handle


cdef inline void own_node(Pool* pool, handle_t* held) noexcept nogil:
    """Clone the node in `held` unless the caller is its sole owner; make one if there is none."""
    cdef handle_t node = held[0]
    cdef handle_t fresh
    if node != NONE and not is_shared(pool, node):
        return
    fresh = new_record(pool, NODE_UNITS, 0, 1)
    if node == NONE:
        memset(children(pool, fresh), 0, NODE_SIZE * sizeof(handle_t))
    else:
        memcpy(children(pool, fresh), children(pool, node), NODE_SIZE * sizeof(handle_t))
        hold_all(pool, children(pool, fresh), NODE_SIZE)
        (<Record*>at(pool, node)).refs -= 1
    held[0] = fresh


cdef inline void release_tree(Pool* pool, handle_t handle, uint32_t level) noexcept nogil:
    """Release a node `level` levels above the groups; free records that nobody holds any more."""
    cdef Record* record
    cdef int i
    if handle == NONE:
        return
    if level == 0:
        release_group(pool, handle)
        return
    record = <Record*>at(pool, handle)
    record.refs -= 1
    if record.refs == 0:
        for i in range(NODE_SIZE):
            release_tree(pool, children(pool, handle)[i], level - 1)
        free_record(pool, handle)
