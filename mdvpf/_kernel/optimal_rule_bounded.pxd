# cython: language_level=3
"""The optimal rule when only candidates that reach a bound were collected.

A sample of the particles gives a bound that heavy candidates very likely reach, and only candidates
that reach it are collected. The probability of the symbol under each particle gives the total of
all its candidates, collected or not. If every heavy candidate was collected, the total of the light
candidates of each particle is known. They are thinned by systematic resampling, and only particles
in which a point falls are scored again.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from mdvpf._kernel.expansion cimport expand_with_bound, is_bound_worthwhile, sample_scores
from mdvpf._kernel.top_k cimport keep, key_value
from mdvpf._kernel.transition cimport particle_potentials
from mdvpf._kernel.types cimport Candidate, CandidateSet, Survivors, System

cdef extern from *:
    """
    #define MDVPF_LEAST_LIGHT 1e-4
    """
    # The light mass is a difference. Below this share of the total it has too few correct digits.
    const double LEAST_LIGHT "MDVPF_LEAST_LIGHT"

cdef struct Thinning:
    double weight           # of each light candidate that is picked
    double mass             # sum of the scores of light candidates
    double picked_mass      # sum of those picked so far
    double reached          # sum of those passed so far
    double uniform
    double point            # the next candidate is picked where `reached` passes this
    int64_t n_light         # light candidates to pick
    int64_t n_picked        # light candidates picked so far


cdef inline bint split_heavy(
    double* values, int64_t n, double total, int64_t budget, double least, Thinning* thinning
) noexcept nogil:
    """Compute the weight of the light candidates; return False if their mass is below `least`.

    The iteration is that of `optimal_cut`. `values` must have all candidates that can be heavy,
    and `total` includes the others. The light ones are moved to the front of `values`.
    """
    cdef int64_t n_left = n
    cdef int64_t n_before = -1
    cdef int64_t i
    cdef double heavy = 0.0
    cdef double value
    thinning.weight = INFINITY
    thinning.mass = total
    thinning.n_light = budget
    while n_left != n_before:
        thinning.mass = total - heavy
        if thinning.n_light <= 0 or not thinning.mass > least:
            return False
        if thinning.mass / thinning.n_light < thinning.weight:
            thinning.weight = thinning.mass / thinning.n_light
        n_before = n_left
        n_left = 0
        for i in range(n_before):
            value = values[i]
            values[n_left] = value
            n_left += value < thinning.weight
            heavy += 0.0 if value < thinning.weight else value
        thinning.n_light -= n_before - n_left
    return True


cdef inline double heavy_bound(System* system, int32_t symbol) noexcept nogil:
    """A lower bound that heavy candidates very likely reach, from a sample."""
    cdef uint64_t* keys = system.scratch.keys
    cdef double* values = system.scratch.shares
    cdef Thinning thinning
    cdef double total = 0.0
    cdef int64_t i, rank
    cdef int64_t n = sample_scores(system, symbol, &rank)
    for i in range(n):
        values[i] = key_value(keys[i])
        total += values[i]
    if rank >= n or not split_heavy(values, n, total, rank, 0.0, &thinning):
        return -INFINITY
    return thinning.weight


cdef inline void expand_heavy(System* system, int32_t symbol) noexcept nogil:
    """Score the candidates; collect all of them, or those that are likely heavy."""
    cdef double bound = -INFINITY
    system.candidates.logarithmic = system.logarithmic
    if not system.logarithmic and is_bound_worthwhile(system):
        bound = heavy_bound(system, symbol)
    expand_with_bound(system, symbol, bound)


cdef inline int64_t gather_heavy(CandidateSet* candidates, double weight) noexcept nogil:
    """Move the candidates that reach the weight to the front; return how many there are."""
    cdef Candidate* items = candidates.items
    cdef int64_t n = 0
    cdef int64_t i
    for i in range(candidates.n):
        items[n] = items[i]
        n += items[i].value >= weight
    return n


cdef inline void set_next_point(Thinning* thinning) noexcept nogil:
    """Set the next point; infinity if all light candidates are picked."""
    thinning.point = (
        (thinning.n_picked + thinning.uniform) * thinning.mass / thinning.n_light
        if thinning.n_picked < thinning.n_light else INFINITY
    )


cdef inline void thin_particle(
    System* system, int64_t particle, int32_t symbol, const Candidate* heavy, int64_t n_heavy,
    Thinning* thinning, Survivors* chosen,
) noexcept nogil:
    """Choose the heavy candidates of a particle and the light ones in which a point falls."""
    cdef double* potential = system.scratch.transition
    cdef double weight = (<double*>system.stored.weight.data)[particle]
    cdef double reached = thinning.reached
    cdef double score
    cdef Candidate candidate
    cdef uint32_t state
    cdef uint32_t n = particle_potentials(system, particle, symbol, potential, &score)
    for state in range(n):
        candidate.parent_state = <uint64_t>particle << 32 | state
        if n_heavy > 0 and heavy[0].parent_state == candidate.parent_state:
            keep(chosen, heavy)
            heavy += 1
            n_heavy -= 1
            continue
        score = weight * potential[state]
        reached += score
        if thinning.point < reached:
            candidate.value = thinning.weight
            keep(chosen, &candidate)
            thinning.picked_mass += score
            thinning.n_picked += 1
            set_next_point(thinning)


cdef inline bint select_optimal_bounded(
    System* system, int32_t symbol, double uniform, Survivors* chosen
) noexcept nogil:
    """Choose by the optimal rule when not all of the more than K candidates were collected.

    Scores must be linear. The weights, up to a common factor, are left in `chosen`. Returns False,
    and `chosen` is undefined, if the choice needs all candidates.
    """
    cdef CandidateSet* candidates = &system.candidates
    cdef const Candidate* items = candidates.items
    cdef const double* weight = <const double*>system.stored.weight.data
    cdef const double* symbol_probability = <const double*>system.work.symbol_probability.data
    cdef double* values = system.scratch.shares
    cdef Thinning thinning
    cdef int64_t index = 0
    cdef int64_t first, n_heavy, k
    cdef double light
    for k in range(candidates.n):
        values[k] = items[k].value
    if not split_heavy(
        values, candidates.n, candidates.total, system.kept, LEAST_LIGHT * candidates.total,
        &thinning,
    ) or thinning.weight < candidates.bound:
        return False
    thinning.uniform = uniform
    thinning.picked_mass = 0.0
    thinning.reached = 0.0
    thinning.n_picked = 0
    set_next_point(&thinning)
    n_heavy = gather_heavy(candidates, thinning.weight)
    chosen.n = 0
    chosen.logarithmic = False
    for k in range(system.n_particles):
        first = index
        light = weight[k] * symbol_probability[k]
        while index < n_heavy and items[index].parent_state >> 32 == <uint64_t>k:
            keep(chosen, &items[index])
            light -= items[index].value
            index += 1
        if thinning.point < thinning.reached + light:
            chosen.n -= index - first
            thin_particle(system, k, symbol, &items[first], index - first, &thinning, chosen)
        thinning.reached += light
    chosen.discarded = (thinning.mass - thinning.picked_mass) / candidates.total
    return thinning.n_picked == thinning.n_light
