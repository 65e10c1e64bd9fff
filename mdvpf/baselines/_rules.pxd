# cython: language_level=3
"""Rules that predict the next symbol from counts and count it: chains and weighted trees.

A rule reads the path of the present context: the nodes of its suffixes, the root first, as far as
they exist. Contexts are outside of the tree, in a `Past` (`_past.pxd`), so that many sequences can
share one tree.

Values of a node and of an entry, by rule:

==================  ==============================  =================
chain               total, unit                     count
weighting           total, log odds of a leaf       count
Pitman-Yor          total                           count
Pitman-Yor, grid    occurrences, types              the same two
==================  ==============================  =================
"""

from libc.math cimport exp, log
from libc.stdint cimport int32_t, int64_t, uint32_t

from mdvpf._kernel.constants cimport NO_MEMORY, OK, Status
from mdvpf._kernel.types cimport Buffer
from mdvpf.baselines._alphabet cimport (
    Alphabet, base_probability, n_outcomes, symbol_prior, total_prior,
)
from mdvpf.baselines._past cimport START, Past, push, reserve_past, symbol_before
from mdvpf.baselines._storage cimport add_entry, add_node, forget_last, reserve, use_node
from mdvpf.baselines._tables cimport (
    ABSENT, Tree, entry_at, find_entry, find_node, node_at, values_of_entry, values_of_node,
)

cdef enum RuleKind:
    RULE_CHAIN = 0
    RULE_WEIGHTING = 1
    RULE_PITMAN_YOR = 2
    RULE_GRID = 3

cdef enum:
    N_RULE_BUFFERS = 5

cdef extern from *:
    """
    #define MDVPF_LARGEST_UNIT 1e100
    """
    const double LARGEST_UNIT "MDVPF_LARGEST_UNIT"  # counts of a chain are rescaled beyond this


cdef struct Rule:
    RuleKind kind
    Alphabet alphabet
    int64_t depth           # symbols of the longest context
    double beta             # chain, weighting: pseudo-count of a symbol; if open, of all symbols
    double decay            # chain: factor of a context's counts each time that it occurs
    double share            # grid: part of the weight that is shared out evenly after each symbol
    int64_t n_pairs         # pairs of discount and strength
    int64_t n_depths
    Buffer pairs            # double[2 * n_pairs]: discount, strength
    Buffer depths           # int64_t[n_depths], ascending
    Buffer log_weights      # grid: double[n_pairs][n_depths]
    Buffer weights          # grid: double[n_pairs][n_depths], normalised


cdef inline void list_rule_buffers(Rule* rule, Buffer** out) noexcept nogil:
    out[0] = &rule.pairs
    out[1] = &rule.depths
    out[2] = &rule.log_weights
    out[3] = &rule.weights
    out[4] = &rule.alphabet.seen


cdef inline double reported_size(const Tree* tree, const Rule* rule) noexcept nogil:
    """The number that a report has in place of states: contexts of a chain, nodes of a tree."""
    return <double>(tree.n_counted if rule.kind == RULE_CHAIN else tree.n_nodes)


# ---- contexts ----------------------------------------------------------------------------

cdef inline Status start_past(Past* past, const Rule* rule) noexcept nogil:
    """Set the context at the start of a sequence, as the rule requires it."""
    cdef int64_t n_starts = 0
    cdef int64_t _
    if rule.kind == RULE_CHAIN:
        n_starts = past.limit
    elif rule.kind == RULE_WEIGHTING and past.limit > 0:
        n_starts = 1
    if n_starts and reserve_past(past, n_starts) != OK:
        return NO_MEMORY
    past.n = 0
    past.end = 0
    for _ in range(n_starts):
        push(past, START)
    return OK


# ---- paths -------------------------------------------------------------------------------

cdef inline uint32_t* nodes_of(const Past* past) noexcept nogil:
    return <uint32_t*>past.path.data


cdef inline uint32_t* entries_of(const Past* past) noexcept nogil:
    return <uint32_t*>past.path.data + past.n + 1


cdef inline int64_t find_path(const Tree* tree, Past* past) noexcept nogil:
    """Write the nodes of the context, as far as they exist; return their number."""
    cdef uint32_t* path = nodes_of(past)
    cdef uint32_t node = 0
    cdef int64_t i
    path[0] = 0
    for i in range(past.n):
        node = find_node(tree, node, symbol_before(past, i))
        if node == ABSENT:
            return i + 1
        path[i + 1] = node
    return past.n + 1


cdef inline void find_entries(
    const Tree* tree, Past* past, int64_t found, int32_t symbol
) noexcept nogil:
    """Write the entries of a symbol at the nodes of the path; ABSENT if a node has none."""
    cdef int64_t i
    for i in range(found):
        entries_of(past)[i] = find_entry(tree, nodes_of(past)[i], symbol)
    for i in range(found, past.n + 1):
        entries_of(past)[i] = ABSENT


cdef inline Status reserve_path(Tree* tree, const Past* past, int64_t found) noexcept nogil:
    """Make room for the missing nodes of the path, and for an entry at each of its nodes."""
    return reserve(tree, past.n + 1 - found, past.n + 1)


cdef inline void complete_path(Tree* tree, Past* past, int64_t found) noexcept nogil:
    """Add the missing nodes of the path; with a limit, mark the path as used and evict others."""
    cdef uint32_t* path = nodes_of(past)
    cdef int64_t i
    if tree.max_nodes:
        for i in range(found - 1, -1, -1):
            use_node(tree, path[i])
        while tree.n_nodes + past.n + 1 - found > tree.max_nodes or (
            tree.max_entries and tree.n_nodes > found
            and tree.n_entries + past.n + 1 > tree.max_entries
        ):
            forget_last(tree)
    for i in range(found, past.n + 1):
        path[i] = add_node(tree, path[i - 1], symbol_before(past, i - 1))
    if tree.max_nodes and found <= past.n:
        for i in range(past.n, -1, -1):
            use_node(tree, path[i])


cdef inline uint32_t make_entry(
    Tree* tree, Past* past, int64_t level, int32_t symbol
) noexcept nogil:
    """The entry of the symbol at a node of the completed path; it is added if it is missing."""
    if entries_of(past)[level] == ABSENT:
        entries_of(past)[level] = add_entry(tree, nodes_of(past)[level], symbol)
    return entries_of(past)[level]


# ---- chains ------------------------------------------------------------------------------

cdef inline double chain_unit(const Tree* tree, uint32_t node) noexcept nogil:
    """The amount that an occurrence adds at a node: it grows if counts decay."""
    if node == ABSENT or node_at(tree, node).n_symbols == 0:
        return 1.0
    return values_of_node(tree, node)[1]


cdef inline Status step_chain(
    Tree* tree, Past* past, const Rule* rule, int32_t symbol, bint learn, double* log_predictive
) noexcept nogil:
    cdef int64_t found = find_path(tree, past)
    cdef uint32_t node = nodes_of(past)[past.n] if found == past.n + 1 else ABSENT
    cdef uint32_t entry = ABSENT
    cdef double unit = chain_unit(tree, node)
    cdef double prior = rule.beta * unit    # of a symbol in a closed alphabet
    cdef double count = 0.0
    cdef double total = 0.0
    if node != ABSENT:
        total = values_of_node(tree, node)[0]
        entry = find_entry(tree, node, symbol)
        if entry != ABSENT:
            count = values_of_entry(tree, entry)[0]
    log_predictive[0] = log(
        (count + symbol_prior(&rule.alphabet, prior, symbol))
        / (total + total_prior(&rule.alphabet, prior))
    )
    if not learn:
        return OK
    if reserve_path(tree, past, found) != OK:
        return NO_MEMORY
    complete_path(tree, past, found)
    node = nodes_of(past)[past.n]
    if entry == ABSENT:
        entry = add_entry(tree, node, symbol)
    # New counts are made larger instead of multiplying old ones by the decay.
    if rule.decay != 1.0:
        unit = unit / rule.decay
    values_of_entry(tree, entry)[0] = count + unit
    values_of_node(tree, node)[0] = total + unit
    values_of_node(tree, node)[1] = unit
    if unit > LARGEST_UNIT:
        values_of_node(tree, node)[0] /= unit
        values_of_node(tree, node)[1] = 1.0
        entry = node_at(tree, node).first
        while entry != ABSENT:
            values_of_entry(tree, entry)[0] /= unit
            entry = entry_at(tree, entry).next
    return OK


# ---- context-tree weighting --------------------------------------------------------------

cdef inline double odds_ratio(double odds) noexcept nogil:
    """The smaller of the odds and their inverse."""
    return exp(-odds) if odds >= 0.0 else exp(odds)


cdef inline double mix(double own, double below, double odds, double ratio) noexcept nogil:
    """The mean of two predictions, given the log odds of the first and their ratio."""
    if odds >= 0.0:
        return (own + ratio * below) / (1.0 + ratio)
    return (ratio * own + below) / (1.0 + ratio)


cdef inline Status step_weighting(
    Tree* tree, Past* past, const Rule* rule, int32_t symbol, bint learn, double* log_predictive
) noexcept nogil:
    cdef int64_t found = find_path(tree, past)
    cdef double prior = symbol_prior(&rule.alphabet, rule.beta, symbol)
    cdef double all_priors = total_prior(&rule.alphabet, rule.beta)
    cdef double mixed = -1.0    # no prediction yet
    cdef double own, below, count, odds
    cdef double* values
    cdef double* counts
    cdef int64_t i
    find_entries(tree, past, found, symbol)
    if learn:
        if reserve_path(tree, past, found) != OK:
            return NO_MEMORY
        complete_path(tree, past, found)
    if found <= past.n:     # new nodes make the same prediction, so their odds stay even
        mixed = prior / all_priors
    for i in range(found - 1, -1, -1):
        values = values_of_node(tree, nodes_of(past)[i])
        count = 0.0
        if entries_of(past)[i] != ABSENT:
            count = values_of_entry(tree, entries_of(past)[i])[0]
        own = (count + prior) / (values[0] + all_priors)    # if the node is a leaf
        if mixed < 0.0:
            mixed = own
            continue
        below = mixed
        odds = values[1]
        mixed = mix(own, below, odds, odds_ratio(odds))
        if learn:
            values[1] = odds + log(own / below)
    log_predictive[0] = log(mixed)
    if learn:
        for i in range(past.n, -1, -1):
            counts = values_of_entry(tree, make_entry(tree, past, i, symbol))
            counts[0] += 1.0
            values_of_node(tree, nodes_of(past)[i])[0] += 1.0
    return OK


# ---- distributions -----------------------------------------------------------------------

cdef inline void write_dirichlet(
    const Tree* tree, uint32_t node, const Rule* rule, double beta, double* out
) noexcept nogil:
    """Write the distribution of the next symbol from the counts of one node."""
    cdef double bottom = values_of_node(tree, node)[0] + total_prior(&rule.alphabet, beta)
    cdef uint32_t entry = node_at(tree, node).first
    cdef double prior
    cdef int64_t y
    for y in range(n_outcomes(&rule.alphabet)):
        out[y] = symbol_prior(&rule.alphabet, beta, y) / bottom
    while entry != ABSENT:
        y = entry_at(tree, entry).symbol
        prior = symbol_prior(&rule.alphabet, beta, y)
        out[y] = (values_of_entry(tree, entry)[0] + prior) / bottom
        entry = entry_at(tree, entry).next


cdef inline void predict_chain(
    const Tree* tree, Past* past, const Rule* rule, double* out
) noexcept nogil:
    cdef int64_t found = find_path(tree, past)
    cdef uint32_t node = nodes_of(past)[past.n] if found == past.n + 1 else ABSENT
    cdef int64_t y
    if node == ABSENT or node_at(tree, node).n_symbols == 0:
        for y in range(n_outcomes(&rule.alphabet)):
            out[y] = base_probability(&rule.alphabet, y)
        return
    write_dirichlet(tree, node, rule, rule.beta * chain_unit(tree, node), out)


cdef inline void predict_weighting(
    const Tree* tree, Past* past, const Rule* rule, double* own, double* out
) noexcept nogil:
    """Write the mixture over all trees; `own` is work space for one distribution."""
    cdef int64_t found = find_path(tree, past)
    cdef double odds, ratio
    cdef int64_t y
    if found == past.n + 1:
        found -= 1
        write_dirichlet(tree, nodes_of(past)[found], rule, rule.beta, out)
    else:               # no counts below: all trees make the same prediction
        for y in range(n_outcomes(&rule.alphabet)):
            out[y] = base_probability(&rule.alphabet, y)
    while found > 0:
        found -= 1
        write_dirichlet(tree, nodes_of(past)[found], rule, rule.beta, own)
        odds = values_of_node(tree, nodes_of(past)[found])[1]
        ratio = odds_ratio(odds)
        for y in range(n_outcomes(&rule.alphabet)):
            out[y] = mix(own[y], out[y], odds, ratio)
