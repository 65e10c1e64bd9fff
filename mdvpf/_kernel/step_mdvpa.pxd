# cython: language_level=3
"""One step of MD-VPA: complete the pending step, then choose what VPA would choose on the symbol.

The committed particles are one symbol behind. The provisional particles, which are shown meanwhile,
are candidates of the pending symbol; they are never written into tables.
"""

from libc.math cimport isfinite, log
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from mdvpf._kernel.alphabet cimport use_pending_symbol, use_symbol
from mdvpf._kernel.commit cimport commit
from mdvpf._kernel.constants cimport BLOCK_STATES, MISSING, NOT_A_NUMBER, OK, Status, unlikely
from mdvpf._kernel.expansion cimport EVERYTHING, expand
from mdvpf._kernel.lookahead cimport look_ahead
from mdvpf._kernel.number_expansion cimport log_mixture, stored_log, stored_probability
from mdvpf._kernel.number_scores cimport log_moved_probability
from mdvpf._kernel.particles cimport block_of
from mdvpf._kernel.positions cimport activate
from mdvpf._kernel.regret_term cimport apply_regret_term
from mdvpf._kernel.reserve cimport reserve_commit, reserve_step
from mdvpf._kernel.row_scores cimport relate_densities, score_rows
from mdvpf._kernel.statistics cimport drop_prepared, observation_of, prepare_statistics
from mdvpf._kernel.step_ranked cimport (
    Uniforms,
    choose_optimal, choose_top, report_ranked, mean_states_of, predict,
)
from mdvpf._kernel.top_k cimport normalize, select_top, weigh
from mdvpf._kernel.transition cimport moved_probability
from mdvpf._kernel.types cimport CandidateSet, Report, Survivors, System


cdef inline void copy_survivors(Survivors* target, const Survivors* source) noexcept nogil:
    cdef size_t n = <size_t>source.n
    memcpy(target.parent, source.parent, n * sizeof(uint32_t))
    memcpy(target.state, source.state, n * sizeof(uint32_t))
    memcpy(target.weight, source.weight, n * sizeof(double))
    if source.logarithmic:
        memcpy(target.log_weight, source.log_weight, n * sizeof(double))
    target.logarithmic = source.logarithmic
    target.n = source.n
    target.discarded = source.discarded


cdef inline Status expand_pending(System* system, int attempt) noexcept nogil:
    """Repeat the expansion of the pending symbol."""
    cdef Status status = score_rows(system, system.pending_symbol, True, &system.now)
    if status == OK:
        use_pending_symbol(system)
        expand(system, system.pending_symbol, attempt)
    return status


cdef inline Status tilt(System* system, int32_t lookahead, double discount) noexcept nogil:
    """Add the regret term of a look-ahead to the scores of the pending symbol's candidates."""
    cdef Status status = score_rows(system, lookahead, False, &system.now)
    if status == OK:
        use_symbol(system, lookahead)
        look_ahead(system, lookahead)
        apply_regret_term(system, discount)
    return status


cdef inline Status choose_pending(
    System* system, int32_t lookahead, double discount, Uniforms* uniforms
) noexcept nogil:
    """Choose the survivors of the pending step; `lookahead` is MISSING if there is none."""
    cdef Survivors* chosen = &system.chosen
    cdef uint64_t* keys = system.scratch.keys
    cdef uint64_t* work = system.scratch.key_work
    cdef CandidateSet* tilted = &system.tilted
    cdef int attempt = 0
    cdef Status status = OK
    if lookahead == MISSING or discount == 0.0:
        system.margin = 0.0
        if not system.select_optimal:
            copy_survivors(chosen, &system.provisional)
            return OK
        status = expand_pending(system, EVERYTHING)
        if status != OK:
            return status
        return choose_optimal(
            system, &system.candidates, system.pending_kept, chosen, uniforms)
    if system.select_optimal:
        status = expand_pending(system, EVERYTHING)
    if status == OK:
        status = tilt(system, lookahead, discount)
    if status != OK:
        return status
    if not (isfinite(tilted.best) and isfinite(tilted.least)):
        return NOT_A_NUMBER
    if system.select_optimal:
        return choose_optimal(system, tilted, system.pending_kept, chosen, uniforms)
    while not select_top(tilted, system.pending_kept, keys, work, chosen):
        attempt += 1
        status = expand_pending(system, attempt)
        if status == OK:
            status = tilt(system, lookahead, discount)
        if status != OK:
            return status
    weigh(chosen, tilted.logarithmic)
    return OK if normalize(chosen) else NOT_A_NUMBER


cdef inline void match_provisional(
    System* system, int32_t symbol, uint32_t number
) noexcept nogil:
    """Find each provisional particle among the survivors that are about to be committed.

    Nearly all of them are survivors, and the next expansion computes their probability of the
    symbol of key `number`. For the others it is computed here, before the commit changes the tables
    of their parents.
    """
    cdef const uint32_t* parent = system.provisional.parent
    cdef const uint32_t* state = system.provisional.state
    cdef const uint32_t* chosen_parent = system.chosen.parent
    cdef const uint32_t* chosen_state = system.chosen.state
    cdef int64_t* chosen_index = <int64_t*>system.work.chosen_index.data
    cdef double* probability = <double*>system.work.provisional_probability.data
    cdef int64_t i
    cdef int64_t j = 0
    for i in range(system.provisional.n):
        while j < system.chosen.n and (
            chosen_parent[j] < parent[i]
            or (chosen_parent[j] == parent[i] and chosen_state[j] < state[i])
        ):
            j += 1
        chosen_index[i] = -1
        if j < system.chosen.n and chosen_parent[j] == parent[i] and chosen_state[j] == state[i]:
            chosen_index[i] = j
        elif unlikely(system.numbers.n_channels > 0) and symbol != MISSING:
            probability[i] = log_moved_probability(system, parent[i], state[i], number)
        elif symbol != MISSING:
            probability[i] = moved_probability(
                system, parent[i], state[i], system.pending_symbol, symbol, number
            )


cdef inline double provisional_log_predictive(System* system) noexcept nogil:
    """Log predictive, under the provisional particles, of the symbol that was just expanded."""
    cdef const double* weight = system.provisional.weight
    cdef double* probability = <double*>system.work.provisional_probability.data
    cdef const double* symbol_probability = <const double*>system.work.symbol_probability.data
    cdef const int64_t* chosen_index = <const int64_t*>system.work.chosen_index.data
    cdef const double* log_weight = NULL
    cdef double largest
    cdef double total = 0.0
    cdef int64_t i
    if unlikely(system.numbers.n_channels > 0):
        # Rows that only unmatched particles held are gone, and may have had a larger density.
        largest = system.numbers.best
        for i in range(system.provisional.n):
            if chosen_index[i] < 0:
                largest = max(largest, probability[i])
        for i in range(system.provisional.n):
            if chosen_index[i] < 0:
                probability[i] = stored_probability(probability[i], largest)
                continue
            probability[i] = symbol_probability[chosen_index[i]]
            if largest > system.numbers.best:
                probability[i] = stored_probability(
                    stored_log(probability[i], system.numbers.best), largest)
        if system.provisional.logarithmic:
            log_weight = system.provisional.log_weight
        return log_mixture(probability, largest, weight, log_weight, system.provisional.n)
    for i in range(system.provisional.n):
        if chosen_index[i] < 0:
            total += weight[i] * probability[i]
        else:
            total += weight[i] * symbol_probability[chosen_index[i]]
    return log(total)


cdef inline Status complete_pending(
    System* system, int32_t symbol, uint32_t number, double discount, Uniforms* uniforms
) noexcept nogil:
    """Complete the pending step, and reserve memory for the expansion of the next symbol.

    The next symbol is the look-ahead if it has the same key.
    """
    cdef int32_t lookahead = symbol if number == system.positions.active else <int32_t>MISSING
    cdef const uint32_t* parent
    cdef int64_t n_candidates = 0
    cdef int64_t i
    cdef Status status = choose_pending(system, lookahead, discount, uniforms)
    if status == OK:
        status = reserve_commit(system, &system.chosen)
    if status != OK:
        return status
    parent = system.chosen.parent
    for i in range(system.chosen.n):
        n_candidates += block_of(system, parent[i])[BLOCK_STATES] + 2
    status = prepare_statistics(
        system, &system.chosen, &system.provisional, system.pending_symbol, True)
    if status == OK:
        status = score_rows(system, symbol, False, &system.after)
    if status == OK:
        status = reserve_step(system, n_candidates, system.most_states + 1)
    if status != OK:
        drop_prepared(system)
        return status
    use_symbol(system, symbol)
    match_provisional(system, symbol, number)
    commit(system, &system.chosen, system.pending_symbol)
    if system.numbers.n_channels:
        relate_densities(system)  # without rows that nobody holds any more, as in VPA
    system.pending = False
    return OK


cdef inline Status step_mdvpa(
    System* system, int32_t symbol, uint32_t number, double discount, Uniforms* uniforms,
    Report* report,
) noexcept nogil:
    """One step of MD-VPA: complete the pending step; choose provisional particles as VPA does."""
    cdef bint pending = system.pending
    cdef Status status
    if pending:
        status = complete_pending(system, symbol, number, discount, uniforms)
        if status != OK:
            return status
        if number != system.positions.active:
            activate(system, number)
    else:
        status = score_rows(system, symbol, False, &system.now)
        if status != OK:
            return status
    expand(system, symbol, 0)
    status = predict(system, symbol, report)
    if status != OK:
        return status
    if pending and symbol != MISSING:
        report.log_predictive = provisional_log_predictive(system)
        report.log_evidence = report.log_predictive
    status = choose_top(system, symbol, &system.provisional)
    if status != OK:
        return status
    report_ranked(system, &system.provisional, report)
    report.mean_states = mean_states_of(system, &system.provisional)
    system.pending = True
    system.pending_symbol = symbol
    system.pending_kept = system.kept
    if system.numbers.n_channels:
        memcpy(observation_of(system, True), observation_of(system, False),
               system.numbers.n_channels * sizeof(double))
    return OK
