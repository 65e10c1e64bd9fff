# cython: language_level=3
"""Merging: records that have become equal become one.

Particles that have gone apart often come to hold the same counts again, each in records of its own:
they have done the same in a different order. Notes (`_changes.pxd`) cannot tell. So now and then
all records that stand in the same place of their particles are compared, and of equal ones the
first is kept. Without this a long stream over few states ends in many times as many records as
there are different ones.

Equal means the same bits, the order of pairs included, so that no sum is taken in another order. A
record stands in one place of a particle only, as checkpoints ask for.
"""

from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcmp, memset

from mdvpf._counts cimport children, group_bytes, hold_all, item, items_of, release_tree
from mdvpf._pool cimport at, count_records, dispose, resize
from mdvpf._score cimport block_of, is_copy, root_of, rows_of, used_groups
from mdvpf._types cimport (
    NODE_BITS, NODE_SIZE, NONE, OK,
    Known, Record, Status, System, handle_t,
)

cdef enum:
    MERGE_INTERVAL = 256    # steps: records become equal slowly, and to look at all takes time


cdef inline size_t table_size(size_t n_records) noexcept nogil:
    """Entries of a hash table in which at least half are free."""
    cdef size_t n = 16
    while n < 2 * n_records:
        n *= 2
    return n


cdef inline Status reserve_merge(System* system, size_t n_children) noexcept nogil:
    """Make room, if it is needed after this step, for all records that there may be then."""
    cdef size_t n
    if (system.n_steps + 1) % system.merge_interval:
        return OK
    n = count_records(&system.pool) + (1 + system.depth) * n_children
    return resize(&system.memory, &system.known, table_size(n) * sizeof(Known))


cdef inline size_t content_bytes(const Record* record) noexcept nogil:
    """Bytes after the header; the shape of a node is 0."""
    if record.shape == 0:
        return NODE_SIZE * sizeof(handle_t)
    return group_bytes(record.shape)


cdef inline uint32_t hash_of(const Record* record, uint32_t place) noexcept nogil:
    cdef uint32_t width = 2 if record.shape == 0 else record.shape & 3
    cdef size_t n = content_bytes(record) >> width
    cdef uint32_t hashed = place ^ record.shape
    cdef size_t i
    for i in range(n):
        hashed = (hashed ^ item(items_of(record), width, i)) * 0x9E3779B1u
        hashed ^= hashed >> 15
    return hashed


cdef inline handle_t first_equal(
    System* system, handle_t handle, uint32_t place, size_t mask
) noexcept nogil:
    """The record of this content met first in this place, which may be this one."""
    cdef Known* known = <Known*>system.known.data
    cdef const Record* record = <const Record*>at(&system.pool, handle)
    cdef const Record* other
    cdef size_t i = hash_of(record, place) & mask
    while known[i].handle != NONE:
        other = <const Record*>at(&system.pool, known[i].handle)
        if known[i].place == place and other.shape == record.shape \
                and memcmp(items_of(other), items_of(record), content_bytes(record)) == 0:
            return known[i].handle
        i = (i + 1) & mask
    known[i].handle = handle
    known[i].place = place
    return handle


cdef inline void merge_at(
    System* system, handle_t* held, uint32_t level, uint32_t place, size_t mask
) noexcept nogil:
    """Let go of the record held there if another equals it, and hold that; and so below it.

    The note of a record that was met is the handle of the one that is kept.
    """
    cdef handle_t handle = held[0]
    cdef Record* record
    cdef uint32_t i
    if handle == NONE:
        return
    record = <Record*>at(&system.pool, handle)
    if record.note == NONE:
        if level > 0:
            for i in range(<uint32_t>NODE_SIZE):
                merge_at(system, &children(&system.pool, handle)[i], level - 1,
                         place + (i << (NODE_BITS * (level - 1))), mask)
        record.note = first_equal(system, handle, place, mask)
    if record.note != handle:
        held[0] = record.note
        hold_all(&system.pool, held, 1)
        release_tree(&system.pool, handle, level)


cdef inline void merge_records(System* system) noexcept nogil:
    """Merge all records that are equal, if it is time. Room was made by `reserve_merge`."""
    cdef Known* known = <Known*>system.known.data
    cdef uint32_t* block
    cdef uint32_t i
    cdef int64_t k
    cdef size_t n, j
    if system.n_steps % system.merge_interval:
        return
    n = table_size(count_records(&system.pool))
    memset(known, 0, n * sizeof(Known))
    for k in range(system.n_particles):
        if is_copy(system, k):
            continue
        block = block_of(system, k)
        for i in range(used_groups(block)):
            merge_at(system, &rows_of(system, block)[i], 0, ~i, n - 1)
        for i in range(system.root_size):
            merge_at(system, &root_of(system, block)[i], system.depth - 1,
                     i << (NODE_BITS * (system.depth - 1)), n - 1)
    for j in range(n):
        if known[j].handle != NONE:
            (<Record*>at(&system.pool, known[j].handle)).note = 0
    dispose(&system.memory, &system.known)
