# cython: language_level=3
"""The five algorithms behind one function, and the start of a sequence."""

from libc.stdint cimport int32_t, int64_t, uint32_t

from mdvpf._kernel.alphabet cimport count_symbol, use_symbol
from mdvpf._kernel.clock cimport set_elapsed
from mdvpf._kernel.constants cimport (
    ALGORITHM_LEARNING, ALGORITHM_MDVPA, ALGORITHM_SMC, MISSING, OK,
    Status,
    unlikely,
)
from mdvpf._kernel.growth cimport reserve_symbol
from mdvpf._kernel.keys cimport reserve_key
from mdvpf._kernel.open_channels cimport count_open, reserve_open
from mdvpf._kernel.positions cimport activate, end_key
from mdvpf._kernel.real_commit cimport recount_all
from mdvpf._kernel.reserve cimport reserve_step
from mdvpf._kernel.settling cimport settle_some
from mdvpf._kernel.statistics cimport observation_of
from mdvpf._kernel.step_drawn cimport step_learning, step_smc
from mdvpf._kernel.step_mdvpa cimport complete_pending, step_mdvpa
from mdvpf._kernel.step_ranked cimport Uniforms, step_ranked
from mdvpf._kernel.types cimport Report, System


cdef inline Status step(
    System* system, int32_t symbol, uint32_t number, double discount, Uniforms* uniforms,
    Report* report,
) noexcept nogil:
    """Absorb one symbol of a key, then do some settling. Nothing changes on failure.

    Once MD-VPA has completed the pending step nothing can fail: memory is reserved, and potentials
    of particles with counts are positive numbers (see SMALLEST_WEIGHT in `constants.pxd`).
    """
    cdef int64_t used = uniforms.used
    cdef double margin = system.margin
    cdef uint32_t active = system.positions.active
    cdef Status status = OK
    if system.model.is_open and symbol != MISSING:
        status = reserve_symbol(system, <uint32_t>symbol)
    elif system.numbers.n_open and symbol != MISSING:
        status = reserve_open(system, observation_of(system, False))
    if status == OK and unlikely(number != active):
        status = reserve_key(system, number)
        if status == OK and not system.pending:  # else MD-VPA completes a step of `active` first
            activate(system, number)
    if status == OK:
        status = reserve_step(system, system.n_candidates, system.most_states)
    if status == OK:
        use_symbol(system, symbol)
        if system.algorithm == ALGORITHM_MDVPA:
            status = step_mdvpa(system, symbol, number, discount, uniforms, report)
        elif system.algorithm == ALGORITHM_SMC:
            status = step_smc(system, symbol, uniforms, report)
        elif system.algorithm == ALGORITHM_LEARNING:
            status = step_learning(system, symbol, uniforms, report)
        else:
            status = step_ranked(system, symbol, uniforms, report)
    if status != OK:
        uniforms.used = used
        system.margin = margin
        if system.positions.active != active:
            activate(system, active)
        return status
    if system.model.is_open:
        count_symbol(system, symbol)
    elif system.numbers.n_open and symbol != MISSING:
        count_open(system, observation_of(system, False))
    if system.n_steps:
        settle_some(system)
    return status


cdef inline void set_time(System* system, double elapsed) noexcept nogil:
    """Set the time of the next symbol, in half-lives."""
    set_elapsed(system, elapsed)
    if not system.pending:
        recount_all(system)  # drops entries that have faded by then, if a recount is due


cdef inline Status start_sequence(
    System* system, uint32_t number, Uniforms* uniforms
) noexcept nogil:
    """Complete a pending step without look-ahead, and return a key to the start state."""
    cdef int64_t used = uniforms.used
    cdef double margin = system.margin
    cdef Status status
    if system.pending:
        status = reserve_step(system, system.n_candidates, system.most_states)
        if status == OK:
            status = complete_pending(system, MISSING, number, 0.0, uniforms)
        if status != OK:
            uniforms.used = used
            system.margin = margin
            return status
    end_key(system, number)
    return OK
