# cython: language_level=3
"""Keys: room for new keys.

With the first key other than 0, blocks get a new layout, with room for positions. The position of
key 0 is kept.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memset

from mdvpf._kernel.buffers cimport make_room
from mdvpf._kernel.constants cimport BLOCK_CURRENT, NO_MEMORY, OK, Status
from mdvpf._kernel.labels cimport label_of
from mdvpf._kernel.particles cimport block_of, shares_block
from mdvpf._kernel.positions cimport open_labels
from mdvpf._kernel.shelves cimport lay_out_anew
from mdvpf._kernel.stretches cimport levels_for
from mdvpf._kernel.types cimport Positions, System


cdef inline void write_first_position(System* system) noexcept nogil:
    """Give key 0 an address, unless it is in the start state in all particles."""
    cdef uint32_t* block
    cdef uint32_t current
    cdef bint is_at_start = True
    cdef int64_t k
    for k in range(system.n_particles):
        if shares_block(system, k):
            continue
        block = block_of(system, k)
        current = block[BLOCK_CURRENT]
        open_labels(system, block)[0] = 1 + label_of(system, block, current - 1) if current else 0
        is_at_start = is_at_start and current == 0
    if is_at_start:
        return
    system.positions.open_live = 1
    (<uint8_t*>system.stored.stretch_live.data)[0] = 1
    (<uint32_t*>system.stored.key_address.data)[0] = 1
    if system.model.mealy:
        (<uint32_t*>system.stored.key_symbol.data)[0] = system.last_symbol


cdef inline void grow_numbers(System* system, uint32_t n) noexcept nogil:
    """Extend the tables of keys to n numbers, with new keys in the start state."""
    cdef Positions* positions = &system.positions
    if n > positions.n_numbers:
        memset(<uint32_t*>system.stored.key_address.data + positions.n_numbers, 0,
               (n - positions.n_numbers) * sizeof(uint32_t))
        if system.model.mealy:
            memset(<uint32_t*>system.stored.key_symbol.data + positions.n_numbers, 0,
                   (n - positions.n_numbers) * sizeof(uint32_t))
        positions.n_numbers = n


cdef inline Status reserve_key(System* system, uint32_t number) noexcept nogil:
    """Make room for a key. It may be the first one other than 0."""
    cdef Positions* positions = &system.positions
    cdef size_t n = <size_t>number + 1
    if not make_room(system, &system.stored.key_address, n, sizeof(uint32_t)):
        return NO_MEMORY
    if system.model.mealy \
            and not make_room(system, &system.stored.key_symbol, n, sizeof(uint32_t)):
        return NO_MEMORY
    if not positions.enabled:
        if not make_room(system, &system.stored.stretch_live, positions.n_spare, 1) \
                or lay_out_anew(
                    system, system.state_capacity, system.root_size, True) != OK:
            return NO_MEMORY
        positions.n_stretches = positions.n_spare
        positions.round_end = positions.n_spare
        positions.levels = levels_for(positions.n_spare)
        memset(system.stored.stretch_live.data, 0, positions.n_spare)
        grow_numbers(system, 1)
        write_first_position(system)
    grow_numbers(system, <uint32_t>n)
    return OK
