# cython: language_level=3
"""Conversion of trees to arrays and back, for checkpoints."""

from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memcpy

from mdvpf._kernel.constants cimport NO_MEMORY, OK, Status
from mdvpf._kernel.types cimport Memory
from mdvpf.baselines._alphabet cimport MOST_SYMBOLS, Alphabet, reserve_symbol
from mdvpf.baselines._past cimport START
from mdvpf.baselines._rules cimport Rule
from mdvpf.baselines._storage cimport add_entry, add_node, reserve
from mdvpf.baselines._tables cimport (
    ABSENT, Tree, entry_at, find_entry, find_node, link_at, node_at, values_of_entry,
    values_of_node,
)

cdef extern from *:
    """
    #define MDVPF_TREE_MOST_SEEN 9007199254740992
    """
    const int64_t MOST_SEEN "MDVPF_TREE_MOST_SEEN"  # counts up to this are exact as doubles


# An entry while the entries of a node are sorted.
cdef struct Listed:
    int32_t symbol
    uint32_t entry


cdef inline int by_symbol(const void* a, const void* b) noexcept nogil:
    """Compare two `Listed`; the entries of a node have different symbols."""
    return 1 if (<const Listed*>a).symbol > (<const Listed*>b).symbol else -1


cdef inline void number_nodes(const Tree* tree, uint32_t* order, uint32_t* number) noexcept nogil:
    """Number the nodes, parents first: in order of appearance, or the latest used first."""
    cdef uint32_t node = 0
    cdef uint32_t i
    for i in range(<uint32_t>tree.n_nodes):
        order[i] = node
        number[node] = i
        node = link_at(tree, node).older if tree.max_nodes else node + 1


cdef inline void list_entries(
    const Tree* tree, const uint32_t* order, Listed* listed
) noexcept nogil:
    """List the entries in order of appearance; with a limit by node, and by symbol in a node."""
    cdef int64_t n = 0
    cdef int64_t first, i
    cdef uint32_t entry
    if not tree.max_nodes:
        for i in range(tree.n_entries):
            listed[i].entry = <uint32_t>i
        return
    for i in range(tree.n_nodes):
        first = n
        entry = node_at(tree, order[i]).first
        while entry != ABSENT:
            listed[n].symbol = entry_at(tree, entry).symbol
            listed[n].entry = entry
            n += 1
            entry = entry_at(tree, entry).next
        qsort(listed + first, n - first, sizeof(Listed), by_symbol)


cdef inline int dump_tree(
    const Tree* tree, uint32_t[::1] parents, int32_t[::1] edges, double[:, ::1] node_values,
    uint32_t[::1] owners, int32_t[::1] symbols, double[:, ::1] entry_values,
) except -1:
    """Write all nodes and counts: see `CountTree.dump`."""
    cdef int64_t n_nodes = tree.n_nodes
    cdef int64_t n_entries = tree.n_entries
    cdef uint32_t node, entry
    cdef int64_t i
    if parents.shape[0] != n_nodes - 1 or edges.shape[0] != n_nodes - 1 \
            or node_values.shape[0] != n_nodes or node_values.shape[1] != tree.node_width \
            or owners.shape[0] != n_entries or symbols.shape[0] != n_entries \
            or entry_values.shape[0] != n_entries or entry_values.shape[1] != tree.entry_width:
        raise ValueError("expected arrays of n_nodes - 1, n_nodes and n_entries")
    # Not Python objects: hundreds of thousands of them would scatter over the heap of a process
    # that saves a checkpoint every few minutes, for months.
    cdef uint32_t* order = <uint32_t*>malloc(n_nodes * sizeof(uint32_t))
    cdef uint32_t* number = <uint32_t*>malloc(<size_t>tree.top_node * sizeof(uint32_t))
    cdef Listed* listed = <Listed*>malloc((n_entries + 1) * sizeof(Listed))
    try:
        if order == NULL or number == NULL or listed == NULL:
            raise MemoryError
        number_nodes(tree, order, number)
        list_entries(tree, order, listed)
        for i in range(n_nodes):
            node = order[i]
            if i:
                parents[i - 1] = number[node_at(tree, node).parent]
                edges[i - 1] = node_at(tree, node).edge
            memcpy(&node_values[i, 0], values_of_node(tree, node),
                   tree.node_width * sizeof(double))
        for i in range(n_entries):
            entry = listed[i].entry
            owners[i] = number[entry_at(tree, entry).node]
            symbols[i] = entry_at(tree, entry).symbol
            memcpy(&entry_values[i, 0], values_of_entry(tree, entry),
                   tree.entry_width * sizeof(double))
    finally:
        free(order)
        free(number)
        free(listed)
    return 0


cdef inline Status fill_tree(
    Tree* tree, const Rule* rule, const uint32_t[::1] parents, const int32_t[::1] edges,
    const double[:, ::1] node_values, const uint32_t[::1] owners, const int32_t[::1] symbols,
    const double[:, ::1] entry_values,
) except *:
    """Fill a new tree with the arrays of `dump_tree`; raise ValueError if they are not a tree."""
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
    if reserve(tree, n_nodes - 1, n_entries) != OK:
        return NO_MEMORY
    row = tree.node_width * sizeof(double)
    for i in range(n_nodes):
        if i:
            if parents[i - 1] >= i:
                raise ValueError("a node comes before its parent")
            if not START <= edges[i - 1] < rule.alphabet.n_symbols:
                raise ValueError("a symbol is not in the alphabet")
            if find_node(tree, parents[i - 1], edges[i - 1]) != ABSENT:
                raise ValueError("a node occurs twice")
            levels.append(levels[parents[i - 1]] + 1)
            if levels[i] > rule.depth:
                raise ValueError("a node is too deep")
            add_node(tree, parents[i - 1], edges[i - 1])
        memcpy(values_of_node(tree, <uint32_t>i), &node_values[i, 0], row)
    row = tree.entry_width * sizeof(double)
    for i in range(n_entries):
        if owners[i] >= n_nodes or not 0 <= symbols[i] < rule.alphabet.n_symbols:
            raise ValueError("a count has no node or no symbol")
        if find_entry(tree, owners[i], symbols[i]) != ABSENT:
            raise ValueError("a count occurs twice")
        memcpy(values_of_entry(tree, add_entry(tree, owners[i], symbols[i])),
               &entry_values[i, 0], row)
    return OK


# ---- open alphabets ----------------------------------------------------------------------

cdef inline int dump_seen(const Alphabet* alphabet, int64_t[::1] out) except -1:
    """Write how often each symbol of an open alphabet was seen."""
    if not alphabet.is_open or out.shape[0] != alphabet.n_symbols:
        raise ValueError("out: expected one entry for each symbol of an open alphabet")
    if out.shape[0]:
        memcpy(&out[0], alphabet.seen.data, out.shape[0] * sizeof(int64_t))
    return 0


cdef inline Status fill_seen(
    Memory* memory, Alphabet* alphabet, const int64_t[::1] seen
) except *:
    """Set the counts of a new open alphabet; raise ValueError if they are out of range."""
    cdef int64_t n = seen.shape[0]
    cdef int64_t total = 0
    cdef int64_t i
    if not alphabet.is_open or alphabet.n_symbols:
        raise ValueError("expected a tree with an open alphabet that has seen nothing")
    if n > MOST_SYMBOLS:
        raise ValueError(f"seen: expected at most {MOST_SYMBOLS} symbols")
    for i in range(n):
        if not 0 < seen[i] <= MOST_SEEN - total:
            raise ValueError(f"seen[{i}]={seen[i]}: expected at least 1, and a sum up to 2**53")
        total += seen[i]
    if n:
        if reserve_symbol(memory, alphabet, <int32_t>(n - 1)) != OK:
            return NO_MEMORY
        memcpy(alphabet.seen.data, &seen[0], n * sizeof(int64_t))
    alphabet.n_symbols = n
    alphabet.n_seen = total
    return OK
