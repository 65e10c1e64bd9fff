# cython: language_level=3
"""Views of particles with real counts, as of a step: as they are stored, or after one more move.

A Moore machine has one row for each state. A Mealy machine has one for each state and the symbol
that it emitted, in a tree for each state. The start state has one row. A particle whose current
state has faded away is in the start state.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memcpy, memset

from mdvpf._kernel.clock cimport fading, forgets, scale_at, with_weight
from mdvpf._kernel.constants cimport (
    BLOCK_CURRENT, BLOCK_HEADER, BLOCK_SCALE, BLOCK_STATES, FAINT, GONE, GROUP, GROUP_BITS,
    MISSING, NODE_SIZE, NONE, RECOUNT_INTERVAL,
)
from mdvpf._kernel.counts cimport child_at, children, columns, item
from mdvpf._kernel.lanes cimport sum_of
from mdvpf._kernel.particles cimport group_at, into_of, root_of, rows_of, used_groups
from mdvpf._kernel.real_counts cimport (
    overlay_count, has_entry, read_row, real_end, scale_in, states_in, sums_in,
)
from mdvpf._kernel.types cimport (
    Clock, Entries, RealView, Record, Scratch, Standing, System, handle_t,
)


# ---- parts of a block --------------------------------------------------------------------

cdef inline float* real_into(const System* system, uint32_t* block) noexcept nogil:
    return <float*>into_of(system, block)


cdef inline int32_t block_scale(const uint32_t* block) noexcept nogil:
    return <int32_t>block[BLOCK_SCALE]


cdef inline uint32_t* reached_of(const System* system, uint32_t* block) noexcept nogil:
    """With the oracle of rows: the number of rows that lead to each state."""
    return block + BLOCK_HEADER + system.state_capacity


cdef inline bint is_gone(
    const System* system, uint32_t* block, uint32_t state, const Clock* clock
) noexcept nogil:
    """Whether a state has faded away as of a step."""
    return real_into(system, block)[state] * fading(block_scale(block), clock) < GONE


cdef inline uint32_t current_at(
    const System* system, uint32_t* block, const Clock* clock
) noexcept nogil:
    """1 + the current state of a particle as of a step; 0: the start state."""
    cdef uint32_t current = block[BLOCK_CURRENT]
    return 0 if current and is_gone(system, block, current - 1, clock) else current


cdef inline uint32_t live_states(
    const System* system, uint32_t* block, const Clock* clock
) noexcept nogil:
    """How many states have not faded away as of a step."""
    if not forgets(system):
        return block[BLOCK_STATES]
    return count_live(system, block, clock)


cdef inline uint32_t count_live(
    const System* system, uint32_t* block, const Clock* clock
) noexcept nogil:
    """`live_states` where counts fade."""
    cdef double factor = fading(block_scale(block), clock)
    cdef const float* into = real_into(system, block)
    cdef uint32_t n = 0
    cdef uint32_t i
    for i in range(block[BLOCK_STATES]):
        n += into[i] * factor >= GONE
    return n


cdef inline bint outlives_step(
    const System* system, uint32_t* block, uint32_t state
) noexcept nogil:
    """Whether a state has not yet faded away one step after a move to it."""
    cdef const Clock* now = &system.now
    cdef int32_t scale = scale_at(now)
    cdef double stored = 0.0
    if state < block[BLOCK_STATES]:
        scale = block_scale(block)
        stored = real_into(system, block)[state]
    return with_weight(stored, scale, now) * fading(scale, &system.after) >= GONE


cdef inline uint32_t live_moved(
    const System* system, uint32_t* block, uint32_t state
) noexcept nogil:
    """How many states have not faded away one step after a move to the state."""
    cdef uint32_t n = live_states(system, block, &system.after)
    if not forgets(system):
        return n + (state == n)
    if state < block[BLOCK_STATES]:
        n -= not is_gone(system, block, state, &system.after)
    return n + outlives_step(system, block, state)


cdef inline uint32_t row_index(
    const System* system, uint32_t current, uint32_t last_symbol
) noexcept nogil:
    """The index of a row below its handle: the last symbol, or `current`."""
    if system.model.mealy:
        return last_symbol if current else 0
    return current


cdef inline uint32_t handle_index(const System* system, uint32_t current) noexcept nogil:
    """Index of the handle in the block that leads to the row of a state."""
    return current if system.model.mealy else current >> GROUP_BITS


cdef inline const Record* row_group(
    const System* system, uint32_t* block, uint32_t current, uint32_t last_symbol
) noexcept nogil:
    """The group with the row of the current state and last symbol; NULL: it has no counts."""
    cdef handle_t handle = rows_of(system, block)[handle_index(system, current)]
    cdef uint32_t level = system.row_depth
    while level > 0 and handle != NONE:
        handle = child_at(&system.pool, handle, level, row_index(system, current, last_symbol))[0]
        level -= 1
    return group_at(system, handle)


cdef inline const Record* column_group(
    const System* system, uint32_t* block, uint32_t symbol
) noexcept nogil:
    return group_at(system, columns(system, root_of(system, block), symbol))


# ---- the oracle of rows ------------------------------------------------------------------

cdef inline void count_rows(
    const System* system, handle_t handle, uint32_t level, const Clock* clock, uint32_t* reached
) noexcept nogil:
    """Add, by state, the number of entries below a handle of rows that have not faded away."""
    cdef const Record* group
    cdef double factor
    cdef uint32_t i
    if handle == NONE:
        return
    if level > 0:
        for i in range(<uint32_t>NODE_SIZE):
            count_rows(system, children(&system.pool, handle)[i], level - 1, clock, reached)
        return
    group = group_at(system, handle)
    factor = fading(scale_in(group)[0], clock)
    for i in range(real_end(group, GROUP - 1)):
        reached[item(states_in(group), group.shape & 3, i)] += sums_in(group)[i] * factor >= GONE


cdef inline void recount(
    const System* system, uint32_t* block, const Clock* clock, uint32_t* reached
) noexcept nogil:
    """Recount the rows that lead to each state of a particle."""
    cdef const handle_t* rows = rows_of(system, block)
    cdef uint32_t i
    memset(reached, 0, block[BLOCK_STATES] * sizeof(uint32_t))
    for i in range(used_groups(system, block)):
        count_rows(system, rows[i], system.row_depth, clock, reached)


cdef inline bint is_recounted(const System* system, int64_t step) noexcept nogil:
    """Whether the rows that lead to states are recounted before a step."""
    return system.model.by_rows and step % RECOUNT_INTERVAL == 0 \
        and forgets(system)


# ---- views -------------------------------------------------------------------------------

cdef inline void subtract_missing(
    RealView* view, const Entries* missing, double* work
) noexcept nogil:
    """Set the observed emissions: entries minus missing symbols."""
    cdef uint32_t i
    cdef double left
    memcpy(work, view.into, (view.n_states + 4) * sizeof(double))
    for i in range(missing.n):
        left = work[missing.state[i]] - missing.count[i]
        work[missing.state[i]] = left if left > 0.0 else 0.0
    view.emitted = work


cdef inline void drop_gone(RealView* view) noexcept nogil:
    """Set the entries of states that have faded away to zero; count the other states."""
    cdef double* into = view.into
    cdef uint32_t n_live = 0
    cdef uint32_t i
    for i in range(view.n_states):
        n_live += into[i] >= GONE
        into[i] = into[i] if into[i] >= GONE else 0.0
    for i in range(4):
        into[view.n_states + i] = 0.0
    view.n_live = n_live


cdef inline void ask_oracle(
    const System* system, const uint32_t* reached, Scratch* scratch, RealView* view
) noexcept nogil:
    """Set the weights of states in the oracle, and the total of the row."""
    cdef double* offered = view.into
    cdef const Entries* row = &view.row
    cdef bint stays = view.current > 0 and system.model.kappa > 0.0
    cdef uint32_t i
    view.left = system.model.kappa if stays else 0.0
    for i in range(row.n):
        view.left += row.count[i]
    if system.model.by_rows:
        offered = scratch.real_offered
        for i in range(view.n_states):
            offered[i] = reached[i] if view.into[i] > 0.0 else 0.0
        for i in range(4):
            offered[view.n_states + i] = 0.0
    elif not system.model.any_state:
        offered = scratch.real_offered
        memcpy(offered, view.into, (view.n_states + 4) * sizeof(double))
        for i in range(row.n):
            offered[row.state[i]] = 0.0
        if stays:
            offered[view.current - 1] = 0.0
    view.offered = offered
    view.offered_total = sum_of(offered, view.n_states)
    view.offers_new = view.n_live < system.model.max_states


cdef inline void view_real(
    const System* system, uint32_t* block, Scratch* scratch, RealView* view
) noexcept nogil:
    """View a stored particle as of the next step."""
    cdef const Clock* clock = &system.now
    cdef const float* into = real_into(system, block)
    cdef double factor = fading(block_scale(block), clock)
    cdef double* out = scratch.real_into
    cdef uint32_t i
    view.n_states = block[BLOCK_STATES]
    view.into = out
    for i in range(view.n_states):
        out[i] = into[i] * factor
    drop_gone(view)
    view.emitted = out
    if system.seen_missing:  # never over numbers
        read_row(column_group(system, block, system.model.missing),
                 system.model.missing & (GROUP - 1), clock, FAINT, &scratch.column)
        subtract_missing(view, &scratch.column, scratch.real_emitted)
    view.current = block[BLOCK_CURRENT]
    if view.current and out[view.current - 1] == 0.0:
        view.current = 0
    view.row = scratch.row
    read_row(
        row_group(system, block, view.current, system.last_symbol),
        row_index(system, view.current, system.last_symbol) & (GROUP - 1), clock, GONE, &view.row,
    )
    ask_oracle(system, reached_of(system, block), scratch, view)


cdef inline void reach_moved(
    const System* system, uint32_t* block, uint32_t state, uint32_t* reached
) noexcept nogil:
    """Count the rows that lead to each state, as of the step after a move to `state`."""
    cdef uint32_t from_state = current_at(system, block, &system.now)
    cdef uint32_t which = row_index(system, from_state, system.last_symbol) & (GROUP - 1)
    cdef const Record* group = row_group(system, block, from_state, system.last_symbol)
    cdef const Clock* opened = &system.now
    cdef double count = 1.0
    memset(reached + block[BLOCK_STATES], 0, sizeof(uint32_t))
    if is_recounted(system, system.n_steps + 2):
        opened = &system.after
        recount(system, block, opened, reached)
        count = with_weight(0.0, scale_at(&system.now), &system.now) \
            * fading(scale_at(&system.now), opened)
    else:
        memcpy(reached, reached_of(system, block), block[BLOCK_STATES] * sizeof(uint32_t))
    if not has_entry(group, which, state, opened, GONE):
        reached[state] += count >= GONE


cdef inline void view_real_moved(
    const System* system, uint32_t* block, uint32_t state, int32_t symbol,
    const Standing* standing, Scratch* scratch, RealView* view,
) noexcept nogil:
    """View a particle as it would be one step after moving to the state on the symbol."""
    cdef const Clock* now = &system.now
    cdef const Clock* after = &system.after
    cdef const float* into = real_into(system, block)
    cdef int32_t scale = block_scale(block)
    cdef double factor = fading(scale, after)
    cdef double* out = scratch.real_into
    cdef uint32_t n = block[BLOCK_STATES]
    cdef uint32_t emitted = system.model.missing if symbol == MISSING else <uint32_t>symbol
    cdef uint32_t* reached = scratch.overlay_into
    cdef uint32_t i, which, from_state
    for i in range(n):
        out[i] = into[i] * factor
    view.n_states = n
    if state == n:
        view.n_states += 1
        out[n] = with_weight(0.0, scale_at(now), now) * fading(scale_at(now), after)
    else:
        out[state] = with_weight(into[state], scale, now) * factor
    view.into = out
    drop_gone(view)
    view.emitted = out
    if system.seen_missing or (symbol == MISSING and not system.numbers.n_channels):
        column_at_move(system, block, state, emitted, system.model.missing, &scratch.column)
        subtract_missing(view, &scratch.column, scratch.real_emitted)
    view.current = standing.current
    if view.current and out[view.current - 1] == 0.0:
        view.current = 0
    view.row = scratch.row
    which = row_index(system, view.current, standing.symbol)
    read_row(
        row_group(system, block, view.current, standing.symbol) if view.current <= n else NULL,
        which & (GROUP - 1), after, GONE, &view.row,
    )
    from_state = current_at(system, block, now)
    if view.current == from_state and (
        from_state == 0 or which == row_index(system, from_state, system.last_symbol)
    ):
        overlay_count(
            &view.row, state, row_group(system, block, view.current, standing.symbol),
            which & (GROUP - 1), now, after, GONE,
        )
    if system.model.by_rows:
        reach_moved(system, block, state, reached)
    ask_oracle(system, reached, scratch, view)


cdef inline void column_at_move(
    const System* system, uint32_t* block, uint32_t state, uint32_t emitted, uint32_t symbol,
    Entries* out,
) noexcept nogil:
    """Read the column of a symbol one step after moving to the state, which emitted `emitted`."""
    cdef const Record* group = column_group(system, block, symbol)
    read_row(group, symbol & (GROUP - 1), &system.after, FAINT, out)
    if symbol == emitted:
        overlay_count(out, state, group, symbol & (GROUP - 1), &system.now, &system.after, FAINT)
