# cython: language_level=3
"""Verification of particles with real counts, for tests: see `verify.pxd`."""

from libc.math cimport isfinite
from libc.stdint cimport int64_t, uint32_t

from mdvpf._kernel.clock cimport clock_at, fading, forgets
from mdvpf._kernel.constants cimport (
    BLOCK_CURRENT, BLOCK_LABELS, BLOCK_STATES, GONE, GROUP, GROUP_BITS, NODE_BITS, NONE,
)
from mdvpf._kernel.counts cimport item, width_of
from mdvpf._kernel.labels cimport label_of, labels_in, n_labels_of
from mdvpf._kernel.particles cimport block_of, group_at, root_of, rows_of, used_groups
from mdvpf._kernel.pool cimport class_at, class_of
from mdvpf._kernel.real_counts cimport (
    LABELLED, real_end, real_start, real_units, scale_in, states_in, sums_in,
)
from mdvpf._kernel.real_particles cimport block_scale, live_states, reached_of, real_into
from mdvpf._kernel.types cimport Record, System, handle_t
from mdvpf._kernel.verify cimport check, collect_tree


cdef inline list real_rows(System* system, handle_t handle, uint32_t n_states):
    """The rows of a group as dicts of counts as of the next step, after checking its form."""
    cdef const Record* group = group_at(system, handle)
    cdef double factor = fading(scale_in(group)[0], &system.now)
    cdef uint32_t which, i
    rows = []
    largest = group.shape >> 2
    check((group.shape & 3) < LABELLED, "a record of labels is used as a group")
    for which in range(<uint32_t>GROUP):
        check(real_start(group, which) <= real_end(group, which), "the rows of a group overlap")
        row = {}
        for i in range(real_start(group, which), real_end(group, which)):
            state = item(states_in(group), group.shape & 3, i)
            check(state not in row, "a row has a state twice")
            check(state < n_states, "a row has a state that does not exist")
            check(sums_in(group)[i] > 0 and isfinite(sums_in(group)[i]), "a sum is not positive")
            row[state] = sums_in(group)[i] * factor
            largest = max(largest, state)
        rows.append(row)
    check((group.shape & 3) >= width_of(largest), "a group is too narrow")
    check(real_end(group, GROUP - 1) == group.shape >> 2, "a group has the wrong length")
    check(class_of(&system.pool, real_units(group.shape)) == class_at(&system.pool, handle),
          "a group is in a record of the wrong size")
    return rows


cdef inline void verify_labels(System* system, uint32_t* block, dict references) except *:
    cdef handle_t handle = block[BLOCK_LABELS]
    cdef const uint32_t* labels
    cdef uint32_t i
    if handle == NONE:
        return
    references[handle] = references.get(handle, 0) + 1
    check(system.is_relabelled, "there is an unexpected record of labels")
    check((group_at(system, handle).shape & 3) == LABELLED,
          "a record of labels has the wrong shape")
    labels = labels_in(system, block)
    check(labels[0] == group_at(system, handle).shape >> 2, "labels have the wrong number")
    check(labels[0] <= block[BLOCK_STATES], "there are more labels than states")
    all_labels = [label_of(system, block, i) for i in range(block[BLOCK_STATES] + 1)]
    check(all_labels == sorted(set(all_labels)), "labels are not in order")


cdef inline void verify_real(System* system, int64_t k, dict references) except *:
    cdef uint32_t* block = block_of(system, k)
    cdef uint32_t n_states = block[BLOCK_STATES]
    cdef double factor = fading(block_scale(block), &system.now)
    cdef uint32_t i
    fades = forgets(system)
    clock = clock_at(&system.model, system.n_steps + 1, system.now_elapsed)
    check(clock.exponent == system.now.exponent and clock.mantissa == system.now.mantissa,
          "the clock is wrong")
    check(block[BLOCK_CURRENT] <= n_states <= system.most_states, "a state is out of range")
    check(system.most_states <= system.state_capacity, "a block is too short")
    check(live_states(system, block, &system.now) <= system.model.max_states,
          "a particle has too many states")
    check(n_labels_of(system, block) <= system.most_labels, "a label is out of range")
    verify_labels(system, block, references)
    into = [real_into(system, block)[i] * factor for i in range(n_states)]
    check(all([isfinite(count) and count >= 0.0 for count in into]),
          "an entry is not a finite number")
    reached = [0.0] * n_states
    emitted = [0.0] * n_states
    n_rows = [0] * n_states
    for i in range(system.n_groups):
        groups = {}
        collect_tree(system, rows_of(system, block)[i], system.row_depth, 0, references, groups)
        check(not groups or i < used_groups(system, block),
              "there are transitions beyond the states")
        for handle in groups.values():
            for row in real_rows(system, handle, n_states):
                for state, count in row.items():
                    reached[state] += count
                    n_rows[state] += count >= GONE
    groups = {}
    for i in range(system.root_size):
        collect_tree(system, root_of(system, block)[i], system.depth - 1,
                     i << (NODE_BITS * (system.depth - 1)), references, groups)
    of_numbers = system.numbers.n_channels > 0
    check(not (of_numbers and groups), "a filter over numbers has columns")
    for number, handle in groups.items():
        for which, row in enumerate(real_rows(system, handle, n_states)):
            check(not row or (number << GROUP_BITS) + which <= system.model.n_symbols,
                  "there are emissions beyond the alphabet")
            for state, count in row.items():
                emitted[state] += count
    # Faded transitions and faint emissions may be missing; sums are cut to 24 bits.
    for count, arrived, left in zip(into, reached, into if of_numbers else emitted):
        check(abs(count - left) <= 1e-3 * count + 1e-3, "emissions do not sum to entries")
        check(arrived <= count * 1.001 + 1e-3, "more transitions than entries")
        if not fades:
            check(count == arrived == left or count > 2**24, "transitions do not sum to entries")
    if not fades and system.n_steps < 2**24:
        check(sum(into) == system.n_steps, "entries do not sum to the number of steps")
    if system.model.by_rows:
        counted = [reached_of(system, block)[i] for i in range(n_states)]
        if not fades:
            check(counted == n_rows, "the numbers of rows that lead to states are wrong")
