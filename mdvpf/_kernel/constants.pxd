# cython: language_level=3
"""Constants of the core: sizes, limits, status codes and the codes of arguments."""

cdef enum:
    NONE = 0                # no record, no page, no history node
    MISSING = -1            # a missing symbol

    UNIT_BYTES = 8
    PAGE_BITS = 9           # a page has 2**9 units
    PAGE_UNITS = 512
    PAGE_BYTES = 4096
    MAX_PAGES = 8388607     # page numbers have 23 of the 32 bits of a handle
    TABLED = 1024           # quotients of counts below this are in tables
    SIZE_TABLE = 256        # size classes of records of fewer units are in a table
    N_CLASSES = 112         # record sizes: 2..8 units, then four to a doubling

    SHELF_BITS = 5          # a shelf has 2**5 slots
    SHELF = 32

    GROUP_BITS = 2          # a group has four rows
    GROUP = 4

    NODE_BITS = 4           # a node has 16 children
    NODE_SIZE = 16
    NODE_UNITS = 10         # size of a node
    STRETCH_BITS = 4        # a stretch has the positions of 16 keys
    STRETCH = 16
    MAX_ROOT = 64           # most handles of the root of the symbol tree

# A block is an array of uint32. Let C be the states that it has room for:
#   header
#   into[C]: how often each state was entered; entries past the number of states are 0
#   oracle of rows: reached[C], the number of rows that lead to each state
#   families over numbers: row of statistics of each state [C]
#   handles of the groups of 1 + C transition rows, row 0 being that of the start state;
#       Mealy machine: for each of them, the handle of a tree of rows by symbol
#   handles of the root of the symbol tree
#   once a key other than 0 was used: handle of the tree of stretches, labels of the open stretch
# With real counts, `into` are 32-bit floats. Blocks are stored on shelves (`shelves.pxd`).
cdef enum:
    BLOCK_STATES = 0        # number of states
    BLOCK_CURRENT = 1       # 1 + current state; 0: start state
    BLOCK_LEAF = 2          # history node
    BLOCK_SCALE = 3         # real counts: `into` is in units of 2**scale
    BLOCK_SPREAD = 4        # integer counts: a double, sum over states of into / (into + prior)
    BLOCK_LABELS = 4        # real counts: record of labels; NONE: a state is its own label
    BLOCK_HEADER = 6

cdef enum:
    RECOUNT_INTERVAL = 64   # steps between recounts of `reached`, with forgetting
    FAR_SCALE = 64          # binades: a record whose scale is further off is rescaled when written

cdef extern from *:
    """
    #define MDVPF_GRID 4294967296.0
    #define MDVPF_BAND 1e-9
    #define MDVPF_SMALLEST_WEIGHT 1e-43
    #define MDVPF_GONE (0.9999 / 1024)
    #define MDVPF_FAINT (1.0 / 1073741824)
    #define MDVPF_LARGEST_NUMBER 1e140
    static inline void mdvpf_prefetch(const void* address) {
    #if defined(__GNUC__)
        __builtin_prefetch(address);
        __asm__ volatile ("");  /* keeps GCC from dropping calls of functions that only prefetch */
    #else
        (void)address;
    #endif
    }
    """
    # Log scores are compared on a grid of 2**-32, so that scores equal up to rounding are ties.
    const double GRID "MDVPF_GRID"
    # Log scores of moderate size that differ by more than this have the same order on the grid.
    const double BAND "MDVPF_BAND"
    # The limits of hyper-parameters (`_support/validate.py`) keep potentials above 1e-220. Their
    # products with weights above this do not underflow. With smaller weights scores are logs.
    const double SMALLEST_WEIGHT "MDVPF_SMALLEST_WEIGHT"
    # A count of transitions, or of entries into a state, below this has faded away.
    const double GONE "MDVPF_GONE"
    # A count of emissions below this is dropped.
    const double FAINT "MDVPF_FAINT"
    # Observed numbers are no larger than this, so that sums of their squares stay finite.
    const double LARGEST_NUMBER "MDVPF_LARGEST_NUMBER"
    void prefetch "mdvpf_prefetch"(const void* address) noexcept nogil

cdef extern from *:
    # Lets the compiler move the code of a rare branch out of the way.
    bint unlikely(bint condition) noexcept nogil

cdef enum Status:
    OK = 0
    NO_MEMORY = 1           # an allocation failed; nothing has changed
    NOT_A_NUMBER = 2        # a score is NaN; nothing has changed
    COUNT_LIMIT = 3         # a count would pass 2**32 - 1; nothing has changed
    TOO_FEW_UNIFORMS = 4    # the step needs more uniforms than the caller passed; nothing changed
    BAD_SNAPSHOT = 5        # the arrays to restore from contradict each other
    BAD_EMISSION = 6        # a user's emission function failed; nothing has changed

# In the order of `ALGORITHMS` in `model/algorithms.py`.
cdef enum AlgorithmKind:
    ALGORITHM_MDVPA = 0
    ALGORITHM_VPA = 1
    ALGORITHM_SMC = 2
    ALGORITHM_LEARNING = 3
    ALGORITHM_OPTIMAL = 4

# In the order of the kinds in `model/number_families.py`.
cdef enum ChannelKind:
    CHANNEL_GAUSSIAN = 0
    CHANNEL_POISSON = 1
    CHANNEL_CATEGORICAL = 2
    CHANNEL_COMPILED = 3
    CHANNEL_OPEN = 4

cdef enum NormalizerKind:
    NORMALIZER_GEOMETRIC = 0
    NORMALIZER_SUM = 1
    NORMALIZER_NONE = 2

cdef enum ResamplingKind:
    RESAMPLING_MULTINOMIAL = 0
    RESAMPLING_STRATIFIED = 1
    RESAMPLING_SYSTEMATIC = 2
    RESAMPLING_RESIDUAL = 3
