# cython: language_level=3
"""Types of families over numbers: channels, functions of users, and the table of statistics."""

from libc.stdint cimport int64_t, uint32_t

from mdvpf._kernel.constants cimport ChannelKind

# One column of an observation in a family over numbers: see `families.pxd`.
cdef struct Channel:
    ChannelKind kind
    uint32_t n_symbols      # categorical: size of the alphabet; open: symbols seen
    uint32_t wanted         # open: symbols to make room for, while rows grow
    uint32_t offset         # of its statistics in a row
    uint32_t n_statistics
    double[4] parameters    # of the prior

cdef enum:
    N_CONSTANTS = 4         # terms of a density that do not depend on the observation, per channel
    MOST_LABEL = 80         # bytes of the name of a part, with the 0 at its end

# The C functions of a `CompiledEmission`. They return 0, or another number on failure.
# (observation, rows of statistics, number of rows, log predictive for each, user data)
ctypedef int (*LogPredictive)(
    const double*, const double*, int64_t, double*, void*) noexcept nogil
# (observation, weight, row of statistics to update, user data)
ctypedef int (*Update)(const double*, double, double*, void*) noexcept nogil

cdef enum FaultKind:
    NO_FAULT = 0
    LOG_PREDICTIVE_STATUS = 1   # it returned a status other than 0
    LOG_PREDICTIVE_VALUE = 2    # it wrote a number that is not finite
    UPDATE_STATUS = 3
    UPDATE_VALUE = 4

# A `CompiledEmission`, alone or in a product. It has its own channels and statistics.
cdef struct Compiled:
    LogPredictive log_predictive
    Update update
    void* user_data
    uint32_t first          # its first channel, to which all its statistics belong
    uint32_t n_channels
    char[MOST_LABEL] label  # its name in messages, in UTF-8

# The table of statistics of states: see `statistics.pxd`.
cdef struct Numbers:
    uint32_t n_channels     # 0: observations are symbols
    uint32_t size           # doubles of a row
    uint32_t n_rows         # rows in the table, free ones included; row 0 is the prior
    uint32_t n_live         # rows in use, including the prior
    uint32_t freed          # head of the list of free rows; 0 if it is empty
    uint32_t n_prepared     # rows computed for the present commit
    double best             # largest log density of the last observation scored
    uint32_t n_open         # channels with an open alphabet
    uint32_t n_compiled     # families of users
    uint32_t widest         # most statistics of a family of users
    uint32_t faulty         # the family of the last fault
    FaultKind fault         # what the last fault was
    int fault_status        # the status that a function returned, if that was the fault
