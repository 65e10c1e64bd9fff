# cython: language_level=3
"""Stretches: the trees of labels that `positions.pxd` describes, and the use of addresses.

Stretches are numbered, and a number is reused when no key has an address in the stretch any more.
They are opened in rounds, in the order of their numbers. A round has about twice as many numbers as
are in use when it starts. So there are always free stretches, stretches opened one after the other
are in the same nodes, and the size of the trees is proportional to the number of keys. Before a
round starts, stretches without keys are dropped from the trees of all particles at once. Shared
nodes are therefore written in place, and nothing has to be allocated.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcmp, memcpy, memset

from mdvpf._kernel.constants cimport (
    BLOCK_CURRENT, NODE_BITS, NODE_SIZE, NODE_UNITS, NONE, NO_MEMORY, OK, STRETCH, STRETCH_BITS,
    Status,
)
from mdvpf._kernel.counts cimport children, new_record, own_node, release_group, release_tree
from mdvpf._kernel.labels cimport label_of
from mdvpf._kernel.merging cimport count_below, unmark_below
from mdvpf._kernel.particles cimport block_of, shares_block
from mdvpf._kernel.pool cimport at, pages_for, resize
from mdvpf._kernel.positions cimport address_of, open_labels, stretches_of, vacate
from mdvpf._kernel.types cimport Positions, Record, System, handle_t

cdef enum:
    FREE_STRETCHES = 16         # a round has twice the stretches in use and this many
    MOST_STRETCHES = 0x0FFFFFF0  # keeps all addresses below 2**32 - 1
    ALL_LIVE = 0xFFFF           # every address of the open stretch is used
    NO_STRETCH = 0xFFFFFFFFu    # no stretch is open; trees are being pruned

# Notes of nodes while the trees are pruned.
cdef enum:
    KEPT = 1
    EMPTY = 2


cdef inline uint32_t levels_for(uint32_t n_stretches) noexcept nogil:
    """Levels of nodes in a tree of `n_stretches` stretches."""
    cdef uint32_t levels = 0
    while (n_stretches - 1) >> (NODE_BITS * levels):
        levels += 1
    return levels


# ---- trees -------------------------------------------------------------------------------

cdef inline bint is_dead(const System* system, uint32_t stretch) noexcept nogil:
    """Whether the trees can drop a stretch: no key uses it, or its labels are in the blocks."""
    return stretch >= system.positions.n_stretches or stretch == system.positions.open \
        or (<const uint8_t*>system.stored.stretch_live.data)[stretch] == 0


cdef inline bint prune_below(
    System* system, handle_t* held, uint32_t level, uint32_t first
) noexcept nogil:
    """Drop dead stretches below a handle; return whether none is left.

    `first` is the number of the first stretch below the handle.
    """
    cdef handle_t* below
    cdef Record* node
    cdef bint is_empty = True
    cdef uint32_t i
    if held[0] == NONE:
        return True
    if level == 0:
        is_empty = is_dead(system, first)
        if is_empty:
            release_group(&system.pool, held[0])
            held[0] = NONE
        return is_empty
    node = <Record*>at(&system.pool, held[0])
    if node.note == NONE:
        below = children(&system.pool, held[0])
        for i in range(<uint32_t>NODE_SIZE):
            if not prune_below(
                system, &below[i], level - 1, first + (i << (NODE_BITS * (level - 1)))
            ):
                is_empty = False
        node.note = EMPTY if is_empty else KEPT
    is_empty = node.note == EMPTY
    if is_empty:  # every holder of the node drops it when its turn comes
        release_group(&system.pool, held[0])
        held[0] = NONE
    return is_empty


cdef inline void prune(System* system) noexcept nogil:
    """Drop stretches without keys from all trees."""
    cdef int64_t k
    for k in range(system.n_particles):
        if not shares_block(system, k):
            prune_below(
                system, stretches_of(system, block_of(system, k)), system.positions.levels, 0)
    for k in range(system.n_particles):
        unmark_below(
            &system.pool, stretches_of(system, block_of(system, k))[0], system.positions.levels)


cdef inline void add_level(System* system) noexcept nogil:
    """Put a node above every tree. `reserve_positions` has made room."""
    cdef handle_t* held
    cdef handle_t node
    cdef Record* root
    cdef int64_t k
    for k in range(system.n_particles):
        held = stretches_of(system, block_of(system, k))
        if shares_block(system, k) or held[0] == NONE:
            continue
        root = <Record*>at(&system.pool, held[0])
        if root.note == NONE:
            node = NONE
            own_node(&system.pool, &node)
            children(&system.pool, node)[0] = held[0]
            root.note = node
        else:
            node = root.note
            (<Record*>at(&system.pool, node)).refs += 1
            root.refs -= 1
        held[0] = node
    for k in range(system.n_particles):
        node = stretches_of(system, block_of(system, k))[0]
        if node != NONE:
            (<Record*>at(&system.pool, children(&system.pool, node)[0])).note = NONE
    system.positions.levels += 1


cdef inline void remove_level(System* system) noexcept nogil:
    """Remove the top node of every tree. Only its first child may be in use."""
    cdef handle_t* held
    cdef handle_t node, below
    cdef int64_t k
    for k in range(system.n_particles):
        held = stretches_of(system, block_of(system, k))
        if shares_block(system, k) or held[0] == NONE:
            continue
        node = held[0]
        below = children(&system.pool, node)[0]
        held[0] = below
        if below != NONE:
            (<Record*>at(&system.pool, below)).refs += 1
        release_tree(&system.pool, node, system.positions.levels)
    system.positions.levels -= 1


cdef inline size_t count_records_of_keys(System* system) noexcept nogil:
    """The number of records of stretches and of nodes above them."""
    cdef uint32_t levels = system.positions.levels
    cdef size_t n = 0
    cdef int64_t k
    if not system.positions.enabled:
        return 0
    for k in range(system.n_particles):
        n += count_below(&system.pool, stretches_of(system, block_of(system, k))[0], levels)
    for k in range(system.n_particles):
        unmark_below(&system.pool, stretches_of(system, block_of(system, k))[0], levels)
    return n


# ---- opening a stretch -------------------------------------------------------------------

cdef inline bint open_next(System* system, uint32_t first) noexcept nogil:
    """Open the first free stretch of the round from `first` on; return whether there is one."""
    cdef const uint8_t* live = <const uint8_t*>system.stored.stretch_live.data
    while first < system.positions.round_end and live[first]:
        first += 1
    system.positions.open_live = 0
    system.positions.open = <uint32_t>NO_STRETCH
    if first < system.positions.round_end:
        system.positions.open = first
        return True
    return False


cdef inline void start_round(System* system) noexcept nogil:
    """Drop stretches without keys, and set the length of the next round."""
    cdef Positions* positions = &system.positions
    cdef uint8_t* live = <uint8_t*>system.stored.stretch_live.data
    cdef uint32_t n_live = 0
    cdef uint32_t top = 0
    cdef uint32_t i, n
    for i in range(positions.n_stretches):
        if live[i]:
            n_live += 1
            top = i + 1
    prune(system)
    positions.round_end = 2 * n_live + positions.n_spare
    n = max(top, positions.round_end)
    if n > positions.n_stretches:
        memset(live + positions.n_stretches, 0, n - positions.n_stretches)
    positions.n_stretches = n
    while positions.levels < levels_for(n):
        add_level(system)
    while positions.levels > levels_for(n):
        remove_level(system)
    open_next(system, 0)


# ---- writing -----------------------------------------------------------------------------

cdef inline handle_t make_stretch(System* system, const uint32_t* labels) noexcept nogil:
    """Make a record of the labels of a stretch, with no references. It has the size of a node."""
    cdef handle_t handle = new_record(&system.pool, NODE_UNITS, 0, 0)
    memcpy(children(&system.pool, handle), labels, STRETCH * sizeof(uint32_t))
    return handle


cdef inline void attach(System* system, handle_t* held, handle_t stretch) noexcept nogil:
    """Attach the record of the open stretch to a tree."""
    cdef uint32_t level = system.positions.levels
    while level > 0:
        level -= 1
        own_node(&system.pool, held)
        held = &children(&system.pool, held[0])[
            (system.positions.open >> (NODE_BITS * level)) & (NODE_SIZE - 1)]
    release_group(&system.pool, held[0])  # left over from an earlier use of the number
    held[0] = stretch
    (<Record*>at(&system.pool, stretch)).refs += 1


cdef inline void close_stretch(System* system) noexcept nogil:
    """Give every particle a record of the open stretch, and open another stretch.

    Neighbouring particles often have the same labels. They then share the record, and the whole
    tree if they shared the tree without it.
    """
    cdef const uint32_t* previous = NULL  # labels of the previous particle
    cdef handle_t before = NONE         # its tree without the stretch
    cdef handle_t after = NONE          # its tree with the stretch
    cdef handle_t stretch = NONE
    cdef handle_t* held
    cdef handle_t root
    cdef uint32_t* labels
    cdef int64_t k
    for k in range(system.n_particles):
        if shares_block(system, k):
            continue
        held = stretches_of(system, block_of(system, k))
        labels = open_labels(system, block_of(system, k))
        root = held[0]
        if previous == NULL or memcmp(previous, labels, STRETCH * sizeof(uint32_t)) != 0:
            stretch = make_stretch(system, labels)
            attach(system, held, stretch)
        elif root == before and root != after:
            held[0] = after
            (<Record*>at(&system.pool, after)).refs += 1
            release_tree(&system.pool, root, system.positions.levels)
        else:
            attach(system, held, stretch)
        previous = labels
        before = root
        after = held[0]
    if not open_next(system, system.positions.open + 1):
        start_round(system)


cdef inline bint is_in_open(const System* system, uint32_t number) noexcept nogil:
    """Whether the address of a key is in the open stretch."""
    cdef uint32_t address = address_of(system, number)
    return address > 0 and (address - 1) >> STRETCH_BITS == system.positions.open


cdef inline Status reserve_positions(
    System* system, int64_t n_particles, size_t* n_pages
) noexcept nogil:
    """Make room for `write_positions`; pages that it may need are only added to `n_pages`."""
    cdef const Positions* positions = &system.positions
    cdef size_t n = 2 * <size_t>positions.n_stretches + FREE_STRETCHES
    if positions.open_live != ALL_LIVE or is_in_open(system, positions.active):
        return OK
    if n > MOST_STRETCHES or resize(&system.memory, &system.stored.stretch_live, n) != OK:
        return NO_MEMORY
    # Every particle may need a record of the stretch, the nodes above it, and one more level.
    n_pages[0] += pages_for(<size_t>n_particles * (positions.levels + 2), NODE_UNITS)
    return OK


cdef inline void write_positions(System* system, uint32_t emitted) noexcept nogil:
    """Write the position of the active key after its step, at its address or at a new one."""
    cdef Positions* positions = &system.positions
    cdef uint32_t* block
    cdef uint32_t index = 0
    cdef int64_t k
    if is_in_open(system, positions.active):
        index = (address_of(system, positions.active) - 1) & (STRETCH - 1)
    else:
        if positions.open_live == ALL_LIVE:
            close_stretch(system)
        while positions.open_live >> index & 1:
            index += 1
        vacate(system, positions.active)
        positions.open_live |= 1u << index
        (<uint8_t*>system.stored.stretch_live.data)[positions.open] += 1
        (<uint32_t*>system.stored.key_address.data)[positions.active] = 1 + (
            positions.open << STRETCH_BITS | index)
    if system.model.mealy:
        (<uint32_t*>system.stored.key_symbol.data)[positions.active] = emitted
    for k in range(system.n_particles):
        if not shares_block(system, k):
            block = block_of(system, k)
            open_labels(system, block)[index] = 1 + label_of(
                system, block, block[BLOCK_CURRENT] - 1)
