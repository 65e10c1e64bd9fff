# cython: language_level=3
"""Restoring the trees of a system with real counts: locations of records, and their totals.

A group of rows of a Mealy machine may occur several times in the tree of its state, and so may a
node. The number of paths in such a tree can be exponential. It is therefore walked level by level,
counting how often each record occurs.
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
from mdvpf._kernel.restore_particles cimport has_other_location
from mdvpf._kernel.restore_records cimport Records, reject
from mdvpf._kernel.sections cimport CHILDREN, Snapshot, words
from mdvpf._kernel.types cimport Record, System, handle_t


cdef inline const uint32_t* children_of(
    Snapshot* snapshot, const Records* records, uint32_t node
) noexcept nogil:
    """The numbers of the children of a node."""
    return words(snapshot, CHILDREN) \
        + <size_t>(<const uint32_t*>records.work.index.data)[node] * NODE_SIZE


cdef inline Status locate_tree(
    Snapshot* snapshot, Records* records, uint32_t number, uint32_t level, uint32_t location,
    bint is_row,
) noexcept nogil:
    """Check that a record, and those below it, have one location each, as in `merging.pxd`."""
    cdef const uint32_t* held
    cdef uint32_t i
    cdef bint is_known
    if number == 0:
        return OK
    is_known = (<const uint64_t*>records.work.locations.data)[number - 1] != 0
    if has_other_location(records, number - 1, location):
        return reject(snapshot, "a record is used at two locations")
    if is_known or level == 0:
        return OK
    held = children_of(snapshot, records, number - 1)
    for i in range(<uint32_t>NODE_SIZE):
        if locate_tree(
            snapshot, records, held[i], level - 1,
            location if is_row else location + (i << (NODE_BITS * (level - 1))), is_row,
        ) != OK:
            return BAD_SNAPSHOT
    return OK


cdef inline Status add_real_group(
    const System* system, Snapshot* snapshot, const Records* records, uint32_t record,
    uint32_t n_states, uint64_t last_row, double* totals, uint64_t* opened,
) noexcept nogil:
    """Add the counts of a group, times its occurrences, to the totals; count entries not faded."""
    cdef const Record* group = group_at(
        system, (<const handle_t*>records.work.handles.data)[record])
    cdef uint64_t times = (<const uint64_t*>records.work.times.data)[record]
    cdef const uint32_t* last_index = <const uint32_t*>records.work.last_index.data
    cdef uint64_t first = <uint64_t>last_index[record] << GROUP_BITS
    cdef double factor = fading(scale_in(group)[0], &system.now)
    cdef double count
    cdef uint32_t which, state, i
    for which in range(<uint32_t>GROUP):
        if real_start(group, which) < real_end(group, which) and first + which > last_row:
            return reject(snapshot, "there are counts beyond the states or the alphabet")
        for i in range(real_start(group, which), real_end(group, which)):
            state = item(states_in(group), group.shape & 3, i)
            if state >= n_states:
                return reject(snapshot, "a row has a state that its particle does not have")
            count = sums_in(group)[i] * factor
            totals[state] += times * count
            opened[state] += times if count >= GONE else 0
    return OK


cdef inline Status add_real_tree(
    const System* system, Snapshot* snapshot, Records* records, uint32_t number, uint32_t level,
    uint32_t index, uint32_t n_states, uint64_t last_row, double* totals, uint64_t* opened,
    uint64_t* n_occurrences,
) noexcept nogil:
    """Add the counts of all groups below a record with an index in its level."""
    cdef uint32_t* below = <uint32_t*>records.work.below.data
    cdef uint64_t* times = <uint64_t*>records.work.times.data
    cdef uint32_t* last_index = <uint32_t*>records.work.last_index.data
    cdef const uint32_t* held
    cdef int64_t start = 0      # start of the level in `below`
    cdef int64_t end = 1
    cdef int64_t n = 1
    cdef int64_t k
    cdef uint32_t i, child, at
    cdef Status status = OK
    if number == 0:
        return OK
    below[0] = number - 1
    times[number - 1] = 1
    last_index[number - 1] = index
    while level > 0:
        for k in range(start, end):
            held = children_of(snapshot, records, below[k])
            for i in range(<uint32_t>NODE_SIZE):
                if held[i] == 0:
                    continue
                child = held[i] - 1
                at = last_index[below[k]] + (i << (NODE_BITS * (level - 1)))
                if times[child] == 0:
                    below[n] = child
                    n += 1
                    last_index[child] = at
                times[child] += times[below[k]]
                last_index[child] = max(last_index[child], at)
        start = end
        end = n
        level -= 1
    for k in range(start, n):
        if status == OK:
            n_occurrences[0] += times[below[k]]
            status = add_real_group(
                system, snapshot, records, below[k], n_states, last_row, totals, opened)
    for k in range(n):
        times[below[k]] = 0
    return status
