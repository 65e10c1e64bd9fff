# cython: language_level=3
"""Probabilities of particles with real counts: transitions, emissions and potentials.

The products are those of `transition.pxd` and `emission.pxd`, for every oracle and both machines.
Arrays have an entry for each state and one for the new state; up to three zeros follow. A state
that has faded away has probability 0, and so has a new state that is not offered.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t

from mdvpf._kernel.clock cimport fading
from mdvpf._kernel.constants cimport FAINT, GROUP, GROUP_BITS, MISSING, NODE_BITS, NODE_SIZE, NONE
from mdvpf._kernel.counts cimport children, item
from mdvpf._kernel.lanes cimport sum_of
from mdvpf._kernel.particles cimport block_of, group_at, root_of
from mdvpf._kernel.real_counts cimport (
    read_row, real_end, real_start, scale_in, states_in, sums_in,
)
from mdvpf._kernel.real_particles cimport (
    column_at_move, column_group, view_real, view_real_moved,
)
from mdvpf._kernel.types cimport (
    Clock, Entries, Model, RealView, Record, Scratch, Standing, System, handle_t,
)


cdef inline void real_emission(
    const Model* model, const RealView* view, const Entries* column, int32_t symbol, double* out
) noexcept nogil:
    """Write p(y | m) of every candidate state, given the symbol y and its column."""
    cdef const double* emitted = view.emitted
    cdef double per_beta = 1.0 / model.beta
    cdef uint32_t n_padded = (view.n_states + 3) & ~3u
    cdef uint32_t i
    if symbol == MISSING:
        for i in range(view.n_states + 4):
            out[i] = 1.0
        return
    for i in range(n_padded):
        out[i] = model.beta / (emitted[i] + model.prior)
    for i in range(column.n):
        out[column.state[i]] *= column.count[i] * per_beta + 1.0
    out[view.n_states] = model.new_emission
    out[view.n_states + 1] = 0.0
    out[view.n_states + 2] = 0.0
    out[view.n_states + 3] = 0.0


cdef inline uint32_t real_transition(
    const Model* model, const RealView* view, const double* factor, double* out
) noexcept nogil:
    """Write p(m | x) times a factor of every candidate state m; return how many there are."""
    cdef const double* offered = view.offered
    cdef const Entries* row = &view.row
    cdef double oracle_total = view.offered_total + model.gamma
    cdef double scale, share
    cdef uint32_t i, state
    if view.offers_new:
        scale = 1.0 / (view.left + model.alpha)
    else:
        scale = 1.0 / (view.left + model.alpha * (view.offered_total / oracle_total))
    share = scale * (model.alpha / oracle_total)
    for i in range(0, view.n_states, 4):
        out[i] = offered[i] * share * factor[i]
        out[i + 1] = offered[i + 1] * share * factor[i + 1]
        out[i + 2] = offered[i + 2] * share * factor[i + 2]
        out[i + 3] = offered[i + 3] * share * factor[i + 3]
    for i in range(row.n):
        state = row.state[i]
        if view.into[state] > 0.0:
            out[state] += scale * row.count[i] * factor[state]
    if view.current and model.kappa > 0.0:
        out[view.current - 1] += scale * model.kappa * factor[view.current - 1]
    out[view.n_states] = share * model.gamma * factor[view.n_states] if view.offers_new else 0.0
    out[view.n_states + 1] = 0.0
    out[view.n_states + 2] = 0.0
    out[view.n_states + 3] = 0.0
    return view.n_states + 1


cdef inline void view_real_for(
    const System* system, int64_t particle, int32_t symbol, Scratch* scratch, RealView* view,
    Entries* column,
) noexcept nogil:
    """View a stored particle and the column of the symbol, as of the next step."""
    cdef uint32_t* block = block_of(system, particle)
    view_real(system, block, scratch, view)
    column[0] = scratch.column
    column.n = 0
    if symbol != MISSING:
        read_row(column_group(system, block, <uint32_t>symbol), <uint32_t>symbol & (GROUP - 1),
                 &system.now, FAINT, column)


cdef inline uint32_t real_potentials(
    const System* system, int64_t particle, int32_t symbol, Scratch* scratch, double* out,
    double* total,
) noexcept nogil:
    """Write f(m, y) of every candidate state of a stored particle and their sum."""
    cdef RealView view
    cdef Entries column
    cdef uint32_t n
    view_real_for(system, particle, symbol, scratch, &view, &column)
    real_emission(&system.model, &view, &column, symbol, scratch.emission)
    n = real_transition(&system.model, &view, scratch.emission, out)
    total[0] = sum_of(out, n)
    return n


cdef inline double real_moved_probability(
    const System* system, uint32_t* block, uint32_t state, int32_t symbol, int32_t next_symbol,
    const Standing* standing, Scratch* scratch,
) noexcept nogil:
    """Probability of the next symbol under a particle moved to the state on the symbol."""
    cdef uint32_t emitted = system.model.missing if symbol == MISSING else <uint32_t>symbol
    cdef RealView view
    cdef Entries column
    cdef uint32_t n
    view_real_moved(system, block, state, symbol, standing, scratch, &view)
    column = scratch.column
    column_at_move(system, block, state, emitted, <uint32_t>next_symbol, &column)
    real_emission(&system.model, &view, &column, next_symbol, scratch.emission)
    n = real_transition(&system.model, &view, scratch.emission, scratch.transition)
    return sum_of(scratch.transition, n)


# ---- all symbols at once -----------------------------------------------------------------

cdef inline void add_columns(
    const System* system, handle_t handle, uint32_t level, uint32_t first, uint32_t skipped,
    const Clock* clock, const double* rate, double* out,
) noexcept nogil:
    """Add rate times count of every emission below a node, except those of one symbol."""
    cdef const Record* group
    cdef double factor, count
    cdef uint32_t i, which, symbol
    if handle == NONE:
        return
    if level > 0:
        for i in range(<uint32_t>NODE_SIZE):
            add_columns(system, children(&system.pool, handle)[i], level - 1,
                        first + (i << (NODE_BITS * (level - 1) + GROUP_BITS)), skipped, clock,
                        rate, out)
        return
    group = group_at(system, handle)
    factor = fading(scale_in(group)[0], clock)
    for which in range(<uint32_t>GROUP):
        symbol = first + which
        if symbol == skipped or symbol == system.model.missing:
            continue
        for i in range(real_start(group, which), real_end(group, which)):
            count = sums_in(group)[i] * factor
            if count >= FAINT:
                out[symbol - system.model.first_symbol] += \
                    rate[item(states_in(group), group.shape & 3, i)] * count


cdef inline double add_real_predictive(
    System* system, uint32_t* block, uint32_t state, const Standing* moved, double weight,
    double* out,
) noexcept nogil:
    """Add the weight times p(y) of a particle, without the base, to ``out[y]``; return the base.

    If `moved` is not NULL, p(y) is that of the particle after moving to the state on the pending
    symbol, and `moved` is the position of the key in question.
    """
    cdef Scratch* scratch = &system.scratch
    cdef const Model* model = &system.model
    cdef const Clock* clock = &system.after if moved != NULL else &system.now
    cdef double* rate = scratch.emission
    cdef double* transition = scratch.transition
    cdef uint32_t skipped = 0xFFFFFFFFu
    cdef double base = 0.0
    cdef RealView view
    cdef Entries column
    cdef uint32_t i
    if moved != NULL:
        view_real_moved(system, block, state, system.pending_symbol, moved, scratch, &view)
    else:
        view_real(system, block, scratch, &view)
    real_transition(model, &view, scratch.ones, transition)
    for i in range(view.n_states):
        rate[i] = weight * transition[i] / (view.emitted[i] + model.prior)
        base += rate[i]
    base = base * model.base_count + weight * transition[view.n_states] / model.base_size
    if moved != NULL and system.pending_symbol != MISSING:
        skipped = <uint32_t>system.pending_symbol
        column = scratch.column
        column_at_move(system, block, state, skipped, skipped, &column)
        for i in range(column.n):
            out[skipped - model.first_symbol] += rate[column.state[i]] * column.count[i]
    for i in range(system.root_size):
        add_columns(system, root_of(system, block)[i], system.depth - 1,
                    i << (NODE_BITS * (system.depth - 1) + GROUP_BITS), skipped, clock, rate, out)
    return base
