# cython: language_level=3
"""Shared updates: particles that make the same update of a shared record share the result.

A shared record is cloned when it is written. Most of its other holders are about to make the same
update: they move from the same state to the same state on the same symbol. So a commit keeps a note
of each update of a shared record, and the next particle that needs the same update reuses the
result. A record has the number of its first note, and each note that of the next.

Notes hold for one commit. A record with notes may be freed before the commit ends, and its handle
may be reused. Notes are correct all the same: a particle that looks for a note has held the record
since before the commit, and the result is held by a child that was already written and is not
written again. Only the first notes are kept, at most as many as there are children. Sharing
therefore depends only on the order of particles, and is the same in a filter that was saved and
loaded.
"""

from libc.stdint cimport int64_t, uint32_t

from mdvpf._kernel.constants cimport GROUP, NONE, Status
from mdvpf._kernel.counts cimport add_one, child_at, hold_all, is_shared, own_node, release_tree
from mdvpf._kernel.pool cimport at, resize
from mdvpf._kernel.types cimport Pool, Record, SharedUpdate, SharedUpdates, System, handle_t


cdef inline Status reserve_updates(System* system, size_t n_children) noexcept nogil:
    """Make room for the notes of a commit."""
    cdef Status status = resize(
        &system.memory, &system.work.updates, n_children * sizeof(SharedUpdate)
    )
    system.updates.capacity = <uint32_t>n_children
    system.updates.notes = <SharedUpdate*>system.work.updates.data
    return status


cdef inline handle_t noted_result(
    const SharedUpdates* updates, const Record* record, uint32_t which, uint32_t state
) noexcept nogil:
    """The result of an update of the record if it was noted, otherwise NONE."""
    cdef uint32_t number = record.note
    cdef const SharedUpdate* note
    while number:
        note = &updates.notes[number - 1]
        if note.state == state and note.which == which:
            return note.after
        number = note.next
    return NONE


cdef inline void note_update(
    SharedUpdates* updates, Pool* pool, handle_t before, uint32_t which, uint32_t state,
    handle_t after,
) noexcept nogil:
    cdef Record* record = <Record*>at(pool, before)
    cdef SharedUpdate* notes = updates.notes
    cdef SharedUpdate* note
    if updates.n == updates.capacity:
        return
    note = &notes[updates.n]
    updates.n += 1
    note.before = before
    note.which = which
    note.state = state
    note.after = after
    note.next = 0
    if record.note:  # insert after the first note: early updates are likely frequent
        note.next = notes[record.note - 1].next
        notes[record.note - 1].next = updates.n
    else:
        record.note = updates.n


cdef inline void forget_updates(System* system) noexcept nogil:
    """Drop all notes. Their handles are still valid: no page changed its class in the commit."""
    cdef SharedUpdates* updates = &system.updates
    cdef uint32_t i
    for i in range(updates.n):
        (<Record*>at(&system.pool, updates.notes[i].before)).note = 0
    system.extent.updates = max(system.extent.updates, <int64_t>updates.n)
    updates.n = 0


cdef inline bint share_update(
    System* system, handle_t* held, uint32_t level, uint32_t row, uint32_t state
) noexcept nogil:
    """Replace the record in `held` by the noted result of an update; False if there is none."""
    cdef Pool* pool = &system.pool
    cdef handle_t before = held[0]
    cdef handle_t after
    if before == NONE:
        return False
    after = noted_result(
        &system.updates, <const Record*>at(pool, before), row & (GROUP - 1), state
    )
    if after == NONE:
        return False
    held[0] = after
    hold_all(pool, held, 1)
    release_tree(pool, before, level)
    return True


cdef inline void make_update(
    System* system, handle_t* held, uint32_t level, uint32_t row, uint32_t state
) noexcept nogil:
    """`add_at` for an update that is not noted yet."""
    cdef Pool* pool = &system.pool
    cdef handle_t before = held[0]
    cdef handle_t* below
    cdef bint shared = is_shared(pool, before)
    if level == 0:
        held[0] = add_one(pool, before, row & (GROUP - 1), state)
    else:
        own_node(pool, held)
        below = child_at(pool, held[0], level, row)
        if not share_update(system, below, level - 1, row, state):
            make_update(system, below, level - 1, row, state)
    if shared:
        note_update(&system.updates, pool, before, row & (GROUP - 1), state, held[0])


cdef inline void add_at(
    System* system, handle_t* held, uint32_t level, uint32_t row, uint32_t state
) noexcept nogil:
    """Add one to a count in the group in `held`, or in a group `level` levels below that node."""
    if not share_update(system, held, level, row, state):
        make_update(system, held, level, row, state)
