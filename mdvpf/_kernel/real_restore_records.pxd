# cython: language_level=3
"""Restoring the records of a system with real counts, at first with no references.

Every length, number and order is checked before it is used: see `real_restore.pxd`.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from mdvpf._kernel.clock cimport forgets, scale_at
from mdvpf._kernel.constants cimport (
    BAD_SNAPSHOT, GROUP, N_CLASSES, NODE_SIZE, NODE_UNITS, OK,
    Status,
)
from mdvpf._kernel.counts cimport children, new_record, put_item, width_of
from mdvpf._kernel.pool cimport at, class_of
from mdvpf._kernel.real_counts cimport (
    LABELLED, label_units, real_units, scale_in, states_in, sums_in,
)
from mdvpf._kernel.real_restore_lengths cimport MOST_LABELS, MOST_PAIRS, is_sum, kind_of
from mdvpf._kernel.restore_records cimport Records, hold, reject, reserve_classes
from mdvpf._kernel.sections cimport (
    BEHIND, CHILDREN, LABEL, LABEL_KIND, LARGEST_BEHIND, N_LABELS, NEXT_LABEL, PAIR_STATE,
    PAIR_SUM, ROW_PAIRS,
    Snapshot,
    words,
)
from mdvpf._kernel.types cimport Record, System, handle_t


# ---- groups and labels -------------------------------------------------------------------

# The start of the next record of each kind in its sections.
cdef struct Cursor:
    uint32_t n_nodes
    uint32_t n_groups
    uint32_t n_label_records
    size_t n_pairs
    size_t n_labels


cdef inline Status check_real_group(
    const System* system, Snapshot* snapshot, Records* records, const Cursor* cursor,
    uint32_t* shape,
) noexcept nogil:
    """Check the group at the cursor; set the shape that it needs."""
    cdef const uint32_t* n_pairs = words(snapshot, ROW_PAIRS) + <size_t>cursor.n_groups * GROUP
    cdef uint32_t largest_behind = LARGEST_BEHIND if forgets(system) else 0
    cdef double least = 1e-45 if forgets(system) else 1.0  # the smallest float, or the first count
    cdef uint64_t* latest_row = <uint64_t*>records.work.latest_row.data
    cdef uint64_t n = 0
    cdef size_t pair = cursor.n_pairs
    cdef size_t end = pair
    cdef uint32_t largest = 0
    cdef uint32_t which, state
    for which in range(<uint32_t>GROUP):
        n += n_pairs[which]
    if n == 0 or n > MOST_PAIRS:
        return reject(snapshot, "a group is empty or too large")
    if words(snapshot, BEHIND)[cursor.n_groups] > largest_behind:
        return reject(snapshot, "the scale of a group is out of range")
    for which in range(<uint32_t>GROUP):
        records.n_rows += 1
        end += n_pairs[which]
        while pair < end:
            state = words(snapshot, PAIR_STATE)[pair]
            if state >= records.most_states:
                return reject(snapshot, "a row has a state that does not exist")
            if latest_row[state] == records.n_rows:
                return reject(snapshot, "a row has a state twice")
            latest_row[state] = records.n_rows
            if not is_sum(system, words(snapshot, PAIR_SUM)[pair], least):
                return reject(snapshot, "a sum is out of range")
            largest = max(largest, state)
            pair += 1
    shape[0] = <uint32_t>n << 2 | width_of(max(largest, <uint32_t>n))
    return OK


cdef inline Status check_labels(
    Snapshot* snapshot, const Records* records, const Cursor* cursor, uint32_t* shape
) noexcept nogil:
    """Check the record of labels at the cursor; set its shape."""
    cdef uint32_t n = words(snapshot, N_LABELS)[cursor.n_label_records]
    cdef const uint32_t* label = words(snapshot, LABEL) + cursor.n_labels
    cdef uint32_t least = 0
    cdef uint32_t i
    if n > records.most_states or n > MOST_PAIRS:
        return reject(snapshot, "there are more labels than states")
    for i in range(n):
        if label[i] < least or label[i] > MOST_LABELS:
            return reject(snapshot, "labels are not in order")
        least = label[i] + 1
    if words(snapshot, NEXT_LABEL)[cursor.n_label_records] < least \
            or words(snapshot, NEXT_LABEL)[cursor.n_label_records] > MOST_LABELS:
        return reject(snapshot, "labels are not in order")
    shape[0] = n << 2 | LABELLED
    return OK


cdef inline Status check_record(
    const System* system, Snapshot* snapshot, Records* records, const Cursor* cursor,
    uint32_t kind, uint32_t* shape,
) noexcept nogil:
    """Check the record at the cursor, except the children of a node; set its shape."""
    shape[0] = 0
    if kind == 0:
        return check_real_group(system, snapshot, records, cursor, shape)
    if kind == LABEL_KIND:
        return check_labels(snapshot, records, cursor, shape)
    return OK


cdef inline void pass_record(Cursor* cursor, uint32_t kind, uint32_t shape) noexcept nogil:
    if kind == 0:
        cursor.n_groups += 1
        cursor.n_pairs += shape >> 2
    elif kind == LABEL_KIND:
        cursor.n_label_records += 1
        cursor.n_labels += shape >> 2
    else:
        cursor.n_nodes += 1


cdef inline uint32_t record_units(uint32_t shape) noexcept nogil:
    """Units of a record of this shape, header included."""
    if shape == 0:
        return NODE_UNITS
    if (shape & 3) == LABELLED:
        return label_units(shape)
    return real_units(shape)


cdef inline Status reserve_real_groups(
    System* system, Snapshot* snapshot, Records* records
) noexcept nogil:
    """Check the groups and the labels, and make room for all records."""
    cdef size_t[N_CLASSES] n
    cdef Cursor cursor
    cdef uint32_t shape = 0
    cdef int64_t k
    memset(n, 0, sizeof(n))
    memset(&cursor, 0, sizeof(Cursor))
    for k in range(records.n):
        if check_record(
            system, snapshot, records, &cursor, kind_of(snapshot, k), &shape
        ) != OK:
            return BAD_SNAPSHOT
        pass_record(&cursor, kind_of(snapshot, k), shape)
        n[class_of(&system.pool, record_units(shape))] += 1
    return reserve_classes(system, n)


# ---- making records ----------------------------------------------------------------------

cdef inline void fill_group(
    const System* system, Snapshot* snapshot, const Cursor* cursor, Record* group
) noexcept nogil:
    cdef uint32_t n = group.shape >> 2
    cdef uint32_t width = group.shape & 3
    cdef uint32_t end = 0
    cdef uint32_t i
    scale_in(group)[0] = <int32_t>(
        <uint32_t>scale_at(&system.now) - words(snapshot, BEHIND)[cursor.n_groups])
    memcpy(sums_in(group), words(snapshot, PAIR_SUM) + cursor.n_pairs, n * sizeof(float))
    for i in range(n):
        put_item(states_in(group), width, i, words(snapshot, PAIR_STATE)[cursor.n_pairs + i])
    for i in range(<uint32_t>GROUP):
        end += words(snapshot, ROW_PAIRS)[<size_t>cursor.n_groups * GROUP + i]
        put_item(states_in(group), width, n + i, end)


cdef inline void fill_labels(
    Snapshot* snapshot, const Cursor* cursor, Record* record
) noexcept nogil:
    cdef uint32_t* labels = <uint32_t*>(<char*>record + sizeof(Record))
    labels[0] = record.shape >> 2
    labels[1] = words(snapshot, NEXT_LABEL)[cursor.n_label_records]
    if labels[0]:
        memcpy(labels + 2, words(snapshot, LABEL) + cursor.n_labels,
               labels[0] * sizeof(uint32_t))


cdef inline Status hold_kind(
    System* system, Snapshot* snapshot, const Records* records, int64_t n, uint32_t number,
    uint32_t kind, handle_t* held,
) noexcept nogil:
    """`hold` for one of the first n records, which must be of a kind."""
    if number and number <= n and kind_of(snapshot, number - 1) != kind:
        return reject(snapshot, "a record has the wrong kind where it is used")
    return hold(system, snapshot, <const handle_t*>records.work.handles.data, n, number, held)


cdef inline Status fill_node(
    System* system, Snapshot* snapshot, const Records* records, const Cursor* cursor,
    int64_t record,
) noexcept nogil:
    """Set the children of a node, which are earlier records, one level below it."""
    cdef handle_t handle = (<const handle_t*>records.work.handles.data)[record]
    cdef const uint32_t* held = words(snapshot, CHILDREN) + <size_t>cursor.n_nodes * NODE_SIZE
    cdef bint is_empty = True
    cdef uint32_t i
    for i in range(<uint32_t>NODE_SIZE):
        is_empty = is_empty and held[i] == 0
        if hold_kind(system, snapshot, records, record, held[i], kind_of(snapshot, record) - 1,
                     &children(&system.pool, handle)[i]) != OK:
            return BAD_SNAPSHOT
    return reject(snapshot, "a node is empty") if is_empty else OK


cdef inline Status make_records(
    System* system, Snapshot* snapshot, Records* records
) noexcept nogil:
    """Make the records, held only by nodes, after `reserve_real_groups` has checked them."""
    cdef handle_t* handles = <handle_t*>records.work.handles.data
    cdef uint32_t* index = <uint32_t*>records.work.index.data
    cdef Record* record
    cdef Cursor cursor
    cdef uint32_t kind
    cdef uint32_t shape = 0
    cdef int64_t k
    memset(&cursor, 0, sizeof(Cursor))
    for k in range(records.n):
        kind = kind_of(snapshot, k)
        check_record(system, snapshot, records, &cursor, kind, &shape)
        handles[k] = new_record(&system.pool, record_units(shape), shape, 0)
        record = <Record*>at(&system.pool, handles[k])
        index[k] = cursor.n_nodes
        if kind == 0:
            fill_group(system, snapshot, &cursor, record)
        elif kind == LABEL_KIND:
            fill_labels(snapshot, &cursor, record)
        elif fill_node(system, snapshot, records, &cursor, k) != OK:
            return BAD_SNAPSHOT
        pass_record(&cursor, kind, shape)
    return OK
