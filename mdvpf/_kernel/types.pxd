# cython: language_level=3
"""Types of the core: every struct, every field commented.

Sizes and indices of particles, states and symbols are 32 bits wide; steps and bytes 64.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from mdvpf._kernel.buffer_types cimport (
    Buffer, HistoryBuffers, Memory, PendingBuffers, PoolBuffers, StoredBuffers, SurvivorBuffers,
    ThreadBuffers, WorkBuffers,
)
from mdvpf._kernel.constants cimport (
    N_CLASSES, SIZE_TABLE,
    AlgorithmKind, NormalizerKind, ResamplingKind,
)
from mdvpf._kernel.number_types cimport Numbers

# A record in the pool: page number and offset within the page, in units of 8 bytes. 0 is no record.
ctypedef uint32_t handle_t

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

# A group of rows: GROUP ends, then (state, count) pairs, or what `real_counts.pxd` says. A node of
# a tree: NODE_SIZE handles. All start with this header.
cdef struct Record:
    uint32_t refs           # blocks and nodes that hold it
    uint32_t shape          # groups: pairs << 2 | width (0, 1, 2: items of 1, 2, 4 bytes); nodes: 0
    uint32_t note           # in a commit: its first note; in settling: its successor; else 0

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
    uint32_t n_symbols      # of an open alphabet: seen so far
    bint is_open            # the alphabet is open: see `alphabet.pxd`
    uint32_t missing        # column of what was not observed: V, of an open alphabet 0
    uint32_t first_symbol   # column of symbol 0: 0, of an open alphabet 1
    double concentration    # open alphabet: weight of the base distribution q in a state
    double strength         # open alphabet: of q, as is the
    double discount
    double alpha
    double gamma
    double beta             # of an open alphabet, here and below: of the symbol that is scored
    bint any_state          # oracle "any"
    uint32_t max_states     # UINT32_MAX: unbounded
    bint real               # counts are real numbers: one of the following differs from its default
    bint by_rows            # oracle "rows"
    bint mealy              # the symbol that a state emitted is part of what chooses a row
    double kappa            # stickiness
    double forget           # exponent of the weight of a step; 0: no forgetting of this form
    double rate             # 1 / half-life; 0: no forgetting of this form
    bint by_time            # half-lives are those of System.elapsed, not of steps
    double prior            # V * beta, or the concentration
    double new_emission     # p(y | new state): 1 / V, or q(y)
    double new_state        # gamma times that
    double base_count       # pseudo-count in a state of what is spread: beta, or the concentration
    double base_size        # over how many symbols evenly: V; of an open alphabet 1, by q
    const double* inverse   # 1 / (n + prior) of every n < TABLED
    const double* spread_term  # n / (n + prior): what a state entered n times adds to the spread

# The weight of a step, mantissa * 2**exponent. What was counted earlier has faded against it.
cdef struct Clock:
    int64_t exponent
    double mantissa         # at least 1/2, less than 2
    double inverse          # of the mantissa
    uint64_t dither         # 29 bits, added before a sum is cut to 24 bits

# A row of real counts as of a step: its entries that have not faded away.
cdef struct Entries:
    uint32_t n
    uint32_t* state
    double* count

# What scoring needs of a particle with real counts, as of a step. Arrays have one entry a state,
# and zeros for those that have faded away.
cdef struct RealView:
    uint32_t n_states
    uint32_t n_live         # states that have not faded away
    uint32_t current        # 1 + current state; 0: start state, also if that state has faded away
    bint offers_new
    double* into            # entries
    double* offered         # what the oracle goes by
    double* emitted         # observed emissions; `into` if none was missing
    double offered_total
    double left             # transitions from the current state, kappa included
    Entries row             # of the current state

# Where the sequence of a key stands.
cdef struct Standing:
    uint32_t current        # 1 + state; 0: start state
    uint32_t symbol         # that it emitted there, if the machine is a Mealy machine; V: missing

# Where the positions of all keys are, which is the same in all particles: see `positions.pxd`.
cdef struct Positions:
    bint enabled            # a key but 0 was used: blocks have room for positions
    uint32_t active         # number of the key that the blocks stand at
    uint32_t n_numbers      # numbers of keys that the tables have room for
    uint32_t levels         # of nodes in a tree of stretches
    uint32_t n_stretches    # numbers of stretches in use
    uint32_t round_end      # stretches of this round have smaller numbers
    uint32_t n_spare        # stretches of a round, beside twice those in use
    uint32_t open           # the stretch whose labels are in the blocks
    uint32_t open_live      # bits of its addresses that keys have

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
    double log_total        # families over numbers: log of the total, which is 1 then
    double log_predictive   # families over numbers: log of the predictive, which is 1 then

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
    double* real_into       # real counts: RealView.into
    double* real_offered
    double* real_emitted
    Entries row             # real counts: the row of the current state,
    Entries column          # and the column of a symbol

# Sums over the row of a particle's current state.
cdef struct RowTotal:
    int64_t left            # transitions from the state
    int64_t visited         # entries into the states reached from it

# Potentials of the look-ahead symbol under all particles. Logs are in whole units. They are summed
# by label or, where all states of a particle have a term in common, by its number of states.
cdef struct Lookahead:
    # Of families over numbers, `potential`, `log_sum` and `largest` are doubles.
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
    uint32_t n_tabled       # counts below this have their log of n/beta + 1 in the table
    int64_t log_beta
    int64_t log_new         # of model.new_state
    int64_t new_more        # what a new state may be worth more than one the oracle offers
    int64_t common          # no log potential is larger than both this and that of its label
    uint32_t n_labels       # with real counts: places
    # Real counts: sums by label are in a table, at places that are found by hashing.
    uint32_t* labels        # 1 + label at each place; 0: none
    uint32_t* candidate_place  # of each candidate of the set
    uint32_t n_places       # places in use
    uint32_t place_mask     # number of places, a power of two, minus one
    uint32_t place_shift    # from a hash of 32 bits to a place

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
    uint32_t row_depth      # levels of the tree of rows of a state; 0: its rows are in groups
    uint32_t rows_offset    # of the handles of rows in a block
    uint32_t root_offset    # of the root of the symbol tree in a block
    uint32_t positions_offset  # of the handle of the tree of stretches in a block, if it has one
    uint32_t n_shelves      # ever used; memory beyond them is reserved but untouched
    uint32_t n_free_shelves
    uint32_t next_slot      # for the next block; if it is the first of a shelf, take a shelf
    bint logarithmic        # a weight is too small to be multiplied: logs are kept as well
    int64_t n_particles

    Numbers numbers
    Positions positions
    History history
    int64_t n_steps         # completed steps
    double elapsed          # forgetting by time: half-lives up to the latest time that was told,
    double now_elapsed      # and up to that of the step that comes next; a pending one has its own
    Clock now               # real counts: of the step that comes next,
    Clock after             # and of the one after it
    uint32_t last_symbol    # column of the latest completed step; Mealy: of the active key
    uint64_t n_seen         # open alphabet: symbols seen, all together
    bint seen_missing       # whether a missing symbol was ever absorbed
    int64_t n_candidates    # most candidates of a step: sum of states that are not gone, + 1
    int64_t n_potentials    # sum of all states + 1
    uint32_t most_states    # of any particle
    uint32_t most_labels    # real counts: states that any path has visited, an upper bound
    bint is_relabelled      # real counts: some particles have a record of labels
    double mean_states      # weighted
    double log_evidence     # of all symbols seen
    int64_t release_interval  # steps after which states that have faded away are released
    int64_t settle_interval  # steps after which everything has been settled once
    int64_t n_settled       # records that settling compared or moved after the latest step

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
