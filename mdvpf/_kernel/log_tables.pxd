# cython: language_level=3
"""Logs of quotients of counts, from tables, as fixed-point numbers.

Sums of fixed-point numbers are exact, so they do not depend on the order of the terms.
"""

from libc.math cimport fabs, log
from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memset

from mdvpf._kernel.buffers cimport find_arrays
from mdvpf._kernel.constants cimport NO_MEMORY, OK, TABLED, Status
from mdvpf._kernel.emission cimport as_double
from mdvpf._kernel.pool cimport resize
from mdvpf._kernel.types cimport Lookahead, Model, System


cdef inline int64_t to_fixed(const Lookahead* ahead, double value) noexcept nogil:
    """The nearest fixed-point number."""
    return <int64_t>(value * ahead.fixed_one + (0.5 if value > 0.0 else -0.5))


cdef inline Status make_log_tables(System* system) noexcept nogil:
    """Choose the fixed-point format, so that no sum over K particles overflows; fill the tables."""
    cdef Lookahead* ahead = &system.lookahead
    cdef const Model* model = &system.model
    cdef int64_t* logs
    cdef double largest
    cdef uint32_t n
    if resize(&system.memory, &system.stored.log_tables, 4 * TABLED * sizeof(int64_t)) != OK:
        return NO_MEMORY
    find_arrays(system)
    logs = <int64_t*>system.stored.log_tables.data
    memset(logs, 0, 4 * TABLED * sizeof(int64_t))
    # Counts are below 2**32, whose log is 22.2, so this is an upper bound of |log potential|.
    largest = 150.0 + fabs(log(model.alpha)) * 2.0 + fabs(log(model.gamma)) * 2.0
    if model.is_open:  # q is at least min(1e-16, strength) / (2**53 + strength)
        largest += 160.0 + fabs(log(model.concentration)) * 2.0 + fabs(log(model.strength)) * 4.0 \
            + log(1.0 + model.prior)
    else:
        largest += fabs(log(model.beta)) * 2.0 + log(1.0 + model.prior) \
            + log(<double>model.n_symbols)
    largest += log(1.0 + model.kappa)
    ahead.fixed_one = 4503599627370496.0
    while ahead.fixed_one * largest * system.budget > 4e18:
        ahead.fixed_one *= 0.5
    for n in range(<uint32_t>TABLED):
        if n > 0:
            logs[n] = to_fixed(ahead, log(<double>n))
            logs[TABLED + n] = to_fixed(ahead, log(n / (n + model.prior)))
        logs[3 * TABLED + n] = to_fixed(ahead, log(n + model.alpha))
    if not model.is_open:
        tabulate_emissions(system, TABLED)
    return OK


cdef inline void tabulate_emissions(System* system, uint32_t n_tabled) noexcept nogil:
    """Compute the logs that depend on beta, which in an open alphabet is that of one symbol."""
    cdef Lookahead* ahead = &system.lookahead
    cdef const Model* model = &system.model
    cdef int64_t* logs = <int64_t*>system.stored.log_tables.data + 2 * TABLED
    cdef uint32_t n
    for n in range(n_tabled):
        logs[n] = to_fixed(ahead, log(n / model.beta + 1.0))
    ahead.n_tabled = n_tabled
    ahead.log_beta = to_fixed(ahead, log(model.beta))
    ahead.log_new = to_fixed(ahead, log(model.new_state))
    ahead.new_more = ahead.log_new - ahead.log_beta if ahead.log_new > ahead.log_beta else 0


cdef inline int64_t log_ratio(const Lookahead* ahead, uint32_t n, uint32_t of) noexcept nogil:
    """log(n / of), from a table of logs; n is at most `of`."""
    if of < TABLED:
        return ahead.tabled[n] - ahead.tabled[of]
    return to_fixed(ahead, log(as_double(n) / as_double(of)))


cdef inline int64_t log_spread_term(
    const Lookahead* ahead, const Model* model, uint32_t n
) noexcept nogil:
    """log(n / (n + prior)), from a table of logs."""
    cdef double x
    if n < TABLED:
        return ahead.tabled[TABLED + n]
    x = model.prior / as_double(n)
    if x > 0.01:
        return to_fixed(ahead, -log(1.0 + x))
    # The series of the log, up to terms below 1e-17, is three times as fast.
    return to_fixed(ahead, -x * (1.0 - x * (1.0 / 2 - x * (1.0 / 3 - x * (1.0 / 4 - x * (
        1.0 / 5 - x * (1.0 / 6 - x * (1.0 / 7 - x * (1.0 / 8)))))))))


cdef inline int64_t log_emission(
    const Lookahead* ahead, const Model* model, uint32_t n
) noexcept nogil:
    """log((n + beta) / beta), from a table of logs."""
    if n < ahead.n_tabled:
        return ahead.tabled[2 * TABLED + n]
    return to_fixed(ahead, log(as_double(n) / model.beta + 1.0))


cdef inline int64_t log_left(
    const Lookahead* ahead, const Model* model, int64_t n
) noexcept nogil:
    """log(n + alpha), from a table of logs."""
    if n < TABLED:
        return ahead.tabled[3 * TABLED + n]
    return to_fixed(ahead, log(<double>n + model.alpha))


# ---- logs of sums ------------------------------------------------------------------------

cdef enum:
    MEMO = 64

# The latest logs computed: neighbouring particles often need the same.
cdef struct Memo:
    int64_t[MEMO] n
    int64_t[MEMO] logs


cdef inline void clear_memo(Memo* memo) noexcept nogil:
    cdef int i
    for i in range(MEMO):
        memo.n[i] = -1


cdef inline int64_t log_offered(
    const Lookahead* ahead, const Model* model, Memo* memo, int64_t n
) noexcept nogil:
    """log((n + gamma) / alpha), from the memo if it was computed recently."""
    cdef int64_t cell = n & (MEMO - 1)
    if memo.n[cell] != n:
        memo.n[cell] = n
        memo.logs[cell] = to_fixed(ahead, log((<double>n + model.gamma) / model.alpha))
    return memo.logs[cell]
