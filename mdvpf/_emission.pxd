# cython: language_level=3
"""The emission family: Dirichlet-multinomial over symbols, symmetric beta.

The seam for a second family. The rest of the core knows of emissions only that
`emission_scores` gives p(y | m) for every candidate state m of a particle, and
`add_predictive` the same for all symbols at once. The statistics are columns of counts, and
the symbol V stands for emissions that were not observed: what a state emitted is how often it
was entered less its count there.
"""

from libc.stdint cimport uint32_t

from mdvpf._counts cimport column, unpack
from mdvpf._pool cimport at
from mdvpf._types cimport NONE, Model, Record, Scratch, System, View, handle_t


cdef inline void emission_scores(
    const Model* model, const View* view, const Record* counts, Scratch* scratch, double* out
) noexcept nogil:
    """Write p(y | m) of every candidate state, given the column of counts of the symbol y."""
    cdef double beta = model.beta
    cdef double prior = model.n_symbols * beta
    cdef double per_beta = 1.0 / beta
    cdef const uint32_t* into = view.into
    cdef uint32_t* states = <uint32_t*>scratch.pair_state.data
    cdef double* numbers = <double*>scratch.pair_count.data
    cdef uint32_t i, n
    for i in range(view.n_states):
        out[i] = beta / (into[i] + prior)
    n = unpack(view.missing, states, numbers)
    for i in range(n):
        out[states[i]] = beta / (into[states[i]] - numbers[i] + prior)
    n = unpack(counts, states, numbers)
    for i in range(n):
        out[states[i]] *= numbers[i] * per_beta + 1.0
    out[view.n_states] = 1.0 / model.n_symbols


cdef inline void add_predictive(
    const System* system, const View* view, const handle_t* root,
    uint32_t overlaid_symbol, const Record* overlaid_column,
    double weight, const double* transition, Scratch* scratch, double* rate, double* out,
) noexcept nogil:
    """Add the weight times p(y) of one particle to ``out[y]`` for every symbol y.

    `rate` is work space for one number a state. The column of `overlaid_symbol` (V or larger:
    none) is `overlaid_column` instead of what the tree holds.
    """
    cdef const Model* model = &system.model
    cdef double prior = model.n_symbols * model.beta
    cdef double base = 0.0
    cdef double more
    cdef uint32_t* states = <uint32_t*>scratch.pair_state.data
    cdef double* numbers = <double*>scratch.pair_count.data
    cdef const Record* counts
    cdef handle_t handle
    cdef uint32_t i, n, symbol
    for i in range(view.n_states):
        rate[i] = view.into[i] + prior
    n = unpack(view.missing, states, numbers)
    for i in range(n):
        rate[states[i]] -= numbers[i]
    for i in range(view.n_states):
        rate[i] = weight * transition[i] / rate[i]
        base += rate[i]
    base *= model.beta
    if view.offers_new:
        base += weight * transition[view.n_states] / model.n_symbols
    for symbol in range(model.n_symbols):
        if symbol == overlaid_symbol:
            counts = overlaid_column
        else:
            handle = column(system, root, symbol)
            counts = NULL
            if handle != NONE:
                counts = <const Record*>at(&system.pool, handle)
        more = base
        n = unpack(counts, states, numbers)
        for i in range(n):
            more += rate[states[i]] * numbers[i]
        out[symbol] += more
