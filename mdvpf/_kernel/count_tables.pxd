# cython: language_level=3
"""The counts of a particle with integer counts, as dense tables."""

from libc.stdint cimport int64_t, uint32_t

from mdvpf._kernel.alphabet cimport symbol_at
from mdvpf._kernel.constants cimport BLOCK_CURRENT, BLOCK_STATES, MISSING
from mdvpf._kernel.counts cimport count_in, state_in
from mdvpf._kernel.particles cimport column_of, transition_row
from mdvpf._kernel.types cimport Row, System


cdef inline void add_counts(
    System* system, uint32_t* block, bint moved, uint32_t state, int64_t[:, ::1] transition,
    int64_t[:, ::1] emission,
) noexcept:
    """Add the counts of a block; if `moved`, after the move to `state` on the pending symbol."""
    cdef uint32_t j, i, symbol
    cdef Row row
    for j in range(block[BLOCK_STATES] + 1):
        row = transition_row(system, block, j)
        for i in range(row.n):
            transition[j, state_in(&row, i)] += count_in(&row, i)
    for symbol in range(system.model.n_symbols):
        row = column_of(system, block, symbol + system.model.first_symbol)
        for i in range(row.n):
            emission[state_in(&row, i), symbol] += count_in(&row, i)
    if moved:
        transition[block[BLOCK_CURRENT], state] += 1
        if system.pending_symbol != MISSING:
            emission[state, symbol_at(system, system.pending_symbol)] += 1
