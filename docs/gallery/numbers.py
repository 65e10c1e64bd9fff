"""Numbers with their states, and a forecast as a fan of quantiles."""

import numpy as np

import mdvpf
from mdvpf.plots import fan_figure

rng = np.random.default_rng(1)
levels = np.repeat([1.0, 5.0, 1.0, 9.0, 5.0], 20)
load = levels + 0.4 * rng.normal(size=len(levels))

family = mdvpf.Gaussian(mean=5.0, mean_strength=0.01, shape=2.0, scale=0.2)
model = mdvpf.InfiniteHMM(emission=family, kappa=5.0, oracle="rows")
pf = mdvpf.ParticleFilter(model, mdvpf.VPA(), n_particles=100, history="full")
pf.run(load)

ahead = pf.forecast(horizon=30, size=300, rng=1)
drawing = fan_figure(load, ahead, path=pf.path(), title="Load, and the next 30")
