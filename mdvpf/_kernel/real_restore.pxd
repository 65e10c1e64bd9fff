# cython: language_level=3
"""Restoring a system with real counts from an untrusted snapshot: see `restore.pxd`.

Any arrays give either a system that passes `verify` or an error status. There are more checks than
for integer counts: sums must be finite numbers whose counts cannot overflow, and every particle
must have a candidate. Sums were rounded one by one, so they need to agree only up to the tolerance
of `verify_real.pxd`.
"""

from libc.math cimport fabs, isfinite
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from mdvpf._kernel.clock cimport fading, forgets, scale_at, set_clocks
from mdvpf._kernel.constants cimport (
    BAD_SNAPSHOT, BLOCK_CURRENT, BLOCK_LABELS, BLOCK_SCALE, BLOCK_STATES, GROUP, MISSING,
    NODE_BITS, NONE, NO_MEMORY, OK,
    Status,
)
from mdvpf._kernel.counts cimport release_tree
from mdvpf._kernel.labels cimport labels_in
from mdvpf._kernel.number_scores cimport WHOLE_FLOATS
from mdvpf._kernel.particles cimport block_in, block_of, root_of, rows_of, shares_block, used_groups
from mdvpf._kernel.position_restore cimport restore_keys, restore_positions
from mdvpf._kernel.real_counts cimport real_end, real_start, sums_in
from mdvpf._kernel.real_particles cimport (
    block_scale, column_group, live_states, reached_of, real_into,
)
from mdvpf._kernel.real_restore_lengths cimport (
    MOST_LABELS, check_real_lengths, is_sum, reserve_real_records,
)
from mdvpf._kernel.real_restore_records cimport hold_kind, make_records, reserve_real_groups
from mdvpf._kernel.real_restore_trees cimport add_real_tree, locate_tree
from mdvpf._kernel.real_scores cimport real_potentials
from mdvpf._kernel.reserve cimport grow_particles, reserve_scores
from mdvpf._kernel.restore cimport dispose_records, make_history
from mdvpf._kernel.restore_particles cimport check_held, check_weights, finish_particles
from mdvpf._kernel.restore_records cimport Records, n_words, reject
from mdvpf._kernel.saved_statistics cimport read_statistics
from mdvpf._kernel.sections cimport (
    BLOCK_BEHIND, COLUMNS, COPIES, CURRENT, INTO, LABELS, LABEL_KIND, LARGEST_BLOCK_BEHIND,
    LAST_SYMBOL, N_STATES, REACHED, ROWS, WEIGHT, Snapshot, words,
)
from mdvpf._kernel.shelves cimport move_blocks, reserve_shelves, take_slot
from mdvpf._kernel.types cimport Record, System, handle_t

cdef extern from *:
    """
    #define MDVPF_MOST_STEPS 9007199254740992
    #define MDVPF_SLACK 0.999e-3
    """
    # Numbers of steps up to this are exact as doubles.
    const int64_t MOST_STEPS "MDVPF_MOST_STEPS"
    # Tolerance of sums, a little less than that of `verify`, which adds in another order.
    const double SLACK "MDVPF_SLACK"


# ---- particles ---------------------------------------------------------------------------

cdef inline Status check_block(
    const System* system, Snapshot* snapshot, Records* records, uint32_t* block
) noexcept nogil:
    """Check the sums of a block against each other."""
    cdef const double* arrived = <const double*>records.work.reached.data
    cdef const double* emitted = <const double*>records.work.emitted.data
    cdef const uint64_t* opened = <const uint64_t*>records.work.opened.data
    cdef double factor = fading(block_scale(block), &system.now)
    cdef bint exact = not forgets(system)
    cdef bint of_numbers = system.numbers.n_channels > 0
    cdef double total = 0.0
    cdef double count, left
    cdef uint32_t reached, i
    for i in range(block[BLOCK_STATES]):
        count = real_into(system, block)[i] * factor
        left = count if of_numbers else emitted[i]
        total += count
        if not fabs(count - left) <= SLACK * count + SLACK \
                or not arrived[i] <= count * (1.0 + SLACK) + SLACK:
            return reject(snapshot, "transitions to a state and emissions from it differ")
        if exact and count <= WHOLE_FLOATS and (count != arrived[i] or count != left):
            return reject(snapshot, "transitions to a state and emissions from it differ")
        if system.model.by_rows:
            # Entries that have faded since the latest recount are still counted.
            reached = reached_of(system, block)[i]
            if reached < opened[i] or reached > <uint64_t>system.n_steps \
                    or (exact and reached != opened[i]):
                return reject(snapshot, "the numbers of rows that lead to states are wrong")
    if not total <= 1.01 * <double>system.n_steps:
        return reject(snapshot, "there are more transitions than steps")
    if exact and (total != system.n_steps if system.n_steps < WHOLE_FLOATS
                  else total < 0.99 * <double>system.n_steps):
        return reject(snapshot, "transitions do not sum to the number of steps")
    if live_states(system, block, &system.now) > system.model.max_states:
        return reject(snapshot, "a particle has too many states")
    return OK


cdef inline Status hold_real_labels(
    System* system, Snapshot* snapshot, Records* records, int64_t particle, uint32_t* block
) noexcept nogil:
    cdef uint64_t n_labels = block[BLOCK_STATES]
    if hold_kind(system, snapshot, records, records.n, words(snapshot, LABELS)[particle],
                 LABEL_KIND, &block[BLOCK_LABELS]) != OK:
        return BAD_SNAPSHOT
    if block[BLOCK_LABELS] != NONE:
        system.is_relabelled = True
        if labels_in(system, block)[0] > block[BLOCK_STATES]:
            return reject(snapshot, "there are more labels than states")
        n_labels += labels_in(system, block)[1] - labels_in(system, block)[0]
    if n_labels > <uint64_t>system.n_steps or n_labels > MOST_LABELS:
        return reject(snapshot, "there are more labels than steps")
    system.most_labels = max(system.most_labels, <uint32_t>n_labels)
    return OK


cdef inline Status fill_block(
    System* system, Snapshot* snapshot, Records* records, int64_t particle, size_t first,
    uint32_t* block,
) noexcept nogil:
    """Fill in a block, apart from its rows and columns; its states start at `first`."""
    cdef uint32_t n_states = words(snapshot, N_STATES)[particle]
    cdef uint32_t distance = words(snapshot, BLOCK_BEHIND)[particle]
    cdef uint32_t i
    block[BLOCK_STATES] = n_states
    block[BLOCK_CURRENT] = words(snapshot, CURRENT)[particle]
    if block[BLOCK_CURRENT] > n_states:
        return reject(snapshot, "a particle is in a state that it does not have")
    if distance > (<uint32_t>LARGEST_BLOCK_BEHIND if forgets(system) else 0u):
        return reject(snapshot, "the scale of a particle is out of range")
    block[BLOCK_SCALE] = <uint32_t>scale_at(&system.now) - distance
    for i in range(n_states):
        if not is_sum(system, words(snapshot, INTO)[first + i], 0.0 if forgets(system) else 1.0):
            return reject(snapshot, "a sum is out of range")
    if n_states:
        memcpy(real_into(system, block), words(snapshot, INTO) + first,
               n_states * sizeof(float))
        if system.model.by_rows:
            memcpy(reached_of(system, block), words(snapshot, REACHED) + first,
                   n_states * sizeof(uint32_t))
        memset(records.work.reached.data, 0, n_states * sizeof(double))
        memset(records.work.emitted.data, 0, n_states * sizeof(double))
        memset(records.work.opened.data, 0, n_states * sizeof(uint64_t))
    return hold_real_labels(system, snapshot, records, particle, block)


cdef inline Status make_block(
    System* system, Snapshot* snapshot, Records* records, int64_t particle, size_t first,
    uint32_t* block,
) noexcept nogil:
    """Make the block of entry `particle` of the snapshot."""
    cdef const uint32_t* rows = words(snapshot, ROWS) + particle * <int64_t>records.row_groups
    cdef const uint32_t* tops = words(snapshot, COLUMNS) + particle * <int64_t>system.root_size
    cdef uint64_t* opened = <uint64_t*>records.work.opened.data
    cdef uint64_t n_occurrences = 0
    cdef uint64_t unused = 0
    cdef uint64_t last_row
    cdef uint32_t n_states, i
    if fill_block(system, snapshot, records, particle, first, block) != OK:
        return BAD_SNAPSHOT
    n_states = block[BLOCK_STATES]
    # Columns first: `opened` is then reset and counts rows only.
    for i in range(system.root_size):
        if hold_kind(system, snapshot, records, records.n, tops[i], system.depth - 1,
                     &root_of(system, block)[i]) != OK \
                or locate_tree(snapshot, records, tops[i], system.depth - 1,
                               i << (NODE_BITS * (system.depth - 1)), False) != OK \
                or add_real_tree(system, snapshot, records, tops[i], system.depth - 1,
                                 i << (NODE_BITS * (system.depth - 1)), n_states,
                                 system.model.n_symbols, <double*>records.work.emitted.data,
                                 opened, &unused) != OK:
            return BAD_SNAPSHOT
    if n_states:
        memset(opened, 0, n_states * sizeof(uint64_t))
    for i in range(records.row_groups):
        if rows[i] and i >= used_groups(system, block):
            return reject(snapshot, "there are counts beyond the states or the alphabet")
        last_row = n_states
        if system.model.mealy:
            last_row = system.model.n_symbols if i else 0
        if hold_kind(system, snapshot, records, records.n, rows[i], system.row_depth,
                     &rows_of(system, block)[i]) != OK \
                or locate_tree(snapshot, records, rows[i], system.row_depth, ~i, True) != OK \
                or add_real_tree(system, snapshot, records, rows[i], system.row_depth,
                                 0 if system.model.mealy else i, n_states, last_row,
                                 <double*>records.work.reached.data, opened, &n_occurrences) != OK:
            return BAD_SNAPSHOT
    # Few nodes can stand for very many rows. In a system that has run, each row took a step.
    if n_occurrences > <uint64_t>system.n_steps:
        return reject(snapshot, "there are more rows than steps")
    return check_block(system, snapshot, records, block)


cdef inline Status make_real_particles(
    System* system, Snapshot* snapshot, Records* records
) noexcept nogil:
    """Make the particles of a new system, which has room for them."""
    cdef const uint32_t* copies = words(snapshot, COPIES)
    cdef size_t first = 0
    cdef uint32_t slot
    cdef int64_t k = 0
    cdef int64_t b, last
    system.most_states = records.most_states
    system.n_candidates = 0
    system.n_potentials = 0
    system.last_symbol = words(snapshot, LAST_SYMBOL)[0]
    for b in range(n_words(snapshot, COPIES)):
        slot = take_slot(system) if b > 0 else (<uint32_t*>system.stored.slot.data)[0]
        memset(block_in(system, slot), 0, system.stride * sizeof(uint32_t))
        last = k + copies[b]
        while k < last:
            (<uint32_t*>system.stored.slot.data)[k] = slot
            k += 1
        if make_block(system, snapshot, records, b, first, block_in(system, slot)) != OK:
            return BAD_SNAPSHOT
        first += words(snapshot, N_STATES)[b]
        system.n_potentials += copies[b] * <int64_t>(words(snapshot, N_STATES)[b] + 1)
        system.n_candidates += copies[b] * (
            <int64_t>live_states(system, block_in(system, slot), &system.now) + 1)
    finish_particles(system, snapshot, k)
    if check_held(
        system, snapshot, <const handle_t*>records.work.handles.data, records.n
    ) != OK:
        return BAD_SNAPSHOT
    if system.numbers.n_channels:
        drop_columns(system)
    return OK


cdef inline void drop_columns(System* system) noexcept nogil:
    """Release the columns of a filter over numbers: early files have them, nothing reads them."""
    cdef handle_t* root
    cdef uint32_t i
    cdef int64_t k
    for k in range(system.n_particles):
        root = root_of(system, block_of(system, k))
        for i in range(system.root_size):
            release_tree(&system.pool, root[i], system.depth - 1)
            root[i] = NONE


cdef inline bint has_real_missing(const System* system) noexcept nogil:
    """Whether a particle has counts of missing symbols."""
    cdef uint32_t which = system.model.missing & (GROUP - 1)
    cdef const Record* group
    cdef int64_t k
    for k in range(system.n_particles):
        group = column_group(system, block_of(system, k), system.model.missing)
        if group != NULL and real_end(group, which) > real_start(group, which):
            return True
    return False


cdef inline Status check_real_seen(System* system, Snapshot* snapshot) noexcept nogil:
    """Check, if counts are exact, that as many symbols were seen as each particle has emitted."""
    cdef uint32_t which = system.model.missing & (GROUP - 1)
    cdef const Record* group
    cdef double observed
    cdef uint32_t i
    cdef int64_t k
    if not system.model.is_open or forgets(system) or system.n_steps >= WHOLE_FLOATS:
        return OK
    for k in range(system.n_particles):
        observed = <double>system.n_steps
        group = column_group(system, block_of(system, k), system.model.missing)
        if group != NULL:
            for i in range(real_start(group, which), real_end(group, which)):
                observed -= sums_in(group)[i]
        if observed != <double>system.n_seen:
            return reject(snapshot, "emissions and symbols seen differ in number")
    return OK


cdef inline Status check_candidates(System* system, Snapshot* snapshot) noexcept nogil:
    """Check that every particle has a candidate: a new state, or one of its own."""
    cdef double total = 0.0
    cdef int64_t k
    for k in range(system.n_particles):
        if shares_block(system, k) or live_states(
            system, block_of(system, k), &system.now
        ) < system.model.max_states:
            continue
        if reserve_scores(system, system.most_states) != OK:
            return NO_MEMORY
        real_potentials(system, k, MISSING, &system.scratch, system.scratch.transition, &total)
        if not (total > 0.0 and isfinite(total)):
            return reject(snapshot, "a particle has no candidate")
    return OK


# ---- the whole ---------------------------------------------------------------------------

cdef inline Status restore_real_with(
    System* system, Snapshot* snapshot, Records* records
) noexcept nogil:
    cdef int64_t n = <int64_t>(snapshot.section[WEIGHT].bytes // sizeof(double))
    cdef Status status
    if system.n_steps > MOST_STEPS:
        return reject(snapshot, "there are too many steps")
    set_clocks(system)
    status = check_real_lengths(system, snapshot, records)
    if status == OK:
        status = check_weights(system, snapshot, n)
    if status == OK:
        status = restore_keys(system, snapshot)
    if status == OK:
        status = reserve_real_records(system, records)
    if status == OK:
        status = reserve_real_groups(system, snapshot, records)
    if status == OK:
        status = grow_particles(system, n)
    if status == OK:
        status = reserve_shelves(system, n_words(snapshot, COPIES))
    if status == OK and records.most_states > system.state_capacity:
        status = move_blocks(system, (records.most_states + 3) & ~3u)
    if status == OK:
        status = make_records(system, snapshot, records)
    if status == OK:
        status = make_real_particles(system, snapshot, records)
    if status == OK:
        status = restore_positions(system, snapshot)
    if status == OK:
        status = check_real_seen(system, snapshot)
    if status == OK:
        system.seen_missing = has_real_missing(system)
        status = make_history(system, snapshot, records)
    if status == OK:
        status = check_candidates(system, snapshot)
    if status == OK:
        status = read_statistics(system, snapshot)
    return status


cdef inline Status restore_real(System* system, Snapshot* snapshot) noexcept nogil:
    """`restore` for a system with real counts."""
    cdef Records records
    cdef Status status
    memset(&records, 0, sizeof(Records))
    status = restore_real_with(system, snapshot, &records)
    dispose_records(system, &records)
    return status
