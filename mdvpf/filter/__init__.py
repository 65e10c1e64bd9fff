"""`ParticleFilter`, and everything between it and the compiled core.

`particle_filter` is the class; `core_arguments` translates a model and an algorithm for the core,
`uniforms` draws random numbers for it, and `saved_state` says what a checkpoint holds of a filter.
`forecasts` is what follows from its predictions: `sampling` draws continuations of a stream, from
what `particle_statistics` says of a particle, and `number_sampling` those of numbers, whose
distribution is in `predictive`; `calibration` checks that distribution. `finite_hmm` turns a
particle into an HMM, `frozen` is a filter that no longer learns, and `variance` measures how far
particles disagree.
"""

from mdvpf.filter.frozen import FrozenFilter
from mdvpf.filter.particle_filter import ParticleFilter
from mdvpf.filter.predictive import Predictive
from mdvpf.filter.variance import estimation_variance

__all__ = ["FrozenFilter", "ParticleFilter", "Predictive", "estimation_variance"]
