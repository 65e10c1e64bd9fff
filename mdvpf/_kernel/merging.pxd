# cython: language_level=3
"""Merging: replace records that have become equal by one of them.

Particles that separated long ago often make the same moves in a different order. They then have
equal counts, each in records of its own, which the notes of `shared_updates.pxd` cannot detect.
Without merging, a long stream over few states ends with many copies of each record.

A *field* is one of the handles in a block. After a step, the records in one field of all particles
are compared, with the records below them; each field has its turn once in some hundreds of steps,
so no step pays for all records. The particles and the number of steps determine which records are
merged, so a filter that was saved and loaded merges the same ones.

Equal means the same bits, the order of pairs included, so that no sum is taken in another order. As
checkpoints require, records are merged only with records at the same *location* of a particle.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from mdvpf._kernel.constants cimport BLOCK_LABELS, NODE_BITS, NODE_SIZE, NONE, OK
from mdvpf._kernel.counts cimport children, content_bytes, hold_all, items_of
from mdvpf._kernel.particles cimport block_of, root_of, rows_of, shares_block, used_groups
from mdvpf._kernel.pool cimport at, dispose, free_record, resize
from mdvpf._kernel.positions cimport stretches_of
from mdvpf._kernel.real_counts cimport real_content_bytes
from mdvpf._kernel.types cimport Buffer, Pool, Record, System, handle_t

cdef enum:
    FIRST_ROW = 0x80000000u  # locations from here on are those of transition rows
    LABEL_LOCATION = 0x7FFFFFFF     # location of the record of labels
    COUNTED = 1             # note of a record that was counted but not compared; no handle is 1

# A record that other records are compared with, and its location in the particles that hold it.
cdef struct KeptRecord:
    handle_t handle
    uint32_t location

# A field of blocks. Even numbers are those of rows, odd ones those of columns and what follows.
cdef struct Field:
    bint is_row
    uint32_t index          # among rows; or among columns, then labels, then the tree of stretches
    uint32_t level          # levels of its records above the groups
    uint32_t location

cdef struct Merge:
    Pool* pool
    bint real               # counts are real numbers
    KeptRecord* kept        # a hash table of the records that are kept
    size_t mask             # size of the table, a power of two, minus one
    handle_t* compared      # all records that were compared: these have notes
    size_t n_compared


# ---- fields ------------------------------------------------------------------------------

cdef inline int64_t n_fields(const System* system) noexcept nogil:
    """The numbers of fields are below this. Some numbers below it have no field."""
    return 2 * <int64_t>max(system.n_groups, system.root_size + 1 + system.positions.enabled)


cdef inline Field field_at(const System* system, int64_t number) noexcept nogil:
    cdef Field field
    field.is_row = number % 2 == 0
    field.index = <uint32_t>(number // 2)
    if field.is_row:
        field.level = system.row_depth
        field.location = ~field.index
    elif field.index < system.root_size:
        field.level = system.depth - 1
        field.location = field.index << (NODE_BITS * field.level)
    elif field.index == system.root_size:
        field.level = 0
        field.location = LABEL_LOCATION
    else:
        field.level = system.positions.levels
        field.location = 0
    return field


cdef inline handle_t* held_at(
    const System* system, uint32_t* block, const Field* field
) noexcept nogil:
    """The handle in a field of a block; NULL if the block does not have the field."""
    if field.is_row:
        if field.index < used_groups(system, block):
            return &rows_of(system, block)[field.index]
        return NULL
    if field.index < system.root_size:
        return &root_of(system, block)[field.index]
    if system.model.real and field.index == system.root_size:
        return &block[BLOCK_LABELS]
    if system.positions.enabled and field.index == system.root_size + 1:
        return stretches_of(system, block)
    return NULL


# ---- counting ----------------------------------------------------------------------------

cdef inline size_t count_below(Pool* pool, handle_t handle, uint32_t level) noexcept nogil:
    """Mark a record and the records below it; return how many had no mark."""
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
    const Merge* merge, const Record* record, uint32_t location
) noexcept nogil:
    """A hash of a record's content, eight bytes at a time."""
    cdef const char* content = <const char*>items_of(record)
    cdef size_t n = bytes_of(merge, record)
    cdef uint64_t hashed = location ^ record.shape
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


cdef inline handle_t find_equal(Merge* merge, handle_t handle, uint32_t location) noexcept nogil:
    """The first record that equals this one; the record itself if there is none."""
    cdef KeptRecord* kept = merge.kept
    cdef const Record* record = <const Record*>at(merge.pool, handle)
    cdef const Record* other
    cdef size_t i = hash_of(merge, record, location) & merge.mask
    while kept[i].handle != NONE:
        other = <const Record*>at(merge.pool, kept[i].handle)
        if kept[i].location == location and other.shape == record.shape \
                and memcmp(items_of(other), items_of(record), bytes_of(merge, record)) == 0:
            return kept[i].handle
        i = (i + 1) & merge.mask
    kept[i].handle = handle
    kept[i].location = location
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
            if below != NONE:  # not the last reference: the equal node holds the record as well
                (<Record*>at(pool, below)).refs -= 1
    free_record(pool, handle)


cdef inline void merge_below(
    Merge* merge, handle_t* held, uint32_t level, uint32_t location
) noexcept nogil:
    """Replace a handle, and those below it, by the handle of the first equal record.

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
                # A group of rows of a Mealy machine may be anywhere in the tree of its state.
                merge_below(merge, &children(pool, before)[i], level - 1, location
                            if location >= FIRST_ROW
                            else location + (i << (NODE_BITS * (level - 1))))
        record.note = find_equal(merge, before, location)
        merge.compared[merge.n_compared] = before
        merge.n_compared += 1
    if record.note != before:
        held[0] = record.note
        hold_all(pool, held, 1)
        release_equal(pool, before, level)


# ---- fields of all particles -------------------------------------------------------------

cdef inline size_t mark_field(System* system, const Field* field) noexcept nogil:
    """Mark the records in and below a field of all particles; return how many there are."""
    cdef handle_t* held
    cdef size_t n = 0
    cdef int64_t k
    for k in range(system.n_particles):
        if not shares_block(system, k):
            held = held_at(system, block_of(system, k), field)
            if held != NULL:
                n += count_below(&system.pool, held[0], field.level)
    return n


cdef inline void unmark_field(System* system, const Field* field) noexcept nogil:
    cdef handle_t* held
    cdef int64_t k
    for k in range(system.n_particles):
        held = held_at(system, block_of(system, k), field)
        if held != NULL:
            unmark_below(&system.pool, held[0], field.level)


cdef inline void merge_marked(System* system, Merge* merge, const Field* field) noexcept nogil:
    cdef handle_t* held
    cdef size_t i
    cdef int64_t k
    for k in range(system.n_particles):
        if not shares_block(system, k):
            held = held_at(system, block_of(system, k), field)
            if held != NULL:
                merge_below(merge, held, field.level, field.location)
    # Some were freed, but no record was taken since, so their handles are still valid.
    for i in range(merge.n_compared):
        (<Record*>at(merge.pool, merge.compared[i])).note = NONE


cdef inline void merge_field(System* system, const Field* field) noexcept nogil:
    """Merge equal records in a field of all particles; do nothing if there is no memory for it."""
    cdef size_t n = mark_field(system, field)
    cdef size_t size = 16
    cdef Buffer space
    cdef Merge merge
    while size < 2 * n:  # at least half of the table stays free
        size *= 2
    memset(&space, 0, sizeof(Buffer))
    if n < 2 or resize(
        &system.memory, &space, size * sizeof(KeptRecord) + n * sizeof(handle_t)
    ) != OK:
        unmark_field(system, field)
        return
    merge.pool = &system.pool
    merge.real = system.model.real
    merge.kept = <KeptRecord*>space.data
    merge.mask = size - 1
    merge.compared = <handle_t*>(merge.kept + size)
    merge.n_compared = 0
    memset(merge.kept, 0, size * sizeof(KeptRecord))
    merge_marked(system, &merge, field)
    dispose(&system.memory, &space)
    system.n_settled += <int64_t>n


cdef inline void merge_some(System* system, int64_t turn, int64_t n_turns) noexcept nogil:
    """Merge equal records in the fields whose turn it is; every field has one of the turns."""
    cdef int64_t number = turn
    cdef Field field
    while number < n_fields(system):
        field = field_at(system, number)
        merge_field(system, &field)
        number += n_turns
