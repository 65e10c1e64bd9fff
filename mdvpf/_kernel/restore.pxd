# cython: language_level=3
"""Restoring: make a new system from an untrusted snapshot.

Every length, number, order and sum is checked before it is used. Any arrays therefore give either a
system that passes `verify` or an error status. The memory allocated is a small multiple of the
length of the arrays. How often states were entered, reference counts, and whether a symbol was ever
missing are not in a snapshot; they are computed.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memset

from mdvpf._kernel.constants cimport (
    BAD_SNAPSHOT, BLOCK_CURRENT, BLOCK_LEAF, NONE, NO_MEMORY, OK,
    Status,
)
from mdvpf._kernel.history cimport path_length, reserve_history
from mdvpf._kernel.labels cimport label_of, n_labels_of
from mdvpf._kernel.particles cimport block_of, column_of
from mdvpf._kernel.pool cimport dispose, resize
from mdvpf._kernel.position_restore cimport restore_keys, restore_positions
from mdvpf._kernel.reserve cimport grow_particles
from mdvpf._kernel.restore_particles cimport check_weights, make_particles
from mdvpf._kernel.restore_records cimport (
    Records, RestoreBuffers, check_lengths, n_words, make_groups, make_nodes, reject,
    reserve_groups, reserve_records,
)
from mdvpf._kernel.sections cimport (
    COPIES, GENERATIONS, LEAF, PARENT, STATE, WEIGHT, Snapshot, has_keys, words,
)
from mdvpf._kernel.shelves cimport move_blocks, reserve_shelves
from mdvpf._kernel.step cimport step
from mdvpf._kernel.step_ranked cimport Uniforms
from mdvpf._kernel.types cimport Buffer, History, Report, System


# ---- histories ---------------------------------------------------------------------------

cdef inline Status check_history(
    const System* system, Snapshot* snapshot, int64_t* n_nodes
) noexcept nogil:
    """Check the lengths of the sections of the history; set the number of nodes."""
    cdef int64_t n_generations = path_length(&system.history)
    cdef int64_t n_blocks = n_words(snapshot, COPIES)
    cdef uint32_t* sizes = words(snapshot, GENERATIONS)
    cdef int64_t n = 0
    cdef int64_t i
    n_nodes[0] = 0
    if not system.history.enabled or n_generations == 0:
        if snapshot.section[LEAF].bytes or snapshot.section[GENERATIONS].bytes \
                or snapshot.section[PARENT].bytes or snapshot.section[STATE].bytes:
            return reject(snapshot, "there is an unexpected history")
        return OK
    if n_words(snapshot, LEAF) != n_blocks \
            or snapshot.section[LEAF].bytes % sizeof(uint32_t) \
            or n_words(snapshot, GENERATIONS) != n_generations \
            or snapshot.section[GENERATIONS].bytes % sizeof(uint32_t):
        return reject(snapshot, "the history has the wrong length")
    for i in range(n_generations):
        if sizes[i] == 0 or sizes[i] > n_blocks:
            return reject(snapshot, "a generation has the wrong size")
        n += sizes[i]
    i = n - sizes[n_generations - 1]  # nodes that have a parent
    if n >= 0xFFFFFFFFu or snapshot.section[STATE].bytes != <size_t>n * sizeof(uint32_t) \
            or snapshot.section[PARENT].bytes != <size_t>i * sizeof(uint32_t):
        return reject(snapshot, "the history has the wrong number of nodes")
    n_nodes[0] = n
    return OK


cdef inline void chain(History* history, uint32_t node, int64_t generation) noexcept nogil:
    """Insert a node at the start of the chain of its generation."""
    cdef uint32_t* head = &(<uint32_t*>history.tree.heads.data)[generation % history.lag]
    (<uint32_t*>history.tree.next.data)[node] = head[0]
    (<uint32_t*>history.tree.previous.data)[node] = NONE
    if head[0] != NONE:
        (<uint32_t*>history.tree.previous.data)[head[0]] = node
    head[0] = node


cdef inline Status make_leaves(
    System* system, Snapshot* snapshot, uint32_t* fewest
) noexcept nogil:
    """Set the leaves of the particles."""
    cdef uint32_t* refs = <uint32_t*>system.history.tree.refs.data
    cdef uint32_t* block
    cdef uint32_t leaf
    cdef int64_t k = 0      # first particle of the entry
    cdef int64_t b
    for b in range(n_words(snapshot, COPIES)):
        block = block_of(system, k)
        k += words(snapshot, COPIES)[b]
        leaf = words(snapshot, LEAF)[b]
        if leaf >= words(snapshot, GENERATIONS)[0]:
            return reject(snapshot, "a leaf is out of range")
        # With several keys, the history ends in the state of the key that moved last.
        if not has_keys(snapshot) and block[BLOCK_CURRENT] \
                and words(snapshot, STATE)[leaf] != label_of(
                    system, block, block[BLOCK_CURRENT] - 1):
            return reject(snapshot, "a history does not end in the state of its particle")
        block[BLOCK_LEAF] = leaf + 1
        refs[leaf + 1] += 1
        fewest[leaf + 1] = min(fewest[leaf + 1], n_labels_of(system, block))
    return OK


cdef inline Status make_history(
    System* system, Snapshot* snapshot, Records* records
) noexcept nogil:
    """Make the history nodes: node i of the snapshot becomes node i + 1."""
    cdef History* history = &system.history
    cdef uint32_t* sizes = words(snapshot, GENERATIONS)
    cdef uint32_t* refs
    cdef uint32_t* fewest
    cdef int64_t n_generations, n_nodes, i, k
    cdef int64_t first = 0      # first node of the generation
    cdef int64_t after = 0      # first node of the next generation
    cdef uint32_t parent
    history.generation = system.n_steps if history.enabled else 0
    if check_history(system, snapshot, &n_nodes) != OK:
        return BAD_SNAPSHOT
    if n_nodes == 0:
        return OK
    if reserve_history(history, &system.memory, n_nodes) != OK:
        return NO_MEMORY
    if resize(&system.memory, &records.work.fewest, <size_t>(n_nodes + 1) * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    n_generations = path_length(history)
    refs = <uint32_t*>history.tree.refs.data
    fewest = <uint32_t*>records.work.fewest.data
    memset(refs, 0, <size_t>(n_nodes + 1) * sizeof(uint32_t))
    memset(fewest, 0xFF, <size_t>(n_nodes + 1) * sizeof(uint32_t))
    if make_leaves(system, snapshot, fewest) != OK:
        return BAD_SNAPSHOT
    for i in range(n_generations):
        after = first + sizes[i]
        if history.lag:
            (<uint32_t*>history.tree.heads.data)[(history.generation - i) % history.lag] = NONE
        for k in range(first, after):
            # All holders of a node precede it, so its references have been counted.
            if refs[k + 1] == 0:
                return reject(snapshot, "a history node is not referenced")
            if words(snapshot, STATE)[k] >= fewest[k + 1]:
                return reject(snapshot, "a history has a state that its particle does not have")
            parent = 0
            if i < n_generations - 1:
                parent = words(snapshot, PARENT)[k]
                if parent >= sizes[i + 1]:
                    return reject(snapshot, "a parent in a history is out of range")
                parent += <uint32_t>after + 1
                refs[parent] += 1
                fewest[parent] = min(fewest[parent], fewest[k + 1])
            (<uint32_t*>history.tree.parent.data)[k + 1] = parent
            (<uint32_t*>history.tree.state.data)[k + 1] = words(snapshot, STATE)[k]
            if history.lag:
                chain(history, <uint32_t>(k + 1), history.generation - i)
        first = after
    history.n_touched = <uint32_t>(n_nodes + 1)
    history.n_live = n_nodes
    return OK


# ---- the whole ---------------------------------------------------------------------------

cdef inline bint has_missing(const System* system) noexcept nogil:
    """Whether a missing symbol was ever absorbed."""
    cdef int64_t k
    for k in range(system.n_particles):
        if column_of(system, block_of(system, k), system.model.missing).n:
            return True
    return False


cdef inline Status restore_with(
    System* system, Snapshot* snapshot, Records* records
) noexcept nogil:
    cdef int64_t n
    cdef Status status = check_lengths(system, snapshot, records)
    if status != OK:
        return status
    n = <int64_t>(snapshot.section[WEIGHT].bytes // sizeof(double))
    status = check_weights(system, snapshot, n)
    if status == OK:
        status = restore_keys(system, snapshot)
    if status == OK:
        status = reserve_records(system, records)
    if status == OK:
        status = reserve_groups(system, snapshot, records)
    if status == OK:
        status = grow_particles(system, n)
    if status == OK:
        status = reserve_shelves(system, n_words(snapshot, COPIES))
    if status == OK and records.most_states > system.state_capacity:
        status = move_blocks(system, (records.most_states + 3) & ~3u)
    if status != OK:
        return status
    make_groups(system, snapshot, records)
    status = make_nodes(system, snapshot, records)
    if status == OK:
        status = make_particles(system, snapshot, records)
    if status == OK:
        status = restore_positions(system, snapshot)
    if status == OK:
        system.seen_missing = has_missing(system)
        status = make_history(system, snapshot, records)
    return status


cdef inline void dispose_records(System* system, Records* records) noexcept nogil:
    """Release the work space of restoring."""
    cdef size_t i
    for i in range(sizeof(RestoreBuffers) // sizeof(Buffer)):
        dispose(&system.memory, &(<Buffer*>&records.work)[i])


cdef inline Status restore(System* system, Snapshot* snapshot) noexcept nogil:
    """Set a new system, whose `n_steps` is set, to the state of a snapshot.

    After a failure the system can only be released.
    """
    cdef Records records
    cdef Status status
    memset(&records, 0, sizeof(Records))
    status = restore_with(system, snapshot, &records)
    dispose_records(system, &records)
    return status


cdef inline Status restore_pending(System* system, int32_t symbol) noexcept nogil:
    """Make a symbol pending again, as it was when the committed particles were saved.

    The step on the symbol gives the same provisional particles. A budget above the number of
    candidates has no effect on them, so a smaller one is used, to keep the work space small.
    """
    cdef int64_t budget = system.budget
    cdef Uniforms none
    cdef Report report
    cdef Status status
    none.values = NULL
    none.n = 0
    none.used = 0
    system.budget = min(budget, system.n_candidates)
    status = step(system, symbol, system.positions.active, 0.0, &none, &report)
    system.budget = budget
    return status
