"""`ParticleFilter`, and everything between it and the compiled core.

`particle_filter` has the class. `core_arguments` translates a model and an algorithm for the core,
`uniforms` draws its random numbers, and `saved_state` writes and reads the filter's checkpoints.
`inside` gives access to particles, paths and counts, which `real_counts` reads from the core.

`forecasts` derives forecasts. `sampling` draws continuations of symbols from the counts in
`particle_statistics` and the base distributions in `base_symbols`; `number_sampling` draws
continuations of numbers. `predictive` is the distribution of an observation over numbers: its
columns are in `number_column` and `compiled_columns`, the files `density_*` integrate densities,
and `open_parts` describes open alphabets. `calibration` checks predictions, `expected_numbers`
summarises one.

`finite_hmm` turns a particle into an HMM. `frozen` and `frozen_numbers` are filters that no longer
learn; `sequences` finds the sequences that they advance together. `variance` measures how much the
particles' predictions differ.
"""

from mdvpf.filter.frozen import FrozenFilter
from mdvpf.filter.particle_filter import ParticleFilter
from mdvpf.filter.predictive import Predictive
from mdvpf.filter.variance import estimation_variance

__all__ = ["FrozenFilter", "ParticleFilter", "Predictive", "estimation_variance"]
