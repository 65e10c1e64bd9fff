# cython: language_level=3
"""The state of a system as text, for debugging the core.

Each particle is listed with the records that it holds, and each record with its handle and its
reference count, so that one sees which rows are shared. Real counts are those as of the next step,
including those that have faded away. States are shown by their labels.
"""

from libc.stdint cimport int64_t, uint32_t

from mdvpf._kernel.buffers cimport allocated_bytes
from mdvpf._kernel.clock cimport fading
from mdvpf._kernel.constants cimport (
    BLOCK_CURRENT, BLOCK_LABELS, BLOCK_LEAF, BLOCK_STATES, GROUP, GROUP_BITS, MISSING, NODE_BITS,
    NODE_SIZE, NONE,
)
from mdvpf._kernel.counts cimport children, count_in, item, row_in, state_in
from mdvpf._kernel.labels cimport label_of, n_labels_of
from mdvpf._kernel.particles cimport (
    block_of, end_of_sharing, group_at, root_of, rows_of, shares_block, used_groups,
)
from mdvpf._kernel.pool cimport at, count_records, used_bytes
from mdvpf._kernel.positions cimport address_of, state_of_key, stretches_of
from mdvpf._kernel.real_counts cimport real_end, real_start, scale_in, states_in, sums_in
from mdvpf._kernel.statistics cimport refs_of_rows, row_at, statistics_of
from mdvpf._kernel.types cimport Record, Row, System, handle_t


cdef enum:
    MOST_KEYS = 20          # keys listed for each particle


cdef inline str counted(int64_t n, str noun):
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


cdef inline str symbol_text(const System* system, int64_t symbol):
    """The symbol of a column."""
    if symbol == MISSING or symbol == system.model.missing:
        return "missing"
    return f"symbol {symbol - system.model.first_symbol}"


cdef inline str record_text(const System* system, handle_t handle):
    return f"record {handle}, {counted((<const Record*>at(&system.pool, handle)).refs, 'ref')}"


cdef inline list pairs_text(
    const System* system, const uint32_t* block, const Record* group, uint32_t which
):
    """The pairs of a row as text."""
    cdef Row row
    cdef double factor
    cdef uint32_t i
    if not system.model.real:
        row = row_in(group, which)
        return [f"{state_in(&row, i)}:{count_in(&row, i)}" for i in range(row.n)]
    factor = fading(scale_in(group)[0], &system.now)
    return [
        f"{label_of(system, block, item(states_in(group), group.shape & 3, i))}:"
        f"{sums_in(group)[i] * factor:.9g}"
        for i in range(real_start(group, which), real_end(group, which))
    ]


cdef inline str row_name(
    const System* system, const uint32_t* block, int64_t state, int64_t row, bint is_emission
):
    """The name of a row: a symbol, or a state; in a Mealy machine `state` - 1 and a symbol."""
    if is_emission:
        return symbol_text(system, row)
    if not system.model.mealy:
        state = row
    name = "start" if state == 0 else f"state {label_of(system, block, <uint32_t>(state - 1))}"
    return f"{name}, {symbol_text(system, row)}" if system.model.mealy and state else name


cdef inline void append_group(
    System* system, const uint32_t* block, handle_t handle, int64_t state, int64_t first,
    bint is_emission, str indent, list lines
) except *:
    """Append a line for a group, whose first row has number `first`."""
    cdef uint32_t which
    rows = []
    for which in range(<uint32_t>GROUP):
        pairs = pairs_text(system, block, group_at(system, handle), which)
        if pairs:
            name = row_name(system, block, state, first + which, is_emission)
            rows.append(f"{name} = {' '.join(pairs)}")
    lines.append(f"{indent}{record_text(system, handle)}: {'; '.join(rows)}")


cdef inline void append_tree(
    System* system, const uint32_t* block, handle_t handle, uint32_t level, int64_t state,
    int64_t first, bint is_emission, str indent, list lines
) except *:
    """Append the groups below a node `level` levels above the groups."""
    cdef int64_t i
    if handle == NONE:
        return
    if level == 0:
        append_group(system, block, handle, state, first << GROUP_BITS, is_emission, indent, lines)
        return
    lines.append(f"{indent}{record_text(system, handle)}: node")
    for i in range(NODE_SIZE):
        append_tree(system, block, children(&system.pool, handle)[i], level - 1, state,
                    first + (i << (NODE_BITS * (level - 1))), is_emission, indent + "  ", lines)


cdef inline void append_positions(System* system, uint32_t* block, list lines) except *:
    """Append the states of the first keys that are not in the start state."""
    cdef uint32_t number, current
    states = []
    for number in range(system.positions.n_numbers):
        current = state_of_key(system, block, number)
        if current and len(states) < MOST_KEYS:
            states.append(f"key {number} in state {label_of(system, block, current - 1)}")
    tree = stretches_of(system, block)[0]
    lines.append(f"  positions: {record_text(system, tree) if tree else 'no tree'}")
    lines.append(f"    {', '.join(states) or 'none'}")


cdef inline void append_statistics(
    System* system, uint32_t* block, uint32_t state, list lines
) except *:
    cdef uint32_t row = statistics_of(system, block)[state]
    cdef uint32_t i
    values = " ".join([f"{row_at(system, row)[i]:.9g}" for i in range(system.numbers.size)])
    refs = counted(refs_of_rows(system)[row], "ref")
    lines.append(f"    state {label_of(system, block, state)}: row {row}, {refs}: {values}")


cdef inline void append_particle(System* system, int64_t k, list lines) except *:
    cdef uint32_t* block = block_of(system, k)
    cdef int64_t first = k      # of the particles that share the block
    cdef int64_t last = end_of_sharing(system, k) - 1
    cdef uint32_t current = block[BLOCK_CURRENT]
    cdef int64_t i
    facts = [
        f"weight {(<double*>system.stored.weight.data)[k]:.9g}",
        counted(n_labels_of(system, block), "state"),
        f"in {'start' if current == 0 else f'state {label_of(system, block, current - 1)}'}",
        f"slot {(<uint32_t*>system.stored.slot.data)[k]}",
    ]
    if system.history.enabled:
        facts.append(f"history node {block[BLOCK_LEAF]}")
    while shares_block(system, first):
        first -= 1
    if first < last:
        facts.append(f"block shared by particles {first} to {last}")
    lines.append(f"particle {k}: {', '.join(facts)}")
    if first == k and block[BLOCK_STATES]:
        lines.append("  transitions")
        for i in range(used_groups(system, block)):
            append_tree(system, block, rows_of(system, block)[i], system.row_depth, i,
                        0 if system.model.mealy else i, False, "    ", lines)
        lines.append("  emissions")
        for i in range(system.root_size):
            append_tree(system, block, root_of(system, block)[i], system.depth - 1, 0,
                        i << (NODE_BITS * (system.depth - 1)), True, "    ", lines)
        if system.numbers.n_channels:
            lines.append("  statistics")
            for i in range(block[BLOCK_STATES]):
                append_statistics(system, block, <uint32_t>i, lines)
        if system.model.real and block[BLOCK_LABELS] != NONE:
            lines.append(f"  labels\n    {record_text(system, block[BLOCK_LABELS])}")
    if first == k and system.positions.enabled:
        append_positions(system, block, lines)


cdef inline void append_provisional(System* system, int64_t most, list lines) except *:
    """Append the provisional particles of MD-VPA."""
    cdef int64_t n = system.provisional.n
    cdef int64_t i
    lines.append(f"provisional set: {n} candidates of the pending symbol")
    for i in range(min(n, most)):
        lines.append(
            f"  particle {system.provisional.parent[i]} to state {system.provisional.state[i]}, "
            f"weight {system.provisional.weight[i]:.9g}"
        )
    if n > most:
        lines.append(f"  and {n - most} more")


cdef inline list header_lines(System* system):
    cdef int64_t k
    names = ("MD-VPA", "VPA", "SMC", "ParticleLearning", "OptimalResampling")
    pending = f"{symbol_text(system, system.pending_symbol)} pending" if system.pending \
        else "nothing pending"
    n_blocks = sum([not shares_block(system, k) for k in range(system.n_particles)])
    lines = [
        f"{names[<int>system.algorithm]}, budget {system.budget}, "
        f"{counted(system.n_steps, 'step')}, {pending}",
        f"{counted(system.n_particles, 'particle')} in {counted(n_blocks, 'block')} of "
        f"{4 * system.stride} bytes; shelves: {system.n_shelves}, {system.n_free_shelves} free",
        f"pool: {counted(count_records(&system.pool), 'record')} of {system.pool.live_bytes} bytes "
        f"in {counted(system.pool.n_pages - 1, 'page')} of {used_bytes(&system.pool)} bytes",
    ]
    if system.model.is_open:
        lines.append(
            f"open alphabet: {counted(system.model.n_symbols, 'symbol')}, seen {system.n_seen} "
            f"times; root {system.root_size}, depth {system.depth}"
        )
    if system.numbers.n_channels:
        lines.append(
            f"statistics: {counted(system.numbers.n_live, 'row')} of "
            f"{8 * system.numbers.size} bytes, {system.numbers.n_rows - system.numbers.n_live} free"
        )
    if system.positions.enabled:
        n_keys = sum([address_of(system, <uint32_t>k) > 0
                      for k in range(system.positions.n_numbers)])
        lines.append(
            f"{counted(n_keys, 'key')}, {system.positions.active} is active; "
            f"stretches: {system.positions.n_stretches}, {system.positions.open} is open; "
            f"trees of {counted(system.positions.levels, 'level')}"
        )
    if system.history.enabled:
        kept = f"last {system.history.lag} states" if system.history.lag else "full"
        lines.append(f"history: {kept}, {system.history.n_live} nodes")
    lines.append(f"{allocated_bytes(system)} bytes in all")
    return lines


cdef inline str state_text(System* system, int64_t most):
    """Describe the system, and its first `most` particles in full."""
    cdef int64_t k
    lines = header_lines(system)
    for k in range(min(system.n_particles, most)):
        append_particle(system, k, lines)
    if system.n_particles > most:
        lines.append(f"and {system.n_particles - most} more particles")
    if system.pending:
        append_provisional(system, most, lines)
    return "\n".join(lines) + "\n"
