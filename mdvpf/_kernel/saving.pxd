# cython: language_level=3
"""Snapshots of whole systems, and systems from snapshots, in all formats."""

from libc.stdint cimport int32_t, int64_t, uint32_t

from mdvpf._kernel.alphabet cimport column_for
from mdvpf._kernel.constants cimport MISSING, OK, Status
from mdvpf._kernel.families cimport is_missing
from mdvpf._kernel.position_snapshot cimport write_keys
from mdvpf._kernel.real_restore cimport restore_real
from mdvpf._kernel.real_snapshot cimport take_real_snapshot
from mdvpf._kernel.restore cimport restore, restore_pending
from mdvpf._kernel.restore_records cimport reject
from mdvpf._kernel.saved_alphabet cimport read_alphabet, write_alphabet
from mdvpf._kernel.saved_statistics cimport write_statistics
from mdvpf._kernel.sections cimport Snapshot
from mdvpf._kernel.snapshot cimport take_snapshot
from mdvpf._kernel.statistics cimport observation_of
from mdvpf._kernel.types cimport System


cdef inline Status write_system(System* system, Snapshot* snapshot) noexcept nogil:
    """Fill the empty snapshot. The caller disposes of it, also after a failure."""
    cdef Status status = take_real_snapshot(system, snapshot) if system.model.real \
        else take_snapshot(system, snapshot)
    if status == OK and system.positions.enabled:
        status = write_keys(system, snapshot)
    if status == OK:
        status = write_alphabet(system, snapshot)
    if status == OK:
        status = write_statistics(system, snapshot)
    return status


cdef inline bint may_be_pending(const System* system, int32_t symbol) noexcept nogil:
    """Whether a symbol, as callers number them, and the observation can be pending."""
    cdef uint32_t n = system.numbers.n_channels
    if n and is_missing(observation_of(system, False), n) != (symbol == MISSING):
        return False
    return symbol < <int64_t>system.model.n_symbols + system.model.is_open


cdef inline Status read_system(
    System* system, Snapshot* snapshot, bint has_pending, int32_t symbol
) noexcept nogil:
    """Set a new system to the state of a snapshot; if `has_pending`, make the symbol pending."""
    cdef Status status = read_alphabet(system, snapshot)
    if status == OK:
        status = restore_real(system, snapshot) if system.model.real \
            else restore(system, snapshot)
    if status == OK and has_pending and not may_be_pending(system, symbol):
        status = reject(snapshot, "the pending symbol is out of range")
    if status == OK and has_pending:
        status = restore_pending(system, column_for(system, symbol))
    return status
