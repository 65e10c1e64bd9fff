# cython: language_level=3
"""The particles shown: the provisional ones while MD-VPA has a pending step, else those stored."""

from libc.stdint cimport int64_t, uint32_t

from mdvpf._kernel.constants cimport BLOCK_CURRENT, BLOCK_LEAF, BLOCK_STATES
from mdvpf._kernel.history cimport path_length, write_path
from mdvpf._kernel.labels cimport label_of
from mdvpf._kernel.particles cimport block_of
from mdvpf._kernel.positions cimport state_of_key
from mdvpf._kernel.real_particles cimport is_gone, outlives_step
from mdvpf._kernel.types cimport System

# A particle shown.
cdef struct Shown:
    double weight
    int64_t state           # label of its current state; -1: start state, or the state is gone
    int64_t n_states        # states that its path has visited
    int64_t parent


cdef inline int64_t shown_state(
    const System* system, uint32_t* block, uint32_t current, bint moved
) noexcept nogil:
    """The label of the current state; -1: the start state, or a state that is gone.

    `current` is 1 + the state, 0 for the start state. If `moved`, the particle moves there on the
    pending symbol.
    """
    if current and system.model.real and not moved \
            and is_gone(system, block, current - 1, &system.now):
        return -1
    if moved and system.model.real and not outlives_step(system, block, current - 1):
        return -1
    return <int64_t>label_of(system, block, current - 1) if current else -1


cdef inline Shown shown_particle(const System* system, int64_t i) noexcept nogil:
    """Particle i of those shown, with its state in the sequence of the latest symbol's key."""
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
    """The state of a particle shown, in the sequence of another key."""
    cdef uint32_t* block = block_of(system, system.provisional.parent[i] if system.pending else i)
    cdef uint32_t current = state_of_key(system, block, number)
    cdef bint moved = system.pending and current == system.provisional.state[i] + 1
    if system.pending and not moved and system.model.real and current \
            and is_gone(system, block, current - 1, &system.after):
        return -1
    return shown_state(system, block, current, moved)


cdef inline int64_t shown_held(const System* system, int64_t i) noexcept nogil:
    """Number of states of a particle shown that have not been released."""
    cdef uint32_t* block
    if not system.pending:
        return block_of(system, i)[BLOCK_STATES]
    block = block_of(system, system.provisional.parent[i])
    return block[BLOCK_STATES] + <int64_t>(system.provisional.state[i] == block[BLOCK_STATES])


cdef inline int64_t shown_path_length(const System* system) noexcept nogil:
    """Number of states that `write_shown_path` writes."""
    cdef int64_t n = path_length(&system.history)
    cdef bint is_full = system.history.lag and n == system.history.lag
    return n + (system.pending and not is_full)


cdef inline void write_shown_path(
    const System* system, int64_t i, int64_t n, int64_t* out
) noexcept nogil:
    """Write the n > 0 latest states on the path of a particle shown, in order of time."""
    cdef uint32_t* block
    if system.pending:
        n -= 1
        block = block_of(system, system.provisional.parent[i])
        out[n] = label_of(system, block, system.provisional.state[i])
        i = system.provisional.parent[i]
    if n > 0:
        write_path(&system.history, block_of(system, i)[BLOCK_LEAF], n, out)
