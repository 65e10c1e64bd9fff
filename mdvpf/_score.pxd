# cython: language_level=3
"""Scores: what a particle makes of a symbol, and of all symbols that it could move on.

A `View` is what scoring needs of a particle. Usually it points into the tables; for the
provisional particles of MD-VPA it points to a copy with one more step in it. Both are scored by
the same arithmetic in the same order, so they give the same bits. Counts enter it as exact
integers in doubles.

Scores are products of probabilities, not sums of logs: hyper-parameters are bounded so that no
product underflows, and logs are taken only of what survives.
"""

from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from mdvpf._counts cimport column, row_length, shape_after, unpack, write_after
from mdvpf._emission cimport emission_scores
from mdvpf._pool cimport at
from mdvpf._select cimport key_value, kth_largest, order_key
from mdvpf._types cimport (
    BLOCK_CURRENT, BLOCK_HEADER, BLOCK_STATES, MISSING, NONE,
    SMALLEST_LOG_WEIGHT,
    Candidate, CandidateSet, Model, Record, Scratch, System, View, handle_t,
)

cdef enum:
    SAMPLE_FROM = 6000      # candidates: with fewer, a bound does not pay
    SAMPLE_STRIDE = 16      # every 16th particle is scored for the bound


# ---- particles ---------------------------------------------------------------------------

cdef inline uint32_t* block_in(const System* system, uint32_t slot) noexcept nogil:
    return <uint32_t*>system.blocks.data + <size_t>slot * system.stride


cdef inline uint32_t* block_of(const System* system, int64_t particle) noexcept nogil:
    return block_in(system, (<uint32_t*>system.slot.data)[particle])


cdef inline uint32_t* into_of(const System* system, uint32_t* block) noexcept nogil:
    return block + BLOCK_HEADER


cdef inline handle_t* rows_of(const System* system, uint32_t* block) noexcept nogil:
    return block + BLOCK_HEADER + system.state_capacity


cdef inline handle_t* root_of(const System* system, uint32_t* block) noexcept nogil:
    return block + BLOCK_HEADER + 2 * system.state_capacity + 1


cdef inline const Record* record_at(const System* system, handle_t handle) noexcept nogil:
    if handle == NONE:
        return NULL
    return <const Record*>at(&system.pool, handle)


cdef inline const Record* column_of(
    const System* system, uint32_t* block, uint32_t symbol
) noexcept nogil:
    return record_at(system, column(system, root_of(system, block), symbol))


cdef inline void view_particle(
    const System* system, uint32_t* block, View* view
) noexcept nogil:
    """View a particle as it is stored."""
    view.n_states = block[BLOCK_STATES]
    view.entered = <double>system.n_steps
    view.into = into_of(system, block)
    view.row = record_at(system, rows_of(system, block)[block[BLOCK_CURRENT]])
    view.missing = column_of(system, block, system.model.n_symbols)
    view.offers_new = view.n_states < system.model.max_states


cdef inline const Record* overlay(
    const Record* row, uint32_t state, Record* target
) noexcept nogil:
    """The row with the count of the state one larger, written to `target`."""
    write_after(target, row, shape_after(row, state), state)
    return target


cdef inline void view_moved(
    const System* system, uint32_t* block, uint32_t state, int32_t symbol,
    Scratch* scratch, View* view,
) noexcept nogil:
    """View a particle as it would be after moving to the state on the symbol."""
    cdef uint32_t* into = <uint32_t*>scratch.overlay_into.data
    cdef uint32_t n = block[BLOCK_STATES]
    view_particle(system, block, view)
    memcpy(into, into_of(system, block), n * sizeof(uint32_t))
    view.into = into
    view.entered += 1.0
    if state == n:
        into[n] = 1
        view.n_states += 1
        view.row = NULL
    else:
        into[state] += 1
        view.row = record_at(system, rows_of(system, block)[state + 1])
    if state + 1 == block[BLOCK_CURRENT]:
        view.row = overlay(view.row, state, <Record*>scratch.overlay_row.data)
    if symbol == MISSING:
        view.missing = overlay(view.missing, state, <Record*>scratch.overlay_missing.data)
    view.offers_new = view.n_states < system.model.max_states


cdef inline const Record* column_moved(
    const System* system, uint32_t* block, uint32_t state, int32_t symbol,
    uint32_t wanted, Scratch* scratch,
) noexcept nogil:
    """The column of the wanted symbol, as it would be after that move."""
    cdef const Record* counts = column_of(system, block, wanted)
    if symbol == <int32_t>wanted:
        counts = overlay(counts, state, <Record*>scratch.overlay_column.data)
    return counts


# ---- probabilities -----------------------------------------------------------------------

cdef inline uint32_t transition_scores(
    const Model* model, const View* view, Scratch* scratch, double* out
) noexcept nogil:
    """Write p(m | x) of every candidate state m, the new one last; return how many there are."""
    cdef uint32_t* states = <uint32_t*>scratch.pair_state.data
    cdef double* counts = <double*>scratch.pair_count.data
    cdef const uint32_t* into = view.into
    cdef uint32_t n_states = view.n_states
    cdef uint32_t n = unpack(view.row, states, counts)
    cdef uint32_t i
    cdef double left = 0.0          # t[j]: transitions seen from here
    cdef double offered = view.entered  # U or s: what the oracle knows of
    cdef double scale, share
    for i in range(n):
        left += counts[i]
    if not model.any_state:
        for i in range(n):
            offered -= into[states[i]]
    if view.offers_new:
        scale = 1.0 / (left + model.alpha)
    else:
        scale = 1.0 / (left + model.alpha * (offered / (offered + model.gamma)))
    share = scale * (model.alpha / (offered + model.gamma))
    for i in range(n_states):
        out[i] = share * into[i]
    if model.any_state:
        for i in range(n):
            out[states[i]] += scale * counts[i]
    else:
        for i in range(n):
            out[states[i]] = scale * counts[i]
    out[n_states] = share * model.gamma
    return n_states + 1 if view.offers_new else n_states


cdef inline double multiply(
    const double* transition, const double* emission, uint32_t n, double* out
) noexcept nogil:
    """Write the potentials of n candidates; return their sum, added in four fixed lanes."""
    cdef double a = 0.0, b = 0.0, c = 0.0, d = 0.0
    cdef uint32_t i
    cdef uint32_t whole = n & ~3u
    for i in range(n):
        out[i] = transition[i] * emission[i]
    for i in range(0, whole, 4):
        a += out[i]
        b += out[i + 1]
        c += out[i + 2]
        d += out[i + 3]
    for i in range(whole, n):
        a += out[i]
    return (a + b) + (c + d)


cdef inline uint32_t potentials(
    const Model* model, const View* view, const Record* counts, bint missing,
    Scratch* scratch, double* out, double* total,
) noexcept nogil:
    """Write f(m, y) of every candidate state of a particle and their sum; return how many.

    `counts` is the column of y; a missing symbol emits with probability one.
    """
    cdef double* emission = <double*>scratch.emission.data
    cdef uint32_t n = transition_scores(model, view, scratch, out)
    cdef uint32_t i
    if missing:
        for i in range(n):
            emission[i] = 1.0
    else:
        emission_scores(model, view, counts, scratch, emission)
    total[0] = multiply(out, emission, n, out)
    return n


cdef inline uint32_t particle_potentials(
    System* system, int64_t particle, int32_t symbol, double* out, double* total
) noexcept nogil:
    """The potentials of a stored particle."""
    cdef uint32_t* block = block_of(system, particle)
    cdef View view
    cdef const Record* counts = NULL
    view_particle(system, block, &view)
    if symbol != MISSING:
        counts = column_of(system, block, <uint32_t>symbol)
    return potentials(
        &system.model, &view, counts, symbol == MISSING, &system.scratch, out, total
    )


cdef inline double moved_probability(
    System* system, int64_t parent, uint32_t state, int32_t symbol, int32_t wanted
) noexcept nogil:
    """Probability of the wanted symbol under a particle moved to the state on the symbol."""
    cdef Scratch* scratch = &system.scratch
    cdef uint32_t* block = block_of(system, parent)
    cdef const Record* counts = column_moved(
        system, block, state, symbol, <uint32_t>wanted, scratch
    )
    cdef View view
    cdef double total
    view_moved(system, block, state, symbol, scratch, &view)
    potentials(
        &system.model, &view, counts, False, scratch, <double*>scratch.transition.data, &total
    )
    return total


# ---- expansion ---------------------------------------------------------------------------

cdef inline int64_t count_candidates(const System* system) noexcept nogil:
    """How many candidates the particles offer at the most."""
    cdef int64_t k
    cdef int64_t n = 0
    for k in range(system.n_particles):
        n += block_of(system, k)[BLOCK_STATES] + 1
    return n


cdef inline uint32_t score_particle(
    System* system, int64_t particle, int32_t symbol, bint logarithmic, double* out
) noexcept nogil:
    """Write the base scores of a particle's candidates and note what it makes of the symbol."""
    cdef double total
    cdef double weight
    cdef uint32_t i
    cdef uint32_t n = particle_potentials(system, particle, symbol, out, &total)
    (<double*>system.future.data)[particle] = total
    if logarithmic:
        weight = (<double*>system.log_weight.data)[particle]
        for i in range(n):
            out[i] = weight + log(out[i])
    elif system.carry_weights:
        weight = (<double*>system.weight.data)[particle]
        for i in range(n):
            out[i] *= weight
    return n


cdef inline double sampled_bound(
    System* system, int32_t symbol, bint logarithmic, int64_t n_candidates
) noexcept nogil:
    """A value that most likely at least K candidates reach, from every 16th particle."""
    cdef uint64_t* keys = <uint64_t*>system.scratch.keys.data
    cdef double* scores = <double*>system.scratch.transition.data
    cdef int64_t n_sampled = 0
    cdef int64_t n = 0
    cdef int64_t k, rank, slack
    cdef uint32_t i, n_states
    k = SAMPLE_STRIDE // 2
    while k < system.n_particles:
        n_states = score_particle(system, k, symbol, logarithmic, scores)
        for i in range(n_states):
            keys[n] = order_key(scores[i])
            n += 1
        n_sampled += 1
        k += SAMPLE_STRIDE
    # K of all are wanted, so budget / n_particles from each sampled particle, and a margin of
    # some standard deviations and of a tenth.
    rank = n_sampled * system.budget // system.n_particles
    slack = 4
    while slack * slack < 16 * rank:
        slack += 1
    rank += slack + rank // 8
    if rank >= n:
        return -INFINITY
    return key_value(kth_largest(keys, n, rank, <uint64_t*>system.scratch.order.data))


cdef inline void expand_with_bound(
    System* system, int32_t symbol, double bound
) noexcept nogil:
    cdef CandidateSet* candidates = &system.candidates
    cdef Candidate* items = <Candidate*>candidates.items.data
    cdef double* scores = <double*>system.scratch.transition.data
    cdef double* weight = <double*>system.weight.data
    cdef double* future = <double*>system.future.data
    cdef int64_t n = 0
    cdef int64_t n_offered = 0
    cdef int64_t k
    cdef uint32_t i, n_states
    cdef double predictive = 0.0
    cdef double total = 0.0
    for k in range(system.n_particles):
        n_states = score_particle(system, k, symbol, candidates.logarithmic, scores)
        n_offered += n_states
        predictive += weight[k] * future[k]
        total += future[k]
        for i in range(n_states):  # without a branch: written always, kept if it passes
            items[n].value = scores[i]
            items[n].parent = <uint32_t>k
            items[n].state = i
            n += scores[i] >= bound
    candidates.n = n
    candidates.bound = bound
    candidates.complete = n == n_offered
    candidates.predictive = predictive
    candidates.total = predictive if system.carry_weights else total


cdef inline void expand(System* system, int32_t symbol, bint everything) noexcept nogil:
    """Score all candidates of the symbol; collect all of them, or a superset of the K best."""
    cdef CandidateSet* candidates = &system.candidates
    cdef double* log_weight = <double*>system.log_weight.data
    cdef double bound = -INFINITY
    cdef double best = -INFINITY
    cdef int64_t n_candidates, k
    candidates.logarithmic = False
    if system.carry_weights:
        for k in range(system.n_particles):
            if log_weight[k] < SMALLEST_LOG_WEIGHT:
                candidates.logarithmic = True
                break
    if not everything:
        n_candidates = count_candidates(system)
        if n_candidates > SAMPLE_FROM and n_candidates > 2 * system.budget:
            bound = sampled_bound(system, symbol, candidates.logarithmic, n_candidates)
    expand_with_bound(system, symbol, bound)
    for k in range(candidates.n):
        if (<Candidate*>candidates.items.data)[k].value > best:
            best = (<Candidate*>candidates.items.data)[k].value
    candidates.best = best
