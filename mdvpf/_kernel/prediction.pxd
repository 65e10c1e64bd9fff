# cython: language_level=3
"""The distribution of the next symbol, in time proportional to the stored counts.

p(y) under one particle is the sum of a *base*, which is the same for all symbols, and of the counts
of y, each times the *rate* of its state m, p(m | x) / (emitted + prior). The base has the
pseudo-count beta of every state, and the new state. The bases of all particles add up to one
number, and only columns with counts are visited. Particles that share a block are visited once,
with the sum of their weights.

The provisional particles of MD-VPA are visited one by one, although the children of one parent
share its columns. Adding their rates first would round differently, and a provisional particle must
predict the same bits as the particle that is stored later.
"""

from libc.limits cimport LLONG_MAX
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memset

from mdvpf._kernel.alphabet cimport add_base, normalize_prediction
from mdvpf._kernel.constants cimport (
    BLOCK_CURRENT, BLOCK_STATES, GROUP, GROUP_BITS, MISSING, NODE_BITS, NODE_SIZE, NONE, OK,
    Status,
)
from mdvpf._kernel.counts cimport children, count_in, row_in, state_in
from mdvpf._kernel.emission cimport as_double
from mdvpf._kernel.particles cimport (
    block_of, column_moved, end_of_sharing, group_at, root_of, view_moved, view_particle,
)
from mdvpf._kernel.positions cimport standing_of, state_of_key, symbol_of_key
from mdvpf._kernel.real_scores cimport add_real_predictive
from mdvpf._kernel.reserve cimport reserve_scores
from mdvpf._kernel.transition cimport transition_scores
from mdvpf._kernel.types cimport Model, Record, Row, Standing, System, View, handle_t

cdef enum:
    NO_SYMBOL = 0x7FFFFFFF  # larger than every symbol


cdef inline double write_rates(
    const Model* model, const View* view, double weight, const double* transition, double* rates
) noexcept nogil:
    """Write the rate of each state, given p(m | x); return the base. Both include the weight."""
    cdef double base = 0.0
    cdef uint32_t i
    for i in range(view.n_states):
        rates[i] = weight * transition[i] / (as_double(view.emitted[i]) + model.prior)
        base += rates[i]
    base *= model.base_count
    if view.offers_new:
        base += weight * transition[view.n_states] / model.base_size
    return base


cdef inline double column_total(const Row* column, const double* rates) noexcept nogil:
    """The sum of rate times count over a column."""
    cdef double total = 0.0
    cdef uint32_t i
    for i in range(column.n):
        total += rates[state_in(column, i)] * count_in(column, i)
    return total


cdef inline void add_group(
    const System* system, const Record* group, uint32_t first, uint32_t left_out,
    const double* rates, double* out,
) noexcept nogil:
    """Add the totals of the columns of a group, from column `first` on, except `left_out`."""
    cdef uint32_t which
    cdef Row column
    for which in range(<uint32_t>GROUP):
        if first + which == system.model.missing:
            continue
        column = row_in(group, which)
        if column.n and first + which != left_out:
            out[first + which - system.model.first_symbol] += column_total(&column, rates)


cdef inline int64_t add_tree(
    const System* system, handle_t handle, uint32_t level, uint32_t index, uint32_t left_out,
    const double* rates, double* out,
) noexcept nogil:
    """`add_group` for all groups below a node; return the number of records read.

    `index` is that of the node in its level.
    """
    cdef int64_t visited = 1
    cdef uint32_t i
    if level == 0:
        add_group(system, group_at(system, handle), index << GROUP_BITS, left_out, rates, out)
        return visited
    for i in range(<uint32_t>NODE_SIZE):
        if children(&system.pool, handle)[i] != NONE:
            visited += add_tree(
                system, children(&system.pool, handle)[i], level - 1, (index << NODE_BITS) + i,
                left_out, rates, out,
            )
    return visited


cdef inline int64_t add_columns(
    const System* system, uint32_t* block, uint32_t left_out, const double* rates, double* out
) noexcept nogil:
    """`add_group` for all groups of a block; return the number of records read."""
    cdef const handle_t* root = root_of(system, block)
    cdef int64_t visited = 0
    cdef uint32_t i
    for i in range(system.root_size):
        if root[i] != NONE:
            visited += add_tree(system, root[i], system.depth - 1, i, left_out, rates, out)
    return visited


cdef inline int64_t add_provisional(
    System* system, int64_t i, uint32_t number, double* base, double* out
) noexcept nogil:
    """Add the prediction of a provisional particle for a key; return the work done.

    Work is counted in states and records visited.
    """
    cdef int32_t symbol = system.pending_symbol
    cdef uint32_t* block = block_of(system, system.provisional.parent[i])
    cdef uint32_t state = system.provisional.state[i]
    cdef double* rates = system.scratch.emission
    cdef uint32_t emitted = system.model.missing if symbol == MISSING else <uint32_t>symbol
    cdef Standing standing = standing_of(system, block, state, emitted, number)
    cdef Row moved
    cdef View view
    if system.model.real:
        base[0] += add_real_predictive(
            system, block, state, &standing, system.provisional.weight[i], out
        )
        return system.root_size + <int64_t>block[BLOCK_STATES]
    view_moved(system, block, state, symbol, standing.current, &view)
    transition_scores(&system.model, &view, system.scratch.ones, system.scratch.transition)
    base[0] += write_rates(
        &system.model, &view, system.provisional.weight[i], system.scratch.transition, rates
    )
    if symbol == MISSING:
        return view.n_states + add_columns(system, block, NO_SYMBOL, rates, out)
    moved = column_moved(system, block, state, symbol, <uint32_t>symbol)
    out[symbol - <int32_t>system.model.first_symbol] += column_total(&moved, rates)
    return view.n_states + add_columns(system, block, <uint32_t>symbol, rates, out)


cdef inline int64_t add_stored(
    System* system, int64_t first, int64_t end, double* base, double* out
) noexcept nogil:
    """Add the prediction of particles that share a block; return the work done."""
    cdef uint32_t* block = block_of(system, first)
    cdef double* rates = system.scratch.emission
    cdef double weight = 0.0
    cdef int64_t i
    cdef View view
    for i in range(first, end):
        weight += (<double*>system.stored.weight.data)[i]
    if system.model.real:
        base[0] += add_real_predictive(system, block, 0, NULL, weight, out)
        return system.root_size + <int64_t>block[BLOCK_STATES]
    view_particle(system, block, &view)
    transition_scores(&system.model, &view, system.scratch.ones, system.scratch.transition)
    base[0] += write_rates(&system.model, &view, weight, system.scratch.transition, rates)
    return view.n_states + add_columns(system, block, NO_SYMBOL, rates, out)


cdef inline int64_t add_stored_of_key(
    System* system, int64_t first, int64_t end, uint32_t number, double* base, double* out
) noexcept nogil:
    """`add_stored` for any key: the block has the position of that key during the call."""
    cdef uint32_t* block = block_of(system, first)
    cdef uint32_t current = block[BLOCK_CURRENT]
    cdef uint32_t last_symbol = system.last_symbol
    cdef int64_t work
    if number != system.positions.active:
        block[BLOCK_CURRENT] = state_of_key(system, block, number)
        system.last_symbol = symbol_of_key(system, number)
    work = add_stored(system, first, end, base, out)
    block[BLOCK_CURRENT] = current
    system.last_symbol = last_symbol
    return work


cdef inline int64_t add_predictives(
    System* system, int64_t first, int64_t most_work, uint32_t number, double* base, double* out
) noexcept nogil:
    """Add the predictions for a key of the particles shown, from particle `first` on.

    Stops at the last particle, or after about `most_work` states and records; returns the particle
    to continue with. In the end p(y) is base + out[y]; in an open alphabet, base * q(y) + out[y].
    """
    cdef int64_t n = system.provisional.n if system.pending else system.n_particles
    cdef int64_t work = 0
    cdef int64_t i = first
    cdef int64_t end
    while i < n and work < most_work:
        if system.pending:
            work += add_provisional(system, i, number, base, out)
            i += 1
        else:
            end = end_of_sharing(system, i)
            work += add_stored_of_key(system, i, end, number, base, out)
            i = end
    return i


cdef inline Status write_prediction(System* system, uint32_t number, double* out) noexcept nogil:
    """Write the distribution of the next symbol of a key, without checking for signals."""
    cdef int64_t n = <int64_t>system.model.n_symbols + system.model.is_open
    cdef double base = 0.0
    cdef Status status = reserve_scores(system, system.most_states)
    if status != OK:
        return status
    memset(out, 0, <size_t>n * sizeof(double))
    add_predictives(system, 0, LLONG_MAX, number, &base, out)
    add_base(system, base, out, n)
    if system.model.real:
        normalize_prediction(out, n)
    return OK
