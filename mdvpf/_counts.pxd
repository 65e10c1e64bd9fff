# cython: language_level=3
"""Counts: rows shared between particles, cloned when written while shared.

A transition row t[j, :] and an emission column e[:, y] are the same thing, a *row*: pairs of a
state and a positive count, in order of first appearance, in items of 1, 2 or 4 bytes, whichever
is the least that holds every item. Only `add_one` writes a row; it writes in place when nobody
else holds the row and it still fits.

The columns of a particle hang in a tree over the symbols whose nodes are shared in the same
way. Up to MAX_ROOT symbols the tree is just its root, which is part of the particle.
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy, memset

from mdvpf._pool cimport at, class_at, class_of, give_back, take
from mdvpf._types cimport NODE_BITS, NODE_SIZE, NONE, UNIT_BYTES, Pool, Record, System, handle_t


# ---- one row -----------------------------------------------------------------------------

cdef inline uint32_t row_length(const Record* row) noexcept nogil:
    return 0 if row == NULL else row.shape >> 2


cdef inline uint32_t row_units(uint32_t shape) noexcept nogil:
    """Units of a record that holds a row of this shape, header included."""
    cdef size_t bytes = <size_t>(shape >> 2) * (2u << (shape & 3))
    return <uint32_t>(1 + (bytes + UNIT_BYTES - 1) // UNIT_BYTES)


cdef inline const void* items(const Record* row) noexcept nogil:
    return <const char*>row + sizeof(Record)


cdef inline uint32_t unpack(const Record* row, uint32_t* states, double* counts) noexcept nogil:
    """Write the pairs of the row to two arrays; return how many there are."""
    cdef uint32_t n, i, width
    cdef const uint8_t* narrow
    cdef const uint16_t* middle
    cdef const uint32_t* wide
    if row == NULL:
        return 0
    n = row.shape >> 2
    width = row.shape & 3
    if width == 0:
        narrow = <const uint8_t*>items(row)
        for i in range(n):
            states[i] = narrow[2 * i]
            counts[i] = narrow[2 * i + 1]
    elif width == 1:
        middle = <const uint16_t*>items(row)
        for i in range(n):
            states[i] = middle[2 * i]
            counts[i] = middle[2 * i + 1]
    else:
        wide = <const uint32_t*>items(row)
        for i in range(n):
            states[i] = wide[2 * i]
            counts[i] = wide[2 * i + 1]
    return n


cdef inline uint32_t item(const Record* row, uint32_t i) noexcept nogil:
    """Item i of the row, whatever its width: pair p has its state at 2p, its count at 2p + 1."""
    cdef uint32_t width = row.shape & 3
    if width == 0:
        return (<const uint8_t*>items(row))[i]
    if width == 1:
        return (<const uint16_t*>items(row))[i]
    return (<const uint32_t*>items(row))[i]


cdef inline void put_item(Record* row, uint32_t i, uint32_t value) noexcept nogil:
    cdef uint32_t width = row.shape & 3
    if width == 0:
        (<uint8_t*>items(row))[i] = <uint8_t>value
    elif width == 1:
        (<uint16_t*>items(row))[i] = <uint16_t>value
    else:
        (<uint32_t*>items(row))[i] = value


cdef inline uint32_t find(const Record* row, uint32_t state) noexcept nogil:
    """Index of the pair of the state; the length of the row if there is none."""
    cdef uint32_t n = row.shape >> 2
    cdef uint32_t width = row.shape & 3
    cdef uint32_t i
    cdef const uint8_t* narrow
    if width == 0:
        narrow = <const uint8_t*>items(row)
        for i in range(n):
            if narrow[2 * i] == state:
                return i
        return n
    for i in range(n):
        if item(row, 2 * i) == state:
            return i
    return n


cdef inline uint32_t width_of(uint32_t value) noexcept nogil:
    return 0 if value < 256 else 1 if value < 65536 else 2


cdef inline uint32_t shape_after(const Record* row, uint32_t state) noexcept nogil:
    """Shape of the row once the count of the state is one larger; 0 if that count is full."""
    cdef uint32_t n, width, place, value
    if row == NULL:
        return 1 << 2 | width_of(state)
    n = row.shape >> 2
    width = row.shape & 3
    place = find(row, state)
    if place < n:
        value = item(row, 2 * place + 1)
        if value == 0xFFFFFFFFu:
            return 0
        value = width_of(value + 1)
    else:
        n += 1
        value = width_of(state)
    return n << 2 | (value if value > width else width)


cdef inline void write_after(
    Record* target, const Record* row, uint32_t shape, uint32_t state
) noexcept nogil:
    """Write to `target` the row with the count of the state one larger; `shape` is the new one.

    `target` may be the row itself if the width stays the same.
    """
    cdef uint32_t n = row_length(row)
    cdef uint32_t place = n
    cdef uint32_t i
    if row != NULL:
        place = find(row, state)
        if target != row:
            if (row.shape & 3) == (shape & 3):
                memcpy(<void*>items(target), items(row), <size_t>n * (2u << (shape & 3)))
            else:
                target.shape = shape
                for i in range(2 * n):
                    put_item(target, i, item(row, i))
    target.shape = shape
    if place < n:
        put_item(target, 2 * place + 1, item(target, 2 * place + 1) + 1)
    else:
        put_item(target, 2 * n, state)
        put_item(target, 2 * n + 1, 1)


# ---- sharing -----------------------------------------------------------------------------

cdef inline void hold(Pool* pool, handle_t handle) noexcept nogil:
    if handle != NONE:
        (<Record*>at(pool, handle)).refs += 1


cdef inline void hold_all(Pool* pool, const handle_t* handles, uint32_t n) noexcept nogil:
    cdef uint32_t i
    for i in range(n):
        hold(pool, handles[i])


cdef inline handle_t add_one(Pool* pool, handle_t handle, uint32_t state) noexcept nogil:
    """Add one to the count of the state in a row that the caller holds; return its new handle.

    The room was reserved: see `_commit.pxd`.
    """
    cdef Record* row = NULL
    cdef Record* target
    cdef handle_t fresh
    cdef uint32_t shape, size_class
    if handle != NONE:
        row = <Record*>at(pool, handle)
    shape = shape_after(row, state)
    size_class = class_of(row_units(shape))
    if row != NULL and row.refs == 1 and (row.shape & 3) == (shape & 3) \
            and row_units(shape) <= pool.units[class_at(pool, handle)]:
        write_after(row, row, shape, state)
        return handle
    fresh = take(pool, size_class)
    target = <Record*>at(pool, fresh)
    target.refs = 1
    write_after(target, row, shape, state)
    if row != NULL:
        row.refs -= 1
        if row.refs == 0:
            give_back(pool, handle)
    return fresh


# ---- the tree of columns -----------------------------------------------------------------

cdef inline handle_t* children(const Pool* pool, handle_t node) noexcept nogil:
    return <handle_t*>(<char*>at(pool, node) + sizeof(Record))


cdef inline uint32_t node_class() noexcept nogil:
    return class_of((sizeof(Record) + NODE_SIZE * sizeof(handle_t)) // UNIT_BYTES)


cdef inline handle_t column(const System* system, const handle_t* root, uint32_t symbol) noexcept nogil:
    """The column of the symbol, or NONE if the particle never met it."""
    cdef uint32_t level = system.depth - 1
    cdef handle_t handle = root[symbol >> (NODE_BITS * level)]
    while level > 0 and handle != NONE:
        level -= 1
        handle = children(&system.pool, handle)[(symbol >> (NODE_BITS * level)) & (NODE_SIZE - 1)]
    return handle


cdef inline bint path_is_shared(
    const System* system, const handle_t* root, uint32_t symbol
) noexcept nogil:
    """Whether a node on the way to the symbol's column has other holders."""
    cdef uint32_t level = system.depth - 1
    cdef handle_t handle = root[symbol >> (NODE_BITS * level)]
    while level > 0 and handle != NONE:
        if (<Record*>at(&system.pool, handle)).refs > 1:
            return True
        level -= 1
        handle = children(&system.pool, handle)[(symbol >> (NODE_BITS * level)) & (NODE_SIZE - 1)]
    return False


cdef inline handle_t* own_column(System* system, handle_t* root, uint32_t symbol) noexcept nogil:
    """Where the handle of the symbol's column stands, after making the path to it the caller's."""
    cdef Pool* pool = &system.pool
    cdef uint32_t level = system.depth - 1
    cdef handle_t* place = &root[symbol >> (NODE_BITS * level)]
    cdef handle_t node, fresh
    while level > 0:
        node = place[0]
        if node == NONE or (<Record*>at(pool, node)).refs > 1:
            fresh = take(pool, node_class())
            (<Record*>at(pool, fresh)).refs = 1
            (<Record*>at(pool, fresh)).shape = 0
            if node == NONE:
                memset(children(pool, fresh), 0, NODE_SIZE * sizeof(handle_t))
            else:
                memcpy(children(pool, fresh), children(pool, node), NODE_SIZE * sizeof(handle_t))
                hold_all(pool, children(pool, fresh), NODE_SIZE)
                (<Record*>at(pool, node)).refs -= 1
            place[0] = fresh
        level -= 1
        place = &children(pool, place[0])[(symbol >> (NODE_BITS * level)) & (NODE_SIZE - 1)]
    return place


cdef inline void release_row(Pool* pool, handle_t handle) noexcept nogil:
    cdef Record* record
    if handle == NONE:
        return
    record = <Record*>at(pool, handle)
    record.refs -= 1
    if record.refs == 0:
        give_back(pool, handle)


cdef inline void release_tree(Pool* pool, handle_t handle, uint32_t level) noexcept nogil:
    """Let go of a node `level` levels above the columns, and of all below it that nobody holds."""
    cdef Record* record
    cdef int i
    if handle == NONE:
        return
    if level == 0:
        release_row(pool, handle)
        return
    record = <Record*>at(pool, handle)
    record.refs -= 1
    if record.refs == 0:
        for i in range(NODE_SIZE):
            release_tree(pool, children(pool, handle)[i], level - 1)
        give_back(pool, handle)
