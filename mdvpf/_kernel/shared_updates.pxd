# cython: language_level=3
"""Changes: particles that change a shared record alike go on sharing it.

A record is cloned when it is written while others hold it. Most of those others are about to write
the very same thing: they have come to the same state from the same one on the same symbol. So a
commit notes what it has made of each record, and who is next to want that is given it. A record
names the first note about it, and each note the next.

Notes hold for one commit. A record that was noted may be freed before its end, and its handle be
taken again; but whoever still asks has held the record since before the commit, and what was made
of it is held by a child that has written already and does not write again. There are at most as
many notes as particles, the first ones: what is shared depends on the order of particles alone, and
is the same in a filter that was saved and loaded.
"""

from libc.stdint cimport uint32_t

from mdvpf._kernel.counts cimport add_one, child_at, hold_all, is_shared, own_node, release_tree
from mdvpf._kernel.pool cimport at, resize
from mdvpf._kernel.types cimport (
    GROUP, NONE,
    Change, Changes, Memory, Pool, Record, Status, System, handle_t,
)


cdef inline Status reserve_changes(
    Changes* changes, Memory* memory, size_t n_particles
) noexcept nogil:
    """Make room for the notes of a commit."""
    changes.capacity = <uint32_t>n_particles
    return resize(memory, &changes.notes, n_particles * sizeof(Change))


cdef inline handle_t made_of(
    const Changes* changes, const Record* record, uint32_t which, uint32_t state
) noexcept nogil:
    """What was made of a record by adding one to a count; NONE if that is not noted."""
    cdef uint32_t number = record.note
    cdef const Change* change
    while number:
        change = &(<const Change*>changes.notes.data)[number - 1]
        if change.state == state and change.which == which:
            return change.after
        number = change.next
    return NONE


cdef inline void note_change(
    Changes* changes, Pool* pool, handle_t before, uint32_t which, uint32_t state, handle_t after
) noexcept nogil:
    cdef Record* record = <Record*>at(pool, before)
    cdef Change* notes = <Change*>changes.notes.data
    cdef Change* change
    if changes.n == changes.capacity:
        return
    change = &notes[changes.n]
    changes.n += 1
    change.before = before
    change.which = which
    change.state = state
    change.after = after
    change.next = 0
    if record.note:  # the first stays the first: what is wanted early is likely wanted often
        change.next = notes[record.note - 1].next
        notes[record.note - 1].next = changes.n
    else:
        record.note = changes.n


cdef inline void forget_changes(Changes* changes, Pool* pool) noexcept nogil:
    """Drop all notes. No page was given to another size of records since the first was made."""
    cdef uint32_t i
    for i in range(changes.n):
        (<Record*>at(pool, (<Change*>changes.notes.data)[i].before)).note = 0
    changes.most = max(changes.most, changes.n)
    changes.n = 0


cdef inline bint share_change(
    System* system, handle_t* place, uint32_t level, uint32_t row, uint32_t state
) noexcept nogil:
    """Put what was made of the record at a place of the caller's there, if anything was."""
    cdef Pool* pool = &system.pool
    cdef handle_t before = place[0]
    cdef handle_t after
    if before == NONE:
        return False
    after = made_of(
        &system.changes, <const Record*>at(pool, before), row & (GROUP - 1), state
    )
    if after == NONE:
        return False
    place[0] = after
    hold_all(pool, place, 1)
    release_tree(pool, before, level)
    return True


cdef inline void make_change(
    System* system, handle_t* place, uint32_t level, uint32_t row, uint32_t state
) noexcept nogil:
    """`add_at` where nobody has made that change before."""
    cdef Pool* pool = &system.pool
    cdef handle_t before = place[0]
    cdef handle_t* below
    cdef bint shared = is_shared(pool, before)
    if level == 0:
        place[0] = add_one(pool, before, row & (GROUP - 1), state)
    else:
        own_node(pool, place)
        below = child_at(pool, place[0], level, row)
        if not share_change(system, below, level - 1, row, state):
            make_change(system, below, level - 1, row, state)
    if shared:
        note_change(&system.changes, pool, before, row & (GROUP - 1), state, place[0])


cdef inline void add_at(
    System* system, handle_t* place, uint32_t level, uint32_t row, uint32_t state
) noexcept nogil:
    """Add one to a count in a row of the group at a place of the caller's, or of one below it."""
    if not share_change(system, place, level, row, state):
        make_change(system, place, level, row, state)
