"""Surprise at a stream whose source changes, by two filters."""

import numpy as np

import mdvpf
from mdvpf.plots import Line, Panel, figure, trailing_mean

stream = mdvpf.datasets.switching_hmm(rng=1)
window = 20
lines = []
for name, algorithm in {"MD-VPA": mdvpf.MDVPA(), "SMC": mdvpf.SMC()}.items():
    model = mdvpf.InfiniteHMM(stream.n_symbols, beta=1.0)
    pf = mdvpf.ParticleFilter(model, algorithm, n_particles=100, rng=0)
    surprise = -pf.run(stream.symbols).log_predictive
    smooth = trailing_mean(surprise[np.newaxis], window)[0]
    lines.append(Line(name, np.arange(window - 1, len(surprise)), smooth))

marks = stream.change_points
panel = Panel("mean of the last 20", "symbol", "surprise, nats", lines, marks=marks)
drawing = figure([panel], "Surprise on one stream")
