"""`ParticleFilter`, and everything between it and the compiled core.

`particle_filter` is the class; `core_arguments` translates a model and an algorithm for the core,
`uniforms` draws random numbers for it, and `saved_state` says what a checkpoint holds of a filter.
"""

from mdvpf.filter.particle_filter import ParticleFilter

__all__ = ["ParticleFilter"]
