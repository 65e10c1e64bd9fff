# cython: language_level=3
"""Contexts: the latest symbols of the sequence of each key.

A `Past` has the context of key=None and the work space of a step. Every other key has a `Position`,
which is found by the number of the key. For a step of a key, its context is swapped with that of
the `Past`, and swapped back afterwards. This copies no symbols and cannot fail.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memmove, memset

from mdvpf._kernel.constants cimport NO_MEMORY, OK, Status
from mdvpf._kernel.pool cimport dispose, resize
from mdvpf._kernel.types cimport Buffer, Memory
from mdvpf.baselines._tables cimport ABSENT, FIRST_TABLE, enter_in_table, hash_of

cdef enum:
    MISSING = -1
    START = -2              # start of a sequence, in the contexts of chains and weighted trees
    NO_KEY = 0              # the number of key=None
    NONE_ENDS = -1          # no key ends before a symbol


cdef struct Position:
    Buffer symbols          # int32_t[]: the latest symbol is at end - 1
    int64_t end
    int64_t n               # symbols of the context
    int32_t number          # number of the key


cdef struct Past:
    Memory memory
    Buffer symbols          # int32_t[]: the latest symbol is at end - 1
    Buffer path             # uint32_t[2 * (n + 1)]: work space, nodes of the path and their entries
    Buffer work             # double[]: work space of a rule
    int64_t end
    int64_t n               # symbols of the context
    int64_t limit           # most symbols of a context
    Buffer positions        # Position[]: of the keys in use except key=None
    Buffer table            # uint32_t[]: hash table of positions by the number of the key
    uint64_t mask           # places of the table minus one
    int64_t n_positions


# ---- one context -------------------------------------------------------------------------

cdef inline int32_t symbol_before(const Past* past, int64_t i) noexcept nogil:
    """The symbol of the context i symbols before the latest."""
    return (<const int32_t*>past.symbols.data)[past.end - 1 - i]


cdef inline Status reserve_past(Past* past, int64_t n_more) noexcept nogil:
    """Make room for `n_more` symbols, and for the path of the present context."""
    cdef size_t most = <size_t>(past.n + n_more)
    cdef size_t n = <size_t>past.n
    if resize(&past.memory, &past.path, 2 * (n + 1) * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    if (<size_t>past.end + n_more) * sizeof(int32_t) <= past.symbols.bytes:
        return OK
    if resize(&past.memory, &past.symbols, 2 * most * sizeof(int32_t)) != OK:
        return NO_MEMORY
    memmove(past.symbols.data, <int32_t*>past.symbols.data + past.end - past.n,
            n * sizeof(int32_t))
    past.end = past.n
    return OK


cdef inline void push(Past* past, int32_t symbol) noexcept nogil:
    """Append a symbol, for which there is room; a full context drops its oldest symbol."""
    if past.limit == 0:
        return
    (<int32_t*>past.symbols.data)[past.end] = symbol
    past.end += 1
    if past.n < past.limit:
        past.n += 1


# ---- the contexts of keys ----------------------------------------------------------------

cdef inline Position* position_at(const Past* past, uint32_t i) noexcept nogil:
    return <Position*>past.positions.data + i


cdef inline uint64_t home_of_position(const Past* past, uint32_t i) noexcept nogil:
    return hash_of(<uint32_t>position_at(past, i).number, 0) & past.mask


cdef inline uint32_t find_position(const Past* past, int32_t number) noexcept nogil:
    """The position of a key, or ABSENT if the key has none."""
    cdef const uint32_t* table = <const uint32_t*>past.table.data
    cdef uint64_t place
    if past.n_positions == 0:
        return ABSENT
    place = hash_of(<uint32_t>number, 0) & past.mask
    while table[place] != ABSENT:
        if position_at(past, table[place]).number == number:
            return table[place]
        place = (place + 1) & past.mask
    return ABSENT


cdef inline Status reserve_positions(Past* past, int64_t n_more) noexcept nogil:
    """Make room for the positions of `n_more` keys."""
    cdef uint64_t n = <uint64_t>(past.n_positions + n_more)
    cdef uint64_t size = past.mask + 1 if past.table.data != NULL else FIRST_TABLE
    cdef Buffer larger
    cdef int64_t i
    if n >= ABSENT \
            or resize(&past.memory, &past.positions, <size_t>n * sizeof(Position)) != OK:
        return NO_MEMORY
    while 3 * n > 2 * size:
        size *= 2
    if past.table.data != NULL and size == past.mask + 1:
        return OK
    memset(&larger, 0, sizeof(Buffer))
    if resize(&past.memory, &larger, <size_t>size * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    memset(larger.data, 0xFF, <size_t>size * sizeof(uint32_t))
    dispose(&past.memory, &past.table)
    past.table = larger
    past.mask = size - 1
    for i in range(past.n_positions):
        enter_in_table(<uint32_t*>larger.data, past.mask, home_of_position(past, <uint32_t>i),
                       <uint32_t>i)
    return OK


cdef inline uint32_t add_position(Past* past, int32_t number) noexcept nogil:
    """Add the position of a key, for which there is room, with an empty context."""
    cdef uint32_t i = <uint32_t>past.n_positions
    memset(position_at(past, i), 0, sizeof(Position))
    position_at(past, i).number = number
    past.n_positions += 1
    enter_in_table(<uint32_t*>past.table.data, past.mask, home_of_position(past, i), i)
    return i


cdef inline uint64_t place_of_position(const Past* past, uint32_t i) noexcept nogil:
    """The place of a position in the hash table."""
    cdef uint64_t place = home_of_position(past, i)
    while (<const uint32_t*>past.table.data)[place] != i:
        place = (place + 1) & past.mask
    return place


cdef inline void remove_position(Past* past, uint32_t i) noexcept nogil:
    """Remove the position of a key; the last position moves to its index in the array."""
    cdef uint32_t* table = <uint32_t*>past.table.data
    cdef uint32_t last = <uint32_t>(past.n_positions - 1)
    cdef uint64_t gap = place_of_position(past, i)
    cdef uint64_t place = gap
    dispose(&past.memory, &position_at(past, i).symbols)
    while True:         # move later entries up, so that searches still find them
        place = (place + 1) & past.mask
        if table[place] == ABSENT:
            break
        if ((place - home_of_position(past, table[place])) & past.mask) \
                >= ((place - gap) & past.mask):
            table[gap] = table[place]
            gap = place
    table[gap] = ABSENT
    if i != last:
        table[place_of_position(past, last)] = i
        position_at(past, i)[0] = position_at(past, last)[0]
    past.n_positions -= 1
    if past.n_positions == 0:
        dispose(&past.memory, &past.positions)
        dispose(&past.memory, &past.table)


cdef inline void swap_position(Past* past, Position* position) noexcept nogil:
    """Swap the contexts of `past` and of a position."""
    cdef Buffer symbols = past.symbols
    cdef int64_t end = past.end
    cdef int64_t n = past.n
    past.symbols = position.symbols
    past.end = position.end
    past.n = position.n
    position.symbols = symbols
    position.end = end
    position.n = n


cdef inline void dispose_past(Past* past) noexcept nogil:
    cdef int64_t i
    for i in range(past.n_positions):
        dispose(&past.memory, &position_at(past, <uint32_t>i).symbols)
    dispose(&past.memory, &past.positions)
    dispose(&past.memory, &past.table)
    dispose(&past.memory, &past.symbols)
    dispose(&past.memory, &past.path)
    dispose(&past.memory, &past.work)
