# cython: language_level=3
"""Verification of a whole system, for tests."""

from mdvpf._kernel.constants cimport BLOCK_STATES
from mdvpf._kernel.particles cimport block_of, shares_block
from mdvpf._kernel.types cimport System
from mdvpf._kernel.verify cimport (
    check, verify_alphabet, verify_buffers, verify_history, verify_particle, verify_pool,
    verify_slots, verify_totals,
)
from mdvpf._kernel.verify_positions cimport verify_keys, verify_positions
from mdvpf._kernel.verify_real cimport verify_real
from mdvpf._kernel.verify_statistics cimport verify_statistics


cdef inline void verify_all(System* system) except *:
    """Recompute totals, reference counts and ranges; raise AssertionError if one is wrong."""
    references = {}
    for k in range(system.n_particles):
        if not shares_block(system, k):
            if system.model.real:
                verify_real(system, k, references)
            else:
                verify_particle(system, k, references)
            verify_positions(system, k, references)
    verify_keys(system)
    verify_pool(system, references)
    verify_slots(system)
    verify_buffers(system)
    verify_totals(system)
    verify_alphabet(system)
    verify_statistics(system)
    verify_history(system)
    check(system.n_potentials == sum(
        [block_of(system, k)[BLOCK_STATES] + 1 for k in range(system.n_particles)]
    ), "the number of potentials is wrong")
    check(system.n_candidates == system.n_potentials or system.model.real,
          "the number of candidates is wrong")
    weights = [(<double*>system.stored.weight.data)[k] for k in range(system.n_particles)]
    check(abs(sum(weights) - 1.0) < 1e-9, "weights do not sum to one")
    check(1 <= system.n_particles <= system.budget, "too many particles")
    check(1 <= system.kept <= system.budget, "the number kept is out of range")
    if system.pending:
        check(1 <= system.pending_kept <= system.budget, "the number kept is out of range")
        check(1 <= system.provisional.n <= system.pending_kept, "too many provisional particles")
