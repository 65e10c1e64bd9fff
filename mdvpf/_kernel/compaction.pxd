# cython: language_level=3
"""Compaction: move all records to a new pool, without the gaps that freed records have left."""

from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcpy

from mdvpf._kernel.clock cimport clamp_scale
from mdvpf._kernel.constants cimport BLOCK_LABELS, NODE_SIZE, NONE, NO_MEMORY, OK, Status
from mdvpf._kernel.counts cimport children, content_bytes, hold_all
from mdvpf._kernel.particles cimport block_of, root_of, rows_of, shares_block, used_groups
from mdvpf._kernel.pool cimport at, class_at, close_pool, open_pool, reserve_pages, take_record
from mdvpf._kernel.positions cimport stretches_of
from mdvpf._kernel.real_counts cimport LABELLED, real_content_bytes, scale_in
from mdvpf._kernel.types cimport Clock, Pool, Record, System, handle_t

cdef struct Move:
    Pool* old
    Pool pool               # the new pool
    bint real               # counts are real numbers
    const Clock* now        # of the next step
    int64_t n               # records moved so far


cdef inline handle_t copy_record(Move* move, handle_t handle, uint32_t level) noexcept nogil:
    """Copy a record to the new pool, with no references yet."""
    cdef const Record* record = <const Record*>at(move.old, handle)
    cdef handle_t fresh = take_record(&move.pool, class_at(move.old, handle))
    cdef Record* target = <Record*>at(&move.pool, fresh)
    memcpy(target, record, sizeof(Record) + (
        real_content_bytes(record) if move.real else content_bytes(record)))
    target.refs = 0
    if move.real and level == 0 and target.shape and (target.shape & 3) != LABELLED:
        scale_in(target)[0] = clamp_scale(scale_in(target)[0], move.now)
    if level > 0:
        hold_all(&move.pool, children(&move.pool, fresh), NODE_SIZE)
    move.n += 1
    return fresh


cdef inline void move_at(Move* move, handle_t* held, uint32_t level) noexcept nogil:
    """Replace the handle of an old record by that of its copy, without counting the reference.

    The note of an old record is the handle of its copy, once there is one.
    """
    cdef Record* record
    cdef int i
    if held[0] == NONE:
        return
    record = <Record*>at(move.old, held[0])
    if record.note == NONE:
        if level > 0:
            for i in range(NODE_SIZE):
                move_at(move, &children(move.old, held[0])[i], level - 1)
        record.note = copy_record(move, held[0], level)
    held[0] = record.note


cdef inline void move_particle(Move* move, const System* system, uint32_t* block) noexcept nogil:
    cdef handle_t* rows = rows_of(system, block)
    cdef handle_t* root = root_of(system, block)
    cdef uint32_t i
    for i in range(used_groups(system, block)):
        move_at(move, &rows[i], system.row_depth)
    for i in range(system.root_size):
        move_at(move, &root[i], system.depth - 1)
    if system.model.real:
        move_at(move, &block[BLOCK_LABELS], 0)
        hold_all(&move.pool, &block[BLOCK_LABELS], 1)
    if system.positions.enabled:
        move_at(move, stretches_of(system, block), system.positions.levels)
        hold_all(&move.pool, stretches_of(system, block), 1)
    hold_all(&move.pool, rows, used_groups(system, block))
    hold_all(&move.pool, root, system.root_size)


cdef inline Status move_records(System* system) noexcept nogil:
    """Move all records, in the order of particles. Call this between steps: it uses the notes."""
    cdef Move move
    cdef int64_t k
    move.old = &system.pool
    move.real = system.model.real
    move.now = &system.now
    move.n = 0
    open_pool(&move.pool, &system.memory)
    if reserve_pages(&move.pool, system.pool.n_pages) != OK:
        close_pool(&move.pool)
        return NO_MEMORY
    for k in range(system.n_particles):
        if not shares_block(system, k):
            move_particle(&move, system, block_of(system, k))
    close_pool(&system.pool)
    system.pool = move.pool
    system.n_settled += move.n
    return OK
