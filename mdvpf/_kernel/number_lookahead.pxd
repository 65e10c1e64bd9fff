# cython: language_level=3
"""The look-ahead of MD-VPA in families over numbers, with sums of logs in doubles.

Labels are looked up in the hash table of `real_lookahead.pxd`. There, logs are fixed-point numbers;
here they are doubles, because log densities have no bound from which a fixed-point format could be
chosen. One thread adds them in the order of particles.
"""

from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from mdvpf._kernel.constants cimport NORMALIZER_GEOMETRIC, NORMALIZER_SUM
from mdvpf._kernel.labels cimport label_of
from mdvpf._kernel.number_scores cimport log_potentials
from mdvpf._kernel.particles cimport block_of, fetch_ahead
from mdvpf._kernel.real_lookahead cimport clear_places, place_of, set_places
from mdvpf._kernel.types cimport Candidate, Lookahead, System


cdef inline void clear_number_places(Lookahead* ahead) noexcept nogil:
    cdef double* largest = <double*>ahead.largest
    cdef uint32_t place
    clear_places(ahead)  # zeros are the same in both types
    for place in range(ahead.place_mask + 1):
        largest[place] = -INFINITY


cdef inline void add_log(
    Lookahead* ahead, uint32_t place, double value, bint is_summed
) noexcept nogil:
    """Add a log potential to the sums of a label.

    `linear_sum`, if `is_summed`, has potentials divided by the largest of the label so far.
    """
    cdef double* log_sum = <double*>ahead.log_sum
    cdef double* largest = <double*>ahead.largest
    log_sum[place] += value
    ahead.n_offering[place] += 1
    if value > largest[place]:
        if is_summed:
            ahead.linear_sum[place] *= exp(largest[place] - value)  # 0 if it is the first
        largest[place] = value
    if is_summed:
        ahead.linear_sum[place] += exp(value - largest[place])


cdef inline int64_t add_numbers(
    System* system, Lookahead* ahead, int64_t particle, int64_t index
) noexcept nogil:
    """Add a particle's log potentials to the sums; write those of its collected candidates.

    The particle's candidates in the set start at `index`; returns the index of the next particle's
    first candidate.
    """
    cdef const Candidate* items = system.candidates.items
    cdef uint32_t* block = block_of(system, particle)
    cdef double* logs = system.scratch.transition
    cdef double* potential = <double*>ahead.potential
    cdef uint32_t* places = system.scratch.overlay_row
    cdef bint is_summed = system.normalizer == NORMALIZER_SUM
    cdef double total
    cdef uint32_t i
    cdef uint32_t n = log_potentials(system, particle, 1.0, &system.scratch, logs, &total)
    for i in range(n):
        if logs[i] > -INFINITY:
            places[i] = place_of(ahead, label_of(system, block, i))
            add_log(ahead, places[i], logs[i], is_summed)
    while index < system.candidates.n and items[index].parent_state >> 32 == <uint64_t>particle:
        i = <uint32_t>items[index].parent_state
        potential[index] = logs[i]
        ahead.candidate_place[index] = places[i]
        index += 1
    return index


cdef inline void look_ahead_numbers(System* system, int32_t symbol) noexcept nogil:
    """Compute G of every label, and the look-ahead potential of every collected candidate."""
    cdef Lookahead* ahead = &system.lookahead
    cdef int64_t index
    cdef int64_t k = 0
    cdef uint32_t place
    set_places(ahead, 4 * (system.most_states + 1))
    while k < system.n_particles:  # start again with a larger table if this one fills up
        index = 0
        k = 0
        clear_number_places(ahead)
        while k < system.n_particles and 2 * (ahead.n_places + system.most_states) \
                <= ahead.place_mask:
            fetch_ahead(system, k, 1, symbol)
            index = add_numbers(system, ahead, k, index)
            k += 1
        if k < system.n_particles:
            set_places(ahead, 2 * (ahead.place_mask + 1))
    for place in range(ahead.place_mask + 1):
        ahead.normalizer[place] = 0.0
        if ahead.n_offering[place] and system.normalizer == NORMALIZER_GEOMETRIC:
            ahead.normalizer[place] = (<double*>ahead.log_sum)[place] / ahead.n_offering[place]
        elif ahead.n_offering[place] and system.normalizer == NORMALIZER_SUM:
            ahead.normalizer[place] = (
                (<double*>ahead.largest)[place] + log(ahead.linear_sum[place])
            ) / system.budget
