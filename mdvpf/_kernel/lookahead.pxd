# cython: language_level=3
"""Look-ahead: the potentials of the symbol after the pending one, for all particles.

A candidate (k, m) of the pending symbol is scored by

    s = b + discount * (log f(k, m, next symbol) - G(m)),

where G(m) is a mean over all particles that have a candidate m. For particles with M = m states, m
is the new state. G(m) compares labels across particles, although each particle numbers its states
by their first appearance on its own path.

The geometric mean needs the log of every potential of every particle. A potential is a product of
quotients of counts, so its log is a sum of logs of integers, which come from tables: each state of
a particle adds log(into / (into + prior)), and only those in the row of the current state or in
the column of the symbol add more. Logs are fixed-point numbers, so their sums are exact and do not
depend on the order.
"""

from cython.parallel cimport prange
from libc.math cimport log
from libc.stdint cimport INT64_MIN, int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memset

from mdvpf._kernel.constants cimport (
    BLOCK_CURRENT, BLOCK_STATES, NORMALIZER_GEOMETRIC, NORMALIZER_SUM, TABLED,
)
from mdvpf._kernel.counts cimport count_in, item, state_in
from mdvpf._kernel.emission cimport has_shortcuts
from mdvpf._kernel.log_tables cimport (
    Memo,
    clear_memo, to_fixed, log_emission, log_left, log_offered, log_ratio, log_spread_term,
    tabulate_emissions,
)
from mdvpf._kernel.number_lookahead cimport look_ahead_numbers
from mdvpf._kernel.particles cimport block_of, column_of, fetch_ahead, into_of, transition_row
from mdvpf._kernel.real_lookahead cimport look_ahead_real
from mdvpf._kernel.threads cimport for_part, n_parts, part_start
from mdvpf._kernel.transition cimport oracle_factors, particle_potentials
from mdvpf._kernel.types cimport (
    Candidate, CandidateSet, Lookahead, Model, Row, RowTotal, Scratch, System,
)

cdef enum:
    OPEN_TABLED = 64        # open alphabet: length of the table of logs made for each symbol


# ---- particles ---------------------------------------------------------------------------

cdef inline void add_states(
    Lookahead* ahead, const Model* model, const uint32_t* into, uint32_t n_states
) noexcept nogil:
    """Add log(into / (into + prior)) of each state."""
    cdef const int64_t* tabled = ahead.tabled + TABLED
    cdef int64_t* log_sum = ahead.log_sum
    cdef uint32_t all_bits = 0
    cdef size_t i
    for i in range(n_states):
        all_bits |= into[i]
        log_sum[i] += tabled[into[i] if into[i] < TABLED else 0]  # tabled[0] is 0
    if all_bits >= TABLED:
        for i in range(n_states):
            if into[i] >= TABLED:
                log_sum[i] += log_spread_term(ahead, model, into[i])


cdef inline RowTotal total_row(const uint32_t* into, const Row* row) noexcept nogil:
    cdef RowTotal total
    cdef uint32_t i
    total.left = 0
    total.visited = 0
    for i in range(row.n):
        total.left += count_in(row, i)
        total.visited += into[state_in(row, i)]
    return total


cdef inline void add_row(
    Lookahead* ahead, const uint32_t* into, const Row* row, uint32_t width, int64_t seen,
    uint64_t* stamp, uint64_t first,
) noexcept nogil:
    """Add the extra terms of the states in a row, and stamp these states.

    `width` is that of the row; as a constant, it lets the compiler make a faster loop.
    """
    cdef int64_t* log_sum = ahead.log_sum
    cdef uint32_t state
    cdef size_t i
    for i in range(row.n):
        state = item(row.pairs, width, 2 * i)
        log_sum[state] += seen + log_ratio(
            ahead, item(row.pairs, width, 2 * i + 1), into[state]
        )
        stamp[state] = first + i


cdef inline int64_t add_particle(
    const System* system, Lookahead* ahead, Memo* memo, Scratch* scratch, int64_t particle,
    int32_t symbol, int64_t index,
) noexcept nogil:
    """Add the logs of a particle's potentials to the sums; write those of its collected candidates.

    Reads only one row and one column. The particle's candidates in the set start at `index`;
    returns the index of the next particle's first candidate.
    """
    cdef const Model* model = &system.model
    cdef uint32_t* block = block_of(system, particle)
    cdef const uint32_t* into = into_of(system, block)
    cdef uint32_t n_states = block[BLOCK_STATES]
    cdef bint offers_new = n_states < model.max_states
    cdef Row row = transition_row(system, block, block[BLOCK_CURRENT])
    cdef Row counts = column_of(system, block, <uint32_t>symbol)
    cdef const Candidate* items = system.candidates.items
    cdef int64_t* of_candidate = ahead.potential
    cdef int64_t* largest = ahead.largest
    cdef int64_t* log_sum = ahead.log_sum
    cdef int64_t* in_column = <int64_t*>scratch.transition
    cdef uint64_t* stamp = scratch.stamp
    cdef uint64_t first = scratch.n_stamped + 1     # number of the first pair of the row
    cdef uint64_t second = first + row.n            # and of the column
    cdef RowTotal total
    cdef int64_t share          # log share of the oracle
    cdef int64_t seen           # extra term of a transition that was made before
    cdef int64_t potential, more
    cdef double scale, linear_share
    cdef uint32_t i, state
    scratch.n_stamped += row.n + counts.n
    if ahead.has_totals:
        total = ahead.row_total[particle]
    else:
        total = total_row(into, &row)
    seen = log_offered(ahead, model, memo, system.n_steps - total.visited)
    if offers_new:
        share = -log_left(ahead, model, total.left) - seen
    else:
        oracle_factors(
            model, system.n_steps, False, total.left, total.visited, &scale, &linear_share)
        share = to_fixed(ahead, log(linear_share))
    add_states(ahead, model, into, n_states)
    if row.width == 0:
        add_row(ahead, into, &row, 0, seen, stamp, first)
    else:
        add_row(ahead, into, &row, row.width, seen, stamp, first)
    ahead.share_sum[n_states] += share
    ahead.n_with[n_states] += 1
    share += ahead.log_beta
    for i in range(counts.n):
        state = state_in(&counts, i)
        more = log_emission(ahead, model, count_in(&counts, i))
        log_sum[state] += more
        potential = share + more + log_spread_term(ahead, model, into[state])
        if stamp[state] >= first:
            potential += seen + log_ratio(
                ahead, count_in(&row, <uint32_t>(stamp[state] - first)), into[state]
            )
        in_column[i] = potential
        stamp[state] = second + i
        largest[state] = potential if potential > largest[state] else largest[state]
    # An upper bound for all states that are not in the column, the new one included.
    potential = share + (seen if seen > ahead.new_more else ahead.new_more)
    ahead.common = potential if potential > ahead.common else ahead.common
    while index < system.candidates.n and items[index].parent_state >> 32 == <uint64_t>particle:
        state = <uint32_t>items[index].parent_state
        if state == n_states:
            potential = share - ahead.log_beta + ahead.log_new
        elif stamp[state] >= second:
            potential = in_column[stamp[state] - second]
        else:
            potential = share + log_spread_term(ahead, model, into[state])
            if stamp[state] >= first:
                potential += seen + log_ratio(
                    ahead, count_in(&row, <uint32_t>(stamp[state] - first)), into[state]
                )
        of_candidate[index] = potential
        index += 1
    return index


cdef inline int64_t add_all_of(
    System* system, Lookahead* ahead, int64_t particle, int32_t symbol, int64_t index
) noexcept nogil:
    """`add_particle` without shortcuts, and with linear sums: it reads every state."""
    cdef const Candidate* items = system.candidates.items
    cdef double* potential = system.scratch.transition
    cdef int64_t* logs = <int64_t*>system.scratch.emission
    cdef int64_t* of_candidate = ahead.potential
    cdef int64_t* largest = ahead.largest
    cdef double total
    cdef uint32_t i
    cdef uint32_t n = particle_potentials(system, particle, symbol, potential, &total)
    ahead.n_with[block_of(system, particle)[BLOCK_STATES]] += 1
    for i in range(n):
        logs[i] = to_fixed(ahead, log(potential[i]))
        ahead.log_sum[i] += logs[i]
        ahead.linear_sum[i] += potential[i]
        largest[i] = logs[i] if logs[i] > largest[i] else largest[i]
    while index < system.candidates.n and items[index].parent_state >> 32 == <uint64_t>particle:
        of_candidate[index] = logs[<uint32_t>items[index].parent_state]
        index += 1
    return index


# ---- all of them -------------------------------------------------------------------------

cdef inline void normalize_labels(
    System* system, int64_t log_known, int64_t log_new
) noexcept nogil:
    """Compute G of every label from the sums over particles.

    Potentials of existing states also have the terms of `share_sum` and `log_known`, those of new
    states the terms of `share_sum` and `log_new`.
    """
    cdef Lookahead* ahead = &system.lookahead
    cdef const int64_t* share_sum = ahead.share_sum
    cdef const int64_t* n_with = ahead.n_with
    cdef double* normalizer = ahead.normalizer
    cdef int64_t shares = 0     # sum of log shares of the particles that have the label
    cdef int64_t known = 0      # number of these particles
    cdef int64_t label, total, n
    for label in range(<int64_t>ahead.n_labels - 1, -1, -1):
        n = known
        total = ahead.log_sum[label] + shares + known * log_known
        if label < system.model.max_states:
            n += n_with[label]
            total += share_sum[label] + n_with[label] * log_new
        ahead.n_offering[label] = n
        normalizer[label] = 0.0
        if n and system.normalizer == NORMALIZER_GEOMETRIC:
            normalizer[label] = <double>total / n
        elif n and system.normalizer == NORMALIZER_SUM:
            normalizer[label] = ahead.fixed_one * (
                log(ahead.linear_sum[label]) / system.budget
            )
        shares += share_sum[label]
        known += n_with[label]


cdef inline void clear_sums(Lookahead* ahead) noexcept nogil:
    cdef size_t labels = ahead.n_labels * sizeof(double)
    cdef uint32_t label
    memset(ahead.log_sum, 0, labels)
    memset(ahead.share_sum, 0, labels)
    memset(ahead.n_with, 0, labels)
    for label in range(ahead.n_labels):
        ahead.largest[label] = INT64_MIN
    ahead.common = INT64_MIN


cdef inline int64_t first_of(const CandidateSet* candidates, int64_t particle) noexcept nogil:
    """The index of the first candidate of the particle or, if it has none, of a later one."""
    cdef const Candidate* items = candidates.items
    cdef int64_t low = 0
    cdef int64_t high = candidates.n
    cdef int64_t middle
    while low < high:
        middle = (low + high) // 2
        if items[middle].parent_state >> 32 < <uint64_t>particle:
            low = middle + 1
        else:
            high = middle
    return low


cdef inline int64_t add_part(
    const System* system, int32_t symbol, int part, int parts
) noexcept nogil:
    """Add the particles of a part to its own sums; return the common bound on their potentials."""
    cdef System own = for_part(system, part)
    cdef int64_t start = part_start(system, part, parts)
    cdef int64_t index = first_of(&own.candidates, start)
    cdef int64_t k
    cdef Memo memo
    clear_memo(&memo)
    if part > 0:
        clear_sums(&own.lookahead)
    for k in range(start, part_start(system, part + 1, parts)):
        fetch_ahead(&own, k, 1, symbol)
        index = add_particle(
            &own, &own.lookahead, &memo, &own.scratch, k, symbol, index
        )
    return own.lookahead.common


cdef inline void join_part(System* system, int part) noexcept nogil:
    """Add the sums of a part to those of the first part."""
    cdef Lookahead* ahead = &system.lookahead
    cdef System own = for_part(system, part)
    cdef int64_t* largest = ahead.largest
    cdef const int64_t* other = own.lookahead.largest
    cdef uint32_t label
    for label in range(ahead.n_labels):
        ahead.log_sum[label] += own.lookahead.log_sum[label]
        ahead.share_sum[label] += own.lookahead.share_sum[label]
        ahead.n_with[label] += own.lookahead.n_with[label]
        largest[label] = other[label] if other[label] > largest[label] else largest[label]


cdef inline void look_ahead(System* system, int32_t symbol) noexcept nogil:
    """Compute G of every label, and the look-ahead potential of every collected candidate."""
    cdef Lookahead* ahead = &system.lookahead
    cdef int64_t index = 0
    cdef int64_t k
    cdef int64_t* commons = <int64_t*>system.work.part_result.data
    cdef int parts = n_parts(system)
    cdef int part
    if system.numbers.n_channels:
        look_ahead_numbers(system, symbol)
        return
    if system.model.real:
        look_ahead_real(system, symbol)
        return
    if system.model.is_open:
        tabulate_emissions(system, OPEN_TABLED)
    clear_sums(ahead)
    memset(ahead.linear_sum, 0, ahead.n_labels * sizeof(double))
    if system.normalizer == NORMALIZER_SUM or not has_shortcuts(system):
        for k in range(system.n_particles):
            fetch_ahead(system, k, 1, symbol)
            index = add_all_of(system, ahead, k, symbol, index)
        normalize_labels(system, 0, 0)
        return
    if parts == 1:
        commons[0] = add_part(system, symbol, 0, 1)
    else:
        for part in prange(parts, num_threads=parts, schedule="static", chunksize=1):
            commons[part] = add_part(system, symbol, part, parts)
    for part in range(parts):
        ahead.common = commons[part] if commons[part] > ahead.common else ahead.common
        if part > 0:
            join_part(system, part)
    normalize_labels(system, ahead.log_beta, ahead.log_new)
