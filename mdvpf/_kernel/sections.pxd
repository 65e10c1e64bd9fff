# cython: language_level=3
"""The arrays of a snapshot, called sections.

Systems with integer counts have the sections up to STATE (`snapshot.pxd`). Systems with real counts
have the sections up to LAST_SYMBOL except SPREAD, LEVELS, SHAPE and ITEMS (`real_snapshot.pxd`). If
several keys were used, those from KEY_ADDRESS to POSITION_BELOW follow (`position_snapshot.pxd`);
with an open alphabet, SEEN and TREE (`saved_alphabet.pxd`); with a family over numbers, those from
STATISTIC to OBSERVATION (`saved_statistics.pxd`); with open channels, the last two
(`saved_channels.pxd`). A section of whole numbers may be narrower in a file.
"""

from libc.stdint cimport uint32_t
from libc.string cimport memset

from mdvpf._kernel.pool cimport dispose
from mdvpf._kernel.types cimport Buffer, Memory, System

# In the order of the tuple that the core returns. There are K particles, B blocks in the order of
# particles, and records, which are numbered from 1; 0 is none.
cdef enum:
    WEIGHT = 0              # double[K]
    LOG_WEIGHT = 1          # double[K]; empty if no weight is below SMALLEST_WEIGHT
    ANCESTOR = 2            # uint32_t[K]: parents in the latest step
    COPIES = 3              # uint32_t[B]: number of particles that share the block
    SPREAD = 4              # double[B]: sum over states of into / (into + prior), as stored
    N_STATES = 5            # uint32_t[B]
    CURRENT = 6             # uint32_t[B]: 1 + current state; 0: start state
    ROWS = 7                # uint32_t[B * handles of rows of the largest particle]
    COLUMNS = 8             # uint32_t[B * root]: nodes of the top level, groups if there is none
    LEVELS = 9              # uint32_t[]: nodes of each level of the trees, the top one first
    CHILDREN = 10           # uint32_t[nodes * NODE_SIZE]: nodes of the next level, or groups
    SHAPE = 11              # uint32_t[groups]: pairs << 2 | width of an item (0, 1, 2: 1, 2, 4)
    ITEMS = 12              # bytes: of each group GROUP ends, then pairs; items low byte first
    LEAF = 13               # uint32_t[B]: node of the newest generation, from 0; empty: no history
    GENERATIONS = 14        # uint32_t[]: nodes of each generation, the newest first
    PARENT = 15             # uint32_t[]: node in the previous generation, from 0; oldest: none
    STATE = 16              # uint32_t[]: label of the state of each history node
    # Real counts. Scales are stored as their distance behind that of the next step.
    KIND = 17               # uint8_t[records]: levels above the groups, or LABEL_KIND
    ROW_PAIRS = 18          # uint32_t[groups * GROUP]: pairs of each row
    BEHIND = 19             # uint32_t[groups]: scale of each group
    PAIR_STATE = 20         # uint32_t[pairs]: states, group by group
    PAIR_SUM = 21           # float[pairs]: sums of weights, as multiples of 2**scale
    LABELS = 22             # uint32_t[B]: record of labels
    N_LABELS = 23           # uint32_t[records of labels]: number of states listed
    NEXT_LABEL = 24         # uint32_t[records of labels]: label of the first state not listed
    LABEL = 25              # uint32_t[]: labels, record by record
    BLOCK_BEHIND = 26       # uint32_t[B]: scale of each block
    INTO = 27               # float[]: times that states were entered, block by block
    REACHED = 28            # uint32_t[]: oracle of rows: rows that lead to states, block by block
    LAST_SYMBOL = 29        # uint32_t[1]: column of the latest completed step
    # Keys, if one other than 0 was used: see `positions.pxd`.
    KEY_ADDRESS = 30        # uint32_t[numbers]: 1 + address of each key; 0: in the start state
    KEY_SYMBOL = 31         # uint32_t[numbers]: Mealy machine: column of the key's last symbol
    KEY_STATE = 32          # uint32_t[3]: the active key, the open stretch, the end of the round
    STRETCH_LIVE = 33       # uint8_t[stretches]: number of keys with an address in the stretch
    OPEN_LABELS = 34        # uint32_t[B * STRETCH]: 1 + labels of the open stretch
    POSITIONS = 35          # uint32_t[B]: tree of stretches; its records are numbered separately
    POSITION_LEVEL = 36     # uint8_t[records]: levels above the stretches
    POSITION_BELOW = 37     # uint32_t[records * NODE_SIZE]: records one level below, or 1 + labels
    # Open alphabets.
    SEEN = 38               # uint64_t[D]: count of each symbol, without the pending one
    TREE = 39               # uint32_t[3]: levels of columns, handles of the root, levels of rows
    # Families over numbers. Their rows are numbered from 1; 0 is the prior.
    STATISTIC = 40          # uint32_t[]: rows of states, block by block
    STATISTICS = 41         # double[rows * size]; of open channels 1 + D
    STATISTICS_BEHIND = 42  # uint32_t[rows]: scale of each row
    OBSERVATION = 43        # double[channels]: the pending observation; NaN if there is none
    # Families over numbers with open channels.
    CHANNEL_SYMBOLS = 44    # uint32_t[open channels]: symbols seen, D, without the pending one
    CHANNEL_SEEN = 45       # uint64_t[]: D counts of each open channel, without the pending symbol
    N_SECTIONS = 46

cdef enum:
    LABEL_KIND = 255        # kind of a record of labels
    # Larger distances are written as these. Counts with such a scale are zero in any case.
    LARGEST_BEHIND = 1073741824  # of a group
    LARGEST_BLOCK_BEHIND = 1000  # of a block

cdef struct Snapshot:
    Buffer[N_SECTIONS] section
    const char* fault       # the first fault that was found in it


cdef inline bint has_keys(const Snapshot* snapshot) noexcept nogil:
    return snapshot.section[KEY_STATE].bytes > 0


# The properties of a system that determine its sections.
cdef struct Format:
    bint real
    bint is_open
    bint of_numbers
    bint has_open_channels


cdef inline Format format_of(const System* system) noexcept nogil:
    cdef Format form
    form.real = system.model.real
    form.is_open = system.model.is_open
    form.of_numbers = system.numbers.n_channels > 0
    form.has_open_channels = system.numbers.n_open > 0
    return form


cdef inline bint has_section(Format form, bint keyed, int section) noexcept nogil:
    """Whether a section is part of a format."""
    if section >= CHANNEL_SYMBOLS:
        return form.has_open_channels
    if section >= STATISTIC:
        return form.of_numbers
    if section >= SEEN:
        return form.is_open
    if section >= KEY_ADDRESS:
        return keyed
    if not form.real:
        return section <= STATE
    return not (section == SPREAD or section == LEVELS or section == SHAPE or section == ITEMS)


cdef inline uint32_t* words(Snapshot* snapshot, int section) noexcept nogil:
    """The content of a section of 32-bit words."""
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
    """Point a snapshot to bytes objects, which must outlive it."""
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
