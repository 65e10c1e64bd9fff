# cython: language_level=3
"""The trees of a system with real counts that is restored: where records stand, and their totals.

A group of rows of a Mealy machine may stand in several places of the tree of its state, and so may
a node. So a tree is not walked along its paths, of which there may be many, but level by level, and
how often a record occurs is counted.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from mdvpf._kernel.clock cimport fading
from mdvpf._kernel.constants cimport (
    BAD_SNAPSHOT, GONE, GROUP, GROUP_BITS, NODE_BITS, NODE_SIZE, OK,
    Status,
)
from mdvpf._kernel.counts cimport item
from mdvpf._kernel.particles cimport group_at
from mdvpf._kernel.real_counts cimport real_end, real_start, scale_in, states_in, sums_in
from mdvpf._kernel.restore_particles cimport has_other_position
from mdvpf._kernel.restore_records cimport Records, reject
from mdvpf._kernel.sections cimport CHILDREN, Snapshot, numbers
from mdvpf._kernel.types cimport Record, System, handle_t


cdef inline const uint32_t* named_by(
    Snapshot* snapshot, const Records* records, uint32_t node
) noexcept nogil:
    """The numbers of what a node holds."""
    return numbers(snapshot, CHILDREN) \
        + <size_t>(<const uint32_t*>records.work.index.data)[node] * NODE_SIZE


cdef inline Status place_tree(
    Snapshot* snapshot, Records* records, uint32_t number, uint32_t level, uint32_t position,
    bint is_row,
) noexcept nogil:
    """Check that a record and all below it are at one position only, those of compaction."""
    cdef const uint32_t* named
    cdef uint32_t i
    cdef bint is_known
    if number == 0:
        return OK
    is_known = (<const uint64_t*>records.work.positions.data)[number - 1] != 0
    if has_other_position(records, number - 1, position):
        return reject(snapshot, "a record stands in two places")
    if is_known or level == 0:
        return OK
    named = named_by(snapshot, records, number - 1)
    for i in range(<uint32_t>NODE_SIZE):
        if place_tree(
            snapshot, records, named[i], level - 1,
            position if is_row else position + (i << (NODE_BITS * (level - 1))), is_row,
        ) != OK:
            return BAD_SNAPSHOT
    return OK


cdef inline Status add_real_group(
    const System* system, Snapshot* snapshot, const Records* records, uint32_t record,
    uint32_t n_states, uint64_t last_row, double* totals, uint64_t* opened,
) noexcept nogil:
    """Add the counts of a group, as often as it occurs, to the totals; count its open entries."""
    cdef const Record* group = group_at(
        system, (<const handle_t*>records.work.handles.data)[record])
    cdef uint64_t times = (<const uint64_t*>records.work.times.data)[record]
    cdef uint64_t first = <uint64_t>(<const uint32_t*>records.work.place.data)[record] << GROUP_BITS
    cdef double factor = fading(scale_in(group)[0], &system.now)
    cdef double count
    cdef uint32_t which, state, i
    for which in range(<uint32_t>GROUP):
        if real_start(group, which) < real_end(group, which) and first + which > last_row:
            return reject(snapshot, "there is a row of no state, or a column of no symbol")
        for i in range(real_start(group, which), real_end(group, which)):
            state = item(states_in(group), group.shape & 3, i)
            if state >= n_states:
                return reject(snapshot, "a row names a state that its particle does not have")
            count = sums_in(group)[i] * factor
            totals[state] += times * count
            opened[state] += times if count >= GONE else 0
    return OK


cdef inline Status add_real_tree(
    const System* system, Snapshot* snapshot, Records* records, uint32_t number, uint32_t level,
    uint32_t place, uint32_t n_states, uint64_t last_row, double* totals, uint64_t* opened,
    uint64_t* n_places,
) noexcept nogil:
    """Add the counts of all groups below a record, the first of which would be at `place`."""
    cdef uint32_t* below = <uint32_t*>records.work.below.data
    cdef uint64_t* times = <uint64_t*>records.work.times.data
    cdef uint32_t* places = <uint32_t*>records.work.place.data
    cdef const uint32_t* named
    cdef int64_t start = 0      # of the level
    cdef int64_t end = 1
    cdef int64_t n = 1
    cdef int64_t k
    cdef uint32_t i, child, at
    cdef Status status = OK
    if number == 0:
        return OK
    below[0] = number - 1
    times[number - 1] = 1
    places[number - 1] = place
    while level > 0:
        for k in range(start, end):
            named = named_by(snapshot, records, below[k])
            for i in range(<uint32_t>NODE_SIZE):
                if named[i] == 0:
                    continue
                child = named[i] - 1
                at = places[below[k]] + (i << (NODE_BITS * (level - 1)))
                if times[child] == 0:
                    below[n] = child
                    n += 1
                    places[child] = at
                times[child] += times[below[k]]
                places[child] = max(places[child], at)
        start = end
        end = n
        level -= 1
    for k in range(start, n):
        if status == OK:
            n_places[0] += times[below[k]]
            status = add_real_group(
                system, snapshot, records, below[k], n_states, last_row, totals, opened)
    for k in range(n):
        times[below[k]] = 0
    return status
