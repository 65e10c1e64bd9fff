# cython: language_level=3
"""Verification of the invariants of a system, slowly and plainly, for tests.

It covers particles, their tables, the pool and histories, but not work space, which every step
overwrites.
"""

from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcmp, memcpy

from mdvpf._kernel.alphabet cimport seen_times
from mdvpf._kernel.buffers cimport find_arrays, reserved_bytes
from mdvpf._kernel.constants cimport (
    BLOCK_CURRENT, BLOCK_LEAF, BLOCK_STATES, GROUP, GROUP_BITS, MAX_ROOT, MISSING, NODE_BITS,
    NODE_SIZE, NONE, SHELF,
)
from mdvpf._kernel.counts cimport (
    children, columns, count_in, group_units, row_end, row_in, row_start, state_in, width_of,
)
from mdvpf._kernel.growth cimport depth_for, root_for, row_depth_for
from mdvpf._kernel.history cimport oldest_generation
from mdvpf._kernel.lookahead cimport total_row
from mdvpf._kernel.particles cimport (
    block_of, column_of, group_at, into_of, root_of, rows_of, shares_block, spread_in,
    transition_row, used_groups,
)
from mdvpf._kernel.pool cimport at, class_at, class_of
from mdvpf._kernel.types cimport History, Page, Record, Row, RowTotal, System, handle_t


cdef inline object check(bint holds, str message):
    if not holds:
        raise AssertionError(message)


cdef inline list verified_group(System* system, handle_t handle, uint32_t n_states):
    """The rows of a group as dicts, after checking its form."""
    cdef const Record* group = group_at(system, handle)
    cdef uint32_t which, i
    cdef Row row
    rows = []
    largest = group.shape >> 2
    for which in range(<uint32_t>GROUP):
        check(row_start(group, which) <= row_end(group, which), "the rows of a group overlap")
        row = row_in(group, which)
        pairs = {state_in(&row, i): count_in(&row, i) for i in range(row.n)}
        check(len(pairs) == row.n, "a row has a state twice")
        check(all([state < n_states for state in pairs]), "a row has a state that does not exist")
        check(all([count > 0 for count in pairs.values()]), "a row has a count of zero")
        rows.append(pairs)
        largest = max([largest] + list(pairs) + list(pairs.values()))
    check((group.shape & 3) >= width_of(largest), "a group is too narrow")
    check(row_end(group, GROUP - 1) == group.shape >> 2, "a group has the wrong length")
    check(class_of(&system.pool, group_units(group.shape)) == class_at(&system.pool, handle),
          "a group is in a record of the wrong size")
    return rows


cdef inline void collect_tree(
    System* system, handle_t handle, uint32_t level, uint32_t first, dict references, dict out
) except *:
    """Collect the groups below a node by number; count references, once for each holder."""
    cdef int i
    if handle == NONE:
        return
    references[handle] = references.get(handle, 0) + 1
    if level == 0:
        out[first] = handle
        return
    # Children are held by the node once, however many hold the node.
    below = references if references[handle] == 1 else {}
    for i in range(NODE_SIZE):
        collect_tree(system, children(&system.pool, handle)[i], level - 1,
                     first + (<uint32_t>i << (NODE_BITS * (level - 1))), below, out)


cdef inline void verify_particle(System* system, int64_t k, dict references) except *:
    cdef uint32_t* block = block_of(system, k)
    cdef uint32_t n_states = block[BLOCK_STATES]
    cdef uint32_t i
    check(block[BLOCK_CURRENT] <= n_states <= system.most_states, "a state is out of range")
    check(system.most_states <= system.state_capacity, "a block is too short")
    check(n_states <= system.model.max_states, "a particle has too many states")
    into = [into_of(system, block)[i] for i in range(system.state_capacity)]
    check(not any(into[n_states:]), "a state beyond the last was entered")
    into = into[:n_states]
    check(sum(into) == system.n_steps, "entries do not sum to the number of steps")
    check(all([count > 0 for count in into]), "a state was never entered")
    reached = [0] * n_states
    for i in range(system.n_groups):
        handle = rows_of(system, block)[i]
        if handle == NONE:
            continue
        check(i < used_groups(system, block), "there are transitions beyond the states")
        references[handle] = references.get(handle, 0) + 1
        for row in verified_group(system, handle, n_states):
            for state, count in row.items():
                reached[state] += count
    check(reached == into, "transitions do not sum to entries")
    emitted = [0] * n_states
    groups = {}
    for i in range(system.root_size):
        collect_tree(system, root_of(system, block)[i], system.depth - 1,
                     i << (NODE_BITS * (system.depth - 1)), references, groups)
    for number, handle in groups.items():
        check(columns(system, root_of(system, block), number << GROUP_BITS) == handle,
              "a group of columns is not found")
        for which, row in enumerate(verified_group(system, handle, n_states)):
            check(not row or (number << GROUP_BITS) + which <= system.model.n_symbols,
                  "there are emissions beyond the alphabet")
            for state, count in row.items():
                emitted[state] += count
    check(emitted == into, "emissions do not sum to entries")
    spread = sum([count / (count + system.model.prior) for count in into])
    check(abs(spread_in(block)[0] - spread) <= 1e-9 * spread, "the spread is wrong")


cdef inline void verify_alphabet(System* system) except *:
    """Check the counts of an open alphabet, and that the trees have room for it."""
    cdef uint32_t n = system.model.n_symbols
    cdef uint32_t i, symbol
    cdef int64_t k
    cdef Row row
    if not system.model.is_open:
        return
    seen = [seen_times(system)[i] for i in range(n)]
    check(all([times > 0 for times in seen]), "a symbol was never seen")
    check(sum(seen) == system.n_seen, "counts of symbols do not sum to the symbols seen")
    check(root_for(system, n) <= system.root_size <= MAX_ROOT, "the root is too small")
    check(depth_for(n) <= system.depth, "the trees of columns are too shallow")
    check(row_depth_for(system, n) <= system.row_depth, "the trees of rows are too shallow")
    if system.pending and system.pending_symbol != MISSING:
        seen[system.pending_symbol - 1] -= 1
    for k in range(0 if system.model.real else system.n_particles):
        if not shares_block(system, k):
            for symbol in range(1, n + 1):
                row = column_of(system, block_of(system, k), symbol)
                check(sum([count_in(&row, i) for i in range(row.n)]) == seen[symbol - 1],
                      "emissions of a symbol differ from the times it was seen")


cdef inline void verify_pool(System* system, dict references) except *:
    cdef Page* pages = <Page*>system.pool.store.pages.data
    cdef handle_t handle
    cdef uint32_t i
    live = 0
    n_bytes = 0
    for i in range(1, system.pool.n_pages):
        if pages[i].capacity:
            live += pages[i].n_live
            n_bytes += pages[i].n_live * system.pool.units[pages[i].size_class] * 8
            check(pages[i].n_live <= pages[i].n_touched <= pages[i].capacity, "a page is overfull")
    check(live == len(references), f"{live} records are live, {len(references)} are reached")
    check(n_bytes == system.pool.live_bytes, "live bytes are not the bytes of the records")
    for handle, count in references.items():
        check((<Record*>at(&system.pool, handle)).refs == count, "a reference count is wrong")
        check((<Record*>at(&system.pool, handle)).note == 0, "a note was left behind")


cdef inline void verify_buffers(System* system) except *:
    """Check that every buffer is in a struct of buffers, and that typed pointers are up to date."""
    cdef System again
    check(reserved_bytes(system) == system.memory.allocated, "a buffer is in no struct of buffers")
    memcpy(&again, system, sizeof(System))
    find_arrays(&again)
    check(memcmp(&again, system, sizeof(System)) == 0, "a pointer into a buffer is out of date")


cdef inline void verify_slots(System* system) except *:
    slots = [(<uint32_t*>system.stored.slot.data)[i] for i in range(system.n_particles)
             if not shares_block(system, i)]
    check(len(slots) == len(set(slots)), "a slot is used twice")
    shelves = sorted({slot // SHELF for slot in slots})
    shelves += [(<uint32_t*>system.stored.free_shelves.data)[i]
                for i in range(system.n_free_shelves)]
    check(sorted(shelves) == list(range(system.n_shelves)), "a shelf is lost or used twice")


cdef inline void verify_totals(System* system) except *:
    """Check the stored totals of the rows of current states, which the look-ahead uses."""
    cdef uint32_t* block
    cdef RowTotal total, stored
    cdef Row row
    cdef int64_t k
    if not (system.pending and system.lookahead.has_totals):
        return
    for k in range(system.n_particles):
        block = block_of(system, k)
        row = transition_row(system, block, block[BLOCK_CURRENT])
        total = total_row(into_of(system, block), &row)
        stored = system.lookahead.row_total[k]
        check(total.left == stored.left and total.visited == stored.visited,
              "the total of a row is wrong")


cdef inline void verify_history(System* system) except *:
    cdef History* history = &system.history
    cdef uint32_t* parent = <uint32_t*>history.tree.parent.data
    cdef uint32_t* refs = <uint32_t*>history.tree.refs.data
    cdef uint32_t n_known = system.most_labels if system.model.real else system.state_capacity
    cdef uint32_t node
    if not history.enabled:
        check(history.n_live == 0, "history nodes without a history")
        return
    held = {}
    leaves = [block_of(system, k)[BLOCK_LEAF] for k in range(system.n_particles)
              if not shares_block(system, k)]
    if history.generation == 0:
        check(not any(leaves), "a leaf before the first step")
        leaves = []
    for leaf in leaves:
        check(leaf != NONE, "a particle without a leaf")
        held[leaf] = held.get(leaf, 0) + 1
    generation = set(leaves)
    for _ in range(history.generation - oldest_generation(history)):
        above = set()
        for node in generation:
            held[parent[node]] = held.get(parent[node], 0) + 1
            above.add(parent[node])
        generation = above
    check(len(held) == history.n_live, "history nodes are lost")
    for node, count in held.items():
        check(refs[node] == count, "the reference count of a history node is wrong")
        check((<uint32_t*>history.tree.state.data)[node] < n_known,
              "the state of a history node is out of range")
