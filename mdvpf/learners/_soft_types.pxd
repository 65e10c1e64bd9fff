"""The structs of `SoftHMM`, and functions that all of its parts use.

Old counts fade because new ones grow: step i adds ``unit_at(i) = i**forget / 2**shift``, and at
step n the hyper-parameters are multiplied by ``unit_at(n)``. `rescale` raises the shift when this
gets large.

A row of transition counts exists only if a transition was counted. A *column* is the number of a
symbol by first appearance; it is the index of the symbol's emission counts and, in a Mealy machine,
of the rows of (state, symbol) pairs.

The tables have the position of one key; between two calls that of key=None. For a step of another
key, its `Position` is swapped in, and out again afterwards.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t

cdef enum:
    MISSING = -1        # a missing symbol
    START = -2          # the position before the first symbol of a sequence
    NONE = -1           # no row, no column
    LANES = 4           # vectors over states are padded with zeros to a multiple of this


cdef struct Row:
    int32_t seed
    int32_t state           # START: the row of the start state
    int32_t column          # column of the symbol that the state emitted; 0 in a Moore machine


cdef struct Bucket:
    int32_t symbol          # MISSING is written as n_symbols
    int32_t column          # NONE: the bucket is free


cdef struct Position:
    # The position of a key that is not swapped in: see the fields of the same names in Tables.
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
    bint frozen                     # learning has stopped
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
    Bucket* buckets                 # hash table: a power of two of buckets, at most half in use
    Py_ssize_t n_buckets
    int32_t* column_symbol
    int32_t* row_index              # [column, or 0 in a Moore machine][seed][state] -> row
    double* emission                # [column][seed][stride]
    Py_ssize_t n_columns
    Py_ssize_t symbol_capacity
    Py_ssize_t index_capacity
    Py_ssize_t emission_capacity
    # One vector over states, or one number, for each seed
    double* emission_total
    double* base                    # distribution of the next state in a row without counts
    double* inverse                 # 1 / (emission_total + n_symbols * beta), as of this step
    double* log_weight              # the largest is 0
    double* first_log_weight        # if frozen: weights at the start of a sequence
    double* predicted               # probability of the symbol
    uint64_t* keys                  # keys of the random numbers
    # A ring of positions in the sequence: the last one that was counted (or START), and later ones.
    double* posterior               # [ring entry][seed][stride]
    int32_t* held_symbol            # [ring entry]
    int32_t* held_column            # [ring entry]
    int64_t* held_step              # [ring entry] number of the step, over all keys
    Py_ssize_t first_held           # ring entry of the first position
    Py_ssize_t n_held
    # Work space of a step
    double* message                 # [stride]
    double* evidence                # [stride]
    double* marginal                # [stride]
    double* joint                   # [state][stride]
    int64_t fail_after              # tests: allocations until one fails; -1: none fails


cdef inline uint64_t mix_bits(uint64_t key, uint64_t step) noexcept nogil:
    """The finalizer of SplitMix64 of a key and a step: a stateless random number."""
    cdef uint64_t x = key + step * <uint64_t>0x9E3779B97F4A7C15u
    x = (x ^ (x >> 30)) * <uint64_t>0xBF58476D1CE4E5B9u
    x = (x ^ (x >> 27)) * <uint64_t>0x94D049BB133111EBu
    return x ^ (x >> 31)


cdef inline Py_ssize_t ring_entry(const Tables* tables, Py_ssize_t i) noexcept nogil:
    """Return the ring entry of the i-th position held."""
    cdef Py_ssize_t found = tables.first_held + i
    return found if found < tables.lag + 2 else found - (tables.lag + 2)


cdef inline double* posterior_at(
    const Tables* tables, Py_ssize_t i, Py_ssize_t seed,
) noexcept nogil:
    """Return the distribution over states at the i-th position held."""
    return tables.posterior + (ring_entry(tables, i) * tables.n_seeds + seed) * tables.stride


cdef inline const int32_t* rows_from(
    const Tables* tables, int32_t column, Py_ssize_t seed,
) noexcept nogil:
    """Return the rows by state after the symbol of a column, or NULL if there is no column."""
    cdef Py_ssize_t which = column if tables.mealy else 0
    if which < 0:
        return NULL
    return tables.row_index + (which * tables.n_seeds + seed) * tables.n_states


cdef inline void swap_position(Tables* tables, Position* other) noexcept nogil:
    """Swap the position in the tables with another."""
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
