# cython: language_level=3
"""Open alphabets: counts of symbols in the whole stream, and the base distribution q.

Symbols are numbered by first appearance. Inside the core, a symbol of an open alphabet is the
number of its column. Column 0 counts missing symbols and does not move when the alphabet grows;
symbol y has column y + 1. With D symbols seen, column D + 1 stands for a symbol never seen.

p(y | m) is (count of y + concentration * q(y)) / (emitted + concentration). For one symbol, an open
alphabet is therefore a closed one with another beta, which `use_symbol` sets in the model before
the symbol is scored.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from mdvpf._kernel.buffers cimport make_room
from mdvpf._kernel.constants cimport MISSING, NO_MEMORY, OK, Status
from mdvpf._kernel.types cimport Model, System


cdef inline int32_t column_for(const System* system, int32_t symbol) noexcept nogil:
    """The column of a symbol as callers number them; MISSING for one that is missing."""
    return symbol if symbol == MISSING else symbol + <int32_t>system.model.first_symbol


cdef inline int32_t symbol_at(const System* system, int32_t column) noexcept nogil:
    """The symbol of a column, as callers number them; MISSING for MISSING."""
    return column if column == MISSING else column - <int32_t>system.model.first_symbol


cdef inline uint64_t* seen_times(const System* system) noexcept nogil:
    """How often each symbol was seen."""
    return <uint64_t*>system.stored.seen.data


cdef inline double base_of(
    const System* system, uint32_t column, uint64_t unseen
) noexcept nogil:
    """q of the symbol, without the last `unseen` times that it was seen (0 or 1)."""
    cdef const Model* model = &system.model
    cdef uint32_t n_symbols = model.n_symbols
    cdef uint64_t times = 0
    cdef double total = <double>(system.n_seen - unseen) + model.strength
    if column <= n_symbols:
        times = seen_times(system)[column - 1] - unseen
        n_symbols -= times == 0
    if times == 0:
        return (model.strength + model.discount * n_symbols) / total
    return (<double>times - model.discount) / total


cdef inline void use_base(Model* model, double base) noexcept nogil:
    model.beta = model.concentration * base
    model.new_emission = base
    model.new_state = model.gamma * base


cdef inline void use_symbol(System* system, int32_t symbol) noexcept nogil:
    """Set up the model to score the next symbol."""
    if system.model.is_open and symbol != MISSING:
        use_base(&system.model, base_of(system, <uint32_t>symbol, 0))


cdef inline void use_pending_symbol(System* system) noexcept nogil:
    """Set up the model to score the pending symbol with its q before it was counted."""
    if system.model.is_open and system.pending_symbol != MISSING:
        use_base(&system.model, base_of(system, <uint32_t>system.pending_symbol, 1))


cdef inline Status reserve_seen(System* system, uint32_t column) noexcept nogil:
    """Make room to count the symbol of a column."""
    cdef size_t n = column
    if n * sizeof(uint64_t) <= system.stored.seen.bytes:
        return OK
    return OK if make_room(system, &system.stored.seen, n + n // 4 + 15, sizeof(uint64_t)) \
        else NO_MEMORY


cdef inline void count_symbol(System* system, int32_t symbol) noexcept nogil:
    """Count a symbol that was absorbed; if it is new, the alphabet grows."""
    if symbol == MISSING:
        return
    if <uint32_t>symbol > system.model.n_symbols:
        system.model.n_symbols = <uint32_t>symbol
        seen_times(system)[symbol - 1] = 0
    seen_times(system)[symbol - 1] += 1
    system.n_seen += 1


cdef inline void add_base(
    const System* system, double base, double* out, int64_t n
) noexcept nogil:
    """Add the base to every symbol of a prediction; in an open alphabet, times q of the symbol."""
    cdef int64_t i
    if system.model.is_open:
        for i in range(n):
            out[i] += base * base_of(system, <uint32_t>i + 1, 0)
        return
    for i in range(n):
        out[i] += base


cdef inline void normalize_prediction(double* out, int64_t n) noexcept nogil:
    """Divide a prediction by its sum, which is 1 up to the rounding of counts."""
    cdef double total = 0.0
    cdef int64_t i
    for i in range(n):
        total += out[i]
    for i in range(n):
        out[i] /= total
