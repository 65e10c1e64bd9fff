# cython: language_level=3
"""Look-ahead: the regret term of MD-VPA.

A candidate (k, m) of the pending symbol is scored by

    s = b + discount * (log f(k, m, next symbol) - G(m)),

where G(m) is taken over all particles that have a candidate m, the one with M = m states, for
which m is new, included. So labels, which are numbered by first appearance in each particle, are
compared across particles.

The geometric mean takes a log for every candidate of every particle. Potentials are multiplied
instead, one product a label, and a log is taken only before a product could underflow. The
score itself takes a log and an exponential; the largest and the smallest potential of a label
bound it, and it is found only for candidates that those bounds leave in the running.
"""

from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from mdvpf._pool cimport resize
from mdvpf._score cimport fetch_ahead, particle_potentials
from mdvpf._select cimport key_value, kth_largest, order_key
from mdvpf._types cimport (
    BAND, LARGEST_TILT, NO_MEMORY, NORMALIZER_GEOMETRIC, NORMALIZER_NONE, OK, SMALLEST_PRODUCT,
    Candidate, CandidateSet, Lookahead, Status, System,
)


cdef inline Status reserve_lookahead(
    System* system, int64_t n_candidates, uint32_t n_labels
) noexcept nogil:
    cdef Lookahead* ahead = &system.lookahead
    cdef size_t labels = n_labels * sizeof(double)
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
    if resize(&system.memory, &ahead.smallest, labels) != OK:
        return NO_MEMORY
    if resize(&system.memory, &ahead.highest, labels) != OK:
        return NO_MEMORY
    if resize(&system.memory, &ahead.lowest, labels) != OK:
        return NO_MEMORY
    if resize(&system.memory, &ahead.count, n_labels * sizeof(int64_t)) != OK:
        return NO_MEMORY
    ahead.n_labels = n_labels
    return resize(&system.memory, &ahead.normalizer, labels)


cdef inline void gather(
    Lookahead* ahead, const double* potential, uint32_t n
) noexcept nogil:
    """Add the potentials of one particle's candidates to the sums of their labels."""
    cdef double* product = <double*>ahead.product.data
    cdef double* linear_sum = <double*>ahead.linear_sum.data
    cdef double* largest = <double*>ahead.largest.data
    cdef double* smallest = <double*>ahead.smallest.data
    cdef double* log_sum = <double*>ahead.log_sum.data
    cdef double least = 1.0
    cdef uint32_t i
    for i in range(n):
        product[i] *= potential[i]
        linear_sum[i] += potential[i]
        largest[i] = potential[i] if potential[i] > largest[i] else largest[i]
        smallest[i] = potential[i] if potential[i] < smallest[i] else smallest[i]
        least = product[i] if product[i] < least else least
    (<int64_t*>ahead.count.data)[n - 1] += 1  # made cumulative at the end
    if least < SMALLEST_PRODUCT:
        for i in range(n):
            if product[i] < SMALLEST_PRODUCT:
                log_sum[i] += log(product[i])
                product[i] = 1.0


cdef inline void look_ahead(System* system, int32_t symbol) noexcept nogil:
    """Find G for every label, and the look-ahead potential of every candidate of the set."""
    cdef Lookahead* ahead = &system.lookahead
    cdef const Candidate* items = <const Candidate*>system.candidates.items.data
    cdef double* potential = <double*>system.scratch.transition.data
    cdef double* wanted = <double*>ahead.potential.data
    cdef double* normalizer = <double*>ahead.normalizer.data
    cdef int64_t* count = <int64_t*>ahead.count.data
    cdef int64_t n_candidates = system.candidates.n
    cdef int64_t place = 0
    cdef int64_t k
    cdef uint32_t i, n
    cdef double total
    for i in range(ahead.n_labels):
        (<double*>ahead.log_sum.data)[i] = 0.0
        (<double*>ahead.product.data)[i] = 1.0
        (<double*>ahead.linear_sum.data)[i] = 0.0
        (<double*>ahead.largest.data)[i] = 0.0
        (<double*>ahead.smallest.data)[i] = 1.0
        count[i] = 0
    for k in range(system.n_particles):
        fetch_ahead(system, k, 1, symbol)
        n = particle_potentials(system, k, symbol, potential, &total)
        gather(ahead, potential, n)
        while place < n_candidates and items[place].place >> 32 == <uint64_t>k:
            wanted[place] = potential[<uint32_t>items[place].place]
            place += 1
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


cdef inline bint bound_tilts(System* system, double discount) noexcept nogil:
    """Find how far each label's scores can be tilted; whether all factors are moderate."""
    cdef Lookahead* ahead = &system.lookahead
    cdef const double* normalizer = <const double*>ahead.normalizer.data
    cdef double* highest = <double*>ahead.highest.data
    cdef double* lowest = <double*>ahead.lowest.data
    cdef bint moderate = True
    cdef uint32_t label
    for label in range(ahead.n_labels):
        highest[label] = 0.0
        lowest[label] = 0.0
        if (<int64_t*>ahead.count.data)[label] == 0:
            continue
        highest[label] = exp(
            discount * (log((<double*>ahead.largest.data)[label]) - normalizer[label])
        )
        lowest[label] = exp(
            discount * (log((<double*>ahead.smallest.data)[label]) - normalizer[label])
        )
        if not (highest[label] < LARGEST_TILT and lowest[label] * LARGEST_TILT > 1.0):
            moderate = False
    return moderate


cdef inline double least_to_beat(System* system) noexcept nogil:
    """A score that K candidates reach with the least tilt that their labels allow."""
    cdef const CandidateSet* candidates = &system.candidates
    cdef const Candidate* items = <const Candidate*>candidates.items.data
    cdef const double* lowest = <const double*>system.lookahead.lowest.data
    cdef uint64_t* keys = <uint64_t*>system.scratch.keys.data
    cdef int64_t i
    if candidates.n <= system.budget:
        return 0.0
    for i in range(candidates.n):
        keys[i] = order_key(items[i].value * lowest[<uint32_t>items[i].place])
    return key_value(
        kth_largest(keys, candidates.n, system.budget, <uint64_t*>system.scratch.order.data)
    ) * (1.0 - 2.0 * BAND)


cdef inline void tilt(System* system, double discount, bint everything) noexcept nogil:
    """Write the candidates with their look-ahead scores to ``system.tilted``.

    Unless everything is wanted, those that cannot be among the K best are left out. Scores
    are linear as long as no factor is extreme.
    """
    cdef Lookahead* ahead = &system.lookahead
    cdef const CandidateSet* candidates = &system.candidates
    cdef CandidateSet* tilted = &system.tilted
    cdef const Candidate* items = <const Candidate*>candidates.items.data
    cdef Candidate* target = <Candidate*>tilted.items.data
    cdef const double* potential = <const double*>ahead.potential.data
    cdef const double* normalizer = <const double*>ahead.normalizer.data
    cdef const double* highest = <const double*>ahead.highest.data
    cdef bint linear = bound_tilts(system, discount) and not candidates.logarithmic
    cdef double threshold = 0.0
    cdef double gain
    cdef double most = 0.0
    cdef int64_t i
    cdef int64_t n = 0
    cdef uint32_t label
    tilted.logarithmic = not linear
    tilted.complete = candidates.complete
    tilted.best = -INFINITY
    if linear and not everything:
        threshold = least_to_beat(system)
    for i in range(candidates.n):
        label = <uint32_t>items[i].place
        if linear and items[i].value * highest[label] < threshold:
            continue
        gain = discount * (log(potential[i]) - normalizer[label])
        target[n].place = items[i].place
        if linear:
            target[n].value = items[i].value * exp(gain)
        elif candidates.logarithmic:
            target[n].value = items[i].value + gain
        else:
            target[n].value = log(items[i].value) + gain
        if target[n].value > tilted.best:
            tilted.best = target[n].value
        n += 1
    tilted.n = n
    # A candidate that was never collected gains at most as much as the best of any label.
    tilted.bound = -INFINITY
    if not candidates.complete:
        for label in range(ahead.n_labels):
            most = highest[label] if highest[label] > most else most
        if linear:
            tilted.bound = candidates.bound * most
        elif candidates.logarithmic:
            tilted.bound = candidates.bound + log(most)
        else:
            tilted.bound = log(candidates.bound) + log(most)
