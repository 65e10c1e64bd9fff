# cython: language_level=3
"""Selection of the K best candidates, in a fixed order: arithmetic on arrays of scores."""

from libc.math cimport INFINITY, exp, fabs, log, rint
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from mdvpf._kernel.constants cimport BAND, GRID, SMALLEST_WEIGHT
from mdvpf._kernel.types cimport Candidate, CandidateSet, Survivors

cdef enum:
    N_BINS = 1024
    FEW = 16                # up to this many keys are compared pairwise instead of counted in bins


cdef inline uint64_t order_key(double value) noexcept nogil:
    """An integer with the order of the double: larger for a larger double."""
    cdef uint64_t bits
    memcpy(&bits, &value, sizeof(bits))
    if bits >> 63:
        return ~bits
    return bits | (<uint64_t>1 << 63)


cdef inline double key_value(uint64_t key) noexcept nogil:
    cdef double value
    if key >> 63:
        key &= ~(<uint64_t>1 << 63)
    else:
        key = ~key
    memcpy(&value, &key, sizeof(value))
    return value


cdef inline uint64_t kth_of_few(const uint64_t* keys, int64_t n, int64_t rank) noexcept nogil:
    """The key of the given rank, counted from 1 at the largest, by pairwise comparison."""
    cdef int64_t i, j, n_larger, n_equal
    for i in range(n):
        n_larger = 0
        n_equal = 0
        for j in range(n):
            n_larger += keys[j] > keys[i]
            n_equal += keys[j] == keys[i]
        if n_larger < rank <= n_larger + n_equal:
            return keys[i]
    return 0  # there are not that many


cdef inline uint64_t kth_between(
    const uint64_t* keys, int64_t n, int64_t rank, uint64_t low, uint64_t high, uint64_t* work
) noexcept nogil:
    """The key of the given rank, of keys that are all between `low` and `high`.

    Counts keys in bins of equal width, keeps the bin in which the rank falls, and repeats.
    `work` has room for n keys and may be `keys` itself.
    """
    cdef uint32_t[N_BINS] bins
    cdef int64_t i, kept
    cdef uint32_t shift = 0
    cdef uint64_t bin
    while n > FEW and low < high:
        shift = 0
        while (high - low) >> shift >= N_BINS:
            shift += 1
        memset(bins, 0, sizeof(bins))
        for i in range(n):
            bins[(keys[i] - low) >> shift] += 1
        bin = (high - low) >> shift
        while bins[bin] < rank:
            rank -= bins[bin]
            bin -= 1
        kept = 0
        for i in range(n):
            work[kept] = keys[i]
            kept += (keys[i] - low) >> shift == bin
        keys = work
        n = kept
        low += bin << shift
        high = low + ((<uint64_t>1 << shift) - 1)
    return low if low == high else kth_of_few(keys, n, rank)


cdef inline uint64_t kth_largest(
    const uint64_t* keys, int64_t n, int64_t rank, uint64_t* work
) noexcept nogil:
    """The key of the given rank, counted from 1 at the largest. `work` has room for n keys."""
    cdef uint64_t low = keys[0]
    cdef uint64_t high = keys[0]
    cdef int64_t i
    for i in range(1, n):
        low = keys[i] if keys[i] < low else low
        high = keys[i] if keys[i] > high else high
    return kth_between(keys, n, rank, low, high, work)


# ---- the K best --------------------------------------------------------------------------

cdef inline double band_around(double cut, double best, bint logarithmic) noexcept nogil:
    """The largest distance from the cut at which a score can be a tie on the grid.

    Large logs have larger rounding errors.
    """
    return BAND + 1e-15 * (fabs(cut) + fabs(best)) if logarithmic else BAND * cut


cdef inline void keep(Survivors* chosen, const Candidate* candidate) noexcept nogil:
    chosen.parent[chosen.n] = <uint32_t>(candidate.parent_state >> 32)
    chosen.state[chosen.n] = <uint32_t>candidate.parent_state
    chosen.weight[chosen.n] = candidate.value
    chosen.n += 1


cdef inline double cut_value(
    const CandidateSet* candidates, int64_t budget, uint64_t* keys, uint64_t* work
) noexcept nogil:
    """The value of the candidate of rank `budget`; there must be more candidates than that."""
    cdef const Candidate* items = candidates.items
    cdef uint64_t low = order_key(candidates.least)
    cdef uint64_t high = order_key(candidates.best)
    cdef int64_t i
    for i in range(candidates.n):
        keys[i] = order_key(items[i].value)
    return key_value(kth_between(keys, candidates.n, budget, low, high, work))


cdef inline bint keep_from(
    const CandidateSet* candidates, double low, int64_t budget, Survivors* chosen
) noexcept nogil:
    """Choose all candidates whose value is at least `low`; return whether there are K of them."""
    cdef const Candidate* items = candidates.items
    cdef uint32_t* parent = chosen.parent
    cdef uint32_t* state = chosen.state
    cdef double* weight = chosen.weight
    cdef int64_t n = 0
    cdef int64_t i
    for i in range(candidates.n):  # without a branch: always written; there is room for K + 1
        parent[n] = <uint32_t>(items[i].parent_state >> 32)
        state[n] = <uint32_t>items[i].parent_state
        weight[n] = items[i].value
        n += items[i].value >= low
        if n > budget:
            return False
    chosen.n = n
    return n == budget


cdef inline void keep_on_grid(
    const CandidateSet* candidates, double low, double high, int64_t budget,
    uint64_t* keys, uint64_t* work, Survivors* chosen,
) noexcept nogil:
    """Choose all candidates above `high`, and as many of the best between `low` and `high` as fit.

    Those between are compared on the grid, and ties go to the earliest.
    """
    cdef const Candidate* items = candidates.items
    cdef bint logarithmic = candidates.logarithmic
    cdef double best = candidates.best if logarithmic else log(candidates.best)
    cdef double score
    cdef int64_t n_equal = budget
    cdef int64_t n_band = 0
    cdef int64_t i
    cdef uint64_t last
    chosen.n = 0
    for i in range(candidates.n):
        if items[i].value > high:
            n_equal -= 1
        elif items[i].value >= low:
            score = items[i].value if logarithmic else log(items[i].value)
            keys[n_band] = order_key(rint((score - best) * GRID) + 0.0)  # -0.0 is 0.0
            n_band += 1
    last = kth_largest(keys, n_band, n_equal, work)
    for i in range(n_band):
        n_equal -= keys[i] > last
    n_band = 0
    for i in range(candidates.n):
        if items[i].value > high:
            keep(chosen, &items[i])
        elif items[i].value >= low:
            if keys[n_band] > last:
                keep(chosen, &items[i])
            elif keys[n_band] == last and n_equal > 0:
                keep(chosen, &items[i])
                n_equal -= 1
            n_band += 1


cdef inline bint select_top(
    const CandidateSet* candidates, int64_t budget, uint64_t* keys, uint64_t* work,
    Survivors* chosen,
) noexcept nogil:
    """Choose the candidates with the largest scores, the earliest of those equal on the grid.

    Their scores are left in ``chosen.weight``. The grid matters only within a narrow band around
    the cut; other scores are compared directly. Returns False, and `chosen` is undefined, if a
    candidate that was not collected could be among the K best.
    """
    cdef double cut, band
    if candidates.n <= budget:
        keep_from(candidates, -INFINITY, budget, chosen)
        return candidates.complete
    cut = cut_value(candidates, budget, keys, work)
    band = band_around(cut, candidates.best, candidates.logarithmic)
    if cut - band < candidates.bound and not candidates.complete:
        return False
    if not keep_from(candidates, cut - band, budget, chosen):
        keep_on_grid(candidates, cut - band, cut + band, budget, keys, work, chosen)
    return True


cdef inline void weigh(Survivors* chosen, bint logarithmic) noexcept nogil:
    """Turn the scores that `select_top` left into weights, up to a common factor."""
    cdef double* weight = chosen.weight
    cdef double* log_weight = chosen.log_weight
    cdef double best
    cdef int64_t i
    chosen.logarithmic = logarithmic
    if not logarithmic:
        return
    best = weight[0]
    for i in range(1, chosen.n):
        if weight[i] > best:
            best = weight[i]
    for i in range(chosen.n):
        log_weight[i] = weight[i] - best
        weight[i] = exp(log_weight[i])


cdef inline bint normalize(Survivors* chosen) noexcept nogil:
    """Divide the weights by their sum; return False if one is NaN.

    Logs are kept while some weight is below SMALLEST_WEIGHT, and only then.
    """
    cdef double* weight = chosen.weight
    cdef double* log_weight = chosen.log_weight
    cdef double total = 0.0
    cdef double smallest = 1.0
    cdef double log_total
    cdef int64_t i
    for i in range(chosen.n):
        total += weight[i]
    if not total > 0.0:
        return False
    if chosen.logarithmic:
        log_total = log(total)
        for i in range(chosen.n):
            log_weight[i] -= log_total
    for i in range(chosen.n):
        weight[i] /= total
        smallest = weight[i] if weight[i] < smallest else smallest
    if smallest >= SMALLEST_WEIGHT:
        chosen.logarithmic = False
    elif not chosen.logarithmic:
        for i in range(chosen.n):
            log_weight[i] = log(weight[i])
        chosen.logarithmic = True
    return True
