# cython: language_level=3
"""The records of particles whose states are renumbered: see `release_states.pxd`."""

from libc.stdint cimport uint32_t
from libc.string cimport memcmp, memcpy

from mdvpf._kernel.clock cimport fading, power_of_two, scale_at, scales_apart
from mdvpf._kernel.constants cimport (
    BLOCK_STATES, GROUP, NODE_BITS, NODE_SIZE, NODE_UNITS, NONE,
)
from mdvpf._kernel.counts cimport (
    children, hold_all, item, items_of, new_record, put_item, release_group, width_of,
)
from mdvpf._kernel.labels cimport label_of, n_labels_of
from mdvpf._kernel.merging cimport FIRST_ROW, LABEL_LOCATION, KeptRecord
from mdvpf._kernel.particles cimport group_at
from mdvpf._kernel.pool cimport at, free_record
from mdvpf._kernel.real_counts cimport (
    LABELLED, label_units, real_content_bytes, real_end, real_start, real_units, scale_in,
    states_in, sums_in,
)
from mdvpf._kernel.types cimport Buffer, Record, System, handle_t

cdef enum:
    DROPPED = 0xFFFFFFFFu   # new number of a state that is released

cdef struct Release:
    Buffer numbers          # uint32_t[]: new number of each state of a particle
    Buffer fresh            # handle_t[]: new handles of its rows
    Buffer kept             # KeptRecord[]: a hash table of the new records
    size_t mask             # size of the table, a power of two, minus one
    size_t n_kept


cdef inline handle_t share_equal(
    System* system, Release* release, handle_t fresh, uint32_t location
) noexcept nogil:
    """Return an equal record made for another particle, else the new one; the caller holds it."""
    cdef KeptRecord* kept = <KeptRecord*>release.kept.data
    cdef Record* record = <Record*>at(&system.pool, fresh)
    cdef const Record* other
    cdef size_t bytes = real_content_bytes(record)
    cdef uint32_t hashed = location ^ record.shape
    cdef size_t i
    cdef int child
    for i in range(bytes):
        hashed = (hashed ^ (<const unsigned char*>items_of(record))[i]) * 0x01000193u
    i = (hashed ^ hashed >> 15) & release.mask
    while kept[i].handle != NONE:
        other = <const Record*>at(&system.pool, kept[i].handle)
        if kept[i].location == location and other.shape == record.shape \
                and memcmp(items_of(other), items_of(record), bytes) == 0:
            if record.shape == 0:
                for child in range(NODE_SIZE):
                    release_group(&system.pool, children(&system.pool, fresh)[child])
            free_record(&system.pool, fresh)
            hold_all(&system.pool, &kept[i].handle, 1)
            return kept[i].handle
        i = (i + 1) & release.mask
    kept[i].handle = fresh
    kept[i].location = location
    release.n_kept += 1
    return fresh


cdef inline handle_t gather_rows(
    System* system, Release* release, const handle_t* groups, const uint32_t* which,
    uint32_t location, double least,
) noexcept nogil:
    """Make a group, with the new numbers, of four rows in four old groups (NONE: empty).

    Entries below `least` and those of released states are left out. The others are rescaled to the
    scale of the step, which is exact.
    """
    cdef const uint32_t* numbers = <const uint32_t*>release.numbers.data
    cdef const Record* group
    cdef Record* target
    cdef handle_t fresh
    cdef uint32_t largest = 0
    cdef uint32_t n = 0
    cdef uint32_t width, row, i, state
    cdef double factor
    for row in range(<uint32_t>GROUP):
        if groups[row] == NONE:
            continue
        group = group_at(system, groups[row])
        factor = fading(scale_in(group)[0], &system.now)
        for i in range(real_start(group, which[row]), real_end(group, which[row])):
            state = numbers[item(states_in(group), group.shape & 3, i)]
            if state != DROPPED and sums_in(group)[i] * factor >= least:
                largest = max(largest, state)
                n += 1
    if n == 0:
        return NONE
    width = width_of(max(largest, n))
    fresh = new_record(&system.pool, real_units(n << 2 | width), n << 2 | width, 1)
    target = <Record*>at(&system.pool, fresh)
    scale_in(target)[0] = scale_at(&system.now)
    n = 0
    for row in range(<uint32_t>GROUP):
        if groups[row] != NONE:
            group = group_at(system, groups[row])
            factor = fading(scale_in(group)[0], &system.now)
            for i in range(real_start(group, which[row]), real_end(group, which[row])):
                state = numbers[item(states_in(group), group.shape & 3, i)]
                if state != DROPPED and sums_in(group)[i] * factor >= least:
                    put_item(states_in(target), width, n, state)
                    sums_in(target)[n] = <float>(sums_in(group)[i] * power_of_two(
                        scales_apart(scale_in(group)[0], &system.now)))
                    n += 1
        put_item(states_in(target), width, (target.shape >> 2) + row, n)
    return share_equal(system, release, fresh, location)


cdef inline handle_t renumber_tree(
    System* system, Release* release, handle_t old, uint32_t level, uint32_t location,
    double least,
) noexcept nogil:
    """Rewrite the records below a handle with the new numbers; NONE if no count is left."""
    cdef handle_t[GROUP] groups
    cdef uint32_t[GROUP] which
    cdef handle_t[NODE_SIZE] below
    cdef handle_t fresh
    cdef bint is_empty = True
    cdef uint32_t i
    if old == NONE:
        return NONE
    if level == 0:
        for i in range(<uint32_t>GROUP):
            groups[i] = old
            which[i] = i
        return gather_rows(system, release, groups, which, location, least)
    for i in range(<uint32_t>NODE_SIZE):
        below[i] = renumber_tree(
            system, release, children(&system.pool, old)[i], level - 1, location
            if location >= FIRST_ROW else location + (i << (NODE_BITS * (level - 1))), least)
        is_empty = is_empty and below[i] == NONE
    if is_empty:
        return NONE
    fresh = new_record(&system.pool, NODE_UNITS, 0, 1)
    memcpy(children(&system.pool, fresh), below, sizeof(below))
    return share_equal(system, release, fresh, location)


cdef inline handle_t make_labels(
    System* system, Release* release, uint32_t* block, uint32_t n_left
) noexcept nogil:
    """Make a record of the labels of the states that are left."""
    cdef const uint32_t* numbers = <const uint32_t*>release.numbers.data
    cdef uint32_t shape = n_left << 2 | LABELLED
    cdef handle_t fresh = new_record(
        &system.pool, label_units(shape), shape, 1
    )
    cdef uint32_t* labels = <uint32_t*>items_of(<const Record*>at(&system.pool, fresh))
    cdef uint32_t state
    labels[0] = n_left
    labels[1] = n_labels_of(system, block)
    for state in range(block[BLOCK_STATES]):
        if numbers[state] != DROPPED:
            labels[2 + numbers[state]] = label_of(system, block, state)
    return share_equal(system, release, fresh, LABEL_LOCATION)
