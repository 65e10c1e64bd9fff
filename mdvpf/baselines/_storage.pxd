# cython: language_level=3
"""Storage of contexts and counts: adding nodes and entries, marking nodes as used, eviction.

Without a limit on nodes, nothing is deleted, and nodes and entries are numbered in order of
appearance. With a limit, nodes are in the order of their latest use. A context that occurs marks
its node and then all shorter ones as used, so a parent is always more recent than its children. The
least recent node is therefore a leaf, and it is the next one to be evicted. Deleted nodes and
entries are chained for reuse.

A change has two phases: `reserve` makes room and may fail; the changes after it cannot.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memset

from mdvpf._kernel.constants cimport NO_MEMORY, OK, Status
from mdvpf._kernel.pool cimport duplicate, resize
from mdvpf._kernel.types cimport Buffer
from mdvpf.baselines._tables cimport (
    ABSENT, N_TREE_BUFFERS, Entry, Link, Node, Tree,
    enter_in_table, entry_at, home_of_entry, home_of_node, link_at, list_tree_buffers, node_at,
    remove_from_table, reserve_table, values_of_entry, values_of_node,
)


# ---- nodes and entries -------------------------------------------------------------------

cdef inline Status reserve(Tree* tree, int64_t n_nodes, int64_t n_entries) noexcept nogil:
    """Make room for more nodes and entries. The caller observes the limit on nodes."""
    cdef size_t nodes = <size_t>(tree.top_node + n_nodes)
    cdef size_t entries = <size_t>(tree.top_entry + n_entries)
    if nodes >= ABSENT or entries >= ABSENT:
        return NO_MEMORY
    if resize(&tree.memory, &tree.nodes, nodes * sizeof(Node)) != OK \
            or resize(&tree.memory, &tree.node_values,
                      nodes * tree.node_width * sizeof(double)) != OK \
            or resize(&tree.memory, &tree.entries, entries * sizeof(Entry)) != OK \
            or resize(&tree.memory, &tree.entry_values,
                      entries * tree.entry_width * sizeof(double)) != OK \
            or reserve_table(tree, True, tree.n_nodes + n_nodes) != OK \
            or reserve_table(tree, False, tree.n_entries + n_entries) != OK:
        return NO_MEMORY
    if tree.max_nodes and resize(&tree.memory, &tree.links, nodes * sizeof(Link)) != OK:
        return NO_MEMORY
    return OK


cdef inline void unlink(Tree* tree, uint32_t node) noexcept nogil:
    cdef Link* link = link_at(tree, node)
    if link.newer != ABSENT:
        link_at(tree, link.newer).older = link.older
    if link.older != ABSENT:
        link_at(tree, link.older).newer = link.newer
    else:
        tree.last = link.newer


cdef inline void use_node(Tree* tree, uint32_t node) noexcept nogil:
    """Make a linked node the most recently used one, after the root, which stays first."""
    cdef Link* link = link_at(tree, node)
    cdef Link* root = link_at(tree, 0)
    if node == 0 or root.older == node:
        return
    unlink(tree, node)
    link.newer = 0
    link.older = root.older
    if root.older != ABSENT:
        link_at(tree, root.older).newer = node
    else:
        tree.last = node
    root.older = node


cdef inline uint32_t add_node(Tree* tree, uint32_t parent, int32_t edge) noexcept nogil:
    """Add a node without entries, for which there is room, as the least recently used one."""
    cdef uint32_t node = tree.free_node
    cdef Node* added
    if node != ABSENT:
        tree.free_node = node_at(tree, node).parent
    else:
        node = <uint32_t>tree.top_node
        tree.top_node += 1
    added = node_at(tree, node)
    added.parent = parent
    added.edge = edge
    added.first = ABSENT
    added.n_symbols = 0
    memset(values_of_node(tree, node), 0, tree.node_width * sizeof(double))
    if tree.max_nodes:
        link_at(tree, node).newer = tree.last
        link_at(tree, node).older = ABSENT
        if tree.last != ABSENT:
            link_at(tree, tree.last).older = node
        tree.last = node
    if parent != ABSENT:
        enter_in_table(
            <uint32_t*>tree.node_table.data, tree.node_mask, home_of_node(tree, node), node
        )
    tree.n_nodes += 1
    return node


cdef inline uint32_t add_entry(Tree* tree, uint32_t node, int32_t symbol) noexcept nogil:
    """Add an entry of zeros, for which there is room."""
    cdef uint32_t entry = tree.free_entry
    cdef Entry* added
    if entry != ABSENT:
        tree.free_entry = entry_at(tree, entry).next
    else:
        entry = <uint32_t>tree.top_entry
        tree.top_entry += 1
    added = entry_at(tree, entry)
    added.node = node
    added.symbol = symbol
    added.next = node_at(tree, node).first
    memset(values_of_entry(tree, entry), 0, tree.entry_width * sizeof(double))
    if added.next == ABSENT:
        tree.n_counted += 1
    node_at(tree, node).first = entry
    node_at(tree, node).n_symbols += 1
    enter_in_table(
        <uint32_t*>tree.entry_table.data, tree.entry_mask, home_of_entry(tree, entry), entry
    )
    tree.n_entries += 1
    return entry


cdef inline void forget_last(Tree* tree) noexcept nogil:
    """Delete the least recently used node, which is a leaf and not the root, and its entries."""
    cdef uint32_t node = tree.last
    cdef uint32_t entry = node_at(tree, node).first
    cdef uint32_t following
    if entry != ABSENT:
        tree.n_counted -= 1
    while entry != ABSENT:
        following = entry_at(tree, entry).next
        remove_from_table(tree, False, entry)
        entry_at(tree, entry).node = ABSENT
        entry_at(tree, entry).next = tree.free_entry
        tree.free_entry = entry
        tree.n_entries -= 1
        entry = following
    remove_from_table(tree, True, node)
    unlink(tree, node)
    link_at(tree, node).newer = node
    node_at(tree, node).parent = tree.free_node
    tree.free_node = node
    tree.n_nodes -= 1


# ---- trees -------------------------------------------------------------------------------

cdef inline Status open_tree(Tree* tree) noexcept nogil:
    """Make the root of an empty tree whose widths and limits are set."""
    tree.free_node = ABSENT
    tree.free_entry = ABSENT
    tree.last = ABSENT
    if reserve(tree, 1, 1) != OK:
        return NO_MEMORY
    add_node(tree, ABSENT, 0)
    return OK


cdef inline Status copy_tree(Tree* target, const Tree* source) noexcept nogil:
    """Make the empty tree `target` a copy. After a failure its owner must still release it."""
    cdef Buffer* into[N_TREE_BUFFERS]
    cdef Buffer* origin[N_TREE_BUFFERS]
    cdef size_t used[N_TREE_BUFFERS]
    cdef int i
    target[0] = source[0]
    target.memory.allocated = 0
    list_tree_buffers(target, into)
    list_tree_buffers(<Tree*>source, origin)
    used[0] = <size_t>source.top_node * sizeof(Node)
    used[1] = <size_t>source.top_node * source.node_width * sizeof(double)
    used[2] = <size_t>source.top_node * sizeof(Link) if source.max_nodes else 0
    used[3] = <size_t>source.top_entry * sizeof(Entry)
    used[4] = <size_t>source.top_entry * source.entry_width * sizeof(double)
    used[5] = <size_t>(source.node_mask + 1) * sizeof(uint32_t)
    used[6] = <size_t>(source.entry_mask + 1) * sizeof(uint32_t)
    for i in range(N_TREE_BUFFERS):
        into[i].data = NULL
        into[i].bytes = 0
    for i in range(N_TREE_BUFFERS):
        if duplicate(&target.memory, into[i], origin[i], used[i]) != OK:
            return NO_MEMORY
    return OK
