# cython: language_level=3
"""Types of the core: every struct, every field commented.

Sizes and indices of particles, states and symbols are 32 bits wide; steps and bytes 64.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from mdvpf._kernel.constants cimport (
    N_CLASSES, SIZE_TABLE,
    AlgorithmKind, NormalizerKind, ResamplingKind,
)

# A record in the pool: page number and offset within the page, in units of 8 bytes. 0 is no record.
ctypedef uint32_t handle_t

cdef struct Memory:
    int64_t allocated       # bytes held by all buffers and pages
    int64_t fail_after      # allocations until an injected failure; negative: never

# Every array of the core is a Buffer.
cdef struct Buffer:
    void* data
    size_t bytes

# ---- the buffers of a system, by lifetime ------------------------------------------------

# The five groups below are all the buffers that a system has, and they have no other fields: a
# group is an array of Buffer. `buffers.pxd` copies, releases and counts each group as a whole, so a
# new field needs no further line anywhere. `verify` checks that no buffer is outside of them.

# The state of a filter, but for records and histories. A copy has all of it.
cdef struct StoredBuffers:
    Buffer blocks           # uint32_t[]: one block a slot, SHELF slots a shelf
    Buffer free_shelves     # uint32_t[]: stack
    Buffer slot             # uint32_t[]: slot of each particle
    Buffer weight           # double[]: of each particle
    Buffer log_weight       # double[], if the system is `logarithmic`
    Buffer ancestors        # uint32_t[]: parents of the latest completed step
    Buffer emission_tables  # double[2 * TABLED]: Model.inverse, then Model.spread_term
    Buffer log_tables       # int64_t[4 * TABLED]: logs of n, n/(n+prior), n/beta + 1, n + alpha

# The records. A copy has all pages.
cdef struct PoolBuffers:
    Buffer arena            # the pages, page 1 first
    Buffer pages            # Page[]; page 0 is never used

# The nodes of the histories; all but `heads` have one entry a node. A copy has all of them.
cdef struct HistoryBuffers:
    Buffer parent           # uint32_t[]; freed nodes are chained through it as well
    Buffer refs             # uint32_t[]: children and particles that hold the node
    Buffer state            # uint32_t[]
    Buffer next             # uint32_t[]: with a lag, the nodes of one generation are chained
    Buffer previous         # uint32_t[]
    Buffer heads            # uint32_t[]: with a lag, first node of generation g at g % lag

cdef struct SurvivorBuffers:
    Buffer parent           # uint32_t[]
    Buffer state            # uint32_t[]
    Buffer weight           # double[]
    Buffer log_weight       # double[]

# Work space, which becomes state while MD-VPA has a pending step. A copy has what is in use then.
cdef struct PendingBuffers:
    Buffer candidates       # Candidate[]
    Buffer row_total        # RowTotal[]: of each particle
    SurvivorBuffers provisional

# The part of the work space that every thread has for itself: 8 bytes a state, or fewer.
cdef struct ThreadBuffers:
    Buffer transition
    Buffer emission
    Buffer emitted
    Buffer stamp
    Buffer log_sum
    Buffer share_sum
    Buffer n_with
    Buffer largest

# Work space of a step. It is allocated when a step needs it and released by `settle`; a copy has
# none of it. Fields without a comment are explained where they are pointed to: in `Scratch`,
# `Lookahead`, `CandidateSet` and `Survivors`.
cdef struct WorkBuffers:
    ThreadBuffers own       # of the first thread
    Buffer thread_space     # the same for all other threads
    Buffer part_result      # int64_t[]: one number from each thread
    Buffer ones
    Buffer overlay_into
    Buffer overlay_row
    Buffer overlay_column
    Buffer overlay_missing
    Buffer symbol_probability  # double[]: probability of the symbol under each particle
    # Choosing.
    Buffer keys
    Buffer key_work
    Buffer shares
    SurvivorBuffers chosen
    # MD-VPA.
    Buffer tilted
    Buffer potential
    Buffer n_offering
    Buffer linear_sum
    Buffer normalizer
    Buffer chosen_index     # int64_t[]: index in `chosen` of each provisional particle, or -1
    Buffer provisional_probability  # double[]: of the symbol under those that were not chosen
    # SMC and ParticleLearning.
    SurvivorBuffers moved   # SMC: the particles after their move, before resampling
    Buffer resampling_weight  # double[]: of each moved particle
    Buffer offspring        # int64_t[]: of each moved particle
    Buffer guide            # uint64_t[]: see `resampling.pxd`
    Buffer block_potentials  # double[]: ParticleLearning: of all candidates of each block
    Buffer cumulative_weight  # double[]: ParticleLearning: of parents
    Buffer drawn_parent     # int64_t[]: ParticleLearning: parent of each draw
    Buffer sorted_uniforms  # double[]: ParticleLearning: uniforms for states, by parent
    Buffer children_end     # int64_t[]: ParticleLearning: where the children of each parent end
    Buffer n_drawn          # uint32_t[]: ParticleLearning: how often each state is drawn
    # Commit.
    Buffer new_slot         # uint32_t[]: slot of each child
    Buffer n_children       # uint32_t[]: of each particle
    Buffer updates          # SharedUpdate[]

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
    PoolBuffers store
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

# A note of a commit: what adding one to a count made of a shared record.
cdef struct SharedUpdate:
    handle_t before
    handle_t after
    uint32_t which          # row of the group, which may be below a node
    uint32_t state
    uint32_t next           # number of another note about the record, from 1; 0: none

cdef struct SharedUpdates:
    SharedUpdate* notes
    uint32_t n
    uint32_t capacity       # most notes that are kept

# One row of a group, wherever it is.
cdef struct Row:
    const void* pairs
    uint32_t n
    uint32_t width

# ---- particles ---------------------------------------------------------------------------

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
    const double* spread_term  # n / (n + prior): what a state entered n times adds to the spread

# A candidate: a particle and the state it would move to.
cdef struct Candidate:
    double value            # score, linear or log as CandidateSet.logarithmic says
    uint64_t parent_state   # parent << 32 | state: the order of candidates

cdef struct CandidateSet:
    Candidate* items        # ordered by (parent, state)
    int64_t n
    bint logarithmic        # values are logs: weights span more than a double does
    bint complete           # no candidate was left out
    double bound            # those left out have a smaller value
    double best             # largest value
    double least            # smallest value
    double total            # sum of exp(score) over all candidates, those left out included
    double predictive       # sum of weight * potential over all candidates

cdef struct Survivors:
    uint32_t* parent
    uint32_t* state
    double* weight
    double* log_weight      # if `logarithmic`
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

# Work space to score particles and to compare scores.
cdef struct Scratch:
    double* transition      # p(m | x)
    double* emission        # p(y | m)
    double* ones            # all of them 1
    uint64_t* stamp         # the number of the latest pair that named a state
    uint64_t n_stamped      # pairs numbered so far
    uint32_t* emitted       # emissions of each state, where some are missing
    uint32_t* overlay_into
    uint32_t* overlay_row   # pairs
    uint32_t* overlay_column
    uint32_t* overlay_missing
    uint64_t* keys          # order keys of a selection
    uint64_t* key_work      # as many numbers: work space of a selection
    double* shares          # optimal rule: values of candidates, up to a common factor

# Sums over the row of a particle's current state.
cdef struct RowTotal:
    int64_t left            # transitions from the state
    int64_t visited         # entries into the states reached from it

# Potentials of the look-ahead symbol under all particles. Logs are in whole units. They are summed
# by label or, where all states of a particle have a term in common, by its number of states.
cdef struct Lookahead:
    int64_t* potential      # log f(k, m, next symbol) of each candidate of the set
    int64_t* log_sum        # by label, of log potentials but for `share_sum`
    int64_t* share_sum      # by number of states, of the oracle's log shares
    int64_t* n_with         # particles with that many states
    int64_t* n_offering     # particles that have a candidate of the label
    double* linear_sum      # by label, of potentials
    int64_t* largest        # by label, of log potentials
    double* normalizer      # by label, G of the paper
    const int64_t* tabled   # StoredBuffers.log_tables
    RowTotal* row_total     # of each particle, if `has_totals`
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
    HistoryBuffers tree
    uint32_t n_touched      # nodes ever used, node 0 (none) included
    uint32_t freed          # chain of freed nodes
    int64_t n_live

# ---- the whole ---------------------------------------------------------------------------

# How far the work space was written since it was allocated: it is reserved for the worst case.
cdef struct Extents:
    int64_t collected       # most candidates of a step
    int64_t sampled         # most scores of a sample
    int64_t potentials      # most potentials of ParticleLearning
    int64_t updates         # most notes of a commit

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
    StoredBuffers stored
    PendingBuffers pending_step
    WorkBuffers work
    Extents extent

    uint32_t root_size      # handles of the symbol tree kept in a block
    uint32_t depth          # levels of the symbol tree, the root included
    uint32_t stride         # of a block, in numbers of 32 bits
    uint32_t state_capacity  # a multiple of 4
    uint32_t n_groups       # handles of groups of transition rows in a block
    uint32_t n_shelves      # ever used; memory beyond them is reserved but untouched
    uint32_t n_free_shelves
    uint32_t next_slot      # for the next block; if it is the first of a shelf, take a shelf
    bint logarithmic        # a weight is too small to be multiplied: logs are kept as well
    int64_t n_particles

    History history
    int64_t n_steps         # completed steps
    bint seen_missing       # whether a missing symbol was ever absorbed
    int64_t n_candidates    # upper bound on the candidates of a step: sum of states + 1
    uint32_t most_states    # of any particle
    double mean_states      # weighted
    double log_evidence     # of all symbols seen
    int64_t settle_interval  # steps after which equal records are merged, and all is settled

    bint pending            # MD-VPA: one symbol is seen but its step is not completed
    int32_t pending_symbol
    double margin           # MD-VPA: how far below the K best candidates are collected, as a log

    # What follows points into `pending_step` and `work`: see `find_arrays`.
    CandidateSet candidates  # of the step under way; MD-VPA: of the pending symbol
    CandidateSet tilted     # MD-VPA: the same with the look-ahead in their scores
    Survivors chosen        # of the step under way
    Survivors provisional   # MD-VPA: the set that is shown while a symbol is pending
    Survivors moved         # SMC: the particles after their move, before resampling
    SharedUpdates updates   # of the commit under way
    Scratch scratch
    Lookahead lookahead
    uint32_t thread_states  # states for which the other threads have work space

# What a step reports.
cdef struct Report:
    double log_predictive
    double log_evidence
    double mean_states
    double ess
    double discarded
    int64_t n_particles
