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

# The number of a record: page number << PAGE_BITS | its first unit within the page. 0: no record.
ctypedef uint32_t handle_t

# ---- records -----------------------------------------------------------------------------

cdef struct Page:
    uint32_t capacity       # records that fit; 0: unused, or a later page of a long record
    uint32_t n_live         # records in use
    uint32_t n_touched      # records ever allocated; memory beyond them was never written
    uint32_t freed          # first of the freed records, which are chained: 1 + its unit; 0: none
    uint32_t next_open      # next page of the same class with room, NONE at its end
    uint32_t size_class

cdef struct Pool:
    Memory* memory
    PoolBuffers store
    uint32_t n_pages        # page numbers in use or chained as unused
    uint32_t n_empty        # pages of a class that hold no record
    uint32_t unused         # first of the unused pages, which are chained through next_open
    uint32_t[N_CLASSES] units           # size of a record of the class
    uint8_t[SIZE_TABLE] class_of_size   # class of a record of so many units
    uint32_t[N_CLASSES] open            # first page of the class with room
    uint32_t largest        # units of the largest record ever allocated
    int64_t live_bytes

# The header of every record. In a group the ends of its rows and (state, count) pairs follow
# (`counts.pxd`, `real_counts.pxd`), in a node NODE_SIZE handles, in a record of labels the labels.
cdef struct Record:
    uint32_t refs           # blocks and nodes that hold it
    uint32_t shape          # groups: pairs << 2 | width (0, 1, 2: items of 1, 2, 4 bytes); nodes: 0
    uint32_t note           # commit: its first note; settling: the record that replaces it; else 0

# A note of a commit: the record that an update of a shared record has produced.
cdef struct SharedUpdate:
    handle_t before
    handle_t after
    uint32_t which          # row of the group; if the record is a node, of a group below it
    uint32_t state
    uint32_t next           # next note about the same record, numbered from 1; 0: none

cdef struct SharedUpdates:
    SharedUpdate* notes
    uint32_t n
    uint32_t capacity       # no more notes than this are kept

# The pairs of one row, in a record or in work space.
cdef struct Row:
    const void* pairs
    uint32_t n
    uint32_t width

# ---- particles ---------------------------------------------------------------------------

cdef struct Model:
    uint32_t n_symbols      # V; open alphabet: symbols seen so far
    bint is_open            # the alphabet is open: see `alphabet.pxd`
    uint32_t missing        # column of missing symbols: V; open alphabet: 0
    uint32_t first_symbol   # column of symbol 0: 0; open alphabet: 1
    double concentration    # open alphabet: weight of the base distribution q in a state
    double strength         # open alphabet: parameters of q
    double discount
    double alpha
    double gamma
    double beta             # open alphabet: that of the symbol being scored
    bint any_state          # oracle "any"
    uint32_t max_states     # UINT32_MAX: unbounded
    bint real               # counts are real numbers, since an option below is not its default
    bint by_rows            # oracle "rows"
    bint mealy              # rows are chosen by a state and the symbol that it emitted
    double kappa            # stickiness
    double forget           # the weight of step n is n**forget; 0: no forgetting of this form
    double rate             # 1 / half-life in steps; 0: no forgetting of this form
    bint by_time            # forgetting follows System.elapsed, not the number of steps
    double prior            # sum of pseudo-counts: V * beta; open alphabet: the concentration
    double new_emission     # p(y | new state): 1 / V; open alphabet: q of the symbol being scored
    double new_state        # gamma * new_emission
    double base_count       # pseudo-count before it is multiplied by q: beta; the concentration
    double base_size        # prior / base_count: V; open alphabet: 1
    const double* inverse   # 1 / (n + prior) of every n < TABLED
    const double* spread_term  # n / (n + prior): the term of a state entered n times in the spread

# The weight of a step, mantissa * 2**exponent. Earlier counts have smaller weights.
cdef struct Clock:
    int64_t exponent
    double mantissa         # at least 1/2, less than 2
    double inverse          # 1 / mantissa
    uint64_t dither         # 29 bits, added before a sum is cut to 24 bits

# A row of real counts as of a step: its entries that have not faded away.
cdef struct Entries:
    uint32_t n
    uint32_t* state
    double* count

# The part of a particle with real counts that scoring reads, as of a step. Arrays have one entry a
# state; it is zero if the state has faded away.
cdef struct RealView:
    uint32_t n_states
    uint32_t n_live         # states that have not faded away
    uint32_t current        # 1 + current state; 0: start state, also if that state has faded away
    bint offers_new
    double* into            # how often each state was entered
    double* offered         # weight of each state in the oracle
    double* emitted         # observed emissions; `into` if none was missing
    double offered_total
    double left             # transitions from the current state, plus kappa
    Entries row             # transitions from the current state, by state

# The position of a key in a particle.
cdef struct Standing:
    uint32_t current        # 1 + state; 0: start state
    uint32_t symbol         # Mealy machine: column of the symbol that the state emitted

# How positions of keys are stored, which is the same in all particles: see `positions.pxd`.
cdef struct Positions:
    bint enabled            # a key other than 0 was used: blocks have room for positions
    uint32_t active         # the active key: blocks have its position as their current state
    uint32_t n_numbers      # numbers of keys that the tables have room for
    uint32_t levels         # levels of nodes in a tree of stretches
    uint32_t n_stretches    # stretches, free ones included
    uint32_t round_end      # stretches of this round have smaller numbers
    uint32_t n_spare        # a round has twice the stretches in use, plus this many
    uint32_t open           # the stretch whose labels are in the blocks
    uint32_t open_live      # a bit for each of its addresses: some key has it

# A candidate: a particle and the state that it could move to next.
cdef struct Candidate:
    double value            # score; if CandidateSet.logarithmic, its log
    uint64_t parent_state   # parent << 32 | state: the order of candidates

cdef struct CandidateSet:
    Candidate* items        # ordered by (parent, state)
    int64_t n
    bint logarithmic        # values are logs, since some weight is below SMALLEST_WEIGHT
    bint complete           # every candidate was collected
    double bound            # candidates that were not collected have a smaller value
    double best             # largest value
    double least            # smallest value
    double total            # sum of linear scores over all candidates, collected or not
    double predictive       # sum of weight * potential over all candidates
    double log_total        # families over numbers: log of the total; `total` is then 1
    double log_predictive   # families over numbers: log of the predictive; `predictive` is then 1

cdef struct Survivors:
    uint32_t* parent
    uint32_t* state
    double* weight
    double* log_weight      # if `logarithmic`
    int64_t n
    bint logarithmic        # some weight is below SMALLEST_WEIGHT: logs are kept as well
    double discarded        # share of the candidates' total score that was not kept

# The part of a particle that scoring reads, as stored or after one more step.
cdef struct View:
    uint32_t n_states
    int64_t entered         # sum of into
    const uint32_t* into
    const uint32_t* emitted  # times that a symbol was observed; `into` if none was missing
    Row row                 # transitions from the current state
    Row missing             # missing symbols of each state
    bint offers_new         # the new state is a candidate

# Work space to score particles and to compare scores.
cdef struct Scratch:
    double* transition      # p(m | x)
    double* emission        # p(y | m)
    double* ones            # an array of ones
    uint64_t* stamp         # the number of the latest pair that named a state
    uint64_t n_stamped      # pairs numbered so far
    uint32_t* emitted       # emissions of each state, where some are missing
    uint32_t* overlay_into
    uint32_t* overlay_row   # pairs
    uint32_t* overlay_column
    uint32_t* overlay_missing
    uint64_t* keys          # sort keys of a selection
    uint64_t* key_work      # work space of a selection, as long as `keys`
    double* shares          # optimal rule: scores of candidates, up to a common factor
    double* real_into       # real counts: RealView.into
    double* real_offered
    double* real_emitted
    Entries row             # real counts: the row of the current state,
    Entries column          # and the column of a symbol

# Sums over the row of a particle's current state.
cdef struct RowTotal:
    int64_t left            # transitions from the state
    int64_t visited         # entries into the states reached from it

# Potentials of the look-ahead symbol under all particles. Logs are fixed-point numbers. They are
# summed by label; terms that all states of a particle share are summed by its number of states.
cdef struct Lookahead:
    # With families over numbers, `potential`, `log_sum` and `largest` are doubles.
    int64_t* potential      # log f(k, m, next symbol) of each candidate of the set
    int64_t* log_sum        # by label, of log potentials without the terms in `share_sum`
    int64_t* share_sum      # by number of states, of the logs of the oracle's shares
    int64_t* n_with         # particles with that many states
    int64_t* n_offering     # particles that have a candidate of the label
    double* linear_sum      # by label, of potentials
    int64_t* largest        # by label, of log potentials
    double* normalizer      # by label, G of the paper
    const int64_t* tabled   # StoredBuffers.log_tables
    RowTotal* row_total     # of each particle, if `has_totals`
    bint has_totals         # the latest expansion has filled `row_total`
    double fixed_one        # the fixed-point number of 1, a power of two
    uint32_t n_tabled       # log(n/beta + 1) is in the table for n below this
    int64_t log_beta
    int64_t log_new         # log of Model.new_state
    int64_t new_more        # max(log_new - log_beta, 0)
    int64_t common          # every log potential is at most the larger of this and largest[label]
    uint32_t n_labels       # length of the arrays by label; with real counts, of the hash table
    # Real counts: arrays by label are a hash table.
    uint32_t* labels        # 1 + label at each place of the table; 0: the place is free
    uint32_t* candidate_place  # the place of the label of each candidate of the set
    uint32_t n_places       # places in use
    uint32_t place_mask     # number of places, a power of two, minus one
    uint32_t place_shift    # a 32-bit hash shifted right by this is a place

# ---- history -----------------------------------------------------------------------------

cdef struct History:
    bint enabled
    int64_t lag             # 0: full
    int64_t generation      # of the leaves; that of the first step is 1
    HistoryBuffers tree
    uint32_t n_touched      # history nodes ever used, node 0 (none) included
    uint32_t freed          # first of the freed nodes, which are chained
    int64_t n_live

# ---- the whole ---------------------------------------------------------------------------

# Buffers are over-reserved. These are the most items written to some of them since allocation.
cdef struct Extents:
    int64_t collected       # candidates of a step
    int64_t sampled         # scores of a sample
    int64_t potentials      # potentials of ParticleLearning
    int64_t updates         # notes of a commit
    int64_t constants       # rows of statistics whose constants are known or marked as unknown

cdef struct System:
    Model model
    AlgorithmKind algorithm
    bint duplicating        # several particles may have the same path: there are always K
    NormalizerKind normalizer
    ResamplingKind resampling
    bint carry_weights
    bint select_optimal     # MD-VPA: survivors of a completed step by the optimal rule
    double ess_threshold    # SMC: resample if ESS < this times the budget; >= 1: always
    int64_t budget          # K
    int64_t kept            # most survivors of the next steps: 1 to K
    int n_threads

    Memory memory
    Pool pool
    StoredBuffers stored
    PendingBuffers pending_step
    WorkBuffers work
    Extents extent

    uint32_t root_size      # handles of the root of the symbol tree, which is in the block
    uint32_t depth          # levels of the symbol tree, the root included
    uint32_t stride         # of a block, in 32-bit words
    uint32_t state_capacity  # a multiple of 4
    uint32_t n_groups       # handles of groups of transition rows in a block
    uint32_t row_depth      # levels of the tree of rows of a state; 0: handles lead to groups
    uint32_t rows_offset    # in a block: of the handles of rows
    uint32_t root_offset    # in a block: of the root of the symbol tree
    uint32_t positions_offset  # in a block: of the handle of the tree of stretches, if enabled
    uint32_t n_shelves      # shelves ever used; memory beyond them was never written
    uint32_t n_free_shelves
    uint32_t next_slot      # slot of the next block; a multiple of SHELF: take a shelf first
    bint logarithmic        # some weight is below SMALLEST_WEIGHT: logs are kept as well
    int64_t n_particles

    Numbers numbers
    Positions positions
    History history
    int64_t n_steps         # completed steps
    double elapsed          # forgetting by time: the latest time, in half-lives
    double now_elapsed      # forgetting by time: the time of step n_steps + 1
    Clock now               # real counts: of step n_steps + 1
    Clock after             # real counts: of step n_steps + 2
    uint32_t last_symbol    # column of the latest completed step; Mealy: of the active key
    uint64_t n_seen         # open alphabet: symbols absorbed, with repetitions
    bint seen_missing       # a missing symbol was absorbed and has a column: not over numbers
    int64_t n_candidates    # sum over particles of 1 + states not gone: most candidates of a step
    int64_t n_potentials    # sum over particles of 1 + states
    uint32_t most_states    # most states of a particle
    uint32_t most_labels    # real counts: upper bound of the states that any path has visited
    bint is_relabelled      # real counts: some particles have a record of labels
    double mean_states      # weighted
    double log_evidence     # of all symbols absorbed
    int64_t release_interval  # states that have faded away are released once in so many steps
    int64_t settle_interval  # all records are settled once in so many steps
    int64_t n_settled       # records that settling compared or moved after the latest step

    bint pending            # MD-VPA: a symbol was absorbed but its step is not completed
    int32_t pending_symbol
    int64_t pending_kept    # the number kept when the pending symbol was absorbed
    double margin           # MD-VPA: log scores this far below the K best are collected

    # The arrays of the rest are in `pending_step` and `work`: see `find_arrays`.
    CandidateSet candidates  # of the step under way; MD-VPA: of the pending symbol
    CandidateSet tilted     # MD-VPA: the same with the look-ahead in their scores
    Survivors chosen        # of the step under way
    Survivors provisional   # MD-VPA: the particles shown while a symbol is pending
    Survivors moved         # SMC: the particles after their move, before resampling
    SharedUpdates updates   # of the commit under way
    Scratch scratch
    Lookahead lookahead
    uint32_t thread_states  # states for which the other threads have work space

# The results of a step, as in the public class Step.
cdef struct Report:
    double log_predictive
    double log_evidence
    double mean_states
    double ess
    double discarded
    int64_t n_particles
