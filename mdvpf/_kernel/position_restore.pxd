# cython: language_level=3
"""Restoring the keys and their positions from untrusted sections: see `restore.pxd`.

Before the particles are made, `restore_keys` makes the tables of keys and the room in blocks. After
that, `restore_positions` makes the trees.
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy, memset

from mdvpf._kernel.constants cimport (
    BAD_SNAPSHOT, BLOCK_CURRENT, NO_MEMORY, NODE_BITS, NODE_SIZE, NODE_UNITS, OK, STRETCH,
    STRETCH_BITS,
    Status,
)
from mdvpf._kernel.counts cimport children, new_record
from mdvpf._kernel.keys cimport grow_numbers
from mdvpf._kernel.labels cimport n_labels_of
from mdvpf._kernel.particles cimport block_of
from mdvpf._kernel.pool cimport dispose, pages_for, reserve_pages, resize
from mdvpf._kernel.positions cimport open_labels, state_of_key, stretches_of
from mdvpf._kernel.restore_records cimport hold, n_words, reject
from mdvpf._kernel.sections cimport (
    COPIES, KEY_ADDRESS, KEY_STATE, KEY_SYMBOL, OPEN_LABELS, POSITION_BELOW, POSITION_LEVEL,
    POSITIONS, STRETCH_LIVE,
    Snapshot,
    has_keys, words,
)
from mdvpf._kernel.shelves cimport lay_out_anew
from mdvpf._kernel.stretches cimport MOST_STRETCHES, is_dead, levels_for
from mdvpf._kernel.types cimport Buffer, Positions, System, handle_t


# ---- keys --------------------------------------------------------------------------------

cdef inline Status check_key_lengths(const System* system, Snapshot* snapshot) noexcept nogil:
    cdef size_t n_numbers = <size_t>n_words(snapshot, KEY_ADDRESS)
    cdef size_t n_blocks = <size_t>n_words(snapshot, COPIES)
    cdef size_t n_records = snapshot.section[POSITION_LEVEL].bytes
    cdef size_t n_stretches = snapshot.section[STRETCH_LIVE].bytes
    if n_numbers < 1 or n_numbers > 0x7FFFFFFF \
            or snapshot.section[KEY_ADDRESS].bytes != n_numbers * sizeof(uint32_t) \
            or snapshot.section[KEY_SYMBOL].bytes != (
                n_numbers * sizeof(uint32_t) if system.model.mealy else 0) \
            or snapshot.section[KEY_STATE].bytes != 3 * sizeof(uint32_t):
        return reject(snapshot, "the sections of keys have the wrong length")
    if n_stretches < 1 or n_stretches > MOST_STRETCHES or n_records >= 0xFFFFFFFFu \
            or snapshot.section[OPEN_LABELS].bytes != n_blocks * STRETCH * sizeof(uint32_t) \
            or snapshot.section[POSITIONS].bytes != n_blocks * sizeof(uint32_t) \
            or snapshot.section[POSITION_BELOW].bytes != n_records * NODE_SIZE * sizeof(uint32_t):
        return reject(snapshot, "the sections of positions have the wrong length")
    if words(snapshot, KEY_STATE)[0] >= n_numbers:
        return reject(snapshot, "the active key does not exist")
    if words(snapshot, KEY_STATE)[1] >= words(snapshot, KEY_STATE)[2] \
            or words(snapshot, KEY_STATE)[2] > n_stretches:
        return reject(snapshot, "the open stretch is out of range")
    return OK


cdef inline Status check_addresses(
    const System* system, Snapshot* snapshot, uint16_t* used
) noexcept nogil:
    """Check that addresses are in range, different from each other, and counted by stretch."""
    cdef const uint32_t* address = words(snapshot, KEY_ADDRESS)
    cdef const uint8_t* live = <const uint8_t*>snapshot.section[STRETCH_LIVE].data
    cdef size_t n_stretches = snapshot.section[STRETCH_LIVE].bytes
    cdef uint32_t bit, i, n
    cdef int64_t k
    memset(used, 0, n_stretches * sizeof(uint16_t))
    for k in range(n_words(snapshot, KEY_ADDRESS)):
        if address[k] == 0:
            continue
        if (address[k] - 1) >> STRETCH_BITS >= n_stretches:
            return reject(snapshot, "an address is out of range")
        bit = 1u << ((address[k] - 1) & (STRETCH - 1))
        if used[(address[k] - 1) >> STRETCH_BITS] & bit:
            return reject(snapshot, "two keys have the same address")
        used[(address[k] - 1) >> STRETCH_BITS] |= <uint16_t>bit
        if system.model.mealy and words(snapshot, KEY_SYMBOL)[k] > system.model.n_symbols:
            return reject(snapshot, "the symbol of a key is out of range")
    for k in range(<int64_t>n_stretches):
        n = 0
        for i in range(<uint32_t>STRETCH):
            n += used[k] >> i & 1
        if live[k] != n:
            return reject(snapshot, "the numbers of addresses in stretches are wrong")
    return OK


cdef inline Status restore_keys(System* system, Snapshot* snapshot) noexcept nogil:
    """Set the keys of a new system from a snapshot, if it has any."""
    cdef Positions* positions = &system.positions
    cdef size_t n_stretches = snapshot.section[STRETCH_LIVE].bytes
    cdef Buffer used
    cdef Status status
    if not has_keys(snapshot):
        return OK
    if check_key_lengths(system, snapshot) != OK:
        return BAD_SNAPSHOT
    memset(&used, 0, sizeof(Buffer))
    if resize(&system.memory, &used, n_stretches * sizeof(uint16_t)) != OK:
        return NO_MEMORY
    status = check_addresses(system, snapshot, <uint16_t*>used.data)
    positions.active = words(snapshot, KEY_STATE)[0]
    positions.open = words(snapshot, KEY_STATE)[1]
    positions.round_end = words(snapshot, KEY_STATE)[2]
    if status == OK:
        positions.open_live = (<uint16_t*>used.data)[positions.open]
    dispose(&system.memory, &used)
    if status != OK:
        return status
    positions.n_stretches = <uint32_t>n_stretches
    positions.levels = levels_for(positions.n_stretches)
    if resize(&system.memory, &system.stored.key_address,
              snapshot.section[KEY_ADDRESS].bytes) != OK \
            or resize(&system.memory, &system.stored.key_symbol,
                      snapshot.section[KEY_SYMBOL].bytes) != OK \
            or resize(&system.memory, &system.stored.stretch_live, n_stretches) != OK:
        return NO_MEMORY
    grow_numbers(system, <uint32_t>n_words(snapshot, KEY_ADDRESS))
    memcpy(system.stored.key_address.data, snapshot.section[KEY_ADDRESS].data,
           snapshot.section[KEY_ADDRESS].bytes)
    if system.model.mealy:
        memcpy(system.stored.key_symbol.data, snapshot.section[KEY_SYMBOL].data,
               snapshot.section[KEY_SYMBOL].bytes)
    memcpy(system.stored.stretch_live.data, snapshot.section[STRETCH_LIVE].data, n_stretches)
    return lay_out_anew(system, system.state_capacity, system.root_size, True)


# ---- trees -------------------------------------------------------------------------------

# Work space of making the trees: arrays with one entry a record.
cdef struct Trees:
    Buffer space            # of all four arrays
    int64_t n
    handle_t* handles
    uint32_t* first         # 1 + the first stretch below the record; 0: not known yet
    uint32_t* fewest        # fewest labels of a particle that holds the record
    uint32_t* n_stretches   # stretches at or below the record


cdef inline Status reserve_trees(System* system, Snapshot* snapshot, Trees* trees) noexcept nogil:
    cdef size_t n = snapshot.section[POSITION_LEVEL].bytes
    memset(trees, 0, sizeof(Trees))
    if resize(&system.memory, &trees.space, 4 * n * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    trees.n = <int64_t>n
    trees.handles = <handle_t*>trees.space.data
    trees.first = trees.handles + n
    trees.fewest = trees.first + n
    trees.n_stretches = trees.fewest + n
    if n:
        memset(trees.first, 0, n * sizeof(uint32_t))
        memset(trees.fewest, 0xFF, n * sizeof(uint32_t))
        memset(trees.n_stretches, 0, n * sizeof(uint32_t))
    return reserve_pages(&system.pool, pages_for(n, NODE_UNITS))


cdef inline Status make_tree_records(
    System* system, Snapshot* snapshot, Trees* trees
) noexcept nogil:
    """Make the records. The children of a node must precede it and be one level below it."""
    cdef const uint8_t* level = <const uint8_t*>snapshot.section[POSITION_LEVEL].data
    cdef const uint32_t* below = words(snapshot, POSITION_BELOW)
    cdef int64_t k
    cdef uint32_t i
    for k in range(trees.n):
        trees.handles[k] = new_record(&system.pool, NODE_UNITS, 0, 0)
        if level[k] == 0:
            memcpy(children(&system.pool, trees.handles[k]), below, NODE_SIZE * sizeof(uint32_t))
            trees.n_stretches[k] = 1
        else:
            for i in range(<uint32_t>NODE_SIZE):
                if below[i] and (below[i] > k or level[below[i] - 1] + 1 != level[k]):
                    return reject(snapshot, "a node of positions has a child of the wrong level")
                if below[i]:
                    trees.n_stretches[k] += trees.n_stretches[below[i] - 1]
                if hold(system, snapshot, trees.handles, k, below[i],
                        &children(&system.pool, trees.handles[k])[i]) != OK:
                    return BAD_SNAPSHOT
        if trees.n_stretches[k] == 0 or trees.n_stretches[k] > system.positions.n_stretches:
            return reject(snapshot, "a node of positions has too few or too many stretches")
        below += NODE_SIZE
    return OK


cdef inline bint set_first(
    Trees* trees, uint32_t number, uint32_t first, uint32_t n_labels
) noexcept nogil:
    """Set the first stretch below a record; False if it was set to another one before."""
    if number == 0:
        return True
    trees.fewest[number - 1] = min(trees.fewest[number - 1], n_labels)
    if trees.first[number - 1] == 0:
        trees.first[number - 1] = first + 1
    return trees.first[number - 1] == first + 1


cdef inline Status check_trees(System* system, Snapshot* snapshot, Trees* trees) noexcept nogil:
    """Check, top down, that every record is held, at one location, and has labels in range."""
    cdef const uint8_t* level = <const uint8_t*>snapshot.section[POSITION_LEVEL].data
    cdef const uint32_t* below
    cdef uint32_t first, i
    cdef int64_t k
    for k in range(trees.n - 1, -1, -1):
        below = words(snapshot, POSITION_BELOW) + k * NODE_SIZE
        if trees.first[k] == 0:
            return reject(snapshot, "a record is not referenced")
        first = trees.first[k] - 1
        if level[k] == 0 and is_dead(system, first):
            return reject(snapshot, "there are positions in a stretch without keys")
        for i in range(<uint32_t>NODE_SIZE):
            if level[k] == 0:
                if below[i] > trees.fewest[k]:
                    return reject(snapshot, "a position is a label that its particle does not have")
            elif not set_first(trees, below[i], first + (i << (NODE_BITS * (level[k] - 1))),
                               trees.fewest[k]):
                return reject(snapshot, "a record is used at two locations")
    return OK


cdef inline Status hold_trees(System* system, Snapshot* snapshot, Trees* trees) noexcept nogil:
    """Set the trees of the particles, which must have all stretches with keys."""
    cdef const uint8_t* level = <const uint8_t*>snapshot.section[POSITION_LEVEL].data
    cdef const uint32_t* labels = words(snapshot, OPEN_LABELS)
    cdef uint32_t n_live = 0
    cdef uint32_t* block
    cdef uint32_t number, i
    cdef int64_t k = 0      # first particle of the entry
    cdef int64_t b
    for i in range(system.positions.n_stretches):
        n_live += not is_dead(system, i)
    for b in range(n_words(snapshot, COPIES)):
        block = block_of(system, k)
        k += words(snapshot, COPIES)[b]
        number = words(snapshot, POSITIONS)[b]
        if hold(system, snapshot, trees.handles, trees.n, number,
                stretches_of(system, block)) != OK:
            return BAD_SNAPSHOT
        if number and level[number - 1] != system.positions.levels:
            return reject(snapshot, "trees of positions have the wrong depth")
        if (trees.n_stretches[number - 1] if number else 0) != n_live:
            return reject(snapshot, "a particle lacks the position of a key")
        if not set_first(trees, number, 0, n_labels_of(system, block)):
            return reject(snapshot, "a record is used at two locations")
        for i in range(<uint32_t>STRETCH):
            if labels[b * STRETCH + i] > n_labels_of(system, block):
                return reject(snapshot, "a position is a label that its particle does not have")
            open_labels(system, block)[i] = labels[b * STRETCH + i]
    return OK


cdef inline Status check_current(System* system, Snapshot* snapshot) noexcept nogil:
    cdef uint32_t* block
    cdef int64_t k
    for k in range(system.n_particles):
        block = block_of(system, k)
        if block[BLOCK_CURRENT] != state_of_key(system, block, system.positions.active):
            return reject(snapshot, "a particle is not in the state of the active key")
    return OK


cdef inline Status restore_positions(System* system, Snapshot* snapshot) noexcept nogil:
    """Set the positions of the particles from a snapshot, if it has any."""
    cdef Trees trees
    cdef Status status
    if not has_keys(snapshot):
        return OK
    status = reserve_trees(system, snapshot, &trees)
    if status == OK:
        status = make_tree_records(system, snapshot, &trees)
    if status == OK:
        status = hold_trees(system, snapshot, &trees)
    if status == OK:
        status = check_trees(system, snapshot, &trees)
    if status == OK:
        status = check_current(system, snapshot)
    dispose(&system.memory, &trees.space)
    return status
