# cython: language_level=3
"""Memory: buffers that grow, and a pool of records, in pages for records of one size each.

Records have 32-bit handles: half the size of a pointer, and still valid in a copy of the arena.
`take_record` cannot fail, because `reserve_pages` has allocated the pages. Only `reserve_pages` may
fail. It may also move the arena, so it invalidates pointers to records.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcpy, memset

from mdvpf._kernel.constants cimport (
    MAX_PAGES, N_CLASSES, NO_MEMORY, NONE, OK, PAGE_BITS, PAGE_BYTES, PAGE_UNITS, SIZE_TABLE,
    UNIT_BYTES,
    Status,
    prefetch,
)
from mdvpf._kernel.types cimport Buffer, Memory, Page, Pool, handle_t


cdef extern from *:
    """
    /* Where the system can move a mapping, large buffers have mappings of their own: bytes that are
       reserved but never written then take no memory, neither at first nor when a buffer grows. */
    #if defined(__linux__)
    #include <sys/mman.h>
    #define MDVPF_MAPPED 262144
    static void* mdvpf_obtain(void* old, size_t old_bytes, size_t bytes) {
        void* data;
        if (bytes < MDVPF_MAPPED) return realloc(old, bytes);
        if (old_bytes >= MDVPF_MAPPED) {
            data = mremap(old, old_bytes, bytes, MREMAP_MAYMOVE);
            return data == MAP_FAILED ? NULL : data;
        }
        data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (data == MAP_FAILED) return NULL;
        if (old_bytes) memcpy(data, old, old_bytes);
        free(old);
        return data;
    }
    static void mdvpf_release(void* data, size_t bytes) {
        if (bytes < MDVPF_MAPPED) free(data); else munmap(data, bytes);
    }
    #else
    static void* mdvpf_obtain(void* old, size_t old_bytes, size_t bytes) {
        (void)old_bytes;
        return realloc(old, bytes);
    }
    static void mdvpf_release(void* data, size_t bytes) { (void)bytes; free(data); }
    #endif
    """
    void* obtain "mdvpf_obtain"(void* old, size_t old_bytes, size_t bytes) noexcept nogil
    void release "mdvpf_release"(void* data, size_t bytes) noexcept nogil


cdef inline bint must_fail(Memory* memory) noexcept nogil:
    """Whether a test has asked for this allocation to fail."""
    if memory.fail_after < 0:
        return False
    memory.fail_after -= 1
    return memory.fail_after < 0


cdef inline Status resize(Memory* memory, Buffer* buffer, size_t bytes) noexcept nogil:
    """Make the buffer at least `bytes` long, keeping its content; growth leaves room to spare."""
    cdef size_t wanted
    cdef void* data
    if bytes <= buffer.bytes:
        return OK
    wanted = bytes if buffer.bytes == 0 else bytes + bytes // 4
    if must_fail(memory):
        return NO_MEMORY
    data = obtain(buffer.data, buffer.bytes, wanted)
    if data == NULL:
        return NO_MEMORY
    memory.allocated += <int64_t>(wanted - buffer.bytes)
    buffer.data = data
    buffer.bytes = wanted
    return OK


cdef inline void dispose(Memory* memory, Buffer* buffer) noexcept nogil:
    release(buffer.data, buffer.bytes)
    memory.allocated -= <int64_t>buffer.bytes
    buffer.data = NULL
    buffer.bytes = 0


cdef inline Status duplicate(
    Memory* memory, Buffer* target, const Buffer* source, size_t used
) noexcept nogil:
    """Make the empty buffer `target` a copy of the first `used` bytes of `source`."""
    cdef Status status = resize(memory, target, used)
    if status == OK and used:
        memcpy(target.data, source.data, used)
    return status


# ---- size classes ------------------------------------------------------------------------

cdef inline uint32_t find_class(uint32_t units) noexcept nogil:
    """The smallest size class whose records have at least `units` units."""
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


cdef inline uint32_t class_of(const Pool* pool, uint32_t units) noexcept nogil:
    return pool.class_of_size[units] if units < SIZE_TABLE else find_class(units)


# ---- the pool ----------------------------------------------------------------------------

cdef inline void open_pool(Pool* pool, Memory* memory) noexcept nogil:
    cdef int i
    memset(pool, 0, sizeof(Pool))
    pool.memory = memory
    for i in range(N_CLASSES):
        pool.units[i] = class_units(<uint32_t>i)
    for i in range(SIZE_TABLE):
        pool.class_of_size[i] = <uint8_t>find_class(<uint32_t>i)
    pool.n_pages = 1


cdef inline void close_pool(Pool* pool) noexcept nogil:
    dispose(pool.memory, &pool.store.arena)
    dispose(pool.memory, &pool.store.pages)


cdef inline void* at(const Pool* pool, handle_t handle) noexcept nogil:
    return <char*>pool.store.arena.data + UNIT_BYTES * (<size_t>handle - PAGE_UNITS)


cdef inline uint32_t class_at(const Pool* pool, handle_t handle) noexcept nogil:
    return (<Page*>pool.store.pages.data)[handle >> PAGE_BITS].size_class


cdef inline size_t used_bytes(const Pool* pool) noexcept nogil:
    """Bytes of the pages. The arena beyond them is reserved but was never written."""
    return (<size_t>pool.n_pages - 1) * PAGE_BYTES


cdef inline size_t count_records(const Pool* pool) noexcept nogil:
    """How many records are in use."""
    cdef const Page* pages = <const Page*>pool.store.pages.data
    cdef size_t n = 0
    cdef uint32_t i
    for i in range(1, pool.n_pages):
        if pages[i].capacity:
            n += pages[i].n_live
    return n


cdef inline size_t pages_for(size_t n, size_t units) noexcept nogil:
    """Upper bound of the pages that n records of at most `units` units fill.

    One more page for each size class may be needed, which `reserve_pages` adds.
    """
    if units > PAGE_UNITS:
        return n * ((units + PAGE_UNITS - 1) // PAGE_UNITS)
    return n // (PAGE_UNITS // units) + 1


cdef inline Status reserve_pages(Pool* pool, size_t n) noexcept nogil:
    """Make sure that n pages can be added.

    This reserves many more addresses than will be written. A filter therefore reaches a limit on
    addresses (``ulimit -v``) long before one on memory.
    """
    n += pool.n_pages + N_CLASSES
    if n > MAX_PAGES:
        return NO_MEMORY
    if resize(pool.memory, &pool.store.arena, n * PAGE_BYTES) != OK:
        return NO_MEMORY
    return resize(pool.memory, &pool.store.pages, n * sizeof(Page))


cdef inline void add_page(Pool* pool, uint32_t size_class) noexcept nogil:
    """Add a page for records of the class, or the pages of one record longer than a page."""
    cdef uint32_t units = pool.units[size_class]
    cdef uint32_t n_new = (units + PAGE_UNITS - 1) // PAGE_UNITS
    cdef uint32_t number = pool.unused
    cdef Page* page
    if n_new > 1 or number == NONE:
        number = pool.n_pages
        pool.n_pages += n_new
        memset(&(<Page*>pool.store.pages.data)[number], 0, n_new * sizeof(Page))
    page = &(<Page*>pool.store.pages.data)[number]
    if number == pool.unused:
        pool.unused = page.next_open
    page.capacity = PAGE_UNITS // units if n_new == 1 else 1
    page.n_live = 0
    page.n_touched = 0
    page.freed = 0
    page.size_class = size_class
    page.next_open = pool.open[size_class]
    pool.open[size_class] = number
    pool.n_empty += 1
    if units > pool.largest:
        pool.largest = units


cdef inline handle_t take_record(Pool* pool, uint32_t size_class) noexcept nogil:
    """Take a record of the class from reserved pages. Its content is undefined."""
    cdef Page* page
    cdef handle_t handle
    if pool.open[size_class] == NONE:
        add_page(pool, size_class)
    handle = pool.open[size_class] << PAGE_BITS
    page = &(<Page*>pool.store.pages.data)[pool.open[size_class]]
    if page.freed:
        handle += page.freed - 1
        page.freed = (<uint32_t*>at(pool, handle))[0]
        if page.freed:  # the next record to be taken is probably not in the cache
            prefetch(at(pool, (handle & ~<uint32_t>(PAGE_UNITS - 1)) + page.freed - 1))
    else:
        handle += page.n_touched * pool.units[size_class]
        page.n_touched += 1
    pool.n_empty -= page.n_live == 0
    page.n_live += 1
    if page.n_live == page.capacity:
        pool.open[size_class] = page.next_open
    pool.live_bytes += pool.units[size_class] * UNIT_BYTES
    return handle


cdef inline void free_record(Pool* pool, handle_t handle) noexcept nogil:
    cdef uint32_t number = handle >> PAGE_BITS
    cdef Page* page = &(<Page*>pool.store.pages.data)[number]
    (<uint32_t*>at(pool, handle))[0] = page.freed
    page.freed = (handle & (PAGE_UNITS - 1)) + 1
    if page.n_live == page.capacity:
        page.next_open = pool.open[page.size_class]
        pool.open[page.size_class] = number
    page.n_live -= 1
    pool.n_empty += page.n_live == 0
    pool.live_bytes -= pool.units[page.size_class] * UNIT_BYTES


cdef inline void recycle(Pool* pool) noexcept nogil:
    """Make empty pages available to all classes if there are many."""
    cdef Page* pages = <Page*>pool.store.pages.data
    cdef Page* page
    cdef uint32_t number, size_class, i, n_spanned
    if pool.n_empty < 16 + pool.n_pages // 8:
        return
    memset(pool.open, 0, sizeof(pool.open))
    for number in range(1, pool.n_pages):
        page = &pages[number]
        size_class = page.size_class
        if page.capacity == 0:
            continue
        if page.n_live == 0:
            n_spanned = (pool.units[size_class] + PAGE_UNITS - 1) // PAGE_UNITS
            page.capacity = 0
            for i in range(n_spanned):
                pages[number + i].next_open = pool.unused
                pool.unused = number + i
        elif page.n_live < page.capacity:
            page.next_open = pool.open[size_class]
            pool.open[size_class] = number
    pool.n_empty = 0
