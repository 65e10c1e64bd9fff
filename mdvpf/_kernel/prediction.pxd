# cython: language_level=3
"""The distribution of the next symbol, at the cost of what particles have counted.

p(y) under one particle is a base, which all symbols have in common (beta in every state, and the
new state), plus the counts of y, each times the *rate* of its state: p(m | x) / (emitted + prior).
So the bases of all particles are one number, and of the symbols only those are visited that have
a column. Columns are linear in the rates. Hence particles that share a block, and the provisional
children of one parent, add up their rates and are visited once.
"""

from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memset

from mdvpf._kernel.constants cimport (
    BLOCK_STATES, GROUP, GROUP_BITS, MISSING, NODE_BITS, NODE_SIZE, NONE,
)
from mdvpf._kernel.counts cimport children, count_in, row_in, state_in
from mdvpf._kernel.emission cimport as_double
from mdvpf._kernel.particles cimport (
    block_of, end_of_sharing, group_at, root_of, view_moved, view_particle,
)
from mdvpf._kernel.transition cimport transition_scores
from mdvpf._kernel.types cimport Model, Record, Row, System, View, handle_t


cdef inline double add_rates(
    const Model* model, const View* view, double weight, double* transition, double* rates
) noexcept nogil:
    """Add the rate of every state, times the weight, to `rates`; return the base, so weighted.

    On return `transition`, which holds p(m | x), holds the rates of this particle alone.
    """
    cdef double base = 0.0
    cdef uint32_t i
    for i in range(view.n_states):
        transition[i] *= weight / (as_double(view.emitted[i]) + model.prior)
        rates[i] += transition[i]
        base += transition[i]
    base *= model.beta
    if view.offers_new:
        base += weight * transition[view.n_states] / model.n_symbols
    return base


cdef inline void add_group(
    const System* system, const Record* group, uint32_t first, const double* rates, double* out
) noexcept nogil:
    """Add what the columns of a group are worth; `first` is the symbol of the first of them."""
    cdef uint32_t which, i
    cdef Row row
    cdef double total
    for which in range(<uint32_t>GROUP):
        if first + which >= system.model.n_symbols:  # the column of what was not observed
            return
        row = row_in(group, which)
        if row.n:
            total = 0.0
            for i in range(row.n):
                total += rates[state_in(&row, i)] * count_in(&row, i)
            out[first + which] += total


cdef inline int64_t add_tree(
    const System* system, handle_t handle, uint32_t level, uint32_t index,
    const double* rates, double* out,
) noexcept nogil:
    """Do so for all columns below a node, the `index`-th of its level; return records visited."""
    cdef int64_t visited = 1
    cdef uint32_t i
    if level == 0:
        add_group(system, group_at(system, handle), index << GROUP_BITS, rates, out)
        return visited
    for i in range(<uint32_t>NODE_SIZE):
        if children(&system.pool, handle)[i] != NONE:
            visited += add_tree(
                system, children(&system.pool, handle)[i], level - 1, (index << NODE_BITS) + i,
                rates, out,
            )
    return visited


cdef inline int64_t add_columns(
    const System* system, uint32_t* block, const double* rates, double* out
) noexcept nogil:
    """Do so for all columns of a particle; return how many records were visited."""
    cdef const handle_t* root = root_of(system, block)
    cdef int64_t visited = 0
    cdef uint32_t i
    for i in range(system.root_size):
        if root[i] != NONE:
            visited += add_tree(system, root[i], system.depth - 1, i, rates, out)
    return visited


cdef inline int64_t add_predictives(
    System* system, int64_t first, int64_t most_work, double* base, double* out
) noexcept nogil:
    """Add up the predictions of the particles shown, from one of them on; return where it ends.

    It ends at the last particle, or once about `most_work` states and records were visited.
    Symbol y has the probability base + out[y] in the end.
    """
    cdef int64_t n = system.provisional.n if system.pending else system.n_particles
    cdef int64_t work = 0
    cdef int64_t i = first
    cdef int64_t end
    cdef uint32_t* block
    cdef uint32_t parent, state
    cdef double weight
    cdef double* transition = system.scratch.transition
    cdef double* rates = system.scratch.emission
    cdef View view
    while i < n and work < most_work:
        parent = system.provisional.parent[i] if system.pending else <uint32_t>i
        block = block_of(system, parent)
        memset(rates, 0, (block[BLOCK_STATES] + 1) * sizeof(double))
        if system.pending:
            while i < n and system.provisional.parent[i] == parent:
                state = system.provisional.state[i]
                view_moved(
                    system, block, state, system.pending_symbol, &system.scratch, &view
                )
                transition_scores(&system.model, &view, system.scratch.ones, transition)
                base[0] += add_rates(
                    &system.model, &view, system.provisional.weight[i], transition, rates
                )
                if system.pending_symbol != MISSING:  # the step that is not in the tables yet
                    out[system.pending_symbol] += transition[state]
                work += view.n_states
                i += 1
        else:
            weight = 0.0
            end = end_of_sharing(system, i)
            while i < end:
                weight += (<double*>system.stored.weight.data)[i]
                i += 1
            view_particle(system, block, &view)
            transition_scores(&system.model, &view, system.scratch.ones, transition)
            base[0] += add_rates(&system.model, &view, weight, transition, rates)
            work += view.n_states
        work += add_columns(system, block, rates, out)
    return i
