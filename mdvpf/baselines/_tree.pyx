# cython: language_level=3
"""The compiled trees of contexts: `CountTree`, what was counted, and `Context`, what came before.

A tree owns its memory, and so does a context: many sequences can share one tree, each with a
context of its own. The rule of a tree (`_rules.pxd`, `_pitman_yor.pxd`) says how it predicts and
counts. Arrays come in as contiguous buffers; results are copied into arrays of the caller. A call
that fails leaves tree and context as they were; a failed chunk leaves them between two symbols.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memcpy, memset

from mdvpf._kernel.constants cimport OK, Status
from mdvpf._kernel.pool cimport dispose, duplicate, resize
from mdvpf._kernel.types cimport Buffer, Memory
from mdvpf.baselines._checks cimport node_order, verify_tree
from mdvpf.baselines._pitman_yor cimport (
    find_weights, predict_grid, predict_pitman_yor, step_grid, step_pitman_yor,
)
from mdvpf.baselines._rules cimport (
    MISSING, RULE_CHAIN, RULE_GRID, RULE_PITMAN_YOR, RULE_WEIGHTING, START, Past, Rule, RuleKind,
    predict_chain, predict_weighting, push, reserve_past, start_past, step_chain, step_weighting,
    symbol_before,
)
from mdvpf.baselines._storage cimport add_entry, add_node, copy_tree, open_tree, reserve
from mdvpf.baselines._tables cimport (
    ABSENT, N_TREE_BUFFERS, Entry, Link, Node, Tree,
    entry_at, find_entry, find_node, list_tree_buffers, node_at, values_of_entry, values_of_node,
)


cdef enum:
    N_RULE_BUFFERS = 4


cdef int raise_for(Status status) except -1:
    """Turn a status into an exception: the one place that does."""
    if status != OK:
        raise MemoryError("not enough memory; the predictor is as it was before the symbol")
    return 0


cdef inline void list_rule_buffers(Rule* rule, Buffer** out) noexcept nogil:
    out[0] = &rule.pairs
    out[1] = &rule.depths
    out[2] = &rule.log_weights
    out[3] = &rule.weights


cdef inline Status step(
    Tree* tree, Past* past, Rule* rule, int32_t symbol, bint learn, double* log_predictive
) noexcept nogil:
    """Predict a symbol, count it if the tree learns, and let the context go on."""
    cdef Status status = reserve_past(past, 1)
    if status != OK:
        return status
    if symbol == MISSING:
        log_predictive[0] = 0.0
        if rule.kind == RULE_CHAIN or rule.kind == RULE_WEIGHTING:
            push(past, MISSING)
        else:
            past.n = 0
            past.end = 0
        return OK
    if rule.kind == RULE_CHAIN:
        status = step_chain(tree, past, rule, symbol, learn, log_predictive)
    elif rule.kind == RULE_WEIGHTING:
        status = step_weighting(tree, past, rule, symbol, learn, log_predictive)
    elif rule.kind == RULE_PITMAN_YOR:
        status = step_pitman_yor(tree, past, rule, symbol, learn, log_predictive)
    else:
        status = step_grid(tree, past, rule, symbol, learn, log_predictive)
    if status == OK:
        push(past, symbol)
    return status


cdef class Context:
    """The latest symbols of a sequence, at most `limit` of them, and the work space of a step."""

    cdef Past past
    cdef bint busy

    def __cinit__(self, int64_t limit):
        memset(&self.past, 0, sizeof(Past))
        self.past.memory.fail_after = -1
        self.past.limit = limit
        self.busy = False

    def __dealloc__(self):
        dispose(&self.past.memory, &self.past.symbols)
        dispose(&self.past.memory, &self.past.path)
        dispose(&self.past.memory, &self.past.work)

    cdef int check_idle(self) except -1:
        if self.busy:
            raise RuntimeError(
                "this predictor is in use by another thread; expected one call at a time "
                "(copy() gives each thread its own)"
            )
        return 0

    def symbols(self):
        """List the symbols, the latest first."""
        self.check_idle()
        return [symbol_before(&self.past, i) for i in range(self.past.n)]

    def replace(self, list symbols):
        """Set the symbols, given the latest first."""
        cdef int64_t n = len(symbols)
        cdef int32_t symbol
        self.check_idle()
        if n > self.past.limit:
            raise ValueError(f"symbols: expected at most {self.past.limit}")
        raise_for(reserve_past(&self.past, n))
        self.past.n = 0
        self.past.end = 0
        for symbol in reversed(symbols):
            push(&self.past, symbol)

    def copy(self):
        """A context with the same symbols."""
        cdef Context other = Context(self.past.limit)
        cdef size_t used = <size_t>self.past.end * sizeof(int32_t)
        self.check_idle()
        raise_for(duplicate(&other.past.memory, &other.past.symbols, &self.past.symbols, used))
        other.past.end = self.past.end
        other.past.n = self.past.n
        return other

    def _fail_allocation_after(self, int64_t n):
        """Make the allocation after the next n fail, for tests; -1 for none."""
        self.past.memory.fail_after = n


cdef class CountTree:
    """A tree of contexts, the symbols counted after each of them, and the rule that does it."""

    cdef Tree tree
    cdef Rule rule
    cdef bint busy          # a call that counts is under way, perhaps in another thread

    def __cinit__(self):
        memset(&self.tree, 0, sizeof(Tree))
        memset(&self.rule, 0, sizeof(Rule))
        self.tree.memory.fail_after = -1
        self.busy = False

    def __init__(
        self, *, int kind, int64_t n_symbols, int64_t depth, double beta, double decay,
        double share, const double[:, ::1] pairs, const int64_t[::1] depths, int64_t max_nodes,
    ):
        cdef Rule* rule = &self.rule
        cdef Memory* memory = &self.tree.memory
        cdef size_t n_settings = <size_t>(pairs.shape[0] * depths.shape[0])
        if self.tree.n_nodes:
            raise RuntimeError("a CountTree is initialised once")
        if pairs.shape[1] != 2 or (kind >= RULE_PITMAN_YOR and n_settings == 0):
            raise ValueError("pairs: expected discounts and strengths; depths: expected some")
        rule.kind = <RuleKind>kind
        rule.n_symbols = n_symbols
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
        self.tree.max_nodes = max_nodes
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

    # A tree that nobody counts in can be read by several threads, each with a context of its own.

    cdef int check_idle(self) except -1:
        if self.busy:
            raise RuntimeError("this predictor is in use by another thread; expected one call at a "
                               "time (copy() gives each thread its own)")
        if not self.tree.n_nodes:  # made by __new__ alone: there is no memory to look at
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

    cdef double size(self) noexcept nogil:
        """What is reported as the number of states: contexts of a chain, nodes of a tree."""
        if self.rule.kind == RULE_CHAIN:
            return <double>self.tree.n_counted
        return <double>self.tree.n_nodes

    # ---- symbols -----------------------------------------------------------------------------

    def advance(
        self, Context context not None, const int32_t[::1] symbols,
        const unsigned char[::1] starts, bint learn, double[:, ::1] reports,
    ):
        """Absorb a chunk of symbols.

        Parameters
        ----------
        context : Context
            What came before; it goes on with the symbols.
        symbols : int32 buffer
            Symbols, -1 for missing.
        starts : uint8 buffer
            Whether a new sequence starts before each symbol.
        learn : bool
            Whether to count the symbols.
        reports : float64 buffer of shape (n, 6)
            Receives log predictive, log evidence, size, ESS, particles and discarded.
        """
        cdef int64_t n = symbols.shape[0]
        cdef int64_t i
        cdef double log_predictive = 0.0
        cdef Status status = OK
        if starts.shape[0] != n or reports.shape[0] != n or reports.shape[1] != 6:
            raise ValueError("symbols, starts, reports: expected the same length")
        for i in range(n):
            if not MISSING <= symbols[i] < self.rule.n_symbols:
                raise ValueError(f"symbols[{i}]={symbols[i]}: expected one of the alphabet, or -1")
        self.enter(context, learn)
        try:
            with nogil:
                for i in range(n):
                    if starts[i]:
                        status = start_past(&context.past, &self.rule)
                    if status == OK:
                        status = step(
                            &self.tree, &context.past, &self.rule, symbols[i], learn,
                            &log_predictive,
                        )
                    if status != OK:
                        break
                    reports[i, 0] = log_predictive
                    reports[i, 1] = log_predictive
                    reports[i, 2] = self.size()
                    reports[i, 3] = 1.0
                    reports[i, 4] = 1.0
                    reports[i, 5] = 0.0
            raise_for(status)
        finally:
            self.leave(context, learn)

    def absorb(self, Context context not None, int32_t symbol, bint learn):
        """Absorb one symbol: a chunk of one. Returns log predictive and size."""
        cdef double log_predictive = 0.0
        cdef Status status
        if not MISSING <= symbol < self.rule.n_symbols:
            raise ValueError(f"symbol={symbol}: expected one of the alphabet, or -1")
        self.enter(context, learn)
        try:
            with nogil:
                status = step(
                    &self.tree, &context.past, &self.rule, symbol, learn, &log_predictive
                )
            raise_for(status)
            return log_predictive, self.size()
        finally:
            self.leave(context, learn)

    def start(self, Context context not None):
        """Begin a new sequence."""
        context.check_idle()
        raise_for(start_past(&context.past, &self.rule))

    def predict(self, Context context not None, double[::1] out):
        """Write the distribution of the next symbol."""
        cdef Past* past = &context.past
        cdef size_t n_work = <size_t>(2 * self.rule.n_symbols) * sizeof(double)
        cdef Status status = OK
        if out.shape[0] != self.rule.n_symbols:
            raise ValueError("out: expected one entry a symbol")
        self.enter(context, False)
        try:
            with nogil:
                status = reserve_past(past, 0)
                if status == OK and self.rule.kind != RULE_CHAIN \
                        and self.rule.kind != RULE_PITMAN_YOR:
                    status = resize(&past.memory, &past.work, n_work)
                if status == OK:
                    if self.rule.kind == RULE_CHAIN:
                        predict_chain(&self.tree, past, &self.rule, &out[0])
                    elif self.rule.kind == RULE_PITMAN_YOR:
                        predict_pitman_yor(&self.tree, past, &self.rule, &out[0])
                    elif self.rule.kind == RULE_WEIGHTING:
                        predict_weighting(
                            &self.tree, past, &self.rule, <double*>past.work.data, &out[0]
                        )
                    else:
                        predict_grid(
                            &self.tree, past, &self.rule, <double*>past.work.data, &out[0]
                        )
            raise_for(status)
        finally:
            self.leave(context, False)

    # ---- settings of a grid ------------------------------------------------------------------

    def log_weights(self, double[::1] out):
        """Write the log weights of the settings; they sum to one up to a common factor."""
        self.check_idle()
        if out.shape[0] != self.rule.n_pairs * self.rule.n_depths:
            raise ValueError("out: expected one entry a setting")
        memcpy(&out[0], self.rule.log_weights.data, out.shape[0] * sizeof(double))

    def set_log_weights(self, const double[::1] log_weights):
        """Set the log weights, of which the largest must not be far from 0."""
        self.check_idle()
        if log_weights.shape[0] != self.rule.n_pairs * self.rule.n_depths:
            raise ValueError("log_weights: expected one entry a setting")
        memcpy(self.rule.log_weights.data, &log_weights[0], log_weights.shape[0] * sizeof(double))
        find_weights(&self.rule)

    # ---- the whole ---------------------------------------------------------------------------

    @property
    def n_nodes(self):
        """Number of contexts, the empty one and those without counts included."""
        return self.tree.n_nodes

    @property
    def n_entries(self):
        """Number of pairs of a context and a symbol that was seen after it."""
        return self.tree.n_entries

    def copy(self):
        """A copy that shares nothing with this tree."""
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
        """Write everything that was counted.

        Nodes are numbered anew, parents before their children, and the root, which has no parent
        and no edge to write, is 0. Without a limit the order is that in which nodes and entries
        appeared. With one, nodes come in the order of their latest use, and the entries of a node
        in the order of their symbols.
        """
        cdef const Tree* tree = &self.tree
        cdef int64_t n_nodes = tree.n_nodes
        cdef int64_t n_entries = tree.n_entries
        cdef uint32_t node, entry
        cdef int64_t i, j
        self.check_idle()
        if parents.shape[0] != n_nodes - 1 or edges.shape[0] != n_nodes - 1 \
                or node_values.shape[0] != n_nodes or node_values.shape[1] != tree.node_width \
                or owners.shape[0] != n_entries or symbols.shape[0] != n_entries \
                or entry_values.shape[0] != n_entries or entry_values.shape[1] != tree.entry_width:
            raise ValueError("expected arrays of n_nodes - 1, n_nodes and n_entries")
        order = node_order(tree)
        number = {node: i for i, node in enumerate(order)} if tree.max_nodes else order
        for i in range(n_nodes):
            node = order[i]
            if i:
                parents[i - 1] = number[node_at(tree, node).parent]
                edges[i - 1] = node_at(tree, node).edge
            for j in range(tree.node_width):
                node_values[i, j] = values_of_node(tree, node)[j]
        if tree.max_nodes:
            found = sorted([
                (number[entry_at(tree, entry).node], entry_at(tree, entry).symbol, entry)
                for entry in range(<uint32_t>tree.top_entry) if entry_at(tree, entry).node != ABSENT
            ])
        else:
            found = None
        for i in range(n_entries):
            entry = <uint32_t>i if found is None else found[i][2]
            owners[i] = number[entry_at(tree, entry).node]
            symbols[i] = entry_at(tree, entry).symbol
            for j in range(tree.entry_width):
                entry_values[i, j] = values_of_entry(tree, entry)[j]

    def fill(
        self, const uint32_t[::1] parents, const int32_t[::1] edges,
        const double[:, ::1] node_values, const uint32_t[::1] owners,
        const int32_t[::1] symbols, const double[:, ::1] entry_values,
    ):
        """Take what `dump` wrote into a tree that is new; raise ValueError if it makes no tree.

        What the numbers of nodes and entries mean is not checked.
        """
        cdef Tree* tree = &self.tree
        cdef int64_t n_nodes = parents.shape[0] + 1
        cdef int64_t n_entries = owners.shape[0]
        cdef int64_t i
        cdef size_t row
        if tree.n_nodes != 1 or tree.n_entries:
            raise ValueError("expected a tree that has seen nothing")
        if edges.shape[0] != n_nodes - 1 or node_values.shape[0] != n_nodes \
                or node_values.shape[1] != tree.node_width or symbols.shape[0] != n_entries \
                or entry_values.shape[0] != n_entries or entry_values.shape[1] != tree.entry_width:
            raise ValueError("expected arrays of the same length")
        if tree.max_nodes and n_nodes > tree.max_nodes:
            raise ValueError("there are more nodes than allowed")
        levels = [0]
        raise_for(reserve(tree, n_nodes - 1, n_entries))
        row = tree.node_width * sizeof(double)
        for i in range(n_nodes):
            if i:
                if parents[i - 1] >= i:
                    raise ValueError("a node before its parent")
                if not START <= edges[i - 1] < self.rule.n_symbols:
                    raise ValueError("a symbol that is not of the alphabet")
                if find_node(tree, parents[i - 1], edges[i - 1]) != ABSENT:
                    raise ValueError("a node occurs twice")
                levels.append(levels[parents[i - 1]] + 1)
                if levels[i] > self.rule.depth:
                    raise ValueError("a node is too deep")
                add_node(tree, parents[i - 1], edges[i - 1])
            memcpy(values_of_node(tree, <uint32_t>i), &node_values[i, 0], row)
        row = tree.entry_width * sizeof(double)
        for i in range(n_entries):
            if owners[i] >= n_nodes or not 0 <= symbols[i] < self.rule.n_symbols:
                raise ValueError("a count of nothing")
            if find_entry(tree, owners[i], symbols[i]) != ABSENT:
                raise ValueError("a count occurs twice")
            memcpy(values_of_entry(tree, add_entry(tree, owners[i], symbols[i])),
                   &entry_values[i, 0], row)

    def memory(self):
        """Bytes of what is in use, and of all that is allocated."""
        cdef const Tree* tree = &self.tree
        cdef int64_t node = sizeof(Node) + tree.node_width * sizeof(double) + sizeof(uint32_t)
        cdef int64_t entry = sizeof(Entry) + tree.entry_width * sizeof(double) + sizeof(uint32_t)
        if tree.max_nodes:
            node += sizeof(Link)
        return tree.n_nodes * node + tree.n_entries * entry, tree.memory.allocated

    def __sizeof__(self):
        return object.__sizeof__(self) + self.tree.memory.allocated

    def _fail_allocation_after(self, int64_t n):
        """Make the allocation after the next n fail, for tests; -1 for none."""
        self.tree.memory.fail_after = n

    # ---- checks ------------------------------------------------------------------------------

    def verify(self):
        """Recompute lists, tables, sums and order of use; raise AssertionError if one is off."""
        self.check_idle()
        verify_tree(&self.tree, &self.rule)
