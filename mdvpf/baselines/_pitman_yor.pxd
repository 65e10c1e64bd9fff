# cython: language_level=3
"""The Pitman-Yor rules: one tree with one setting, and one tree for a grid of settings.

For a context u with counts c_u(y), their sum c_u and t_u distinct symbols, and v the context one
symbol shorter::

    P_u(y) = (max(c_u(y) - discount, 0) + (strength + discount * t_u) * P_v(y)) / (c_u + strength)

and P_u = P_v where c_u = 0; the empty context falls back on the base (`_alphabet.pxd`). A symbol is
counted in the longest context, and in each shorter one while it was new in the next longer one.

A grid needs two counts. In a tree of depth d, the longest contexts count occurrences. A shorter
context u counts *types*: y once for each context one symbol longer in which y occurred, and once
for each time that u was the whole context, at the start of a sequence. Types do not depend on d.
With occurrences and types of every context, one tree has the counts of all depths.
"""

from libc.math cimport exp, log
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memcpy, memset

from mdvpf._kernel.constants cimport NO_MEMORY, OK, Status
from mdvpf._kernel.pool cimport resize
from mdvpf.baselines._alphabet cimport base_probability, n_outcomes
from mdvpf.baselines._past cimport Past
from mdvpf.baselines._rules cimport (
    Rule,
    complete_path, entries_of, find_entries, find_path, make_entry, nodes_of, reserve_path,
)
from mdvpf.baselines._tables cimport (
    ABSENT, Tree, entry_at, node_at, values_of_entry, values_of_node,
)

cdef extern from *:
    """
    #define MDVPF_LEAST_PROBABILITY 1e-300
    """
    const double LEAST "MDVPF_LEAST_PROBABILITY"    # keeps very deep trees from underflow

cdef enum:
    LEVEL_WIDTH = 5         # numbers for each node of the path in the work space of a grid


cdef inline double pitman_yor_probability(
    double count, double total, double n_types, double below, double discount, double strength
) noexcept nogil:
    """P_u(y) of a context with counts, given P_v(y) as `below`."""
    cdef double own = count - discount if count > discount else 0.0
    cdef double found = (own + (strength + discount * n_types) * below) / (total + strength)
    return found if found > LEAST else LEAST


# ---- one setting -------------------------------------------------------------------------

cdef inline Status step_pitman_yor(
    Tree* tree, Past* past, const Rule* rule, int32_t symbol, bint learn, double* log_predictive
) noexcept nogil:
    cdef const double* setting = <const double*>rule.pairs.data
    cdef int64_t found = find_path(tree, past)
    cdef double p = base_probability(&rule.alphabet, symbol)
    cdef double count, total
    cdef uint32_t node, entry
    cdef bint is_new
    cdef int64_t i
    find_entries(tree, past, found, symbol)
    for i in range(found):
        node = nodes_of(past)[i]
        entry = entries_of(past)[i]
        total = values_of_node(tree, node)[0]
        if total > 0.0:
            count = 0.0 if entry == ABSENT else values_of_entry(tree, entry)[0]
            p = pitman_yor_probability(
                count, total, node_at(tree, node).n_symbols, p, setting[0], setting[1]
            )
    log_predictive[0] = log(p)
    if not learn:
        return OK
    if reserve_path(tree, past, found) != OK:
        return NO_MEMORY
    complete_path(tree, past, found)
    for i in range(past.n, -1, -1):
        is_new = entries_of(past)[i] == ABSENT
        entry = make_entry(tree, past, i, symbol)
        values_of_entry(tree, entry)[0] += 1.0
        values_of_node(tree, nodes_of(past)[i])[0] += 1.0
        if not is_new:
            break
    return OK


cdef inline void apply_node(
    const Tree* tree, uint32_t node, int which, double discount, double strength, int64_t n,
    double* p,
) noexcept nogil:
    """Turn the distribution of the next shorter context into that of a node with counts."""
    cdef double scale = strength + discount * node_at(tree, node).n_symbols
    cdef double bottom = values_of_node(tree, node)[which] + strength
    cdef uint32_t entry = node_at(tree, node).first
    cdef double count
    cdef int64_t y
    for y in range(n):
        p[y] *= scale
    while entry != ABSENT:
        count = values_of_entry(tree, entry)[which]
        if count > discount:
            p[entry_at(tree, entry).symbol] += count - discount
        entry = entry_at(tree, entry).next
    for y in range(n):
        p[y] /= bottom
        if p[y] < LEAST:
            p[y] = LEAST


cdef inline void predict_pitman_yor(
    const Tree* tree, Past* past, const Rule* rule, double* out
) noexcept nogil:
    cdef const double* setting = <const double*>rule.pairs.data
    cdef int64_t found = find_path(tree, past)
    cdef int64_t n = n_outcomes(&rule.alphabet)
    cdef int64_t i, y
    for y in range(n):
        out[y] = base_probability(&rule.alphabet, y)
    for i in range(found):
        if values_of_node(tree, nodes_of(past)[i])[0] > 0.0:
            apply_node(tree, nodes_of(past)[i], 0, setting[0], setting[1], n, out)


# ---- a grid of settings ------------------------------------------------------------------

cdef inline void read_levels(const Tree* tree, Past* past, int64_t found) noexcept nogil:
    """Write five numbers for each node of the path.

    They are count and total of occurrences, count and total of types, and distinct symbols.
    """
    cdef double* level = <double*>past.work.data
    cdef const double* values
    cdef uint32_t entry
    cdef int64_t i
    for i in range(found):
        entry = entries_of(past)[i]
        level[0] = level[2] = 0.0
        if entry != ABSENT:
            values = values_of_entry(tree, entry)
            level[0] = values[0]
            level[2] = values[1]
        values = values_of_node(tree, nodes_of(past)[i])
        level[1] = values[0]
        level[3] = values[1]
        level[4] = node_at(tree, nodes_of(past)[i]).n_symbols
        level += LEVEL_WIDTH


cdef inline void write_likelihoods(
    const Rule* rule, const double* levels, int64_t found, double base, double* out
) noexcept nogil:
    """Write the probability of the symbol under each setting; `base` is its base probability."""
    cdef const double* pair = <const double*>rule.pairs.data
    cdef const int64_t* depths = <const int64_t*>rule.depths.data
    cdef const double* level
    cdef double p
    cdef int64_t i, j, _
    for _ in range(rule.n_pairs):
        p = base
        level = levels
        j = 0
        for i in range(found):
            if level[1] > 0.0:
                if depths[j] == i:
                    out[j] = pitman_yor_probability(
                        level[0], level[1], level[4], p, pair[0], pair[1])
                    j += 1
                    if j == rule.n_depths:
                        break
                p = pitman_yor_probability(level[2], level[3], level[4], p, pair[0], pair[1])
            level += LEVEL_WIDTH
        while j < rule.n_depths:    # contexts without counts, or shorter than the depth
            out[j] = p
            j += 1
        out += rule.n_depths
        pair += 2


cdef inline void find_weights(Rule* rule) noexcept nogil:
    """Compute the weights of the settings from their logs, the largest of which is close to 0."""
    cdef const double* log_weight = <const double*>rule.log_weights.data
    cdef double* weight = <double*>rule.weights.data
    cdef int64_t n = rule.n_pairs * rule.n_depths
    cdef double total = 0.0
    cdef int64_t i
    for i in range(n):
        weight[i] = exp(log_weight[i])
        total += weight[i]
    for i in range(n):
        weight[i] /= total


cdef inline void weigh_settings(Rule* rule, const double* likelihood) noexcept nogil:
    """Multiply the weight of each setting by its likelihood; distribute the share evenly."""
    cdef double* log_weight = <double*>rule.log_weights.data
    cdef const double* weight = <const double*>rule.weights.data
    cdef int64_t n = rule.n_pairs * rule.n_depths
    cdef double largest
    cdef int64_t i
    largest = log_weight[0] + log(likelihood[0])
    for i in range(n):
        log_weight[i] += log(likelihood[i])
        if log_weight[i] > largest:
            largest = log_weight[i]
    for i in range(n):
        log_weight[i] -= largest
    find_weights(rule)
    if rule.share > 0.0:
        for i in range(n):
            log_weight[i] = log((1.0 - rule.share) * weight[i] + rule.share / n)
        find_weights(rule)


cdef inline Status step_grid(
    Tree* tree, Past* past, Rule* rule, int32_t symbol, bint learn, double* log_predictive
) noexcept nogil:
    cdef int64_t found = find_path(tree, past)
    cdef int64_t n = rule.n_pairs * rule.n_depths
    cdef size_t n_work = <size_t>(LEVEL_WIDTH * (past.n + 1) + n)
    cdef const double* weight = <const double*>rule.weights.data
    cdef double* likelihood
    cdef double p = 0.0
    cdef bint is_new = past.n < rule.depth      # at the start of a sequence, a type is counted
    cdef uint32_t entry
    cdef double* counts
    cdef double* totals
    cdef int64_t i
    if resize(&past.memory, &past.work, n_work * sizeof(double)) != OK:
        return NO_MEMORY
    if learn and reserve_path(tree, past, found) != OK:
        return NO_MEMORY
    find_entries(tree, past, found, symbol)
    read_levels(tree, past, found)
    likelihood = <double*>past.work.data + LEVEL_WIDTH * found
    write_likelihoods(
        rule, <const double*>past.work.data, found, base_probability(&rule.alphabet, symbol),
        likelihood,
    )
    for i in range(n):
        p += weight[i] * likelihood[i]
    log_predictive[0] = log(p)
    if not learn:
        return OK
    weigh_settings(rule, likelihood)
    complete_path(tree, past, found)
    for i in range(past.n, -1, -1):
        entry = entries_of(past)[i]
        counts = values_of_entry(tree, make_entry(tree, past, i, symbol))
        totals = values_of_node(tree, nodes_of(past)[i])
        counts[0] += 1.0
        totals[0] += 1.0
        if is_new:
            counts[1] += 1.0
            totals[1] += 1.0
        is_new = entry == ABSENT
    return OK


cdef inline void predict_grid(
    const Tree* tree, Past* past, const Rule* rule, double* own, int64_t stride, double* out
) noexcept nogil:
    """Write the distributions of all settings, `stride` apart; if stride is 0, their mixture.

    `own` is work space for two distributions.
    """
    cdef const double* pair = <const double*>rule.pairs.data
    cdef const int64_t* depths = <const int64_t*>rule.depths.data
    cdef const double* weight = <const double*>rule.weights.data
    cdef int64_t n = n_outcomes(&rule.alphabet)
    cdef size_t width = <size_t>n * sizeof(double)
    cdef double* longest = own + n
    cdef const double* distribution
    cdef int64_t found = find_path(tree, past)
    cdef int64_t i, j, y, _
    cdef uint32_t node
    if stride == 0:
        memset(out, 0, width)
    for _ in range(rule.n_pairs):
        for y in range(n):
            own[y] = base_probability(&rule.alphabet, y)
        i = 0
        for j in range(rule.n_depths):
            distribution = own      # if contexts have no counts, or are shorter than the depth
            while i < found:
                node = nodes_of(past)[i]
                if values_of_node(tree, node)[0] == 0.0:
                    i += 1
                    continue
                if depths[j] == i:
                    memcpy(longest, own, width)
                    apply_node(tree, node, 0, pair[0], pair[1], n, longest)
                    distribution = longest
                    break
                apply_node(tree, node, 1, pair[0], pair[1], n, own)
                i += 1
            if stride:
                memcpy(out, distribution, width)
                out += stride
            else:
                for y in range(n):
                    out[y] += weight[j] * distribution[y]
        weight += rule.n_depths
        pair += 2
