"""Export and import of the tables of `SoftHMM`: vectors, names of rows, positions.

Imported arrays are checked as far as memory safety depends on them; the caller checks their values.
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset

from mdvpf.learners._soft_storage cimport add_column, find_column, make_row
from mdvpf.learners._soft_types cimport (
    MISSING, NONE, START, Tables, posterior_at, ring_entry,
)


cdef inline void read_vectors(
    const double[:, ::1] given, double* out, Py_ssize_t n_states, Py_ssize_t stride,
) noexcept:
    """Copy vectors over states, row by row, into padded ones."""
    cdef Py_ssize_t i
    for i in range(given.shape[0]):
        memcpy(out + i * stride, &given[i, 0], n_states * sizeof(double))
        memset(out + i * stride + n_states, 0, (stride - n_states) * sizeof(double))


cdef inline void write_vectors(
    const double* vectors, double[:, ::1] out, Py_ssize_t n_states, Py_ssize_t stride,
) noexcept:
    cdef Py_ssize_t i
    for i in range(out.shape[0]):
        memcpy(&out[i, 0], vectors + i * stride, n_states * sizeof(double))


cdef inline int write_row_names(
    const Tables* tables, int32_t[:, ::1] names, double[::1] totals,
) except -1:
    """Write the names and totals of all rows."""
    cdef Py_ssize_t i
    for i in range(tables.n_rows):
        names[i, 0] = tables.row_names[i].seed
        names[i, 1] = tables.row_names[i].state
        names[i, 2] = tables.row_names[i].column
        totals[i] = tables.row_total[i]
    return 0


cdef inline int add_columns(Tables* tables, const int32_t[::1] symbols) except -1:
    """Make the columns of the given symbols, for which there is room."""
    cdef int32_t column
    cdef Py_ssize_t i
    for i in range(symbols.shape[0]):
        column = MISSING if symbols[i] == tables.n_symbols else symbols[i]
        if not MISSING <= column < tables.n_symbols or symbols[i] < 0 \
                or (column == MISSING and not tables.mealy) \
                or find_column(tables, column) != NONE:
            raise ValueError(f"symbol {symbols[i]} is not in the alphabet, or occurs twice")
        add_column(tables, column)
    return 0


cdef inline int write_held(
    const Tables* tables, int32_t[::1] held, double[:, ::1] posterior,
) except -1:
    """Write the symbols and posteriors that the present key holds."""
    cdef Py_ssize_t n_seeds = tables.n_seeds
    cdef Py_ssize_t i
    for i in range(tables.n_held):
        held[i] = tables.held_symbol[ring_entry(tables, i)]
        if held[i] == START:    # the ring has an old posterior here
            posterior[i * n_seeds:(i + 1) * n_seeds] = 0.0
            continue
        write_vectors(
            posterior_at(tables, i, 0), posterior[i * n_seeds:(i + 1) * n_seeds],
            tables.n_states, tables.stride,
        )
    return 0


cdef inline int set_held(
    Tables* tables, Py_ssize_t entry, int32_t symbol, bint first, bint frozen
) except -1:
    """Set the symbol of a position, which must have a column unless the tables are frozen."""
    cdef int32_t column = NONE
    if not (START if first else MISSING) <= symbol < tables.n_symbols:
        raise ValueError("a position has a symbol out of range")
    if symbol != START and (symbol != MISSING or tables.mealy):
        column = find_column(tables, symbol)
        if column == NONE and not frozen:
            raise ValueError("a position has a symbol that was never seen")
    tables.held_symbol[entry] = symbol
    tables.held_column[entry] = column
    return 0


cdef inline int read_held(
    Tables* tables, const int32_t[::1] held, const double[:, ::1] posterior, bint frozen,
) except -1:
    """Set the symbols and posteriors that the present key holds. There must be room."""
    cdef Py_ssize_t n_seeds = tables.n_seeds
    cdef Py_ssize_t i
    tables.first_held = 0
    tables.n_held = held.shape[0]
    for i in range(held.shape[0]):
        set_held(tables, i, held[i], i == 0, frozen)
        read_vectors(
            posterior[i * n_seeds:(i + 1) * n_seeds], posterior_at(tables, i, 0),
            tables.n_states, tables.stride,
        )
    return 0


cdef inline int make_rows(Tables* tables, const int32_t[:, ::1] names) except -1:
    """Make the rows of the given names, except those of the start states, which exist."""
    cdef Py_ssize_t n_columns = tables.n_columns if tables.mealy else 1
    cdef Py_ssize_t i
    for i in range(names.shape[0]):
        if i < tables.n_seeds:
            if names[i, 0] != i or names[i, 1] != START or names[i, 2] != NONE:
                raise ValueError("a row of a start state is missing")
            continue
        if not 0 <= names[i, 0] < tables.n_seeds or not 0 <= names[i, 1] < tables.n_states \
                or not 0 <= names[i, 2] < n_columns:
            raise ValueError("a row has a name out of range")
        if tables.row_index[
            (names[i, 2] * tables.n_seeds + names[i, 0]) * tables.n_states + names[i, 1]
        ] != NONE:
            raise ValueError("a row occurs twice")
        make_row(tables, names[i, 0], names[i, 1], names[i, 2])
    return 0


cdef inline int check_shapes(
    const Tables* tables, const int32_t[:, ::1] row_names, const double[:, ::1] rows,
    const double[::1] row_totals, const int32_t[::1] symbols, const double[:, ::1] emission,
    const double[:, ::1] emission_totals, const double[:, ::1] base,
    const double[:, ::1] log_weights, const int32_t[::1] held,
    const double[:, ::1] posterior,
) except -1:
    cdef Py_ssize_t n_states = tables.n_states
    cdef Py_ssize_t n_seeds = tables.n_seeds
    if row_names.shape[0] != rows.shape[0] or row_names.shape[1] != 3 \
            or row_totals.shape[0] != rows.shape[0] or rows.shape[1] != n_states \
            or emission.shape[0] != symbols.shape[0] * n_seeds \
            or emission.shape[1] != n_states or emission_totals.shape[0] != n_seeds \
            or emission_totals.shape[1] != n_states or base.shape[0] != n_seeds \
            or base.shape[1] != n_states or log_weights.shape[0] != 2 \
            or log_weights.shape[1] != n_seeds \
            or posterior.shape[0] != held.shape[0] * n_seeds \
            or posterior.shape[1] != n_states:
        raise ValueError("expected arrays of matching shapes")
    return 0


cdef inline int check_position(
    const Tables* tables, const int32_t[::1] held, const int64_t[::1] steps,
    const double[:, ::1] posterior, const double[::1] log_weights,
) except -1:
    if steps.shape[0] != held.shape[0] \
            or posterior.shape[0] != held.shape[0] * tables.n_seeds \
            or posterior.shape[1] != tables.n_states \
            or log_weights.shape[0] != tables.n_seeds:
        raise ValueError("expected arrays of matching shapes")
    return 0


cdef inline int check_steps(const Tables* tables, const int64_t[::1] steps) except -1:
    """Check that the steps of the positions of a key are increasing."""
    cdef Py_ssize_t i
    for i in range(1, steps.shape[0]):
        if not steps[i - 1] < steps[i] <= tables.n_steps:
            raise ValueError("steps are out of order")
    return 0
