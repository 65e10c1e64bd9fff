# cython: language_level=3
"""The alphabet of a tree, and its base distribution, which predicts without counts.

A closed alphabet has a fixed number of symbols and a uniform base. An open one numbers its symbols
by first appearance: D = n_symbols of them were seen so far, and symbol D stands for one never seen.
Its base is that of `OpenVocabulary`. With g(y) the count of y in the whole stream, over all keys,
and G their sum::

    q(y) = (g(y) - discount) / (G + strength),    q(D) = (strength + discount * D) / (G + strength)
"""

from libc.stdint cimport int32_t, int64_t

from mdvpf._kernel.constants cimport OK, Status
from mdvpf._kernel.pool cimport resize
from mdvpf._kernel.types cimport Buffer, Memory

cdef enum:
    MOST_SYMBOLS = 0x7FFFFFF0   # limit of an open alphabet


cdef struct Alphabet:
    bint is_open
    int64_t n_symbols       # size; if open, the number of symbols seen
    double strength         # open alphabet: parameters of the base
    double discount
    int64_t n_seen          # symbols observed, G
    Buffer seen             # int64_t[n_symbols]: count of each symbol, g


cdef inline int64_t* seen_times(const Alphabet* alphabet) noexcept nogil:
    return <int64_t*>alphabet.seen.data


cdef inline int64_t n_outcomes(const Alphabet* alphabet) noexcept nogil:
    """Entries of a prediction: one for each symbol and, if open, one for symbols never seen."""
    return alphabet.n_symbols + alphabet.is_open


cdef inline double base_probability(const Alphabet* alphabet, int64_t symbol) noexcept nogil:
    """The probability of a symbol in the base distribution."""
    cdef double total
    if not alphabet.is_open:
        return 1.0 / alphabet.n_symbols
    total = <double>alphabet.n_seen + alphabet.strength
    if symbol >= alphabet.n_symbols:
        return (alphabet.strength + alphabet.discount * alphabet.n_symbols) / total
    return (<double>seen_times(alphabet)[symbol] - alphabet.discount) / total


cdef inline double symbol_prior(
    const Alphabet* alphabet, double beta, int64_t symbol
) noexcept nogil:
    """The pseudo-count of a symbol: beta; in an open alphabet, beta times its base probability."""
    if not alphabet.is_open:
        return beta
    return beta * base_probability(alphabet, symbol)


cdef inline double total_prior(const Alphabet* alphabet, double beta) noexcept nogil:
    """The sum of the pseudo-counts of all symbols."""
    return beta if alphabet.is_open else alphabet.n_symbols * beta


cdef inline Status reserve_symbol(
    Memory* memory, Alphabet* alphabet, int32_t symbol
) noexcept nogil:
    """Make room to count a symbol that was observed."""
    cdef size_t n = <size_t>symbol + 1
    if not alphabet.is_open or n * sizeof(int64_t) <= alphabet.seen.bytes:
        return OK
    return resize(memory, &alphabet.seen, n * sizeof(int64_t))


cdef inline void count_symbol(Alphabet* alphabet, int32_t symbol) noexcept nogil:
    """Count a symbol that was observed; if it is new, the alphabet grows. There must be room."""
    if not alphabet.is_open:
        return
    if symbol == alphabet.n_symbols:
        alphabet.n_symbols += 1
        seen_times(alphabet)[symbol] = 0
    seen_times(alphabet)[symbol] += 1
    alphabet.n_seen += 1
