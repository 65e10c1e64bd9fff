# cython: language_level=3
"""Expansion: the candidates of a symbol, without storing all of their scores.

K particles with M states each have K (M + 1) candidates, of which K survive. A sample of the
particles gives a bound that probably somewhat more than K candidates reach, and only these are
collected. If they are too few, the expansion is repeated with a lower bound and then without one,
so the selection is exact.
"""

from cython.parallel cimport prange
from libc.float cimport DBL_MAX
from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memmove

from mdvpf._kernel.constants cimport ALGORITHM_MDVPA, MISSING, unlikely
from mdvpf._kernel.emission cimport has_shortcuts
from mdvpf._kernel.number_expansion cimport (
    collect_numbers, least_product, log_mixture_of_particles, stored_probability,
)
from mdvpf._kernel.number_scores cimport log_potentials
from mdvpf._kernel.particles cimport fetch_ahead
from mdvpf._kernel.sparse_expansion cimport collect_all, collect_few
from mdvpf._kernel.threads cimport for_part, n_parts, part_start
from mdvpf._kernel.top_k cimport key_value, kth_largest, order_key
from mdvpf._kernel.transition cimport particle_potentials
from mdvpf._kernel.types cimport Candidate, CandidateSet, System

cdef extern from *:
    """
    #define MDVPF_SMALLEST_POSITIVE 4.9406564584124654e-324
    """
    const double SMALLEST_POSITIVE "MDVPF_SMALLEST_POSITIVE"

cdef enum:
    SAMPLE_FROM = 400       # a bound is not worth its cost for fewer candidates
    SAMPLE_LEAST = 16       # the sample has at least this many particles, or all
    SAMPLE_STRIDE = 16      # every 16th particle is in the sample
    SAMPLE_ENOUGH = 256     # the stride grows where the sample would have more particles
    SAMPLE_WIDEST = 64      # largest stride
    EVERYTHING = 2          # the attempt that collects all candidates


cdef inline uint32_t score_all(
    System* system, int64_t particle, int32_t symbol, double* out
) noexcept nogil:
    """Write the scores of a particle's candidates; store its probability of the symbol."""
    cdef double total
    cdef double weight
    cdef uint32_t i, n
    if unlikely(system.numbers.n_channels > 0):
        weight = 1.0
        if system.carry_weights and not system.logarithmic:
            weight = (<double*>system.stored.weight.data)[particle]
        n = log_potentials(system, particle, weight, &system.scratch, out, &total)
        (<double*>system.work.symbol_probability.data)[particle] = stored_probability(
            total, system.numbers.best)
        if system.carry_weights and system.logarithmic:
            weight = (<double*>system.stored.log_weight.data)[particle]
            for i in range(n):
                out[i] += weight
        return n
    n = particle_potentials(system, particle, symbol, out, &total)
    (<double*>system.work.symbol_probability.data)[particle] = total
    if system.candidates.logarithmic:
        weight = (<double*>system.stored.log_weight.data)[particle]
        for i in range(n):
            out[i] = weight + log(out[i])
    elif system.carry_weights:
        weight = (<double*>system.stored.weight.data)[particle]
        for i in range(0, n, 4):
            out[i] *= weight
            out[i + 1] *= weight
            out[i + 2] *= weight
            out[i + 3] *= weight
    return n


cdef inline double least_offered(const System* system) noexcept nogil:
    """The least score of a candidate that is offered: with real counts, scores of 0 are not."""
    if not system.model.real:
        return -INFINITY
    return -DBL_MAX if system.candidates.logarithmic else SMALLEST_POSITIVE


cdef inline int64_t sample_stride(int64_t n_particles) noexcept nogil:
    """The distance between the particles of the sample."""
    cdef int64_t stride = min(max(n_particles // SAMPLE_ENOUGH, SAMPLE_STRIDE), SAMPLE_WIDEST)
    return max(1, min(stride, n_particles // SAMPLE_LEAST))


cdef inline int64_t sample_scores(
    System* system, int32_t symbol, int64_t* rank
) noexcept nogil:
    """Write the order keys of the scores of a sample of particles; return their number.

    At least K candidates very likely reach the score of rank `rank` in the sample.
    """
    cdef uint64_t* keys = system.scratch.keys
    cdef double* scores = system.scratch.transition
    cdef int64_t n_sampled = 0
    cdef int64_t n = 0
    cdef int64_t slack
    cdef int64_t stride = sample_stride(system.n_particles)
    cdef int64_t k = stride // 2
    cdef uint32_t i, n_states
    cdef double least = least_offered(system)
    while k < system.n_particles:
        fetch_ahead(system, k, stride, symbol)
        n_states = score_all(system, k, symbol, scores)
        for i in range(n_states):
            keys[n] = order_key(scores[i])
            n += scores[i] >= least
        n_sampled += 1
        k += stride
    system.extent.sampled = max(system.extent.sampled, n)
    # K / n_particles candidates are needed from each sampled particle, plus about three standard
    # deviations, because collecting too few costs a second expansion.
    rank[0] = n_sampled * system.kept // system.n_particles
    slack = 4
    while slack * slack < 9 * rank[0]:
        slack += 1
    rank[0] += slack
    return n


cdef inline double sampled_bound(
    System* system, int32_t symbol, int64_t times
) noexcept nogil:
    """A bound that at least `times` K candidates very likely reach."""
    cdef const uint64_t* keys = system.scratch.keys
    cdef int64_t rank
    cdef int64_t n = sample_scores(system, symbol, &rank)
    rank *= times
    if rank >= n:
        return -INFINITY
    return key_value(kth_largest(keys, n, rank, system.scratch.key_work))


cdef inline int64_t expand_part(
    const System* system, int32_t symbol, double bound, bint sparse, int part, int parts
) noexcept nogil:
    """Collect the candidates of a part that reach the bound; return how many.

    They are written after the room for all candidates of earlier parts.
    """
    cdef System own = for_part(system, part)
    cdef int64_t start = part_start(system, part, parts)
    cdef double* scores = own.scratch.transition
    cdef Candidate* items = own.candidates.items
    cdef int64_t n = 0
    cdef int64_t k, more
    cdef uint32_t n_states
    cdef double least = max(bound, least_offered(system))
    if part > 0:
        items += start * (own.most_states + 1)
    for k in range(start, part_start(system, part + 1, parts)):
        fetch_ahead(&own, k, 1, symbol)
        more = -1
        if sparse:
            more = collect_few(&own, &own.scratch, k, symbol, bound, items + n)
        if more < 0:
            n_states = score_all(&own, k, symbol, scores)
            more = collect_all(scores, n_states, k, least, items + n)
        n += more
    return n


cdef inline int64_t expand_part_of_numbers(
    const System* system, int32_t symbol, double bound, int part, int parts
) noexcept nogil:
    """`expand_part` for families over numbers."""
    cdef System own = for_part(system, part)
    cdef int64_t start = part_start(system, part, parts)
    cdef double* scores = own.scratch.transition
    cdef Candidate* items = own.candidates.items
    cdef double product = least_product(system, bound)
    cdef int64_t n = 0
    cdef int64_t k, more
    cdef uint32_t n_states
    if part > 0:
        items += start * (own.most_states + 1)
    for k in range(start, part_start(system, part + 1, parts)):
        fetch_ahead(&own, k, 1, symbol)
        more = -1
        if product > 0.0:
            more = collect_numbers(&own, &own.scratch, k, bound, product, items + n)
        if more < 0:
            n_states = score_all(&own, k, symbol, scores)
            more = collect_all(scores, n_states, k, max(bound, -DBL_MAX), items + n)
        n += more
    return n


cdef inline int64_t expand_any_part(
    const System* system, int32_t symbol, double bound, bint sparse, int part, int parts
) noexcept nogil:
    if unlikely(system.numbers.n_channels > 0):
        return expand_part_of_numbers(system, symbol, bound, part, parts)
    return expand_part(system, symbol, bound, sparse, part, parts)


cdef inline void join_parts(System* system, int parts) noexcept nogil:
    """Move the candidates of all parts together."""
    cdef const int64_t* sizes = <const int64_t*>system.work.part_result.data
    cdef Candidate* items = system.candidates.items
    cdef int64_t start
    cdef int part
    system.candidates.n = sizes[0]
    for part in range(1, parts):
        start = part_start(system, part, parts) * (system.most_states + 1)
        memmove(items + system.candidates.n, items + start,
                <size_t>sizes[part] * sizeof(Candidate))
        system.candidates.n += sizes[part]


cdef inline void expand_with_bound(
    System* system, int32_t symbol, double bound
) noexcept nogil:
    cdef CandidateSet* candidates = &system.candidates
    cdef const Candidate* items = candidates.items
    cdef int64_t* sizes = <int64_t*>system.work.part_result.data
    cdef const double* weight = <const double*>system.stored.weight.data
    cdef const double* symbol_probability = <const double*>system.work.symbol_probability.data
    cdef int parts = n_parts(system)
    cdef int part
    cdef int64_t k
    cdef double predictive = 0.0
    cdef double total = 0.0
    cdef double best = -INFINITY
    cdef double least = INFINITY
    cdef bint sparse = bound > 0.0 and not candidates.logarithmic and symbol != MISSING \
        and has_shortcuts(system)
    system.lookahead.has_totals = sparse and system.algorithm == ALGORITHM_MDVPA
    if parts == 1:
        sizes[0] = expand_any_part(system, symbol, bound, sparse, 0, 1)
    else:
        for part in prange(parts, num_threads=parts, schedule="static", chunksize=1):
            sizes[part] = expand_any_part(system, symbol, bound, sparse, part, parts)
    join_parts(system, parts)
    if candidates.n > system.extent.collected:
        system.extent.collected = candidates.n
    candidates.log_total = 0.0
    if unlikely(system.numbers.n_channels > 0):
        candidates.log_predictive = log_mixture_of_particles(system, symbol_probability, True)
        candidates.log_total = candidates.log_predictive if system.carry_weights \
            else log_mixture_of_particles(system, symbol_probability, False)
        predictive = 1.0
        total = 1.0
    else:
        for k in range(system.n_particles):
            predictive += weight[k] * symbol_probability[k]
            total += symbol_probability[k]
    for k in range(candidates.n):
        best = items[k].value if items[k].value > best else best
        least = items[k].value if items[k].value < least else least
    candidates.best = best
    candidates.least = least
    candidates.bound = bound
    candidates.complete = bound == -INFINITY
    candidates.predictive = predictive
    candidates.total = predictive if system.carry_weights else total


cdef inline double lower(const CandidateSet* candidates, double bound, double by) noexcept nogil:
    """The bound, lowered by `by` on the log scale."""
    return bound - by if candidates.logarithmic else bound * exp(-by)


cdef inline bint is_bound_worthwhile(const System* system) noexcept nogil:
    return system.n_candidates > SAMPLE_FROM and system.n_candidates > 2 * system.kept


cdef inline void expand(System* system, int32_t symbol, int attempt) noexcept nogil:
    """Score the candidates of the symbol; collect those that are likely among the K best.

    The second attempt collects about 2 K of them. The third collects all, which takes much memory.
    """
    cdef double bound = -INFINITY
    system.candidates.logarithmic = (system.carry_weights and system.logarithmic) \
        or system.numbers.n_channels > 0
    if attempt < EVERYTHING and is_bound_worthwhile(system):
        # Lowered a little, because all candidates that tie with the cut are needed.
        bound = lower(
            &system.candidates, sampled_bound(system, symbol, attempt + 1), system.margin + 1e-6
        )
    expand_with_bound(system, symbol, bound)
