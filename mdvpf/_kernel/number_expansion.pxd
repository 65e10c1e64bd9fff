# cython: language_level=3
"""Expansion over numbers: the candidates of one particle that reach a bound, with few logs.

Scores are logs (`number_scores.pxd`), but most candidates are far below the bound. Therefore the
product of weight, transition and relative density is compared first, and the log is computed only
of a score whose product may reach the bound.

The probability of the observation under a particle is stored relative to the largest density. One
that is so small that it might underflow is stored as its log, which is negative.
"""

from libc.math cimport INFINITY, exp, fabs, log
from libc.stdint cimport int64_t, uint32_t, uint64_t

from mdvpf._kernel.constants cimport BAND
from mdvpf._kernel.number_scores cimport FEW, number_transition
from mdvpf._kernel.particles cimport block_of
from mdvpf._kernel.statistics cimport PRIOR, log_densities, statistics_of
from mdvpf._kernel.types cimport Candidate, Scratch, System

cdef extern from *:
    """
    #define MDVPF_LOG_FEW -460.51701859880914
    """
    const double LOG_FEW "MDVPF_LOG_FEW"    # log(FEW)


cdef inline double least_product(const System* system, double bound) noexcept nogil:
    """A number that is below the product of every score that reaches the bound.

    It is 0 if products cannot be compared, since they may underflow.
    """
    cdef double best = system.numbers.best
    cdef double rounding = BAND + 1e-14 * (fabs(bound) + fabs(best))
    cdef double least
    if system.carry_weights and system.logarithmic:
        return 0.0
    least = exp(bound - best - rounding)
    return least if least > FEW else 0.0


cdef inline int64_t collect_numbers(
    const System* system, Scratch* scratch, int64_t particle, double bound, double least,
    Candidate* items,
) noexcept nogil:
    """Collect the candidates of a particle that reach a bound on their scores; return how many.

    `least` is that of `least_product`, and positive. Stores the particle's probability of the
    observation. Returns -1 if it is too small for a sum of products.
    """
    cdef uint32_t* block = block_of(system, particle)
    cdef const uint32_t* rows = statistics_of(system, block)
    cdef const double* density = log_densities(system)
    cdef const double* relative = <const double*>system.work.relative_density.data
    cdef double* transition = scratch.transition
    cdef uint64_t parent = <uint64_t>particle << 32
    cdef double weight = 1.0
    cdef double total = 0.0
    cdef double product
    cdef uint32_t n = number_transition(system, block, scratch, transition)
    cdef uint32_t i, row
    cdef int64_t n_kept = 0
    if system.carry_weights:
        weight = (<const double*>system.stored.weight.data)[particle]
        least /= weight
    for i in range(n):
        row = rows[i] if i < n - 1 else <uint32_t>PRIOR
        product = transition[i] * relative[row]
        total += product
        if product >= least:
            items[n_kept].value = log(weight * transition[i]) + density[row]
            items[n_kept].parent_state = parent | i
            n_kept += items[n_kept].value >= bound
    if not total > FEW:
        return -1
    (<double*>system.work.symbol_probability.data)[particle] = total
    return n_kept


# ---- probabilities of the observation ----------------------------------------------------

cdef inline double stored_probability(double log_probability, double largest) noexcept nogil:
    """What is stored of a probability, relative to the density whose log is `largest`."""
    cdef double relative = log_probability - largest
    return exp(relative) if relative > LOG_FEW else relative


cdef inline double stored_log(double stored, double largest) noexcept nogil:
    """The log of a stored probability."""
    return largest + (log(stored) if stored > 0.0 else stored)


cdef inline double log_mixture(
    const double* stored, double largest, const double* weight, const double* log_weight, int64_t n
) noexcept nogil:
    """The log of the sum of n stored probabilities, times their weights unless `weight` is NULL.

    `log_weight` is NULL unless a weight is too small for products.
    """
    cdef double best = -INFINITY
    cdef double total = 0.0
    cdef double value
    cdef int64_t k
    if log_weight == NULL:
        for k in range(n):
            value = stored[k] if stored[k] > 0.0 else 0.0
            total += value * weight[k] if weight != NULL else value
        if total > FEW:
            return largest + log(total)
    for k in range(n):
        value = log_term(stored[k], largest, weight, log_weight, k)
        best = value if value > best else best
    if not best > -INFINITY:
        return best
    total = 0.0
    for k in range(n):
        total += exp(log_term(stored[k], largest, weight, log_weight, k) - best)
    return best + log(total)


cdef inline double log_term(
    double stored, double largest, const double* weight, const double* log_weight, int64_t k
) noexcept nogil:
    """The log of a term of `log_mixture`."""
    cdef double value = stored_log(stored, largest)
    if log_weight != NULL:
        value += log_weight[k]
    elif weight != NULL:
        value += log(weight[k])
    return value


cdef inline double log_mixture_of_particles(
    const System* system, const double* stored, bint weighted
) noexcept nogil:
    """`log_mixture` of a probability for each particle."""
    cdef const double* weight = NULL
    cdef const double* log_weight = NULL
    if weighted:
        weight = <const double*>system.stored.weight.data
        if system.logarithmic:
            log_weight = <const double*>system.stored.log_weight.data
    return log_mixture(stored, system.numbers.best, weight, log_weight, system.n_particles)
