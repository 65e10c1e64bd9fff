# cython: language_level=3
"""Room: all that the children of a step may need is made before the first of them is."""

from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcpy, memset

from mdvpf._kernel.history cimport reserve_history
from mdvpf._kernel.particles cimport block_in, block_of, into_of
from mdvpf._kernel.pool cimport dispose, pages_for, reserve_pages, resize
from mdvpf._kernel.shared_updates cimport reserve_changes
from mdvpf._kernel.types cimport (
    ALGORITHM_MDVPA, BLOCK_HEADER, BLOCK_STATES, COUNT_LIMIT, GROUP_BITS, NO_MEMORY, NODE_UNITS,
    OK, SHELF, SHELF_BITS,
    Buffer, Status, Survivors, System,
)

cdef inline uint32_t groups_for(uint32_t capacity) noexcept nogil:
    """Groups of transition rows of a particle with that many states and the start state."""
    return (capacity >> GROUP_BITS) + 1


cdef inline uint32_t stride_for(const System* system, uint32_t capacity) noexcept nogil:
    # Even, since a block holds a double.
    return (BLOCK_HEADER + capacity + groups_for(capacity) + system.root_size + 1) & ~1u


cdef inline Status move_blocks(System* system, uint32_t capacity) noexcept nogil:
    """Move the blocks to a new array, shelf after shelf, with room for `capacity` states each."""
    cdef uint32_t stride = stride_for(system, capacity)
    cdef uint32_t old_capacity = system.state_capacity
    cdef uint32_t* slot = <uint32_t*>system.slot.data
    cdef uint32_t old_slot = 0
    cdef uint32_t n = 0
    cdef Buffer blocks
    cdef uint32_t* source
    cdef uint32_t* target
    cdef int64_t k
    blocks.data = NULL
    blocks.bytes = 0
    if resize(&system.memory, &blocks, system.blocks.bytes // system.stride * stride) != OK:
        return NO_MEMORY
    for k in range(system.n_particles):
        if k > 0 and slot[k] == old_slot:  # a copy of the particle before
            slot[k] = n - 1
            continue
        old_slot = slot[k]
        source = block_in(system, old_slot)
        target = <uint32_t*>blocks.data + <size_t>n * stride
        slot[k] = n
        n += 1
        memset(target, 0, stride * sizeof(uint32_t))
        memcpy(target, source, (BLOCK_HEADER + old_capacity) * sizeof(uint32_t))
        memcpy(target + BLOCK_HEADER + capacity, source + BLOCK_HEADER + old_capacity,
               system.n_groups * sizeof(uint32_t))
        memcpy(target + BLOCK_HEADER + capacity + groups_for(capacity),
               source + BLOCK_HEADER + old_capacity + system.n_groups,
               system.root_size * sizeof(uint32_t))
    dispose(&system.memory, &system.blocks)
    system.blocks = blocks
    system.next_slot = n
    system.n_shelves = (n + SHELF - 1) >> SHELF_BITS
    system.n_free_shelves = 0
    system.state_capacity = capacity
    system.n_groups = groups_for(capacity)
    system.stride = stride
    return OK


cdef inline Status grow_particles(System* system, int64_t n_particles) noexcept nogil:
    """Make room for what is kept of every particle beside its block, which copies share."""
    cdef size_t n = <size_t>n_particles
    if resize(&system.memory, &system.slot, n * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &system.ancestors, n * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &system.weight, n * sizeof(double)) != OK:
        return NO_MEMORY
    return resize(&system.memory, &system.log_weight, n * sizeof(double))


cdef inline Status reserve_each(System* system, int64_t n_particles) noexcept nogil:
    """Make room for what a step finds out about every particle."""
    cdef size_t n = <size_t>n_particles
    if resize(&system.memory, &system.new_slot, n * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &system.n_children, n * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    return resize(&system.memory, &system.future, n * sizeof(double))


cdef inline Status reserve_shelves(System* system, int64_t n_blocks) noexcept nogil:
    """Make room for so many blocks beside those that there are. This only claims addresses."""
    cdef size_t n = system.n_shelves - system.n_free_shelves
    n += (<size_t>n_blocks + SHELF - 1) >> SHELF_BITS
    if resize(&system.memory, &system.free_shelves, n * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    return resize(
        &system.memory, &system.blocks, n * SHELF * system.stride * sizeof(uint32_t)
    )


cdef inline uint32_t take_slot(System* system) noexcept nogil:
    """The slot after the one taken last, on the same shelf or on a free one."""
    cdef uint32_t slot = system.next_slot
    if slot & (SHELF - 1) == 0:
        if system.n_free_shelves:
            system.n_free_shelves -= 1
            slot = (<uint32_t*>system.free_shelves.data)[system.n_free_shelves] << SHELF_BITS
        else:
            slot = system.n_shelves << SHELF_BITS
            system.n_shelves += 1
    system.next_slot = slot + 1
    return slot


cdef inline void free_shelf(System* system, uint32_t shelf) noexcept nogil:
    (<uint32_t*>system.free_shelves.data)[system.n_free_shelves] = shelf
    system.n_free_shelves += 1


cdef inline Status reserve_survivors(System* system, Survivors* chosen, int64_t n) noexcept nogil:
    if resize(&system.memory, &chosen.parent, <size_t>n * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &chosen.state, <size_t>n * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &chosen.weight, <size_t>n * sizeof(double)) != OK:
        return NO_MEMORY
    return resize(&system.memory, &chosen.log_weight, <size_t>n * sizeof(double))


cdef inline Status check_limits(const System* system, const Survivors* chosen) noexcept nogil:
    """Whether every count that the chosen would raise can be one larger.

    No count of a state is larger than how often it was entered, and that is at most the number
    of steps, so this is hardly ever looked into. MD-VPA shows one step more than it commits.
    """
    cdef uint32_t largest = 0xFFFFFFFFu - (system.algorithm == ALGORITHM_MDVPA)
    cdef uint32_t state
    cdef uint32_t* block
    cdef int64_t i
    if system.n_steps < largest:
        return OK
    for i in range(chosen.n):
        block = block_of(system, (<const uint32_t*>chosen.parent.data)[i])
        state = (<const uint32_t*>chosen.state.data)[i]
        if state < block[BLOCK_STATES] and into_of(system, block)[state] >= largest:
            return COUNT_LIMIT
    return OK


cdef inline Status reserve_commit(System* system, const Survivors* chosen) noexcept nogil:
    """Make all the room that `commit` may take."""
    cdef const uint32_t* states = <const uint32_t*>chosen.state.data
    cdef uint32_t most_states = 0
    cdef uint32_t capacity, growth
    cdef int64_t n, i
    if check_limits(system, chosen) != OK:
        return COUNT_LIMIT
    n = max(chosen.n, system.n_particles)
    if grow_particles(system, n) != OK or reserve_each(system, n) != OK:
        return NO_MEMORY
    if reserve_shelves(system, chosen.n) != OK:
        return NO_MEMORY
    if reserve_changes(&system.changes, &system.memory, <size_t>chosen.n) != OK:
        return NO_MEMORY
    for i in range(chosen.n):
        most_states = states[i] + 1 if states[i] >= most_states else most_states
    # A child takes at most two groups and a path of nodes. A group grows by a pair, and to twice
    # its width, or four times if the number of a state needs four bytes.
    growth = 2 if most_states < 65536 else 4
    if reserve_pages(
        &system.pool,
        pages_for(2 * <size_t>chosen.n, growth * system.pool.largest + 4)
        + pages_for((system.depth - 1) * <size_t>chosen.n, NODE_UNITS),
    ) != OK:
        return NO_MEMORY
    if reserve_history(&system.history, &system.memory, chosen.n) != OK:
        return NO_MEMORY
    if most_states > system.state_capacity:
        capacity = most_states + most_states // 8
        return move_blocks(system, (capacity + 3) & ~3u)
    return OK
