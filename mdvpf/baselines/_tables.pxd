# cython: language_level=3
"""Nodes and entries of a context tree, and the hash tables that find them.

A *node* is a context. Its parent is the context without the oldest symbol, and that symbol is its
*edge*. The root is the empty context. An *entry* is a pair of a node and a symbol that was counted
after the context. Hash tables over (parent, edge) and (node, symbol) find both, so no array has the
size of the alphabet. Nodes and entries have a few values each, whose meaning depends on the rule
(`_rules.pxd`).
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memset

from mdvpf._kernel.constants cimport NO_MEMORY, OK, Status
from mdvpf._kernel.pool cimport dispose, resize
from mdvpf._kernel.types cimport Buffer, Memory


cdef extern from *:
    """
    #define MDVPF_ABSENT 0xFFFFFFFFu
    """
    const uint32_t ABSENT "MDVPF_ABSENT"   # no node, no entry, a free place of a table


cdef enum:
    FIRST_TABLE = 16        # places of the smallest hash table
    N_TREE_BUFFERS = 7


cdef struct Node:
    uint32_t parent         # ABSENT for the root; of a deleted node, the next deleted one
    int32_t edge            # the oldest symbol of the context
    uint32_t first          # the entry added last; ABSENT if there is none
    uint32_t n_symbols      # number of entries


cdef struct Entry:
    uint32_t node           # ABSENT if deleted
    int32_t symbol
    uint32_t next           # next entry of the node, ABSENT at the end; if deleted, next deleted


cdef struct Link:
    uint32_t newer          # next node in order of use; ABSENT for the root; itself if deleted
    uint32_t older          # previous node in order of use; ABSENT for the least recent


cdef struct Tree:
    Memory memory
    Buffer nodes            # Node[]
    Buffer node_values      # double[node_width] for each node
    Buffer links            # Link[], if the number of nodes is limited
    Buffer entries          # Entry[]
    Buffer entry_values     # double[entry_width] for each entry
    Buffer node_table       # uint32_t[]: nodes by parent and edge
    Buffer entry_table      # uint32_t[]: entries by node and symbol
    uint32_t node_width     # values of a node
    uint32_t entry_width    # values of an entry
    int64_t max_nodes       # 0: no limit
    int64_t max_entries     # 0: no limit; those of the present path may exceed it
    int64_t n_nodes         # nodes in use
    int64_t n_entries       # entries in use
    int64_t n_counted       # nodes with entries
    int64_t top_node        # nodes ever used have smaller numbers
    int64_t top_entry       # entries ever used have smaller numbers
    uint32_t free_node      # first of the deleted nodes
    uint32_t free_entry     # first of the deleted entries
    uint32_t last           # with a limit: the least recently used node
    uint64_t node_mask      # places of the table of nodes minus one
    uint64_t entry_mask     # places of the table of entries minus one


# ---- access ------------------------------------------------------------------------------

cdef inline Node* node_at(const Tree* tree, uint32_t node) noexcept nogil:
    return <Node*>tree.nodes.data + node


cdef inline Entry* entry_at(const Tree* tree, uint32_t entry) noexcept nogil:
    return <Entry*>tree.entries.data + entry


cdef inline double* values_of_node(const Tree* tree, uint32_t node) noexcept nogil:
    return <double*>tree.node_values.data + <size_t>node * tree.node_width


cdef inline double* values_of_entry(const Tree* tree, uint32_t entry) noexcept nogil:
    return <double*>tree.entry_values.data + <size_t>entry * tree.entry_width


cdef inline Link* link_at(const Tree* tree, uint32_t node) noexcept nogil:
    return <Link*>tree.links.data + node


cdef inline void list_tree_buffers(Tree* tree, Buffer** out) noexcept nogil:
    out[0] = &tree.nodes
    out[1] = &tree.node_values
    out[2] = &tree.links
    out[3] = &tree.entries
    out[4] = &tree.entry_values
    out[5] = &tree.node_table
    out[6] = &tree.entry_table


# ---- hash tables -------------------------------------------------------------------------

cdef inline uint64_t hash_of(uint32_t owner, int32_t symbol) noexcept nogil:
    cdef uint64_t key = (<uint64_t>owner << 32) | <uint32_t>symbol
    key *= <uint64_t>0x9E3779B97F4A7C15
    key ^= key >> 32
    key *= <uint64_t>0xD6E8FEB86659FD93
    return key ^ (key >> 32)


cdef inline uint32_t find_node(const Tree* tree, uint32_t parent, int32_t edge) noexcept nogil:
    """The child of a node, or ABSENT."""
    cdef const uint32_t* table = <const uint32_t*>tree.node_table.data
    cdef uint64_t place = hash_of(parent, edge) & tree.node_mask
    cdef const Node* found
    while table[place] != ABSENT:
        found = node_at(tree, table[place])
        if found.parent == parent and found.edge == edge:
            return table[place]
        place = (place + 1) & tree.node_mask
    return ABSENT


cdef inline uint32_t find_entry(const Tree* tree, uint32_t node, int32_t symbol) noexcept nogil:
    """The entry of a symbol at a node, or ABSENT."""
    cdef const uint32_t* table = <const uint32_t*>tree.entry_table.data
    cdef uint64_t place = hash_of(node, symbol) & tree.entry_mask
    cdef const Entry* found
    while table[place] != ABSENT:
        found = entry_at(tree, table[place])
        if found.node == node and found.symbol == symbol:
            return table[place]
        place = (place + 1) & tree.entry_mask
    return ABSENT


cdef inline uint64_t home_of_node(const Tree* tree, uint32_t node) noexcept nogil:
    return hash_of(node_at(tree, node).parent, node_at(tree, node).edge) & tree.node_mask


cdef inline uint64_t home_of_entry(const Tree* tree, uint32_t entry) noexcept nogil:
    return hash_of(entry_at(tree, entry).node, entry_at(tree, entry).symbol) & tree.entry_mask


cdef inline void enter_in_table(
    uint32_t* table, uint64_t mask, uint64_t home, uint32_t number
) noexcept nogil:
    while table[home] != ABSENT:
        home = (home + 1) & mask
    table[home] = number


cdef inline void remove_from_table(Tree* tree, bint of_nodes, uint32_t number) noexcept nogil:
    """Remove a node or an entry; later ones move up, so that searches still find them."""
    cdef uint32_t* table = <uint32_t*>(tree.node_table if of_nodes else tree.entry_table).data
    cdef uint64_t mask = tree.node_mask if of_nodes else tree.entry_mask
    cdef uint64_t gap = home_of_node(tree, number) if of_nodes else home_of_entry(tree, number)
    cdef uint64_t place, home
    while table[gap] != number:
        gap = (gap + 1) & mask
    place = gap
    while True:
        place = (place + 1) & mask
        if table[place] == ABSENT:
            break
        home = home_of_node(tree, table[place]) if of_nodes else home_of_entry(tree, table[place])
        if ((place - home) & mask) >= ((place - gap) & mask):
            table[gap] = table[place]
            gap = place
    table[gap] = ABSENT


cdef inline bint is_node(const Tree* tree, uint32_t node) noexcept nogil:
    """Whether a node is in use. A deleted node links to itself."""
    return tree.max_nodes == 0 or link_at(tree, node).newer != node


cdef inline Status reserve_table(Tree* tree, bint of_nodes, int64_t n) noexcept nogil:
    """Make a hash table large enough for n nodes or entries; at least a third stays free."""
    cdef Buffer* buffer = &tree.node_table if of_nodes else &tree.entry_table
    cdef uint64_t* mask = &tree.node_mask if of_nodes else &tree.entry_mask
    cdef uint64_t size = mask[0] + 1 if buffer.data != NULL else FIRST_TABLE
    cdef int64_t top = tree.top_node if of_nodes else tree.top_entry
    cdef Buffer larger
    cdef int64_t i
    while 3 * <uint64_t>n > 2 * size:
        size *= 2
    if buffer.data != NULL and size == mask[0] + 1:
        return OK
    memset(&larger, 0, sizeof(Buffer))
    if resize(&tree.memory, &larger, size * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    memset(larger.data, 0xFF, size * sizeof(uint32_t))
    dispose(&tree.memory, buffer)
    buffer[0] = larger
    mask[0] = size - 1
    for i in range(top):
        if of_nodes:
            if i > 0 and is_node(tree, <uint32_t>i):
                enter_in_table(
                    <uint32_t*>larger.data, mask[0], home_of_node(tree, <uint32_t>i), <uint32_t>i
                )
        elif entry_at(tree, <uint32_t>i).node != ABSENT:
            enter_in_table(
                <uint32_t*>larger.data, mask[0], home_of_entry(tree, <uint32_t>i), <uint32_t>i
            )
    return OK
