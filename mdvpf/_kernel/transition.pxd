# cython: language_level=3
"""Transition probabilities and potentials f(m, y) = p(m | x) p(y | m) of one particle.

Scores are products of probabilities: hyper-parameters are bounded so that no product underflows.
Where a weight is too small for that, scores are logs. Arrays over states are padded with zeros, so
that loops over them run in steps of four.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t

from mdvpf._kernel.constants cimport MISSING, unlikely
from mdvpf._kernel.counts cimport count_in, state_in
from mdvpf._kernel.emission cimport as_double, emission_scores
from mdvpf._kernel.lanes cimport total_of
from mdvpf._kernel.particles cimport block_of, column_moved, view_for, view_moved
from mdvpf._kernel.positions cimport standing_of
from mdvpf._kernel.real_scores cimport real_moved_probability, real_potentials
from mdvpf._kernel.types cimport Model, Row, Scratch, Standing, System, View


cdef inline void oracle_factors(
    const Model* model, int64_t entered, bint offers_new, int64_t left, int64_t visited,
    double* scale, double* share,
) noexcept nogil:
    """Compute the factors of a transition count (`scale`) and of an entry count (`share`).

    `entered` is how often any state was entered, `left` how often the current state was left,
    `visited` how often the states reached from it were entered.
    """
    cdef double offered = <double>(entered if model.any_state else entered - visited)
    if offers_new:
        scale[0] = 1.0 / (left + model.alpha)
    else:
        scale[0] = 1.0 / (left + model.alpha * (offered / (offered + model.gamma)))
    share[0] = scale[0] * (model.alpha / (offered + model.gamma))


cdef inline uint32_t transition_scores(
    const Model* model, const View* view, const double* factor, double* out
) noexcept nogil:
    """Write p(m | x) times a factor of every candidate state m; return how many there are.

    The new state is the last, and zeros follow it, up to three.
    """
    cdef const uint32_t* into = view.into
    cdef const Row* row = &view.row
    cdef uint32_t n_states = view.n_states
    cdef uint32_t i, state
    cdef int64_t left = 0
    cdef int64_t visited = 0
    cdef double scale, share, a, b, c, d
    for i in range(row.n):
        left += count_in(row, i)
        visited += into[state_in(row, i)]
    oracle_factors(model, view.entered, view.offers_new, left, visited, &scale, &share)
    for i in range(0, n_states, 4):
        a = as_double(into[i]) * share * factor[i]
        b = as_double(into[i + 1]) * share * factor[i + 1]
        c = as_double(into[i + 2]) * share * factor[i + 2]
        d = as_double(into[i + 3]) * share * factor[i + 3]
        out[i] = a
        out[i + 1] = b
        out[i + 2] = c
        out[i + 3] = d
    if model.any_state:
        for i in range(row.n):
            state = state_in(row, i)
            out[state] += scale * as_double(count_in(row, i)) * factor[state]
    else:
        for i in range(row.n):
            state = state_in(row, i)
            out[state] = scale * as_double(count_in(row, i)) * factor[state]
    out[n_states] = share * model.gamma * factor[n_states] if view.offers_new else 0.0
    out[n_states + 1] = 0.0
    out[n_states + 2] = 0.0
    out[n_states + 3] = 0.0
    return n_states + 1 if view.offers_new else n_states


cdef inline void emission_or_one(
    const Model* model, const View* view, const Row* counts, int32_t symbol, double* out
) noexcept nogil:
    """`emission_scores`, or ones for a missing symbol."""
    cdef uint32_t i
    if symbol == MISSING:
        for i in range(view.n_states + 4):
            out[i] = 1.0
    else:
        emission_scores(model, view, counts, symbol, out)


cdef inline uint32_t potentials(
    const Model* model, const View* view, const Row* counts, int32_t symbol,
    Scratch* scratch, double* out, double* total,
) noexcept nogil:
    """Write f(m, y) of every candidate state of a particle and their sum; return how many.

    `counts` is the column of the symbol y.
    """
    cdef double* emission = scratch.emission
    cdef uint32_t n
    emission_or_one(model, view, counts, symbol, emission)
    n = transition_scores(model, view, emission, out)
    total[0] = total_of(out, n)
    return n


cdef inline uint32_t particle_potentials(
    System* system, int64_t particle, int32_t symbol, double* out, double* total
) noexcept nogil:
    """`potentials` of a stored particle."""
    cdef View view
    cdef Row counts
    if unlikely(system.model.real):
        return real_potentials(system, particle, symbol, &system.scratch, out, total)
    view_for(system, particle, symbol, &view, &counts)
    return potentials(&system.model, &view, &counts, symbol, &system.scratch, out, total)


cdef inline double moved_probability(
    System* system, int64_t parent, uint32_t state, int32_t symbol, int32_t next_symbol,
    uint32_t number,
) noexcept nogil:
    """Probability of the next symbol of key `number`, after a move to the state on the symbol."""
    cdef Scratch* scratch = &system.scratch
    cdef uint32_t* block = block_of(system, parent)
    cdef Row counts
    cdef View view
    cdef uint32_t emitted = system.model.missing if symbol == MISSING else <uint32_t>symbol
    cdef Standing standing = standing_of(system, block, state, emitted, number)
    cdef double total
    if unlikely(system.model.real):
        return real_moved_probability(
            system, block, state, symbol, next_symbol, &standing, scratch)
    counts = column_moved(system, block, state, symbol, <uint32_t>next_symbol)
    view_moved(system, block, state, symbol, standing.current, &view)
    potentials(
        &system.model, &view, &counts, next_symbol, scratch, scratch.transition, &total
    )
    return total
