# cython: language_level=3
"""Merging: records that have become equal are replaced by one of them, where they lie.

Particles that separated long ago often come to hold equal counts again, each in records of its own,
because they made the same moves in a different order; the notes of shared_updates.pxd cannot detect
this. Without merging, a long stream over few states ends with many times as many records as there
are different ones.

A *place* is one of the handles in a block. After a step, the records at one place of all particles
are compared, with all that is below them; after some hundreds of steps it is that place's turn
again. So no step pays for all records, and which are merged follows from the particles and the
number of steps alone: it is the same in a filter that was saved and loaded.

Equal means the same bits, the order of pairs included, so that no sum is taken in another order.
Records are only merged with records at the same position of a particle, as checkpoints require.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from mdvpf._kernel.constants cimport BLOCK_LABELS, NODE_BITS, NODE_SIZE, NONE, OK
from mdvpf._kernel.counts cimport children, content_bytes, hold_all, items_of
from mdvpf._kernel.particles cimport block_of, root_of, rows_of, shares_block, used_groups
from mdvpf._kernel.pool cimport at, dispose, give_back, resize
from mdvpf._kernel.positions cimport stretches_of
from mdvpf._kernel.real_counts cimport real_content_bytes
from mdvpf._kernel.types cimport Buffer, Pool, Record, System, handle_t

cdef enum:
    FIRST_ROW = 0x80000000u  # positions from here on are those of transition rows
    LABEL_POSITION = 0x7FFFFFFF     # position of the record of labels
    COUNTED = 1             # note of a record that was counted but not compared; no handle is 1

# A record that others are compared with, and its position in the particles that hold it.
cdef struct Known:
    handle_t handle
    uint32_t position

# A place in the blocks of particles. There are rows at even numbers, and columns at odd ones.
cdef struct Place:
    bint is_row
    uint32_t index          # among rows, or among columns; after these, labels and positions
    uint32_t level          # of its records above the groups
    uint32_t position

cdef struct Merge:
    Pool* pool
    bint real               # counts are real numbers
    Known* known            # a hash table of the records that are kept
    size_t mask             # size of the table, a power of two, minus one
    handle_t* compared      # all records that were compared: they have notes
    size_t n_compared


# ---- places ------------------------------------------------------------------------------

cdef inline int64_t n_places(const System* system) noexcept nogil:
    """The number of the last place is less than this."""
    return 2 * <int64_t>max(system.n_groups, system.root_size + 1 + system.positions.enabled)


cdef inline Place place_of(const System* system, int64_t number) noexcept nogil:
    cdef Place place
    place.is_row = number % 2 == 0
    place.index = <uint32_t>(number // 2)
    if place.is_row:
        place.level = system.row_depth
        place.position = ~place.index
    elif place.index < system.root_size:
        place.level = system.depth - 1
        place.position = place.index << (NODE_BITS * place.level)
    elif place.index == system.root_size:
        place.level = 0
        place.position = LABEL_POSITION
    else:
        place.level = system.positions.levels
        place.position = 0
    return place


cdef inline handle_t* held_at(
    const System* system, uint32_t* block, const Place* place
) noexcept nogil:
    """The handle at a place of a block; NULL if the block has no such place."""
    if place.is_row:
        if place.index < used_groups(system, block):
            return &rows_of(system, block)[place.index]
        return NULL
    if place.index < system.root_size:
        return &root_of(system, block)[place.index]
    if system.model.real and place.index == system.root_size:
        return &block[BLOCK_LABELS]
    if system.positions.enabled and place.index == system.root_size + 1:
        return stretches_of(system, block)
    return NULL


# ---- counting ----------------------------------------------------------------------------

cdef inline size_t count_below(Pool* pool, handle_t handle, uint32_t level) noexcept nogil:
    """Count and mark the records at and below a handle that are not marked yet."""
    cdef size_t n = 1
    cdef Record* record
    cdef int i
    if handle == NONE:
        return 0
    record = <Record*>at(pool, handle)
    if record.note != NONE:
        return 0
    record.note = COUNTED
    if level > 0:
        for i in range(NODE_SIZE):
            n += count_below(pool, children(pool, handle)[i], level - 1)
    return n


cdef inline void unmark_below(Pool* pool, handle_t handle, uint32_t level) noexcept nogil:
    """Undo `count_below`."""
    cdef Record* record
    cdef int i
    if handle == NONE:
        return
    record = <Record*>at(pool, handle)
    if record.note == NONE:
        return
    record.note = NONE
    if level > 0:
        for i in range(NODE_SIZE):
            unmark_below(pool, children(pool, handle)[i], level - 1)


# ---- comparing ---------------------------------------------------------------------------

cdef inline size_t bytes_of(const Merge* merge, const Record* record) noexcept nogil:
    """Bytes of a record after its header."""
    return real_content_bytes(record) if merge.real else content_bytes(record)


cdef inline uint32_t hash_of(
    const Merge* merge, const Record* record, uint32_t position
) noexcept nogil:
    """A hash of eight bytes at a time, and of those that are left."""
    cdef const char* content = <const char*>items_of(record)
    cdef size_t n = bytes_of(merge, record)
    cdef uint64_t hashed = position ^ record.shape
    cdef uint64_t word = 0
    cdef size_t i
    for i in range(n // 8):
        memcpy(&word, content + 8 * i, sizeof(word))
        hashed = (hashed ^ word) * <uint64_t>0x9E3779B97F4A7C15
        hashed ^= hashed >> 32
    word = 0
    memcpy(&word, content + (n & ~<size_t>7), n & 7)
    hashed = (hashed ^ word) * <uint64_t>0x9E3779B97F4A7C15
    return <uint32_t>(hashed >> 32)


cdef inline handle_t find_equal(Merge* merge, handle_t handle, uint32_t position) noexcept nogil:
    """The first record that equals this one; itself if there was none before."""
    cdef Known* known = merge.known
    cdef const Record* record = <const Record*>at(merge.pool, handle)
    cdef const Record* other
    cdef size_t i = hash_of(merge, record, position) & merge.mask
    while known[i].handle != NONE:
        other = <const Record*>at(merge.pool, known[i].handle)
        if known[i].position == position and other.shape == record.shape \
                and memcmp(items_of(other), items_of(record), bytes_of(merge, record)) == 0:
            return known[i].handle
        i = (i + 1) & merge.mask
    known[i].handle = handle
    known[i].position = position
    return handle


cdef inline void release_equal(Pool* pool, handle_t handle, uint32_t level) noexcept nogil:
    """Release a record that was replaced by an equal one."""
    cdef Record* record = <Record*>at(pool, handle)
    cdef handle_t below
    cdef int i
    record.refs -= 1
    if record.refs > 0:
        return
    if level > 0:
        for i in range(NODE_SIZE):
            below = children(pool, handle)[i]
            if below != NONE:  # never freed here: the equal node holds it as well
                (<Record*>at(pool, below)).refs -= 1
    give_back(pool, handle)


cdef inline void merge_below(
    Merge* merge, handle_t* held, uint32_t level, uint32_t position
) noexcept nogil:
    """Replace a handle, and all below it, by that of the first equal record.

    The note of a record that was compared is the record that replaces it.
    """
    cdef Pool* pool = merge.pool
    cdef handle_t before = held[0]
    cdef Record* record
    cdef uint32_t i
    if before == NONE:
        return
    record = <Record*>at(pool, before)
    if record.note == COUNTED:
        if level > 0:
            for i in range(<uint32_t>NODE_SIZE):
                # Rows of a Mealy machine may stand anywhere among its rows.
                merge_below(merge, &children(pool, before)[i], level - 1, position
                            if position >= FIRST_ROW
                            else position + (i << (NODE_BITS * (level - 1))))
        record.note = find_equal(merge, before, position)
        merge.compared[merge.n_compared] = before
        merge.n_compared += 1
    if record.note != before:
        held[0] = record.note
        hold_all(pool, held, 1)
        release_equal(pool, before, level)


# ---- one place, and all of them ----------------------------------------------------------

cdef inline size_t mark_place(System* system, const Place* place) noexcept nogil:
    """Count the records at a place of all particles, which are marked, and those below them."""
    cdef handle_t* held
    cdef size_t n = 0
    cdef int64_t k
    for k in range(system.n_particles):
        if not shares_block(system, k):
            held = held_at(system, block_of(system, k), place)
            if held != NULL:
                n += count_below(&system.pool, held[0], place.level)
    return n


cdef inline void unmark_place(System* system, const Place* place) noexcept nogil:
    cdef handle_t* held
    cdef int64_t k
    for k in range(system.n_particles):
        held = held_at(system, block_of(system, k), place)
        if held != NULL:
            unmark_below(&system.pool, held[0], place.level)


cdef inline void merge_marked(System* system, Merge* merge, const Place* place) noexcept nogil:
    cdef handle_t* held
    cdef size_t i
    cdef int64_t k
    for k in range(system.n_particles):
        if not shares_block(system, k):
            held = held_at(system, block_of(system, k), place)
            if held != NULL:
                merge_below(merge, held, place.level, place.position)
    # Some were freed. That is harmless: nothing was taken since, so their handles are still valid.
    for i in range(merge.n_compared):
        (<Record*>at(merge.pool, merge.compared[i])).note = NONE


cdef inline void merge_place(System* system, const Place* place) noexcept nogil:
    """Merge equal records at a place of all particles, between two steps; or do nothing."""
    cdef size_t n = mark_place(system, place)
    cdef size_t size = 16
    cdef Buffer space
    cdef Merge merge
    while size < 2 * n:  # at least half of the table stays free
        size *= 2
    memset(&space, 0, sizeof(Buffer))
    if n < 2 or resize(
        &system.memory, &space, size * sizeof(Known) + n * sizeof(handle_t)
    ) != OK:
        unmark_place(system, place)
        return
    merge.pool = &system.pool
    merge.real = system.model.real
    merge.known = <Known*>space.data
    merge.mask = size - 1
    merge.compared = <handle_t*>(merge.known + size)
    merge.n_compared = 0
    memset(merge.known, 0, size * sizeof(Known))
    merge_marked(system, &merge, place)
    dispose(&system.memory, &space)
    system.n_settled += <int64_t>n


cdef inline void merge_some(System* system, int64_t turn, int64_t n_turns) noexcept nogil:
    """Merge equal records at the places whose turn it is; after all turns, it was that of each."""
    cdef int64_t number = turn
    cdef Place place
    while number < n_places(system):
        place = place_of(system, number)
        merge_place(system, &place)
        number += n_turns
