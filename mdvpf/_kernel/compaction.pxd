# cython: language_level=3
"""Compaction: move all records to a new pool, and merge equal ones on the way.

The pages of a pool keep room for records that have been freed since. And particles that separated
long ago often come to hold equal counts again, each in records of its own, because they made the
same moves in a different order; the notes of shared_updates.pxd cannot detect this. Without
merging, a long stream over few states ends with many times as many records as there are different
ones.

Equal means the same bits, the order of pairs included, so that no sum is taken in another order.
Records are only merged with records at the same position of a particle, as checkpoints require.
"""

from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcmp, memcpy, memset

from mdvpf._kernel.clock cimport not_too_far
from mdvpf._kernel.constants cimport (
    BLOCK_LABELS, NO_MEMORY, NODE_BITS, NODE_SIZE, NONE, OK,
    Status,
)
from mdvpf._kernel.counts cimport children, content_bytes, hold_all, item, items_of
from mdvpf._kernel.particles cimport block_of, root_of, rows_of, shares_block, used_groups
from mdvpf._kernel.pool cimport (
    at, class_at, close_pool, count_records, dispose, open_pool, reserve_pages, resize, take,
)
from mdvpf._kernel.real_counts cimport LABELLED, real_content_bytes, scale_in
from mdvpf._kernel.types cimport Buffer, Clock, Memory, Pool, Record, System, handle_t

cdef enum:
    FIRST_ROW = 0x80000000u  # positions from here on are those of transition rows
    LABEL_POSITION = 0x7FFFFFFF     # position of the record of labels

# A record of the new pool, and its position in the particles that hold it.
cdef struct Known:
    handle_t handle
    uint32_t position

cdef struct Move:
    Pool* old
    Pool pool               # the new one
    bint merging
    bint real               # counts are real numbers
    const Clock* now        # of the next step
    Buffer known            # Known[]: a hash table of its records, if they are merged
    size_t mask             # size of the table, a power of two, minus one


cdef inline Status prepare(
    Move* move, Pool* old, bint merging, Memory* memory
) noexcept nogil:
    """Make room for all records of the old pool, or for nothing."""
    cdef size_t n_records = count_records(old)
    cdef size_t n = 16
    move.old = old
    move.merging = merging
    memset(&move.known, 0, sizeof(Buffer))
    open_pool(&move.pool, memory)
    if reserve_pages(&move.pool, old.n_pages) == OK:
        if not merging:
            return OK
        while n < 2 * n_records:  # at least half of the table stays free
            n *= 2
        move.mask = n - 1
        if resize(memory, &move.known, n * sizeof(Known)) == OK:
            memset(move.known.data, 0, n * sizeof(Known))
            return OK
    close_pool(&move.pool)
    return NO_MEMORY


cdef inline size_t bytes_of(const Move* move, const Record* record) noexcept nogil:
    """Bytes of a record after its header."""
    return real_content_bytes(record) if move.real else content_bytes(record)


cdef inline uint32_t hash_of(
    const Move* move, const Record* record, uint32_t position
) noexcept nogil:
    cdef uint32_t width = 0 if move.real else 2 if record.shape == 0 else record.shape & 3
    cdef size_t n = bytes_of(move, record) >> width
    cdef uint32_t hashed = position ^ record.shape
    cdef uint32_t word
    cdef size_t i
    if move.real:  # words, and then the bytes that are left
        for i in range(n // 4):
            memcpy(&word, <const char*>items_of(record) + 4 * i, sizeof(word))
            hashed = (hashed ^ word) * 0x9E3779B1u
            hashed ^= hashed >> 15
    for i in range(n & ~<size_t>3 if move.real else 0, n):
        hashed = (hashed ^ item(items_of(record), width, i)) * 0x9E3779B1u
        hashed ^= hashed >> 15
    return hashed


cdef inline handle_t copy_record(Move* move, handle_t handle, uint32_t level) noexcept nogil:
    """Copy a record to the new pool, with no references yet."""
    cdef const Record* record = <const Record*>at(move.old, handle)
    cdef handle_t fresh = take(&move.pool, class_at(move.old, handle))
    cdef Record* target = <Record*>at(&move.pool, fresh)
    memcpy(target, record, sizeof(Record) + bytes_of(move, record))
    target.refs = 0
    if move.real and level == 0 and (target.shape & 3) != LABELLED:
        scale_in(target)[0] = not_too_far(scale_in(target)[0], move.now)
    if level > 0:
        hold_all(&move.pool, children(&move.pool, fresh), NODE_SIZE)
    return fresh


cdef inline handle_t merged_record(
    Move* move, handle_t handle, uint32_t level, uint32_t position
) noexcept nogil:
    """The new record that equals an old one; made from it if there is none yet."""
    cdef Known* known = <Known*>move.known.data
    cdef const Record* record = <const Record*>at(move.old, handle)
    cdef const Record* other
    cdef size_t i = hash_of(move, record, position) & move.mask
    while known[i].handle != NONE:
        other = <const Record*>at(&move.pool, known[i].handle)
        if known[i].position == position and other.shape == record.shape \
                and memcmp(items_of(other), items_of(record), bytes_of(move, record)) == 0:
            return known[i].handle
        i = (i + 1) & move.mask
    known[i].handle = copy_record(move, handle, level)
    known[i].position = position
    return known[i].handle


cdef inline void move_at(
    Move* move, handle_t* held, uint32_t level, uint32_t position
) noexcept nogil:
    """Replace the handle of an old record by that of the new one, which is not held yet.

    The note of an old record is its new handle, once it has one.
    """
    cdef Record* record
    cdef uint32_t i
    if held[0] == NONE:
        return
    record = <Record*>at(move.old, held[0])
    if record.note == NONE:
        if level > 0:
            for i in range(<uint32_t>NODE_SIZE):
                # Rows of a Mealy machine may stand anywhere among its rows.
                move_at(move, &children(move.old, held[0])[i], level - 1, position
                        if position >= FIRST_ROW else position + (i << (NODE_BITS * (level - 1))))
        record.note = merged_record(move, held[0], level, position) if move.merging \
            else copy_record(move, held[0], level)
    held[0] = record.note


cdef inline void move_particle(Move* move, const System* system, uint32_t* block) noexcept nogil:
    cdef handle_t* rows = rows_of(system, block)
    cdef handle_t* root = root_of(system, block)
    cdef uint32_t i
    for i in range(used_groups(system, block)):
        move_at(move, &rows[i], system.row_depth, ~i)
    for i in range(system.root_size):
        move_at(move, &root[i], system.depth - 1, i << (NODE_BITS * (system.depth - 1)))
    if system.model.real:
        move_at(move, &block[BLOCK_LABELS], 0, LABEL_POSITION)
        hold_all(&move.pool, &block[BLOCK_LABELS], 1)
    hold_all(&move.pool, rows, used_groups(system, block))
    hold_all(&move.pool, root, system.root_size)


cdef inline Status move_records(System* system, bint merging) noexcept nogil:
    """Move all records, in the order of particles; between two steps, when there are no notes."""
    cdef Move move
    cdef int64_t k
    move.real = system.model.real
    move.now = &system.now
    if prepare(&move, &system.pool, merging, &system.memory) != OK:
        return NO_MEMORY
    for k in range(system.n_particles):
        if not shares_block(system, k):
            move_particle(&move, system, block_of(system, k))
    dispose(&system.memory, &move.known)
    close_pool(&system.pool)
    system.pool = move.pool
    return OK
