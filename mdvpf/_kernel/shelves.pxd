# cython: language_level=3
"""Shelves: where the blocks of particles lie.

All blocks have the same length and lie in one array, in slots. A shelf is SHELF slots. Children are
put on free shelves in the order of particles; a shelf of parents becomes free as soon as the last
of its blocks was passed.
"""

from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcpy, memset

from mdvpf._kernel.constants cimport (
    BLOCK_HEADER, GROUP_BITS, NO_MEMORY, OK, SHELF, SHELF_BITS,
    Status,
)
from mdvpf._kernel.particles cimport block_in
from mdvpf._kernel.pool cimport dispose, resize
from mdvpf._kernel.types cimport Buffer, System


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
    cdef uint32_t* slot = <uint32_t*>system.stored.slot.data
    cdef uint32_t old_slot = 0
    cdef uint32_t n = 0
    cdef Buffer blocks
    cdef uint32_t* source
    cdef uint32_t* target
    cdef int64_t k
    blocks.data = NULL
    blocks.bytes = 0
    if resize(&system.memory, &blocks, system.stored.blocks.bytes // system.stride * stride) != OK:
        return NO_MEMORY
    for k in range(system.n_particles):
        if k > 0 and slot[k] == old_slot:  # shared with the particle before
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
    dispose(&system.memory, &system.stored.blocks)
    system.stored.blocks = blocks
    system.next_slot = n
    system.n_shelves = (n + SHELF - 1) >> SHELF_BITS
    system.n_free_shelves = 0
    system.state_capacity = capacity
    system.n_groups = groups_for(capacity)
    system.stride = stride
    return OK


cdef inline Status reserve_shelves(System* system, int64_t n_blocks) noexcept nogil:
    """Make room for that many more blocks. This only reserves addresses."""
    cdef size_t n = system.n_shelves - system.n_free_shelves
    n += (<size_t>n_blocks + SHELF - 1) >> SHELF_BITS
    if resize(&system.memory, &system.stored.free_shelves, n * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    return resize(
        &system.memory, &system.stored.blocks, n * SHELF * system.stride * sizeof(uint32_t)
    )


cdef inline uint32_t take_slot(System* system) noexcept nogil:
    """The slot after the one taken last, on the same shelf or on a free one."""
    cdef uint32_t slot = system.next_slot
    if slot & (SHELF - 1) == 0:
        if system.n_free_shelves:
            system.n_free_shelves -= 1
            slot = (<uint32_t*>system.stored.free_shelves.data)[system.n_free_shelves] << SHELF_BITS
        else:
            slot = system.n_shelves << SHELF_BITS
            system.n_shelves += 1
    system.next_slot = slot + 1
    return slot


cdef inline void free_shelf(System* system, uint32_t shelf) noexcept nogil:
    (<uint32_t*>system.stored.free_shelves.data)[system.n_free_shelves] = shelf
    system.n_free_shelves += 1
