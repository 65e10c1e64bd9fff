# cython: language_level=3
"""The compiled part of `SoftHMM`: tables of expected counts of several seeds, and their steps.

`SoftTables` is the only owner of memory, the only place that releases the GIL and the only one that
raises. Arrays come in as contiguous buffers, and what goes out is copied into arrays that the
caller made. The parts are in the `.pxd` files beside this one, in the order of their imports:
types, vectors, storage, model, learning, steps.
"""

from libc.math cimport exp
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memcpy, memset

from mdvpf.learners._soft_model cimport predict_states, prepare, unit_at
from mdvpf.learners._soft_steps cimport absorb_symbol, end_sequence
from mdvpf.learners._soft_storage cimport (
    add_column, allocate, copy_tables, find_column, name_row, release, reserve_columns,
    reserve_rows,
)
from mdvpf.learners._soft_types cimport (
    LANES, MISSING, NONE, START, Tables, posterior_at, ring_place,
)
from mdvpf.learners._soft_vectors cimport dot, multiply, total_of

cdef enum:
    N_FIELDS = 6        # columns of a report


cdef object no_memory():
    return MemoryError("not enough memory; the learner is as it was before the step")


cdef void read_vectors(
    const double[:, ::1] given, double* out, Py_ssize_t n_states, Py_ssize_t stride,
) noexcept:
    """Copy vectors over states, row by row, into padded ones."""
    cdef Py_ssize_t i
    for i in range(given.shape[0]):
        memcpy(out + i * stride, &given[i, 0], n_states * sizeof(double))
        memset(out + i * stride + n_states, 0, (stride - n_states) * sizeof(double))


cdef void write_vectors(
    const double* vectors, double[:, ::1] out, Py_ssize_t n_states, Py_ssize_t stride,
) noexcept:
    cdef Py_ssize_t i
    for i in range(out.shape[0]):
        memcpy(&out[i, 0], vectors + i * stride, n_states * sizeof(double))


cdef class SoftTables:
    """The counts of all seeds, where they stand in the sequence, and their weights.

    Configuration has been validated.
    """

    cdef Tables tables
    cdef bint busy          # a call is under way, perhaps in another thread

    def __cinit__(self):
        memset(&self.tables, 0, sizeof(Tables))
        self.tables.fail_after = -1
        self.busy = False

    def __init__(
        self, *, int64_t n_symbols, Py_ssize_t n_states, bint mealy, double forget,
        Py_ssize_t lag, double alpha, double gamma, double beta, const uint64_t[::1] keys,
    ):
        cdef Tables* tables = &self.tables
        cdef Py_ssize_t k, c
        if tables.n_seeds:
            raise RuntimeError("SoftTables are initialised once")
        if n_states < 1 or lag < 0 or keys.shape[0] < 1 or not 1 <= n_symbols < 2**31 - 1:
            raise ValueError("n_states, lag, keys, n_symbols: expected positive numbers")
        tables.n_symbols = n_symbols
        tables.n_states = n_states
        tables.stride = (n_states + LANES - 1) // LANES * LANES
        tables.n_seeds = keys.shape[0]
        tables.lag = lag
        tables.mealy = mealy
        tables.forget = forget
        tables.alpha = alpha
        tables.gamma = gamma
        tables.beta = beta
        if not allocate(tables):
            raise no_memory()
        for k in range(tables.n_seeds):
            tables.keys[k] = keys[k]
            for c in range(n_states):
                tables.base[k * tables.stride + c] = 1.0 / n_states
            name_row(tables, <int32_t>k, START, NONE)
        tables.held_symbol[0] = START
        tables.held_column[0] = NONE
        tables.n_held = 1

    def __dealloc__(self):
        release(&self.tables)

    cdef int enter(self) except -1:
        if self.busy:
            raise RuntimeError(
                "this learner is in use by another thread; expected one call at a time "
                "(copy() gives each thread its own)"
            )
        if not self.tables.n_held:  # made by __new__ alone: there is no memory to look at
            raise RuntimeError("these SoftTables were never initialised; expected __init__ first")
        self.busy = True
        return 0

    cdef int check_symbol(self, int32_t symbol) except -1:
        if not MISSING <= symbol < self.tables.n_symbols:
            raise ValueError(f"symbol={symbol}: expected one of the alphabet, or -1")
        return 0

    # ---- steps -------------------------------------------------------------------------------

    def advance(
        self, const int32_t[::1] symbols, const unsigned char[::1] starts,
        double[:, ::1] reports,
    ):
        """Absorb a chunk of symbols, -1 for missing; write one report of 6 numbers for each.

        If memory runs out, what came before that symbol stays absorbed.
        """
        cdef Py_ssize_t n = symbols.shape[0]
        cdef Py_ssize_t i
        cdef bint done = True
        if starts.shape[0] != n or reports.shape[0] != n or reports.shape[1] != N_FIELDS:
            raise ValueError("symbols, starts, reports: expected the same length")
        for i in range(n):
            self.check_symbol(symbols[i])
        self.enter()
        try:
            with nogil:
                for i in range(n):
                    if starts[i]:
                        done = end_sequence(&self.tables)
                    done = done and absorb_symbol(&self.tables, symbols[i], &reports[i, 0])
                    if not done:
                        break
            if not done:
                raise no_memory()
        finally:
            self.busy = False

    def absorb(self, int32_t symbol):
        """Absorb one symbol: log predictive, mean states, ESS, seeds, discarded."""
        cdef double report[N_FIELDS]
        cdef bint done
        self.check_symbol(symbol)
        self.enter()
        try:
            with nogil:
                done = absorb_symbol(&self.tables, symbol, report)
            if not done:
                raise no_memory()
            return (report[0], report[2], report[3], <int64_t>report[4], report[5])
        finally:
            self.busy = False

    def new_sequence(self):
        """Count what waits for its lag, and stand before the first symbol."""
        self.enter()
        try:
            if not end_sequence(&self.tables):
                raise no_memory()
        finally:
            self.busy = False

    def predict(self, double[::1] out):
        """Write the distribution of the next symbol."""
        cdef Tables* tables = &self.tables
        cdef double unit = unit_at(tables, tables.n_steps + 1)
        cdef double* states = tables.evidence
        cdef double total = 0.0
        cdef double weight, unseen
        cdef Py_ssize_t k, i
        if out.shape[0] != tables.n_symbols:
            raise ValueError("out: expected one entry for each symbol")
        self.enter()
        try:
            for k in range(tables.n_seeds):
                total += exp(tables.log_weight[k])
            out[:] = 0.0
            for k in range(tables.n_seeds):
                weight = exp(tables.log_weight[k]) / total
                prepare(tables, k, unit)
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
        finally:
            self.busy = False

    def freeze(self):
        """Learn no longer: what waits for its lag is dropped, the position is kept."""
        cdef Tables* tables = &self.tables
        self.enter()
        tables.first_held = ring_place(tables, tables.n_held - 1)
        tables.n_held = 1
        if not tables.frozen:
            memcpy(tables.first_log_weight, tables.log_weight, tables.n_seeds * sizeof(double))
        tables.frozen = True
        self.busy = False

    # ---- copies and checkpoints --------------------------------------------------------------

    cdef SoftTables fresh(self):
        """Tables of the same configuration that have seen nothing."""
        cdef Tables* tables = &self.tables
        return SoftTables(
            n_symbols=tables.n_symbols, n_states=tables.n_states, mealy=tables.mealy,
            forget=tables.forget, lag=tables.lag, alpha=tables.alpha, gamma=tables.gamma,
            beta=tables.beta, keys=<uint64_t[:tables.n_seeds]>tables.keys,
        )

    def copy(self):
        """A copy that shares nothing with these tables."""
        cdef SoftTables other
        self.enter()
        try:
            other = self.fresh()
            if not copy_tables(&other.tables, &self.tables):
                raise no_memory()
            return other
        finally:
            self.busy = False

    def export(
        self, int32_t[:, ::1] row_names, double[:, ::1] rows, double[::1] row_totals,
        int32_t[::1] symbols, double[:, ::1] emission, double[:, ::1] emission_totals,
        double[:, ::1] base, double[:, ::1] log_weights,
        int32_t[::1] held, double[:, ::1] posterior,
    ):
        """Write everything: see `restored` for the shapes."""
        cdef Tables* tables = &self.tables
        cdef Py_ssize_t n_states = tables.n_states
        cdef Py_ssize_t stride = tables.stride
        cdef Py_ssize_t i, k
        self.check_shapes(
            row_names, rows, row_totals, symbols, emission, emission_totals, base, log_weights,
            held, posterior,
        )
        self.enter()
        try:
            if rows.shape[0] != tables.n_rows or symbols.shape[0] != tables.n_columns \
                    or held.shape[0] != tables.n_held:
                raise ValueError("rows, symbols, held: expected as many as there are")
            for i in range(tables.n_rows):
                row_names[i, 0] = tables.row_names[i].seed
                row_names[i, 1] = tables.row_names[i].state
                row_names[i, 2] = tables.row_names[i].column
                row_totals[i] = tables.row_total[i]
            write_vectors(tables.rows, rows, n_states, stride)
            for i in range(tables.n_columns):
                symbols[i] = tables.column_symbol[i]
            write_vectors(tables.emission, emission, n_states, stride)
            write_vectors(tables.emission_total, emission_totals, n_states, stride)
            write_vectors(tables.base, base, n_states, stride)
            for k in range(tables.n_seeds):
                log_weights[0, k] = tables.log_weight[k]
                log_weights[1, k] = tables.first_log_weight[k]
            for i in range(tables.n_held):
                held[i] = tables.held_symbol[ring_place(tables, i)]
                if held[i] == START:    # no posterior, but what the ring held there before
                    posterior[i * tables.n_seeds:(i + 1) * tables.n_seeds] = 0.0
                    continue
                write_vectors(
                    posterior_at(tables, i, 0),
                    posterior[i * tables.n_seeds:(i + 1) * tables.n_seeds], n_states, stride,
                )
        finally:
            self.busy = False

    def restored(
        self, int64_t n_steps, int64_t shift, bint frozen, const int32_t[:, ::1] row_names,
        const double[:, ::1] rows, const double[::1] row_totals,
        const int32_t[::1] symbols, const double[:, ::1] emission,
        const double[:, ::1] emission_totals, const double[:, ::1] base,
        const double[:, ::1] log_weights, const int32_t[::1] held,
        const double[:, ::1] posterior,
    ):
        """Tables of the same configuration that hold what `export` wrote.

        Rows have a name (seed, state, column), those of the start state of every seed first;
        emission counts and posteriors are those of all seeds for each symbol or position. Names
        and symbols are checked here, numbers by the caller.
        """
        cdef SoftTables other = self.fresh()
        cdef Tables* tables = &other.tables
        cdef Py_ssize_t n_seeds = tables.n_seeds
        cdef Py_ssize_t i, place
        cdef int32_t column
        self.check_shapes(
            row_names, rows, row_totals, symbols, emission, emission_totals, base, log_weights,
            held, posterior,
        )
        if rows.shape[0] < n_seeds or not 1 <= held.shape[0] <= (1 if frozen else tables.lag + 1):
            raise ValueError("rows or positions are too few or too many")
        if not reserve_rows(tables, rows.shape[0] - n_seeds) \
                or not reserve_columns(tables, symbols.shape[0]):
            raise no_memory()
        for i in range(symbols.shape[0]):
            column = MISSING if symbols[i] == tables.n_symbols else symbols[i]
            if not MISSING <= column < tables.n_symbols or symbols[i] < 0 \
                    or (column == MISSING and not tables.mealy) \
                    or find_column(tables, column) != NONE:
                raise ValueError(f"symbol {symbols[i]} is not of the alphabet, or occurs twice")
            add_column(tables, column)
        other.name_rows(row_names)
        for i in range(rows.shape[0]):
            tables.row_total[i] = row_totals[i]
        read_vectors(rows, tables.rows, tables.n_states, tables.stride)
        read_vectors(emission, tables.emission, tables.n_states, tables.stride)
        read_vectors(emission_totals, tables.emission_total, tables.n_states, tables.stride)
        read_vectors(base, tables.base, tables.n_states, tables.stride)
        for i in range(n_seeds):
            tables.log_weight[i] = log_weights[0, i]
            tables.first_log_weight[i] = log_weights[1, i]
        tables.n_held = held.shape[0]
        for i in range(held.shape[0]):
            place = ring_place(tables, i)
            other.hold(place, held[i], i == 0, frozen)
            read_vectors(
                posterior[i * n_seeds:(i + 1) * n_seeds], posterior_at(tables, i, 0),
                tables.n_states, tables.stride,
            )
        tables.n_steps = n_steps
        tables.shift = shift
        tables.frozen = frozen
        return other

    cdef int name_rows(self, const int32_t[:, ::1] names) except -1:
        """Make the rows of the given names; those of the start states are there."""
        cdef Tables* tables = &self.tables
        cdef Py_ssize_t n_columns = tables.n_columns if tables.mealy else 1
        cdef Py_ssize_t i
        for i in range(names.shape[0]):
            if i < tables.n_seeds:
                if names[i, 0] != i or names[i, 1] != START or names[i, 2] != NONE:
                    raise ValueError("a row of a start state is missing")
                continue
            if not 0 <= names[i, 0] < tables.n_seeds or not 0 <= names[i, 1] < tables.n_states \
                    or not 0 <= names[i, 2] < n_columns:
                raise ValueError("a row has a strange name")
            if tables.row_index[
                (names[i, 2] * tables.n_seeds + names[i, 0]) * tables.n_states + names[i, 1]
            ] != NONE:
                raise ValueError("a row occurs twice")
            name_row(tables, names[i, 0], names[i, 1], names[i, 2])
        return 0

    cdef int hold(self, Py_ssize_t place, int32_t symbol, bint first, bint frozen) except -1:
        """Write the symbol of a position, which has a column unless it is frozen."""
        cdef Tables* tables = &self.tables
        cdef int32_t column = NONE
        if not (START if first else MISSING) <= symbol < tables.n_symbols:
            raise ValueError("a position has a strange symbol")
        if symbol != START and (symbol != MISSING or tables.mealy):
            column = find_column(tables, symbol)
            if column == NONE and not frozen:
                raise ValueError("a position has a symbol that was never seen")
        tables.held_symbol[place] = symbol
        tables.held_column[place] = column
        return 0

    cdef int check_shapes(
        self, const int32_t[:, ::1] row_names, const double[:, ::1] rows,
        const double[::1] row_totals, const int32_t[::1] symbols, const double[:, ::1] emission,
        const double[:, ::1] emission_totals, const double[:, ::1] base,
        const double[:, ::1] log_weights, const int32_t[::1] held,
        const double[:, ::1] posterior,
    ) except -1:
        cdef Py_ssize_t n_states = self.tables.n_states
        cdef Py_ssize_t n_seeds = self.tables.n_seeds
        if row_names.shape[0] != rows.shape[0] or row_names.shape[1] != 3 \
                or row_totals.shape[0] != rows.shape[0] or rows.shape[1] != n_states \
                or emission.shape[0] != symbols.shape[0] * n_seeds \
                or emission.shape[1] != n_states or emission_totals.shape[0] != n_seeds \
                or emission_totals.shape[1] != n_states or base.shape[0] != n_seeds \
                or base.shape[1] != n_states or log_weights.shape[0] != 2 \
                or log_weights.shape[1] != n_seeds \
                or posterior.shape[0] != held.shape[0] * n_seeds \
                or posterior.shape[1] != n_states:
            raise ValueError("arrays whose shapes do not fit together")
        return 0

    # ---- what is inside ----------------------------------------------------------------------

    @property
    def n_steps(self):
        """How many symbols were absorbed while learning."""
        return self.tables.n_steps

    @property
    def shift(self):
        """Counts are divided by two to this power."""
        return self.tables.shift

    @property
    def unit(self):
        """What the next step would add to the counts: the size of one."""
        return unit_at(&self.tables, self.tables.n_steps + 1)

    @property
    def frozen(self):
        """Whether it no longer learns."""
        return bool(self.tables.frozen)

    @property
    def sizes(self):
        """The number of rows, of symbols seen and of positions held."""
        return self.tables.n_rows, self.tables.n_columns, self.tables.n_held

    def _fail_allocation_after(self, int64_t n):
        """Make the allocation after the next n fail, for tests; -1 for none."""
        self.tables.fail_after = n
