# cython: language_level=3
"""Commit of particles with real counts: moving a particle, and recounting its rows."""

from libc.stdint cimport int64_t, uint32_t

from mdvpf._kernel.clock cimport power_of_two, scale_at, scales_apart, with_weight
from mdvpf._kernel.constants cimport (
    BLOCK_CURRENT, BLOCK_LEAF, BLOCK_SCALE, BLOCK_STATES, FAINT, FAR_SCALE, GONE, GROUP,
)
from mdvpf._kernel.counts cimport child_at, is_shared, own_node, root_index
from mdvpf._kernel.history cimport append_node
from mdvpf._kernel.labels cimport label_of
from mdvpf._kernel.particles cimport block_of, root_of, rows_of, shares_block
from mdvpf._kernel.real_counts cimport add_weight, has_entry
from mdvpf._kernel.real_particles cimport (
    block_scale, current_at, handle_index, is_recounted, reached_of, real_into, recount, row_group,
    row_index,
)
from mdvpf._kernel.shared_updates cimport note_update, share_update
from mdvpf._kernel.statistics cimport move_statistics
from mdvpf._kernel.types cimport Clock, Pool, System, handle_t


cdef inline void make_real_update(
    System* system, handle_t* held, uint32_t level, uint32_t row, uint32_t state, double least
) noexcept nogil:
    """`add_real_at` for an update that is not noted yet."""
    cdef Pool* pool = &system.pool
    cdef handle_t before = held[0]
    cdef bint shared = is_shared(pool, before)
    if level == 0:
        held[0] = add_weight(pool, before, row & (GROUP - 1), state, &system.now, least)
    else:
        own_node(pool, held)
        add_real_at(system, child_at(pool, held[0], level, row), level - 1, row, state, least)
    if shared:
        note_update(&system.updates, pool, before, row & (GROUP - 1), state, held[0])


cdef inline void add_real_at(
    System* system, handle_t* held, uint32_t level, uint32_t row, uint32_t state, double least
) noexcept nogil:
    """`add_at` for real counts, with the threshold `least` of faded entries."""
    if not share_update(system, held, level, row, state):
        make_real_update(system, held, level, row, state, least)


cdef inline void rescale_block(System* system, uint32_t* block) noexcept nogil:
    """Rescale the entries of a block if their scale is far from that of the step."""
    cdef const Clock* now = &system.now
    cdef float* into = real_into(system, block)
    cdef double factor
    cdef uint32_t i
    if scales_apart(block_scale(block), now) > -FAR_SCALE and block[BLOCK_STATES]:
        return
    factor = power_of_two(scales_apart(block_scale(block), now))
    for i in range(block[BLOCK_STATES]):
        into[i] = <float>(into[i] * factor)
    block[BLOCK_SCALE] = <uint32_t>scale_at(now)


cdef inline void move_real(
    System* system, uint32_t* block, uint32_t state, uint32_t emitted
) noexcept nogil:
    """Move the particle of the block to the state on the symbol of a column."""
    cdef const Clock* now = &system.now
    cdef uint32_t current = current_at(system, block, now)
    cdef uint32_t row = row_index(system, current, system.last_symbol)
    cdef bint is_new = state == block[BLOCK_STATES]
    cdef float* into = real_into(system, block)
    cdef uint32_t* reached = reached_of(system, block)
    if system.model.by_rows:
        if is_new:
            reached[state] = 0
        reached[state] += not has_entry(
            row_group(system, block, current, system.last_symbol), row & (GROUP - 1), state, now,
            GONE,
        )
    add_real_at(system, &rows_of(system, block)[handle_index(system, current)], system.row_depth,
                row, state, GONE)
    if system.numbers.n_channels:  # statistics in place of columns
        move_statistics(system, block, state, is_new, emitted == system.model.missing)
    else:
        add_real_at(system, &root_of(system, block)[root_index(system, emitted)],
                    system.depth - 1, emitted, state, FAINT)
    rescale_block(system, block)
    if is_new:
        into[state] = 0.0
        block[BLOCK_STATES] += 1
    into[state] = <float>with_weight(into[state], block_scale(block), now)
    block[BLOCK_CURRENT] = state + 1
    if system.history.enabled:
        block[BLOCK_LEAF] = append_node(
            &system.history, block[BLOCK_LEAF], label_of(system, block, state)
        )


cdef inline void recount_all(System* system) noexcept nogil:
    """Recount the rows of all particles if a recount is due."""
    cdef uint32_t* block
    cdef int64_t k
    if not is_recounted(system, system.n_steps + 1):
        return
    for k in range(system.n_particles):
        if not shares_block(system, k):
            block = block_of(system, k)
            recount(system, block, &system.now, reached_of(system, block))
