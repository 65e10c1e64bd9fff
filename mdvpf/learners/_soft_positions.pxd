"""Positions of `SoftHMM`: where a key stands, and what waits there for its lag.

Counts are those of all keys together. A position that is not the present one changes by being
swapped in only, so that the step of one key counts nothing that another holds back.
"""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free

from mdvpf.learners._soft_storage cimport copy_bytes, name_row, zeroed
from mdvpf.learners._soft_types cimport NONE, START, Position, Tables, ring_place


cdef inline void stand_at_start(Tables* tables) noexcept nogil:
    """Stand before the first symbol of a sequence."""
    tables.first_held = 0
    tables.n_held = 1
    tables.held_symbol[0] = START
    tables.held_column[0] = NONE


cdef inline void know_nothing(Tables* tables) noexcept nogil:
    """Begin with a start state for each seed, whose rows lead anywhere alike."""
    cdef Py_ssize_t k, c
    for k in range(tables.n_seeds):
        for c in range(tables.n_states):
            tables.base[k * tables.stride + c] = 1.0 / tables.n_states
        name_row(tables, <int32_t>k, START, NONE)
    stand_at_start(tables)


cdef inline bint add_weights(Tables* tables, Position* position) noexcept nogil:
    """Give a position weights of its own, those of a sequence that starts; False if that fails."""
    position.log_weight = <double*>zeroed(tables, tables.n_seeds, sizeof(double))
    if position.log_weight == NULL:
        return False
    copy_bytes(
        position.log_weight, tables.first_log_weight, tables.n_seeds * sizeof(double)
    )
    return True


cdef inline bint allocate_position(Tables* tables, Position* position) noexcept nogil:
    """Allocate an empty position, at the start of a sequence; False if that fails."""
    cdef size_t places = tables.lag + 2
    position.posterior = <double*>zeroed(
        tables, places * tables.n_seeds * tables.stride, sizeof(double)
    )
    position.held_symbol = <int32_t*>zeroed(tables, places, sizeof(int32_t))
    position.held_column = <int32_t*>zeroed(tables, places, sizeof(int32_t))
    position.held_step = <int64_t*>zeroed(tables, places, sizeof(int64_t))
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
    cdef size_t places = tables.lag + 2
    copy_bytes(
        target.posterior, source.posterior,
        places * tables.n_seeds * tables.stride * sizeof(double),
    )
    copy_bytes(target.held_symbol, source.held_symbol, places * sizeof(int32_t))
    copy_bytes(target.held_column, source.held_column, places * sizeof(int32_t))
    copy_bytes(target.held_step, source.held_step, places * sizeof(int64_t))
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
    """Keep the latest of the positions that the present key holds."""
    tables.first_held = ring_place(tables, tables.n_held - 1)
    tables.n_held = 1


cdef inline Py_ssize_t position_bytes(const Tables* tables) noexcept nogil:
    """How much memory a position takes."""
    cdef size_t n_seeds = tables.n_seeds
    cdef size_t place = n_seeds * tables.stride * sizeof(double) + 2 * sizeof(int32_t) \
        + sizeof(int64_t)
    cdef size_t weights = n_seeds * sizeof(double) if tables.frozen else 0
    return <Py_ssize_t>(sizeof(Position) + weights + <size_t>(tables.lag + 2) * place)
