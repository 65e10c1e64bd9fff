"""The states that a filter finds in the clicks of the tutorial, and the moves between them."""

import mdvpf
from mdvpf.plots.filter_plots import transition_graph

look = ["home", "search", "item", "search", "item"]
buy = ["home", "item", "basket", "pay"]
visits = [look, buy, look] * 20
clicks = [page for visit in visits for page in visit]

vocabulary = mdvpf.Vocabulary.from_data(clicks)
model = mdvpf.InfiniteHMM(vocabulary.n_symbols, beta=0.05)
pf = mdvpf.ParticleFilter(model, n_particles=200)
pf.vocabulary = vocabulary
pf.run(vocabulary.encode(clicks), lengths=[len(visit) for visit in visits])

drawing = transition_graph(pf)
