# cython: language_level=3
"""Shelves: the array of blocks.

All blocks have the same length. The array has a slot for each block, and a shelf is SHELF slots.
Children are written to free shelves in the order of particles. A shelf of parents becomes free as
soon as its last block was read.
"""

from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcpy, memset

from mdvpf._kernel.constants cimport (
    BLOCK_HEADER, BLOCK_STATES, NO_MEMORY, OK, SHELF, SHELF_BITS, STRETCH,
    Status,
)
from mdvpf._kernel.particles cimport block_in, row_handles, used_groups
from mdvpf._kernel.pool cimport dispose, resize
from mdvpf._kernel.types cimport Buffer, System


cdef inline uint32_t words_a_state(const System* system) noexcept nogil:
    """How many words a block has for each state, handles not counted."""
    return (2 if system.model.by_rows else 1) + (system.numbers.n_channels > 0)


cdef inline void lay_out(System* system, uint32_t capacity) noexcept nogil:
    """Set the offsets of a block with room for so many states."""
    system.state_capacity = capacity
    system.n_groups = row_handles(system, capacity)
    system.rows_offset = BLOCK_HEADER + capacity * words_a_state(system)
    system.root_offset = system.rows_offset + system.n_groups
    system.positions_offset = system.root_offset + system.root_size
    system.stride = system.positions_offset
    if system.positions.enabled:
        system.stride += 1 + STRETCH
    system.stride = (system.stride + 1) & ~1u  # even, since a block contains a double


cdef inline Status lay_out_anew(
    System* system, uint32_t capacity, uint32_t root_size, bint has_positions
) noexcept nogil:
    """Move the blocks to consecutive slots of a new array, with a new layout.

    If the root of the symbol tree shrinks, the handles that are cut off must be NONE.
    """
    cdef uint32_t* slot = <uint32_t*>system.stored.slot.data
    cdef uint32_t old_slot = 0
    cdef uint32_t n = 0
    cdef uint32_t i
    cdef System moved = system[0]
    cdef Buffer blocks
    cdef uint32_t* source
    cdef uint32_t* target
    cdef int64_t k
    blocks.data = NULL
    blocks.bytes = 0
    moved.root_size = root_size
    moved.positions.enabled = has_positions
    lay_out(&moved, capacity)
    if resize(
        &system.memory, &blocks, system.stored.blocks.bytes // system.stride * moved.stride
    ) != OK:
        return NO_MEMORY
    for k in range(system.n_particles):
        if k > 0 and slot[k] == old_slot:  # shared with the particle before
            slot[k] = n - 1
            continue
        old_slot = slot[k]
        source = block_in(system, old_slot)
        target = <uint32_t*>blocks.data + <size_t>n * moved.stride
        slot[k] = n
        n += 1
        memset(target, 0, moved.stride * sizeof(uint32_t))
        memcpy(target, source, BLOCK_HEADER * sizeof(uint32_t))
        for i in range(words_a_state(system)):
            memcpy(target + BLOCK_HEADER + i * capacity,
                   source + BLOCK_HEADER + i * system.state_capacity,
                   source[BLOCK_STATES] * sizeof(uint32_t))
        memcpy(target + moved.rows_offset, source + system.rows_offset,
               used_groups(system, source) * sizeof(uint32_t))
        memcpy(target + moved.root_offset, source + system.root_offset,
               min(system.root_size, root_size) * sizeof(uint32_t))
        if system.positions.enabled:
            memcpy(target + moved.positions_offset, source + system.positions_offset,
                   (1 + STRETCH) * sizeof(uint32_t))
    dispose(&system.memory, &system.stored.blocks)
    system.stored.blocks = blocks
    system.next_slot = n
    system.n_shelves = (n + SHELF - 1) >> SHELF_BITS
    system.n_free_shelves = 0
    system.root_size = root_size
    system.positions.enabled = has_positions
    lay_out(system, capacity)
    return OK


cdef inline Status move_blocks(System* system, uint32_t capacity) noexcept nogil:
    """Move the blocks to consecutive slots, with room for `capacity` states each."""
    return lay_out_anew(system, capacity, system.root_size, system.positions.enabled)


cdef inline Status reserve_shelves(System* system, int64_t n_blocks) noexcept nogil:
    """Make room for `n_blocks` more blocks. This only reserves addresses."""
    cdef size_t n = system.n_shelves - system.n_free_shelves
    n += (<size_t>n_blocks + SHELF - 1) >> SHELF_BITS
    if resize(&system.memory, &system.stored.free_shelves, n * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    return resize(
        &system.memory, &system.stored.blocks, n * SHELF * system.stride * sizeof(uint32_t)
    )


cdef inline uint32_t take_slot(System* system) noexcept nogil:
    """Take the next slot of the shelf being filled, or the first slot of a free shelf."""
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
