# cython: language_level=3
"""Open alphabets in products: counts of symbols in the whole stream, and room for new symbols.

The statistics of an open channel are the number of observations and the count of each symbol, as in
a categorical channel. Rows have room for more symbols than were seen; what is not used is zero. If
the alphabet outgrows its room, the room is doubled in all rows at once, before the step.

The *row of the stream* has the layout of a row of statistics. In open channels it counts all
observations of the stream, which do not fade; all its other statistics are zero.
"""

from libc.math cimport isnan
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memmove, memset

from mdvpf._kernel.buffers cimport make_room
from mdvpf._kernel.constants cimport CHANNEL_OPEN, MISSING, NO_MEMORY, OK, Status
from mdvpf._kernel.families cimport is_missing, is_observation
from mdvpf._kernel.number_types cimport Channel
from mdvpf._kernel.types cimport System

cdef enum:
    LEAST_ROOM = 4              # symbols
    MOST_STATISTICS = 0x7FFFFFF0  # of a row


cdef inline double* stream_row(const System* system) noexcept nogil:
    return <double*>system.stored.stream.data


cdef inline double base_of_channel(
    const System* system, const Channel* channel, double y, bint counted
) noexcept nogil:
    """q of a symbol; if it was counted already, without its latest count."""
    cdef const double* seen = stream_row(system) + channel.offset
    cdef double strength = channel.parameters[1]
    cdef double discount = channel.parameters[2]
    cdef double total = seen[0] - counted + strength
    cdef double n_symbols = channel.n_symbols
    cdef double times = 0.0
    if y < n_symbols:
        times = seen[1 + <uint32_t>y] - counted
        n_symbols -= times == 0.0
    if times == 0.0:
        return (strength + discount * n_symbols) / total
    return (times - discount) / total


cdef inline bint are_in_order(
    const System* system, const double* observations, int64_t n
) noexcept nogil:
    """Whether new symbols of open channels have the next numbers, in n observations in turn."""
    cdef const Channel* channels = <const Channel*>system.stored.channels.data
    cdef uint32_t n_channels = system.numbers.n_channels
    cdef double n_known, y
    cdef uint32_t c
    cdef int64_t i
    for c in range(n_channels if system.numbers.n_open else 0):
        if channels[c].kind != CHANNEL_OPEN:
            continue
        n_known = channels[c].n_symbols
        for i in range(n):
            y = observations[i * n_channels + c]
            if y > n_known:
                return False
            n_known += y == n_known
    return True


cdef inline bint are_observations(
    const System* system, const double* observations, const int32_t* symbols, int64_t n
) noexcept nogil:
    """Whether n observations in turn are possible; the symbol is MISSING if all is missing."""
    cdef const Channel* channels = <const Channel*>system.stored.channels.data
    cdef uint32_t n_channels = system.numbers.n_channels
    cdef int64_t i
    for i in range(n):
        if not is_observation(channels, n_channels, observations + i * n_channels) \
                or is_missing(observations + i * n_channels, n_channels) \
                != (symbols[i] == MISSING):
            return False
    return are_in_order(system, observations, n)


cdef inline void count_open(System* system, const double* observation) noexcept nogil:
    """Count an observation that was absorbed; alphabets grow by its new symbols."""
    cdef Channel* channels = <Channel*>system.stored.channels.data
    cdef double* seen
    cdef uint32_t c, symbol
    for c in range(system.numbers.n_channels):
        if channels[c].kind == CHANNEL_OPEN and not isnan(observation[c]):
            symbol = <uint32_t>observation[c]
            seen = stream_row(system) + channels[c].offset
            seen[0] += 1.0
            seen[1 + symbol] += 1.0
            channels[c].n_symbols = max(channels[c].n_symbols, symbol + 1)


# ---- room --------------------------------------------------------------------------------

cdef inline uint32_t wanted_statistics(const Channel* channel) noexcept nogil:
    return 1 + channel.wanted if channel.kind == CHANNEL_OPEN else channel.n_statistics


cdef inline void spread_rows(
    const System* system, void* data, size_t n_rows, size_t size, size_t item, int filler
) noexcept nogil:
    """Move the parts of rows apart in place, from the last to the first."""
    cdef const Channel* channels = <const Channel*>system.stored.channels.data
    cdef const Channel* channel
    cdef char* old
    cdef char* new
    cdef size_t row, used, unused
    cdef uint32_t c
    for row in range(n_rows, 0, -1):
        old = <char*>data + (row - 1) * system.numbers.size * item
        new = <char*>data + row * size * item
        for c in range(system.numbers.n_channels, 0, -1):
            channel = &channels[c - 1]
            used = channel.n_statistics * item
            unused = wanted_statistics(channel) * item - used
            new -= used + unused
            memmove(new, old + channel.offset * item, used)
            memset(new + used, filler, unused)


cdef inline Status widen_rows(System* system) noexcept nogil:
    """Give all open channels room for `wanted` symbols, which is not less than they have."""
    cdef Channel* channels = <Channel*>system.stored.channels.data
    cdef size_t size = 0
    cdef uint32_t offset = 0
    cdef uint32_t c
    for c in range(system.numbers.n_channels):
        size += wanted_statistics(&channels[c])
    if size > MOST_STATISTICS \
            or not make_room(system, &system.stored.statistics, system.numbers.n_rows * size,
                             sizeof(double)) \
            or not make_room(system, &system.stored.stream, size, sizeof(double)) \
            or not make_room(system, &system.stored.fading, size, 1):
        return NO_MEMORY
    spread_rows(system, system.stored.statistics.data, system.numbers.n_rows, size,
                sizeof(double), 0)
    spread_rows(system, system.stored.stream.data, 1, size, sizeof(double), 0)
    spread_rows(system, system.stored.fading.data, 1, size, 1, 1)
    for c in range(system.numbers.n_channels):
        channels[c].n_statistics = wanted_statistics(&channels[c])
        channels[c].offset = offset
        offset += channels[c].n_statistics
    system.numbers.size = offset
    return OK


cdef inline Status reserve_open(System* system, const double* observation) noexcept nogil:
    """Make room for the symbols of an observation. Room is not part of the state of a filter."""
    cdef Channel* channels = <Channel*>system.stored.channels.data
    cdef bint grows = False
    cdef uint32_t c
    for c in range(system.numbers.n_channels):
        if channels[c].kind == CHANNEL_OPEN:
            channels[c].wanted = channels[c].n_statistics - 1
            if observation[c] >= channels[c].wanted:  # False for NaN
                channels[c].wanted = max(2 * channels[c].wanted, <uint32_t>LEAST_ROOM)
                grows = True
    return widen_rows(system) if grows else OK
