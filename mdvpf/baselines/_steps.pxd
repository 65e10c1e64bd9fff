# cython: language_level=3
"""Steps: predict and count one symbol by the rule of the tree, in the context of its key."""

from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memset

from mdvpf._kernel.constants cimport NO_MEMORY, OK, Status
from mdvpf._kernel.pool cimport dispose, resize
from mdvpf.baselines._alphabet cimport count_symbol, n_outcomes, reserve_symbol
from mdvpf.baselines._past cimport (
    MISSING, NO_KEY, Past, Position,
    add_position, find_position, position_at, push, remove_position, reserve_past,
    reserve_positions, swap_position,
)
from mdvpf.baselines._pitman_yor cimport (
    predict_grid, predict_pitman_yor, step_grid, step_pitman_yor,
)
from mdvpf.baselines._rules cimport (
    RULE_CHAIN, RULE_PITMAN_YOR, RULE_WEIGHTING, Rule,
    predict_chain, predict_weighting, start_past, step_chain, step_weighting,
)
from mdvpf.baselines._tables cimport ABSENT, Tree


cdef inline Status step(
    Tree* tree, Past* past, Rule* rule, int32_t symbol, bint learn, double* log_predictive
) noexcept nogil:
    """Predict a symbol, count it if `learn`, and append it to the context."""
    cdef Status status = reserve_past(past, 1)
    if status != OK:
        return status
    if symbol == MISSING:
        log_predictive[0] = 0.0
        if rule.kind == RULE_CHAIN or rule.kind == RULE_WEIGHTING:
            push(past, MISSING)
        else:
            past.n = 0
            past.end = 0
        return OK
    if learn and reserve_symbol(&tree.memory, &rule.alphabet, symbol) != OK:
        return NO_MEMORY
    if rule.kind == RULE_CHAIN:
        status = step_chain(tree, past, rule, symbol, learn, log_predictive)
    elif rule.kind == RULE_WEIGHTING:
        status = step_weighting(tree, past, rule, symbol, learn, log_predictive)
    elif rule.kind == RULE_PITMAN_YOR:
        status = step_pitman_yor(tree, past, rule, symbol, learn, log_predictive)
    else:
        status = step_grid(tree, past, rule, symbol, learn, log_predictive)
    if status == OK:
        push(past, symbol)
        if learn:
            count_symbol(&rule.alphabet, symbol)
    return status


cdef inline Status step_key(
    Tree* tree, Past* past, Rule* rule, int32_t symbol, bint learn, int32_t number,
    double* log_predictive
) noexcept nogil:
    """`step` in the context of a key; a new key starts a sequence."""
    cdef uint32_t found
    cdef bint is_new
    cdef Status status = OK
    if number == NO_KEY:
        return step(tree, past, rule, symbol, learn, log_predictive)
    found = find_position(past, number)
    is_new = found == ABSENT
    if is_new:
        status = reserve_positions(past, 1)
        if status != OK:
            return status
        found = add_position(past, number)
    swap_position(past, position_at(past, found))
    if is_new:
        status = start_past(past, rule)
    if status == OK:
        status = step(tree, past, rule, symbol, learn, log_predictive)
    swap_position(past, position_at(past, found))
    if status != OK and is_new:
        remove_position(past, found)
    return status


cdef inline Status end_key(Past* past, const Rule* rule, int32_t number) noexcept nogil:
    """End the sequence of a key."""
    cdef uint32_t found
    if number == NO_KEY:
        return start_past(past, rule)
    found = find_position(past, number)
    if found != ABSENT:
        remove_position(past, found)
    return OK


cdef inline Status predict_next(
    const Tree* tree, Past* past, const Rule* rule, int64_t stride, double* out
) noexcept nogil:
    """Write the distribution of the next symbol after the present context.

    A grid writes one for each setting, `stride` apart; if stride is 0, their mixture.
    """
    cdef size_t n_work = <size_t>(2 * n_outcomes(&rule.alphabet)) * sizeof(double)
    cdef Status status = reserve_past(past, 0)
    if status == OK and rule.kind != RULE_CHAIN and rule.kind != RULE_PITMAN_YOR:
        status = resize(&past.memory, &past.work, n_work)
    if status != OK:
        return status
    if rule.kind == RULE_CHAIN:
        predict_chain(tree, past, rule, out)
    elif rule.kind == RULE_PITMAN_YOR:
        predict_pitman_yor(tree, past, rule, out)
    elif rule.kind == RULE_WEIGHTING:
        predict_weighting(tree, past, rule, <double*>past.work.data, out)
    else:
        predict_grid(tree, past, rule, <double*>past.work.data, stride, out)
    return OK


cdef inline Status predict_key(
    const Tree* tree, Past* past, const Rule* rule, int32_t number, int64_t stride, double* out
) noexcept nogil:
    """`predict_next` in the context of a key."""
    cdef Position start
    cdef uint32_t found
    cdef Status status
    if number == NO_KEY:
        return predict_next(tree, past, rule, stride, out)
    found = find_position(past, number)
    if found != ABSENT:
        swap_position(past, position_at(past, found))
        status = predict_next(tree, past, rule, stride, out)
        swap_position(past, position_at(past, found))
        return status
    memset(&start, 0, sizeof(Position))
    swap_position(past, &start)
    status = start_past(past, rule)
    if status == OK:
        status = predict_next(tree, past, rule, stride, out)
    swap_position(past, &start)
    dispose(&past.memory, &start.symbols)
    return status
