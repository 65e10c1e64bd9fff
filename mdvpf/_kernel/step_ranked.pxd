# cython: language_level=3
"""Steps that rank candidates: VPA and OptimalResampling; and functions that all steps share.

A step scores the candidates, chooses survivors, reserves memory for them and commits them. The
state of the filter changes only in the commit, which cannot fail.
"""

from libc.math cimport exp, isfinite, log
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from mdvpf._kernel.commit cimport commit
from mdvpf._kernel.constants cimport (
    ALGORITHM_OPTIMAL, BLOCK_STATES, MISSING, NOT_A_NUMBER, OK, TOO_FEW_UNIFORMS,
    Status,
    unlikely,
)
from mdvpf._kernel.expansion cimport EVERYTHING, expand
from mdvpf._kernel.optimal_rule cimport select_optimal
from mdvpf._kernel.optimal_rule_bounded cimport expand_heavy, select_optimal_bounded
from mdvpf._kernel.particles cimport block_of
from mdvpf._kernel.real_particles cimport live_moved
from mdvpf._kernel.reserve cimport reserve_commit
from mdvpf._kernel.row_scores cimport score_rows
from mdvpf._kernel.statistics cimport prepare_statistics
from mdvpf._kernel.top_k cimport normalize, select_top, weigh
from mdvpf._kernel.types cimport CandidateSet, Report, Survivors, System

# Uniforms that the caller drew, used in order.
cdef struct Uniforms:
    const double* values
    int64_t n
    int64_t used


# ---- reports -----------------------------------------------------------------------------

cdef inline double effective_size(const Survivors* chosen) noexcept nogil:
    cdef const double* weight = chosen.weight
    cdef double squares = 0.0
    cdef int64_t i
    for i in range(chosen.n):
        squares += weight[i] * weight[i]
    return 1.0 / squares


cdef inline double mean_states_of(const System* system, const Survivors* chosen) noexcept nogil:
    """Weighted mean number of states of children that are not written yet."""
    cdef const uint32_t* parent = chosen.parent
    cdef const uint32_t* state = chosen.state
    cdef const double* weight = chosen.weight
    cdef double mean = 0.0
    cdef int64_t i
    cdef uint32_t n
    for i in range(chosen.n):
        n = block_of(system, parent[i])[BLOCK_STATES]
        n += state[i] == n
        if system.model.real:
            n = live_moved(system, block_of(system, parent[i]), state[i])
        mean += weight[i] * n
    return mean


cdef inline void report_ranked(
    const System* system, const Survivors* chosen, Report* report
) noexcept nogil:
    """Fill in the report of a step: effective sample size, survivors, share discarded."""
    report.ess = effective_size(chosen)
    report.n_particles = chosen.n
    report.discarded = chosen.discarded


cdef inline Status predict(System* system, int32_t symbol, Report* report) noexcept nogil:
    """Fill in the log predictive, which the expansion of the symbol has computed."""
    cdef double log_predictive
    if not system.candidates.predictive > 0.0:
        return NOT_A_NUMBER
    if unlikely(system.numbers.n_channels > 0):
        log_predictive = system.candidates.log_predictive
        if not isfinite(log_predictive):
            return NOT_A_NUMBER
    else:
        log_predictive = log(system.candidates.predictive)
    report.log_predictive = 0.0 if symbol == MISSING else log_predictive
    report.log_evidence = report.log_predictive
    return OK


# ---- VPA and the optimal rule ------------------------------------------------------------

cdef inline Status choose_top(
    System* system, int32_t symbol, Survivors* chosen
) noexcept nogil:
    """Choose and weigh the K best candidates of the symbol, which was expanded."""
    cdef CandidateSet* candidates = &system.candidates
    cdef uint64_t* keys = system.scratch.keys
    cdef uint64_t* work = system.scratch.key_work
    cdef int attempt = 0
    while not select_top(candidates, system.kept, keys, work, chosen):
        attempt += 1
        expand(system, symbol, attempt)
    weigh_survivors(candidates, chosen, system.numbers.n_channels > 0)
    return OK if normalize(chosen) else NOT_A_NUMBER


cdef inline void weigh_survivors(
    const CandidateSet* candidates, Survivors* chosen, bint of_numbers
) noexcept nogil:
    """Weigh the survivors; compute the share of the candidates' total score that is discarded."""
    cdef const double* score = chosen.weight
    cdef double best = candidates.best
    cdef double carried = 0.0
    cdef int64_t i
    if of_numbers:  # weights relative to the best candidate, times its share of the total
        weigh(chosen, True)
        for i in range(chosen.n):
            carried += chosen.weight[i]
        carried *= exp(best - candidates.log_total)
    else:
        for i in range(chosen.n):
            carried += exp(score[i]) if candidates.logarithmic else score[i]
        carried /= candidates.total
        weigh(chosen, candidates.logarithmic)
    chosen.discarded = 0.0
    if carried < 1.0 and not (candidates.complete and chosen.n == candidates.n):
        chosen.discarded = 1.0 - carried


cdef inline Status choose_optimal(
    const System* system, const CandidateSet* candidates, int64_t kept, Survivors* chosen,
    Uniforms* uniforms,
) noexcept nogil:
    """Choose survivors of a complete set of candidates by the optimal rule."""
    cdef double uniform = 0.0
    if candidates.n > kept:
        if uniforms.used >= uniforms.n:
            return TOO_FEW_UNIFORMS
        uniform = uniforms.values[uniforms.used]
    uniforms.used += select_optimal(
        candidates, system.scratch.shares, kept,
        system.scratch.keys, <double*>system.scratch.key_work, uniform, chosen,
    )
    return OK if normalize(chosen) else NOT_A_NUMBER


cdef inline Status choose_optimal_bounded(
    System* system, int32_t symbol, Survivors* chosen, Uniforms* uniforms
) noexcept nogil:
    """`choose_optimal` after an expansion that may have left out candidates."""
    if not system.candidates.complete:
        if uniforms.used >= uniforms.n:
            return TOO_FEW_UNIFORMS
        if select_optimal_bounded(system, symbol, uniforms.values[uniforms.used], chosen):
            uniforms.used += 1
            return OK if normalize(chosen) else NOT_A_NUMBER
        expand(system, symbol, EVERYTHING)
    return choose_optimal(system, &system.candidates, system.kept, chosen, uniforms)


cdef inline Status finish(
    System* system, Survivors* chosen, int32_t symbol, Report* report
) noexcept nogil:
    """Reserve memory for the chosen survivors, commit them and fill in the report."""
    cdef Status status = reserve_commit(system, chosen)
    if status == OK:
        status = prepare_statistics(system, chosen, NULL, symbol, False)
    if status == OK:
        commit(system, chosen, symbol)
        report_ranked(system, chosen, report)
        report.mean_states = system.mean_states
    return status


cdef inline Status step_ranked(
    System* system, int32_t symbol, Uniforms* uniforms, Report* report
) noexcept nogil:
    """One step of VPA or OptimalResampling."""
    cdef bint optimal = system.algorithm == ALGORITHM_OPTIMAL
    cdef Survivors* chosen = &system.chosen
    cdef bint of_numbers = system.numbers.n_channels > 0
    cdef Status status = score_rows(system, symbol, False, &system.now)
    if status != OK:
        return status
    if optimal and not of_numbers:
        expand_heavy(system, symbol)
    else:
        expand(system, symbol, EVERYTHING if optimal else 0)
    status = predict(system, symbol, report)
    if status != OK:
        return status
    if optimal:
        status = choose_optimal_bounded(system, symbol, chosen, uniforms)
    else:
        status = choose_top(system, symbol, chosen)
    if status != OK:
        return status
    return finish(system, chosen, symbol, report)
