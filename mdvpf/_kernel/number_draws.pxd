# cython: language_level=3
"""Draws of SMC and ParticleLearning in families over numbers, from log probabilities."""

from libc.math cimport INFINITY, exp, isfinite
from libc.stdint cimport int32_t, int64_t, uint32_t

from mdvpf._kernel.constants cimport BLOCK_STATES, MISSING, NOT_A_NUMBER, OK, Status
from mdvpf._kernel.number_expansion cimport (
    log_mixture_of_particles, stored_log, stored_probability,
)
from mdvpf._kernel.number_scores cimport (
    log_potentials, log_total_of, log_weight_of, number_transition,
)
from mdvpf._kernel.particles cimport block_of, end_of_sharing, fetch_ahead
from mdvpf._kernel.resampling cimport first_above
from mdvpf._kernel.statistics cimport log_densities, row_of
from mdvpf._kernel.top_k cimport normalize, weigh
from mdvpf._kernel.types cimport Report, Scratch, Survivors, System


cdef inline Status move_all_numbers(
    System* system, int32_t symbol, const double* uniforms, Survivors* moved, Report* report
) noexcept nogil:
    """Draw a state for every particle, and weight the particle by the density there."""
    cdef Scratch* scratch = &system.scratch
    cdef double* transition = scratch.transition
    cdef double* probability = <double*>system.work.resampling_weight.data
    cdef const double* density = log_densities(system)
    cdef double predictive, evidence, total
    cdef uint32_t* block
    cdef uint32_t i, n, state
    cdef int64_t k = 0
    cdef int64_t end
    moved.n = system.n_particles
    while k < moved.n:
        end = end_of_sharing(system, k)
        fetch_ahead(system, end - 1, 1, symbol)
        log_potentials(system, k, 1.0, scratch, transition, &total)
        block = block_of(system, k)
        n = number_transition(system, block, scratch, transition)
        for i in range(1, n):
            transition[i] += transition[i - 1]
        for k in range(k, end):
            state = <uint32_t>first_above(transition, n, uniforms[k] * transition[n - 1])
            moved.parent[k] = <uint32_t>k
            moved.state[k] = state
            probability[k] = stored_probability(total, system.numbers.best)
            moved.weight[k] = log_weight_of(system, k) + density[row_of(system, block, state)]
        k = end
    predictive = log_mixture_of_particles(system, probability, True)
    evidence = log_total_of(moved.weight, <uint32_t>moved.n)
    weigh(moved, True)
    if not normalize(moved) or not isfinite(predictive) or not isfinite(evidence):
        return NOT_A_NUMBER
    report.log_predictive = 0.0 if symbol == MISSING else predictive
    report.log_evidence = 0.0 if symbol == MISSING else evidence
    return OK


cdef inline double weigh_parents_numbers(
    System* system, int32_t symbol, double* potential, double* cumulative
) noexcept nogil:
    """`weigh_parents` for numbers: potentials and weights relative to the best parent."""
    cdef double* start = potential
    cdef double best = -INFINITY
    cdef double total = 0.0
    cdef double mass
    cdef int64_t k = 0
    cdef int64_t end
    cdef uint32_t i, n
    while k < system.n_particles:
        end = end_of_sharing(system, k)
        fetch_ahead(system, end - 1, 1, symbol)
        potential += log_potentials(
            system, k, 1.0, &system.scratch, potential, &mass)
        best = mass if mass > best else best
        for k in range(k, end):
            cumulative[k] = stored_probability(mass, system.numbers.best)
        k = end
    system.extent.potentials = max(system.extent.potentials, potential - start)
    system.candidates.log_predictive = log_mixture_of_particles(system, cumulative, True)
    potential = start
    k = 0
    while k < system.n_particles:
        end = end_of_sharing(system, k)
        n = block_of(system, k)[BLOCK_STATES] + 1
        for i in range(n):
            potential[i] = exp(potential[i] - best)
        potential += n
        for k in range(k, end):
            total += (<const double*>system.stored.weight.data)[k] * exp(
                stored_log(cumulative[k], system.numbers.best) - best)
            cumulative[k] = total
        k = end
    return total
