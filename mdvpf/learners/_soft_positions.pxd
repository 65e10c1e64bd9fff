"""Positions of `SoftHMM`: the current state of each key, and its symbols that wait for the lag.

All keys share the counts. The position of a key changes only while it is swapped in, so a step of
one key counts no symbols of another.
"""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free

from mdvpf.learners._soft_storage cimport copy_bytes, make_row, zeroed
from mdvpf.learners._soft_types cimport NONE, START, Position, Tables, ring_entry


cdef inline void go_to_start(Tables* tables) noexcept nogil:
    """Move the present key to the start of a sequence."""
    tables.first_held = 0
    tables.n_held = 1
    tables.held_symbol[0] = START
    tables.held_column[0] = NONE


cdef inline void initialise(Tables* tables) noexcept nogil:
    """Initialise new tables: a start state for each seed, and a uniform base."""
    cdef Py_ssize_t k, c
    for k in range(tables.n_seeds):
        for c in range(tables.n_states):
            tables.base[k * tables.stride + c] = 1.0 / tables.n_states
        make_row(tables, <int32_t>k, START, NONE)
    go_to_start(tables)


cdef inline bint add_weights(Tables* tables, Position* position) noexcept nogil:
    """Give a position its own weights, as at the start of a sequence; False if that fails."""
    position.log_weight = <double*>zeroed(tables, tables.n_seeds, sizeof(double))
    if position.log_weight == NULL:
        return False
    copy_bytes(
        position.log_weight, tables.first_log_weight, tables.n_seeds * sizeof(double)
    )
    return True


cdef inline bint allocate_position(Tables* tables, Position* position) noexcept nogil:
    """Allocate a position at the start of a sequence; False if that fails."""
    cdef size_t n_entries = tables.lag + 2
    position.posterior = <double*>zeroed(
        tables, n_entries * tables.n_seeds * tables.stride, sizeof(double)
    )
    position.held_symbol = <int32_t*>zeroed(tables, n_entries, sizeof(int32_t))
    position.held_column = <int32_t*>zeroed(tables, n_entries, sizeof(int32_t))
    position.held_step = <int64_t*>zeroed(tables, n_entries, sizeof(int64_t))
    if position.posterior == NULL or position.held_symbol == NULL \
            or position.held_column == NULL or position.held_step == NULL \
            or (tables.frozen and not add_weights(tables, position)):
        return False
    position.n_held = 1
    position.held_symbol[0] = START
    position.held_column[0] = NONE
    return True


cdef inline void copy_position(
    const Tables* tables, Position* target, const Position* source,
) noexcept nogil:
    """Copy a position into one that was allocated for the same tables."""
    cdef size_t n_entries = tables.lag + 2
    copy_bytes(
        target.posterior, source.posterior,
        n_entries * tables.n_seeds * tables.stride * sizeof(double),
    )
    copy_bytes(target.held_symbol, source.held_symbol, n_entries * sizeof(int32_t))
    copy_bytes(target.held_column, source.held_column, n_entries * sizeof(int32_t))
    copy_bytes(target.held_step, source.held_step, n_entries * sizeof(int64_t))
    if tables.frozen:
        copy_bytes(target.log_weight, source.log_weight, tables.n_seeds * sizeof(double))
    target.first_held = source.first_held
    target.n_held = source.n_held


cdef inline void release_position(Position* position) noexcept nogil:
    free(position.posterior)
    free(position.held_symbol)
    free(position.held_column)
    free(position.held_step)
    free(position.log_weight)


cdef inline void drop_held(Tables* tables) noexcept nogil:
    """Drop all positions that the present key holds except the latest."""
    tables.first_held = ring_entry(tables, tables.n_held - 1)
    tables.n_held = 1


cdef inline Py_ssize_t position_bytes(const Tables* tables) noexcept nogil:
    """Bytes of a position."""
    cdef size_t n_seeds = tables.n_seeds
    cdef size_t entry = n_seeds * tables.stride * sizeof(double) + 2 * sizeof(int32_t) \
        + sizeof(int64_t)
    cdef size_t weights = n_seeds * sizeof(double) if tables.frozen else 0
    return <Py_ssize_t>(sizeof(Position) + weights + <size_t>(tables.lag + 2) * entry)
