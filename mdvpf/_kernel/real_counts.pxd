# cython: language_level=3
"""Real counts: groups of rows like those of `counts.pxd`, with sums of weights in place of counts.

After the header of a record come its scale (int32), the sums of all pairs (float), their states in
items of 1, 2 or 4 bytes, and the ends of the four rows in items of the same width.

A sum that has faded below a threshold reads as zero, and counting starts from zero again. The pair
is dropped when its group is next written to another record, which no reader notices. The threshold
of transitions is part of the model; that of emissions only saves memory.
"""

from libc.stdint cimport int32_t, uint32_t
from libc.string cimport memcpy

from mdvpf._kernel.clock cimport fading, power_of_two, scale_at, scales_apart, with_weight
from mdvpf._kernel.constants cimport FAR_SCALE, GROUP, NODE_SIZE, NONE, UNIT_BYTES
from mdvpf._kernel.counts cimport item, put_item, release_group, width_of
from mdvpf._kernel.pool cimport at, class_of, take_record
from mdvpf._kernel.types cimport Clock, Entries, Pool, Record, handle_t


cdef enum:
    LABELLED = 3            # marks a record of labels: the width in its shape


# ---- the parts of a group ----------------------------------------------------------------

cdef inline int32_t* scale_in(const Record* group) noexcept nogil:
    return <int32_t*>(<char*>group + sizeof(Record))


cdef inline float* sums_in(const Record* group) noexcept nogil:
    return <float*>(<char*>group + sizeof(Record) + sizeof(int32_t))


cdef inline void* states_in(const Record* group) noexcept nogil:
    """The items of a group: the states of all pairs, then GROUP ends."""
    return sums_in(group) + (group.shape >> 2)


cdef inline uint32_t real_end(const Record* group, uint32_t which) noexcept nogil:
    return item(states_in(group), group.shape & 3, (group.shape >> 2) + which)


cdef inline uint32_t real_start(const Record* group, uint32_t which) noexcept nogil:
    return 0 if which == 0 else real_end(group, which - 1)


cdef inline size_t real_bytes(uint32_t shape) noexcept nogil:
    """Bytes of a group of this shape after its header."""
    cdef size_t n = shape >> 2
    return sizeof(int32_t) + n * sizeof(float) + ((n + GROUP) << (shape & 3))


cdef inline size_t label_bytes(uint32_t shape) noexcept nogil:
    """Bytes of a record of labels after its header: two numbers and one for each state."""
    return (2 + <size_t>(shape >> 2)) * sizeof(uint32_t)


cdef inline size_t real_content_bytes(const Record* record) noexcept nogil:
    """Bytes after its header of a node, a record of labels or a group."""
    if record.shape == 0:
        return NODE_SIZE * sizeof(handle_t)
    if (record.shape & 3) == LABELLED:
        return label_bytes(record.shape)
    return real_bytes(record.shape)


cdef inline uint32_t real_units(uint32_t shape) noexcept nogil:
    """Units of a record that holds a group of this shape, header included."""
    return <uint32_t>((sizeof(Record) + real_bytes(shape) + UNIT_BYTES - 1) // UNIT_BYTES)


cdef inline uint32_t label_units(uint32_t shape) noexcept nogil:
    """Units of a record of labels of this shape, header included."""
    return <uint32_t>((sizeof(Record) + label_bytes(shape) + UNIT_BYTES - 1) // UNIT_BYTES)


# ---- reading -----------------------------------------------------------------------------

cdef inline void read_row(
    const Record* group, uint32_t which, const Clock* clock, double least, Entries* out
) noexcept nogil:
    """Write the entries of a row that are at least `least` as of a step."""
    cdef uint32_t n = 0
    cdef uint32_t width, i
    cdef double factor, count
    cdef const void* states
    cdef const float* sums
    if group != NULL:
        width = group.shape & 3
        states = states_in(group)
        sums = sums_in(group)
        factor = fading(scale_in(group)[0], clock)
        for i in range(real_start(group, which), real_end(group, which)):
            count = sums[i] * factor
            out.state[n] = item(states, width, i)
            out.count[n] = count
            n += count >= least
    out.n = n


cdef inline uint32_t real_find(
    const Record* group, uint32_t which, uint32_t state
) noexcept nogil:
    """Index of the state's pair in a row of the group; the end of the row if there is none."""
    cdef uint32_t width = group.shape & 3
    cdef uint32_t index = real_start(group, which)
    cdef uint32_t end = real_end(group, which)
    cdef const void* states = states_in(group)
    while index < end and item(states, width, index) != state:
        index += 1
    return index


cdef inline bint has_entry(
    const Record* group, uint32_t which, uint32_t state, const Clock* clock, double least
) noexcept nogil:
    """Whether the row has an entry of at least `least` for the state."""
    cdef uint32_t index
    if group == NULL:
        return False
    index = real_find(group, which, state)
    return index < real_end(group, which) \
        and sums_in(group)[index] * fading(scale_in(group)[0], clock) >= least


cdef inline void overlay_count(
    Entries* row, uint32_t state, const Record* group, uint32_t which,
    const Clock* now, const Clock* after, double least,
) noexcept nogil:
    """Overlay a count at step `now` on a row that was read from the group as of step `after`.

    The result has the same rounding as that of `add_weight`.
    """
    cdef uint32_t index, i
    cdef int32_t scale = scale_at(now)
    cdef double stored = 0.0
    cdef double count
    if group != NULL:
        index = real_find(group, which, state)
        if index < real_end(group, which):
            scale = scale_in(group)[0]
            stored = sums_in(group)[index]
            if stored * fading(scale, now) < least:
                stored = 0.0
                scale = scale_at(now)
    count = with_weight(stored, scale, now) * fading(scale, after)
    for i in range(row.n):
        if row.state[i] == state:
            row.count[i] = count
            return
    row.state[row.n] = state
    row.count[row.n] = count
    row.n += count >= least


# ---- writing -----------------------------------------------------------------------------

cdef inline uint32_t kept_pairs(
    const Record* group, double least, double factor, uint32_t index, uint32_t* largest
) noexcept nogil:
    """How many pairs of a group, besides the one at `index`, are at least `least`.

    `largest` is raised to the largest state among them.
    """
    cdef const float* sums = sums_in(group)
    cdef uint32_t width = group.shape & 3
    cdef uint32_t n = 0
    cdef uint32_t i, state
    for i in range(group.shape >> 2):
        if i != index and sums[i] * factor >= least:
            n += 1
            state = item(states_in(group), width, i)
            largest[0] = state if state > largest[0] else largest[0]
    return n


cdef inline handle_t write_group_anew(
    Pool* pool, handle_t handle, uint32_t which, uint32_t state, uint32_t index, bint found,
    const Clock* clock, double least,
) noexcept nogil:
    """Write a group to a new record, without faded pairs, with one pair counted at a step.

    `index` is that of the pair if `found`; otherwise the pair is appended to its row.
    """
    cdef const Record* group = NULL
    cdef Record* target
    cdef handle_t fresh
    cdef double factor = 0.0
    cdef double rescale = 1.0
    cdef double stored = 0.0
    cdef uint32_t largest = state
    cdef uint32_t n = 0
    cdef uint32_t kept = 0
    cdef uint32_t width, row, i, end
    if handle != NONE:
        group = <const Record*>at(pool, handle)
        factor = fading(scale_in(group)[0], clock)
        rescale = power_of_two(scales_apart(scale_in(group)[0], clock))
        kept = kept_pairs(group, least, factor, index if found else 0xFFFFFFFFu, &largest)
        if found:
            stored = sums_in(group)[index] * rescale
    kept += 1
    width = width_of(largest if largest > kept else kept)
    fresh = take_record(pool, class_of(pool, real_units(kept << 2 | width)))
    target = <Record*>at(pool, fresh)
    target.refs = 1
    target.note = 0
    target.shape = kept << 2 | width
    if found and target.shape == group.shape and rescale == 1.0:  # nothing else changes
        memcpy(scale_in(target), scale_in(group), real_bytes(group.shape))
        sums_in(target)[index] = <float>with_weight(stored, scale_at(clock), clock)
        release_group(pool, handle)
        return fresh
    scale_in(target)[0] = scale_at(clock)
    i = 0
    for row in range(<uint32_t>GROUP):
        end = 0 if group == NULL else real_end(group, row)
        while i < end:
            if found and i == index:
                put_item(states_in(target), width, n, state)
                sums_in(target)[n] = <float>with_weight(stored, scale_at(clock), clock)
                n += 1
            elif sums_in(group)[i] * factor >= least:
                put_item(states_in(target), width, n, item(states_in(group), group.shape & 3, i))
                sums_in(target)[n] = <float>(sums_in(group)[i] * rescale)
                n += 1
            i += 1
        if row == which and not found:
            put_item(states_in(target), width, n, state)
            sums_in(target)[n] = <float>with_weight(0.0, scale_at(clock), clock)
            n += 1
        put_item(states_in(target), width, kept + row, n)
    if handle != NONE:
        release_group(pool, handle)
    return fresh


cdef inline handle_t add_weight(
    Pool* pool, handle_t handle, uint32_t which, uint32_t state, const Clock* clock, double least
) noexcept nogil:
    """Add the weight of a step to a sum in a group that the caller holds; return its new handle.

    The sum is written in place if the group is not shared, has the pair and has a scale close to
    that of the step. Otherwise the group is written to a new record, for which `reserve_commit`
    has made room.
    """
    cdef Record* group
    cdef float* sum
    cdef uint32_t index = 0
    cdef bint found = False
    if handle != NONE:
        group = <Record*>at(pool, handle)
        index = real_find(group, which, state)
        # A faded pair counts as dropped: a new pair is appended to the row instead.
        found = index < real_end(group, which) \
            and sums_in(group)[index] * fading(scale_in(group)[0], clock) >= least
        if found and group.refs == 1 and scales_apart(scale_in(group)[0], clock) > -FAR_SCALE:
            sum = &sums_in(group)[index]
            sum[0] = <float>with_weight(sum[0], scale_in(group)[0], clock)
            return handle
    return write_group_anew(pool, handle, which, state, index, found, clock, least)
