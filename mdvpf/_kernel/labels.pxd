# cython: language_level=3
"""Labels: the numbers of states by first appearance on the path of their particle.

The states of a particle with real counts are renumbered when some of them are released. The
particle then holds a record of labels: the number n of states that it lists, the label of state n,
and the labels of states 0 to n - 1. The states after n have the labels that follow that of n.
"""

from libc.stdint cimport uint32_t

from mdvpf._kernel.constants cimport BLOCK_LABELS, BLOCK_STATES, NONE
from mdvpf._kernel.pool cimport at
from mdvpf._kernel.types cimport Record, System


cdef inline const uint32_t* labels_in(const System* system, const uint32_t* block) noexcept nogil:
    return <const uint32_t*>(<char*>at(&system.pool, block[BLOCK_LABELS]) + sizeof(Record))


cdef inline uint32_t label_of(
    const System* system, const uint32_t* block, uint32_t state
) noexcept nogil:
    """The label of a state."""
    cdef const uint32_t* labels
    if not system.model.real or block[BLOCK_LABELS] == NONE:
        return state
    labels = labels_in(system, block)
    if state < labels[0]:
        return labels[2 + state]
    return labels[1] + (state - labels[0])


cdef inline uint32_t n_labels_of(const System* system, const uint32_t* block) noexcept nogil:
    """How many states the path of the particle has visited: the label of the next new one."""
    return label_of(system, block, block[BLOCK_STATES])
