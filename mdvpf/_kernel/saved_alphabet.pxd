# cython: language_level=3
"""Open alphabets in snapshots: counts of symbols, and the depth of trees.

A snapshot has the particles before the pending symbol of MD-VPA, which is absorbed again when they
are restored. Counts of symbols therefore leave it out. If it was new, it is the last symbol.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from mdvpf._kernel.alphabet cimport reserve_seen, seen_times
from mdvpf._kernel.constants cimport (
    GROUP, MAX_ROOT, MISSING, NO_MEMORY, OK,
    Status,
)
from mdvpf._kernel.counts cimport count_in, row_in
from mdvpf._kernel.growth cimport depth_for, root_for, row_depth_for
from mdvpf._kernel.particles cimport column_of, group_at
from mdvpf._kernel.pool cimport resize
from mdvpf._kernel.restore_records cimport reject
from mdvpf._kernel.sections cimport SEEN, TREE, Snapshot, words
from mdvpf._kernel.shelves cimport lay_out_anew
from mdvpf._kernel.types cimport Row, System, handle_t

cdef extern from *:
    """
    #define MDVPF_MOST_SEEN 9007199254740992
    """
    # Counts up to this are exact as doubles.
    const uint64_t MOST_SEEN "MDVPF_MOST_SEEN"

cdef enum:
    MOST_SYMBOLS = 0x7FFFFFF0   # of an alphabet


cdef inline Status write_alphabet(System* system, Snapshot* snapshot) noexcept nogil:
    """Write the sections of an open alphabet."""
    cdef uint32_t n = system.model.n_symbols
    cdef bint has_pending = system.pending and system.pending_symbol != MISSING
    cdef uint32_t pending = <uint32_t>system.pending_symbol if has_pending else 0
    cdef uint64_t* seen
    if not system.model.is_open:
        return OK
    if has_pending and seen_times(system)[pending - 1] == 1:
        n -= 1
        has_pending = False
    if resize(&system.memory, &snapshot.section[SEEN], n * sizeof(uint64_t)) != OK \
            or resize(&system.memory, &snapshot.section[TREE], 3 * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    words(snapshot, TREE)[0] = system.depth
    words(snapshot, TREE)[1] = system.root_size
    words(snapshot, TREE)[2] = system.row_depth
    if n:
        seen = <uint64_t*>snapshot.section[SEEN].data
        memcpy(seen, seen_times(system), n * sizeof(uint64_t))
        if has_pending:
            seen[pending - 1] -= 1
    return OK


cdef inline bint is_between(uint32_t value, uint32_t least, uint32_t most) noexcept nogil:
    return least <= value <= most


cdef inline Status read_alphabet(System* system, Snapshot* snapshot) noexcept nogil:
    """Set the open alphabet of a new system, and the layout of its blocks, from a snapshot."""
    cdef size_t n = snapshot.section[SEEN].bytes // sizeof(uint64_t)
    cdef const uint64_t* seen = <const uint64_t*>snapshot.section[SEEN].data
    cdef uint32_t* tree = words(snapshot, TREE)
    cdef uint64_t total = 0
    cdef uint32_t last
    cdef size_t i
    if not system.model.is_open:
        return OK
    if snapshot.section[SEEN].bytes % sizeof(uint64_t) or n > MOST_SYMBOLS \
            or snapshot.section[TREE].bytes != 3 * sizeof(uint32_t):
        return reject(snapshot, "the sections of the alphabet have the wrong length")
    for i in range(n):
        if seen[i] == 0 or seen[i] > MOST_SEEN - total:
            return reject(snapshot, "the count of a symbol is out of range")
        total += seen[i]
    if total > <uint64_t>system.n_steps:
        return reject(snapshot, "more symbols were seen than there are steps")
    # Trees may have grown for two more symbols: the pending one, and one after it.
    last = <uint32_t>n
    if not is_between(tree[0], depth_for(last), depth_for(last + 2)) \
            or not is_between(
                tree[2], row_depth_for(system, last), row_depth_for(system, last + 2)):
        return reject(snapshot, "the trees have the wrong depth")
    system.depth = tree[0]
    system.row_depth = tree[2]
    if tree[1] < root_for(system, last) or tree[1] > MAX_ROOT:
        return reject(snapshot, "the root has the wrong size")
    if reserve_seen(system, last) != OK \
            or lay_out_anew(
                system, system.state_capacity, tree[1], system.positions.enabled) != OK:
        return NO_MEMORY
    if n:
        memcpy(seen_times(system), seen, n * sizeof(uint64_t))
    system.model.n_symbols = last
    system.n_seen = total
    return OK


# ---- integer counts ----------------------------------------------------------------------

cdef inline Status check_group_seen(
    const System* system, Snapshot* snapshot, handle_t handle, int64_t first
) noexcept nogil:
    """Check that the columns in a group of a particle sum to the counts of their symbols."""
    cdef uint64_t total
    cdef uint32_t which, i
    cdef Row row
    for which in range(<uint32_t>GROUP):
        row = row_in(group_at(system, handle), which)
        if row.n == 0 or first * GROUP + which == system.model.missing:
            continue
        if first * GROUP + which > system.model.n_symbols:
            return reject(snapshot, "there are counts beyond the alphabet")
        total = 0
        for i in range(row.n):
            total += count_in(&row, i)
        if total != seen_times(system)[first * GROUP + which - 1]:
            return reject(snapshot, "emissions of a symbol differ from the times it was seen")
    return OK


cdef inline Status check_all_seen(
    System* system, Snapshot* snapshot, uint32_t* block
) noexcept nogil:
    """Check that a particle has as many observed emissions as symbols were seen.

    With `check_group_seen`, this implies that every symbol seen has a column.
    """
    cdef Row row = column_of(system, block, system.model.missing)
    cdef uint64_t observed = <uint64_t>system.n_steps
    cdef uint32_t i
    for i in range(row.n):
        observed -= count_in(&row, i)
    if observed != system.n_seen:
        return reject(snapshot, "emissions and symbols seen differ in number")
    return OK
