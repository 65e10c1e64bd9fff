"""Memory of `SoftHMM`: allocation, and rows and columns, which are made at their first use.

Functions that reserve room may fail and then change nothing. Functions that use the room cannot
fail.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset

from mdvpf.learners._soft_types cimport (
    MISSING, NONE, START, Row, Bucket, Tables, mix_bits, posterior_at, ring_entry, rows_from,
)


cdef inline bint may_allocate(Tables* tables, size_t n, size_t size) noexcept nogil:
    """Whether memory for n items may be requested: the size is sane, and no test forbids it."""
    if tables.fail_after >= 0:
        tables.fail_after -= 1
        if tables.fail_after < 0:
            return False
    return n <= (<size_t>1 << 60) // size


cdef inline void* reallocate(Tables* tables, void* data, size_t n, size_t size) noexcept nogil:
    """Resize `data` to n items; return NULL and leave `data` as it is if that fails."""
    return realloc(data, max(n, <size_t>1) * size) if may_allocate(tables, n, size) else NULL


cdef inline bint reserve_rows(Tables* tables, Py_ssize_t more) noexcept nogil:
    """Make room for `more` rows; return False and change nothing if that fails."""
    cdef Py_ssize_t n = tables.n_rows + more
    cdef Py_ssize_t capacity = max(n, tables.n_rows + tables.n_rows // 2)
    cdef void* found
    if n > 0x7FFFFFFF:
        return False
    if n > tables.row_capacity:
        found = reallocate(tables, tables.rows, capacity, tables.stride * sizeof(double))
        if found == NULL:
            return False
        tables.rows = <double*>found
        tables.row_capacity = capacity
    if n > tables.total_capacity:
        found = reallocate(tables, tables.row_total, capacity, sizeof(double))
        if found == NULL:
            return False
        tables.row_total = <double*>found
        tables.total_capacity = capacity
    if n > tables.name_capacity:
        found = reallocate(tables, tables.row_names, capacity, sizeof(Row))
        if found == NULL:
            return False
        tables.row_names = <Row*>found
        tables.name_capacity = capacity
    return True


cdef inline Py_ssize_t first_bucket(const Tables* tables, int32_t symbol) noexcept nogil:
    """The bucket at which the search for a symbol starts."""
    return <Py_ssize_t>(mix_bits(<uint64_t>symbol, 1) & <uint64_t>(tables.n_buckets - 1))


cdef inline void enter_column(Tables* tables, int32_t column) noexcept nogil:
    """Enter a column into the hash table."""
    cdef int32_t symbol = tables.column_symbol[column]
    cdef Py_ssize_t i = first_bucket(tables, symbol)
    while tables.buckets[i].column != NONE:
        i = (i + 1) & (tables.n_buckets - 1)
    tables.buckets[i].symbol = symbol
    tables.buckets[i].column = column


cdef inline bint reserve_buckets(Tables* tables, Py_ssize_t n) noexcept nogil:
    """Make the hash table large enough for n columns, or return False."""
    cdef Py_ssize_t size = max(tables.n_buckets, <Py_ssize_t>8)
    cdef Py_ssize_t i
    cdef Bucket* found
    while size < 2 * n:
        size *= 2
    if size == tables.n_buckets:
        return True
    found = <Bucket*>reallocate(tables, NULL, size, sizeof(Bucket))
    if found == NULL:
        return False
    for i in range(size):
        found[i].column = NONE
    free(tables.buckets)
    tables.buckets = found
    tables.n_buckets = size
    for i in range(tables.n_columns):
        enter_column(tables, <int32_t>i)
    return True


cdef inline bint reserve_columns(Tables* tables, Py_ssize_t more) noexcept nogil:
    """Make room for `more` columns; return False and change nothing if that fails."""
    cdef Py_ssize_t n = tables.n_columns + more
    cdef Py_ssize_t capacity = max(n, tables.n_columns + tables.n_columns // 2)
    cdef Py_ssize_t indexed = capacity if tables.mealy else 1
    cdef Py_ssize_t size = tables.n_seeds * tables.n_states
    cdef Py_ssize_t i
    cdef void* found
    if n > tables.symbol_capacity:
        found = reallocate(tables, tables.column_symbol, capacity, sizeof(int32_t))
        if found == NULL:
            return False
        tables.column_symbol = <int32_t*>found
        tables.symbol_capacity = capacity
    if (n if tables.mealy else 1) > tables.index_capacity:
        found = reallocate(tables, tables.row_index, indexed * size, sizeof(int32_t))
        if found == NULL:
            return False
        tables.row_index = <int32_t*>found
        for i in range(tables.index_capacity * size, indexed * size):
            tables.row_index[i] = NONE
        tables.index_capacity = indexed
    if n > tables.emission_capacity:
        found = reallocate(
            tables, tables.emission, capacity * tables.n_seeds, tables.stride * sizeof(double)
        )
        if found == NULL:
            return False
        tables.emission = <double*>found
        tables.emission_capacity = capacity
    return reserve_buckets(tables, n)


cdef inline int32_t find_column(Tables* tables, int32_t symbol) noexcept nogil:
    """Return the column of a symbol or of MISSING; NONE if it has none."""
    cdef int32_t stored = symbol if symbol != MISSING else <int32_t>tables.n_symbols
    cdef Py_ssize_t i = first_bucket(tables, stored)
    while tables.buckets[i].column != NONE:
        if tables.buckets[i].symbol == stored:
            return tables.buckets[i].column
        i = (i + 1) & (tables.n_buckets - 1)
    return NONE


cdef inline int32_t add_column(Tables* tables, int32_t symbol) noexcept nogil:
    """Make a column, for which there is room; return its number."""
    cdef int32_t column = <int32_t>tables.n_columns
    cdef Py_ssize_t size = tables.n_seeds * tables.stride
    tables.column_symbol[column] = symbol if symbol != MISSING else <int32_t>tables.n_symbols
    memset(tables.emission + column * size, 0, size * sizeof(double))
    tables.n_columns += 1
    enter_column(tables, column)
    return column


cdef inline int32_t make_row(
    Tables* tables, int32_t seed, int32_t state, int32_t column,
) noexcept nogil:
    """Make a row of zeros, for which there is room; return its number."""
    cdef int32_t row = <int32_t>tables.n_rows
    tables.n_rows += 1
    memset(tables.rows + row * tables.stride, 0, tables.stride * sizeof(double))
    tables.row_total[row] = 0.0
    tables.row_names[row].seed = seed
    tables.row_names[row].state = state
    tables.row_names[row].column = column
    if state != START:
        tables.row_index[(column * tables.n_seeds + seed) * tables.n_states + state] = row
    return row


cdef inline Py_ssize_t missing_rows(Tables* tables, Py_ssize_t i) noexcept nogil:
    """Return how many of the rows that counting position i + 1 needs do not exist yet."""
    cdef Py_ssize_t n = 0
    cdef Py_ssize_t k, j
    cdef const double* state
    cdef const int32_t* index
    if tables.held_symbol[ring_entry(tables, i)] == START:
        return 0
    for k in range(tables.n_seeds):
        state = posterior_at(tables, i, k)
        index = rows_from(tables, tables.held_column[ring_entry(tables, i)], k)
        for j in range(tables.n_states):
            n += state[j] > 0.0 and index[j] == NONE
    return n


cdef inline void* zeroed(Tables* tables, size_t n, size_t size) noexcept nogil:
    """Return memory for n items, all zero, or NULL.

    The system maps large allocations page by page, when they are first written. A damaged
    checkpoint with large sizes and little data therefore takes little memory.
    """
    return calloc(max(n, <size_t>1), size) if may_allocate(tables, n, size) else NULL


cdef inline bint allocate(Tables* tables) noexcept nogil:
    """Allocate arrays of fixed size, and room for the rows of start states; False if that fails."""
    cdef size_t n_seeds = tables.n_seeds
    cdef size_t n = n_seeds * tables.stride
    cdef size_t n_entries = tables.lag + 2
    tables.emission_total = <double*>zeroed(tables, n, sizeof(double))
    tables.base = <double*>zeroed(tables, n, sizeof(double))
    tables.inverse = <double*>zeroed(tables, n, sizeof(double))
    tables.log_weight = <double*>zeroed(tables, n_seeds, sizeof(double))
    tables.first_log_weight = <double*>zeroed(tables, n_seeds, sizeof(double))
    tables.predicted = <double*>zeroed(tables, n_seeds, sizeof(double))
    tables.keys = <uint64_t*>zeroed(tables, n_seeds, sizeof(uint64_t))
    tables.posterior = <double*>zeroed(tables, n_entries * n, sizeof(double))
    tables.held_symbol = <int32_t*>zeroed(tables, n_entries, sizeof(int32_t))
    tables.held_column = <int32_t*>zeroed(tables, n_entries, sizeof(int32_t))
    tables.held_step = <int64_t*>zeroed(tables, n_entries, sizeof(int64_t))
    tables.message = <double*>zeroed(tables, tables.stride, sizeof(double))
    tables.evidence = <double*>zeroed(tables, tables.stride, sizeof(double))
    tables.marginal = <double*>zeroed(tables, tables.stride, sizeof(double))
    tables.joint = <double*>zeroed(tables, tables.stride * tables.stride, sizeof(double))
    return (
        tables.emission_total != NULL and tables.base != NULL and tables.inverse != NULL
        and tables.log_weight != NULL and tables.first_log_weight != NULL
        and tables.predicted != NULL and tables.keys != NULL and tables.posterior != NULL
        and tables.held_symbol != NULL and tables.held_column != NULL
        and tables.held_step != NULL
        and tables.message != NULL and tables.evidence != NULL and tables.marginal != NULL
        and tables.joint != NULL
        and reserve_rows(tables, n_seeds) and reserve_columns(tables, 0)
    )


cdef inline void release(Tables* tables) noexcept nogil:
    """Free everything."""
    free(tables.rows)
    free(tables.row_total)
    free(tables.row_names)
    free(tables.buckets)
    free(tables.column_symbol)
    free(tables.row_index)
    free(tables.emission)
    free(tables.emission_total)
    free(tables.base)
    free(tables.inverse)
    free(tables.log_weight)
    free(tables.first_log_weight)
    free(tables.predicted)
    free(tables.keys)
    free(tables.posterior)
    free(tables.held_symbol)
    free(tables.held_column)
    free(tables.held_step)
    free(tables.message)
    free(tables.evidence)
    free(tables.marginal)
    free(tables.joint)


cdef inline void copy_bytes(void* target, const void* source, size_t n) noexcept nogil:
    """Copy n bytes. If n is 0, the pointers may be NULL."""
    if n:
        memcpy(target, source, n)


cdef inline bint copy_tables(Tables* target, const Tables* source) noexcept nogil:
    """Copy everything into new tables made with the same arguments; False if that fails."""
    cdef size_t n = source.n_seeds * source.stride
    cdef size_t n_entries = source.lag + 2
    cdef Py_ssize_t indexed = source.n_columns if source.mealy else 1
    if not reserve_rows(target, source.n_rows - target.n_rows) \
            or not reserve_columns(target, source.n_columns):
        return False
    copy_bytes(target.rows, source.rows, source.n_rows * source.stride * sizeof(double))
    copy_bytes(target.row_total, source.row_total, source.n_rows * sizeof(double))
    copy_bytes(target.row_names, source.row_names, source.n_rows * sizeof(Row))
    copy_bytes(target.column_symbol, source.column_symbol, source.n_columns * sizeof(int32_t))
    copy_bytes(
        target.row_index, source.row_index,
        indexed * source.n_seeds * source.n_states * sizeof(int32_t),
    )
    copy_bytes(target.emission, source.emission, source.n_columns * n * sizeof(double))
    copy_bytes(target.emission_total, source.emission_total, n * sizeof(double))
    copy_bytes(target.base, source.base, n * sizeof(double))
    copy_bytes(target.log_weight, source.log_weight, source.n_seeds * sizeof(double))
    copy_bytes(target.first_log_weight, source.first_log_weight, source.n_seeds * sizeof(double))
    copy_bytes(target.keys, source.keys, source.n_seeds * sizeof(uint64_t))
    copy_bytes(target.posterior, source.posterior, n_entries * n * sizeof(double))
    copy_bytes(target.held_symbol, source.held_symbol, n_entries * sizeof(int32_t))
    copy_bytes(target.held_column, source.held_column, n_entries * sizeof(int32_t))
    copy_bytes(target.held_step, source.held_step, n_entries * sizeof(int64_t))
    target.n_rows = source.n_rows
    target.frozen = source.frozen
    target.n_steps = source.n_steps
    target.shift = source.shift
    target.first_held = source.first_held
    target.n_held = source.n_held
    while target.n_columns < source.n_columns:
        enter_column(target, <int32_t>target.n_columns)
        target.n_columns += 1
    return True
