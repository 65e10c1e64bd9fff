# cython: language_level=3
"""Commit: replace the particles by their chosen children, in two phases.

`reserve_commit` makes all the room that the children may need and may fail; nothing that a user
can see has changed then. `commit` cannot fail. It lets go of parents without children first, so
that rows which only they shared can be written in place. Then, parent by parent, every child but
the last gets a copy of the parent's block that holds the same rows, and the last takes over the
block itself; only then is each child written, so the last one to write a row that nobody else
holds writes in place. Equal children (resampling draws some twice) share everything.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memcpy, memset

from mdvpf._counts cimport (
    add_one, column, hold_all, node_class, own_column, path_is_shared, release_row,
    release_tree, row_units, shape_after,
)
from mdvpf._history cimport (
    append_node, begin_generation, hold_leaf, release_leaf, reserve_history,
)
from mdvpf._pool cimport class_at, class_of, dispose, reserve, resize, trim
from mdvpf._score cimport block_in, block_of, into_of, record_at, root_of, rows_of
from mdvpf._types cimport (
    BLOCK_CURRENT, BLOCK_HEADER, BLOCK_LEAF, BLOCK_STATES, COUNT_LIMIT, MISSING, N_CLASSES,
    NO_MEMORY, NONE, OK,
    Buffer, Candidate, Record, Status, Survivors, System, handle_t,
)


# ---- room --------------------------------------------------------------------------------

cdef inline uint32_t stride_for(const System* system, uint32_t capacity) noexcept nogil:
    return BLOCK_HEADER + 2 * capacity + 1 + system.root_size


cdef inline Status grow_states(System* system, uint32_t capacity) noexcept nogil:
    """Give every block room for `capacity` states: the blocks move to a wider array."""
    cdef uint32_t stride = stride_for(system, capacity)
    cdef uint32_t old_capacity = system.state_capacity
    cdef uint32_t old_stride = system.stride
    cdef Buffer wider
    cdef uint32_t* source
    cdef uint32_t* target
    cdef int64_t i
    wider.data = NULL
    wider.bytes = 0
    if resize(&system.memory, &wider,
              <size_t>system.n_slots * stride * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    for i in range(system.n_slots):
        source = <uint32_t*>system.blocks.data + <size_t>i * old_stride
        target = <uint32_t*>wider.data + <size_t>i * stride
        memset(target, 0, stride * sizeof(uint32_t))
        memcpy(target, source, (BLOCK_HEADER + old_capacity) * sizeof(uint32_t))
        memcpy(target + BLOCK_HEADER + capacity, source + BLOCK_HEADER + old_capacity,
               (old_capacity + 1) * sizeof(uint32_t))
        memcpy(target + BLOCK_HEADER + 2 * capacity + 1,
               source + BLOCK_HEADER + 2 * old_capacity + 1,
               system.root_size * sizeof(uint32_t))
    dispose(&system.memory, &system.blocks)
    system.blocks = wider
    system.state_capacity = capacity
    system.stride = stride
    return OK


cdef inline Status grow_slots(System* system, int64_t n_slots) noexcept nogil:
    """Make room for `n_slots` particles, the new slots zeroed and free."""
    cdef size_t n = <size_t>n_slots
    cdef int64_t i
    if n_slots <= system.n_slots:
        return OK
    if resize(&system.memory, &system.blocks, n * system.stride * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &system.free_slots, n * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &system.slot, n * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &system.new_slot, n * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &system.ancestors, n * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &system.weight, n * sizeof(double)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &system.log_weight, n * sizeof(double)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &system.future, n * sizeof(double)) != OK:
        return NO_MEMORY
    memset(<uint32_t*>system.blocks.data + <size_t>system.n_slots * system.stride, 0,
           <size_t>(n_slots - system.n_slots) * system.stride * sizeof(uint32_t))
    for i in range(n_slots - 1, system.n_slots - 1, -1):
        (<uint32_t*>system.free_slots.data)[system.n_free_slots] = <uint32_t>i
        system.n_free_slots += 1
    system.n_slots = n_slots
    return OK


cdef inline Status reserve_survivors(System* system, Survivors* chosen, int64_t n) noexcept nogil:
    if resize(&system.memory, &chosen.parent, <size_t>n * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &chosen.state, <size_t>n * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &chosen.weight, <size_t>n * sizeof(double)) != OK:
        return NO_MEMORY
    return resize(&system.memory, &chosen.log_weight, <size_t>n * sizeof(double))


cdef inline void need_for_row(
    System* system, handle_t handle, uint32_t state, bint shared, int64_t* needs, Status* status
) noexcept nogil:
    """Count the record that adding one to the state's count in a row may take."""
    cdef const Record* row = record_at(system, handle)
    cdef uint32_t shape = shape_after(row, state)
    cdef uint32_t size_class
    if shape == 0:
        status[0] = COUNT_LIMIT
        return
    size_class = class_of(row_units(shape))
    if row == NULL or shared or row.refs > 1 or (row.shape & 3) != (shape & 3) \
            or size_class != class_at(&system.pool, handle):
        needs[size_class] += 1


cdef inline Status reserve_commit(
    System* system, const Survivors* chosen, int32_t symbol
) noexcept nogil:
    """Make all the room that `commit` may take."""
    cdef const uint32_t* parents = <const uint32_t*>chosen.parent.data
    cdef const uint32_t* states = <const uint32_t*>chosen.state.data
    cdef uint32_t emitted = system.model.n_symbols if symbol == MISSING else <uint32_t>symbol
    cdef int64_t[N_CLASSES] needs
    cdef Status status = OK
    cdef uint32_t* block
    cdef uint32_t most_states = 0
    cdef uint32_t capacity
    cdef int64_t i
    cdef bint shared
    memset(needs, 0, sizeof(needs))
    for i in range(chosen.n):
        if i > 0 and parents[i] == parents[i - 1] and states[i] == states[i - 1]:
            continue
        block = block_of(system, parents[i])
        shared = i + 1 < chosen.n and parents[i + 1] == parents[i]
        if states[i] >= most_states:
            most_states = states[i] + 1
        if states[i] < block[BLOCK_STATES] and into_of(system, block)[states[i]] == 0xFFFFFFFFu:
            return COUNT_LIMIT
        need_for_row(system, rows_of(system, block)[block[BLOCK_CURRENT]], states[i], shared,
                     needs, &status)
        shared = shared or path_is_shared(system, root_of(system, block), emitted)
        need_for_row(system, column(system, root_of(system, block), emitted), states[i], shared,
                     needs, &status)
    if status != OK:
        return status
    needs[node_class()] += chosen.n * (system.depth - 1)
    for i in range(N_CLASSES):
        if needs[i] and reserve(&system.pool, <uint32_t>i, needs[i]) != OK:
            return NO_MEMORY
    if reserve_history(&system.history, &system.memory, chosen.n) != OK:
        return NO_MEMORY
    if most_states > system.state_capacity:
        capacity = most_states + most_states // 8
        capacity = (capacity + 3) & ~3u
        if grow_states(system, capacity) != OK:
            return NO_MEMORY
    return grow_slots(system, chosen.n if chosen.n > system.n_particles else system.n_particles)


# ---- children ----------------------------------------------------------------------------

cdef inline void release_particle(System* system, int64_t particle) noexcept nogil:
    cdef uint32_t* block = block_of(system, particle)
    cdef handle_t* rows = rows_of(system, block)
    cdef handle_t* root = root_of(system, block)
    cdef uint32_t i
    for i in range(block[BLOCK_STATES] + 1):
        release_row(&system.pool, rows[i])
    for i in range(system.root_size):
        release_tree(&system.pool, root[i], system.depth - 1)
    release_leaf(&system.history, block[BLOCK_LEAF], system.history.generation)
    (<uint32_t*>system.free_slots.data)[system.n_free_slots] = (
        <uint32_t*>system.slot.data)[particle]
    system.n_free_slots += 1


cdef inline uint32_t fork_block(System* system, uint32_t slot) noexcept nogil:
    """Copy a block to a free slot; the copy holds the same rows. Its leaf is not held."""
    cdef uint32_t copy
    cdef uint32_t* source = block_in(system, slot)
    cdef uint32_t* target
    system.n_free_slots -= 1
    copy = (<uint32_t*>system.free_slots.data)[system.n_free_slots]
    target = block_in(system, copy)
    memcpy(target, source, system.stride * sizeof(uint32_t))
    hold_all(&system.pool, rows_of(system, target), target[BLOCK_STATES] + 1)
    hold_all(&system.pool, root_of(system, target), system.root_size)
    return copy


cdef inline void move(
    System* system, uint32_t slot, uint32_t state, uint32_t emitted
) noexcept nogil:
    """Move the particle in the slot to the state on the symbol."""
    cdef uint32_t* block = block_in(system, slot)
    cdef handle_t* rows = rows_of(system, block)
    cdef handle_t* place
    rows[block[BLOCK_CURRENT]] = add_one(&system.pool, rows[block[BLOCK_CURRENT]], state)
    if state == block[BLOCK_STATES]:
        into_of(system, block)[state] = 0
        rows[state + 1] = NONE
        block[BLOCK_STATES] += 1
    place = own_column(system, root_of(system, block), emitted)
    place[0] = add_one(&system.pool, place[0], state)
    into_of(system, block)[state] += 1
    block[BLOCK_CURRENT] = state + 1
    if system.history.enabled:
        block[BLOCK_LEAF] = append_node(&system.history, block[BLOCK_LEAF], state)


cdef inline void make_children(
    System* system, const Survivors* chosen, int64_t first, int64_t last, uint32_t emitted
) noexcept nogil:
    """Make the children first..last - 1, all those of one parent."""
    cdef const uint32_t* states = <const uint32_t*>chosen.state.data
    cdef uint32_t* new_slot = <uint32_t*>system.new_slot.data
    cdef uint32_t parent = (<const uint32_t*>chosen.parent.data)[first]
    cdef uint32_t slot = (<uint32_t*>system.slot.data)[parent]
    cdef uint32_t leaf = block_of(system, parent)[BLOCK_LEAF]
    cdef int64_t i
    cdef int64_t final = last - 1  # the child that takes over the parent's block
    while final > first and states[final - 1] == states[final]:
        final -= 1
    for i in range(first, final):
        if i == first or states[i] != states[i - 1]:
            new_slot[i] = fork_block(system, slot)
    new_slot[final] = slot
    for i in range(first, final + 1):
        if i == first or states[i] != states[i - 1]:
            move(system, new_slot[i], states[i], emitted)
    if system.history.enabled and system.history.lag != 1 and leaf != NONE:
        (<uint32_t*>system.history.refs.data)[leaf] -= 1  # the children hold it now
    for i in range(first + 1, last):
        if states[i] == states[i - 1]:
            new_slot[i] = fork_block(system, new_slot[i - 1])
            if system.history.enabled:
                hold_leaf(&system.history, block_in(system, new_slot[i])[BLOCK_LEAF])


cdef inline void commit(System* system, const Survivors* chosen, int32_t symbol) noexcept nogil:
    """Replace the particles by the chosen children. Room was made by `reserve_commit`."""
    cdef const uint32_t* parents = <const uint32_t*>chosen.parent.data
    cdef uint32_t emitted = system.model.n_symbols if symbol == MISSING else <uint32_t>symbol
    cdef size_t n = <size_t>chosen.n
    cdef int64_t k
    cdef int64_t first = 0
    cdef int64_t last
    cdef Buffer swap
    for k in range(system.n_particles):
        if first < chosen.n and parents[first] == k:
            while first < chosen.n and parents[first] == k:
                first += 1
        else:
            release_particle(system, k)
    begin_generation(&system.history)
    first = 0
    while first < chosen.n:
        last = first + 1
        while last < chosen.n and parents[last] == parents[first]:
            last += 1
        make_children(system, chosen, first, last, emitted)
        first = last
    swap = system.slot
    system.slot = system.new_slot
    system.new_slot = swap
    memcpy(system.weight.data, chosen.weight.data, n * sizeof(double))
    memcpy(system.log_weight.data, chosen.log_weight.data, n * sizeof(double))
    memcpy(system.ancestors.data, parents, n * sizeof(uint32_t))
    system.n_particles = chosen.n
    system.n_steps += 1
    trim(&system.pool)
