# cython: language_level=3
"""The emission family over symbols: Dirichlet-multinomial with symmetric beta.

In an open alphabet, beta is that of the symbol being scored: see `alphabet.pxd`. The statistics are
columns of counts. One column, V (open alphabet: 0), counts missing symbols: a state's observed
emissions are the times it was entered minus its count there. Steps call one function,
`emission_scores`, which writes the probability of a symbol in every candidate state of a particle.
`prediction.pxd` has the probabilities of all symbols.

The rest are optional fast paths, used only where `has_shortcuts` returns True. They assume that
p(y | m) is (count of y + beta) / (emitted + prior). `sparse_expansion.pxd` uses `beta_of`, `new_of`
and the tables; the look-ahead uses logs of the same quotients (`log_tables.pxd`).
"""

from libc.stdint cimport int32_t, uint32_t

from mdvpf._kernel.buffers cimport find_arrays
from mdvpf._kernel.constants cimport NO_MEMORY, OK, TABLED, Status
from mdvpf._kernel.counts cimport count_in, state_in
from mdvpf._kernel.pool cimport resize
from mdvpf._kernel.types cimport Model, Row, System, View


# ---- constants derived from the hyper-parameters -----------------------------------------

cdef inline Status make_tables(System* system) noexcept nogil:
    """Compute constants and tables from the hyper-parameters of the model."""
    cdef Model* model = &system.model
    cdef double* tabled
    cdef int n
    model.prior = model.n_symbols * model.beta
    model.new_emission = 1.0 / model.n_symbols
    model.new_state = model.gamma / model.n_symbols
    model.base_count = model.beta
    model.base_size = model.n_symbols
    if model.is_open:
        model.prior = model.concentration
        model.base_count = model.concentration
        model.base_size = 1.0
    if resize(&system.memory, &system.stored.emission_tables, 2 * TABLED * sizeof(double)) != OK:
        return NO_MEMORY
    find_arrays(system)
    tabled = <double*>system.stored.emission_tables.data
    for n in range(TABLED):
        tabled[n] = 1.0 / (n + model.prior)
        tabled[TABLED + n] = n / (n + model.prior)
    return OK


# ---- shortcuts ---------------------------------------------------------------------------

cdef inline bint has_shortcuts(const System* system) noexcept nogil:
    """Whether one row, one column and the tables determine the potentials of a particle.

    They do with integer counts and the default oracle; with "any", the probability of a transition
    made before has two terms. They also need a stream without missing symbols: a state that was
    entered but emitted no symbol adds into / prior to the spread, and next to so large a term the
    others would lose digits.
    """
    return not (system.model.any_state or system.seen_missing or system.model.real)


cdef inline double beta_of(const Model* model, int32_t symbol) noexcept nogil:
    """Pseudo-count of the symbol in a state that exists."""
    return model.beta


cdef inline double new_of(const Model* model, int32_t symbol) noexcept nogil:
    """Gamma times the probability of the symbol in a new state."""
    return model.new_state


cdef inline double as_double(uint32_t count) noexcept nogil:
    """The count as a double, in a form that compilers turn into vector code."""
    return <double><int32_t>(count ^ 0x80000000u) + 2147483648.0


cdef inline double inverse_of(const Model* model, uint32_t n) noexcept nogil:
    """1 / (n + prior), from a table if n is small."""
    if n < TABLED:
        return model.inverse[n]
    return 1.0 / (as_double(n) + model.prior)


cdef inline double spread_term(const Model* model, uint32_t n) noexcept nogil:
    """n / (n + prior), from a table if n is small."""
    if n < TABLED:
        return model.spread_term[n]
    return as_double(n) * inverse_of(model, n)


# ---- probabilities -----------------------------------------------------------------------

cdef inline void emission_scores(
    const Model* model, const View* view, const Row* counts, int32_t symbol, double* out
) noexcept nogil:
    """Write p(y | m) of every candidate state, given the symbol y and its column of counts.

    The new state is the last, and up to three zeros follow it.
    """
    cdef double beta = beta_of(model, symbol)
    cdef double prior = model.prior
    cdef double per_beta = 1.0 / beta
    cdef const uint32_t* emitted = view.emitted
    cdef uint32_t n_padded = (view.n_states + 3) & ~3u
    cdef uint32_t i
    for i in range(n_padded):
        out[i] = beta / (as_double(emitted[i]) + prior)
    for i in range(counts.n):
        out[state_in(counts, i)] *= as_double(count_in(counts, i)) * per_beta + 1.0
    out[view.n_states] = model.new_emission
    out[view.n_states + 1] = 0.0
    out[view.n_states + 2] = 0.0
    out[view.n_states + 3] = 0.0
