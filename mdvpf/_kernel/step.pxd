# cython: language_level=3
"""The five algorithms behind one function, and the start of a sequence."""

from libc.stdint cimport int32_t, int64_t, uint32_t

from mdvpf._kernel.alphabet cimport count_symbol, use_symbol
from mdvpf._kernel.constants cimport (
    ALGORITHM_LEARNING, ALGORITHM_MDVPA, ALGORITHM_SMC, BLOCK_CURRENT, MISSING, OK,
    Status,
)
from mdvpf._kernel.growth cimport reserve_symbol
from mdvpf._kernel.particles cimport block_of
from mdvpf._kernel.reserve cimport reserve_step
from mdvpf._kernel.settling cimport settle_some
from mdvpf._kernel.step_drawn cimport step_learning, step_smc
from mdvpf._kernel.step_mdvpa cimport complete_pending, step_mdvpa
from mdvpf._kernel.step_ranked cimport Uniforms, step_ranked
from mdvpf._kernel.types cimport Report, System


cdef inline Status step(
    System* system, int32_t symbol, double discount, Uniforms* uniforms, Report* report
) noexcept nogil:
    """Absorb one symbol, or change nothing. Some settling is done after each.

    Once MD-VPA has completed the pending step nothing can fail: room was made, and potentials
    of particles that have counts are positive numbers (see the limits in `types.pxd`).
    """
    cdef int64_t used = uniforms.used
    cdef double margin = system.margin
    cdef Status status = OK
    if system.model.is_open and symbol != MISSING:
        status = reserve_symbol(system, <uint32_t>symbol)
    if status == OK:
        status = reserve_step(system, system.n_candidates, system.most_states)
    if status == OK:
        use_symbol(system, symbol)
        if system.algorithm == ALGORITHM_MDVPA:
            status = step_mdvpa(system, symbol, discount, uniforms, report)
        elif system.algorithm == ALGORITHM_SMC:
            status = step_smc(system, symbol, uniforms, report)
        elif system.algorithm == ALGORITHM_LEARNING:
            status = step_learning(system, symbol, uniforms, report)
        else:
            status = step_ranked(system, symbol, uniforms, report)
    if status != OK:
        uniforms.used = used
        system.margin = margin
        return status
    if system.model.is_open:
        count_symbol(system, symbol)
    if system.n_steps:
        settle_some(system)
    return status


cdef inline Status start_sequence(System* system, Uniforms* uniforms) noexcept nogil:
    """Complete what is pending without a look-ahead; the next symbol comes from the start state."""
    cdef int64_t used = uniforms.used
    cdef double margin = system.margin
    cdef int64_t k
    cdef Status status
    if system.pending:
        status = reserve_step(system, system.n_candidates, system.most_states)
        if status == OK:
            status = complete_pending(system, MISSING, 0.0, uniforms)
        if status != OK:
            uniforms.used = used
            system.margin = margin
            return status
    for k in range(system.n_particles):
        block_of(system, k)[BLOCK_CURRENT] = 0
    return OK
