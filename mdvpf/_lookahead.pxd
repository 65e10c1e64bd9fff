# cython: language_level=3
"""Look-ahead: the regret term of MD-VPA.

A candidate (k, m) of the pending symbol is scored by

    s = b + discount * (log f(k, m, next symbol) - G(m)),

where G(m) is taken over all particles that have a candidate m, the one with M = m states, for
which m is new, included. So labels, which are numbered by first appearance in each particle, are
compared across particles.

The geometric mean takes a log for every candidate of every particle. Potentials are multiplied
instead, one product a label, and a log is taken only before a product could underflow. The
score itself is found only for the candidates that were collected for the pending symbol. The
largest potential of each label bounds what the others could gain; if that could put one of them
among the K best, all are collected and scored again.
"""

from libc.math cimport INFINITY, log
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from mdvpf._pool cimport resize
from mdvpf._score cimport fetch_ahead, particle_potentials
from mdvpf._types cimport (
    NO_MEMORY, NORMALIZER_GEOMETRIC, NORMALIZER_NONE, NORMALIZER_SUM, OK, SMALLEST_PRODUCT,
    Candidate, CandidateSet, Lookahead, Status, System,
)


cdef inline Status reserve_lookahead(
    System* system, int64_t n_candidates, uint32_t n_labels
) noexcept nogil:
    cdef Lookahead* ahead = &system.lookahead
    cdef size_t labels = (n_labels + 4) * sizeof(double)  # loops run in steps of four
    if resize(&system.memory, &ahead.potential, <size_t>n_candidates * sizeof(double)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &system.tilted.items,
              <size_t>n_candidates * sizeof(Candidate)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &ahead.log_sum, labels) != OK:
        return NO_MEMORY
    if resize(&system.memory, &ahead.product, labels) != OK:
        return NO_MEMORY
    if resize(&system.memory, &ahead.linear_sum, labels) != OK:
        return NO_MEMORY
    if resize(&system.memory, &ahead.largest, labels) != OK:
        return NO_MEMORY
    if resize(&system.memory, &ahead.count, n_labels * sizeof(int64_t)) != OK:
        return NO_MEMORY
    ahead.n_labels = n_labels
    return resize(&system.memory, &ahead.normalizer, labels)


cdef inline double larger(double a, double b) noexcept nogil:
    return a if a > b else b


cdef inline double smaller(double a, double b) noexcept nogil:
    return a if a < b else b


cdef inline void note_largest(double* largest, const double* potential, uint32_t n) noexcept nogil:
    """Raise the largest potential of each label; zeros follow the n up to a multiple of four."""
    cdef uint32_t i
    cdef double a, b, c, d
    for i in range(0, n, 4):
        a = larger(largest[i], potential[i])
        b = larger(largest[i + 1], potential[i + 1])
        c = larger(largest[i + 2], potential[i + 2])
        d = larger(largest[i + 3], potential[i + 3])
        largest[i] = a
        largest[i + 1] = b
        largest[i + 2] = c
        largest[i + 3] = d


cdef inline void multiply_in(Lookahead* ahead, double* potential, uint32_t n) noexcept nogil:
    """Multiply the potentials of one particle's candidates into the products of their labels."""
    cdef double* product = <double*>ahead.product.data
    cdef double* log_sum = <double*>ahead.log_sum.data
    cdef double least_a = 1.0
    cdef double least_b = 1.0
    cdef double a, b, c, d
    cdef uint32_t i
    potential[n] = 1.0
    potential[n + 1] = 1.0
    potential[n + 2] = 1.0
    for i in range(0, n, 4):
        a = product[i] * potential[i]
        b = product[i + 1] * potential[i + 1]
        c = product[i + 2] * potential[i + 2]
        d = product[i + 3] * potential[i + 3]
        product[i] = a
        product[i + 1] = b
        product[i + 2] = c
        product[i + 3] = d
        least_a = smaller(smaller(a, c), least_a)
        least_b = smaller(smaller(b, d), least_b)
    if smaller(least_a, least_b) < SMALLEST_PRODUCT:
        for i in range(n):
            if product[i] < SMALLEST_PRODUCT:
                log_sum[i] += log(product[i])
                product[i] = 1.0


cdef inline void add_in(Lookahead* ahead, const double* potential, uint32_t n) noexcept nogil:
    """Add the potentials of one particle's candidates to the sums of their labels."""
    cdef double* linear_sum = <double*>ahead.linear_sum.data
    cdef uint32_t i
    for i in range(n):
        linear_sum[i] += potential[i]


cdef inline void look_ahead(System* system, int32_t symbol) noexcept nogil:
    """Find G for every label, and the look-ahead potential of every candidate of the set."""
    cdef Lookahead* ahead = &system.lookahead
    cdef const Candidate* items = <const Candidate*>system.candidates.items.data
    cdef double* potential = <double*>system.scratch.transition.data
    cdef double* wanted = <double*>ahead.potential.data
    cdef double* normalizer = <double*>ahead.normalizer.data
    cdef double* largest = <double*>ahead.largest.data
    cdef int64_t* count = <int64_t*>ahead.count.data
    cdef int64_t n_candidates = system.candidates.n
    cdef int64_t place = 0
    cdef int64_t k
    cdef uint32_t i, n
    cdef double total
    for i in range(ahead.n_labels + 4):
        (<double*>ahead.log_sum.data)[i] = 0.0
        (<double*>ahead.product.data)[i] = 1.0
        (<double*>ahead.linear_sum.data)[i] = 0.0
        largest[i] = 0.0
    for i in range(ahead.n_labels):
        count[i] = 0
    for k in range(system.n_particles):
        fetch_ahead(system, k, 1, symbol)
        n = particle_potentials(system, k, symbol, potential, &total)
        count[n - 1] += 1  # made cumulative below
        note_largest(largest, potential, n)
        while place < n_candidates and items[place].place >> 32 == <uint64_t>k:
            wanted[place] = potential[<uint32_t>items[place].place]
            place += 1
        if system.normalizer == NORMALIZER_GEOMETRIC:
            multiply_in(ahead, potential, n)
        elif system.normalizer == NORMALIZER_SUM:
            add_in(ahead, potential, n)
    for i in range(ahead.n_labels - 1, 0, -1):
        count[i - 1] += count[i]
    for i in range(ahead.n_labels):
        if count[i] == 0 or system.normalizer == NORMALIZER_NONE:
            normalizer[i] = 0.0
        elif system.normalizer == NORMALIZER_GEOMETRIC:
            normalizer[i] = (
                (<double*>ahead.log_sum.data)[i] + log((<double*>ahead.product.data)[i])
            ) / count[i]
        else:
            normalizer[i] = log((<double*>ahead.linear_sum.data)[i]) / system.budget


cdef inline double largest_tilt(const System* system, double discount) noexcept nogil:
    """The most that a look-ahead can add to the log score of any candidate."""
    cdef const Lookahead* ahead = &system.lookahead
    cdef const double* normalizer = <const double*>ahead.normalizer.data
    cdef const double* largest = <const double*>ahead.largest.data
    cdef double most = -INFINITY
    cdef double gain
    cdef uint32_t label
    for label in range(ahead.n_labels):
        if largest[label] > 0.0:
            gain = discount * (log(largest[label]) - normalizer[label])
            most = gain if gain > most else most
    return most


cdef inline void tilt(System* system, double discount) noexcept nogil:
    """Write the candidates with their look-ahead scores, as logs, to ``system.tilted``."""
    cdef const Lookahead* ahead = &system.lookahead
    cdef const CandidateSet* candidates = &system.candidates
    cdef CandidateSet* tilted = &system.tilted
    cdef const Candidate* items = <const Candidate*>candidates.items.data
    cdef Candidate* target = <Candidate*>tilted.items.data
    cdef const double* potential = <const double*>ahead.potential.data
    cdef const double* normalizer = <const double*>ahead.normalizer.data
    cdef double most = largest_tilt(system, discount)
    cdef double score
    cdef int64_t i
    tilted.n = candidates.n
    tilted.logarithmic = True
    tilted.complete = candidates.complete
    tilted.best = -INFINITY
    tilted.least = INFINITY
    for i in range(candidates.n):
        score = items[i].value if candidates.logarithmic else log(items[i].value)
        score += discount * (log(potential[i]) - normalizer[<uint32_t>items[i].place])
        target[i].value = score
        target[i].place = items[i].place
        tilted.best = score if score > tilted.best else tilted.best
        tilted.least = score if score < tilted.least else tilted.least
    # A candidate that was not collected has a score below the bound before it is tilted.
    tilted.bound = -INFINITY
    if not candidates.complete:
        tilted.bound = most + (
            candidates.bound if candidates.logarithmic else log(candidates.bound)
        )
    # The next expansion collects what a tilt of about this size could still lift.
    system.margin = most + 0.02 if most > 0.0 else 0.02
