# cython: language_level=3
"""Scores of particles in families over numbers, as logs: densities may underflow.

`score_rows` has computed the log density of the observation for every row of statistics. This file
combines these densities with the transitions of a particle. Sums use densities relative to the
largest of all rows. If such a sum is too small, it is computed again relative to the largest term
of the particle.
"""

from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int32_t, int64_t, uint32_t

from mdvpf._kernel.clock cimport forgets
from mdvpf._kernel.constants cimport BLOCK_CURRENT, BLOCK_STATES, GROUP, GROUP_BITS, MISSING
from mdvpf._kernel.counts cimport item
from mdvpf._kernel.particles cimport block_of, group_at, rows_of
from mdvpf._kernel.positions cimport standing_of
from mdvpf._kernel.real_counts cimport real_end, real_start, states_in, sums_in
from mdvpf._kernel.real_particles cimport real_into, view_real, view_real_moved
from mdvpf._kernel.real_scores cimport real_transition
from mdvpf._kernel.statistics cimport (
    PRIOR,
    log_densities, row_of, statistics_of, successors,
)
from mdvpf._kernel.types cimport Model, RealView, Record, Scratch, Standing, System

cdef extern from *:
    """
    #define MDVPF_FEW 1e-200
    """
    const double FEW "MDVPF_FEW"  # smaller sums of products may have lost digits, or underflowed

cdef enum:
    WHOLE_FLOATS = 16777216     # whole numbers up to this are exact as floats


# ---- transitions -------------------------------------------------------------------------

cdef inline bint is_plain(const System* system) noexcept nogil:
    """Whether counts are whole numbers, and a row and the entries of states give transitions."""
    cdef const Model* model = &system.model
    return not (model.by_rows or model.mealy or model.kappa > 0.0 or forgets(system))


cdef inline uint32_t plain_transition(
    const System* system, uint32_t* block, double* out
) noexcept nogil:
    """`real_transition` of a stored particle of a plain model: the same bits, without a view.

    Sums of whole numbers are exact, so they may be taken in any order.
    """
    cdef const Model* model = &system.model
    cdef const float* into = real_into(system, block)
    cdef uint32_t n_states = block[BLOCK_STATES]
    cdef uint32_t current = block[BLOCK_CURRENT]
    cdef const Record* group = group_at(system, rows_of(system, block)[current >> GROUP_BITS])
    cdef uint32_t which = current & (GROUP - 1)
    cdef uint32_t start = 0
    cdef uint32_t end = 0
    cdef uint32_t width = 0
    cdef double offered = <double>system.n_steps  # entries into the states that the oracle offers
    cdef double left = 0.0          # transitions from the current state
    cdef double scale, share
    cdef uint32_t i, state
    if system.n_steps >= WHOLE_FLOATS:  # entries are rounded
        offered = 0.0
        for i in range(n_states):
            offered += into[i]
    if group != NULL:
        width = group.shape & 3
        start = real_start(group, which)
        end = real_end(group, which)
    for i in range(start, end):
        left += sums_in(group)[i]
        if not model.any_state:
            offered -= into[item(states_in(group), width, i)]
    if n_states < model.max_states:
        scale = 1.0 / (left + model.alpha)
    else:
        scale = 1.0 / (left + model.alpha * (offered / (offered + model.gamma)))
    share = scale * (model.alpha / (offered + model.gamma))
    for i in range(n_states):
        out[i] = into[i] * share
    for i in range(start, end):
        state = item(states_in(group), width, i)
        out[state] = scale * sums_in(group)[i] + (out[state] if model.any_state else 0.0)
    out[n_states] = share * model.gamma if n_states < model.max_states else 0.0
    return n_states + 1


cdef inline uint32_t number_transition(
    const System* system, uint32_t* block, Scratch* scratch, double* out
) noexcept nogil:
    """Write p(m | x) of every candidate state of a stored particle; return how many there are."""
    cdef RealView view
    if is_plain(system):
        return plain_transition(system, block, out)
    view_real(system, block, scratch, &view)
    return real_transition(&system.model, &view, scratch.ones, out)


# ---- scores ------------------------------------------------------------------------------

cdef inline double log_weight_of(const System* system, int64_t particle) noexcept nogil:
    if system.logarithmic:
        return (<const double*>system.stored.log_weight.data)[particle]
    return log((<const double*>system.stored.weight.data)[particle])


cdef inline double log_total_of(const double* logs, uint32_t n) noexcept nogil:
    """The log of the sum of the exponentials of `logs`."""
    cdef double best = -INFINITY
    cdef double total = 0.0
    cdef uint32_t i
    for i in range(n):
        best = logs[i] if logs[i] > best else best
    if best == -INFINITY:
        return best
    for i in range(n):
        total += exp(logs[i] - best)
    return best + log(total)


cdef inline uint32_t log_potentials(
    const System* system, int64_t particle, double weight, Scratch* scratch, double* out,
    double* log_total,
) noexcept nogil:
    """Write the log of weight times f(m, y) of every state of a stored particle.

    `log_total` gets the log of the sum of f. A state that is not a candidate has -inf.
    """
    cdef uint32_t* block = block_of(system, particle)
    cdef const uint32_t* rows = statistics_of(system, block)
    cdef const double* density = log_densities(system)
    cdef const double* relative = <const double*>system.work.relative_density.data
    cdef double total = 0.0
    cdef uint32_t n = number_transition(system, block, scratch, out)
    cdef uint32_t i
    for i in range(n - 1):
        total += out[i] * relative[rows[i]]
        out[i] = log(weight * out[i]) + density[rows[i]]  # log(0) is -inf
    total += out[n - 1] * relative[PRIOR]
    out[n - 1] = log(weight * out[n - 1]) + density[PRIOR]
    if total > FEW:
        log_total[0] = system.numbers.best + log(total)
    else:
        log_total[0] = log_total_of(out, n) - log(weight)
    return n


cdef inline double log_moved_probability(
    System* system, int64_t parent, uint32_t state, uint32_t number
) noexcept nogil:
    """Log density of the next observation of a key under a particle after the pending step.

    The successors of the pending step exist, and all rows were scored as of the step after it.
    """
    cdef Scratch* scratch = &system.scratch
    cdef uint32_t* block = block_of(system, parent)
    cdef int32_t symbol = system.pending_symbol
    cdef const double* density = log_densities(system)
    cdef double* out = scratch.transition
    cdef Standing standing = standing_of(
        system, block, state, system.model.missing if symbol == MISSING else <uint32_t>symbol,
        number)
    cdef RealView view
    cdef uint32_t n, i, row
    view_real_moved(system, block, state, symbol, &standing, scratch, &view)
    n = real_transition(&system.model, &view, scratch.ones, out)
    for i in range(view.n_states):
        row = row_of(system, block, i)
        if i == state and symbol != MISSING:
            row = successors(system)[row]
        out[i] = log(out[i]) + density[row]
    out[view.n_states] = log(out[view.n_states]) + density[PRIOR]
    return log_total_of(out, n)


# ---- the predictive distribution ---------------------------------------------------------

cdef inline void add_component_weights(
    System* system, uint32_t* block, uint32_t state, const Standing* moved, double weight,
    double* stored, double* succeeded,
) noexcept nogil:
    """Add the weight of a particle times p(m | x) to the row of each of its states m.

    Unless `moved` is NULL, the particle first moves to `state` on the pending observation. The row
    of this state is then the successor, and its part is added to `succeeded`.
    """
    cdef Scratch* scratch = &system.scratch
    cdef double* out = scratch.transition
    cdef RealView view
    cdef uint32_t i, n
    if moved != NULL:
        view_real_moved(system, block, state, system.pending_symbol, moved, scratch, &view)
        n = real_transition(&system.model, &view, scratch.ones, out)
    else:
        n = number_transition(system, block, scratch, out)
    for i in range(n - 1):
        if moved != NULL and i == state and system.pending_symbol != MISSING:
            succeeded[row_of(system, block, i)] += weight * out[i]
        else:
            stored[row_of(system, block, i)] += weight * out[i]
    stored[PRIOR] += weight * out[n - 1]
