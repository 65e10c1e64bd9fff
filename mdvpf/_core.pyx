# cython: language_level=3
"""The compiled core: `ParticleSystem`, a population of particles on shared count tables.

Only this module owns memory, releases and reacquires the GIL, and raises exceptions. It draws no
random numbers: the caller passes uniforms. Arrays come in as contiguous buffers, and results are
written into arrays of the caller.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy, memset

from mdvpf._kernel.alphabet cimport add_base, column_for, normalize_prediction, symbol_at
from mdvpf._kernel.buffers cimport allocated_bytes, copy_system, release_buffers
from mdvpf._kernel.clock cimport set_clocks
from mdvpf._kernel.compiled_parts cimport fault_text
from mdvpf._kernel.constants cimport (
    ALGORITHM_MDVPA, BAD_EMISSION, BAD_SNAPSHOT, BLOCK_STATES, COUNT_LIMIT, MISSING,
    NO_MEMORY, NOT_A_NUMBER, OK, PAGE_BITS, AlgorithmKind, NormalizerKind, ResamplingKind, Status)
from mdvpf._kernel.count_tables cimport add_counts
from mdvpf._kernel.emission cimport make_tables
from mdvpf._kernel.growth cimport depth_for, root_for, row_depth_for
from mdvpf._kernel.labels cimport label_of
from mdvpf._kernel.log_tables cimport make_log_tables
from mdvpf._kernel.memory_report cimport MemoryCounts, count_memory
from mdvpf._kernel.number_tables cimport (
    layout_of, open_table, write_components, write_seen, write_statistics_table)
from mdvpf._kernel.open_channels cimport are_observations
from mdvpf._kernel.particles cimport block_of
from mdvpf._kernel.pool cimport open_pool
from mdvpf._kernel.positions cimport end_key, symbol_of_key
from mdvpf._kernel.prediction cimport add_predictives, write_prediction
from mdvpf._kernel.real_tables cimport rows_a_state, write_entries, write_tables
from mdvpf._kernel.release_states cimport RELEASE_INTERVAL
from mdvpf._kernel.reserve cimport reserve_scores, start_particles
from mdvpf._kernel.saving cimport read_system, write_system
from mdvpf._kernel.sections cimport (
    Snapshot, borrow_sections, dispose_snapshot, format_of, sections_of)
from mdvpf._kernel.settling cimport SETTLE_INTERVAL, settle
from mdvpf._kernel.shelves cimport lay_out
from mdvpf._kernel.shown cimport (
    Shown, shown_held, shown_particle, shown_path_length, shown_state_of_key, write_shown_path)
from mdvpf._kernel.state_text cimport state_text
from mdvpf._kernel.statistics cimport observation_of
from mdvpf._kernel.step cimport set_time, start_sequence, step
from mdvpf._kernel.step_ranked cimport Uniforms
from mdvpf._kernel.stretches cimport FREE_STRETCHES
from mdvpf._kernel.threads cimport watch_forks
from mdvpf._kernel.types cimport Report, System
from mdvpf._kernel.verify_all cimport verify_all

cdef enum:
    SIGNAL_INTERVAL = 500000  # candidates or records between two checks for signals: some ms


watch_forks()


cdef int raise_for(Status status, const System* system=NULL) except -1:
    """Turn a status into an exception. No other function does."""
    if status == OK:
        return 0
    if status == NO_MEMORY:
        raise MemoryError("not enough memory; the call has not changed the filter")
    if status == NOT_A_NUMBER:
        raise FloatingPointError(
            "a candidate's score is not a finite number; expected a smaller discount "
            "or less extreme hyper-parameters"
        )
    if status == BAD_EMISSION:
        raise ValueError(fault_text(system))
    if status == COUNT_LIMIT:
        raise OverflowError("a count is 2**32 - 1; the step has not changed the filter")
    raise ValueError("uniforms: expected one for each draw of the step")


cdef int check_number(int32_t number) except -1:
    if number < 0:
        raise ValueError(f"number={number}: expected the number of a key, at least 0")
    return 0


cdef class ParticleSystem:
    """A population of particles, their count tables and their histories.

    The arguments are numeric codes of validated options: see `mdvpf.filter.core_arguments`.
    """

    cdef System system
    cdef bint busy          # a call is under way, perhaps in another thread

    def __cinit__(self):
        memset(&self.system, 0, sizeof(System))
        self.busy = False
        open_pool(&self.system.pool, &self.system.memory)
        self.system.memory.fail_after = -1
        self.system.settle_interval = SETTLE_INTERVAL
        self.system.release_interval = RELEASE_INTERVAL
        self.system.positions.n_spare = FREE_STRETCHES

    def __init__(
        self, *, int64_t n_symbols, double alpha, double gamma, double beta, bint any_state,
        bint by_rows, bint mealy, double kappa, double forget, double rate, bint by_time,
        int64_t max_states, int algorithm, bint duplicating, int64_t budget, bint carry_weights,
        int normalizer, bint select_optimal, int resampling, double ess_threshold, int64_t lag,
        int n_threads, bint is_open, double concentration, double strength, double discount,
        const double[:, ::1] channels, const uint8_t[::1] fading, tuple functions,
    ):
        cdef System* system = &self.system
        if system.n_shelves:
            raise RuntimeError("a ParticleSystem is initialised once")
        if is_open:
            n_symbols = 0  # none was seen yet
        system.model.n_symbols = <uint32_t>n_symbols
        system.model.is_open = is_open
        system.model.missing = 0 if is_open else <uint32_t>n_symbols
        system.model.first_symbol = is_open
        system.model.concentration = concentration
        system.model.strength = strength
        system.model.discount = discount
        system.model.alpha = alpha
        system.model.gamma = gamma
        system.model.beta = beta
        system.model.any_state = any_state
        system.model.by_rows = by_rows
        system.model.mealy = mealy
        system.model.kappa = kappa
        system.model.forget = forget
        system.model.rate = rate
        system.model.by_time = by_time
        system.model.real = by_rows or mealy or kappa > 0.0 or forget > 0.0 or rate > 0.0 \
            or channels is not None
        system.model.max_states = 0xFFFFFFFFu if max_states == 0 else <uint32_t>max_states
        system.algorithm = <AlgorithmKind>algorithm
        system.duplicating = duplicating
        system.normalizer = <NormalizerKind>normalizer
        system.resampling = <ResamplingKind>resampling
        system.carry_weights = carry_weights
        system.select_optimal = select_optimal
        system.ess_threshold = ess_threshold
        system.budget = budget
        system.kept = budget
        system.n_threads = n_threads
        # There are V + 1 columns, one of them for missing symbols.
        system.depth = depth_for(<uint32_t>n_symbols)
        system.root_size = root_for(system, <uint32_t>n_symbols)
        system.row_depth = row_depth_for(system, <uint32_t>n_symbols)
        set_clocks(system)
        system.history.enabled = lag >= 0
        system.history.lag = lag if lag > 0 else 0
        system.history.n_touched = 1
        if channels is not None:
            raise_for(open_table(system, channels, fading, functions))
        lay_out(system, 4)
        raise_for(make_tables(system))
        if algorithm == ALGORITHM_MDVPA:
            raise_for(make_log_tables(system))
        raise_for(start_particles(system))

    def __dealloc__(self):
        release_buffers(&self.system)

    # ---- one call at a time ----------------------------------------------------------------

    # Calls that release the GIL set `busy`. Short calls, which keep the GIL, only check it.

    cdef int check_idle(self) except -1:
        if self.busy:
            raise RuntimeError(
                "this filter is in use by another thread; expected one call at a time "
                "(copy() gives each thread its own)"
            )
        if not self.system.n_shelves:  # made by __new__ alone: there are no buffers
            raise RuntimeError("this ParticleSystem was never initialised; expected __init__ first")
        return 0

    cdef int enter(self) except -1:
        self.check_idle()
        self.busy = True
        return 0

    cdef int64_t n_accepted(self) noexcept nogil:
        """The number of symbols that may come next; an open alphabet has one more, a new one."""
        return <int64_t>self.system.model.n_symbols + self.system.model.is_open

    cdef int check_observations(
        self, const double[:, ::1] observations, const int32_t* symbols, int64_t n
    ) except -1:
        """Check the observations of n symbols, which only families over numbers have."""
        cdef System* system = &self.system
        cdef uint32_t width = system.numbers.n_channels
        if (observations is None) != (width == 0) or (width and (
            observations.shape[0] != n or observations.shape[1] != width
            or (n and not are_observations(system, &observations[0, 0], symbols, n))
        )):
            raise ValueError("observation: expected a number for each channel, or NaN")
        return 0

    # ---- steps -------------------------------------------------------------------------------

    def advance(
        self, const int32_t[::1] symbols, const int32_t[::1] ended,
        const double[::1] discounts, const double[::1] uniforms,
        double[:, ::1] reports, int64_t[::1] progress, const int32_t[::1] numbers=None,
        const double[::1] times=None, double[:, ::1] distributions=None,
        const double[:, ::1] observations=None,
    ):
        """Absorb a chunk of symbols, or of observations in a family over numbers.

        Parameters
        ----------
        symbols : int32 buffer
            Symbols, -1 for missing; in a family over numbers 0, or -1 if all channels are missing.
        ended : int32 buffer
            Number of the key whose sequence ends at each symbol, -1 for none. If it is the key of
            the symbol, its sequence ends before the symbol; otherwise after it.
        discounts : float64 buffer
            Discount of the step that each symbol completes. Only MD-VPA uses it.
        uniforms : float64 buffer
            Uniforms on [0, 1), at least as many as the chunk draws.
        reports : float64 buffer of shape (n, 6)
            Receives log predictive, log evidence, mean states, ESS, particles and discarded.
        progress : int64 buffer of length 2
            Receives the numbers of symbols absorbed and of uniforms used, also on an error.
        numbers : int32 buffer or None
            Number of the key of each symbol; None if all are 0.
        times : float64 buffer or None
            Half-lives that have passed at each symbol, for forgetting by time.
        distributions : float64 buffer of shape (n, width) or None
            Receives the distribution before each symbol. In an open alphabet they become longer;
            the width must be at least the length of the last.
        observations : float64 buffer of shape (n, channels) or None
            In a family over numbers, a row for each symbol.
        """
        cdef System* system = &self.system
        cdef int64_t n = symbols.shape[0]
        cdef bint has_distributions = distributions is not None
        cdef int64_t n_known = self.n_accepted()
        cdef int64_t width = 0      # of the distribution before the last symbol
        cdef int64_t i = 0
        cdef int64_t work = 0
        cdef const int32_t* number = NULL
        cdef bint timed = times is not None
        cdef int32_t own
        cdef double elapsed
        cdef Uniforms given
        cdef Report report
        cdef Status status = OK
        if ended.shape[0] != n or discounts.shape[0] != n or reports.shape[0] != n \
                or reports.shape[1] != 6 or progress.shape[0] != 2 \
                or (numbers is not None and numbers.shape[0] != n) \
                or (timed and times.shape[0] != n):
            raise ValueError("symbols, ended, discounts, reports, ...: expected equal lengths")
        if numbers is not None and n:
            number = &numbers[0]
        for i in range(n):
            if not MISSING <= symbols[i] < n_known:
                raise ValueError(f"symbols[{i}]={symbols[i]}: expected one of the alphabet, or -1")
            if ended[i] < -1 or (number != NULL and number[i] < 0):
                raise ValueError(f"a number of symbol {i} is negative: expected that of a key")
            width = n_known
            n_known += system.model.is_open and symbols[i] == n_known - 1  # a new symbol
        self.check_observations(observations, &symbols[0] if n else NULL, n)
        if has_distributions and (distributions.shape[0] != n or distributions.shape[1] < width):
            raise ValueError("distributions: expected one for each symbol")
        i = 0
        self.enter()
        try:
            given.values = &uniforms[0] if uniforms.shape[0] else NULL
            given.n = uniforms.shape[0]
            given.used = 0
            progress[0] = 0
            progress[1] = 0
            with nogil:
                while i < n and status == OK:
                    own = 0 if number == NULL else number[i]
                    if ended[i] == own:
                        status = start_sequence(system, <uint32_t>own, &given)
                        progress[1] = given.used
                    elapsed = system.elapsed
                    if status == OK:
                        if timed:
                            set_time(system, times[i])
                        if system.numbers.n_channels:
                            memcpy(observation_of(system, False), &observations[i, 0],
                                   system.numbers.n_channels * sizeof(double))
                        if has_distributions:
                            status = write_prediction(
                                system, <uint32_t>own, &distributions[i, 0])
                        if status == OK:
                            status = step(
                                system, column_for(system, symbols[i]), <uint32_t>own,
                                discounts[i], &given, &report)
                        if status != OK and timed:
                            set_time(system, elapsed)
                    if status == OK:
                        reports[i, 0] = report.log_predictive
                        reports[i, 1] = report.log_evidence
                        reports[i, 2] = report.mean_states
                        reports[i, 3] = report.ess
                        reports[i, 4] = <double>report.n_particles
                        reports[i, 5] = report.discarded
                        if ended[i] >= 0 and ended[i] != own:
                            end_key(system, <uint32_t>ended[i])
                        system.log_evidence += report.log_evidence
                        i += 1
                        progress[0] = i
                        progress[1] = given.used
                        work += system.n_candidates
                        if work > SIGNAL_INTERVAL:
                            work = 0
                            with gil:
                                PyErr_CheckSignals()
            raise_for(status, system)
        finally:
            self.busy = False

    def absorb(
        self, int32_t symbol, double discount, const double[::1] uniforms, int32_t number=0,
        const double[:, ::1] observation=None,
    ):
        """Absorb one symbol: `advance` for a chunk of one, without its arrays.

        Returns log predictive, mean states, ESS, particles, discarded and uniforms used.
        """
        cdef System* system = &self.system
        cdef Uniforms given
        cdef Report report
        cdef Status status
        if not MISSING <= symbol < self.n_accepted():
            raise ValueError(f"symbol={symbol}: expected one of the alphabet, or -1")
        check_number(number)
        self.check_observations(observation, &symbol, 1)
        self.enter()
        try:
            given.values = &uniforms[0] if uniforms.shape[0] else NULL
            given.n = uniforms.shape[0]
            given.used = 0
            if observation is not None:
                memcpy(observation_of(system, False), &observation[0, 0],
                       system.numbers.n_channels * sizeof(double))
            with nogil:
                status = step(
                    system, column_for(system, symbol), <uint32_t>number, discount, &given,
                    &report,
                )
            raise_for(status, system)
            system.log_evidence += report.log_evidence
            return (report.log_predictive, report.mean_states, report.ess, report.n_particles,
                    report.discarded, given.used)
        finally:
            self.busy = False

    def new_sequence(self, const double[::1] uniforms, int32_t number=0):
        """End the sequence of a key; return the number of uniforms used."""
        cdef Uniforms given
        cdef Status status
        check_number(number)
        self.enter()
        try:
            given.values = &uniforms[0] if uniforms.shape[0] else NULL
            given.n = uniforms.shape[0]
            given.used = 0
            with nogil:
                status = start_sequence(&self.system, <uint32_t>number, &given)
            raise_for(status, &self.system)
            return given.used
        finally:
            self.busy = False

    @property
    def kept(self):
        """How many survivors the next steps have at most, and how many the pending step has."""
        cdef System* system = &self.system
        return system.kept, system.pending_kept if system.pending else system.kept

    def keep(self, int64_t n):
        """Set how many survivors the steps on the next symbols have at most: 1 to K."""
        self.check_idle()
        if not 1 <= n <= self.system.budget or self.system.duplicating:
            raise ValueError(f"n={n}: expected 1 to K, and no algorithm that always has K")
        self.system.kept = n

    def tell_time(self, double elapsed):
        """Set the time of the next symbol, in half-lives, for forgetting by time."""
        self.check_idle()
        set_time(&self.system, elapsed)

    @property
    def elapsed(self):
        """Half-lives that had passed at the latest time set, and at the pending symbol."""
        return self.system.elapsed, self.system.now_elapsed

    def copy(self):
        """Return a copy that shares no memory with this system."""
        cdef ParticleSystem other = ParticleSystem.__new__(ParticleSystem)
        cdef Status status
        self.enter()
        try:
            with nogil:
                status = copy_system(&other.system, &self.system)
            self.system.memory.fail_after = other.system.memory.fail_after
            raise_for(status)
            return other
        finally:
            self.busy = False

    def snapshot(self):
        """Return steps, log evidence, margin, pending symbol or None, and the arrays of the state.

        `sections.pxd` describes the arrays.
        """
        cdef System* system = &self.system
        cdef Snapshot arrays
        cdef Status status
        memset(&arrays, 0, sizeof(Snapshot))
        self.enter()
        try:
            with nogil:
                status = write_system(system, &arrays)
            raise_for(status)
            return (system.n_steps, system.log_evidence, system.margin,
                    symbol_at(system, system.pending_symbol) if system.pending else None,
                    sections_of(&arrays, format_of(system)))
        finally:
            dispose_snapshot(&system.memory, &arrays)
            self.busy = False

    def restored(
        self, int64_t n_steps, double log_evidence, double margin, pending, tuple sections
    ):
        """Return a copy of this system, which must be new, with the state of a snapshot."""
        cdef ParticleSystem other
        cdef Snapshot given
        cdef Status status
        cdef bint has_pending = pending is not None
        cdef int32_t symbol = pending if has_pending else MISSING
        if self.system.n_steps or self.system.pending or n_steps < 0 \
                or not MISSING <= symbol < (
                    0x7FFFFFF0 if self.system.model.is_open else self.n_accepted()):
            raise ValueError("expected a system that has seen nothing, and numbers in range")
        if has_pending and self.system.algorithm != ALGORITHM_MDVPA:
            raise ValueError("there is a pending symbol, which only MD-VPA has")
        borrow_sections(&given, format_of(&self.system), sections)
        other = self.copy()
        other.system.n_steps = n_steps
        other.system.log_evidence = log_evidence
        other.system.margin = margin
        with nogil:
            status = read_system(&other.system, &given, has_pending, symbol)
        self.system.memory.fail_after = other.system.memory.fail_after
        if status == BAD_SNAPSHOT:
            raise ValueError((<bytes>given.fault).decode())
        raise_for(status, &other.system)
        return other

    # ---- the particles shown -----------------------------------------------------------------

    @property
    def n_particles(self):
        """Number of particles shown."""
        return self.system.provisional.n if self.system.pending else self.system.n_particles

    @property
    def n_steps(self):
        """Number of completed steps."""
        return self.system.n_steps

    @property
    def log_evidence(self):
        """Log evidence of all symbols seen."""
        return self.system.log_evidence

    @property
    def pending(self):
        """Whether MD-VPA has a pending step."""
        return bool(self.system.pending)

    @property
    def number(self):
        """Number of the key of the latest symbol."""
        return self.system.positions.active

    @property
    def last_symbol(self):
        """The latest symbol that the particles shown emitted; None if missing, or before any."""
        cdef int32_t column = self.system.pending_symbol
        if not self.system.pending:
            column = <int32_t>self.system.last_symbol
            if self.system.n_steps == 0 or self.system.last_symbol == self.system.model.missing:
                return None
        return None if column == MISSING else symbol_at(&self.system, column)

    @property
    def n_symbols(self):
        """Size of the alphabet; if it is open, the number of symbols seen."""
        return self.system.model.n_symbols

    def seen(self, int64_t[::1] out):
        """Write how often each symbol was seen: of an open alphabet, or of all open channels.

        Counts of open channels are in the layout of a row of statistics (`layout`).
        """
        self.check_idle()
        if not write_seen(&self.system, out):
            raise ValueError("out: expected one entry for each symbol of an open alphabet")

    def standing(self, int32_t number, int64_t[::1] states):
        """Write the state of a key in each particle shown (-1: start); return its last symbol."""
        cdef System* system = &self.system
        cdef uint32_t symbol
        cdef int64_t i
        self.check_idle()
        check_number(number)
        if number == <int32_t>system.positions.active:
            raise ValueError("number: expected a key other than that of the latest symbol")
        if states.shape[0] != self.n_particles:
            raise ValueError("states: expected one entry for each particle")
        for i in range(states.shape[0]):
            states[i] = shown_state_of_key(system, i, <uint32_t>number)
        symbol = symbol_of_key(system, <uint32_t>number)
        return None if symbol == system.model.missing else symbol_at(system, <int32_t>symbol)

    def describe(
        self, double[::1] weights, int64_t[::1] states, int64_t[::1] n_states,
        int64_t[::1] parents,
    ):
        """Write weight, state (-1: start), number of states and parent of each particle shown."""
        cdef int64_t n = self.n_particles
        cdef int64_t i
        cdef Shown shown
        self.check_idle()
        if not weights.shape[0] == states.shape[0] == n_states.shape[0] == parents.shape[0] == n:
            raise ValueError("expected one entry for each particle")
        for i in range(n):
            shown = shown_particle(&self.system, i)
            weights[i] = shown.weight
            states[i] = shown.state
            n_states[i] = shown.n_states
            parents[i] = shown.parent

    def predict(self, double[::1] out, int32_t number=0):
        """Write the distribution of the next symbol of a key."""
        cdef System* system = &self.system
        cdef int64_t n = self.n_particles
        cdef int64_t i = 0
        cdef double base = 0.0
        if out.shape[0] != self.n_accepted():
            raise ValueError("out: expected one entry for each symbol that may come next")
        check_number(number)
        self.enter()
        try:
            raise_for(reserve_scores(system, system.most_states))
            with nogil:
                memset(&out[0], 0, out.shape[0] * sizeof(double))
                while i < n:
                    i = add_predictives(
                        system, i, SIGNAL_INTERVAL, <uint32_t>number, &base, &out[0])
                    if i < n:
                        with gil:
                            PyErr_CheckSignals()
                add_base(system, base, &out[0], out.shape[0])
                if system.model.real:
                    normalize_prediction(&out[0], out.shape[0])
        finally:
            self.busy = False

    def path_length(self):
        """Number of states that `path` writes."""
        return shown_path_length(&self.system)

    def path(self, int64_t particle, int64_t[::1] out):
        """Write the latest states on the path of a particle shown, in order of time."""
        cdef int64_t n = self.path_length()
        self.check_idle()
        if out.shape[0] != n or not 0 <= particle < self.n_particles:
            raise ValueError("out: expected path_length() entries; particle: expected one shown")
        if n:
            write_shown_path(&self.system, particle, n, &out[0])

    def counts(self, int64_t particle, int64_t[:, ::1] transition, int64_t[:, ::1] emission):
        """Add the counts of a particle shown; row 0 of `transition` is that of the start state."""
        cdef System* system = &self.system
        cdef bint pending = system.pending
        cdef uint32_t state = 0
        cdef uint32_t* block
        cdef uint32_t j
        self.check_idle()
        if not 0 <= particle < self.n_particles:
            raise ValueError("particle: expected one shown")
        if pending:
            state = system.provisional.state[particle]
            particle = system.provisional.parent[particle]
        block = block_of(system, particle)
        j = block[BLOCK_STATES] + (pending and state == block[BLOCK_STATES])
        if transition.shape[0] != j + 1 or transition.shape[1] != j or emission.shape[0] != j \
                or emission.shape[1] != system.model.n_symbols:
            raise ValueError("transition, emission: expected shapes (M + 1, M) and (M, V)")
        add_counts(system, block, pending, state, transition, emission)

    cdef int64_t n_labels(self, int64_t particle) except -1:
        """How many states the path of a particle shown has visited."""
        if not self.system.model.real:
            raise ValueError("expected a system with real counts")
        if not 0 <= particle < self.n_particles:
            raise ValueError("particle: expected one shown")
        return shown_particle(&self.system, particle).n_states

    cdef int64_t unreleased_states(self, int64_t particle) except -1:
        """How many states of a particle shown have not been released."""
        self.n_labels(particle)  # checks the argument
        return shown_held(&self.system, particle)

    def n_held(self, int64_t particle):
        """Number of states of a particle shown that have not been released."""
        self.check_idle()
        return self.unreleased_states(particle)

    def real_counts(
        self, int64_t particle, double[:, ::1] transition, double[:, ::1] emission,
        double[::1] into, double[::1] reached, int64_t[::1] labels=None,
    ):
        """Write the real counts of a particle shown into tables of zeros.

        Without `labels`, the tables are by label. With `labels`, they have the states that have not
        been released, in the order of the particle, and `labels` receives their labels. Row 0 of
        `transition` is that of the start state; every state has one row, in a Mealy machine V + 1.
        `into` receives how often each state was entered and, with the oracle of rows only,
        `reached` the number of rows that lead to it.
        """
        cdef System* system = &self.system
        cdef bint pending = system.pending
        cdef uint32_t state = 0
        cdef uint32_t* block
        cdef bint by_label = labels is None
        cdef int64_t n, i
        self.enter()
        try:
            n = self.n_labels(particle) if labels is None else labels.shape[0]
            if labels is not None and n != self.unreleased_states(particle):
                raise ValueError("labels: expected one entry for each state")
            if transition.shape[0] != 1 + n * rows_a_state(system) or transition.shape[1] != n \
                    or emission.shape[0] != n or emission.shape[1] != system.model.n_symbols \
                    or into.shape[0] != n or reached.shape[0] != n:
                raise ValueError("expected tables of shapes (1 + rows, M), (M, V), (M,) and (M,)")
            if n == 0:
                return
            raise_for(reserve_scores(system, system.most_states))
            if pending:
                state = system.provisional.state[particle]
                particle = system.provisional.parent[particle]
            block = block_of(system, particle)
            with nogil:
                write_tables(
                    system, block, pending, state, by_label, n, &transition[0, 0], &emission[0, 0]
                )
                write_entries(system, block, pending, state, by_label, &into[0], &reached[0])
            if labels is not None:
                for i in range(n):
                    labels[i] = label_of(system, block, <uint32_t>i)
        finally:
            self.busy = False

    # ---- families over numbers ---------------------------------------------------------------

    @property
    def n_rows(self):
        """Rows of statistics that `components` may need."""
        return self.system.numbers.n_rows

    @property
    def layout(self):
        """Size of a row of statistics, and the start and end of each channel in it."""
        return layout_of(&self.system)

    def components(self, double[:, ::1] weights, double[:, :, ::1] statistics, int32_t number=0):
        """Write the predictive of a key as a mixture over rows of statistics.

        Each row stands for two components: as stored and, while MD-VPA has a pending observation,
        with that observation. Statistics are as of the next step.
        """
        cdef System* system = &self.system
        cdef int64_t n = system.numbers.n_rows
        cdef Status status
        check_number(number)
        if weights.shape[0] != 2 or weights.shape[1] != n or statistics.shape[0] != 2 \
                or statistics.shape[1] != n or statistics.shape[2] != system.numbers.size or n == 0:
            raise ValueError("expected arrays of shapes (2, n_rows) and (2, n_rows, size)")
        self.enter()
        try:
            raise_for(reserve_scores(system, system.most_states + 1))
            with nogil:
                memset(&weights[0, 0], 0, 2 * n * sizeof(double))
                status = write_components(
                    system, <uint32_t>number, &weights[0, 0], &statistics[0, 0, 0])
            raise_for(status, system)
        finally:
            self.busy = False

    def statistics(self, int64_t particle, double[:, ::1] out):
        """Write the statistics of the states of a particle shown into a table of zeros, by label.

        Statistics are as of the next step; states that have faded away keep their zeros.
        """
        self.enter()
        try:
            if out.shape[0] != self.n_labels(particle) or out.shape[1] != self.system.numbers.size:
                raise ValueError("out: expected shape (states, size)")
            if out.shape[0]:
                raise_for(write_statistics_table(&self.system, particle, &out[0, 0]), &self.system)
        finally:
            self.busy = False

    # ---- memory ------------------------------------------------------------------------------

    def settle(self):
        """Release work space and compact storage. A long run calls this at its end.

        This does nothing while another thread uses the system; its run will settle.
        """
        if self.busy:
            return
        self.enter()
        with nogil:
            settle(&self.system)
        self.busy = False

    def memory(self):
        """Return live, allocated and dense bytes, rows, shared rows and history nodes."""
        cdef System* system = &self.system
        cdef MemoryCounts found
        cdef unsigned char[::1] marks
        self.enter()
        try:
            marks = bytearray(<size_t>system.pool.n_pages << PAGE_BITS)
            with nogil:
                found = count_memory(system, &marks[0])
            return (found.live, allocated_bytes(system), found.dense, found.rows, found.shared,
                    system.history.n_live)
        finally:
            self.busy = False

    def __sizeof__(self):
        if not self.system.n_shelves:
            return object.__sizeof__(self)
        return object.__sizeof__(self) - <int64_t>sizeof(System) + allocated_bytes(&self.system)

    def _fail_allocation_after(self, int64_t n):
        """Let the next n allocations succeed and the one after them fail, for tests; -1: none."""
        self.system.memory.fail_after = n

    def _settle_every(self, int64_t n_steps):
        """Set in how many steps everything is settled once, for tests."""
        if n_steps < 1:
            raise ValueError(f"n_steps={n_steps}: expected at least 1")
        self.system.settle_interval = n_steps

    @property
    def _n_settled(self):
        """Records that settling compared or moved after the latest step, for tests."""
        return self.system.n_settled

    def _release_every(self, int64_t n_steps):
        """Set the number of steps between two releases of states, for tests."""
        if n_steps < 1:
            raise ValueError(f"n_steps={n_steps}: expected at least 1")
        self.system.release_interval = n_steps

    def _free_stretches(self, uint32_t n):
        """Set how many free stretches a round has besides twice those in use, for tests."""
        if not 1 <= n <= FREE_STRETCHES:
            raise ValueError(f"n={n}: expected 1 to {FREE_STRETCHES}")
        self.system.positions.n_spare = n

    @property
    def _n_stretches(self):
        """How many stretches there are, free ones included, for tests."""
        return self.system.positions.n_stretches

    # ---- debugging ---------------------------------------------------------------------------

    def verify(self):
        """Recompute totals, reference counts and ranges; raise AssertionError if one is wrong."""
        self.enter()
        try:
            verify_all(&self.system)
        finally:
            self.busy = False

    def state_text(self, int64_t most=20):
        """Return the state as text, with the first `most` particles and all records they hold."""
        if most < 0:
            raise ValueError(f"most={most}: expected at least 0")
        self.enter()
        try:
            return state_text(&self.system, most)
        finally:
            self.busy = False
