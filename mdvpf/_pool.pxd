# cython: language_level=3
"""Memory: growing buffers, and a pool of small records in pages of one record size.

Records are named by 32-bit handles, which halves what a particle needs to name its rows and
lets a whole system be copied page by page. Handing out a record never fails: `reserve`
makes room beforehand, and that is where an allocation may fail.
"""

from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

from mdvpf._types cimport (
    MAX_PAGES, N_CLASSES, NO_MEMORY, NONE, OK, PAGE_BITS, PAGE_BYTES, UNIT_BYTES,
    Buffer, Memory, Page, Pool, Status, handle_t,
)


cdef inline bint refuse(Memory* memory) noexcept nogil:
    """Whether the allocation about to be made is the one that a test wants to fail."""
    if memory.fail_after < 0:
        return False
    memory.fail_after -= 1
    return memory.fail_after < 0


cdef inline Status resize(Memory* memory, Buffer* buffer, size_t bytes) noexcept nogil:
    """Make the buffer at least `bytes` long, with room to grow; its content is kept."""
    cdef size_t wanted
    cdef void* data
    if bytes <= buffer.bytes:
        return OK
    wanted = bytes if buffer.bytes == 0 else bytes + bytes // 4
    if refuse(memory):
        return NO_MEMORY
    data = realloc(buffer.data, wanted)
    if data == NULL:
        return NO_MEMORY
    memory.allocated += <int64_t>(wanted - buffer.bytes)
    buffer.data = data
    buffer.bytes = wanted
    return OK


cdef inline void dispose(Memory* memory, Buffer* buffer) noexcept nogil:
    free(buffer.data)
    memory.allocated -= <int64_t>buffer.bytes
    buffer.data = NULL
    buffer.bytes = 0


cdef inline Status duplicate(Memory* memory, Buffer* target, const Buffer* source) noexcept nogil:
    """Make the empty buffer `target` a copy of `source`."""
    cdef Status status = resize(memory, target, source.bytes)
    if status == OK and source.bytes:
        memcpy(target.data, source.data, source.bytes)
    return status


# ---- size classes ------------------------------------------------------------------------

cdef inline uint32_t class_of(uint32_t units) noexcept nogil:
    """The smallest size class whose records have that many units."""
    cdef uint32_t octave = 3
    cdef uint32_t quarter
    if units <= 8:
        return units - 2 if units > 2 else 0
    while (2u << octave) < units:
        octave += 1
    quarter = 1u << (octave - 2)
    return 7 + (octave - 3) * 4 + (units - (1u << octave) + quarter - 1) // quarter - 1


cdef inline uint32_t class_units(uint32_t size_class) noexcept nogil:
    cdef uint32_t octave
    if size_class < 7:
        return size_class + 2
    octave = 3 + (size_class - 7) // 4
    return (1u << octave) + (1 + (size_class - 7) % 4) * (1u << (octave - 2))


# ---- the pool ----------------------------------------------------------------------------

cdef inline void open_pool(Pool* pool, Memory* memory) noexcept nogil:
    cdef int size_class
    memset(pool, 0, sizeof(Pool))
    pool.memory = memory
    for size_class in range(N_CLASSES):
        pool.units[size_class] = class_units(<uint32_t>size_class)
    pool.n_pages = 1


cdef inline void close_pool(Pool* pool) noexcept nogil:
    cdef char** base = <char**>pool.base.data
    cdef Page* pages = <Page*>pool.pages.data
    cdef uint32_t number
    for number in range(1, pool.n_pages):
        if base[number] != NULL:
            free(base[number])
            pool.memory.allocated -= <int64_t>pages[number].bytes
    dispose(pool.memory, &pool.base)
    dispose(pool.memory, &pool.pages)


cdef inline void* at(const Pool* pool, handle_t handle) noexcept nogil:
    return ((<char**>pool.base.data)[handle >> PAGE_BITS]
            + UNIT_BYTES * <size_t>(handle & ((1u << PAGE_BITS) - 1)))


cdef inline uint32_t class_at(const Pool* pool, handle_t handle) noexcept nogil:
    return (<Page*>pool.pages.data)[handle >> PAGE_BITS].size_class


cdef inline Status add_page(Pool* pool, uint32_t size_class) noexcept nogil:
    """Add a page for records of the class: small at first, so that small filters stay small."""
    cdef size_t record = <size_t>pool.units[size_class] * UNIT_BYTES
    cdef size_t bytes = PAGE_BYTES
    cdef uint32_t number
    cdef Page* page
    cdef void* memory
    if pool.n_pages_of[size_class] < 6:
        bytes = 1024u << pool.n_pages_of[size_class]
    if bytes < record:
        bytes = record
    bytes -= bytes % record
    number = pool.unused
    if number == NONE:
        number = pool.n_pages
        if number >= MAX_PAGES:
            return NO_MEMORY
        if resize(pool.memory, &pool.base, (number + 1) * sizeof(char*)) != OK:
            return NO_MEMORY
        if resize(pool.memory, &pool.pages, (number + 1) * sizeof(Page)) != OK:
            return NO_MEMORY
    if refuse(pool.memory):
        return NO_MEMORY
    memory = malloc(bytes)
    if memory == NULL:
        return NO_MEMORY
    page = &(<Page*>pool.pages.data)[number]
    if number == pool.n_pages:
        pool.n_pages += 1
    else:
        pool.unused = page.next_open
    (<char**>pool.base.data)[number] = <char*>memory
    page.bytes = bytes
    page.n_slots = <uint32_t>(bytes // record)
    page.n_live = 0
    page.n_touched = 0
    page.freed = 0
    page.size_class = size_class
    page.next_open = pool.open[size_class]
    pool.open[size_class] = number
    pool.n_pages_of[size_class] += 1
    pool.n_free[size_class] += page.n_slots
    pool.page_bytes += <int64_t>bytes
    pool.memory.allocated += <int64_t>bytes
    return OK


cdef inline Status reserve(Pool* pool, uint32_t size_class, int64_t n) noexcept nogil:
    """Make sure that `n` records of the class can be taken."""
    while pool.n_free[size_class] < n:
        if add_page(pool, size_class) != OK:
            return NO_MEMORY
    return OK


cdef inline handle_t take(Pool* pool, uint32_t size_class) noexcept nogil:
    """Hand out a record of the class, which was reserved. Its content is undefined."""
    cdef uint32_t number = pool.open[size_class]
    cdef Page* page = &(<Page*>pool.pages.data)[number]
    cdef char* base = (<char**>pool.base.data)[number]
    cdef uint32_t unit
    if page.freed:
        unit = page.freed - 1
        page.freed = (<uint32_t*>(base + UNIT_BYTES * <size_t>unit))[0]
    else:
        unit = page.n_touched * pool.units[size_class]
        page.n_touched += 1
    page.n_live += 1
    if page.n_live == page.n_slots:
        pool.open[size_class] = page.next_open
    pool.n_free[size_class] -= 1
    pool.live_bytes += pool.units[size_class] * UNIT_BYTES
    return number << PAGE_BITS | unit


cdef inline void give_back(Pool* pool, handle_t handle) noexcept nogil:
    cdef uint32_t number = handle >> PAGE_BITS
    cdef uint32_t unit = handle & ((1u << PAGE_BITS) - 1)
    cdef Page* page = &(<Page*>pool.pages.data)[number]
    (<uint32_t*>at(pool, handle))[0] = page.freed
    page.freed = unit + 1
    if page.n_live == page.n_slots:
        page.next_open = pool.open[page.size_class]
        pool.open[page.size_class] = number
    page.n_live -= 1
    pool.n_free[page.size_class] += 1
    pool.live_bytes -= pool.units[page.size_class] * UNIT_BYTES


cdef inline void trim(Pool* pool) noexcept nogil:
    """Return empty pages to the system once most of the pool is empty."""
    cdef char** base = <char**>pool.base.data
    cdef Page* pages = <Page*>pool.pages.data
    cdef Page* page
    cdef uint32_t number, size_class
    if pool.page_bytes < 16 * PAGE_BYTES or pool.page_bytes < 2 * pool.live_bytes:
        return
    memset(pool.open, 0, sizeof(pool.open))
    for number in range(1, pool.n_pages):
        page = &pages[number]
        if base[number] == NULL:
            continue
        size_class = page.size_class
        if page.n_live == 0:
            free(base[number])
            base[number] = NULL
            pool.n_free[size_class] -= page.n_slots
            pool.n_pages_of[size_class] -= 1
            pool.page_bytes -= <int64_t>page.bytes
            pool.memory.allocated -= <int64_t>page.bytes
            page.next_open = pool.unused
            pool.unused = number
        elif page.n_live < page.n_slots:
            page.next_open = pool.open[size_class]
            pool.open[size_class] = number


cdef inline Status copy_pool(Pool* target, const Pool* source, Memory* memory) noexcept nogil:
    """Make `target` a copy of `source`. On failure it holds what `close_pool` can release."""
    cdef char** base
    cdef const Page* pages = <const Page*>source.pages.data
    cdef uint32_t number
    memcpy(target, source, sizeof(Pool))
    target.memory = memory
    target.n_pages = 1
    memset(&target.base, 0, sizeof(Buffer))
    memset(&target.pages, 0, sizeof(Buffer))
    if duplicate(memory, &target.pages, &source.pages) != OK:
        return NO_MEMORY
    if duplicate(memory, &target.base, &source.base) != OK:
        return NO_MEMORY
    base = <char**>target.base.data
    for number in range(1, source.n_pages):
        if base[number] != NULL:
            base[number] = NULL if refuse(memory) else <char*>malloc(pages[number].bytes)
            if base[number] == NULL:
                return NO_MEMORY
            memcpy(base[number], (<char**>source.base.data)[number], pages[number].bytes)
            memory.allocated += <int64_t>pages[number].bytes
        target.n_pages = number + 1
    return OK
