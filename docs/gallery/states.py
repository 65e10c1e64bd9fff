"""The number of states that a filter finds, for three values of beta."""

import numpy as np

import mdvpf
from mdvpf.plots import Line, Panel, figure

stream = mdvpf.datasets.switching_hmm(rng=1)
time = np.arange(len(stream.symbols))
lines = []
for beta in (0.01, 0.1, 1.0):
    model = mdvpf.InfiniteHMM(stream.n_symbols, beta=beta)
    pf = mdvpf.ParticleFilter(model, n_particles=100)
    lines.append(Line(f"beta = {beta}", time, pf.run(stream.symbols).mean_states))

marks = stream.change_points
panel = Panel("3 states, then 4", "symbol", "mean number of states", lines, marks=marks)
drawing = figure([panel], "States on one stream")
