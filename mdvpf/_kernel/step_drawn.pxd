# cython: language_level=3
"""One step of the filters that draw: SMC and ParticleLearning.

They draw some particles many times. Copies share a block until they move to different states, so
probabilities are computed once for each block.
"""

from libc.math cimport log
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from mdvpf._kernel.constants cimport (
    MISSING, NOT_A_NUMBER, OK, RESAMPLING_RESIDUAL, RESAMPLING_SYSTEMATIC,
    TOO_FEW_UNIFORMS,
    Status,
)
from mdvpf._kernel.lanes cimport product_sum, weighted_sum
from mdvpf._kernel.number_draws cimport move_all_numbers, weigh_parents_numbers
from mdvpf._kernel.particles cimport end_of_sharing, fetch_ahead, n_offered, view_for
from mdvpf._kernel.real_scores cimport real_emission, real_transition, view_real_for
from mdvpf._kernel.resampling cimport draw, first_above, find_by_guide, make_guide, set_whole_parts
from mdvpf._kernel.row_scores cimport score_rows
from mdvpf._kernel.step_ranked cimport Uniforms, effective_size, finish, predict
from mdvpf._kernel.top_k cimport normalize, weigh
from mdvpf._kernel.transition cimport emission_or_one, particle_potentials, transition_scores
from mdvpf._kernel.types cimport (
    Entries, RealView, Report, Row, Scratch, Survivors, System, View,
)


cdef inline void repeat_offspring(
    System* system, const Survivors* moved, const int64_t* offspring
) noexcept nogil:
    """Choose each moved particle as many times as it has offspring, all with the same weight."""
    cdef Survivors* chosen = &system.chosen
    cdef int64_t k, _i
    cdef int64_t n = 0
    chosen.discarded = 0.0
    for k in range(moved.n):
        if offspring[k] == 0:
            chosen.discarded += moved.weight[k]
        for _i in range(offspring[k]):
            chosen.parent[n] = moved.parent[k]
            chosen.state[n] = moved.state[k]
            n += 1
    chosen.n = n
    weigh_equally(chosen)


cdef inline void weigh_equally(Survivors* chosen) noexcept nogil:
    cdef double weight = 1.0 / chosen.n
    cdef int64_t i
    for i in range(chosen.n):
        chosen.weight[i] = weight
    chosen.logarithmic = False


cdef inline Status move_all(
    System* system, int32_t symbol, const double* uniforms, Survivors* moved, Report* report
) noexcept nogil:
    """Draw a state for every particle, and weight the particle by the emission there."""
    cdef Scratch* scratch = &system.scratch
    cdef double* transition = scratch.transition
    cdef double* emission = scratch.emission
    cdef double* score = moved.weight
    cdef const double* weight = <const double*>system.stored.weight.data
    cdef const double* log_weight = <const double*>system.stored.log_weight.data
    cdef double predictive = 0.0
    cdef double evidence = 0.0
    cdef double mass
    cdef uint32_t i, n, state
    cdef int64_t k = 0
    cdef int64_t end = 0
    cdef View view
    cdef Row counts
    cdef RealView real_view
    cdef Entries column
    moved.n = system.n_particles
    while k < moved.n:
        end = end_of_sharing(system, k)
        fetch_ahead(system, end - 1, 1, symbol)
        if system.model.real:
            view_real_for(system, k, symbol, scratch, &real_view, &column)
            real_emission(&system.model, &real_view, &column, symbol, emission)
            n = real_transition(&system.model, &real_view, scratch.ones, transition)
            mass = product_sum(transition, emission, n)
        else:
            view_for(system, k, symbol, &view, &counts)
            emission_or_one(&system.model, &view, &counts, symbol, emission)
            n = transition_scores(&system.model, &view, scratch.ones, transition)
            mass = weighted_sum(transition, emission, n)
        for i in range(1, n):
            transition[i] += transition[i - 1]
        for k in range(k, end):
            state = <uint32_t>first_above(transition, n, uniforms[k] * transition[n - 1])
            moved.parent[k] = <uint32_t>k
            moved.state[k] = state
            predictive += weight[k] * mass
            evidence += weight[k] * emission[state]
            if system.logarithmic:
                score[k] = log_weight[k] + log(emission[state])
            else:
                score[k] = weight[k] * emission[state]
        k = end
    weigh(moved, system.logarithmic)
    if not normalize(moved) or not predictive > 0.0:
        return NOT_A_NUMBER
    report.log_predictive = 0.0 if symbol == MISSING else log(predictive)
    report.log_evidence = 0.0 if symbol == MISSING else log(evidence)
    return OK


cdef inline Status resample(
    System* system, Survivors* moved, Uniforms* uniforms
) noexcept nogil:
    """Choose among the moved particles in proportion to their weights."""
    cdef double* weight = <double*>system.work.resampling_weight.data
    cdef int64_t* offspring = <int64_t*>system.work.offspring.data
    cdef int64_t n_draws = system.budget
    cdef int64_t n_uniforms
    memcpy(weight, moved.weight, <size_t>moved.n * sizeof(double))
    memset(offspring, 0, <size_t>moved.n * sizeof(int64_t))
    if system.resampling == RESAMPLING_RESIDUAL:
        n_draws = set_whole_parts(weight, moved.n, system.budget, offspring)
    n_uniforms = 1 if system.resampling == RESAMPLING_SYSTEMATIC else n_draws
    if uniforms.used + n_uniforms > uniforms.n:
        return TOO_FEW_UNIFORMS
    draw(
        system.resampling, weight, moved.n, n_draws, uniforms.values + uniforms.used,
        <uint64_t*>system.work.guide.data, offspring,
    )
    uniforms.used += n_uniforms
    repeat_offspring(system, moved, offspring)
    return OK


cdef inline Status step_smc(
    System* system, int32_t symbol, Uniforms* uniforms, Report* report
) noexcept nogil:
    """One step of SMC."""
    cdef Survivors* moved = &system.moved
    cdef Survivors* chosen = moved
    cdef double ess
    cdef Status status
    if uniforms.used + system.n_particles > uniforms.n:
        return TOO_FEW_UNIFORMS
    status = score_rows(system, symbol, False, &system.now)
    if status != OK:
        return status
    if system.numbers.n_channels:
        status = move_all_numbers(
            system, symbol, uniforms.values + uniforms.used, moved, report)
    else:
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
    System* system, int64_t parent, const double* cumulative, uint32_t n,
    const double* uniforms, int64_t n_children, Survivors* chosen, double* carried,
) noexcept nogil:
    """Draw the states of one parent's children; add the weight of distinct ones to `carried`.

    `cumulative` has the cumulative potentials of the parent's n candidates.
    """
    cdef uint32_t* n_drawn = <uint32_t*>system.work.n_drawn.data
    cdef double weight = (<double*>system.stored.weight.data)[parent]
    cdef int64_t i
    cdef uint32_t state, _i
    memset(n_drawn, 0, n * sizeof(uint32_t))
    for i in range(n_children):
        n_drawn[first_above(cumulative, n, uniforms[i] * cumulative[n - 1])] += 1
    for state in range(n):
        for _i in range(n_drawn[state]):
            chosen.parent[chosen.n] = <uint32_t>parent
            chosen.state[chosen.n] = state
            chosen.n += 1
        if n_drawn[state]:
            carried[0] += weight * (cumulative[state] - (cumulative[state - 1] if state else 0.0))


cdef inline double weigh_parents(
    System* system, int32_t symbol, double* potential, double* cumulative
) noexcept nogil:
    """Write the potentials of blocks and the cumulative weights of parents; return the total."""
    cdef const double* weight = <const double*>system.stored.weight.data
    cdef const double* start = potential
    cdef double total = 0.0
    cdef double mass
    cdef int64_t k = 0
    cdef int64_t end
    while k < system.n_particles:
        end = end_of_sharing(system, k)
        fetch_ahead(system, end - 1, 1, symbol)
        potential += particle_potentials(system, k, symbol, potential, &mass)
        for k in range(k, end):
            total += weight[k] * mass
            cumulative[k] = total
        k = end
    system.extent.potentials = max(system.extent.potentials, potential - start)
    return total


cdef inline void draw_parents(
    System* system, double* cumulative, const double* uniforms, int64_t* children_end,
    double* sorted_uniforms,
) noexcept nogil:
    """Draw parents with the first half of the uniforms, and sort the second half by parent.

    The uniforms of the children of parent k end before index ``children_end[k]``.
    """
    cdef int64_t n = system.n_particles
    cdef int64_t budget = system.budget
    cdef uint64_t* guide = <uint64_t*>system.work.guide.data
    cdef int64_t* drawn = <int64_t*>system.work.drawn_parent.data
    cdef int64_t n_before = 0
    cdef int64_t k, i
    memset(children_end, 0, <size_t>n * sizeof(int64_t))
    make_guide(cumulative, n, guide)
    for i in range(budget):
        drawn[i] = find_by_guide(cumulative, n, guide, uniforms[i])
        children_end[drawn[i]] += 1
    for k in range(n):  # replace counts by starts, which the next loop turns into ends
        i = children_end[k]
        children_end[k] = n_before
        n_before += i
    for i in range(budget):
        sorted_uniforms[children_end[drawn[i]]] = uniforms[budget + i]
        children_end[drawn[i]] += 1


cdef inline double draw_states(
    System* system, double* potential, const int64_t* children_end, const double* sorted_uniforms,
    Survivors* chosen,
) noexcept nogil:
    """Draw the children of all parents; return the weight of the distinct ones."""
    cdef double carried = 0.0
    cdef uint32_t i, n
    cdef int64_t k = 0
    cdef int64_t end
    chosen.n = 0
    while k < system.n_particles:
        end = end_of_sharing(system, k)
        n = n_offered(system, k)
        if children_end[end - 1] > chosen.n:
            for i in range(1, n):
                potential[i] += potential[i - 1]
            for k in range(k, end):
                if children_end[k] > chosen.n:
                    draw_children(
                        system, k, potential, n, sorted_uniforms + chosen.n,
                        children_end[k] - chosen.n, chosen, &carried,
                    )
        potential += n
        k = end
    return carried


cdef inline Status step_learning(
    System* system, int32_t symbol, Uniforms* uniforms, Report* report
) noexcept nogil:
    """One step of ParticleLearning."""
    cdef Survivors* chosen = &system.chosen
    cdef double* potential = <double*>system.work.block_potentials.data
    cdef double* cumulative = <double*>system.work.cumulative_weight.data
    cdef double* sorted_uniforms = <double*>system.work.sorted_uniforms.data
    cdef int64_t* children_end = <int64_t*>system.work.children_end.data
    cdef double total, carried
    cdef Status status
    if uniforms.used + 2 * system.budget > uniforms.n:
        return TOO_FEW_UNIFORMS
    status = score_rows(system, symbol, False, &system.now)
    if status != OK:
        return status
    if system.numbers.n_channels:
        total = weigh_parents_numbers(system, symbol, potential, cumulative)
    else:
        total = weigh_parents(system, symbol, potential, cumulative)
    system.candidates.predictive = total
    if predict(system, symbol, report) != OK:
        return NOT_A_NUMBER
    draw_parents(system, cumulative, uniforms.values + uniforms.used, children_end, sorted_uniforms)
    carried = draw_states(system, potential, children_end, sorted_uniforms, chosen)
    chosen.discarded = 1.0 - carried / total if carried < total else 0.0
    weigh_equally(chosen)
    uniforms.used += 2 * system.budget
    return finish(system, chosen, symbol, report)
