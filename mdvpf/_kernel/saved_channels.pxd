# cython: language_level=3
"""Open channels in snapshots: the counts of the stream, and rows without the room to grow.

A snapshot has the particles before the pending observation of MD-VPA, which is absorbed again when
they are restored. The counts leave it out. If one of its symbols was new, no row has a count of it.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy, memset

from mdvpf._kernel.constants cimport CHANNEL_OPEN, NO_MEMORY, OK, Status
from mdvpf._kernel.number_types cimport Channel
from mdvpf._kernel.open_channels cimport stream_row, widen_rows
from mdvpf._kernel.pool cimport resize
from mdvpf._kernel.restore_records cimport reject
from mdvpf._kernel.saved_alphabet cimport MOST_SEEN, MOST_SYMBOLS
from mdvpf._kernel.sections cimport CHANNEL_SEEN, CHANNEL_SYMBOLS, Snapshot, words
from mdvpf._kernel.statistics cimport channels_of, observation_of
from mdvpf._kernel.types cimport System


cdef inline bint is_pending_symbol(
    const System* system, uint32_t c, uint32_t symbol
) noexcept nogil:
    """Whether a channel of the pending observation has this symbol."""
    return system.pending and observation_of(system, True)[c] == symbol


cdef inline uint64_t saved_times(const System* system, uint32_t c, uint32_t symbol) noexcept nogil:
    """How often a symbol was seen, without the pending observation."""
    cdef double times = (stream_row(system) + channels_of(system)[c].offset)[1 + symbol]
    return <uint64_t>times - is_pending_symbol(system, c, symbol)


cdef inline uint32_t saved_symbols(const System* system, uint32_t c) noexcept nogil:
    """Size of the alphabet of an open channel, without the pending observation."""
    cdef uint32_t n = channels_of(system)[c].n_symbols
    return n - (n > 0 and saved_times(system, c, n - 1) == 0)


cdef inline uint32_t saved_statistics(const System* system, uint32_t c) noexcept nogil:
    cdef const Channel* channel = &channels_of(system)[c]
    return 1 + saved_symbols(system, c) if channel.kind == CHANNEL_OPEN else channel.n_statistics


cdef inline size_t saved_size(const System* system) noexcept nogil:
    """Doubles of a row in a snapshot."""
    cdef size_t size = 0
    cdef uint32_t c
    for c in range(system.numbers.n_channels):
        size += saved_statistics(system, c)
    return size


cdef inline void pack_row(const System* system, const double* row, double* out) noexcept nogil:
    """Write a row as snapshots have it."""
    cdef uint32_t c, n
    for c in range(system.numbers.n_channels):
        n = saved_statistics(system, c)
        memcpy(out, row + channels_of(system)[c].offset, n * sizeof(double))
        out += n


cdef inline void unpack_row(const System* system, const double* given, double* row) noexcept nogil:
    """Read a row of a snapshot."""
    cdef uint32_t c, n
    memset(row, 0, system.numbers.size * sizeof(double))
    for c in range(system.numbers.n_channels):
        n = saved_statistics(system, c)
        memcpy(row + channels_of(system)[c].offset, given, n * sizeof(double))
        given += n


cdef inline Status write_channels(System* system, Snapshot* snapshot) noexcept nogil:
    """Write the sections of open channels."""
    cdef size_t n_seen = 0
    cdef uint32_t k = 0
    cdef uint32_t c, i
    cdef uint64_t* seen
    for c in range(system.numbers.n_channels):
        if channels_of(system)[c].kind == CHANNEL_OPEN:
            n_seen += saved_symbols(system, c)
    if resize(&system.memory, &snapshot.section[CHANNEL_SYMBOLS],
              system.numbers.n_open * sizeof(uint32_t)) != OK \
            or resize(&system.memory, &snapshot.section[CHANNEL_SEEN],
                      n_seen * sizeof(uint64_t)) != OK:
        return NO_MEMORY
    seen = <uint64_t*>snapshot.section[CHANNEL_SEEN].data
    for c in range(system.numbers.n_channels):
        if channels_of(system)[c].kind == CHANNEL_OPEN:
            words(snapshot, CHANNEL_SYMBOLS)[k] = saved_symbols(system, c)
            for i in range(saved_symbols(system, c)):
                seen[i] = saved_times(system, c, i)
            seen += saved_symbols(system, c)
            k += 1
    return OK


cdef inline Status read_channels(System* system, Snapshot* snapshot) noexcept nogil:
    """Set the open channels of a new system from a snapshot, with room for their symbols."""
    cdef Channel* channels = <Channel*>system.stored.channels.data
    cdef const uint64_t* seen = <const uint64_t*>snapshot.section[CHANNEL_SEEN].data
    cdef size_t left = snapshot.section[CHANNEL_SEEN].bytes // sizeof(uint64_t)
    cdef uint32_t k = 0
    cdef uint32_t c
    if not system.numbers.n_open:
        return OK
    if snapshot.section[CHANNEL_SYMBOLS].bytes != system.numbers.n_open * sizeof(uint32_t):
        return reject(snapshot, "the sections of open channels have the wrong length")
    for c in range(system.numbers.n_channels):
        if channels[c].kind == CHANNEL_OPEN:
            channels[c].wanted = words(snapshot, CHANNEL_SYMBOLS)[k]
            if channels[c].wanted > left or channels[c].wanted > MOST_SYMBOLS:
                return reject(snapshot, "the sections of open channels have the wrong length")
            left -= channels[c].wanted
            k += 1
    if left or snapshot.section[CHANNEL_SEEN].bytes % sizeof(uint64_t):
        return reject(snapshot, "the sections of open channels have the wrong length")
    if widen_rows(system) != OK:
        return NO_MEMORY
    for c in range(system.numbers.n_channels):
        if channels[c].kind == CHANNEL_OPEN:
            channels[c].n_symbols = channels[c].wanted
            if not read_seen(system, &channels[c], seen):
                return reject(snapshot, "the count of a symbol in a channel is out of range")
            seen += channels[c].n_symbols
    return OK


cdef inline bint read_seen(
    System* system, const Channel* channel, const uint64_t* seen
) noexcept nogil:
    """Set the counts of a channel; False if one is out of range."""
    cdef double* out = stream_row(system) + channel.offset
    cdef uint64_t total = 0
    cdef uint32_t i
    for i in range(channel.n_symbols):
        if seen[i] == 0 or seen[i] > MOST_SEEN - total:
            return False
        total += seen[i]
        out[1 + i] = <double>seen[i]
    out[0] = <double>total
    return total <= <uint64_t>system.n_steps


cdef inline bint were_seen(const System* system, const double* row, double part) noexcept nogil:
    """Whether the counts of a row, times its fading, are not more than those of the stream."""
    cdef const Channel* channel
    cdef double times
    cdef uint32_t c, i
    for c in range(system.numbers.n_channels):
        channel = &channels_of(system)[c]
        if channel.kind != CHANNEL_OPEN:
            continue
        for i in range(channel.n_statistics):
            times = (stream_row(system) + channel.offset)[i]
            if row[channel.offset + i] * part > times * 1.0009 or (
                times == 0.0 and row[channel.offset + i] != 0.0
            ):
                return False
    return True
