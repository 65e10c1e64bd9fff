# cython: language_level=3
"""Changes: particles that change a shared record alike go on sharing it.

A record is cloned when it is written while others hold it. Most of those others are about to write
the very same thing: they have come to the same state from the same one on the same symbol. So a
commit notes what it has made of each record, and who is next to want that is given it.

Notes hold for one commit. A record that was noted may be freed before its end, and its handle be
taken again; but whoever still asks has held the record since before the commit, and what was made
of it is held by a child that has written already and does not write again. There are at most as
many notes as particles, the first ones: what is shared depends on the order of particles alone, and
is the same in a filter that was saved and loaded.
"""

from libc.stdint cimport uint32_t
from libc.string cimport memset

from mdvpf._counts cimport add_one, child_at, hold_all, is_shared, own_node, release_tree
from mdvpf._pool cimport resize
from mdvpf._types cimport (
    GROUP, GROUP_BITS, NO_MEMORY, NONE, OK,
    Change, Changes, Memory, Pool, Status, System, handle_t,
)


cdef inline Status reserve_changes(
    Changes* changes, Memory* memory, size_t n_particles
) noexcept nogil:
    """Make room for the notes of a commit."""
    cdef size_t n = 1
    while n < n_particles:
        n *= 2
    if resize(memory, &changes.notes, n_particles * sizeof(Change)) != OK:
        return NO_MEMORY
    if resize(memory, &changes.heads, n * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    changes.capacity = <uint32_t>n_particles
    changes.mask = <uint32_t>n - 1
    return OK


cdef inline void forget_changes(Changes* changes) noexcept nogil:
    memset(changes.heads.data, 0, (<size_t>changes.mask + 1) * sizeof(uint32_t))
    changes.n = 0


cdef inline uint32_t* head_of(
    const Changes* changes, handle_t before, uint32_t which, uint32_t state
) noexcept nogil:
    """Where the chain begins that a note of this kind is in."""
    cdef uint32_t hashed = (before + (state << GROUP_BITS | which) * 0x85EBCA6Bu) * 0x9E3779B1u
    return &(<uint32_t*>changes.heads.data)[(hashed ^ hashed >> 15) & changes.mask]


cdef inline handle_t made_of(
    const Changes* changes, handle_t before, uint32_t which, uint32_t state
) noexcept nogil:
    """What was made of a record by adding one to a count; NONE if that is not noted."""
    cdef uint32_t number = head_of(changes, before, which, state)[0]
    cdef const Change* change
    while number:
        change = &(<const Change*>changes.notes.data)[number - 1]
        if change.before == before and change.state == state and change.which == which:
            return change.after
        number = change.next
    return NONE


cdef inline void note_change(
    Changes* changes, handle_t before, uint32_t which, uint32_t state, handle_t after
) noexcept nogil:
    cdef uint32_t* head
    cdef Change* change
    if changes.n == changes.capacity:
        return
    head = head_of(changes, before, which, state)
    change = &(<Change*>changes.notes.data)[changes.n]
    changes.n += 1
    change.before = before
    change.which = which
    change.state = state
    change.after = after
    change.next = head[0]
    head[0] = changes.n


cdef inline void add_at(
    System* system, handle_t* place, uint32_t level, uint32_t row, uint32_t state
) noexcept nogil:
    """Add one to a count in a row of the group at a place of the caller's, or of one below it."""
    cdef Pool* pool = &system.pool
    cdef handle_t before = place[0]
    cdef handle_t after = made_of(&system.changes, before, row & (GROUP - 1), state)
    cdef bint shared
    if after != NONE:
        place[0] = after
        hold_all(pool, place, 1)
        release_tree(pool, before, level)
        return
    shared = is_shared(pool, before)
    if level == 0:
        place[0] = add_one(pool, before, row & (GROUP - 1), state)
    else:
        own_node(pool, place)
        add_at(system, child_at(pool, place[0], level, row), level - 1, row, state)
    if shared:
        note_change(&system.changes, before, row & (GROUP - 1), state, place[0])
