"""Learning of `SoftHMM`: a move and its symbol are counted once the lag has passed."""

from libc.math cimport exp2
from libc.stdint cimport int32_t, uint64_t
from libc.string cimport memcpy, memset

from mdvpf.learners._soft_model cimport write_emission
from mdvpf.learners._soft_storage cimport make_row
from mdvpf.learners._soft_types cimport (
    MISSING, NONE, START, Tables, mix_bits, posterior_at, ring_entry, rows_from,
)
from mdvpf.learners._soft_vectors cimport add_scaled, dot, joint_row, multiply, total_of

cdef enum:
    WARM_UP = 1000          # states of these first steps are drawn


cdef inline bint look_back(Tables* tables, Py_ssize_t seed, double unit) noexcept nogil:
    """Write the probability of the symbols after position 1 given its state, up to a factor.

    Return False if all of them are 0, by underflow.
    """
    cdef double* message = tables.message
    cdef double* evidence = tables.evidence
    cdef const double* base = tables.base + seed * tables.stride
    cdef double prior = tables.alpha * unit
    cdef double unknown, largest
    cdef const double* state
    cdef const int32_t* index
    cdef Py_ssize_t i, j, entry
    for j in range(tables.stride):
        message[j] = 1.0
    for i in range(tables.n_held - 1, 1, -1):
        entry = ring_entry(tables, i)
        write_emission(
            tables, seed, tables.held_symbol[entry], tables.held_column[entry], unit, evidence)
        multiply(evidence, message, tables.stride)
        unknown = dot(base, evidence, tables.stride)
        state = posterior_at(tables, i - 1, seed)
        index = rows_from(tables, tables.held_column[ring_entry(tables, i - 1)], seed)
        largest = 0.0
        for j in range(tables.n_states):
            if state[j] <= 0.0:
                message[j] = 0.0
                continue
            message[j] = unknown
            if index[j] != NONE:
                message[j] = dot(
                    tables.rows + index[j] * tables.stride, evidence, tables.stride
                ) + prior * unknown
                message[j] /= tables.row_total[index[j]] + prior
            if message[j] > largest:
                largest = message[j]
        if not largest > 0.0:
            return False
        largest = 1.0 / largest
        for j in range(tables.n_states):
            message[j] *= largest
    return True


cdef inline double draw(Tables* tables, Py_ssize_t seed, double total) noexcept nogil:
    """Draw the state of position 1, and condition the joint posterior on it.

    Drawing breaks the symmetry of the states, whose expected counts would stay equal for ever.
    """
    cdef double* state = posterior_at(tables, 1, seed)
    cdef double* marginal = tables.marginal
    cdef uint64_t step = <uint64_t>tables.held_step[ring_entry(tables, 1)]
    cdef double left = (<double>(mix_bits(tables.keys[seed], step) >> 11) + 0.5) * exp2(-53.0)
    cdef double probability
    cdef Py_ssize_t chosen = 0
    cdef Py_ssize_t c
    left *= total
    for c in range(tables.n_states):
        if marginal[c] > 1e-30 * total:     # skip states that only rounding could choose
            chosen = c
            left -= marginal[c]
            if left < 0.0:
                break
    probability = marginal[chosen]
    for c in range(tables.n_states):
        state[c] = 0.0
        tables.evidence[c] = 0.0
    state[chosen] = 1.0
    tables.evidence[chosen] = 1.0       # `evidence` is a mask from here on
    multiply(marginal, tables.evidence, tables.stride)
    for c in range(tables.n_states):
        multiply(tables.joint + c * tables.stride, tables.evidence, tables.stride)
    return probability


cdef inline void add_counts(
    Tables* tables, Py_ssize_t seed, double factor, double counted_unit,
) noexcept nogil:
    """Add the joint posterior to the transitions and its marginal to the emissions."""
    cdef Py_ssize_t stride = tables.stride
    cdef Py_ssize_t origin = ring_entry(tables, 0)
    cdef Py_ssize_t entry = ring_entry(tables, 1)
    cdef const double* state
    cdef const int32_t* index
    cdef Py_ssize_t j
    cdef int32_t column = tables.held_column[entry]
    if tables.held_symbol[origin] == START:
        add_scaled(tables.rows + seed * stride, tables.joint, factor, stride)
        tables.row_total[seed] += counted_unit
    else:
        state = posterior_at(tables, 0, seed)
        index = rows_from(tables, tables.held_column[origin], seed)
        for j in range(tables.n_states):
            if state[j] > 0.0:
                add_scaled(
                    tables.rows + index[j] * stride, tables.joint + j * stride, factor, stride
                )
                tables.row_total[index[j]] += factor * total_of(tables.joint + j * stride, stride)
    if tables.held_symbol[entry] != MISSING:
        add_scaled(
            tables.emission + (column * tables.n_seeds + seed) * stride, tables.marginal, factor,
            stride,
        )
        add_scaled(tables.emission_total + seed * stride, tables.marginal, factor, stride)


cdef inline void count_oldest(
    Tables* tables, Py_ssize_t seed, double unit, double counted_unit,
) noexcept nogil:
    """Count the move to position 1 and its symbol, given all symbols held.

    The caller has reserved room for the rows. A posterior close to underflow is not counted.
    """
    cdef Py_ssize_t stride = tables.stride
    cdef const double* base = tables.base + seed * stride
    cdef Py_ssize_t origin = ring_entry(tables, 0)
    cdef Py_ssize_t entry = ring_entry(tables, 1)
    cdef int32_t symbol = tables.held_symbol[entry]
    cdef double prior = tables.alpha * unit
    cdef double* marginal = tables.marginal
    cdef double total
    cdef const double* state
    cdef const int32_t* index
    cdef Py_ssize_t j
    if not look_back(tables, seed, unit):
        return
    write_emission(tables, seed, symbol, tables.held_column[entry], unit, tables.evidence)
    multiply(tables.evidence, tables.message, stride)
    memset(marginal, 0, stride * sizeof(double))
    if tables.held_symbol[origin] == START:
        joint_row(
            marginal, tables.rows + seed * stride, base, tables.evidence, prior,
            1.0 / (tables.row_total[seed] + prior), stride,
        )
        memcpy(tables.joint, marginal, stride * sizeof(double))
    else:
        state = posterior_at(tables, 0, seed)
        index = rows_from(tables, tables.held_column[origin], seed)
        for j in range(tables.n_states):
            if state[j] <= 0.0:
                continue
            if index[j] == NONE:
                make_row(
                    tables, <int32_t>seed, <int32_t>j,
                    tables.held_column[origin] if tables.mealy else 0,
                )
            joint_row(
                tables.joint + j * stride, tables.rows + index[j] * stride, base, tables.evidence,
                prior, state[j] / (tables.row_total[index[j]] + prior), stride,
            )
            add_scaled(marginal, tables.joint + j * stride, 1.0, stride)
    total = total_of(marginal, stride)
    if total < 1e-200:
        return
    if tables.held_step[entry] <= WARM_UP:
        total = draw(tables, seed, total)
    add_counts(tables, seed, counted_unit / total, counted_unit)
