# cython: language_level=3
"""The emission family: Dirichlet-multinomial over symbols, symmetric beta.

The seam for a second family. The rest of the core knows of emissions only that
`emission_scores` gives p(y | m) for every candidate state m of a particle, and
`add_predictive` the same for all symbols at once. The statistics are columns of counts, and
the symbol V stands for emissions that were not observed: what a state emitted is how often it
was entered less its count there.
"""

from libc.stdint cimport int32_t, uint32_t

from mdvpf._counts cimport columns, count_in, row_in, state_in
from mdvpf._pool cimport at
from mdvpf._types cimport GROUP, NONE, TABLED, Model, Record, Row, System, View, handle_t


cdef inline double as_double(uint32_t count) noexcept nogil:
    """The count as a double, in a form that compilers turn into vector code."""
    return <double><int32_t>(count ^ 0x80000000u) + 2147483648.0


cdef inline double inverse_of(const Model* model, uint32_t n) noexcept nogil:
    """1 / (n + prior), from a table where it can be."""
    if n < TABLED:
        return model.inverse[n]
    return 1.0 / (as_double(n) + model.prior)


cdef inline double spread_of(const Model* model, uint32_t n) noexcept nogil:
    """n / (n + prior), from a table where it can be."""
    if n < TABLED:
        return model.spread[n]
    return as_double(n) / (as_double(n) + model.prior)


cdef inline void emission_scores(
    const Model* model, const View* view, const Row* counts, double* out
) noexcept nogil:
    """Write p(y | m) of every candidate state, given the column of counts of the symbol y.

    The new state is the last, and up to three zeros follow it.
    """
    cdef double beta = model.beta
    cdef double prior = model.prior
    cdef double per_beta = 1.0 / beta
    cdef const uint32_t* emitted = view.emitted
    cdef uint32_t n_padded = (view.n_states + 3) & ~3u
    cdef uint32_t i
    for i in range(n_padded):
        out[i] = beta / (as_double(emitted[i]) + prior)
    for i in range(counts.n):
        out[state_in(counts, i)] *= as_double(count_in(counts, i)) * per_beta + 1.0
    out[view.n_states] = 1.0 / model.n_symbols
    out[view.n_states + 1] = 0.0
    out[view.n_states + 2] = 0.0
    out[view.n_states + 3] = 0.0


cdef inline void add_predictive(
    const System* system, const View* view, const handle_t* root,
    uint32_t moved_symbol, const Row* moved_column,
    double weight, const double* transition, double* rate, double* out,
) noexcept nogil:
    """Add the weight times p(y) of one particle to ``out[y]`` for every symbol y.

    `rate` is work space for one number a state. The column of `moved_symbol` (V or larger:
    none) is `moved_column` instead of what the tree holds.
    """
    cdef const Model* model = &system.model
    cdef double base = 0.0
    cdef double more
    cdef const Record* group
    cdef Row row
    cdef handle_t handle
    cdef uint32_t i, symbol
    for i in range(view.n_states):
        rate[i] = weight * transition[i] / (as_double(view.emitted[i]) + model.prior)
        base += rate[i]
    base *= model.beta
    if view.offers_new:
        base += weight * transition[view.n_states] / model.n_symbols
    for symbol in range(model.n_symbols):
        if symbol == moved_symbol:
            row = moved_column[0]
        else:
            handle = columns(system, root, symbol)
            group = NULL
            if handle != NONE:
                group = <const Record*>at(&system.pool, handle)
            row = row_in(group, symbol & (GROUP - 1))
        more = base
        for i in range(row.n):
            more += rate[state_in(&row, i)] * count_in(&row, i)
        out[symbol] += more
