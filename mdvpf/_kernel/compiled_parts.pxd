# cython: language_level=3
"""Families of users, alone or in a product: the calls of their C functions.

Each family reads and writes only its own part of observations and of rows of statistics. Its
functions are not called for an observation in which all its numbers are missing.
"""

from libc.math cimport isfinite
from libc.stdint cimport uint32_t
from libc.string cimport memset, strncpy

from mdvpf._kernel.buffers cimport make_room
from mdvpf._kernel.constants cimport BAD_EMISSION, NO_MEMORY, OK, Status
from mdvpf._kernel.families cimport is_missing
from mdvpf._kernel.number_types cimport (
    LOG_PREDICTIVE_STATUS, LOG_PREDICTIVE_VALUE, MOST_LABEL, UPDATE_STATUS, UPDATE_VALUE,
    Channel, Compiled, FaultKind, LogPredictive, Update,
)
from mdvpf._kernel.types cimport System


cdef inline const Compiled* compiled_at(const System* system, uint32_t part) noexcept nogil:
    return &(<const Compiled*>system.stored.compiled.data)[part]


cdef inline const Channel* channel_of_part(
    const System* system, const Compiled* part
) noexcept nogil:
    """The channel that has the statistics of a part."""
    return &(<const Channel*>system.stored.channels.data)[part.first]


cdef inline Status open_parts(System* system, tuple parts) except *:
    """Store the families of users.

    Each is a tuple: first channel, number of channels, the addresses of its two functions and of
    its data, and a label in UTF-8.
    """
    cdef Compiled* part
    cdef uint32_t i
    cdef bytes label
    if not make_room(system, &system.stored.compiled, len(parts), sizeof(Compiled)):
        return NO_MEMORY
    for i in range(<uint32_t>len(parts)):
        part = &(<Compiled*>system.stored.compiled.data)[i]
        memset(part, 0, sizeof(Compiled))
        part.first = parts[i][0]
        part.n_channels = parts[i][1]
        part.log_predictive = <LogPredictive><size_t>parts[i][2]
        part.update = <Update><size_t>parts[i][3]
        part.user_data = <void*><size_t>parts[i][4]
        label = parts[i][5]
        strncpy(part.label, label, MOST_LABEL - 1)
        system.numbers.widest = max(
            system.numbers.widest, channel_of_part(system, part).n_statistics)
    system.numbers.n_compiled = <uint32_t>len(parts)
    return OK


cdef inline Status note_fault(
    System* system, uint32_t part, FaultKind fault, int status
) noexcept nogil:
    system.numbers.faulty = part
    system.numbers.fault = fault
    system.numbers.fault_status = status
    return BAD_EMISSION


cdef inline Status update_parts(
    System* system, const double* observation, double weight, double* row
) noexcept nogil:
    """Add an observation to a row of statistics, in the parts of all families of users."""
    cdef const Compiled* part
    cdef const Channel* channel
    cdef uint32_t i, k
    cdef int status
    for k in range(system.numbers.n_compiled):
        part = compiled_at(system, k)
        channel = channel_of_part(system, part)
        if is_missing(observation + part.first, part.n_channels):
            continue
        status = part.update(
            observation + part.first, weight, row + channel.offset, part.user_data)
        if status != 0:
            return note_fault(system, k, UPDATE_STATUS, status)
        for i in range(channel.n_statistics):
            if not isfinite(row[channel.offset + i]):
                return note_fault(system, k, UPDATE_VALUE, 0)
    return OK


cdef inline str fault_text(const System* system):
    """Return the error message for the last fault of a user's function."""
    cdef const Compiled* part = compiled_at(system, system.numbers.faulty)
    cdef FaultKind fault = system.numbers.fault
    name = "log_predictive" if fault in (LOG_PREDICTIVE_STATUS, LOG_PREDICTIVE_VALUE) \
        else "update"
    what = "wrote a number that is not finite: expected finite ones"
    if fault == LOG_PREDICTIVE_STATUS or fault == UPDATE_STATUS:
        what = f"returned the status {system.numbers.fault_status}: expected 0"
    label = (<bytes>part.label).decode("utf-8", "replace")
    return f"{name} of the emission family {label} {what}; the filter is as it was"
