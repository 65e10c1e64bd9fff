"""The model of `SoftHMM`: distributions computed from the present counts."""

from libc.math cimport exp, exp2, floor, ldexp, log2
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from mdvpf.learners._soft_types cimport (
    MISSING, NONE, START, Tables, posterior_at, ring_entry, rows_from,
)
from mdvpf.learners._soft_vectors cimport (
    add_scaled, dot, emission_of, invert_totals, multiply, total_of,
)

cdef enum:
    RESCALE_BITS = 64       # the amount that a step adds stays below 2**(this + forget)


cdef inline void fade(double* counts, Py_ssize_t n, double factor) noexcept nogil:
    """Multiply counts by a factor; results below 1e-100 become 0."""
    cdef Py_ssize_t i
    for i in range(n):
        counts[i] *= factor
        if counts[i] < 1e-100:
            counts[i] = 0.0


cdef inline double unit_at(Tables* tables, int64_t step) noexcept nogil:
    """Return the amount that a step adds to the counts."""
    if tables.forget == 0.0:
        return 1.0
    return exp2(tables.forget * log2(<double>step) - tables.shift)


cdef inline void rescale(Tables* tables, int64_t step) noexcept nogil:
    """Divide all counts by a power of two if the amount that a step adds has grown large."""
    cdef double bits = tables.forget * log2(<double>step) - tables.shift
    cdef double factor
    if bits <= RESCALE_BITS:
        return
    factor = ldexp(1.0, -<int>floor(bits))
    tables.shift += <int64_t>floor(bits)
    fade(tables.rows, tables.n_rows * tables.stride, factor)
    fade(tables.row_total, tables.n_rows, factor)
    fade(tables.emission, tables.n_columns * tables.n_seeds * tables.stride, factor)
    fade(tables.emission_total, tables.n_seeds * tables.stride, factor)


cdef inline void invert_emission_totals(
    Tables* tables, Py_ssize_t seed, double unit,
) noexcept nogil:
    """Compute the reciprocals of the emission totals as of the present step."""
    cdef Py_ssize_t first = seed * tables.stride
    invert_totals(
        tables.inverse + first, tables.emission_total + first,
        <double>tables.n_symbols * (tables.beta * unit), tables.stride,
    )


cdef inline void write_emission(
    Tables* tables, Py_ssize_t seed, int32_t symbol, int32_t column, double unit, double* out,
) noexcept nogil:
    """Write the probability of a symbol in every state."""
    cdef const double* inverse = tables.inverse + seed * tables.stride
    cdef double prior = tables.beta * unit
    cdef Py_ssize_t c
    if symbol == MISSING:
        for c in range(tables.stride):
            out[c] = 1.0
    elif column == NONE:
        for c in range(tables.stride):
            out[c] = prior * inverse[c]
    else:
        emission_of(
            out, tables.emission + (column * tables.n_seeds + seed) * tables.stride, inverse,
            prior, tables.stride,
        )


cdef inline void predict_states(
    Tables* tables, Py_ssize_t seed, double unit, double* out,
) noexcept nogil:
    """Write the distribution of the next state."""
    cdef Py_ssize_t last = tables.n_held - 1
    cdef const double* base = tables.base + seed * tables.stride
    cdef const double* state
    cdef const int32_t* index
    cdef double prior = tables.alpha * unit
    cdef double unknown = 0.0       # probability that the next state is drawn from the base
    cdef double share
    cdef Py_ssize_t j
    memset(out, 0, tables.stride * sizeof(double))
    if tables.held_symbol[ring_entry(tables, last)] == START:
        share = 1.0 / (tables.row_total[seed] + prior)
        add_scaled(out, tables.rows + seed * tables.stride, share, tables.stride)
        add_scaled(out, base, share * prior, tables.stride)
        return
    state = posterior_at(tables, last, seed)
    index = rows_from(tables, tables.held_column[ring_entry(tables, last)], seed)
    for j in range(tables.n_states):
        if state[j] <= 0.0:
            continue
        if index == NULL or index[j] == NONE:
            unknown += state[j]
            continue
        share = state[j] / (tables.row_total[index[j]] + prior)
        unknown += share * prior
        add_scaled(out, tables.rows + index[j] * tables.stride, share, tables.stride)
    add_scaled(out, base, unknown, tables.stride)


cdef inline void refresh_base(Tables* tables, Py_ssize_t seed, double unit) noexcept nogil:
    """Recount the rows that lead to each state; an entry below one counts as a fraction."""
    cdef double* base = tables.base + seed * tables.stride
    cdef double one = 1.0 / unit
    cdef double count, total
    cdef const double* row
    cdef Py_ssize_t r, c
    memset(base, 0, tables.stride * sizeof(double))
    for r in range(tables.n_rows):
        if tables.row_names[r].seed != seed:
            continue
        row = tables.rows + r * tables.stride
        for c in range(tables.stride):
            count = row[c] * one
            base[c] += count if count < 1.0 else 1.0
    total = total_of(base, tables.stride) + tables.gamma
    for c in range(tables.n_states):
        base[c] = (base[c] + tables.gamma / tables.n_states) / total


cdef inline void predict_symbols(Tables* tables, double* out) noexcept nogil:
    """Write the distribution of the next symbol, averaged over the seeds."""
    cdef double unit = unit_at(tables, tables.n_steps + 1)
    cdef double* states = tables.evidence
    cdef double total = 0.0
    cdef double weight, unseen
    cdef Py_ssize_t k, i
    for k in range(tables.n_seeds):
        total += exp(tables.log_weight[k])
    memset(out, 0, <size_t>tables.n_symbols * sizeof(double))
    for k in range(tables.n_seeds):
        weight = exp(tables.log_weight[k]) / total
        invert_emission_totals(tables, k, unit)
        predict_states(tables, k, unit, states)
        multiply(states, tables.inverse + k * tables.stride, tables.stride)
        unseen = weight * (tables.beta * unit * total_of(states, tables.stride))
        for i in range(tables.n_symbols):
            out[i] += unseen
        for i in range(tables.n_columns):
            if tables.column_symbol[i] < tables.n_symbols:
                out[tables.column_symbol[i]] += weight * dot(
                    states, tables.emission + (i * tables.n_seeds + k) * tables.stride,
                    tables.stride,
                )
