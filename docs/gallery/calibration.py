"""Probability integral transforms of a good prior and of one that is too wide."""

import numpy as np

import mdvpf
from mdvpf.filter.calibration import integral_transforms
from mdvpf.plots import calibration_figure

rng = np.random.default_rng(1)
levels = np.repeat(rng.normal(scale=5.0, size=10), 60)
load = levels + 0.5 * rng.normal(size=len(levels))

transforms = {}
for scale in (0.5, 50.0):
    family = mdvpf.Gaussian(mean_strength=0.02, shape=2.0, scale=scale)
    model = mdvpf.InfiniteHMM(emission=family, kappa=10.0, oracle="rows", max_states=20)
    pf = mdvpf.ParticleFilter(model, mdvpf.OptimalResampling(), n_particles=50, rng=1)
    transforms[f"scale {scale:g}"] = integral_transforms(pf, load)
drawing = calibration_figure(transforms, title="Calibration by two priors")
