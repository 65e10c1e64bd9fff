# cython: language_level=3
"""The particles that are shown: the committed ones or, while MD-VPA has a pending step,
provisional.
"""

from libc.stdint cimport int64_t, uint32_t

from mdvpf._kernel.constants cimport BLOCK_CURRENT, BLOCK_STATES
from mdvpf._kernel.labels cimport label_of
from mdvpf._kernel.particles cimport block_of
from mdvpf._kernel.positions cimport state_of_key
from mdvpf._kernel.real_particles cimport is_gone, outlives_step
from mdvpf._kernel.types cimport System

# A particle that is shown.
cdef struct Shown:
    double weight
    int64_t state           # label of the state that it is in; -1: the start state
    int64_t n_states        # states that its path has visited
    int64_t parent


cdef inline int64_t shown_state(
    const System* system, uint32_t* block, uint32_t current, bint moved
) noexcept nogil:
    """The label of the state 1 + `current` of a particle; -1: the start state."""
    if current and system.model.real and not moved \
            and is_gone(system, block, current - 1, &system.now):
        return -1
    if moved and system.model.real and not outlives_step(system, block, current - 1):
        return -1
    return <int64_t>label_of(system, block, current - 1) if current else -1


cdef inline Shown shown_particle(const System* system, int64_t i) noexcept nogil:
    """A particle that is shown, with its state in the sequence of the latest symbol's key."""
    cdef Shown shown
    cdef uint32_t* block
    cdef uint32_t state
    if system.pending:
        state = system.provisional.state[i]
        shown.parent = system.provisional.parent[i]
        block = block_of(system, shown.parent)
        shown.weight = system.provisional.weight[i]
        shown.state = shown_state(system, block, state + 1, True)
        shown.n_states = <int64_t>label_of(system, block, block[BLOCK_STATES]) \
            + <int64_t>(state == block[BLOCK_STATES])
    else:
        block = block_of(system, i)
        shown.weight = (<double*>system.stored.weight.data)[i]
        shown.state = shown_state(system, block, block[BLOCK_CURRENT], False)
        shown.n_states = label_of(system, block, block[BLOCK_STATES])
        shown.parent = (<uint32_t*>system.stored.ancestors.data)[i]
    return shown


cdef inline int64_t shown_state_of_key(
    const System* system, int64_t i, uint32_t number
) noexcept nogil:
    """The state of a particle that is shown in the sequence of another key."""
    cdef uint32_t* block = block_of(system, system.provisional.parent[i] if system.pending else i)
    cdef uint32_t current = state_of_key(system, block, number)
    cdef bint moved = system.pending and current == system.provisional.state[i] + 1
    if system.pending and not moved and system.model.real and current \
            and is_gone(system, block, current - 1, &system.after):
        return -1
    return shown_state(system, block, current, moved)
