"""The five filters in plain Python: the executable specification of the compiled core.

The code is slow and close to the formulas. A particle is a path with its counts in dictionaries; a
step is a function from a list of particles and a symbol to the next list. The compiled core shares
none of this code, so agreement of the two is evidence that both are right.

The symbols of the paper and their names here:

====================  =================================================================
``K``                 ``n_particles``, the budget; a set may still be smaller
``M_k``               ``len(particle.into)``; the label of the state that would be new is
                      ``particle.n_states``, the same unless states have faded away
``x_k``               ``particle.state``; `START` before the first symbol of a sequence
``w_k``               ``particle.weight``, kept as ``particle.log_weight``
``t[j, c]``           ``particle.transition[j, c]``, j being ``particle.row``
``into[c]``           ``particle.into[c]``
``m[c]``              ``particle.rows_into[c]``
``w_n``               ``particle.memory.weight(n)``
``w_n / w_{n+1}``     ``particle.memory.left_after(n)``
``e[c, y]``           ``particle.emission[c, y]``
``g[y]``              ``particle.seen[y]``
``y_n``               ``symbol``; None if it is missing
``y_{n+1}``           ``lookahead``; None if it is missing or the sequence ends
``p(m | x_k)``        `transition_probabilities`
``p(y | m)``          `emission_probability`; of numbers, its log: `log_density`
``log f(k, m, y)``    `log_potentials`
``(k, m), b(k, m)``   `Candidate`, its ``log_score``; all of them: `expand`
``G(m)``              `label_norm`
``eps_n``             ``discount``
====================  =================================================================

A step reads top down: `expand` the particles into candidates, select among them (`select_top`,
`select_optimal`) or draw (`draw`, `resample`), and `move` each chosen parent to its state.
`SelectionRule` is the interface of a rule of your own: a class with such a step.
"""

from mdvpf.reference.filter import Pending, ReferenceFilter
from mdvpf.reference.literal import LiteralFilter, LiteralResult
from mdvpf.reference.memory import GONE, ROWS_COUNTED_EVERY, Memory, round24
from mdvpf.reference.number_families import Emitted, Numbers, log_density
from mdvpf.reference.particle import (
    NO_PARENT,
    START,
    Particle,
    Position,
    Row,
    Symbol,
    emission_probability,
    ended,
    faded,
    log_emission_probability,
    log_potentials,
    move,
    seeing,
    standing,
    transition_probabilities,
)
from mdvpf.reference.pitman_yor_tree import ReferencePitmanYorTree
from mdvpf.reference.rule import SelectionRule
from mdvpf.reference.selection import (
    GRID,
    Candidate,
    Survivor,
    draw,
    expand,
    heavy_and_light,
    label_norm,
    log_predictive,
    log_sum_exp,
    lookahead_terms,
    normalised,
    resample,
    residual_resample,
    select_optimal,
    select_top,
    selection_keys,
    thin,
)
from mdvpf.reference.steps import (
    Advance,
    advanced,
    effective_size,
    is_time_to_resample,
    lost_share,
    mdvpa_step,
    offspring,
    optimal_resampling_step,
    particle_learning_step,
    smc_step,
    vpa_step,
)
from mdvpf.reference.theorem import theorem_regret

__all__ = [
    "LiteralFilter",
    "LiteralResult",
    "theorem_regret",
    "Advance",
    "Candidate",
    "GONE",
    "GRID",
    "Emitted",
    "Memory",
    "NO_PARENT",
    "Numbers",
    "Particle",
    "Position",
    "Pending",
    "ReferenceFilter",
    "ReferencePitmanYorTree",
    "ROWS_COUNTED_EVERY",
    "Row",
    "START",
    "SelectionRule",
    "Survivor",
    "Symbol",
    "advanced",
    "draw",
    "effective_size",
    "emission_probability",
    "ended",
    "expand",
    "faded",
    "heavy_and_light",
    "is_time_to_resample",
    "label_norm",
    "log_density",
    "log_emission_probability",
    "log_potentials",
    "log_predictive",
    "log_sum_exp",
    "lookahead_terms",
    "lost_share",
    "mdvpa_step",
    "move",
    "normalised",
    "offspring",
    "optimal_resampling_step",
    "particle_learning_step",
    "resample",
    "residual_resample",
    "round24",
    "seeing",
    "select_optimal",
    "select_top",
    "selection_keys",
    "smc_step",
    "standing",
    "thin",
    "transition_probabilities",
    "vpa_step",
]
