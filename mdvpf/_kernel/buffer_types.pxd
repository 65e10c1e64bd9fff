# cython: language_level=3
"""The buffers of the core, by lifetime: every array that a system has is in one of these groups."""

from libc.stdint cimport int64_t

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
    Buffer key_address      # uint32_t[]: of each number of a key 1 + address; 0: it is at the start
    Buffer key_symbol       # uint32_t[]: in a Mealy machine, the last symbol of each of the others
    Buffer stretch_live     # uint8_t[]: of each stretch, how many keys have an address there
    Buffer emission_tables  # double[2 * TABLED]: Model.inverse, then Model.spread_term
    Buffer seen             # uint64_t[]: open alphabet: how often each symbol was seen
    Buffer channels         # Channel[]: family over numbers: the columns of an observation
    Buffer fading           # uint8_t[]: of each statistic of a row whether it is a sum of weights
    Buffer observation      # double[]: one that comes next, one that is pending
    Buffer statistics       # double[]: rows of statistics, as `families.pxd` says
    Buffer statistic_refs   # uint32_t[]: states of blocks that hold each row
    Buffer statistic_scale  # int32_t[]: of each row; of a free one the next that is free
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
    Buffer real_into
    Buffer real_offered
    Buffer real_emitted
    Buffer row_states
    Buffer row_counts
    Buffer column_states
    Buffer column_counts

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
    # Of families over numbers, the log of it.
    Buffer symbol_probability  # double[]: probability of the symbol under each particle
    Buffer log_density      # double[]: family over numbers: of the observation in each row,
    Buffer relative_density  # double[]: and over the largest of them
    Buffer successor        # uint32_t[]: of each row what the observation makes of it; 0: none
    Buffer prepared         # uint32_t[]: rows that were made for a commit
    Buffer faded_rows       # double[]: CompiledEmission: the rows as of a step
    # Choosing.
    Buffer keys
    Buffer key_work
    Buffer shares
    SurvivorBuffers chosen
    # MD-VPA.
    Buffer tilted
    Buffer potential
    Buffer n_offering
    Buffer labels
    Buffer candidate_place
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
