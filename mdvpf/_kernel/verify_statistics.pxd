# cython: language_level=3
"""Verification of the statistics of families over numbers, for tests: see `verify.pxd`."""

from libc.stdint cimport int64_t, uint32_t

from mdvpf._kernel.clock cimport fading
from mdvpf._kernel.constants cimport BLOCK_STATES, CHANNEL_COMPILED, CHANNEL_OPEN
from mdvpf._kernel.families cimport is_row
from mdvpf._kernel.number_types cimport Channel
from mdvpf._kernel.open_channels cimport stream_row
from mdvpf._kernel.particles cimport block_of, shares_block
from mdvpf._kernel.real_particles cimport block_scale, real_into
from mdvpf._kernel.saved_channels cimport were_seen
from mdvpf._kernel.statistics cimport (
    PRIOR, channels_of, fading_of, refs_of_rows, row_at, scales_of_rows, statistics_of,
)
from mdvpf._kernel.types cimport System
from mdvpf._kernel.verify cimport check


cdef inline void verify_channels(System* system) except *:
    """Check the offsets of channels, and the counts of open ones in the stream and in all rows."""
    cdef const Channel* channel
    cdef double* seen
    cdef uint32_t c, i
    offset = 0
    for c in range(system.numbers.n_channels):
        channel = &channels_of(system)[c]
        check(channel.offset == offset, "the offset of a channel is wrong")
        offset += channel.n_statistics
        if channel.kind != CHANNEL_OPEN:
            continue
        check(channel.n_symbols < channel.n_statistics, "there is no room for a symbol")
        seen = stream_row(system) + channel.offset
        times = [seen[1 + i] for i in range(channel.n_statistics - 1)]
        check(seen[0] == sum(times), "the counts of symbols do not sum to the observations")
        check(all([n > 0 for n in times[:channel.n_symbols]]), "a symbol was not seen")
        check(not any(times[channel.n_symbols:]), "an unknown symbol was seen")
        check(all([fading_of(system)[channel.offset + i] for i in range(channel.n_statistics)]),
              "the count of a symbol does not fade")
    check(offset == system.numbers.size, "the size of rows is wrong")
    for i in range(system.numbers.n_rows if system.numbers.n_open else 0):
        if refs_of_rows(system)[i]:
            part = fading(scales_of_rows(system)[i], &system.now) if i else 1.0
            check(were_seen(system, row_at(system, i), part),
                  "a state observed a symbol more often than the stream")


cdef inline void verify_statistics(System* system) except *:
    cdef uint32_t* block
    cdef uint32_t i, c, row
    cdef int64_t k
    if not system.numbers.n_channels:
        check(system.numbers.n_rows == 0, "there are statistics where there should be none")
        return
    verify_channels(system)
    held = {PRIOR: 1}
    for k in range(system.n_particles):
        if shares_block(system, k):
            continue
        block = block_of(system, k)
        for i in range(block[BLOCK_STATES]):
            row = statistics_of(system, block)[i]
            check(row < system.numbers.n_rows, "a state has a row that does not exist")
            held[row] = held.get(row, 0) + 1
            entered = real_into(system, block)[i] * fading(block_scale(block), &system.now)
            for c in range(system.numbers.n_channels):
                if row == PRIOR or channels_of(system)[c].kind == CHANNEL_COMPILED:
                    continue
                seen = row_at(system, row)[channels_of(system)[c].offset] \
                    * fading(scales_of_rows(system)[row], &system.now)
                check(seen <= entered * 1.001 + 1e-3, "more observations than entries")
    for i in range(system.numbers.n_rows):
        check(refs_of_rows(system)[i] == held.get(i, 0), "the holders of a row are miscounted")
        if i in held:
            check(is_row(channels_of(system), system.numbers.n_channels, row_at(system, i)),
                  "a statistic is out of range")
    check(all([row_at(system, PRIOR)[i] == 0.0 for i in range(system.numbers.size)]),
          "the prior has observed something")
    check(len(held) == system.numbers.n_live, "the number of rows in use is wrong")
    free = set()
    row = system.numbers.freed
    while row:
        check(row not in free and row not in held, "the chain of free rows is wrong")
        free.add(row)
        row = <uint32_t>scales_of_rows(system)[row]
    check(len(free) + len(held) == system.numbers.n_rows, "a row is lost")
    check(system.numbers.n_prepared == 0, "rows are prepared for no commit")
