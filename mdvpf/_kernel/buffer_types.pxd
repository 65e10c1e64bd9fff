# cython: language_level=3
"""The buffers of a system, by lifetime: every array of the core is in one of these structs."""

from libc.stdint cimport int64_t

cdef struct Memory:
    int64_t allocated       # bytes held by all buffers and pages
    int64_t fail_after      # allocations until an injected failure; negative: never

cdef struct Buffer:
    void* data
    size_t bytes

# All fields of these structs are Buffers, so each struct is an array of Buffer. `buffers.pxd`
# copies, releases and counts it as a whole, so a new field needs no code there. `verify` checks
# that no buffer is outside of the five that System holds.

# The state of a filter, without records and histories. A copy of the system has all of it.
cdef struct StoredBuffers:
    Buffer blocks           # uint32_t[]: one block a slot, SHELF slots a shelf
    Buffer free_shelves     # uint32_t[]: stack
    Buffer slot             # uint32_t[]: slot of each particle
    Buffer weight           # double[]: of each particle
    Buffer log_weight       # double[], if the system is `logarithmic`
    Buffer ancestors        # uint32_t[]: parent of each particle in the latest completed step
    Buffer key_address      # uint32_t[]: 1 + address of each key; 0: it is in the start state
    Buffer key_symbol       # uint32_t[]: Mealy machine: last symbol of each key but the active one
    Buffer stretch_live     # uint8_t[]: number of keys with an address in each stretch
    Buffer emission_tables  # double[2 * TABLED]: Model.inverse, then Model.spread_term
    Buffer seen             # uint64_t[]: open alphabet: count of each symbol in the stream
    Buffer channels         # Channel[]: family over numbers: the columns of an observation
    Buffer compiled         # Compiled[]: family over numbers: the families of users in it
    Buffer fading           # uint8_t[]: 1 for each statistic of a row that is a sum of weights
    Buffer stream           # double[]: open channels: their counts of the stream, as a row
    Buffer observation      # double[]: the next observation, then the pending one
    Buffer statistics       # double[]: rows of statistics: see `families.pxd`
    Buffer statistic_refs   # uint32_t[]: number of states in blocks that hold each row
    Buffer statistic_scale  # int32_t[]: scale of each row; of a free row, the next free one
    Buffer log_tables       # int64_t[4 * TABLED]: logs of n, n/(n+prior), n/beta + 1, n + alpha

# The records. A copy of the system has all pages.
cdef struct PoolBuffers:
    Buffer arena            # the pages, page 1 first
    Buffer pages            # Page[]; page 0 is never used

# The history nodes. All arrays but `heads` have one entry a node. A copy of the system has them.
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

# Work space that is part of the state while MD-VPA has a pending step: then a copy has it too.
cdef struct PendingBuffers:
    Buffer candidates       # Candidate[]
    Buffer row_total        # RowTotal[]: of each particle
    SurvivorBuffers provisional

# The work space of one thread: in each buffer at most 8 bytes a state.
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

# Work space of a step. A step allocates it and `settle` releases it; a copy of the system has none.
# Fields without a comment are explained in `Scratch`, `Lookahead`, `CandidateSet` and `Survivors`,
# which point to them.
cdef struct WorkBuffers:
    ThreadBuffers own       # of the first thread
    Buffer thread_space     # ThreadBuffers of all other threads, one after the other
    Buffer part_result      # int64_t[]: one number from each thread
    Buffer ones
    Buffer overlay_into
    Buffer overlay_row
    Buffer overlay_column
    Buffer overlay_missing
    Buffer symbol_probability  # double[]: of the symbol under each particle; see number_expansion
    Buffer row_constants    # double[]: family over numbers: see `row_scores.pxd`
    Buffer log_density      # double[]: family over numbers: of the observation, by row
    Buffer relative_density  # double[]: family over numbers: density / largest density, by row
    Buffer successor        # uint32_t[]: of each row, the row after the observation; 0: none yet
    Buffer prepared         # uint32_t[]: rows that were made for a commit
    Buffer faded_rows       # double[]: of one CompiledEmission: its part of all rows, as of a step
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
    Buffer block_potentials  # double[]: ParticleLearning: potentials of each block's candidates
    Buffer cumulative_weight  # double[]: ParticleLearning: of parents
    Buffer drawn_parent     # int64_t[]: ParticleLearning: parent of each draw
    Buffer sorted_uniforms  # double[]: ParticleLearning: uniforms for states, by parent
    Buffer children_end     # int64_t[]: ParticleLearning: end of each parent's children
    Buffer n_drawn          # uint32_t[]: ParticleLearning: number of draws of each state
    # Commit.
    Buffer new_slot         # uint32_t[]: slot of each child
    Buffer n_children       # uint32_t[]: of each particle
    Buffer updates          # SharedUpdate[]
