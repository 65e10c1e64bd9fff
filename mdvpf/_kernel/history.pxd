# cython: language_level=3
"""Histories: the tree of the particles' paths, pruned where a particle has no descendants.

A history node is one state on the path of one or more particles; its parent is the state before it.
Every particle holds its leaf. A node that nobody holds is freed, and so is every ancestor that only
it held. With a lag L, all nodes of the generation L steps back are freed at once, held or not,
since no path is read further back.
"""

from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memset

from mdvpf._kernel.constants cimport NO_MEMORY, NONE, OK, Status
from mdvpf._kernel.pool cimport resize
from mdvpf._kernel.types cimport History, Memory


cdef inline Status reserve_history(
    History* history, Memory* memory, int64_t n_nodes
) noexcept nogil:
    """Make room for one more generation of `n_nodes` nodes."""
    cdef size_t nodes, heads
    if not history.enabled:
        return OK
    # Freed nodes are reused first, so there is no need for more than the live and the new nodes.
    nodes = <size_t>(history.n_live + n_nodes + 1)
    if nodes < history.n_touched:
        nodes = history.n_touched
    if nodes > 0xFFFFFFFFu:
        return NO_MEMORY
    nodes *= sizeof(uint32_t)
    if resize(memory, &history.tree.parent, nodes) != OK:
        return NO_MEMORY
    if resize(memory, &history.tree.refs, nodes) != OK:
        return NO_MEMORY
    if resize(memory, &history.tree.state, nodes) != OK:
        return NO_MEMORY
    if history.lag:
        if resize(memory, &history.tree.next, nodes) != OK:
            return NO_MEMORY
        if resize(memory, &history.tree.previous, nodes) != OK:
            return NO_MEMORY
        heads = <size_t>(history.generation + 2 if history.generation + 2 < history.lag
                         else history.lag)
        return resize(memory, &history.tree.heads, heads * sizeof(uint32_t))
    return OK


cdef inline void free_node(History* history, uint32_t node, int64_t generation) noexcept nogil:
    cdef uint32_t* following
    cdef uint32_t* previous
    if history.lag:
        following = <uint32_t*>history.tree.next.data
        previous = <uint32_t*>history.tree.previous.data
        if following[node] != NONE:
            previous[following[node]] = previous[node]
        if previous[node] != NONE:
            following[previous[node]] = following[node]
        else:
            (<uint32_t*>history.tree.heads.data)[generation % history.lag] = following[node]
    (<uint32_t*>history.tree.parent.data)[node] = history.freed
    history.freed = node
    history.n_live -= 1


cdef inline int64_t oldest_generation(const History* history) noexcept nogil:
    """The generation whose nodes have no parent: the first, or the oldest within the lag."""
    if history.lag and history.generation > history.lag:
        return history.generation - history.lag + 1
    return 1


cdef inline void hold_leaf(History* history, uint32_t leaf) noexcept nogil:
    if leaf != NONE:
        (<uint32_t*>history.tree.refs.data)[leaf] += 1


cdef inline void release_leaf(
    History* history, uint32_t leaf, int64_t generation
) noexcept nogil:
    """Release a node of the given generation; free it and the ancestors that only it held."""
    cdef uint32_t* refs = <uint32_t*>history.tree.refs.data
    cdef uint32_t node = leaf
    cdef uint32_t parent
    cdef int64_t oldest = oldest_generation(history)
    while node != NONE:
        refs[node] -= 1
        if refs[node] > 0:
            return
        parent = (<uint32_t*>history.tree.parent.data)[node]
        free_node(history, node, generation)
        if generation <= oldest:
            return
        generation -= 1
        node = parent


cdef inline void begin_generation(History* history) noexcept nogil:
    """Start the generation of a new step; with a lag, free the generation that leaves it."""
    cdef int64_t leaving
    cdef uint32_t* heads
    if not history.enabled:
        return
    history.generation += 1
    if history.lag:
        heads = <uint32_t*>history.tree.heads.data
        leaving = history.generation - history.lag
        if leaving >= 1:
            while heads[leaving % history.lag] != NONE:
                free_node(history, heads[leaving % history.lag], leaving)
        heads[history.generation % history.lag] = NONE


cdef inline uint32_t append_node(History* history, uint32_t parent, uint32_t state) noexcept nogil:
    """Make a node of the present generation, held once, that holds its parent."""
    cdef uint32_t node = history.freed
    cdef uint32_t* following
    cdef uint32_t* head
    if node != NONE:
        history.freed = (<uint32_t*>history.tree.parent.data)[node]
    else:
        node = history.n_touched
        history.n_touched += 1
    (<uint32_t*>history.tree.parent.data)[node] = parent
    if history.lag != 1:  # with a lag of 1 the parent is gone already
        hold_leaf(history, parent)
    (<uint32_t*>history.tree.refs.data)[node] = 1
    (<uint32_t*>history.tree.state.data)[node] = state
    if history.lag:
        following = <uint32_t*>history.tree.next.data
        head = &(<uint32_t*>history.tree.heads.data)[history.generation % history.lag]
        following[node] = head[0]
        (<uint32_t*>history.tree.previous.data)[node] = NONE
        if head[0] != NONE:
            (<uint32_t*>history.tree.previous.data)[head[0]] = node
        head[0] = node
    history.n_live += 1
    return node


cdef inline void number_nodes(const History* history, uint32_t* numbers) noexcept nogil:
    """Number the live nodes from 1, in their present order; freed nodes get 0."""
    cdef uint32_t node = history.freed
    cdef uint32_t n = 0
    memset(numbers, 0xFF, history.n_touched * sizeof(uint32_t))
    numbers[NONE] = NONE
    while node != NONE:
        numbers[node] = NONE
        node = (<const uint32_t*>history.tree.parent.data)[node]
    for node in range(1, history.n_touched):
        if numbers[node] != NONE:
            n += 1
            numbers[node] = n


cdef inline void pack_nodes(History* history, uint32_t* numbers) noexcept nogil:
    """Move the live nodes to the front of the arrays.

    The new numbers are left in `numbers`, which has room for all nodes. The parents of the oldest
    generation within a lag are undefined, before and after.
    """
    cdef uint32_t* parent = <uint32_t*>history.tree.parent.data
    cdef uint32_t* refs = <uint32_t*>history.tree.refs.data
    cdef uint32_t* state = <uint32_t*>history.tree.state.data
    cdef uint32_t* following = <uint32_t*>history.tree.next.data
    cdef uint32_t* previous = <uint32_t*>history.tree.previous.data
    cdef uint32_t* head
    cdef uint32_t node, number
    cdef int64_t generation
    number_nodes(history, numbers)
    for node in range(1, history.n_touched):
        number = numbers[node]
        if number == NONE:
            continue
        parent[number] = numbers[parent[node]]
        refs[number] = refs[node]
        state[number] = state[node]
        if history.lag:
            following[number] = numbers[following[node]]
            previous[number] = numbers[previous[node]]
    if history.lag:
        for generation in range(oldest_generation(history), history.generation + 1):
            head = &(<uint32_t*>history.tree.heads.data)[generation % history.lag]
            head[0] = numbers[head[0]]
    history.n_touched = <uint32_t>history.n_live + 1
    history.freed = NONE


cdef inline int64_t path_length(const History* history) noexcept nogil:
    if history.lag and history.generation > history.lag:
        return history.lag
    return history.generation


cdef inline void write_path(
    const History* history, uint32_t leaf, int64_t length, int64_t* out
) noexcept nogil:
    """Write the last `length` states of the path that ends in the leaf."""
    cdef uint32_t node = leaf
    while length > 0:
        length -= 1
        out[length] = (<uint32_t*>history.tree.state.data)[node]
        node = (<uint32_t*>history.tree.parent.data)[node]
