# cython: language_level=3
"""Constants of the core: sizes, limits, status codes and what the numeric arguments mean."""

cdef enum:
    NONE = 0                # no record, no page, no history node
    MISSING = -1            # a symbol that was not observed

    UNIT_BYTES = 8
    PAGE_BITS = 9           # a page has 2**9 units
    PAGE_UNITS = 512
    PAGE_BYTES = 4096
    MAX_PAGES = 8388607     # what handles can name
    TABLED = 1024           # counts below this have their quotients in a table
    SIZE_TABLE = 256        # record sizes, in units, whose class is looked up
    N_CLASSES = 112         # record sizes: 2..8 units, then four to a doubling

    SHELF_BITS = 5          # a shelf has 2**5 slots
    SHELF = 32

    GROUP_BITS = 2          # a record holds four rows
    GROUP = 4

    NODE_BITS = 4           # a node of the symbol tree has 16 children
    NODE_SIZE = 16
    NODE_UNITS = 10         # of a node
    STRETCH_BITS = 4        # 16 positions of keys form a stretch
    STRETCH = 16
    MAX_ROOT = 64           # handles kept in the particle itself

# A particle is a block of uint32: this header, into[cap], handles of the groups of its 1 + cap
# transition rows (row 0 is that of the start state), root of the symbol tree and, once a second key
# was used, the handle of the tree of stretches and the labels of the open stretch. Entries of
# `into` past the number of states are 0. With real counts, `into` are 32-bit floats; with the
# oracle of rows, reached[cap] follows them, and in families over numbers the row of statistics of
# each state; in a Mealy machine a state has a tree of rows, by
# symbol, and its handle. `shelves.pxd` says where blocks lie.
cdef enum:
    BLOCK_STATES = 0        # number of states
    BLOCK_CURRENT = 1       # 1 + current state; 0: start state
    BLOCK_LEAF = 2          # history node
    BLOCK_SCALE = 3         # real counts: `into` is in units of 2**scale
    BLOCK_SPREAD = 4        # integer counts: a double, sum over states of into / (into + prior)
    BLOCK_LABELS = 4        # real counts: record of labels; NONE: a state is its own label
    BLOCK_HEADER = 6

cdef enum:
    RECOUNT_INTERVAL = 64   # steps: with forgetting, `reached` is counted afresh so often
    FAR_SCALE = 64          # a record whose scale is further off than this is rescaled when written

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
        __asm__ volatile ("");  /* else GCC drops calls of functions that only prefetch */
    #else
        (void)address;
    #endif
    }
    """
    # Scores are ordered on a grid of 2**-32, so that scores equal but for rounding are ties.
    const double GRID "MDVPF_GRID"
    # Log scores of moderate size that differ by more than this have the same order on the grid.
    const double BAND "MDVPF_BAND"
    # A potential is at least 1e-220: see the limits of hyper-parameters in `_validate.py`. Its
    # product with a weight above this does not underflow. With smaller weights scores are logs.
    const double SMALLEST_WEIGHT "MDVPF_SMALLEST_WEIGHT"
    # A transition, or a state, that was counted less than this has faded away.
    const double GONE "MDVPF_GONE"
    # An emission that was counted less than this is dropped.
    const double FAINT "MDVPF_FAINT"
    # Observed numbers are no larger: sums of their squares stay finite.
    const double LARGEST_NUMBER "MDVPF_LARGEST_NUMBER"
    void prefetch "mdvpf_prefetch"(const void* address) noexcept nogil

cdef extern from *:
    # Keeps the code behind a rare branch out of the way of the rest.
    bint unlikely(bint condition) noexcept nogil

cdef enum Status:
    OK = 0
    NO_MEMORY = 1           # an allocation failed; nothing has changed
    NOT_A_NUMBER = 2        # a score is NaN; nothing has changed
    COUNT_LIMIT = 3         # a count would pass 2**32 - 1; nothing has changed
    TOO_FEW_UNIFORMS = 4    # the caller passed fewer uniforms than the step draws; nothing changed
    BAD_SNAPSHOT = 5        # the arrays to restore from contradict each other
    BAD_EMISSION = 6        # a function of the user's failed; nothing has changed

# In the order of `ALGORITHMS` in `algorithms.py`.
cdef enum AlgorithmKind:
    ALGORITHM_MDVPA = 0
    ALGORITHM_VPA = 1
    ALGORITHM_SMC = 2
    ALGORITHM_LEARNING = 3
    ALGORITHM_OPTIMAL = 4

# In the order of the kinds in `number_families.py`.
cdef enum ChannelKind:
    CHANNEL_GAUSSIAN = 0
    CHANNEL_POISSON = 1
    CHANNEL_CATEGORICAL = 2
    CHANNEL_COMPILED = 3

cdef enum NormalizerKind:
    NORMALIZER_GEOMETRIC = 0
    NORMALIZER_SUM = 1
    NORMALIZER_NONE = 2

cdef enum ResamplingKind:
    RESAMPLING_MULTINOMIAL = 0
    RESAMPLING_STRATIFIED = 1
    RESAMPLING_SYSTEMATIC = 2
    RESAMPLING_RESIDUAL = 3
