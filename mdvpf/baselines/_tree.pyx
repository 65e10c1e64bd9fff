# cython: language_level=3
"""Compiled context trees: `CountTree`, a tree of counts, and `Context`, the latest symbols.

A tree owns its memory, and so does a context, so that many sequences can share one tree, each with
a context of its own. One `Context` has the interleaved sequences of several keys. The rule of a
tree (`_rules.pxd`, `_pitman_yor.pxd`) determines how it predicts and counts. Arrays come in as
contiguous buffers; results are written into arrays of the caller. A call that fails changes neither
tree nor context; a chunk that fails has absorbed the symbols before the failure.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memcpy, memset

from mdvpf._kernel.constants cimport OK, Status
from mdvpf._kernel.pool cimport dispose, duplicate, resize
from mdvpf._kernel.types cimport Buffer, Memory
from mdvpf.baselines._alphabet cimport n_outcomes
from mdvpf.baselines._checks cimport verify_tree
from mdvpf.baselines._dump cimport dump_seen, dump_tree, fill_seen, fill_tree
from mdvpf.baselines._past cimport (
    MISSING, NO_KEY, NONE_ENDS, Past, Position,
    add_position, dispose_past, find_position, position_at, push, reserve_past, reserve_positions,
    swap_position, symbol_before,
)
from mdvpf.baselines._pitman_yor cimport find_weights
from mdvpf.baselines._rules cimport (
    N_RULE_BUFFERS, RULE_GRID, RULE_PITMAN_YOR, Rule, RuleKind,
    list_rule_buffers, reported_size,
)
from mdvpf.baselines._steps cimport end_key, predict_key, step_key
from mdvpf.baselines._storage cimport copy_tree, open_tree
from mdvpf.baselines._tables cimport (
    ABSENT, N_TREE_BUFFERS, Entry, Link, Node, Tree, list_tree_buffers,
)


cdef int raise_for(Status status) except -1:
    """Turn a status into an exception. No other function does."""
    if status != OK:
        raise MemoryError("not enough memory; the symbol has not changed the predictor")
    return 0


cdef class Context:
    """The latest symbols of each sequence, at most `limit` of them, and the work space of a step.

    Sequences are identified by the numbers of their keys; that of key=None is 0.
    """

    cdef Past past
    cdef bint busy

    def __cinit__(self, int64_t limit):
        memset(&self.past, 0, sizeof(Past))
        self.past.memory.fail_after = -1
        self.past.limit = limit
        self.busy = False

    def __dealloc__(self):
        dispose_past(&self.past)

    cdef int check_idle(self) except -1:
        if self.busy:
            raise RuntimeError(
                "this predictor is in use by another thread; expected one call at a time "
                "(copy() gives each thread its own)"
            )
        return 0

    def numbers(self):
        """List the numbers of the keys in use except that of key=None, in ascending order."""
        cdef int64_t i
        self.check_idle()
        n = self.past.n_positions
        return sorted([position_at(&self.past, <uint32_t>i).number for i in range(n)])

    def symbols(self, int32_t number=NO_KEY):
        """List the symbols of a key, the latest first."""
        cdef uint32_t found
        self.check_idle()
        if number == NO_KEY:
            return [symbol_before(&self.past, i) for i in range(self.past.n)]
        found = find_position(&self.past, number)
        if found == ABSENT:
            raise ValueError(f"number={number}: expected a key in use")
        swap_position(&self.past, position_at(&self.past, found))
        try:
            return [symbol_before(&self.past, i) for i in range(self.past.n)]
        finally:
            swap_position(&self.past, position_at(&self.past, found))

    def replace(self, list symbols, int32_t number=NO_KEY):
        """Set the symbols of a key, given the latest first."""
        cdef int64_t n = len(symbols)
        cdef uint32_t found
        self.check_idle()
        if n > self.past.limit:
            raise ValueError(f"symbols: expected at most {self.past.limit}")
        if number < NO_KEY:
            raise ValueError(f"number={number}: expected at least {NO_KEY}")
        if number == NO_KEY:
            self.write(symbols)
            return
        found = find_position(&self.past, number)
        if found == ABSENT:
            raise_for(reserve_positions(&self.past, 1))
            found = add_position(&self.past, number)
        swap_position(&self.past, position_at(&self.past, found))
        try:
            self.write(symbols)
        finally:
            swap_position(&self.past, position_at(&self.past, found))

    cdef int write(self, list symbols) except -1:
        cdef int32_t symbol
        raise_for(reserve_past(&self.past, len(symbols)))
        self.past.n = 0
        self.past.end = 0
        for symbol in reversed(symbols):
            push(&self.past, symbol)
        return 0

    def copy(self):
        """Return a context with the same symbols."""
        cdef Context other = Context(self.past.limit)
        cdef size_t used = <size_t>self.past.end * sizeof(int32_t)
        cdef const Position* origin
        cdef Position* into
        cdef int64_t i
        self.check_idle()
        raise_for(duplicate(&other.past.memory, &other.past.symbols, &self.past.symbols, used))
        other.past.end = self.past.end
        other.past.n = self.past.n
        if self.past.n_positions:
            raise_for(reserve_positions(&other.past, self.past.n_positions))
        for i in range(self.past.n_positions):
            origin = position_at(&self.past, <uint32_t>i)
            into = position_at(&other.past, add_position(&other.past, origin.number))
            used = <size_t>origin.end * sizeof(int32_t)
            raise_for(duplicate(&other.past.memory, &into.symbols, &origin.symbols, used))
            into.end = origin.end
            into.n = origin.n
        return other

    def memory(self):
        """Bytes of the contexts of all keys except key=None: in use, and allocated."""
        cdef const Past* past = &self.past
        cdef int64_t live = past.n_positions * <int64_t>(sizeof(Position) + sizeof(uint32_t))
        cdef int64_t allocated = <int64_t>(past.positions.bytes + past.table.bytes)
        cdef int64_t i
        for i in range(past.n_positions):
            live += position_at(past, <uint32_t>i).n * <int64_t>sizeof(int32_t)
            allocated += <int64_t>position_at(past, <uint32_t>i).symbols.bytes
        return live, allocated

    def _fail_allocation_after(self, int64_t n):
        """Make the allocation after the next n fail, for tests; -1 for none."""
        self.past.memory.fail_after = n


cdef class CountTree:
    """A tree of contexts, the counts of symbols after each context, and a rule."""

    cdef Tree tree
    cdef Rule rule
    cdef bint busy          # a call that changes the tree is under way, perhaps in another thread

    def __cinit__(self):
        memset(&self.tree, 0, sizeof(Tree))
        memset(&self.rule, 0, sizeof(Rule))
        self.tree.memory.fail_after = -1
        self.busy = False

    def __init__(
        self, *, int kind, int64_t n_symbols, int64_t depth, double beta, double decay,
        double share, const double[:, ::1] pairs, const int64_t[::1] depths, int64_t max_nodes,
        int64_t max_entries, bint is_open, double base_strength, double base_discount,
    ):
        cdef Rule* rule = &self.rule
        cdef Memory* memory = &self.tree.memory
        cdef size_t n_settings = <size_t>(pairs.shape[0] * depths.shape[0])
        if self.tree.n_nodes:
            raise RuntimeError("a CountTree is initialised once")
        if pairs.shape[1] != 2 or (kind >= RULE_PITMAN_YOR and n_settings == 0):
            raise ValueError("pairs: expected discounts and strengths; depths: expected at least 1")
        rule.kind = <RuleKind>kind
        rule.alphabet.is_open = is_open
        rule.alphabet.n_symbols = 0 if is_open else n_symbols
        rule.alphabet.strength = base_strength
        rule.alphabet.discount = base_discount
        rule.depth = depth
        rule.beta = beta
        rule.decay = decay
        rule.share = share
        rule.n_pairs = pairs.shape[0]
        rule.n_depths = depths.shape[0]
        if n_settings:
            raise_for(resize(memory, &rule.pairs, 2 * pairs.shape[0] * sizeof(double)))
            memcpy(rule.pairs.data, &pairs[0, 0], 2 * pairs.shape[0] * sizeof(double))
            raise_for(resize(memory, &rule.depths, depths.shape[0] * sizeof(int64_t)))
            memcpy(rule.depths.data, &depths[0], depths.shape[0] * sizeof(int64_t))
            raise_for(resize(memory, &rule.log_weights, n_settings * sizeof(double)))
            raise_for(resize(memory, &rule.weights, n_settings * sizeof(double)))
            memset(rule.log_weights.data, 0, n_settings * sizeof(double))
            find_weights(rule)
        self.tree.node_width = 1 if kind == RULE_PITMAN_YOR else 2
        self.tree.entry_width = 2 if kind == RULE_GRID else 1
        self.tree.max_nodes, self.tree.max_entries = max_nodes, max_entries
        raise_for(open_tree(&self.tree))

    def __dealloc__(self):
        cdef Buffer* buffers[N_TREE_BUFFERS]
        cdef Buffer* others[N_RULE_BUFFERS]
        cdef int i
        list_tree_buffers(&self.tree, buffers)
        for i in range(N_TREE_BUFFERS):
            dispose(&self.tree.memory, buffers[i])
        list_rule_buffers(&self.rule, others)
        for i in range(N_RULE_BUFFERS):
            dispose(&self.tree.memory, others[i])

    # ---- one call at a time ----------------------------------------------------------------

    # Several threads may read a tree at the same time, each with a context of its own.

    cdef int check_idle(self) except -1:
        if self.busy:
            raise RuntimeError("this predictor is in use by another thread; expected one call at a "
                               "time (copy() gives each thread its own)")
        if not self.tree.n_nodes:  # made by __new__ alone: there are no buffers
            raise RuntimeError("this CountTree was never initialised; expected __init__ first")
        return 0

    cdef int enter(self, Context context, bint learn) except -1:
        self.check_idle()
        context.check_idle()
        context.busy = True
        self.busy = learn
        return 0

    cdef void leave(self, Context context, bint learn) noexcept:
        context.busy = False
        if learn:
            self.busy = False

    # ---- symbols -----------------------------------------------------------------------------

    def advance(
        self, Context context not None, const int32_t[::1] symbols, const int32_t[::1] ended,
        bint learn, double[:, ::1] reports, const int32_t[::1] numbers=None,
        double[:, :, ::1] distributions=None,
    ):
        """Absorb a chunk of symbols.

        Parameters
        ----------
        context : Context
            The symbols before the chunk; the chunk is appended.
        symbols : int32 buffer
            Symbols, -1 for missing. In an open alphabet, each is at most the number of symbols seen
            before it; without `learn` that number does not change.
        ended : int32 buffer
            The number of the key whose sequence ends before each symbol, -1 for none.
        learn : bool
            Whether to count the symbols.
        reports : float64 buffer of shape (n, 6)
            Receives log predictive, log evidence, size, ESS, particles and discarded.
        numbers : int32 buffer, optional
            The number of the key of each symbol; 0 by default.
        distributions : float64 buffer of shape (settings, n, width), optional
            Receives the distribution before each symbol: for a grid those of all settings, or their
            mixture if the first dimension is 1. Entries beyond a distribution are not written.
        """
        cdef int64_t n = symbols.shape[0]
        cdef int64_t n_known = n_outcomes(&self.rule.alphabet)
        cdef int64_t i, stride = 0, width = 0  # the width of the last distribution
        cdef int32_t number = NO_KEY
        cdef double log_predictive = 0.0
        cdef bint has_keys = numbers is not None
        cdef bint has_distributions = distributions is not None
        cdef Status status = OK
        if ended.shape[0] != n or reports.shape[0] != n or reports.shape[1] != 6 \
                or (has_keys and numbers.shape[0] != n):
            raise ValueError("symbols, ended, reports, numbers: expected the same length")
        for i in range(n):
            if not MISSING <= symbols[i] < n_known:
                raise ValueError(f"symbols[{i}]={symbols[i]}: expected one of the alphabet, or -1")
            width = n_known
            if symbols[i] == n_known - 1 and learn and self.rule.alphabet.is_open:
                n_known += 1    # a new symbol; another new one may follow
            if has_keys and numbers[i] < NO_KEY:
                raise ValueError(f"numbers[{i}]={numbers[i]}: expected at least {NO_KEY}")
        if has_distributions and (
            distributions.shape[0] not in (1, self.n_distributions) or distributions.shape[1] != n
            or distributions.shape[2] < width
        ):
            raise ValueError("distributions: expected one for each symbol, or each of each setting")
        if has_distributions and distributions.shape[0] > 1:
            stride = distributions.shape[1] * distributions.shape[2]
        self.enter(context, learn)
        try:
            with nogil:
                for i in range(n):
                    if has_keys:
                        number = numbers[i]
                    if ended[i] != NONE_ENDS:
                        status = end_key(&context.past, &self.rule, ended[i])
                    if status == OK and has_distributions:
                        status = predict_key(
                            &self.tree, &context.past, &self.rule, number, stride,
                            &distributions[0, i, 0])
                    if status == OK:
                        status = step_key(
                            &self.tree, &context.past, &self.rule, symbols[i], learn, number,
                            &log_predictive)
                    if status != OK:
                        break
                    reports[i, 0] = log_predictive
                    reports[i, 1] = log_predictive
                    reports[i, 2] = reported_size(&self.tree, &self.rule)
                    reports[i, 3] = 1.0
                    reports[i, 4] = 1.0
                    reports[i, 5] = 0.0
            raise_for(status)
        finally:
            self.leave(context, learn)

    def absorb(self, Context context not None, int32_t symbol, bint learn, int32_t number=NO_KEY):
        """Absorb one symbol; return its log predictive and the size of the tree."""
        cdef double log_predictive = 0.0
        cdef Status status
        if not MISSING <= symbol < n_outcomes(&self.rule.alphabet):
            raise ValueError(f"symbol={symbol}: expected one of the alphabet, or -1")
        if number < NO_KEY:
            raise ValueError(f"number={number}: expected at least {NO_KEY}")
        self.enter(context, learn)
        try:
            with nogil:
                status = step_key(
                    &self.tree, &context.past, &self.rule, symbol, learn, number, &log_predictive
                )
            raise_for(status)
            return log_predictive, reported_size(&self.tree, &self.rule)
        finally:
            self.leave(context, learn)

    def end(self, Context context not None, int32_t number=NO_KEY):
        """End the sequence of a key."""
        context.check_idle()
        raise_for(end_key(&context.past, &self.rule, number))

    def predict(self, Context context not None, double[:, ::1] out, int32_t number=NO_KEY):
        """Write the distribution of the next symbol of a key, or one for each setting of a grid."""
        cdef int64_t stride = out.shape[1] if out.shape[0] > 1 else 0
        cdef Status status
        if out.shape[0] not in (1, self.n_distributions) \
                or out.shape[1] != n_outcomes(&self.rule.alphabet):
            raise ValueError("out: expected 1 row or n_distributions, one entry for each symbol")
        self.enter(context, False)
        try:
            with nogil:
                status = predict_key(
                    &self.tree, &context.past, &self.rule, number, stride, &out[0, 0])
            raise_for(status)
        finally:
            self.leave(context, False)

    # ---- settings of a grid ------------------------------------------------------------------

    @property
    def n_distributions(self):
        """Number of distributions of a symbol: for a grid, one for each setting."""
        return self.rule.n_pairs * self.rule.n_depths if self.rule.kind == RULE_GRID else 1

    def log_weights(self, double[::1] out):
        """Write the log weights of the settings; they sum to one up to a common factor."""
        self.check_idle()
        if out.shape[0] != self.rule.n_pairs * self.rule.n_depths:
            raise ValueError("out: expected one entry for each setting")
        memcpy(&out[0], self.rule.log_weights.data, out.shape[0] * sizeof(double))

    def set_log_weights(self, const double[::1] log_weights):
        """Set the log weights; the largest must not be far from 0."""
        self.check_idle()
        if log_weights.shape[0] != self.rule.n_pairs * self.rule.n_depths:
            raise ValueError("log_weights: expected one entry for each setting")
        memcpy(self.rule.log_weights.data, &log_weights[0], log_weights.shape[0] * sizeof(double))
        find_weights(&self.rule)

    # ---- open alphabets ----------------------------------------------------------------------

    @property
    def n_symbols(self):
        """Size of the alphabet; if it is open, the number of symbols seen."""
        return self.rule.alphabet.n_symbols

    def seen(self, int64_t[::1] out):
        """Write how often each symbol of an open alphabet was seen."""
        self.check_idle()
        dump_seen(&self.rule.alphabet, out)

    def set_seen(self, const int64_t[::1] seen):
        """Set how often each symbol was seen, in a new tree with an open alphabet."""
        self.check_idle()
        raise_for(fill_seen(&self.tree.memory, &self.rule.alphabet, seen))

    # ---- the tree ----------------------------------------------------------------------------

    @property
    def n_nodes(self):
        """Number of contexts, including the empty one and those without counts."""
        return self.tree.n_nodes

    @property
    def n_entries(self):
        """Number of pairs of a context and a symbol counted after it."""
        return self.tree.n_entries

    def copy(self):
        """Return a copy that shares no memory with this tree."""
        cdef CountTree other = CountTree.__new__(CountTree)
        cdef Buffer* into[N_RULE_BUFFERS]
        cdef Buffer* origin[N_RULE_BUFFERS]
        cdef Status status
        cdef int i
        self.check_idle()
        self.busy = True
        try:
            with nogil:
                status = copy_tree(&other.tree, &self.tree)
                other.rule = self.rule
                list_rule_buffers(&other.rule, into)
                list_rule_buffers(&self.rule, origin)
                for i in range(N_RULE_BUFFERS):
                    into[i].data = NULL
                    into[i].bytes = 0
                for i in range(N_RULE_BUFFERS):
                    if status == OK:
                        status = duplicate(
                            &other.tree.memory, into[i], origin[i], origin[i].bytes
                        )
            self.tree.memory.fail_after = other.tree.memory.fail_after
            raise_for(status)
            return other
        finally:
            self.busy = False

    def dump(
        self, uint32_t[::1] parents, int32_t[::1] edges, double[:, ::1] node_values,
        uint32_t[::1] owners, int32_t[::1] symbols, double[:, ::1] entry_values,
    ):
        """Write all nodes and counts.

        Nodes are renumbered, parents before their children. The root, which has no parent and no
        edge, is 0. Without a limit, nodes and entries are in the order in which they were added.
        With a limit, nodes are in the order of their latest use, and the entries of a node in the
        order of their symbols.
        """
        self.check_idle()
        dump_tree(&self.tree, parents, edges, node_values, owners, symbols, entry_values)

    def fill(
        self, const uint32_t[::1] parents, const int32_t[::1] edges,
        const double[:, ::1] node_values, const uint32_t[::1] owners,
        const int32_t[::1] symbols, const double[:, ::1] entry_values,
    ):
        """Fill a new tree with the arrays of `dump`; raise ValueError if they are not a tree.

        The values of nodes and entries are not checked.
        """
        raise_for(fill_tree(
            &self.tree, &self.rule, parents, edges, node_values, owners, symbols, entry_values,
        ))

    def memory(self):
        """Bytes in use, and bytes allocated."""
        cdef const Tree* tree = &self.tree
        cdef int64_t node = sizeof(Node) + tree.node_width * sizeof(double) + sizeof(uint32_t)
        cdef int64_t entry = sizeof(Entry) + tree.entry_width * sizeof(double) + sizeof(uint32_t)
        cdef int64_t live
        if tree.max_nodes:
            node += sizeof(Link)
        live = tree.n_nodes * node + tree.n_entries * entry
        if self.rule.alphabet.is_open:
            live += self.rule.alphabet.n_symbols * <int64_t>sizeof(int64_t)
        return live, tree.memory.allocated

    def __sizeof__(self):
        return object.__sizeof__(self) + self.tree.memory.allocated

    def _fail_allocation_after(self, int64_t n):
        """Make the allocation after the next n fail, for tests; -1 for none."""
        self.tree.memory.fail_after = n

    # ---- checks ------------------------------------------------------------------------------

    def verify(self):
        """Recompute lists, tables, sums and order of use; raise AssertionError if one is wrong."""
        self.check_idle()
        verify_tree(&self.tree, &self.rule)
