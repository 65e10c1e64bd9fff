# cython: language_level=3
"""The sections of keys and their positions in a snapshot: see `sections.pxd`.

Snapshots have them if a key other than 0 was used. The records of stretches and the nodes above
them are numbered from 1; a node comes after the records that it holds. Stretches without keys are
not written.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcpy, memset

from mdvpf._kernel.constants cimport (
    NO_MEMORY, NODE_SIZE, NONE, OK, PAGE_BITS, PAGE_UNITS, STRETCH,
    Status,
)
from mdvpf._kernel.counts cimport children
from mdvpf._kernel.particles cimport block_of, shares_block
from mdvpf._kernel.pool cimport dispose, resize
from mdvpf._kernel.positions cimport open_labels, stretches_of
from mdvpf._kernel.sections cimport (
    KEY_ADDRESS, KEY_STATE, KEY_SYMBOL, N_SECTIONS, OPEN_LABELS, POSITION_BELOW, POSITION_LEVEL,
    POSITIONS, STRETCH_LIVE,
    Snapshot,
    words,
)
from mdvpf._kernel.snapshot cimport Numbering, count_blocks, number_of
from mdvpf._kernel.stretches cimport count_records_of_keys, prune
from mdvpf._kernel.types cimport Positions, System, handle_t


cdef inline void write_tree(
    const System* system, Numbering* numbering, Snapshot* snapshot, handle_t handle, uint32_t level
) noexcept nogil:
    """Number and write a record, after those that it holds, unless it has a number."""
    cdef uint32_t* below
    cdef uint32_t i
    if handle == NONE or number_of(numbering, handle):
        return
    if level > 0:
        for i in range(<uint32_t>NODE_SIZE):
            write_tree(system, numbering, snapshot, children(&system.pool, handle)[i], level - 1)
    (<uint8_t*>snapshot.section[POSITION_LEVEL].data)[numbering.n] = <uint8_t>level
    below = words(snapshot, POSITION_BELOW) + numbering.n * NODE_SIZE
    for i in range(<uint32_t>NODE_SIZE):
        below[i] = children(&system.pool, handle)[i]
        if level > 0:
            below[i] = number_of(numbering, below[i])
    numbering.n += 1
    (<uint32_t*>numbering.number.data)[handle - PAGE_UNITS] = <uint32_t>numbering.n


cdef inline Status reserve_key_sections(
    System* system, Numbering* numbering, Snapshot* snapshot
) noexcept nogil:
    cdef size_t n_records = count_records_of_keys(system)
    cdef size_t n_blocks = count_blocks(system)
    cdef size_t n_numbers = system.positions.n_numbers
    cdef size_t units = (<size_t>system.pool.n_pages - 1) << PAGE_BITS
    cdef size_t[N_SECTIONS] bytes
    cdef uint32_t i
    memset(bytes, 0, sizeof(bytes))
    bytes[KEY_ADDRESS] = n_numbers * sizeof(uint32_t)
    bytes[KEY_SYMBOL] = n_numbers * sizeof(uint32_t) if system.model.mealy else 0
    bytes[KEY_STATE] = 3 * sizeof(uint32_t)
    bytes[STRETCH_LIVE] = system.positions.n_stretches
    bytes[OPEN_LABELS] = n_blocks * STRETCH * sizeof(uint32_t)
    bytes[POSITIONS] = n_blocks * sizeof(uint32_t)
    bytes[POSITION_LEVEL] = n_records
    bytes[POSITION_BELOW] = n_records * NODE_SIZE * sizeof(uint32_t)
    for i in range(<uint32_t>KEY_ADDRESS, <uint32_t>N_SECTIONS):
        if bytes[i] and resize(&system.memory, &snapshot.section[i], bytes[i]) != OK:
            return NO_MEMORY
    if resize(&system.memory, &numbering.number, units * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    if units:
        memset(numbering.number.data, 0, units * sizeof(uint32_t))
    return OK


cdef inline Status write_keys(System* system, Snapshot* snapshot) noexcept nogil:
    """Add the sections of keys to a snapshot."""
    cdef const Positions* positions = &system.positions
    cdef Numbering numbering
    cdef uint32_t* block
    cdef int64_t b = 0
    cdef int64_t k
    memset(&numbering, 0, sizeof(Numbering))
    prune(system)
    if reserve_key_sections(system, &numbering, snapshot) != OK:
        dispose(&system.memory, &numbering.number)
        return NO_MEMORY
    memcpy(snapshot.section[KEY_ADDRESS].data, system.stored.key_address.data,
           snapshot.section[KEY_ADDRESS].bytes)
    if system.model.mealy:
        memcpy(snapshot.section[KEY_SYMBOL].data, system.stored.key_symbol.data,
               snapshot.section[KEY_SYMBOL].bytes)
    words(snapshot, KEY_STATE)[0] = positions.active
    words(snapshot, KEY_STATE)[1] = positions.open
    words(snapshot, KEY_STATE)[2] = positions.round_end
    memcpy(snapshot.section[STRETCH_LIVE].data, system.stored.stretch_live.data,
           positions.n_stretches)
    for k in range(system.n_particles):
        if shares_block(system, k):
            continue
        block = block_of(system, k)
        write_tree(system, &numbering, snapshot, stretches_of(system, block)[0], positions.levels)
        words(snapshot, POSITIONS)[b] = number_of(&numbering, stretches_of(system, block)[0])
        memcpy(words(snapshot, OPEN_LABELS) + b * STRETCH, open_labels(system, block),
               STRETCH * sizeof(uint32_t))
        b += 1
    dispose(&system.memory, &numbering.number)
    return OK
