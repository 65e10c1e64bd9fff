# cython: language_level=3
"""Reservation: allocate all memory that a step may need before anything changes.

Only these functions of a step may run out of memory, and then the state of the filter is unchanged.
Buffers keep their content when they grow.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memset

from mdvpf._kernel.buffers cimport find_arrays, make_room
from mdvpf._kernel.constants cimport (
    ALGORITHM_LEARNING, ALGORITHM_MDVPA, ALGORITHM_OPTIMAL, ALGORITHM_SMC, BLOCK_STATES,
    COUNT_LIMIT, NO_MEMORY, NODE_UNITS, OK,
    Status,
)
from mdvpf._kernel.history cimport reserve_history
from mdvpf._kernel.particles cimport block_in, block_of, into_of
from mdvpf._kernel.pool cimport pages_for, reserve_pages
from mdvpf._kernel.shared_updates cimport reserve_updates
from mdvpf._kernel.shelves cimport move_blocks, reserve_shelves, take_slot
from mdvpf._kernel.statistics cimport reserve_rows
from mdvpf._kernel.stretches cimport reserve_positions
from mdvpf._kernel.threads cimport reserve_threads
from mdvpf._kernel.types cimport (
    Candidate, RowTotal, SurvivorBuffers, Survivors, System, WorkBuffers,
)

cdef enum:
    MOST_PLACES = 1073741824  # of a hash table of labels: twice as many still fit in 32 bits


cdef inline bint is_choosing(const System* system) noexcept nogil:
    """Whether survivors are chosen from candidates, not drawn."""
    return system.algorithm != ALGORITHM_SMC and system.algorithm != ALGORITHM_LEARNING


# ---- particles ---------------------------------------------------------------------------

cdef inline Status grow_particles(System* system, int64_t n_particles) noexcept nogil:
    """Make room for the data of every particle outside of its block."""
    cdef size_t n = <size_t>n_particles
    if make_room(system, &system.stored.slot, n, sizeof(uint32_t)) \
            and make_room(system, &system.stored.ancestors, n, sizeof(uint32_t)) \
            and make_room(system, &system.stored.weight, n, sizeof(double)) \
            and make_room(system, &system.stored.log_weight, n, sizeof(double)):
        return OK
    return NO_MEMORY


cdef inline Status start_particles(System* system) noexcept nogil:
    """Make the particles of a new system, which all share one empty block."""
    cdef int64_t n = system.budget if system.duplicating else 1
    cdef uint32_t slot
    cdef int64_t k
    if grow_particles(system, n) != OK or reserve_shelves(system, 1) != OK:
        return NO_MEMORY
    slot = take_slot(system)
    memset(block_in(system, slot), 0, system.stride * sizeof(uint32_t))
    for k in range(n):
        (<uint32_t*>system.stored.slot.data)[k] = slot
        (<uint32_t*>system.stored.ancestors.data)[k] = <uint32_t>k
        (<double*>system.stored.weight.data)[k] = 1.0 / n
    system.n_particles = n
    system.n_candidates = n
    system.n_potentials = n
    return OK


cdef inline Status reserve_each(System* system, int64_t n_particles) noexcept nogil:
    """Make room for the numbers that a step computes for every particle."""
    cdef size_t n = <size_t>n_particles
    if is_choosing(system) \
            and not make_room(system, &system.work.symbol_probability, n, sizeof(double)):
        return NO_MEMORY
    if make_room(system, &system.work.new_slot, n, sizeof(uint32_t)) \
            and make_room(system, &system.work.n_children, n, sizeof(uint32_t)):
        return OK
    return NO_MEMORY


cdef inline bint reserve_survivors(
    System* system, SurvivorBuffers* survivors, size_t n
) noexcept nogil:
    return make_room(system, &survivors.parent, n, sizeof(uint32_t)) \
        and make_room(system, &survivors.state, n, sizeof(uint32_t)) \
        and make_room(system, &survivors.weight, n, sizeof(double)) \
        and make_room(system, &survivors.log_weight, n, sizeof(double))


# ---- work space --------------------------------------------------------------------------

cdef inline bint reserve_scratch(System* system, uint32_t n_states) noexcept nogil:
    cdef WorkBuffers* work = &system.work
    cdef size_t states = n_states + 8
    cdef size_t i
    if states * sizeof(double) > work.ones.bytes:
        if not make_room(system, &work.ones, states, sizeof(double)):
            return False
        for i in range(work.ones.bytes // sizeof(double)):
            (<double*>work.ones.data)[i] = 1.0
    return make_room(system, &work.own.transition, states, sizeof(double)) \
        and make_room(system, &work.own.emission, states, sizeof(double)) \
        and make_room(system, &work.own.stamp, states, sizeof(uint64_t)) \
        and make_room(system, &work.own.emitted, states, sizeof(uint32_t)) \
        and make_room(system, &work.overlay_into, states, sizeof(uint32_t)) \
        and make_room(system, &work.overlay_row, 2 * states, sizeof(uint32_t)) \
        and make_room(system, &work.overlay_column, 2 * states, sizeof(uint32_t)) \
        and make_room(system, &work.overlay_missing, 2 * states, sizeof(uint32_t)) \
        and (not system.model.real or reserve_real(system, states))


cdef inline bint reserve_real(System* system, size_t states) noexcept nogil:
    """Make room to view particles with real counts."""
    cdef WorkBuffers* work = &system.work
    return make_room(system, &work.own.real_into, states, sizeof(double)) \
        and make_room(system, &work.own.real_offered, states, sizeof(double)) \
        and make_room(system, &work.own.real_emitted, states, sizeof(double)) \
        and make_room(system, &work.own.row_states, states, sizeof(uint32_t)) \
        and make_room(system, &work.own.row_counts, states, sizeof(double)) \
        and make_room(system, &work.own.column_states, states, sizeof(uint32_t)) \
        and make_room(system, &work.own.column_counts, states, sizeof(double))


cdef inline Status reserve_scores(System* system, uint32_t n_states) noexcept nogil:
    """Make room to score the candidates of one particle with at most `n_states` states."""
    cdef bint done = reserve_scratch(system, n_states)
    find_arrays(system)  # also after a failure: some buffers may have moved
    return OK if done else NO_MEMORY


cdef inline uint64_t places_for(const System* system, uint32_t n_labels) noexcept nogil:
    """The largest hash table of labels that a look-ahead may need: see `real_lookahead.pxd`."""
    cdef uint64_t most = n_labels
    cdef uint64_t n = 16
    if system.is_relabelled:  # particles may have different labels
        most = min(most * <uint64_t>max(system.n_particles, 1), <uint64_t>system.most_labels + 2)
    while n < 4 * (most + n_labels + 2):
        n *= 2
    return n


cdef inline bint reserve_lookahead(
    System* system, size_t n_particles, size_t n_candidates, uint32_t n_labels
) noexcept nogil:
    cdef WorkBuffers* work = &system.work
    cdef size_t n = n_labels    # length of the arrays by label
    if system.model.real:
        n = places_for(system, n_labels)
        if n > MOST_PLACES or not make_room(system, &work.labels, n, sizeof(uint32_t)) \
                or not make_room(system, &work.candidate_place, n_candidates, sizeof(uint32_t)):
            return False
    else:
        system.lookahead.n_labels = n_labels
    return make_room(system, &system.pending_step.row_total, n_particles, sizeof(RowTotal)) \
        and make_room(system, &work.potential, n_candidates, sizeof(int64_t)) \
        and make_room(system, &work.tilted, n_candidates, sizeof(Candidate)) \
        and make_room(system, &work.own.log_sum, n, sizeof(int64_t)) \
        and make_room(system, &work.own.share_sum, n, sizeof(int64_t)) \
        and make_room(system, &work.own.n_with, n, sizeof(int64_t)) \
        and make_room(system, &work.own.largest, n, sizeof(int64_t)) \
        and make_room(system, &work.n_offering, n, sizeof(int64_t)) \
        and make_room(system, &work.linear_sum, n, sizeof(double)) \
        and make_room(system, &work.normalizer, n, sizeof(double))


cdef inline bint reserve_choice(
    System* system, size_t n_candidates, uint32_t n_states
) noexcept nogil:
    """Make room to choose survivors from `n_candidates` candidates."""
    cdef WorkBuffers* work = &system.work
    cdef size_t n_kept = min(<size_t>system.budget, n_candidates)
    # With threads, there are gaps between the candidates that they collect.
    cdef size_t n = n_candidates if system.n_threads == 1 else n_kept * (n_states + 2)
    if system.n_threads > 1 and reserve_threads(system, n_states) != OK:
        return False
    if not (
        make_room(system, &work.part_result, <size_t>system.n_threads, sizeof(int64_t))
        and make_room(system, &work.keys, n, sizeof(uint64_t))
        and make_room(system, &work.key_work, n, sizeof(uint64_t))
        and make_room(system, &system.pending_step.candidates, n + 1, sizeof(Candidate))
        and reserve_survivors(system, &work.chosen, n_kept + 1)
    ):
        return False
    if system.algorithm == ALGORITHM_OPTIMAL or system.select_optimal:
        if not make_room(system, &work.shares, n + 4, sizeof(double)):
            return False
    if system.algorithm != ALGORITHM_MDVPA:
        return True
    return reserve_survivors(system, &system.pending_step.provisional, n_kept + 1) \
        and make_room(system, &work.chosen_index, n_kept, sizeof(int64_t)) \
        and make_room(system, &work.provisional_probability, n_kept, sizeof(double)) \
        and reserve_lookahead(system, n_kept, n_candidates, n_states + 1)


cdef inline bint reserve_draws(System* system, uint32_t n_states) noexcept nogil:
    """Make room to draw states and survivors."""
    cdef WorkBuffers* work = &system.work
    cdef size_t n = <size_t>system.budget
    if not (
        make_room(system, &work.guide, n, sizeof(uint64_t))
        and reserve_survivors(system, &work.chosen, n)
    ):
        return False
    if system.algorithm == ALGORITHM_SMC:
        return reserve_survivors(system, &work.moved, n) \
            and make_room(system, &work.resampling_weight, n, sizeof(double)) \
            and make_room(system, &work.offspring, n, sizeof(int64_t))
    return make_room(
        system, &work.block_potentials, <size_t>system.n_potentials + 4, sizeof(double)
    ) \
        and make_room(system, &work.n_drawn, n_states + 1, sizeof(uint32_t)) \
        and make_room(system, &work.cumulative_weight, n, sizeof(double)) \
        and make_room(system, &work.drawn_parent, n, sizeof(int64_t)) \
        and make_room(system, &work.sorted_uniforms, n, sizeof(double)) \
        and make_room(system, &work.children_end, n, sizeof(int64_t))


cdef inline Status reserve_step(
    System* system, int64_t n_candidates, uint32_t n_states
) noexcept nogil:
    """Make room for a step; `n_states` is the most states of a particle."""
    cdef bint done = reserve_scratch(system, n_states) \
        and reserve_each(system, system.n_particles) == OK \
        and (not system.numbers.n_channels or reserve_rows(system, 0) == OK)
    if done:
        if is_choosing(system):
            done = reserve_choice(system, <size_t>n_candidates, n_states)
        else:
            done = reserve_draws(system, n_states)
    find_arrays(system)  # also after a failure: some buffers may have moved
    return OK if done else NO_MEMORY


# ---- commit ------------------------------------------------------------------------------

cdef inline Status check_limits(const System* system, const Survivors* chosen) noexcept nogil:
    """Check that no count that the survivors would increment is at its limit.

    No count of a state is larger than the times it was entered, which are at most the number of
    steps, so the loop almost never runs. MD-VPA shows one step more than it commits.
    """
    cdef uint32_t largest = 0xFFFFFFFFu - (system.algorithm == ALGORITHM_MDVPA)
    cdef uint32_t state
    cdef uint32_t* block
    cdef int64_t i
    if system.n_steps < largest or system.model.real:
        return OK
    for i in range(chosen.n):
        block = block_of(system, chosen.parent[i])
        state = chosen.state[i]
        if state < block[BLOCK_STATES] and into_of(system, block)[state] >= largest:
            return COUNT_LIMIT
    return OK


cdef inline Status reserve_commit(System* system, const Survivors* chosen) noexcept nogil:
    """Reserve all memory that `commit` may need."""
    cdef const uint32_t* states = chosen.state
    cdef uint32_t most_states = 0
    cdef uint32_t capacity, growth
    cdef size_t n_pages
    cdef int64_t n, i
    if check_limits(system, chosen) != OK:
        return COUNT_LIMIT
    n = max(chosen.n, system.n_particles)
    if grow_particles(system, n) != OK or reserve_each(system, n) != OK:
        return NO_MEMORY
    if reserve_shelves(system, chosen.n) != OK:
        return NO_MEMORY
    if reserve_updates(system, <size_t>chosen.n) != OK:
        return NO_MEMORY
    for i in range(chosen.n):
        most_states = states[i] + 1 if states[i] >= most_states else most_states
    # A child needs at most two new groups and the nodes above them. A group grows by one pair and
    # to twice its width; to four times its width if the number of a state needs four bytes.
    growth = 2 if most_states < 65536 else 4
    n_pages = pages_for(2 * <size_t>chosen.n, growth * system.pool.largest + 4)
    n_pages += pages_for((system.depth - 1 + system.row_depth) * <size_t>chosen.n, NODE_UNITS)
    if system.positions.enabled and reserve_positions(system, chosen.n, &n_pages) != OK:
        return NO_MEMORY
    if reserve_pages(&system.pool, n_pages) != OK:
        return NO_MEMORY
    if reserve_history(&system.history, &system.memory, chosen.n) != OK:
        return NO_MEMORY
    if most_states > system.state_capacity:
        capacity = most_states + most_states // 8
        return move_blocks(system, (capacity + 3) & ~3u)
    return OK
