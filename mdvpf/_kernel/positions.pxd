# cython: language_level=3
"""Positions: the current state of every key in every particle.

The current state in a block is that of one key, the active one; steps use no other. The system has
an *address* for every key, the same for all particles. At that address each particle stores the
label of the key's current state. A step writes one label, at the address of its key. Labels are
therefore stored in the order in which keys were used. Those of keys that were not used for long are
the same in most particles, which inherited them from a common ancestor.

Sixteen addresses form a *stretch*. One stretch is open: its labels are in the blocks, which are
copied for children in any case. When it is full and another address is needed, each particle's
labels become a record in a tree, which is shared like the trees of columns, and a free stretch is
opened (`stretches.pxd`). A child copies only the positions in the block.

A position is stored as 1 + label, since labels do not change when states are released; 0 is the
start state. A system in which only key 0 was used has no addresses.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t

from mdvpf._kernel.constants cimport (
    BLOCK_CURRENT, BLOCK_LABELS, BLOCK_STATES, NODE_BITS, NODE_SIZE, NONE, STRETCH, STRETCH_BITS,
)
from mdvpf._kernel.counts cimport children
from mdvpf._kernel.labels cimport labels_in
from mdvpf._kernel.particles cimport block_of, shares_block
from mdvpf._kernel.types cimport Positions, Standing, System, handle_t


# ---- parts of a block --------------------------------------------------------------------

cdef inline handle_t* stretches_of(const System* system, uint32_t* block) noexcept nogil:
    """The handle of the tree of stretches."""
    return block + system.positions_offset


cdef inline uint32_t* open_labels(const System* system, uint32_t* block) noexcept nogil:
    """The positions of the open stretch."""
    return block + system.positions_offset + 1


# ---- keys --------------------------------------------------------------------------------

cdef inline uint32_t address_of(const System* system, uint32_t number) noexcept nogil:
    """1 + the address of a key; 0: the key has none and is in the start state."""
    if number >= system.positions.n_numbers:
        return 0
    return (<const uint32_t*>system.stored.key_address.data)[number]


cdef inline uint32_t symbol_of_key(const System* system, uint32_t number) noexcept nogil:
    """The last symbol of a key, which is part of its position in a Mealy machine."""
    if not system.model.mealy:
        return system.last_symbol
    if address_of(system, number) == 0:
        return system.model.missing
    return (<const uint32_t*>system.stored.key_symbol.data)[number]


cdef inline void vacate(System* system, uint32_t number) noexcept nogil:
    """Take the address of a key away, if it has one."""
    cdef Positions* positions = &system.positions
    cdef uint32_t address = address_of(system, number)
    if address == 0:
        return
    address -= 1
    (<uint8_t*>system.stored.stretch_live.data)[address >> STRETCH_BITS] -= 1
    if address >> STRETCH_BITS == positions.open:
        positions.open_live &= ~(1u << (address & (STRETCH - 1)))
    (<uint32_t*>system.stored.key_address.data)[number] = 0


# ---- reading -----------------------------------------------------------------------------

cdef inline uint32_t state_of_label(
    const System* system, const uint32_t* block, uint32_t label
) noexcept nogil:
    """1 + the state with a label; 0 if the particle has released it."""
    cdef const uint32_t* labels
    cdef uint32_t state = label
    cdef uint32_t low = 0
    cdef uint32_t high
    if system.model.real and block[BLOCK_LABELS] != NONE:
        labels = labels_in(system, block)
        high = labels[0]
        if label >= labels[1]:
            state = high + (label - labels[1])
        else:
            while low < high:
                state = (low + high) // 2
                if labels[2 + state] < label:
                    low = state + 1
                else:
                    high = state
            state = low
            if state == labels[0] or labels[2 + state] != label:
                return 0
    return state + 1 if state < block[BLOCK_STATES] else 0


cdef inline uint32_t position_at(
    const System* system, uint32_t* block, uint32_t address
) noexcept nogil:
    """The position that a particle has at an address: 1 + label, or 0."""
    cdef uint32_t stretch = address >> STRETCH_BITS
    cdef uint32_t level = system.positions.levels
    cdef handle_t handle
    if stretch == system.positions.open:
        return open_labels(system, block)[address & (STRETCH - 1)]
    handle = stretches_of(system, block)[0]
    while level > 0 and handle != NONE:
        level -= 1
        handle = children(&system.pool, handle)[(stretch >> (NODE_BITS * level)) & (NODE_SIZE - 1)]
    return 0 if handle == NONE else children(&system.pool, handle)[address & (STRETCH - 1)]


cdef inline uint32_t state_of_key(
    const System* system, uint32_t* block, uint32_t number
) noexcept nogil:
    """1 + the current state of a key; 0: the start state."""
    cdef uint32_t address = address_of(system, number)
    cdef uint32_t position
    if address == 0:
        return 0
    position = position_at(system, block, address - 1)
    return 0 if position == 0 else state_of_label(system, block, position - 1)


cdef inline Standing standing_of(
    const System* system, uint32_t* block, uint32_t state, uint32_t emitted, uint32_t number
) noexcept nogil:
    """The position of a key after the active key has moved to the state, which emitted a symbol.

    `emitted` is the column of that symbol.
    """
    cdef Standing standing
    if number == system.positions.active:
        standing.current = state + 1
        standing.symbol = emitted
    else:
        standing.current = state_of_key(system, block, number)
        standing.symbol = symbol_of_key(system, number)
    return standing


cdef inline void activate(System* system, uint32_t number) noexcept nogil:
    """Make a key the active one. Positions must be enabled."""
    cdef uint32_t* block
    cdef int64_t k
    for k in range(system.n_particles):
        if not shares_block(system, k):
            block = block_of(system, k)
            block[BLOCK_CURRENT] = state_of_key(system, block, number)
    system.last_symbol = symbol_of_key(system, number)
    system.positions.active = number


cdef inline void end_key(System* system, uint32_t number) noexcept nogil:
    """Return a key to the start state."""
    cdef int64_t k
    vacate(system, number)
    if number == system.positions.active:
        for k in range(system.n_particles):
            block_of(system, k)[BLOCK_CURRENT] = 0
