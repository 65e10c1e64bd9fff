# cython: language_level=3
"""Checks of a tree of contexts, by recomputing everything that can be recomputed."""

from libc.stdint cimport int32_t, int64_t, uint32_t

from mdvpf.baselines._alphabet cimport Alphabet, seen_times
from mdvpf.baselines._rules cimport RULE_CHAIN, RULE_GRID, RULE_PITMAN_YOR, Rule
from mdvpf.baselines._tables cimport (
    ABSENT, Tree, entry_at, find_entry, find_node, is_node, link_at, node_at, values_of_entry,
    values_of_node,
)


cdef inline int check(bint holds, str message) except -1:
    if not holds:
        raise AssertionError(message)
    return 0


cdef inline list node_order(const Tree* tree):
    """Numbers of the nodes, parents first: in order of appearance, or the latest used first."""
    cdef uint32_t node = 0
    if not tree.max_nodes:
        return list(range(tree.n_nodes))
    order = []
    while node != ABSENT:
        order.append(node)
        node = link_at(tree, node).older
    return order


cdef inline int verify_tree(const Tree* tree, const Rule* rule) except -1:
    """Recompute lists, tables, sums and the order of use; raise AssertionError if one is wrong."""
    cdef uint32_t node, entry
    cdef int64_t n_listed
    nodes = [node for node in range(<uint32_t>tree.top_node) if is_node(tree, node)]
    order = node_order(tree)
    check(len(nodes) == tree.n_nodes and sorted(order) == nodes, "the number of nodes is wrong")
    check(not tree.max_nodes or tree.n_nodes <= tree.max_nodes, "there are too many nodes")
    level = {0: 0}
    n_entries = n_counted = 0
    for node in order:
        if node:
            check(node_at(tree, node).parent in level, "a node comes before its parent")
            level[node] = level[node_at(tree, node).parent] + 1
            check(level[node] <= rule.depth, "a node is too deep")
            check(find_node(tree, node_at(tree, node).parent, node_at(tree, node).edge) == node,
                  "a node is not found")
        n_listed = 0
        sums = [0.0] * tree.entry_width
        entry = node_at(tree, node).first
        while entry != ABSENT:
            check(entry_at(tree, entry).node == node, "an entry is in the list of another node")
            check(find_entry(tree, node, entry_at(tree, entry).symbol) == entry,
                  "an entry is not found")
            for j in range(tree.entry_width):
                sums[j] += values_of_entry(tree, entry)[j]
            n_listed += 1
            entry = entry_at(tree, entry).next
        check(n_listed == node_at(tree, node).n_symbols, "the number of entries is wrong")
        for j in range(tree.entry_width):
            total = values_of_node(tree, node)[j]
            check(abs(sums[j] - total) <= 1e-6 * abs(total), "a total is wrong")
        n_entries += n_listed
        n_counted += n_listed > 0
    check(n_entries == tree.n_entries, "the number of entries is wrong")
    check(n_counted == tree.n_counted, "the number of contexts with counts is wrong")
    verify_deleted(tree)
    verify_seen(tree, rule)
    if rule.kind == RULE_PITMAN_YOR or rule.kind == RULE_GRID:
        verify_types(tree, level)
    return 0


cdef inline int verify_seen(const Tree* tree, const Rule* rule) except -1:
    """Check the counts of symbols of an open alphabet.

    Except in a chain, whose contexts all have the same length, the empty context has counted every
    symbol. Except in a Pitman-Yor tree, which counts types there, it has counted each time.
    """
    cdef const Alphabet* alphabet = &rule.alphabet
    cdef bint is_exact = rule.kind != RULE_CHAIN and rule.kind != RULE_PITMAN_YOR
    cdef int64_t y, total = 0
    cdef uint32_t entry
    if not alphabet.is_open:
        return 0
    for y in range(alphabet.n_symbols):
        check(seen_times(alphabet)[y] > 0, "a symbol was never seen")
        total += seen_times(alphabet)[y]
        if rule.kind != RULE_CHAIN:
            entry = find_entry(tree, 0, <int32_t>y)
            check(entry != ABSENT, "the empty context has not seen a symbol")
            count = values_of_entry(tree, entry)[0]
            check(count <= seen_times(alphabet)[y], "a symbol was seen less often")
            check(not is_exact or count == seen_times(alphabet)[y], "a symbol was seen more often")
    check(total == alphabet.n_seen, "the number of symbols seen is wrong")
    return 0


cdef inline int verify_deleted(const Tree* tree) except -1:
    """Check the chains of deleted nodes and entries."""
    cdef uint32_t number = tree.free_node
    cdef int64_t n = 0
    while number != ABSENT:
        check(not is_node(tree, number), "a deleted node is in use")
        n += 1
        number = node_at(tree, number).parent
    check(n == tree.top_node - tree.n_nodes, "the number of deleted nodes is wrong")
    n = 0
    number = tree.free_entry
    while number != ABSENT:
        check(entry_at(tree, number).node == ABSENT, "a deleted entry is in use")
        n += 1
        number = entry_at(tree, number).next
    check(n == tree.top_entry - tree.n_entries, "the number of deleted entries is wrong")
    return 0


cdef inline int verify_types(const Tree* tree, dict level) except -1:
    """Check that each context has counted the types of the contexts one symbol longer."""
    cdef uint32_t which = tree.entry_width - 1
    cdef uint32_t node, entry, above
    least = {}
    for node in level:
        entry = node_at(tree, node).first
        check(node == 0 or entry != ABSENT, "a context has no counts")
        while entry != ABSENT and node:
            above = find_entry(tree, node_at(tree, node).parent, entry_at(tree, entry).symbol)
            check(above != ABSENT, "a shorter context has not seen a symbol")
            least[above] = least.get(above, 0) + 1
            entry = entry_at(tree, entry).next
    for number, n in least.items():
        above = number
        check(values_of_entry(tree, above)[which] >= n, "a context has counted too little")
    return 0
