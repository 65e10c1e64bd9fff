# cython: language_level=3
"""Restoring the particles: their blocks, and checks of their totals.

How often a state was entered is not in a snapshot. It is the sum of the transitions into the state,
which must equal the sum of the emissions from it.
"""

from libc.math cimport exp, fabs, isfinite
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from mdvpf._kernel.constants cimport (
    BAD_SNAPSHOT, BLOCK_CURRENT, BLOCK_STATES, GROUP, NODE_BITS, NODE_SIZE, OK, SMALLEST_WEIGHT,
    Status,
)
from mdvpf._kernel.counts cimport count_in, row_in, state_in
from mdvpf._kernel.particles cimport (
    block_in, group_at, into_of, root_of, rows_of, spread_in, used_groups,
)
from mdvpf._kernel.pool cimport at
from mdvpf._kernel.restore_records cimport Records, hold, n_words, reject
from mdvpf._kernel.saved_alphabet cimport check_all_seen, check_group_seen
from mdvpf._kernel.shelves cimport take_slot
from mdvpf._kernel.sections cimport (
    ANCESTOR, CHILDREN, COLUMNS, COPIES, CURRENT, LEVELS, LOG_WEIGHT, N_STATES, ROWS, SPREAD,
    WEIGHT,
    Snapshot,
    words,
)
from mdvpf._kernel.types cimport Record, Row, System, handle_t


cdef inline Status check_weights(
    System* system, Snapshot* snapshot, int64_t n
) noexcept nogil:
    cdef const double* weight = <const double*>snapshot.section[WEIGHT].data
    cdef const double* log_weight = NULL
    cdef double total = 0.0
    cdef int64_t k
    if snapshot.section[LOG_WEIGHT].bytes:
        log_weight = <const double*>snapshot.section[LOG_WEIGHT].data
    for k in range(n):
        if not 0.0 <= weight[k] <= 1.000000001:
            return reject(snapshot, "a weight is out of range")
        total += weight[k]
        if log_weight == NULL:
            if weight[k] < SMALLEST_WEIGHT:
                return reject(snapshot, "log weights are missing, which small weights need")
        elif not isfinite(log_weight[k]) or fabs(exp(log_weight[k]) - weight[k]) > 1e-9:
            return reject(snapshot, "a log weight is not the log of the weight")
        if words(snapshot, ANCESTOR)[k] >= system.budget:
            return reject(snapshot, "an ancestor is out of range")
    if not fabs(total - 1.0) < 1e-9:
        return reject(snapshot, "weights do not sum to one")
    return OK


# ---- shared with the format of real counts -----------------------------------------------

cdef inline void finish_particles(System* system, Snapshot* snapshot, int64_t n) noexcept nogil:
    """Set the weights and ancestors of the particles."""
    system.n_particles = n
    memcpy(system.stored.weight.data, snapshot.section[WEIGHT].data, snapshot.section[WEIGHT].bytes)
    system.logarithmic = snapshot.section[LOG_WEIGHT].bytes > 0
    if system.logarithmic:
        memcpy(system.stored.log_weight.data, snapshot.section[LOG_WEIGHT].data,
               snapshot.section[LOG_WEIGHT].bytes)
    memcpy(system.stored.ancestors.data, snapshot.section[ANCESTOR].data,
           snapshot.section[ANCESTOR].bytes)


cdef inline Status check_held(
    const System* system, Snapshot* snapshot, const handle_t* handles, int64_t n
) noexcept nogil:
    cdef int64_t k
    for k in range(n):
        if (<Record*>at(&system.pool, handles[k])).refs == 0:
            return reject(snapshot, "a record is not referenced")
    return OK


cdef inline bint has_other_location(
    Records* records, int64_t record, uint32_t location
) noexcept nogil:
    """Whether a record was met before at another location of a particle."""
    cdef uint64_t* location_plus_one = &(<uint64_t*>records.work.locations.data)[record]
    if location_plus_one[0] == 0:
        location_plus_one[0] = <uint64_t>location + 1
    return location_plus_one[0] != <uint64_t>location + 1


# ---- integer counts -----------------------------------------------------------------------

cdef inline Status add_group(
    const System* system, Snapshot* snapshot, Records* records, uint32_t number, uint32_t location,
    uint32_t n_states, int64_t n_rows, uint64_t* totals,
) noexcept nogil:
    """Add the counts of a particle's group, of which `n_rows` rows may be used, to the totals."""
    cdef const Record* group
    cdef uint32_t which, i, state
    cdef Row row
    if number == 0:
        return OK
    if has_other_location(records, records.n_nodes + number - 1, location):
        return reject(snapshot, "a record is used at two locations")
    group = group_at(system, (<handle_t*>records.work.handles.data)[records.n_nodes + number - 1])
    for which in range(<uint32_t>GROUP):
        row = row_in(group, which)
        if row.n and which >= n_rows:
            return reject(snapshot, "there are counts beyond the states or the alphabet")
        for i in range(row.n):
            state = state_in(&row, i)
            if state >= n_states:
                return reject(snapshot, "a row has a state that its particle does not have")
            totals[state] += count_in(&row, i)
    return OK


cdef inline Status add_tree(
    const System* system, Snapshot* snapshot, Records* records, uint32_t number,
    uint32_t depth, int64_t level_start, int64_t first, uint32_t n_states,
) noexcept nogil:
    """Add the emissions below a node at a depth (0: the top); `first` is its first group."""
    cdef int64_t below, k
    cdef uint32_t i
    if number == 0:
        return OK
    if depth == system.depth - 1:
        if system.model.is_open and number <= records.n_groups and check_group_seen(
            system, snapshot, (<handle_t*>records.work.handles.data)[records.n_nodes + number - 1],
            first,
        ) != OK:
            return BAD_SNAPSHOT
        return add_group(
            system, snapshot, records, number, <uint32_t>first, n_states,
            <int64_t>system.model.n_symbols + 1 - GROUP * first,
            <uint64_t*>records.work.emitted.data,
        )
    k = level_start + number - 1
    # The core never makes such a node. If nodes could share nodes, the paths to walk here could be
    # exponentially many.
    if has_other_location(records, k, <uint32_t>first):
        return reject(snapshot, "a record is used at two locations")
    below = level_start + words(snapshot, LEVELS)[depth]
    for i in range(<uint32_t>NODE_SIZE):
        if add_tree(
            system, snapshot, records, words(snapshot, CHILDREN)[k * NODE_SIZE + i],
            depth + 1, below, first + (<int64_t>i << (NODE_BITS * (system.depth - 2 - depth))),
            n_states,
        ) != OK:
            return BAD_SNAPSHOT
    return OK


cdef inline Status check_totals(
    System* system, Snapshot* snapshot, Records* records, int64_t particle, uint32_t* block
) noexcept nogil:
    """Check the totals of a particle against each other, and write them into its block."""
    cdef const uint64_t* reached = <const uint64_t*>records.work.reached.data
    cdef const uint64_t* emitted = <const uint64_t*>records.work.emitted.data
    cdef double spread = 0.0
    cdef uint64_t entered = 0
    cdef uint32_t i
    for i in range(block[BLOCK_STATES]):
        if reached[i] != emitted[i] or reached[i] == 0 or reached[i] > 0xFFFFFFFFu:
            return reject(snapshot, "transitions to a state and emissions from it differ")
        into_of(system, block)[i] = <uint32_t>reached[i]
        entered += reached[i]
        spread += reached[i] / (reached[i] + system.model.prior)
    if entered != <uint64_t>system.n_steps:
        return reject(snapshot, "transitions do not sum to the number of steps")
    spread_in(block)[0] = (<const double*>snapshot.section[SPREAD].data)[particle]
    if not fabs(spread_in(block)[0] - spread) <= 1e-9 * spread:
        return reject(snapshot, "a spread does not match its particle")
    return OK


cdef inline Status make_particle(
    System* system, Snapshot* snapshot, Records* records, int64_t particle, uint32_t* block
) noexcept nogil:
    """Make the block of entry `particle` of the snapshot."""
    cdef const handle_t* handles = <const handle_t*>records.work.handles.data
    cdef uint32_t n_states = words(snapshot, N_STATES)[particle]
    cdef const uint32_t* rows = words(snapshot, ROWS) + particle * records.row_groups
    cdef const uint32_t* tops = words(snapshot, COLUMNS) + particle * system.root_size
    cdef int64_t n_tops = records.n_groups
    cdef uint32_t i
    if system.depth > 1:
        n_tops = words(snapshot, LEVELS)[0]
    block[BLOCK_STATES] = n_states
    block[BLOCK_CURRENT] = words(snapshot, CURRENT)[particle]
    if block[BLOCK_CURRENT] > n_states:
        return reject(snapshot, "a particle is in a state that it does not have")
    if n_states:
        memset(records.work.reached.data, 0, n_states * sizeof(uint64_t))
        memset(records.work.emitted.data, 0, n_states * sizeof(uint64_t))
    for i in range(records.row_groups):
        if rows[i] and i >= used_groups(system, block):
            return reject(snapshot, "there are counts beyond the states or the alphabet")
        if hold(system, snapshot, handles + records.n_nodes, records.n_groups, rows[i],
                &rows_of(system, block)[i]) != OK:
            return BAD_SNAPSHOT
        if add_group(system, snapshot, records, rows[i], ~i, n_states,
                     <int64_t>n_states + 1 - GROUP * <int64_t>i,
                     <uint64_t*>records.work.reached.data) != OK:
            return BAD_SNAPSHOT
    for i in range(system.root_size):
        if hold(system, snapshot, handles if system.depth > 1 else handles + records.n_nodes,
                n_tops, tops[i], &root_of(system, block)[i]) != OK:
            return BAD_SNAPSHOT
        if add_tree(system, snapshot, records, tops[i], 0, 0,
                    <int64_t>i << (NODE_BITS * (system.depth - 1)), n_states) != OK:
            return BAD_SNAPSHOT
    if check_totals(system, snapshot, records, particle, block) != OK:
        return BAD_SNAPSHOT
    return check_all_seen(system, snapshot, block) if system.model.is_open else OK


cdef inline Status make_particles(
    System* system, Snapshot* snapshot, Records* records
) noexcept nogil:
    """Make the particles of a new system, which has room for them."""
    cdef const uint32_t* copies = words(snapshot, COPIES)
    cdef handle_t* handles = <handle_t*>records.work.handles.data
    cdef uint32_t slot
    cdef int64_t k = 0
    cdef int64_t b, last
    system.most_states = records.most_states
    system.n_candidates = 0
    for b in range(n_words(snapshot, COPIES)):
        slot = take_slot(system) if b > 0 else (<uint32_t*>system.stored.slot.data)[0]
        memset(block_in(system, slot), 0, system.stride * sizeof(uint32_t))
        last = k + copies[b]
        while k < last:
            (<uint32_t*>system.stored.slot.data)[k] = slot
            k += 1
        if make_particle(system, snapshot, records, b, block_in(system, slot)) != OK:
            return BAD_SNAPSHOT
        system.n_candidates += copies[b] * <int64_t>(words(snapshot, N_STATES)[b] + 1)
    system.n_potentials = system.n_candidates
    finish_particles(system, snapshot, k)
    return check_held(system, snapshot, handles, records.n_nodes + records.n_groups)
