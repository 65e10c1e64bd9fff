# cython: language_level=3
"""Types of the core. Every array of the core is a Buffer, every buffer belongs to one System.

Sizes and indices of particles, states and symbols are 32 bits wide; steps and bytes 64.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

# A record in the pool: page number and offset within the page, in units of 8 bytes. 0 is no record.
ctypedef uint32_t handle_t

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
    MAX_ROOT = 64           # handles kept in the particle itself

cdef extern from *:
    """
    #define MDVPF_GRID 4294967296.0
    #define MDVPF_BAND 1e-9
    #define MDVPF_SMALLEST_WEIGHT 1e-43
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
    # Two scores further apart than this, as logs of moderate size, stand in the same order on it.
    const double BAND "MDVPF_BAND"
    # A potential is at least 1e-220: see the limits of hyper-parameters in `_validate.py`. Its
    # product with a weight above this does not underflow. With smaller weights scores are logs.
    const double SMALLEST_WEIGHT "MDVPF_SMALLEST_WEIGHT"
    void prefetch "mdvpf_prefetch"(const void* address) noexcept nogil

cdef enum Status:
    OK = 0
    NO_MEMORY = 1           # an allocation failed; nothing has changed
    NOT_A_NUMBER = 2        # a score is NaN; nothing has changed
    COUNT_LIMIT = 3         # a count would pass 2**32 - 1; nothing has changed
    TOO_FEW_UNIFORMS = 4    # the caller passed fewer uniforms than the step draws; nothing changed
    BAD_SNAPSHOT = 5        # the arrays to restore from contradict each other

# In the order of `ALGORITHMS` in `algorithms.py`.
cdef enum AlgorithmKind:
    ALGORITHM_MDVPA = 0
    ALGORITHM_VPA = 1
    ALGORITHM_SMC = 2
    ALGORITHM_LEARNING = 3
    ALGORITHM_OPTIMAL = 4

cdef enum NormalizerKind:
    NORMALIZER_GEOMETRIC = 0
    NORMALIZER_SUM = 1
    NORMALIZER_NONE = 2

cdef enum ResamplingKind:
    RESAMPLING_MULTINOMIAL = 0
    RESAMPLING_STRATIFIED = 1
    RESAMPLING_SYSTEMATIC = 2
    RESAMPLING_RESIDUAL = 3

cdef struct Memory:
    int64_t allocated       # bytes held by all buffers and pages
    int64_t fail_after      # allocations until an injected failure; negative: never

cdef struct Buffer:
    void* data
    size_t bytes

# ---- records -----------------------------------------------------------------------------

cdef struct Page:
    uint32_t n_slots        # records that fit; 0: the page is unused or inside a longer one
    uint32_t n_live         # records in use
    uint32_t n_touched      # records ever handed out; those beyond are untouched memory
    uint32_t freed          # chain of freed records: unit offset + 1, 0 at its end
    uint32_t next_open      # next page of the same class with room, NONE at its end
    uint32_t size_class

cdef struct Pool:
    Memory* memory
    Buffer arena            # the pages, page 1 first
    Buffer pages            # Page[]; page 0 is never used
    uint32_t n_pages        # page numbers in use or chained as unused
    uint32_t n_empty        # pages of a class that hold no record
    uint32_t unused         # chain of page numbers to use again, through next_open
    uint32_t[N_CLASSES] units           # size of a record of the class
    uint8_t[SIZE_TABLE] class_of_size   # class of a record of so many units
    uint32_t[N_CLASSES] open            # first page of the class with room
    uint32_t largest        # units of the largest record ever handed out
    int64_t live_bytes

# A group of rows: GROUP ends, then (state, count) pairs. A node of the symbol tree: NODE_SIZE
# handles. Both start with this header.
cdef struct Record:
    uint32_t refs           # blocks and nodes that hold it
    uint32_t shape          # groups: pairs << 2 | width (0, 1, 2: items of 1, 2, 4 bytes)
    uint32_t note           # in a commit: the first note about it; in a move: where it is; else 0

# What a commit made of a shared record by adding one to a count.
cdef struct Change:
    handle_t before
    handle_t after
    uint32_t which          # row of the group, which may be below a node
    uint32_t state
    uint32_t next           # number of another note about the record, from 1; 0: none

cdef struct Changes:
    Buffer notes            # Change[]
    uint32_t n
    uint32_t capacity       # of notes; there are no more
    uint32_t most           # of any commit: room beyond them was never written

# One row of a group, wherever it is.
cdef struct Row:
    const void* pairs
    uint32_t n
    uint32_t width

# ---- particles ---------------------------------------------------------------------------

# A particle is a block of uint32: this header, into[cap], handles of the groups of its 1 + cap
# transition rows (row 0 is that of the start state), root of the symbol tree. Entries of `into`
# past the number of states are 0.
#
# Blocks lie on shelves in the order of their particles, which is the order in which they are read.
# The children of a step are put on other shelves, and those of the parents are free once all of
# their blocks have been passed.
cdef enum:
    BLOCK_STATES = 0        # number of states
    BLOCK_CURRENT = 1       # 1 + current state; 0: start state
    BLOCK_LEAF = 2          # history node
    BLOCK_SPREAD = 4        # a double: sum over states of into / (into + prior)
    BLOCK_HEADER = 6

cdef struct Model:
    uint32_t n_symbols
    double alpha
    double gamma
    double beta
    bint any_state          # oracle "any"
    uint32_t max_states     # UINT32_MAX: unbounded
    double prior            # V * beta
    double new_state        # gamma / V
    const double* inverse   # 1 / (n + prior) of every n < TABLED
    const double* spread    # n / (n + prior)

# A candidate: a particle and the state it would move to.
cdef struct Candidate:
    double value            # score, linear or log as CandidateSet.logarithmic says
    uint64_t place          # parent << 32 | state: the order of candidates

cdef struct CandidateSet:
    Buffer items            # Candidate[], ordered by (parent, state)
    int64_t n
    bint logarithmic        # values are logs: weights span more than a double does
    bint complete           # no candidate was left out
    double bound            # those left out have a smaller value
    double best             # largest value
    double least            # smallest value
    double total            # sum of exp(score) over all candidates, those left out included
    double predictive       # sum of weight * potential over all candidates

cdef struct Survivors:
    Buffer parent           # uint32_t[]
    Buffer state            # uint32_t[]
    Buffer weight           # double[]
    Buffer log_weight       # double[], if `logarithmic`
    int64_t n
    bint logarithmic        # a weight is too small to be multiplied: logs are kept as well
    double discarded        # share of the candidates' weight that none of them carries

# What scoring needs to know of a particle, as stored or with one more step overlaid.
cdef struct View:
    uint32_t n_states
    int64_t entered         # sum of into
    const uint32_t* into
    const uint32_t* emitted  # times that a symbol was observed; `into` if none was missing
    Row row                 # transitions from the current state
    Row missing             # emissions that were not observed
    bint offers_new         # whether a new state is a candidate

cdef struct Scratch:
    Buffer transition       # double[]: p(m | x)
    Buffer emission         # double[]: p(y | m)
    Buffer ones             # double[]: all of them 1
    Buffer stamp            # uint64_t[]: the number of the latest pair that named a state
    uint64_t n_stamped      # pairs numbered so far
    Buffer emitted          # uint32_t[]: emissions of each state, where some are missing
    Buffer times            # uint32_t[]: how often each state is drawn
    Buffer keys             # uint64_t[]: order keys of a selection
    Buffer order            # uint64_t[], int64_t[] or double[]: work space of a selection
    Buffer shares           # double[]: of candidates, or of particles in resampling; padded
    Buffer overlay_into     # uint32_t[]
    Buffer overlay_row      # uint32_t[]: pairs
    Buffer overlay_column   # uint32_t[]
    Buffer overlay_missing  # uint32_t[]

# What the row of a particle's present state sums to.
cdef struct RowTotal:
    int64_t left            # transitions from the state
    int64_t visited         # entries into the states reached from it

# What all particles make of a look-ahead symbol. Logs are in whole units, and have sums by label of
# the state or, for what a particle's states have in common, by its number of states.
cdef struct Lookahead:
    Buffer potential        # int64_t[]: log f(k, m, next symbol) of each candidate of the set
    Buffer log_sum          # int64_t[]: by label, of log potentials but for `share_sum`
    Buffer share_sum        # int64_t[]: by number of states, of the oracle's log shares
    Buffer n_with           # int64_t[]: particles with that many states
    Buffer n_offering       # int64_t[]: particles that have a candidate of the label
    Buffer linear_sum       # double[]: by label, of potentials
    Buffer largest          # int64_t[]: by label, of log potentials
    Buffer normalizer       # double[]: by label, G of the paper
    Buffer tabled           # int64_t[4 * TABLED]: logs of n, n/(n+prior), n/beta + 1, n + alpha
    Buffer row_total        # RowTotal[]: of each particle, if `has_totals`
    bint has_totals         # the latest expansion found them
    double unit             # units in 1
    int64_t log_beta
    int64_t log_new         # of model.new_state
    int64_t new_more        # what a new state may be worth more than one the oracle offers
    int64_t common          # no log potential is larger than both this and that of its label
    uint32_t n_labels

# ---- history -----------------------------------------------------------------------------

cdef struct History:
    bint enabled
    int64_t lag             # 0: full
    int64_t generation      # of the leaves; the first step is 1
    # From `parent` to `previous`, and nothing else there: an entry a node.
    Buffer parent           # uint32_t[]; chain of freed nodes through it as well
    Buffer refs             # uint32_t[]: children and particles
    Buffer state            # uint32_t[]
    Buffer next             # uint32_t[]: with a lag, the nodes of one generation are chained
    Buffer previous         # uint32_t[]
    Buffer heads            # uint32_t[]: with a lag, first node of generation g at g % lag
    uint32_t n_touched      # nodes ever used, node 0 (none) included
    uint32_t freed          # chain of freed nodes
    int64_t n_live

# ---- the whole ---------------------------------------------------------------------------

cdef struct System:
    Model model
    AlgorithmKind algorithm
    bint duplicating        # a path may be held more than once: there are always K particles
    NormalizerKind normalizer
    ResamplingKind resampling
    bint carry_weights
    bint select_optimal     # MD-VPA: survivors of a completed step by the optimal rule
    double ess_threshold    # SMC: resample below this share of the budget; >= 1: always
    int64_t budget          # K
    int n_threads

    Memory memory
    Pool pool
    uint32_t root_size      # handles of the symbol tree kept in a block
    uint32_t depth          # levels of the symbol tree, the root included

    Buffer tabled           # double[]: what model.inverse and model.spread point to
    Buffer blocks           # uint32_t[]: a block a slot, SHELF slots a shelf
    uint32_t stride
    uint32_t state_capacity  # a multiple of 4
    uint32_t n_groups       # handles of groups of transition rows in a block
    uint32_t n_shelves      # ever used; beyond them memory is only claimed
    Buffer free_shelves     # uint32_t[]: stack
    uint32_t n_free_shelves
    uint32_t next_slot      # for the next block; if it is the first of a shelf, take a shelf
    Buffer slot             # uint32_t[]: slot of each particle
    Buffer new_slot         # uint32_t[]: the same for the children, while they are made
    Buffer weight           # double[]
    Buffer log_weight       # double[], if `logarithmic`
    bint logarithmic        # a weight is too small to be multiplied: logs are kept as well
    int64_t n_particles

    History history
    int64_t n_steps         # completed steps
    bint met_missing        # whether a missing symbol was ever absorbed
    int64_t n_candidates    # what the particles offer at the most: sum of states + 1
    uint32_t most_states    # of any particle
    double mean_states      # weighted
    double log_evidence     # of all symbols seen

    bint pending            # MD-VPA: one symbol is seen but its step is not completed
    int32_t pending_symbol
    CandidateSet candidates  # of the step under way; MD-VPA: of the pending symbol
    CandidateSet tilted     # MD-VPA: the same with the look-ahead in their scores
    Survivors chosen        # of the step under way
    Survivors shown         # MD-VPA: the provisional set
    Buffer future           # double[]: probability of the symbol under each particle
    Buffer foresight        # double[]: MD-VPA: the same under the provisional set
    Buffer match            # int64_t[]: MD-VPA: index in `chosen` of each of `shown`, or -1
    Buffer ancestors        # uint32_t[]: parents of the latest completed step
    Buffer n_children       # uint32_t[]: of each particle
    Changes changes         # of the commit under way
    int64_t settle_interval  # steps after which equal records are merged, and all is settled
    Scratch scratch
    Lookahead lookahead
    Buffer part_space       # what `for_part` gives to parts after the first
    uint32_t part_states    # for how many states
    Buffer part_sizes       # int64_t[]: candidates that each part has collected
    # The most in any step since the work space was made: beyond that it was never written.
    int64_t most_collected  # candidates
    int64_t most_sampled    # scores of the sample
    int64_t most_shares     # potentials of ParticleLearning
    double margin           # MD-VPA: how far below the K best candidates are collected, as a log

# What a step reports.
cdef struct Report:
    double log_predictive
    double log_evidence
    double mean_states
    double ess
    double discarded
    int64_t n_particles
