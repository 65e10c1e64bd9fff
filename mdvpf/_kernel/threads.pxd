# cython: language_level=3
"""Threads: each thread scores a range of particles, a *part*, with work space of its own.

A thread reads shared data and writes only to the entries of its own particles and to its own work
space. Its sums are sums of whole numbers; other sums are taken later, in the order of particles. So
results have the same bits for any number of threads.
"""

from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memset

from mdvpf._kernel.buffers cimport find_arrays
from mdvpf._kernel.constants cimport NO_MEMORY, OK, Status
from mdvpf._kernel.pool cimport resize
from mdvpf._kernel.types cimport Buffer, System, ThreadBuffers

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
    # The threads of OpenMP do not survive a fork; a child would wait for them for ever.
    bint is_forked "mdvpf_is_forked"
    void watch_forks "mdvpf_watch_forks"() noexcept nogil

cdef enum:
    PART_FROM = 512         # one more thread is used for every so many particles


cdef inline size_t array_bytes(uint32_t n_states) noexcept nogil:
    return (n_states + 16) * sizeof(double)


cdef inline size_t space_bytes(uint32_t n_states) noexcept nogil:
    """Work space of a part: whole cache lines, so that no two threads write to the same line."""
    cdef size_t n_arrays = sizeof(ThreadBuffers) // sizeof(Buffer)
    return (n_arrays * array_bytes(n_states) + 127) & ~<size_t>63


cdef inline Status reserve_threads(System* system, uint32_t n_states) noexcept nogil:
    """Make room for all parts but the first, which uses the work space of the system."""
    cdef size_t n = <size_t>system.n_threads - 1
    if resize(&system.memory, &system.work.thread_space, n * space_bytes(n_states)) != OK:
        return NO_MEMORY
    system.thread_states = n_states
    return OK


cdef inline int n_parts(const System* system) noexcept nogil:
    cdef int64_t most = 1 if is_forked else 1 + system.n_particles // PART_FROM
    return system.n_threads if system.n_threads < most else <int>most


cdef inline int64_t part_start(const System* system, int part, int parts) noexcept nogil:
    return system.n_particles * part // parts


cdef inline System for_part(const System* system, int part) noexcept nogil:
    """A copy of the system with the work space of a part. A local copy is easier to optimise."""
    cdef System own = system[0]
    cdef Buffer* arrays = <Buffer*>&own.work.own
    cdef size_t bytes = array_bytes(system.thread_states)
    cdef char* space
    cdef size_t i
    if part > 0:
        space = <char*>system.work.thread_space.data
        space += (part - 1) * space_bytes(system.thread_states)
        for i in range(sizeof(ThreadBuffers) // sizeof(Buffer)):
            arrays[i].data = space + i * bytes
            arrays[i].bytes = bytes
        find_arrays(&own)
    memset(own.scratch.stamp, 0, own.work.own.stamp.bytes)  # pairs are numbered from 1
    own.scratch.n_stamped = 0
    return own
