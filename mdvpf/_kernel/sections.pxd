# cython: language_level=3
"""The arrays of a snapshot, called sections, of both formats.

Systems with integer counts have the sections up to STATE, as `snapshot.pxd` writes them. Systems
with real counts have those from KIND on as well, but none of SPREAD, LEVELS, SHAPE and ITEMS; they
are written by `real_snapshot.pxd`. Systems in which several keys were used have those from
KEY_ADDRESS on in addition, as `position_snapshot.pxd` writes them, those with an open alphabet
SEEN and TREE (`saved_alphabet.pxd`), and those of numbers what follows (`saved_statistics.pxd`). A
section of whole numbers may be narrower in a file.
"""

from libc.stdint cimport uint32_t
from libc.string cimport memset

from mdvpf._kernel.pool cimport dispose
from mdvpf._kernel.types cimport Buffer, Memory, System

# In the order in which they cross the boundary: of K particles, of B of them that differ or do not
# follow each other, and of their records, numbered from 1; 0 is none.
cdef enum:
    WEIGHT = 0              # double[K]
    LOG_WEIGHT = 1          # double[K], or empty if weights can be multiplied
    ANCESTOR = 2            # uint32_t[K]: parents in the latest step
    COPIES = 3              # uint32_t[B]: how many particles each entry stands for
    SPREAD = 4              # double[B]: sum over states of into / (into + prior), as it was rounded
    N_STATES = 5            # uint32_t[B]
    CURRENT = 6             # uint32_t[B]: 1 + current state; 0: start state
    ROWS = 7                # uint32_t[B * handles of rows of the largest particle]
    COLUMNS = 8             # uint32_t[B * root]: nodes of the top level, groups if there is none
    LEVELS = 9              # uint32_t[]: nodes of each level of the trees, the top one first
    CHILDREN = 10           # uint32_t[nodes * NODE_SIZE]: nodes of the next level, or groups
    SHAPE = 11              # uint32_t[groups]: pairs << 2 | width of an item (0, 1, 2: 1, 2, 4)
    ITEMS = 12              # bytes: of each group GROUP ends, then (state, count) pairs; low first
    LEAF = 13               # uint32_t[B]: node of the newest generation, from 0; empty: no history
    GENERATIONS = 14        # uint32_t[]: nodes of each generation, the newest first
    PARENT = 15             # uint32_t[]: node in the next generation, from 0; none for the last
    STATE = 16              # uint32_t[]: state of each node, by first appearance on its path
    # Real counts. A scale is given as what the clock of the next step is ahead of it.
    KIND = 17               # uint8_t[records]: levels above the groups, or LABEL_KIND
    ROW_PAIRS = 18          # uint32_t[groups * GROUP]: pairs of each row
    BEHIND = 19             # uint32_t[groups]: of the scale of the group
    PAIR_STATE = 20         # uint32_t[pairs]: states, a group after the other
    PAIR_SUM = 21           # float[pairs]: sums of weights in units of the scale
    LABELS = 22             # uint32_t[B]: record of labels
    N_LABELS = 23           # uint32_t[records of labels]: states that it lists
    NEXT_LABEL = 24         # uint32_t[records of labels]: label of the state after those
    LABEL = 25              # uint32_t[]: labels, a record after the other
    BLOCK_BEHIND = 26       # uint32_t[B]: of the scale of the block
    INTO = 27               # float[]: entries of the states, an entry of COPIES after the other
    REACHED = 28            # uint32_t[]: the same for the rows that reach them; oracle of rows only
    LAST_SYMBOL = 29        # uint32_t[1]: column of the latest completed step
    # Keys, of both formats, if a key but 0 was used: see `positions.pxd`.
    KEY_ADDRESS = 30        # uint32_t[numbers]: 1 + address of each key; 0: it is at the start
    KEY_SYMBOL = 31         # uint32_t[numbers]: column of its last symbol, of a Mealy machine
    KEY_STATE = 32          # uint32_t[3]: the active key, the open stretch, the end of the round
    STRETCH_LIVE = 33       # uint8_t[stretches]: keys that have an address there
    OPEN_LABELS = 34        # uint32_t[B * STRETCH]: 1 + labels of the open stretch
    POSITIONS = 35          # uint32_t[B]: tree of stretches; its records have numbers of their own
    POSITION_LEVEL = 36     # uint8_t[records]: levels above the stretches
    POSITION_BELOW = 37     # uint32_t[records * NODE_SIZE]: records one level below, or 1 + labels
    # Open alphabets, in both formats.
    SEEN = 38               # uint64_t[D]: how often each symbol was seen, the pending one left out
    TREE = 39               # uint32_t[3]: levels of columns, handles of the root, levels of rows
    # Families over numbers. Their rows are numbered from 1; 0 is the prior.
    STATISTIC = 40          # uint32_t[]: row of each state, as for INTO
    STATISTICS = 41         # double[rows * size]
    STATISTICS_BEHIND = 42  # uint32_t[rows]: of the scale of the row
    OBSERVATION = 43        # double[channels]: the pending one; NaN if there is none
    N_SECTIONS = 44

cdef enum:
    LABEL_KIND = 255        # kind of a record of labels
    LARGEST_BEHIND = 1073741824  # a group that is further behind is written as if it were not
    LARGEST_BLOCK_BEHIND = 1000  # and so is a block: what it holds is zero in both cases

cdef struct Snapshot:
    Buffer[N_SECTIONS] section
    const char* fault       # what is wrong with it


cdef inline bint has_keys(const Snapshot* snapshot) noexcept nogil:
    return snapshot.section[KEY_STATE].bytes > 0


# What a system is, as far as the format depends on it.
cdef struct Format:
    bint real
    bint is_open
    bint of_numbers


cdef inline Format format_of(const System* system) noexcept nogil:
    cdef Format form
    form.real = system.model.real
    form.is_open = system.model.is_open
    form.of_numbers = system.numbers.n_channels > 0
    return form


cdef inline bint has_section(Format form, bint keyed, int section) noexcept nogil:
    """Whether a section is part of a format."""
    if section >= STATISTIC:
        return form.of_numbers
    if section >= SEEN:
        return form.is_open
    if section >= KEY_ADDRESS:
        return keyed
    if not form.real:
        return section <= STATE
    return not (section == SPREAD or section == LEVELS or section == SHAPE or section == ITEMS)


cdef inline uint32_t* numbers(Snapshot* snapshot, int section) noexcept nogil:
    return <uint32_t*>snapshot.section[section].data


cdef inline tuple sections_of(const Snapshot* snapshot, Format form):
    """The arrays of a snapshot, as bytes objects."""
    cdef int i
    return tuple([
        (<char*>snapshot.section[i].data)[:snapshot.section[i].bytes]
        if snapshot.section[i].bytes else b"" for i in range(N_SECTIONS)
        if has_section(form, has_keys(snapshot), i)
    ])


cdef inline void borrow_sections(Snapshot* snapshot, Format form, tuple sections) except *:
    """Let a snapshot look at bytes objects, which must outlive it."""
    cdef bytes section
    cdef int i
    memset(snapshot, 0, sizeof(Snapshot))
    expected = [i for i in range(N_SECTIONS) if has_section(form, True, i)]
    if len(sections) == len(expected) - (SEEN - KEY_ADDRESS):
        expected = [i for i in range(N_SECTIONS) if has_section(form, False, i)]
    if len(sections) != len(expected):
        raise ValueError(f"{len(sections)} sections: expected {len(expected)}")
    for i, section in zip(expected, sections):
        snapshot.section[i].data = <char*>section
        snapshot.section[i].bytes = len(section)
    if KEY_STATE in expected and not has_keys(snapshot):
        raise ValueError("the sections of keys are empty")


cdef inline void dispose_snapshot(Memory* memory, Snapshot* snapshot) noexcept nogil:
    cdef int i
    for i in range(N_SECTIONS):
        dispose(memory, &snapshot.section[i])
