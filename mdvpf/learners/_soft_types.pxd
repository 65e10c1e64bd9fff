"""The structures of `SoftHMM`, and what all of its parts use.

Counts are stored in units that grow: step i adds ``unit_at(i) = i**forget / 2**shift``, and at step
n the hyper-parameters are multiplied by ``unit_at(n)``. Now and then `rescale` raises the shift.

Rows of transition counts exist only where a transition was counted. A *column* is the number of a
symbol by first appearance; it leads to the emission counts of the symbol and, in a Mealy machine,
to the rows of the (state, symbol) pairs.

The tables hold the position of one key, that of key=None between two calls. To step in another its
`Position` is swapped in, and out again afterwards.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t

cdef enum:
    MISSING = -1        # a symbol that was not observed
    START = -2          # the position before the first symbol of a sequence
    NONE = -1           # no row, no column
    LANES = 4           # vectors over states are padded with zeros to a multiple of it


cdef struct Row:
    int32_t seed
    int32_t state           # START: the row of the start state
    int32_t column          # the symbol emitted before; 0 in a Moore machine


cdef struct Slot:
    int32_t symbol          # of an open-addressing table; MISSING is written as n_symbols
    int32_t column          # NONE: the slot is free


cdef struct Position:
    # Where a key stands that is not the present one: see the fields of the same names in Tables.
    double* posterior
    int32_t* held_symbol
    int32_t* held_column
    int64_t* held_step
    double* log_weight              # NULL unless the tables are frozen
    Py_ssize_t first_held
    Py_ssize_t n_held


cdef struct Tables:
    int64_t n_symbols
    Py_ssize_t n_states
    Py_ssize_t stride               # n_states, padded
    Py_ssize_t n_seeds
    Py_ssize_t lag
    bint mealy
    double forget
    double alpha
    double gamma
    double beta
    bint frozen                     # it no longer learns
    int64_t n_steps                 # symbols absorbed while learning
    int64_t shift                   # counts are divided by 2**shift
    # Transition rows, of all seeds; the first n_seeds are those of the start states.
    double* rows                    # [row][stride]
    double* row_total
    Row* row_names
    Py_ssize_t n_rows
    Py_ssize_t row_capacity
    Py_ssize_t total_capacity
    Py_ssize_t name_capacity
    # Columns
    Slot* slots                     # a power of two of them, at most half in use
    Py_ssize_t n_slots
    int32_t* column_symbol
    int32_t* row_index              # [column, or 0 in a Moore machine][seed][state] -> row
    double* emission                # [column][seed][stride]
    Py_ssize_t n_columns
    Py_ssize_t symbol_capacity
    Py_ssize_t index_capacity
    Py_ssize_t emission_capacity
    # One vector over states, or one number, for each seed
    double* emission_total
    double* base                    # where a row leads of which nothing is known
    double* inverse                 # 1 / (emission_total + n_symbols * beta), as of this step
    double* log_weight              # the largest is 0
    double* first_log_weight        # of a frozen one, at the start of a sequence
    double* predicted               # probability of the symbol
    uint64_t* keys                  # of the random numbers
    # Positions in the sequence: the last one that was counted (or START), then those after it.
    double* posterior               # [place in the ring][seed][stride]
    int32_t* held_symbol            # [place in the ring]
    int32_t* held_column
    int64_t* held_step              # the number of the step, over all keys
    Py_ssize_t first_held           # place of the first position
    Py_ssize_t n_held
    # Work space of a step
    double* message                 # [stride]
    double* evidence                # [stride]
    double* marginal                # [stride]
    double* joint                   # [state][stride]
    int64_t fail_after              # tests: allocations until one fails; -1 for never


cdef inline uint64_t mixed(uint64_t key, uint64_t step) noexcept nogil:
    """The finalizer of SplitMix64 over a key and a step: a random number without a state."""
    cdef uint64_t x = key + step * <uint64_t>0x9E3779B97F4A7C15u
    x = (x ^ (x >> 30)) * <uint64_t>0xBF58476D1CE4E5B9u
    x = (x ^ (x >> 27)) * <uint64_t>0x94D049BB133111EBu
    return x ^ (x >> 31)


cdef inline Py_ssize_t ring_place(const Tables* tables, Py_ssize_t i) noexcept nogil:
    """Return where in the ring the i-th position held is."""
    cdef Py_ssize_t found = tables.first_held + i
    return found if found < tables.lag + 2 else found - (tables.lag + 2)


cdef inline double* posterior_at(
    const Tables* tables, Py_ssize_t i, Py_ssize_t seed,
) noexcept nogil:
    """Return the distribution over the states of the i-th position held."""
    return tables.posterior + (ring_place(tables, i) * tables.n_seeds + seed) * tables.stride


cdef inline const int32_t* rows_from(
    const Tables* tables, int32_t column, Py_ssize_t seed,
) noexcept nogil:
    """Return the rows of the states that emitted the symbol of a column, or NULL."""
    cdef Py_ssize_t which = column if tables.mealy else 0
    if which < 0:
        return NULL
    return tables.row_index + (which * tables.n_seeds + seed) * tables.n_states


cdef inline void swap_position(Tables* tables, Position* other) noexcept nogil:
    """Swap the position that the tables hold with another."""
    cdef Position present
    present.posterior = tables.posterior
    present.held_symbol = tables.held_symbol
    present.held_column = tables.held_column
    present.held_step = tables.held_step
    present.first_held = tables.first_held
    present.n_held = tables.n_held
    present.log_weight = NULL
    tables.posterior = other.posterior
    tables.held_symbol = other.held_symbol
    tables.held_column = other.held_column
    tables.held_step = other.held_step
    tables.first_held = other.first_held
    tables.n_held = other.n_held
    if other.log_weight != NULL:
        present.log_weight = tables.log_weight
        tables.log_weight = other.log_weight
    other[0] = present
