"""`ParticleFilter`, and everything between it and the compiled core.

`particle_filter` is the class; `core_arguments` translates a model and an algorithm for the core,
`uniforms` draws random numbers for it, `saved_state` says what a checkpoint holds of a filter, and
`variance` measures how far its particles disagree.
"""

from mdvpf.filter.particle_filter import ParticleFilter
from mdvpf.filter.variance import estimation_variance

__all__ = ["ParticleFilter", "estimation_variance"]
