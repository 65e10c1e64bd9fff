# cython: language_level=3
"""The five algorithms: one step of each.

A step scores the candidates, chooses survivors, makes room for them and commits them. Until the
commit nothing that a user can see has changed, and after it nothing can fail.
"""

from libc.math cimport exp, isfinite, log
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from mdvpf._commit cimport commit, reserve_commit, reserve_survivors
from mdvpf._expand cimport expand
from mdvpf._lookahead cimport look_ahead, reserve_lookahead, tilt
from mdvpf._pool cimport resize
from mdvpf._score cimport (
    block_of, column_of, emission_or_one, fetch_ahead, moved_probability, particle_potentials,
    transition_scores, view_particle,
)
from mdvpf._select cimport (
    draw, first_above, normalize, residual_part, select_optimal, select_top, weigh,
)
from mdvpf._types cimport (
    ALGORITHM_LEARNING, ALGORITHM_MDVPA, ALGORITHM_OPTIMAL, ALGORITHM_SMC,
    BLOCK_CURRENT, BLOCK_STATES, MISSING, NO_MEMORY, NOT_A_NUMBER, OK,
    RESAMPLING_RESIDUAL, RESAMPLING_SYSTEMATIC, TOO_FEW_UNIFORMS,
    Candidate, CandidateSet, Report, Row, Scratch, Status, Survivors, System, View,
)

# Uniforms that the caller drew, handed out in order.
cdef struct Uniforms:
    const double* values
    int64_t n
    int64_t used


# ---- room to work ------------------------------------------------------------------------

cdef inline Status reserve_step(
    System* system, int64_t n_candidates, uint32_t n_states
) noexcept nogil:
    """Make room to score that many candidates of particles with at most that many states."""
    cdef Scratch* scratch = &system.scratch
    cdef size_t states = n_states + 8
    cdef size_t i
    cdef size_t n = <size_t>(n_candidates if n_candidates > system.budget else system.budget)
    if resize(&system.memory, &scratch.transition, states * sizeof(double)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &scratch.emission, states * sizeof(double)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &scratch.times, states * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    if states * sizeof(double) > scratch.ones.bytes:
        if resize(&system.memory, &scratch.ones, states * sizeof(double)) != OK:
            return NO_MEMORY
        for i in range(scratch.ones.bytes // sizeof(double)):
            (<double*>scratch.ones.data)[i] = 1.0
    if states * sizeof(uint64_t) > scratch.stamp.bytes:
        if resize(&system.memory, &scratch.stamp, states * sizeof(uint64_t)) != OK:
            return NO_MEMORY
        memset(scratch.stamp.data, 0, scratch.stamp.bytes)  # of no visit
    if resize(&system.memory, &scratch.seen, states * sizeof(double)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &scratch.emitted, states * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &scratch.overlay_into, states * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &scratch.overlay_row, 2 * states * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &scratch.overlay_column, 2 * states * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &scratch.overlay_missing, 2 * states * sizeof(uint32_t)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &scratch.keys, n * sizeof(uint64_t)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &scratch.order, n * sizeof(uint64_t)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &scratch.shares, n * sizeof(double)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &system.candidates.items, n * sizeof(Candidate)) != OK:
        return NO_MEMORY
    if reserve_survivors(system, &system.chosen, system.budget) != OK:
        return NO_MEMORY
    if reserve_survivors(system, &system.shown, system.budget) != OK:
        return NO_MEMORY
    if resize(&system.memory, &system.foresight, system.budget * sizeof(double)) != OK:
        return NO_MEMORY
    if resize(&system.memory, &system.match, system.budget * sizeof(int64_t)) != OK:
        return NO_MEMORY
    if system.algorithm == ALGORITHM_MDVPA:
        return reserve_lookahead(system, n_candidates, n_states + 1)
    return OK


# ---- reports -----------------------------------------------------------------------------

cdef inline double effective_size(const Survivors* chosen) noexcept nogil:
    cdef const double* weight = <const double*>chosen.weight.data
    cdef double squares = 0.0
    cdef int64_t i
    for i in range(chosen.n):
        squares += weight[i] * weight[i]
    return 1.0 / squares


cdef inline double mean_states_of(const System* system, const Survivors* chosen) noexcept nogil:
    """Weighted mean number of states of children that are not yet made."""
    cdef const uint32_t* parent = <const uint32_t*>chosen.parent.data
    cdef const uint32_t* state = <const uint32_t*>chosen.state.data
    cdef const double* weight = <const double*>chosen.weight.data
    cdef double mean = 0.0
    cdef int64_t i
    cdef uint32_t n
    for i in range(chosen.n):
        n = block_of(system, parent[i])[BLOCK_STATES]
        mean += weight[i] * (n + (state[i] == n))
    return mean


cdef inline void describe(
    const System* system, const Survivors* chosen, Report* report
) noexcept nogil:
    """Report on survivors, but for their number of states."""
    report.ess = effective_size(chosen)
    report.n_particles = chosen.n
    report.discarded = chosen.discarded


cdef inline Status predict(System* system, int32_t symbol, Report* report) noexcept nogil:
    """Report the log predictive that the expansion of the symbol has found."""
    if not system.candidates.predictive > 0.0:
        return NOT_A_NUMBER
    report.log_predictive = 0.0 if symbol == MISSING else log(system.candidates.predictive)
    report.log_evidence = report.log_predictive
    return OK


# ---- VPA and the optimal rule ------------------------------------------------------------

cdef inline Status choose_top(
    System* system, int32_t symbol, Survivors* chosen
) noexcept nogil:
    """Choose the K best candidates of the symbol, which were expanded, and weigh them."""
    cdef CandidateSet* candidates = &system.candidates
    cdef uint64_t* keys = <uint64_t*>system.scratch.keys.data
    cdef uint64_t* work = <uint64_t*>system.scratch.order.data
    if not select_top(candidates, system.budget, keys, work, chosen):
        expand(system, symbol, True)
        select_top(candidates, system.budget, keys, work, chosen)
    weigh_with_loss(candidates, chosen)
    return OK if normalize(chosen) else NOT_A_NUMBER


cdef inline void weigh_with_loss(
    const CandidateSet* candidates, Survivors* chosen
) noexcept nogil:
    """Weigh the survivors and note the share of the candidates' weight that they leave behind."""
    cdef const double* score = <const double*>chosen.weight.data
    cdef double carried = 0.0
    cdef int64_t i
    for i in range(chosen.n):
        carried += exp(score[i]) if candidates.logarithmic else score[i]
    carried /= candidates.total
    chosen.discarded = 0.0
    if carried < 1.0 and not (candidates.complete and chosen.n == candidates.n):
        chosen.discarded = 1.0 - carried
    weigh(chosen, candidates.logarithmic)


cdef inline Status choose_optimal(
    const System* system, const CandidateSet* candidates, Survivors* chosen, Uniforms* uniforms
) noexcept nogil:
    """Choose survivors of a complete set of candidates by the optimal rule."""
    cdef double uniform = 0.0
    if candidates.n > system.budget:
        if uniforms.used >= uniforms.n:
            return TOO_FEW_UNIFORMS
        uniform = uniforms.values[uniforms.used]
    uniforms.used += select_optimal(
        candidates, <double*>system.scratch.shares.data, system.budget,
        <uint64_t*>system.scratch.keys.data, <double*>system.scratch.order.data, uniform, chosen,
    )
    return OK if normalize(chosen) else NOT_A_NUMBER


cdef inline Status finish(
    System* system, Survivors* chosen, int32_t symbol, Report* report
) noexcept nogil:
    """Describe and commit the chosen survivors."""
    cdef Status status = reserve_commit(system, chosen)
    if status == OK:
        commit(system, chosen, symbol)
        describe(system, chosen, report)
        report.mean_states = system.mean_states
    return status


cdef inline Status step_candidates(
    System* system, int32_t symbol, Uniforms* uniforms, Report* report
) noexcept nogil:
    """One step of VPA or of the optimal rule."""
    cdef bint optimal = system.algorithm == ALGORITHM_OPTIMAL
    cdef Survivors* chosen = &system.chosen
    cdef Status status
    expand(system, symbol, optimal)
    status = predict(system, symbol, report)
    if status != OK:
        return status
    if optimal:
        status = choose_optimal(system, &system.candidates, chosen, uniforms)
    else:
        status = choose_top(system, symbol, chosen)
    if status != OK:
        return status
    return finish(system, chosen, symbol, report)


# ---- MD-VPA ------------------------------------------------------------------------------

cdef inline void copy_survivors(Survivors* target, const Survivors* source) noexcept nogil:
    cdef size_t n = <size_t>source.n
    memcpy(target.parent.data, source.parent.data, n * sizeof(uint32_t))
    memcpy(target.state.data, source.state.data, n * sizeof(uint32_t))
    memcpy(target.weight.data, source.weight.data, n * sizeof(double))
    if source.logarithmic:
        memcpy(target.log_weight.data, source.log_weight.data, n * sizeof(double))
    target.logarithmic = source.logarithmic
    target.n = source.n
    target.discarded = source.discarded


cdef inline Status complete(
    System* system, int32_t lookahead, double discount, Uniforms* uniforms
) noexcept nogil:
    """Choose the survivors of the pending step, given the symbol after it if there is one."""
    cdef Survivors* chosen = &system.chosen
    cdef uint64_t* keys = <uint64_t*>system.scratch.keys.data
    cdef uint64_t* work = <uint64_t*>system.scratch.order.data
    cdef CandidateSet* tilted = &system.tilted
    if lookahead == MISSING or discount == 0.0:
        system.margin = 0.0
        if not system.select_optimal:
            copy_survivors(chosen, &system.shown)
            return OK
        expand(system, system.pending_symbol, True)
        return choose_optimal(system, &system.candidates, chosen, uniforms)
    if system.select_optimal:
        expand(system, system.pending_symbol, True)
    look_ahead(system, lookahead)
    tilt(system, discount)
    if not isfinite(tilted.best):
        return NOT_A_NUMBER
    if system.select_optimal:
        return choose_optimal(system, tilted, chosen, uniforms)
    if not select_top(tilted, system.budget, keys, work, chosen):
        expand(system, system.pending_symbol, True)
        look_ahead(system, lookahead)
        tilt(system, discount)
        select_top(tilted, system.budget, keys, work, chosen)
    weigh(chosen, True)
    return OK if normalize(chosen) else NOT_A_NUMBER


cdef inline void foresee(System* system, int32_t symbol) noexcept nogil:
    """Match the provisional particles with those chosen to replace them.

    Nearly all are the same. What the others make of the symbol is found here, while the tables
    that they stand on still exist; what the same ones make of it, the next expansion finds.
    """
    cdef const uint32_t* parent = <const uint32_t*>system.shown.parent.data
    cdef const uint32_t* state = <const uint32_t*>system.shown.state.data
    cdef const uint32_t* chosen_parent = <const uint32_t*>system.chosen.parent.data
    cdef const uint32_t* chosen_state = <const uint32_t*>system.chosen.state.data
    cdef int64_t* match = <int64_t*>system.match.data
    cdef double* foresight = <double*>system.foresight.data
    cdef int64_t i
    cdef int64_t j = 0
    for i in range(system.shown.n):
        while j < system.chosen.n and (
            chosen_parent[j] < parent[i]
            or (chosen_parent[j] == parent[i] and chosen_state[j] < state[i])
        ):
            j += 1
        match[i] = -1
        if j < system.chosen.n and chosen_parent[j] == parent[i] and chosen_state[j] == state[i]:
            match[i] = j
        elif symbol != MISSING:
            foresight[i] = moved_probability(
                system, parent[i], state[i], system.pending_symbol, symbol
            )


cdef inline double foreseen(const System* system) noexcept nogil:
    """Probability of the symbol just expanded under the provisional set before it."""
    cdef const double* weight = <const double*>system.shown.weight.data
    cdef const double* foresight = <const double*>system.foresight.data
    cdef const double* future = <const double*>system.future.data
    cdef const int64_t* match = <const int64_t*>system.match.data
    cdef double total = 0.0
    cdef int64_t i
    for i in range(system.shown.n):
        total += weight[i] * (foresight[i] if match[i] < 0 else future[match[i]])
    return total


cdef inline Status complete_pending(
    System* system, int32_t lookahead, double discount, Uniforms* uniforms
) noexcept nogil:
    """Complete the pending step, and make room for the expansion after it."""
    cdef const uint32_t* parent
    cdef int64_t n_candidates = 0
    cdef int64_t i
    cdef Status status = complete(system, lookahead, discount, uniforms)
    if status == OK:
        status = reserve_commit(system, &system.chosen)
    if status != OK:
        return status
    parent = <const uint32_t*>system.chosen.parent.data
    for i in range(system.chosen.n):
        n_candidates += block_of(system, parent[i])[BLOCK_STATES] + 2
    status = reserve_step(system, n_candidates, system.most_states + 1)
    if status != OK:
        return status
    foresee(system, lookahead)
    commit(system, &system.chosen, system.pending_symbol)
    system.pending = False
    return OK


cdef inline Status step_lookahead(
    System* system, int32_t symbol, double discount, Uniforms* uniforms, Report* report
) noexcept nogil:
    """One step of MD-VPA: complete the pending one, then show what VPA would make of this."""
    cdef bint pending = system.pending
    cdef Status status
    if pending:
        status = complete_pending(system, symbol, discount, uniforms)
        if status != OK:
            return status
    expand(system, symbol, False)
    status = predict(system, symbol, report)
    if status != OK:
        return status
    if pending and symbol != MISSING:
        report.log_predictive = log(foreseen(system))
        report.log_evidence = report.log_predictive
    status = choose_top(system, symbol, &system.shown)
    if status != OK:
        return status
    describe(system, &system.shown, report)
    report.mean_states = mean_states_of(system, &system.shown)
    system.pending = True
    system.pending_symbol = symbol
    return OK


# ---- the filters that draw ---------------------------------------------------------------

cdef inline void spread(
    System* system, const Survivors* moved, const int64_t* offspring
) noexcept nogil:
    """Choose each moved particle as often as it has offspring, all with the same weight."""
    cdef Survivors* chosen = &system.chosen
    cdef int64_t k, _i
    cdef int64_t n = 0
    chosen.discarded = 0.0
    for k in range(moved.n):
        if offspring[k] == 0:
            chosen.discarded += (<double*>moved.weight.data)[k]
        for _i in range(offspring[k]):
            (<uint32_t*>chosen.parent.data)[n] = (<uint32_t*>moved.parent.data)[k]
            (<uint32_t*>chosen.state.data)[n] = (<uint32_t*>moved.state.data)[k]
            n += 1
    chosen.n = n
    weigh_equally(chosen)


cdef inline void weigh_equally(Survivors* chosen) noexcept nogil:
    cdef double weight = 1.0 / chosen.n
    cdef int64_t i
    for i in range(chosen.n):
        (<double*>chosen.weight.data)[i] = weight
    chosen.logarithmic = False


cdef inline Status move_all(
    System* system, int32_t symbol, const double* uniforms, Survivors* moved, Report* report
) noexcept nogil:
    """Draw a state for every particle and weigh it by the emission."""
    cdef Scratch* scratch = &system.scratch
    cdef double* transition = <double*>scratch.transition.data
    cdef double* emission = <double*>scratch.emission.data
    cdef double* score = <double*>moved.weight.data
    cdef const double* weight = <const double*>system.weight.data
    cdef const double* log_weight = <const double*>system.log_weight.data
    cdef double predictive = 0.0
    cdef double evidence = 0.0
    cdef uint32_t* block
    cdef uint32_t i, n, state
    cdef int64_t k
    cdef View view
    cdef Row counts
    counts.n = 0
    moved.n = system.n_particles
    for k in range(moved.n):
        fetch_ahead(system, k, 1, symbol)
        block = block_of(system, k)
        view_particle(system, block, &view)
        if symbol != MISSING:
            counts = column_of(system, block, <uint32_t>symbol)
        emission_or_one(&system.model, &view, &counts, symbol == MISSING, emission)
        n = transition_scores(&system.model, &view, <const double*>scratch.ones.data, transition)
        predictive += weight[k] * weighted_sum(transition, emission, n)
        for i in range(1, n):
            transition[i] += transition[i - 1]
        state = <uint32_t>first_above(transition, n, uniforms[k] * transition[n - 1])
        (<uint32_t*>moved.parent.data)[k] = <uint32_t>k
        (<uint32_t*>moved.state.data)[k] = state
        evidence += weight[k] * emission[state]
        if system.logarithmic:
            score[k] = log_weight[k] + log(emission[state])
        else:
            score[k] = weight[k] * emission[state]
    weigh(moved, system.logarithmic)
    if not normalize(moved) or not predictive > 0.0:
        return NOT_A_NUMBER
    report.log_predictive = 0.0 if symbol == MISSING else log(predictive)
    report.log_evidence = 0.0 if symbol == MISSING else log(evidence)
    return OK


cdef inline double weighted_sum(
    const double* transition, const double* emission, uint32_t n
) noexcept nogil:
    """The sum of n products; zeros follow the transition scores up to a multiple of four."""
    cdef double a = 0.0
    cdef double b = 0.0
    cdef double c = 0.0
    cdef double d = 0.0
    cdef uint32_t i
    for i in range(0, n, 4):
        a += transition[i] * emission[i]
        b += transition[i + 1] * emission[i + 1]
        c += transition[i + 2] * emission[i + 2]
        d += transition[i + 3] * emission[i + 3]
    return (a + b) + (c + d)


cdef inline Status resample(
    System* system, Survivors* moved, Uniforms* uniforms
) noexcept nogil:
    """Choose among the moved particles in proportion to their weights."""
    cdef double* weight = <double*>system.scratch.shares.data
    cdef int64_t* offspring = <int64_t*>system.scratch.order.data
    cdef int64_t n_draws = system.budget
    cdef int64_t n_uniforms
    memcpy(weight, moved.weight.data, <size_t>moved.n * sizeof(double))
    memset(offspring, 0, <size_t>moved.n * sizeof(int64_t))
    if system.resampling == RESAMPLING_RESIDUAL:
        n_draws = residual_part(weight, moved.n, system.budget, offspring)
    n_uniforms = 1 if system.resampling == RESAMPLING_SYSTEMATIC else n_draws
    if uniforms.used + n_uniforms > uniforms.n:
        return TOO_FEW_UNIFORMS
    draw(
        system.resampling, weight, moved.n, n_draws, uniforms.values + uniforms.used, offspring
    )
    uniforms.used += n_uniforms
    spread(system, moved, offspring)
    return OK


cdef inline Status step_bootstrap(
    System* system, int32_t symbol, Uniforms* uniforms, Report* report
) noexcept nogil:
    """One step of SMC."""
    cdef Survivors* moved = &system.shown
    cdef Survivors* chosen = moved
    cdef double ess
    cdef Status status
    if uniforms.used + system.n_particles > uniforms.n:
        return TOO_FEW_UNIFORMS
    status = move_all(system, symbol, uniforms.values + uniforms.used, moved, report)
    if status != OK:
        return status
    uniforms.used += system.n_particles
    moved.discarded = 0.0
    ess = effective_size(moved)
    if system.ess_threshold >= 1.0 or ess < system.ess_threshold * system.budget:
        status = resample(system, moved, uniforms)
        if status != OK:
            return status
        chosen = &system.chosen
    status = finish(system, chosen, symbol, report)
    report.ess = ess
    return status


cdef inline void draw_children(
    System* system, int64_t parent, int32_t symbol, const double* uniforms, int64_t n_children,
    Survivors* chosen, double* carried,
) noexcept nogil:
    """Draw the states of one parent's children; `carried` gains the weight of distinct ones."""
    cdef double* potential = <double*>system.scratch.transition.data
    cdef uint32_t* times = <uint32_t*>system.scratch.times.data
    cdef double weight = (<double*>system.weight.data)[parent]
    cdef double total
    cdef int64_t i
    cdef uint32_t state, _i
    cdef uint32_t n = particle_potentials(system, parent, symbol, potential, &total)
    memset(times, 0, n * sizeof(uint32_t))
    for i in range(1, n):
        potential[i] += potential[i - 1]
    for i in range(n_children):
        times[first_above(potential, n, uniforms[i] * potential[n - 1])] += 1
    for state in range(n):
        for _i in range(times[state]):
            (<uint32_t*>chosen.parent.data)[chosen.n] = <uint32_t>parent
            (<uint32_t*>chosen.state.data)[chosen.n] = state
            chosen.n += 1
        if times[state]:
            carried[0] += weight * (potential[state] - (potential[state - 1] if state else 0.0))


cdef inline Status step_learning(
    System* system, int32_t symbol, Uniforms* uniforms, Report* report
) noexcept nogil:
    """One step of ParticleLearning."""
    cdef Survivors* chosen = &system.chosen
    cdef int64_t n = system.n_particles
    cdef int64_t budget = system.budget
    cdef double* cumulative = <double*>system.scratch.shares.data
    cdef double* potential = <double*>system.scratch.transition.data
    cdef const double* weight = <const double*>system.weight.data
    cdef double* sorted_uniforms = <double*>system.foresight.data
    cdef int64_t* place = <int64_t*>system.scratch.order.data  # where the parent's draws go
    cdef int64_t* drawn = <int64_t*>system.match.data          # parent of each draw
    cdef const double* first
    cdef double total = 0.0
    cdef double mass
    cdef double carried = 0.0
    cdef int64_t k, i, next_place
    if uniforms.used + 2 * budget > uniforms.n:
        return TOO_FEW_UNIFORMS
    first = uniforms.values + uniforms.used
    for k in range(n):
        fetch_ahead(system, k, 1, symbol)
        particle_potentials(system, k, symbol, potential, &mass)
        total += weight[k] * mass
        cumulative[k] = total
        place[k] = 0
    system.candidates.predictive = total
    if predict(system, symbol, report) != OK:
        return NOT_A_NUMBER
    for i in range(budget):
        drawn[i] = first_above(cumulative, n, first[i] * total)
        place[drawn[i]] += 1
    next_place = 0
    for k in range(n):  # counts become places
        i = place[k]
        place[k] = next_place
        next_place += i
    for i in range(budget):
        sorted_uniforms[place[drawn[i]]] = first[budget + i]
        place[drawn[i]] += 1
    chosen.n = 0
    for k in range(n):  # place[k] is now where the draws of k end
        if place[k] > chosen.n:
            draw_children(
                system, k, symbol, sorted_uniforms + chosen.n, place[k] - chosen.n, chosen,
                &carried,
            )
    chosen.discarded = 1.0 - carried / total if carried < total else 0.0
    weigh_equally(chosen)
    uniforms.used += 2 * budget
    return finish(system, chosen, symbol, report)


# ---- every algorithm ---------------------------------------------------------------------

cdef inline Status step(
    System* system, int32_t symbol, double discount, Uniforms* uniforms, Report* report
) noexcept nogil:
    """Absorb one symbol, or change nothing."""
    cdef int64_t used = uniforms.used
    cdef Status status = reserve_step(system, system.n_candidates, system.most_states)
    if status == OK:
        if system.algorithm == ALGORITHM_MDVPA:
            status = step_lookahead(system, symbol, discount, uniforms, report)
        elif system.algorithm == ALGORITHM_SMC:
            status = step_bootstrap(system, symbol, uniforms, report)
        elif system.algorithm == ALGORITHM_LEARNING:
            status = step_learning(system, symbol, uniforms, report)
        else:
            status = step_candidates(system, symbol, uniforms, report)
    if status != OK:
        uniforms.used = used
    return status


cdef inline Status start_sequence(System* system, Uniforms* uniforms) noexcept nogil:
    """Complete what is pending without a look-ahead; the next symbol comes from the start state."""
    cdef int64_t k
    cdef Status status
    if system.pending:
        status = reserve_step(system, system.n_candidates, system.most_states)
        if status == OK:
            status = complete_pending(system, MISSING, 0.0, uniforms)
        if status != OK:
            return status
    for k in range(system.n_particles):
        block_of(system, k)[BLOCK_CURRENT] = 0
    return OK
