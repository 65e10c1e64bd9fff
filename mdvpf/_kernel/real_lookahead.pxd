# cython: language_level=3
"""The look-ahead of MD-VPA for particles with real counts: every potential of every state.

G(m) is a mean over the particles that offer the label m. A state that has faded away is not
offered. Sums by label are in a hash table, since labels grow without limit while states appear and
fade away.
"""

from libc.math cimport log
from libc.stdint cimport INT64_MIN, int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memset

from mdvpf._kernel.constants cimport NORMALIZER_GEOMETRIC, NORMALIZER_SUM
from mdvpf._kernel.labels cimport label_of
from mdvpf._kernel.log_tables cimport to_fixed
from mdvpf._kernel.particles cimport block_of, fetch_ahead
from mdvpf._kernel.real_scores cimport real_potentials
from mdvpf._kernel.types cimport Candidate, Lookahead, System


cdef inline uint32_t place_of(Lookahead* ahead, uint32_t label) noexcept nogil:
    """The place of a label in the hash table, at least half of which is free."""
    cdef uint32_t place = (label * 0x9E3779B1u) >> ahead.place_shift
    while ahead.labels[place] and ahead.labels[place] != label + 1:
        place = (place + 1) & ahead.place_mask
    if ahead.labels[place] == 0:
        ahead.labels[place] = label + 1
        ahead.n_places += 1
    return place


cdef inline void set_places(Lookahead* ahead, uint32_t n) noexcept nogil:
    """Set the size of the hash table to a power of two, at least n."""
    ahead.place_mask = 15
    ahead.place_shift = 28
    while ahead.place_mask + 1 < n:
        ahead.place_mask = 2 * ahead.place_mask + 1
        ahead.place_shift -= 1
    ahead.n_labels = ahead.place_mask + 1


cdef inline void clear_places(Lookahead* ahead) noexcept nogil:
    cdef size_t n = <size_t>ahead.place_mask + 1
    cdef size_t i
    memset(ahead.labels, 0, n * sizeof(uint32_t))
    memset(ahead.log_sum, 0, n * sizeof(int64_t))
    memset(ahead.n_offering, 0, n * sizeof(int64_t))
    memset(ahead.linear_sum, 0, n * sizeof(double))
    for i in range(n):
        ahead.largest[i] = INT64_MIN
    ahead.n_places = 0
    ahead.common = INT64_MIN


cdef inline int64_t add_real(
    System* system, Lookahead* ahead, int64_t particle, int32_t symbol, int64_t index
) noexcept nogil:
    """Add the logs of a particle's potentials to the sums; write those of its collected candidates.

    The particle's candidates in the set start at `index`; returns the index of the next particle's
    first candidate.
    """
    cdef const Candidate* items = system.candidates.items
    cdef uint32_t* block = block_of(system, particle)
    cdef double* potential = system.scratch.transition
    cdef int64_t* logs = <int64_t*>system.scratch.emission
    cdef uint32_t* places = system.scratch.overlay_row
    cdef double total
    cdef uint32_t i, place
    cdef uint32_t n = real_potentials(
        system, particle, symbol, &system.scratch, potential, &total
    )
    for i in range(n):
        if potential[i] > 0.0:
            place = place_of(ahead, label_of(system, block, i))
            places[i] = place
            logs[i] = to_fixed(ahead, log(potential[i]))
            ahead.log_sum[place] += logs[i]
            ahead.linear_sum[place] += potential[i]
            ahead.n_offering[place] += 1
            if logs[i] > ahead.largest[place]:
                ahead.largest[place] = logs[i]
    while index < system.candidates.n and items[index].parent_state >> 32 == <uint64_t>particle:
        i = <uint32_t>items[index].parent_state
        ahead.potential[index] = logs[i]
        ahead.candidate_place[index] = places[i]
        index += 1
    return index


cdef inline void look_ahead_real(System* system, int32_t symbol) noexcept nogil:
    """Compute G of every label, and the look-ahead potential of every collected candidate."""
    cdef Lookahead* ahead = &system.lookahead
    cdef int64_t index
    cdef int64_t k = 0
    cdef uint32_t place
    set_places(ahead, 4 * (system.most_states + 1))
    while k < system.n_particles:  # start again with a larger table if this one fills up
        index = 0
        k = 0
        clear_places(ahead)
        while k < system.n_particles and 2 * (ahead.n_places + system.most_states) \
                <= ahead.place_mask:
            fetch_ahead(system, k, 1, symbol)
            index = add_real(system, ahead, k, symbol, index)
            k += 1
        if k < system.n_particles:
            set_places(ahead, 2 * (ahead.place_mask + 1))
    for place in range(ahead.place_mask + 1):
        ahead.normalizer[place] = 0.0
        if ahead.n_offering[place] and system.normalizer == NORMALIZER_GEOMETRIC:
            ahead.normalizer[place] = <double>ahead.log_sum[place] / ahead.n_offering[place]
        elif ahead.n_offering[place] and system.normalizer == NORMALIZER_SUM:
            ahead.normalizer[place] = \
                ahead.fixed_one * (log(ahead.linear_sum[place]) / system.budget)
