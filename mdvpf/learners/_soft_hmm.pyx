# cython: language_level=3
"""The compiled part of `SoftHMM`: tables of expected counts of several seeds, and their steps.

Only this module owns memory, releases the GIL and raises exceptions. Arrays come in as contiguous
buffers, and results are written into arrays of the caller. The parts are in the `.pxd` files beside
this one, in the order of their imports: types, vectors, storage, positions, model, learning, steps,
saving.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from mdvpf.learners._soft_model cimport predict_symbols, unit_at
from mdvpf.learners._soft_positions cimport (
    add_weights, allocate_position, copy_position, drop_held, initialise, position_bytes,
    release_position,
)
from mdvpf.learners._soft_saving cimport (
    add_columns, check_position, check_shapes, check_steps, make_rows, read_held, read_vectors,
    write_held, write_row_names, write_vectors,
)
from mdvpf.learners._soft_steps cimport absorb_symbol, end_sequence
from mdvpf.learners._soft_storage cimport (
    allocate, copy_tables, release, reserve_columns, reserve_rows)
from mdvpf.learners._soft_types cimport (
    LANES, MISSING, Position, Tables, ring_entry, swap_position)

cdef enum:
    N_FIELDS = 6        # columns of a report
    NO_KEY = 0          # the number of key=None
    NONE_ENDS = -1      # no key ends before a symbol


cdef object no_memory():
    return MemoryError("not enough memory; the step has not changed the learner")


cdef class SoftPosition:
    """The position of a key other than key=None."""

    cdef Position position

    def __cinit__(self):
        memset(&self.position, 0, sizeof(Position))

    def __dealloc__(self):
        release_position(&self.position)


cdef class SoftTables:
    """The counts of all seeds, their posteriors in each sequence, and their weights.

    Sequences are identified by the numbers of their keys. The arguments have been validated.
    """

    cdef Tables tables
    cdef dict positions     # SoftPosition of each key in use except key=None, by its number
    cdef bint busy          # a call is under way, perhaps in another thread

    def __cinit__(self):
        memset(&self.tables, 0, sizeof(Tables))
        self.tables.fail_after = -1
        self.positions = {}
        self.busy = False

    def __init__(
        self, *, int64_t n_symbols, Py_ssize_t n_states, bint mealy, double forget,
        Py_ssize_t lag, double alpha, double gamma, double beta, const uint64_t[::1] keys,
    ):
        cdef Tables* tables = &self.tables
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
        memcpy(tables.keys, &keys[0], keys.shape[0] * sizeof(uint64_t))
        initialise(tables)

    def __dealloc__(self):
        release(&self.tables)

    cdef int enter(self) except -1:
        if self.busy:
            raise RuntimeError("this learner is in use by another thread; expected one call at a "
                               "time (copy() gives each thread its own)")
        if not self.tables.n_held:  # made by __new__ alone: there are no tables
            raise RuntimeError("these SoftTables were never initialised; expected __init__ first")
        self.busy = True
        return 0

    cdef int check_symbol(self, int32_t symbol) except -1:
        if not MISSING <= symbol < self.tables.n_symbols:
            raise ValueError(f"symbol={symbol}: expected one of the alphabet, or -1")
        return 0

    # ---- steps -------------------------------------------------------------------------------

    cdef SoftPosition new_position(self):
        """Make the position of a key at the start of a sequence."""
        cdef SoftPosition position = SoftPosition()
        if not allocate_position(&self.tables, &position.position):
            raise no_memory()
        return position

    cdef int step(self, int32_t symbol, int32_t number, double* report) except -1:
        """Absorb a symbol of a key. On an error nothing changes."""
        cdef SoftPosition position
        cdef bint is_new = False
        cdef bint done
        if number == NO_KEY:
            with nogil:
                done = absorb_symbol(&self.tables, symbol, report)
        else:
            position = self.positions.get(number)
            if position is None:
                is_new = True
                position = self.new_position()
                self.positions[number] = position
            with nogil:
                swap_position(&self.tables, &position.position)
                done = absorb_symbol(&self.tables, symbol, report)
                swap_position(&self.tables, &position.position)
        if not done:
            if is_new:
                del self.positions[number]
            raise no_memory()
        return 0

    cdef int end(self, int32_t number) except -1:
        """End the sequence of a key. On an error nothing changes."""
        cdef SoftPosition position
        cdef bint done
        if number == NO_KEY:
            done = end_sequence(&self.tables)
        else:
            position = self.positions.get(number)
            if position is None:
                return 0
            swap_position(&self.tables, &position.position)
            done = end_sequence(&self.tables)
            swap_position(&self.tables, &position.position)
        if not done:
            raise no_memory()
        self.positions.pop(number, None)
        return 0

    def advance(
        self, const int32_t[::1] symbols, const int32_t[::1] ended, double[:, ::1] reports,
        const int32_t[::1] numbers=None, double[:, ::1] distributions=None,
    ):
        """Absorb a chunk of symbols, -1 for missing; write one report of 6 numbers for each.

        `ended` has the number of the key that ends at each symbol, -1 for none: the symbol's own
        before it, another after it. `numbers` has that of its key, 0 by default. `distributions`
        receives the distribution before it. If memory runs out, earlier symbols stay absorbed.
        """
        cdef Py_ssize_t i, n = symbols.shape[0]
        cdef bint has_keys = numbers is not None
        cdef bint predicts = distributions is not None
        cdef bint done = True
        if ended.shape[0] != n or reports.shape[0] != n or reports.shape[1] != N_FIELDS \
                or (has_keys and numbers.shape[0] != n) or (predicts and (
                    distributions.shape[0] != n
                    or distributions.shape[1] != self.tables.n_symbols)):
            raise ValueError("symbols, ended, reports, ...: expected the same length")
        for i in range(n):
            self.check_symbol(symbols[i])
            if has_keys and numbers[i] < NO_KEY:
                raise ValueError(f"numbers[{i}]={numbers[i]}: expected at least {NO_KEY}")
            if not has_keys and ended[i] > NO_KEY:
                raise ValueError(f"ended[{i}]={ended[i]}: expected {NO_KEY} without numbers, or -1")
        self.enter()
        try:
            if has_keys:
                for i in range(n):
                    if ended[i] == numbers[i]:
                        self.end(ended[i])
                    if predicts:
                        self.write_prediction(&distributions[i, 0], numbers[i])
                    self.step(symbols[i], numbers[i], &reports[i, 0])
                    if ended[i] != NONE_ENDS and ended[i] != numbers[i]:
                        self.end(ended[i])
                return
            with nogil:
                for i in range(n):
                    if ended[i] != NONE_ENDS:
                        done = end_sequence(&self.tables)
                    if predicts and done:
                        predict_symbols(&self.tables, &distributions[i, 0])
                    done = done and absorb_symbol(&self.tables, symbols[i], &reports[i, 0])
                    if not done:
                        break
            if not done:
                raise no_memory()
        finally:
            self.busy = False

    def absorb(self, int32_t symbol, int32_t number=NO_KEY):
        """Absorb one symbol; return log predictive, mean states, ESS, seeds and discarded."""
        cdef double report[N_FIELDS]
        self.check_symbol(symbol)
        if number < NO_KEY:
            raise ValueError(f"number={number}: expected at least {NO_KEY}")
        self.enter()
        try:
            self.step(symbol, number, report)
            return report[0], report[2], report[3], <int64_t>report[4], report[5]
        finally:
            self.busy = False

    def new_sequence(self, int32_t number=NO_KEY):
        """End the sequence of a key, after counting its symbols that still wait for the lag."""
        self.enter()
        try:
            self.end(number)
        finally:
            self.busy = False

    cdef int write_prediction(self, double* out, int32_t number) except -1:
        """Write the distribution of the next symbol of a key."""
        cdef SoftPosition position = None
        if number != NO_KEY:
            position = self.positions.get(number)
            if position is None:
                position = self.new_position()
            swap_position(&self.tables, &position.position)
        predict_symbols(&self.tables, out)
        if number != NO_KEY:
            swap_position(&self.tables, &position.position)
        return 0

    def predict(self, double[::1] out, int32_t number=NO_KEY):
        """Write the distribution of the next symbol of a key."""
        if out.shape[0] != self.tables.n_symbols:
            raise ValueError("out: expected one entry for each symbol")
        self.enter()
        try:
            self.write_prediction(&out[0], number)
        finally:
            self.busy = False

    def freeze(self):
        """Stop learning. Symbols that wait for the lag are dropped; the current states are kept."""
        cdef Tables* tables = &self.tables
        cdef SoftPosition position
        self.enter()
        try:
            if tables.frozen:
                return
            for position in self.positions.values():
                if not add_weights(tables, &position.position):
                    self.drop_weights()
                    raise no_memory()
            memcpy(tables.first_log_weight, tables.log_weight, tables.n_seeds * sizeof(double))
            tables.frozen = True
            for position in self.positions.values():
                swap_position(tables, &position.position)
                memcpy(tables.log_weight, tables.first_log_weight, tables.n_seeds * sizeof(double))
                drop_held(tables)
                swap_position(tables, &position.position)
            drop_held(tables)
        finally:
            self.busy = False

    cdef int drop_weights(self) except -1:
        """Free the weights of positions, to undo `add_weights`."""
        cdef SoftPosition position
        for position in self.positions.values():
            free(position.position.log_weight)
            position.position.log_weight = NULL
        return 0

    # ---- copies and checkpoints --------------------------------------------------------------

    cdef SoftTables fresh(self):
        """Make new tables with the same arguments."""
        cdef Tables* tables = &self.tables
        return SoftTables(
            n_symbols=tables.n_symbols, n_states=tables.n_states, mealy=tables.mealy,
            forget=tables.forget, lag=tables.lag, alpha=tables.alpha, gamma=tables.gamma,
            beta=tables.beta, keys=<uint64_t[:tables.n_seeds]>tables.keys,
        )

    def copy(self):
        """Return a copy that shares no memory with these tables."""
        cdef SoftTables other
        cdef SoftPosition position
        self.enter()
        try:
            other = self.fresh()
            if not copy_tables(&other.tables, &self.tables):
                raise no_memory()
            for number, origin in self.positions.items():
                position = other.new_position()
                copy_position(
                    &self.tables, &position.position, &(<SoftPosition>origin).position
                )
                other.positions[number] = position
            return other
        finally:
            self.busy = False

    def export(
        self, int32_t[:, ::1] row_names, double[:, ::1] rows, double[::1] row_totals,
        int32_t[::1] symbols, double[:, ::1] emission, double[:, ::1] emission_totals,
        double[:, ::1] base, double[:, ::1] log_weights,
        int32_t[::1] held, double[:, ::1] posterior,
    ):
        """Write the whole state: see `restored` for the shapes."""
        cdef Tables* tables = &self.tables
        cdef Py_ssize_t n_states = tables.n_states
        cdef Py_ssize_t stride = tables.stride
        cdef Py_ssize_t i, k
        check_shapes(
            tables, row_names, rows, row_totals, symbols, emission, emission_totals, base,
            log_weights, held, posterior,
        )
        self.enter()
        try:
            if rows.shape[0] != tables.n_rows or symbols.shape[0] != tables.n_columns \
                    or held.shape[0] != tables.n_held:
                raise ValueError("rows, symbols, held: expected lengths as in `sizes`")
            write_row_names(tables, row_names, row_totals)
            write_vectors(tables.rows, rows, n_states, stride)
            for i in range(tables.n_columns):
                symbols[i] = tables.column_symbol[i]
            write_vectors(tables.emission, emission, n_states, stride)
            write_vectors(tables.emission_total, emission_totals, n_states, stride)
            write_vectors(tables.base, base, n_states, stride)
            for k in range(tables.n_seeds):
                log_weights[0, k] = tables.log_weight[k]
                log_weights[1, k] = tables.first_log_weight[k]
            write_held(tables, held, posterior)
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
        """Return new tables with the same arguments and the state that `export` wrote.

        A row has a name (seed, state, column); the rows of the start states of all seeds come
        first. Emission counts are grouped by symbol and posteriors by position, with one row for
        each seed. Names and symbols are checked here, values by the caller.
        """
        cdef SoftTables other = self.fresh()
        cdef Tables* tables = &other.tables
        cdef Py_ssize_t n_seeds = tables.n_seeds
        cdef Py_ssize_t i
        check_shapes(
            tables, row_names, rows, row_totals, symbols, emission, emission_totals, base,
            log_weights, held, posterior,
        )
        if rows.shape[0] < n_seeds or not 1 <= held.shape[0] <= (1 if frozen else tables.lag + 1):
            raise ValueError("the number of rows or positions is out of range")
        if not reserve_rows(tables, rows.shape[0] - n_seeds) \
                or not reserve_columns(tables, symbols.shape[0]):
            raise no_memory()
        add_columns(tables, symbols)
        make_rows(tables, row_names)
        for i in range(rows.shape[0]):
            tables.row_total[i] = row_totals[i]
        read_vectors(rows, tables.rows, tables.n_states, tables.stride)
        read_vectors(emission, tables.emission, tables.n_states, tables.stride)
        read_vectors(emission_totals, tables.emission_total, tables.n_states, tables.stride)
        read_vectors(base, tables.base, tables.n_states, tables.stride)
        for i in range(n_seeds):
            tables.log_weight[i] = log_weights[0, i]
            tables.first_log_weight[i] = log_weights[1, i]
        read_held(tables, held, posterior, frozen)
        for i in range(held.shape[0]):
            tables.held_step[i] = n_steps - (held.shape[0] - 1 - i)
        tables.n_steps = n_steps
        tables.shift = shift
        tables.frozen = frozen
        return other

    @property
    def numbers(self):
        """The numbers of the keys in use except that of key=None, in ascending order."""
        return sorted(self.positions)

    cdef Position* position_of(self, int32_t number) except NULL:
        position = self.positions.get(number)
        if position is None:
            raise ValueError(f"number={number}: expected a key in use")
        return &(<SoftPosition>position).position

    def n_held(self, int32_t number):
        """Number of positions held for a key: the latest counted one, and those not yet counted."""
        return self.tables.n_held if number == NO_KEY else self.position_of(number).n_held

    def export_position(
        self, int32_t number, int32_t[::1] held, int64_t[::1] steps, double[:, ::1] posterior,
        double[::1] log_weights,
    ):
        """Write symbols, steps and posteriors of a key, and its weights if the tables are frozen.

        The step of the first position, which was counted, is written as 0.
        """
        cdef Tables* tables = &self.tables
        cdef Py_ssize_t i
        check_position(tables, held, steps, posterior, log_weights)
        self.enter()
        try:
            if self.n_held(number) != held.shape[0]:
                raise ValueError("held: expected n_held(number) positions")
            if number != NO_KEY:
                swap_position(tables, self.position_of(number))
            write_held(tables, held, posterior)
            for i in range(held.shape[0]):
                steps[i] = tables.held_step[ring_entry(tables, i)] if i else 0
            if tables.frozen:
                memcpy(&log_weights[0], tables.log_weight, tables.n_seeds * sizeof(double))
            if number != NO_KEY:
                swap_position(tables, self.position_of(number))
        finally:
            self.busy = False

    def restore_position(
        self, int32_t number, const int32_t[::1] held, const int64_t[::1] steps,
        const double[:, ::1] posterior, const double[::1] log_weights,
    ):
        """Set the position of a key as `export_position` wrote it; check symbols and steps."""
        cdef Tables* tables = &self.tables
        cdef SoftPosition position
        check_position(tables, held, steps, posterior, log_weights)
        if number < NO_KEY or number in self.positions:
            raise ValueError(f"number={number}: expected a new key")
        if not 1 <= held.shape[0] <= (1 if tables.frozen else tables.lag + 1):
            raise ValueError("the number of positions is out of range")
        check_steps(tables, steps)
        self.enter()
        try:
            if number != NO_KEY:
                position = self.new_position()
                self.positions[number] = position
                swap_position(tables, &position.position)
            try:
                read_held(tables, held, posterior, tables.frozen)
                memcpy(tables.held_step, &steps[0], held.shape[0] * sizeof(int64_t))
                if tables.frozen:
                    memcpy(tables.log_weight, &log_weights[0], tables.n_seeds * sizeof(double))
            finally:
                if number != NO_KEY:
                    swap_position(tables, &position.position)
        finally:
            self.busy = False

    # ---- properties --------------------------------------------------------------------------

    @property
    def n_steps(self):
        """Number of symbols absorbed while learning."""
        return self.tables.n_steps

    @property
    def shift(self):
        """Stored counts are divided by 2**shift."""
        return self.tables.shift

    @property
    def unit(self):
        """The amount that the next step would add to the counts."""
        return unit_at(&self.tables, self.tables.n_steps + 1)

    @property
    def frozen(self):
        """Whether learning has stopped."""
        return bool(self.tables.frozen)

    @property
    def sizes(self):
        """The numbers of rows, of symbols seen and of positions held."""
        return self.tables.n_rows, self.tables.n_columns, self.tables.n_held

    def memory(self):
        """Bytes of the positions of all keys except key=None."""
        return len(self.positions) * position_bytes(&self.tables)

    def _fail_allocation_after(self, int64_t n):
        """Make the allocation after the next n fail, for tests; -1 for none."""
        self.tables.fail_after = n
