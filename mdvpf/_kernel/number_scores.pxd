# cython: language_level=3
"""Scores of particles in families over numbers, as logs: densities may underflow.

`score_rows` has computed the log density of the observation for every row of statistics. This file
combines these densities with the transitions of a particle. Sums use densities relative to the
largest of all rows. If such a sum is too small, it is computed again relative to the largest term
of the particle.
"""

from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int32_t, int64_t, uint32_t

from mdvpf._kernel.constants cimport MISSING
from mdvpf._kernel.particles cimport block_of
from mdvpf._kernel.positions cimport standing_of
from mdvpf._kernel.real_particles cimport view_real, view_real_moved
from mdvpf._kernel.real_scores cimport real_transition
from mdvpf._kernel.statistics cimport (
    PRIOR,
    log_densities, row_of, statistics_of, successors,
)
from mdvpf._kernel.types cimport RealView, Scratch, Standing, System

cdef extern from *:
    """
    #define MDVPF_FEW 1e-200
    """
    const double FEW "MDVPF_FEW"


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
    const System* system, int64_t particle, Scratch* scratch, double* out, double* log_total
) noexcept nogil:
    """Write log f(m, y) of every state of a stored particle, and the log of the sum.

    A state that is not a candidate has -inf.
    """
    cdef uint32_t* block = block_of(system, particle)
    cdef const uint32_t* rows = statistics_of(system, block)
    cdef const double* density = log_densities(system)
    cdef const double* relative = <const double*>system.work.relative_density.data
    cdef double total = 0.0
    cdef RealView view
    cdef uint32_t n, i
    view_real(system, block, scratch, &view)
    n = real_transition(&system.model, &view, scratch.ones, out)
    for i in range(view.n_states):
        total += out[i] * relative[rows[i]]
        out[i] = log(out[i]) + density[rows[i]]  # log(0) is -inf
    total += out[view.n_states] * relative[PRIOR]
    out[view.n_states] = log(out[view.n_states]) + density[PRIOR]
    if total > FEW:
        log_total[0] = system.numbers.best + log(total)
    else:
        log_total[0] = log_total_of(out, n)
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


cdef inline double log_mixture(
    const System* system, const double* log_probability, bint weighted
) noexcept nogil:
    """The log of the sum of the probabilities of all particles, weighted or not."""
    cdef double best = -INFINITY
    cdef double total = 0.0
    cdef double value
    cdef int64_t k
    for k in range(system.n_particles):
        value = log_probability[k] + (log_weight_of(system, k) if weighted else 0.0)
        best = value if value > best else best
    if not best > -INFINITY:
        return best
    for k in range(system.n_particles):
        value = log_probability[k] + (log_weight_of(system, k) if weighted else 0.0)
        total += exp(value - best)
    return best + log(total)


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
    cdef uint32_t i
    if moved != NULL:
        view_real_moved(system, block, state, system.pending_symbol, moved, scratch, &view)
    else:
        view_real(system, block, scratch, &view)
    real_transition(&system.model, &view, scratch.ones, out)
    for i in range(view.n_states):
        if moved != NULL and i == state and system.pending_symbol != MISSING:
            succeeded[row_of(system, block, i)] += weight * out[i]
        else:
            stored[row_of(system, block, i)] += weight * out[i]
    stored[PRIOR] += weight * out[view.n_states]
