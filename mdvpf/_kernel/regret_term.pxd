# cython: language_level=3
"""The regret term of MD-VPA, added to the scores of the candidates that were collected.

Scores with the regret term are called *tilted*. The largest potential of each label bounds the gain
of candidates that were not collected. If one of them could be among the K best, all candidates are
collected and scored again.
"""

from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int64_t, uint32_t

from mdvpf._kernel.types cimport Candidate, CandidateSet, Lookahead, System


cdef inline double largest_regret_term(const System* system, double discount) noexcept nogil:
    """An upper bound on what the regret term adds to the log score of a candidate."""
    cdef const Lookahead* ahead = &system.lookahead
    cdef const double* normalizer = ahead.normalizer
    cdef const int64_t* largest = ahead.largest
    cdef double most = -INFINITY
    cdef double gain
    cdef int64_t potential
    cdef uint32_t label
    for label in range(ahead.n_labels):
        if system.numbers.n_channels:
            if ahead.n_offering[label]:
                gain = ((<const double*>largest)[label] - normalizer[label]) * discount
                most = gain if gain > most else most
        elif ahead.n_offering[label]:
            potential = largest[label] if largest[label] > ahead.common else ahead.common
            gain = (<double>potential - normalizer[label]) / ahead.fixed_one * discount
            most = gain if gain > most else most
    return most


cdef inline void write_with_regret_term(
    System* system, double discount, bint logarithmic
) noexcept nogil:
    """Write the candidates with the regret term added; scores are logs if `logarithmic`."""
    cdef const CandidateSet* candidates = &system.candidates
    cdef CandidateSet* tilted = &system.tilted
    cdef const Candidate* items = candidates.items
    cdef Candidate* target = tilted.items
    cdef const int64_t* potential = system.lookahead.potential
    cdef const double* normalizer = system.lookahead.normalizer
    cdef double per_one = 1.0 / system.lookahead.fixed_one  # a power of two
    cdef double best = -INFINITY
    cdef double least = INFINITY
    cdef double score
    cdef int64_t i
    cdef const uint32_t* place = system.lookahead.candidate_place
    cdef bint real = system.model.real
    cdef bint of_numbers = system.numbers.n_channels > 0
    for i in range(candidates.n):
        if of_numbers:
            score = (<const double*>potential)[i] - normalizer[place[i]]
        else:
            score = <double>potential[i] \
                - normalizer[place[i] if real else <uint32_t>items[i].parent_state]
            score *= per_one
        score *= discount
        if candidates.logarithmic:
            score += items[i].value
        elif logarithmic:
            score += log(items[i].value)
        else:
            score = items[i].value * exp(score)
        target[i].value = score
        target[i].parent_state = items[i].parent_state
        best = score if score > best else best
        least = score if score < least else least
    tilted.best = best
    tilted.least = least
    tilted.n = candidates.n
    tilted.complete = candidates.complete
    tilted.logarithmic = logarithmic


cdef inline void apply_regret_term(System* system, double discount) noexcept nogil:
    """Write the candidates with their tilted scores to `system.tilted`."""
    cdef const CandidateSet* candidates = &system.candidates
    cdef CandidateSet* tilted = &system.tilted
    cdef double most = largest_regret_term(system, discount)
    write_with_regret_term(system, discount, candidates.logarithmic)
    if not candidates.logarithmic and not 1e-150 < tilted.least <= tilted.best < 1e150:
        write_with_regret_term(system, discount, True)  # linear scores could underflow
    # The untilted scores of candidates that were not collected are below `candidates.bound`.
    tilted.bound = -INFINITY
    if not candidates.complete:
        if candidates.logarithmic:
            tilted.bound = candidates.bound + most
        elif tilted.logarithmic:
            tilted.bound = log(candidates.bound) + most
        else:
            tilted.bound = candidates.bound * exp(most)
    # The next expansion collects all candidates that such a regret term could lift to the top.
    system.margin = most + 0.02 if most > 0.0 else 0.02
