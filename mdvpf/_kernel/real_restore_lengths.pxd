# cython: language_level=3
"""The lengths of the sections of a system with real counts, and work space for restoring it.

Every length, number and order is checked before it is used: see `real_restore.pxd`.
"""

from libc.math cimport floor
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from mdvpf._kernel.clock cimport forgets
from mdvpf._kernel.constants cimport (
    BAD_SNAPSHOT, GROUP, NO_MEMORY, NODE_SIZE, OK,
    Status,
)
from mdvpf._kernel.particles cimport row_handles
from mdvpf._kernel.pool cimport resize
from mdvpf._kernel.restore_records cimport Records, check_particles, n_words, reject
from mdvpf._kernel.sections cimport (
    BEHIND, BLOCK_BEHIND, CHILDREN, COPIES, INTO, KIND, LABEL, LABEL_KIND, LABELS, LAST_SYMBOL,
    N_LABELS, N_STATES, NEXT_LABEL, PAIR_STATE, PAIR_SUM, REACHED, ROW_PAIRS, ROWS, WEIGHT,
    Snapshot,
    words,
)
from mdvpf._kernel.types cimport System, handle_t

cdef enum:
    MOST_PAIRS = 0x0FFFFFFF     # pairs of a group
    MOST_LABELS = 0x7FFFFFF0    # labels of a path
    LARGEST_FLOAT = 0x7F7FFFFF  # bits of the largest finite float


cdef inline uint32_t kind_of(const Snapshot* snapshot, int64_t record) noexcept nogil:
    return (<const uint8_t*>snapshot.section[KIND].data)[record]


cdef inline bint is_sum(const System* system, uint32_t bits, double least) noexcept nogil:
    """Whether bits are those of a float that is a possible sum of weights, at least `least`."""
    cdef float value
    if bits > LARGEST_FLOAT:
        return False
    memcpy(&value, &bits, sizeof(value))
    return value >= least and (forgets(system) or floor(value) == value)


# ---- lengths -----------------------------------------------------------------------------

cdef inline Status check_words(Snapshot* snapshot, int section, uint64_t n) noexcept nogil:
    """Check that a section has n 32-bit words."""
    if snapshot.section[section].bytes != n * sizeof(uint32_t):
        return reject(snapshot, "a section has the wrong length")
    return OK


cdef inline Status check_states(
    const System* system, Snapshot* snapshot, Records* records
) noexcept nogil:
    """Check the sections with an entry for each state or each block; set the most states."""
    cdef uint64_t n_blocks = <uint64_t>n_words(snapshot, COPIES)
    cdef uint64_t n_states = 0
    cdef uint64_t k
    for k in range(n_blocks):
        n_states += words(snapshot, N_STATES)[k]
        records.most_states = max(records.most_states, words(snapshot, N_STATES)[k])
    if records.most_states > MOST_LABELS:
        return reject(snapshot, "a particle has too many states")
    records.row_groups = row_handles(system, records.most_states)
    if check_words(snapshot, INTO, n_states) != OK \
            or check_words(snapshot, REACHED, n_states if system.model.by_rows else 0) != OK \
            or check_words(snapshot, ROWS, n_blocks * records.row_groups) != OK \
            or check_words(snapshot, LABELS, n_blocks) != OK \
            or check_words(snapshot, BLOCK_BEHIND, n_blocks) != OK \
            or check_words(snapshot, LAST_SYMBOL, 1) != OK:
        return BAD_SNAPSHOT
    if words(snapshot, LAST_SYMBOL)[0] > system.model.n_symbols:
        return reject(snapshot, "the last symbol is out of range")
    return OK


cdef inline Status check_record_lengths(
    const System* system, Snapshot* snapshot, Records* records
) noexcept nogil:
    """Check the kinds of the records, and the lengths of their sections."""
    cdef uint32_t most_levels = max(system.row_depth, system.depth - 1)
    cdef uint64_t n_pairs = 0
    cdef uint64_t n_labels = 0
    cdef uint64_t n_label_records = 0
    cdef int64_t k
    records.n = <int64_t>snapshot.section[KIND].bytes
    if records.n > 0x7FFFFFFF:
        return reject(snapshot, "there are too many records")
    for k in range(records.n):
        if kind_of(snapshot, k) == 0:
            records.n_groups += 1
        elif kind_of(snapshot, k) == LABEL_KIND:
            n_label_records += 1
        elif kind_of(snapshot, k) <= most_levels:
            records.n_nodes += 1
        else:
            return reject(snapshot, "a record has an unknown kind")
    if check_words(snapshot, ROW_PAIRS, <uint64_t>records.n_groups * GROUP) != OK \
            or check_words(snapshot, BEHIND, <uint64_t>records.n_groups) != OK \
            or check_words(snapshot, CHILDREN, <uint64_t>records.n_nodes * NODE_SIZE) != OK \
            or check_words(snapshot, N_LABELS, n_label_records) != OK \
            or check_words(snapshot, NEXT_LABEL, n_label_records) != OK:
        return BAD_SNAPSHOT
    for k in range(GROUP * records.n_groups):
        n_pairs += words(snapshot, ROW_PAIRS)[k]
    for k in range(<int64_t>n_label_records):
        n_labels += words(snapshot, N_LABELS)[k]
    if check_words(snapshot, PAIR_STATE, n_pairs) != OK \
            or check_words(snapshot, PAIR_SUM, n_pairs) != OK \
            or check_words(snapshot, LABEL, n_labels) != OK:
        return BAD_SNAPSHOT
    return OK


cdef inline Status check_real_lengths(
    const System* system, Snapshot* snapshot, Records* records
) noexcept nogil:
    """Check the lengths of all sections but those of the history; set the sizes in `records`."""
    if check_particles(
        system, snapshot, snapshot.section[WEIGHT].bytes // sizeof(double)
    ) != OK:
        return BAD_SNAPSHOT
    if check_states(system, snapshot, records) != OK:
        return BAD_SNAPSHOT
    return check_record_lengths(system, snapshot, records)


cdef inline Status reserve_real_records(System* system, Records* records) noexcept nogil:
    cdef size_t n = <size_t>records.n
    cdef size_t states = records.most_states * sizeof(uint64_t)
    if resize(&system.memory, &records.work.handles, n * sizeof(handle_t)) != OK \
            or resize(&system.memory, &records.work.locations, n * sizeof(uint64_t)) != OK \
            or resize(&system.memory, &records.work.index, n * sizeof(uint32_t)) != OK \
            or resize(&system.memory, &records.work.below, n * sizeof(uint32_t)) != OK \
            or resize(&system.memory, &records.work.times, n * sizeof(uint64_t)) != OK \
            or resize(&system.memory, &records.work.last_index, n * sizeof(uint32_t)) != OK \
            or resize(&system.memory, &records.work.latest_row, states) != OK \
            or resize(&system.memory, &records.work.reached, states) != OK \
            or resize(&system.memory, &records.work.emitted, states) != OK \
            or resize(&system.memory, &records.work.opened, states) != OK:
        return NO_MEMORY
    if n:
        memset(records.work.locations.data, 0, n * sizeof(uint64_t))
        memset(records.work.times.data, 0, n * sizeof(uint64_t))
    if states:
        memset(records.work.latest_row.data, 0, states)
    return OK
