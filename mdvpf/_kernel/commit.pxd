# cython: language_level=3
"""Commit: replace the particles by their chosen children.

`reserve_commit` (`reserve.pxd`) has reserved all memory that the children may need, so nothing here
can fail. Parents without children are released first, so that groups which only they shared can be
written in place. Then, parent by parent, every child gets a copy of the parent's block, which holds
the same groups; after that each child is written. The last child to write a group therefore writes
it in place, unless another particle holds it. Children that make the same update share the result
(`shared_updates.pxd`).

A block is copied even for an only child: blocks in the order of particles are read faster than
blocks scattered over memory. Consecutive equal children, which resampling produces, share one
block, so it is scored and moved once.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memcpy, memset

from mdvpf._kernel.clock cimport set_clocks
from mdvpf._kernel.constants cimport (
    BLOCK_CURRENT, BLOCK_LABELS, BLOCK_LEAF, BLOCK_STATES, GROUP_BITS, MISSING, NONE, SHELF_BITS,
    prefetch, unlikely,
)
from mdvpf._kernel.counts cimport hold_all, release_group, release_tree, root_index
from mdvpf._kernel.emission cimport spread_term
from mdvpf._kernel.history cimport append_node, begin_generation, release_leaf
from mdvpf._kernel.labels cimport label_of
from mdvpf._kernel.particles cimport (
    FETCH_BLOCK, FETCH_FROM, FETCH_ROWS, block_in, block_of, fetch_block, fetch_rows, into_of,
    root_of, rows_of, spread_in, used_groups,
)
from mdvpf._kernel.pool cimport at, recycle
from mdvpf._kernel.positions cimport stretches_of
from mdvpf._kernel.real_commit cimport move_real, recount_all
from mdvpf._kernel.real_particles cimport live_states
from mdvpf._kernel.release_states cimport release_states
from mdvpf._kernel.shared_updates cimport add_at, forget_updates
from mdvpf._kernel.shelves cimport free_shelf, take_slot
from mdvpf._kernel.statistics cimport drop_prepared, hold_statistics, release_statistics
from mdvpf._kernel.stretches cimport write_positions
from mdvpf._kernel.types cimport Buffer, Survivors, System, handle_t

cdef enum:
    REFRESH_INTERVAL = 4096   # steps between two recomputations of the spreads
    SHARES_BLOCK = 0xFFFFFFFFu  # in place of a number of children: counted at the particle before


# ---- children ----------------------------------------------------------------------------

cdef inline void fetch_groups(const System* system, int64_t particle) noexcept nogil:
    """Prefetch the headers of all groups and nodes in the block of a particle."""
    cdef uint32_t* block = block_of(system, particle)
    cdef const handle_t* handles = rows_of(system, block)
    cdef uint32_t i
    for i in range(system.n_groups + system.root_size):
        if handles[i] != NONE:
            prefetch(at(&system.pool, handles[i]))


cdef inline void release_particle(System* system, int64_t particle) noexcept nogil:
    cdef uint32_t* block = block_of(system, particle)
    cdef handle_t* rows = rows_of(system, block)
    cdef handle_t* root = root_of(system, block)
    cdef uint32_t i
    for i in range(used_groups(system, block)):
        if unlikely(system.row_depth > 0):
            release_tree(&system.pool, rows[i], system.row_depth)
        else:
            release_group(&system.pool, rows[i])
    if unlikely(system.model.real):
        release_group(&system.pool, block[BLOCK_LABELS])
        if system.numbers.n_channels:
            release_statistics(system, block)
    if unlikely(system.positions.enabled):
        release_tree(&system.pool, stretches_of(system, block)[0], system.positions.levels)
    for i in range(system.root_size):
        release_tree(&system.pool, root[i], system.depth - 1)
    release_leaf(&system.history, block[BLOCK_LEAF], system.history.generation)


cdef inline uint32_t* copy_block(
    System* system, const uint32_t* parent, uint32_t* slot
) noexcept nogil:
    """Copy a block to the next slot, without counting references to its records and leaf."""
    cdef uint32_t* child
    slot[0] = take_slot(system)
    child = block_in(system, slot[0])
    memcpy(child, parent, system.stride * sizeof(uint32_t))
    return child


cdef inline void hold_groups(System* system, uint32_t* block) noexcept nogil:
    hold_all(&system.pool, rows_of(system, block), used_groups(system, block))
    hold_all(&system.pool, root_of(system, block), system.root_size)
    if unlikely(system.model.real):
        hold_all(&system.pool, &block[BLOCK_LABELS], 1)
        if system.numbers.n_channels:
            hold_statistics(system, block)
    if unlikely(system.positions.enabled):
        hold_all(&system.pool, stretches_of(system, block), 1)


cdef inline void refresh_spread(System* system) noexcept nogil:
    """Recompute the spreads, so that rounding errors do not add up over a long stream."""
    cdef uint32_t* block
    cdef double spread
    cdef uint32_t i
    cdef int64_t k
    for k in range(system.n_particles):
        block = block_of(system, k)
        spread = 0.0
        for i in range(block[BLOCK_STATES]):
            spread += spread_term(&system.model, into_of(system, block)[i])
        spread_in(block)[0] = spread


cdef inline void move_block(
    System* system, uint32_t* block, uint32_t state, uint32_t emitted
) noexcept nogil:
    """Move the particle of the block to the state on the symbol."""
    cdef uint32_t* into = into_of(system, block)
    cdef uint32_t row = block[BLOCK_CURRENT]
    cdef handle_t* columns = &root_of(system, block)[root_index(system, emitted)]
    if unlikely(system.model.real):
        move_real(system, block, state, emitted)
        return
    add_at(system, &rows_of(system, block)[row >> GROUP_BITS], 0, row, state)
    add_at(system, columns, system.depth - 1, emitted, state)
    if state == block[BLOCK_STATES]:
        block[BLOCK_STATES] += 1
    spread_in(block)[0] -= spread_term(&system.model, into[state])
    into[state] += 1
    spread_in(block)[0] += spread_term(&system.model, into[state])
    block[BLOCK_CURRENT] = state + 1
    if system.history.enabled:
        block[BLOCK_LEAF] = append_node(&system.history, block[BLOCK_LEAF], state)


# Totals over the children.
cdef struct Tally:
    int64_t n_candidates
    int64_t n_potentials
    uint32_t most_labels
    uint32_t most_states
    double mean_states


cdef inline void tally_child(
    const System* system, Tally* tally, uint32_t* block, double weight
) noexcept nogil:
    cdef uint32_t n_states = block[BLOCK_STATES]
    tally.most_states = n_states if n_states > tally.most_states else tally.most_states
    if unlikely(system.model.real):
        tally.n_potentials += n_states + 1
        tally.most_labels = max(tally.most_labels, label_of(system, block, n_states))
        n_states = live_states(system, block, &system.after)
    tally.n_candidates += n_states + 1
    tally.mean_states += weight * n_states


cdef inline void make_children(
    System* system, const Survivors* chosen, int64_t first, int64_t last, uint32_t emitted
) noexcept nogil:
    """Make the children first..last - 1, which are all the children of one block."""
    cdef const uint32_t* states = chosen.state
    cdef uint32_t* new_slot = <uint32_t*>system.work.new_slot.data
    cdef uint32_t* parent = block_of(system, chosen.parent[first])
    cdef uint32_t leaf = parent[BLOCK_LEAF]
    cdef int64_t i
    for i in range(first, last):
        if i > first and states[i] == states[i - 1]:
            new_slot[i] = new_slot[i - 1]
        else:
            copy_block(system, parent, &new_slot[i])
            if i > first:  # the first child takes over the parent's references
                hold_groups(system, parent)
    for i in range(first, last):
        if i == first or states[i] != states[i - 1]:
            move_block(system, block_in(system, new_slot[i]), states[i], emitted)
    if system.history.enabled and system.history.lag != 1 and leaf != NONE:
        (<uint32_t*>system.history.tree.refs.data)[leaf] -= 1  # the children hold it now


cdef inline void count_children(System* system, const Survivors* chosen) noexcept nogil:
    """Count the children of each block, at the first of the particles that share it."""
    cdef const uint32_t* parents = chosen.parent
    cdef const uint32_t* slot = <const uint32_t*>system.stored.slot.data
    cdef uint32_t* n_children = <uint32_t*>system.work.n_children.data
    cdef int64_t k
    memset(n_children, 0, <size_t>system.n_particles * sizeof(uint32_t))
    for k in range(chosen.n):
        n_children[parents[k]] += 1
    for k in range(system.n_particles - 1, 0, -1):
        if slot[k] == slot[k - 1]:
            n_children[k - 1] += n_children[k]
            n_children[k] = SHARES_BLOCK


cdef inline void commit(System* system, const Survivors* chosen, int32_t symbol) noexcept nogil:
    """Replace the particles by the chosen children. Room was made by `reserve_commit`."""
    cdef const uint32_t* parents = chosen.parent
    cdef uint32_t emitted = system.model.missing if symbol == MISSING else <uint32_t>symbol
    cdef size_t n = <size_t>chosen.n
    cdef const uint32_t* states = chosen.state
    cdef const double* weight = chosen.weight
    cdef uint32_t* n_children = <uint32_t*>system.work.n_children.data
    cdef uint32_t* slot = <uint32_t*>system.stored.slot.data
    cdef uint32_t* new_slot = <uint32_t*>system.work.new_slot.data
    cdef uint32_t* child
    cdef uint32_t shelf = slot[0] >> SHELF_BITS
    cdef int64_t n_far = system.n_particles - FETCH_BLOCK if system.n_particles >= FETCH_FROM else 0
    cdef int64_t first = 0
    cdef int64_t last, i, k
    cdef Tally tally
    cdef Buffer swap
    tally.n_candidates = 0
    tally.n_potentials = 0
    tally.most_labels = 0
    tally.most_states = 0
    tally.mean_states = 0.0
    count_children(system, chosen)
    for k in range(system.n_particles):
        if k < n_far and n_children[k + FETCH_BLOCK] == 0:
            fetch_block(system, k + FETCH_BLOCK)
        if k + FETCH_ROWS < system.n_particles and n_children[k + FETCH_ROWS] == 0:
            fetch_groups(system, k + FETCH_ROWS)
        if n_children[k] == 0:
            release_particle(system, k)
    begin_generation(&system.history)
    system.next_slot = 0
    for k in range(system.n_particles):
        if slot[k] >> SHELF_BITS != shelf:
            free_shelf(system, shelf)
            shelf = slot[k] >> SHELF_BITS
        if k < n_far:
            fetch_block(system, k + FETCH_BLOCK)
        if k + FETCH_ROWS < system.n_particles:
            if n_children[k + FETCH_ROWS] == 1:
                fetch_rows(system, k + FETCH_ROWS, symbol)
            elif 1 < n_children[k + FETCH_ROWS] < SHARES_BLOCK:
                fetch_groups(system, k + FETCH_ROWS)
        if n_children[k] == SHARES_BLOCK:
            continue
        last = first + n_children[k]
        if n_children[k] == 1 and not system.history.enabled:  # most often
            child = copy_block(system, block_in(system, slot[k]), &new_slot[first])
            move_block(system, child, states[first], emitted)
            tally_child(system, &tally, child, weight[first])
        elif n_children[k]:
            make_children(system, chosen, first, last, emitted)
            for i in range(first, last):
                tally_child(system, &tally, block_in(system, new_slot[i]), weight[i])
        first = last
    free_shelf(system, shelf)
    system.n_candidates = tally.n_candidates
    system.n_potentials = tally.n_potentials if system.model.real else tally.n_candidates
    system.mean_states = tally.mean_states
    system.most_states = tally.most_states
    system.most_labels = tally.most_labels
    swap = system.stored.slot
    system.stored.slot = system.work.new_slot
    system.work.new_slot = swap
    memcpy(system.stored.weight.data, chosen.weight, n * sizeof(double))
    system.logarithmic = chosen.logarithmic
    if chosen.logarithmic:
        memcpy(system.stored.log_weight.data, chosen.log_weight, n * sizeof(double))
    memcpy(system.stored.ancestors.data, parents, n * sizeof(uint32_t))
    system.n_particles = chosen.n
    system.n_steps += 1
    if symbol == MISSING and not system.numbers.n_channels:
        system.seen_missing = True
    system.last_symbol = emitted
    forget_updates(system)
    drop_prepared(system)
    if system.positions.enabled:
        write_positions(system, emitted)
    recycle(&system.pool)
    if system.model.real:
        set_clocks(system)
        recount_all(system)
        if system.n_steps % system.release_interval == system.release_interval // 2:
            release_states(system)
    elif system.n_steps % REFRESH_INTERVAL == 0:
        refresh_spread(system)
