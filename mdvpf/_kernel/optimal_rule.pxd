# cython: language_level=3
"""The optimal rule of Fearnhead and Clifford (2003), on a complete set of candidates.

Heavy candidates are kept with their weight. Light ones are thinned by systematic resampling with
one uniform, and all that are picked get the same weight.
"""

from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int64_t, uint64_t

from mdvpf._kernel.top_k cimport keep, key_value, kth_largest, order_key
from mdvpf._kernel.types cimport Candidate, CandidateSet, Survivors


cdef inline int64_t optimal_cut(
    const double* shares, int64_t n, int64_t budget, uint64_t* keys, double* largest,
    double* light_weight, double* cut,
) noexcept nogil:
    """Return how many of the n > K shares are heavy; K is the budget.

    With h heavy shares, c = (sum of the light shares) / (K - h), and shares of at least c are
    heavy. The iteration starts with h = 0 and adds all shares that reach c, which lowers c. It
    ends at the same fixed point as adding shares one by one in falling order. `light_weight`
    becomes c. All heavy shares are among the K largest, which are left in `largest`; `cut` becomes
    the least of them.
    """
    cdef int64_t i, n_before
    cdef int64_t n_heavy = 0
    cdef int64_t n_largest = 0
    cdef int64_t n_equal = budget
    cdef double rest = 0.0
    cdef double tail
    for i in range(n):
        keys[i] = order_key(shares[i])
    cut[0] = key_value(kth_largest(keys, n, budget, <uint64_t*>largest))
    for i in range(n):
        n_equal -= shares[i] > cut[0]
    for i in range(n):
        if shares[i] > cut[0]:
            largest[n_largest] = shares[i]
            n_largest += 1
        elif shares[i] == cut[0] and n_equal > 0:
            largest[n_largest] = shares[i]
            n_largest += 1
            n_equal -= 1
        else:
            rest += shares[i]
    tail = rest
    for i in range(budget):
        tail += largest[i]
    light_weight[0] = INFINITY
    while n_heavy < budget:
        # c never rises. If it does by rounding, the old value stays, so that the loop ends.
        if tail / (budget - n_heavy) < light_weight[0]:
            light_weight[0] = tail / (budget - n_heavy)
        n_before = n_heavy
        n_heavy = 0
        tail = rest
        for i in range(budget):
            if largest[i] >= light_weight[0]:
                n_heavy += 1
            else:
                tail += largest[i]
        if n_heavy == n_before:
            break
    return n_heavy


cdef inline void keep_share(
    Survivors* chosen, const Candidate* candidate, double share, bint as_scored, double best
) noexcept nogil:
    keep(chosen, candidate)
    chosen.weight[chosen.n - 1] = share
    if chosen.logarithmic:
        chosen.log_weight[chosen.n - 1] = (
            candidate.value - best if as_scored else log(share)
        )


cdef inline int64_t select_optimal(
    const CandidateSet* candidates, double* shares, int64_t budget,
    uint64_t* keys, double* largest, double uniform, Survivors* chosen,
) noexcept nogil:
    """Choose candidates by the optimal rule; return how many uniforms were used, 0 or 1.

    The candidate set must be complete. `shares` is overwritten with linear scores, up to a common
    factor. The weights, up to the same factor, and their logs are left in `chosen`.
    """
    cdef const Candidate* items = candidates.items
    cdef bint logarithmic = candidates.logarithmic
    cdef double best = candidates.best
    cdef int64_t n = candidates.n
    cdef int64_t n_light, n_equal, i
    cdef int64_t n_left = 0
    cdef int64_t n_picked = 0
    cdef double light_weight = 0.0
    cdef double cut
    cdef double mass = 0.0
    cdef double reached = 0.0
    cdef double total = 0.0
    cdef double lost = 0.0
    chosen.n = 0
    chosen.logarithmic = logarithmic
    chosen.discarded = 0.0
    for i in range(n):
        shares[i] = exp(items[i].value - best) if logarithmic else items[i].value
        total += shares[i]
    if n <= budget:
        for i in range(n):
            keep_share(chosen, &items[i], shares[i], True, best)
        return 0
    n_light = budget - optimal_cut(shares, n, budget, keys, largest, &light_weight, &cut)
    if n_light == 0:
        n_equal = budget
        for i in range(n):
            n_equal -= shares[i] > cut
        for i in range(n):
            if shares[i] > cut or (shares[i] == cut and n_equal > 0):
                n_equal -= shares[i] == cut
                keep_share(chosen, &items[i], shares[i], True, best)
            else:
                lost += shares[i]
        chosen.discarded = lost / total
        return 0
    for i in range(n):
        if shares[i] < light_weight:
            mass += shares[i]
            n_left += 1
    for i in range(n):
        if shares[i] >= light_weight:
            keep_share(chosen, &items[i], shares[i], True, best)
            continue
        reached += shares[i]
        if n_picked < n_light and (
            (n_picked + uniform) * mass / n_light < reached or n_left == n_light - n_picked
        ):
            keep_share(chosen, &items[i], light_weight, False, best)
            n_picked += 1
        else:
            lost += shares[i]
        n_left -= 1
    chosen.discarded = lost / total
    return 1
