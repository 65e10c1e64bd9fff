# cython: language_level=3
"""The counts of a particle with real counts, as dense tables.

Tables are indexed by the label of a state, or by its number within the particle. Released states
have no number.
"""

from libc.stdint cimport int64_t, uint32_t

from mdvpf._kernel.constants cimport BLOCK_STATES, FAINT, GONE, GROUP, MISSING
from mdvpf._kernel.labels cimport label_of
from mdvpf._kernel.real_counts cimport overlay_count, read_row
from mdvpf._kernel.real_particles cimport (
    column_at_move, column_group, current_at, is_gone, outlives_step, reached_of, row_group,
    row_index, view_real, view_real_moved,
)
from mdvpf._kernel.types cimport Clock, Entries, RealView, Scratch, Standing, System


cdef inline int64_t rows_a_state(const System* system) noexcept nogil:
    """Rows of transitions that a state can have."""
    return <int64_t>system.model.n_symbols + 1 if system.model.mealy else 1


cdef inline uint32_t column_of_row(const System* system, uint32_t i) noexcept nogil:
    """The column of the symbol of row i in the tables of a state; the last row is for missing."""
    return system.model.missing if i == system.model.n_symbols else i + system.model.first_symbol


cdef inline int64_t index_of(
    const System* system, const uint32_t* block, uint32_t state, bint by_label
) noexcept nogil:
    """The index of a state in the tables."""
    return <int64_t>label_of(system, block, state) if by_label else <int64_t>state


cdef inline void write_entries(
    System* system, uint32_t* block, bint moved, uint32_t state, bint by_label, double* into,
    double* reached,
) noexcept nogil:
    """Write how often each state was entered, and by how many rows it is reached; 0 if it is gone.

    If `moved`, write what holds after the move to `state` on the pending symbol.
    """
    cdef Scratch* scratch = &system.scratch
    cdef const uint32_t* rows = reached_of(system, block)
    cdef Standing standing
    cdef RealView view
    cdef uint32_t i
    if moved:
        standing.current = 0  # no effect on entries
        standing.symbol = 0
        view_real_moved(system, block, state, system.pending_symbol, &standing, scratch, &view)
        rows = scratch.overlay_into
    else:
        view_real(system, block, scratch, &view)
    for i in range(view.n_states):
        into[index_of(system, block, i, by_label)] = view.into[i]
        if system.model.by_rows and view.into[i] > 0.0:
            reached[index_of(system, block, i, by_label)] = rows[i]


cdef inline void write_real_row(
    const System* system, uint32_t* block, uint32_t from_state, uint32_t symbol, bint moved,
    uint32_t state, bint by_label, double* out,
) noexcept nogil:
    """Write a row; if `moved`, that after the move to `state`, which may be counted in this row."""
    cdef const Clock* clock = &system.after if moved else &system.now
    cdef uint32_t standing = current_at(system, block, &system.now)
    cdef uint32_t which = row_index(system, from_state, symbol)
    cdef Entries row = system.scratch.row
    cdef uint32_t i
    read_row(row_group(system, block, from_state, symbol), which & (GROUP - 1), clock, GONE, &row)
    if moved and from_state == standing \
            and which == row_index(system, standing, system.last_symbol):
        overlay_count(&row, state, row_group(system, block, from_state, symbol),
                      which & (GROUP - 1), &system.now, clock, GONE)
    for i in range(row.n):
        out[index_of(system, block, row.state[i], by_label)] = row.count[i]


cdef inline void write_tables(
    System* system, uint32_t* block, bint moved, uint32_t state, bint by_label, int64_t n_indices,
    double* transition, double* emission,
) noexcept nogil:
    """Write all counts to zeroed tables with room for `n_indices` states.

    `transition` has the row of the start state, then `rows_a_state` rows of each state. If
    `moved`, the counts are those after the move to `state` on the pending symbol.
    """
    cdef const Clock* clock = &system.after if moved else &system.now
    cdef int64_t n_rows = rows_a_state(system)
    cdef int64_t n_symbols = system.model.n_symbols
    cdef uint32_t n_states = block[BLOCK_STATES]
    cdef uint32_t first = system.model.first_symbol
    cdef uint32_t emitted = 0xFFFFFFFFu
    cdef uint32_t i, j, symbol
    cdef Entries column = system.scratch.column
    if moved:
        emitted = system.model.missing if system.pending_symbol == MISSING \
            else <uint32_t>system.pending_symbol
    write_real_row(system, block, 0, 0, moved, state, by_label, transition)
    for j in range(n_states):
        for i in range(<uint32_t>n_rows):
            write_real_row(
                system, block, j + 1, column_of_row(system, i), moved, state, by_label,
                transition + (1 + index_of(system, block, j, by_label) * n_rows + i) * n_indices,
            )
    for symbol in range(first, first + <uint32_t>n_symbols):
        if moved:
            column_at_move(system, block, state, emitted, symbol, &column)
        else:
            read_row(column_group(system, block, symbol), symbol & (GROUP - 1), clock, FAINT,
                     &column)
        for i in range(column.n):
            j = column.state[i]
            if outlives_step(system, block, j) if moved and j == state \
                    else not is_gone(system, block, j, clock):
                emission[index_of(system, block, j, by_label) * n_symbols + symbol - first] = \
                    column.count[i]
