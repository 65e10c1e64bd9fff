# cython: language_level=3
"""Release: free the numbers of states that have faded away.

A state that is gone is not offered and is in no sum, but it still has a number. When a particle has
many such states, its tables are rewritten: the other states keep their order and get new numbers,
and a record of labels stores the old ones. Equal tables of different particles share records again.
Sums over real counts are sequential and states that are gone add zeros, so renumbering changes no
bit of any result. Where memory is short, a particle may therefore be left as it is.
"""

from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memset

from mdvpf._kernel.clock cimport fading
from mdvpf._kernel.constants cimport (
    BLOCK_CURRENT, BLOCK_LABELS, BLOCK_STATES, FAINT, GONE, GROUP, GROUP_BITS, NODE_BITS,
    NODE_SIZE, NODE_UNITS, NONE, NO_MEMORY, OK,
    Status,
)
from mdvpf._kernel.counts cimport children, release_group, release_tree
from mdvpf._kernel.merging cimport FIRST_ROW, KeptRecord
from mdvpf._kernel.particles cimport block_of, group_at, root_of, rows_of, shares_block, used_groups
from mdvpf._kernel.pool cimport count_records, dispose, pages_for, reserve_pages, resize
from mdvpf._kernel.real_counts cimport (
    LABELLED, label_units, real_end, real_start, scale_in, sums_in,
)
from mdvpf._kernel.real_particles cimport is_gone, live_states, reached_of, real_into
from mdvpf._kernel.release_records cimport DROPPED, Release, gather_rows, make_labels, renumber_tree
from mdvpf._kernel.statistics cimport release_row, statistics_of
from mdvpf._kernel.types cimport Record, System, handle_t

cdef enum:
    RELEASE_INTERVAL = 256  # steps between two searches for states to release
    FEWEST_RELEASED = 4     # fewer states, or less than a quarter of them, are not released


# ---- the states to release ---------------------------------------------------------------

cdef inline bint has_live_entry(
    const System* system, handle_t handle, uint32_t level, uint32_t first, uint32_t last
) noexcept nogil:
    """Whether rows first..last of some group below a handle still have a transition."""
    cdef const Record* group
    cdef double factor
    cdef uint32_t i
    if handle == NONE:
        return False
    if level > 0:
        for i in range(<uint32_t>NODE_SIZE):
            if has_live_entry(system, children(&system.pool, handle)[i], level - 1, first, last):
                return True
        return False
    group = group_at(system, handle)
    factor = fading(scale_in(group)[0], &system.now)
    for i in range(real_start(group, first), real_end(group, last)):
        if sums_in(group)[i] * factor >= GONE:
            return True
    return False


cdef inline bint is_released(const System* system, uint32_t* block, uint32_t state) noexcept nogil:
    """Whether neither entries into a state nor transitions from it are left."""
    cdef uint32_t row = state + 1
    if not is_gone(system, block, state, &system.now):
        return False
    if system.model.mealy:
        return not has_live_entry(
            system, rows_of(system, block)[row], system.row_depth, 0, GROUP - 1)
    return not has_live_entry(
        system, rows_of(system, block)[row >> GROUP_BITS], 0, row & (GROUP - 1), row & (GROUP - 1))


cdef inline uint32_t number_anew(
    const System* system, uint32_t* block, uint32_t* numbers
) noexcept nogil:
    """Write the new numbers of the states of a particle; return how many states are left."""
    cdef uint32_t n = 0
    cdef uint32_t state
    for state in range(block[BLOCK_STATES]):
        numbers[state] = DROPPED
        if not is_released(system, block, state):
            numbers[state] = n
            n += 1
    return n


# ---- a particle --------------------------------------------------------------------------

cdef inline size_t count_below(
    const System* system, handle_t handle, uint32_t level
) noexcept nogil:
    """The number of records at and below a handle."""
    cdef size_t n = 1
    cdef int i
    if handle == NONE:
        return 0
    if level > 0:
        for i in range(NODE_SIZE):
            n += count_below(system, children(&system.pool, handle)[i], level - 1)
    return n


cdef inline Status reserve_release(
    System* system, Release* release, uint32_t* block
) noexcept nogil:
    """Make room for the new records of a particle."""
    cdef size_t n = used_groups(system, block) + 2
    cdef uint32_t i
    for i in range(used_groups(system, block)):
        n += count_below(system, rows_of(system, block)[i], system.row_depth)
    for i in range(system.root_size):
        n += count_below(system, root_of(system, block)[i], system.depth - 1)
    if 2 * (release.n_kept + n) > release.mask:
        return NO_MEMORY  # the table is full: other particles wait for the next release
    # A new group has rows of up to four old ones, and its items may be wider.
    return reserve_pages(
        &system.pool,
        pages_for(n, max(5 * system.pool.largest + 8, <uint32_t>NODE_UNITS))
        + pages_for(1, label_units(block[BLOCK_STATES] << 2 | LABELLED)),
    )


cdef inline uint32_t gather_moore(
    System* system, Release* release, uint32_t* block
) noexcept nogil:
    """Make the groups of rows of the states that are left; return their number."""
    cdef const uint32_t* numbers = <const uint32_t*>release.numbers.data
    cdef const handle_t* rows = rows_of(system, block)
    cdef handle_t* fresh = <handle_t*>release.fresh.data
    cdef handle_t[GROUP] groups
    cdef uint32_t[GROUP] which
    cdef uint32_t n = 0         # new groups
    cdef uint32_t filled = 0    # rows of the group being filled
    cdef uint32_t row           # old number of a row
    memset(groups, 0, sizeof(groups))
    memset(which, 0, sizeof(which))
    for row in range(block[BLOCK_STATES] + 1):
        if row == 0 or numbers[row - 1] != DROPPED:
            groups[filled] = rows[row >> GROUP_BITS]
            which[filled] = row & (GROUP - 1)
            filled += 1
        if filled == GROUP or (filled and row == block[BLOCK_STATES]):
            fresh[n] = gather_rows(system, release, groups, which, FIRST_ROW | n, GONE)
            n += 1
            filled = 0
            memset(groups, 0, sizeof(groups))
    return n


cdef inline uint32_t gather_mealy(
    System* system, Release* release, uint32_t* block
) noexcept nogil:
    """Make the trees of rows of the states that are left; return their number."""
    cdef const uint32_t* numbers = <const uint32_t*>release.numbers.data
    cdef handle_t* fresh = <handle_t*>release.fresh.data
    cdef uint32_t n = 0
    cdef uint32_t row
    for row in range(block[BLOCK_STATES] + 1):
        if row == 0 or numbers[row - 1] != DROPPED:
            fresh[n] = renumber_tree(
                system, release, rows_of(system, block)[row], system.row_depth, FIRST_ROW | n, GONE)
            n += 1
    return n


cdef inline void renumber_statistics(
    System* system, uint32_t* block, uint32_t state, uint32_t number
) noexcept nogil:
    """Move the row of statistics of a state, or release it."""
    cdef uint32_t* rows = statistics_of(system, block)
    if number == DROPPED:
        release_row(system, rows[state])
    else:
        rows[number] = rows[state]


cdef inline void renumber_entries(
    System* system, const uint32_t* numbers, uint32_t* block, uint32_t n_left
) noexcept nogil:
    """Move what a block stores for each state to the place of its new number."""
    cdef float* into = real_into(system, block)
    cdef uint32_t* reached = reached_of(system, block)
    cdef uint32_t n_states = block[BLOCK_STATES]
    cdef uint32_t state
    for state in range(n_states):
        if system.numbers.n_channels:
            renumber_statistics(system, block, state, numbers[state])
        if numbers[state] != DROPPED:
            into[numbers[state]] = into[state]
            if system.model.by_rows:
                reached[numbers[state]] = reached[state]
    memset(into + n_left, 0, (n_states - n_left) * sizeof(float))
    if system.model.by_rows:
        memset(reached + n_left, 0, (n_states - n_left) * sizeof(uint32_t))
    if block[BLOCK_CURRENT]:
        state = numbers[block[BLOCK_CURRENT] - 1]
        block[BLOCK_CURRENT] = 0 if state == DROPPED else state + 1
    block[BLOCK_STATES] = n_left


cdef inline void renumber(
    System* system, Release* release, uint32_t* block, uint32_t n_left
) noexcept nogil:
    """Rewrite the tables of a particle. `reserve_release` has made room."""
    cdef handle_t* rows = rows_of(system, block)
    cdef handle_t* root = root_of(system, block)
    cdef handle_t old
    cdef uint32_t n_old = used_groups(system, block)
    cdef uint32_t i, n
    if system.model.mealy:
        n = gather_mealy(system, release, block)
    else:
        n = gather_moore(system, release, block)
    for i in range(n_old):
        release_tree(&system.pool, rows[i], system.row_depth)
        rows[i] = (<handle_t*>release.fresh.data)[i] if i < n else <handle_t>NONE
    for i in range(system.root_size):
        old = root[i]
        root[i] = renumber_tree(system, release, old, system.depth - 1,
                                i << (NODE_BITS * (system.depth - 1)), FAINT)
        release_tree(&system.pool, old, system.depth - 1)
    old = block[BLOCK_LABELS]
    block[BLOCK_LABELS] = make_labels(system, release, block, n_left)
    release_group(&system.pool, old)
    renumber_entries(system, <const uint32_t*>release.numbers.data, block, n_left)


# ---- all particles -----------------------------------------------------------------------

cdef inline Status prepare_release(System* system, Release* release) noexcept nogil:
    cdef size_t n = 64
    memset(release, 0, sizeof(Release))
    while n < 8 * count_records(&system.pool):
        n *= 2
    release.mask = n - 1
    if resize(&system.memory, &release.kept, n * sizeof(KeptRecord)) != OK:
        return NO_MEMORY
    memset(release.kept.data, 0, n * sizeof(KeptRecord))
    if resize(&system.memory, &release.numbers, system.state_capacity * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    return resize(&system.memory, &release.fresh, system.n_groups * sizeof(handle_t))


cdef inline void tally_states(System* system) noexcept nogil:
    """Recompute the totals of states over all particles."""
    cdef int64_t k
    system.most_states = 0
    system.n_potentials = 0
    for k in range(system.n_particles):
        system.most_states = max(system.most_states, block_of(system, k)[BLOCK_STATES])
        system.n_potentials += block_of(system, k)[BLOCK_STATES] + 1


cdef inline bint may_release(const System* system, uint32_t* block) noexcept nogil:
    cdef uint32_t n_gone = block[BLOCK_STATES] - live_states(system, block, &system.now)
    return n_gone >= FEWEST_RELEASED and 4 * n_gone >= block[BLOCK_STATES]


cdef inline void release_states(System* system) noexcept nogil:
    """Release states of all particles that have many to release. Call this after a commit."""
    cdef Release release
    cdef uint32_t* block
    cdef uint32_t n_left
    cdef int64_t k
    cdef bint is_prepared = False
    for k in range(system.n_particles):
        block = block_of(system, k)
        if shares_block(system, k) or not may_release(system, block):
            continue
        if not is_prepared:
            is_prepared = True
            if prepare_release(system, &release) != OK:
                break
        n_left = number_anew(system, block, <uint32_t*>release.numbers.data)
        if n_left == block[BLOCK_STATES]:
            continue
        if reserve_release(system, &release, block) != OK:
            break
        renumber(system, &release, block, n_left)
        system.is_relabelled = True
    if is_prepared:
        dispose(&system.memory, &release.kept)
        dispose(&system.memory, &release.numbers)
        dispose(&system.memory, &release.fresh)
        tally_states(system)
