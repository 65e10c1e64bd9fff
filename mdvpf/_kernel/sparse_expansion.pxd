# cython: language_level=3
"""Sparse expansion: the candidates of one particle that reach a bound, without reading all states.

Most states of a particle have neither a transition from the current state nor an emission of the
symbol. Their scores have a common upper bound, and the sum of their scores follows from the
*spread*, a sum over all states that is stored in the block. If that upper bound is below the bound,
only the pairs of one row and one column are read.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from mdvpf._kernel.constants cimport BLOCK_CURRENT, BLOCK_STATES
from mdvpf._kernel.counts cimport count_in, item, state_in
from mdvpf._kernel.emission cimport beta_of, inverse_of, new_of, spread_term
from mdvpf._kernel.particles cimport block_of, column_of, into_of, spread_in, transition_row
from mdvpf._kernel.transition cimport oracle_factors
from mdvpf._kernel.types cimport Candidate, Model, Row, RowTotal, Scratch, System


# Sums over the row of the current state.
cdef struct RowSums:
    RowTotal total
    double quotient         # sum of count / (into + prior)
    double spread           # sum of into / (into + prior)


cdef inline int64_t collect_all(
    const double* scores, uint32_t n_states, int64_t particle, double bound, Candidate* items
) noexcept nogil:
    """Collect the candidates of a particle that reach the bound; return how many."""
    cdef uint64_t parent = <uint64_t>particle << 32
    cdef int64_t n = 0
    cdef uint32_t i
    for i in range(n_states):  # without a branch: always written
        items[n].value = scores[i]
        items[n].parent_state = parent | i
        n += scores[i] >= bound
    return n


cdef inline int64_t insert_in_order(
    Candidate* items, int64_t n, double value, uint64_t parent_state
) noexcept nogil:
    """Insert a candidate into a short ordered list; return its new length."""
    cdef int64_t i = n
    while i > 0 and items[i - 1].parent_state > parent_state:
        items[i] = items[i - 1]
        i -= 1
    items[i].value = value
    items[i].parent_state = parent_state
    return n + 1


cdef inline RowSums scan_row(
    const Model* model, const uint32_t* into, const Row* row, uint32_t width,
    uint64_t* stamp, uint64_t first, double* quotients,
) noexcept nogil:
    """Sum over the row of the current state; stamp its states with the numbers of their pairs.

    Each pair's count / (into + prior) is left in `quotients`. `width` is that of the row, passed as
    a constant so that the compiler makes a loop for each width.
    """
    cdef RowSums sums
    cdef uint32_t state, count, entered
    cdef size_t i
    sums.total.left = 0
    sums.total.visited = 0
    sums.quotient = 0.0
    sums.spread = 0.0
    for i in range(row.n):
        state = item(row.pairs, width, 2 * i)
        count = item(row.pairs, width, 2 * i + 1)
        entered = into[state]
        sums.total.left += count
        sums.total.visited += entered
        quotients[i] = <double>count * inverse_of(model, entered)
        sums.quotient += quotients[i]
        sums.spread += spread_term(model, entered)
        stamp[state] = first + i
    return sums


cdef inline int64_t collect_few(
    const System* system, Scratch* scratch, int64_t particle, int32_t symbol, double bound,
    Candidate* items,
) noexcept nogil:
    """Collect the candidates of a particle that reach a bound on linear scores; return how many.

    Reads only the row of the current state and the column of the symbol. Returns -1 if a state in
    neither of them could reach the bound. Stores the particle's probability of the symbol.
    """
    cdef const Model* model = &system.model
    cdef uint64_t* stamp = scratch.stamp
    cdef uint64_t first = scratch.n_stamped + 1
    cdef double* quotients = scratch.emission
    cdef uint32_t* block = block_of(system, particle)
    cdef const uint32_t* into = into_of(system, block)
    cdef uint32_t n_states = block[BLOCK_STATES]
    cdef bint offers_new = n_states < model.max_states
    cdef Row row = transition_row(system, block, block[BLOCK_CURRENT])
    cdef Row counts = column_of(system, block, <uint32_t>symbol)
    cdef double beta = beta_of(model, symbol)
    cdef double weight = 1.0
    cdef double spread = 0.0            # of the existing states that the oracle offers
    cdef bint offers_old                # whether it offers any
    cdef double scale, share, total, number, value
    cdef int64_t n = 0
    cdef RowSums sums
    cdef uint64_t parent = <uint64_t>particle << 32
    cdef uint32_t i, state
    scratch.n_stamped += row.n
    if row.width == 0:
        sums = scan_row(model, into, &row, 0, stamp, first, quotients)
    elif row.width == 1:
        sums = scan_row(model, into, &row, 1, stamp, first, quotients)
    else:
        sums = scan_row(model, into, &row, 2, stamp, first, quotients)
    if system.lookahead.has_totals:
        system.lookahead.row_total[particle] = sums.total
    offers_old = sums.total.visited < system.n_steps
    if offers_old:
        spread = spread_in(block)[0] - sums.spread
    oracle_factors(
        model, system.n_steps, offers_new, sums.total.left, sums.total.visited, &scale, &share
    )
    if system.carry_weights:
        weight = (<double*>system.stored.weight.data)[particle]
    if offers_old and not weight * (beta * share) < bound:
        return -1
    total = beta * (share * spread + scale * sums.quotient)
    for i in range(counts.n):
        state = state_in(&counts, i)
        number = <double>count_in(&counts, i)
        if stamp[state] >= first:
            value = scale * quotients[stamp[state] - first]
            stamp[state] = 0  # skips the state in the loop over the row
        else:
            value = share * spread_term(model, into[state])
        total += value * number
        value *= weight * (number + beta)
        if value >= bound:
            n = insert_in_order(items, n, value, parent | state)
    scale *= weight * beta
    if scale * sums.quotient >= bound:
        for i in range(row.n):
            value = scale * quotients[i]
            if value >= bound:
                state = state_in(&row, i)
                if stamp[state] >= first:
                    n = insert_in_order(items, n, value, parent | state)
    if offers_new:
        value = share * new_of(model, symbol)
        total += value
        value *= weight
        if value >= bound:
            n = insert_in_order(items, n, value, parent | n_states)
    (<double*>system.work.symbol_probability.data)[particle] = total
    return n
