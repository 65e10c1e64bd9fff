"""The steps of `SoftHMM`: filtering with the present counts, weights of the seeds, learning."""

from libc.math cimport exp, log
from libc.stdint cimport int32_t
from libc.string cimport memcpy

from mdvpf.learners._soft_learning cimport count_oldest
from mdvpf.learners._soft_model cimport (
    write_emission, predict_states, invert_emission_totals, refresh_base, rescale, unit_at,
)
from mdvpf.learners._soft_positions cimport go_to_start
from mdvpf.learners._soft_storage cimport (
    add_column, find_column, reserve_columns, reserve_rows, missing_rows,
)
from mdvpf.learners._soft_types cimport (
    MISSING, NONE, Tables, posterior_at, ring_entry,
)
from mdvpf.learners._soft_vectors cimport dot, multiply, total_of

cdef enum:
    REFRESH = 1000          # steps between two recounts of the rows that lead to each state
    NEGLIGIBLE = 1000       # states this many times less likely than the likeliest are dropped


cdef inline void filter_symbol(
    Tables* tables, Py_ssize_t seed, int32_t symbol, int32_t column, double unit,
) noexcept nogil:
    """Write the posterior of the next position, and the predictive of the seed."""
    cdef double* state = posterior_at(tables, tables.n_held, seed)
    cdef double largest = 0.0
    cdef double least, total
    cdef Py_ssize_t c
    predict_states(tables, seed, unit, state)
    write_emission(tables, seed, symbol, column, unit, tables.evidence)
    multiply(state, tables.evidence, tables.stride)
    total = total_of(state, tables.stride)
    tables.predicted[seed] = total
    if not tables.frozen:
        for c in range(tables.n_states):
            if state[c] > largest:
                largest = state[c]
        least = largest / NEGLIGIBLE
        for c in range(tables.n_states):
            if state[c] < least:
                state[c] = 0.0
        total = total_of(state, tables.stride)
    total = 1.0 / total
    for c in range(tables.n_states):
        state[c] *= total


cdef inline double weigh(Tables* tables, int32_t symbol) noexcept nogil:
    """Return the log predictive of the mixture of seeds; update the weights of the seeds."""
    cdef double predicted = 0.0
    cdef double total = 0.0
    cdef double largest = 0.0
    cdef double weight
    cdef Py_ssize_t k
    if symbol == MISSING:
        return 0.0
    if tables.n_seeds == 1:
        return log(tables.predicted[0])
    for k in range(tables.n_seeds):
        weight = exp(tables.log_weight[k])
        total += weight
        predicted += weight * tables.predicted[k]
        tables.log_weight[k] += log(tables.predicted[k])
        if k == 0 or tables.log_weight[k] > largest:
            largest = tables.log_weight[k]
    for k in range(tables.n_seeds):
        tables.log_weight[k] -= largest
    return log(predicted / total)


cdef inline void write_sizes(Tables* tables, double* report) noexcept nogil:
    """Write the effective numbers of states and of seeds into a report."""
    cdef double weights = 0.0
    cdef double squares = 0.0
    cdef double states = 0.0
    cdef double weight, total, square
    cdef const double* totals
    cdef Py_ssize_t k
    for k in range(tables.n_seeds):
        totals = tables.emission_total + k * tables.stride
        weight = exp(tables.log_weight[k]) if tables.n_seeds > 1 else 1.0
        total = total_of(totals, tables.stride)
        square = dot(totals, totals, tables.stride)
        weights += weight
        squares += weight * weight
        if square > 0.0:
            states += weight * (total * total / square)
    report[2] = states / weights
    report[3] = weights * weights / squares
    report[4] = <double>tables.n_seeds
    report[5] = 0.0


cdef inline bint absorb_symbol(Tables* tables, int32_t symbol, double* report) noexcept nogil:
    """Absorb a symbol and write a report; return False if there is no memory."""
    cdef int32_t column = NONE
    cdef double unit, counted_unit, log_predictive
    cdef Py_ssize_t entry, k
    if symbol != MISSING or tables.mealy:
        column = find_column(tables, symbol)
    if not tables.frozen:
        if tables.n_held > tables.lag and not reserve_rows(tables, missing_rows(tables, 0)):
            return False
        if column == NONE and (symbol != MISSING or tables.mealy):
            if not reserve_columns(tables, 1):
                return False
            column = add_column(tables, symbol)
        tables.n_steps += 1
        rescale(tables, tables.n_steps)
        unit = unit_at(tables, tables.n_steps)
    else:
        unit = unit_at(tables, tables.n_steps + 1)
    for k in range(tables.n_seeds):
        invert_emission_totals(tables, k, unit)
        filter_symbol(tables, k, symbol, column, unit)
    log_predictive = weigh(tables, symbol)
    if tables.frozen:
        tables.first_held = ring_entry(tables, 1)
    else:
        tables.n_held += 1
    entry = ring_entry(tables, tables.n_held - 1)
    tables.held_symbol[entry] = symbol
    tables.held_column[entry] = column
    tables.held_step[entry] = tables.n_steps
    if tables.n_held > tables.lag + 1:
        counted_unit = unit_at(tables, tables.held_step[ring_entry(tables, 1)])
        for k in range(tables.n_seeds):
            count_oldest(tables, k, unit, counted_unit)
        tables.first_held = ring_entry(tables, 1)
        tables.n_held -= 1
    if not tables.frozen and tables.n_steps % REFRESH == 0:
        for k in range(tables.n_seeds):
            refresh_base(tables, k, unit)
    write_sizes(tables, report)
    report[0] = log_predictive
    report[1] = log_predictive
    return True


cdef inline bint end_sequence(Tables* tables) noexcept nogil:
    """Count all positions held, and move to the start; return False if there is no memory."""
    cdef Py_ssize_t n_missing = 0
    cdef double unit, counted_unit
    cdef Py_ssize_t i, k
    if not tables.frozen:
        for i in range(tables.n_held - 1):
            n_missing += missing_rows(tables, i)
        if not reserve_rows(tables, n_missing):
            return False
        while tables.n_held > 1:
            unit = unit_at(tables, tables.n_steps)
            counted_unit = unit_at(tables, tables.held_step[ring_entry(tables, 1)])
            for k in range(tables.n_seeds):
                invert_emission_totals(tables, k, unit)
                count_oldest(tables, k, unit, counted_unit)
            tables.first_held = ring_entry(tables, 1)
            tables.n_held -= 1
    else:
        memcpy(tables.log_weight, tables.first_log_weight, tables.n_seeds * sizeof(double))
    go_to_start(tables)
    return True
