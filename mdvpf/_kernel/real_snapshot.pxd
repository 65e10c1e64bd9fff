# cython: language_level=3
"""Snapshots of systems with real counts: see `snapshot.pxd`, and `sections.pxd` for the arrays.

All records are numbered in one order, from 1: groups, nodes of the trees of columns and of the rows
of a Mealy machine, and records of labels. Particles are visited in order: first their rows, then
columns, then labels. A record is numbered at the first visit, and a node after the records that it
holds, so a reader has these before the node.

Floats are written as they are. A scale is written as its distance from that of the next step, which
the reader computes from the number of steps. A distance is written as at most a limit beyond which
the counts are zero in any case.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy, memset

from mdvpf._kernel.clock cimport scales_apart
from mdvpf._kernel.constants cimport (
    BLOCK_CURRENT, BLOCK_LABELS, BLOCK_STATES, GROUP, NO_MEMORY, NODE_SIZE, NONE, OK, PAGE_BITS,
    PAGE_UNITS,
    Status,
)
from mdvpf._kernel.counts cimport children, item
from mdvpf._kernel.particles cimport (
    block_of, group_at, root_of, row_handles, rows_of, shares_block, used_groups,
)
from mdvpf._kernel.pool cimport count_records, dispose, resize
from mdvpf._kernel.real_counts cimport real_end, real_start, scale_in, states_in, sums_in
from mdvpf._kernel.real_particles cimport block_scale, reached_of, real_into
from mdvpf._kernel.sections cimport (
    BEHIND, BLOCK_BEHIND, CHILDREN, COLUMNS, COPIES, CURRENT, INTO, KIND, LABEL, LABEL_KIND,
    LABELS, LARGEST_BEHIND, LARGEST_BLOCK_BEHIND, LAST_SYMBOL, N_LABELS, N_SECTIONS, N_STATES,
    NEXT_LABEL, PAIR_STATE, PAIR_SUM, REACHED, ROW_PAIRS, ROWS,
    Snapshot,
    words,
)
from mdvpf._kernel.snapshot cimport (
    Numbering,
    count_blocks, count_states, number_of, write_history, write_weights,
)
from mdvpf._kernel.stretches cimport count_records_of_keys
from mdvpf._kernel.types cimport Clock, Record, System, handle_t


cdef inline uint32_t behind(int32_t scale, const Clock* clock, int64_t largest) noexcept nogil:
    """How many binades a scale is below that of a step."""
    return <uint32_t>min(-<int64_t>scales_apart(scale, clock), largest)


# ---- records -----------------------------------------------------------------------------

cdef inline void number_tree(
    const System* system, Numbering* numbering, Snapshot* snapshot, handle_t handle, uint32_t kind
) noexcept nogil:
    """Number a record, after those that it holds, unless it has a number; write its kind."""
    cdef uint32_t i
    if handle == NONE or number_of(numbering, handle):
        return
    if 0 < kind < LABEL_KIND:
        for i in range(<uint32_t>NODE_SIZE):
            number_tree(system, numbering, snapshot, children(&system.pool, handle)[i], kind - 1)
    (<handle_t*>numbering.order.data)[numbering.n] = handle
    (<uint8_t*>snapshot.section[KIND].data)[numbering.n] = <uint8_t>kind
    numbering.n += 1
    (<uint32_t*>numbering.number.data)[handle - PAGE_UNITS] = <uint32_t>numbering.n


cdef inline Status number_all(
    System* system, Numbering* numbering, Snapshot* snapshot
) noexcept nogil:
    cdef size_t units = (<size_t>system.pool.n_pages - 1) << PAGE_BITS
    cdef size_t n_records = count_records(&system.pool) - count_records_of_keys(system)
    cdef uint32_t* block
    cdef uint32_t i
    cdef int64_t k
    if resize(&system.memory, &numbering.number, units * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &numbering.order, n_records * sizeof(handle_t)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &snapshot.section[KIND], n_records) != OK:
        return NO_MEMORY
    if units:
        memset(numbering.number.data, 0, units * sizeof(uint32_t))
    for k in range(system.n_particles):
        if shares_block(system, k):
            continue
        block = block_of(system, k)
        for i in range(used_groups(system, block)):
            number_tree(system, numbering, snapshot, rows_of(system, block)[i], system.row_depth)
        for i in range(system.root_size):
            number_tree(system, numbering, snapshot, root_of(system, block)[i], system.depth - 1)
        number_tree(system, numbering, snapshot, block[BLOCK_LABELS], LABEL_KIND)
    return OK


# Numbers of records by kind, and of their entries.
cdef struct Sizes:
    size_t n_nodes
    size_t n_groups
    size_t n_pairs
    size_t n_label_records
    size_t n_labels


cdef inline Sizes count_sizes(
    const System* system, const Numbering* numbering, const Snapshot* snapshot
) noexcept nogil:
    cdef const uint8_t* kind = <const uint8_t*>snapshot.section[KIND].data
    cdef const handle_t* order = <const handle_t*>numbering.order.data
    cdef Sizes sizes
    cdef int64_t k
    memset(&sizes, 0, sizeof(Sizes))
    for k in range(numbering.n):
        if kind[k] == 0:
            sizes.n_groups += 1
            sizes.n_pairs += group_at(system, order[k]).shape >> 2
        elif kind[k] == LABEL_KIND:
            sizes.n_label_records += 1
            sizes.n_labels += group_at(system, order[k]).shape >> 2
        else:
            sizes.n_nodes += 1
    return sizes


cdef inline Status reserve_record_sections(
    System* system, const Sizes* sizes, Snapshot* snapshot
) noexcept nogil:
    cdef size_t[N_SECTIONS] n
    cdef uint32_t i
    memset(n, 0, sizeof(n))
    n[CHILDREN] = sizes.n_nodes * NODE_SIZE
    n[ROW_PAIRS] = sizes.n_groups * GROUP
    n[BEHIND] = sizes.n_groups
    n[PAIR_STATE] = sizes.n_pairs
    n[PAIR_SUM] = sizes.n_pairs
    n[N_LABELS] = sizes.n_label_records
    n[NEXT_LABEL] = sizes.n_label_records
    n[LABEL] = sizes.n_labels
    for i in range(<uint32_t>N_SECTIONS):
        if n[i] and resize(
            &system.memory, &snapshot.section[i], n[i] * sizeof(uint32_t)
        ) != OK:
            return NO_MEMORY
    return OK


cdef inline void write_real_group(
    const System* system, const Record* group, size_t index, size_t first, Snapshot* snapshot
) noexcept nogil:
    """Write group number `index`, whose pairs start at `first`."""
    cdef uint32_t n = group.shape >> 2
    cdef uint32_t i
    for i in range(<uint32_t>GROUP):
        words(snapshot, ROW_PAIRS)[index * GROUP + i] = real_end(group, i) - real_start(group, i)
    words(snapshot, BEHIND)[index] = behind(scale_in(group)[0], &system.now, LARGEST_BEHIND)
    memcpy(words(snapshot, PAIR_SUM) + first, sums_in(group), n * sizeof(float))
    for i in range(n):
        words(snapshot, PAIR_STATE)[first + i] = item(states_in(group), group.shape & 3, i)


cdef inline Status write_real_records(
    System* system, const Numbering* numbering, Snapshot* snapshot
) noexcept nogil:
    """Write all records, in the order of their numbers."""
    cdef const uint8_t* kind = <const uint8_t*>snapshot.section[KIND].data
    cdef Sizes sizes = count_sizes(system, numbering, snapshot)
    cdef Sizes written
    cdef const Record* record
    cdef const uint32_t* labels
    cdef handle_t handle
    cdef uint32_t i
    cdef int64_t k
    if reserve_record_sections(system, &sizes, snapshot) != OK:
        return NO_MEMORY
    memset(&written, 0, sizeof(Sizes))
    for k in range(numbering.n):
        handle = (<const handle_t*>numbering.order.data)[k]
        record = group_at(system, handle)
        if kind[k] == 0:
            write_real_group(system, record, written.n_groups, written.n_pairs, snapshot)
            written.n_groups += 1
            written.n_pairs += record.shape >> 2
        elif kind[k] == LABEL_KIND:
            labels = <const uint32_t*>(<const char*>record + sizeof(Record))
            words(snapshot, N_LABELS)[written.n_label_records] = labels[0]
            words(snapshot, NEXT_LABEL)[written.n_label_records] = labels[1]
            if labels[0]:
                memcpy(words(snapshot, LABEL) + written.n_labels, labels + 2,
                       labels[0] * sizeof(uint32_t))
            written.n_label_records += 1
            written.n_labels += labels[0]
        else:
            for i in range(<uint32_t>NODE_SIZE):
                words(snapshot, CHILDREN)[written.n_nodes * NODE_SIZE + i] = number_of(
                    numbering, children(&system.pool, handle)[i])
            written.n_nodes += 1
    return OK


# ---- particles ---------------------------------------------------------------------------

cdef inline Status reserve_particle_sections(System* system, Snapshot* snapshot) noexcept nogil:
    cdef size_t n_blocks = count_blocks(system)
    cdef size_t n_states = count_states(system)
    cdef size_t[N_SECTIONS] n
    cdef uint32_t i
    memset(n, 0, sizeof(n))
    n[COPIES] = n_blocks
    n[N_STATES] = n_blocks
    n[CURRENT] = n_blocks
    n[LABELS] = n_blocks
    n[BLOCK_BEHIND] = n_blocks
    n[ROWS] = n_blocks * row_handles(system, system.most_states)
    n[COLUMNS] = n_blocks * system.root_size
    n[INTO] = n_states
    n[REACHED] = n_states if system.model.by_rows else 0
    n[LAST_SYMBOL] = 1
    for i in range(<uint32_t>N_SECTIONS):
        if n[i] and resize(
            &system.memory, &snapshot.section[i], n[i] * sizeof(uint32_t)
        ) != OK:
            return NO_MEMORY
    return OK


cdef inline void write_block(
    const System* system, const Numbering* numbering, uint32_t* block, int64_t b, size_t first,
    Snapshot* snapshot,
) noexcept nogil:
    """Write a block as entry `b`, whose states start at `first`."""
    cdef uint32_t n_states = block[BLOCK_STATES]
    cdef uint32_t n_rows = row_handles(system, system.most_states)
    cdef uint32_t i
    words(snapshot, COPIES)[b] = 1
    words(snapshot, N_STATES)[b] = n_states
    words(snapshot, CURRENT)[b] = block[BLOCK_CURRENT]
    words(snapshot, LABELS)[b] = number_of(numbering, block[BLOCK_LABELS])
    words(snapshot, BLOCK_BEHIND)[b] = behind(
        block_scale(block), &system.now, LARGEST_BLOCK_BEHIND)
    for i in range(n_rows):
        words(snapshot, ROWS)[b * n_rows + i] = number_of(
            numbering, rows_of(system, block)[i]) if i < used_groups(system, block) else 0
    for i in range(system.root_size):
        words(snapshot, COLUMNS)[b * system.root_size + i] = number_of(
            numbering, root_of(system, block)[i])
    if n_states:
        memcpy(words(snapshot, INTO) + first, real_into(system, block), n_states * sizeof(float))
        if system.model.by_rows:
            memcpy(words(snapshot, REACHED) + first, reached_of(system, block),
                   n_states * sizeof(uint32_t))


cdef inline Status write_real_particles(
    System* system, const Numbering* numbering, Snapshot* snapshot
) noexcept nogil:
    cdef size_t first = 0
    cdef int64_t b = -1
    cdef int64_t k
    if write_weights(system, snapshot) != OK or reserve_particle_sections(system, snapshot) != OK:
        return NO_MEMORY
    for k in range(system.n_particles):
        if shares_block(system, k):
            words(snapshot, COPIES)[b] += 1
            continue
        b += 1
        write_block(system, numbering, block_of(system, k), b, first, snapshot)
        first += block_of(system, k)[BLOCK_STATES]
    words(snapshot, LAST_SYMBOL)[0] = system.last_symbol
    return OK


cdef inline Status take_real_snapshot(System* system, Snapshot* snapshot) noexcept nogil:
    """Fill the empty snapshot. The caller disposes of it, also after a failure."""
    cdef Numbering numbering
    cdef Status status
    memset(&numbering, 0, sizeof(Numbering))
    status = number_all(system, &numbering, snapshot)
    if status == OK:
        status = write_real_records(system, &numbering, snapshot)
    if status == OK:
        status = write_real_particles(system, &numbering, snapshot)
    dispose(&system.memory, &numbering.number)
    dispose(&system.memory, &numbering.order)
    if status == OK:
        status = write_history(system, &numbering, snapshot)
    dispose(&system.memory, &numbering.number)
    dispose(&system.memory, &numbering.order)
    return status
