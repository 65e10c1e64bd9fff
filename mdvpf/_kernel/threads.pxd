# cython: language_level=3
"""Parts: the particles in ranges, one a thread, each with work space of its own.

A part reads what all share and writes only to its own particles' places and its own work space.
What it sums it sums as whole numbers, or leaves to be summed in the order of particles, so that
results have the same bits for any number of threads.
"""

from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memset

from mdvpf._kernel.pool cimport resize
from mdvpf._kernel.types cimport NO_MEMORY, OK, Buffer, Status, System

cdef extern from *:
    """
    static volatile int mdvpf_is_forked = 0;
    #if defined(_WIN32)
    static void mdvpf_watch_forks(void) {}
    #else
    #include <pthread.h>
    static void mdvpf_note_fork(void) { mdvpf_is_forked = 1; }
    static void mdvpf_watch_forks(void) { pthread_atfork(NULL, NULL, mdvpf_note_fork); }
    #endif
    """
    # Threads of OpenMP do not survive a fork, and a child would wait for them for ever.
    bint is_forked "mdvpf_is_forked"
    void watch_forks "mdvpf_watch_forks"() noexcept nogil

cdef enum:
    PART_FROM = 512         # particles: with fewer in a part, a thread does not pay
    N_ARRAYS = 8            # of 8 bytes a state, in the work space of a part


cdef inline size_t array_bytes(uint32_t n_states) noexcept nogil:
    return (n_states + 16) * sizeof(double)


cdef inline size_t space_bytes(uint32_t n_states) noexcept nogil:
    """Work space of a part: whole lines of the cache, which no two threads should write to."""
    return (N_ARRAYS * array_bytes(n_states) + 127) & ~<size_t>63


cdef inline Status reserve_parts(System* system, uint32_t n_states) noexcept nogil:
    """Make room for all parts but the first, which uses that of the system."""
    cdef size_t n = <size_t>system.n_threads - 1
    if resize(&system.memory, &system.part_space, n * space_bytes(n_states)) != OK:
        return NO_MEMORY
    system.part_states = n_states
    return OK


cdef inline int n_parts(const System* system) noexcept nogil:
    cdef int64_t most = 1 if is_forked else 1 + system.n_particles // PART_FROM
    return system.n_threads if system.n_threads < most else <int>most


cdef inline int64_t part_start(const System* system, int part, int parts) noexcept nogil:
    return system.n_particles * part // parts


cdef inline System for_part(const System* system, int part) noexcept nogil:
    """The system as a part sees it. A copy, so the compiler sees that nothing else writes to it."""
    cdef System own = system[0]
    cdef Buffer* arrays[N_ARRAYS]
    cdef char* space
    cdef int i
    if part > 0:
        arrays[0] = &own.scratch.transition
        arrays[1] = &own.scratch.emission
        arrays[2] = &own.scratch.emitted
        arrays[3] = &own.scratch.stamp
        arrays[4] = &own.lookahead.log_sum
        arrays[5] = &own.lookahead.share_sum
        arrays[6] = &own.lookahead.n_with
        arrays[7] = &own.lookahead.largest
        space = <char*>system.part_space.data
        space += (part - 1) * space_bytes(system.part_states)
        for i in range(N_ARRAYS):
            arrays[i].data = space + i * array_bytes(system.part_states)
            arrays[i].bytes = array_bytes(system.part_states)
    memset(own.scratch.stamp.data, 0, own.scratch.stamp.bytes)  # of no pair
    own.scratch.n_stamped = 0
    return own
