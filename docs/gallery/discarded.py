"""The share of the candidates' weight that a step drops, by the number of particles."""

import numpy as np

import mdvpf
from mdvpf.plots import Line, Panel, figure

stream = mdvpf.datasets.switching_hmm(rng=1)
particles = np.array([10, 30, 100, 300, 1000])
model = mdvpf.InfiniteHMM(stream.n_symbols, beta=1.0)
lines = []
for name, algorithm in {"VPA": mdvpf.VPA(), "MD-VPA": mdvpf.MDVPA()}.items():
    filters = [mdvpf.ParticleFilter(model, algorithm, K) for K in particles.tolist()]
    lost = [pf.run(stream.symbols).discarded.mean() for pf in filters]
    lines.append(Line(name, particles, np.array(lost)))

panel = Panel("mean over 300 symbols", "particles", "share discarded", lines, log_x=True)
drawing = figure([panel], "Weight dropped on one stream")
