"""`ParticleFilter`, and everything between it and the compiled core.

`particle_filter` has the class. `core_arguments` translates a model and an algorithm for the core,
`uniforms` draws its random numbers, and `saved_state` writes and reads the filter's checkpoints.
`inside` gives access to particles, counts and paths. `forecasts` derives forecasts: `sampling`
draws continuations of symbols from the counts in `particle_statistics`, `number_sampling` draws
continuations of numbers, and `predictive` (with `number_column`, `compiled_columns` and the files
`density_*` that integrate densities) is the distribution of a number, which `calibration`
checks and `expected_numbers` summarises. `finite_hmm` turns a particle into an HMM, `frozen` and
`frozen_numbers` are filters that no longer learn, and `variance` measures how much the particles'
predictions differ.
"""

from mdvpf.filter.frozen import FrozenFilter
from mdvpf.filter.particle_filter import ParticleFilter
from mdvpf.filter.predictive import Predictive
from mdvpf.filter.variance import estimation_variance

__all__ = ["FrozenFilter", "ParticleFilter", "Predictive", "estimation_variance"]
