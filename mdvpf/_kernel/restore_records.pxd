# cython: language_level=3
"""Restoring groups and nodes, at first with no references.

Every length, number and order is checked before it is used: see `restore.pxd`.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from mdvpf._kernel.constants cimport (
    BAD_SNAPSHOT, GROUP, N_CLASSES, NO_MEMORY, NODE_SIZE, NODE_UNITS, NONE, OK,
    PAGE_UNITS,
    Status,
)
from mdvpf._kernel.counts cimport (
    children, group_bytes, group_units, items_of, new_record, put_item, width_of,
)
from mdvpf._kernel.particles cimport row_handles
from mdvpf._kernel.pool cimport at, class_of, reserve_pages, resize
from mdvpf._kernel.sections cimport (
    ANCESTOR, CHILDREN, COLUMNS, COPIES, CURRENT, ITEMS, LEVELS, LOG_WEIGHT, N_STATES, ROWS, SHAPE,
    SPREAD, WEIGHT,
    Snapshot,
    words,
)
from mdvpf._kernel.types cimport Buffer, Record, System, handle_t

# Work space of restoring. All fields are Buffers, so that it can be released as an array.
cdef struct RestoreBuffers:
    Buffer handles          # handle_t[]: nodes by level, the top one first, then groups
    Buffer locations        # uint64_t[]: 1 + location of each record in particles; 0: not yet met
    Buffer latest_row       # uint64_t[states]: the latest row with each state, from 1
    Buffer reached          # uint64_t[states]: transitions of one particle to each state
    Buffer emitted          # uint64_t[states]: emissions of one particle from each state
    # Real counts, where `reached` and `emitted` are double[states].
    Buffer opened           # uint64_t[states]: rows of one particle that lead to each state
    Buffer index            # uint32_t[]: index of each record among those of its kind
    Buffer below            # uint32_t[]: the records of one tree, the top one first
    Buffer times            # uint64_t[]: how often each record occurs in that tree
    Buffer last_index       # uint32_t[]: the last index at which it occurs in its level
    Buffer fewest           # uint32_t[]: fewest states of a particle that descends from each node

# The records of a snapshot while they are made.
cdef struct Records:
    RestoreBuffers work
    int64_t n               # real counts: all records
    int64_t n_nodes
    int64_t n_groups
    uint32_t most_states
    uint32_t row_groups     # of the particle with most states
    uint64_t n_rows         # rows read so far


cdef inline int64_t n_words(const Snapshot* snapshot, int section) noexcept nogil:
    """The number of 32-bit words in a section."""
    return <int64_t>(snapshot.section[section].bytes // sizeof(uint32_t))


cdef inline Status reject(Snapshot* snapshot, const char* fault) noexcept nogil:
    snapshot.fault = fault
    return BAD_SNAPSHOT


# ---- lengths -----------------------------------------------------------------------------

cdef inline Status check_particles(
    const System* system, Snapshot* snapshot, size_t n_particles
) noexcept nogil:
    """Check the lengths of the sections that have an entry for each particle or each block."""
    cdef size_t n = <size_t>n_words(snapshot, COPIES)
    cdef size_t bytes = n * sizeof(uint32_t)
    cdef uint64_t total = 0
    cdef size_t k
    if n_particles < 1 or n_particles > <size_t>system.budget:
        return reject(snapshot, "the number of particles is out of range")
    if system.duplicating and n_particles != <size_t>system.budget:
        return reject(snapshot, "the algorithm needs all of its particles")
    if snapshot.section[WEIGHT].bytes != n_particles * sizeof(double) \
            or snapshot.section[LOG_WEIGHT].bytes not in (0, n_particles * sizeof(double)) \
            or snapshot.section[ANCESTOR].bytes != n_particles * sizeof(uint32_t):
        return reject(snapshot, "a section does not have one entry for each particle")
    if snapshot.section[COPIES].bytes != bytes \
            or snapshot.section[N_STATES].bytes != bytes \
            or snapshot.section[CURRENT].bytes != bytes \
            or snapshot.section[COLUMNS].bytes != bytes * system.root_size:
        return reject(snapshot, "sections of different lengths")
    for k in range(n):
        if words(snapshot, COPIES)[k] == 0:
            return reject(snapshot, "a block has no particle")
        total += words(snapshot, COPIES)[k]
    if total != n_particles:
        return reject(snapshot, "blocks do not have as many particles as there are weights")
    return OK


cdef inline Status check_lengths(
    const System* system, Snapshot* snapshot, Records* records
) noexcept nogil:
    """Check the lengths of all sections but those of the history; set the sizes in `records`."""
    cdef size_t n_particles = snapshot.section[WEIGHT].bytes // sizeof(double)
    cdef size_t n = <size_t>n_words(snapshot, COPIES)
    cdef size_t bytes = n * sizeof(uint32_t)
    cdef int64_t n_nodes = 0
    cdef uint32_t depth
    cdef size_t k
    if check_particles(system, snapshot, n_particles) != OK:
        return BAD_SNAPSHOT
    if snapshot.section[SPREAD].bytes != n * sizeof(double):
        return reject(snapshot, "sections of different lengths")
    for k in range(n):
        if words(snapshot, N_STATES)[k] > records.most_states:
            records.most_states = words(snapshot, N_STATES)[k]
    if records.most_states > system.model.max_states or records.most_states > 0x7FFFFFF0u:
        return reject(snapshot, "a particle has too many states")
    records.row_groups = row_handles(system, records.most_states)
    if snapshot.section[ROWS].bytes != bytes * records.row_groups:
        return reject(snapshot, "the section of rows has the wrong length")
    if snapshot.section[LEVELS].bytes != (system.depth - 1) * sizeof(uint32_t):
        return reject(snapshot, "the trees of columns have the wrong depth")
    for depth in range(system.depth - 1):
        n_nodes += words(snapshot, LEVELS)[depth]
    if snapshot.section[CHILDREN].bytes != <size_t>n_nodes * NODE_SIZE * sizeof(uint32_t):
        return reject(snapshot, "the section of nodes has the wrong length")
    records.n_nodes = n_nodes
    records.n_groups = n_words(snapshot, SHAPE)
    if snapshot.section[SHAPE].bytes % sizeof(uint32_t):
        return reject(snapshot, "the section of shapes has the wrong length")
    return OK


cdef inline Status reserve_records(System* system, Records* records) noexcept nogil:
    cdef size_t n = <size_t>(records.n_nodes + records.n_groups)
    cdef size_t states = records.most_states * sizeof(uint64_t)
    if resize(&system.memory, &records.work.handles, n * sizeof(handle_t)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &records.work.locations, n * sizeof(uint64_t)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &records.work.latest_row, states) != OK:
        return NO_MEMORY
    if resize(&system.memory, &records.work.reached, states) != OK:
        return NO_MEMORY
    if resize(&system.memory, &records.work.emitted, states) != OK:
        return NO_MEMORY
    if n:
        memset(records.work.locations.data, 0, n * sizeof(uint64_t))
    if states:
        memset(records.work.latest_row.data, 0, states)
    return OK


# ---- records -----------------------------------------------------------------------------

cdef inline uint32_t read_item(const uint8_t* items, uint32_t width, size_t i) noexcept nogil:
    items += i << width
    if width == 0:
        return items[0]
    if width == 1:
        return items[0] | <uint32_t>items[1] << 8
    return (items[0] | <uint32_t>items[1] << 8 | <uint32_t>items[2] << 16
            | <uint32_t>items[3] << 24)


cdef inline Status check_group(
    Snapshot* snapshot, Records* records, const uint8_t* items, uint32_t shape, uint32_t* width
) noexcept nogil:
    """Check a group that ends within its section; set the width that it needs."""
    cdef uint64_t* latest_row = <uint64_t*>records.work.latest_row.data
    cdef uint32_t n = shape >> 2
    cdef uint32_t largest = n
    cdef uint32_t pair = 0
    cdef uint32_t which, end, state, count
    for which in range(<uint32_t>GROUP):
        end = read_item(items, shape & 3, which)
        if end < pair or end > n:
            return reject(snapshot, "the rows of a group overlap")
        records.n_rows += 1
        while pair < end:
            state = read_item(items, shape & 3, GROUP + 2 * <size_t>pair)
            count = read_item(items, shape & 3, GROUP + 2 * <size_t>pair + 1)
            if state >= records.most_states or count == 0:
                return reject(snapshot, "a row has a state that does not exist, or a count of zero")
            if latest_row[state] == records.n_rows:
                return reject(snapshot, "a row has a state twice")
            latest_row[state] = records.n_rows
            largest = state if state > largest else largest
            largest = count if count > largest else largest
            pair += 1
    if pair != n:
        return reject(snapshot, "a group is longer than its rows")
    if n == 0:
        return reject(snapshot, "a group is empty")
    width[0] = width_of(largest)
    return OK


cdef inline Status reserve_classes(System* system, const size_t* n) noexcept nogil:
    """Make room for n[i] records of each size class i."""
    cdef size_t n_pages = 0
    cdef size_t units
    cdef int i
    for i in range(N_CLASSES):
        units = system.pool.units[i]
        if units > PAGE_UNITS:
            n_pages += n[i] * ((units + PAGE_UNITS - 1) // PAGE_UNITS)
        else:
            n_pages += (n[i] + PAGE_UNITS // units - 1) // (PAGE_UNITS // units)
    return reserve_pages(&system.pool, n_pages)


cdef inline Status reserve_groups(
    System* system, Snapshot* snapshot, Records* records
) noexcept nogil:
    """Check the groups, and make room for them and for the nodes."""
    cdef uint32_t* shapes = words(snapshot, SHAPE)
    cdef const uint8_t* items = <const uint8_t*>snapshot.section[ITEMS].data
    cdef size_t left = snapshot.section[ITEMS].bytes
    cdef size_t[N_CLASSES] n
    cdef uint32_t width
    cdef int64_t g
    memset(n, 0, sizeof(n))
    for g in range(records.n_groups):
        if (shapes[g] & 3) > 2 or group_bytes(shapes[g]) > left:
            return reject(snapshot, "a group is longer than its section")
        if check_group(snapshot, records, items, shapes[g], &width) != OK:
            return BAD_SNAPSHOT
        items += group_bytes(shapes[g])
        left -= group_bytes(shapes[g])
        n[class_of(&system.pool, group_units((shapes[g] & ~3u) | width))] += 1
    if left:
        return reject(snapshot, "the section of groups is too long")
    n[class_of(&system.pool, NODE_UNITS)] += <size_t>records.n_nodes
    return reserve_classes(system, n)


cdef inline void make_groups(
    System* system, Snapshot* snapshot, Records* records
) noexcept nogil:
    """Make the groups, without references. `reserve_groups` has checked them and made room."""
    cdef handle_t* handles = <handle_t*>records.work.handles.data + records.n_nodes
    cdef const uint8_t* items = <const uint8_t*>snapshot.section[ITEMS].data
    cdef uint32_t given, shape  # in the snapshot, and as narrow as possible
    cdef uint32_t width = 0
    cdef Record* group
    cdef int64_t g
    cdef size_t i
    for g in range(records.n_groups):
        given = words(snapshot, SHAPE)[g]
        check_group(snapshot, records, items, given, &width)
        shape = (given & ~3u) | width
        handles[g] = new_record(&system.pool, group_units(shape), shape, 0)
        group = <Record*>at(&system.pool, handles[g])
        for i in range(GROUP + 2 * <size_t>(shape >> 2)):
            put_item(items_of(group), width, <uint32_t>i, read_item(items, given & 3, i))
        items += group_bytes(given)


cdef inline Status hold(
    System* system, Snapshot* snapshot, const handle_t* handles, int64_t n, uint32_t number,
    handle_t* held,
) noexcept nogil:
    """Write the handle of the record with a number, and count the reference."""
    held[0] = NONE
    if number == 0:
        return OK
    if number > n:
        return reject(snapshot, "the number of a record is out of range")
    held[0] = handles[number - 1]
    (<Record*>at(&system.pool, held[0])).refs += 1
    return OK


cdef inline Status make_nodes(
    System* system, Snapshot* snapshot, Records* records
) noexcept nogil:
    """Make the nodes of all levels. A node holds nodes of the next level, or groups."""
    cdef handle_t* handles = <handle_t*>records.work.handles.data
    cdef int64_t first = 0      # first node of the level
    cdef int64_t below, n_below, k
    cdef uint32_t depth, i
    cdef bint is_empty
    for k in range(records.n_nodes):
        handles[k] = new_record(&system.pool, NODE_UNITS, 0, 0)
    for depth in range(system.depth - 1):
        below = first + words(snapshot, LEVELS)[depth]
        n_below = records.n_groups
        if depth + 2 < system.depth:
            n_below = words(snapshot, LEVELS)[depth + 1]
        for k in range(first, below):
            is_empty = True
            for i in range(<uint32_t>NODE_SIZE):
                is_empty = is_empty and words(snapshot, CHILDREN)[k * NODE_SIZE + i] == 0
                if hold(system, snapshot, handles + below, n_below,
                        words(snapshot, CHILDREN)[k * NODE_SIZE + i],
                        &children(&system.pool, handles[k])[i]) != OK:
                    return BAD_SNAPSHOT
            if is_empty:
                return reject(snapshot, "a node is empty")
        first = below
    return OK
